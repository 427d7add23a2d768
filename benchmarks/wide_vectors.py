"""An experiment: a noise-aware posterior for thousands of one-hot columns, given vectors only.

    python benchmarks/wide_vectors.py --levels 100 --epsilon 1 --seeds 0

The tables are those of `wide`. Second moments of 2,000 columns drown in noise: only vectors are released.

    m_j ~ sum_i x_ij,  sum_i x_ij^2,  sum_i |x_i|^2      share .15 of mu^2
    t   = sum_i (y_i - 1/2) x_i + N                      share .45
    a_k = sum_i (p_i - 1/2) x_i + N at u_k, k = 0..7     share .40, growing

Rows stand for a normal law with independent columns, whose scores are one-dimensional integrals:

    f(u) = n (m (E s(h) - 1/2) + D u E s'(h)),    h ~ N(m u, u^T D u),    D = diag(v)

The table's own score is ``(I + M) f``, with ``M`` learnt from the scores that were released, and

    t ~ N((I + M) f, s^2 + n E s'(h) (D + m m^T) + what is not known of M)

It is no sampler of the package. What it shows: how far vectors alone go, and where they do not.
"""

import argparse
import time
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from wide import N_COLUMNS, N, figures, one_hot_table

from skdpbayes.models.families import Logistic
from skdpbayes.privacy import Budget
from skdpbayes.samplers.statistics.design import _positive
from skdpbayes.samplers.statistics.hmc import draw, find_mode_and_scales
from skdpbayes.samplers.statistics.prior import Group, Prior, SplitLogNormal, WithPrior
from skdpbayes.samplers.statistics.sensitivity import joint_precision_at

MOMENT_SHARE, LABEL_SHARE, SCORE_SHARE = 0.15, 0.45, 0.40
N_LOOKS, GROWTH = 8, 1.3
# What a record adds to the sum of squared norms, relative to its row.
TRACE = 0.25
SIZES, USUAL, DOUBT, CHANGE = np.geomspace(0.03, 1.5, 9), 0.2, 0.7, 0.1
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@dataclass(frozen=True)
class Columns:
    """A normal law of rows with independent columns, the constant one last."""

    n: float
    mean: np.ndarray
    variance: np.ndarray
    uncertainty: np.ndarray  # Relative variances of what is known of each.

    def parts(self, u):
        """Return means of ``s, s', s'', s'''`` over logits, and ``D u``, for (n_points, length)."""
        deviation = np.sqrt(np.maximum(u**2 @ self.variance, 1e-300))
        p = expit((u @ self.mean)[:, None] + deviation[:, None] * NODES)
        slope = p * (1 - p)
        means = p, slope, slope * (1 - 2 * p), slope * (1 - 6 * slope)
        return (*(values @ WEIGHTS for values in means), u * self.variance)

    def change(self, parts):
        """Return ``f``."""
        q, r, _, _, turned = parts
        return self.n * ((q - 0.5)[:, None] * self.mean + r[:, None] * turned)

    def slope_times(self, parts, vectors):
        """Return ``f' a``."""
        _, r, r1, r2, turned = parts
        along_mean, along = vectors @ self.mean, np.sum(vectors * turned, axis=1)
        of_mean, of_turned = r * along_mean + r1 * along, r1 * along_mean + r2 * along
        own = r[:, None] * self.variance * vectors
        return self.n * (of_mean[:, None] * self.mean + of_turned[:, None] * turned + own)

    def slope_gradient(self, parts):
        """Return the gradients of the mean slope."""
        _, _, r1, r2, turned = parts
        return r1[:, None] * self.mean + r2[:, None] * turned

    def jacobian(self, u):
        """Return ``f'`` at a point."""
        _, r, r1, r2, turned = (part[0] for part in self.parts(u[None]))
        mixed = np.outer(self.mean, turned)
        own = np.outer(self.mean, self.mean) + np.diag(self.variance)
        return self.n * (r * own + r1 * (mixed + mixed.T) + r2 * np.outer(turned, turned))


