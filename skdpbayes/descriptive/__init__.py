"""Private description of a table: counts, means, deviations, shares and histograms under one budget."""

from ._describe import dp_describe
from ._description import Description
from ._plan import DescriptionPlan, plan_description

__all__ = [
    "Description",
    "DescriptionPlan",
    "dp_describe",
    "plan_description",
]


def __dir__():
    return __all__
