"""Private regressors: numbers and counts, exposures, predictions and their intervals."""

import pickle
import warnings
from types import SimpleNamespace

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from regressors import counts, numbers, poisson, ridge
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import PoissonRegressor

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes._estimator.regressor import mixture_quantile
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.models import Normal, Poisson
from skdpbayes.models.families.normal import ErrorLaw
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers import Gibbs


def test_without_privacy_counts_are_fitted_as_by_maximum_likelihood():
    X, y, exposure = counts()
    model = poisson(epsilon=np.inf, sampler="auto", n_draws="auto", prior_scale=10.0)
    model.fit(X, y, exposure=exposure)
    reference = PoissonRegressor(alpha=0.0, tol=1e-9, max_iter=1000)
    reference.fit(X, y / exposure, sample_weight=exposure)
    deviations = model.posterior_samples_[:, 0].std(axis=0)
    assert (np.abs(model.coef_ - reference.coef_) < 0.2 * deviations[:3]).all()
    assert abs(model.intercept_ - reference.intercept_) < 0.2 * deviations[3]
    information = (np.c_[X, np.ones(len(X))].T * model.predict(X, exposure)) @ np.c_[
        X, np.ones(len(X))
    ]
    expected = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(deviations, expected, rtol=0.1)
    assert model.predict(X) == pytest.approx(reference.predict(X), rel=0.01)
    assert model.predict(X, exposure) == pytest.approx(exposure * model.predict(X))
    rates = model.score(X, y, exposure=np.ones(len(X)))
    assert model.score(X, y, exposure=exposure) > rates


def test_new_counts_are_of_rows_that_are_exposed():
    """Of a known law: 100 draws that are all alike."""
    model = poisson().fit(np.zeros((200, 1)), np.ones(200))
    model.posterior_samples_ = np.tile([0.0, np.log(3.0)], (100, 1, 1))
    rows, exposure = np.zeros((3, 1)), np.array([0.5, 1.0, 20.0])
    with pytest.warns(UserWarning, match="not a calibrated posterior"):
        found = model.prediction_interval(rows, 0.9, exposure=exposure)
    np.testing.assert_array_equal(found, np.c_[stats.poisson(3 * exposure).interval(0.9)])
    counts = model.posterior_predictive(rows, 4000, random_state=0, exposure=exposure)
    deviations = np.sqrt(3.0 * exposure / 4000)
    assert (np.abs(counts.mean(axis=0) - 3.0 * exposure) < 4.0 * deviations).all()
    for method in (model.prediction_interval, model.posterior_predictive):
        with pytest.raises(ValueError, match="exposure must be positive"):
            method(rows, exposure=[1.0, 0.0, 1.0])


@pytest.mark.parametrize("unit, is_told", [(1.0, False), (0.01, False), (500.0, True)])
def test_an_unsuitable_unit_of_exposure_is_told(unit, is_told):
    X, y, exposure = counts()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        poisson(n_draws="auto", sampler="sgfs").fit(X, y, exposure=unit * exposure)
    told = [str(one.message) for one in caught if "larger unit" in str(one.message)]
    assert len(told) == is_told and all("budget again" in text for text in told)


def test_a_chain_of_counts_names_the_calibrated_sampler():
    model = poisson().fit(np.zeros((200, 1)), np.ones(200))
    named = r"their level\. sampler='clipped_residuals' gives calibrated draws\.$"
    with pytest.warns(UserWarning, match=named):
        model.posterior_interval()


def test_the_unit_of_exposure_moves_the_intercept_alone():
    X, y, exposure = counts()
    options = {"epsilon": np.inf, "sampler": "sgfs", "n_draws": 200, "prior_scale": 50.0}
    a = poisson(**options).fit(X, y, exposure=exposure)
    b = poisson(**options).fit(X, y, exposure=12.0 * exposure)
    assert a.coef_ == pytest.approx(b.coef_, abs=0.02)
    assert a.intercept_ == pytest.approx(b.intercept_ + np.log(12.0), abs=0.02)


