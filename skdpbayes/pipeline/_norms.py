"""How long rows can be after the preprocessing steps of a pipeline.

|(x_1, ..., x_m)|^2 = sum_j |x_j|^2 over parallel branches;  |x|^2 <= k for k columns within [-1, 1]

A column of categories becomes indicators with a single 1, and counts as one column within [-1, 1].
"""

import math

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder

from ..preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    FormulaEncoder,
    RowNormClipper,
)
from ._columns import branches, spending_steps

# Warn of a data_norm that is larger than necessary by this factor.
_TOO_LONG = 1.5


def longest_row(step, n_columns, header=None, norm=math.inf):
    """Return a bound on the norm of a step's output rows, inf if there is none.

    Parameters
    ----------
    step : estimator or str
    n_columns : int or None
        Number of input columns.
    header : table without rows, default=None
        The names and types of its columns.
    norm : float, default=inf
        Bound on the norm of input rows.

    Returns
    -------
    norm : float
    """
    if step is None or isinstance(step, str):
        return 0.0 if step == "drop" or n_columns == 0 else norm
    if isinstance(step, Pipeline):
        for _, one in step.steps:
            norm = longest_row(one, n_columns, header, norm)
            n_columns, header = spending_steps(one, n_columns, header)[1], None
        return norm
    if isinstance(step, ColumnTransformer | FeatureUnion):
        if step.transformer_weights:
            return math.inf
        parts = branches(step, n_columns, header)
        return math.hypot(*(longest_row(one, n, part, norm) for _, one, n, part in parts))
    if isinstance(step, RowNormClipper):
        return min(norm, float(step.norm))
    if isinstance(step, FormulaEncoder):
        return step.norm
    within_one = isinstance(step, DPQuantileScaler | DPOneHotEncoder | OneHotEncoder)
    if n_columns is not None and (within_one or isinstance(step, BoundedScaler)):
        largest = 1.0 if within_one else max(map(abs, step.feature_range))
        return largest * math.sqrt(n_columns)
    if isinstance(step, DPImputer) and step.strategy == "constant" and not np.any(step.fill_value):
        indicators = (n_columns or math.inf) if step.add_indicator else 0
        return math.sqrt(norm**2 + indicators)
    return math.inf


def norm_warnings(final, width, norm):
    """Return a tuple with a warning if the last step allows much longer rows than there can be."""
    if not hasattr(final, "data_norm") or not 0 < norm < math.inf:
        return ()
    allowed = final.data_norm
    if allowed is None:
        allowed = math.inf if width is None else math.sqrt(width)
    if isinstance(allowed, str) or allowed <= _TOO_LONG * norm:
        return ()
    given = final.data_norm is not None
    is_now = (
        f"is {final.data_norm:g}"
        if given
        else "is by default the square root of the number of columns"
    )
    return (
        f"no row that reaches the last step is longer than {norm:.4g}, but data_norm {is_now}, and the noise "
        f"is proportional to it: set data_norm={norm:.4g}.",
    )
