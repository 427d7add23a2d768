"""The plan of a private selection: what each run may cost if the best of several is to stay within a budget.

    largest mu and e with  epsilon(best of K runs, each mu-GDP or e-private, delta) <= epsilon

The fit and the score of a run read disjoint rows, so each may cost as much as if it were alone.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from ..privacy.budget import Budget, too_large_delta
from ..privacy.conversions import gaussian_epsilon
from ..privacy.cost import PrivacyCost
from ..privacy.losses import PureMechanism, SelectedRun
from ..privacy.planned_release import UnitRelease

# With a larger error, scores say little about which candidate is better.
_LARGE_ERROR = 0.05
# Of the delta of a run, what a fit whose cost is not Gaussian may fail with.
_FAILURE_SHARE = 0.9


@dataclass(frozen=True)
class SelectionPlan(UnitRelease):
    """The plan of a private selection: what it does and costs. Attributes are public numbers.

    Attributes
    ----------
    budget : Budget
        The requested budget.
    cost : PrivacyCost
        What the selection costs, whatever happens during it.
    mean_candidates : float
        Expected number of runs. The actual number is random, and never revealed.
    shape : float
        Shape of the distribution of that number.
    fit_cost : PrivacyCost
        What each fit may cost: Gaussian, or, where a candidate is not, anything with an epsilon and a delta.
    fit_epsilon, fit_delta : float
        The ``epsilon`` and the ``delta`` of every candidate.
    score_epsilon : float
        What each score may spend, with delta 0.
    n_train, n_test : int
        Numbers of rows, or of persons, to fit on and to score; expected ones if their number is private.
    max_rows : int or None, default=None
        How many rows of a person a fit uses at most, if persons are protected and that is known beforehand.
    not_gaussian : str, default=""
        The class of a candidate whose cost is not Gaussian, if there may be one.
    """

    budget: Budget
    cost: PrivacyCost
    mean_candidates: float
    shape: float
    fit_cost: PrivacyCost
    fit_epsilon: float
    fit_delta: float
    score_epsilon: float
    n_train: int
    n_test: int
    max_rows: int | None = None
    not_gaussian: str = ""

    @property
    def costs_of_run(self) -> tuple[PrivacyCost, PrivacyCost]:
        """The costs of a fit and of a score."""
        relation = self.budget.neighboring_relation
        return self.fit_cost, PrivacyCost(
            relation, pure_events=(PureMechanism(self.score_epsilon),)
        )

    @property
    def run_mu(self) -> float:
        """Each fit is ``run_mu``-GDP, if its cost is Gaussian."""
        return self.fit_cost.mu if self.fit_cost.is_gaussian else math.inf

    @property
    def score_noise(self) -> float:
        """Standard deviation of the noise of a mean score, as a fraction of the score's range."""
        return math.sqrt(2.0) / (self.score_epsilon * self.n_test)

    @property
    def score_error(self) -> float:
        """The same, combined with the sampling error of a score of one half."""
        return math.hypot(self.score_noise, 0.5 / math.sqrt(self.n_test))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read before the fit."""
        warnings = too_large_delta(self.budget, self.n_train + self.n_test)
        if self.score_error <= _LARGE_ERROR:
            return warnings
        return (
            *warnings,
            f"selection does not pay here: scores have an error of {self.score_error:.2g}, so the choice is "
            f"mostly random, and each candidate is fitted with epsilon = {self.fit_epsilon:.3g} instead of "
            f"{self.budget.epsilon:g}. Fix the parameters and fit once, with the whole budget.",
        )

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name in reports and ledgers."""
        return "random search"

    @property
    def proof(self) -> str:
        """The propositions by which its cost is known."""
        return "Propositions 42 and 43"

    @property
    def n_samples(self) -> int:
        """Number of rows, or of persons, of which those to score on are a part."""
        return self.n_train + self.n_test

    def _title(self):
        return "Selection plan"

    def _lines(self):
        law = {0.0: "logarithmic", 1.0: "geometric", math.inf: "Poisson"}.get(
            self.shape, f"truncated negative binomial, shape {self.shape:g}"
        )
        what = self.counts
        at_delta, form = "", {}
        if self.not_gaussian:
            law_of_runs = self.mean_candidates, self.shape, self.n_train, self.n_test
            alone = plan_selection(self.budget, *law_of_runs)
            at_delta = f" at delta = {self.fit_delta:.3g}"
            form["form of costs"] = (
                f"an epsilon and a delta, as the cost of {self.not_gaussian} is not Gaussian; with Gaussian "
                f"ones alone a fit gets epsilon = {alone.fit_epsilon:.4g} at delta = {alone.fit_delta:.3g}"
            )
        lines = {
            "candidates": f"{self.mean_candidates:g} on average ({law}); the number is not revealed",
            "a fit gets": f"epsilon = {self.fit_epsilon:.4g}{at_delta}, {self.n_train:,} {what}",
            **form,
            "a score gets": f"epsilon = {self.score_epsilon:.4g}, {self.n_test:,} other {what}",
            "a score is off by": f"{self.score_error:.2g} of its range, {self.score_noise:.2g} of it noise",
            "pays if": "the best candidate beats your first choice by more than that, and by more than a fit "
            f"loses with epsilon = {self.fit_epsilon:.3g} instead of {self.budget.epsilon:g}",
        }
        return [*super()._lines(), *lines.items()]


