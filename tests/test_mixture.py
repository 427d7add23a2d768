"""DPGaussianMixturePosterior as its users meet it."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdpbayes._estimator.mixture import MixtureDraws
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.preprocessing import RowNormClipper
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers import SGLD, Auto, Gibbs

KINDS = ["spherical", "diag", "tied", "full"]
rng = np.random.default_rng(0)
labels = rng.choice(2, size=1500, p=[0.7, 0.3])
X = rng.normal(np.where(labels[:, None] == 1, 1.0, -0.5), 0.25, size=(1500, 2))


def make(*args, **options):
    return DPGaussianMixturePosterior(*args, **{"random_state": 0, "n_draws": 20, **options})


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    return make(3, epsilon=5.0, covariance_type=request.param).fit(X)


@pytest.fixture(scope="module")
def mixture():
    return make(epsilon=2.0).fit(X)


# Fits


def test_fitted_attributes(fitted):
    weights, means, covariances = fitted.posterior_samples_
    kind = fitted.covariance_type
    shape = {"spherical": (3,), "diag": (3, 2), "tied": (2, 2), "full": (3, 2, 2)}[kind]
    assert weights.shape == (20, 3) and means.shape == (20, 3, 2)
    assert covariances.shape == (20, *shape) and fitted.covariances_.shape == shape
    assert all(np.isfinite(part).all() for part in fitted.posterior_samples_)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert fitted.n_features_in_ == 2 and fitted.data_norm_ == pytest.approx(np.sqrt(2))
    assert fitted.n_iter_ == fitted.plan_.n_updates
    assert fitted.temperature_ == fitted.plan_.temperature == 1
    assert 0.9 * fitted.epsilon < fitted.spent_epsilon_ <= fitted.epsilon
    assert fitted.privacy_cost_.epsilon(fitted.spent_delta_) == fitted.spent_epsilon_
    assert np.isfinite(fitted.score(X))
    assert set(fitted.predict(X)) <= {0, 1, 2}
    if kind in ("tied", "full"):
        covariances = np.linalg.eigvalsh(covariances)
    assert covariances.min() > 0


def test_every_fitted_attribute_is_public(mixture):
    """Nothing is kept but draws, their summaries, the plan and the schema of the table."""
    assert set(vars(mixture)) - set(mixture.get_params()) == {
        "_order",  # Of the draws' components.
        "_mixtures",  # The draws once more, with factors of precisions.
        "covariances_",
        "data_norm_",
        "means_",
        "n_components_",
        "n_features_in_",
        "n_iter_",
        "_charges_of_fit",  # Numbers in ledgers.
        "_parameters_of_fit",
        "plan_",
        "posterior_samples_",
        "precisions_",
        "privacy_cost_",
        "released_",
        "spent_delta_",
        "spent_epsilon_",
        "temperature_",
        "weights_",
    }


@pytest.mark.daily(1)
@pytest.mark.parametrize("kind", ["diag", "full"])
@pytest.mark.parametrize("n_samples, epsilon", [(1500, np.inf), (20_000, 3.0)])
def test_components_are_found(kind, n_samples, epsilon):
    rng = np.random.default_rng(1)
    first = rng.uniform(size=(n_samples, 1)) < 0.7
    rows = rng.normal(np.where(first, -0.5, 1.0), 0.25, size=(n_samples, 2))
    options = {"epsilon": epsilon, "covariance_type": kind, "data_norm": 2.5}
    estimator = make(**options).fit(rows)
    np.testing.assert_allclose(estimator.means_, [[-0.5, -0.5], [1.0, 1.0]], atol=0.06)
    np.testing.assert_allclose(estimator.weights_, [0.7, 0.3], atol=0.05)
    best = GaussianMixture(2, covariance_type=kind, random_state=0).fit(rows)
    assert 0 < best.score(rows) - estimator.score(rows) < 0.02
    assert (estimator.predict(rows) == ~first[:, 0]).mean() > 0.99


@pytest.mark.parametrize("sampler", ["sghmc", "dp_mh", "ops", "sgfs", "bbb"])
def test_samplers_that_are_not_for_mixtures_are_refused(sampler):
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        with pytest.raises(ValueError, match=f"sampler='{sampler}' does not support mixtures"):
            make(sampler=sampler).fit(X)
    assert ledger.spent_epsilon == 0.0


def test_add_or_remove_one_uses_the_public_size_only():
    options = {"neighboring_relation": "add_or_remove_one", "public_size": 1400}
    full, fewer = (make(**options).fit(X[:n]) for n in (1500, 1300))
    assert full.spent_epsilon_ == fewer.spent_epsilon_ <= 1.0
    assert full.plan_.n_samples == 1400


def test_the_plan_beforehand_costs_what_the_fit_costs(mixture):
    plan = make(epsilon=2.0).privacy_plan(1500, 2)
    assert plan.epsilon == mixture.spent_epsilon_ and plan.delta == mixture.spent_delta_ == 1e-5
    assert plan.n_draws == mixture.plan_.n_draws == 20
    assert plan.n_steps == mixture.plan_.n_steps
    assert "replace-one" in str(plan) and "target of your own" not in str(plan)


def test_nothing_reads_the_table_again(mixture):
    for name in ("fit_predict", "bic", "aic", "labels_"):
        assert not hasattr(mixture, name)


def test_clones_and_pickles(mixture):
    assert repr(clone(mixture).get_params()) == repr(mixture.get_params())
    copied = pickle.loads(pickle.dumps(mixture))
    np.testing.assert_array_equal(copied.predict_proba(X), mixture.predict_proba(X))
    assert isinstance(copied.posterior_samples_, MixtureDraws)


def test_pipelines_and_searches():
    pipeline = make_pipeline(RowNormClipper(1.5), make(data_norm=1.5)).fit(X)
    assert pipeline.predict_proba(X[:5]).shape == (5, 2)
    assert np.isfinite(pipeline.score(X))
    search = GridSearchCV(make(n_draws=10), {"epsilon": [0.05, 20.0]}, cv=2).fit(X)
    assert search.best_params_ == {"epsilon": 20.0}
    assert search.score_samples(X).shape == (1500,)


def test_kinds_of_tables_agree(mixture, tmp_path):
    path = tmp_path / "table.npy"
    np.save(path, X)
    tables = {
        "memmap": np.load(path, mmap_mode="r"),
        "fortran": np.asfortranarray(X),
        "pandas": pd.DataFrame(X, columns=["a", "b"]),
        "polars": pl.DataFrame(X, schema=["a", "b"]),
        "list": X.tolist(),
    }
    expected = mixture.posterior_samples_.means
    for kind, table in tables.items():
        other = make(epsilon=2.0).fit(table)
        np.testing.assert_allclose(
            other.posterior_samples_.means, expected, atol=1e-6, err_msg=kind
        )
        np.testing.assert_allclose(other.score_samples(table), mixture.score_samples(X), atol=1e-4)
        if kind in ("pandas", "polars"):
            assert list(other.feature_names_in_) == ["a", "b"]


@pytest.mark.nightly
def test_single_precision_is_kept_in_tables_and_not_in_densities(mixture):
    """Compiled for its own kind of table."""
    small = X.astype(np.float32)
    other = make(epsilon=2.0).fit(small)
    np.testing.assert_allclose(other.means_, mixture.means_, atol=0.01)
    assert other.score_samples(small).dtype == np.float64


def test_draws_for_arviz(fitted):
    pytest.importorskip("arviz")
    posterior = fitted.to_arviz()["posterior"]
    features = {"feature": 2, "other_feature": 2}
    sizes = {
        "spherical": {"component": 3},
        "diag": {"component": 3, "feature": 2},
        "tied": features,
        "full": {"component": 3, **features},
    }
    chains = {"chain": 2, "draw": 10}
    assert dict(posterior["weights"].sizes) == {**chains, "component": 3}
    assert dict(posterior["means"].sizes) == {**chains, "component": 3, "feature": 2}
    assert dict(posterior["covariances"].sizes) == {**chains, **sizes[fitted.covariance_type]}
    assert list(posterior["feature"].values) == ["x0", "x1"]
    assert posterior.attrs["epsilon"] == fitted.spent_epsilon_


def test_more_components_than_rows_and_one_component():
    many = make(8).fit(X[:5])
    assert many.means_.shape == (8, 2) and np.isfinite(many.score(X))
    one = make(1, epsilon=np.inf).fit(X)
    assert one.weights_ == pytest.approx(1.0)
    np.testing.assert_array_equal(one.predict_proba(X[:4]), np.ones((4, 1)))


# Bad input: an error that names what is wrong, before anything is spent


@pytest.mark.parametrize(
    "options, named",
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 2.5}, "n_components"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": np.nan}, "epsilon"),
        ({"epsilon": None}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": 0.0}, "delta"),
        ({"covariance_type": "round"}, "covariance_type"),
        ({"covariance_type": None}, "covariance_type"),
        ({"data_norm": 0.0}, "data_norm"),
        ({"data_norm": np.inf}, "data_norm"),
        ({"data_norm": 1e200}, "data_norm"),
        ({"data_norm": 1e-200}, "data_norm"),
        ({"weight_concentration_prior": 0.0}, "weight_concentration_prior"),
        ({"mean_prior_scale": -1.0}, "mean_prior_scale"),
        ({"degrees_of_freedom_prior": 0.0}, "degrees_of_freedom_prior"),
        ({"degrees_of_freedom_prior": 1.0, "covariance_type": "full"}, "degrees_of_freedom_prior"),
        ({"covariance_prior": np.nan}, "covariance_prior"),
        ({"sampler": "gibbs"}, "epsilon=1"),
        ({"sampler": "slice"}, "sampler"),
        ({"sampler": Auto(temperature=0.5)}, "temperature"),
        ({"n_draws": "all"}, "n_draws"),
        ({"n_draws": 0}, "n_draws"),
        ({"sampler": Auto(n_steps=10)}, "n_steps"),
        ({"sampler": Auto(temperature=2.0)}, "temperature"),
        ({"sampler": Gibbs(n_steps=0), "epsilon": np.inf}, "n_steps"),
        ({"sampler": Gibbs(n_steps=10), "epsilon": np.inf}, "n_draws"),
        ({"sampler": Gibbs(burn_in=1.0), "epsilon": np.inf}, "burn_in"),
        ({"sampler": SGLD(step_size=1e-6)}, "sgld"),
        ({"neighboring_relation": "substitute"}, "neighboring_relation"),
        ({"neighboring_relation": "add_or_remove_one"}, "public_size"),
        ({"public_size": 1500}, "public_size"),
        ({"random_state": -1}, "random_state"),
        ({"verbose": "yes"}, "verbose"),
    ],
)
def test_parameters(options, named):
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        with pytest.raises((ValueError, TypeError), match=named):
            make(**options).fit(X)
    assert ledger.spent_epsilon == 0.0, "what is refused costs nothing"


def spoiled(value):
    table = X.copy()
    table[3, 1] = value
    return table


@pytest.mark.parametrize(
    "table, named",
    [
        (spoiled(np.nan), "NaN"),
        (spoiled(np.inf), "infinity"),
        (np.empty((0, 2)), "0 sample"),
        (np.empty((100, 0)), "0 feature"),
        (X[:, 0], "2D array"),
        (X[None], "dim 3"),
        (X + 1j, "Complex"),
        (sp.csr_array(X), "dense"),
        (np.array([["Jane", "Doe"]] * 9, dtype=object), "text"),
        (pd.DataFrame({"a": X[:, 0], "job": ["x"] * 1500}), "job.*OneHotEncoder"),
        (None, "2D array"),
    ],
)
def test_tables(table, named, mixture):
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        with pytest.raises((ValueError, TypeError), match=named):
            make().fit(table)
    assert ledger.spent_epsilon == 0.0
    for method in (mixture.predict_proba, mixture.predict, mixture.score_samples, mixture.score):
        with pytest.raises((ValueError, TypeError)):
            method(table)


@pytest.mark.parametrize("arguments", [(0, 3), (10, 0), (9.5, 3), ("10", 3), (10, 2.5)])
def test_plans_of_nothing(arguments):
    with pytest.raises((ValueError, TypeError), match="n_samples|n_features"):
        make().privacy_plan(*arguments)
    with pytest.raises(ValueError, match="epsilon"):
        make(epsilon=-1).privacy_plan(100, 3)


# The posterior given what was released, which is the default


@pytest.fixture(scope="module", params=KINDS)
def calibrated(request):
    return DPGaussianMixturePosterior(
        2, epsilon=5.0, covariance_type=request.param, data_norm=2.5, n_draws=50, random_state=0
    ).fit(X)


def test_the_default_is_noise_aware_and_finds_the_components(calibrated):
    assert calibrated.plan_.name == "noise_aware" and calibrated.plan_.is_calibrated
    assert calibrated.temperature_ == 1.0 and calibrated.spent_epsilon_ <= 5.0
    assert calibrated.n_iter_ == calibrated.plan_.start_passes + 6
    np.testing.assert_allclose(calibrated.means_, [[-0.5, -0.5], [1.0, 1.0]], atol=0.1)
    np.testing.assert_allclose(calibrated.weights_, [0.7, 0.3], atol=0.06)
    best = GaussianMixture(2, covariance_type=calibrated.covariance_type, random_state=0).fit(X)
    assert best.score(X) - calibrated.score(X) < 0.05


def test_any_number_of_draws_is_free_and_has_the_same_labels(calibrated):
    many = calibrated.sample_posterior(1000, random_state=1)
    assert many.weights.shape == (1000, 2)
    for drawn, kept in zip(many, calibrated.posterior_samples_, strict=True):
        error = 1.5 * drawn.std(axis=0)  # Fifty draws are worth at least ten.
        assert (np.abs(drawn.mean(axis=0) - kept.mean(axis=0)) <= error).all()
    again = calibrated.sample_posterior(1000, random_state=1)
    np.testing.assert_array_equal(many.means, again.means)


def test_intervals_and_their_table(calibrated):
    interval, table = calibrated.posterior_interval(0.8), calibrated.summary(0.8)
    for part, mean in zip(
        interval, (calibrated.weights_, calibrated.means_, calibrated.covariances_), strict=True
    ):
        assert part.shape == (*mean.shape, 2)
        assert (part[..., 0] < part[..., 1]).all()
    assert list(table.columns)[2:4] == ["10%", "90%"]
    assert {"weights[0]", "means[1, x1]"} < set(table.index)
    np.testing.assert_array_equal(table["10%"].iloc[:2], interval.weights[:, 0])
    assert (table["sd_without_privacy"] < 1.4 * table["sd"]).all()
    assert (table["sd_without_privacy"].loc[["weights[0]"]] > 0.003).all()


def test_a_level_is_a_share(mixture):
    with pytest.raises(ValueError, match="level"):
        mixture.posterior_interval(1.5)


def test_samples_may_have_to_be_within_bounds(calibrated):
    rows, labels = calibrated.sample(2000, 0, bounds=(-0.5, [1.0, np.inf]))
    assert rows.shape == (2000, 2) and labels.shape == (2000,)
    assert rows.min() >= -0.5 and rows[:, 0].max() <= 1.0 < rows[:, 1].max()
    free, _ = calibrated.sample(50_000, 1)
    inside = free[((free >= -0.5) & (free <= [1.0, np.inf])).all(axis=1)]
    np.testing.assert_allclose(rows.mean(axis=0), inside.mean(axis=0), atol=0.06)


@pytest.mark.parametrize(
    "bounds, named",
    [
        ((50.0, 60.0), "within the bounds"),
        ((1.0, 0.0), "low"),
        ((0.0, [1.0] * 3), "columns"),
        ((0,), "pair"),
    ],
)
def test_bounds_that_cannot_be_meant(calibrated, bounds, named):
    with pytest.raises(ValueError, match=named):
        calibrated.sample(10, 0, bounds=bounds)


def test_one_component_is_never_behind_noisy_moments():
    """Columns that hang together: released moments of the ball have noise of the size of all of it."""
    rng = np.random.default_rng(0)
    rows = 0.4 * rng.normal(size=(8000, 1)) + 0.05 * rng.normal(size=(8000, 4))
    exact = GaussianMixture(1).fit(rows).score(rows)
    one = DPGaussianMixturePosterior(1, epsilon=1.0, covariance_type="full", random_state=0)
    assert exact - one.fit(rows).score(rows) < 0.05


def test_too_many_components_are_told_before_the_fit():
    many = DPGaussianMixturePosterior(8, random_state=0)
    assert "more than 1,500 rows can tell apart" in many.privacy_plan(1500, 2).warnings[0]


@pytest.mark.daily(2)
@pytest.mark.parametrize("epsilon", [1e-2, 1e3])
@pytest.mark.parametrize("kind", ["zero", "one", "huge", "tiny"])
def test_tables_that_say_nothing_still_have_a_posterior(epsilon, kind):
    table = {
        "zero": np.zeros((6, 2)),
        "one": np.ones((1, 2)),
        "huge": 1e300 * rng.normal(size=(6, 2)),
        "tiny": 1e-310 * rng.normal(size=(6, 2)),
    }[kind]
    for covariance_type in ("diag", "full"):
        fit = DPGaussianMixturePosterior(
            2, epsilon=epsilon, covariance_type=covariance_type, n_draws=20, random_state=0
        ).fit(table)
        assert all(np.isfinite(part).all() for part in fit.posterior_samples_)


@pytest.mark.parametrize("kind", ["spherical", "diag", "tied", "full"])
def test_rows_beyond_the_norm_are_told(kind):
    rng = np.random.default_rng(0)
    far = rng.choice([-2.0, 2.0], size=(4000, 1)) + 0.3 * rng.normal(size=(4000, 2))
    for rows, is_told in ((far, True), (0.3 * far, False)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = DPGaussianMixturePosterior(2, epsilon=3.0, covariance_type=kind, random_state=0)
            model.fit(rows)
        assert any("most are clipped" in str(one.message) for one in caught) == is_told
