"""What plans and fits advise: a remedy names what was fixed, and would help."""

import math
import warnings

import numpy as np
import pytest
from fit_warnings import refuse_fit_warnings
from references import configured
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier
from skdpbayes._estimator.model_checks import effective_size
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.samplers import DPMH, OPS, SGFS, SGHMC, SGLD, SGNHT, Auto

INF = float("inf")


def a_plan(sampler, epsilon=1.0, n=20_000, d=10, **options):
    clf = configured(DPBayesianLogisticRegression(epsilon), sampler=sampler, **options)
    return clf.privacy_plan(n, d)


def advice(plan):
    return " ".join(plan.warnings)


# Batches


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [pytest.param(SGLD, marks=pytest.mark.nightly), SGHMC])
def test_a_plan_on_batches_says_what_the_full_table_would_give(kind):
    full = a_plan(kind())
    plan = a_plan(kind(batch_size=5))
    assert plan.full_table_temperature == pytest.approx(full.temperature)
    assert f"would have temperature {full.temperature:.4g}" in str(plan)
    assert full.full_table_temperature is None and "full table  " not in str(full)
    hot = a_plan(kind(batch_size=20), n_steps=500)
    assert hot.temperature > 2.0 * full.temperature
    assert "batches raise the temperature" in advice(hot) and "batch_size" in advice(hot)
    assert "batches raise" not in advice(
        a_plan(kind(batch_size=20), n_steps=500, temperature=hot.temperature)
    )


def test_batches_of_the_default_are_as_many_passes_as_the_full_table():
    """Three hundred batches of ten rows once made a temperature 3,500 times as high."""
    full = a_plan(SGFS())
    for size in (10, 1000):
        plan = a_plan(SGFS(batch_size=size))
        assert plan.record_gradients >= 0.49 * full.record_gradients
        batches, table = plan.nominal_temperatures
        assert 1.0 < batches / table < 5.0
        assert f"about {table:.3g} in place of {batches:.3g}" in str(plan)
    assert full.nominal_temperatures is None


@pytest.mark.parametrize(
    "sampler, epsilon, options",
    [
        pytest.param(SGFS(batch_size=10), 1.0, {"n_steps": 300}, marks=pytest.mark.nightly),
        (SGHMC(batch_size=1), INF, {}),
        (SGLD(batch_size=1), INF, {}),
    ],
)
def test_batches_that_leave_nothing_of_a_posterior_are_refused(sampler, epsilon, options):
    with pytest.raises(ValueError, match=r"raise batch_size, or n_steps, or take batch_size=None"):
        a_plan(sampler, epsilon, **options)


def test_the_default_takes_whichever_path_is_cooler_on_batches():
    assert a_plan(Auto(batch_size=1000)).name == "sgfs"
    assert a_plan(Auto(batch_size=1000), n_steps=300).name == "sghmc"


def test_a_fit_on_batches_warns_of_what_they_cost():
    X = np.random.default_rng(0).uniform(-1, 1, (5_000, 3))
    y = (X[:, 0] > 0).astype(int)
    clf = DPBayesianLogisticRegression(
        sampler=SGFS(batch_size=250, n_steps=300), data_norm=2.0, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="batches raise the temperature"):
        clf.fit(X, y)
    assert clf.temperature_ > 2.0 * clf.plan_.full_table_temperature
    clf.set_params(sampler__batch_size=None)
    with warnings.catch_warnings():
        refuse_fit_warnings()
        full = clf.fit(X, y).temperature_
    # The noise of the second moment differs.
    assert full < 1.2 * clf.plan_.temperature


# Remedies


@pytest.mark.parametrize(
    "sampler, epsilon, options, named, unnamed",
    [
        (SGLD(), 1.0, {"temperature": 2.0}, "raise temperature", "n_steps"),
        (
            SGHMC(step_size=1e-9),
            1.0,
            {"n_steps": 300},
            "raise n_steps or step_size",
            "temperature,",
        ),
        (SGHMC(), INF, {"n_steps": 200}, "raise n_steps, or leave it 'auto'", "step_size"),
        (SGLD(batch_size=1000), INF, {}, "raise batch_size, or fix n_steps above", "step_size"),
        (SGNHT(), INF, {"n_steps": 200}, "raise n_steps, or leave it 'auto'", "sghmc"),
        (SGNHT(), 1.0, {}, "sampler='sghmc'", "n_steps"),
        (SGHMC(step_size=1e-4, batch_size=2_000), INF, {}, "lower step_size", "raise n_steps"),
        (DPMH(), 1.0, {"n": 2_000, "temperature": 1.0}, "Leave temperature 'auto'", "step_size"),
        (DPMH(), 1.0, {"n": 2_000, "n_steps": 50}, "Leave n_steps 'auto'", "step_size"),
        (SGLD(), INF, {"n": 10**8, "d": 100, "n_steps": 10**7}, "lower n_steps", "fix n_steps"),
    ],
)
def test_warnings_ask_for_what_was_fixed_to_yield(sampler, epsilon, options, named, unnamed):
    told = advice(a_plan(sampler, epsilon, **options))
    assert named in told
    assert unnamed not in told


