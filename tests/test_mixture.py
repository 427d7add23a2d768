"""DPGaussianMixturePosterior as its users meet it."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from skdpbayes.privacy.mixture import MIXTURE_SAMPLERS
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdpbayes import _mixture_density
from skdpbayes.mixture import DPGaussianMixturePosterior, MixtureDraws
from skdpbayes.preprocessing import RowNormClipper
from skdpbayes.privacy import PrivacyLedger

KINDS = ["spherical", "diag", "tied", "full"]
rng = np.random.default_rng(0)
labels = rng.choice(2, size=1500, p=[0.7, 0.3])
X = rng.normal(np.where(labels[:, None] == 1, 1.0, -0.5), 0.25, size=(1500, 2))


def make(*args, **options):
    return DPGaussianMixturePosterior(
        *args, **{"random_state": 0, "n_steps": 200, "n_draws": 20, **options}
    )


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    return make(3, epsilon=5.0, covariance_type=request.param).fit(X)


@pytest.fixture(scope="module")
def mixture():
    return make(epsilon=2.0).fit(X)


# From draws: what is computed is checked against scipy


def some_draws(kind, n_draws=6, n_components=3, n_features=2, seed=0):
    """Return a fitted estimator without a fit: these draws are as good as any."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.arange(5, 5 + n_components), size=n_draws)
    means = rng.normal(size=(n_draws, n_components, n_features))
    shape = {
        "spherical": (n_components,),
        "diag": (n_components, n_features),
        "tied": (n_features, n_features),
        "full": (n_components, n_features, n_features),
    }
    factors = rng.normal(size=(n_draws, *shape[kind]))
    if kind in ("tied", "full"):
        diagonal = np.arange(n_features)
        factors = np.tril(factors)
        factors[..., diagonal, diagonal] = 0.5 + np.abs(factors[..., diagonal, diagonal])
    else:
        factors = 0.5 + np.abs(factors)
    estimator = make(n_components, covariance_type=kind)
    estimator.n_features_in_ = n_features
    estimator._summarise(weights, means, factors)
    return estimator


def matrices(estimator):
    """Covariance matrices of all draws and components."""
    weights, means, covariances = estimator.posterior_samples_
    eye = np.eye(means.shape[2])
    full = {
        "spherical": lambda c: c[..., None, None] * eye,
        "diag": lambda c: c[..., None] * eye,
        "tied": lambda c: c[:, None] + np.zeros((*weights.shape, 1, 1)),
        "full": lambda c: c,
    }
    return full[estimator.covariance_type](covariances)


def log_joint(estimator, rows):
    """log p(x, component | draw), of shape (n_rows, n_draws, n_components), by scipy."""
    weights, means, _ = estimator.posterior_samples_
    covariances = matrices(estimator)
    joint = np.empty((len(rows), *weights.shape))
    for s, k in np.ndindex(weights.shape):
        law = multivariate_normal(means[s, k], covariances[s, k])
        joint[:, s, k] = np.log(weights[s, k]) + law.logpdf(rows)
    return joint


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [2**18, 40, 1])
def test_densities_and_responsibilities_average_over_the_draws(kind, block, monkeypatch):
    monkeypatch.setattr(_mixture_density, "_BLOCK_ENTRIES", block)
    estimator = some_draws(kind)
    joint = log_joint(estimator, X[:50])
    expected = logsumexp(joint, axis=(1, 2)) - np.log(6)
    np.testing.assert_allclose(estimator.score_samples(X[:50]), expected, rtol=1e-10)
    assert estimator.score(X[:50]) == pytest.approx(expected.mean())
    expected = np.exp(joint - logsumexp(joint, axis=2, keepdims=True)).mean(axis=1)
    proba = estimator.predict_proba(X[:50])
    np.testing.assert_allclose(proba, expected, rtol=1e-10)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(estimator.predict(X[:50]), expected.argmax(axis=1))


