"""Intervals of rate ratios where counts have other laws than Poisson's.

    python -m benchmarks.intervals.laws_of_counts [--repetitions 24] [--laws "clusters of three" ...]

"Counts" of docs/benchmarks_intervals.rst, by ``--results docs/results/laws_of_counts.csv``.

The default was made on three normal columns beside indicators of a factor (``--designs made_on``, with
Poisson's law, rates with a gamma or a lognormal law, more zeros, counts of three trials and survival).
Designs here (``held_out``) have a uniform column, a skewed one, one that varies little within its bounds, two
indicators, and other laws: rates with an inverse Gaussian law; zeros of a share of rows beside rates that
differ; counts that come in clusters; a fiftieth of rows with ten times the rate; survival with the same end
for all; counts of six trials.

Printed are, of 90% intervals of all coefficients but the intercept, the share that holds the true one (of
counts of trials, what quasi-Poisson regression finds), that of the worst column, the median width over that
of quasi-Poisson regression's sandwich, the sum of predictions over that of counts, the number of fits that
warn, that of fits whose tables of intervals have a note on the law of counts, and that of fits with a note
that noise hides rows with large rates. All are private under replace_one.
"""

import argparse
import warnings

import numpy as np

from benchmarks.common import QUANTILE, ResultsTable, allow_seeds, sandwich_deviations
from benchmarks.regression.counts import maximum_likelihood
from skdpbayes import DPBayesianPoissonRegressor

# Counts of these are out of a few.
OF_TRIALS = ("out of three", "out of six")
# Rates of these are at most 2.
RARE = (*OF_TRIALS, "survival", "survival, same end for all")


def of_three_normals(n, rng):
    """Three normal columns and the indicators of a factor; effects."""
    levels = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])[:, None] == range(1, 4)
    rows = np.column_stack([np.clip(rng.normal(size=(n, 3)), -3, 3) / 3, levels])
    sizes = np.r_[rng.uniform(0.3, 1.2, 3), rng.uniform(0.1, 0.6, 3)]
    return rows, rng.choice([-1, 1], 6) * sizes


def of_mixed_columns(n, rng):
    """Uniform, skewed and narrow columns, and two indicators; effects."""
    rows = np.column_stack(
        [
            rng.uniform(-1, 1, n),
            np.minimum(rng.exponential(0.3, n), 1.0),
            rng.beta(2, 5, n),
            rng.random(n) < 0.15,
            rng.random(n) < 0.5,
        ]
    )
    return rows, rng.choice([-1, 1], 5) * rng.uniform(0.2, 0.9, 5)


def poisson(means, rng):
    """Poisson's law."""
    return rng.poisson(means), None


def gamma(means, rng):
    """Negative binomial: rates differ by a gamma law."""
    return rng.poisson(means * rng.gamma(2.0, 0.5, means.size)), None


def lognormal(means, rng):
    """Rates with a lognormal law."""
    return rng.poisson(means * np.exp(rng.normal(size=means.size) - 0.5)), None


def more_zeros(means, rng):
    """Three rows of ten can have none."""
    return rng.poisson(means / 0.7) * (rng.random(means.size) < 0.7), None


def trials(number):
    """Counts out of some trials."""
    return lambda means, rng: (rng.binomial(number, np.minimum(means / number, 1.0)), None)


def survival(means, rng):
    """Events of persons who are lost from sight, and how long they were seen."""
    times, ends = rng.exponential(1.0 / means), rng.uniform(0.0, 2.0 / means.mean(), means.size)
    return times <= ends, np.minimum(times, ends)


def same_end(means, rng):
    """Events of persons who are seen for as long, unless one ends it."""
    times, end = rng.exponential(1.0 / means), 1.2 / means.mean()
    return times <= end, np.minimum(times, end)


def inverse_gaussian(means, rng):
    """Rates with an inverse Gaussian law."""
    return rng.poisson(means * rng.wald(1.0, 1.2, means.size)), None


def hurdle(means, rng):
    """Four rows of ten can have none, and rates of others differ."""
    rates = means / 0.6 * rng.gamma(3.0, 1.0 / 3.0, means.size)
    return rng.poisson(rates) * (rng.random(means.size) < 0.6), None


