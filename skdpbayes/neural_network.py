"""Private Bayesian neural networks: draws of their weights, and predictions averaged over them.

    p(theta | data) ~ prod_i p(y_i | x_i, theta)^(1/tau) N(theta; 0, prior_scale^2 I),
    p(y | x, data)  = mean over draws of p(y | x, theta).

Records' gradients are clipped one by one; see `skdpbayes.models.mlp` and
`skdpbayes.samplers.langevin.plan`. Draws are calibrated: see `skdpbayes.samplers.network`.
"""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ._arguments import Interval
from ._data.read import read_table, validate_table
from ._data.table import refuse_weights
from ._estimator.base import POSTERIOR_CONSTRAINTS
from ._estimator.bounds import BoundsToLearn
from ._estimator.classifier import PrivateClassifier
from ._estimator.fit import fit_posterior
from ._estimator.posterior import DrawnPosterior
from ._typing import MatrixLike, RandomStateLike, Relation
from .exceptions import DataScalingWarning
from .models.mlp import (
    ACTIVATIONS,
    MLPModel,
    layer_sizes,
    layers_of,
    random_start,
    scaled_rows,
)
from .privacy.deferred_warnings import warn, warns_last
from .privacy.planned_release import Disclosure, as_json
from .random import public_generator
from .samplers import Sampler
from .samplers.network import NORMS, NetworkSampler

__all__ = ["DPBayesianMLPClassifier"]


def __dir__():
    return __all__


# Limits of prior_scale: weights outside are of no use for rows of any usual length.
PRIOR_SCALES = (1e-6, 1e6)
# Rows whose predictions are computed at once.
_CHUNK_ROWS = 8192
# Logits in memory at once, for intervals of probabilities.
_CHUNK_ENTRIES = 2**20
# With data_norm="auto", the typical norm is searched between this value and a thousandth of it, in units of
# sqrt(n_features).
_LARGEST_TYPICAL_NORM = 30.0
# Log odds of the right norm against the next one, from which on a choice of the largest is not the noise's.
_DECISIVE_LOG_ODDS = 3.0


