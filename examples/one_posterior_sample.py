"""One posterior sample: releasing the last iterate of a chain, and nothing of the way to it.

With `sampler="ops"` a fit releases a single draw. It costs no more than an exact posterior sample
would, however long the chain runs. To see its law, this script fits the same synthetic table many
times and lays the draws, one of each fit, over the posterior, which two parameters allow to compute
on a grid. A real release is one such point: every further one would cost as much again.
"""

import argparse
import warnings

import matplotlib
import numpy as np
from scipy.special import expit

from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.linear_model import DPBayesianLogisticRegression

matplotlib.use("Agg")
import matplotlib.pyplot as plt

EPSILONS = (0.3, 1.0, 3.0, 10.0)
SHARES = (0.5, 0.9)
PRIOR_SCALE = 2.5
BLUE, ORANGE = "#0072B2", "#D55E00"
SLOPES = np.linspace(-2.5, 6.5, 181)
INTERCEPTS = np.linspace(-3, 2, 181)


def make_data(n_samples=1000):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, n_samples)
    y = rng.random(n_samples) < expit(2 * x - 0.5)
    return x, y.astype(int)


def posterior(x, y, temperature):
    """Return the posterior at a temperature on the grid, as probabilities of its cells."""
    slope, intercept = np.meshgrid(SLOPES, INTERCEPTS, indexing="ij")
    log_density = -(slope**2 + intercept**2) / (2 * PRIOR_SCALE**2)
    for value, label in zip(x, y, strict=True):
        logit = slope * value + intercept
        log_density += (label * logit - np.logaddexp(0, logit)) / temperature
    density = np.exp(log_density - log_density.max())
    return density / density.sum()


def levels(density):
    """Return the densities above which the shares of the probability lie."""
    falling = np.sort(density, axis=None)[::-1]
    return [falling[np.searchsorted(falling.cumsum(), share)] for share in SHARES]


def one_draw(epsilon, x, y, seed):
    """Return (slope, intercept) of a single draw, and the model that released it."""
    # A seed makes the picture repeatable. With private data it must stay None, as by default.
    model = DPBayesianLogisticRegression(
        epsilon,
        delta=1e-5,
        sampler="ops",
        data_norm=1.0,
        prior_scale=PRIOR_SCALE,
        classes=[0, 1],
        random_state=seed,
    ).fit(x[:, None], y)
    return model.posterior_samples_[0, 0], model


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=200, help="fits at every epsilon")
    parser.add_argument("--output", default="one_posterior_sample.png", help="file of the plot")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "A seeded random_state", PrivacyWarning)

    x, y = make_data()
    exact = posterior(x, y, temperature=1.0)
    print("epsilon   spent  temperature  steps  of the draws in the 50% and 90% regions")
    figure, axes = plt.subplots(
        2, 2, figsize=(9.6, 6.8), sharex=True, sharey=True, layout="constrained"
    )
    for axis, epsilon in zip(axes.flat, EPSILONS, strict=True):
        draws = []
        for seed in range(arguments.draws):
            draw, model = one_draw(epsilon, x, y, seed)
            draws.append(draw)
        draws = np.array(draws)
        tempered = posterior(x, y, model.temperature_)
        heights = levels(tempered)
        rows, columns = (
            np.searchsorted(points, draws[:, j]).clip(max=points.size - 1)
            for j, points in enumerate((SLOPES, INTERCEPTS))
        )
        inside = [np.mean(tempered[rows, columns] >= height) for height in heights]
        print(
            f"{epsilon:7g} {model.spent_epsilon_:7.4f} {model.temperature_:12.2f} "
            f"{model.n_iter_:6,}  {inside[0]:.0%} and {inside[1]:.0%}"
        )
        axis.plot(*draws.T, ".", color=BLUE, ms=5, alpha=0.5, mew=0, label="one draw of each fit")
        for density, color in ((tempered, ORANGE), (exact, "black")):
            axis.contour(
                SLOPES, INTERCEPTS, density.T, levels(density)[::-1], colors=color, linewidths=1.5
            )
        axis.set_title(f"epsilon = {epsilon:g}, temperature {model.temperature_:.3g}", fontsize=10)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].plot([], [], color=ORANGE, label="posterior at that temperature: 50%, 90%")
    axes[0, 0].plot([], [], color="black", label="posterior: 50%, 90%")
    axes[0, 0].legend(loc="upper left", frameon=False, fontsize=9)
    for axis in axes[1]:
        axis.set_xlabel("coefficient")
    for axis in axes[:, 0]:
        axis.set_ylabel("intercept")
    figure.savefig(arguments.output, dpi=150)
    print(f"plot: {arguments.output}")


if __name__ == "__main__":
    main()
