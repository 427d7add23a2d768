"""What a pipeline asks of its last step about new rows, besides what scikit-learn's pipelines pass on.

transform of all steps but the last -> a method of the last step
"""

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._typing import MatrixLike, RandomStateLike


def _last_has(name):
    def check(pipeline):
        # Raises an AttributeError that names the step.
        getattr(pipeline._final_estimator, name)
        return True

    return check


class PredictionsMixin:
    """Intervals and draws of responses of new rows, where the last step has them; they spend no budget."""

    _iter: Any
    _final_estimator: Any

    def _of_last(self, name, X, *args, **params):
        check_is_fitted(self)
        for _, _, step in self._iter(with_final=False):
            X = step.transform(X)
        return getattr(self._final_estimator, name)(X, *args, **params)

    @available_if(_last_has("prediction_interval"))
    def prediction_interval(self, X: MatrixLike, level: float = 0.9, **params: Any) -> np.ndarray:
        """Equal-tailed intervals of the responses of new rows. Only if the last step has them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows as in `fit`, before any step.
        level : float, default=0.9
            Posterior predictive probability of each interval, in (0, 1).
        **params : dict
            Passed to the last step, such as ``exposure``.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper ends.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpbayes import DPBayesianRidge
        >>> from skdpbayes.pipeline import make_private_pipeline
        >>> from skdpbayes.preprocessing import BoundedScaler
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 10, size=(5000, 1))
        >>> y = X[:, 0] + rng.normal(size=5000)
        >>> ridge = DPBayesianRidge((-5, 15), data_norm=1.0, random_state=0)
        >>> model = make_private_pipeline(BoundedScaler(0, 10), ridge).fit(X, y)
        >>> low, high = model.prediction_interval([[5.0]], 0.9)[0]
        >>> bool(2.9 < low < 3.9 and 6.1 < high < 7.1)
        True
        """
        return self._of_last("prediction_interval", X, level, **params)

    @available_if(_last_has("posterior_predictive"))
    def posterior_predictive(
        self,
        X: MatrixLike,
        n_draws: int | None = None,
        random_state: RandomStateLike = None,
        **params: Any,
    ) -> np.ndarray:
        """Draw responses of new rows. Only if the last step does.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows as in `fit`, before any step.
        n_draws : int or None, default=None
            None is the number of posterior draws.
        random_state : None, int, RandomState or Generator, default=None
            It need not be kept private.
        **params : dict
            Passed to the last step, such as ``exposure``.

        Returns
        -------
        responses : ndarray of shape (n_draws, n_samples)
        """
        return self._of_last("posterior_predictive", X, n_draws, random_state, **params)
