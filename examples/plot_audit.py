"""
Does a release keep its promise? An attack
==========================================

Epsilon limits every attack. To test that, play the attacker: you know all rows of a medical table
but one, and the two values that this row may have. If your guess from a release is better than
epsilon allows, the proof or the program is wrong.
"""

# %%
# The two tables
# --------------
# The first 40 tumours of scikit-learn's breast cancer data, with one column, the mean concavity,
# and the diagnosis. (More rows would hide a single one better.) The first tumour is the row that
# moves a fit most: it has the largest value, and is benign in one table and malignant in the other.

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
# The release is one posterior draw (``sampler="ops"``). The best attack on an exact draw compares
# how probable the two possible rows are under the released parameters, so its score is the logit of
# the tumour. We release 300 times from each table to measure its success. A real attacker has one
# release.


def score(table, seed):
    """Released logit of the row in question."""
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
# Lower bounds hold with 95% confidence if scores are normal. ``audit_scores`` checks this, and
# otherwise takes a bound for any distribution. The budget also limits ``mu``: no attack does better
# than tell a standard normal number from one with mean ``mu``. Below, how often the guess
# "benign" is right against how often it is a false alarm.

figure, (top, bottom) = plt.subplots(2, 1, figsize=(5, 8), layout="constrained")
bins = np.histogram_bin_edges(np.concatenate([benign, malignant]), 30)
for (name, values), color in zip(scores.items(), ("#0072B2", "#E69F00"), strict=True):
    top.hist(values, bins, color=color, alpha=0.5, label=name)
top.set(xlabel="released logit of the row in question", ylabel="number of releases")
top.legend(title="the row is")
thresholds = np.sort(np.concatenate([benign, malignant]))
alarms = [np.mean(malignant > t) for t in thresholds]
hits = [np.mean(benign > t) for t in thresholds]
grid = np.linspace(0, 1, 500)[1:-1]
bottom.plot(alarms, hits, color="#0072B2", lw=2, label="this attack, measured")
bottom.plot(grid, norm.cdf(norm.ppf(grid) + allowed), color="#D55E00", label="what epsilon allows")
bottom.plot([0, 1], [0, 1], ":", color="0.4", label="guessing")
bottom.set(xlabel="rate of false alarms", ylabel="rate of detection", aspect="equal")
bottom.legend(loc="lower right")
plt.show()

# %%
# Limits
# ------
# * An attack above the bound would disprove the guarantee. One below proves nothing: a better
#   attack may exist. :doc:`/theory/index` has the proof.
# * The measured curve has an error of about 0.03. The bound is for the worst possible table, while
#   here other rows help to hide the one in question.
# * For other models, :func:`skdpbayes.audit.audit_fit` attacks in one call, and
#   :func:`skdpbayes.audit.replay` checks the noise of each release: see
#   :doc:`/guide/check_it_yourself`.
