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
    differential privacy. The budget is fixed before the data are read. Predictions average over the draws;
    with learnt prior scales they weigh them (see Notes).

    Parameters
    ----------
    epsilon : float, default=1.0
        Upper limit of the privacy loss. A fit may spend less: see ``spent_epsilon_``. ``inf`` means no
        privacy and samples the exact posterior.
    delta : float or None, default=None
        Slack of the guarantee, in [0, 1): by how much the probability of an event may exceed ``exp(epsilon)``
        times that on a neighbouring table. None is ``min(1e-5, 1 / (10 n))``. Only "dp_mh" and "dp_fast_mh"
        support 0.
    sampler : str or Sampler, default="auto"
        The algorithm: an object of `skdpbayes.samplers` with its options, or a name for the defaults. "auto"
        uses "noise_aware", the posterior given the released statistics (without privacy, given the rows), for
        up to 200 coefficients (of all classes but one). With more, or if an option of a chain is set, it
        uses "sgfs" if the public sizes suggest that this is better, and "sghmc" otherwise. Other names are
        "sgld", "sgnht", "ops" (one posterior sample), "bbb" (Bayes by backprop), and the random walks
        "dp_fast_mh", "dp_mh", "penalty" and "dp_fast_mh_gaussian". ``sampler__name`` sets an option, such as
        ``sampler__temperature`` or ``sampler__n_steps`` of a chain, even if the sampler is given by name.
    data_norm : float, "auto" or None, default=None
        Norm to which rows are clipped: a public number between 1e-60 and 1e60. None is ``sqrt(n_features)``,
        which suits columns of unit scale. "auto" spends 2% of the budget (of ``mu^2``) on a high quantile of
        the rows' norms, or uses the default if there are too few rows.
    prior_scale : float or None, default=None
        Prior standard deviation of the coefficients. With None "noise_aware" learns one, with privacy from
        what it releases, at no cost, and other samplers take ``2.5 / data_norm``: the logit of a row at the
        norm bound then has prior deviation 2.5.
    intercept_prior_scale : float or None, default=None
        Prior standard deviation of the intercept. With None "noise_aware" learns it likewise, even if
        ``prior_scale`` is given; other samplers take ``prior_scale``, or 1.25 without it.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    intercept_scaling : float or None, default=None
        Size ``b`` of the constant column whose coefficient is the intercept, at most 1e60. It does not change
        the posterior, but the norm bound becomes ``sqrt(data_norm^2 + b^2)``, and a chain's intercept moves
        faster with a larger column. None gives all coordinates the same prior precision (``data_norm / 2`` by
        default; at most ``data_norm`` with "auto" and "noise_aware").
    classes : array-like or None, default=None
        All labels that can occur. None uses the labels in ``y``, which are *then assumed to be public*.
    class_weight : dict or None, default=None
        Public weights of the classes: the power to which the likelihood of their rows is raised. Classes that
        are not named have weight 1. "balanced" is refused, because it counts private labels.
    max_sample_weight : float, default=1.0
        Public maximum of ``sample_weight``. Larger weights are reduced to it. The noise is proportional to
        it.
    n_draws : int or "auto", default="auto"
        Number of draws to keep. "auto" is 400 with "noise_aware", 100 for a private chain, one or two
        thousand without privacy, and 1 if only last iterates are released, where ``n_draws=K`` costs
        ``sqrt(K)`` times as much.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which tables the guarantee compares: tables of the same public size that differ in the content of one
        row, or tables that differ in the presence of one row.
    public_size : int or None, default=None
        Under "add_or_remove_one", the public number that plans use as the size of the table, which is itself
        private. The guarantee covers rounding errors in tables of up to ten times that size.
    max_rows_per_group : int or None, default=None
        With ``fit(X, y, groups=...)``, protects persons instead of rows, and uses at most this many rows of
        each person, chosen at random. Under "replace_one" the number of persons is then public and the number
        of rows private; ``public_size`` may state roughly how many rows are used.
    random_state : None, int, RandomState instance or Generator, default=None
        None uses cryptographic randomness from the operating system. A known or repeated seed voids the
        guarantee.
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
        Weights of the draws in predictions, which add up to one; None where all count alike. They follow
        ``posterior_samples_`` when these are set.
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
        Temperature of the draws: they follow the posterior with the likelihood to the power of its inverse.
        With "noise_aware" it is 1.
    released_ : Bunch
        What the sampler released besides the draws. By default:

        - ``second_moment``, of shape (n_features + 1, n_features + 1): the noisy sum of ``z z^T`` over
          clipped rows ``z``, each extended by a constant (half of ``data_norm`` without an intercept);
        - ``share_of_a_direction`` and ``share_of_norm``, float: lower bounds on the largest eigenvalue and
          the trace of that sum without noise, over the largest possible trace;
        - ``hidden_columns`` and ``hidden_or_rare_columns``, arrays of indices: columns that vary less than
          the noise can show, and those that are such or are indicators of rare events; ``unseen_columns``,
          of which noise hides whether they do, and ``unseen_deviation``, that of the least that would be
          seen;
        - ``repeated_columns``, array of indices: columns, but for indicators, that others nearly repeat, so
          that their single coefficients follow the prior;
        - with an intercept ``rarest_class``: the 5%, 50% and 95% quantiles of the share of the rarest class,
          records being weighted as in the fit;
        - ``posterior``, from which draws are made, and ``coordinate_scale``, the factors of its coordinates;
        - ``r_hat`` and ``effective_sample_size``, of shape (n_parameters,), in the order of a draw: split
          R-hat of the fifty chains that drew, and how many independent draws those kept are worth.

        Without privacy these are ``repeated_columns``, ``coordinate_scale``, ``r_hat`` and
        ``effective_sample_size``. With "sgfs" ``second_moment`` and, where there is an intercept, both
        shares.
        With "bbb" ``variational_mean`` and ``variational_scale``, the mean and deviation of every
        coefficient, of shape (1 or n_classes, n_features + fit_intercept). With random walks
        ``acceptance_rate`` and ``n_iter``, the number of proposals.
    n_iter_ : int
        Number of updates, including those that drew the start.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if ``X`` had any.

    Warns
    -----
    PrivacyWarning
        If ``random_state`` is given (at every fit), if delta is above one over the number of rows, or
        if a fit is interrupted, which spends its whole plan.
    ConvergenceWarning
        If the plan has warnings, if draws without privacy have a small effective sample size, if coefficients
        are improbably far from 0 under the prior, or if columns are probably not scaled.

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

    Where "noise_aware" learns the coefficients' prior scale, the law of that scale has to be wide for
    intervals to cover large effects. In predictions, for which large effects are the exception, draws have
    weights, as under a narrower law: in `predict_proba` and `probability_interval`. They cost nothing, and
    intervals of coefficients, means and new draws do not use them.

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
