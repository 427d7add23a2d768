"""Bounds from scores are below the truth, and near it."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from skdpbayes.audit import audit_scores, audit_separation
from skdpbayes.privacy import PrivacyCost, SampledGaussian
from skdpbayes.privacy.conversions import gaussian_epsilon

DELTA = 1e-5
RATE, NOISE = 0.2, 0.7
SAMPLED = PrivacyCost("add_or_remove_one", sampled=(SampledGaussian(NOISE, RATE, 1),))


def coins(epsilon):
    p = 1.0 / (1.0 + math.exp(-epsilon))
    return lambda rng, n: (rng.random(n) < p, rng.random(n) < 1.0 - p)


def laplace(epsilon):
    return lambda rng, n: (rng.laplace(1.0, 1.0 / epsilon, n), rng.laplace(0.0, 1.0 / epsilon, n))


def gaussian(mu):
    return lambda rng, n: (rng.normal(mu, 1.0, n), rng.normal(size=n))


def sampled(rng, n):
    return (rng.random(n) < RATE) + NOISE * rng.normal(size=n), NOISE * rng.normal(size=n)


# Scores, the true epsilon, and what is claimed.
MECHANISMS = {
    "coins, 3": (coins(3.0), 3.0, "epsilon"),
    "coins, 1": (coins(1.0), 1.0, "epsilon"),
    "Laplace": (laplace(1.0), 1.0, "epsilon"),
    "Gaussian": (gaussian(1.0), gaussian_epsilon(1.0, DELTA), "epsilon"),
    "Gaussian, mu": (gaussian(1.0), gaussian_epsilon(1.0, DELTA), "mu"),
    "Gaussian, normal": (gaussian(1.0), gaussian_epsilon(1.0, DELTA), "normal"),
    "sampled Gaussian": (sampled, SAMPLED.epsilon(DELTA), "epsilon"),
}


def bounds(name, n_repetitions, n_scores, seed=0):
    draw, true, claim = MECHANISMS[name]
    rng = np.random.default_rng(seed)
    found = [
        audit_scores(*draw(rng, n_scores), delta=DELTA, claim=claim).epsilon_lower_bound
        for _ in range(n_repetitions)
    ]
    return np.array(found), true


def assert_mostly_below(found, true, error=0.05):
    """With the stated error, as many misses are unlikely."""
    assert (found > true).sum() <= binom.ppf(0.999, found.size, error)


@pytest.mark.parametrize("name", MECHANISMS)
def test_bounds_are_below_the_truth(name):
    assert_mostly_below(*bounds(name, 40, 300))


@pytest.mark.nightly
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_thousand_bounds_are_below_the_truth(name):
    assert_mostly_below(*bounds(name, 1000, 500, seed=1))


def test_a_thousand_scores_find_most_of_a_gaussian():
    """Of either table half of them."""
    found, true = bounds("Gaussian, mu", 20, 500)
    assert found.mean() > 0.6 * true


def test_coins_are_no_normal_scores():
    draw, true, _ = MECHANISMS["coins, 3"]
    scores = draw(np.random.default_rng(0), 2000)
    result = audit_scores(*scores, delta=DELTA, claimed_epsilon=true)
    assert 0.8 * true < result.epsilon_lower_bound < true and not result.contradicts
    assert audit_separation(*scores).epsilon(DELTA) > 20.0


def test_a_rare_give_away_is_found():
    """One of fifty releases tells; the difference of means hides it."""
    rng = np.random.default_rng(0)
    told = np.where(rng.random(5000) < 0.02, 100.0, rng.normal(size=5000))
    result = audit_scores(told, rng.normal(size=5000), delta=DELTA, claimed_epsilon=1.0)
    assert result.epsilon_lower_bound > 1.5 and result.contradicts
    assert "The claim is wrong" in result.verdict


def test_what_an_audit_of_this_size_finds_at_best_is_always_said():
    a, b = gaussian(1.0)(np.random.default_rng(0), 500)
    for claimed in (None, 0.01, 3.0, 100.0, np.inf):
        result = audit_scores(a, b, delta=DELTA, claim="mu", claimed_epsilon=claimed)
        at_best = f"finds at most {result.largest_possible:.3g}, even if every guess is right"
        assert at_best in str(result)
        too_few = claimed is not None and claimed >= result.largest_possible
        assert ("take more runs" in str(result)) == too_few
    assert audit_scores(a, b, delta=DELTA, claim="mu", claimed_epsilon=0.01).contradicts
    result = audit_scores(a, b, delta=DELTA, claim="normal", claimed_epsilon=np.inf)
    assert "no size of an audit limits" in str(result) and "take more" not in str(result)


@pytest.mark.parametrize("claim", ["epsilon", "mu"])
def test_either_table_and_either_sign_may_have_the_larger_scores(claim):
    a, b = gaussian(3.0)(np.random.default_rng(0), 1000)
    all_of_them = [
        audit_scores(*pair, delta=DELTA, claim=claim).epsilon_lower_bound
        for pair in ((a, b), (b, a), (-a, -b), (-b, -a))
    ]
    assert min(all_of_them) > 0.9 * max(all_of_them) > 3.0


def test_half_the_noise_is_found():
    a, b = gaussian(2.0)(np.random.default_rng(0), 500)
    claimed = gaussian_epsilon(1.0, DELTA)
    assert audit_scores(a, b, delta=DELTA, claim="mu", claimed_epsilon=claimed).contradicts


def test_scores_that_say_nothing_and_those_that_say_all():
    result = audit_scores(np.zeros(50), np.zeros(50), delta=0.0, claimed_epsilon=2.0)
    assert result.epsilon_lower_bound == 0.0 and "take more runs" not in result.verdict
    result = audit_scores(np.zeros(20), np.zeros(20), delta=0.0, claimed_epsilon=2.0)
    assert result.largest_possible < 2.0 and "take more runs" in str(result)
    result = audit_scores(np.full(50, np.inf), np.zeros(50), delta=0.0)
    assert result.epsilon_lower_bound == result.largest_possible > 2.0
    assert "Nothing is claimed" in result.verdict


@pytest.mark.parametrize(
    "options, message",
    [
        ({"claim": "rho"}, "claim must be"),
        ({"delta": 1.0}, "delta must be"),
        ({"delta": 0.0, "claim": "mu"}, "positive for claims of mu"),
        ({"confidence": 0.2}, "confidence must be"),
        ({"scores": np.zeros(3)}, "at least eight"),
        ({"scores": np.full(9, np.nan)}, "missing"),
    ],
)
def test_what_is_out_of_range_is_refused(options, message):
    given = {"scores": np.zeros(9), "neighboring_scores": np.zeros(9), "delta": DELTA} | options
    with pytest.raises(ValueError, match=message):
        audit_scores(given.pop("scores"), given.pop("neighboring_scores"), **given)