def quadrature(X, y, half, scale, intercept_scale, learns):
    """Means and covariance of a normal model's coefficients, noise and prior scale integrated on a grid."""
    Z, d = np.c_[X, np.ones(len(X))], X.shape[1]
    found = []
    for log_noise in np.linspace(np.log(0.2), np.log(1.2), 60):
        for log_tau in np.linspace(-5.0, 5.0, 61) if learns else [0.0]:
            noise, tau = np.exp(log_noise), np.exp(log_tau)
            prior = np.r_[np.full(d, scale * tau), intercept_scale] ** 2
            law = stats.multivariate_normal(
                np.zeros(len(y)), (Z * prior) @ Z.T + noise**2 * np.eye(len(y))
            )
            # Half-Cauchy in the scales, times the derivative of their logarithms.
            weight = law.logpdf(y) + log_noise - np.log1p((noise / half) ** 2)
            weight += log_tau - np.log1p(tau**2) if learns else 0.0
            precision = Z.T @ Z / noise**2 + np.diag(1.0 / prior)
            mean = np.linalg.solve(precision, Z.T @ y / noise**2)
            found.append((weight, noise, scale * tau, mean, np.linalg.inv(precision)))
    weights = np.array([one[0] for one in found])
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    means = np.array([one[3] for one in found])
    mean = weights @ means
    covariance = np.einsum("i,ijk", weights, np.array([one[4] for one in found]))
    covariance += (means - mean).T @ (weights[:, None] * (means - mean))
    return (
        mean,
        covariance,
        weights @ [one[1] for one in found],
        weights @ np.log([one[2] for one in found]),
    )


@pytest.mark.daily(1)
@pytest.mark.parametrize("learns", [False, True])
def test_gibbs_sampling_draws_from_the_posterior_by_quadrature(learns):
    X, y = numbers(40)
    prior = {} if learns else {"prior_scale": 0.7, "intercept_prior_scale": 3.0}
    model = ridge(sampler=Gibbs(n_steps=14_000), n_draws=10_000, **prior).fit(X, y)
    # By default the prior scale of coefficients is around half the bounds over the norm.
    scales = (6.0 / np.sqrt(3.0), 6.0) if learns else (0.7, 3.0)
    mean, covariance, noise, log_scale = quadrature(X, y - 2.0, 6.0, *scales, learns)
    mean[-1] += 2.0
    draws, deviations = model.posterior_samples_[:, 0], np.sqrt(np.diag(covariance))
    assert (np.abs(draws.mean(axis=0) - mean) < 0.06 * deviations).all()
    scaled = (np.cov(draws.T) - covariance) / np.outer(deviations, deviations)
    assert np.abs(scaled).max() < 0.08
    assert model.noise_samples_.mean() == pytest.approx(noise, rel=0.02)
    if learns:
        found = np.log(model.released_["prior_scale"]).mean()
        assert found == pytest.approx(log_scale, abs=0.06)
    else:
        assert model.lambda_ == pytest.approx(0.7**-2)


def test_a_ridge_has_the_attributes_of_scikit_learns():
    X, y = numbers()
    model = ridge().fit(X, y)
    assert model.coef_.shape == (3,) and isinstance(model.intercept_, float)
    assert model.sigma_.shape == (3, 3) and model.target_bounds_ == (-4.0, 8.0)
    assert model.alpha_ == pytest.approx(4.0, rel=0.15)
    mean, deviation = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, X @ model.coef_ + model.intercept_, rtol=1e-10)
    assert (deviation > 0.45).all() and (deviation < 0.56).all()
    assert 0.4 < model.score(X, y) < 0.9


def test_without_an_intercept_predictions_pass_through_zero():
    X, y = numbers()
    model = ridge(fit_intercept=False).fit(X, y)
    assert model.intercept_ == 0.0 and model.posterior_samples_.shape[2] == 3
    assert model.predict(np.zeros((1, 3))) == 0.0
    assert model.target_bounds_ == (-8.0, 8.0)


def test_plans_of_counts_say_what_is_known_of_intervals():
    plans = {
        name: poisson(sampler=name).privacy_plan(20_000, 8).summary()
        for name in ("auto", "sghmc", "clipped_residuals")
    }
    line = plans["sghmc"]["intervals"]
    assert "not known beforehand" in line and "'clipped_residuals' says it" in line
    for name in ("auto", "clipped_residuals"):
        assert "times as wide as without privacy" in plans[name]["intervals"]
    assert "intervals" not in poisson(epsilon=np.inf).privacy_plan(20_000, 8).summary()
    told = str(ridge(epsilon=1.0).privacy_plan(20_000, 8))
    assert "times as wide" in told


