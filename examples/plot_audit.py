"""
Does a release keep its promise? An attack
==========================================

A privacy guarantee is a bound on every attack. So play the attacker: know all rows of a medical
table but one, know the two values that this row may have, look at what was released, and guess. If
the attack did better than epsilon allows, the proof or the program would be wrong. How close does
it get?
"""

# %%
# The two tables
# --------------
# The first 40 tumours of the breast cancer data that comes with scikit-learn: one column, the mean
# concavity, and the diagnosis. (Among all 569 the others would hide one better.) In one table the first
# tumour is the row that moves a fit the most: the largest value, benign. In the other one it is malignant.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.audit import audit_scores
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy.conversions import gaussian_mu

EPSILON, DELTA, N_RELEASES = 3.0, 1e-5, 300

data = load_breast_cancer()
X = BoundedScaler(0.0, 0.45).fit_transform(data.data[:40, [6]])
y = data.target[:40]
tables = {}
for name, value, label in (("benign, 1", 1.0, 1), ("malignant, 1", 1.0, 0)):
    X_here, y_here = X.copy(), y.copy()
    X_here[0], y_here[0] = value, label
    tables[name] = X_here, y_here

# %%
# The attack
# ----------
# What is released is one posterior draw (``sampler="ops"``). The best guess about an exact draw
# looks at how likely the two possible rows are at the released parameters, that is, at the logit of
# the tumour in question. To know how well that works, we release 300 times from either table. (A
# real attacker has one release.)


def score(table, seed):
    """Return the released model's logit at the row in question."""
    model = DPBayesianLogisticRegression(
        EPSILON, DELTA, sampler="ops", classes=[0, 1], data_norm=1.0, random_state=seed
    ).fit(*table)
    return model.coef_[0, 0] + model.intercept_[0]


scores = {
    name: np.array([score(table, seed + N_RELEASES * which) for seed in range(N_RELEASES)])
    for which, (name, table) in enumerate(tables.items())
}
benign, malignant = scores.values()
allowed = gaussian_mu(EPSILON, DELTA)
result = audit_scores(benign, malignant, delta=DELTA, claim="normal", claimed_epsilon=EPSILON)
print(f"allowed:  mu = {allowed:.3f}, epsilon = {EPSILON:g}")
print(f"achieved: mu >= {result.mu_lower_bound:.3f}, epsilon >= {result.epsilon_lower_bound:.2f}")
print(result.verdict)

# %%
# The bounds hold with 95% confidence, for scores that are normal, as these seem to be: ``audit_scores``
# checks it, and otherwise has a bound for scores of any law. (What is released claims more than epsilon:
# no attack can do better than on two normal numbers that are ``mu`` apart.) The picture on the right has
# what the attacker cares about: how often a guess "benign" is right, against how often it is a false
# alarm. No attack on any release of this plan has a curve above the orange one.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
bins = np.histogram_bin_edges(np.concatenate([benign, malignant]), 30)
for (name, values), color in zip(scores.items(), ("#0072B2", "#E69F00"), strict=True):
    left.hist(values, bins, color=color, alpha=0.5, label=name)
left.set(xlabel="released logit of the row in question", ylabel="releases")
left.legend(title="the row is")
thresholds = np.sort(np.concatenate([benign, malignant]))
alarms = [np.mean(malignant > t) for t in thresholds]
hits = [np.mean(benign > t) for t in thresholds]
grid = np.linspace(0, 1, 500)[1:-1]
right.plot(alarms, hits, color="#0072B2", lw=2, label="this attack, measured")
right.plot(grid, norm.cdf(norm.ppf(grid) + allowed), color="#D55E00", label="what epsilon allows")
right.plot([0, 1], [0, 1], ":", color="0.4", label="guessing")
right.set(xlabel="false alarms", ylabel="hits", aspect="equal")
right.legend(loc="lower right")
plt.show()

# %%
# Limits
# ------
# * An attack that stays below the bound proves nothing: a better one may exist. The proof is on the page
#   :doc:`/theory/index`. An attack above the bound would disprove it.
# * The curve is measured, and wobbles by about 0.03.
# * The bound holds for the worst table there can be. On this one the other rows hide the one in
#   question, too.
# * One who sees a whole path, or the noisy sums of the default sampler, is closer to the bound; the
#   tests of this package contain such attacks.
# * For other models, :func:`skdpbayes.audit.audit_fit` does all of this in one call, and
#   :func:`skdpbayes.audit.replay` looks inside: see :doc:`/guide/check_it_yourself`.
