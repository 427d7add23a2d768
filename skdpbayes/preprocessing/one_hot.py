"""Indicators of categories, where the lists of categories are public or found privately.

How frequent ones are found is said in `skdpbayes._mechanisms.histogram`.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Complex, Integral, Real
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from .._arguments import Interval
from .._data.columns import (
    column_cells,
    column_precision,
    exact_number,
    in_precision,
    refuse_other_types,
)
from .._data.read import validate_objects, without_cells
from .._errors import to_native
from .._mechanisms.histogram import plan_threshold, stability_histogram
from .._typing import MatrixLike, RandomStateLike, Relation
from ..exceptions import PrivacyWarning
from ..privacy.planned_release import Disclosure, StepDisclosure, as_json
from ._base import BUDGET_CONSTRAINTS, PrivateTransformer, Terms
from .bounded import in_order

# Stands for missing values: unlike NaN it equals itself.
_MISSING = None
_INFREQUENT = "infrequent"
_NO_CATEGORY = (
    "X holds categories that are neither text nor numbers: every argument must be a string or a number. Turn "
    "dates into text."
)
_EMPTY = "a public list of categories is empty: each value of its column counts as infrequent."
_NOT_LISTED = (
    "categories must be text or numbers, or None for missing values: turn dates into text."
)


def _in_words(category):
    """A category for a report."""
    return "missing" if category is _MISSING else as_json(category)


def categories_of(estimator, X, reset):
    """A table of canonical categories, of shape (n_samples, n_features)."""
    if getattr(getattr(X, "dtype", None), "kind", None) in ("m", "M"):
        # As objects, dates in nanoseconds would be integers.
        raise TypeError(_NO_CATEGORY)
    cells = validate_objects(estimator, X, _refusal, reset=reset)
    categories = np.empty(cells.shape, dtype=object)
    for j, column in enumerate(cells.T):
        # Text is its own form, and most of what is encoded.
        forms = (cell if type(cell) is str else canonical(cell) for cell in column)
        categories[:, j] = np.fromiter(forms, object, len(column))
    return categories


def _refusal(error):
    return without_cells(error, "X must be a table, with one category in each cell.")


class DPOneHotEncoder(PrivateTransformer):
    """Encode categories as indicators; the frequent categories are found privately.

    Each column becomes one indicator for each of its categories, and a last one for infrequent or unknown
    values. A missing value (None or NaN) is a category like any other. Categories are numbers or text; 1, 1.0
    and True are the same category.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget for the lists of all columns together; ``inf`` adds no noise. Public lists spend
        nothing.
    delta : float, default=None
        None is ``min(1e-5, 1 / (10 n))``. Categories cannot be found privately with a delta of 0.
    categories : "private", or list of (array-like or "private"), or dict, default="private"
        Public lists of categories, one for each column, or a dict with the lists of the columns that have
        one. Public lists are used as they are; all other values count as infrequent. A list of numbers does
        not match text, nor one of text numbers, and is refused if the type of the column shows it. In a
        column of objects, whose cells are not looked at for this, entries match cells that are equal to them.
        ``categories_`` of a fitted encoder are such lists.
    sparse_output : bool, default=False
        Whether the output is a CSR matrix.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public or private.
    public_size : int, default=None
        Under "add_or_remove_one", the public number of rows that plans use.
    rows_per_person : int, default=1
        How many rows of the table may be one person's, a public number. With more than one, categories that
        only one person has stay hidden, whatever the number of that person's rows up to this one. A private
        pipeline with ``max_rows_per_group`` sets it in a fit. The cost that the encoder reports is for rows.
    random_state : None, int, RandomState instance or Generator, default=None
        None uses cryptographic randomness; a known or repeated seed voids the guarantee.

    Attributes
    ----------
    categories_ : list of list
        The categories of each column, in ascending order: numbers, text, and None for missing values.
    plan_ : TransformerPlan
        What the fit did. ``plan_.details["threshold"]`` is the number of rows with which a category is kept
        half of the time.
    privacy_cost_ : PrivacyCost
        Cost of the fit.
    spent_epsilon_, spent_delta_ : float
        The cost as numbers.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if ``X`` had any.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.preprocessing import DPOneHotEncoder
    >>> X = np.array([["north"]] * 3000 + [["south"]] * 2000 + [["atlantis"]], dtype=object)
    >>> encoder = DPOneHotEncoder(epsilon=0.5, random_state=0).fit(X)
    >>> encoder.get_feature_names_out(["region"]).tolist()
    ['region_north', 'region_south', 'region_infrequent']
    >>> encoder.transform([["south"], ["atlantis"]])
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """

    _title = "One-hot encoder"
    _validate = categories_of
    _parameter_constraints = {
        **BUDGET_CONSTRAINTS,
        "categories": [StrOptions({"private"}), list, tuple, dict],
        "sparse_output": ["boolean"],
        "rows_per_person": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        categories: Literal["private"] | Sequence[ArrayLike] | Mapping[Any, ArrayLike] = "private",
        sparse_output: bool = False,
        neighboring_relation: Relation = "replace_one",
        public_size: int | None = None,
        rows_per_person: int = 1,
        random_state: RandomStateLike = None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.sparse_output = sparse_output
        self.neighboring_relation = neighboring_relation
        self.public_size = public_size
        self.rows_per_person = rows_per_person
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _public_lists(self, names, n_features):
        """The public list of each column, or None."""
        if isinstance(self.categories, str):
            return [None] * n_features
        lists = self.categories
        if isinstance(lists, dict):
            if names is None:
                # A plan does not know the names of columns, but the number of lists is enough.
                lists = [*lists.values(), *["private"] * (n_features - len(lists))]
            else:
                lists = in_order({name: "private" for name in names} | lists, names, "categories")
        if len(lists) != n_features:
            raise ValueError(f"categories has {len(lists)} lists, but X has {n_features} columns.")
        return [
            None if _is_private(categories) else _public_list(categories) for categories in lists
        ]

    def _terms(self, n_samples, n_features, budget):
        lists = self._public_lists(None, n_features)
        n_private = lists.count(None)
        warnings: tuple[str, ...] = (_EMPTY,) if [] in lists else ()
        if n_private == 0:
            return Terms(warnings=warnings)
        if budget.delta == 0 and budget.is_private:
            raise ValueError(
                "delta=0: categories cannot be found privately without a delta. Set one, e.g. delta=None, "
                "or give public lists of categories."
            )
        scale, threshold, cost = plan_threshold(budget, n_private, int(self.rows_per_person))
        if threshold > 0.2 * n_samples:
            warnings += (
                f"only categories with at least about {threshold:,.0f} rows will be found: raise epsilon, "
                "encode fewer columns, or give public lists of categories.",
            )
        return Terms(cost, {"noise_scale": scale, "threshold": threshold}, warnings)

    def _about(self):
        names, categories = self._names, getattr(self, "categories_", None)
        if categories is None:
            public = () if isinstance(self.categories, str) else ("declared",)
            facts = tuple(Disclosure("categories", None, source) for source in (*public, "learnt"))
            return StepDisclosure(facts, "Proposition 51")
        names = [f"column {place}" for place in range(len(categories))] if names is None else names
        lists = self._public_lists(names, len(categories))
        facts = tuple(
            Disclosure(
                "categories",
                [_in_words(value) for value in known],
                "learnt" if public is None else "declared",
                str(name),
            )
            for name, known, public in zip(names, categories, lists, strict=True)
        )
        return StepDisclosure(facts, "Proposition 51" if None in lists else "")

    def _public(self, X, n_features):
        """The public list of each column, or None."""
        lists = self._public_lists(self._names, n_features)
        refuse_other_types(lists, to_native(X, "X"), "categories")
        container = _get_output_config("transform", self)["dense"]
        if self.sparse_output and container != "default":
            raise ValueError(
                f"sparse_output=True and set_output(transform={container!r}) exclude each other: frames hold "
                "no sparse rows."
            )
        return lists

    def _make_up(self, public, n_features):
        self.categories_ = [categories or [] for categories in public]
        return None not in public

    def _release(self, table, public, plan, generator):
        """{column: {frequent category: noisy count}}: numbers, text, missing."""
        scale, threshold = plan.details.get("noise_scale"), plan.details.get("threshold")
        found = {}
        for j, categories in enumerate(public):
            if categories is None:
                counts = sorted(table.count(_count, j).items(), key=_place)
                # Propositions 51 and 53.
                found[j] = stability_histogram(counts, scale, threshold, generator)
        return found

    def _set(self, public, released, plan):
        self._noisy_counts = released
        self.categories_ = [
            list(released[j]) if categories is None else categories
            for j, categories in enumerate(public)
        ]
        empty = self._named((j for j, kept in released.items() if not kept), "column ")
        if not empty or not plan.budget.is_private:
            return []
        text = (
            f"no category of {', '.join(empty)} was found, so that all values count as infrequent: a "
            "column of names, numbers or codes of single persons has none, and is to be left out; else "
            "take fewer, broader categories, public lists, or a larger epsilon."
        )
        return [(text, PrivacyWarning)]

    def _put_together(self, rare):
        """Let categories that were found count as infrequent, given as (column, category)."""
        for j, category in rare:
            del self._noisy_counts[j][category]
            self.categories_[j].remove(category)

    def transform(self, X: MatrixLike) -> MatrixLike:
        """Encode categories.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X : ndarray or CSR matrix of shape (n_samples, n_indicators)

        Raises
        ------
        ValueError, TypeError
            If the table is invalid, or the type of a column is that of none of its categories.
        """
        check_is_fitted(self)
        categories = self._validate(X, reset=False)
        # A column of missing values alone may have any type.
        lists = [
            None if all(value is _MISSING for value in column) else kept
            for column, kept in zip(categories.T, self.categories_, strict=True)
        ]
        refuse_other_types(lists, X, "categories_", wholly=True)
        places, first = [], 0
        for j, (column, kept) in enumerate(zip(categories.T, self.categories_, strict=True)):
            precision = column_precision(X, j)
            place = {in_precision(category, precision): i for i, category in enumerate(kept)}
            places.append([first + place.get(value, len(kept)) for value in column])
            first += len(kept) + 1
        indices = np.array(places, dtype=np.int64).T.ravel()
        n_rows, n_columns = categories.shape
        table = sp.csr_matrix(
            (np.ones(indices.size), indices, np.arange(n_rows + 1) * n_columns), (n_rows, first)
        )
        return table if self.sparse_output else table.toarray()

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """The names of the indicators.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns, if the table in `fit` had none.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        out = [
            f"{name}_{shown}"
            for name, kept in zip(names, self.categories_, strict=True)
            for shown in (*_distinct(kept), _INFREQUENT)
        ]
        return np.asarray(out, dtype=object)

    def _levels(self, column):
        """The levels that the indicators of a column stand for, None for missing values."""
        return [*self.categories_[column], _INFREQUENT]


