"""The posterior of ``u`` and the curvature ``F``, given noisy gradients and a noisy curvature.

With ``t = sum_i v_i y_i z_i``, the same in every gradient, and ``a(u)`` its mean given ``u``,

    g_k = a(u_k) - t + N(0, s_k^2 I),    t ~ N(a(u), F_u),    F~ = F + N,    u ~ N(0, P^-1)

    a(u) - a(m) = F (u - m) + c(u),      c(u) = S(u) - S(m) - S'(m) (u - m)
    S(u) = n D u E[sigma'(N(0, u^T D u))],      F_u = F h(u) / h(m)

``F`` is what the records have, seen through noise. ``S`` is the score of a Gaussian design with the released
second moment ``n D``: its linear part is replaced by ``F``, so that the design decides on the saturation of
logits far from ``m`` only. A priori eigenvectors of ``F`` are uniform, and the logarithms of its eigenvalues
normal; their mean, which is near that of the Gaussian design, and their deviation are learned. Everything is
drawn in turns, in the basis of eigenvectors: rotations in planes, eigenvalues, coordinates of ``u`` one by
one, and its length.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..._compiled import compilable, compiled
from .plan import BURN_IN, THINNING

# Rotations of one sweep at most, in planes that are chosen at random.
_MOST_ROTATIONS = 1000
_LARGEST_LOGIT = 60.0
# Of the mean of ``D``, below which it is noise.
_LEAST_SEEN = 0.01
# Acceptance rate to which proposals are tuned, and how fast.
_WANTED, _RATE = 0.44, 0.2


@dataclass(frozen=True)
class Surrogate:
    """All that was released of a table, and the prior.

    Attributes
    ----------
    n_samples : int
    transform : ndarray of shape (length, length)
        ``W``; parameters are ``W u``.
    seen : ndarray of shape (length,)
        ``D``'s diagonal.
    prior : ndarray of shape (length, length)
        ``P``.
    points, gradients : ndarray of shape (n_gradients, length)
        Gradients, and where; the last point is ``m``.
    noises : ndarray of shape (n_gradients,)
        ``s_k``.
    curvature : ndarray of shape (length, length)
        At ``m``. Its noise has a deviation of ``curvature_noise`` on the diagonal, elsewhere ``1 / sqrt(2)``
        of it.
    curvature_noise : float
    """

    n_samples: int
    transform: np.ndarray
    seen: np.ndarray
    prior: np.ndarray
    points: np.ndarray
    gradients: np.ndarray
    noises: np.ndarray
    curvature: np.ndarray
    curvature_noise: float

    def usual_curvature(self, slope):
        """Return the mean eigenvalue of a Gaussian design's curvature, also where nothing of it is seen."""
        return self.n_samples * slope * max(self.seen.mean(), _LEAST_SEEN)


def average_slope(length):
    """Return ``h(s) = E[sigma'(N(0, s^2))]``."""
    shares = expected_slopes(np.atleast_1d(np.asarray(length, dtype=float)))
    return shares if np.ndim(length) else float(shares[0])


_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()
_STEPS_PER_UNIT = 50


def expected_slopes(lengths):
    """Return ``h`` of an array of lengths, by quadrature; beyond 8 by its limit, ``1 / (s sqrt(2 pi))``."""
    inside = np.minimum(lengths, 8.0)[:, None] * _NODES
    slopes = 1.0 / (2.0 + 2.0 * np.cosh(inside)) @ _NODE_WEIGHTS
    return slopes * 8.0 / np.maximum(lengths, 8.0)


_SLOPES = expected_slopes(np.arange(_STEPS_PER_UNIT * int(_LARGEST_LOGIT) + 2) / _STEPS_PER_UNIT)


def find_mode(n_samples, seen, prior, points, gradients, noises):
    """Return the mode of ``u`` given gradients alone, for a Gaussian design; the next point.

    Newton's steps on ``|t - a(u)|^2`` with the variance of ``t`` and of what noise leaves of it.
    """
    precisions = np.array(noises) ** -2.0
    information = n_samples * seen

    def score(u):
        return information * u * average_slope(math.sqrt(np.sum(seen * u**2)))

    looks = [score(u) - g for u, g in zip(points, gradients, strict=False)]
    total = np.average(looks, axis=0, weights=precisions)
    u = np.array(points[-1])
    for _ in range(50):
        slope = information * average_slope(math.sqrt(np.sum(seen * u**2)))
        share = slope / (slope + 1.0 / precisions.sum())
        gradient = share * (score(u) - total) + prior @ u
        step = np.linalg.solve(np.diag(share * slope) + prior, gradient)
        length = np.linalg.norm(step)
        u -= step * min(1.0, 2.0 / max(length, 1e-12))
        if length < 1e-6:
            break
    return u


