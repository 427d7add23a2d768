"""Pure mechanisms, disjoint parts and selected runs, against laws that are computed exactly."""

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy import stats

from skdpbayes._mechanisms.histogram import draw_number
from skdpbayes.privacy import (
    PoissonGaussian,
    PrivacyCost,
    PureMechanism,
    SampledGaussian,
    SelectedRun,
    in_parallel,
)
from skdpbayes.privacy.losses import number_law
from skdpbayes.random import private_generator

DELTA = 1e-5
LAWS = [(10.0, 1.0), (10.0, 0.0), (4.0, 0.5), (3.0, math.inf), (30.0, 2.0)]


def pure(level, count=1):
    return PrivacyCost("replace_one", pure_events=(PureMechanism(level, count),))


def gaussian(mu):
    return PrivacyCost("replace_one", mu=mu)


def selected(cost, mean, shape):
    return PrivacyCost("replace_one", selection_events=(SelectedRun((cost,), mean, shape),))


def hockey_stick(p, q, epsilon):
    return np.maximum(p - np.exp(epsilon) * q, 0.0).sum()


def number_pmf(mean, shape, n=6000):
    """The law of the number of runs by its recurrence, which is none of the code's formulas."""
    law, k = number_law(mean, shape), np.arange(1, n)
    if math.isinf(shape):
        weights = stats.poisson.logpmf(k, law)
    else:
        ratios = np.log((np.arange(1, n - 1) + shape) / np.arange(2, n)) + math.log1p(-law)
        weights = np.concatenate([[0.0], np.cumsum(ratios)])
    weights = np.exp(weights - weights.max())
    return k, weights / weights.sum()


def best_of(p, pmf):
    """The law of the best of several draws from ``p``, outcomes being in order from worst to best."""
    k, weights = pmf
    below = np.concatenate([[0.0], np.cumsum(p)])
    generating = (weights * np.minimum(below, 1.0)[:, None] ** k).sum(axis=1)
    return np.diff(generating)


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.69])
def test_a_pure_mechanism_is_randomised_response(epsilon):
    p = np.array([1.0, math.exp(0.7)]) / (1 + math.exp(0.7))
    exact = hockey_stick(p, p[::-1], epsilon)
    assert pure(0.7).delta(epsilon) == pytest.approx(exact)
    assert pure(0.7).epsilon(exact) == pytest.approx(epsilon, abs=1e-9)
    assert pure(0.7).pure_epsilon == pure(0.7).epsilon(0.0) == 0.7


def test_a_count_with_noise_is_no_better_than_what_is_claimed():
    counts, ratio = np.arange(-300, 301), math.exp(-0.7)
    p = (1 - ratio) / (1 + ratio) * ratio ** np.abs(counts)
    for epsilon in (0.0, 0.3, 0.6):
        assert hockey_stick(p[1:], p[:-1], epsilon) == pytest.approx(pure(0.7).delta(epsilon))


def test_pure_mechanisms_compose_as_their_products():
    p = np.array([1.0, math.exp(0.5)]) / (1 + math.exp(0.5))
    outcomes = list(itertools.product((0, 1), repeat=6))
    one, other = (np.array([np.prod(q[list(o)]) for o in outcomes]) for q in (p, p[::-1]))
    cost = pure(0.5, 3) + pure(0.5) + pure(0.5, 2)
    assert cost == pure(0.5, 6) and cost.pure_epsilon == pytest.approx(3.0)
    for epsilon in (0.5, 1.7, 2.5):
        exact = hockey_stick(one, other, epsilon)
        assert exact <= cost.delta(epsilon) < exact * 1.02 + 1e-9


@pytest.mark.parametrize("mean, shape", LAWS)
def test_the_number_of_runs_has_its_law(mean, shape):
    k, pmf = number_pmf(mean, shape)
    assert (k * pmf).sum() == pytest.approx(mean, rel=1e-6)
    generator = private_generator(1)
    drawn = np.array([draw_number(generator, mean, shape) for _ in range(20_000)])
    assert drawn.min() == 1
    deviation = math.sqrt((k**2 * pmf).sum() - mean**2)
    assert drawn.mean() == pytest.approx(mean, abs=4 * deviation / math.sqrt(20_000))
    assert np.mean(drawn == 1) == pytest.approx(pmf[0], abs=0.015)


