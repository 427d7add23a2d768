"""Coverage of intervals on designs of real tables, with responses of which the truth is known.

    python -m benchmarks.intervals.real_designs [--results docs/results/real_designs.csv]

Rows are drawn with replacement from a table of `benchmarks.real_tables`, as many as the table has, 20,000 at
most. Responses are drawn from a model that was fitted to the whole table without privacy. For numbers it is

    y = b + x'theta + e,    e one of the residuals, at random,

of ridge regression with the penalty that leaving one row out chooses, clipped to the public bounds; the truth
are the slopes of the mean of what is clipped. For classes it is multinomial (two: logistic) regression with
scikit-learn's usual penalty. So columns, how they vary together, how far bounds are from them, and the law of
errors are the table's own.

Printed for each table and epsilon, also an infinite one, are the share of 90% intervals that hold the truth,
of coefficients and of linear predictors of 200 rows; the share of intervals of coefficients that miss in
silence, no warning and no note beneath the table of intervals being about them; the median width of intervals
of predictors over that at an infinite epsilon; and the share of fits that warn. Coefficients of classes are
those of each less their mean over classes, as labels tell no more. Coefficients that rows do not identify
(levels of a category, all of them) are left out.
"""

import argparse
import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, RidgeCV

from benchmarks.common import ResultsTable, allow_seeds
from benchmarks.real_tables import group_of, load
from benchmarks.real_tables.columns import declarations
from skdpbayes import DPBayesianLogisticRegression, DPBayesianRidge

N_MOST = 20_000
N_PREDICTED = 200
LEVEL = 0.9


def with_constant(X):
    """Return rows with a column of ones behind them."""
    return np.column_stack([X, np.ones(len(X))])


class Truth(NamedTuple):
    """Coefficients of shape (n_outputs, d + 1), and a linear predictor's and residuals to draw from.

    ``theta`` is what intervals are to hold, of coefficients that are ``identified``.
    """

    identified: np.ndarray
    theta: np.ndarray
    slopes: np.ndarray
    residuals: np.ndarray | None


def truth_of(table):
    """Return the `Truth` of a fit to the whole table."""
    z = with_constant(table.X)
    if table.n_classes is not None:
        model = LogisticRegression(C=1.0, max_iter=5_000).fit(table.X, table.y)
        slopes = np.column_stack([model.coef_, model.intercept_])
        return Truth(identified(z), slopes, slopes, None)
    model = RidgeCV(np.geomspace(1e-3, 1e3, 25)).fit(table.X, table.y)
    slopes = np.append(model.coef_, model.intercept_)
    residuals = table.y - z @ slopes
    mean = mean_of_clipped(z @ slopes, residuals, *table.target_bounds)
    theta = np.linalg.lstsq(z, mean, rcond=None)[0]
    return Truth(identified(z), theta[None], slopes[None], residuals)


def mean_of_clipped(linear, residuals, low, high):
    """Return for each predictor the mean, over all residuals, of their sum clipped to [low, high]."""
    ordered = np.sort(residuals)
    sums = np.append(0.0, np.cumsum(ordered))
    first, last = np.searchsorted(ordered, [low - linear, high - linear])
    inside = sums[last] - sums[first] + (last - first) * linear
    return (first * low + inside + (len(ordered) - last) * high) / len(ordered)


def draw_responses(z, truth, bounds, rng):
    """Return responses of rows from the model."""
    linear = z @ truth.slopes.T
    if truth.residuals is not None:
        return np.clip(linear[:, 0] + rng.choice(truth.residuals, len(z)), *bounds)
    logits = linear if len(truth.slopes) > 1 else np.column_stack([np.zeros(len(z)), linear])
    # The largest of logits with Gumbel noise has the probabilities of a softmax.
    return np.argmax(np.log(softmax(logits, axis=1)) + rng.gumbel(size=logits.shape), axis=1)


