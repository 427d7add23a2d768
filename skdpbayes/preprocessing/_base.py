"""What private transformers share: a plan from public numbers, charged before a row is read.

plan(n_samples, n_features) -> reserve -> read -> noisy parameters; nothing else is kept
"""

import math
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import StrOptions

from .._arguments import RANDOM_STATE, Interval, check_sizes, planned_size
from .._data.partitions import OutputByBlocks
from .._typing import Relation
from ..exceptions import PrivacyWarning
from ..privacy.budget import Budget, default_delta, too_large_delta
from ..privacy.charge import charge
from ..privacy.cost import PrivacyCost
from ..privacy.deferred_warnings import warn
from ..privacy.losses import RELATIONS
from ..privacy.planned_release import PlannedRelease, set_privacy_attributes
from ..privacy.prepaid import clone_with_authorization
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


class PrivateTransformer(OutputByBlocks, TransformerMixin, BaseEstimator):
    """Budget, plan and privacy attributes of a transformer that learns from rows."""

    delta: float | None
    epsilon: float
    neighboring_relation: Relation
    public_size: int | None
    __sklearn_clone__ = clone_with_authorization

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
        return self._plan(n_samples, int(n_features), budget)

    def _dry_run(self, X, y=None):
        """Do what a fit does before it is charged, on a copy, and learn made-up values instead of a release.

        The estimator has ``_read``, which validates what `fit` is given, ``_prepared``, which returns what
        else a fit needs, and ``_make_up``, which sets what it would learn.

        Returns
        -------
        public : bool
            Whether the number of output columns does not depend on what a fit releases.
        """
        with self._read(X) as table:
            return self._make_up(table.n_features, *self._prepared(X, table))

    def _planned(self, name, n_samples, n_features, budget, cost, **extra):
        """A plan; without privacy the cost is infinite, unless nothing is learnt."""
        if not budget.is_private and cost is not None:
            cost = PrivacyCost(budget.neighboring_relation, mu=math.inf)
        return TransformerPlan(
            name=name,
            budget=budget,
            cost=cost or PrivacyCost(budget.neighboring_relation),
            n_samples=n_samples,
            n_features=n_features,
            **extra,
        )

    def _spend(self, plan):
        """Charge a plan, set its public attributes, and return the generator of the noise."""
        for text in (*too_large_delta(plan.budget, plan.n_samples), *plan.warnings):
            warn(text, PrivacyWarning)
        generator = private_generator(self.random_state)
        charge(plan, self).close("completed")  # The release itself takes no time.
        set_privacy_attributes(self, plan)
        return generator
