"""The posterior of ``u`` given noisy gradients, with what is not known of the table integrated out.

With ``t = sum_i v_i H^T e_{y_i} (x) z_i``, the same in every gradient, and ``a(u)`` its mean given ``u``,

    g_k = a(u_k) - t + N(0, s_k^2 I),      t ~ N(a(u), a'(u)),      u ~ N(0, P^-1)

    a(u) - a(c) = S(u) - S(c) + (D + E) r(u) (u - c),              E_ij ~ N(0, p_i p_j), symmetric

``S`` is the score of a *population*: some thousand rows with the moments that were released, weighted as the
records are. Rows of the table are no such rows; what a released curvature says of the difference is ``D``,
and what it leaves unknown is ``E``. ``r``, the mean slope at ``u`` over that at ``m``, has both fade where
the population's logits saturate, and so does ``a'(u) = r a'(m)``. Looks are averaged, ``c`` being the average
of their points. So the average look is normal around ``S`` and ``D``, with a covariance that grows with the
distance, in the basis of the eigenvectors of ``a'(m)`` and with its eigenvalues ``T``:

    V(u) = diag(s^2 + r T + p (p . d^2)) + (p d) (p d)^T,        d = r (u - c)
"""

from dataclasses import dataclass

import numpy as np

from ...targets.linear.family import Family

# Numbers in an array over points and rows of the population: larger ones are allocated anew each time.
_SMALL = 2**15


@dataclass(frozen=True)
class Population:
    """Rows that stand for those of a table.

    Attributes
    ----------
    family : Family
    rows : ndarray of shape (n_rows, length)
    weights : ndarray of shape (n_rows,)
        ``v``.
    size : float
        How many records a row stands for.
    """

    family: Family
    rows: np.ndarray
    weights: np.ndarray
    size: float

    @property
    def n_logits(self):
        """How many logits a point has."""
        return self.family.n_blocks * len(self.rows)

    def probabilities(self, u):
        """Return probabilities for points of shape (n_points, n_blocks * length)."""
        return self.family.inverse_link(self._logits(u))

    def score(self, probabilities):
        """Return ``S``, of shape (n_points, n_blocks * length)."""
        return self._summed(self.family.mean(probabilities))

    def slope_times(self, probabilities, vectors):
        """Return ``S' a`` for vectors ``a`` like points."""
        return self._summed(self.family.slope_times(probabilities, self._logits(vectors)))

    def mean_variance(self, probabilities):
        """Return the mean slope of a row, of shape (n_points,)."""
        return self.family.mean_variance(probabilities) @ self.weights / self.weights.size

    def mean_variance_derivative(self, probabilities):
        """Return the gradient of the mean slope."""
        return self._summed(self.family.mean_variance_derivative(probabilities)) / (
            self.size * self.weights.size
        )

    # One product of matrices each: of three axes, numpy would make one for every point.
    def _logits(self, vectors):
        blocks = vectors.reshape(-1, self.rows.shape[1]) @ self.rows.T
        return blocks.reshape(len(vectors), self.family.n_blocks, -1)

    def _summed(self, values):
        sums = (values * self.weights).reshape(-1, len(self.rows)) @ self.rows
        return (self.size * sums).reshape(len(values), -1)


