"""Errors and intervals of private linear regression, against sums that are released once.

    python -m benchmarks.regression.linear [--repetitions 4] [--sizes 2000x5 20000x10]
    python -m benchmarks.regression.linear --bounds 1 10 100 1000 auto --sizes 20000x10

Pictures and tables of "Numbers as responses" of docs/benchmarks_numbers.rst; `benchmarks.refresh` has the
commands.

Columns are in [-1, 1]: uniform; decaying (normal with deviations ``j^-0.7`` in a random basis); binary,
with shares of ones from 0.1 to 0.9; skewed (exponential with a mean of 0.3, cut at 1); or in the unit
ball, uniform. Errors have deviation 0.3 and are normal, Student's with three degrees of freedom (design
"student", with uniform columns), vary with the first column by up to eleven times ("varying"), or are
exponential less their mean ("exponential").
Responses are bounded by 4, by 8 from 20 columns on and by 16 from 100 on, and by twice that where columns
are binary; coefficients have deviation 0.5 (times ``sqrt(d)`` in the ball), which no method knows. All
are private under replace_one at delta 1e-5:

- clipped_residuals: `ClippedResiduals`, draws and all;
- one shot: a noisy second moment of ``(z, y R / B)``, hence ``A = sum z z^T`` and ``b = sum z y``, and the
  normal posterior of coefficients given ``b ~ N(A theta, s^2 A + noise)``, with the true deviation of errors;
- AdaSSP: Algorithm 2 of Y.-X. Wang, "Revisiting differentially private linear regression", UAI 2018, with
  Gaussian noise that is accounted for exactly.

Printed are medians over tables of the error of predictions over that of least squares without privacy,
the share of 90% intervals that cover, of all coefficients and of the intercept, the median width over that
of least squares (with a sandwich), and CPU seconds.

With ``--bounds``, the default of `DPBayesianRidge` is fitted with ``target_bounds`` that are so many times as
wide as those above, or "auto", and AdaSSP is given the same bounds.
"""

import argparse
import math
import time

import numpy as np

from benchmarks.common import (
    QUANTILE,
    ResultsTable,
    allow_seeds,
    sandwich_deviations,
    symmetric_noise,
)
from skdpbayes import DPBayesianRidge
from skdpbayes.models import LinearModel, Normal
from skdpbayes.privacy import Budget
from skdpbayes.samplers import ClippedResiduals, sample

DELTA, DEVIATION, COEFFICIENTS = 1e-5, 0.3, 0.5


def make_table(design, n, d, rng):
    """Return (rows, responses, true coefficients with the intercept last, bound of responses)."""
    rows = rng.uniform(-1.0, 1.0, size=(n, d))
    if design == "decaying":
        basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
        rows = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.7 @ basis / 1.5
        rows = np.clip(rows, -1.0, 1.0)
    elif design == "binary":
        rows = (rng.random((n, d)) < np.linspace(0.1, 0.9, d)).astype(float)
    elif design == "skewed":
        rows = np.minimum(rng.exponential(0.3, size=(n, d)), 1.0)
    truth = COEFFICIENTS * rng.normal(size=d + 1)
    if design == "ball":
        rows = rng.normal(size=(n, d))
        rows *= rng.random((n, 1)) ** (1.0 / d) / np.linalg.norm(rows, axis=1, keepdims=True)
        truth[:-1] *= math.sqrt(d)
    errors = rng.standard_t(3, size=n) / math.sqrt(3) if design == "student" else rng.normal(size=n)
    if design == "exponential":
        errors = rng.exponential(size=n) - 1.0
    if design == "varying":
        errors *= np.exp(1.2 * rows[:, 0]) / 1.5
    responses = rows @ truth[:-1] + truth[-1] + DEVIATION * errors
    bound = 4.0 if d < 20 else 8.0 if d < 100 else 16.0
    bound *= 2.0 if design == "binary" else 1.0  # Means are far from 0.
    return np.ascontiguousarray(rows), np.clip(responses, -bound, bound), truth, bound


def clipped_residuals(z, responses, bound, epsilon, seed, norm):
    """Return mean and interval of the posterior from clipped residuals."""
    n, d = len(z), z.shape[1] - 1
    model = LinearModel(family=Normal(-bound, bound), n_features=d, norm=norm, constant=1.0)
    plan = ClippedResiduals().plan(model.bounds(), n, Budget(epsilon, DELTA))
    target = model.target(np.ascontiguousarray(z[:, :-1]), responses)
    draws = sample(target, plan, random_state=seed)
    return draws.mean(axis=0), *np.quantile(draws, [0.05, 0.95], axis=0)


def one_shot(z, responses, bound, epsilon, seed, norm):
    """Return mean and interval of the normal posterior given a noisy second moment of rows and responses."""
    rng, size = np.random.default_rng(seed), z.shape[1]
    mu, square = Budget(epsilon, DELTA).mu, norm**2 + 1.0
    of_moment = 2.0 * math.sqrt(2.0) * square / mu
    of_sums = 2.0 * math.sqrt(square) * bound / mu
    values, vectors = np.linalg.eigh(z.T @ z + symmetric_noise((size, size), of_moment, rng))
    moment = (vectors * np.maximum(values, of_moment / 10.0)) @ vectors.T
    sums = z.T @ responses + of_sums * rng.normal(size=size)
    mean, prior = np.zeros(size), np.eye(size) * (math.sqrt(size) / bound) ** 2
    for _ in range(5):  # What is not known of the moment grows with the coefficients.
        unknown = of_moment**2 / 2.0 * (mean @ mean * np.eye(size) + np.outer(mean, mean))
        variance = DEVIATION**2 * moment + of_sums**2 * np.eye(size) + unknown
        weighted = np.linalg.solve(variance, moment).T
        covariance = np.linalg.inv(weighted @ moment + prior)
        mean = covariance @ weighted @ sums
    half = QUANTILE * np.sqrt(np.diag(covariance))
    return mean, mean - half, mean + half


