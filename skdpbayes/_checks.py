"""Checks of public arguments that every part of the package shares."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_scalar


def check_sizes(least=1, **sizes):
    """Raise a TypeError or a ValueError unless all sizes are integers of at least ``least``."""
    for name, value in sizes.items():
        if np.ndim(value) or value is None:
            raise TypeError(
                f"{name} must be an instance of int, not {type(value).__name__}: a plan takes sizes and no "
                "data, as in privacy_plan(*X.shape)."
            )
        check_scalar(value, name, Integral, min_val=least)


def check_level(level):
    """Raise a ValueError unless a level is a number in (0, 1)."""
    if not (isinstance(level, Real) and 0 < level < 1):
        raise ValueError(
            f"level must be a number in (0, 1), e.g. 0.9 for 90 percent, got {level!r}."
        )
