"""Accept/reject decisions: the bound on their log-odds, and what many of them tell.

Acceptance probabilities are summed over the counts of a record here, and strategies are searched for; the
package does neither.
"""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from numpy.random import default_rng
from scipy.special import expit
from scipy.stats import norm, poisson

from skdpbayes.privacy import BoundedRangeDecisions, PoissonGaussian, PrivacyCost, SampledGaussian
from skdpbayes.privacy.conversions import gaussian_epsilon, gaussian_mu, zcdp_epsilon
from skdpbayes.privacy.losses import (
    _CELLS,
    LARGEST_BATCH_RATIO,
    _extend,
    _from_curve,
    accept_bits_curve,
    accept_range,
)

RELATIONS = ("replace_one", "add_or_remove_one")
RATIOS = (0.01, 0.3, 1.0, LARGEST_BATCH_RATIO)
# The largest cost that epsilon = 1 allows, and the bits that share it.
MU, DELTA = gaussian_mu(1.0, 1e-6), 1e-6
MANY = 20_000


def bits(log_odds_range, count=1, relation="replace_one", **others):
    return PrivacyCost(
        relation, decisions=(BoundedRangeDecisions(log_odds_range, count),), **others
    )


def counts(bound, ratio, u):
    """Return what one record can add to the log ratio, and how likely it adds that."""
    rate, shape = bound / ratio + (bound - u) / 2, bound * (1 + 2 / ratio)
    times = np.arange(int(rate + 14 * math.sqrt(rate) + 60))
    return times * math.log((shape + u) / (shape - u)), poisson.pmf(times, rate)


def log_odds(base, weights, bound, ratio, u):
    """Return log-odds of Barker's bit, the rest of its log ratio being ``base`` with ``weights``."""
    added, probabilities = ([0.0], [1.0]) if u is None else counts(bound, ratio, u)
    # As in the sampler, which takes log-odds beyond 40 for 40.
    total = np.clip(base[..., None] + added, -40.0, 40.0)
    accepted, rejected = expit(total) @ probabilities, expit(-total) @ probabilities
    return np.log((accepted * weights).sum(axis=-1) / (rejected * weights).sum(axis=-1))


def laws_of_the_rest():
    """Fixed values, two values far apart, and normal ones: pairs of points and their weights."""
    fixed = np.linspace(-45, 45, 91)[:, None]
    rng = default_rng(0)
    two = rng.choice([-1, 1], size=(60, 2)) * rng.exponential(8.0, size=(60, 2))
    share = rng.random((60, 1)) ** 3
    z = np.linspace(-6, 6, 41)
    normal = rng.normal(0, 8, size=(40, 1)) + rng.exponential(4.0, size=(40, 1)) * z
    return [
        (fixed, np.ones_like(fixed)),
        (two, np.hstack([share, 1 - share])),
        (normal, np.tile(norm.pdf(z), (40, 1))),
    ]


