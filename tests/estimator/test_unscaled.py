"""Columns that are not scaled are told from the released second moment, at no cost."""

import math
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import normalize

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes._estimator.model_checks import _LARGEST_DIRECTION_SHARE, single_direction
from skdpbayes.exceptions import DataScalingWarning
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.samplers.base import Diagnostics
from skdpbayes.samplers.langevin.fisher import moment_noise
from skdpbayes.samplers.statistics.design import share_of_a_direction

N, ROWS = 6000, 1500
rng = np.random.default_rng(0)
AGE, HOURS = rng.uniform(18, 90, N), rng.uniform(0, 80, N)
PAY, SCORE = rng.lognormal(10, 0.7, N), rng.normal(size=N)
RAW = np.column_stack([AGE, HOURS, PAY, SCORE])
LOWER, UPPER = [18, 0, 0, -3], [90, 80, 150_000, 3]
SCALED = BoundedScaler(LOWER, UPPER).fit_transform(RAW)
Y = (SCORE + rng.normal(size=N) > 0).astype(int)


def said(X, y=Y, *args, **options):
    model = DPBayesianLogisticRegression(n_draws=4, random_state=0, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, *args)
    found = [w for w in caught if "along a single direction" in str(w.message)]
    assert all(w.category is DataScalingWarning and w.filename == __file__ for w in found)
    return model, [str(w.message) for w in found]


WAYS = {
    "two classes": {},
    "no intercept": {"fit_intercept": False},
    "weights of classes": {"class_weight": {0: 0.5, 1: 2.0}},
    "private size": {"neighboring_relation": "add_or_remove_one", "public_size": N},
    "private size, guessed badly": {
        "neighboring_relation": "add_or_remove_one",
        "public_size": 3 * N,
    },
}


@pytest.mark.daily(1)
@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_raw_columns_are_told_and_scaled_ones_are_not(options):
    model, (text,) = said(RAW, **options)
    for remedy in ("BoundedScaler", "DPQuantileScaler", "data_norm='auto'", "spends budget again"):
        assert remedy in text
    assert model.released_.share_of_a_direction > 0.94
    assert said(SCALED, **options)[1] == []
    assert model.spent_epsilon_ <= 1.0


@pytest.mark.nightly
def test_softmax_weights_persons_and_collections_are_told_alike():
    da = pytest.importorskip("dask.array")
    three, weights, persons = np.digitize(SCORE, [-1, 1]), np.full(N, 0.5), np.arange(N) // 2
    for X, times in ((RAW, 1), (SCALED, 0)):
        assert len(said(X, three)[1]) == times
        assert len(said(X, Y, weights)[1]) == times
        assert len(said(X, Y, None, persons, epsilon=8.0, max_rows_per_group=2)[1]) == times
        assert (
            len(said(da.from_array(X, chunks=(2000, -1)), da.from_array(Y, chunks=2000))[1])
            == times
        )


def test_wrong_bounds_are_told():
    """All values are clipped to the upper bound."""
    assert said(BoundedScaler(-1, 1).fit_transform(RAW[:, :3]))[1]


def test_a_single_column_is_told_by_its_mean():
    assert said(RAW[:, [0]])[1]
    assert said(RAW[:, [2]])[1]
    assert not said(np.where(Y, 1.0, -1.0)[:, None])[
        1
    ]  # Each row has the norm, and says all there is.


def test_it_costs_nothing_and_follows_from_what_is_released():
    model = said(RAW)[0]
    released, plan = model.released_, model.plan_
    constant = plan.bounds.constant
    noise = moment_noise(plan.bounds, N, plan.budget, plan.moment_multiplier)
    arguments = released.second_moment, noise, constant, model.data_norm_, N
    assert math.isclose(
        share_of_a_direction(*arguments), released.share_of_a_direction, rel_tol=1e-6
    )
    assert single_direction(Diagnostics()) == ()
    assert plan.cost == DPBayesianLogisticRegression().privacy_plan(N, 4).cost


def one_hot(n_levels, most):
    """Indicators of three columns, the first level of which has a share of the rows."""
    shares = [most, *[(1 - most) / (n_levels - 1)] * (n_levels - 1)]
    return np.hstack(
        [np.eye(n_levels)[rng.choice(n_levels, size=ROWS, p=shares)] for _ in range(3)]
    )