def make_population(design, transform, family, norm, n_samples, n_rows, generator):
    """Return rows with exactly the moments of a `Design`, in other coordinates, and their weights."""
    values, vectors = np.linalg.eigh(transform.T @ design.covariance @ transform)
    used = values > 1e-12 * values[-1]
    # Post-processing.
    half = generator.standard_normal((max(n_rows // 2, 2 * values.size), int(used.sum())))
    normal = np.vstack([half, -half])
    factor = np.linalg.cholesky(normal.T @ normal / len(normal))
    normal = np.linalg.solve(factor, normal.T).T
    rows = design.mean @ transform + (normal * np.sqrt(values[used])) @ vectors[:, used].T
    weights = np.minimum(1.0, norm**2 / np.maximum(np.sum(rows**2, axis=1), 1e-300))
    return Population(family, rows, weights, n_samples / len(rows))


@dataclass(frozen=True)
class Surrogate:
    """The average of the looks, and the law that it is assumed to follow.

    ``n`` stands for ``n_blocks * length``.

    Attributes
    ----------
    population : Population
    prior : ndarray of shape (length, length)
        ``P``, the same for all blocks.
    look : ndarray of shape (n,)
        Average of ``g_k - S(u_k)``.
    centre : ndarray of shape (n,)
        ``c``.
    variance : float
        ``s^2`` of the average.
    slope : float
        Mean slope of the population at the last point.
    basis : ndarray of shape (n, n)
        Eigenvectors.
    correction : ndarray of shape (n, n)
        ``D``, not in that basis.
    sampling : ndarray of shape (n,)
        ``T``.
    spread : ndarray of shape (n,)
        ``p``, in that basis.
    start : ndarray of shape (n,)
        Where to look for the mode.
    """

    population: Population
    prior: np.ndarray
    look: np.ndarray
    centre: np.ndarray
    variance: float
    slope: float
    basis: np.ndarray
    correction: np.ndarray
    sampling: np.ndarray
    spread: np.ndarray
    start: np.ndarray

    def potential(self, u):
        """Return minus the log density, up to a constant, and its gradient.

        Parameters
        ----------
        u : ndarray of shape (n_points, n)

        Returns
        -------
        energy : ndarray of shape (n_points,)
        gradient : ndarray of shape (n_points, n)
        """
        population = self.population
        if population.family.n_blocks == 1:
            return self._potential(u)
        groups = np.array_split(u, -(-population.n_logits * len(u) // _SMALL))
        return tuple(map(np.concatenate, zip(*map(self._potential, groups), strict=True)))

    def _potential(self, u):
        population, p = self.population, self.spread
        probabilities = population.probabilities(u)
        fading = population.mean_variance(probabilities)[:, None] / self.slope
        moved = fading * (u - self.centre)
        residual = self.look + population.score(probabilities) + moved @ self.correction
        residual, d = residual @ self.basis, moved @ self.basis
        # The inverse of a diagonal plus one product, by Sherman and Morrison.
        diagonal = self.variance + fading * self.sampling + np.sum(p * d**2, axis=1)[:, None] * p
        along = p * d
        scaled = along / diagonal
        grown = 1.0 + np.sum(along * scaled, axis=1)
        solved = residual / diagonal
        solved -= scaled * (np.sum(scaled * residual, axis=1) / grown)[:, None]
        pulled = (u.reshape(-1, len(self.prior)) @ self.prior).reshape(u.shape)
        energy = np.sum(u * pulled, axis=1) + np.sum(residual * solved, axis=1)
        energy = 0.5 * (energy + np.log(diagonal).sum(axis=1) + np.log(grown))
        # Of the covariance: half of its inverse less the square of ``solved``, times its derivative.
        own = 1.0 / diagonal - scaled**2 / grown[:, None] - solved**2
        onto = scaled / grown[:, None] - solved * np.sum(solved * along, axis=1)[:, None]
        of_d = along * (own @ p)[:, None] + p * onto
        back = solved @ self.basis.T
        of_moved = back @ self.correction + of_d @ self.basis.T
        of_fading = np.sum(of_moved * (u - self.centre), axis=1) + 0.5 * own @ self.sampling
        gradient = pulled + population.slope_times(probabilities, back) + fading * of_moved
        gradient += (of_fading / self.slope)[:, None] * population.mean_variance_derivative(
            probabilities
        )
        return energy, gradient

    def information(self, u):
        """Return the curvature of the potential at one point, taking the covariance to be fixed."""
        population, size = self.population, u.size
        probabilities = population.probabilities(u[None])
        fading = population.mean_variance(probabilities)[0] / self.slope
        slopes = population.slope_times(
            np.broadcast_to(probabilities, (size, *probabilities.shape[1:])), np.eye(size)
        )
        d = fading * (u - self.centre) @ self.basis
        diagonal = self.variance + fading * self.sampling + self.spread * (self.spread @ d**2)
        turned = (slopes + fading * self.correction) @ self.basis
        prior = np.kron(np.eye(size // len(self.prior)), self.prior)
        return (turned / diagonal) @ turned.T + prior
