"""Exposures in scores and searches: they go where their rows go, and move no bound."""

import functools

import numpy as np
import pytest
import sklearn
from dask import array as da
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor, DPBayesianRidge
from skdpbayes.metrics import dp_mean_poisson_deviance, make_private_scorer
from skdpbayes.model_selection import DPRandomizedSearchCV, total_privacy_cost
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers import SGHMC

N = 600
rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, size=(N, 2))
# An exposure is known from its row, so that one that goes astray is noticed.
exposure = 3.0 + 2.9 * X[:, 1]
y = rng.poisson(exposure * np.exp(0.3 + X[:, 0]))


def model(**options):
    sampler = SGHMC(n_steps=30)
    return DPBayesianPoissonRegressor(
        20, 4.0, sampler=sampler, n_draws=10, random_state=0, **options
    )


def in_pipeline():
    return make_pipeline(BoundedScaler([-1, -1], [1, 1]), model())


def search(estimator, **options):
    prefix = "dpbayesianpoissonregressor__" if hasattr(estimator, "steps") else ""
    params = {f"{prefix}fit_intercept": [True]}
    options = {"epsilon": 4.0, "mean_candidates": 2.0, "random_state": 0} | options
    return DPRandomizedSearchCV(estimator, params, **options)


def scorer(epsilon=np.inf):
    options = {"epsilon": epsilon, "largest_deviance": 400.0}
    return make_private_scorer("neg_mean_poisson_deviance", **options)


@pytest.fixture
def seen(monkeypatch):
    """Rows and exposures that reach fits and predictions."""
    found = {"fit": [], "predict": []}
    for name, rows in found.items():
        method = getattr(DPBayesianPoissonRegressor, name)

        def watched(self, X, *args, exposure=None, method=method, rows=rows, **options):
            rows.append((np.array(X), None if exposure is None else np.array(exposure)))
            return method(self, X, *args, exposure=exposure, **options)

        monkeypatch.setattr(DPBayesianPoissonRegressor, name, functools.wraps(method)(watched))
    return found


@pytest.mark.parametrize("make", [model, in_pipeline])
@pytest.mark.parametrize("routing", [False, True])
def test_a_score_compares_counts_with_rates_times_exposures(make, routing):
    estimator = make()
    name = (
        ""
        if estimator is None or not hasattr(estimator, "steps")
        else "dpbayesianpoissonregressor__"
    )
    estimator.fit(X, y, **{f"{name}exposure": exposure})
    expected = mean_poisson_deviance(y, exposure * estimator.predict(X))
    with sklearn.config_context(enable_metadata_routing=routing):
        found = scorer()(estimator, X, y, exposure=exposure)
    assert -found == pytest.approx(expected, rel=1e-5)
    ones = -scorer()(estimator, X, y, exposure=np.ones(N))
    assert ones == pytest.approx(mean_poisson_deviance(y, estimator.predict(X)), rel=1e-2)
    assert ones > 1.2 * expected


def test_columns_in_parts_are_scored_alike():
    estimator = model().fit(X, y, exposure=exposure)
    parts = [da.from_array(one, chunks=(200, *one.shape[1:])) for one in (X, y, exposure)]
    found = scorer()(estimator, parts[0], parts[1], exposure=parts[2])
    assert found == pytest.approx(scorer()(estimator, X, y, exposure=exposure))


@pytest.mark.parametrize("rate", [0.0, 1e-300, 1.0, 1e200])
@pytest.mark.parametrize("of_row", [1e-300, 1.0, 1e100])
@pytest.mark.parametrize("count", [0.0, 7.0, 1e300])
def test_no_exposure_moves_a_score_by_more_than_a_row_may(rate, of_row, count):
    """What a row adds is between 0 and the largest deviance over the number of rows."""
    y, rates, exposures = np.ones(10), np.ones(10), np.ones(10)
    options = {"epsilon": np.inf, "largest_deviance": 5.0}
    without = dp_mean_poisson_deviance(y, rates * exposures, **options)
    assert without == 0.0
    y[3], rates[3], exposures[3] = count, rate, of_row
    assert 0.0 <= dp_mean_poisson_deviance(y, rates * exposures, **options) <= 0.5


@pytest.mark.parametrize("make", [model, in_pipeline])
@pytest.mark.parametrize("routing", [False, True])
def test_a_search_splits_exposures_as_it_splits_rows(make, routing, seen):
    with sklearn.config_context(enable_metadata_routing=routing):
        found = search(make()).fit(X, y, exposure=list(exposure))
        assert found.spent_epsilon_ <= 4.0
        n_fits = len(seen["fit"])
        assert n_fits == len(seen["predict"]) >= 1
        for part, size in (("fit", 450), ("predict", 150)):
            for rows, exposures in seen[part]:
                np.testing.assert_allclose(exposures, 3.0 + 2.9 * rows[:, 1])
                assert len(rows) == size
        np.testing.assert_allclose(found.predict(X, exposure=exposure), exposure * found.predict(X))
        assert np.isfinite(found.score(X, y, exposure=exposure))
    with pytest.raises(ValueError, match="fitted with exposure"):
        found.score(X, y)
    with pytest.raises(ValueError, match="fitted with exposure"):
        found.scorer_(found, X, y)


def test_a_search_without_exposures_passes_none(seen):
    search(model()).fit(X, y)
    assert all(exposures is None for part in seen.values() for _, exposures in part)


