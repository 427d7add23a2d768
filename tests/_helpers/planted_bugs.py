"""Bugs that are planted one at a time, and the pair of tables that each is looked for with.

A bug is a name, its kind, what has to be patched, and a fit with a record. `replayed` and `attacked` look
for it.
"""

import copy
import functools
import tempfile
import weakref
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from releases import NoisySum, score

import skdpbayes._mechanisms.exponential as quantiles
import skdpbayes._mechanisms.histogram as frequent
import skdpbayes._mechanisms.laplace as laplace
import skdpbayes.metrics._tables as tables
import skdpbayes.preprocessing.imputer as imputer
import skdpbayes.preprocessing.one_hot as one_hot
import skdpbayes.preprocessing.quantile_scaler as quantile_scaler
import skdpbayes.random as keys
import skdpbayes.samplers.statistics.release as residuals
import skdpbayes.samplers.statistics.release as sums
from skdpbayes import DPBayesianRidge
from skdpbayes.audit import audit_fit, replay
from skdpbayes.metrics import dp_confusion_matrix
from skdpbayes.preprocessing import DPImputer, DPOneHotEncoder, DPQuantileScaler

N = 60
rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, (N, 2))
X[0] = 1.0, 0.0
Y = np.arange(N) % 2
Y[0] = 1
RESPONSES = np.tanh(2.0 * X[:, 0])
FAR = np.array([-1.0, 0.0])
TEXT = np.array([["a"], ["b"]] * 200, dtype=object)
ALONE = TEXT.copy()
ALONE[0] = "Jane Doe"
SMALL = np.abs(X) * 0.01


class Fit(NamedTuple):
    """What is replayed."""

    estimator: Any
    X: Any
    y: Any
    record: Any
    columns: dict = {}


class Bug(NamedTuple):
    """A bug: its kind, a fit, and patches as (module, name, value)."""

    kind: str
    fit: Fit
    patches: tuple = ()


MATRIX = Fit(functools.partial(dp_confusion_matrix, labels=[0, 1], epsilon=1.0), Y, Y, (1, 0))
QUANTILES = Fit(DPQuantileScaler(), X, None, [1e9, -1e9])
MEDIANS = Fit(DPImputer("median"), X, None, [1e9, -1e9])
CATEGORIES = Fit(DPOneHotEncoder(epsilon=1.0), TEXT, None, ["Jane Doe"])
ONE_ALONE = Fit(DPOneHotEncoder(epsilon=1.0), ALONE, None, ["a"])
RIDGE = Fit(
    DPBayesianRidge((-1, 1), epsilon=1.0, data_norm=1.0, n_draws=5, sampler="clipped_residuals"),
    X,
    RESPONSES,
    (FAR, 1.0),
)


def summed(bug, record=FAR, table=X, **columns):
    if columns:
        record = {"X": record, "sample_weight": 50.0}
    return Fit(NoisySum(bug=bug), table, None, record, columns)


def keeping(make):
    """Return a patch after which a fit holds ``make(responses, generator)``."""
    run = residuals.run_clipped_residuals

    def leaking(plan, target, generator, verbose):
        result = run(plan, target, generator, verbose)
        result.other["extra"] = make(np.array(target.responses), generator)
        return result

    return ((residuals, "run_clipped_residuals", leaking),)


def written(responses, generator):
    with tempfile.TemporaryFile() as file:
        np.save(file, responses)
    return 0.0


def cached(responses, generator):
    residuals.CACHE.append(responses)
    return 0.0


class Rows:
    def __init__(self, responses):
        self.responses = responses

    def get(self):
        return self.responses


def weak(responses, generator):
    rows = Rows(responses)
    return weakref.ref(rows), rows.get


draw_quantiles, draw_frequent = quantiles.draw_quantiles, frequent.stability_histogram
choose, lattice, noise = quantiles.choose_weighted, frequent.on_lattice, laplace.discrete_laplace
scale, key, shift = tables._table_scale, keys._generator, sums.sensitivity_after_rounding


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


EVERY = (one_hot, "stability_histogram", lambda c, n, t, g: draw_frequent(c, n, -1e9, g))
LOW = (one_hot, "stability_histogram", lambda c, n, t, g: draw_frequent(c, n, 1.0, g))
ALL = (one_hot, "stability_histogram", lambda c, n, t, g: dict(c))
QUIET = (frequent, "on_lattice", lambda v, n, s: lattice(v, 0 * n, s))
HALF = (frequent, "on_lattice", lambda v, n, s: lattice(v, n / 2, s))
KEY = ((keys, "_generator", fixed_key),)

