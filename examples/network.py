"""Two interleaved spirals in a private table: what a small Bayesian network knows, and where it is unsure.

20,000 rows in two dimensions, two classes. What is public: that coordinates are between -1 and 1. The plot
has the probability of a class by the default sampler at two budgets, and without privacy, with lines
where it is one half; and how far single networks, drawn from what was released, disagree about it.
"""

import argparse
import warnings

import matplotlib
import numpy as np

from skdpbayes import DPBayesianMLPClassifier
from skdpbayes.exceptions import PrivacyWarning

matplotlib.use("Agg")
import matplotlib.pyplot as plt

N_ROWS, N_TEST = 20_000, 5_000
EPSILONS = (1.0, 4.0, np.inf)


def spirals(n_rows, generator):
    """Return rows in the square, and which of two arms they are on."""
    labels = generator.integers(2, size=n_rows)
    turn = np.sqrt(generator.random(n_rows)) * 1.5 * np.pi
    angle = turn + np.pi * labels
    rows = (turn / (1.6 * np.pi))[:, None] * np.column_stack((np.cos(angle), np.sin(angle)))
    return np.clip(rows + 0.05 * generator.standard_normal((n_rows, 2)), -1.0, 1.0), labels


def plot(models, path):
    """Save probabilities, and how far draws disagree."""
    grid = np.linspace(-1.0, 1.0, 81)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    figure, axes = plt.subplots(
        2, 3, figsize=(9.0, 6.0), sharex=True, sharey=True, layout="constrained"
    )
    for (top, bottom), model in zip(axes.T, models, strict=True):
        probability = model.predict_proba(points)[:, 1].reshape(grid.size, -1)
        each = each_draw(model, points).std(axis=0).reshape(grid.size, -1)
        shown = top.pcolormesh(
            grid, grid, probability, cmap="RdBu_r", vmin=0, vmax=1, rasterized=True
        )
        top.contour(grid, grid, probability, [0.5], colors="k", linewidths=1)
        spread = bottom.pcolormesh(
            grid, grid, each, cmap="Greys", vmin=0, vmax=0.5, rasterized=True
        )
        top.set(title=f"epsilon = {model.epsilon:g}", aspect="equal")
        bottom.set(aspect="equal")
    figure.colorbar(shown, ax=axes[0], label="probability")
    figure.colorbar(spread, ax=axes[1], label="deviation over draws")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def each_draw(model, X, n_draws=30):
    """Return the probability that every single network gives to the second class."""
    layers = model.layers(model.sample_posterior(n_draws, random_state=0))
    # Rows are clipped, and those of the typical norm that was released brought to norm 4.
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    rows = X * np.minimum(1.0, model.data_norm_ / np.maximum(norms, 1e-12))
    a = np.broadcast_to(4.0 / model.row_norm_ * rows, (n_draws, *X.shape))
    for number, (weights, biases) in enumerate(layers):
        a = a @ weights + biases[:, None]
        a = np.tanh(a) if number < len(layers) - 1 else a
    return 1.0 / (1.0 + np.exp(a[..., 0] - a[..., 1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", default="network.png", help="file of the plot")
    arguments = parser.parse_args()
    # A seed makes an example repeatable; a release must leave random_state=None.
    warnings.filterwarnings("ignore", "A seeded random_state", PrivacyWarning)
    generator = np.random.default_rng(0)
    X, y = spirals(N_ROWS, generator)
    X_test, y_test = spirals(N_TEST, generator)
    models = []
    for epsilon in EPSILONS:
        model = DPBayesianMLPClassifier((32, 32), epsilon=epsilon, random_state=0)
        if not models:
            print(model.privacy_plan(N_ROWS, 2), "\n")
        models.append(model.fit(X, y))
        print(
            f"epsilon = {epsilon:<4g} spent {model.spent_epsilon_:<8.4g} accuracy "
            f"{model.score(X_test, y_test):.3f}"
        )
    plot(models, arguments.output)
    print(f"plot: {arguments.output}")


if __name__ == "__main__":
    main()