def test_new_responses_keep_public_bounds():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (5000, 2))
    costs = np.minimum(rng.exponential(np.exp(X[:, 0])), 20.0)
    model = ridge(target_bounds=(0.0, 20.0), epsilon=10.0).fit(X, costs)
    low, high = model.prediction_interval(X, 0.9).T
    assert low.min() == 0.0 and high.max() <= 20.0
    assert np.mean((low <= costs) & (costs <= high)) > 0.85
    # Draws average to predictions, which draws within bounds would not.
    drawn = model.posterior_predictive(X, random_state=0)
    assert drawn.mean() == pytest.approx(model.predict(X).mean(), abs=0.01) and drawn.min() < 0.0
    # Without an intercept bounds are made symmetric, and responses are not.
    through_zero = ridge(target_bounds=(0.0, 20.0), epsilon=10.0, fit_intercept=False)
    assert through_zero.fit(X, costs).prediction_interval(X, 0.9).min() == 0.0
    # Bounds that were learnt are none of responses.
    learnt = ridge(target_bounds="auto", epsilon=10.0).fit(X, costs)
    learnt.set_params(target_bounds=(0.0, 20.0))
    assert learnt.prediction_interval(X, 0.9)[:, 0].min() < 0.0


def test_prediction_intervals_hold_new_responses_as_often_as_they_say():
    X, y, _ = counts(4000)
    model = poisson(epsilon=np.inf, sampler="sgfs", n_draws=100).fit(
        X[:2000], np.minimum(y, 15)[:2000]
    )
    new, _ = counts(4000, seed=5)[:2]
    fresh = np.random.default_rng(1).poisson(np.exp(0.5 + new @ [0.8, -0.5, 0.0]))
    low, high = model.prediction_interval(new, 0.8).T
    assert np.array_equal(low, np.floor(low)) and np.array_equal(high, np.floor(high))
    # Counts have no interval of exactly this probability.
    assert 0.8 <= np.mean((low <= fresh) & (fresh <= high)) < 0.95
    X, y = numbers(6000)
    model = ridge(n_draws=200).fit(X[:2000], y[:2000])
    low, high = model.prediction_interval(X[2000:], 0.8).T
    assert np.mean((low < y[2000:]) & (y[2000:] < high)) == pytest.approx(0.8, abs=0.03)
    drawn = model.posterior_predictive(X[:5], 4000, random_state=0)
    assert drawn.shape == (4000, 5)
    mean, deviation = model.predict(X[:5], return_std=True)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5 * 0.5 / np.sqrt(4000))
    np.testing.assert_allclose(drawn.std(axis=0), deviation, rtol=0.08)


@pytest.mark.parametrize("probability", [0.05, 0.5, 0.999])
def test_quantiles_of_mixtures_are_exact(probability, rng):
    logits, noise = rng.normal(size=(20, 30)) * 3.0, rng.uniform(0.1, 2.0, size=30)
    found = mixture_quantile(Normal(-1.0, 1.0), probability, logits, noise)
    at = stats.norm.cdf(found[:, None], logits, noise).mean(axis=1)
    np.testing.assert_allclose(at, probability, atol=1e-6)
    found = mixture_quantile(Poisson(9.0), probability, logits, None)
    up_to = stats.poisson.cdf(found[:, None], np.exp(logits)).mean(axis=1)
    below = stats.poisson.cdf(found[:, None] - 1, np.exp(logits)).mean(axis=1)
    assert (found >= 0).all() and (up_to >= probability).all() and (below < probability).all()


@pytest.mark.parametrize("skewness", [-1.5, -0.4, 0.0, 0.01, 1.5])
def test_errors_have_the_moments_that_they_are_said_to_have(skewness, rng):
    law = ErrorLaw(np.array([2.0]), skewness)
    edges = np.linspace(-40.0, 40.0, 400_001)
    masses, middles = np.diff(law.cdf(edges[:, None])[:, 0]), edges[:-1] + 1e-4
    moments = [masses @ middles**k for k in range(4)]
    np.testing.assert_allclose(moments, [1.0, 0.0, 4.0, 8.0 * skewness], atol=5e-3)
    drawn = law.simulated((200_000, 1), rng)[:, 0]
    assert stats.kstest(drawn, lambda x: law.cdf(x[:, None])[:, 0]).pvalue > 1e-4
    logits = rng.normal(size=(5, 1))
    found = mixture_quantile(Normal(-1.0, 1.0), 0.05, logits, law)
    np.testing.assert_allclose(law.cdf(found[:, None] - logits), 0.05, atol=1e-6)


