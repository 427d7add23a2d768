"""What private regressors and their scores refuse, before a charge and without quoting a cell."""

import re

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from regressors import counts, poisson, refused, ridge
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianRidge
from skdpbayes.metrics import (
    dp_mean_absolute_error,
    dp_mean_poisson_deviance,
    dp_mean_squared_error,
    dp_r2_score,
    make_private_scorer,
)
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPOneHotEncoder


@pytest.mark.parametrize(
    "y, named",
    [
        ([1.0, np.nan] * 50, "NaN"),
        (
            np.array([1.0, None] * 50, dtype=object),
            "contains None: keep rows without a label or response",
        ),
        ([1.0, np.inf] * 50, "infinity"),
        (["77", "one"] * 50, "y"),
        (np.full((100, 2), 77.0), "1d array|column"),
        (np.full(99, 77.0), "inconsistent"),
        (np.full(100, -77.0), "none below 0"),
        (np.full(100, 77j), "complex"),
        (np.array([1.0, np.complex128(77 + 1j)] * 50, dtype=object), "finite numbers"),
        (None, "requires y"),
    ],
)
@pytest.mark.parametrize("make", [poisson, ridge], ids=["poisson", "ridge"])
def test_errors_of_responses_quote_none(make, y, named):
    if make is ridge and named.startswith("none"):
        pytest.skip("a ridge takes negative numbers")
    with pytest.raises((ValueError, TypeError), match=named) as error:
        make().fit(np.ones((100, 2)), y)
    assert "77" not in str(error.value)


NOT_WHOLE = (77.25, r"must hold counts, which are whole numbers.*exposure=")


MISSING = (np.nan, "contains NaN")


def _with_a_few(value):
    rng = np.random.default_rng(0)
    y = rng.poisson(2.0, size=4000).astype(float)
    y[::40] = value
    return rng.uniform(-1.0, 1.0, size=(4000, 2)), y


def _in_parts(*columns):
    return [da.from_array(c, chunks=(1000, *c.shape[1:])) for c in columns]


@pytest.mark.parametrize("value, named", [NOT_WHOLE, MISSING])
@pytest.mark.parametrize("max_count", [15, "auto"])
@pytest.mark.parametrize(
    "options",
    [{}, {"neighboring_relation": "add_or_remove_one", "public_size": 4000}, {"data_norm": "auto"}],
    ids=["replace", "add", "norm"],
)
def test_counts_that_are_none_are_refused_before_a_charge(value, named, max_count, options):
    X, y = _with_a_few(value)
    model = poisson(max_count=max_count, sampler="auto", **options)
    for table in ((X, y), (X, pd.Series(y)), (X.tolist(), y.tolist()), _in_parts(X, y)):
        assert re.search(named, refused("77", model.fit, *table))
    persons = clone(model).set_params(max_rows_per_group=1)
    assert re.search(named, refused("77", persons.fit, X, y, groups=np.arange(4000)))
    pipeline = make_private_pipeline(BoundedScaler(-1, 1), clone(model))
    assert re.search(named, refused("77", pipeline.fit, X, y))
    relation = {name: options[name] for name in options if name != "data_norm"}
    # Of a width that is learnt.
    behind = make_private_pipeline(DPOneHotEncoder(**relation), clone(model))
    assert re.search(named, refused("77", behind.fit, X.round(), y))


@pytest.mark.parametrize("value, named", [NOT_WHOLE, MISSING])
def test_searches_and_scores_refuse_counts_that_are_none_before_a_charge(value, named):
    X, y = _with_a_few(value)
    for model in (poisson(random_state=None), DPBayesianRidge((0.0, 9.0))):
        search = DPRandomizedSearchCV(
            model, {"data_norm": [1.0, 2.0]}, scoring="neg_mean_poisson_deviance", random_state=0
        )
        assert re.search(f"{named}|may predict neg", refused("77", search.fit, X, y))
    predicted, model = np.ones(4000), poisson().fit(X, np.ones(4000))
    scorer = make_private_scorer("neg_mean_poisson_deviance", epsilon=1.0)
    for true in (y, *_in_parts(y)):
        told = refused("77", dp_mean_poisson_deviance, true, predicted, epsilon=1.0)
        assert told.startswith("y_true ") and re.search(named, told)
        assert re.search(named, refused("77", scorer, model, X, true))
    told = refused("77", model.score, X, y)
    assert told.startswith("y ") and re.search(named, told)
    assert "none below 0" in refused("77", model.score, X, np.full(4000, -77))


