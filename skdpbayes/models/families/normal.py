"""Numbers, ``y`` in [a, b]: one logit, the mean less the middle of the bounds, and noise of deviation ``s``.

    c = (a + b) / 2,    ell' = psi(eta - (y - c)) / s^2,    psi(r) = min(max(r, -tau), tau),  ell'' <= 1 / s^2

Residuals are clipped to ``tau``, which makes a Huberised likelihood: normal inside, with straight flanks.
With ``tau = b - a``, the default, it is the normal law's wherever the mean is within the bounds. Numbers
outside the bounds are counted as the nearer bound. Huber, "Robust estimation of a location parameter", 1964.
"""

import math
from collections import namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from ..._arguments import check_number
from ..._jit import compilable
from ..base import implements, of_remote_rows
from ..linear import DENSE, REMOTE, SPARSE, LinearTarget
from ..rows import real_numbers
from .base import NumberFamily, has_one_block, write_loss_differences, write_residuals

_FIELDS = ("low", "high", "deviation", "clip")
# Skewness below which errors count as normal.
_LEAST_SKEWNESS = 1e-3


class ErrorLaw(NamedTuple):
    """Errors of mean 0, normal ones or with a tail to one side.

        e = s (exp(g z - g^2 / 2) - 1) / sqrt(exp(g^2) - 1),    z ~ N(0, 1)

    a shifted lognormal law, in the limit of ``g = 0`` the normal one. With ``w = exp(g^2)`` its skewness is
    ``(w + 2) sqrt(w - 1)``. For a negative one it is that of ``-e``.

    Attributes
    ----------
    deviations : ndarray of shape (n_draws,)
        ``s``.
    skewness : float, default=0
        The third moment over the cube of the deviation.
    """

    deviations: np.ndarray
    skewness: float = 0.0

    @property
    def _shape(self):
        """``g``, and ``sqrt(exp(g^2) - 1)``."""
        square = self.skewness**2
        # The root of (w + 2)^2 (w - 1) = skewness^2.
        cube = 1.0 + 0.5 * square + abs(self.skewness) * math.sqrt(1.0 + 0.25 * square)
        excess = cube ** (1.0 / 3.0) + cube ** (-1.0 / 3.0) - 2.0
        return math.sqrt(math.log1p(excess)), math.sqrt(excess)

    def cdf(self, errors):
        """Probabilities of errors up to ``errors``, of shape (..., n_draws)."""
        z = errors / self.deviations
        if abs(self.skewness) < _LEAST_SKEWNESS:
            return ndtr(z)
        (g, root), sign = self._shape, math.copysign(1.0, self.skewness)
        inner = 1.0 + sign * root * z
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(inner, 0.0))
        return ndtr(sign * (logs / g + 0.5 * g))

    def simulated(self, shape, generator):
        """Errors of shape ``(..., n_draws)``."""
        # Post-processing.
        z = generator.standard_normal(shape)
        if abs(self.skewness) >= _LEAST_SKEWNESS:
            (g, root), sign = self._shape, math.copysign(1.0, self.skewness)
            z = sign * np.expm1(sign * g * z - 0.5 * g**2) / root
        return self.deviations * z


def error_law(noise):
    """An `ErrorLaw`; deviations are those of normal errors."""
    return noise if isinstance(noise, ErrorLaw) else ErrorLaw(np.asarray(noise))


