"""Columns from a formula whose levels and bounds are public, so that nothing is learnt from the rows.

    columns of a term = products of one column of each of its factors,      |row|^2 <= number of terms

Each factor makes a row of length at most 1, so that their products do, too, and the terms beside each other
make one of length at most the square root of their number: a public ``data_norm``.
"""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._data.columns import refuse_other_types
from .._data.partitions import OutputByBlocks
from .._errors import column_names, to_native
from .._typing import MatrixLike
from ..privacy.planned_release import Disclosure, StepDisclosure, as_json
from ._factors import Bounded, Factor, Levels, Missing, bounds_of_call, checked_levels, factor_of

_RESPONSE = (
    "the response must be the name of one column. Make a column of what it is computed from, such as "
    "table['answer'] = table['text'] == 'Yes'; a classifier takes text as it is, with "
    "classes=['No', 'Yes'], and counts out of several trials have a row for each trial."
)
_NO_BARS = (
    "'|' has no meaning here. Levels of a group are a column, C(group, levels=[...]), whose coefficients the "
    "prior shrinks; counts out of several trials have a row for each trial."
)
# How many columns a note names.
_NOTED = 6
# What is meant by what formulaic refuses, by a pattern of the formula.
_REMEDIES = (
    (
        r"(?<![\w.])\.(?![\w.])",
        "'.' stands for all columns, and a formula declares each: list them with public bounds or levels, "
        "such as bounded(age, 18, 90) + C(region, levels=['north', 'south']).",
    ),
    (r"\|", _NO_BARS),
    (r"[=<>]=?[^~]*~", _RESPONSE),
    (r"\bas\.factor\(", "write C(x, levels=[...]), with public levels."),
    (r"\bis\.na\(", "write missing(x)."),
    (r"\b(?:bounded|C|bs|missing)\s+\(", "no space stands before the parenthesis of a function."),
    (r"[,)]\s*weights\b", "weights are of the fit: fit(table, model__sample_weight=...)."),
    (
        r"^[^~]*(?:<-|(?<![=<>!])=)[^=~]*$",
        "a response stands before '~', as in 'y ~ bounded(age, 18, 90)'.",
    ),
    (r"\$", "name the column alone, as in bounded(age, 18, 90)."),
    (
        r"~(?:[^()]|\([^()]*\))*?[<>=!]",
        "a comparison stands within bounded(...), as in bounded(age > 65, 0, 1); of categories take "
        "C(x, levels=[...]).",
    ),
    (
        r"~\s*([\"'])|(?<![\w,)\]])\s*\b[A-Za-z_]\w*\s+[A-Za-z_]\w*",
        "a name that is no word stands within backticks, without quotes, and is declared outside the "
        "formula, by bounds={'my name': (low, high)} or levels={'my name': [...]}.",
    ),
)


