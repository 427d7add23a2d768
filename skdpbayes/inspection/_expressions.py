"""Values of contrasts and statements in all draws.

    w^T theta,      an expression in names of coefficients,      f(frame of draws)

Everything here is post-processing of what was released.
"""

from collections.abc import Mapping

import numpy as np

from .._checks import is_number
from .._estimator.intervals import required_pandas


def contrasted(contrasts, draws):
    """Return {name: values of all draws} of contrasts in any form."""
    names = list(draws.columns)
    if isinstance(contrasts, str):
        contrasts = [contrasts]
    if isinstance(contrasts, list | tuple) and all(isinstance(one, str) for one in contrasts):
        contrasts = {text: text for text in contrasts}
    if hasattr(contrasts, "columns"):
        contrasts = _of_rows(contrasts)
    if isinstance(contrasts, Mapping) and contrasts:
        return {name: _quantity(one, draws) for name, one in contrasts.items()}
    weights = np.atleast_2d(_numbers(contrasts))
    if weights.ndim != 2 or weights.shape[1] != len(names):
        raise ValueError(
            f"contrasts of shape {weights.shape} do not have weights for the {len(names)} coefficients "
            f"{names}."
        )
    return dict(enumerate(weights @ draws.to_numpy().T))


def true_where(statement, draws):
    """Return in which draws a statement is true, or raise a ValueError."""
    found = np.asarray(_evaluated(statement, draws))
    if found.dtype != bool or found.shape not in ((), (len(draws),)):
        raise ValueError(
            f"{statement!r} must be true or false of each draw, as 'x0 > 0' is: it is of type {found.dtype}."
        )
    return found


def _of_rows(frame):
    """Return {name: weights} of the rows of a data frame."""
    pd = required_pandas()
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(
            f"contrasts must be a data frame of pandas, whose index names them, got {type(frame).__name__}: "
            "use its to_pandas(), or a dict."
        )
    if not (frame.index.is_unique and frame.columns.is_unique):
        raise ValueError("contrasts must have an index and columns without repeated names.")
    return frame.to_dict(orient="index")


def _numbers(weights):
    try:
        found = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.array([np.nan])
    if not found.size or not np.isfinite(found).all():
        raise ValueError(
            "contrasts must have finite numbers as weights: 0 for what does not count."
        )
    return found


def _quantity(contrast, draws):
    """Return the values of a contrast, of shape (n_draws,)."""
    if not isinstance(contrast, Mapping):
        return _broadcast(contrast, draws)
    weights = np.zeros(draws.shape[1])
    for name, weight in contrast.items():
        if not is_number(weight) or not np.isfinite(weight):
            raise ValueError(
                f"contrasts must have finite numbers as weights, got {weight!r} for {name!r}: "
                "0 is for what does not count."
            )
        weights[_column(name, draws)] = weight
    return draws.to_numpy() @ weights


def _broadcast(contrast, draws):
    found = _evaluated(contrast, draws)
    try:
        return np.broadcast_to(np.asarray(found, dtype=float), len(draws))
    except (TypeError, ValueError):
        raise ValueError(f"the contrast {contrast!r} must be a number for each draw.") from None


def _column(name, draws):
    if name not in draws.columns:
        raise ValueError(f"there is no coefficient {name!r}, only {list(draws.columns)}.")
    return draws.columns.get_loc(name)


def _evaluated(statement, draws):
    if callable(statement):
        return statement(draws)
    if not isinstance(statement, str):
        raise TypeError(
            f"{statement!r} must be an expression in names of coefficients, or a function of draws."
        )
    pd = required_pandas()
    errors = (SyntaxError, KeyError, ValueError, TypeError, NotImplementedError, AttributeError)
    try:
        return draws.eval(statement, engine="python")
    except (pd.errors.UndefinedVariableError, *errors) as error:
        raise ValueError(
            f"{statement!r} cannot be evaluated ({error}): the coefficients are {list(draws.columns)}; "
            "names that are no words stand within backticks."
        ) from error
