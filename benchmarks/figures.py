"""A figure of several samplers against epsilon."""

import math

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "os^vDP"


def plot_against_epsilon(results, levels, label, path, *, logarithmic=False):
    """Save means and standard deviations over seeds against epsilon; the last epsilon may be infinite.

    Parameters
    ----------
    results : dict of {str: {float: list of float}}
        Name of a sampler, epsilon, one value per seed.
    levels : dict of {str: float}
        Horizontal lines to compare with.
    label : str
        Of the vertical axis.
    path : str
    logarithmic : bool, default=False
        Whether that axis is.
    """
    figure, axis = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
    epsilons = sorted({epsilon for values in results.values() for epsilon in values})
    places = {e: e if math.isfinite(e) else 5.0 * epsilons[-2] for e in epsilons}
    for number, (name, values) in enumerate(results.items()):
        # Side by side, so that bars do not hide each other.
        nudge = 1.04 ** (number - len(results) / 2)
        axis.errorbar(
            [places[epsilon] * nudge for epsilon in values],
            [np.mean(of_seeds) for of_seeds in values.values()],
            [np.std(of_seeds, ddof=len(of_seeds) > 1) for of_seeds in values.values()],
            color=COLORS[number],
            marker=MARKERS[number],
            ms=5,
            capsize=3,
            label=name,
        )
    for number, (name, level) in enumerate(levels.items()):
        axis.axhline(level, color="#555555", ls=("--", ":")[number % 2], label=name)
    axis.set_xscale("log")
    axis.set_xticks(list(places.values()), [f"{e:g}" for e in places])
    axis.minorticks_off()
    if logarithmic:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
    axis.set(xlabel="epsilon of the whole run", ylabel=label)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
    plt.close(figure)