def ada_ssp(z, responses, bound, epsilon, seed, norm):
    """Return the ridge estimate with a penalty that follows the least eigenvalue; it has no intervals."""
    rng, size, failure = np.random.default_rng(seed), z.shape[1], 0.05
    mu, square = Budget(epsilon, DELTA).mu / math.sqrt(3.0), norm**2 + 1.0
    moment = z.T @ z
    least = np.linalg.eigvalsh(moment)[0] + square / mu * rng.normal()
    least = max(least - square / mu * math.sqrt(2.0 * math.log(1.0 / failure)), 0.0)
    wanted = math.sqrt(size * math.log(2.0 * size**2 / failure)) * square / mu
    noisy = moment + symmetric_noise((size, size), math.sqrt(2.0) * square / mu, rng)
    sums = z.T @ responses + 2.0 * math.sqrt(square) * bound / mu * rng.normal(size=size)
    mean = np.linalg.solve(noisy + max(0.0, wanted - least) * np.eye(size), sums)
    return mean, np.full(size, np.nan), np.full(size, np.nan)


METHODS = {"clipped_residuals": clipped_residuals, "one shot": one_shot, "AdaSSP": ada_ssp}


def ridge(z, responses, bound, epsilon, seed, norm):
    """Return mean and interval of the default estimator, which learns its bounds if ``bound`` is None."""
    bounds = "auto" if bound is None else (-bound, bound)
    model = DPBayesianRidge(bounds, epsilon=epsilon, delta=DELTA, data_norm=norm, random_state=seed)
    model.fit(np.ascontiguousarray(z[:, :-1]), responses)
    return np.append(model.coef_, model.intercept_), *model.posterior_interval(0.9)[0].T


OF_BOUNDS = {"DPBayesianRidge": ridge, "AdaSSP": ada_ssp}


def measured(method, design, n, d, epsilon, repetitions, factor=1.0):
    """Return (error ratio, coverage, that of the intercept, width ratio, CPU seconds).

    Bounds are multiplied, or None for "auto".
    """
    found = []
    for seed in range(repetitions):
        rows, responses, truth, bound = make_table(design, n, d, np.random.default_rng(seed))
        z = np.column_stack([rows, np.ones(n)])
        least = np.linalg.lstsq(z, responses, rcond=None)[0]
        curvature = z.T @ z / n
        start = time.process_time()
        given = None if factor is None else factor * bound
        norm = 1.0 if design == "ball" else math.sqrt(d)
        mean, low, high = method(z, responses, given, epsilon, seed, norm)
        seconds = time.process_time() - start
        error, without = (
            math.sqrt((one - truth) @ curvature @ (one - truth)) for one in (mean, least)
        )
        usual = 2 * QUANTILE * sandwich_deviations(z, responses - z @ least)
        covers = np.where(np.isfinite(low), (low < truth) & (truth < high), np.nan)
        width = np.median((high - low) / usual)
        found.append((error / without, covers.mean(), covers[-1], width, seconds))
    ratio, _, _, width, seconds = np.median(found, axis=0)
    return ratio, *np.mean(found, axis=0)[1:3], width, seconds


def add_bounds(results, cell, epsilons, factors, repetitions):
    """Add lines of errors and coverages by how much too wide the bounds of responses are."""
    for epsilon in epsilons:
        for factor in factors:
            for name, method in OF_BOUNDS.items():
                if factor == "auto" and name == "AdaSSP":
                    continue  # It has no way to learn them.
                times = None if factor == "auto" else float(factor)
                try:
                    found = measured(method, *cell, epsilon, repetitions, times)
                except ValueError:  # Too few rows to learn bounds.
                    found = [np.nan] * 5
                numbers = (f"{value:.3g}" for value in found)
                results.add(*cell, f"{epsilon:g}", factor, name, *numbers)


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--designs", nargs="+", default=["uniform", "decaying"])
    parser.add_argument("--sizes", nargs="+", default=["2000x5"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--bounds", nargs="+", help="how many times too wide, or auto")
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    allow_seeds()
    cells = [
        (design, *map(int, size.split("x")))
        for design in arguments.designs
        for size in arguments.sizes
    ]
    between = "bounds | method" if arguments.bounds else "method"
    results = ResultsTable(
        f"design | rows | columns | epsilon | {between} | error | coverage | intercept | width | seconds",
        arguments.results,
    )
    for cell in cells:
        if arguments.bounds:
            options = arguments.epsilons, arguments.bounds, arguments.repetitions
            add_bounds(results, cell, *options)
            continue
        for epsilon in arguments.epsilons:
            for method in arguments.methods:
                found = measured(METHODS[method], *cell, epsilon, arguments.repetitions)
                numbers = (f"{value:.3g}" for value in found)
                results.add(*cell, f"{epsilon:g}", method, *numbers)


if __name__ == "__main__":
    main()