@dataclass(frozen=True)
class Normal(NumberFamily):
    """The normal law, with bounds on what is seen of it.

    Parameters
    ----------
    low, high : float
        ``a`` and ``b``, public numbers; numbers outside are moved to the nearer one.
    deviation : float or None, default=None
        ``s``, a public number. None is for samplers that learn it; in the equations it is then 1.
    clip : float or None, default=None
        ``tau``, to which residuals are clipped; None is ``high - low``.
    """

    low: float
    high: float
    deviation: float | None = None
    clip: float = None  # type: ignore[assignment]  # Replaced by the default.

    def __post_init__(self):
        for name in ("low", "high"):
            check_number(name, getattr(self, name))
        low, high = float(self.low), float(self.high)
        if not -1e60 <= low < high <= 1e60:
            raise ValueError(
                f"the bounds of responses (target_bounds) must be two numbers within 1e60 of 0, the lower "
                f"first, got {low:g} and {high:g}."
            )
        if high - low < 1e-60:
            raise ValueError(
                f"the bounds of responses (target_bounds) must be at least 1e-60 apart, got {low:g} and "
                f"{high:g}: multiply responses by a public number."
            )
        clip = high - low if self.clip is None else float(self.clip)
        deviation = 1.0 if self.deviation is None else float(self.deviation)
        for name, value in (("clip", clip), ("deviation", deviation)):
            if not 1e-60 <= value <= 2e60:
                raise ValueError(f"{name}={value:g} must be between 1e-60 and 1e60.")
        for name, value in (("low", low), ("high", high), ("clip", clip)):
            object.__setattr__(self, name, value)

    @property
    def has_unknown_error_sd(self) -> bool:  # type: ignore[override]  # It depends on a field.
        """Whether the noise has a deviation that is not given."""
        return self.deviation is None

    @property
    def centre(self) -> float:  # type: ignore[override]  # It depends on a field.
        """``c``."""
        return self.low + 0.5 * (self.high - self.low)

    @property
    def half_width(self) -> float:
        """``(b - a) / 2``: no centred response is farther from 0."""
        return 0.5 * (self.high - self.low)

    @property
    def _precision(self):
        return 1.0 if self.deviation is None else float(self.deviation) ** -2

    @property
    def residual_bound(self) -> float:  # type: ignore[override]  # It depends on a field.
        """``tau / s^2``."""
        return self.clip * self._precision

    @property
    def slope_bound(self) -> float:  # type: ignore[override]  # It depends on a field.
        """``1 / s^2``."""
        return self._precision

    @property
    def logit_scale(self) -> float:  # type: ignore[override]  # It depends on a field.
        """Half the width of the bounds."""
        return self.half_width

    @property
    def intercept_scale(self) -> float:  # type: ignore[override]  # It depends on a field.
        """Half the width of the bounds."""
        return self.half_width

    @property
    def target_classes(self) -> tuple[type, type, type]:
        """Compiled targets of dense rows, of sparse rows, and of remote rows."""
        return DenseNormal, SparseNormal, RemoteNormal

    @property
    def target_fields(self) -> tuple:
        """``a``, ``b``, ``s`` (0 if it is not given) and ``tau``."""
        return self.low, self.high, float(self.deviation or 0.0), self.clip

    def checked_responses(self, responses: Any, n_rows: int) -> np.ndarray:
        """Numbers within the bounds, less their middle."""
        return np.clip(real_numbers(responses, n_rows), self.low, self.high) - self.centre

    def inverse_link(self, logits: np.ndarray) -> np.ndarray:
        """The logits."""
        return logits

    def mean(self, predicted: np.ndarray) -> np.ndarray:
        """``eta / s^2``."""
        return self._precision * predicted

    def residuals(self, predicted: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """``psi(eta - y) / s^2`` for responses less the middle."""
        return self._precision * np.clip(predicted - responses, -self.clip, self.clip)

    def slope_times(self, predicted: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """``a / s^2``."""
        return self._precision * np.broadcast_to(vectors, predicted.shape)

    def mean_variance(self, predicted: np.ndarray) -> np.ndarray:
        """``1 / s^2``, the variance of ``y / s^2``."""
        return np.full_like(predicted[..., 0, :], self._precision)

    def mean_variance_by_mean(self, predicted: np.ndarray) -> np.ndarray:
        """0."""
        return np.zeros_like(predicted)

    def losses(self, logits: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """``(eta - y)^2 / (2 s^2)`` up to where residuals are clipped, and straight lines outside."""
        size = np.abs(logits[0] - responses)
        inner = np.minimum(size, self.clip)
        return self._precision * inner * (size - 0.5 * inner)

    def expected_slope(self, variance: float) -> float:
        """``1 / s^2``."""
        return self._precision

    def prediction(self, logits: np.ndarray) -> np.ndarray:
        """The logits, to which ``c`` was added."""
        return logits

    def cdf(self, values: np.ndarray, logits: np.ndarray, noise: Any) -> np.ndarray:
        """The probabilities of numbers up to ``values``."""
        return error_law(noise).cdf(values - logits)

    def simulated(self, logits: np.ndarray, noise: Any, generator: Any) -> np.ndarray:
        """Numbers, which the bounds do not confine."""
        return logits + error_law(noise).simulated(logits.shape, generator)

    @property
    def largest_slope(self) -> np.ndarray:
        """``1 / s^2``."""
        return np.array([[self._precision]])


class _Target(LinearTarget):
    __slots__ = ()
    low: float
    high: float
    deviation: float
    clip: float

    @property
    def family(self) -> Normal:
        """The law of a response."""
        return Normal(self.low, self.high, self.deviation or None, self.clip)


@has_one_block
class DenseNormal(_Target, namedtuple("DenseNormal", (*DENSE, *_FIELDS))):  # type: ignore[misc]  # Of shared fields.
    """Numbers, rows of an array."""


@has_one_block
class SparseNormal(_Target, namedtuple("SparseNormal", (*SPARSE, *_FIELDS))):  # type: ignore[misc]  # Of shared fields.
    """Numbers, rows of a CSR matrix."""


@of_remote_rows
class RemoteNormal(_Target, namedtuple("RemoteNormal", (*REMOTE, *_FIELDS))):  # type: ignore[misc]  # Of shared fields.
    """Numbers, remote rows."""


@compilable
def _precision(target):
    return 1.0 if target.deviation == 0.0 else target.deviation**-2


@implements(write_residuals, DenseNormal)
@implements(write_residuals, SparseNormal)
def _write_residuals(target, logits, responses):
    _subtract(logits, responses, target.clip, _precision(target))


@compilable(fastmath={"contract"})
def _subtract(z, y, clip, precision):
    for i in range(z.size):
        # What is no number is counted as the largest residual.
        residual = z[i] - y[i]
        residual = residual if residual < clip else clip
        z[i] = precision * (residual if residual > -clip else -clip)


@implements(write_loss_differences, DenseNormal)
@implements(write_loss_differences, SparseNormal)
def _write_loss_differences(target, logits, others, responses):
    clip, precision = target.clip, _precision(target)
    for i in range(logits.size):
        here = _loss(logits[i] - responses[i], clip)
        logits[i] = precision * (here - _loss(others[i] - responses[i], clip))


@compilable
def _loss(residual, clip):
    size = abs(residual)
    inner = min(size, clip)
    return inner * (size - 0.5 * inner)
