"""Scaling, encoding and imputing: from public knowledge, which is free, or learnt privately from the rows."""

from ..models.rows import row_scales
from ._base import TransformerPlan
from .bounded import BoundedScaler, RowNormClipper
from .formula import FormulaEncoder
from .imputer import DPImputer
from .one_hot import DPOneHotEncoder
from .quantile_scaler import DPQuantileScaler

__all__ = [
    "BoundedScaler",
    "DPImputer",
    "DPOneHotEncoder",
    "DPQuantileScaler",
    "FormulaEncoder",
    "RowNormClipper",
    "TransformerPlan",
    "row_scales",
]


def __dir__():
    return __all__
