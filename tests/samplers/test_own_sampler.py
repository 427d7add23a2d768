"""A sampler of one's own, where a start was paid for first."""

import math

import pytest

from skdpbayes.privacy import AcceptBits, Budget, PrivacyCost
from skdpbayes.samplers import SGLD, Sampler
from skdpbayes.samplers.mixture.path import InformationGeometry
from skdpbayes.targets import TargetBounds

BUDGET = Budget(1.0, 1e-6)
GEOMETRY = InformationGeometry(TargetBounds(3, 1.0, 2.0, (1e-6, 0.1)), 100_000)


class Own(Sampler):
    name = "own"

    def plan(self, *args, **options):
        return SGLD().plan(*args, **options)


class OwnWalk(Own):
    name = "own_walk"

    def plan(self, bounds, n_samples, budget, **options):
        bits = (AcceptBits(1e-3, 10),)
        cost = PrivacyCost(budget.neighboring_relation, bits=bits)
        return super().plan(bounds, n_samples, budget, **options).changed(cost=cost)


def at_noise(sampler):
    multiplier, n_steps = 500.0, 300
    cost = PrivacyCost("replace_one", mu=BUDGET.mu)
    path = sampler.plan_at_paid_noise(
        GEOMETRY, GEOMETRY.n_samples, multiplier, n_steps, cost, budget=BUDGET
    )
    return path, 2.0 * math.sqrt(n_steps) / multiplier


def test_its_noise_leaves_room_for_the_rounding_of_what_its_target_confines():
    path, paid = at_noise(Own())
    assert path.bounds.gradient_bound == GEOMETRY.bounds.gradient_bound
    record = GEOMETRY.inflation(BUDGET) * path.bounds.gradient_bound
    moved = 2.0 * path.step_size * record
    noise = math.sqrt(2.0 * path.temperature * path.step_size)
    assert math.sqrt(path.n_steps) * moved / noise <= paid


def test_it_pays_in_gaussian_privacy_or_is_refused():
    assert at_noise(Own())[0].cost.mu == BUDGET.mu
    with pytest.raises(ValueError, match="own_walk"):
        at_noise(OwnWalk())
