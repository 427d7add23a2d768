"""The plan of a private selection: what a single run may cost, so that the best of several keeps to a budget.

    largest mu and e with  epsilon(best of K runs, each mu-GDP or e-private, delta) <= epsilon

The fit and the score of a run read disjoint rows, so that both may have as much as if there were no other.
"""

import math
from functools import lru_cache
from typing import NamedTuple

from ..privacy.budget import Budget
from ..privacy.cost import PrivacyCost, gaussian_epsilon
from ..privacy.profiles import PureMechanism, SelectedRun

# Scores that are farther off say little about which candidate is better.
_LARGE_ERROR = 0.05


class SelectionPlan(NamedTuple):
    """What a private selection does and costs. Attributes are public numbers.

    Attributes
    ----------
    budget : Budget
        What was asked for.
    cost : PrivacyCost
        What the selection costs, whatever happens during it.
    mean_candidates : float
        Expected number of runs. Their number is drawn, and never told.
    shape : float
        Of its law.
    run_mu : float
        Each fit is ``run_mu``-GDP.
    fit_epsilon : float
        The same as an epsilon, at the budget's delta: the ``epsilon`` of every candidate.
    score_epsilon : float
        What each score may spend, with delta 0.
    n_train, n_test : int
        Rows to fit on and to score; expected ones where the number of rows is private.
    """

    budget: Budget
    cost: PrivacyCost
    mean_candidates: float
    shape: float
    run_mu: float
    fit_epsilon: float
    score_epsilon: float
    n_train: int
    n_test: int

    @property
    def epsilon(self) -> float:
        """The epsilon that is spent, at ``delta``."""
        return self.cost.epsilon(self.delta)

    @property
    def delta(self) -> float:
        """The delta at which ``epsilon`` is reported."""
        return self.budget.delta

    @property
    def score_noise(self) -> float:
        """Standard deviation of the noise on a mean over the held-out rows, over the width of its range."""
        return math.sqrt(2.0) / (self.score_epsilon * self.n_test)

    @property
    def score_error(self) -> float:
        """The same, and the sampling error of a share of one half."""
        return math.hypot(self.score_noise, 0.5 / math.sqrt(self.n_test))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings that the user should read before the fit, a tuple of str."""
        if self.score_error <= _LARGE_ERROR:
            return ()
        return (
            f"selection does not pay here: scores are off by {self.score_error:.2g}, so that it is mostly "
            f"chance which candidate is chosen, and each is fitted with epsilon = {self.fit_epsilon:.3g} "
            f"instead of {self.budget.epsilon:g}. Fit one set of parameters with the whole budget.",
        )

    def __str__(self):
        relation = self.budget.neighboring_relation.replace("_", "-")
        law = {0.0: "logarithmic", 1.0: "geometric", math.inf: "Poisson"}.get(
            self.shape, f"truncated negative binomial, shape {self.shape:g}"
        )
        lines = {
            "spends": f"epsilon = {self.epsilon:.4g} at delta = {self.delta:.3g} "
            f"(asked for at most {self.budget.epsilon:g})",
            "protects": relation,
            "candidates": f"{self.mean_candidates:g} on average ({law}); how many is not told",
            "a fit gets": f"epsilon = {self.fit_epsilon:.4g}, {self.n_train:,} rows",
            "a score gets": f"epsilon = {self.score_epsilon:.4g}, {self.n_test:,} other rows",
            "a score is off by": f"{self.score_error:.2g} of its range, {self.score_noise:.2g} of it noise",
            "pays if": "the best candidate is better than your first choice by more than that, and than what "
            f"a fit loses with epsilon = {self.fit_epsilon:.3g} in place of {self.budget.epsilon:g}",
        }
        if self.warnings:
            lines["warning"] = self.warnings[0]
        width = max(map(len, lines))
        return "Selection plan\n" + "\n".join(f"  {k:<{width}}  {v}" for k, v in lines.items())


@lru_cache(maxsize=256)
def plan_selection(budget, mean_candidates, shape, n_train, n_test):
    """Return the plan of a selection.

    Parameters
    ----------
    budget : Budget
        With a delta above 0.
    mean_candidates : float
        At least 1.
    shape : float
        As for `SelectedRun`.
    n_train, n_test : int

    Returns
    -------
    plan : SelectionPlan
    """
    relation = budget.neighboring_relation

    def gaussian(mu):
        return PrivacyCost(relation, mu=mu)

    def pure(level):
        return PrivacyCost(relation, pure=(PureMechanism(level),))

    def keeps_to_budget(cost):
        return SelectedRun((cost,), mean_candidates, shape).epsilon(budget.delta) <= budget.epsilon

    run_mu = _largest(lambda mu: keeps_to_budget(gaussian(mu)))
    level = _largest(lambda level: keeps_to_budget(pure(level)))
    run = SelectedRun((gaussian(run_mu), pure(level)), mean_candidates, shape)
    cost = PrivacyCost(relation, selected=(run,))
    # Just below, so that what is calibrated to it again does not pass it by rounding.
    fit_epsilon = gaussian_epsilon(run_mu * (1.0 - 1e-8), budget.delta)
    return SelectionPlan(
        budget, cost, mean_candidates, shape, run_mu, fit_epsilon, level, n_train, n_test
    )


def _largest(fits):
    """Return the largest number that fits, to a hundred-thousandth, from below."""
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
