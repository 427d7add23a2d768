"""Accounting for a chain of which only the last iterate is seen.

    theta_k = phi_k(theta_{k-1}) + N(0, sigma_k^2 I),   ||phi_k(x) - phi'_k(y)|| <= c_k ||x - y|| + s_k

for neighbouring tables, from a common start that depends on no record. Then the last iterate is ``mu``-GDP
with

    mu^2 = min over a >= 0 of  sum_k a_k^2 / sigma_k^2
           subject to  z_k = c_k z_{k-1} + s_k - a_k >= 0,  z_0 = z_T = 0

(Bok, Su and Altschuler 2024, Theorem 3.1; the proof of Proposition 8 in the documentation uses no more
than the inequality above). If all states lie in a set of diameter ``D``, the chains may also be said to
start at any later step, ``D`` apart.

With ``w_k = c_{k+1} ... c_T``, ``b_k = w_k a_k``: ``sum_{j >= k} b_j >= sum_{j >= k} w_j s_j``, with
equality at ``k = 1``. Over the axis ``x_k = sum_{j >= k} w_j^2 sigma_j^2`` this asks for the path of least
energy above given points, which is their least concave majorant: one pass from the last step back.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from .._arguments import check_number, check_sizes
from .._jit import compiled


@compiled
def _least_cost(contraction, sensitivity, variance, diameter):
    """The least cost ``mu^2``; all arrays have one entry per step."""
    n_steps = contraction.size
    # Corners of the majorant so far, from the last step back: place, height, energy up to there.
    x = np.zeros(n_steps + 1)
    height = np.zeros(n_steps + 1)
    energy = np.zeros(n_steps + 1)
    top = 0
    place, needed, weight = 0.0, 0.0, 1.0
    best = np.inf
    for k in range(n_steps - 1, -1, -1):
        place += weight * weight * variance[k]
        needed += weight * sensitivity[k]
        weight *= contraction[k]
        # A corner stays only while slopes fall. Noise that no longer adds anything counts as none.
        while top > 0 and (
            place <= x[top]
            or (needed - height[top]) * (x[top] - x[top - 1])
            >= (height[top] - height[top - 1]) * (place - x[top])
        ):
            top -= 1
        top += 1
        x[top], height[top] = place, needed
        rise, run = needed - height[top - 1], place - x[top - 1]
        energy[top] = energy[top - 1] + rise * rise / run
        if diameter < np.inf:
            # The chains start here, a diameter apart: the tangent from that point to the majorant.
            lifted = needed + weight * diameter
            low, high = 0, top - 1
            while low < high:
                middle = (low + high + 1) // 2
                steeper = (lifted - height[middle]) * (x[middle] - x[middle - 1]) >= (
                    height[middle] - height[middle - 1]
                ) * (place - x[middle])
                if steeper:
                    high = middle - 1
                else:
                    low = middle
            rise, run = lifted - height[low], place - x[low]
            best = min(best, energy[low] + rise * rise / run)
    return min(best, energy[top])


@compiled
def _least_cyclic_costs(contraction, sensitivity, variance, n_batches):
    """The least cost for each batch; a record's turn and the idle steps after it count as one step.

    Such a step ends in the next epoch: what its parts in both amount to is summed up beforehand.
    """
    n_steps = contraction.size
    # Contraction by the epoch's later steps, and noise from here on; and the same of its steps so far.
    after, end = np.empty(n_steps), np.empty(n_steps)
    before, begin = np.ones(n_steps + 1), np.zeros(n_steps + 1)
    for first in range(0, n_steps, n_batches):
        stop = min(first + n_batches, n_steps)
        weight, noise = 1.0, 0.0
        for k in range(stop - 1, first - 1, -1):
            noise += weight * weight * variance[k]
            after[k], end[k] = weight, noise
            weight *= contraction[k]
        weight, noise = 1.0, 0.0
        for k in range(first, stop):
            before[k], begin[k] = weight, noise
            weight *= contraction[k]
            noise = contraction[k] * contraction[k] * noise + variance[k]
        if stop < first + n_batches:
            before[stop], begin[stop] = weight, noise
    squares = np.zeros(n_batches)
    for j in range(min(n_batches, n_steps)):
        turns = np.arange(j, n_steps, n_batches)
        steps = np.empty((3, turns.size))
        for i, k in enumerate(turns):
            # In the last epoch there is no next one.
            follows = min(k + n_batches, n_steps) if k - j + n_batches < n_steps else 0
            rest = before[follows]
            steps[0, i] = contraction[k] * after[k] * rest
            steps[1, i] = sensitivity[k] * after[k] * rest
            steps[2, i] = rest * rest * end[k] + begin[follows]
        squares[j] = _least_cost(steps[0], steps[1], steps[2], np.inf)
    return squares


def _checked(contraction, sensitivity, noise_scale, diameter):
    arrays = []
    for name, values in (
        ("contraction", contraction),
        ("sensitivity", sensitivity),
        ("noise_scale", noise_scale),
    ):
        if callable(values):
            raise TypeError(
                f"{name} must be an array with one number for each step: a schedule that adapts to "
                "what it sees has no hidden-state guarantee."
            )
        values = np.ascontiguousarray(values, dtype=np.float64)
        if values.ndim != 1 or values.size == 0:
            raise ValueError(f"{name} must be an array of shape (n_steps,), got {values.shape}.")
        if not np.isfinite(values).all() or values.min() < 0:
            raise ValueError(f"{name} must hold finite numbers of at least 0.")
        arrays.append(values)
    contraction, sensitivity, noise_scale = arrays
    if not contraction.size == sensitivity.size == noise_scale.size:
        raise ValueError(
            "contraction, sensitivity and noise_scale must have one number for each step, got "
            f"{contraction.size}, {sensitivity.size} and {noise_scale.size}."
        )
    if contraction.max() > 1:
        raise ValueError(
            f"step {int(np.argmax(contraction)) + 1} expands (contraction {contraction.max():g} > 1): "
            "hidden-state accounting is for steps that contract; take a step size of at most "
            "2 / (m + M)."
        )
    if noise_scale.min() == 0:
        raise ValueError("noise_scale must be positive at every step.")
    if not diameter > 0:
        raise ValueError(f"diameter must be positive, got {diameter}.")
    # In units of the largest noise: squares of extreme numbers would overflow.
    unit = noise_scale.max()
    if sensitivity.max() / unit > 1e150 or noise_scale.min() / unit < 1e-150:
        raise ValueError("sensitivity and noise_scale are too far apart to be accounted for.")
    return contraction, sensitivity / unit, (noise_scale / unit) ** 2, float(diameter / unit)


def hidden_state_mu(
    contraction: ArrayLike,
    sensitivity: ArrayLike,
    noise_scale: ArrayLike,
    *,
    diameter: float = math.inf,
) -> float:
    """Cost of releasing the last iterate of a chain, for any fixed schedule.

    Parameters
    ----------
    contraction : array-like of shape (n_steps,)
        Lipschitz constant ``c_k`` of every step's map, in [0, 1]. For a gradient step ``eta`` on a
        potential whose curvature lies in ``[m, M]`` it is ``max(|1 - eta m|, |1 - eta M|)``.
    sensitivity : array-like of shape (n_steps,)
        ``s_k``: how far one record can move the step; 0 for a step that does not read it.
    noise_scale : array-like of shape (n_steps,)
        Standard deviation ``sigma_k`` of every step's noise, positive.
    diameter : float, default=inf
        Diameter of a convex set onto which every state is projected.

    Returns
    -------
    mu : float
        The last iterate is ``mu``-GDP.

    Raises
    ------
    ValueError
        If shapes disagree, a number is out of range, or a step expands.
    TypeError
        If a schedule is a function: it must be fixed beforehand.

    Notes
    -----
    The program is solved exactly, in time linear in the number of steps (``T log T`` with a diameter).
    For equal steps on a quadratic potential the result is tight: no smaller ``mu`` holds.

    References
    ----------
    .. [1] J. Bok, W. J. Su and J. Altschuler, "Shifted interpolation for differential privacy", ICML
       2024.

    Examples
    --------
    Of a hundred steps, early ones are forgotten:

    >>> import numpy as np
    >>> from skdpbayes.privacy import hidden_state_mu
    >>> steps = np.full(100, 0.1)
    >>> round(hidden_state_mu(1 - steps, 0.2 * steps, np.sqrt(2 * steps)), 3)
    0.195
    >>> round(float(np.sqrt(np.sum((0.2 * steps) ** 2 / (2 * steps)))), 3)  # the whole path
    0.447
    """
    return math.sqrt(_least_cost(*_checked(contraction, sensitivity, noise_scale, diameter)))


def hidden_state_mu_constant(
    contraction: float, sensitivity: float, noise_scale: float, n_steps: int
) -> float:
    """Closed form of `hidden_state_mu` for ``n_steps`` equal steps.

    ``mu^2 = (s/sigma)^2 (1 - c^T) / (1 + c^T) (1 + c) / (1 - c)``.

    Parameters
    ----------
    contraction : float
        In [0, 1].
    sensitivity, noise_scale : float
        Of every step.
    n_steps : int

    Returns
    -------
    mu : float

    Examples
    --------
    >>> from skdpbayes.privacy import hidden_state_mu_constant
    >>> round(hidden_state_mu_constant(0.9, 0.02, 0.2**0.5, 100), 3)
    0.195
    """
    for name, value in (
        ("contraction", contraction),
        ("sensitivity", sensitivity),
        ("noise_scale", noise_scale),
    ):
        check_number(name, value)
    _checked([contraction], [sensitivity], [noise_scale], math.inf)
    check_sizes(n_steps=n_steps)
    total, noise = geometric_sums(contraction, n_steps)
    return sensitivity / noise_scale * total / math.sqrt(noise)


def geometric_sums(contraction, n_steps):
    """``sum_{k < T} c^k`` and ``sum_{k < T} c^{2k}``, accurate where ``c`` is close to 1."""
    if contraction == 1:
        return float(n_steps), float(n_steps)
    if contraction == 0:
        return 1.0, 1.0
    rate = math.log(contraction)
    forgotten, forgotten_twice = math.expm1(n_steps * rate), math.expm1(2 * n_steps * rate)
    return forgotten / math.expm1(rate), forgotten_twice / math.expm1(2 * rate)


def hidden_state_mu_cyclic(
    contraction: ArrayLike, sensitivity: ArrayLike, noise_scale: ArrayLike, n_batches: int
) -> np.ndarray:
    """Cost of the last iterate when batches take turns in a fixed order.

    Batch ``k mod n_batches`` is used at step ``k``, and a record belongs to one batch. The order must
    not depend on the data.

    Parameters
    ----------
    contraction, sensitivity, noise_scale : array-like of shape (n_steps,)
        As for `hidden_state_mu`; the sensitivity is that of a step in which the record takes part.
    n_batches : int

    Returns
    -------
    mu : ndarray of shape (n_batches,)
        One number for each batch that the differing record may be in. The guarantee is the largest of them.

    Raises
    ------
    ValueError, TypeError
        As for `hidden_state_mu`, or if ``n_batches`` is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.privacy import hidden_state_mu_cyclic
    >>> steps = np.full(40, 0.05)
    >>> mu = hidden_state_mu_cyclic(1 - steps, 0.2 * steps, np.sqrt(2 * steps), n_batches=4)
    >>> int(mu.argmax())  # the batch that was used last
    3
    """
    check_sizes(n_batches=n_batches)
    schedule = _checked(contraction, sensitivity, noise_scale, math.inf)[:3]
    return np.sqrt(_least_cyclic_costs(*schedule, int(n_batches)))
