"""Bugs that are planted one at a time in the library, and the pair of tables that each is looked for with.

A bug is a name, its kind, what has to be patched, and a fit with a record. `replayed` and `attacked` look
for it.
"""

import copy
import itertools
import tempfile
import warnings
import weakref
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import NamedTuple
from unittest import mock

import numpy as np
from fits_to_replay import (
    BATCHES,
    CATEGORIES,
    CHAIN,
    COUNTS,
    LABELS,
    LONG,
    LONG_CHAIN,
    MATRIX,
    MEDIANS,
    ONE_ALONE,
    PERSONS_MATRIX,
    PERSONS_RIDGE,
    QUANTILES,
    RIDGE,
    SCORING,
    WEIGHTS,
    Fit,
)
from sklearn.base import clone
from small_tables import ACROSS, FAR, RECORDS, N, X, Y, logistic

import skdpbayes._data.read as read
import skdpbayes._data.table as table
import skdpbayes._mechanisms.exponential as quantiles
import skdpbayes._mechanisms.histogram as frequent
import skdpbayes._mechanisms.laplace as laplace
import skdpbayes.metrics._base as scores
import skdpbayes.metrics._tables as tables
import skdpbayes.models.linear as linear
import skdpbayes.preprocessing.one_hot as one_hot
import skdpbayes.preprocessing.quantile_scaler as quantile_scaler
import skdpbayes.privacy.units as units
import skdpbayes.random as keys
import skdpbayes.samplers.base as sampler_base
import skdpbayes.samplers.langevin.chains as chains
import skdpbayes.samplers.langevin.cost as costs
import skdpbayes.samplers.langevin.fisher as fisher
import skdpbayes.samplers.noise as gaussian
import skdpbayes.samplers.statistics.release as loop
import skdpbayes.samplers.statistics.requests as sums
from skdpbayes.audit import audit_fit, replay
from skdpbayes.metrics import dp_confusion_matrix
from skdpbayes.models.rows import row_norms
from skdpbayes.preprocessing import DPQuantileScaler
from skdpbayes.privacy.budget import Budget
from skdpbayes.samplers import SGLD


class Bug(NamedTuple):
    """A bug: its kind, a fit, and patches as (module, name, value)."""

    kind: str
    fit: Fit
    patches: tuple = ()


# What is broken. Each takes what it breaks, or is put in its place.


def times(factor, value):
    """A function that returns a multiple of what another one does."""
    return lambda *args, **options: factor * value(*args, **options)


def on_argument(number, change, value):
    """A function that changes one argument of another one."""

    def changed(*args, **options):
        args = list(args)
        args[number] = change(args[number])
        return value(*args, **options)

    return changed


def keeping(make):
    """A patch after which a fit of a regression holds ``make(responses, generator)``."""

    def leaking(plan, target, likelihood_of, generator, verbose):
        result = run_sums(plan, target, likelihood_of, generator, verbose)
        extra = make(np.array(target.responses), generator)
        return result._replace(other={**result.other, "extra": extra})

    return ((loop, "run", leaking),)


def sum_with_own_noise(responses, generator):
    return responses.sum() + 50.0 * generator.standard_normal()


def written(responses, generator):
    with tempfile.TemporaryFile() as file:
        np.save(file, responses)
    return 0.0


def cached(responses, generator):
    sums.CACHE.append(responses)
    return 0.0


class Rows:
    def __init__(self, responses):
        self.responses = responses

    def get(self):
        return self.responses


def weak(responses, generator):
    rows = Rows(responses)
    return weakref.ref(rows), rows.get


# What is there before anything is planted.
draw_quantiles, draw_frequent = quantiles.draw_quantiles, frequent.stability_histogram
choose, lattice, noise = quantiles.choose_weighted, frequent.on_lattice, laplace.discrete_laplace
scale, key, shift = tables._table_scale, keys._generator, sums.sensitivity_after_rounding
vector, moment, laplace_noise = sums.release_vector, sums.release_moment, tables.with_noise
overdamped, trace, blocks = chains.OverdampedSteps, chains.trace_chain, chains.run_in_blocks
advance_chain, cost_of_steps = chains._advance_overdamped, costs.AllIterates._path_cost
clip, moment_noise, bounds_of = linear.clip_rows, fisher.moment_noise, linear.linear_bounds
weights_of, logarithms, binned = table.effective_weights, table.logarithms, sums.binned
run_sums, fit_scaler = loop.run, DPQuantileScaler.fit
released_histograms = sums.Records._release_histograms
cost_for_persons, draws_cost = units.cost_for_persons, quantile_scaler.draws_cost


