"""What predictions are worth, for every benchmark that compares them.

    log loss            -mean_i log p_i(y_i)
    calibration error   sum over bins b of (n_b / n) |accuracy in b - mean confidence in b|

over 15 bins of equal width, the confidence being the largest probability.
"""

import math

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

N_BINS = 15
# Probabilities below count as this in log losses: some methods state a 0, which is wrong by infinity.
LEAST = 1e-6
# Of a median over that of a mean, of normal values.
_OF_MEDIAN = math.sqrt(math.pi / 2.0)


def reliability(probabilities, labels):
    """Return (mean confidence, accuracy, share of the rows) of every bin that is not empty."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    numbers = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    counts = np.bincount(numbers, minlength=N_BINS)
    kept = counts > 0
    means = [
        np.bincount(numbers, values, N_BINS)[kept] / counts[kept] for values in (confidence, right)
    ]
    return (*means, counts[kept] / len(labels))


def calibration_error(probabilities, labels):
    """Return the expected calibration error."""
    confidence, right, share = reliability(probabilities, labels)
    return share @ np.abs(right - confidence)


def area_under_curve(probabilities, labels):
    """Return the area under the ROC curve, for several classes the mean of each against the others."""
    if probabilities.shape[1] == 2:
        return roc_auc_score(labels, probabilities[:, 1])
    return roc_auc_score(labels, probabilities, multi_class="ovr")


def classification_scores(probabilities, labels):
    """Return {name: value} of probabilities of shape (n_rows, n_classes) and labels from 0."""
    cut = np.clip(probabilities, LEAST, 1.0)
    cut = cut / cut.sum(axis=1, keepdims=True)
    return {
        "accuracy": np.mean(probabilities.argmax(axis=1) == labels),
        "log loss": log_loss(labels, cut, labels=np.arange(cut.shape[1])),
        "AUC": area_under_curve(probabilities, labels),
        "calibration": calibration_error(probabilities, labels),
    }


def r_squared(responses, predicted):
    """Return the share of the variance that is explained."""
    rest = np.sum((responses - predicted) ** 2)
    return 1.0 - rest / np.sum((responses - responses.mean()) ** 2)


def interval_scores(low, high, truth):
    """Return {name: value}: the share of intervals that cover, and their mean width."""
    return {"coverage": np.mean((low < truth) & (truth < high)), "width": np.mean(high - low)}


def mean_with_error(values):
    """Return (mean, its standard error); the error is nan for a single value."""
    values = np.asarray(values, dtype=float)
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return float(np.mean(values)), float(error)


def median_with_error(values):
    """Return (median, its standard error); the error is nan for a single value, both for none."""
    values = np.asarray(values, dtype=float)
    if not len(values):
        return math.nan, math.nan
    if len(values) == 1:
        return float(values[0]), math.nan
    error = _OF_MEDIAN * np.std(values, ddof=1) / math.sqrt(len(values))
    return float(np.median(values)), float(error)