BUGS = {
    "noise of half the size is planned": Bug("noise too small", summed("noise")),
    "noise of half the size is drawn": Bug("noise too small", summed("draws")),
    "Laplace noise of half the size is drawn": Bug(
        "noise too small",
        MATRIX,
        ((laplace, "discrete_laplace", lambda s, n, g: noise(s / 2, n, g)),),
    ),
    "counts have half the noise": Bug("noise too small", CATEGORIES, (HALF,)),
    "half the noise of clipped residuals": Bug(
        "noise too small",
        RIDGE,
        ((sums, "sensitivity_after_rounding", lambda *args: 2.0 * shift(*args)),),
    ),
    "a score without noise": Bug(
        "no noise", MATRIX, ((laplace, "discrete_laplace", lambda s, n, g: np.zeros(n, int)),)
    ),
    "counts without noise": Bug("no noise", CATEGORIES, (QUIET,)),
    "a mode instead of a draw": Bug("no noise", QUANTILES, ((quantiles, "choose_weighted", mode),)),
    "a draw by squared weights": Bug(
        "noise too small", QUANTILES, ((quantiles, "choose_weighted", sharper),)
    ),
    "a median without noise": Bug("no noise", MEDIANS, ((imputer, "draw_quantiles", exact),)),
    "bounds from the table": Bug(
        "no noise", QUANTILES, ((quantile_scaler, "draw_quantiles", exact),)
    ),
    "categories from the table": Bug("no noise", ONE_ALONE, (ALL,)),
    "noise beside the door": Bug("no noise", summed("own noise")),
    "rows are not clipped": Bug("sensitivity", summed("clipping", 10 * FAR)),
    "a factor 2 of replacing is forgotten": Bug("sensitivity", summed("factor")),
    "half the sensitivity of a matrix": Bug(
        "sensitivity", MATRIX, ((tables, "_table_scale", lambda plan, unit: scale(plan, unit) / 2),)
    ),
    "weights are not clipped": Bug("sensitivity", summed("weights", FAR, sample_weight=np.ones(N))),
    "a bound from the table": Bug("sensitivity", summed("bound", 10 * FAR)),
    "a threshold of 1": Bug("threshold", CATEGORIES, (LOW,)),
    "a threshold of 1, the value leaves": Bug("threshold", ONE_ALONE, (LOW,)),
    "no threshold": Bug("threshold", CATEGORIES, (EVERY,)),
    "two releases, one is paid": Bug("cost", summed("twice")),
    "a cost of another release": Bug("cost", summed("charge")),
    "a step depends on rows": Bug("releases", summed("step", 100 * FAR, SMALL)),
    "a shape depends on rows": Bug("releases", summed("shape", 100 * FAR, SMALL)),
    "a warning depends on rows": Bug("message", summed("warning", 10 * FAR)),
    "an error depends on rows": Bug("message", summed("error", 10 * FAR)),
    "a constant key, of a score": Bug("key", MATRIX, KEY),
    "a constant key, of a scaler": Bug("key", QUANTILES, KEY),
    "columns have the same noise": Bug(
        "key", QUANTILES, ((quantile_scaler, "draw_quantiles", same_noise),)
    ),
    "a largest norm is kept": Bug("rows kept", summed("output", 10 * FAR)),
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
        stack.enter_context(mock.patch.object(residuals, "CACHE", [], create=True))
        for module, name, value in bug.patches:
            stack.enter_context(mock.patch.object(module, name, value))
        yield bug.fit


def replayed(bug):
    """Return the `ReplayResult` of a bug."""
    with planted(bug) as fit:
        return replay(fit.estimator, fit.X, fit.y, fit.record, **fit.columns)


def attacked(bug):
    """Return whether an audit of many runs contradicts the cost; None where it is not tried."""
    attack = {NoisySum: (score, 5000), functools.partial: (None, 500)}
    if type(bug.fit.estimator) not in attack or bug.fit.columns:
        return None
    how, n_runs = attack[type(bug.fit.estimator)]
    # A constant key is there without a seed only, and then no run is another.
    seed = None if bug.kind == "key" else 0
    with planted(bug) as fit:
        try:
            result = audit_fit(
                fit.estimator,
                fit.X,
                fit.y,
                n_canaries=1,
                n_runs=n_runs,
                score=how,
                random_state=seed,
            )
        except ValueError:
            return None
    return bool(result.contradicts)