def mode(weights, generator):
    return int(np.argmax([float(one) for one in weights])), 0


def sharper(weights, generator):
    run, _ = choose([one * one for one in weights], generator)
    return run, 0


def same_noise(table, values_of, levels, log_odds_range, generator, *others):
    how = log_odds_range, copy.deepcopy(generator)
    return draw_quantiles(table, values_of, levels, *how, *others)


def exact(table, values_of, levels, *others):
    found = quantiles.rank_values(table, values_of, [(level, 0.0, 0.0) for level in levels])
    places = [
        np.searchsorted(one.n_below + np.cumsum(one.counts), level * one.total)
        for one, level in zip(found, levels, strict=True)
    ]
    return [
        quantiles.DrawnQuantile(float(one.values[place]), 0.0)
        for one, place in zip(found, places, strict=True)
    ]


def fixed_key(seed):
    return key(12345 if seed is None else seed)


def quiet_off_diagonal(values, drawn, spacing):
    """Noise of which a matrix has half off its diagonal."""
    if values.ndim == 2:
        drawn = drawn * (0.5 + 0.5 * np.eye(len(values)))
    return lattice(values, drawn, spacing)


def one_number_for_all(values, drawn, spacing):
    return lattice(values, np.full_like(drawn, drawn.flat[0]), spacing)


class Even:
    """A generator whose normal numbers are spread evenly, with the deviation 1."""

    def __init__(self, generator):
        self.generator, self.bit_generator = generator, generator.bit_generator

    def standard_normal(self, size):
        return np.sqrt(3.0) * (2.0 * self.generator.random(size) - 1.0)


def quiet_intercept(values, drawn, spacing):
    """Noise of which the last number of a vector has none."""
    if values.ndim == 1 and values.size > 1:
        drawn = np.append(drawn[:-1], 0.0)
    return lattice(values, drawn, spacing)


def told_in_full(plan, what, generator, memory, deviation, *others):
    return trace(plan, what, generator, memory, lambda k: 2.0 * deviation(k), *others)


def half_in_chain(temperature, **others):
    return overdamped(temperature=temperature / 4.0, **others)


def larger_batches(rate, **others):
    return overdamped(rate=2.0 * rate, **others)


def warmed_up(advance, plan, *others):
    advance(0, plan.n_steps, 0)
    blocks(advance, plan, *others)


def batch_safe_step(number):
    """A core whose step of a number has hardly any noise."""

    def advance(oracle, generator, theta, steps, first, stop, *others):
        quiet = steps._replace(temperature=steps.temperature * 1e-6)
        for k in range(first, stop):
            how = quiet if k == number else steps
            advance_chain(oracle, generator, theta, how, k, k + 1, *others)

    return advance


def half_of_steps(self, chain, temperature, step, steps):
    return cost_of_steps(self, chain, temperature, step, steps / 2)