@pytest.mark.parametrize("kind", KINDS)
def test_densities_integrate_to_one(kind):
    estimator = some_draws(kind, n_features=1)
    total, _ = quad(lambda x: np.exp(estimator.score_samples([[x]])[0]), -40, 40, limit=200)
    assert total == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_far_points_stay_finite(kind):
    estimator = some_draws(kind)
    far = np.array([[1e3, 0.0], [1e10, -1e10], [-1e150, 1e-150], [1e150, 1e150], [1e308, -1e308]])
    log_density = estimator.score_samples(far)
    assert np.isfinite(log_density).all() and (np.diff(log_density) < 0).all()
    np.testing.assert_allclose(estimator.predict_proba(far).sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_follow_the_law_of_the_draws(kind):
    estimator = some_draws(kind)
    weights, means, _ = estimator.posterior_samples_
    rows, components = estimator.sample(200_000, random_state=1)
    assert rows.shape == (200_000, 2) and components.shape == (200_000,)
    frequencies = np.bincount(components, minlength=3) / 200_000
    np.testing.assert_allclose(frequencies, weights.mean(axis=0), atol=0.01)
    shares = weights / weights.shape[0]
    mean = np.einsum("sk,skj->j", shares, means)
    gaps = means - mean
    second = matrices(estimator) + gaps[..., :, None] * gaps[..., None, :]
    covariance = np.einsum("sk,skij->ij", shares, second)
    deviation = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(rows.mean(axis=0), mean, atol=0.015 * deviation.max())
    np.testing.assert_allclose(np.cov(rows.T), covariance, atol=0.03 * deviation.max() ** 2)
    for k in range(3):
        expected = np.einsum("s,sj->j", weights[:, k] / weights[:, k].sum(), means[:, k])
        inside = rows[components == k]
        np.testing.assert_allclose(inside.mean(axis=0), expected, atol=0.04 * deviation.max())


def test_samples_repeat_with_their_seed_and_are_counted():
    estimator = some_draws("full")
    first, again = (estimator.sample(5, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first[0], again[0])
    assert estimator.sample()[0].shape == (1, 2)
    for wrong in (0, -1, 2.5, True, "all"):
        with pytest.raises(ValueError, match="n_samples"):
            estimator.sample(wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_summaries_have_the_shapes_of_gaussian_mixture(kind):
    estimator = some_draws(kind)
    reference = GaussianMixture(3, covariance_type=kind, random_state=0).fit(X)
    for name in ("weights_", "means_", "covariances_", "precisions_"):
        assert getattr(estimator, name).shape == getattr(reference, name).shape, name
    draws = estimator.posterior_samples_
    for name, part in zip(("weights_", "means_", "covariances_"), draws, strict=True):
        np.testing.assert_allclose(getattr(estimator, name), part.mean(axis=0))
    assert estimator.weights_.sum() == pytest.approx(1.0)
    assert (np.diff(estimator.weights_) <= 0).all()
    if kind in ("spherical", "diag"):
        np.testing.assert_allclose(estimator.precisions_ * estimator.covariances_, 1.0)
    else:
        product = estimator.precisions_ @ estimator.covariances_
        np.testing.assert_allclose(product, np.broadcast_to(np.eye(2), product.shape), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_relabelling_moves_all_of_a_component_and_no_density(kind, rng):
    estimator, again = some_draws(kind, 40), make(3, covariance_type=kind)
    again.n_features_in_ = 2
    weights, means, factors = estimator._mixtures
    order = np.array([rng.permutation(3) for _ in weights])
    chosen = (np.arange(40)[:, None], order)
    if kind == "spherical":
        factors = factors[:, :, 0]
    factors = factors[:, 0] if kind == "tied" else factors[chosen]
    again._summarise(weights[chosen], means[chosen], factors)
    np.testing.assert_allclose(again.score_samples(X[:9]), estimator.score_samples(X[:9]))
    for new, old in zip(again.posterior_samples_, estimator.posterior_samples_, strict=True):
        np.testing.assert_array_equal(new, old)


def test_sample_posterior_subsamples_without_replacement():
    estimator = some_draws("full", n_draws=30)
    everything = estimator.sample_posterior()
    assert isinstance(everything, MixtureDraws)
    for part, kept in zip(everything, estimator.posterior_samples_, strict=True):
        np.testing.assert_array_equal(part, kept)
        assert not np.shares_memory(part, kept)
    some = estimator.sample_posterior(10, random_state=0)
    assert [part.shape for part in some] == [(10, 3), (10, 3, 2), (10, 3, 2, 2)]
    first = some.means[:, 0, 0]
    places = [np.flatnonzero(estimator.posterior_samples_.means[:, 0, 0] == m)[0] for m in first]
    assert (np.diff(places) > 0).all(), "in their order, and no two the same"
    for wrong in (31, 0, -1, 2.5, "all", True):
        with pytest.raises(ValueError, match="n_draws"):
            estimator.sample_posterior(wrong)


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
    assert fitted.temperature_ == fitted.plan_.temperature >= 1
    assert 0.9 * fitted.epsilon < fitted.spent_epsilon_ <= fitted.epsilon
    assert fitted.privacy_cost_.epsilon(fitted.spent_delta_) == fitted.spent_epsilon_
    assert np.isfinite(fitted.score(X))
    assert set(fitted.predict(X)) <= {0, 1, 2}
    assert np.linalg.eigvalsh(matrices(fitted)).min() > 0


def test_every_fitted_attribute_is_public(mixture):
    """Nothing is kept but draws, their summaries, the plan and the schema of the table."""
    assert set(vars(mixture)) - set(mixture.get_params()) == {
        "_mixtures",  # The draws once more, with factors of precisions.
        "covariances_",
        "data_norm_",
        "means_",
        "n_features_in_",
        "n_iter_",
        "plan_",
        "posterior_samples_",
        "precisions_",
        "privacy_cost_",
        "spent_delta_",
        "spent_epsilon_",
        "temperature_",
        "weights_",
    }


@pytest.mark.parametrize("kind", ["diag", "full"])
@pytest.mark.parametrize("n_samples, epsilon", [(1500, np.inf), (20_000, 3.0)])
def test_components_are_found(kind, n_samples, epsilon):
    rng = np.random.default_rng(1)
    first = rng.uniform(size=(n_samples, 1)) < 0.7
    rows = rng.normal(np.where(first, -0.5, 1.0), 0.25, size=(n_samples, 2))
    options = {"epsilon": epsilon, "covariance_type": kind, "data_norm": 2.5}
    estimator = make(n_steps="auto", **options).fit(rows)
    np.testing.assert_allclose(estimator.means_, [[-0.5, -0.5], [1.0, 1.0]], atol=0.06)
    np.testing.assert_allclose(estimator.weights_, [0.7, 0.3], atol=0.05)
    best = GaussianMixture(2, covariance_type=kind, random_state=0).fit(rows)
    assert 0 < best.score(rows) - estimator.score(rows) < 0.02
    assert (estimator.predict(rows) == ~first[:, 0]).mean() > 0.99


@pytest.mark.parametrize("sampler", MIXTURE_SAMPLERS)
def test_every_sampler_fits(sampler):
    estimator = make(epsilon=5.0, sampler=sampler).fit(X)
    assert estimator.plan_.sampler == sampler
    assert np.isfinite(estimator.score(X))


def test_add_or_remove_one_uses_the_public_size_only():
    options = {"neighboring_relation": "add_or_remove_one", "public_size": 1400}
    full, fewer = (make(**options).fit(X[:n]) for n in (1500, 1300))
    assert full.spent_epsilon_ == fewer.spent_epsilon_ <= 1.0
    assert full.plan_.n_samples == 1400


def test_the_plan_beforehand_costs_what_the_fit_costs(mixture):
    plan = make(epsilon=2.0).privacy_plan(1500, 2)
    assert plan.epsilon == mixture.spent_epsilon_ and plan.delta == mixture.spent_delta_ == 1e-5
    assert plan.n_draws == mixture.plan_.n_draws == 20
    assert plan.n_steps == mixture.plan_.n_steps == 200
    assert "replace-one" in str(plan)


def test_nothing_reads_the_table_again(mixture):
    for name in ("fit_predict", "bic", "aic", "labels_"):
        assert not hasattr(mixture, name)


def test_clones_and_pickles(mixture):
    assert clone(mixture).get_params() == mixture.get_params()
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
        ({"sampler": "gibbs"}, "sampler"),
        ({"temperature": 0.5}, "temperature"),
        ({"n_draws": "auto"}, "n_draws"),
        ({"n_draws": 0}, "n_draws"),
        ({"n_steps": 0}, "n_steps"),
        ({"n_steps": 10}, "n_draws|n_steps"),
        ({"burn_in": 1.0}, "burn_in"),
        ({"batch_size": 1501}, "batch_size"),
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
