"""What a pipeline asks of its last step, besides what scikit-learn's pipelines pass on.

of new rows:      transform of all steps but the last -> a method of the last step
of coefficients:  a method of the last step, which has been told the names of its columns
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._tables.collections import is_collection
from .._typing import MatrixLike, RandomStateLike
from ._collections import transformed

if TYPE_CHECKING:
    import pandas as pd


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
            X = transformed(step, X) if is_collection(X) else step.transform(X)
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


class CoefficientsOfLastMixin:
    """Tables and draws of the last step's parameters, where it has them; they spend no budget."""

    _final_estimator: Any

    def _from_last(self, name, *args):
        check_is_fitted(self)
        return getattr(self._final_estimator, name)(*args)

    @available_if(_last_has("summary"))
    def summary(self, level: float = 0.9) -> pd.DataFrame:
        """Table of the last step's parameters, under the names that the steps before give to its columns.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of the intervals.

        Returns
        -------
        table : pandas.DataFrame
            As `DPBayesianLogisticRegression.summary` has it: one row for each parameter, in the units of
            the columns that reach the last step.

        See Also
        --------
        skdpbayes.inspection.raw_coefficients : In the units of the columns before scaling.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skdpbayes import DPBayesianLogisticRegression
        >>> from skdpbayes.pipeline import make_private_pipeline
        >>> from skdpbayes.preprocessing import BoundedScaler
        >>> rng = np.random.default_rng(0)
        >>> X = pd.DataFrame({"age": rng.uniform(18, 90, 5000)})
        >>> y = rng.random(5000) < X["age"] / 100
        >>> model = DPBayesianLogisticRegression(random_state=0)
        >>> model = make_private_pipeline(BoundedScaler(18, 90), model).fit(X, y)
        >>> list(model.summary().index)
        ['age', 'intercept']
        """
        return self._from_last("summary", level)

    @available_if(_last_has("coef_table"))
    def coef_table(self, level: float = 0.9) -> pd.DataFrame:
        """Table of the last step's coefficients to publish, under the names of its columns.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of the intervals.

        Returns
        -------
        table : pandas.DataFrame
            As `DPBayesianLogisticRegression.coef_table` has it.
        """
        return self._from_last("coef_table", level)

    @available_if(_last_has("posterior_interval"))
    def posterior_interval(self, level: float = 0.9) -> Any:
        """Equal-tailed posterior intervals of the last step's parameters.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        interval : ndarray of shape (1 or n_classes, n_features + fit_intercept, 2) or MixtureDraws
            As the last step has it.
        """
        return self._from_last("posterior_interval", level)

    @available_if(_last_has("sample_posterior"))
    def sample_posterior(
        self, n_draws: int | None = None, random_state: RandomStateLike = None
    ) -> Any:
        """Return draws of the last step's parameters.

        Parameters
        ----------
        n_draws : int or None, default=None
            Number of draws. None returns all that were released.
        random_state : None, int, RandomState or Generator, default=None
            It need not be kept private, because the draws are public.

        Returns
        -------
        draws : ndarray of shape (n_draws, ...) or MixtureDraws
            As the last step has it.
        """
        return self._from_last("sample_posterior", n_draws, random_state)
