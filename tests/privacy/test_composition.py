"""Costs of many kinds: what one more takes, and that it makes no difference how they came together."""

import functools
import math
import operator

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from skdpbayes.privacy import (
    BoundedRangeDecisions,
    PrivacyCost,
    PrivacyLedger,
    SampledGaussian,
    losses,
)
from skdpbayes.privacy.losses import PureMechanism, _Kept, compose_losses, fitting_interval

DELTA = 1e-6


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch):
    """Start as a new process would."""
    forget(monkeypatch)


def forget(monkeypatch, room=losses._CACHE_BYTES):
    monkeypatch.setattr(losses, "_kept", _Kept(room))
    compose_losses.cache_clear()


def batches(number):
    """Return the cost of batches that no other number has."""
    part = SampledGaussian(20.0 + 7.3 * (number * 37 % 101), 0.01, 10)
    return PrivacyCost("replace_one", sampled=(part,))


def work_of(n_kinds, monkeypatch):
    """Return how many compositions, and how many distributions of a single kind, a ledger takes."""
    forget(monkeypatch)
    composed, made = [], []
    compose, make = PrivacyLossDistribution.compose, SampledGaussian.composed
    with monkeypatch.context() as patch:
        patch.setattr(
            PrivacyLossDistribution,
            "compose",
            lambda self, *args: composed.append(1) or compose(self, *args),
        )
        patch.setattr(
            SampledGaussian, "composed", lambda self, *args: made.append(1) or make(self, *args)
        )
        ledger = PrivacyLedger(1e3, DELTA)
        for number in range(n_kinds):
            ledger.reserve(batches(number))
    return len(composed), len(made)


def test_a_charge_of_a_new_kind_takes_a_few_compositions(monkeypatch):
    few, many = work_of(20, monkeypatch), work_of(80, monkeypatch)
    for n_kinds, (composed, made) in ((20, few), (80, many)):
        # Each kind is looked at alone and among others, and all anew where the grid becomes another one.
        assert n_kinds <= made <= 4 * n_kinds
        assert composed <= n_kinds * (math.log2(n_kinds) + 3)
    assert many[0] < 8 * few[0]  # Sums of all others for each would be sixteen times as many.


def test_more_of_a_kind_takes_no_longer(monkeypatch):
    made = []
    make = SampledGaussian.composed
    ledger = PrivacyLedger(1e3, DELTA)
    for number in range(40):
        ledger.reserve(batches(number))
    monkeypatch.setattr(
        SampledGaussian, "composed", lambda self, *args: made.append(1) or make(self, *args)
    )
    ledger.reserve(batches(7))
    assert len(made) <= 2


def test_totals_do_not_depend_on_order_or_on_what_is_kept(monkeypatch):
    costs = [batches(number) for number in range(12)]
    costs += [
        PrivacyCost("replace_one", decisions=(BoundedRangeDecisions(1e-3, 100),)),
        PrivacyCost("replace_one", pure_events=(PureMechanism(1e-3),)),
        PrivacyCost("replace_one", mu=1e-3),
    ]
    totals = set()
    for seed in range(3):
        forget(monkeypatch, losses._CACHE_BYTES if seed else 0)
        ledger = PrivacyLedger(1e3, DELTA)
        for place in np.random.default_rng(seed).permutation(len(costs)):
            ledger.reserve(costs[place])
        totals.add(ledger.spent_epsilon)
    assert len(totals) == 1


def test_it_is_what_composition_one_by_one_gives(monkeypatch):
    total = functools.reduce(operator.add, [batches(number) for number in range(15)])
    interval = fitting_interval(total.sampled, 0.0, "replace_one")
    one_by_one = functools.reduce(
        PrivacyLossDistribution.compose,
        [part.composed("replace_one", interval) for part in total.sampled],
    )
    found = compose_losses(total.sampled, 0.0, "replace_one")
    for epsilon in np.linspace(0.0, total.epsilon(DELTA), 3):
        wanted = one_by_one.get_delta_for_epsilon(epsilon)
        assert wanted > 1e-9
        assert found.get_delta_for_epsilon(epsilon) == pytest.approx(wanted, rel=1e-8, abs=1e-13)
    # Digests that are all alike tell nothing apart, and make no difference either.
    forget(monkeypatch)
    monkeypatch.setattr(losses, "_digest", lambda part: 0)
    alike = compose_losses(total.sampled, 0.0, "replace_one")
    assert alike.get_delta_for_epsilon(epsilon) == pytest.approx(wanted, rel=1e-8, abs=1e-13)


def test_what_is_kept_has_its_limit_and_the_latest_stays():
    def losses(size):
        found = type("Losses", (), {})()
        found.pmf = np.empty(size)
        return found

    kept = _Kept(8_000)
    for number in range(10):
        kept.put(((), number), losses(300))
    assert kept.used <= 8_000
    assert kept.get(((), 9)) is not None and kept.get(((), 0)) is None
    kept.put(((), "large"), losses(2_000))
    assert kept.get(((), "large")) is None and kept.get(((), 9)) is not None


# Forms that add up epsilons at parts of delta


WIDE = PrivacyCost("replace_one", decisions=(BoundedRangeDecisions(0.4702, 100),))


@pytest.mark.parametrize(
    "other",
    [
        PrivacyCost("replace_one", sampled=(SampledGaussian(10.0, 0.01, 100),)),
        PrivacyCost("replace_one", counted=(losses.PoissonGaussian(24.0, 0.14, 10),)),
    ],
    ids=["sampled", "counted"],
)
def test_wide_decisions_and_batches_cost_at_most_their_sum(other):
    total = WIDE + other
    epsilon = total.epsilon(2e-5)
    assert epsilon <= WIDE.epsilon(1e-5) + other.epsilon(1e-5)
    assert epsilon > max(WIDE.epsilon(2e-5), other.epsilon(2e-5))
    assert total.delta(epsilon) <= 2e-5 * (1 + 1e-2)


def test_two_selections_cost_at_most_what_they_add_up_to():
    run = PrivacyCost("replace_one", mu=0.2)
    first, second = (
        PrivacyCost("replace_one", selection_events=(losses.SelectedRun((run,), mean, 1.0),))
        for mean in (3.0, 5.0)
    )
    for both, parts in ((first + second, (first, second)), (first + first, (first, first))):
        epsilon = both.epsilon(2e-6)
        assert epsilon <= math.nextafter(sum(part.epsilon(1e-6) for part in parts), math.inf)
        assert epsilon > max(part.epsilon(2e-6) for part in parts)
        assert both.delta(epsilon) <= 2e-6 * (1 + 1e-2)