@dataclass(frozen=True)
class Misfit:
    """What is believed of ``M`` given scores: of every row's law, a part of rank ``N_LOOKS``."""

    columns: Columns
    centre: np.ndarray
    roots: np.ndarray  # Of mean squares of columns.
    basis: np.ndarray
    values: np.ndarray
    seen: np.ndarray
    size: float

    @property
    def prior(self):
        """Variances of ``M f`` a priori, for ``f`` of length ``roots``."""
        return self.size**2 / self.roots.size * self.roots**2

    @property
    def _shrink(self):
        return 1.0 / (self.values[:, None] + 1.0 / self.prior)

    def mean(self, f):
        """Return the mean of ``M f``."""
        return (f / self.roots) @ self.basis.T @ (self.seen * self._shrink)

    def pulled_mean(self, vectors):
        """Return its transpose times vectors."""
        return vectors @ (self.seen * self._shrink).T @ self.basis / self.roots

    def variances(self, f):
        """Return the variances of ``M f``."""
        scaled = f / self.roots
        known = scaled @ self.basis.T
        away = np.sum((scaled - self.centre / self.roots) ** 2, axis=1)
        free = np.sum(scaled**2, axis=1) + CHANGE * away
        own = self.columns.uncertainty * f**2
        return self.prior * free[:, None] - known**2 @ (self._shrink * self.prior) + own

    def half_gradient(self, f, factors):
        """Return half the gradient by ``f`` of the sum of variances times factors."""
        scaled, weight = f / self.roots, (factors @ self.prior)[:, None]
        known = scaled @ self.basis.T * (factors @ (self._shrink * self.prior).T)
        away = CHANGE * weight * (scaled - self.centre / self.roots)
        own = factors * self.columns.uncertainty * f
        return (weight * scaled - known @ self.basis + away) / self.roots + own


def learn_misfit(columns, looks, at):
    """Return the `ScoreDiscrepancy` whose size has the largest evidence."""
    roots = np.sqrt(columns.variance + columns.mean**2)
    roots = np.maximum(roots, 1e-5 * roots.max())
    centre = columns.change(columns.parts(at[None]))[0]
    if not looks:
        nothing = np.zeros((0, at.size))
        return Misfit(columns, centre, roots, nothing, np.zeros(0), nothing, USUAL)
    points, scores, noises = (np.array(part) for part in zip(*looks, strict=True))
    f = columns.change(columns.parts(points))
    scaled, far = f / roots, np.sum(((f - centre) / roots) ** 2, axis=1)
    found = []
    for size in SIZES:
        of_size = size**2 / at.size
        deviations = np.sqrt(noises**2 + CHANGE * of_size * np.mean(roots**2) * far)[:, None]
        rows = scaled / deviations
        values, turn = np.linalg.eigh(rows @ rows.T)
        values = np.maximum(values, 0.0)
        seen = turn.T @ ((scores - f) / deviations)
        variances = 1.0 + values[:, None] * of_size * roots**2
        evidence = -0.5 * np.sum(seen**2 / variances + np.log(variances))
        evidence -= at.size * np.log(deviations).sum()
        evidence -= 0.5 * (np.log(size / USUAL) / DOUBT) ** 2
        found.append((evidence, Misfit(columns, centre, roots, turn.T @ rows, values, seen, size)))
    return max(found, key=lambda pair: pair[0])[1]


@dataclass(frozen=True)
class Surrogate(WithPrior):
    """The likelihood of ``t``, and the prior, as `draws` wants them."""

    columns: Columns
    prior: Prior
    scales: np.ndarray
    target: np.ndarray
    noise: float
    score_discrepancy: Misfit
    start: np.ndarray

    @property
    def n_scaled(self):
        """How many coordinates prior scales multiply."""
        return self.start.size

    def _law(self, parts):
        """Return ``f``, residuals, and the diagonal part and the factor of ``m m^T`` of their covariance."""
        f, share = self.columns.change(parts), self.columns.n * parts[1]
        diagonal = (
            self.noise**2
            + share[:, None] * self.columns.variance
            + self.score_discrepancy.variances(f)
        )
        return f, f + self.score_discrepancy.mean(f) - self.target, diagonal, share

    def likelihood(self, u):
        """Return minus the log likelihood and its gradient, for points of shape (n_points, length)."""
        columns, mean = self.columns, self.columns.mean
        parts = columns.parts(u)
        f, residual, diagonal, share = self._law(parts)
        scaled, squares = mean / diagonal, np.sum(mean**2 / diagonal, axis=1)
        growth = 1.0 + share * squares
        solved = residual / diagonal
        solved -= (share * (solved @ mean) / growth)[:, None] * scaled
        energy = np.sum(residual * solved, axis=1) + np.log(diagonal).sum(axis=1) + np.log(growth)
        own = 1.0 / diagonal - (share / growth)[:, None] * scaled**2 - solved**2
        of_f = (
            solved
            + self.score_discrepancy.pulled_mean(solved)
            + self.score_discrepancy.half_gradient(f, own)
        )
        of_share = own @ columns.variance + squares / growth - (solved @ mean) ** 2
        of_slope = (0.5 * columns.n * of_share)[:, None] * columns.slope_gradient(parts)
        return 0.5 * energy, columns.slope_times(parts, of_f) + of_slope

    def information(self, u):
        """Return the curvature of the potential at one point, taking variances to be fixed."""
        _, _, diagonal, share = (part[0] for part in self._law(self.columns.parts(u[None])))
        jacobian = self.columns.jacobian(u)
        turned = (jacobian + self.score_discrepancy.mean(jacobian.T).T) / np.sqrt(diagonal)[:, None]
        scaled = self.columns.mean / np.sqrt(diagonal)
        along = turned.T @ scaled
        lost = share / (1.0 + share * scaled @ scaled) * np.outer(along, along)
        return turned.T @ turned - lost + self.prior.precision(self.scales)