REFUSED = {
    "a score of classes": (
        lambda: search(model(), scoring="accuracy"),
        {},
        "dp_accuracy_score takes",
    ),
    "numbers": (lambda: search(DPBayesianRidge((0, 20))), {}, "DPBayesianRidge.predict takes no"),
    "classes": (lambda: search(DPBayesianLogisticRegression()), {}, "takes no exposure"),
    "a short one": (lambda: search(model()), {"exposure": exposure[:-1]}, "inconsistent"),
    "zeros": (lambda: search(model()), {"exposure": 0.0 * exposure}, "exposure must be positive"),
    "negative ones": (lambda: search(model()), {"exposure": -77.0 * exposure}, "numbers below 0"),
    "text": (lambda: search(in_pipeline()), {"exposure": ["77"] * (N - 1) + ["x"]}, "exposure"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_search_refuses_of_exposures_costs_nothing(name):
    make, options, named = REFUSED[name]
    options = {"exposure": exposure, **options}
    with (
        PrivacyLedger(10.0, 1e-4, allow_seeds=True) as ledger,
        pytest.raises((ValueError, TypeError), match=named) as error,
    ):
        make().fit(X, y, **options)
    assert ledger.spent_epsilon == 0.0 and "77" not in str(error.value)


def test_what_a_scorer_refuses_of_exposures_costs_nothing():
    exposed, ridge = model().fit(X, y, exposure=exposure), DPBayesianRidge((0, 20)).fit(X, y)
    plain, classes = model().fit(X, y), make_private_scorer("accuracy", epsilon=1.0)
    calls = {
        "fitted with exposure": lambda: scorer(1.0)(exposed, X, y),
        "DPBayesianRidge.predict takes no exposure": lambda: make_private_scorer(
            "neg_mean_squared_error", epsilon=1.0
        )(ridge, X, y, exposure=exposure),
        "dp_accuracy_score takes no": lambda: classes(exposed, X, y, exposure=exposure),
        "exposure must be": lambda: scorer(1.0)(exposed, X, y, exposure=-exposure),
    }
    with PrivacyLedger(10.0, 1e-4, allow_seeds=True) as ledger:
        for named, call in calls.items():
            with pytest.raises((ValueError, TypeError), match=named):
                call()
        assert ledger.spent_epsilon == 0.0
        scorer(1.0)(plain, X, y)
        assert 0.99 < ledger.spent_epsilon <= 1.0


@pytest.mark.parametrize("several", [False, True])
def test_scikit_learn_routes_exposures_to_scorers_that_request_them(several, seen):
    with sklearn.config_context(enable_metadata_routing=True):
        asks = model().set_fit_request(exposure=True)
        options = {"cv": KFold(3), "params": {"exposure": exposure}}
        with pytest.raises(ValueError, match="exposure.* not explicitly set as requested"):
            cross_validate(asks, X, y, scoring=scorer(), **options)
        one = scorer().set_score_request(exposure=True)
        scoring = {"deviance": one} if several else one
        found = cross_validate(asks, X, y, scoring=scoring, return_estimator=True, **options)
        named = scorer().set_score_request(exposure="years")
        also = cross_validate(
            model().set_fit_request(exposure="years"),
            X,
            y,
            cv=KFold(3),
            scoring=named.with_options(random_state=0),
            params={"years": exposure},
        )
    scores = found["test_deviance" if several else "test_score"]
    np.testing.assert_allclose(also["test_score"], scores)
    folds = KFold(3).split(X)
    for (_, test), fitted, score in zip(folds, found["estimator"], scores, strict=True):
        expected = mean_poisson_deviance(y[test], exposure[test] * fitted.predict(X[test]))
        assert -score == pytest.approx(expected, rel=1e-4)
    fits = [part for part in seen["fit"] if part[1] is not None]
    assert len(fits) == 6
    for rows, exposures in fits:
        np.testing.assert_allclose(exposures, 3.0 + 2.9 * rows[:, 1])


def test_exposures_that_scikit_learn_does_not_pass_on_are_missed():
    options = {"scoring": scorer(0.5), "cv": KFold(2), "error_score": "raise"}
    with pytest.raises(ValueError, match="set_score_request"):
        cross_validate(model(), X, y, params={"exposure": exposure}, **options)


def test_a_search_by_the_own_score_says_how_exposures_are_passed_on():
    """Without the routing that the error names, and with it."""
    given = {"cv": KFold(2), "error_score": "raise"}
    grid = {"prior_scale": [1.0, 2.0]}
    with pytest.raises(
        ValueError, match=r"(?s)enable_metadata_routing.*set_fit_request.*set_score"
    ):
        GridSearchCV(model(), grid, **given).fit(X, y, exposure=exposure)
    with sklearn.config_context(enable_metadata_routing=True):
        asks = model().set_fit_request(exposure=True).set_score_request(exposure=True)
        found = GridSearchCV(asks, grid, **given).fit(X, y, exposure=exposure)
    assert np.isfinite(found.best_score_)


def test_exposures_change_no_total():
    with sklearn.config_context(enable_metadata_routing=True):
        asks = model().set_fit_request(exposure=True)
        scoring = scorer(0.2).set_score_request(exposure=True)
        given = {"cv": KFold(2), "scoring": scoring, "error_score": "raise"}
        totals = [
            total_privacy_cost(
                GridSearchCV(asks, {"prior_scale": [1.0, 2.0]}, **given).fit(X, y, **e)
            )
            for e in ({"exposure": exposure}, {})
        ]
    # The best of either is chosen by noise, and plans of both differ in their last digits.
    assert totals[0].mu == pytest.approx(totals[1].mu, rel=1e-9)
    assert totals[0].pure_events == totals[1].pure_events


def test_a_score_without_noise_refuses_to_compare_counts_with_rates():
    exposed = model().fit(X, y, exposure=exposure)
    with pytest.raises(ValueError, match="was fitted with exposure"):
        exposed.score(X, y)
    assert exposed.score(X, y, exposure=exposure) > 0.0
    model().fit(X, y).score(X, y)