@lru_cache(maxsize=256)
def plan_selection(budget, mean_candidates, shape, n_train, n_test, is_gaussian=True):
    """The plan of a selection.

    Parameters
    ----------
    budget : Budget
        With a delta above 0.
    mean_candidates : float
        At least 1.
    shape : float
        As for `SelectedRun`.
    n_train, n_test : int
    is_gaussian : bool, default=True
        Whether the cost of fits is Gaussian; others are charged as randomised response that may fail.

    Returns
    -------
    plan : SelectionPlan
    """
    relation = budget.neighboring_relation

    def gaussian(mu):
        return PrivacyCost(relation, mu=mu)

    def pure(level):
        return PrivacyCost(relation, pure_events=(PureMechanism(level),))

    def keeps_to_budget(cost):
        return SelectedRun((cost,), mean_candidates, shape).epsilon(budget.delta) <= budget.epsilon

    def any_mechanism(level):
        return PrivacyCost(
            relation, pure_events=(PureMechanism(level),), failure_probability=fit_delta
        )

    fit_delta = budget.delta if is_gaussian else _FAILURE_SHARE * budget.delta / mean_candidates
    form = gaussian if is_gaussian else any_mechanism
    largest = _largest(lambda size: keeps_to_budget(form(size)))
    fit_cost = form(largest)
    level = _largest(lambda level: keeps_to_budget(pure(level)))
    run = SelectedRun((fit_cost, pure(level)), mean_candidates, shape)
    cost = PrivacyCost(relation, selection_events=(run,))
    # Slightly smaller, so that calibrating to it again does not exceed it by rounding.
    largest *= 1.0 - 1e-8
    fit_epsilon = gaussian_epsilon(largest, budget.delta) if is_gaussian else largest
    of_fit = fit_cost, fit_epsilon, fit_delta
    return SelectionPlan(budget, cost, mean_candidates, shape, *of_fit, level, n_train, n_test)


def _largest(fits):
    """The largest number that fits, to a relative 1e-5, from below."""
    low, high = math.log(1e-6), math.log(100.0)
    if not fits(math.exp(low)):
        raise ValueError("the budget is too small for a selection: raise epsilon or delta.")
    while high - low > 1e-5:
        middle = 0.5 * (low + high)
        if fits(math.exp(middle)):
            low = middle
        else:
            high = middle
    return math.exp(low)
