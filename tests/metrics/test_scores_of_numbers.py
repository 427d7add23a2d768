"""Scores of numbers and counts: scikit-learn's without noise, covered by their intervals, refused unspent."""

import numpy as np
import pytest
from scipy.stats import uniform
from sklearn import metrics as plain
from sklearn.linear_model import LinearRegression, PoissonRegressor
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor, DPBayesianRidge
from skdpbayes.metrics import (
    dp_mean_absolute_error,
    dp_mean_poisson_deviance,
    dp_mean_squared_error,
    dp_r2_score,
    make_private_scorer,
)
from skdpbayes.metrics._scorer import _REGRESSION_SCORES, NAMED
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers import SGHMC

ADD = "add_or_remove_one"
BOUNDS = {"target_bounds": (-4.0, 6.0)}
SCORES = {
    "r2": (dp_r2_score, plain.r2_score, BOUNDS),
    "mse": (dp_mean_squared_error, plain.mean_squared_error, BOUNDS),
    "mae": (dp_mean_absolute_error, plain.mean_absolute_error, BOUNDS),
    "deviance": (dp_mean_poisson_deviance, plain.mean_poisson_deviance, {"largest_deviance": 40.0}),
}


def columns(name, n, seed=0):
    rng = np.random.default_rng(seed)
    if name == "deviance":
        mean = np.exp(rng.normal(size=n) * 0.5 + 0.5)
        return rng.poisson(mean), mean
    mean = 1.0 + rng.normal(size=n) * 0.6
    return mean + 0.4 * rng.normal(size=n), mean


@pytest.mark.parametrize("relation", ["replace_one", ADD])
@pytest.mark.parametrize("name", SCORES)
def test_without_noise_scores_are_scikit_learns(name, relation):
    score, exact, options = SCORES[name]
    y, p = columns(name, 3000)
    found = score(y, p, epsilon=np.inf, neighboring_relation=relation, **options)
    assert found == pytest.approx(exact(y, p), rel=1e-5)
    assert found.spent_epsilon == np.inf


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
@pytest.mark.parametrize("relation", ["replace_one", ADD])
@pytest.mark.parametrize("epsilon", [0.5, 20.0])
@pytest.mark.parametrize("name", SCORES)
def test_intervals_cover_the_population(name, relation, epsilon):
    score, exact, options = SCORES[name]
    truth = {"r2": 0.36 / 0.52, "mse": 0.16, "mae": 0.4 * np.sqrt(2.0 / np.pi)}
    expected = truth.get(name) or exact(*columns(name, 10**6, seed=99))
    options = {**options, "largest_error": 2.0} if name != "deviance" else options
    covered, n_tables, spent = 0, 40, set()
    for seed in range(n_tables):
        y, p = columns(name, 600, seed)
        private = {"epsilon": epsilon, "neighboring_relation": relation, "random_state": seed}
        found = score(y, p, **private, **options)
        low, high = found.interval(0.9)
        assert low <= found <= high
        covered += low <= expected <= high
        spent.add(found.spent_epsilon)
    assert covered / n_tables > 0.8
    assert max(spent) <= epsilon


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
def test_r2_that_noise_has_drowned_says_nothing():
    y, p = columns("r2", 20)
    found = [dp_r2_score(y, p, epsilon=0.01, random_state=s, **BOUNDS) for s in range(20)]
    assert all(-1.0 <= one <= 1.0 for one in found)
    assert np.mean([np.ptp(one.interval(0.9)) > 1.9 for one in found]) > 0.8


def test_extreme_predictions_count_as_the_bounds():
    y = np.array([0.0, 1.0, 2.0] * 100)
    far = np.where(y == 2.0, 1e300, y)
    score = dp_mean_squared_error(y, far, target_bounds=(0.0, 4.0), epsilon=np.inf)
    assert score == pytest.approx(4.0 / 3.0, rel=1e-6)
    none = dp_mean_poisson_deviance([0, 5], [0.0, 0.0], epsilon=np.inf)
    assert none == pytest.approx(5.0)  # Of 0 and the largest, 10.


@pytest.mark.parametrize(
    "score, y, p, options, named",
    [
        (dp_r2_score, [77.0, np.nan], [1.0, 2.0], BOUNDS, "NaN"),
        (dp_r2_score, [77.0, 1.0], [1.0], BOUNDS, "same number"),
        (dp_r2_score, ["77", "a"], [1.0, 2.0], BOUNDS, "real numbers"),
        (dp_r2_score, [1.0], [1.0], {"target_bounds": (2.0, 1.0)}, "low < high"),
        (dp_mean_squared_error, [1.0], [1.0], {**BOUNDS, "largest_error": 0.0}, "largest_error"),
    ],
)
def test_what_is_invalid_is_refused_unquoted_and_unspent(score, y, p, options, named):
    with (
        PrivacyLedger(1.0, 1e-6) as ledger,
        pytest.raises((ValueError, TypeError), match=named) as e,
    ):
        score(y, p, epsilon=0.5, **options)
    assert "77" not in str(e.value) and ledger.spent_epsilon == 0.0


def test_scorers_of_numbers_are_scikit_learns_without_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(900, 3))
    y, counts = X @ [1.0, 0.0, -1.0] + 0.3 * rng.normal(size=900), rng.poisson(np.exp(X[:, 0]))
    ridge, poisson = LinearRegression().fit(X, y), PoissonRegressor().fit(X, counts)
    for name, (function, *_) in NAMED.items():
        if function not in _REGRESSION_SCORES:
            continue
        model, own = (poisson, counts) if "poisson" in name else (ridge, y)
        counted = "poisson" in name
        options = {"largest_deviance": 40.0} if counted else {"target_bounds": (-4.0, 4.0)}
        scorer = make_private_scorer(name, epsilon=np.inf, **options)
        assert scorer(model, X, own) == pytest.approx(
            plain.get_scorer(name)(model, X, own), rel=1e-3
        )
    with pytest.raises(ValueError, match="no bounds of responses"):
        make_private_scorer("r2", epsilon=1.0)(ridge, X, y)
    # A regressor of this package, also within a pipeline, has them.
    steps = make_pipeline(
        BoundedScaler(-1, 1), DPBayesianRidge((-4.0, 4.0), np.inf, random_state=0)
    )
    found = cross_val_score(steps, X, y, cv=3, scoring=make_private_scorer("r2", epsilon=np.inf))
    assert found.min() > 0.7


def test_searches_score_by_the_family():
    def name_of(estimator):
        return DPRandomizedSearchCV(estimator, {})._scorer().score_func

    pipeline = make_pipeline(BoundedScaler(-1, 1), DPBayesianPoissonRegressor(9))
    assert name_of(pipeline) is dp_mean_poisson_deviance
    assert name_of(DPBayesianRidge((0, 1))) is dp_mean_absolute_error
    assert name_of(DPBayesianLogisticRegression()).__name__ == "dp_accuracy_score"


def test_a_search_over_counts_keeps_to_its_budget():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(1500, 2))
    y = rng.poisson(np.exp(0.5 + X[:, 0]))
    search = DPRandomizedSearchCV(
        DPBayesianPoissonRegressor(9, sampler=SGHMC(n_steps=30), n_draws=10),
        {"data_norm": uniform(0.5, 2.0)},
        mean_candidates=2.0,
        epsilon=4.0,
        random_state=0,
    ).fit(X, y)
    assert search.spent_epsilon_ <= 4.0 and search.best_score_ < 0.0
    assert search.predict(X[:3]).shape == (3,)
