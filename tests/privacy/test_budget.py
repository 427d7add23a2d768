"""Budgets: the cost that uses one up, and numbers that are none."""

import math

import pytest

from skdpbayes.privacy import Budget, PrivacyCost, default_delta
from skdpbayes.privacy.conversions import gaussian_epsilon, gaussian_mu


def test_the_default_delta_is_below_one_record():
    assert default_delta(100) == 1e-5 and default_delta(10**7) == 1e-8


@pytest.mark.parametrize("relation, moved", [("replace_one", 2), ("add_or_remove_one", 1)])
def test_a_part_of_a_budget_is_what_its_mu_costs(relation, moved):
    budget = Budget(2.0, 1e-6, relation)
    assert budget.sensitivity_factor == moved
    assert budget.mu == gaussian_mu(2.0, 1e-6)
    part = budget.with_mu(0.25)
    assert part == Budget(gaussian_epsilon(0.25, 1e-6), 1e-6, relation)
    assert part.mu == pytest.approx(0.25, rel=1e-9)


def test_a_budget_allows_what_stays_below_it():
    budget = Budget(1.0, 1e-5)
    assert budget.allows(PrivacyCost("replace_one", mu=budget.mu))
    assert not budget.allows(PrivacyCost("replace_one", mu=1.001 * budget.mu))
    assert Budget(math.inf, 1e-5).allows(PrivacyCost("replace_one", mu=math.inf))


@pytest.mark.parametrize(
    "numbers, named",
    [
        ((0.0, 1e-5), "epsilon"),
        ((math.nan, 1e-5), "epsilon"),
        ((1.0, 1.0), "delta"),
        ((1.0, -1e-9), "delta"),
        ((1.0, math.nan), "delta"),
        ((1.0, 1e-5, "swap_one"), "neighboring_relation"),
    ],
)
def test_nonsense_is_refused(numbers, named):
    with pytest.raises(ValueError, match=named):
        Budget(*numbers).checked()


def test_gaussian_noise_needs_a_delta():
    with pytest.raises(ValueError, match="delta=0.*sampler='sgld'"):
        Budget(1.0, 0.0).checked_gaussian("sampler='sgld'")
    with pytest.raises(ValueError, match="default; no sampler takes this model at delta=0\\.$"):
        Budget(1.0, 0.0).checked_gaussian("a mixture's statistics")
    with pytest.raises(ValueError, match="takes this model at delta=0 .'dp_mh'.\\.$"):
        Budget(1.0, 0.0).checked_gaussian("sampler='sgld'", "'dp_mh'")
    Budget(math.inf, 0.0).checked_gaussian("sampler='sgld'")
