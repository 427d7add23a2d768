"""Are the probabilities of private fits calibrated, and does a private calibration mend them?

    python -m benchmarks.classification.calibration [--seeds 5] [--results docs/results/calibration.csv]

"Is a calibration worth its budget?" of docs/tools.rst.

Two real tables, and two made-up ones on which logistic regression is wrong: the log-odds are a curve of a
column, or a ninth of the labels is flipped. A quarter of the rows is for the test. Compared are

    as it is       the whole budget for one fit of all other rows
    other rows     a fit of four fifths of them, and of the log-odds of the last fifth a logistic regression
                   (Platt's calibration); each costs the whole budget, and in_parallel both together no more
    same rows      the fit has nine tenths of the squared mu, the calibration one tenth
    bends          as "other rows", with a curve of nine knots instead of a line
    not private    as "other rows", but the calibration is isotonic regression without noise, which no budget
                   covers: what could be won at all

Printed are mean log loss and calibration error (20 bins of equal numbers of test rows, weighted mean of
|frequency - mean probability|), with standard errors over seeds. A difference counts in pairs of one seed.
"""

import argparse
import warnings

import numpy as np
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks.common import ResultsTable, load_visits, load_vote, mean_with_error
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.privacy.conversions import gaussian_epsilon, gaussian_mu

DELTA = 1e-5
EPSILONS = (0.1, 1.0)
# Log-odds beyond it are clipped before a calibration, a public number.
LARGEST = 6.0
TENTH = 0.1


def load_curve():
    """Return rows whose log-odds are no line: a kink and a saturation."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (40_000, 5))
    odds = 6.0 * np.maximum(X[:, 0], 0.0) ** 2 + 2.0 * np.tanh(4.0 * X[:, 1]) - 1.0
    return X, (rng.random(len(X)) < expit(odds)).astype(int), np.sqrt(5.0)


def load_flips():
    """Return rows whose labels are flipped now and then, so that large log-odds are never right."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (40_000, 5))
    y = rng.random(len(X)) < expit(X @ [6.0, -4.0, 2.0, 0.0, 0.0])
    return X, (y ^ (rng.random(len(X)) < 1 / 9)).astype(int), np.sqrt(5.0)


def error(y, shares, bins=20):
    """Return the calibration error of probabilities."""
    groups = np.array_split(np.argsort(shares, kind="stable"), bins)
    gaps = [len(group) * abs(y[group].mean() - shares[group].mean()) for group in groups]
    return sum(gaps) / len(y)


def model(epsilon, norm, seed, **options):
    """Return an estimator."""
    options = {"classes": [0, 1], "data_norm": norm, "random_state": seed} | options
    return DPBayesianLogisticRegression(epsilon, DELTA, **options)


def odds(fit, X):
    """Return log-odds as a column in [-1, 1]."""
    return (np.clip(fit.decision_function(X), -LARGEST, LARGEST) / LARGEST)[:, None]


def bends(fit, X):
    """Return log-odds as weights of nine knots, of which two neighbours add up to 1."""
    knots = np.linspace(-LARGEST, LARGEST, 9)
    at = LARGEST * odds(fit, X)
    return np.maximum(0.0, 1.0 - np.abs(at - knots) / (knots[1] - knots[0]))


def calibrated(fit, X, y, epsilon, seed, test, form=odds):
    """Return probabilities of test rows after a private calibration on (X, y)."""
    second = model(epsilon, 1.0, seed + 1000, prior_scale=LARGEST).fit(form(fit, X), y)
    return second.predict_proba(form(fit, test))[:, 1]


def shares_of(X, y, norm, epsilon, seed, test):
    """Return the probabilities of every way, for one seed."""
    whole = model(epsilon, norm, seed).fit(X, y)
    n = 4 * len(X) // 5  # Rows come shuffled, by a draw that does not look at them.
    part = model(epsilon, norm, seed).fit(X[:n], y[:n])
    mu = gaussian_mu(epsilon, DELTA)
    parts = [gaussian_epsilon(np.sqrt(share) * mu, DELTA) for share in (1 - TENTH, TENTH)]
    most = model(parts[0], norm, seed).fit(X, y)
    steps = IsotonicRegression(y_min=1e-3, y_max=1 - 1e-3, out_of_bounds="clip")
    steps.fit(part.predict_proba(X[n:])[:, 1], y[n:])
    return {
        "as it is": whole.predict_proba(test)[:, 1],
        "other rows": calibrated(part, X[n:], y[n:], epsilon, seed, test),
        "bends": calibrated(part, X[n:], y[n:], epsilon, seed, test, bends),
        "same rows": calibrated(most, X, y, parts[1], seed, test),
        "not private": steps.predict(part.predict_proba(test)[:, 1]),
    }


def main():
    """Print a row for each table, epsilon and way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=PrivacyWarning)
    tables = {
        "votes": load_vote(),
        "visits": load_visits(),
        "curve": load_curve(),
        "flips": load_flips(),
    }
    heads = "table | epsilon | way | log loss | change | error of change | calibration error"
    results = ResultsTable(heads, arguments.results)
    for name, (X, y, norm) in tables.items():
        for epsilon in EPSILONS:
            losses, errors = {}, {}
            for seed in range(arguments.seeds):
                Xa, Xb, ya, yb = train_test_split(X, y, test_size=0.25, random_state=seed)
                for way, shares in shares_of(Xa, ya, norm, epsilon, seed, Xb).items():
                    losses.setdefault(way, []).append(log_loss(yb, shares))
                    errors.setdefault(way, []).append(error(yb, shares))
            for way, loss in losses.items():
                change = mean_with_error(np.subtract(loss, losses["as it is"]))
                numbers = np.mean(loss), *change, np.mean(errors[way])
                results.add(name, f"{epsilon:g}", way, *(f"{number:.4f}" for number in numbers))


if __name__ == "__main__":
    main()
