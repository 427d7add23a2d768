"""A choice among many outcomes costs no more than a bit of its range, alone and in adaptive sequences."""

import numpy as np
import pytest

from skdpbayes.privacy import BoundedRangeDecisions, PrivacyCost

EPSILONS = (0.0, 0.05, 0.2, 0.5, 0.9, 2.0)


def choice(rng, n_outcomes, log_odds_range):
    """Return the laws of a choice on two tables: the worst ones have ratios at the ends of the range."""
    inside = rng.uniform(0.0, log_odds_range, n_outcomes)
    ends = np.where(
        rng.random(n_outcomes) < 0.7, np.round(inside / log_odds_range), inside / log_odds_range
    )
    q = rng.dirichlet(np.full(n_outcomes, 0.5))
    p = q * np.exp(ends * log_odds_range)
    return p / p.sum(), q


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum())


def sequence(rng, sizes, log_odds_range):
    """Return the laws of all outcomes of choices that depend on what was chosen before."""
    p, q = np.ones(1), np.ones(1)
    for n_outcomes in sizes:
        pairs = [choice(rng, n_outcomes, log_odds_range) for _ in p]
        p = np.concatenate([a * one for a, (one, _) in zip(p, pairs, strict=True)])
        q = np.concatenate([b * other for b, (_, other) in zip(q, pairs, strict=True)])
    return p, q


@pytest.mark.parametrize("log_odds_range", [0.1, 0.8, 3.0])
@pytest.mark.parametrize("sizes", [(2,), (3,), (41,), (5, 5), (2, 25), (41, 2), (3, 4, 5)])
def test_no_sequence_of_choices_is_less_private_than_so_many_bits(sizes, log_odds_range):
    rng = np.random.default_rng(0)
    cost = PrivacyCost(
        "replace_one", decisions=(BoundedRangeDecisions(log_odds_range, len(sizes)),)
    )
    deltas = [cost.delta(epsilon) for epsilon in EPSILONS]
    closest = 0.0
    for _ in range(200):
        p, q = sequence(rng, sizes, log_odds_range)
        found = [hockey_stick(p, q, epsilon) for epsilon in EPSILONS]
        assert all(one <= delta + 1e-12 for one, delta in zip(found, deltas, strict=True))
        closest = max(closest, found[0] / deltas[0])
        for alpha in (1.1, 2.0, 10.0):
            divergence = np.log(np.sum(q * (p / q) ** alpha)) / (alpha - 1.0)
            assert divergence <= cost.concentrated * alpha + 1e-12
        assert np.abs(np.log(p / q)).max() <= cost.pure_epsilon * (1 + 1e-12)
    assert closest > 0.5, "or the choices were harmless"


def test_the_exponential_mechanism_has_the_range_it_is_charged_for():
    rng, eta = np.random.default_rng(1), 0.7
    for moved in (2.0, 1.0):
        for _ in range(200):
            sums = rng.uniform(-5.0, 5.0, 41)
            others = sums + rng.uniform(-moved, moved, 41)
            weights = rng.uniform(-3.0, 3.0, 41)
            logs = [weights - eta * np.abs(one) / (2.0 * moved) for one in (sums, others)]
            p, q = (np.exp(one - np.logaddexp.reduce(one)) for one in logs)
            losses = np.log(p / q)
            assert np.ptp(losses) <= eta * (1 + 1e-12)
            assert losses.min() <= 0 <= losses.max()
