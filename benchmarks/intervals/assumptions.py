"""How often 90% intervals cover where an assumption is wrong, and how many fits warn of it.

    python -m benchmarks.intervals.assumptions [--repetitions 12] [--epsilons 0.3 1 10] [--cases "rows cut"]
    python -m benchmarks.intervals.assumptions --grid --sizes 5000x10 20000x40 --epsilons 0.1 0.3 1 3 10

"Logistic regression" of docs/benchmarks_intervals.rst, and docs/guide/when_to_trust_an_interval.rst, by
``docs/results/assumptions.csv`` and, by the second command, ``docs/results/learnt_scales.csv``.

Tables have 5,000 rows of columns that are uniform in [-1, 1], ten unless a case says otherwise. Fits have
the default prior, whose scales are learnt, or those that are named. With ``--grid`` coefficients are some
times as large as the default prior usually takes them to be, and fits have this prior or the right one.
Printed are the share of coefficients whose interval covers them, its standard error, the least of a fit, the
share of those that are not zero, that of intercepts, the median width, how many fits warned, and the share
that is covered in those that did not. The error is that of a mean over tables, since coefficients of a table
may share theirs: where nearly all labels are certain, all are off by the same factor.
"""

import argparse
import warnings

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import sem

from benchmarks.common import FIT_WARNINGS, ResultsTable
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.models import Logistic

N_ROWS = 5_000


def scaled(deviation, d=10, n_classes=2):
    """Return a maker of coefficients that are normal."""
    return lambda rng: (deviation * rng.normal(size=(max(1, n_classes * (n_classes > 2)), d)), 0.0)


def sparse(d=15, n_large=3):
    """Return a maker of coefficients of which a few are 3 or -3, and others 0."""

    def make(rng):
        theta = np.zeros((1, d))
        theta[0, rng.choice(d, n_large, replace=False)] = 3.0 * rng.choice([-1.0, 1.0], n_large)
        return theta, 0.0

    return make


def of_rate(rate, d=10):
    """Return a maker of coefficients of deviation 0.8, and the intercept of a share of positive labels."""

    def make(rng):
        theta = 0.8 * rng.normal(size=(1, d))
        logits = rng.uniform(-1.0, 1.0, size=(20_000, d)) @ theta[0]
        return theta, brentq(lambda b: expit(logits + b).mean() - rate, -15.0, 15.0)

    return make


# Coefficients, what a fit is told besides, and data_norm relative to the largest norm.
CASES = {
    "deviation 1": (scaled(1.0), [{}, {"prior_scale": 1.0}], 1.0),
    "deviation 1.7": (scaled(1.7), [{}, {"prior_scale": 1.0}], 1.0),
    "deviation 3": (scaled(3.0), [{}, {"prior_scale": 1.0}], 1.0),
    "eight of deviation 3": (scaled(3.0, d=8), [{}, {"prior_scale": 10.0}], 1.0),
    "3 of 15 not 0": (sparse(), [{}, {"prior_scale": 1.0}], 1.0),
    "rows cut to half": (scaled(0.8), [{}, {"prior_scale": 0.8}], 0.5 / np.sqrt(3.0)),
    "rows cut to 0.85": (scaled(0.8), [{}], 0.85 / np.sqrt(3.0)),
    "three classes": (scaled(7.5 / np.sqrt(10.0), n_classes=3), [{}], 1.0),
    **{
        f"{rate:.1%} positive": (of_rate(rate), [{}, {"intercept_prior_scale": 1.25}], 1.0)
        for rate in (0.006, 0.05, 0.5)
    },
}


def grid(d):
    """Return cases with coefficients around the default prior's usual scale, sparse ones, and base rates."""
    usual = Logistic.logit_scale / np.sqrt(d)
    cases = {
        f"usual x {times:g}": (
            scaled(times * usual, d),
            [{}, {"prior_scale": times * usual}],
            1.0,
        )
        for times in (0.3, 1.0, 3.0, 10.0)
    }
    cases["sparse"] = sparse(d, d // 5), [{}], 1.0
    return cases | {
        f"{rate:.1%} positive": (of_rate(rate, d), [{}], 1.0) for rate in (0.005, 0.05, 0.5)
    }


def fitted(rng, make, options, share, epsilon, seed, n_rows=N_ROWS):
    """Return (what covers, what is not zero, whether the intercept is covered, width, whether it warned)."""
    theta, intercept = make(rng)
    rows = rng.uniform(-1.0, 1.0, size=(n_rows, theta.shape[1]))
    if len(theta) == 1:
        labels = (rng.random(n_rows) < expit(rows @ theta[0] + intercept)).astype(int)
    else:
        labels = (rows @ theta.T + rng.gumbel(size=(N_ROWS, len(theta)))).argmax(axis=1)
    clf = DPBayesianLogisticRegression(
        epsilon,
        1e-5,
        data_norm=share * np.sqrt(theta.shape[1]),
        fit_intercept=bool(intercept),
        classes=range(max(2, len(theta))),
        random_state=seed,
        **options,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draws = clf.fit(rows, labels).posterior_samples_
    warned = any(one.category in FIT_WARNINGS for one in caught)
    truth = theta
    if intercept:
        truth = np.append(theta, [[intercept]], axis=1)
    if len(theta) > 1:
        draws, truth = draws[:, 1:] - draws[:, :1], theta[1:] - theta[:1]
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    covers = (low < truth) & (truth < high)
    of_intercept = covers[0, -1] if intercept else np.nan
    length = theta.shape[1]
    covers, width = covers[:, :length], np.median((high - low)[:, :length])
    return covers.mean(), covers[truth[:, :length] != 0].mean(), of_intercept, width, warned


def main():
    """Print a row for every case, prior and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=12)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--cases", nargs="+", help="names or beginnings of names, by default all")
    parser.add_argument("--grid", action="store_true", help="coefficients of all sizes")
    parser.add_argument("--results", help="a CSV file")
    parser.add_argument("--sizes", nargs="+", default=["5000x10"], help="of tables of the grid")
    arguments = parser.parse_args()
    heads = "case | rows | told | epsilon | 90% | +- | least | not zero | intercept | width | warned | others"
    results = ResultsTable(heads, arguments.results)
    if arguments.grid:
        sizes = [tuple(map(int, size.split("x"))) for size in arguments.sizes]
        tables = [(n, f"{n:,} x {d}", grid(d)) for n, d in sizes]
    else:
        tables = [(N_ROWS, f"{N_ROWS:,}", CASES)]
    for n_rows, size, cases in tables:
        for name, (make, all_options, share) in cases.items():
            if arguments.cases and not name.startswith(tuple(arguments.cases)):
                continue
            for epsilon in arguments.epsilons:
                for options in all_options:
                    fits = [
                        fitted(
                            np.random.default_rng(seed), make, options, share, epsilon, seed, n_rows
                        )
                        for seed in range(arguments.repetitions)
                    ]
                    told = (
                        ", ".join(f"{key}={value:.3g}" for key, value in options.items())
                        or "learnt"
                    )
                    where = name, size, told, f"{epsilon:g}"
                    results.add(*where, *in_common(np.array(fits, dtype=float)))


def in_common(fits):
    """Return as text what fits of a case have in common."""
    covered, large, intercept, width, warned = fits.T
    others = covered[warned == 0].mean() if (warned == 0).any() else np.nan
    numbers = covered.mean(), sem(covered), covered.min(), large.mean(), intercept.mean()
    shown = [f"{number:.2f}" for number in (*numbers, np.median(width))]
    return *shown, int(warned.sum()), f"{others:.2f}"


if __name__ == "__main__":
    main()
