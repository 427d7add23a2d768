"""Categories of what a fit says of itself, beside those of privacy."""

import warnings

from sklearn.exceptions import ConvergenceWarning

from skdpbayes.exceptions import DataScalingWarning, PosteriorWarning

FIT_WARNINGS = (ConvergenceWarning, DataScalingWarning, PosteriorWarning)


def refuse_fit_warnings():
    """Make errors of them, within ``warnings.catch_warnings``."""
    for category in FIT_WARNINGS:
        warnings.simplefilter("error", category)
