"""Gibbs sampling as users meet it: plans, starts, tables in shards, and what is refused."""

import math

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPGaussianMixturePosterior,
)
from skdpbayes._data.shards import LocalShards, Shard
from skdpbayes.models import MixtureModel, make_mixture
from skdpbayes.models.mixture import remote_mixture
from skdpbayes.privacy import Budget, PrivacyLedger
from skdpbayes.samplers import Gibbs, NoiseAware, sample
from skdpbayes.samplers.mixture import MixtureSampler

KINDS = ["spherical", "diag", "tied", "full"]
MODEL = MixtureModel(3, 2, "diag", 2.0, 1.0, 2.0, 4.0, 0.05)
NOT_PRIVATE = Budget(math.inf, 1e-5)
TRUTH = np.array([[1.2, 0.0], [-0.8, 1.0], [-0.8, -1.0]])


def blobs(n, seed=3):
    rng = np.random.default_rng(seed)
    return TRUTH[rng.choice(3, size=n, p=[0.5, 0.3, 0.2])] + 0.2 * rng.normal(size=(n, 2))


def make(*args, **options):
    return DPGaussianMixturePosterior(*args, **{"epsilon": math.inf, "random_state": 0, **options})


@pytest.mark.daily(1)
@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_found_and_known_as_well_as_they_can_be(kind):
    X = blobs(2000)
    mixture = make(3, covariance_type=kind, data_norm=2.0).fit(X)
    assert mixture.plan_.name == "gibbs" and mixture.temperature_ == 1.0
    assert mixture.spent_epsilon_ == math.inf and mixture.plan_.is_calibrated
    np.testing.assert_allclose(mixture.weights_, [0.5, 0.3, 0.2], atol=0.04)
    np.testing.assert_allclose(mixture.means_, TRUTH, atol=0.04)
    # Deviations are those of means of as many rows as each group has.
    _, means, covariances = mixture.posterior_samples_
    counts = 2000 * mixture.weights_
    expected = 0.2 / np.sqrt(counts)[:, None]
    np.testing.assert_allclose(means.std(axis=0), np.broadcast_to(expected, (3, 2)), rtol=0.35)
    if kind in ("tied", "full"):
        covariances = np.diagonal(covariances, axis1=-2, axis2=-1)
    np.testing.assert_allclose(covariances.mean(axis=0), 0.04, rtol=0.2)


def test_correlated_columns_are_found():
    rng = np.random.default_rng(0)
    covariances = 0.3 * np.array([[[1.0, 0.95], [0.95, 1.0]], [[1.0, -0.95], [-0.95, 1.0]]])
    labels = rng.choice(2, size=3000, p=[0.6, 0.4])
    moved = np.einsum(
        "nij,nj->ni", np.linalg.cholesky(covariances)[labels], rng.normal(size=(3000, 2))
    )
    X = np.array([[-1.5, 0.0], [1.5, 0.0]])[labels] + moved
    mixture = make(2, covariance_type="full", data_norm=5.0, covariance_prior=0.3).fit(X)
    np.testing.assert_allclose(mixture.covariances_, covariances, atol=0.04)


@pytest.mark.parametrize("kind", ["diag", "tied"])
def test_rows_in_parts_have_the_same_draws(kind):
    """Wherever rows are, and however many are together, allocations are those of one table."""
    model, X = MODEL._replace(covariance_type=kind, degrees_of_freedom=4.0), blobs(1500)
    plan = Gibbs(n_steps=60).plan(model, 1500, NOT_PRIVATE, n_draws=20)
    whole = sample(make_mixture(X, model), plan, random_state=1)
    cuts = np.split(X, [1, 400, 1100])
    parts = LocalShards([Shard(make_mixture(part, model)) for part in cuts], [len(c) for c in cuts])
    with parts:
        there = sample(remote_mixture(parts.address, 1500, model), plan, random_state=1)
    np.testing.assert_allclose(there, whole, rtol=1e-7)
    assert (sample(make_mixture(X, model), plan, random_state=2) != whole).any()


@pytest.mark.daily(1)
@pytest.mark.parametrize("kind", KINDS)
def test_tables_that_say_nothing_still_have_a_posterior(kind):
    rng = np.random.default_rng(0)
    tables = {
        "zero": np.zeros((6, 2)),
        "one": np.ones((1, 2)),
        "line": np.outer(np.arange(8) % 2 - 0.5, np.ones(2)),
        "huge": 1e300 * rng.normal(size=(6, 2)),
        "tiny": 1e-310 * rng.normal(size=(6, 2)),
    }
    for name, table in tables.items():
        for options in ({}, {"degrees_of_freedom_prior": 1.01, "weight_concentration_prior": 1e-3}):
            mixture = make(
                4, covariance_type=kind, n_draws=20, sampler=Gibbs(n_steps=60), **options
            )
            draws = mixture.fit(table).posterior_samples_
            assert all(np.isfinite(part).all() for part in draws), name
            assert np.isfinite(mixture.score_samples(table)).all(), name


