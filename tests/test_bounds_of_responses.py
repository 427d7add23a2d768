"""Bounds of responses: given, learnt, and those of candidates in a search."""

import re
import warnings

import numpy as np
import pytest
from fit_warnings import refuse_fit_warnings
from regressors import counts, numbers, poisson, refused, ridge
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures

from skdpbayes import DPBayesianPoissonRegressor, DPBayesianRidge
from skdpbayes.exceptions import DataScalingWarning
from skdpbayes.metrics import (
    make_private_scorer,
)
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.preprocessing import BoundedScaler, DPOneHotEncoder
from skdpbayes.privacy import BoundedRangeDecisions, PrivacyCost, PrivacyLedger


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("data_norm", [None, "auto"])
def test_learnt_bounds_and_the_fit_use_up_the_budget_and_no_more(relation, data_norm):
    size = 3000 if relation == "add_or_remove_one" else None
    common = {"neighboring_relation": relation, "public_size": size, "data_norm": data_norm}
    model = poisson(max_count="auto", epsilon=1.0, sampler="sgfs", **common)
    plan = model.privacy_plan(3000, 5)
    assert 0.999 < plan.epsilon <= 1.0
    bits = BoundedRangeDecisions(plan.bound_release.log_odds_range, 1 + (data_norm == "auto"))
    assert plan.cost == PrivacyCost(relation, decisions=(bits,)) + plan.bound_release.cost_of_fit
    assert len(plan.bound_release.response_quantiles) == 1 and "responses" in str(plan)
    assert ("norm of rows" in str(plan)) == (data_norm == "auto")


def test_learnt_bounds_hold_most_responses_and_spend_what_was_planned():
    X, y, _ = counts(5000)
    model = poisson(max_count="auto", sampler="sgfs").fit(X, y)
    assert np.quantile(y, 0.99) < model.max_count_ < 3.0 * y.max()
    assert model.privacy_cost_ == model.privacy_plan(5000, 3).cost
    X, y = numbers(3000)
    model = ridge(target_bounds="auto").fit(X, y)
    low, high = model.target_bounds_
    assert low < y.min() and y.max() < high and high - low < 3.0 * np.ptp(y)
    with pytest.raises(ValueError, match="too few to learn bounds.*give public ones, max_count="):
        poisson(max_count="auto", epsilon=0.1).privacy_plan(50, 3)


@pytest.mark.parametrize(
    "bounds, told",
    [
        ((0.0, 20.0), None),
        ((13.0, 20.0), "seem to be at 13, an end"),
        ((100.0, 200.0), "seem to be at 100, an end"),
        ((-10.0, 0.0), "seem to be at 0, an end"),
        ((0.0, 2e6), "seem to be at 0, an end"),
        ((9.5, 10.5), "near both ends"),
    ],
)
def test_bounds_that_miss_most_responses_are_told(bounds, told):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(5000, 3))
    y = 10.0 + X @ [3.0, -2.0, 0.5] + rng.normal(size=5000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ridge(target_bounds=bounds, epsilon=1.0, n_draws=50).fit(X, y)
    found = [str(one.message) for one in caught if one.category is DataScalingWarning]
    assert len(found) == (told is not None) and all(told in text for text in found)


@pytest.mark.daily(2)
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
@pytest.mark.parametrize("law", ["exponential", "lognormal", "mostly the best"])
def test_nothing_is_told_of_bounds_that_skewed_responses_keep(law, epsilon):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, size=(5000, 3))
    means = np.exp(X @ [0.3, -0.2, 0.0])
    y, high = {
        "exponential": (means * rng.exponential(size=5000), 8.0),
        "lognormal": (means * rng.lognormal(size=5000), 25.0),
        "mostly the best": (rng.beta(5.0, 1.0, size=5000), 1.0),
    }[law]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataScalingWarning)
        ridge(target_bounds=(0.0, high), epsilon=epsilon, n_draws=50).fit(X, y)


def test_responses_beyond_the_bounds_count_as_the_bounds():
    X, y = numbers()
    far = np.where(y > 2.5, 1e6, y)
    a, b = (ridge(target_bounds=(0.0, 2.5)).fit(X, one) for one in (far, np.minimum(y, 2.5)))
    assert np.array_equal(a.posterior_samples_, b.posterior_samples_)
    X, y, _ = counts()
    a, b = (poisson(max_count=3).fit(X, one) for one in (np.where(y > 3, 900, y), np.minimum(y, 3)))
    assert np.array_equal(a.posterior_samples_, b.posterior_samples_)


