"""Private Bayesian Gaussian mixtures: posterior draws, and the density averaged over them.

    p(theta | S)    ~ p(S | theta) p(theta),      S = noisy statistics of the components,
    p(theta | data) ~ prod_i (sum_k w_k N(x_i; m_k, C_k)) p(theta)      without privacy,
    p(x | data)     = mean over draws of sum_k w_k N(x; m_k, C_k).

The order of the components is arbitrary, so draws without privacy are relabelled after sampling.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ._arguments import Interval
from ._data.partitions import by_blocks
from ._data.read import read_table, validate_table
from ._data.table import refuse_weights
from ._estimator.base import (
    POSTERIOR_CONSTRAINTS,
    PrivatePosterior,
)
from ._estimator.fit import fit_posterior
from ._estimator.mixture import (
    COVARIANCE_DIMS,
    MixtureDraws,
    MixturePosterior,
    Mixtures,
    log_density,
    mean_responsibilities,
    relabelled,
    row_limits,
    sample_mixtures,
)
from ._estimator.model_checks import LARGEST_TRACE_SHARE
from ._linalg import inv
from ._typing import MatrixLike, RandomStateLike, Relation
from .exceptions import DataScalingWarning
from .models.mixture import MixtureModel, unpack_mixture
from .privacy.deferred_warnings import warn, warns_last
from .samplers import Sampler
from .samplers.mixture import MixtureSampler

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DPGaussianMixturePosterior", "MixtureDraws"]


def __dir__():
    return __all__


# Prior variance of a component's coordinate, relative to that of a row at the norm bound.
COVARIANCE_SHARE = 0.1
_POSITIVE_NUMBER = Interval(Real, 0, None, closed="neither")
# Learnt norm over the quantile that is drawn: with room above it, the farthest rows of a Gaussian are
# clipped less often.
_NORM_SAFETY_FACTOR = 1.5
# Number of rows that are sampled at once.
_TRIED = 10_000
# One in so many sampled rows, at least, must be within the bounds.
_RAREST = 1000


class DPGaussianMixturePosterior(DensityMixin, PrivatePosterior):
    """Differentially private posterior of a Gaussian mixture.

    A fit releases draws from the posterior of weights, means and covariances under differential privacy. The
    budget is fixed before the data are read. Densities and the probabilities of components average over the
    draws.

    *Public* values are known without the private rows: never compute them from these. For more on each
    parameter, see the page "Parameters in detail" of the documentation.

    Parameters
    ----------
    n_components : int or "auto", default=2
        Number of components. "auto" chooses it from what is released, at no extra cost.
    max_components : int, default=10
        Public number of components that "auto" chooses at most.
    epsilon : float, default=1.0
        Privacy budget, the most that a fit may spend; ``spent_epsilon_`` is what it spent. ``inf`` means no
        privacy.
    delta : float or None, default=None
        By how much the probability of an event may exceed ``exp(epsilon)`` times that on a neighbouring
        table. By default ``min(1e-5, 1 / (10 n))``, with ``n`` the public number of rows.
    data_norm : float, "auto" or None, default=None
        Public length to which longer rows are clipped; noise is proportional to it. By default
        ``sqrt(n_features)``, for columns within [-1, 1]. "auto" learns it for 2% of the budget.
    covariance_type : {"spherical", "diag", "tied", "full"}, default="diag"
        One variance for each component, one for each of its columns, one covariance matrix shared by all
        components, or one for each.
    weight_concentration_prior : float, default=1.0
        Concentration of the symmetric Dirichlet prior of the weights.
    mean_prior_scale : float or None, default=None
        Prior standard deviation of each coordinate of a mean. By default ``data_norm``.
    degrees_of_freedom_prior : float or None, default=None
        Degrees of freedom of the Wishart prior of precision matrices, above ``n_features - 1``, or twice the
        shape of the Gamma prior of precisions. By default ``n_features`` with "tied" and "full", otherwise 1.
    covariance_prior : float or None, default=None
        One over the prior mean of a precision. By default ``0.1 * data_norm ** 2 / n_features``.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        What is protected: the values of a row, with the number of rows public, or the presence of a row.
    max_rows_per_group : int or None, default=None
        Public maximum of the rows of a person that a fit uses, chosen at random. It protects persons, the
        ``groups`` of `fit`, whose number is public under "replace_one". By default rows are protected.
    public_size : int or None, default=None
        Public number of rows for plans, required with "add_or_remove_one", where the true one is private.
        The guarantee covers rounding in tables up to ten times as large.
    sampler : str or Sampler, default="auto"
        Algorithm, by name or as an object of `skdpbayes.samplers`. By default "noise_aware", the posterior
        given noisy statistics of the components, and without privacy "gibbs".
    n_draws : int or "auto", default="auto"
        Number of draws to keep. By default 100.
    random_state : None, int, RandomState instance or Generator, default=None
        None takes the operating system's randomness: keep it for private rows. *A seed voids the guarantee*
        if it is known or repeated.
    verbose : int, default=0
        Show progress if positive.

    Attributes
    ----------
    n_components_ : int
        Number of components of the draws.
    weights_ : ndarray of shape (n_components,)
        Posterior means of the weights, in descending order.
    means_ : ndarray of shape (n_components, n_features)
        Posterior means of the components' means.
    covariances_ : ndarray
        Posterior means of the covariances, of the same shape as in ``GaussianMixture``: (n_components,) if
        "spherical", (n_components, n_features) if "diag", (n_features, n_features) if "tied", and
        (n_components, n_features, n_features) if "full".
    precisions_ : ndarray
        Inverse of ``covariances_``, of the same shape.
    posterior_samples_ : MixtureDraws
        The draws, with consistent labels of the components.
    data_norm_ : float
        Norm to which rows are clipped.
    spent_epsilon_, spent_delta_ : float
        Cost of the fit, as planned: at most ``epsilon`` at ``delta``.
    privacy_cost_ : PrivacyCost
        The cost itself; it converts to any (epsilon, delta) and composes with ``+``.
    plan_ : Plan
        What was released, and what it cost. Printing it gives a readable summary.
    temperature_ : float
        Temperature of the draws, which is 1.
    released_ : Bunch
        What was released besides the draws. With "noise_aware" ``posterior``, from which more are drawn, and
        ``r_hat`` and ``effective_sample_size``, of shape (n_parameters,), of the chains that drew.
    n_iter_ : int
        Number of passes over the table.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if ``X`` had any.

    Warns
    -----
    PrivacyWarning
        If ``random_state`` is given (at every fit), if delta is above one over the number of rows, or
        if a fit is interrupted, which spends its whole plan.
    PosteriorWarning
        If there are too few rows for so many components.
    DataScalingWarning
        If most rows seem to be clipped.

    See Also
    --------
    skdpbayes.preprocessing.BoundedScaler : Scaling that spends no budget.
    skdpbayes.privacy.PrivacyLedger : A budget for several fits.

    Notes
    -----
    Rows are clipped to ``data_norm`` in `fit` only, because a density of clipped rows would not integrate to
    one.

    Draws of "noise_aware" surround one mode of the posterior, and intervals do not account for other modes.
    Draws of "gibbs" may switch the labels of the components, so they are relabelled by Stephens' algorithm
    [1]_, with the Kullback-Leibler divergence of weighted components as its loss. Components are sorted by
    their mean weight.

    Methods of scikit-learn's ``GaussianMixture`` that read the training table again are left out, because no
    plan covers them: ``fit_predict``, ``aic`` and ``bic``. `predict` and `score` are for other rows, and what
    they return is as private as those rows.

    References
    ----------
    .. [1] M. Stephens, "Dealing with label switching in mixture models", Journal of the Royal Statistical
       Society B, 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.mixture import DPGaussianMixturePosterior
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(rng.choice([-1.0, 1.0], size=(5000, 1)), 0.3, size=(5000, 2))
    >>> mixture = DPGaussianMixturePosterior(2, epsilon=1.0, random_state=0).fit(X)
    >>> mixture.spent_epsilon_ <= 1.0
    True
    >>> mixture.means_.shape
    (2, 2)
    >>> mixture.predict_proba(X[:3]).shape
    (3, 2)
    """

    covariances_: np.ndarray
    means_: np.ndarray
    n_components_: int
    posterior_samples_: MixtureDraws
    precisions_: np.ndarray
    weights_: np.ndarray
    _mixtures: Mixtures

    _reads_collections = True
    _parameter_constraints = {
        **POSTERIOR_CONSTRAINTS,
        "n_components": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "max_components": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions(set(COVARIANCE_DIMS))],
        "weight_concentration_prior": [_POSITIVE_NUMBER],
        "mean_prior_scale": [None, _POSITIVE_NUMBER],
        "degrees_of_freedom_prior": [None, _POSITIVE_NUMBER],
        "covariance_prior": [None, _POSITIVE_NUMBER],
    }

    def __init__(
        self,
        n_components: int | Literal["auto"] = 2,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        covariance_type: Literal["spherical", "diag", "tied", "full"] = "diag",
        data_norm: float | Literal["auto"] | None = None,
        weight_concentration_prior: float = 1.0,
        mean_prior_scale: float | None = None,
        degrees_of_freedom_prior: float | None = None,
        covariance_prior: float | None = None,
        sampler: str | Sampler = "auto",
        n_draws: int | Literal["auto"] = "auto",
        max_components: int = 10,
        neighboring_relation: Relation = "replace_one",
        public_size: int | None = None,
        max_rows_per_group: int | None = None,
        random_state: RandomStateLike = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.covariance_type = covariance_type
        self.data_norm = data_norm
        self.weight_concentration_prior = weight_concentration_prior
        self.mean_prior_scale = mean_prior_scale
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.sampler = sampler
        self.n_draws = n_draws
        self.max_components = max_components
        self.neighboring_relation = neighboring_relation
        self.public_size = public_size
        self.max_rows_per_group = max_rows_per_group
        self.random_state = random_state
        self.verbose = verbose

    # From public quantities

    def _sampler(self):
        return MixtureSampler(super()._sampler(), chooses=self.n_components == "auto")

    def _bounds_to_learn(self):
        learns = super()._bounds_to_learn()
        return learns._replace(
            norm_safety_factor=_NORM_SAFETY_FACTOR,
            at_norm=lambda model, norm: self._model(model.n_features, norm),
        )

    def _model(self, n_features, norm=None):
        """The public numbers of the model, with defaults in place of None."""
        norm = self._clip_norm(n_features) if norm is None else norm
        degrees, covariance = self.degrees_of_freedom_prior, self.covariance_prior
        if degrees is None:
            degrees = n_features if self.covariance_type in ("tied", "full") else 1
        if covariance is None:
            covariance = COVARIANCE_SHARE * norm * norm / n_features
        return MixtureModel(
            n_components=int(
                self.max_components if self.n_components == "auto" else self.n_components
            ),
            n_features=n_features,
            covariance_type=self.covariance_type,
            data_norm=norm,
            weight_concentration=float(self.weight_concentration_prior),
            mean_scale=norm if self.mean_prior_scale is None else float(self.mean_prior_scale),
            degrees_of_freedom=float(degrees),
            covariance=float(covariance),
        )

    # From the table

    def _read(self, X, y=None, groups=None, client=None, **others):
        refuse_weights(self, others)
        self._validate_params()
        return read_table(self, X, groups=groups, client=client, accept_sparse=False)

    @warns_last
    def fit(
        self,
        X: MatrixLike,
        y: Any = None,
        groups: ArrayLike | None = None,
        *,
        client: Any = None,
        **others: Any,
    ) -> Self:
        """Draw from the posterior, within the budget.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Dense. Rows longer than ``data_norm`` are clipped to it.
        y : ignored
        groups : array-like of shape (n_samples,), default=None
            The person each row belongs to; required with ``max_rows_per_group``.
        client : distributed.Client or None, default=None
            Dask client for collections. None uses the current client, or this process if there is none.
        **others : dict
            Refused, including ``sample_weight``: every row has weight 1.

        Returns
        -------
        self : DPGaussianMixturePosterior

        Raises
        ------
        ValueError, TypeError
            If a parameter or the table is invalid, or if the options contradict each other. Nothing
            is spent.
        BudgetExceededError
            If an active `PrivacyLedger` does not allow the plan. Nothing is spent.
        """
        reading = self._read(X, y, groups, client, **others)
        model, draws, _, diagnostics = fit_posterior(
            self, reading, lambda table: self._model(table.n_features)
        )
        posterior = diagnostics.posterior
        if posterior is not None:
            model = posterior.density.model
        self.data_norm_, self.n_components_ = model.data_norm, model.n_components
        weights, means, factors = unpack_mixture(draws, model)
        order = None
        if posterior is not None:
            # Draws around one mode share their labels, and later draws must have the same.
            order = np.argsort(-weights.mean(axis=0), kind="stable")
        self._summarise(weights, means, factors, order)
        share = self._mean_square_length() / self.data_norm_**2
        if self.plan_.bound_release is None and share > LARGEST_TRACE_SHARE:
            warn(
                f"squares of lengths of rows are {min(share, 1.0):.0%} of those that data_norm="
                f"{self.data_norm_:.3g} allows, by the fitted components: unless rows were scaled to this "
                "length on purpose, most are clipped, and components are those of clipped rows. Scale the "
                "columns, set data_norm to a public bound that most rows keep, or data_norm='auto'; fitting "
                "again spends budget again.",
                DataScalingWarning,
            )
        return self

    def _mean_square_length(self):
        """The mean of ``|x|^2`` under the fitted components."""
        covariances = self.covariances_
        traces = {
            "spherical": lambda: covariances * self.means_.shape[1],
            "diag": lambda: covariances.sum(axis=1),
            "tied": lambda: np.trace(covariances),
            "full": lambda: np.trace(covariances, axis1=1, axis2=2),
        }[self.covariance_type]()
        return float(self.weights_ @ ((self.means_**2).sum(axis=1) + traces))

    # From the draws

    def _summarise(self, weights, means, factors, order=None):
        """Set the relabelled draws, and their means."""
        self._order = order
        self._mixtures, draws = relabelled(weights, means, factors, self.covariance_type, order)
        self.posterior_samples_ = draws
        self.weights_, self.means_, self.covariances_ = (part.mean(axis=0) for part in draws)
        if self.covariance_type in ("spherical", "diag"):
            self.precisions_ = 1.0 / self.covariances_
        else:
            self.precisions_ = inv(self.covariances_)

    def _validated(self, X):
        check_is_fitted(self)
        return validate_table(self, X, reset=False, accept_sparse=False)

    @by_blocks
    def score_samples(self, X: MatrixLike) -> np.ndarray:
        """Log of the density, averaged over the draws (the posterior predictive).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, which are not clipped.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            Always finite, even for rows so far away that squares overflow.
        """
        return log_density(self._validated(X), self._mixtures)

    def score(self, X: MatrixLike, y: Any = None) -> float:
        """Mean log density of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, which are not clipped.
        y : ignored

        Returns
        -------
        score : float
        """
        return float(self.score_samples(X).mean())

    @by_blocks
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the components, averaged over the draws.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, which are not clipped.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_components)
            Mean over draws of ``p(component | x, draw)``.
        """
        return mean_responsibilities(self._validated(X), self._mixtures)

    @by_blocks
    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most probable component.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, which are not clipped.

        Returns
        -------
        labels : ndarray of int of shape (n_samples,)
        """
        return self.predict_proba(X).argmax(axis=1)

    def sample(
        self,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = None,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sample new rows from the posterior predictive; this spends no budget and may be repeated.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows. Each is sampled from one component of one draw, both chosen at random.
        random_state : None, int or RandomState, default=None
            It need not be kept private, because the draws are public.
        bounds : tuple of (low, high) or None, default=None
            Limits of the rows, in the units of the columns: two numbers, or one of each for every column.
            Rows outside are sampled again, so that rows follow the predictive distribution given the bounds.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows, independent given the draws.
        labels : ndarray of int of shape (n_samples,)
            Their components.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer, if ``bounds`` are invalid, or if fewer than one row in
            a thousand is within them.
        """
        check_is_fitted(self)
        if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be a positive integer, got {n_samples!r}.")
        rng = check_random_state(random_state)
        if bounds is None:
            return sample_mixtures(int(n_samples), self._mixtures, rng)
        low, high = row_limits(bounds, self.n_features_in_)
        accepted, missing, tried = [], int(n_samples), 0
        while missing:
            size = max(missing, _TRIED)
            rows, labels = sample_mixtures(size, self._mixtures, rng)
            kept = np.flatnonzero(((low <= rows) & (rows <= high)).all(axis=1))[:missing]
            accepted.append((rows[kept], labels[kept]))
            missing, tried = missing - len(kept), tried + size
            if missing and (n_samples - missing) * _RAREST < tried:
                raise ValueError(
                    f"only {n_samples - missing} of {tried:,} rows were within the bounds, too few to "
                    "continue: use wider bounds, in the units of the columns that fit was given."
                )
        return tuple(np.concatenate(parts) for parts in zip(*accepted, strict=True))

    def sample_posterior(  # type: ignore[override]  # Its draws are mixtures, and no array.
        self, n_draws: int | None = None, random_state: RandomStateLike = None
    ) -> MixtureDraws:
        """Draws from the posterior; this spends no budget and may be repeated.

        Parameters
        ----------
        n_draws : int or None, default=None
            Number of draws. None returns all of ``posterior_samples_``.
        random_state : None, int, RandomState or Generator, default=None
            Randomness of the choice, or of new draws. It need not be kept private, because the draws are
            public.

        Returns
        -------
        draws : MixtureDraws
            By default, under privacy, any number of new draws given what was released. With "gibbs" copies of
            some of ``posterior_samples_``, in their order along the chain.

        Raises
        ------
        ValueError
            If "gibbs" has kept fewer draws than requested.
        """
        return self._posterior.draw(n_draws, random_state)

    def posterior_interval(self, level: float = 0.9) -> MixtureDraws:
        """Equal-tailed posterior intervals of weights, means and covariances; they spend no budget.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        interval : MixtureDraws
            Lower and upper ends along a last axis of length 2: ``weights`` of shape (n_components, 2),
            ``means`` of shape (n_components, n_features, 2), and ``covariances`` of the shape of
            ``covariances_`` followed by 2.

        Raises
        ------
        ValueError
            If ``level`` is out of range.

        Warns
        -----
        UserWarning
            If the posterior is not calibrated, as that of a sampler of your own may be.

        Notes
        -----
        Intervals describe the components around one mode of the posterior. They do not account for other
        modes.
        """
        return self._posterior.interval(level)

    def summary(self, level: float = 0.9) -> pd.DataFrame:
        """Table of the parameters: means, deviations, intervals, and what privacy adds to their width.

        Requires pandas. It spends no budget.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of the intervals.

        Returns
        -------
        table : pandas.DataFrame
            One row for each parameter, with names such as ``means[0, age]``. The columns are ``mean``,
            ``sd``, the ends of the interval (named by their percentages), ``sd_without_privacy`` (an estimate
            from what was released), and ``share_of_privacy``, the share of the width that privacy adds. The
            last two are nan if the posterior is not calibrated.

        Raises
        ------
        ImportError
            If pandas is not installed.
        ValueError
            If ``level`` is out of range.
        """
        return self._posterior.summary(level)

    def _drawn_posterior(self, **shared):
        return MixturePosterior(**shared, covariance_type=self.covariance_type, order=self._order)
