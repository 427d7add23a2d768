"""How long rows can be after the preprocessing steps of a pipeline.

|(x_1, ..., x_m)|^2 = sum_j |x_j|^2 over parallel branches;  |x|^2 <= k for k columns within [-1, 1]

A column of categories becomes indicators with a single 1, and counts as one column within [-1, 1].
"""

import math

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder

from .._checks import is_number
from ..preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    FormulaEncoder,
    RowNormClipper,
)
from ..targets._clipping import NORMS
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


def longest_last_row(pipeline, final, n_columns, header=None):
    """Public bound on the norm of rows that reach the last step, None if there is none.

    Parameters
    ----------
    pipeline : Pipeline
    final : estimator
        Its last private step; it may be the end of a pipeline that is the last step.
    n_columns : int or None
        Number of columns of the table.
    header : table without rows, default=None
        The names and types of its columns.

    Returns
    -------
    norm : float or None
    """
    before, last = [], pipeline
    while isinstance(last, Pipeline) and last is not final:
        before += last.steps[:-1]
        last = last.steps[-1][1]
    if last is not final or not before:
        return None
    norm = longest_row(Pipeline(before), n_columns, header)
    return norm if NORMS[0] <= norm <= NORMS[1] else None


def norm_warnings(final, norm):
    """Return a tuple with a warning if a last step's own ``data_norm`` is far above the longest row."""
    allowed = getattr(final, "data_norm", None)
    if norm is None or not is_number(allowed) or allowed <= _TOO_LONG * norm:
        return ()
    return (
        f"no row that reaches the last step is longer than {norm:.4g}, but data_norm is {allowed:g}, and the "
        f"noise is proportional to it: leave data_norm out, and the pipeline sets it to {norm:.4g}.",
    )
