"""Private Bayesian logistic regression: posterior draws and their predictions.

    p(theta | data) ~ prod_i p(y_i | x_i, theta)^(1/tau) N(theta; 0, prior_scale^2 I),
    p(y | x, data)  = mean over draws of p(y | x, theta).

The estimator validates, clips and summarises; plans and samplers do the rest.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from .._compute.execution import single_threaded_blas
from .._data.partitions import by_blocks
from .._data.read import validate_table
from .._data.table import largest_weight
from .._estimator.classifier import PrivateClassifier, log_probabilities
from .._typing import MatrixLike, RandomStateLike, Relation
from ..models.families import classifier
from ..models.rows import clip_rows, scale_rows
from ..privacy.planned_release import Disclosure
from ..samplers import Sampler
from ._base import LINEAR_CONSTRAINTS, LinearPosterior

# Logits in memory at once, for intervals of probabilities.
_CHUNK_ENTRIES = 2**18


class DPBayesianLogisticRegression(LinearPosterior, PrivateClassifier):
    """Differentially private Bayesian logistic regression.

    A fit releases draws from the posterior of binary or multinomial (softmax) logistic regression under
    differential privacy. The budget is fixed before the data are read. Predictions average over the draws,
    with weights if prior scales are learnt (see Notes).

    *Public* values are known without the private rows: never compute them from these. For more on each
    parameter, see the page "Parameters in detail" of the documentation.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, the most that a fit may spend; ``spent_epsilon_`` is what it spent. ``inf`` means no
        privacy.
    delta : float or None, default=None
        By how much the probability of an event may exceed ``exp(epsilon)`` times that on a neighbouring
        table. By default ``min(1e-5, 1 / (10 n))``, with ``n`` the public number of rows.
    data_norm : float, "auto" or None, default=None
        Public length to which longer rows are clipped; noise is proportional to it. By default
        ``sqrt(n_features)``, for columns within [-1, 1]. "auto" learns it for 2% of the budget.
    classes : array-like or None, default=None
        Public list of all labels that can occur. By default those in ``y``, *which then count as public*.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    prior_scale, intercept_prior_scale : float or None, default=None
        Prior standard deviations of coefficients, as log odds per unit of a column, and of the intercept. By
        default a fit learns both, at no cost.
    intercept_scaling : float or None, default=None
        Size of the constant column of the intercept, which does not change the posterior. By default chosen
        to suit the prior.
    class_weight : dict or None, default=None
        Public weights of labels, 1 for those not named. "balanced" is refused: it counts private labels.
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
    coef_ : ndarray of shape (1 or n_classes, n_features)
        Posterior means of the coefficients.
    intercept_ : ndarray of shape (1 or n_classes,)
        Posterior means of the intercepts; zeros without one.
    posterior_samples_ : ndarray of shape (n_draws, 1 or n_classes, n_features + fit_intercept)
        The draws, the intercept last.
    importance_weights_ : ndarray of shape (n_draws,), or None
        Weights of the draws in predictions, which add up to one; None if all are equal. They are computed
        anew if you set ``posterior_samples_``.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    data_norm_ : float
        Norm to which rows are clipped.
    spent_epsilon_, spent_delta_ : float
        Cost of the fit, as planned: at most ``epsilon`` at ``delta``.
    privacy_cost_ : PrivacyCost
        The cost itself; it converts to any (epsilon, delta) and composes with ``+``.
    plan_ : Plan
        What the fit did; printing it gives a readable summary.
    temperature_ : float
        Temperature of the draws, by default 1. They follow the posterior whose likelihood is raised to the
        power of ``1 / temperature_``.
    released_ : Bunch
        What was released besides the draws; "Parameters in detail" says what each entry is. By default
        ``second_moment``, ``share_of_a_direction``, ``share_of_norm``, ``hidden_columns``,
        ``hidden_or_rare_columns``, ``unseen_columns``, ``unseen_deviation``, ``repeated_columns``,
        ``rarest_class`` (with an intercept), ``posterior``, ``coordinate_scale``, ``r_hat`` and
        ``effective_sample_size``. Without privacy ``repeated_columns`` and the last three. With "sgfs" the
        first seven (without an intercept the first), with "bbb" ``variational_mean`` and
        ``variational_scale``, with random walks ``acceptance_rate`` and ``n_iter``.
    n_iter_ : int
        Number of updates, including those that drew the start; by default, of noisy sums.
        ``plan_.n_passes`` has the passes over the table.
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
        If intervals may not cover: noise hides nearly all, or coefficients are improbably far from 0 under
        the prior.
    DataScalingWarning
        If columns are not scaled, rows are clipped, or weights are above 1 or may be cut.
    ConvergenceWarning
        If a chain is short or its draws hardly mix.

    See Also
    --------
    skdpbayes.preprocessing.BoundedScaler : Scaling that spends no budget.
    skdpbayes.privacy.PrivacyLedger : A budget for several fits.

    Notes
    -----
    By default, a fit releases a few noisy sums over the records, and draws from the posterior given these
    [3]_. Gradient-based samplers are relatives of stochastic gradient Langevin dynamics [1]_, whose
    temperature and schedule depend on public quantities only (including a released second moment). Whole
    paths are accounted for by composition, a last iterate by shifted interpolation [2]_, which requires a
    log-concave likelihood but not convergence. The documentation's theory has the proofs.

    By default the prior scale of the coefficients is learnt. The prior of that scale is wide, so that
    intervals cover large effects. Large effects are rare, so `predict_proba` and `probability_interval` weigh
    the draws as a narrower prior would. The weights cost nothing; intervals of coefficients, means and new
    draws do not use them.

    A scaler, imputer or encoder that is fitted on the same private rows is a leak that this class cannot
    detect.

    References
    ----------
    .. [1] Y.-X. Wang, S. E. Fienberg and A. Smola, "Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo", ICML 2015.
    .. [2] J. Bok, W. J. Su and J. Altschuler, "Shifted interpolation for differential privacy", ICML
       2024.
    .. [3] G. Bernstein and D. Sheldon, "Differentially private Bayesian linear regression", NeurIPS 2019.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skdpbayes.linear_model import DPBayesianLogisticRegression
    >>> X, y = make_classification(5000, 10, n_redundant=0, random_state=0)
    >>> clf = DPBayesianLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
    >>> clf.spent_epsilon_ <= 1.0
    True
    >>> clf.predict_proba(X[:2]).shape
    (2, 2)
    >>> clf.sample_posterior(10).shape
    (10, 1, 11)
    """

    _parameter_constraints = {
        **LINEAR_CONSTRAINTS,
        "classes": [None, "array-like"],
        "class_weight": [None, dict, StrOptions({"balanced"})],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        sampler: str | Sampler = "auto",
        data_norm: float | Literal["auto"] | None = None,
        prior_scale: float | None = None,
        intercept_prior_scale: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        classes: ArrayLike | None = None,
        class_weight: dict[Any, float] | None = None,
        max_sample_weight: float = 1.0,
        n_draws: int | Literal["auto"] = "auto",
        neighboring_relation: Relation = "replace_one",
        public_size: int | None = None,
        max_rows_per_group: int | None = None,
        random_state: RandomStateLike = None,
        verbose: int = 0,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.sampler = sampler
        self.data_norm = data_norm
        self.prior_scale = prior_scale
        self.intercept_prior_scale = intercept_prior_scale
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.classes = classes
        self.class_weight = class_weight
        self.max_sample_weight = max_sample_weight
        self.n_draws = n_draws
        self.neighboring_relation = neighboring_relation
        self.public_size = public_size
        self.max_rows_per_group = max_rows_per_group
        self.random_state = random_state
        self.verbose = verbose

    def _facts(self):
        yield from super()._facts()
        if isinstance(self.class_weight, dict):
            weights = [f"{label}: {weight}" for label, weight in self.class_weight.items()]
            yield Disclosure("weights of labels", weights, "declared")

    def _family(self, n_classes):
        return classifier(n_classes)

    def _largest_weight(self, max_sample_weight, n_classes):
        return largest_weight(self.class_weight, n_classes, max_sample_weight)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "posterior_samples_":  # By a fit, or by somebody who takes other draws.
            weights = self.plan_.sampler.importance_weights(self.released_, value)
            self.importance_weights_ = weights

    @single_threaded_blas()  # Blocks of rows are too small for more.
    def _log_proba(self, X):
        """Log of the posterior predictive, of shape (n_samples, n_classes)."""
        check_is_fitted(self)
        X = validate_table(self, X, reset=False)
        X, scale = clip_rows(X, self.data_norm_)
        return log_probabilities(
            X, scale, self.posterior_samples_, self.data_norm_, self.importance_weights_
        )

    def _logits(self, X, draws):
        X, scale = clip_rows(validate_table(self, X, reset=False), self.data_norm_)
        offsets = draws[:, :, X.shape[1] :].sum(axis=2)
        for part in gen_batches(X.shape[0], max(1, _CHUNK_ENTRIES // offsets.size)):
            rows = scale_rows(X[part], scale[part])
            blocks = zip(draws[:, :, : X.shape[1]].swapaxes(0, 1), offsets.T, strict=True)
            with single_threaded_blas():  # Blocks of rows are too small for more.
                logits = [rows @ block.T + offset for block, offset in blocks]
            yield np.stack(logits, axis=1)

    @by_blocks
    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Logit of the averaged probability; with more than two classes, log probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        log_proba = self._log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0] if log_proba.shape[1] == 2 else log_proba
