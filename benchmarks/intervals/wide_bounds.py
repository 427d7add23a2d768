"""Do intervals hold effects of columns that vary by far less than their public bounds allow?

    python -m benchmarks.intervals.wide_bounds [--repetitions 24] [--designs held_out] [--models ridge]

"Columns that hardly vary" of docs/benchmarks_intervals.rst, by ``--results docs/results/wide_bounds.csv``.

Narrow columns have a share of half their bounds' width as their deviation. The default was made on
``made_on``: three normal columns around 0, correlated .7, beside ten indicators of two factors. Designs of
``held_out`` are others: a rate beside uniform columns that use their bounds; two amounts, one of them skewed,
beside signs of -1 and 1; and six narrow columns that share a factor, beside one indicator. Effects are
.1 to .6 for a deviation of a narrow column, and .1 to 1.1 for others.

Printed are the shares of 90% intervals that hold effects of narrow columns and of others, the mean width of
the former for a deviation, the share of fits that warn, and the shares of intervals of narrow columns that
miss and are not named beneath a table of intervals, and of other columns that are named, under replace_one
with delta 1e-5.
"""

import argparse
import math
import warnings
from itertools import product

import numpy as np
from scipy.special import expit

from benchmarks.common import ResultsTable, allow_seeds
from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor, DPBayesianRidge

DESIGNS = {
    "made_on": ("factors",),
    "held_out": ("rate", "amounts", "shared"),
}
SIZES = ((2_000, 1.0), (10_000, 0.3), (10_000, 1.0), (50_000, 1.0))
WIDTHS = (3, 6, 12)
MODELS = ("logistic", "ridge", "counts")


def a_table(kind, n, width, rng):
    """Narrow columns, others, and the norm that bounds rows."""
    if kind == "factors":
        shared = rng.normal(size=(n, 1))
        narrow = math.sqrt(0.7) * shared + math.sqrt(0.3) * rng.normal(size=(n, 3))
        laws = ([0.4, 0.3, 0.2, 0.1], [0.3, 0.2, 0.15, 0.12, 0.1, 0.07, 0.04, 0.02])
        others = [np.eye(len(law))[rng.choice(len(law), n, p=law)][:, 1:] for law in laws]
        return np.clip(narrow, -3.0, 3.0) / width, np.hstack(others), math.sqrt(5.0)
    if kind == "rate":
        return rng.normal(size=(n, 1)) / width, rng.uniform(-1.0, 1.0, (n, 5)), math.sqrt(6.0)
    if kind == "amounts":
        skewed = (np.exp(rng.normal(size=n)) - 1.0) / 2.0
        narrow = np.column_stack([skewed, rng.normal(size=n)]) / width
        signs = np.where(rng.random((n, 4)) < [0.5, 0.3, 0.2, 0.1], 1.0, -1.0)
        return narrow, signs, math.sqrt(6.0)
    narrow = (0.6 * rng.normal(size=(n, 1)) + 0.8 * rng.normal(size=(n, 6))) / width
    return narrow, (rng.random((n, 1)) < 0.4).astype(float), math.sqrt(7.0)


def held(model_name, kind, n, epsilon, width, seed):
    """Shares of effects that intervals hold, a mean width, whether a fit warns, and what is (not) named."""
    rng = np.random.default_rng(seed)
    narrow, others, norm = a_table(kind, n, width, rng)
    narrow = np.clip(narrow, -1.0, 1.0)
    n_narrow, deviations = narrow.shape[1], narrow.std(axis=0)
    sizes = [rng.uniform(0.1, most, each.shape[1]) for most, each in ((0.6, narrow), (1.1, others))]
    effects = np.concatenate([sizes[0] / deviations, sizes[1]])
    effects *= rng.choice([-1.0, 1.0], effects.size)
    rows = np.hstack([narrow, others])
    logits = rows @ effects
    logits -= logits.mean()
    options = {"epsilon": epsilon, "delta": 1e-5, "data_norm": norm, "random_state": seed}
    if model_name == "logistic":
        model = DPBayesianLogisticRegression(classes=[0, 1], **options)
        y = (rng.random(n) < expit(logits - 1.4)).astype(int)
    elif model_name == "ridge":
        model = DPBayesianRidge((-8.0, 8.0), **options)
        y = np.clip(logits + rng.normal(size=n), -8.0, 8.0)
    else:
        model = DPBayesianPoissonRegressor(max_count=60.0, **options)
        y = np.minimum(rng.poisson(np.exp(np.minimum(logits / 2.0 + 0.7, 5.0))), 60).astype(float)
        effects = effects / 2.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        allow_seeds()
        table = model.fit(rows, y).coef_table().iloc[: effects.size]
    low, high = table["5%"].to_numpy(), table["95%"].to_numpy()
    is_held = (low <= effects) & (effects <= high)
    wide = np.mean((high - low)[:n_narrow] * deviations)
    is_named = np.isin(np.arange(effects.size), model.released_["unseen_columns"])
    return (
        is_held[:n_narrow].mean(),
        is_held[n_narrow:].mean(),
        wide,
        len(caught) > 0,
        (~is_held & ~is_named)[:n_narrow].mean(),
        is_named[n_narrow:].mean(),
    )


def main():
    """Print a line for each model, design, width and size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=24)
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--largest", type=int, default=50_000, help="rows, at most")
    parser.add_argument("--results", help="a CSV file")
    options = parser.parse_args()
    allow_seeds()
    results = ResultsTable(
        "model | design | deviation | rows | epsilon | narrow | others | width | warn | silent misses | "
        "others named",
        options.results,
    )
    kinds = [kind for name in options.designs for kind in DESIGNS[name]]
    sizes = [size for size in SIZES if size[0] <= options.largest]
    for name, kind, width, (n, epsilon) in product(options.models, kinds, WIDTHS, sizes):
        found = [held(name, kind, n, epsilon, width, seed) for seed in range(options.repetitions)]
        figures = (f"{value:.2f}" for value in np.mean(found, axis=0))
        results.add(name, kind, f"1/{width}", n, f"{epsilon:g}", *figures)


if __name__ == "__main__":
    main()
