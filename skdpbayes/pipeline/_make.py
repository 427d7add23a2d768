"""A private pipeline from its steps alone."""

from typing import Any

from sklearn.pipeline import _name_estimators

from ._pipeline import PrivatePipeline


def make_private_pipeline(
    *steps: Any,
    epsilon: float = 1.0,
    delta: float | None = None,
    shares: dict[str, float] | None = None,
    strict: bool = False,
    learns_nothing: list[str] | None = None,
    max_rows_per_group: int | None = None,
    memory: Any = None,
    verbose: bool = False,
) -> PrivatePipeline:
    """Make a pipeline whose private steps share one budget; steps are named as in `make_pipeline`.

    Parameters
    ----------
    *steps : estimators
    epsilon, delta, shares, strict, learns_nothing, max_rows_per_group, memory, verbose
        As for `PrivatePipeline`.

    Returns
    -------
    pipeline : PrivatePipeline

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.pipeline import make_private_pipeline
    >>> from skdpbayes.preprocessing import DPImputer, DPQuantileScaler
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(1e4, 2e3, (5000, 3))
    >>> y = (X[:, 0] > 1e4).astype(int)
    >>> X[::7, 1] = np.nan
    >>> clf = make_private_pipeline(
    ...     DPQuantileScaler(random_state=0),
    ...     DPImputer(),
    ...     DPBayesianLogisticRegression(classes=[0, 1], random_state=0),
    ...     epsilon=1.0,
    ... ).fit(X, y)
    >>> 0.99 < clf.spent_epsilon_ <= 1.0, clf.score(X, y) > 0.9
    (True, True)
    """
    return PrivatePipeline(
        _name_estimators(steps),
        epsilon=epsilon,
        delta=delta,
        shares=shares,
        strict=strict,
        learns_nothing=learns_nothing,
        max_rows_per_group=max_rows_per_group,
        memory=memory,
        verbose=verbose,
    )