def test_a_ridge_takes_fractions_and_refuses_what_is_missing():
    X, y = _with_a_few(np.nan)
    for response in (y, pd.Series(y).astype("Float64"), pd.Series(y, dtype=object)):
        assert "keep rows without a" in refused("77", ridge().fit, X, response)
    assert "keep rows without a" in refused("77", ridge().fit, *_in_parts(X, y))
    assert ridge(n_draws=50).fit(X, np.nan_to_num(y, nan=0.25)).coef_.shape == (2,)
    for score in (dp_r2_score, dp_mean_squared_error, dp_mean_absolute_error):
        for true in (y, *_in_parts(y)):
            told = refused("77", score, true, np.ones(4000), epsilon=1.0, target_bounds=(0, 9))
            assert "y_true contains NaN" in told


EXPOSURES = [
    (np.full(100, -77.0), "positive, and holds numbers below 0"),
    (np.r_[0.0, np.full(99, 77.0)], "positive: give rows that were not exposed an exposure of 1"),
    (np.r_[np.nan, np.full(99, 77.0)], "missing values"),
    ([None, *[77.0] * 99], "missing values"),
    (pd.Series([pd.NA, *[77.0] * 99], dtype=object), "missing values"),
    (pd.Series([pd.NA, *[77.0] * 99], dtype="Float64"), "missing values"),
    (np.r_[np.inf, np.full(99, 77.0)], "finite, and holds infinity"),
    (np.full((100, 2), 77.0), r"shape \(100, 2\) and must be \(100,\)"),
    (np.full(98, 77.0), r"shape \(98,\) and must be \(100,\): one number for each row"),
    (["77"] * 100, "real numbers, not text"),
]


@pytest.mark.parametrize("exposure, named", EXPOSURES)
def test_each_cause_of_a_refused_exposure_has_a_message(exposure, named):
    X, y, model = np.ones((100, 2)), np.ones(100), poisson().fit(np.ones((100, 2)), np.ones(100))
    assert re.search(named, refused("77", poisson().fit, X, y, exposure=exposure))
    for method in (model.prediction_interval, model.posterior_predictive):
        assert re.search(named, refused("77", method, X, exposure=exposure))
    if "not exposed" in named:  # No count is expected of them.
        assert model.predict(X, exposure=exposure)[0] == 0.0
    else:
        assert re.search(named, refused("77", model.predict, X, exposure=exposure))


@pytest.mark.parametrize(
    "bounds", [(1.0, 1.0), (2.0, 1.0), (0.0,), ("a", "b"), (0.0, np.nan), (0, np.inf)]
)
def test_bounds_that_are_none_arerefused(bounds):
    with pytest.raises(ValueError, match="bounds"):
        ridge(target_bounds=bounds).privacy_plan(100, 2)


@pytest.mark.parametrize("bounds", [None, 20, "Auto", np.array([[0.0, 20.0]])], ids=repr)
def test_bounds_of_another_kind_are_refused_with_the_remedy(bounds):
    with pytest.raises(ValueError, match=r"two public numbers \(low, high\)"):
        ridge(target_bounds=bounds).privacy_plan(100, 2)
    if not isinstance(bounds, str):
        with pytest.raises(ValueError, match=r"two public numbers \(low, high\)"):
            dp_r2_score(np.ones(9), np.ones(9), target_bounds=bounds, epsilon=1.0)