def _count(rows, column):
    return Counter(rows.X[:, column])


def _is_private(categories):
    return isinstance(categories, str) and categories == "private"


def _public_list(values):
    if isinstance(values, str | bytes | set | frozenset | dict) or np.ndim(values) != 1:
        raise TypeError(
            "categories must hold a list for each column, or 'private'; a set has no order that other "
            "processes share."
        )
    kept = [canonical(value, _NOT_LISTED) for value in column_cells(values)]
    if len(set(kept)) != len(kept):
        raise ValueError(
            "categories must list each category of a column once: 1, 1.0 and True are one."
        )
    return kept


def canonical(value, error=_NO_CATEGORY):
    """The same form of a category for all of its spellings; a TypeError says ``error``."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Real | np.bool_ | Decimal):
        return _number(value)
    if value is None or str(value) in ("<NA>", "NaT"):
        return _MISSING
    if isinstance(value, Complex):
        raise ValueError("Complex data not supported: categories are text or real numbers.")
    raise TypeError(error)


def _number(value):
    try:
        return _MISSING if math.isnan(value) else exact_number(value)
    except OverflowError:
        pass
    raise ValueError("X holds whole numbers beyond the largest double: turn them into text.")


def _place(item):
    value, _ = item
    kind = 2 if value is _MISSING else int(isinstance(value, str))
    return kind, 0 if value is _MISSING else value


def _distinct(categories):
    """A name for each category; text is quoted where a number or an indicator has the same name."""
    others = {
        _INFREQUENT,
        *(_shown(category) for category in categories if not isinstance(category, str)),
    }
    return [repr(category) if category in others else _shown(category) for category in categories]


def _shown(category):
    if category is _MISSING:
        return "nan"
    return category if isinstance(category, str) else repr(category)