@pytest.mark.parametrize("deviation", [0.02, 2.0, 30.0])
@pytest.mark.parametrize("probability", [0.0005, 0.05, 0.95, 0.9995])
def test_quantiles_of_mixtures_take_few_looks_at_a_law(deviation, probability, rng):
    """Where draws are close together; where they are not, quantiles are still found, up to 1e60."""
    logits = 2.0 * rng.normal(size=(300, 1)) + deviation * rng.normal(size=(300, 50))
    for family, noise in ((Normal(-1.0, 1.0), np.full(50, 0.3)), (Poisson(9.0), None)):
        evaluated = []

        def counted(values, *others, family=family, evaluated=evaluated):
            evaluated.append(len(values))
            return family.cdf(values, *others)

        law = SimpleNamespace(
            cdf=counted, prediction=family.prediction, whole_numbers=family.whole_numbers
        )
        found = mixture_quantile(law, probability, logits, noise)
        up_to = family.cdf(found[:, None], logits, noise).mean(axis=1)
        assert np.isfinite(found).all() and np.all(up_to >= probability - 1e-6)
        assert deviation > 0.1 or sum(evaluated) <= 6 * 300


@pytest.mark.parametrize("make", [poisson, ridge], ids=["poisson", "ridge"])
def test_tables_of_all_kinds_give_the_same_draws(make):
    X, y, _ = counts(600)
    y, weights = y.astype(float), np.linspace(0.0, 1.0, 600)
    model = make()
    expected = clone(model).fit(X, y, weights)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    tables = {
        "frame": (frame, pd.Series(y), pd.Series(weights)),
        "sparse": (sp.csr_array(X), y, weights),
        "dask": tuple(da.from_array(one, chunks=200) for one in (X, y, weights)),
    }
    tables["dask"] = (tables["dask"][0].rechunk((200, 3)), *tables["dask"][1:])
    for name, table in tables.items():
        found = clone(model).fit(*table)
        np.testing.assert_allclose(
            found.posterior_samples_, expected.posterior_samples_, rtol=1e-6, err_msg=name
        )
        np.testing.assert_allclose(found.predict(table[0]), expected.predict(X), rtol=1e-6)
    single = clone(model).fit(X.astype(np.float32), y, weights)
    np.testing.assert_allclose(single.coef_, expected.coef_, atol=1e-3)
    assert not np.array_equal(clone(model).fit(X, y).coef_, expected.coef_)
    assert pickle.loads(pickle.dumps(expected)).coef_ == pytest.approx(expected.coef_)


def test_exposures_may_be_in_parts_or_a_column_and_weigh_nothing_if_equal():
    X, y, exposure = counts(600)
    expected = poisson().fit(X, y, exposure=exposure)
    parts = [da.from_array(one, chunks=200) for one in (y, exposure)]
    found = poisson().fit(da.from_array(X, chunks=(200, 3)), parts[0], exposure=parts[1])
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6)
    for column in (exposure[:, None], pd.DataFrame({"years": exposure})):
        of_column = poisson().fit(X, y, exposure=column)
        assert np.array_equal(of_column.posterior_samples_, expected.posterior_samples_)
        np.testing.assert_array_equal(
            of_column.predict(X, exposure=column), expected.predict(X, exposure=exposure)
        )
    ones, none = poisson().fit(X, y, exposure=np.ones(600)), poisson().fit(X, y)
    assert np.array_equal(ones.posterior_samples_, none.posterior_samples_)
    assert not np.array_equal(expected.coef_, none.coef_)


def test_summaries_and_intervals_name_columns():
    X, y, _ = counts()
    frame = pd.DataFrame(X, columns=["age", "sex", "dose"])
    model = poisson(epsilon=np.inf).fit(frame, y)
    assert list(model.summary().index) == ["age", "sex", "dose", "intercept"]
    interval = model.posterior_interval(0.9)
    assert interval.shape == (1, 4, 2) and (interval[..., 0] < interval[..., 1]).all()
    assert model.sample_posterior(5).shape == (5, 1, 4)
    with pytest.warns(UserWarning, match="not a calibrated posterior"):
        poisson(epsilon=1.0).fit(frame, y).prediction_interval(frame)


def test_a_ledger_that_does_not_allow_a_fit_spends_nothing():
    X, y, _ = counts()
    ledger = PrivacyLedger(epsilon=0.5, delta=1e-5)
    with ledger, pytest.raises(BudgetExceededError):
        poisson(epsilon=1.0, random_state=None).fit(X, y)
    assert ledger.spent_epsilon == 0.0


