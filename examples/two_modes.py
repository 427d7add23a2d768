"""A custom target with two modes, sampled by a random walk that pays only for accept/reject decisions.

    x_i ~ N(theta_1, 2) / 2 + N(theta_1 + theta_2, 2) / 2,    theta_1 ~ N(0, 10),    theta_2 ~ N(0, 1),

with 50,000 records from theta = (0, 1), and the likelihood to the power of 1/100: the posterior of 500
records, with a mode near (0, 1) and another near (1, -1), where the components have changed places. The
model is Welling and Teh's (2011). Zhang and Zhang (2023) sample it privately, to the power of 1/500, where
hardly a saddle is left between the modes.

Public: records are clipped to |x| <= 5, and the prior is zero where a |theta_j| > 3. With
A = x - theta_1, B = A - theta_2 and the second component's share r = 1 / (1 + exp((B^2 - A^2) / 4)),

    ell(theta)      = A^2 / 4 - log(1 + exp((A^2 - B^2) / 4))           (up to a constant)
    grad ell(theta) = -((1 - r) A (1, 0) + r B (1, 1)) / 2
    its Jacobian    = ((1 - r) (1, 0) (1, 0)' + r (1, 1) (1, 1)') / 2 - r (1 - r) w w' / 4
    with w = (theta_2, -B).

Smoothness. No eigenvalue is above 1: the first term has none above, and the second is subtracted. Negative
curvature does not shorten steps. The second term is at most 74 / 16: with |w|^2 = theta_2^2 + B^2, |A| <= 8,
|theta_2| <= 3 and z = (B^2 - A^2) / 4, if z <= 0, then r (1 - r) |w|^2 <= (9 + 64) / 4; if z > 0, then
r (1 - r) <= 1 / (4 + z^2), B^2 <= 64 + 4 z, and (64 + 4 z) / (4 + z^2) <= 65 / 4.

Gradient bound. The norm depends on (A, theta_2) alone, up to the sign of both, and its slope is at most
74 / 16. So it is bounded by its maximum on a grid, 5.0224 at A = 8 and theta_2 = 0.618, plus 74 / 16 times
half the diagonal of a cell: `proved_gradient_bound`.
"""

import argparse
import warnings
from typing import NamedTuple

import matplotlib
import numpy as np

from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.models import (
    TargetBounds,
    example_gradient,
    example_loss,
    implements,
    n_examples,
    prior_potential,
)
from skdpbayes.privacy import Budget
from skdpbayes.samplers import DPFastMH, sample

matplotlib.use("Agg")
import matplotlib.pyplot as plt

N_RECORDS, TEMPERATURE, DELTA = 50_000, 100.0, 1e-5
LARGEST_RECORD, LARGEST_PARAMETER = 5.0, 3.0
PRIOR_PRECISION = np.array([0.1, 1.0])
SMOOTHNESS, GRADIENT_BOUND = 1.0, 5.03
BOUNDS = TargetBounds(2, GRADIENT_BOUND, SMOOTHNESS, tuple(PRIOR_PRECISION))
# By default a plan ends the chain at the effective sample size that one mode needs. Moving between modes
# takes longer: this size is out of reach, so that the chain spends the whole budget.
N_EFFECTIVE, MOST_STEPS = 10**6, 20_000
N_DRAWS = 2000
# Grid of the posterior: 5 x 5 points in each of 24 x 24 cells.
N_CELLS, POINTS_PER_CELL = 24, 5
BLUE, ORANGE = "#0072B2", "#D55E00"


class TwoModes(NamedTuple):
    """Records, and public numbers."""

    values: np.ndarray
    prior_precision: np.ndarray
    gradient_bound: float
    largest_parameter: float


@implements(n_examples, TwoModes)
def count(target):
    return target.values.size


@implements(example_loss, TwoModes)
def loss(target, theta, i):
    first = target.values[i] - theta[0]
    second = first - theta[1]
    return first**2 / 4.0 - np.log1p(np.exp((first**2 - second**2) / 4.0))


@implements(example_gradient, TwoModes)
def gradient(target, theta, i, out):
    """For Langevin samplers, which use the precisions of the prior and ignore its cut-off.

    This is safe, because the gradient of every record is clipped to the bound.
    """
    first = target.values[i] - theta[0]
    second = first - theta[1]
    share = 1.0 / (1.0 + np.exp((second**2 - first**2) / 4.0))
    out[0] = -((1.0 - share) * first + share * second) / 2.0
    out[1] = -share * second / 2.0


@implements(prior_potential, TwoModes)
def potential(target, theta):
    total = 0.0
    for j in range(theta.size):
        if abs(theta[j]) > target.largest_parameter:
            return np.inf
        total += target.prior_precision[j] * theta[j] ** 2
    return total / 2.0


def make_target(seed=0):
    generator = np.random.default_rng(seed)
    means = generator.integers(0, 2, N_RECORDS)
    values = means + np.sqrt(2.0) * generator.standard_normal(N_RECORDS)
    clipped = np.clip(values, -LARGEST_RECORD, LARGEST_RECORD)
    return TwoModes(clipped, PRIOR_PRECISION, GRADIENT_BOUND, LARGEST_PARAMETER)


