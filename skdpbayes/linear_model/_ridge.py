"""Private Bayesian linear regression: numbers within public bounds, with normal noise that is learnt.

p(theta, s | data) ~ prod_i N(y_i; x_i . beta + b, s^2) p(theta) p(s),
E[y | x, data] = the mean over draws of x . beta + b
"""

from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import r2_score
from sklearn.utils._param_validation import StrOptions

from .._arguments import Interval, Pair, is_number
from .._data.partitions import by_blocks
from .._estimator.regressor import PrivateRegressor
from .._mechanisms.exponential import short_decimals
from .._typing import MatrixLike, RandomStateLike, Relation
from ..exceptions import DataScalingWarning
from ..models.families import Normal
from ..models.families.normal import ErrorLaw
from ..privacy.deferred_warnings import warn, warns_last
from ..privacy.planned_release import Disclosure, as_json
from ..samplers import Sampler
from ._base import LINEAR_CONSTRAINTS, LinearPosterior

# With target_bounds="auto": deviations between the middle of the quantiles and either bound, as far as the
# quantiles of a normal law tell.
_BOUND_Z_SCORE = 4.0
# Least distance of either bound from the middle, in numbers of four digits, where quantiles were rounded to
# these or are equal.
_LEAST_DISTANCE_IN_DIGITS = 4.0
# Distance of numbers of four digits around 0.
_LEAST_HALF_WIDTH = 1e-6
# Clip of residuals where the noise is given, over its deviation: hardly any normal error is larger.
_NOISE_SCALES_OF_CLIP = 4.0
# Largest ratio of the noise and the distance of the bounds, or of the latter and the former.
_LARGEST_NOISE_RATIO = 1e6
# Learnt bounds are told of if the farther is as many times as far from the middle as responses spread, apart
# from residuals that are clipped.
_LARGEST_BOUNDS_RATIO = 100.0


def _spacing(quantile):
    """Distance between numbers of four digits, the same around 0 as around other small ones."""
    return short_decimals().spacing(quantile) or _LEAST_HALF_WIDTH