class DPBayesianMLPClassifier(PrivateClassifier):
    """Differentially private Bayesian neural network: a multi-layer perceptron classifier.

    A fit releases draws of the weights under differential privacy. The budget is fixed before the data are
    read. Predictions average over the draws.

    *Public* values are known without the private rows: never compute them from these. For more on each
    parameter, see the page "Parameters in detail" of the documentation.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=(128,)
        Number of units of each hidden layer.
    epsilon : float, default=1.0
        Privacy budget, the most that a fit may spend; ``spent_epsilon_`` is what it spent. ``inf`` means no
        privacy.
    delta : float or None, default=None
        By how much the probability of an event may exceed ``exp(epsilon)`` times that on a neighbouring
        table. By default ``min(1e-5, 1 / (10 n))``, with ``n`` the public number of rows.
    data_norm : float, "auto" or None, default=None
        Public length to which longer rows are clipped. By default ``sqrt(n_features)``, for columns within
        [-1, 1]; "auto" is 30 times that. Rows are then divided by a typical length, learnt privately.
    classes : array-like or None, default=None
        Public list of all labels that can occur. By default those in ``y``, *which then count as public*.
    activation : {"tanh", "relu"}, default="tanh"
        Activation function of the hidden layers. Bounded units suffer less from noise.
    prior_scale : float, default=1.0
        Prior standard deviation of every weight and bias.
    clip_norm : float, default=1.0
        Public length to which the gradient of each row is clipped. Step sizes follow it.
    calibration : float, default=0.03
        Share of the budget, at most 0.5, for the typical length of rows and a factor of the logits that makes
        confidence match accuracy. With 0 there is neither, and networks are overconfident.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        What is protected: the values of a row, with the number of rows public, or the presence of a row.
    max_rows_per_group : int or None, default=None
        Public maximum of the rows of a person that a fit uses, chosen at random. It protects persons, the
        ``groups`` of `fit`, whose number is public under "replace_one". By default rows are protected.
    public_size : int or None, default=None
        Public number of rows for plans, required with "add_or_remove_one", where the true one is private.
        The guarantee covers rounding in tables up to ten times as large.
    sampler : str or Sampler, default="sghmc"
        Algorithm, by name ("sgld", "sghmc", "sgnht", "bbb") or as an object of `skdpbayes.samplers`. By
        default underdamped Langevin dynamics.
    n_draws : int or "auto", default="auto"
        Number of draws to keep. By default 100.
    random_state : None, int, RandomState instance or Generator, default=None
        None takes the operating system's randomness: keep it for private rows. *A seed voids the guarantee*
        if it is known or repeated.
    verbose : int, default=0
        Show progress if positive.

    Attributes
    ----------
    posterior_samples_ : ndarray of shape (n_draws, n_parameters)
        The draws; `layers` splits them into weights and biases.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    layer_sizes_ : tuple of int
        Number of units of each layer: columns, hidden layers, classes.
    n_layers_ : int
        Number of layers, including the inputs.
    n_outputs_ : int
        Number of outputs: one for each class.
    activation_ : str
        Activation function of the hidden layers.
    out_activation_ : str
        "softmax".
    data_norm_ : float
        Norm to which rows are clipped.
    row_norm_ : float
        Typical length, by which rows are divided.
    spent_epsilon_, spent_delta_ : float
        Cost of the fit, as planned: at most ``epsilon`` at ``delta``.
    privacy_cost_ : PrivacyCost
        The cost itself; it converts to any (epsilon, delta) and composes with ``+``.
    plan_ : Plan
        What the fit did; printing it gives a readable summary.
    temperature_ : float
        Temperature that the privacy noise gives the draws; random batches add to it. With "bbb" the weight of
        the Kullback-Leibler term.
    released_ : Bunch
        What was released besides the draws: ``row_norm``, the typical length of rows over ``data_norm_``, and
        ``logit_scale``, which the last layer's weights include. With "bbb" ``variational_mean`` and
        ``variational_scale``, the mean and standard deviation of every weight.
    n_iter_ : int
        Number of updates.
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
        If the plan has warnings.
    DataScalingWarning
        If the released ``row_norm_`` reaches ``data_norm``.

    See Also
    --------
    skdpbayes.linear_model.DPBayesianLogisticRegression : Logistic regression.

    Notes
    -----
    Steps are Poisson-subsampled Gaussian mechanisms on sums of clipped gradients [1]_, accounted for by
    their privacy loss distribution. The chain [2]_ samples the posterior if steps are short and many, and
    gradients are seldom clipped. Under a private budget there are few steps, so the draws stay close
    together, and *their spread understates the uncertainty*.

    Clipping makes networks overconfident, because unexpected labels have long gradients. Rows that agree with
    the network therefore have less weight, too, as far as the noise permits, and the exponential mechanism
    chooses a factor of the logits with which confidence equals accuracy, on average over the table.

    References
    ----------
    .. [1] M. Abadi et al., "Deep learning with differential privacy", CCS 2016.
    .. [2] B. Li, C. Chen, H. Liu and L. Carin, "On connecting stochastic gradient MCMC and differential
       privacy", AISTATS 2019.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from skdpbayes.neural_network import DPBayesianMLPClassifier
    >>> X, y = make_moons(4000, noise=0.2, random_state=0)
    >>> clf = DPBayesianMLPClassifier((16,), epsilon=5.0, random_state=0).fit(X, y)
    >>> clf.spent_epsilon_ <= 5.0
    True
    >>> bool(clf.score(X, y) > 0.8)
    True
    """

    activation_: str
    layer_sizes_: tuple[int, ...]
    n_layers_: int
    n_outputs_: int
    out_activation_: str
    row_norm_: float

    _parameter_constraints = {
        **POSTERIOR_CONSTRAINTS,
        "hidden_layer_sizes": ["array-like", Interval(Integral, 1, None, closed="left")],
        "activation": [StrOptions(set(ACTIVATIONS))],
        "clip_norm": [Interval(Real, 0, None, closed="neither")],
        "prior_scale": [Interval(Real, *PRIOR_SCALES, closed="both")],
        "calibration": [Interval(Real, 0, 0.5, closed="both")],
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (128,),
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        activation: Literal["tanh", "relu"] = "tanh",
        sampler: str | Sampler = "sghmc",
        clip_norm: float = 1.0,
        data_norm: float | Literal["auto"] | None = None,
        prior_scale: float = 1.0,
        calibration: float = 0.03,
        classes: ArrayLike | None = None,
        n_draws: int | Literal["auto"] = "auto",
        neighboring_relation: Relation = "replace_one",
        public_size: int | None = None,
        max_rows_per_group: int | None = None,
        random_state: RandomStateLike = None,
        verbose: int = 0,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.epsilon = epsilon
        self.delta = delta
        self.activation = activation
        self.sampler = sampler
        self.clip_norm = clip_norm
        self.data_norm = data_norm
        self.prior_scale = prior_scale
        self.calibration = calibration
        self.classes = classes
        self.n_draws = n_draws
        self.neighboring_relation = neighboring_relation
        self.public_size = public_size
        self.max_rows_per_group = max_rows_per_group
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Under a finite budget, little can be learnt from the tiny tables of scikit-learn's checks.
        tags.classifier_tags.poor_score = self.epsilon != np.inf
        return tags

    # From public quantities

    def _sampler(self):
        path = super()._sampler()
        return NetworkSampler(path, float(self.calibration)) if self.calibration else path

    def _facts(self):
        norm, labels = super()._facts()
        yield norm
        if self.calibration:
            typical = as_json(getattr(self, "row_norm_", None))
            yield Disclosure("typical length of rows", typical, "learnt")
        source = "default" if self.clip_norm == 1 else "declared"
        yield Disclosure("longest gradient of a row", as_json(self.clip_norm), source)
        yield labels

    def _bounds_to_learn(self):
        return BoundsToLearn()  # The calibration already releases a norm.

    def _clip_norm(self, n_features):
        if self.data_norm != "auto":
            return super()._clip_norm(n_features)
        if not self.calibration:
            raise ValueError(
                "data_norm='auto' needs the calibration, which chooses the norm: leave calibration above 0, "
                "or set data_norm to a number."
            )
        return _LARGEST_TYPICAL_NORM * math.sqrt(n_features)

    def _sizes(self, n_features, n_classes):
        hidden = np.atleast_1d(np.asarray(self.hidden_layer_sizes))
        are_sizes = hidden.dtype.kind in "iu" or hidden.size == 0
        if hidden.ndim != 1 or not are_sizes or (hidden < 1).any():
            raise ValueError(
                "hidden_layer_sizes must hold positive integers, one for each hidden layer, got "
                f"{self.hidden_layer_sizes!r}."
            )
        return layer_sizes(n_features, map(int, hidden), n_classes)

    def _model(self, n_features, n_classes):
        return MLPModel(
            sizes=self._sizes(n_features, n_classes),
            activation=self.activation,
            norm=self._clip_norm(n_features),
            clip_norm=float(self.clip_norm),
            prior_precision=float(self.prior_scale) ** -2.0,
        )

    # From the table

    def _read(self, X, y=None, groups=None, **others):
        refuse_weights(self, others)
        self._validate_params()
        return read_table(self, X, y, groups=groups, accept_sparse=False)

    @warns_last
    def fit(
        self, X: MatrixLike, y: ArrayLike, groups: ArrayLike | None = None, **others: Any
    ) -> Self:
        """Draw weights, within the budget.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows longer than ``data_norm`` are clipped to it. They are read in single precision.
        y : array-like of shape (n_samples,)
            Labels.
        groups : array-like of shape (n_samples,), default=None
            The person each row belongs to; required with ``max_rows_per_group``.
        **others : dict
            Refused, including ``sample_weight``: every row has weight 1.

        Returns
        -------
        self : DPBayesianMLPClassifier

        Raises
        ------
        ValueError, TypeError
            If a parameter or the table is invalid, or if the options contradict each other. Nothing
            is spent.
        BudgetExceededError
            If an active `PrivacyLedger` does not allow the plan. Nothing is spent.
        """

        def model_of(table):
            model = self._model(table.n_features, *table.sizes)
            start = random_start(model.sizes, public_generator(self.random_state))
            return model._replace(start=start)

        model, self.posterior_samples_, self.classes_, diagnostics = fit_posterior(
            self, self._read(X, y, groups, **others), model_of
        )
        self.data_norm_ = model.norm
        norm = diagnostics.row_norm
        self.row_norm_ = self.data_norm_ * (1.0 if norm is None else norm)
        for text in _clipped_rows(norm, self.plan_, self.data_norm_):
            warn(text, DataScalingWarning)
        self.activation_ = self.activation
        self.layer_sizes_ = model.sizes
        self.n_layers_, self.n_outputs_ = len(model.sizes), self.classes_.size
        self.out_activation_ = "softmax"
        return self

    # From the draws

    def layers(self, draws: np.ndarray | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Split draws into weights and biases.

        Parameters
        ----------
        draws : ndarray of shape (n_draws, n_parameters) or None, default=None
            The draws; None is ``posterior_samples_``.

        Returns
        -------
        layers : list of (weights, biases)
            For each layer, arrays of shape (n_draws, units of the layer before, units) and (n_draws, units).
            Weights of the first layer apply to rows divided by ``row_norm_ / 4``.
        """
        check_is_fitted(self)
        draws = self.posterior_samples_ if draws is None else np.asarray(draws)
        return layers_of(draws, self.layer_sizes_)

    def _log_proba(self, X):
        """Log of the posterior predictive, of shape (n_samples, n_classes)."""
        check_is_fitted(self)
        rows = self._scaled(X)
        draws = layers_of(self.posterior_samples_.astype(np.float32), self.layer_sizes_)
        chunks = [
            self._average(rows[i : i + _CHUNK_ROWS], draws)
            for i in range(0, len(rows), _CHUNK_ROWS)
        ]
        return np.vstack(chunks)

    def _logits(self, X, draws):
        rows, layers = self._scaled(X), layers_of(draws.astype(np.float32), self.layer_sizes_)
        size = max(1, _CHUNK_ENTRIES // (len(draws) * self.n_outputs_))
        for part in gen_batches(len(rows), size):
            yield np.stack(list(self._outputs(rows[part], layers)), axis=2)

    def _scaled(self, X):
        """Rows as the first layer has them."""
        X = validate_table(self, X, reset=False, accept_sparse=False)
        return scaled_rows(X, self.data_norm_) * np.float32(self.data_norm_ / self.row_norm_)

    def _average(self, rows, draws):
        """The log of the mean probability over draws of the layers."""
        total = np.full((len(rows), self.n_outputs_), -np.inf)
        for logits in self._outputs(rows, draws):
            np.logaddexp(total, log_softmax(logits, axis=1), out=total)
        return total - np.log(len(self.posterior_samples_))

    def _outputs(self, rows, draws):
        """Yield the logits of each draw of the layers, of shape (n_rows, n_classes)."""
        for number in range(len(draws[-1][1])):
            a = rows
            for weights, biases in draws[:-1]:
                a = a @ weights[number] + biases[number]
                a = np.tanh(a) if self.activation_ == "tanh" else np.maximum(a, 0.0)
            weights, biases = draws[-1]
            yield (a @ weights[number] + biases[number]).astype(np.float64)

    def _drawn_posterior(self, **shared):
        return NetworkPosterior(**shared, sizes=self.layer_sizes_, classes=self.classes_)


def _clipped_rows(norm, plan, data_norm):
    """A tuple with a warning if the released norm of rows is the largest, which longer ones are cut to.

    Nothing is said where so few rows decide that noise may have chosen it.

    Parameters
    ----------
    norm : float or None
        The released norm, in units of ``data_norm``; None without calibration.
    plan : Plan
    data_norm : float
    """
    if norm is None or norm < 1.0:
        return ()
    squared = NORMS[1] ** 2  # A row of norm 1 moves the sum of the next norm by this share.
    moved = (1.0 - squared) / (1.0 + squared)
    scale = 2.0 * plan.budget.sensitivity_factor
    if plan.log_odds_ranges[0] * plan.n_samples * moved / scale < _DECISIVE_LOG_ODDS:
        return ()
    return (
        f"the released length of rows, row_norm_, reaches data_norm={data_norm:.3g}, to which longer rows "
        "are clipped: unless rows were scaled to this length on purpose, most are clipped, and the network "
        "hardly sees what else they hold. Scale columns by BoundedScaler with public bounds, or by "
        "DPQuantileScaler, which learns bounds privately, or raise data_norm to a public bound that most "
        "rows keep. Fitting again spends budget again.",
    )


@dataclass(frozen=True, eq=False)
class NetworkPosterior(DrawnPosterior):
    """Draws of the weights and biases of a network's layers."""

    sizes: tuple[int, ...] = ()
    classes: Any = None

    def variables(self):
        """Weights and biases of each layer."""
        dimensions = list(self.coords())
        variables: dict[str, tuple[np.ndarray, tuple[str, ...]]] = {}
        for k, (weights, biases) in enumerate(layers_of(self.draws, self.sizes), 1):
            name = "out" if k == len(self.sizes) - 1 else str(k)
            variables[f"weights_{name}"] = (weights, (dimensions[k - 1], dimensions[k]))
            variables[f"biases_{name}"] = (biases, (dimensions[k],))
        return variables

    def coords(self):
        """Columns, units of hidden layers, and classes."""
        units = {f"unit_{k}": np.arange(n) for k, n in enumerate(self.sizes[1:-1], 1)}
        return {"feature": self.columns, **units, "class": self.classes}