@pytest.mark.parametrize("shift", [2015.4, 10052.0, 1.7003e9])
def test_learnt_bounds_hold_responses_whatever_their_level(rng, shift):
    X = rng.uniform(-1, 1, size=(5000, 2))
    y = shift + 0.05 * X[:, 0] + 0.01 * rng.normal(size=5000)
    with warnings.catch_warnings():
        refuse_fit_warnings()
        model = DPBayesianRidge(epsilon=np.inf, n_draws=50, random_state=0).fit(X, y)
    low, high = model.target_bounds_
    assert low < y.min() and y.max() < high < low + 5.0 * np.ptp(y)
    with pytest.warns(DataScalingWarning, match="as close as numbers of four digits"):
        model = DPBayesianRidge(epsilon=1.0, n_draws=50, random_state=0).fit(X, y)
    low, high = model.target_bounds_
    assert low < y.min() and y.max() < high


@pytest.mark.daily(2)
@pytest.mark.parametrize("unit", [1e-300, 1e-30, 1e-9, 1e18, 1e30, 1e300])
def test_learnt_bounds_and_norms_have_any_unit_that_a_fit_may_have(rng, unit):
    X = rng.uniform(-1, 1, size=(5000, 2))
    y = 4.0 * X[:, 0] + rng.normal(size=5000)
    model = DPBayesianRidge(epsilon=3.0, data_norm="auto", n_draws=50, random_state=0)
    if 1e-30 <= unit <= 1e30:
        model.fit(unit * X, unit * y)
        low, high = model.target_bounds_
        assert low < unit * y.min() and unit * y.max() < high < low + 5.0 * unit * np.ptp(y)
        assert unit < model.data_norm_ < 1.5 * unit
    else:
        with pytest.warns(
            DataScalingWarning, match="no fit can be made at the bounds that were drawn"
        ):
            model.fit(unit * X, unit * y)
        assert model.spent_epsilon_ > 2.9 and np.isfinite(model.coef_).all()


@pytest.mark.daily(1)
@pytest.mark.parametrize("unit", [1e-12, 1e7, 1e15])
def test_the_unit_of_responses_changes_nothing_but_that_of_coefficients(rng, unit):
    X = rng.uniform(-1, 1, size=(2000, 2))
    y = 20.0 + 4.0 * X[:, 0] + rng.normal(size=2000)
    expected = DPBayesianRidge((0.0, 60.0), random_state=0).fit(X, y)
    found = DPBayesianRidge((0.0, 60.0 * unit), random_state=0).fit(X, unit * y)
    np.testing.assert_allclose(found.coef_, unit * expected.coef_, rtol=1e-6)
    np.testing.assert_allclose(found.noise_samples_, unit * expected.noise_samples_, rtol=1e-6)


