"""Second moments of a target's rows, followed by the constant ``b`` of their intercept.

A = sum_i z_i z_i^T,      z_i = (scale_i x_i, b)
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ..._silence import silently
from .blocks import sum_of_blocks


@silently()
def second_moment(
    target: Any, constant: float | None = None, weights: np.ndarray | None = None
) -> np.ndarray:
    """Sum of ``z z^T`` over the records, weighted if asked for. **It is not private.**

    Parameters
    ----------
    target : NamedTuple
        A linear model's target.
    constant : float or None, default=None
        A constant column in the intercept's place; None is the intercept's, if there is one.
    weights : ndarray of shape (n_samples,) or None, default=None
        What records count, not negative; None is 1.

    Returns
    -------
    moment : ndarray of shape (length, length)
        With a last row and column for a constant other than zero.
    """
    constant = target.constant if constant is None else constant

    def of_block(part, block):
        factors = np.ones(block.scale.size) if weights is None else weights[part]
        return (replace(block, constant=constant).moment(factors),)

    return sum_of_blocks(target, of_block)[0]