@pytest.mark.parametrize("bound", [1e-3, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("ratio", RATIOS)
def test_no_record_moves_log_odds_beyond_the_range_whatever_the_others_do(ratio, bound):
    apart = {relation: accept_range(bound, ratio, relation) for relation in RELATIONS}
    for base, weights in laws_of_the_rest():
        without = log_odds(base, weights, bound, ratio, None)
        present = np.array(
            [log_odds(base, weights, bound, ratio, u) for u in np.linspace(-bound, bound, 9)]
        )
        # Log-odds near 40 are known to 1e-14 of that.
        assert np.ptp(present, axis=0).max() <= apart["replace_one"] * (1 + 1e-9) + 1e-13
        assert np.abs(present - without).max() <= apart["add_or_remove_one"] * (1 + 1e-9) + 1e-13


@pytest.mark.parametrize("bound", [1e-3, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("ratio", RATIOS)
def test_an_extreme_record_in_a_nearly_certain_bit_moves_them_as_far(ratio, bound):
    sure = np.array([[25.0]])
    low, high, without = (log_odds(sure, 1.0, bound, ratio, u) for u in (-bound, bound, None))
    assert high - low >= 0.99 * accept_range(bound, ratio, "replace_one")
    assert without - low >= 0.99 * accept_range(bound, ratio, "add_or_remove_one")


def test_without_batches_the_range_is_what_a_record_can_change():
    assert accept_range(0.3, 0.0, "replace_one") == pytest.approx(0.6)
    assert accept_range(0.3, 0.0, "add_or_remove_one") == pytest.approx(0.3)


def test_smaller_batches_would_pass_the_range_and_are_refused():
    base, bound, ratio = np.linspace(-35, 35, 71)[:, None], 0.1, 3.0
    each = [log_odds(base, 1.0, bound, ratio, u) for u in np.linspace(-bound, bound, 21)]
    assert np.ptp(each, axis=0).max() > 1.005 * bound * (2 + ratio**2 / (1 + ratio))
    for refused in (LARGEST_BATCH_RATIO * (1 + 1e-12), 3.0, math.inf, math.nan, -0.1):
        with pytest.raises(ValueError, match="batch_size"):
            accept_range(bound, refused, "replace_one")


@pytest.mark.parametrize("ratio", RATIOS)
def test_a_record_of_a_batch_is_counted_without_bias(ratio):
    """E exp(w) = exp(u) makes the chain exact; E exp(-w) = exp(-u exp(-t)) is what the range is made of."""
    bound = 0.7
    for u in (-bound, -0.2, 0.5, bound):
        added, probabilities = counts(bound, ratio, u)
        jump = added[1]
        assert np.exp(added) @ probabilities == pytest.approx(math.exp(u), rel=1e-12)
        expected = math.exp(-u * math.exp(-jump))
        assert np.exp(-added) @ probabilities == pytest.approx(expected, rel=1e-12)


# Single bits


def bit_delta(p, q, epsilon):
    """Hockey-stick divergence of a bit that is 1 with probability ``p`` from one with ``q``."""
    return max(p - math.exp(epsilon) * q, 0.0) + max(1 - p - math.exp(epsilon) * (1 - q), 0.0)


@pytest.mark.parametrize("moved", [0.01, 0.2, 2.0])
def test_rejection_is_not_private_under_metropolis(moved):
    """One table accepts for certain, its neighbour may reject: no epsilon makes up for that."""
    certain, likely = min(1.0, math.exp(0.0)), min(1.0, math.exp(-moved))
    for epsilon in (0.0, 0.5, 5.0, 500.0):
        assert bit_delta(likely, certain, epsilon) == pytest.approx(1 - math.exp(-moved))


@pytest.mark.parametrize("moved", [0.01, 0.2, 2.0])
def test_rejection_is_private_under_barkers(moved):
    cost = bits(moved)
    claimed = {epsilon: cost.delta(epsilon) for epsilon in (0.0, 0.3 * moved, 0.9 * moved)}
    for log_ratio in np.linspace(-8, 8, 65):
        pair = expit(log_ratio), expit(log_ratio + moved)
        for p, q in (pair, pair[::-1]):
            assert bit_delta(p, q, moved * (1 + 1e-12)) < 1e-15
            for epsilon, delta in claimed.items():
                assert bit_delta(p, q, epsilon) <= delta * (1 + 1e-9)
    assert cost.epsilon(0.0) == moved and cost.delta(moved) == 0.0


def largest_bit_delta(log_odds_range, epsilon):
    inside = np.abs(epsilon) <= log_odds_range
    curve = (math.exp(log_odds_range / 2) - np.exp(epsilon / 2)) ** 2 / math.expm1(log_odds_range)
    return np.where(inside, curve, np.maximum(0.0, -np.expm1(epsilon)))


def at(epsilon, curve):
    """Read a curve between its points, on the lines that are claimed to be above it."""
    return np.interp(np.exp(epsilon), np.exp(curve[0]), curve[1])


@pytest.mark.parametrize("log_odds_range", [0.002, 0.2, 3.0])
def test_the_curve_of_one_bit_is_just_above_the_largest_there_is(log_odds_range):
    curve = accept_bits_curve(log_odds_range, 1)
    epsilons = np.linspace(-1, 1, 4001) * log_odds_range
    exact = largest_bit_delta(log_odds_range, epsilons)
    claimed = at(epsilons, curve)
    assert (claimed >= exact * (1 - 1e-12)).all()
    # Losses are rounded up by no more than a cell: the curve is that of a range with one more of them.
    assert (claimed <= largest_bit_delta(log_odds_range * 129 / 128, epsilons) * (1 + 1e-3)).all()


@pytest.mark.parametrize("log_odds_range", [1e-9, 0.03, 8.0, 30.0])
def test_the_curve_of_one_bit_is_that_of_the_recursion_to_the_last_bit(log_odds_range):
    epsilons, deltas = accept_bits_curve(log_odds_range, 1)
    start = np.maximum(0.0, -np.expm1(epsilons))
    np.testing.assert_array_equal(_extend(start, log_odds_range, 1, _CELLS), deltas)


def test_the_largest_curve_is_of_no_single_pair_of_bits():
    """The pair that is symmetric about one half tells nothing there, and is not the worst."""
    curve = accept_bits_curve(0.2, 1)
    assert largest_bit_delta(0.2, 0.1) == pytest.approx(0.0131, abs=5e-5)
    assert at(0.1, curve) == pytest.approx(largest_bit_delta(0.2, 0.1), rel=0.025)
    assert bit_delta(expit(0.1), expit(-0.1), 0.1) < 1e-15
    best = 0.0
    for center in np.linspace(-4, 4, 801):
        pair = expit(center - 0.1), expit(center + 0.1)
        for p, q in (pair, pair[::-1]):
            deltas = [bit_delta(p, q, epsilon) for epsilon in np.linspace(-0.2, 0.2, 21)]
            assert (deltas <= at(np.linspace(-0.2, 0.2, 21), curve) + 1e-15).all()
            best = max(best, bit_delta(p, q, 0.1))
    assert best == pytest.approx(largest_bit_delta(0.2, 0.1), rel=1e-3)


# Bits that depend on those before


def value(strategies, log_odds_range, epsilon):
    """Hockey-stick divergences of adaptive bits: column ``2 k + 1`` or ``2 k + 2`` follows column ``k``."""
    n_bits = (strategies.shape[1] + 1).bit_length() - 1
    first = -np.expm1(strategies - log_odds_range) / -math.expm1(-log_odds_range)
    total = np.zeros(len(strategies))
    for path in range(2**n_bits):
        loss, probability, node = 0.0, 1.0, 0
        for bit in range(n_bits):
            low = path >> bit & 1
            loss = loss + strategies[:, node] - low * log_odds_range
            probability = probability * (1 - first[:, node] if low else first[:, node])
            node = 2 * node + 1 + low
        total += probability * np.maximum(0.0, -np.expm1(epsilon - loss))
    return total


def best_adaptive_delta(log_odds_range, n_bits, epsilon, starts=8):
    """Climb from several starts, one node of the strategy after the other, each over a dense grid."""
    rng = default_rng(5)
    grid = np.linspace(0.0, log_odds_range, 301)
    best = 0.0
    for _ in range(starts):
        strategy = rng.uniform(0.0, log_odds_range, size=2**n_bits - 1)
        for _ in range(6):
            for node in range(strategy.size):
                candidates = np.tile(strategy, (grid.size, 1))
                candidates[:, node] = grid
                found = value(candidates, log_odds_range, epsilon)
                strategy = candidates[found.argmax()]
                best = max(best, found.max())
    return best


@pytest.mark.parametrize("n_bits", [2, 3])
@pytest.mark.parametrize("log_odds_range", [0.2, 1.5])
def test_a_few_adaptive_bits_against_a_search_over_strategies(log_odds_range, n_bits):
    curve = accept_bits_curve(log_odds_range, n_bits)
    for epsilon in np.array([-0.5, 0.0, 0.5, 1.0]) * log_odds_range:
        # With the cell by which losses are rounded up, and without.
        largest = best_adaptive_delta(log_odds_range * 129 / 128, n_bits, epsilon)
        found = best_adaptive_delta(log_odds_range, n_bits, epsilon)
        assert found <= at(epsilon, curve) <= largest * (1 + 1e-4)


@pytest.mark.parametrize("n_bits, epsilon", [(2, 0.0), (3, 0.2)])
def test_bits_that_are_chosen_beforehand_do_not_reach_the_curve(n_bits, epsilon):
    """What accounts for them alone is too little for a chain, whose bits decide on what comes next."""
    levels = np.repeat(np.arange(n_bits), 2 ** np.arange(n_bits))
    grid = np.stack(np.meshgrid(*[np.linspace(0.0, 0.2, 41)] * n_bits, indexing="ij"), axis=-1)
    beforehand = value(grid.reshape(-1, n_bits)[:, levels], 0.2, epsilon).max()
    assert beforehand < 0.96 * best_adaptive_delta(0.2, n_bits, epsilon)


@pytest.mark.parametrize("first_share", [0.1, 0.5, 0.8])
def test_one_bit_tells_more_than_two_that_share_its_range(first_share):
    """So does it than any number of them, by induction."""
    whole = 1.2
    first, second = first_share * whole, (1 - first_share) * whole
    s = np.linspace(0.0, first, 401)[:, None]
    probability = (math.exp(first) - np.exp(s)) / math.expm1(first)
    epsilons = np.linspace(-whole, whole, 61)
    both = probability * largest_bit_delta(second, epsilons - s)
    both = both + (1 - probability) * largest_bit_delta(second, epsilons - s + first)
    assert (both.max(axis=0) <= largest_bit_delta(whole, epsilons) + 1e-12).all()


@pytest.mark.parametrize("count", [640, MANY])
def test_many_small_bits_cost_between_their_gaussian_limit_and_zcdp(count):
    log_odds_range = 2 * MU / math.sqrt(count)
    cost = bits(log_odds_range, count)
    limit = gaussian_epsilon(math.sqrt(count) * log_odds_range / 2, DELTA)
    loosest = zcdp_epsilon(count * log_odds_range**2 / 8, DELTA)
    assert limit <= cost.epsilon(DELTA) <= min(1.03 * limit, loosest)
    assert cost.epsilon(DELTA) < cost.pure_epsilon == cost.epsilon(0.0)
    for relation in RELATIONS:
        assert bits(log_odds_range, count, relation).epsilon(DELTA) == cost.epsilon(DELTA)


def test_blocks_of_bits_are_worth_it():
    """Composed one by one, bits would cost more than as zCDP; blocks come near the limit."""
    log_odds_range = 2 * MU / math.sqrt(MANY)
    one = _from_curve(*accept_bits_curve(log_odds_range, 1), 1e-4)
    alone = one.self_compose(MANY).get_epsilon_for_delta(DELTA)
    loosest = zcdp_epsilon(MANY * log_odds_range**2 / 8, DELTA)
    assert alone == pytest.approx(1.17, abs=0.02)
    assert loosest == pytest.approx(1.08, abs=0.01)
    assert bits(log_odds_range, MANY).epsilon(DELTA) == pytest.approx(1.015, abs=0.01)


@pytest.mark.parametrize("count", [1, 2, 64, 65])
def test_a_pure_guarantee_is_never_passed(count):
    for log_odds_range in (1e-3, 0.3, 4.0):
        cost = bits(log_odds_range, count)
        assert cost.epsilon(0.0) == pytest.approx(count * log_odds_range)
        assert cost.delta(cost.pure_epsilon) == 0.0
        for delta in (1e-12, 1e-6, 1e-2):
            assert cost.epsilon(delta) <= cost.pure_epsilon


@pytest.mark.parametrize("log_odds_range, count", [(0.004, 1000), (0.1, 70), (0.8, 3)])
def test_costs_of_bits_are_monotone(log_odds_range, count):
    small = bits(log_odds_range, count)
    for large in (bits(1.2 * log_odds_range, count), bits(log_odds_range, count + 1 + count // 4)):
        assert small.epsilon(DELTA) < large.epsilon(DELTA)
        for epsilon in (0.0, 0.2, 0.9):
            assert small.delta(epsilon) <= large.delta(epsilon)
    assert small.epsilon(1e-4) < small.epsilon(1e-6) < small.epsilon(1e-9)
    assert small.delta(0.0) > small.delta(0.2) > small.delta(0.9)


# Together with other mechanisms


def test_bits_add_up_and_compose_with_gaussians():
    many = bits(0.02, 400)
    assert (many + many).decisions == (BoundedRangeDecisions(0.02, 800),)
    assert (many + bits(0.1)).decisions == (
        BoundedRangeDecisions(0.02, 400),
        BoundedRangeDecisions(0.1, 1),
    )
    gaussian = PrivacyCost("replace_one", mu=0.3)
    both = many + gaussian
    assert both == gaussian + many and both.pure_epsilon == math.inf
    limit = gaussian_epsilon(math.hypot(0.3, math.sqrt(400) * 0.01), DELTA)
    assert limit <= both.epsilon(DELTA) <= 1.03 * limit
    with pytest.raises(ValueError, match="cannot be added"):
        many + bits(0.02, 400, "add_or_remove_one")


def test_bits_compose_with_zcdp_and_with_batches():
    many, concentrated = bits(0.02, 400), PrivacyCost("replace_one", rho=0.01)
    both = many + concentrated
    assert both.concentrated == pytest.approx(0.01 + 400 * 0.02**2 / 8)
    assert both.epsilon(DELTA) == pytest.approx(zcdp_epsilon(both.concentrated, DELTA))
    assert both.epsilon(0.0) == math.inf
    sampled = PrivacyCost("replace_one", sampled=(SampledGaussian(5.0, 0.01, 500),))
    for other in (sampled, sampled + concentrated):
        every = many + other
        assert every.concentrated == math.inf
        largest = max(many.epsilon(DELTA), other.epsilon(DELTA))
        assert largest < every.epsilon(DELTA) <= many.epsilon(DELTA / 2) + other.epsilon(DELTA / 2)


@pytest.mark.parametrize(
    "others",
    [{}, {"mu": 0.3}, {"rho": 0.02}, {"sampled": (SampledGaussian(5.0, 0.01, 500),)}],
    ids=lambda others: " ".join(others) or "alone",
)
def test_delta_and_epsilon_say_the_same(others):
    cost = bits(0.02, 400, **others)
    for delta in (1e-8, 1e-5, 1e-2):
        assert cost.delta(cost.epsilon(delta)) == pytest.approx(delta, rel=2e-3)


def test_bits_are_published_as_zcdp_which_one_accountant_reads():
    for relation in RELATIONS:
        cost = bits(0.02, 400, relation) + PrivacyCost(relation, mu=0.1, rho=0.003)
        event, published = cost.dp_event()
        assert event == dp_accounting.dp_event.ZCDpEvent(0.003 + 0.1**2 / 2 + 400 * 0.02**2 / 8)
        read = RdpAccountant(neighboring_relation=published).compose(event).get_epsilon(DELTA)
        assert cost.epsilon(DELTA) <= read * (1 + 1e-9)
        assert read == pytest.approx(zcdp_epsilon(cost.concentrated, DELTA), rel=0.03)
    for part in (
        {"counted": (PoissonGaussian(5.0, 0.01, 500),)},
        {"sampled": (SampledGaussian(5.0, 0.01, 500),)},
    ):
        with pytest.raises(NotImplementedError, match="no event"):
            bits(0.02, 400, **part).dp_event()


@pytest.mark.parametrize(
    "part",
    [
        BoundedRangeDecisions(0.0, 1),
        BoundedRangeDecisions(math.inf, 1),
        BoundedRangeDecisions(math.nan, 1),
        BoundedRangeDecisions(0.1, 0),
    ],
)
def test_no_bits_are_refused(part):
    with pytest.raises(ValueError, match="not a mechanism"):
        PrivacyCost("replace_one", decisions=(part,))
