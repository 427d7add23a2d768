"""How often 90% intervals cover where an assumption is wrong, and how many fits warn of it.

    python benchmarks/assumptions.py [--repetitions 12] [--epsilons 0.3 1 10] [--cases sparse cut]

Tables have 5,000 rows of columns that are uniform in [-1, 1], ten unless a case says otherwise. Fits have the
default prior, whose scales are learnt, or those that are named. Printed are the share of coefficients whose
interval covers them, the least of a fit, the share of those that are not zero, that of intercepts, the median
width, how many fits warned, and the share that is covered in those that did not.
"""

import argparse
import warnings

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from skdpbayes import DPBayesianLogisticRegression

N_ROWS = 5_000


def scaled(deviation, d=10, n_classes=2):
    """Return a maker of coefficients that are normal."""
    return lambda rng: (deviation * rng.normal(size=(max(1, n_classes * (n_classes > 2)), d)), 0.0)


def sparse(rng):
    """Three of 15 coefficients are 3 or -3."""
    theta = np.zeros((1, 15))
    theta[0, rng.choice(15, 3, replace=False)] = 3.0 * rng.choice([-1.0, 1.0], 3)
    return theta, 0.0


def of_rate(rate):
    """Return a maker of coefficients of deviation 0.8, and the intercept of a share of positive labels."""

    def make(rng):
        theta = 0.8 * rng.normal(size=(1, 10))
        logits = rng.uniform(-1.0, 1.0, size=(20_000, 10)) @ theta[0]
        return theta, brentq(lambda b: expit(logits + b).mean() - rate, -15.0, 15.0)

    return make


# Coefficients, what a fit is told besides, and data_norm relative to the largest norm.
CASES = {
    "right": (scaled(1.0), [{}, {"prior_scale": 1.0}], 1.0),
    "narrow": (scaled(1.7), [{}, {"prior_scale": 1.0}], 1.0),
    "narrower": (scaled(3.0), [{}, {"prior_scale": 1.0}], 1.0),
    "wide": (scaled(3.0, d=8), [{}, {"prior_scale": 10.0}], 1.0),
    "sparse": (sparse, [{}, {"prior_scale": 1.0}], 1.0),
    "cut": (scaled(0.8), [{}, {"prior_scale": 0.8}], 0.5 / np.sqrt(3.0)),
    "cut a little": (scaled(0.8), [{}], 0.85 / np.sqrt(3.0)),
    "three classes": (scaled(7.5 / np.sqrt(10.0), n_classes=3), [{}], 1.0),
    **{
        f"rate {rate:g}": (of_rate(rate), [{}, {"intercept_prior_scale": 1.25}], 1.0)
        for rate in (0.006, 0.05, 0.5)
    },
}


def fitted(rng, make, options, share, epsilon, seed):
    """Return (what covers, what is not zero, whether the intercept is covered, width, whether it warned)."""
    theta, intercept = make(rng)
    rows = rng.uniform(-1.0, 1.0, size=(N_ROWS, theta.shape[1]))
    if len(theta) == 1:
        labels = (rng.random(N_ROWS) < expit(rows @ theta[0] + intercept)).astype(int)
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
    warned = any(one.category is ConvergenceWarning for one in caught)
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
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    arguments = parser.parse_args()
    print(
        "| case | told | epsilon | 90% | least | not zero | intercept | width | warned | others |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in arguments.cases:
        make, all_options, share = CASES[name]
        for epsilon in arguments.epsilons:
            for options in all_options:
                fits = [
                    fitted(np.random.default_rng(seed), make, options, share, epsilon, seed)
                    for seed in range(arguments.repetitions)
                ]
                covered, large, intercept, width, warned = np.array(fits, dtype=float).T
                others = covered[warned == 0].mean() if (warned == 0).any() else np.nan
                told = ", ".join(f"{key}={value:g}" for key, value in options.items())
                numbers = [
                    covered.mean(),
                    covered.min(),
                    large.mean(),
                    intercept.mean(),
                    np.median(width),
                ]
                shown = " | ".join(f"{number:.2f}" for number in numbers)
                counts = f"{int(warned.sum())} of {len(fits)} | {others:.2f}"
                print(f"| {name} | {told} | {epsilon:g} | {shown} | {counts} |", flush=True)


if __name__ == "__main__":
    main()
