"""Warnings in which a fit speaks of itself, as errors."""

import warnings

from benchmarks.common import FIT_WARNINGS


def refuse_fit_warnings():
    """Make errors of them, within ``warnings.catch_warnings``."""
    for category in FIT_WARNINGS:
        warnings.simplefilter("error", category)
