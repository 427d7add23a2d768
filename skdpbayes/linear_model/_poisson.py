"""Private Bayesian Poisson regression: counts, and rates where exposures differ.

p(theta | data) ~ prod_i Poisson(y_i; e_i exp(x_i . beta + b))^(1/tau) p(theta),
E[y | x, e, data] = e times the mean over draws of min(exp(x . beta + b), 3 Y / e_0)

``Y`` is the largest count and ``e_0`` a typical exposure: a mean would be that of the draws which noise has
sent far beyond what counts can be.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import d2_tweedie_score
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from .._arguments import Interval
from .._data.collections import refuse_other_order
from .._data.partitions import in_memory_and_order
from .._data.table import exposures
from .._estimator.regressor import PrivateRegressor
from .._typing import MatrixLike, RandomStateLike, Relation
from ..models.families import Poisson
from ..privacy.deferred_warnings import warns_last
from ..privacy.planned_release import Disclosure, as_json, resolve_source
from ..samplers import Sampler
from ._base import LINEAR_CONSTRAINTS, LinearPosterior

# With max_count="auto": largest count of the plan until a count is released.
_NOMINAL = 20.0
# Deviations of a normal law that are added to a released quantile.
_SDS_ABOVE_QUANTILE = 2.0
# By what learnt ones are multiplied where noise does not grow with them: tails may be heavy.
_CALIBRATED_ROOM = 2.0
# Least learnt max_count of a chain.
_LEAST_MAX_COUNT = 3.0
# How many times the largest count a mean may be: where half of all are cut, means are told well up to this.
_REACH = 3.0


def _explained_deviance(y_true, y_pred, sample_weight=None):
    return d2_tweedie_score(y_true, y_pred, sample_weight=sample_weight, power=1)


class DPBayesianPoissonRegressor(LinearPosterior, PrivateRegressor):
    """Differentially private Bayesian Poisson regression, for counts and rates.

    A fit releases draws from the posterior of a generalized linear model with Poisson counts and a
    logarithmic link, under differential privacy. The budget is fixed before the data are read. Predictions
    average over the draws.

    *Public* values are known without the private rows: never compute them from these. For more on each
    parameter, see the page "Parameters in detail" of the documentation.

    Parameters
    ----------
    max_count : float or "auto", default="auto"
        Public number to which larger counts are reduced. By default a fit learns one that few counts exceed,
        for 2% of the budget.
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
        Prior standard deviations of coefficients, as log rates per unit of a column, and of the intercept,
        whose prior has its centre at a rate of 1 per unit of exposure. By default a fit learns both, at no
        cost.
    intercept_scaling : float or None, default=None
        Size of the constant column of the intercept, which does not change the posterior. By default chosen
        to suit the prior.
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
        for up to 200 coefficients, otherwise a Markov chain, whose intervals are not calibrated.
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
        Posterior means of the coefficients: logarithms of ratios of rates.
    intercept_ : float
        Posterior mean of the intercept; 0 without one.
    posterior_samples_ : ndarray of shape (n_draws, 1, n_features + fit_intercept)
        The draws, the intercept last.
    dispersion_ : float
        Variance of counts over their mean, learnt at no cost; 1 with a chain and without privacy.
    max_count_ : float
        The largest count, as given or learnt: larger ones were reduced to it.
    target_bounds_ : tuple of (float, float)
        0 and ``max_count_``.
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
        of `DPBayesianLogisticRegression`, without ``rarest_class``, and ``law``, ``law_discrepancy``,
        ``unexplained_large_counts``, ``hidden_share_of_large``, ``dispersion``, ``share_of_largest`` and,
        with exposures, ``typical_exposure``.
    n_iter_ : int
        Number of updates; by default, of noisy sums. ``plan_.n_passes`` has the passes over the table.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if ``X`` had any.

    See Also
    --------
    DPBayesianLogisticRegression : For classes.
    skdpbayes.models.Poisson : The distribution of counts, with its bounds.

    Notes
    -----
    Counts need not be Poisson: by default a fit learns how they vary around their means. Intervals of
    coefficients are those of quasi-Poisson regression, and intervals of new counts have the learnt
    distribution. Without privacy counts are Poisson.

    A chain clips residuals to ``max_count``. This changes its posterior only if means exceed ``max_count``.

    Predictions and draws of counts cut the mean of each draw, at an exposure of 1, at ``3 * max_count_``:
    larger means are noise. After a fit with exposures they cut it at the median exposure, which is learnt;
    with a chain or without privacy it is not, and nothing is cut. Coefficients are not cut.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.linear_model import DPBayesianPoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5000, 3))
    >>> y = rng.poisson(np.exp(0.5 + X @ [0.8, -0.5, 0.0]))
    >>> model = DPBayesianPoissonRegressor(max_count=15, epsilon=1.0, random_state=0).fit(X, y)
    >>> model.predict(X[:2]).shape, model.spent_epsilon_ <= 1.0
    ((2,), True)
    """

    _parameter_constraints = {
        "max_count": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        **LINEAR_CONSTRAINTS,
    }
    _search_score = "neg_mean_poisson_deviance"
    _reads_counts = True
    _score: Callable[..., float] = staticmethod(_explained_deviance)

    def __init__(
        self,
        max_count: float | Literal["auto"] = "auto",
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        sampler: str | Sampler = "auto",
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
        self.max_count = max_count
        self.epsilon = epsilon
        self.delta = delta
        self.sampler = sampler
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _bounds_to_learn(self):
        sides = ("high",) if self.max_count == "auto" else ()
        learns = super()._bounds_to_learn()
        return learns._replace(sides=sides, at_responses=self._with_drawn_bounds)

    def _fact_of_responses(self):
        value, source = resolve_source(self.max_count, None, getattr(self, "max_count_", None))
        return Disclosure("largest count", as_json(value), source)

    def _noise(self) -> Any:
        """The `CountLaw`, or None for Poisson's."""
        return self._diagnostics.law

    def _clip_logits(self, logits):
        exposure = self._diagnostics.typical_exposure
        if exposure is None and not self._is_exposed:
            exposure = 1.0
        if exposure is None:  # A chain does not learn how long rows were exposed.
            return logits
        return np.minimum(logits, math.log(_REACH * self.max_count_ / exposure))

    def _family(self):
        return Poisson(_NOMINAL if self.max_count == "auto" else float(self.max_count))

    def _with_drawn_bounds(self, model, quantiles, deviations, is_calibrated):
        max_count = quantiles[0].value * (1.0 + _SDS_ABOVE_QUANTILE / deviations)
        room = _CALIBRATED_ROOM if is_calibrated else 1.0
        return replace(model, family=Poisson(room * max(_LEAST_MAX_COUNT, max_count)))

    @warns_last
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        client: Any = None,
    ) -> Self:
        """Draw from the posterior, within the budget.

        Parameters
        ----------
        X, y, sample_weight, groups, client
            As for `DPBayesianLogisticRegression.fit`; ``y`` holds counts: whole numbers, none
            negative.
        exposure : array-like of shape (n_samples,) or (n_samples, 1), default=None
            Time, or number of units, in which the count of a row was observed: its expected count is
            proportional to it. Positive, and as private as the rows; None is 1. Do not divide counts by it.

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
        diagnostics = self._fit(X, y, sample_weight, groups, client, exposure=exposure)
        self._is_exposed = exposure is not None
        dispersion = diagnostics.dispersion
        self.dispersion_ = 1.0 if dispersion is None else float(dispersion)
        self.max_count_ = self._law.max_count
        self.target_bounds_ = 0.0, self.max_count_
        return self

    def predict(self, X: MatrixLike, exposure: ArrayLike | None = None) -> np.ndarray:
        """Expected counts, averaged over the draws (the posterior predictive mean).

        Means of draws are cut at three times ``max_count_``: see Notes of the class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows longer than ``data_norm`` are clipped, as in `fit`.
        exposure : array-like of shape (n_samples,), default=None
            Exposures of these rows, positive; None is 1, for rates.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
        """
        refuse_other_order("exposure", exposure, X=X)
        rates = super().predict(X)
        if exposure is None:
            return rates
        rates, exposure = in_memory_and_order(X, rates, exposure=exposure)
        return rates * exposures(exposure, len(rates))

    def posterior_predictive(
        self,
        X: MatrixLike,
        n_draws: int | None = None,
        random_state: RandomStateLike = None,
        exposure: ArrayLike | None = None,
    ) -> np.ndarray:
        """Draw counts of new rows; this spends no budget and may be repeated.

        Parameters
        ----------
        X, n_draws, random_state
            As for `DPBayesianRidge.posterior_predictive`.
        exposure : array-like of shape (n_samples,), default=None
            Exposures of the new rows, positive; None is 1.

        Returns
        -------
        counts : ndarray of shape (n_draws, n_samples)

        Raises
        ------
        ValueError, TypeError
            If the table, the exposures or the number of draws are invalid.
        """
        return self._simulated(X, n_draws, random_state, exposure)

    def prediction_interval(
        self, X: MatrixLike, level: float = 0.9, exposure: ArrayLike | None = None
    ) -> np.ndarray:
        """Equal-tailed intervals of the counts of new rows; they spend no budget.

        Parameters
        ----------
        X, level
            As for `DPBayesianRidge.prediction_interval`.
        exposure : array-like of shape (n_samples,), default=None
            Exposures of the new rows, positive; None is 1.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper ends, which are whole numbers.

        Raises
        ------
        ValueError, TypeError
            If ``level`` is out of range, or if the table or the exposures are invalid.

        Warns
        -----
        UserWarning
            If the posterior is not calibrated, as with chains under privacy.
        """
        return self._between(X, level, exposure)

    def score(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> float:
        """D^2, the share of the Poisson deviance that is explained, without noise.

        If the rows are private, use `skdpbayes.metrics`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Counts.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        exposure : array-like of shape (n_samples,), default=None
            As for `predict`.

        Returns
        -------
        score : float
            At most 1.

        Raises
        ------
        ValueError, TypeError
            If the table, the counts (whole numbers) or the weights are invalid, or if the model was fitted
            with exposure and is given none.
        """
        check_is_fitted(self)
        if exposure is None and self._is_exposed:
            raise ValueError(
                "the model was fitted with exposure, and would compare counts with rates: pass the "
                "exposure of these rows, too (ones, if all were exposed for 1). Under "
                "sklearn.set_config(enable_metadata_routing=True), scikit-learn's tools (GridSearchCV) pass "
                "it on to model.set_fit_request(exposure=True).set_score_request(exposure=True)."
            )
        return self._scored(X, y, self.predict(X, exposure), sample_weight)
