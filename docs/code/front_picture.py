"""The picture of the front page: accuracy and intervals against epsilon, on a real survey."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

sys.path.insert(0, str(Path.cwd().parents[1] / "examples"))
import vote

EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0)
SHOWN = {0.3: "#56B4E9", 1.0: "#0072B2", np.inf: "#D55E00"}
# A name for readers, and the column of the encoded table.
NAMES = {
    "conservative": "pipeline__ideo",
    "religion matters little": "pipeline__religimp",
    "went to college": "boundedscaler-2__collegeed",
    "income": "pipeline__famincr",
    "age": "boundedscaler-1__age",
}


def fits(table, y, n_seeds=2):
    """Return {epsilon: list of (accuracy on other people, fitted pipeline)}."""
    results = {epsilon: [] for epsilon in (*EPSILONS, np.inf)}
    for seed in range(n_seeds):
        X, X_test, y_train, y_test = train_test_split(
            table, y, train_size=vote.N_TRAIN, test_size=vote.N_TEST, random_state=seed
        )
        for epsilon, found in results.items():
            model = make_pipeline(vote.encoder(), vote.private_model(epsilon, seed))
            found.append((model.fit(X, y_train).score(X_test, y_test), model))
    return results


def plot_accuracy(axis, results, base_rate):
    """Draw accuracy against epsilon, beside that without privacy and that of a constant."""
    scores = {epsilon: [score for score, _ in found] for epsilon, found in results.items()}
    means = [np.mean(scores[epsilon]) for epsilon in EPSILONS]
    errors = [np.std(scores[epsilon], ddof=1) for epsilon in EPSILONS]
    axis.errorbar(EPSILONS, means, errors, fmt="o-", color="#0072B2", capsize=3, label="private")
    axis.axhline(np.mean(scores[np.inf]), color="#D55E00", ls="--", label="without privacy")
    axis.axhline(base_rate, color="#555555", ls=":", label="always the same answer")
    axis.set_xscale("log")
    axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axis.minorticks_off()
    axis.set(xlabel="epsilon: smaller is more private", ylabel="accuracy", title="Predictions")
    axis.legend(frameon=False, loc="center right")


def plot_intervals(axis, results):
    """Draw the 90% intervals of some coefficients at several epsilons."""
    places = np.arange(len(NAMES))
    for (epsilon, color), offset in zip(SHOWN.items(), (0.22, 0.0, -0.22), strict=True):
        _, model = results[epsilon][0]
        columns = list(model[0].get_feature_names_out())
        rows = [columns.index(name) for name in NAMES.values()]
        low, high = model[-1].posterior_interval(0.9)[0, rows].T
        label = "without privacy" if epsilon == np.inf else f"epsilon = {epsilon:g}"
        axis.hlines(places + offset, low, high, color=color, lw=3, label=label)
        axis.plot(model[-1].coef_[0, rows], places + offset, "o", color=color, ms=4)
    axis.axvline(0.0, color="#555555", lw=0.8)
    axis.set_yticks(places, NAMES)
    axis.invert_yaxis()
    axis.set(xlabel="coefficient and its 90% interval", title="What goes with a vote for Trump")
    axis.legend(frameon=False)


def main():
    table, y = vote.load()
    results = fits(table, y)
    _, (top, bottom) = plt.subplots(2, 1, figsize=(5, 6.4))
    plot_accuracy(top, results, max(y.mean(), 1 - y.mean()))
    plot_intervals(bottom, results)


main()
