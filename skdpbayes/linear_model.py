"""Private Bayesian logistic regression: draws from a posterior, and what they predict.

    p(theta | data) ~ prod_i p(y_i | x_i, theta)^(1/tau) N(theta; 0, prior_scale^2 I),
    p(y | x, data)  = mean over draws of p(y | x, theta).

Estimators only validate, clip and summarise: plans and samplers do the rest.
"""

from functools import partial
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ._base import POSTERIOR_CONSTRAINTS, validate_table
from ._classifier import PrivateClassifierMixin
from ._clipping import clip_rows
from ._labels import encode_labels
from ._predictive import average_binary, average_softmax
from .privacy.variational import VariationalPlan
from .targets import logistic_bounds, logistic_prior_precision, make_logistic

# Prior standard deviation of the logit of a row at the norm bound, and of the intercept.
LOGIT_SCALE = 2.5
INTERCEPT_SCALE = 1.25
_CHUNK_ENTRIES = 2**22


class DPBayesianLogisticRegression(PrivateClassifierMixin, BaseEstimator):
    """Differentially private Bayesian logistic regression.

    Draws from the posterior of binary or multinomial (softmax) logistic regression are released under
    differential privacy, with the budget fixed before the data are read; predictions average over the
    draws.

    Parameters
    ----------
    epsilon : float, default=1.0
        Ceiling on the privacy loss. A fit may spend less; see ``spent_epsilon_``. ``inf`` asks for no
        privacy and samples the true posterior.
    delta : float or None, default=None
        Probability with which the guarantee may fail, in [0, 1); 0 is for "dp_mh" and "dp_fast_mh" only. None
        is ``min(1e-5, 1 / (10 n))``.
    sampler : {"auto", "sgld", "sghmc", "sgnht", "sgfs", "ops", "bbb", "dp_fast_mh", "dp_mh", \
            "penalty", "dp_fast_mh_gaussian"}, default="auto"
        The algorithm. With draws along its path: stochastic gradient Langevin dynamics ("sgld"), its
        underdamped relative, which needs far fewer steps ("sghmc"), the same with a thermostat, whose
        draws keep temperature 1 ("sgnht"), or in coordinates that are whitened by a released second moment
        of the rows ("sgfs"). "auto" is "sgfs" where the public sizes promise that this pays, else
        "sghmc". Or one posterior sample ("ops"), which is "sgld" with ``release="last"`` on the full table.
        Or a Gaussian with independent coordinates that is fitted to the posterior by noisy gradients, Bayes
        by backprop ("bbb"): as many draws as one likes, but no correlations among parameters.
    release : {"auto", "path", "last"}, default="auto"
        What a guarantee covers: the whole path of the chain, or only the last state, the path to which
        stays hidden. "auto" is "last" for "ops", else "path".
    init : {"zeros", "ops"}, default="zeros"
        Where a path starts: at zero, or at a posterior sample that part of the budget pays for.
    init_share : float or "auto", default="auto"
        Share of the budget (of ``mu^2``) that this sample may cost, in (0, 1). "auto" draws it at the
        path's own temperature.
    data_norm : float or None, default=None
        Norm to which rows are clipped: a public number. None is ``sqrt(n_features)``, right for columns
        of unit scale.
    prior_scale : float or None, default=None
        Prior standard deviation of the coefficients, and of the intercept unless
        ``intercept_prior_scale`` is given. None is ``2.5 / data_norm`` for the coefficients and 1.25 for
        the intercept: a row at the norm bound then has a logit of prior deviation 2.5.
    intercept_prior_scale : float or None, default=None
        Prior standard deviation of the intercept, if it is to differ from ``prior_scale``.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    intercept_scaling : float or None, default=None
        Size ``b`` of the constant column by which the intercept is sampled. It changes no posterior, but
        the norm bound is ``sqrt(data_norm^2 + b^2)``, and a larger column moves the intercept faster.
        None is the intercept's prior scale over the coefficients' (``data_norm / 2`` by default), which
        gives all coordinates the same prior precision.
    classes : array-like or None, default=None
        The labels that can occur. None takes those in ``y``, which are *then assumed to be public*.
    temperature : float or "auto", default="auto"
        Draws follow the posterior with the likelihood to the power of ``1 / temperature``. The plan takes
        the lowest value from 1 on that the budget affords; with "bbb", where it is the weight of the
        Kullback-Leibler term, the lowest at which draws spread no less than noise moves their mean.
    batch_size : int or None, default=None
        Expected size of a Poisson batch; with ``release="last"`` the size of a batch when batches take
        turns. None takes the full table at every step, which is best unless the table is huge; samplers on
        Poisson batches by nature choose their size then.
    step_size : float or "auto", default="auto"
        (First) step size: diffusion time per step, which is what privacy pays for. For random walks the
        distance of proposals, in units of the coefficients. With "bbb" Adam's learning rate, in deviations of
        the prior, at most 1; "auto" is ``1 / sqrt(n_steps)``.
    step_decay : float, default=0.0
        Step ``k`` has size ``step_size * k ** -step_decay``.
    initial_scale : float or "auto", default="auto"
        With "bbb": deviation at which every coordinate's starts, over its prior's, at most 1. "auto" is 0.1.
    friction : float or "auto", default="auto"
        Share of its velocity that an underdamped chain loses in a step, in (0, 1]. "auto" damps the slowest
        direction critically.
    proposal : {"sphere", "gaussian"}, default="sphere"
        Law of a random walk's proposals: at a fixed distance, so that all cost the same, or Gaussian, each
        charged as it is proposed until the budget is used up.
    adapt_step_size : bool, default=False
        Whether a random walk's step size follows its accept bits during burn-in, within the budget.
    noise_multiplier : float or "auto", default="auto"
        For "penalty" and "dp_fast_mh_gaussian": deviation of the noise over what one record can change.
    max_batch_size : int or None, default=None
        For samplers on Poisson batches: where a batch would be larger on average, the whole table is taken.
        None is its size.
    n_effective : int or "auto", default="auto"
        For random walks: effective sample size at which the chain ends, where the budget allows it, having
        spent less than it might. "auto" is 25, and 100 with ``epsilon=inf``.
    n_steps : int or "auto", default="auto"
        Number of updates; with ``release="last"`` for all draws together. Those that draw the start of a
        path come on top.
    burn_in : float or "auto", default="auto"
        Fraction of the updates before the first draw; "auto" is 0.25, or 0 with ``init="ops"``; a random
        walk's is what it takes from zero. Must be
        "auto" with ``release="last"``.
    n_draws : int or "auto", default="auto"
        Number of draws that are kept; "auto" is 100, or 1 with ``release="last"``, where ``n_draws=K``
        costs ``sqrt(K)`` times as much.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        What the guarantee compares: tables that differ in one row's content, the size being public, or
        in one row's presence.
    public_size : int or None, default=None
        Under "add_or_remove_one", the size that stands for the table's own, which is private then. Guarantees
        cover rounding in tables of up to ten times that size.
    random_state : None, int, RandomState instance or Generator, default=None
        None takes cryptographic randomness from the operating system. A known or repeated seed voids
        the guarantee.
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
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    data_norm_ : float
        Norm to which rows are clipped.
    spent_epsilon_, spent_delta_ : float
        What the fit cost: its plan's cost, at most ``epsilon`` at ``delta``.
    privacy_cost_ : PrivacyCost
        The cost itself: converts to any (epsilon, delta), and composes with ``+``.
    plan_ : Plan
        What was done; it prints readably.
    temperature_ : float
        Temperature of the draws.
    second_moment_ : ndarray of shape (n_features + fit_intercept, n_features + fit_intercept)
        With "sgfs": ``sum z z^T`` over clipped rows followed by their constant column, with noise. It is paid
        for, and public.
    variational_mean_, variational_scale_ : ndarray of shape (1 or n_classes, n_features + fit_intercept)
        With "bbb": mean and deviation of every coefficient, the intercept last.
    acceptance_rate_ : float
        With random walks: share of the proposals that were accepted.
    n_iter_ : int
        Number of updates, those of ``init="ops"`` included.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if there were any.

    Warns
    -----
    PrivacyWarning
        If ``random_state`` is given (once per process), or if a fit is interrupted: its whole plan is
        spent then.
    ConvergenceWarning
        If the plan has notes: the options leave the chain too short, or batches may heat the draws.

    See Also
    --------
    skdpbayes.preprocessing.BoundedScaler : Scaling that spends no budget.
    skdpbayes.privacy.PrivacyLedger : A budget for several fits.

    Notes
    -----
    Most samplers are relatives of stochastic gradient Langevin dynamics [1]_, with the temperature and the
    schedule from public quantities (of which a released second moment is one) alone. Whole paths are
    accounted for by composition, a last state by shifted interpolation [2]_, which rests on the convexity
    of the likelihood and on no convergence; the theory
    page of the documentation has the proofs. Fitting a scaler, an imputer or an encoder on the same
    private rows is a leak that this class cannot see.

    References
    ----------
    .. [1] Y.-X. Wang, S. E. Fienberg and A. Smola, "Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo", ICML 2015.
    .. [2] J. Bok, W. J. Su and J. Altschuler, "Shifted interpolation for differential privacy", ICML
       2024.

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
        **POSTERIOR_CONSTRAINTS,
        "prior_scale": [None, Interval(Real, 0, None, closed="neither")],
        "intercept_prior_scale": [None, Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [None, Interval(Real, 0, None, closed="neither")],
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        epsilon=1.0,
        delta=None,
        *,
        sampler="auto",
        release="auto",
        init="zeros",
        init_share="auto",
        data_norm=None,
        prior_scale=None,
        intercept_prior_scale=None,
        fit_intercept=True,
        intercept_scaling=None,
        classes=None,
        temperature="auto",
        batch_size=None,
        step_size="auto",
        step_decay=0.0,
        initial_scale="auto",
        friction="auto",
        proposal="sphere",
        adapt_step_size=False,
        noise_multiplier="auto",
        max_batch_size=None,
        n_effective="auto",
        n_steps="auto",
        burn_in="auto",
        n_draws="auto",
        neighboring_relation="replace_one",
        public_size=None,
        random_state=None,
        verbose=0,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.sampler = sampler
        self.release = release
        self.init = init
        self.init_share = init_share
        self.data_norm = data_norm
        self.prior_scale = prior_scale
        self.intercept_prior_scale = intercept_prior_scale
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.classes = classes
        self.temperature = temperature
        self.batch_size = batch_size
        self.step_size = step_size
        self.step_decay = step_decay
        self.initial_scale = initial_scale
        self.friction = friction
        self.proposal = proposal
        self.adapt_step_size = adapt_step_size
        self.noise_multiplier = noise_multiplier
        self.max_batch_size = max_batch_size
        self.n_effective = n_effective
        self.n_steps = n_steps
        self.burn_in = burn_in
        self.n_draws = n_draws
        self.neighboring_relation = neighboring_relation
        self.public_size = public_size
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # From public quantities

    def _scales(self, n_features):
        """Return (coefficients' prior scale, intercept's prior scale, constant column)."""
        given = self.prior_scale
        scale = LOGIT_SCALE / self._norm(n_features) if given is None else float(given)
        intercept_scale = INTERCEPT_SCALE if given is None else scale
        if self.intercept_prior_scale is not None:
            intercept_scale = float(self.intercept_prior_scale)
        if not self.fit_intercept:
            return scale, intercept_scale, 0.0
        if self.intercept_scaling is not None:
            return scale, intercept_scale, float(self.intercept_scaling)
        return scale, intercept_scale, intercept_scale / scale

    def _prior_precision(self, n_features, n_classes):
        return logistic_prior_precision(n_features, n_classes, *self._scales(n_features))

    def _plan(self, n_samples, n_features, n_classes):
        constant = self._scales(n_features)[-1]
        bounds = logistic_bounds(
            float(np.hypot(self._norm(n_features), constant)),
            n_classes,
            self._prior_precision(n_features, n_classes),
            constant,
        )
        return self._make_plan(bounds, self._public_size(n_samples))

    # From the table

    def fit(self, X, y):
        """Draw from the posterior, within the budget.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows beyond ``data_norm`` are clipped to it. CSR stays sparse, float32 stays float32, and a
            memory-mapped array is read in place.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        self : DPBayesianLogisticRegression

        Raises
        ------
        ValueError
            If a parameter or the table is invalid, or if the options cannot all hold. Nothing is spent
            then.
        BudgetExceededError
            If an active `PrivacyLedger` does not allow the plan. Nothing is spent then.
        """
        self._validate_params()
        X, y = validate_table(self, X, y, reset=True)
        check_classification_targets(y)
        classes, labels = encode_labels(y, self.classes)
        n_samples, n_features = X.shape
        plan = self._plan(n_samples, n_features, classes.size)
        constant = self._scales(n_features)[-1]
        target = make_logistic(
            X,
            labels,
            self._norm(n_features),
            classes.size,
            constant,
            self._prior_precision(n_features, classes.size),
        )
        draws = self._in_blocks(self._draw(target, plan), n_features, constant)
        if isinstance(plan, VariationalPlan):
            for name in ("variational_mean_", "variational_scale_"):
                value = self._in_blocks(getattr(self, name)[None], n_features, constant)[0]
                setattr(self, name, value)
        self.classes_ = classes
        self.data_norm_ = self._norm(n_features)
        self.posterior_samples_ = draws
        mean = draws.mean(axis=0)
        self.coef_ = mean[:, :n_features].copy()
        self.intercept_ = mean[:, -1].copy() if self.fit_intercept else np.zeros(len(mean))
        return self

    def _in_blocks(self, values, n_features, constant):
        """Return rows of sampled coordinates as blocks of coefficients, the intercept last."""
        values = values.reshape(len(values), -1, n_features + bool(self.fit_intercept))
        if self.fit_intercept:
            values[:, :, -1] *= constant
        return values

    # From the draws

    def _log_proba(self, X):
        """Log of the posterior predictive, of shape (n_samples, n_classes)."""
        check_is_fitted(self)
        X = validate_table(self, X, reset=False)
        n_features = X.shape[1]
        X, scale = clip_rows(X, self.data_norm_)
        draws = self.posterior_samples_
        n_draws, n_blocks, length = draws.shape
        weights = draws[:, :, :n_features].reshape(-1, n_features).T
        offsets = draws[:, :, -1].ravel() if length > n_features else 0.0
        average = average_binary if n_blocks == 1 else partial(average_softmax, n_blocks)
        size = max(1, _CHUNK_ENTRIES // (n_draws * n_blocks))
        chunks = [
            average(scale[i : i + size, None] * (X[i : i + size] @ weights) + offsets)
            for i in range(0, X.shape[0], size)
        ]
        return np.vstack(chunks)

    def decision_function(self, X):
        """Logit of the averaged probability; for several classes its log.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        log_proba = self._log_proba(X)
        return log_proba[:, 1] - log_proba[:, 0] if log_proba.shape[1] == 2 else log_proba

    def _posterior_variables(self):
        """Return ({name: (draws of shape (n_draws, ...), their dimensions)}, {dimension: coordinates})."""
        draws, n_features = self.posterior_samples_, self.n_features_in_
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(n_features)])
        coords = {
            # Two classes have one block, which is that of the second.
            "class": self.classes_[-draws.shape[1] :],
            "feature": np.asarray(names, dtype=str),
        }
        variables = {"coef": (draws[:, :, :n_features], ("class", "feature"))}
        if draws.shape[2] > n_features:
            variables["intercept"] = (draws[:, :, -1], ("class",))
        return variables, coords