def test_bounds_may_be_an_array():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1.0, 1.0, (200, 2)), rng.uniform(0.0, 20.0, 200)
    array, pair = (ridge(target_bounds=b).fit(X, y) for b in (np.array([0, 20]), (0, 20)))
    assert clone(array).privacy_plan(200, 2) == pair.plan_
    assert array.target_bounds_ == (0.0, 20.0)
    np.testing.assert_array_equal(array.coef_, pair.coef_)
    options = {"epsilon": 1.0, "random_state": 0}
    a, b = (dp_r2_score(y, y, target_bounds=own, **options) for own in (np.array([0, 20]), (0, 20)))
    assert a == b


def test_more_columns_than_a_ridge_takes_have_a_remedy_that_works():
    with pytest.raises(ValueError, match="categories together; no other sampler learns"):
        ridge(epsilon=1.0).privacy_plan(1000, 205)
    own = poisson(sampler="clipped_residuals")
    with pytest.raises(ValueError, match="take fewer columns, or a chain by sampler='auto'"):
        own.privacy_plan(1000, 205)
    assert own.set_params(sampler="auto").privacy_plan(1000, 205).n_parameters == 206


def test_without_delta_only_samplers_that_take_the_model_are_recommended():
    with pytest.raises(ValueError, match="delta=0.*; no sampler takes this model") as error:
        ridge(epsilon=1.0, delta=0.0).privacy_plan(1000, 3)
    assert "dp_" not in str(error.value)
    with pytest.raises(ValueError, match="delta=0.*'dp_fast_mh', 'dp_mh'"):
        poisson(delta=0.0, sampler="sgld").privacy_plan(1000, 3)
    for name in ("dp_fast_mh", "dp_mh"):
        assert poisson(delta=0.0, sampler=name).privacy_plan(1000, 3).epsilon <= 1.0


def test_a_sampler_that_does_not_learn_the_noise_isrefused():
    with pytest.raises(ValueError, match="does not learn it"):
        ridge(sampler="sghmc").privacy_plan(1000, 3)


def test_negative_counts_and_expected_counts_are_refused(rng):
    y = rng.poisson(2.0, size=3000).astype(float)
    none, predicted = np.r_[-77.0, y[1:]], np.full(3000, 2.0)
    told = refused("77", dp_mean_poisson_deviance, none, predicted, epsilon=1.0)
    assert told.startswith("y_true must hold counts, none below 0")
    logs = np.r_[-77.0, predicted[1:]]
    told = refused("77", dp_mean_poisson_deviance, y, logs, epsilon=1.0)
    assert told.startswith("y_pred must hold expected counts") and "np.exp(y_pred)" in told
    same = [
        dp_mean_poisson_deviance(y, p, epsilon=np.inf, random_state=0)
        for p in (np.r_[-1e-12, predicted[1:]], np.r_[0.0, predicted[1:]])
    ]
    assert same[0] == same[1]


@pytest.mark.parametrize("model", [poisson(), ridge(epsilon=1.0)])
def test_accuracy_of_numbers_is_refused_before_a_charge(model):
    X, y, _ = counts(400)
    fitted, pipeline = clone(model).fit(X, y), make_pipeline(BoundedScaler(-1, 1), model).fit(X, y)
    for one in (fitted, pipeline):
        told = refused("77", make_private_scorer("accuracy", epsilon=1.0), one, X, y)
        assert re.search(f"is for classes, and {type(model).__name__} predicts numbers", told)
    search = DPRandomizedSearchCV(model, {"data_norm": [1.0]}, scoring="accuracy", random_state=0)
    assert "is for classes" in refused("77", search.fit, X, y)


@pytest.mark.parametrize("method", ["predict", "prediction_interval", "posterior_predictive"])
@pytest.mark.parametrize("model", [poisson(), ridge()])
def test_what_is_not_fitted_says_so(model, method):
    with pytest.raises(NotFittedError):
        getattr(model, method)(np.zeros((2, 3)))
