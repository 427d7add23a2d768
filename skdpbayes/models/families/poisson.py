"""Counts, ``y`` in [0, Y]: one logit, the logarithm of the mean, which may have an offset.

    m = exp(eta),    ell' = psi(m - y),    psi(r) = min(max(r, -tau), tau),    0 <= ell'' <= Y + tau

Residuals are clipped to ``tau``, which makes a Huberised likelihood: convex, with bounded gradients and
curvatures whatever the logits. With ``tau = Y``, the default, it is Poisson's wherever ``m <= Y``, since only
means above ``y + Y`` are clipped; a smaller one is robust, and biased where counts vary more than ``tau``.
Means are counted as ``Y + tau`` where they are larger, which changes no clipped residual, so that nothing
overflows. Counts above ``Y`` are counted as ``Y``. Huber, "Robust estimation of a location parameter", 1964.
"""

import math
from collections import namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainc, gammaln, pdtr

from ..._arguments import check_number
from ..._jit import compilable, compiled
from ..base import implements, of_remote_rows
from ..kernels import exp
from ..linear import DENSE, REMOTE, SPARSE, LinearTarget
from ..rows import real_numbers
from .base import Family, NumberFamily, has_one_block, write_loss_differences, write_residuals

# Counts that may vary more than Poisson's law says: negative binomial, with more zeros.
#
#     Y = 0 with probability pi, else of mean nu = mu / (1 - pi) and variance nu (phi + a nu)
#
# ``phi = 1``, ``a = pi = 0`` is Poisson's law. A negative binomial one has ``r = nu / (phi + a nu - 1)``
# failures with the probability ``1 / (phi + a nu)`` of each. Its distribution function is an incomplete beta
# function, as Poisson's is a gamma function. Up to small counts probabilities are summed, which is up to
# ten times as fast: with ``e = phi + a nu - 1``,
#
#     p_0 = (1 + e)^(-nu / e),      p_{k+1} = p_k (nu + k e) / ((k + 1) (1 + e))


# Variances over means that are closer to 1 are counted as 1.
_LEAST_EXCESS = 1e-3
# Least mean: smaller ones have no counts but 0.
_LEAST_MEAN = 1e-300
# Means are cut here, as counts are drawn as integers of 64 bits.
_LARGEST_MEAN = 1e18
# Counts up to which probabilities are summed. Where the first is no double, those up to here are negligible.
_MOST_SUMMED = 200.0
# Least share of a sum that is added: beyond the mean, what follows smaller ones is negligible.
_LEAST_ADDED = 1e-17


class CountLaw(NamedTuple):
    """How counts vary around their means.

    Attributes
    ----------
    dispersion : float, default=1
        ``phi``: a variance in proportion to the mean, as of events that come in clusters.
    growth : float, default=0
        ``a``: a variance that grows with the square of the mean, as of rates that differ.
    zeros : float, default=0
        ``pi``: the share of rows that can have no count but 0.
    """

    dispersion: float = 1.0
    growth: float = 0.0
    zeros: float = 0.0

    def excess(self, mean):
        """``phi + a nu - 1`` for means ``nu``, 0 where it is near 0."""
        excess = self.dispersion - 1.0 + self.growth * mean
        return np.where(excess >= _LEAST_EXCESS, excess, 0.0)

    def variance(self, mean):
        """The variances of counts of means ``mu``."""
        inner = mean / (1.0 - self.zeros)
        return mean * (self.dispersion + (self.growth + self.zeros) * inner)


def law_of(law):
    """A `CountLaw`, of which a number is the dispersion."""
    return law if isinstance(law, CountLaw) else CountLaw(law)


