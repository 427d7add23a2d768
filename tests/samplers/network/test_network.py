"""Calibrated networks: what plans say and cost, and what calibration does."""

import math

import numpy as np
import pytest
from references import configured
from sklearn.metrics import log_loss

from skdpbayes import DPBayesianMLPClassifier
from skdpbayes.privacy import PrivacyCost, PrivacyLedger

RELATIONS = ["replace_one", "add_or_remove_one"]


def network(hidden, **options):
    quick = {"n_steps": 60, "n_draws": 10, "random_state": 0}
    return configured(DPBayesianMLPClassifier(hidden), **quick | options)


def planned(n=6000, calibration=0.03, relation="replace_one", **options):
    size = n if relation == "add_or_remove_one" else None
    model = DPBayesianMLPClassifier(
        (8,), calibration=calibration, neighboring_relation=relation, public_size=size
    )
    return configured(model, **options).privacy_plan(n, 5)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n", [3000, 20_000])
@pytest.mark.parametrize("sampler", ["sghmc", "bbb"])
def test_path_and_choices_together_cost_the_budget(sampler, n, relation):
    for epsilon in (0.2, 2.0):
        plan = planned(n, relation=relation, epsilon=epsilon, sampler=sampler)
        assert 0.99 * epsilon < plan.epsilon <= epsilon
        choices = PrivacyCost(relation, decisions=plan.cost.decisions)
        assert plan.cost == plan.path.cost + choices
        ranges = sorted(bit.log_odds_range for bit in plan.cost.decisions for _ in range(bit.count))
        assert len(ranges) == 2
        np.testing.assert_allclose(ranges, sorted(plan.log_odds_ranges), rtol=1e-6)
        assert sum(ranges) > sum(plan.log_odds_ranges)
        # In the Gaussian limit of ranges, the share that was asked for.
        assert sum(np.square(ranges)) / 4 == pytest.approx(0.03 * plan.budget.mu**2, rel=1e-3)


def test_a_larger_share_leaves_less_to_the_path():
    multipliers = [planned(calibration=share).path.noise_multiplier for share in (0.01, 0.05, 0.3)]
    assert multipliers == sorted(multipliers)
    plain = planned(calibration=0.0)
    assert plain.noise_multiplier < multipliers[0] < 1.02 * plain.noise_multiplier


def test_the_printed_plan_says_what_is_chosen():
    text = str(planned(epsilon=1.0))
    for part in ("calibration", "norm of rows", "noise multiplier", "sghmc", "asked for at most 1"):
        assert part in text
    assert "calibration" not in str(planned(calibration=0.0))


@pytest.mark.parametrize("delta", [1e-5, 1e-18])
def test_budgets_of_any_size_are_planned(delta):
    for epsilon in (0.05, 1.0, 50.0, math.inf):
        plan = planned(3000, delta=delta, epsilon=epsilon, n_steps=200)
        assert plan.epsilon <= epsilon
    assert plan.log_odds_ranges == (math.inf, math.inf)
    assert plan.path == planned(3000, 0.0, delta=delta, epsilon=math.inf, n_steps=200)


def coins(rng, n, right=0.75):
    """Labels that are right three times of four: no model may be surer than that."""
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] > 0) ^ (rng.random(n) > right)


@pytest.mark.nightly
@pytest.mark.parametrize("sampler", ["sghmc", "bbb"])
@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_probabilities_are_honest_where_labels_are_noisy(rng, sampler, epsilon):
    X, y = coins(rng, 20_000)
    table, labels = coins(rng, 20_000)
    gaps = {}
    for calibration in (0.0, 0.03):
        clf = DPBayesianMLPClassifier(
            (16,), epsilon=epsilon, sampler=sampler, calibration=calibration, random_state=0
        )
        clf.set_params(sampler__n_steps=600).fit(X, y)
        proba = clf.predict_proba(table)
        gaps[calibration] = proba.max(axis=1).mean() - clf.score(table, labels)
        loss = log_loss(labels, proba)
    assert gaps[0.0] > 0.05 and abs(gaps[0.03]) < 0.02
    best = -0.75 * np.log(0.75) - 0.25 * np.log(0.25)
    assert loss < best + 0.03


def test_rows_of_any_norm_below_data_norm_give_the_same_fit(rng):
    X, y = coins(rng, 5000, 1.0)
    scores = []
    for factor in (1.0, 2.0**-3, 2.0**-6):
        clf = network((8,), epsilon=8.0, data_norm=4.0, n_steps=300)
        clf.fit(factor * X, y)
        assert clf.data_norm_ == 4.0
        assert clf.row_norm_ == pytest.approx(factor * 1.9, rel=0.3)
        scores.append(clf.score(factor * X, y))
    assert min(scores) > 0.93 and np.ptp(scores) < 0.02


def test_a_table_that_is_too_small_to_tell_keeps_to_public_numbers(rng):
    X, y = coins(rng, 30)
    norms, scales = zip(
        *(
            (clf.released_.row_norm, clf.released_.logit_scale)
            for clf in (
                network((2,), epsilon=0.1, random_state=seed).fit(X, y) for seed in range(40)
            )
        ),
        strict=True,
    )
    assert np.median(norms) > 0.3
    assert 0.4 < np.median(scales) < 1.8 and np.ptp(scales) > 0.1


def test_new_draws_of_a_fitted_gaussian_are_calibrated_too(rng):
    X, y = coins(rng, 3000)
    clf = network((4,), epsilon=5.0, sampler="bbb").fit(X, y)
    last = np.arange(clf.plan_.n_parameters) >= clf.plan_.n_parameters - 5 * 2
    fresh = clf.sample_posterior(400, random_state=0)
    for part in (last, ~last):
        kept, new = clf.posterior_samples_[:, part].std(), fresh[:, part].std()
        assert kept == pytest.approx(new, rel=0.2)


def test_a_ledger_is_charged_for_the_whole(rng):
    X, y = coins(rng, 3000)
    with PrivacyLedger(2.0, 1e-5, allow_seeds=True) as ledger:
        clf = network((4,), epsilon=1.0, delta=1e-5).fit(X, y)
    assert ledger.spent_epsilon == pytest.approx(clf.spent_epsilon_, rel=1e-6)
    assert clf.plan_.path.epsilon < clf.spent_epsilon_ <= 1.0