@pytest.mark.daily(1)
@pytest.mark.parametrize("target_bounds", [(-4.0, 8.0), "auto"])
def test_a_private_ridge_is_near_the_truth_and_knows_how_near(target_bounds):
    X, y = numbers(10_000)
    truth, wide = np.array([1.0, -0.5, 0.0, 2.0]), []
    for epsilon in (0.3, 3.0):
        model = ridge(target_bounds=target_bounds, epsilon=epsilon).fit(X, y)
        assert 0.999 * epsilon < model.spent_epsilon_ <= epsilon
        assert model.plan_.is_calibrated and model.privacy_cost_ == model.plan_.cost
        draws = model.posterior_samples_[:, 0]
        assert (np.abs(draws.mean(axis=0) - truth) < 4.0 * draws.std(axis=0)).all()
        assert model.noise_samples_.mean() == pytest.approx(0.5, abs=4 * model.noise_samples_.std())
        wide.append(draws.std(axis=0).mean())
    assert 0.8 * 0.5 / np.sqrt(10_000 / 3) < wide[1] < wide[0] < 0.1
    fresh = model.sample_posterior(300, random_state=0)
    assert fresh.shape == (300, 1, 4)
    assert fresh[:, 0, -1].mean() == pytest.approx(2.0, abs=0.05)
    assert model.summary()["share_of_privacy"].between(0.0, 1.0).all()


def test_persons_and_pipelines_take_regressors():
    X, y, _ = counts(4000)
    private = {"neighboring_relation": "add_or_remove_one", "public_size": 4000}
    model = poisson(max_rows_per_group=2, **private).fit(X, y, groups=np.arange(4000) // 4)
    assert model.plan_.persons is not None and model.spent_epsilon_ <= 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for scaler in (BoundedScaler(-1, 1), DPQuantileScaler(random_state=0)):
            for max_count in (15, "auto"):
                pipeline = make_private_pipeline(
                    scaler, poisson(max_count=max_count, sampler="sgfs")
                )
                pipeline.fit(X, y)
                assert pipeline.spent_epsilon_ <= 1.0 and pipeline.predict(X).shape == (4000,)


def test_pipelines_predict_intervals_and_draws_where_their_last_step_does():
    X, y, exposure = counts(600)
    scaled = {"boundedscaler__lower": -2.0, "boundedscaler__upper": 2.0}
    for model, extra in ((poisson(), {"exposure": exposure}), (ridge(epsilon=1.0), {})):
        pipeline = make_private_pipeline(BoundedScaler(-1, 1), model, epsilon=np.inf)
        pipeline.set_params(**scaled).fit(X, y)
        rows, last = BoundedScaler(-2.0, 2.0).fit(X).transform(X), pipeline[-1]
        for name, options in (
            ("prediction_interval", {"level": 0.8}),
            ("posterior_predictive", {"n_draws": 5, "random_state": 0}),
        ):
            expected = getattr(last, name)(rows, **options, **extra)
            np.testing.assert_array_equal(getattr(pipeline, name)(X, **options, **extra), expected)
            with pytest.raises(NotFittedError):
                getattr(clone(pipeline), name)(X)
    scaler = make_private_pipeline(DPQuantileScaler())
    classifier = make_private_pipeline(BoundedScaler(-1, 1), DPBayesianLogisticRegression())
    for other in (scaler, classifier):
        assert not hasattr(other, "prediction_interval")
        assert not hasattr(other, "posterior_predictive")


def test_intervals_of_a_collection_are_lazy_as_predictions_are():
    X, y = numbers()
    rows, events, exposure = counts()
    of_numbers, of_counts = ridge(n_draws=50).fit(X, y), poisson()
    of_counts.fit(rows, events, exposure=exposure)
    for model, table in ((of_numbers, X), (of_counts, rows)):
        lazy = da.from_array(table, chunks=(700, -1))
        interval = model.prediction_interval(lazy)
        assert isinstance(interval, da.Array) and interval.shape == (len(table), 2)
        np.testing.assert_allclose(interval.compute(), model.prediction_interval(table), rtol=1e-9)
    ends = model.prediction_interval(lazy, exposure=exposure)
    np.testing.assert_array_equal(ends, model.prediction_interval(rows, exposure=exposure))


def test_what_is_lazy_is_of_the_last_fit():
    X, y = numbers()
    model = ridge(n_draws=50).fit(X, y)
    lazy = model.prediction_interval(da.from_array(X, chunks=(700, -1)))
    model.set_params(n_draws=70).fit(X, 0.5 * y)
    np.testing.assert_allclose(lazy.compute(), model.prediction_interval(X), rtol=1e-9)
