"""What all plans have in common: a cost that keeps to a budget, told in the same words.

epsilon = epsilon(cost, delta),    delta of the budget
"""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from .budget import Budget
from .cost import PrivacyCost
from .parameters import told_parameters


class PlannedRelease:
    """A release before it is made. What inherits from this is a frozen dataclass.

    Attributes
    ----------
    budget : Budget
        The requested budget.
    cost : PrivacyCost
        What is spent, whatever the rows hold.
    """

    budget: Budget
    cost: PrivacyCost

    if TYPE_CHECKING:  # Dataclasses would take a property for the default of a field of this name.

        @property
        def name(self) -> str:
            """What was planned, where `_title` says so."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before running it."""
        return ()

    @property
    def asked(self) -> Budget:
        """The budget that was asked for, under the neighbouring relation of what is protected."""
        return self.budget

    @cached_property
    def epsilon(self) -> float:
        """The epsilon that is spent, at ``delta``: at most what was asked for."""
        return self.cost.epsilon(self.delta)

    @property
    def delta(self) -> float:
        """The delta at which ``epsilon`` is reported."""
        return self.budget.delta

    def _title(self):
        """Return the first line of the printed plan."""
        return f"{self.name} plan"

    def _lines(self):
        """Return what is printed of a plan beside its warnings, a list of (name, text)."""
        return [("spends", self._spends()), ("protects", self._protects())]

    def _spends(self, digits=4):
        return (
            f"epsilon = {self.epsilon:.{digits}g} at delta = {self.delta:.3g} "
            f"(asked for at most {self.asked.epsilon:g})"
        )

    def _protects(self):
        return self.asked.neighboring_relation.replace("_", "-")

    def _width(self, names):
        """Return how far texts are indented."""
        return max(map(len, names))

    def __str__(self):
        lines = [*self._lines(), *(("warning", text) for text in self.warnings)]
        width = self._width([name for name, _ in lines])
        return "\n".join([self._title(), *(f"  {name:<{width}}  {text}" for name, text in lines)])


def keep_spent(estimator: Any, plan: PlannedRelease) -> None:
    """Set the attributes by which a fitted estimator says what it did and spent."""
    estimator.plan_ = plan
    estimator.privacy_cost_ = plan.cost
    estimator.spent_epsilon_ = plan.epsilon
    estimator.spent_delta_ = plan.delta
    estimator._parameters_of_fit = told_parameters(estimator)
