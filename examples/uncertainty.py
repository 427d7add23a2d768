"""What the draws are for: intervals for coefficients, and predictions that know how sure they are.

The data are synthetic, so that the true coefficients are known and nobody's privacy is at stake.
The same model is fitted at epsilon = 1 and without privacy (epsilon = inf). A private fit draws
from the posterior given what was released, noise included: its intervals are wider by what the
noise hides, and cover as often as they say. The table that is printed tells the share of it.
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

COEFFICIENTS = np.array([2.0, 1.0, 0.0, -1.5])
INTERCEPT = -0.5
COLORS = {1.0: "#0072B2", np.inf: "#D55E00"}
LABELS = {1.0: "epsilon = 1", np.inf: "not private (epsilon = inf)"}


def make_data(n_samples=5000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_samples, COEFFICIENTS.size))
    y = rng.random(n_samples) < expit(X @ COEFFICIENTS + INTERCEPT)
    return X, y.astype(int)


def plot_coefficients(axis, model, epsilon, offset):
    low, high = np.moveaxis(model.posterior_interval(0.9)[0], -1, 0)
    middle = np.median(model.posterior_samples_[:, 0], axis=0)
    axis.errorbar(
        middle,
        np.arange(middle.size) + offset,
        xerr=[middle - low, high - middle],
        fmt="o",
        capsize=4,
        lw=2,
        color=COLORS[epsilon],
        label=LABELS[epsilon],
    )


def plot_predictions(axis, draws, epsilon, grid):
    # One curve per draw: what the probability is along the first feature, the others being 0.
    curves = expit(draws[:, :1] * grid + draws[:, -1:])
    low, high = np.quantile(curves, [0.05, 0.95], axis=0)
    axis.fill_between(grid, low, high, color=COLORS[epsilon], alpha=0.25, lw=0)
    axis.plot(grid, curves.mean(axis=0), color=COLORS[epsilon], lw=2, label=LABELS[epsilon])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", default="uncertainty.png", help="file of the plot")
    arguments = parser.parse_args()
    # A seed makes the picture repeatable. With private data it must stay None, as by default.
    warnings.filterwarnings("ignore", "A seeded random_state", PrivacyWarning)

    X, y = make_data()
    grid = np.linspace(-1, 1, 101)
    names = [*(f"coefficient {j}" for j in range(COEFFICIENTS.size)), "intercept"]
    truth = np.append(COEFFICIENTS, INTERCEPT)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
    for epsilon, offset in ((1.0, 0.15), (np.inf, -0.15)):
        model = DPBayesianLogisticRegression(epsilon, random_state=0).fit(X, y)
        draws = model.sample_posterior()[:, 0]
        print(
            f"{LABELS[epsilon]}: spent {model.spent_epsilon_:.4g} at delta "
            f"{model.spent_delta_:.3g}, {model.n_iter_:,} passes over the table"
        )
        print(model.summary().assign(truth=truth).round(2).to_string(), "\n")
        plot_coefficients(left, model, epsilon, offset)
        plot_predictions(right, draws, epsilon, grid)

    left.plot(truth, np.arange(truth.size), "k|", ms=22, mew=2, label="truth")
    left.set_yticks(range(truth.size), names)
    left.invert_yaxis()
    left.set_xlabel("posterior median and 90% interval")
    right.plot(grid, expit(COEFFICIENTS[0] * grid + INTERCEPT), "k--", lw=1.5, label="truth")
    right.set_xticks([-1, -0.5, 0, 0.5, 1])
    right.set_xlabel("first feature, the others at 0")
    right.set_ylabel("probability of class 1")
    for axis in (left, right):
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    right.legend(loc="upper left", frameon=False)
    figure.savefig(arguments.output, dpi=150)
    print(f"plot: {arguments.output}")


if __name__ == "__main__":
    main()