def test_a_longer_chain_is_asked_for_in_words_that_an_estimator_takes():
    """Steps are an option of the sampler, and not of the estimator."""
    clf = DPBayesianLogisticRegression(INF, sampler=SGLD(batch_size=1000))
    plan = clf.privacy_plan(20_000, 10)
    assert "relaxes" in advice(plan)
    assert "set_params(sampler__n_steps=...) or sampler=SGLD(n_steps=...)" in advice(plan)
    for longer in (
        clone(clf).set_params(sampler__n_steps=9 * plan.n_steps),
        clone(clf).set_params(sampler=SGLD(batch_size=1000, n_steps=9 * plan.n_steps)),
    ):
        assert "relaxes" not in advice(longer.privacy_plan(20_000, 10))


def test_what_costs_too_much_together_is_what_was_given():
    with pytest.raises(ValueError, match=r"temperature=1, step_size=1e-05: together") as error:
        a_plan(SGLD(step_size=1e-5, burn_in=0.0), 1e-3, temperature=1.0, n_draws=100)
    assert "n_steps" not in str(error.value)
    with pytest.raises(ValueError, match="raise epsilon") as error:
        a_plan(DPMH(), 1e-300, n=10, delta=0.0)
    assert "leave" not in str(error.value)


def test_samples_of_networks_are_refused_in_words_that_users_know():
    for sampler in (OPS(), SGLD(release="last_iterate"), SGHMC(init="ops")):
        with pytest.raises(ValueError, match="logistic regression") as error:
            DPBayesianMLPClassifier(sampler=sampler).privacy_plan(1_000, 3)
        assert "convex" not in str(error.value)


# Draws and steps


@pytest.mark.parametrize(
    "sampler", [SGLD(), SGHMC(), SGFS(), SGFS(batch_size=200), Auto(batch_size=None)]
)
@pytest.mark.parametrize("epsilon", [1.0, INF])
def test_draws_that_nobody_asked_for_yield_to_the_steps(sampler, epsilon):
    plan = a_plan(sampler, epsilon, n=2_000, n_steps=40)
    assert plan.n_steps == 40 and plan.n_draws == 40 - plan.n_burn_in
    assert a_plan(sampler, epsilon, n=2_000, n_draws=3_000).n_steps >= 3_000
    with pytest.raises(ValueError, match="n_steps=40.*n_draws=50"):
        a_plan(sampler, epsilon, n=2_000, n_steps=40, n_draws=50)


# Without privacy


def test_effective_sizes_of_known_chains():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((20_000, 3))
    assert effective_size(noise) == pytest.approx(20_000, rel=0.25)
    chain = np.zeros_like(noise)
    for k in range(1, len(chain)):
        chain[k] = 0.9 * chain[k - 1] + noise[k]
    assert effective_size(chain) == pytest.approx(20_000 / 19, rel=0.25)
    # The slowest decides, and what never moved is worth nothing.
    assert effective_size(np.column_stack([noise, chain[:, 0]])) < 2_000
    assert effective_size(np.column_stack([noise, np.ones(20_000)])) <= 1.0


def test_short_chains_without_privacy_are_told_of_and_private_ones_are_not():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2_000, 5)) / np.arange(1, 6)
    y = (rng.random(2_000) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    clf = DPBayesianLogisticRegression(INF, sampler="sghmc", random_state=0)
    with pytest.warns(
        ConvergenceWarning, match=r"worth about .* sampler=SGHMC\(n_steps=.*sampler='auto'"
    ):
        clf.fit(X, y)
    with warnings.catch_warnings():
        refuse_fit_warnings()
        clf.set_params(sampler="auto").fit(X, y)
        clf.set_params(sampler="sghmc", epsilon=1.0).fit(X, y)


# Deltas and labels


def test_a_delta_beyond_one_over_n_is_warned_of():
    clf = DPBayesianLogisticRegression(delta=1e-2)
    with pytest.warns(PrivacyWarning, match=r"delta=0.01 is above 1 / n = 0.0005"):
        clf.privacy_plan(2_000, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.set_params(delta=1e-4).privacy_plan(2_000, 3)
        clf.set_params(delta=1e-2, epsilon=INF).privacy_plan(2_000, 3)


@pytest.mark.parametrize("estimator", [DPBayesianLogisticRegression, DPBayesianMLPClassifier])
@pytest.mark.parametrize("first", [["a", 1], [1, "a"], [None, 1]])
def test_labels_of_several_kinds_are_refused_in_plain_words(estimator, first):
    X, mixed = np.zeros((20, 2)), np.array(first * 10, dtype=object)
    with pytest.raises(ValueError, match="y holds labels of several kinds.*astype"):
        estimator().fit(X, mixed)
    with pytest.raises(ValueError, match="classes holds labels of several kinds"):
        estimator(classes=mixed[:2]).fit(X, np.arange(20) % 2)
    assert not math.isnan(estimator().privacy_plan(1_000, 2).epsilon)
