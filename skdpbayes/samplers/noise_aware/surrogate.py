"""The posterior of ``u`` given noisy sums, with what is not known of the table integrated out.

    t = sum_i v_i H^T (e_{y_i} - 1/K) (x) z_i + N(0, s^2 I),      the sum ~ N(a(u), a'(u)) given rows and u

    a(u) = (I + M) f(u),      f = S - S(0),      M with mean m given other releases, see `misfit`

With the basis of the eigenvectors of ``a'`` at the last point and its eigenvalues ``T``, and ``r`` the mean
slope of the population over that at this point,

    t - (I + m) f(u) ~ N(0, V(u)),        V(u) = s^2 + r T + what is not known of a(u)

in that basis, in which covariances are taken to be diagonal.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .misfit import Misfit
from .normal_population import NormalPopulation
from .population import Population
from .scales import Prior, WithPrior

# Numbers in an array over points and rows of the population: larger ones are allocated anew each time.
_SMALL = 2**15


@dataclass(frozen=True)
class Surrogate(WithPrior):
    """The likelihood of ``t``, and the prior. ``n`` stands for ``n_blocks * length``.

    Attributes
    ----------
    population : Population or NormalPopulation
    prior : Prior
    scales : ndarray of shape (n_groups,)
        Prior scales at which the mode is looked for.
    target : ndarray of shape (n,)
        ``t``.
    noise : float
        ``s``.
    misfit : Misfit
    origin : ndarray of shape (n,)
        ``S(0)``.
    slope : float
        Mean slope of the population at the last point.
    basis : ndarray of shape (n, n)
        Eigenvectors of ``a'`` there.
    sampling : ndarray of shape (n,)
        ``T``.
    start : ndarray of shape (n,)
        Where to look for the mode.
    """

    population: Population | NormalPopulation
    prior: Prior
    scales: np.ndarray
    target: np.ndarray
    noise: float
    misfit: Misfit
    origin: np.ndarray
    slope: float
    basis: np.ndarray
    sampling: np.ndarray
    start: np.ndarray

    def likelihood(self, u):
        """Return minus the log likelihood, up to a constant, and its gradient, for (n_points, n)."""
        population = self.population
        if isinstance(population, NormalPopulation):
            return self._likelihood(u)
        groups = np.array_split(u, -(-population.n_logits * len(u) // _SMALL))
        return tuple(map(np.concatenate, zip(*map(self._likelihood, groups), strict=True)))

    def mean(self, u):
        """Return expected labels for points of shape (n_points, n)."""
        f = self.population.change(u)
        return f + f @ self.misfit.mean.T

    def predict(self, u, generator):
        """Return labels as they might be released for points of shape (n_points, n)."""
        at = self.population.at(u)
        f, *_, variances = self._law(at)
        # Post-processing.
        errors = np.sqrt(variances) * generator.standard_normal(u.shape)
        return f + f @ self.misfit.mean.T + errors @ self.basis.T

    @cached_property
    def _constants(self):
        """What multiplies ``f`` and what variances consist of, in ``basis``; and the labels."""
        misfit, squares = self.misfit, self.basis**2
        onto, shares = misfit.parts
        variances = np.vstack(
            [shares @ squares, misfit.change @ squares, self.sampling / self.slope]
        )
        means = self.basis + misfit.mean.T @ self.basis
        return onto, variances, means, self.target @ self.basis, 1.0 / misfit.squares

    def _law(self, at):
        """Return ``f``, what it is onto the misfit's parts and from its centre, and variances of labels."""
        onto, variances, *_, per_square = self._constants
        f = self.population.score(at) - self.origin
        turned, away = f @ onto, f - self.misfit.centre
        of = np.empty((len(f), len(variances)))
        np.multiply(turned, turned, out=of[:, :-2])
        of[:, -2], of[:, -1] = away**2 @ per_square, self.population.mean_variance(at)
        return f, turned, away, self.noise**2 + of @ variances

    def _likelihood(self, u):
        _, of_variances, means, target, per_square = self._constants
        at = self.population.at(u)
        f, turned, away, variances = self._law(at)
        residual = f @ means - target
        solved = residual / variances
        energy = 0.5 * (np.einsum("ij,ij->i", residual, solved) + np.log(variances).sum(axis=1))
        own = (1.0 / variances - solved**2) @ of_variances.T
        turned *= own[:, :-2]
        away *= own[:, -2, None] * per_square
        of_f = solved @ means.T + turned @ self._constants[0].T + away
        return energy, self.population.pulled(at, of_f, 0.5 * own[:, -1])

    @property
    def n_scaled(self):
        """How many coordinates, the first ones, prior scales multiply."""
        return self.start.size

    def information(self, u):
        """Return the curvature of the potential at one point, taking variances to be fixed."""
        population, misfit = self.population, self.misfit
        at = population.at(u[None])
        variances = self._law(at)[-1][0]
        slopes = population.curvature(u)
        turned = (slopes + slopes @ misfit.mean.T) @ (self.basis / np.sqrt(variances))
        return turned @ turned.T + self.prior.precision(self.scales)