def proved_gradient_bound(spacing=0.002):
    """Upper bound of the gradient's norm over all records and parameters."""
    first = np.arange(0.0, LARGEST_RECORD + LARGEST_PARAMETER + spacing / 2, spacing)
    largest = 0.0
    for theta_2 in np.arange(-LARGEST_PARAMETER, LARGEST_PARAMETER + spacing / 2, spacing):
        second = first - theta_2
        share = 1.0 / (1.0 + np.exp((second**2 - first**2) / 4.0))
        norms = np.hypot((1.0 - share) * first + share * second, share * second) / 2.0
        largest = max(largest, norms.max())
    return largest + 74 / 16 * spacing / np.sqrt(2.0)


def grid():
    """Points of the grid along an axis: midpoints of equal intervals."""
    n_points = N_CELLS * POINTS_PER_CELL
    return LARGEST_PARAMETER * ((2.0 * np.arange(n_points) + 1.0) / n_points - 1.0)


def gridded_posterior(target, temperature=TEMPERATURE):
    """Probabilities of the posterior on the grid. **Not private.**

    Records are rounded to hundredths, for speed: an error of about 0.01 in ``log p``.
    """
    points = grid()
    values, counts = np.unique(np.round(target.values, 2), return_counts=True)
    log_density = np.empty((points.size, points.size))
    for row, theta_1 in enumerate(points):
        first = (values - theta_1)[:, None]
        log_density[row] = counts @ np.logaddexp(-(first**2) / 4, -((first - points) ** 2) / 4)
    log_density /= temperature
    log_density -= np.add.outer(*(PRIOR_PRECISION[:, None] * points**2 / 2.0))
    density = np.exp(log_density - log_density.max())
    return density / density.sum()


def symmetric_kl(draws, posterior):
    """``(KL(p, q) + KL(q, p)) / 2`` of the gridded posterior p and a histogram q of the draws.

    Both have 24 x 24 cells of width 0.25 over [-3, 3]^2. Half a draw is added to each cell, also to the
    posterior's expected counts, so that the exact posterior gets 0. Draws outside count in the nearest cell.
    """
    edges = np.linspace(-LARGEST_PARAMETER, LARGEST_PARAMETER, N_CELLS + 1)
    inside = np.clip(draws, -LARGEST_PARAMETER, LARGEST_PARAMETER)
    counts = np.histogram2d(*inside.T, bins=(edges, edges))[0]
    shape = N_CELLS, POINTS_PER_CELL, N_CELLS, POINTS_PER_CELL
    expected = len(draws) * posterior.reshape(shape).sum(axis=(1, 3))
    p, q = expected + 0.5, counts + 0.5
    return float(((p - q) * np.log(p / q)).sum() / p.sum() / 2.0)


def make_plan(epsilon, kind=DPFastMH, temperature=TEMPERATURE):
    """Plan of as many steps as the budget affords, at most `MOST_STEPS`."""
    sampler, budget = kind(temperature=temperature, n_effective=N_EFFECTIVE), Budget(epsilon, DELTA)
    plan = sampler.plan(BOUNDS, N_RECORDS, budget, n_draws=N_DRAWS)
    if plan.n_steps <= MOST_STEPS:
        return plan
    sampler.set_params(n_steps=MOST_STEPS)
    return sampler.plan(BOUNDS, N_RECORDS, budget, n_draws=N_DRAWS)


def plot(draws, posterior, title, path):
    """Plot the draws over the 50% and 90% regions of the posterior."""
    falling = np.sort(posterior, axis=None)[::-1]
    levels = [falling[np.searchsorted(falling.cumsum(), share)] for share in (0.9, 0.5)]
    figure, axis = plt.subplots(figsize=(6.0, 5.4), layout="constrained")
    axis.plot(*draws.T, ".", color=BLUE, ms=4, alpha=0.4, mew=0, label="draws")
    axis.contour(grid(), grid(), posterior.T, levels, colors=ORANGE, linewidths=2)
    axis.plot([], [], color=ORANGE, lw=2, label="posterior: 50%, 90%")
    axis.set(xlim=(-1.5, 2.5), ylim=(-3, 3), xlabel="theta_1", ylabel="theta_2")
    axis.set_title(title, fontsize=10)
    axis.legend(loc="upper right", frameon=False)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--epsilon", type=float, default=3.0, help="of the whole run, at delta 1e-5"
    )
    parser.add_argument("--output", default="two_modes.png", help="file of the plot")
    arguments = parser.parse_args()
    # A seed makes the picture repeatable. With private data it must stay None, as by default.
    warnings.filterwarnings("ignore", "A seeded random_state", PrivacyWarning)

    print(
        f"No record's gradient is longer than {proved_gradient_bound():.4f} <= {GRADIENT_BOUND}.\n"
    )
    plan = make_plan(arguments.epsilon)
    print(plan, "\n")
    target = make_target()
    draws = sample(target, plan, random_state=0)
    posterior = gridded_posterior(target)
    exact = np.random.default_rng(0).choice(posterior.size, N_DRAWS, p=posterior.ravel())
    exact = grid()[np.column_stack(np.unravel_index(exact, posterior.shape))]
    print("                     symmetric KL to the posterior  share with theta_2 > 0")
    for name, points in (("draws", draws), ("independent draws", exact)):
        upper = np.mean(points[:, 1] > 0)
        print(f"{name:>20}  {symmetric_kl(points, posterior):28.3f}  {upper:22.0%}")
    plot(
        draws, posterior, f"epsilon = {plan.epsilon:.3g}, {plan.n_steps:,} steps", arguments.output
    )
    print(f"plot: {arguments.output}")


if __name__ == "__main__":
    main()