@pytest.mark.daily(1)
@pytest.mark.parametrize("mean, shape", LAWS)
def test_no_order_of_outcomes_beats_a_selection_and_one_comes_near(mean, shape):
    mu, n = 0.3, 3000
    edges = stats.norm.ppf(np.linspace(0, 1, n + 1))[1:-1]
    edges = np.sort(np.concatenate([edges, np.linspace(-7, 7, 1500)]))
    p, q = (
        np.diff(stats.norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]), m)) for m in (mu, 0)
    )
    keep = (p > 1e-300) & (q > 1e-300)
    p, q = p[keep], q[keep]
    losses, pmf = np.log(p / q), number_pmf(mean, shape, 1500)
    run = SelectedRun((gaussian(mu),), mean, shape)
    epsilon = run.epsilon(DELTA)
    # Where the choice enlarges losses most: outcomes that the other table has so much oftener, on top.
    cut = run.shifts[0] / (1 + shape) if shape < math.inf else 0.0
    rising = np.argsort(losses)
    attacked = []
    # From worst to best: as it is, reversed, and with what the other table prefers on top.
    top = losses < -cut
    order = np.concatenate([rising[~top[rising]], rising[top[rising]]])
    for which in (rising, rising[::-1], order):
        ours, theirs = best_of(p[which], pmf), best_of(q[which], pmf)
        for first, second in ((ours, theirs), (theirs, ours)):
            assert hockey_stick(first, second, epsilon) <= DELTA
            low, high = 0.0, epsilon
            while high - low > 1e-4:
                middle = (low + high) / 2
                low, high = (
                    (middle, high) if hockey_stick(first, second, middle) > DELTA else (low, middle)
                )
            attacked.append(low)
    assert max(attacked) > 0.9 * epsilon


@pytest.mark.parametrize("mean, shape", LAWS)
@pytest.mark.parametrize("mu", [0.05, 0.27, 1.0])
def test_a_selection_costs_less_than_its_renyi_bound(mean, shape, mu):
    accountant = RdpAccountant()
    single = dp_accounting.GaussianDpEvent(1.0 / mu)
    accountant.compose(dp_accounting.dp_event.RepeatAndSelectDpEvent(single, mean, shape))
    assert selected(gaussian(mu), mean, shape).epsilon(DELTA) <= accountant.get_epsilon(DELTA)


@pytest.mark.parametrize("shape", [0.0, 1.0])
def test_selected_pure_runs_cost_two_and_the_shape_as_much(shape):
    cost = selected(pure(0.3), 10.0, shape)
    assert cost.pure_epsilon <= (2 + shape) * 0.3 + 1e-9
    assert cost.epsilon(DELTA) <= cost.pure_epsilon


def test_a_single_run_costs_what_it_costs_and_more_cost_more():
    run = selected(gaussian(0.3), 1.0, 1.0)
    assert run.epsilon(DELTA) == pytest.approx(gaussian(0.3).epsilon(DELTA))
    costs = [selected(gaussian(0.3), m, 1.0).epsilon(DELTA) for m in (1.0, 2.0, 5.0, 50.0)]
    assert costs == sorted(costs) and len(set(costs)) == 4
    assert selected(gaussian(0.3), 3.0, 1.0).delta(costs[0]) > DELTA


def test_selections_compose_with_other_costs():
    one = selected(gaussian(0.2), 5.0, 1.0)
    apart = one.epsilon(DELTA / 2)
    assert one.epsilon(DELTA) < (one + one).epsilon(DELTA) <= 2 * apart
    assert (one + gaussian(1e-6)).epsilon(DELTA) == pytest.approx(one.epsilon(DELTA), rel=0.02)
    with_both = one + gaussian(0.2) + pure(0.1)
    bound = one.epsilon(DELTA / 2) + gaussian(0.2).epsilon(DELTA / 2) + 0.1
    assert one.epsilon(DELTA) < with_both.epsilon(DELTA) < bound
    assert with_both.pure_epsilon == math.inf
    with pytest.raises(NotImplementedError):
        one.dp_event()


