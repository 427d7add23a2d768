"""Private scores: numbers that know their confidence interval and their cost."""

from ._base import PrivateArray, PrivateCurve, PrivateScore, ScorePlan
from ._scorer import PrivateScorer, make_private_scorer
from ._scores import (
    dp_accuracy_score,
    dp_brier_score,
    dp_log_loss,
    dp_mean_absolute_error,
    dp_mean_poisson_deviance,
    dp_mean_score,
    dp_mean_squared_error,
    dp_r2_score,
)
from ._tables import dp_calibration_curve, dp_confusion_matrix, dp_roc_auc_score

__all__ = [
    "PrivateArray",
    "PrivateCurve",
    "PrivateScore",
    "PrivateScorer",
    "ScorePlan",
    "dp_accuracy_score",
    "dp_brier_score",
    "dp_calibration_curve",
    "dp_confusion_matrix",
    "dp_log_loss",
    "dp_mean_absolute_error",
    "dp_mean_poisson_deviance",
    "dp_mean_score",
    "dp_mean_squared_error",
    "dp_r2_score",
    "dp_roc_auc_score",
    "make_private_scorer",
]


def __dir__():
    return __all__
