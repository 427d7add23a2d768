"""Three groups in a private table: a mixture's posterior, its density, and where the groups are.

50,000 rows in two dimensions, from three Gaussians of different size and shape. What is public: that there
are three, and that no row is longer than 10. The plot has some of the rows (**a picture of private rows is
not private**; here they are made up), the draws of the three means, the average covariances as ellipses of
two deviations, and contours of the density, which averages over all draws.
"""

import argparse
import warnings

import matplotlib
import numpy as np

from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.mixture import DPGaussianMixturePosterior

matplotlib.use("Agg")
import matplotlib.pyplot as plt

N_ROWS, DATA_NORM = 50_000, 10.0
WEIGHTS = (0.5, 0.3, 0.2)
CENTRES = np.array([[-4.0, -2.0], [3.0, -3.0], [1.0, 4.0]])
DEVIATIONS = np.array([[1.2, 0.8], [0.8, 1.2], [1.0, 0.7]])
COLORS = ("#0072B2", "#D55E00", "#009E73")


def make_table(seed=0):
    generator = np.random.default_rng(seed)
    groups = generator.choice(3, N_ROWS, p=WEIGHTS)
    return CENTRES[groups] + DEVIATIONS[groups] * generator.standard_normal((N_ROWS, 2))


def plot(X, model, path):
    """Lay what was released over the rows."""
    figure, axis = plt.subplots(figsize=(6.4, 5.6), layout="constrained")
    axis.plot(*X[:3000].T, ".", color="0.75", ms=2, zorder=0)
    grid = np.linspace(-8.0, 8.0, 120)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    density = np.exp(model.score_samples(points)).reshape(grid.size, grid.size)
    levels = density.max() / 4.0 ** np.arange(4, 0, -1)
    axis.contour(grid, grid, density, levels, colors="0.35", linewidths=0.8)
    circle = np.linspace(0.0, 2.0 * np.pi, 200)
    circle = np.column_stack((np.cos(circle), np.sin(circle)))
    for k, color in enumerate(COLORS):
        axis.plot(*model.posterior_samples_.means[:, k].T, ".", color=color, ms=4, alpha=0.6)
        ellipse = model.means_[k] + 2.0 * np.sqrt(model.covariances_[k]) * circle
        label = f"weight {model.weights_[k]:.2f}"
        axis.plot(*ellipse.T, color=color, lw=1.8, label=label)
    axis.plot(*CENTRES.T, "kx", ms=8, label="true centres")
    axis.set(xlim=(-8, 8), ylim=(-8, 8), aspect="equal", xlabel="x0", ylabel="x1")
    axis.set_title(f"epsilon = {model.spent_epsilon_:.3g}, {N_ROWS:,} rows", fontsize=10)
    axis.legend(loc="upper left", frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--output", default="mixture.png", help="file of the plot")
    arguments = parser.parse_args()
    # A seed makes the picture repeatable. With private data it must stay None, as by default.
    warnings.filterwarnings("ignore", "A seeded random_state", PrivacyWarning)

    model = DPGaussianMixturePosterior(
        n_components=3, epsilon=arguments.epsilon, data_norm=DATA_NORM, random_state=0
    )
    print(model.privacy_plan(N_ROWS, n_features=2), "\n")
    X = make_table()
    model.fit(X)
    print("  weight  mean            deviations")
    for weight, mean, variances in zip(
        model.weights_, model.means_, model.covariances_, strict=True
    ):
        deviations = np.sqrt(variances)
        print(
            f"  {weight:6.3f}  {mean[0]:6.2f} {mean[1]:6.2f}   {deviations[0]:6.2f} {deviations[1]:6.2f}"
        )
    print(f"\nspent: epsilon = {model.spent_epsilon_:.4g} at delta = {model.spent_delta_:.3g}")
    print(f"temperature: {model.temperature_:.4g}")
    plot(X, model, arguments.output)
    print(f"plot: {arguments.output}")


if __name__ == "__main__":
    main()