def distribution(counts, mean, law):
    """``P(Y <= k)`` for arrays that are broadcast together.

    Parameters
    ----------
    counts, mean : ndarray or float
        ``k`` and ``mu``.
    law : CountLaw or float
        A number, or an array of them, is the dispersion.
    """
    law = law_of(law)
    inner = np.asarray(mean) / (1.0 - law.zeros)
    up_to = law.zeros + (1.0 - law.zeros) * _distribution(counts, inner, law.excess(inner))
    return np.where(np.asarray(counts) < 0.0, 0.0, up_to)


def _distribution(counts, mean, excess):
    """Without more zeros."""
    counts = np.floor(counts)
    if np.max(counts, initial=-1.0) <= _MOST_SUMMED:
        return _summed(counts, mean, excess)[0]
    k = np.maximum(counts, 0.0)
    probabilities = pdtr(k, mean + np.zeros_like(excess))
    if np.any(excess):
        at_least = np.maximum(excess, _LEAST_EXCESS)
        varying = betainc(mean / at_least, k + 1.0, 1.0 / (1.0 + at_least))
        probabilities = np.where(excess > 0.0, varying, probabilities)
    return np.where(counts < 0.0, 0.0, probabilities)


def partial_moments(counts, mean, law):
    """``P(Y <= k)``, ``E[Y; Y <= k]`` and ``E[Y (Y - 1); Y <= k]``.

    Without more zeros, and with ``F_j`` the distribution function for ``j`` failures more than the ``r`` of
    ``nu``, they are ``F_0(k)``, ``nu F_1(k - 1)`` and ``nu (nu + phi + a nu - 1) F_2(k - 2)``. By a
    recurrence of incomplete beta functions [1]_ and the probability ``p`` of ``k``,

        F_1(k - 1) = F_0(k) - (1 + k / r) p,      F_2(k - 2) = F_1(k - 1) - (1 + (k - 1) / (r + 1)) k p / nu

    Parameters
    ----------
    counts, mean : ndarray
        ``k`` and ``mu``.
    law : CountLaw or float
        A number is the dispersion.

    References
    ----------
    .. [1] NIST Digital Library of Mathematical Functions, 8.17.
    """
    law = law_of(law)
    counts, inner = np.floor(counts), np.maximum(mean, _LEAST_MEAN) / (1.0 - law.zeros)
    excess = law.excess(inner)
    more, none = 1.0 - law.zeros, np.where(counts < 0.0, 0.0, law.zeros)
    if np.max(counts, initial=-1.0) <= _MOST_SUMMED:
        whole, *moments = _summed(counts, inner, excess)
        return none + more * whole, more * moments[0], more * moments[1]
    k, whole = np.maximum(counts, 0.0), _distribution(counts, inner, excess)
    inverse_r = excess / inner
    logs = k * np.log(inner) - inner
    if np.any(excess):
        at_least = np.maximum(excess, _LEAST_EXCESS)
        r = inner / at_least
        varying = gammaln(k + r) - gammaln(r) + k * np.log(at_least) - (k + r) * np.log1p(at_least)
        logs = np.where(excess > 0.0, varying, logs)
    p = np.where(counts < 0.0, 0.0, np.exp(logs - gammaln(k + 1.0)))
    first = np.maximum(whole - (1.0 + k * inverse_r) * p, 0.0)
    second = first - (1.0 + (k - 1.0) * inverse_r / (1.0 + inverse_r)) * k * p / inner
    second = np.maximum(second, 0.0)
    return none + more * whole, more * inner * first, more * inner * (inner + excess) * second


def _summed(counts, mean, excess):
    """As `partial_moments`, without more zeros, by sums."""
    given = np.broadcast_arrays(counts, mean, excess)
    sums = np.empty((3, given[0].size))
    _add_up(*(np.ascontiguousarray(each, dtype=float).ravel() for each in given), sums)
    return sums.reshape(3, *given[0].shape)


