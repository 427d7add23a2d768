"""By how much the score of a table differs from that of a population, learnt from all that was released.

    a(u) = (I + M) f(u),    f(u) = S(u) - S(0),    M_ij ~ N(0, k^2 / length (l_i / l_j)^2 + [i = j] h_i)

    a_k = (I + M) f(u_k) + N(0, s_k^2),        F_k = (I + M) f'(u_k) + N(0, s_k^2)

a priori. ``S`` is the population's score, ``l`` the root mean squares of its rows' coordinates, and ``h``
what is not known of these squares, relative to them: where columns add up to one, or depend on each other
in another way, noise hides that rows do not vary. Both kinds of releases are linear in ``M``. Without ``h``,
given ``G``, the sum of ``f f^T / s^2`` and ``f' f'^T / s^2``, with ``L = diag(l)``,

    L^-1 G L^-1 = Q diag(g) Q^T,    B = L^-1 Q,    Cov(M_i) = B diag(1 / (length / (k l_i)^2 + g)) B^T = C_i

With it, ``d_i = length / k^2 - 1 / (k^2 / length + h_i)`` is taken off a diagonal entry of a precision, and

    Cov(M_i) = C_i + r_i C_i e_i e_i^T C_i,    r_i = d_i / (1 - d_i e_i^T C_i e_i)

``k`` is chosen by the evidence. As ``f`` is bounded, so is what is not known of a score, at any point. ``M``
is not quite the same everywhere, so that variances grow with the distance from the last point.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..._linalg import eigh

# ``k``, and its law a priori: its median, and the deviation of its logarithm.
_SIZES = np.geomspace(0.03, 1.5, 9)
_USUAL, _DOUBT = 0.2, 0.7
# Where ``h`` is less, the rest of ``M`` is enough.
_LEAST_DOUBT = 0.05
# Where ``h`` is more, nothing is known of the row of ``M``, and doubles can still tell ``h`` from that.
_LARGEST_DOUBT = 1e12
# Of ``k^2 / length``: by how much ``M`` may change on the way, relative to the change of ``f``.
_CHANGE = 0.1


@dataclass(frozen=True)
class Misfit:
    """What is believed of ``M``; ``n`` stands for ``n_blocks * length``.

    Attributes
    ----------
    mean : ndarray of shape (n, n)
        Of ``M``.
    factor : ndarray of shape (n, n)
        ``B``.
    shares : ndarray of shape (n, n)
        The variances in the coordinates ``B``, row by row of ``M``.
    doubtful : ndarray of shape (m,)
        Which rows have an ``h``.
    pulls : ndarray of shape (m, n)
        ``C_i e_i`` of these in the coordinates ``B``.
    excess : ndarray of shape (m,)
        ``r`` of these.
    size : float
        ``k``.
    squares : ndarray of shape (n,)
        ``l^2``.
    centre : ndarray of shape (n,)
        ``f`` at the last point.
    """

    mean: np.ndarray
    factor: np.ndarray
    shares: np.ndarray
    doubtful: np.ndarray
    pulls: np.ndarray
    excess: np.ndarray
    size: float
    squares: np.ndarray
    centre: np.ndarray

    @property
    def change(self):
        """Variances of the entries of a score per squared distance from ``centre``."""
        return _CHANGE * self.size**2 / self.squares.size * self.squares

    @cached_property
    def parts(self):
        """Matrices ``P`` and ``Q``: variances of the entries of a score at ``centre`` are ``(f P)^2 Q``."""
        own = np.zeros((self.doubtful.size, self.squares.size))
        own[np.arange(self.doubtful.size), self.doubtful] = self.excess
        return (
            np.hstack([self.factor, self.factor @ self.pulls.T]),
            np.vstack([self.shares.T, own]),
        )


def learn_misfit(population, looks, curvatures, at, doubts=None):
    """Return the `Misfit` given all releases.

    Parameters
    ----------
    population : Population or NormalPopulation
    looks, curvatures : list of NoisyValue
        Scores, and curvatures, with the deviations of their noise.
    at : ndarray of shape (n,)
        The last point.
    doubts : ndarray of shape (length,) or None, default=None
        ``h``, of a block; None is 0.
    """
    n, centre = at.size, population.change(at[None])[0]
    squares = np.tile(population.mean_squares, population.family.n_blocks)
    squares = np.maximum(squares, 1e-9 * squares.max())
    f = population.change(np.array([look.point for look in looks]).reshape(-1, n))
    excess = np.array([look.value for look in looks]).reshape(-1, n) - f
    noises = np.array([look.noise**2 for look in looks])
    far = np.sum((f - centre) ** 2 / squares, axis=1)
    seen = [(f.T, excess.T, noises, far)]
    matrix = population.curvature(at) if curvatures else None
    for look in curvatures:
        slope = population.curvature(look.point)
        # Scores tell ``M`` on the way from 0, and curvatures how it goes on from there.
        far = (slope - matrix) ** 2 + slope**2
        far = np.mean(np.sum(far / squares[:, None], axis=0))
        seen.append((slope, look.value - slope, look.noise**2 / 2.0, far))
    doubts = np.zeros(n) if doubts is None else np.tile(doubts, population.family.n_blocks)
    doubts = np.where(doubts > _LEAST_DOUBT, np.minimum(doubts, _LARGEST_DOUBT), 0.0)
    found = (_given(seen, size, squares, centre, doubts) for size in _SIZES)
    return max(found, key=lambda each: each[0])[1]


def _given(seen, size, squares, centre, doubts):
    """Return (log evidence, `Misfit`) for a size."""
    n, of_size = squares.size, size**2 / squares.size
    precision, onto, log_odds = np.zeros((n, n)), np.zeros((n, n)), 0.0
    for slopes, excess, noises, far in seen:
        variances = noises + _CHANGE * of_size * squares.mean() * far
        variances = np.broadcast_to(variances, slopes.shape[1:])
        precision += (slopes / variances) @ slopes.T
        onto += (excess / variances) @ slopes.T
        log_odds -= np.sum(excess**2 / variances) + n * np.log(variances).sum()
    roots = np.sqrt(squares)
    g, turn = eigh(precision / np.outer(roots, roots))
    factor, g = turn / roots[:, None], np.maximum(g, 0.0)
    prior = of_size * squares[:, None]
    shares = prior / (1.0 + prior * g)
    turned = onto @ factor
    mean = turned * shares
    log_odds += np.sum(turned * mean) - np.log1p(prior * g).sum()
    (doubtful,) = np.nonzero(doubts)
    pulls = (shares * factor)[doubtful]
    taken = 1.0 / of_size - 1.0 / (of_size + doubts[doubtful])
    # By rounding it might be 0, where a row is known to no digit.
    least = of_size / (of_size + doubts[doubtful])
    left = np.maximum(1.0 - taken * np.sum(pulls * factor[doubtful], axis=1), least)
    excess, along = taken / left, np.sum(turned[doubtful] * pulls, axis=1)
    mean[doubtful] += (excess * along)[:, None] * pulls
    log_odds += np.sum(excess * along**2) - np.sum(
        np.log(left / np.maximum(1.0 - taken * of_size, least))
    )
    evidence = 0.5 * log_odds - 0.5 * (np.log(size / _USUAL) / _DOUBT) ** 2
    known = mean @ factor.T, factor, shares, doubtful, pulls, excess
    return evidence, Misfit(*known, size, squares, centre)