class DPBayesianRidge(LinearPosterior, PrivateRegressor):
    """Differentially private Bayesian linear regression.

    A fit releases draws from the posterior of a linear model with normal errors under differential privacy.
    It learns the standard deviation of the errors and the prior scale. The budget is fixed before the data
    are read.

    *Public* values are known without the private rows: never compute them from these. For more on each
    parameter, see the page "Parameters in detail" of the documentation.

    Parameters
    ----------
    target_bounds : (float, float) or "auto", default="auto"
        Public bounds of responses, the lower first; others are moved to the nearer bound. By default a fit
        learns wide ones, for 4% of the budget.
    epsilon : float, default=1.0
        Privacy budget, the most that a fit may spend; ``spent_epsilon_`` is what it spent. ``inf`` means no
        privacy.
    delta : float or None, default=None
        By how much the probability of an event may exceed ``exp(epsilon)`` times that on a neighbouring
        table. By default ``min(1e-5, 1 / (10 n))``, with ``n`` the public number of rows.
    data_norm : float, "auto" or None, default=None
        Public length to which longer rows are clipped; noise is proportional to it. By default
        ``sqrt(n_features)``, for columns within [-1, 1]. "auto" learns it for 2% of the budget.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    prior_scale, intercept_prior_scale : float or None, default=None
        Prior standard deviations of coefficients, in units of ``y`` per unit of a column, and of the
        intercept around the middle of the bounds. By default a fit learns both, at no cost.
    intercept_scaling : float or None, default=None
        Size of the constant column of the intercept, which does not change the posterior. By default chosen
        to suit the prior.
    noise_scale : float or None, default=None
        Public standard deviation of errors, in units of ``y``. By default learnt, for up to 200 coefficients;
        required with more.
    max_sample_weight : float, default=1.0
        Public maximum of ``sample_weight``. Larger weights are reduced to it; noise is proportional to it.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        What is protected: the values of a row, with the number of rows public, or the presence of a row.
    max_rows_per_group : int or None, default=None
        Public maximum of the rows of a person that a fit uses, chosen at random. It protects persons, the
        ``groups`` of `fit`, whose number is public under "replace_one". By default rows are protected.
    public_size : int or None, default=None
        Public number of rows for plans, required with "add_or_remove_one", where the true one is private.
        The guarantee covers rounding in tables up to ten times as large.
    sampler : str or Sampler, default="auto"
        Algorithm, by name or as an object of `skdpbayes.samplers`. By default the posterior given noisy sums
        for up to 200 coefficients, otherwise a Markov chain, which needs ``noise_scale`` and whose intervals
        are not calibrated.
    n_draws : int or "auto", default="auto"
        Number of draws to keep. By default 400, 1,000 without privacy, or what suits the sampler.
    random_state : None, int, RandomState instance or Generator, default=None
        None takes the operating system's randomness: keep it for private rows. *A seed voids the guarantee*
        if it is known or repeated.
    verbose : int, default=0
        Show progress if positive.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Posterior means of the coefficients.
    intercept_ : float
        Posterior mean of the intercept; 0 without one.
    sigma_ : ndarray of shape (n_features, n_features)
        Posterior covariance of the coefficients.
    alpha_ : float
        Precision of the errors: one over the square of the median of ``noise_samples_``.
    lambda_ : float
        Precision of the coefficients' prior: its posterior mean, or ``prior_scale ** -2``. If the sampler
        does not release it, an estimate from the draws of the coefficients.
    posterior_samples_ : ndarray of shape (n_draws, 1, n_features + fit_intercept)
        The draws, the intercept last.
    noise_samples_ : ndarray of shape (n_draws,)
        Standard deviation of the errors in each draw.
    target_bounds_ : tuple of (float, float)
        The bounds of responses, as given or learnt.
    data_norm_ : float
        Norm to which rows are clipped.
    spent_epsilon_, spent_delta_ : float
        Cost of the fit, as planned: at most ``epsilon`` at ``delta``.
    privacy_cost_ : PrivacyCost
        The cost itself; it converts to any (epsilon, delta) and composes with ``+``.
    plan_ : Plan
        What the fit did; printing it gives a readable summary.
    temperature_ : float
        Temperature of the draws, by default 1; see `DPBayesianLogisticRegression`.
    released_ : Bunch
        What was released besides the draws; "Parameters in detail" says what each entry is. By default that
        of `DPBayesianLogisticRegression`, without ``rarest_class``, and ``noise_deviations``,
        ``chi2_per_dof``, ``chi2_dof`` and ``hidden_directions``; with an intercept and enough rows also
        ``asymmetry``, ``error_skewness`` and ``noise_of_skewed_slopes``. Without
        privacy ``repeated_columns``, ``noise_deviations`` and ``prior_scale``.
    n_iter_ : int
        Number of updates; by default, of noisy sums. ``plan_.n_passes`` has the passes over the table.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if ``X`` had any.

    See Also
    --------
    DPBayesianPoissonRegressor : For counts.
    skdpbayes.models.Normal : The distribution of responses, with its bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.linear_model import DPBayesianRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5000, 3))
    >>> y = X @ [1.0, -0.5, 0.0] + 0.3 * rng.normal(size=5000)
    >>> model = DPBayesianRidge((-4.0, 4.0), epsilon=1.0, random_state=0).fit(X, y)
    >>> mean, deviation = model.predict(X[:2], return_std=True)
    >>> bool((abs(deviation - 0.3) < 0.05).all()), model.spent_epsilon_ <= 1.0
    (True, True)
    """

    _parameter_constraints = {
        "target_bounds": [StrOptions({"auto"}), Pair()],
        "noise_scale": [None, Interval(Real, 0, None, closed="neither")],
        **LINEAR_CONSTRAINTS,
    }
    _public_bounds: tuple[float, float] | None = None
    _search_score = "neg_mean_absolute_error"  # Unless bounds are narrow, noise hides R2.
    _score: Callable[..., float] = staticmethod(r2_score)

    def __init__(
        self,
        target_bounds: tuple[float, float] | Literal["auto"] = "auto",
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        sampler: str | Sampler = "auto",
        noise_scale: float | None = None,
        data_norm: float | Literal["auto"] | None = None,
        prior_scale: float | None = None,
        intercept_prior_scale: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        max_sample_weight: float = 1.0,
        n_draws: int | Literal["auto"] = "auto",
        neighboring_relation: Relation = "replace_one",
        public_size: int | None = None,
        max_rows_per_group: int | None = None,
        random_state: RandomStateLike = None,
        verbose: int = 0,
    ):
        self.target_bounds = target_bounds
        self.epsilon = epsilon
        self.delta = delta
        self.sampler = sampler
        self.noise_scale = noise_scale
        self.data_norm = data_norm
        self.prior_scale = prior_scale
        self.intercept_prior_scale = intercept_prior_scale
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.max_sample_weight = max_sample_weight
        self.n_draws = n_draws
        self.neighboring_relation = neighboring_relation
        self.public_size = public_size
        self.max_rows_per_group = max_rows_per_group
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _learns_target_bounds(self):
        return isinstance(self.target_bounds, str)

    def _bounds_to_learn(self):
        sides = ("low", "high") if self._learns_target_bounds else ()
        learns = super()._bounds_to_learn()
        return learns._replace(sides=sides, at_responses=self._with_drawn_bounds)

    def _fact_of_responses(self):
        learnt = self._learns_target_bounds
        used = getattr(self, "target_bounds_", None) if learnt else self.target_bounds
        return Disclosure("range of responses", as_json(used), "learnt" if learnt else "declared")

    def _family(self):
        if self._learns_target_bounds:  # Until they are released.
            return self._family_with_bounds(-1.0, 1.0)
        bounds: Any = self.target_bounds
        if len(bounds) != 2 or not all(map(is_number, bounds)) or not bounds[0] < bounds[1]:
            raise ValueError(
                f"target_bounds must be two numbers (low, high), the lower first, or 'auto', got {bounds!r}."
            )
        return self._family_with_bounds(*map(float, bounds))

    def _family_with_bounds(self, low, high):
        if not self.fit_intercept:
            # Responses are centred at the middle, which has to be 0 without an intercept.
            high = max(abs(low), abs(high))
            low = -high
        if self.noise_scale is None:
            return Normal(low, high)
        noise, ratio = float(self.noise_scale), float(self.noise_scale) / (high - low)
        if not 1.0 / _LARGEST_NOISE_RATIO <= ratio <= _LARGEST_NOISE_RATIO:
            raise ValueError(
                f"noise_scale={noise:g} must be within a factor of {_LARGEST_NOISE_RATIO:g} of the distance "
                f"of target_bounds, {high - low:g}: both are in the unit of y."
            )
        return Normal(low, high, noise, min(high - low, _NOISE_SCALES_OF_CLIP * noise))

    def _with_drawn_bounds(self, model, quantiles, deviations, is_calibrated):
        low, high = sorted(quantile.value for quantile in quantiles)
        middle, half = (
            0.5 * low + 0.5 * high,
            (0.5 * high - 0.5 * low) * _BOUND_Z_SCORE / deviations,
        )
        is_rounded = any(quantile.spacing for quantile in quantiles)
        if (is_rounded or half == 0) and half < (
            least := _LEAST_DISTANCE_IN_DIGITS * max(map(_spacing, (low, high)))
        ):
            warn(
                f"the quantiles of responses that were drawn, {low:.4g} and {high:.4g}, are as close as "
                "numbers of four digits can be: bounds are far wider than the responses, or nearly all of "
                "these are the same. Subtract a public number from them, or set target_bounds.",
                DataScalingWarning,
            )
            half = least
        half = max(half, 8.0 * float(np.spacing(abs(middle))))  # Bounds differ, as doubles.
        return replace(model, family=self._family_with_bounds(middle - half, middle + half))

    def _noise(self) -> Any:
        return ErrorLaw(self.noise_samples_, self._diagnostics.error_skewness or 0.0)

    @warns_last
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        client: Any = None,
    ) -> Self:
        """Draw from the posterior, within the budget.

        Parameters
        ----------
        X, y, sample_weight, groups, client
            As for `DPBayesianLogisticRegression.fit`; ``y`` holds numbers.

        Returns
        -------
        self : estimator
            Fitted.

        Raises
        ------
        ValueError
            If a parameter or the table is invalid, or if the options contradict each other. Nothing
            is spent.
        BudgetExceededError
            If an active `PrivacyLedger` does not allow the plan. Nothing is spent.
        """
        diagnostics = self._fit(X, y, sample_weight, groups, client)
        self.noise_samples_ = diagnostics.noise_deviations
        if self.noise_samples_ is None:
            shape = len(self.posterior_samples_)
            self.noise_samples_ = np.full(shape, self.noise_scale, dtype=float)
        self.target_bounds_ = self._law.low, self._law.high
        self._public_bounds = None
        if not self._learns_target_bounds:
            low, high = map(float, self.target_bounds)
            self._public_bounds = low, high
        coefficients = self.posterior_samples_[:, 0, : self.n_features_in_]
        self.sigma_ = np.atleast_2d(np.cov(coefficients.T, bias=True))
        self.alpha_ = float(np.median(self.noise_samples_) ** -2.0)
        self.lambda_ = self._prior_precision(coefficients, diagnostics.prior_scale)
        if self._learns_target_bounds:
            self._warn_of_far_bounds(coefficients)
        return self

    def _warn_of_far_bounds(self, coefficients):
        """Warn if learnt bounds are farther apart than quantiles of such responses can be."""
        low, high = self.target_bounds_
        lengths = np.linalg.norm(coefficients, axis=1)
        spread = np.mean(self.noise_samples_ + self.data_norm_ * lengths)
        if (times := 0.5 * (high - low) / spread) > _LARGEST_BOUNDS_RATIO:
            warn(
                f"bounds of responses that were learnt, {low:.4g} and {high:.4g}, are {times:.2g} times as "
                "far from their middle as responses seem to spread: there are too few rows to learn bounds "
                "(far fewer than public_size says, perhaps), responses vary by less than four digits tell, "
                "or some lie far from all others. Wide intervals mean that coefficients are mostly noise. "
                "Give target_bounds=(low, high), two public numbers; fitting again spends budget again.",
                DataScalingWarning,
            )

    def _prior_precision(self, coefficients, scales):
        """The mean of the prior's precision, as released, given, or given the coefficients."""
        if self.prior_scale is not None:
            return float(self.prior_scale) ** -2
        if scales is not None:
            return float(np.mean(scales**-2.0))
        return float(np.mean(1.0 / np.mean(coefficients**2, axis=1)))

    @by_blocks
    def _deviation(self, X):
        noise = self.noise_samples_**2
        return self._over_rows(X, lambda means: np.sqrt(means.var(axis=1) + noise.mean()))

    def prediction_interval(self, X: MatrixLike, level: float = 0.9) -> np.ndarray:
        """Equal-tailed intervals of the responses of new rows; they spend no budget.

        Errors have one distribution in all rows. If they grow with a column, intervals are too wide for rows
        with small errors, and far too short for rows with large ones. The distribution is normal or, if a
        private fit finds errors skewed (with an intercept and enough rows), a shifted lognormal one with a
        skewness of at most 1.5. Intervals are cut at public ``target_bounds``; draws of
        `posterior_predictive` are not, so that their mean is that of `predict`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        level : float, default=0.9
            Posterior predictive probability of each interval, in (0, 1).

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper ends.

        Raises
        ------
        ValueError
            If ``level`` is out of range.
        """
        interval = super().prediction_interval(X, level)
        return interval if self._public_bounds is None else np.clip(interval, *self._public_bounds)

    def predict(self, X: MatrixLike, return_std: bool = False) -> Any:
        """Mean of the response, averaged over the draws (the posterior predictive mean).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows longer than ``data_norm`` are clipped, as in `fit`.
        return_std : bool, default=False
            Whether to return the standard deviation of new responses as well. It includes the error, which
            has the same standard deviation in all rows, and the uncertainty about the mean.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
        deviation : ndarray of shape (n_samples,)
            If ``return_std``.
        """
        mean = super().predict(X)
        return (mean, self._deviation(X)) if return_std else mean