def release_columns(X, norm, constant, mu, generator):
    """Return `Columns` from noisy sums of entries and of their squares, for non-negative binary columns."""
    n, length = X.shape
    cap = norm * min(norm, 1.0)
    # Of two rows the entries may be opposite; squares are not.
    moved = np.sqrt(4 * (norm**2 + constant**2) + 2 * norm**2 + TRACE**2 * norm**2)
    noise = moved / (np.sqrt(MOMENT_SHARE) * mu)
    sums = X.sum(axis=0) + noise * generator.standard_normal(length)
    squares = X**2
    short = np.minimum(1.0, cap / np.sqrt(np.sum(squares**2, axis=1)))
    squares = (norm / cap) * (short @ squares) + noise * generator.standard_normal(length)
    squares, of_squares = squares * cap / norm, noise * cap / norm
    trace = (TRACE / norm) * np.sum(X**2) + noise * generator.standard_normal()
    # Columns of zeros and ones: both sums are of the same.
    both = noise**-2 + of_squares**-2
    seen, deviation = (sums / noise**2 + squares / of_squares**2) / both / n, both**-0.5 / n
    shares = _positive(seen, deviation)
    shares *= trace * norm / TRACE / n / shares.sum()
    known = deviation**2 / (deviation**2 + shares**2)
    variance = np.maximum(shares * (1.0 - shares), 0.02 * shares)
    return Columns(n, np.append(shares, constant), np.append(variance, 0.0), np.append(known, 0.0))


def fit(X, y, epsilon, seed, constant=1.0, n_draws=400):
    """Return draws of the coefficients and the intercept, for rows of norm ``sqrt(N_COLUMNS)``."""
    generator, mu = np.random.default_rng([seed, 7]), Budget(epsilon=epsilon, delta=1e-6).mu
    norm, length = np.sqrt(N_COLUMNS), X.shape[1] + 1
    columns = release_columns(X, norm, constant, mu, generator)
    rows, norm = np.column_stack([X, np.full(len(X), constant)]), np.hypot(norm, constant)
    of_coefficients, of_intercept = np.eye(length), np.zeros((length, length))
    of_coefficients[-1, -1], of_intercept[-1, -1] = 0.0, 2.5**-2
    of_coefficients *= N_COLUMNS / 2.5**2
    prior = Prior(
        (
            Group.learnt(of_coefficients, length - 1),
            Group.learnt(of_intercept, 1, SplitLogNormal(2.0, 0.7, 0.8)),
        )
    )
    noise = norm / (np.sqrt(LABEL_SHARE) * mu)
    labels = (y - 0.5) @ rows + noise * generator.standard_normal(length)
    looks, scales = [], prior.prior_mode

    def surrogate():
        last = looks[-1][0] if looks else np.zeros(length)
        score_discrepancy = learn_misfit(columns, looks, last)
        return Surrogate(columns, prior, scales, labels, noise, score_discrepancy, last)

    shares = GROWTH ** np.arange(N_LOOKS)
    for share in SCORE_SHARE * shares / shares.sum():
        settled = find_mode_and_scales(surrogate(), 1)
        u, scales = settled.start, settled.scales
        reach = norm * np.linalg.norm(u)
        own = norm * np.sqrt(joint_precision_at(Logistic(), reach, True, 1.0) / share) / mu
        score = (expit(rows @ u) - 0.5) @ rows + own * generator.standard_normal(length)
        looks.append((u, score, own))
    return draw(find_mode_and_scales(surrogate(), 4), n_draws, seed)


def measure(epsilon, seed, table):
    """Print what draws cover, their log loss, and what they took."""
    X, y, _, _ = table
    started = time.process_time()
    draws = fit(X[:N].astype(float), y[:N], epsilon, seed)
    seconds = time.process_time() - started
    predicted = expit(X[N:] @ draws[:, :-1].T + draws[:, -1]).mean(axis=1)
    found = figures(table, draws, predicted)
    print(
        f"vectors only, epsilon {epsilon:g}, table {seed}, {found}, {seconds:.0f} s of CPU",
        flush=True,
    )


def main():
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--levels", type=int, default=100)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for seed in options.seeds:
        table = one_hot_table(options.levels, seed, drops_first=False)
        for epsilon in options.epsilon:
            measure(epsilon, seed, table)


if __name__ == "__main__":
    main()