@compiled
def _add_up(counts, means, excesses, sums):
    for i in range(counts.size):
        mean, excess = means[i], excesses[i]
        p = math.exp(-mean if excess == 0.0 else -mean / excess * math.log1p(excess))
        share, whole, first, second, k = 1.0 / (1.0 + excess), 0.0, 0.0, 0.0, 0.0
        while k <= counts[i]:
            whole += p
            first += k * p
            second += k * (k - 1.0) * p
            p *= (mean + k * excess) * share / (k + 1.0)
            k += 1.0
            if p == 0.0 or (k > mean and p < _LEAST_ADDED * whole):
                break
        sums[0, i], sums[1, i], sums[2, i] = whole, first, second


def drawn(mean, law, generator):
    """Counts drawn at random; ``law`` is as for `distribution`."""
    law = law_of(law)
    mean = np.minimum(mean / (1.0 - law.zeros), _LARGEST_MEAN)
    excess = law.excess(mean)
    if law.zeros:
        # Post-processing.
        mean = mean * (generator.random(np.shape(mean)) >= law.zeros)
    if np.any(excess):
        excess = np.maximum(excess, _LEAST_EXCESS)
        # Post-processing.
        mean = np.minimum(generator.gamma(mean / excess, excess), _LARGEST_MEAN)
    # Post-processing.
    return generator.poisson(mean)


# Means of smaller logits are counted as 0.
_LEAST_LOGIT = -700.0
_FIELDS = ("max_count", "clip", "largest_logit")


