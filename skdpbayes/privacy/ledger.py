"""A budget for several fits: what they reserve adds up, and what would exceed it is refused.

    spent = cost_1 + cost_2 + ...,    refuse cost_k if epsilon(spent + cost_k, delta) > epsilon.

A reservation is made before a sampler reads a record and is never given back: a fit that is
interrupted has cost its whole plan. Refusing is itself data-independent, as plans are.
"""

import threading

from ..exceptions import BudgetExceededError
from .budget import Budget
from .cost import PrivacyCost

# Of the whole process: a fit in another thread is charged too.
_active: list = []


class PrivacyLedger:
    """Adds up what the fits inside a ``with`` block spend, and refuses what would exceed it.

    It sees all fits of its process, in any thread; work sent to other processes (``n_jobs`` with
    joblib's default backend) is not seen. Ledgers nest: every one of them is charged.

    Parameters
    ----------
    epsilon : float
        Ceiling on the total; ``inf`` only adds up.
    delta : float
        In [0, 1), for the total.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The relation of every fit that is charged.

    Examples
    --------
    >>> from skdpbayes.privacy import PrivacyCost, PrivacyLedger
    >>> with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
    ...     ledger.reserve(PrivacyCost("replace_one", mu=0.2))
    >>> round(ledger.spent_epsilon, 3)
    0.726
    """

    def __init__(self, epsilon, delta, neighboring_relation="replace_one"):
        self.budget = Budget(epsilon, delta, neighboring_relation).checked()
        self.spent = PrivacyCost(neighboring_relation)
        self._lock = threading.Lock()

    @property
    def spent_epsilon(self):
        """Epsilon of everything reserved so far, at the ledger's delta."""
        return self.spent.epsilon(self.budget.delta)

    def reserve(self, cost):
        """Charge a cost.

        Parameters
        ----------
        cost : PrivacyCost

        Raises
        ------
        BudgetExceededError
            If the total would exceed the ceiling; nothing is charged then.
        ValueError
            If the cost is under another neighbouring relation.
        """
        with self._lock:
            self.spent = self._total_with(cost)

    def _total_with(self, cost):
        total = self.spent + cost
        if not self.budget.allows(total):
            raise BudgetExceededError(
                f"the total would be epsilon = {total.epsilon(self.budget.delta):.4g} at delta = "
                f"{self.budget.delta:g}, beyond the ledger's epsilon = {self.budget.epsilon:g}; "
                f"{self.spent_epsilon:.4g} of it is spent. Nothing was read."
            )
        return total

    def __enter__(self):
        _active.append(self)
        return self

    def __exit__(self, *exception):
        _active.remove(self)

    def __repr__(self):
        budget = self.budget
        return (
            f"PrivacyLedger(spent_epsilon={self.spent_epsilon:.4g}, epsilon={budget.epsilon:g}, "
            f"delta={budget.delta:g})"
        )


def reserve(plan):
    """Charge a plan's cost to every active ledger, or raise before anything is read."""
    ledgers = list(_active)
    for ledger in ledgers:  # One that refuses keeps the others from being charged.
        ledger._total_with(plan.cost)
    for ledger in ledgers:
        ledger.reserve(plan.cost)