def standardized(X):
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)


def between(X, high=1.0, low=0.0):
    lower, upper = np.quantile(X, low, axis=0), np.quantile(X, high, axis=0) + 1e-9
    return 2 * np.clip((X - lower) / (upper - lower), 0, 1) - 1


def designs():
    """Tables that are scaled, or whose rows have norm 1 on purpose, with their data_norm."""
    tables = [load_breast_cancer().data, load_wine().data, load_digits().data, RAW[:ROWS]]
    tables += [
        rng.poisson(3, (ROWS, 8)),
        rng.integers(1, 6, (ROWS, 10)),
        rng.normal(80, 9, (ROWS, 5)),
    ]
    for X in tables:
        for scaled in (standardized(X), between(X), between(X, 0.99, 0.01), (between(X) + 1) / 2):
            yield scaled, math.sqrt(X.shape[1])
            yield scaled, np.quantile(np.linalg.norm(scaled, axis=1), 0.95)
    for d in (2, 5, 20, 60):
        for rows in (
            rng.normal(size=(ROWS, d)),
            rng.normal(size=(ROWS, d)) + 1,
            rng.random((ROWS, d)),
            rng.lognormal(size=(ROWS, d)),
            rng.poisson(1.0, (ROWS, d)) * rng.random(d),
        ):
            yield normalize(rows), 1.0
        for share in (0.5, 0.8, 0.95):
            yield rng.choice([-1.0, 1.0], p=[1 - share, share], size=(ROWS, d)), math.sqrt(d)
    for most in (0.4, 0.7, 0.9):
        for n_levels in (2, 6):
            yield one_hot(n_levels, most), math.sqrt(3)
            yield one_hot(n_levels, most), math.sqrt(3 * n_levels)
    for X in (AGE, HOURS, SCORE):
        yield between(X[:ROWS, None]), 1.0
    yield rng.choice([-1.0, 1.0], size=(ROWS, 1)), 1.0


def share(X, norm, n, epsilon, replaced):
    """Return the share as a fit of rows that are drawn from a table would release it."""
    d = X.shape[1]
    rows = X[rng.integers(len(X), size=n)]
    rows = rows * np.minimum(1, norm / np.maximum(np.linalg.norm(rows, axis=1), 1e-9))[:, None]
    relation = {} if replaced else {"neighboring_relation": "add_or_remove_one", "public_size": n}
    plan = DPBayesianLogisticRegression(epsilon, data_norm=norm, **relation).privacy_plan(n, d)
    noise = moment_noise(plan.bounds, n, plan.budget, plan.moment_multiplier)
    constant = plan.bounds.constant
    rows = np.column_stack([rows, np.full(n, constant)])
    errors = rng.normal(scale=noise, size=(d + 1, d + 1))
    moment = rows.T @ rows + (errors + errors.T) / 2
    return share_of_a_direction(moment, noise, constant, norm, n, replaced)


@pytest.mark.daily(1)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_false_alarms_are_rare(epsilon):
    """At most 2% of dozens of designs that are scaled, or of norm 1 on purpose, at any noise."""
    shares = [
        share(X, norm, n, epsilon, replaced)
        for X, norm in designs()
        for n in (500, 2000)
        for replaced in (True, False)
    ]
    assert len(shares) > 300
    assert np.mean(np.array(shares) >= _LARGEST_DIRECTION_SHARE) <= 0.02


def test_tables_that_are_not_scaled_are_found():
    """Those whose columns differ in scale; a table of one unit, such as grey values, loses little."""
    breast, wine, digits = load_breast_cancer().data, load_wine().data, load_digits().data
    centred = rng.normal(size=(N, 6)) * [1000, 1, 1, 1, 1, 1]
    for X in (RAW, breast, wine, np.column_stack([AGE + 1930, SCORE]), centred):
        assert share(X, math.sqrt(X.shape[1]), 20_000, 1.0, True) > _LARGEST_DIRECTION_SHARE
    assert share(digits, 8.0, 20_000, 1.0, True) < _LARGEST_DIRECTION_SHARE