def draw(surrogate, n_draws, random):
    """Return draws of the parameters.

    Parameters
    ----------
    surrogate : Surrogate
    n_draws : int
    random : Generator or RandomState
        It need not be secret.

    Returns
    -------
    draws : ndarray of shape (n_draws, length)
    """
    seed = random.integers(2**31) if hasattr(random, "integers") else random.randint(2**31)
    values, vectors = np.linalg.eigh(surrogate.curvature)
    values = np.maximum(values, 0.05 * surrogate.usual_curvature(_SLOPES[0]))
    given, state = _in_basis(surrogate, values, vectors)
    draws = np.empty((n_draws, values.size))
    n_rotations = min(values.size * (values.size - 1) // 2, _MOST_ROTATIONS)
    generator = np.random.Generator(np.random.PCG64(int(seed)))
    _chain(generator, given, state, _SLOPES, n_rotations, BURN_IN, THINNING, draws)
    return draws @ surrogate.transform.T


class Given(NamedTuple):
    """What does not change in a chain, but for the basis in which it is written.

    ``vectors`` has five rows: the averages of gradients, points and their ``c``, by the precisions of the
    noise, then ``m`` and ``D m``.
    """

    n_samples: int
    variance: float
    curvature_noise: float
    slope: float
    slope_change: float
    curvature: np.ndarray
    prior: np.ndarray
    seen: np.ndarray
    vectors: np.ndarray


class State(NamedTuple):
    """Where a chain is: ``u`` in the basis of eigenvectors, logarithms of eigenvalues, the basis.

    ``law`` has their mean and deviation, and what the mean is around a priori, with a deviation of 1.
    """

    u: np.ndarray
    logs: np.ndarray
    basis: np.ndarray
    law: np.ndarray


def _in_basis(surrogate, values, basis):
    """Return (`Given`, `State`) in a basis of eigenvectors."""
    n, seen, last = surrogate.n_samples, surrogate.seen, surrogate.points[-1]
    length = math.sqrt(np.sum(seen * last**2))
    slope = average_slope(length)
    step = 1e-3
    change = (average_slope(length + step) - average_slope(max(length - step, 0.0))) / (
        step + min(step, length)
    )
    change /= max(length, step)

    def beyond(u):
        own = average_slope(math.sqrt(np.sum(seen * u**2)))
        linear = slope * (u - last) + last * change * np.sum(seen * last * (u - last))
        return n * seen * (u * own - last * slope - linear)

    corrections = np.array([beyond(u) for u in surrogate.points])
    # What is not known of c at points that are far from m counts as noise.
    squares = surrogate.noises**2 + np.mean(corrections**2, axis=1) / 4.0
    shares = squares**-1.0 / np.sum(squares**-1.0)
    averages = [shares @ part for part in (surrogate.gradients, surrogate.points, corrections)]
    given = Given(
        n_samples=float(n),
        variance=float(1.0 / np.sum(squares**-1.0)),
        curvature_noise=surrogate.curvature_noise,
        slope=slope,
        slope_change=float(change),
        curvature=basis.T @ surrogate.curvature @ basis,
        prior=basis.T @ surrogate.prior @ basis,
        seen=(basis.T * seen) @ basis,
        vectors=np.ascontiguousarray(np.array([*averages, last, seen * last]) @ basis),
    )
    logs = np.log(values)
    law = np.array([logs.mean(), max(logs.std(), 0.1), math.log(surrogate.usual_curvature(slope))])
    return given, State(last @ basis, logs, np.ascontiguousarray(basis), law)


@compilable
def _times(matrix, vector, out):
    for i in range(vector.size):
        total = 0.0
        for j in range(vector.size):
            total += matrix[i, j] * vector[j]
        out[i] = total


@compilable
def _residuals(given, u, moved, slopes, out):
    """Write ``g + c(u)`` less the average ``c``, given ``D u``; return ``h(u) / h(m)``."""
    square, along = 0.0, 0.0
    for i in range(u.size):
        square += u[i] * moved[i]
        along += (u[i] - given.vectors[3, i]) * given.vectors[4, i]
    place = min(math.sqrt(max(square, 0.0)), _LARGEST_LOGIT) * _STEPS_PER_UNIT
    low = int(place)
    own = slopes[low] + (place - low) * (slopes[low + 1] - slopes[low])
    bend = given.slope_change * along
    for i in range(u.size):
        beyond = moved[i] * (own - given.slope) - given.vectors[4, i] * bend
        out[i] = given.vectors[0, i] - given.vectors[2, i] + given.n_samples * beyond
    return own / given.slope


@compilable
def _misfit(residual, distance, value, share, variance):
    """Return ``-log N(residual; -value distance, share value + variance)``, up to a constant."""
    spread = share * value + variance
    return 0.5 * (residual + value * distance) ** 2 / spread + 0.5 * math.log(spread)


@compilable
def _likelihood(given, state, u, moved, slopes, residuals):
    """Return minus the log likelihood of ``u`` given the rest; the residuals are written."""
    share = _residuals(given, u, moved, slopes, residuals)
    total = 0.0
    for i in range(u.size):
        value, distance = math.exp(state.logs[i]), u[i] - given.vectors[1, i]
        total += _misfit(residuals[i], distance, value, share, given.variance)
    return total


@compilable
def _rotate(given, state, residuals, first, second, angle):
    """Rotate the basis in a plane."""
    cosine, sine = math.cos(angle), math.sin(angle)
    for matrix in (given.curvature, given.prior, given.seen):
        for i in range(matrix.shape[0]):
            one, other = matrix[i, first], matrix[i, second]
            matrix[i, first] = cosine * one + sine * other
            matrix[i, second] = cosine * other - sine * one
        for i in range(matrix.shape[0]):
            one, other = matrix[first, i], matrix[second, i]
            matrix[first, i] = cosine * one + sine * other
            matrix[second, i] = cosine * other - sine * one
    for matrix in (state.basis, given.vectors):
        for i in range(matrix.shape[0]):
            one, other = matrix[i, first], matrix[i, second]
            matrix[i, first] = cosine * one + sine * other
            matrix[i, second] = cosine * other - sine * one
    for vector in (state.u, residuals):
        one, other = vector[first], vector[second]
        vector[first] = cosine * one + sine * other
        vector[second] = cosine * other - sine * one


@compilable
def _try_rotation(generator, given, state, residuals, share, first, second, width):
    """Propose to rotate a plane of eigenvectors; return whether it was done."""
    angle = width * generator.standard_normal()
    cosine, sine = math.cos(angle), math.sin(angle)
    values = math.exp(state.logs[first]), math.exp(state.logs[second])
    matrix = given.curvature
    mixed = 2.0 * cosine * sine * matrix[first, second]
    gained = (sine**2) * (matrix[second, second] - matrix[first, first]) + mixed
    change = gained * (values[0] - values[1]) / given.curvature_noise**2
    for turned in range(2):
        if turned == 0:
            c, s = 1.0, 0.0
        else:
            c, s = cosine, sine
        one = c * residuals[first] + s * residuals[second]
        other = c * residuals[second] - s * residuals[first]
        here = state.u[first] - given.vectors[1, first]
        there = state.u[second] - given.vectors[1, second]
        misfit = _misfit(one, c * here + s * there, values[0], share, given.variance)
        misfit += _misfit(other, c * there - s * here, values[1], share, given.variance)
        change += misfit if turned == 0 else -misfit
    accepted = -generator.standard_exponential() < change
    if accepted:
        _rotate(given, state, residuals, first, second, angle)
    return accepted


@compilable
def _try_value(generator, given, state, residuals, share, i, width):
    """Propose another eigenvalue; return whether it was taken."""
    distance, noise = state.u[i] - given.vectors[1, i], given.curvature_noise
    proposal = state.logs[i] + width * generator.standard_normal()
    change = 0.0
    for turn in range(2):
        log_value = state.logs[i] if turn == 0 else proposal
        value = math.exp(log_value)
        energy = 0.5 * (given.curvature[i, i] - value) ** 2 / noise**2
        energy += 0.5 * ((log_value - state.law[0]) / state.law[1]) ** 2
        energy += _misfit(residuals[i], distance, value, share, given.variance)
        change += energy if turn == 0 else -energy
    accepted = -generator.standard_exponential() < change
    if accepted:
        state.logs[i] = proposal
    return accepted


@compilable
def _tuned(width, accepted, tuning, widest):
    if not tuning:
        return width
    return min(width * math.exp(_RATE * ((1.0 if accepted else 0.0) - _WANTED)), widest)


@compilable
def _renew_law(generator, state):
    """Draw mean and deviation of the logarithms of eigenvalues, given a normal and an inverse Gamma law."""
    length, variance = state.logs.size, state.law[1] ** 2
    precision, total = 1.0 + length / variance, state.law[2]
    for i in range(length):
        total += state.logs[i] / variance
    state.law[0] = (total + math.sqrt(precision) * generator.standard_normal()) / precision
    squares = 0.25
    for i in range(length):
        squares += 0.5 * (state.logs[i] - state.law[0]) ** 2
    state.law[1] = math.sqrt(squares / generator.standard_gamma(1.0 + 0.5 * length))


@compilable
def _move(generator, given, state, slopes, room, widths, tuning):
    """Propose new coordinates of ``u``, one by one, then another length."""
    length, u = state.u.size, state.u
    residuals, moved, pulled, proposal, proposed = room[0], room[1], room[2], room[3], room[4]
    _times(given.seen, u, moved)
    _times(given.prior, u, pulled)
    energy = _likelihood(given, state, u, moved, slopes, residuals)
    for i in range(length + 1):
        jump = widths[i] * generator.standard_normal()
        if i < length:
            value = math.exp(state.logs[i])
            jump *= 2.4 / math.sqrt(given.prior[i, i] + value**2 / (value + given.variance))
            for j in range(length):
                proposal[j], proposed[j] = u[j], moved[j] + jump * given.seen[j, i]
            proposal[i] += jump
            change = jump * (pulled[i] + 0.5 * jump * given.prior[i, i])
        else:
            jump *= 0.1
            change = -length * jump
            for j in range(length):
                proposal[j], proposed[j] = math.exp(jump) * u[j], math.exp(jump) * moved[j]
                change += 0.5 * (math.exp(2.0 * jump) - 1.0) * u[j] * pulled[j]
        other = _likelihood(given, state, proposal, proposed, slopes, residuals)
        taken = -generator.standard_exponential() < energy - other - change
        if taken:
            energy = other
            for j in range(length):
                pulled[j] += jump * given.prior[j, i] if i < length else 0.0
                u[j], moved[j] = proposal[j], proposed[j]
        widths[i] = _tuned(widths[i], taken, tuning, 10.0)


@compiled
def _chain(generator, given, state, slopes, n_rotations, burn_in, thinning, draws):
    """Fill in draws of ``u``, in the basis that the chain was given in."""
    length = state.u.size
    room = np.empty((5, length))
    residuals, moved = room[0], room[1]
    of_values, of_u = np.full(length, 0.3), np.full(length + 1, 0.5)
    of_planes = np.full((length, length), 0.3)
    for sweep in range(burn_in + thinning * draws.shape[0]):
        _times(given.seen, state.u, moved)
        share = _residuals(given, state.u, moved, slopes, residuals)
        for i in range(length):
            taken = _try_value(generator, given, state, residuals, share, i, of_values[i])
            of_values[i] = _tuned(of_values[i], taken, sweep < burn_in, 3.0)
        for _ in range(n_rotations):
            first = int(generator.random() * length)
            second = int(generator.random() * (length - 1))
            second += second >= first
            width = of_planes[first, second]
            taken = _try_rotation(generator, given, state, residuals, share, first, second, width)
            of_planes[first, second] = _tuned(width, taken, sweep < burn_in, 2.0)
        _renew_law(generator, state)
        _move(generator, given, state, slopes, room, of_u, sweep < burn_in)
        if sweep >= burn_in and (sweep - burn_in) % thinning == 0:
            row = (sweep - burn_in) // thinning
            for i in range(length):
                total = 0.0
                for j in range(length):
                    total += state.basis[i, j] * state.u[j]
                draws[row, i] = total
