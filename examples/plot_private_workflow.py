"""A table with missing values, from the CSV to the report, within one budget.

    python examples/plot_private_workflow.py [folder]

The table is made up: 20,000 patients with ages, blood pressures and incomes, a region and a smoker's status,
some of it missing, and whether they came back within a month. It is written to a CSV file and read
as anybody would read one. Bounds and categories are learnt privately, a logistic regression is
fitted, and its accuracy on other patients is released with an interval; a ledger in a file has charged all of
it. Nothing is downloaded. The folder then has

    patients.csv    the raw table
    ledger.sqlite   what was spent; `python -m skdpbayes.ledger show` prints it
    report.json     what was protected, how much and how, for people who were not there
    workflow.png    coefficients with intervals, and the score against epsilon
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.metrics import dp_accuracy_score
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger, privacy_report

matplotlib.use("Agg")
import matplotlib.pyplot as plt

EPSILONS = (0.1, 0.3, 1.0, 3.0)
DELTA = 1e-6
NUMBERS = ["age", "pressure", "income"]
CATEGORIES = ["region", "smoker"]


def patients(n_samples=20_000):
    """Return a made-up table as it would come out of a database."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.normal(55, 16, n_samples).clip(18, 99).round(),
            "pressure": rng.normal(130, 18, n_samples).round(),
            "income": rng.lognormal(10.3, 0.7, n_samples).round(-2),
            "region": rng.choice(
                ["north", "south", "east", "islands"], n_samples, p=[0.4, 0.35, 0.2, 0.05]
            ),
            "smoker": rng.choice(["no", "yes", "used to"], n_samples, p=[0.6, 0.15, 0.25]),
        }
    )
    logits = 0.05 * (table["age"] - 55) + 0.03 * (table["pressure"] - 130) - 0.6
    logits += 0.9 * (table["smoker"] == "yes") - 0.5 * np.log(table["income"] / 30_000)
    table["back"] = (rng.random(n_samples) < expit(logits)).astype(int)
    for name, share in (("pressure", 0.1), ("income", 0.25), ("smoker", 0.05)):
        table.loc[rng.random(n_samples) < share, name] = None
    return table


def make_model(epsilon, seed):
    """Return the pipeline; seeds are for examples, and not for releases."""
    columns = make_column_transformer(
        (make_pipeline(DPQuantileScaler(random_state=seed), DPImputer()), NUMBERS),
        (DPOneHotEncoder(random_state=seed), CATEGORIES),
    )
    return make_private_pipeline(
        columns,
        # A number or a category adds at most 1 to the squared norm of a row.
        DPBayesianLogisticRegression(
            classes=[0, 1], data_norm=np.sqrt(len(NUMBERS) + len(CATEGORIES)), random_state=seed
        ),
        epsilon=epsilon,
        delta=DELTA,
        strict=True,
    )


def fit_and_score(table, epsilon, seed=0):
    """Return a model, and its private score on rows that it has not seen."""
    rows = np.random.default_rng(1).permutation(len(table))
    train, test = table.iloc[rows[5_000:]], table.iloc[rows[:5_000]]
    model = make_model(epsilon, seed).fit(train[NUMBERS + CATEGORIES], train["back"])
    predicted = model.predict(test[NUMBERS + CATEGORIES])
    return model, dp_accuracy_score(test["back"], predicted, epsilon=epsilon, random_state=seed)


def draw(model, scores, path):
    """Plot the coefficients, and scores against epsilon."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
    final, names = model[-1], model[0].get_feature_names_out()
    names = [name.partition("__")[2] for name in names]
    ends = final.posterior_interval(0.9)[0, :-1]
    places = np.arange(len(names))[::-1]
    left.hlines(places, *ends.T, color="#0072B2", lw=2)
    left.plot(final.coef_[0], places, "o", color="#0072B2", ms=5)
    left.axvline(0.0, color="#555555", lw=0.8)
    left.set_yticks(places, names)
    left.set_xlabel("coefficient, with its 90% interval")
    values = np.array([float(score) for score in scores.values()])
    low, high = np.array([score.interval(0.9) for score in scores.values()]).T
    right.errorbar(
        list(scores), values, [values - low, high - values], fmt="o-", color="#D55E00", capsize=3
    )
    right.set_xscale("log")
    right.set_xticks(list(scores), [f"{epsilon:g}" for epsilon in scores])
    right.minorticks_off()
    right.set(xlabel="epsilon of model and score", ylabel="private accuracy, with its 90% interval")
    for axis in (left, right):
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main(folder):
    """Write the files, and print what was found."""
    patients().to_csv(folder / "patients.csv", index=False)
    table = pd.read_csv(folder / "patients.csv")
    print(make_model(1.0, 0).privacy_plan(15_000, len(NUMBERS + CATEGORIES)), "\n")
    scores = {}
    for epsilon in EPSILONS:
        # A budget for each, since this is for looking at the price; a release has one.
        ledger = folder / ("ledger.sqlite" if epsilon == 1.0 else f"ledger_{epsilon:g}.sqlite")
        ledger.unlink(missing_ok=True)
        with PrivacyLedger(2.0 * epsilon, 2.0 * DELTA, path=ledger):
            fitted, scores[epsilon] = fit_and_score(table, epsilon)
        low, high = scores[epsilon].interval(0.9)
        print(
            f"epsilon {epsilon:<4g} accuracy {scores[epsilon]:.3f}, 90% interval {low:.3f} to {high:.3f}"
        )
        if epsilon == 1.0:
            model = fitted
    print("\nback:", table["back"].mean().round(3), "of all patients (made up, so it may be told)")
    (folder / "report.json").write_text(json.dumps(privacy_report(model), indent=2))
    draw(model, scores, folder / "workflow.png")
    print("wrote", ", ".join(sorted(path.name for path in folder.iterdir())))


if __name__ == "__main__":
    warnings.simplefilter("ignore", PrivacyWarning)
    target = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    main(target)
    print("in", target)
