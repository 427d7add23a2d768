"""Draws of coefficients under their names, from an estimator or a pipeline that ends in one.

    pipeline -> names behind its steps -> last step -> draws of shape (n_draws, n_coefficients)

Everything here is post-processing of what was released.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._estimator.coefficients import with_constant
from .._estimator.intervals import enough_draws, required_pandas, warn_unless_calibrated
from .._typing import RandomStateLike
from ..pipeline._names import last_step
from ._levels import with_references
from ._raw import affine_of, raw_draws

if TYPE_CHECKING:
    import pandas as pd


def named_model(estimator: Any) -> Any:
    """Return the model at the end of a fitted pipeline, under the names that its steps give to its columns.

    A `skdpbayes.pipeline.PrivatePipeline` tells its last step these names by itself. scikit-learn's
    pipelines do not: there the last step sees an array without names.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Fitted: an estimator of this package, a pipeline that ends in one, or a search for one of these.

    Returns
    -------
    model : estimator
        A copy of the last step that shares its draws. Its ``summary``, ``coef_table`` and ``to_arviz`` use
        the names.

    Raises
    ------
    NotFittedError
        If it is not fitted.
    TypeError
        If there is no private posterior at the end.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.inspection import named_model
    >>> from skdpbayes.preprocessing import BoundedScaler
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.uniform(18, 90, 5000)})
    >>> model = DPBayesianLogisticRegression(random_state=0)
    >>> model = make_pipeline(BoundedScaler(18, 90), model).fit(X, X["age"] > 50)
    >>> list(model[-1].summary().index), list(named_model(model).summary().index)
    (['x0', 'intercept'], ['age', 'intercept'])
    """
    estimator = getattr(estimator, "best_estimator_", estimator)
    model, names = estimator, None
    if isinstance(estimator, Pipeline):
        check_is_fitted(estimator)
        model, names = last_step(estimator)
    if not hasattr(model, "_posterior_variables"):
        raise TypeError(
            f"{type(model).__name__} has no private posterior: pass an estimator of skdpbayes, or "
            "a pipeline that ends in one."
        )
    check_is_fitted(model)
    if names is not None:
        model = copy.copy(model)
        model._told_names = names
    return model


def linear_model_of(estimator):
    """Return `named_model`, or raise a TypeError unless it has coefficients."""
    model = named_model(estimator)
    if not hasattr(model, "coef_"):
        raise TypeError(
            f"{type(model).__name__} has no coefficients: pass DPBayesianLogisticRegression, "
            "DPBayesianRidge or DPBayesianPoissonRegressor, or a pipeline that ends in one."
        )
    return model


def draws_of(model, n_draws, random_state):
    """Return draws of a model, new ones if there are few and new ones are free."""
    if n_draws is None:
        return enough_draws(model)
    return model.sample_posterior(n_draws, random_state)


class Blocks(NamedTuple):
    """Draws of shape (n_draws, n_blocks, n), the constant last, and names of the others."""

    model: Any
    draws: np.ndarray
    names: list[str]
    # Those of the names that are reference levels.
    references: tuple[str, ...] = ()


def blocks_of(estimator, n_draws, random_state, raw, reference_levels=None):
    """Return the `Blocks` of a fitted estimator or pipeline with coefficients."""
    model = linear_model_of(estimator)
    warn_unless_calibrated(model)
    draws = draws_of(model, n_draws, random_state)
    names = [str(name) for name in model._column_names()]
    if reference_levels is not None:
        found = affine_of(estimator, model, names)
        return Blocks(model, *with_references(draws, names, found, raw, reference_levels))
    if raw:
        draws, names = raw_draws(estimator, model, draws, names)
    return Blocks(model, draws, names)


def coefficient_draws(
    estimator: Any,
    n_draws: int | None = None,
    random_state: RandomStateLike = 0,
    *,
    raw: bool = False,
) -> pd.DataFrame:
    """Return draws of the coefficients as a data frame: one row a draw, one column a coefficient.

    Whatever is computed from them draw by draw has its posterior. They spend no budget.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Fitted, with coefficients.
    n_draws : int or None, default=None
        Number of draws. None returns those of the fit, or 400 new ones if there are fewer and new ones are
        free.
    random_state : None, int, RandomState or Generator, default=0
        It need not be kept private, because the draws are public.
    raw : bool, default=False
        Whether coefficients are in the units of the columns before scaling; see `raw_coefficients`.

    Returns
    -------
    draws : pandas.DataFrame of shape (n_draws, n_coefficients)
        Columns are names, or ``name[class]`` with more than two classes.

    Raises
    ------
    ImportError
        If pandas is not installed.
    ValueError
        If there are fewer draws than requested, or if there are no coefficients in raw units.
    TypeError
        If the estimator has no coefficients.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.inspection import coefficient_draws
    >>> X, y = make_classification(5000, 4, n_redundant=0, n_informative=4, random_state=0)
    >>> clf = DPBayesianLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
    >>> coefficient_draws(clf, 1000).shape
    (1000, 5)
    """
    pd = required_pandas()
    model, draws, columns, _ = blocks_of(estimator, n_draws, random_state, raw)
    names = with_constant(columns, draws.shape[2])
    if draws.shape[1] > 1:
        names = [f"{name}[{label}]" for label in model.classes_ for name in names]
    return pd.DataFrame(np.reshape(draws, (len(draws), -1)), columns=names)
