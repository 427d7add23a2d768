"""The first model of README.md at several epsilons: what a smaller epsilon does to odds ratios.

`save` writes the picture for README.md, whose hosts have white and dark pages.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.inspection import odds_ratios
from skdpbayes.preprocessing import BoundedScaler

EPSILONS = (0.1, 0.3, 1.0, 3.0, np.inf)
# On white and on the dark pages of hosts, text has a contrast above 4.2 and lines above 3.
COLORS = {"text": "#797979", "private": "#3182bd", "without privacy": "#d2691e"}


def tables(seed=0):
    """Return {epsilon: odds ratios per ten years and per ten hours, with 90% intervals}."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(18, 91, 20_000), rng.integers(0, 100, 20_000)])
    y = rng.random(20_000) < 1 / (1 + np.exp(2 - 0.04 * X[:, 0] - 0.01 * X[:, 1]))
    found = {}
    for epsilon in EPSILONS:
        clf = DPBayesianLogisticRegression(epsilon, classes=[False, True], random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            model = make_pipeline(BoundedScaler([18, 0], [90, 99]), clf).fit(X, y)
        found[epsilon] = odds_ratios(model, raw=True, per={"x0": 10, "x1": 10})
    return found


def draw(found):
    """Return a figure with a panel for each column and an interval for each epsilon."""
    figure, axes = plt.subplots(1, 2, figsize=(5, 2.2), sharey=True, layout="constrained")
    names = ["without privacy" if e == np.inf else f"epsilon {e:g}" for e in found]
    colors = [COLORS["without privacy" if e == np.inf else "private"] for e in found]
    places = np.arange(len(found))
    for row, (axis, title) in enumerate(
        zip(axes, ("age, per 10 years", "hours, per 10"), strict=True)
    ):
        median, low, high = np.array([table.iloc[row, :3] for table in found.values()]).T
        axis.axvline(median[-1], color=colors[-1], lw=0.8, ls=":")
        axis.hlines(places, low, high, colors, lw=3)
        axis.scatter(median, places, 25, colors, zorder=3)
        axis.set_title(title, fontsize="medium")
        axis.set_xlabel("odds ratio, 90% interval")
    # Equal lengths are equal differences in both panels.
    half = 0.55 * max(np.diff(axis.get_xlim())[0] for axis in axes)
    for axis in axes:
        middle = np.mean(axis.get_xlim())
        axis.set_xlim(middle - half, middle + half)
    axes[0].set_yticks(places, names)
    axes[0].invert_yaxis()
    return figure


def save(path):
    """Write the picture, without a background and in colors for white and dark pages."""
    style = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), COLORS["text"])
    style |= dict.fromkeys(("xtick.color", "ytick.color"), COLORS["text"])
    style |= {"axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "skdpbayes"}
    with plt.rc_context(style):
        figure = draw(tables())
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw(tables())
