"""Private selection among candidates within a budget, and the total cost of cross-validation."""

from ._plan import SelectionPlan
from ._search import DPRandomizedSearchCV
from ._total_cost import total_privacy_cost

__all__ = ["DPRandomizedSearchCV", "SelectionPlan", "total_privacy_cost"]


def __dir__():
    return __all__