class Fit(NamedTuple):
    """What is kept of a fit: draws of shape (n_draws, n_outputs, d + 1), and whom it warns of."""

    draws: np.ndarray
    has_warned: bool
    named: np.ndarray


def fitted(table, X, y, epsilon, seed):
    """Return a `Fit` with every option at its default."""
    options = {"epsilon": epsilon, "data_norm": table.norm, "random_state": seed}
    model = (
        DPBayesianRidge(table.target_bounds, **options)
        if table.n_classes is None
        else DPBayesianLogisticRegression(classes=list(range(table.n_classes)), **options)
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        allow_seeds()
        model.fit(X, y)
    columns = [model.released_.get(f"{kind}_columns", []) for kind in ("unseen", "repeated")]
    named = np.isin(np.arange(X.shape[1] + 1), np.concatenate(columns))
    return Fit(model.posterior_samples_, bool(caught), named)


def centred(theta):
    """Return coefficients of classes less their mean over classes, which labels do not tell."""
    return theta - theta.mean(axis=-2, keepdims=True) if theta.shape[-2] > 1 else theta


def predictors(z, theta):
    """Return linear predictors of rows, of classes less their mean."""
    return centred(theta) @ z.T


def intervals(draws, truth):
    """Return whether each interval from draws holds the truth, and its width."""
    low, high = np.quantile(draws, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0)
    return (low < truth) & (truth < high), high - low


def measured(table, epsilons, truth, seed):
    """Return a list, for each epsilon, of the figures of a line; the last epsilon is infinite."""
    rng = np.random.default_rng(seed)
    X = table.X[rng.integers(len(table.X), size=min(len(table.X), N_MOST))]
    y = draw_responses(with_constant(X), truth, table.target_bounds, rng)
    theta = truth.theta
    z, told = with_constant(X[:N_PREDICTED]), truth.identified
    fits = [fitted(table, X, y, epsilon, seed) for epsilon in epsilons]
    _, least = intervals(predictors(z, fits[-1].draws), predictors(z, theta))
    found = []
    for fit in fits:
        held, _ = intervals(centred(fit.draws)[..., told], centred(theta)[..., told])
        predicted, widths = intervals(predictors(z, fit.draws), predictors(z, theta))
        silent = ~held & ~fit.named[told] & (not fit.has_warned)
        found.append(
            (
                held.mean(),
                silent.mean(),
                predicted.mean(),
                np.median(widths / least),
                fit.has_warned,
            )
        )
    return found


def identified(z):
    """Return which coefficients, but the intercept, the rows tell: their axes lie in the rows' span."""
    _, lengths, axes = np.linalg.svd(z, full_matrices=False)
    kept = axes[lengths > 1e-9 * lengths[0]]
    return np.append(np.sum(kept**2, axis=0)[:-1] > 1.0 - 1e-6, False)


def main():
    """Print a line for each table and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 3.0])
    parser.add_argument("--repetitions", type=int, default=8)
    parser.add_argument("--group", choices=["work", "held_out"], default="work")
    parser.add_argument("--tables", nargs="+", help="instead of those of the group")
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    heads = (
        "kind | table | rows | columns | epsilon | coefficients | silent misses | predictors | width | "
        "warned"
    )
    epsilons = [*arguments.epsilons, np.inf]
    results = ResultsTable(heads, arguments.results)
    names = arguments.tables or [n for n in declarations() if group_of(n) == arguments.group]
    for name in names:
        table = load(name)
        truth = truth_of(table)
        kind = "numbers" if table.n_classes is None else "classes"
        figures = [measured(table, epsilons, truth, seed) for seed in range(arguments.repetitions)]
        for epsilon, means in zip(epsilons, np.mean(figures, axis=0), strict=True):
            texts = (f"{value:.3f}" for value in means)
            results.add(kind, name, *table.X.shape, f"{epsilon:g}", *texts)


if __name__ == "__main__":
    main()