# Plans


def test_a_plan_keeps_draws_that_are_evenly_spaced_after_the_burn_in():
    plan = Gibbs().plan(MODEL, 500, NOT_PRIVATE)
    assert (plan.n_steps, plan.n_burn_in, plan.n_draws) == (1000, 250, 100)
    for n_steps, n_draws, burn_in in ((1000, 100, 0.25), (40, 30, 0.25), (7, 7, 0.0), (90, 1, 0.5)):
        gibbs = Gibbs(n_steps=n_steps, burn_in=burn_in)
        plan = gibbs.plan(MODEL, 500, NOT_PRIVATE, n_draws=n_draws)
        kept = plan.kept_steps()
        assert len(set(kept)) == n_draws and kept[0] >= plan.n_burn_in and kept[-1] == n_steps - 1
        assert np.ptp(np.diff(kept, prepend=plan.n_burn_in - 1)) <= 1
    assert Gibbs(n_steps=300).plan(MODEL, 500, NOT_PRIVATE).n_steps == 300
    assert Gibbs().plan(MODEL, 500, NOT_PRIVATE, n_draws=5000).n_steps == 6668


def test_a_plan_prints_what_it_does():
    text = str(make(3).privacy_plan(500, 2))
    for word in (
        "gibbs",
        "epsilon = inf",
        "first 250 discarded",
        "passes to cells",
        "without privacy",
    ):
        assert word in text
    assert "noise" not in text


@pytest.mark.parametrize(
    "options, named",
    [
        ({"sampler": "gibbs", "epsilon": 1.0}, "epsilon=1.*take sampler='auto' or 'noise_aware'"),
        ({"n_components": "auto"}, "give a number of components"),
        ({"sampler": Gibbs(n_steps=0)}, "n_steps"),
        ({"sampler": Gibbs(burn_in=1.0)}, "burn_in"),
        ({"sampler": Gibbs(n_steps=10)}, "n_draws"),
    ],
)
def test_options_that_cannot_hold_are_refused(options, named):
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        with pytest.raises(ValueError, match=named):
            make(**{"n_components": 3, "n_draws": 20, **options}).fit(blobs(100))
    assert ledger.records() == []


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_it_is_for_mixtures_only(epsilon):
    for model in (DPBayesianLogisticRegression, DPBayesianMLPClassifier):
        with pytest.raises(ValueError, match="sampler='gibbs' is for mixtures"):
            model(epsilon=epsilon, sampler="gibbs").privacy_plan(100, 2, 2)


def test_it_is_what_auto_and_noise_aware_are_without_privacy():
    for sampler in ("auto", "noise_aware", NoiseAware(), "gibbs"):
        assert make(2, sampler=sampler).privacy_plan(100, 2).name == "gibbs"
    plan = MixtureSampler(NoiseAware()).plan(MODEL, 100, NOT_PRIVATE)
    assert plan == Gibbs().plan(MODEL, 100, NOT_PRIVATE)


def test_a_search_over_epsilon_may_include_infinity():
    search = GridSearchCV(make(3, data_norm=2.0), {"epsilon": [0.01, math.inf]}, cv=2)
    search.fit(blobs(600))
    assert search.best_params_ == {"epsilon": math.inf}
    assert search.best_estimator_.plan_.name == "gibbs"


def test_an_own_norm_and_persons_cost_nothing_more():
    X = blobs(400)
    mixture = make(3, data_norm="auto").fit(X)
    assert mixture.plan_.name == "gibbs" and 0.5 < mixture.data_norm_ < 4.0
    persons = make(3, data_norm=2.0, max_rows_per_group=2).fit(X, groups=np.arange(400) // 2)
    assert persons.plan_.name == "gibbs"


def test_intervals_and_draws_are_those_of_the_posterior():
    mixture = make(3, data_norm=2.0).fit(blobs(600))
    table = mixture.summary()
    np.testing.assert_allclose(table["sd"], table["sd_without_privacy"], rtol=1e-9)
    assert mixture.sample_posterior(10, random_state=0).means.shape == (10, 3, 2)
    with pytest.raises(ValueError, match="n_draws"):
        mixture.sample_posterior(101)


def test_progress_is_shown(capsys):
    make(2, verbose=1, n_draws=5, sampler=Gibbs(n_steps=20)).fit(blobs(50))
    shown = capsys.readouterr()
    assert "gibbs" in shown.out + shown.err