@dataclass(frozen=True)
class Poisson(NumberFamily):
    """The law of Poisson's counts, with a logarithmic link.

    Parameters
    ----------
    max_count : float
        ``Y``, a public number; larger counts are reduced to it.
    clip : float or None, default=None
        ``tau``, to which residuals are clipped; None is ``max_count``.
    """

    max_count: float
    clip: float = None  # type: ignore[assignment]  # Replaced by the default.

    has_offsets = True
    whole_numbers = True

    def __post_init__(self):
        clip = self.max_count if self.clip is None else self.clip
        for name, value in (("max_count", self.max_count), ("clip", clip)):
            check_number(name, value)
            value = float(value)
            if not 1e-60 <= value <= 1e60:
                raise ValueError(f"{name}={value:g} must be between 1e-60 and 1e60.")
            object.__setattr__(self, name, value)

    @property
    def residual_bound(self) -> float:  # type: ignore[override]  # It depends on a field.
        """``tau``."""
        return self.clip

    @property
    def slope_bound(self) -> float:  # type: ignore[override]  # It depends on a field.
        """``Y + tau``."""
        return self.max_count + self.clip

    @property
    def intercept_scale(self) -> float:  # type: ignore[override]  # It depends on a field.
        """Half of ``log(1 + Y)``, if that is more than is usual: the logarithm of a mean may be as large."""
        return max(Family.intercept_scale, 0.5 * math.log1p(self.max_count))

    @property
    def largest_logit(self) -> float:
        """``log(Y + tau)``."""
        return math.log(self.slope_bound)

    @property
    def target_classes(self) -> tuple[type, type, type]:
        """Compiled targets of dense rows, of sparse rows, and of remote rows."""
        return DensePoisson, SparsePoisson, RemotePoisson

    @property
    def target_fields(self) -> tuple:
        """``Y``, ``tau`` and ``log(Y + tau)``."""
        return self.max_count, self.clip, self.largest_logit

    def checked_responses(self, responses: Any, n_rows: int) -> np.ndarray:
        """Counts, reduced to ``Y``; rates, which are no whole numbers, are allowed."""
        return np.minimum(real_numbers(responses, n_rows, least=0.0), self.max_count)

    def inverse_link(self, logits: np.ndarray) -> np.ndarray:
        """Means, of which none is larger than ``Y + tau``."""
        return np.exp(np.minimum(logits, self.largest_logit))

    def mean(self, predicted: np.ndarray) -> np.ndarray:
        """Means."""
        return predicted

    def residuals(self, predicted: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """``psi(m - y)``."""
        return np.clip(predicted - responses, -self.clip, self.clip)

    def slope_times(self, predicted: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """``m a``: the slope of means that are not clipped."""
        return predicted * vectors

    def mean_variance(self, predicted: np.ndarray) -> np.ndarray:
        """``m``."""
        return predicted[..., 0, :]

    def mean_variance_by_mean(self, predicted: np.ndarray) -> np.ndarray:
        """1."""
        return np.ones_like(predicted)

    def losses(self, logits: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """``exp(eta) - y eta`` up to where residuals are clipped, and straight lines from there on."""
        low, high = responses - self.clip, np.log(responses + self.clip)
        low = np.log(np.maximum(low, math.exp(_LEAST_LOGIT)))
        inner = np.clip(logits[0], low, high)
        return np.exp(inner) - responses * inner + self.clip * np.abs(logits[0] - inner)

    def expected_slope(self, variance: float) -> float:
        """The mean of a lognormal variable, or the largest slope."""
        return math.exp(min(0.5 * variance, self.largest_logit))

    def prediction(self, logits: np.ndarray) -> np.ndarray:
        """``exp(eta)``."""
        return np.exp(np.minimum(logits, -_LEAST_LOGIT))

    def cdf(self, values: np.ndarray, logits: np.ndarray, noise: Any) -> np.ndarray:
        """The probabilities of counts up to ``values``; ``noise`` is their `CountLaw`, if not Poisson's."""
        return distribution(values, self.prediction(logits), 1.0 if noise is None else noise)

    def simulated(self, logits: np.ndarray, noise: Any, generator: Any) -> np.ndarray:
        """Counts; ``noise`` is their `CountLaw`, if not Poisson's."""
        return drawn(self.prediction(logits), 1.0 if noise is None else noise, generator)

    @property
    def largest_slope(self) -> np.ndarray:
        """``Y + tau``."""
        return np.array([[self.slope_bound]])


class _Target(LinearTarget):
    __slots__ = ()
    max_count: float
    clip: float

    @property
    def family(self) -> Poisson:
        """The law of a response."""
        return Poisson(self.max_count, self.clip)


@has_one_block
class DensePoisson(_Target, namedtuple("DensePoisson", (*DENSE, "offsets", *_FIELDS))):  # type: ignore[misc]  # Of shared fields.
    """Counts, rows of an array."""


@has_one_block
class SparsePoisson(_Target, namedtuple("SparsePoisson", (*SPARSE, "offsets", *_FIELDS))):  # type: ignore[misc]  # Of shared fields.
    """Counts, rows of a CSR matrix."""


@of_remote_rows
class RemotePoisson(_Target, namedtuple("RemotePoisson", (*REMOTE, *_FIELDS))):  # type: ignore[misc]  # Of shared fields.
    """Counts, remote rows."""


@implements(write_residuals, DensePoisson)
@implements(write_residuals, SparsePoisson)
def _write_residuals(target, logits, responses):
    _subtract_from_exp(logits, responses, target.largest_logit, target.clip)


@compilable(fastmath={"contract"})
def _subtract_from_exp(z, y, top, clip):
    for i in range(z.size):
        # What is no number is counted as the top.
        below = z[i] if z[i] < top else top
        residual = exp(below if below > _LEAST_LOGIT else _LEAST_LOGIT) - y[i]
        residual = residual if residual < clip else clip
        z[i] = residual if residual > -clip else -clip


@implements(write_loss_differences, DensePoisson)
@implements(write_loss_differences, SparsePoisson)
def _write_loss_differences(target, logits, others, responses):
    clip = target.clip
    for i in range(logits.size):
        here = _loss(logits[i], responses[i], clip)
        logits[i] = here - _loss(others[i], responses[i], clip)


@compilable
def _loss(z, y, clip):
    low = math.log(y - clip) if y > clip else _LEAST_LOGIT
    inner = min(max(z, low), math.log(y + clip))
    return math.exp(inner) - y * inner + clip * abs(z - inner)