@pytest.mark.parametrize("times, is_told", [(1, False), (10, True)])
def test_learnt_bounds_that_are_far_too_wide_are_told(times, is_told):
    """Because the table has a tenth of the rows that were declared, quantiles are drawn from beyond it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2000, 2))
    y = 20.0 + 4.0 * X[:, 0] + rng.normal(size=2000)
    size = {"neighboring_relation": "add_or_remove_one", "public_size": 2000 * times}
    model = DPBayesianRidge(delta=1e-5, random_state=1, **size)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    told = [str(one.message) for one in caught if "that were learnt" in str(one.message)]
    assert bool(told) == is_told
    assert all("fewer than public_size says" in text for text in told)


@pytest.mark.parametrize(
    "model, named",
    [
        (DPBayesianRidge(), r"target_bounds='auto'.*pass target_bounds=\(low, high\)"),
        (DPBayesianPoissonRegressor(), "max_count='auto'.*pass max_count=a public number"),
        (
            DPBayesianRidge((0.0, 9.0), data_norm="auto"),
            "data_norm='auto'.*pass data_norm=a public",
        ),
    ],
)
def test_a_search_says_which_bounds_to_pass(rng, model, named):
    X = rng.uniform(-1, 1, size=(4000, 2))
    y = rng.poisson(np.exp(X[:, 0]))
    with PrivacyLedger(5.0, 1e-4, allow_seeds=True) as ledger:
        with pytest.raises(ValueError, match=named):
            DPRandomizedSearchCV(model, {"n_draws": [50]}, random_state=0).fit(X, y)
    assert ledger.spent_epsilon == 0.0


COLUMNS = {
    "more columns": PolynomialFeatures(2),
    "a selection": ColumnTransformer([("one", "passthrough", [0])]),
    "public categories": OneHotEncoder(
        categories=[[0.0], [0.0, 1.0]], handle_unknown="ignore", sparse_output=False
    ),
    "learnt categories": DPOneHotEncoder(),
    "a step from elsewhere": FunctionTransformer(lambda X: X[:, :1]),
}


@pytest.mark.parametrize("step", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize(
    "learnt", [{"target_bounds": "auto"}, {"target_bounds": (0.0, 9.0), "data_norm": "auto"}]
)
def test_a_search_refuses_learnt_bounds_behind_any_step_before_a_charge(rng, step, learnt):
    X = rng.uniform(-1, 1, size=(4000, 2)).round()
    model = make_pipeline(step, DPBayesianRidge(n_draws=50, **learnt))
    search = DPRandomizedSearchCV(model, {"dpbayesianridge__n_draws": [50]}, random_state=0)
    told = refused("77", search.fit, X, rng.poisson(2.0, size=4000))
    assert re.search(
        "is learnt in every fit|are learnt differ|only the last step spends|may learn from", told
    )


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("model", [poisson(max_rows_per_group=3), ridge(max_rows_per_group=3)])
def test_a_search_says_what_to_do_about_persons(model, is_inside):
    (X, y, _), model = counts(400), clone(model)
    estimator = make_pipeline(BoundedScaler(-1, 1), model) if is_inside else model
    prefix = f"{type(model).__name__.lower()}__" if is_inside else ""
    wanted = r"max_rows_per_group=3 protects persons.*pass fit\(X, y, groups"
    search = DPRandomizedSearchCV(estimator, {f"{prefix}data_norm": [1.0]}, random_state=0)
    assert re.search(wanted, refused("77", search.fit, X, y))
    estimator.set_params(**{f"{prefix}max_rows_per_group": None})
    told = refused("77", search.fit, X, y, groups=np.arange(400))
    assert re.search("choose how many rows of a person", told)
    search.set_params(param_distributions={f"{prefix}max_rows_per_group": [3]})
    assert re.search(wanted, refused("77", search.fit, X, y))
    search.set_params(param_distributions={f"{prefix}max_rows_per_group": [3, None]})
    search.set_params(mean_candidates=50.0, delta=1e-5)
    told = refused("77", search.fit, X, y, groups=np.arange(400))
    assert re.search("None for some candidates", told)


def test_candidates_are_not_scored_by_bounds_of_their_own(rng):
    X = rng.uniform(-1, 1, size=(2000, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=2000)
    model = DPBayesianRidge((-3.0, 3.0))
    search = DPRandomizedSearchCV(
        model, {"target_bounds": [(-3.0, 3.0), (-0.01, 0.01)]}, mean_candidates=2, random_state=0
    )
    with pytest.raises(ValueError, match="of which the narrowest win"):
        search.fit(X, y)
    learnt = DPBayesianRidge(epsilon=np.inf, n_draws=50, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="differ from fit to fit"):
        make_private_scorer("r2", epsilon=1.0)(learnt, X, y)
    scorer = make_private_scorer("r2", epsilon=1.0, target_bounds=(-3.0, 3.0), random_state=0)
    assert scorer(learnt, X, y) > 0.5


def test_bounds_of_persons_are_learnt_as_if_each_had_one_row(rng):
    X = rng.uniform(-1, 1, size=(60_000, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=60_000)
    model = DPBayesianRidge(epsilon=1.0, max_rows_per_group=10, random_state=0)
    for seed in range(3):
        model.set_params(random_state=seed).fit(X, y, groups=np.arange(60_000))
        low, high = model.target_bounds_
        assert 2.0 < high - low < 20.0
    with pytest.raises(ValueError, match="too few to learn bounds.*target_bounds=.low, high."):
        model.fit(X[:20_000], y[:20_000], groups=np.arange(20_000))