class FormulaEncoder(OutputByBlocks, TransformerMixin, BaseEstimator):
    """Make columns by a formula with declared levels and bounds; this spends no budget.

    Requires the extra ``formulas``. The formula is read by formulaic, and its parts by this class, which
    knows only functions of single rows:

    ``bounded(x, low, high)``
        A number, clipped to public bounds and scaled to [-1, 1]. ``x`` is a column, or arithmetic with
        columns, comparisons and functions such as ``log``. A missing number counts as the middle of the
        bounds, or as a public ``fill=number``.
    ``C(x, levels=[...])``
        An indicator for each public level. Any other category, and a missing one, is a row of zeros. With
        ``reference=level`` that level has no indicator: others are compared with it, and unknown and
        missing categories count as it.
    ``bs(x, knots=[...], bounds=(low, high), degree=3)``
        B-splines with public knots.
    ``missing(x)``
        Whether a cell is missing. Without it, values that are missing count as others, and bias
        coefficients: add it wherever there may be any. Where ``x`` goes along with other columns, only rows
        of weight 0 take all bias away: ``fit(table, model__sample_weight=table["x"].notna())``.

    Once a column is declared, anywhere in the formula or by ``bounds`` or ``levels``, its name alone stands
    for it, as in ``age * income``. Terms are joined by ``+``, ``-``, ``:``, ``*`` and ``**``. What looks at
    other rows, such as ``scale(x)`` or ``bs(x, df=4)``, is refused, and so is what is not known. A product
    needs the main effects beside it, as ``*`` has them, unless bounds are around 0, such as (-90, 90).

    Parameters
    ----------
    formula : str
        Such as ``"C(region, levels=['north', 'south']) + bounded(age, 18, 90)"``. A response before ``~`` is
        left out.
    bounds : mapping of str to (float, float), default=None
        Public bounds of columns that are named in the formula.
    levels : mapping of str to sequence, default=None
        Public levels of columns that are named in the formula.

    Attributes
    ----------
    norm : float
        Length of the longest row that can come out, a public number: a ``data_norm`` for the next step.
    n_features_in_ : int
        Number of columns that the formula reads.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names. Other columns of a table are not read.

    See Also
    --------
    skdpbayes.linear_model.DPBayesianLogisticRegression.from_formula : A model of a formula.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpbayes.preprocessing import FormulaEncoder
    >>> table = pd.DataFrame({"age": [18.0, 54.0], "region": ["north", "elsewhere"]})
    >>> encoder = FormulaEncoder("bounded(age, 18, 90) * C(region, levels=['north', 'south'])")
    >>> encoder.set_output(transform="pandas").fit_transform(table).T
                         0    1
    age               -1.0  0.0
    region[north]      1.0  0.0
    region[south]      0.0  0.0
    age:region[north] -1.0  0.0
    age:region[south] -0.0  0.0
    """

    def __init__(
        self,
        formula: str,
        *,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        levels: Mapping[str, Sequence[Any]] | None = None,
    ):
        self.formula = formula
        self.bounds = bounds
        self.levels = levels

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        tags.input_tags.two_d_array = False
        return tags

    @property
    def norm(self) -> float:
        """Length of the longest row that can come out."""
        return math.sqrt(len(self._terms()))

    @property
    def columns(self) -> list[str]:
        """Names of the columns that the formula reads, in their order."""
        return list(
            dict.fromkeys(
                name for term in self._terms() for factor in term for name in factor.columns
            )
        )

    @property
    def n_columns(self) -> int:
        """Number of columns that come out."""
        return len(self._names())

    def _about(self):
        facts = [Disclosure("formula", str(self.formula), "declared")]
        facts += [
            Disclosure("range", as_json(interval), "declared", str(name))
            for name, interval in _items(self.bounds, "bounds")
        ]
        facts += [
            Disclosure("categories", as_json(list(interval)), "declared", str(name))
            for name, interval in _items(self.levels, "levels")
        ]
        return StepDisclosure(tuple(facts))

    def _terms(self):
        """The terms, each a tuple of factors, without the constant."""
        parts = parsed(self.formula)[1]
        bounds = {
            name: (*bounds_of_call(interval, f"bounds of {name}"), None)
            for name, interval in _items(self.bounds, "bounds")
        }
        levels = {
            name: checked_levels(interval, f"levels of {name}")
            for name, interval in _items(self.levels, "levels")
        }
        given = [*bounds, *levels]
        texts = dict.fromkeys(factor for term in parts for factor in term)
        declared = [
            factor_of(text, False, bounds, levels) for text, is_name in texts if not is_name
        ]
        for factor in declared:
            if isinstance(factor, Levels):
                _declare(levels, factor.column, (factor.levels, factor.reference))
            elif isinstance(factor, Bounded) and factor.names == list(factor.columns):
                _declare(bounds, factor.names[0], (factor.lower, factor.upper, factor.fill))
        terms: dict[frozenset[str], tuple[Factor, ...]] = {}
        known: dict[str, Factor] = {}
        for term in parts:
            found = [factor_of(text, is_name, bounds, levels) for text, is_name in term]
            factors = {factor.names[0]: factor for factor in found}
            for name, factor in factors.items():
                _declare(known, name, factor)
            terms.setdefault(frozenset(factors), tuple(factors.values()))
        if not terms:
            raise ValueError(f"formula={self.formula!r} has no term but the constant.")
        read = {name for term in terms.values() for interval in term for name in interval.columns}
        if unused := [name for name in given if name not in read]:
            raise ValueError(f"bounds or levels declare {unused}, which the formula does not name.")
        _check_margins(terms)
        return list(terms.values())

    def _check_constant(self, constant):
        """Refuse terms that mean something else without a constant, if there is none."""
        terms = self._terms()
        # If each row has one of the levels, they stand for the constant: the model is that of columns not
        # shifted. A row that has none is at 0, the middle of bounds.
        if constant or any(all(factor.spans_constant for factor in term) for term in terms):
            return
        for factor in (term[0] for term in terms if len(term) == 1):
            if factor.needs_margin:
                raise ValueError(
                    f"formula={self.formula!r} has no intercept, but {factor.needs_margin}: coefficients "
                    f"would be others than those of a model without one. Keep the intercept, or write "
                    f"{factor.without_margin}."
                )

    def _names(self):
        return [
            ":".join(names)
            for term in self._terms()
            for names in product(*(factor.names for factor in term))
        ]

    def fit(self, X: MatrixLike, y: Any = None) -> Self:
        """Check that the table has the columns; nothing is learnt from the rows.

        Parameters
        ----------
        X : data frame of shape (n_samples, n_columns)
            Of pandas, polars or Dask.
        y : ignored

        Returns
        -------
        self : FormulaEncoder

        Raises
        ------
        ImportError
            If formulaic is not installed.
        ValueError, TypeError
            If the formula is not understood, if the table is no frame with its columns, or if a level is of
            another type than its column.
        """
        X, read = to_native(X, "X"), self.columns
        _check_columns(X, read)
        _check_levels(self._terms(), X)
        self.feature_names_in_ = np.asarray(read, dtype=object)
        self.n_features_in_ = len(read)
        return self

    def transform(self, X: MatrixLike) -> MatrixLike:
        """Make the columns of the formula.

        Parameters
        ----------
        X : data frame of shape (n_samples, n_columns)

        Returns
        -------
        X : ndarray of shape (n_samples, n_columns)
        """
        check_is_fitted(self)
        _check_columns(X, self.feature_names_in_)
        terms = self._terms()
        _check_levels(terms, X, wholly=True)
        factors = {factor.names[0]: factor for term in terms for factor in term}
        values = {name: factor.values(X) for name, factor in factors.items()}
        return np.hstack([reduce(_products, (values[f.names[0]] for f in term)) for term in terms])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """The names of the columns, such as ``age``, ``region[north]`` and ``age:region[north]``.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        return np.asarray(self._names(), dtype=object)

    def _indicator_names(self):
        """Names of columns that are 1 in rows of a level, or with a missing cell, and 0 in others."""
        singles = (term[0] for term in self._terms() if len(term) == 1)
        return {name for one in singles if isinstance(one, Levels | Missing) for name in one.names}

    def _notes(self):
        """Notes beneath tables: what missing cells count as that have no indicator; a tuple of str."""
        factors = {factor.names[0]: factor for term in self._terms() for factor in term}
        marked = {factor.column for factor in factors.values() if isinstance(factor, Missing)}
        counts: list[str] = []
        unmarked: dict[str, None] = {}
        for factor in factors.values():
            if factor.counts_missing_as and not marked.issuperset(factor.columns):
                counts.append(f"{factor.label} = {factor.counts_missing_as}")
                unmarked |= {
                    f"missing({name})": None for name in factor.columns if name not in marked
                }
        if not counts:
            return ()
        if (more := len(counts) - _NOTED) > 0:
            counts[_NOTED:] = [f"{more} more"]
            unmarked = {"missing(...) of each": None}
        return (
            f"missing values, if any, count as {', '.join(counts)}, and bias coefficients: give their rows "
            f"weight 0, or add {' + '.join(unmarked)} to the formula.",
        )

    def _affine(self):
        """(A, c, names) with columns ``A x + c``, for products of raw columns ``x``."""
        rows = []
        for term in self._terms():
            for parts in product(*(factor.affine for factor in term)):
                # Products of (scale raw + shift), a power of two of them.
                row: dict[tuple[str, ...], float] = {(): 1.0}
                for name, scale, shift in parts:
                    row = {
                        key: weight
                        for names, slope in row.items()
                        for key, weight in (((*names, name), slope * scale), (names, slope * shift))
                    }
                rows.append({":".join(names): weight for names, weight in row.items() if weight})
        names = tuple(dict.fromkeys(name for row in rows for name in row if name))
        matrix = np.array([[row.get(name, 0.0) for name in names] for row in rows])
        return matrix, np.array([row.get("", 0.0) for row in rows]), names


def parsed(formula):
    """(name of the response or None, terms, whether there is a constant).

    Terms are tuples of ``(text, whether it is a name)``.

    Raises
    ------
    ImportError
        If formulaic is not installed.
    ValueError
        If the formula is not one.
    """
    try:
        from formulaic import Formula
        from formulaic.errors import FormulaicError
    except ImportError as error:
        raise ImportError(
            "formulas require formulaic: pip install formulaic, or this package with its extra 'formulas'"
        ) from error
    if not isinstance(formula, str):
        raise TypeError(f"formula must be a str, got {type(formula).__name__}.")
    try:
        formula_sides = Formula(formula)
    except (FormulaicError, SyntaxError) as error:
        # Errors of formulaic are coloured for terminals, and mark what they are about by brackets.
        remedy = re.sub(r"\x1b\[[0-9;]*m|\s*\n.*", "", str(error), flags=re.DOTALL)
        if remedy.startswith("Numeric literals"):
            remedy = "a number is no term, and scales none: a constant is 1, or 0 for none."
        remedy = next(
            (known for pattern, known in _REMEDIES if re.search(pattern, formula)), remedy
        )
        raise ValueError(f"formula={formula!r} is not understood: {remedy}") from None
    sides = [getattr(formula_sides, "lhs", None), getattr(formula_sides, "rhs", formula_sides)]
    if any(isinstance(side, tuple) for side in sides):
        raise ValueError(f"formula={formula!r} is not understood: {_NO_BARS}")
    for start, end in _taken_out(formula):
        taken = formula[start:end].rstrip()
        with suppress(FormulaicError, SyntaxError):
            if Formula(formula[:start] + formula[end:]) == formula_sides:
                raise ValueError(
                    f"formula={formula!r} is not understood: '{taken}' takes out nothing. Write the term as "
                    "it is written where it comes in, such as bounded(age, 18, 90):income, or leave it out "
                    "there."
                )
    terms = [tuple(map(_text, term.factors)) for term in sides[1]]
    constant = (("1", False),)
    return (
        _response(sides[0], formula),
        [term for term in terms if term != constant],
        constant in terms,
    )


def _taken_out(formula):
    """(start, end) of the parts of a formula behind a minus, but for numbers.

    Minus signs in parentheses and names do not count.
    """
    outside = re.sub(r"`[^`]*`|\((?:[^()]|\([^()]*\))*\)", lambda part: "_" * len(part[0]), formula)
    return [part.span() for part in re.finditer(r"-[^-+~]*[^-+~\s\d][^-+~]*", outside)]


def _text(factor):
    return str(factor.expr), factor.eval_method.value == "lookup"


def _response(side, formula):
    if side is None:
        return None
    parts = [_text(factor) for term in side for factor in term.factors]
    if len(parts) != 1 or not parts[0][1]:
        raise ValueError(f"formula={formula!r}: {_RESPONSE}")
    # formulaic takes a constant out of this side, too, where there is none, and says nothing.
    left = re.sub(r"`[^`]*`", "", formula).partition("~")[0]
    if number := re.search(r"[-+]\s*\d+|\d+\s*[-+]", left):
        raise ValueError(
            f"formula={formula!r} is not understood: '{number[0]}' has no meaning before '~'. A model "
            f"without an intercept has it behind, as in '{parts[0][0]} ~ ... - 1'."
        )
    return parts[0][0]


def _items(given, name):
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a dict of names of columns, got {type(given).__name__}.")
    return () if given is None else given.items()


def _declare(known, name, what):
    if known.setdefault(name, what) != what:
        raise ValueError(f"{name} is declared twice, in different ways.")


def _check_margins(terms):
    """Refuse a product whose meaning depends on where its factors are 0, by terms under their names.

    A product of ``a x + b`` and ``c z + d`` is one of ``x z`` only beside the terms ``x`` and ``z``.
    """
    for names, term in terms.items():
        for factor in term if len(term) > 1 else ():
            if factor.needs_margin and names - {factor.names[0]} not in terms:
                labels = [part.label for part in term]
                whole = " * ".join(part.written for part in term)
                lacking = ":".join(part.label for part in term if part is not factor)
                raise ValueError(
                    f"{':'.join(labels)} stands without {lacking}, but {factor.needs_margin}: effects would "
                    f"be others than those of the product. Write {whole}, which has all main effects, or "
                    f"{factor.without_margin}."
                )


def _check_columns(X, names):
    columns = column_names(X)
    if columns is None:
        raise TypeError("a formula needs a data frame, whose columns have names.")
    if missing := [name for name in names if name not in columns]:
        raise ValueError(f"X has no columns {missing}, which the formula names.")
    if repeated := [name for name in names if columns.count(name) > 1]:
        raise ValueError(f"X has several columns named {repeated}.")


def _check_levels(terms, X, *, wholly=False):
    lists = {f.column: f.levels for term in terms for f in term if isinstance(f, Levels)}
    refuse_other_types(list(lists.values()), X, "levels", list(lists), wholly=wholly)


def _products(left, right):
    """Products of all pairs of columns, row by row."""
    return (left[:, :, None] * right[:, None, :]).reshape(len(left), left.shape[1] * right.shape[1])