def test_selections_of_what_has_a_loss_distribution():
    sampled = PrivacyCost("replace_one", sampled=(SampledGaussian(3.0, 0.05, 40),))
    counted = PrivacyCost("replace_one", counted=(PoissonGaussian(5.0, 1.0, 3),))
    for cost in (sampled, counted):
        epsilons = [selected(cost, mean, 1.0).epsilon(DELTA) for mean in (1.0, 5.0)]
        assert cost.epsilon(DELTA) == pytest.approx(epsilons[0], rel=1e-6)
        assert epsilons[0] < epsilons[1] < 3 * epsilons[0]


def test_disjoint_parts_cost_the_largest():
    assert in_parallel(gaussian(0.1), gaussian(0.3), gaussian(0.2)) == gaussian(0.3)
    assert in_parallel(pure(0.4)) == pure(0.4)
    costs = gaussian(0.2), pure(0.5)
    both = in_parallel(*costs)
    for epsilon in (0.0, 0.1, 0.3, 0.6):
        assert both.delta(epsilon) == max(cost.delta(epsilon) for cost in costs)
    for cost in costs:
        assert both.epsilon(DELTA) >= cost.epsilon(DELTA)
        assert (both + cost).epsilon(DELTA) >= (cost + cost).epsilon(DELTA) * (1 - 1e-3)
    for wrong in ((), (gaussian(0.1), PrivacyCost("add_or_remove_one", mu=0.1))):
        with pytest.raises(ValueError, match="at least one cost"):
            in_parallel(*wrong)


@pytest.mark.parametrize("relation", ["replace_one_person", "add_or_remove_one_person"])
def test_a_person_in_every_part_pays_for_every_part(relation):
    fits = [PrivacyCost(relation, mu=mu) for mu in (0.3, 0.4)]
    with pytest.raises(ValueError, match="one_part_per_person=True"):
        in_parallel(*fits)
    with pytest.raises(ValueError, match="add them up"):
        in_parallel(fits[0])
    assert in_parallel(*fits, one_part_per_person=True) == fits[1]
    assert sum(fits[1:], fits[0]).mu == pytest.approx(0.5)
    scored = PrivacyCost(relation, pure_events=(PureMechanism(0.5),))
    both = in_parallel(*fits, scored, one_part_per_person=True)
    assert both.epsilon(DELTA) == fits[1].epsilon(DELTA)


def test_parts_of_a_table_by_brute_force():
    # Counts of two parts, each with its own noise: a replaced row moves one of them.
    levels, ratio = (0.3, 0.8), np.exp(-np.array([0.3, 0.8]))
    counts = np.arange(-60, 61)
    laws = [(1 - r) / (1 + r) * r ** np.abs(counts) for r in ratio]
    cost = in_parallel(*map(pure, levels))
    for part in (0, 1):
        moved = [np.roll(law, i == part) for i, law in enumerate(laws)]
        one, other = (np.outer(*pair).ravel() for pair in (laws, moved))
        for epsilon in (0.0, 0.2, 0.7):
            assert hockey_stick(one, other, epsilon) <= cost.delta(epsilon) + 1e-9


@pytest.mark.parametrize(
    "wrong",
    [
        {"pure_events": (PureMechanism(0.0),)},
        {"pure_events": (PureMechanism(math.inf),)},
        {"selection_events": (SelectedRun((gaussian(0.1),), 0.5),)},
        {"selection_events": (SelectedRun((gaussian(0.1),), 2.0, -1.0),)},
        {"selection_events": (SelectedRun(()),)},
    ],
)
def test_what_is_no_mechanism_is_refused(wrong):
    with pytest.raises(ValueError, match="not a mechanism"):
        PrivacyCost("replace_one", **wrong)
