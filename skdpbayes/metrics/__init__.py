"""Private scores: numbers that know their confidence interval and their cost."""

from ._make_scorer import make_private_scorer
from ._means import dp_accuracy_score, dp_brier_score, dp_log_loss, dp_mean_score
from ._numbers import (
    dp_mean_absolute_error,
    dp_mean_poisson_deviance,
    dp_mean_squared_error,
    dp_r2_score,
)
from ._plan import ScorePlan
from ._ranking import dp_roc_auc_score
from ._result import PrivateArray, PrivateCurve, PrivateScore
from ._scorer import PrivateScorer
from ._tables import dp_calibration_curve, dp_confusion_matrix

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
