"""The plan of a score: its cost, which follows from public numbers before any row is read."""

import math
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from ..exceptions import PrivacyWarning
from ..privacy.budget import Budget
from ..privacy.cost import PrivacyCost
from ..privacy.deferred_warnings import warn
from ..privacy.loss_distributions import PERSON_RELATIONS, between_rows
from ..privacy.profiles import PureMechanism
from ..privacy.release import PlannedRelease
from ..privacy.reserve import reserve
from ..random import private_generator


@dataclass(frozen=True)
class ScorePlan(PlannedRelease):
    """What a score does and costs. Attributes are public numbers.

    Attributes
    ----------
    name : str
        Name of the score.
    budget : Budget
        The requested budget.
    cost : PrivacyCost
        What is spent, whatever the rows hold.
    n_samples : int or None
        Number of rows, or of persons, if it is public.
    """

    name: str
    budget: Budget
    cost: PrivacyCost
    n_samples: int | None

    @property
    def proof(self) -> str:
        """The proposition by which its cost is known."""
        return "Proposition 41" if self.name == "ROC AUC" else "Proposition 40"

    @property
    def replaces(self) -> bool:
        """Whether neighbouring tables have the same number of rows."""
        return between_rows(self.budget.neighboring_relation) == "replace_one"

    @property
    def counts(self) -> str:
        """What is counted: rows, or persons."""
        return "persons" if self.budget.neighboring_relation in PERSON_RELATIONS else "rows"


def plan_score(name, epsilon, delta, neighboring_relation, n_samples, levels=None):
    """Return the plan of a score.

    Parameters
    ----------
    name : str
    epsilon : float
    delta : float or None
    neighboring_relation : str
        Of rows or of persons.
    n_samples : int
        Number of rows, or of persons, which the plan keeps if it is public.
    levels : sequence of float, default=None
        Epsilons of the independent pure mechanisms that the score consists of; None is a single mechanism.

    Returns
    -------
    plan : ScorePlan
    """
    budget = Budget(float(epsilon), 0.0 if delta is None else delta, neighboring_relation)
    budget = budget.checked(persons=True)
    if budget.is_private:
        pure = (
            PrivacyCost(neighboring_relation, pure=(PureMechanism(level),))
            for level in levels or [budget.epsilon]
        )
        cost = sum(pure, PrivacyCost(neighboring_relation))
    else:
        cost = PrivacyCost(neighboring_relation, mu=math.inf)
    plan = ScorePlan(name, budget, cost, int(n_samples))
    return plan if plan.replaces else replace(plan, n_samples=None)


# The scorer that calls a score, in this very thread, and that may have a voucher for it.
_scorer = ContextVar("scorer", default=None)


@contextmanager
def called_by(scorer):
    """Charge the next score to a scorer's voucher, if it has one."""
    token = _scorer.set(scorer)
    try:
        yield
    finally:
        _scorer.reset(token)


def called_directly():
    """Tell whether no scorer calls the score."""
    return _scorer.get() is None


def spend(plan, random_state, noise=0.0, n_parts=1):
    """Charge a plan to the active ledgers, and return the generator of its noise.

    A public number of rows, or of persons, in each of ``n_parts`` that is drowned by ``noise`` is told of
    before the charge; of a private one, `warn_if_drowned` tells when it is released.
    """
    generator = private_generator(random_state)
    if plan.replaces:
        warn_if_drowned(plan, noise, plan.n_samples / n_parts)
    reserve(plan, _scorer.get()).close("completed")  # The release itself takes no time.
    return generator


def warn_if_drowned(plan, noise, size):
    """Warn if the noise is large compared to the table; both numbers are public, or released."""
    what = plan.counts
    if noise > 0.2 * size:
        warn(
            f"{plan.name}: with this epsilon the noise is worth {noise:.3g} {what} of {max(size, 0):.4g}, so "
            f"the score says little: raise epsilon, or score more {what}. See its interval.",
            PrivacyWarning,
        )
