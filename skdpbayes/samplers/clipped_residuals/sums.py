"""A look: the sum of rows times clipped residuals, and that of the squares of these, with noise.

    g = sum_i v_i z_i psi_i + N,    s = sum_i psi_i^2 + N,    psi_i = psi_tau(y_i - m(theta x_i))
    t = sum_i psi_i + N             in the place of g, where the mean of errors is asked for

What a record can move does not depend on the family: residuals are clipped to ``tau``, whatever is
subtracted from a response.
"""

import math

import numpy as np

from ...targets.linear.weighted import clipped_sums
from .._machinery.lattice import release_vector
from .._machinery.shards import total
from .._paid_noise import free_shift
from .sensitivity import look_precision


def sums_at(released, theta, clip, centre=None):
    """Return the sums in the coordinates of the rows. **They are not private.**

    Parameters
    ----------
    released : Releases
        Its ``target`` has the weights ``v``, its ``table`` what records count by themselves.
    theta : ndarray of shape (length,)
        In the coordinates of the rows.
    clip : float
        ``tau``.
    centre : callable or None, default=None
        Maps logits to what is subtracted from responses; None is the mean.
    """
    sums, square = total(
        clipped_sums, released.target, theta, clip, is_weighted=False, centre=centre
    )
    if released.is_weighted:
        _, square = total(clipped_sums, released.table, theta, clip, centre=centre)
    return sums, square


def release_sums(released, theta, transform, clip, multipliers, room, centre=None):
    """Return ``g``, the deviation of its noise, ``s``, and that of its noise.

    Parameters
    ----------
    released, theta, clip
        As for `sums_at`.
    transform : ndarray of shape (length, length)
        ``W``, by which ``z = W^T x``.
    multipliers : tuple of (float, float)
        Noise multipliers of both.
    room : float
        By what rounding may enlarge what a record moves.
    centre : callable or None, default=None
        As for `sums_at`.
    """
    sums, square = sums_at(released, theta, clip, centre)
    return _released(released, (transform.T @ sums, square), released.norm, clip, multipliers, room)


def release_tails(released, theta, clip, multipliers, room):
    """Return the sum of clipped residuals, the deviation of its noise, that of squares, and of its noise.

    Parameters are those of `release_sums`. Rows have a constant, and all of them count, however long.
    """
    sums, square = total(clipped_sums, released.table, theta, clip)
    own = sums[-1:] / released.plan.bounds.constant, square
    value, *others = _released(released, own, 1.0, clip, multipliers, room)
    return float(value[0]), *others


def _released(released, own, norm, clip, multipliers, room):
    """Return sums over rows of at most a norm, and of squares, with noise, and the deviations of that."""
    sums, square = own
    a, b = (multiplier**-2.0 for multiplier in multipliers)
    paid = math.sqrt(look_precision(a, b, released.moved == 2))
    factor = (paid + (room - 1.0) * math.sqrt(a + b)) / free_shift(1.0 / paid, sums.size + 1)
    noise = released.largest * released.moved * norm * clip * multipliers[0] * factor
    of_square = released.largest * clip**2 * multipliers[1] * factor
    # Propositions 73 and 74.
    value = release_vector(sums, noise, released.generator, mu=paid)
    # Propositions 73 and 74.
    square = release_vector(
        np.array([square]), of_square, released.generator, mu=paid, is_joint=True
    )[0]
    return value, noise, square, of_square