def clusters(means, rng):
    """Events come by some at once: three on average, and a geometric number."""
    numbers = rng.poisson(means / 3.0)
    ends = np.cumsum(numbers)
    total = np.append(0, np.cumsum(rng.geometric(1.0 / 3.0, ends[-1])))
    return total[ends] - total[ends - numbers], None


def contaminated(means, rng):
    """A fiftieth of rows has ten times the rate."""
    return rng.poisson(means * np.where(rng.random(means.size) < 0.02, 10, 1) / 1.18), None


# Numbers of rows with rates and epsilons, columns, and laws.
DESIGNS = {
    "made_on": (
        ((5_000, 2.0, 2.0), (50_000, 2.0, 2.0), (50_000, 30.0, 2.0)),
        of_three_normals,
        {
            "Poisson": poisson,
            "rates differ, gamma": gamma,
            "rates differ, lognormal": lognormal,
            "30% zeros": more_zeros,
            "out of three": trials(3),
            "survival": survival,
        },
    ),
    "held_out": (
        ((3_000, 3.0, 1.0), (10_000, 0.7, 1.0), (40_000, 3.0, 0.5), (40_000, 20.0, 3.0)),
        of_mixed_columns,
        {
            "rates differ, inverse Gaussian": inverse_gaussian,
            "40% zeros, rates differ": hurdle,
            "clusters of three": clusters,
            "a fiftieth, ten times as often": contaminated,
            "survival, same end for all": same_end,
            "out of six": trials(6),
        },
    ),
}


def quasi_poisson(rows, counts, exposure):
    """Coefficients without privacy, and deviations of the sandwich."""
    offsets = np.zeros(len(rows)) if exposure is None else np.log(exposure)
    z = np.column_stack([rows, np.ones(len(rows))])
    theta = maximum_likelihood(z, counts, offsets)
    means = np.exp(z @ theta + offsets)
    return theta, sandwich_deviations(z, counts - means, means)


def measured(design, law, n, rate, epsilon, seed):
    """What is printed, of one table."""
    _, columns, laws = DESIGNS[design]
    rng = np.random.default_rng(seed)
    rows, effects = columns(n, rng)
    means = np.exp(rows @ effects)
    counts, exposure = laws[law](rate * means / means.mean(), rng)
    model = DPBayesianPoissonRegressor(epsilon=epsilon, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", message="A seeded random_state")
        model.fit(rows, counts, exposure=exposure)
    theta, deviations = quasi_poisson(rows, counts, exposure)
    d = len(effects)
    aim = theta[:d] if law in OF_TRIALS else effects
    low, high = model.posterior_interval(0.9)[0, :d].T
    return (
        (low <= aim) & (aim <= high),
        np.median((high - low) / (2.0 * QUANTILE * deviations[:d])),
        model.predict(rows, exposure=exposure).mean() / counts.mean(),
        bool(caught),
        any("any law" in note or "of the laws" in note for note in model.interval_notes()),
        any("the rate of others" in note for note in model.interval_notes()),
    )


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=24)
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=["held_out"])
    parser.add_argument("--laws", nargs="+", help="all if left out")
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    allow_seeds()
    heads = "law | rows | rate | epsilon | held | worst column | width | sum | warn | note | hidden"
    results = ResultsTable(heads, arguments.results)
    for design in arguments.designs:
        cells, _, laws = DESIGNS[design]
        for law in laws:
            if arguments.laws and law not in arguments.laws:
                continue
            for n, rate, epsilon in cells:
                rate = min(rate, 2.0) if law in RARE else rate
                seeds = range(70_000, 70_000 + arguments.repetitions)
                held, *others = zip(
                    *(measured(design, law, n, rate, epsilon, seed) for seed in seeds), strict=True
                )
                columns = np.mean(held, axis=0)
                width, total = np.median(others[0]), np.median(others[1])
                figures = (f"{value:.2f}" for value in (columns.mean(), columns.min(), width))
                said = (sum(each) for each in others[2:])
                results.add(law, n, f"{rate:g}", f"{epsilon:g}", *figures, f"{total:.3f}", *said)


if __name__ == "__main__":
    main()