def half_of_batches(self, chain, temperature, step, steps):
    cost = cost_of_steps(self, chain, temperature, step, steps)
    sampled = [replace(part, count=max(1, part.count // 2)) for part in cost.sampled]
    return replace(cost, sampled=tuple(sampled))


def unweighted_bounds(family, norm, precision, constant=0.0, max_weight=None, *others, **options):
    found = bounds_of(family, norm, precision, constant, None, *others, **options)
    return found._replace(max_weight=max_weight)


def scaled_noise(matrix, deviation, *others, **options):
    return moment(matrix, deviation * np.trace(matrix) / 60.0, *others, **options)


def twice(values, *others, **options):
    vector(values, *others, **options)
    return vector(values, *others, **options)


def twice_if_odd(cells, *others, **options):
    if cells.flat[-1] % 2:
        laplace_noise(cells, *others, **options)
    return laplace_noise(cells, *others, **options)


def found_labels(y_true, y_pred, random_state=None):
    return dp_confusion_matrix(
        y_true, y_pred, labels=np.unique(y_true), epsilon=1.0, random_state=random_state
    )


def by_longest(rows, norm):
    return clip(rows * (norm / max(norm, row_norms(rows).max())), norm)


def warned(rows, norm):
    if (row_norms(rows) > norm).any():
        warnings.warn("rows are long", stacklevel=2)
    return clip(rows, norm)


def refused(rows, norm):
    if (row_norms(rows) > norm).any():
        raise ValueError("rows are long")
    return clip(rows, norm)


def own_weights(class_weight, classes, labels, sample_weight, largest, rows):
    return np.asarray(sample_weight, dtype=float)


def by_mean(*args):
    found = weights_of(*args)
    return found / found.mean()


def by_class(class_weight, classes, labels, sample_weight, largest, rows):
    return np.minimum(labels.size / (2.0 * np.bincount(labels, minlength=2))[labels], largest)


def exposed_bins(target, edges, offset_edges):
    return binned(
        target._replace(weights=target.weights * np.exp(target.offsets)), edges, offset_edges
    )


def by_mean_exposure(exposure, n_rows):
    found = logarithms(exposure, n_rows)
    return found - found.mean()


def typical_of_table(plan, target, *others):
    result = run_sums(plan, target, *others)
    exposure = float(np.exp(target.offsets).mean())
    return result._replace(other={**result.other, "typical_exposure": exposure})


def histograms_twice(*args):
    released_histograms(*args)
    return released_histograms(*args)


def centred(plan, target, *others):
    target = target._replace(responses=target.responses - target.responses.mean())
    return run_sums(plan, target, *others)


def row_for_person(cost, relation, steps, mu=None, *hidden):
    return cost_for_persons(cost, relation, 1, None, *hidden)


def keeps_largest(scaler, X, y=None):
    fit_scaler(scaler, X)
    scaler.largest_ = float(np.max(X))
    return scaler


def quiet_sum(plan, *others):
    """A run whose last noisy sum has a third of the noise."""
    n_sums = itertools.count(1)

    def release(values, deviation, *given, **options):
        # Squares are single numbers.
        is_last = values.size > 1 and next(n_sums) == len(plan.residual_multipliers)
        return vector(values, deviation / 3.0 if is_last else deviation, *given, **options)

    with mock.patch.object(sums, "release_vector", release):
        return run_sums(plan, *others)


EVERY = (one_hot, "stability_histogram", lambda c, n, t, g: draw_frequent(c, n, -1e9, g))
LOW = (one_hot, "stability_histogram", lambda c, n, t, g: draw_frequent(c, n, 1.0, g))
ALL = (one_hot, "stability_histogram", lambda c, n, t, g: dict(c))
QUIET = (frequent, "on_lattice", lambda v, n, s: lattice(v, 0 * n, s))
HALF = (frequent, "on_lattice", lambda v, n, s: lattice(v, n / 2, s))
# With a small budget clips cut what these move.
AMPLE_RIDGE = RIDGE._replace(estimator=clone(RIDGE.estimator).set_params(epsilon=3.0))
KEY = ((keys, "_generator", fixed_key),)
NO_CLIPPING = (linear, "clip_rows", lambda rows, norm: clip(rows, 1e9))
UNCHECKED = (linear, "_checked", lambda weights, responses, largest: weights)
HALF_CHAIN = (chains, "OverdampedSteps", half_in_chain)

BUGS = {
    # Noise
    "half the noise of a chain is planned": Bug("noise too small", CHAIN, (HALF_CHAIN,)),
    "half the noise of a chain is drawn": Bug(
        "noise too small", CHAIN, (HALF_CHAIN, (chains, "trace_chain", told_in_full))
    ),
    "half the noise of sums is drawn": Bug(
        "noise too small", RIDGE, ((gaussian, "on_lattice", lambda v, n, s: lattice(v, n / 2, s)),)
    ),
    "half the noise of clipped residuals": Bug(
        "noise too small", RIDGE, ((sums, "sensitivity_after_rounding", times(2.0, shift)),)
    ),
    "a third of the noise in one noisy sum of many": Bug(
        "noise too small", RIDGE, ((loop, "run", quiet_sum),)
    ),
    "Laplace noise of half the size is drawn": Bug(
        "noise too small",
        MATRIX,
        ((laplace, "discrete_laplace", lambda s, n, g: noise(s / 2, n, g)),),
    ),
    "counts have half the noise": Bug("noise too small", CATEGORIES, (HALF,)),
    "a draw by squared weights": Bug(
        "noise too small", QUANTILES, ((quantiles, "choose_weighted", sharper),)
    ),
    "noise is spread evenly": Bug(
        "another law",
        RIDGE,
        (
            (sums, "release_vector", on_argument(2, Even, vector)),
            (sums, "release_moment", on_argument(2, Even, moment)),
        ),
    ),
    "no noise at one of 200 steps": Bug(
        "no noise", LONG_CHAIN, ((chains, "_advance_overdamped", batch_safe_step(101)),)
    ),
    "a score without noise": Bug(
        "no noise", MATRIX, ((laplace, "discrete_laplace", lambda s, n, g: np.zeros(n, int)),)
    ),
    "counts without noise": Bug("no noise", CATEGORIES, (QUIET,)),
    "a mode instead of a draw": Bug("no noise", QUANTILES, ((quantiles, "choose_weighted", mode),)),
    "a median without noise": Bug(
        "no noise", MEDIANS, ((quantile_scaler, "draw_quantiles", exact),)
    ),
    "bounds from the table": Bug(
        "no noise", QUANTILES, ((quantile_scaler, "draw_quantiles", exact),)
    ),
    "categories from the table": Bug("no noise", ONE_ALONE, (ALL,)),
    "a score's noise beside the door": Bug(
        "no noise",
        MATRIX,
        ((laplace, "audited_release", lambda event, release, generator: release()),),
    ),
    "a sum with noise of one's own": Bug("no noise", RIDGE, keeping(sum_with_own_noise)),
    # Sensitivity
    "rows are not clipped": Bug("sensitivity", LONG, (NO_CLIPPING,)),
    "rows are divided by the longest norm": Bug(
        "sensitivity", LONG, ((linear, "clip_rows", by_longest),)
    ),
    "a factor 2 of replacing is forgotten": Bug(
        "sensitivity", LABELS, ((Budget, "sensitivity_factor", 1.0),)
    ),
    "half the sensitivity of a matrix": Bug(
        "sensitivity", MATRIX, ((tables, "_table_scale", lambda *args: scale(*args) / 2),)
    ),
    # Second moments
    "half the noise of a second moment": Bug(
        "second moment",
        SCORING,
        ((fisher, "release_moment", on_argument(1, lambda deviation: deviation / 2, moment)),),
    ),
    "a root of 2 of replacing is forgotten": Bug(
        "second moment", SCORING, ((fisher, "moment_noise", times(0.5**0.5, moment_noise)),)
    ),
    "half the noise off a diagonal": Bug(
        "second moment", SCORING, ((gaussian, "on_lattice", quiet_off_diagonal),)
    ),
    "a moment's noise is as large as its trace": Bug(
        "second moment",
        AMPLE_RIDGE._replace(record=(0.0 * FAR, 1.0)),
        ((sums, "release_moment", scaled_noise),),
    ),
    # Intercepts
    "the intercept's column is not in the norm": Bug(
        "intercept",
        LABELS._replace(record=(ACROSS, 1)),
        ((linear, "norm_with_constant", lambda norm, constant: float(norm)),),
    ),
    "the intercept's column is not in a moment": Bug(
        "intercept",
        SCORING,
        (
            (
                fisher,
                "moment_noise",
                lambda bounds, *others: moment_noise(bounds._replace(row_norm=1.0), *others),
            ),
        ),
    ),
    "the intercept's sum has no noise": Bug(
        "intercept", RIDGE, ((gaussian, "on_lattice", quiet_intercept),)
    ),
    "responses less their mean": Bug(
        "intercept",
        AMPLE_RIDGE._replace(record=(X[0], -1.0)),
        ((loop, "run", centred),),
    ),
    # Exposures
    "an exposure counts as long as it is": Bug(
        "exposure", COUNTS, ((sums, "binned", exposed_bins),)
    ),
    "exposures are divided by their mean": Bug(
        "exposure", COUNTS, ((table, "logarithms", by_mean_exposure),)
    ),
    "a typical exposure from the table": Bug(
        "exposure", COUNTS, ((loop, "run", typical_of_table),)
    ),
    "histograms are released twice": Bug(
        "exposure",
        COUNTS,
        ((sums.Records, "_release_histograms", histograms_twice),),
    ),
    # Persons
    "each row of a person counts one": Bug(
        "persons",
        PERSONS_MATRIX,
        ((tables, "weights_of", lambda persons: np.full(persons.size, scores.PERSON_UNIT)),),
    ),
    "rows of a person are not bounded": Bug(
        "persons",
        PERSONS_RIDGE,
        ((read, "choose_rows", lambda persons, *others: np.arange(persons.size)),),
    ),
    "a person at the price of a row": Bug(
        "persons", PERSONS_RIDGE, ((units, "cost_for_persons", row_for_person),)
    ),
    # Batches
    "half the noise on batches": Bug("batches", BATCHES, (HALF_CHAIN,)),
    "batches of twice the size": Bug(
        "batches", BATCHES, ((chains, "OverdampedSteps", larger_batches),)
    ),
    "half the batches are charged": Bug(
        "batches", BATCHES, ((costs.AllIterates, "_path_cost", half_of_batches),)
    ),
    # Steps
    "half the steps are charged": Bug(
        "steps", CHAIN, ((costs.AllIterates, "_path_cost", half_of_steps),)
    ),
    "steps before a chain are not charged": Bug(
        "steps", CHAIN, ((chains, "run_in_blocks", warmed_up),)
    ),
    # Weights
    "weights are not clipped": Bug(
        "weights",
        WEIGHTS._replace(record={**WEIGHTS.record, "sample_weight": 1e3}),
        ((table, "effective_weights", own_weights), UNCHECKED),
    ),
    "weights are divided by their mean": Bug(
        "weights",
        WEIGHTS._replace(columns={"sample_weight": np.full(N, 0.01)}),
        ((table, "effective_weights", by_mean), UNCHECKED),
    ),
    "weights of classes from the table": Bug(
        "weights",
        Fit(
            logistic(SGLD(n_steps=20), max_sample_weight=1.0),
            X,
            Y,
            RECORDS[1],
            {"sample_weight": np.ones(N)},
        ),
        ((table, "effective_weights", by_class), UNCHECKED),
    ),
    "the largest weight is not in the norm": Bug(
        "weights", WEIGHTS, ((linear, "linear_bounds", unweighted_bounds),)
    ),
    # Thresholds, costs and releases
    "a threshold of 1": Bug("threshold", CATEGORIES, (LOW,)),
    "a threshold of 1, the value leaves": Bug("threshold", ONE_ALONE, (LOW,)),
    "no threshold": Bug("threshold", CATEGORIES, (EVERY,)),
    "two releases, one is paid": Bug("cost", LABELS, ((sums, "release_vector", twice),)),
    "a column's draws are not charged": Bug(
        "cost",
        QUANTILES,
        (
            (
                quantile_scaler,
                "draws_cost",
                on_argument(1, lambda n: n - 2, draws_cost),
            ),
        ),
    ),
    "a release depends on rows": Bug("releases", MATRIX, ((tables, "with_noise", twice_if_odd),)),
    "labels from the table": Bug(
        "releases", MATRIX._replace(estimator=found_labels, record=(2, 0))
    ),
    "a warning depends on rows": Bug("message", LONG, ((linear, "clip_rows", warned),)),
    "an error depends on rows": Bug("message", LONG, ((linear, "clip_rows", refused),)),
    # Keys
    "a constant key, of a score": Bug("key", MATRIX, KEY),
    "a constant key, of a scaler": Bug("key", QUANTILES, KEY),
    "columns have the same noise": Bug(
        "key", QUANTILES, ((quantile_scaler, "draw_quantiles", same_noise),)
    ),
    "numbers of a sum have the same noise": Bug(
        "key", RIDGE, ((gaussian, "on_lattice", one_number_for_all),)
    ),
    # Outputs
    "a largest value is kept": Bug(
        "rows kept", QUANTILES, ((DPQuantileScaler, "fit", keeps_largest),)
    ),
    "the generator is kept": Bug("rows kept", RIDGE, keeping(lambda r, g: g)),
    "a function encloses rows": Bug("rows kept", RIDGE, keeping(lambda r, g: lambda: r)),
    "a dict's view": Bug(
        "rows kept", RIDGE, keeping(lambda r, g: dict.fromkeys(r.tolist()).keys())
    ),
    "a memoryview": Bug("rows kept", RIDGE, keeping(lambda r, g: memoryview(r))),
    "an empty part of an array": Bug("rows kept", RIDGE, keeping(lambda r, g: r[:0])),
    "an iterator": Bug("rows kept", RIDGE, keeping(lambda r, g: (one for one in r))),
    "a weak reference and a method": Bug("rows kept", RIDGE, keeping(weak)),
    "a list of a module": Bug("rows kept", RIDGE, keeping(cached)),
    "a file that is written": Bug("rows kept", RIDGE, keeping(written)),
}


@contextmanager
def planted(bug):
    with ExitStack() as stack:
        # Plans are kept, of a library with a bug as of one without.
        sampler_base._cached_plan.cache_clear()
        stack.callback(sampler_base._cached_plan.cache_clear)
        stack.enter_context(mock.patch.object(sums, "CACHE", [], create=True))
        for module, name, value in bug.patches:
            stack.enter_context(mock.patch.object(module, name, value))
        yield bug.fit


def replayed(bug):
    """The `ReplayResult` of a bug."""
    with planted(bug) as fit:
        return replay(fit.estimator, fit.X, fit.y, fit.record, **fit.columns)


def attacked(bug):
    """Whether an audit of many runs contradicts the cost; None where it is not tried."""
    if bug.fit.n_runs is None:
        return None
    # A constant key is there without a seed only, and then no run is another.
    seed = None if bug.kind == "key" else 0
    with planted(bug) as fit:
        try:
            result = audit_fit(
                fit.estimator, fit.X, fit.y, n_canaries=1, n_runs=fit.n_runs, random_state=seed
            )
        except ValueError:
            return None
    return bool(result.contradicts)
