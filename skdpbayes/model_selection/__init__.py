"""Choosing among candidates within a budget, and what cross-validation has cost."""

from ._plan import SelectionPlan
from ._search import DPRandomizedSearchCV
from ._total import total_privacy_cost

__all__ = ["DPRandomizedSearchCV", "SelectionPlan", "total_privacy_cost"]
