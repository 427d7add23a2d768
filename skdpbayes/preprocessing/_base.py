"""The one frame of private transformers: plan, charge, release, and attributes of what was released.

    terms(n_samples, n_features, budget) -> charged -> a release of rows -> attributes; nothing else is kept

A transformer is its parameters, the terms of its release, the release itself, and what it makes of it.
"""

import math
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import StrOptions

from .._arguments import RANDOM_STATE, Interval, check_sizes, planned_size
from .._data.partitions import OutputByBlocks
from .._data.read import read_table, validate_table
from .._typing import MatrixLike, RandomStateLike, Relation
from ..exceptions import PrivacyWarning
from ..privacy.budget import Budget, default_delta, too_large_delta
from ..privacy.charge import charge, clone_with_authorization, rows_paid_for
from ..privacy.cost import PrivacyCost
from ..privacy.deferred_warnings import warn, warns_last
from ..privacy.losses import RELATIONS
from ..privacy.planned_release import PlannedRelease, set_privacy_attributes
from ..random import private_generator

BUDGET_CONSTRAINTS = {
    "epsilon": [Interval(Real, 0, None, closed="right")],
    "delta": [None, Interval(Real, 0, 1, closed="left")],
    "neighboring_relation": [StrOptions(set(RELATIONS))],
    "public_size": [None, Interval(Integral, 1, None, closed="left")],
    "random_state": RANDOM_STATE,
}


@dataclass(frozen=True, kw_only=True)
class TransformerPlan(PlannedRelease):
    """The plan of a private transformer: what it does and costs. Attributes are public numbers.

    Attributes
    ----------
    name : str
        Name of the transformer.
    budget : Budget
        The requested budget.
    cost : PrivacyCost
        What is spent, whatever the rows hold.
    n_samples : int
        The public size of the table.
    n_features : int
        Number of input columns.
    details : dict
        The transformer's choices: levels of noise, quantiles, thresholds.
    warnings : tuple of str
        What to know before running it.
    """

    name: str
    budget: Budget
    cost: PrivacyCost
    n_samples: int
    n_features: int
    details: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def _lines(self):
        details = [(name.replace("_", " "), _shown(v)) for name, v in self.details.items()]
        reads = f"{self.n_samples:,} rows, {self.n_features} columns"
        return [*super()._lines(), ("reads", reads), *details]


def _shown(value):
    return ", ".join(f"{v:.4g}" for v in value) if isinstance(value, tuple) else f"{value:.4g}"


class Terms(NamedTuple):
    """What a transformer would release, and at which cost; see `TransformerPlan`.

    Attributes
    ----------
    cost : PrivacyCost or None, default=None
        None if nothing is learnt.
    details : dict, default={}
    warnings : tuple of str, default=()
    """

    cost: PrivacyCost | None = None
    details: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()


def validate_numbers(estimator, X, *, reset):
    """A table of numbers, of which some may be missing, in double or single precision."""
    return validate_table(
        estimator, X, reset=reset, accept_sparse=False, ensure_all_finite="allow-nan"
    )


class PrivateTransformer(OutputByBlocks, TransformerMixin, BaseEstimator):
    """A transformer that learns from rows, privately.

    Subclasses have ``_title``, the plan's name, and four methods:

    - ``_terms(n_samples, n_features, budget)`` returns `Terms`, of public numbers alone.
    - ``_public(X, n_features)`` returns what else is public, and raises an error if it is invalid.
    - ``_release(table, public, plan, generator)`` returns noisy numbers of rows, once they are paid for.
    - ``_set(public, released, plan)`` sets attributes, and returns warnings as pairs ``(text, category)``.

    And ``_make_up(public, n_features)`` sets made-up attributes instead, and returns whether the number of
    output columns does not depend on a release.
    """

    delta: float | None
    epsilon: float
    neighboring_relation: Relation
    public_size: int | None
    random_state: RandomStateLike
    _title: str
    _reads_collections = True
    _validate = validate_numbers
    __sklearn_clone__ = clone_with_authorization

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.non_deterministic = self.random_state is None
        return tags

    def privacy_plan(self, n_samples: int, n_features: int) -> TransformerPlan:
        """The plan of a fit, what it would do and cost, without any data.

        Parameters
        ----------
        n_samples : int
            Number of rows. Under ``neighboring_relation="add_or_remove_one"`` the plan uses ``public_size``
            instead.
        n_features : int
            Number of columns.

        Returns
        -------
        plan : TransformerPlan

        Raises
        ------
        ValueError, TypeError
            If a parameter is invalid.
        """
        self._validate_params()
        check_sizes(n_samples=n_samples, n_features=n_features)
        n_samples = planned_size(n_samples, self.neighboring_relation, self.public_size)
        delta = default_delta(n_samples) if self.delta is None else float(self.delta)
        budget = Budget(float(self.epsilon), delta, self.neighboring_relation).checked()
        cost, details, warnings = self._terms(n_samples, int(n_features), budget)
        if cost is None:
            cost = PrivacyCost(budget.neighboring_relation)
        elif not budget.is_private:
            cost = PrivacyCost(budget.neighboring_relation, mu=math.inf)
        return TransformerPlan(
            name=self._title,
            budget=budget,
            cost=cost,
            n_samples=n_samples,
            n_features=int(n_features),
            details=details,
            warnings=warnings,
        )

    def _read(self, X):
        self._validate_params()
        return read_table(self, X, validate=type(self)._validate, only=rows_paid_for(self))

    def _dry_run(self, X, y=None):
        """Do what a fit does before it is charged, on a copy, and learn made-up values instead of a release.

        Returns
        -------
        public : bool
            Whether the number of output columns does not depend on what a fit releases.
        """
        with self._read(X) as table:
            public = self._public(X, table.n_features)
            self.privacy_plan(table.n_samples, table.n_features)
            return self._make_up(public, table.n_features)

    @warns_last
    def fit(self, X: MatrixLike, y: Any = None) -> Self:
        """Learn from the rows what is released of them, or check the columns if all is public.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numbers, and for an encoder text, too; None and NaN mean missing.
        y : ignored

        Returns
        -------
        self : Self

        Raises
        ------
        ValueError, TypeError
            If a parameter or the table is invalid. Nothing is spent.
        BudgetExceededError
            If an active `PrivacyLedger` does not allow the cost. Nothing is spent.
        """
        with self._read(X) as table:
            public = self._public(X, table.n_features)
            plan = self.privacy_plan(table.n_samples, table.n_features)
            for text in (*too_large_delta(plan.budget, plan.n_samples), *plan.warnings):
                warn(text, PrivacyWarning)
            generator = private_generator(self.random_state)
            charge(plan, self).close("completed")  # The release itself takes no time.
            set_privacy_attributes(self, plan)
            released = self._release(table, public, plan, generator)
        for text, category in self._set(public, released, plan):
            warn(text, category)
        return self

    @property
    def _names(self):
        """Names of the columns, or None."""
        return getattr(self, "feature_names_in_", None)

    def _named(self, columns, prefix=""):
        """Names of some columns in words, or their numbers."""
        names = self._names
        return [f"{prefix}{j}" if names is None else repr(names[j]) for j in columns]
