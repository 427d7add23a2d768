"""Costs: closed forms, dp-accounting, and computations that share no code with either."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from skdpbayes.privacy import PrivacyCost, SampledGaussian
from skdpbayes.privacy.conversions import gaussian_delta, gaussian_epsilon, gaussian_mu
from skdpbayes.privacy.losses import (
    BoundedRangeDecisions,
    PoissonGaussian,
    PureMechanism,
    SelectedRun,
)

REPLACE = dp_accounting.NeighboringRelation.REPLACE_ONE
ADD = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE


def double_mixture_delta(multiplier, rate, count, epsilon, shift):
    """Hockey stick of a composition, by convolving densities of the log ratio on a fine grid.

    No connect-the-dots, no dp-accounting: the loss is rounded to the nearest grid point.
    """
    x = np.linspace(-12 * multiplier - 2, 12 * multiplier + 2, 1_000_001)
    near = stats.norm.logpdf(x, 0.0, multiplier) + np.log1p(-rate)
    upper = np.logaddexp(near, stats.norm.logpdf(x, 1.0, multiplier) + np.log(rate))
    if shift == 2:
        lower = np.logaddexp(near, stats.norm.logpdf(x, -1.0, multiplier) + np.log(rate))
    else:
        lower = stats.norm.logpdf(x, 0.0, multiplier)
    loss, mass = upper - lower, np.exp(upper) * (x[1] - x[0])
    spread = math.sqrt(np.sum(mass * loss**2)) / 60
    index = np.rint(loss / spread).astype(int)
    low = index.min()
    pmf = np.bincount(index - low, weights=mass)
    size = 2 ** math.ceil(math.log2(pmf.size * min(count, 600)))
    composed = np.fft.irfft(np.fft.rfft(pmf, size) ** count, size)
    # The composed loss lies in a window around its mean; unwrap the circular convolution there.
    mean = count * np.sum((np.arange(pmf.size) + low) * pmf) * spread
    positions = np.arange(size) + count * low
    half = size // 2
    center = round(mean / spread)
    positions = (positions - center + half) % size - half + center
    losses = positions * spread
    gain = np.maximum(0.0, 1.0 - np.exp(np.minimum(epsilon - losses, 0.0)))
    return float(np.sum(composed * gain * (losses > epsilon)))


@pytest.mark.parametrize("relation, shift", [("replace_one", 2), ("add_or_remove_one", 1)])
@pytest.mark.parametrize("multiplier, rate, count", [(1.2, 0.1, 20), (6.0, 0.05, 1000)])
def test_subsampled_cost_against_an_independent_convolution(
    relation, shift, multiplier, rate, count
):
    cost = PrivacyCost(relation, sampled=(SampledGaussian(multiplier, rate, count),))
    delta = 1e-4
    epsilon = cost.epsilon(delta)
    other = double_mixture_delta(multiplier, rate, count, epsilon, shift)
    # Add-or-remove is the worse of two directions; the one computed here is the larger.
    assert other == pytest.approx(delta, rel=0.06)


def test_subsampling_everything_is_no_subsampling():
    for relation, factor in (("replace_one", 2.0), ("add_or_remove_one", 1.0)):
        whole = PrivacyCost(relation, mu=factor * math.sqrt(30) / 20.0)
        sampled = PrivacyCost(relation, sampled=(SampledGaussian(20.0, 1.0, 30),))
        assert sampled.epsilon(1e-6) == pytest.approx(whole.epsilon(1e-6), rel=2e-3)


@given(
    multiplier=st.floats(0.8, 5.0),
    rate=st.floats(0.01, 0.5),
    count=st.integers(1, 60),
    relation=st.sampled_from(["replace_one", "add_or_remove_one"]),
)
@settings(max_examples=12, deadline=None)
def test_subsampled_cost_is_monotone_in_every_argument(multiplier, rate, count, relation):
    def epsilon(m, q, k):
        return PrivacyCost(relation, sampled=(SampledGaussian(m, q, k),)).epsilon(1e-5)

    here = epsilon(multiplier, rate, count) * (1 + 5e-3) + 2e-3
    assert epsilon(multiplier * 1.2, rate, count) <= here
    assert epsilon(multiplier, rate * 0.8, count) <= here
    assert epsilon(multiplier, rate, max(1, count // 2)) <= here


def test_replacing_costs_more_than_adding_but_at_most_two_additions():
    part = (SampledGaussian(3.0, 0.02, 500),)
    added = PrivacyCost("add_or_remove_one", sampled=part)
    replaced = PrivacyCost("replace_one", sampled=part)
    assert added.epsilon(1e-5) < replaced.epsilon(1e-5)
    # Where the noise is large the pair is nearly Gaussian, and the ratio of mu is nearly 2.
    calm = (SampledGaussian(60.0, 0.02, 5000),)
    mus = [
        gaussian_mu(PrivacyCost(relation, sampled=calm).epsilon(1e-5), 1e-5)
        for relation in ("replace_one", "add_or_remove_one")
    ]
    assert mus[0] / mus[1] == pytest.approx(2.0, rel=0.01)


def hockey_stick_2d(first, second, multiplier, rate, epsilon):
    """delta of one Poisson-sampled step with two records' gradients in the plane, on a grid."""
    axis = np.linspace(-9 * multiplier, 9 * multiplier, 401)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    cell = (axis[1] - axis[0]) ** 2

    def density(center):
        square = ((grid - center) ** 2).sum(axis=-1)
        return np.exp(-square / (2 * multiplier**2)) / (2 * np.pi * multiplier**2)

    p = (1 - rate) * density(np.zeros(2)) + rate * density(first)
    q = (1 - rate) * density(np.zeros(2)) + rate * density(second)
    return np.maximum(p - np.exp(epsilon) * q, 0.0).sum() * cell


@pytest.mark.nightly
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
def test_opposite_full_gradients_are_the_worst_case_under_replacement(epsilon):
    """The pair that is accounted for dominates every pair of gradients within the bound."""
    multiplier, rate = 0.8, 0.3
    e = np.array([1.0, 0.0])
    worst = hockey_stick_2d(e, -e, multiplier, rate, epsilon)
    for length in (0.3, 0.7, 1.0):
        for other in (0.0, 0.5, 1.0):
            for angle in np.linspace(0, np.pi, 7):
                second = other * np.array([np.cos(angle), np.sin(angle)])
                for pair in ((length * e, second), (second, length * e)):
                    assert hockey_stick_2d(*pair, multiplier, rate, epsilon) <= worst * (1 + 1e-9)
    cost = PrivacyCost("replace_one", sampled=(SampledGaussian(multiplier, rate, 1),))
    assert cost.delta(epsilon) == pytest.approx(worst, rel=5e-3)


@pytest.mark.parametrize("relation, factor", [("replace_one", 2.0), ("add_or_remove_one", 1.0)])
@pytest.mark.parametrize("count", [10, 10**4, 10**6])
def test_rounding_in_long_compositions_never_lowers_a_cost(relation, factor, count):
    """Fourier transforms in doubles lose what a tiny delta needs; known exactly at rate 1."""
    mu = 0.3
    multiplier = factor * math.sqrt(count) / mu
    cost = PrivacyCost(relation, sampled=(SampledGaussian(multiplier, 1.0, count),))
    for delta in (1e-5, 1e-8, 1e-10, 1e-12, 1e-14):
        assert cost.epsilon(delta) >= gaussian_epsilon(mu, delta) * (1 - 1e-9)
    assert cost.epsilon(1e-16) == math.inf
    for epsilon in (0.5, 1.0, 1.5, 2.0, 3.0):
        assert cost.delta(epsilon) >= gaussian_delta(mu, epsilon)


def test_published_event_means_the_same_to_the_pld_accountant():
    costs = [
        PrivacyCost("replace_one", mu=0.5),
        PrivacyCost("add_or_remove_one", mu=0.5),
        PrivacyCost("replace_one", 0.2, (SampledGaussian(2.0, 0.01, 300),)),
        PrivacyCost("add_or_remove_one", 0.2, (SampledGaussian(2.0, 0.01, 300),)),
    ]
    for cost in costs:
        event, relation = cost.dp_event()
        accountant = PLDAccountant(relation).compose(event)
        assert accountant.get_epsilon(1e-5) == pytest.approx(cost.epsilon(1e-5), rel=3e-3)


def test_published_event_is_refused_by_the_wrong_accountant():
    """The two accountants disagree on a plain Gaussian under replacement, by a factor of two."""
    plain = dp_accounting.GaussianDpEvent(4.0)
    pld = PLDAccountant(REPLACE).compose(plain).get_epsilon(1e-5)
    rdp = RdpAccountant(neighboring_relation=REPLACE).compose(plain).get_epsilon(1e-5)
    assert pld == pytest.approx(1.993, abs=2e-3)
    assert rdp < 0.6 * pld
    event, relation = PrivacyCost("replace_one", mu=0.5).dp_event()
    with pytest.raises(dp_accounting.UnsupportedEventError):
        RdpAccountant(neighboring_relation=relation).compose(event)
    event, relation = PrivacyCost("add_or_remove_one", mu=0.5).dp_event()
    read = RdpAccountant(neighboring_relation=relation).compose(event).get_epsilon(1e-5)
    assert read >= gaussian_epsilon(0.5, 1e-5)


def test_composition_of_gaussian_and_sampled_parts():
    gaussian = PrivacyCost("replace_one", mu=0.3)
    sampled = PrivacyCost("replace_one", sampled=(SampledGaussian(3.0, 0.02, 200),))
    both = gaussian + sampled
    assert both == sampled + gaussian
    assert (gaussian + gaussian).mu == pytest.approx(0.3 * math.sqrt(2))
    assert (sampled + sampled).sampled == (SampledGaussian(3.0, 0.02, 400),)
    assert max(gaussian.epsilon(1e-5), sampled.epsilon(1e-5)) < both.epsilon(1e-5)
    assert both.epsilon(1e-5) < gaussian.epsilon(5e-6) + sampled.epsilon(5e-6)
    assert both.delta(both.epsilon(1e-5)) == pytest.approx(1e-5, rel=1e-3)
    with pytest.raises(ValueError, match="cannot be added"):
        gaussian + PrivacyCost("add_or_remove_one", mu=0.3)


def test_limits():
    nothing = PrivacyCost("replace_one")
    assert nothing.epsilon(0.0) == 0.0 and nothing.delta(0.0) == 0.0
    everything = PrivacyCost("replace_one", mu=math.inf)
    assert everything.epsilon(1e-5) == math.inf and everything.delta(3.0) == 1.0
    assert PrivacyCost("replace_one", mu=0.1).epsilon(0.0) == math.inf
    assert PrivacyCost("replace_one", mu=0.1).delta(math.inf) == 0.0
    event, relation = everything.dp_event()
    assert PLDAccountant(relation).compose(event).get_epsilon(1e-5) == math.inf


@pytest.mark.parametrize(
    "make, what",
    [
        (lambda: PrivacyCost("swap_one"), "neighboring_relation"),
        (lambda: PrivacyCost("replace_one", mu=-1.0), "mu"),
        (lambda: PrivacyCost("replace_one", mu=math.nan), "mu"),
        (
            lambda: PrivacyCost("replace_one", sampled=(SampledGaussian(0.0, 0.1, 3),)),
            "not a mechanism",
        ),
        (
            lambda: PrivacyCost("replace_one", sampled=(SampledGaussian(1.0, 1.1, 3),)),
            "not a mechanism",
        ),
        (
            lambda: PrivacyCost("replace_one", sampled=(SampledGaussian(1.0, 0.1, 0),)),
            "not a mechanism",
        ),
        (lambda: PrivacyCost("replace_one", mu=1.0).epsilon(1.0), "delta"),
        (lambda: PrivacyCost("replace_one", mu=1.0).epsilon(math.nan), "delta"),
        (lambda: PrivacyCost("replace_one", mu=1.0).delta(-0.1), "epsilon"),
    ],
)
def test_nonsense_is_refused(make, what):
    with pytest.raises(ValueError, match=what):
        make()


def test_group_privacy_of_a_gaussian_cost():
    """k records of one person: the shift, and so mu, grows k times."""
    mu = 0.2
    epsilon = gaussian_epsilon(3 * mu, 1e-5)
    found = optimize.brentq(lambda e: gaussian_delta(3 * mu, e) - 1e-5, 0.01, 20)
    assert epsilon == pytest.approx(found, rel=1e-9)


def test_a_failure_is_added_to_delta():
    rest = PrivacyCost("replace_one", mu=0.5)
    cost = rest + PrivacyCost("replace_one", failure_probability=1e-6)
    assert cost.delta(1.0) == pytest.approx(rest.delta(1.0) + 1e-6)
    assert cost.epsilon(1e-5) == pytest.approx(rest.epsilon(9e-6))
    assert math.isinf(cost.epsilon(1e-6)) and math.isinf(cost.pure_epsilon)
    assert math.isinf(cost.concentrated) and not cost.is_gaussian
    assert (cost + cost).failure_probability == 2e-6


def test_a_printed_cost_says_what_was_spent_and_leaves_out_what_was_not():
    mu = PrivacyCost("replace_one", mu=0.25263)
    assert str(mu) == "replace-one: Gaussian noise of mu = 0.2526"
    assert "sampled=()" in repr(mu)
    assert str(PrivacyCost("replace_one_person")) == "replace-one-person: nothing"
    assert "no privacy" in str(PrivacyCost("replace_one", mu=math.inf))
    everything = PrivacyCost(
        "add_or_remove_one",
        mu=0.2,
        sampled=(SampledGaussian(10.0, 0.01, 3000),),
        counted=(PoissonGaussian(5.0, 0.5, 1),),
        decisions=(BoundedRangeDecisions(0.125, 4),),
        rho=0.01,
        pure_events=(PureMechanism(0.3), PureMechanism(0.4, 3)),
        selection_events=(SelectedRun((mu, mu)), SelectedRun((mu,), 5.0, count=2)),
        failure_probability=1e-9,
    )
    assert str(everything).removeprefix("add-or-remove-one: ").split("; ") == [
        "Gaussian noise of mu = 0.2",
        "3,000 steps with Gaussian noise of 10 times the bound, on batches of rate 0.01",
        "1 step with Gaussian noise of 5 times the bound, in which a record counts 0.5 times on average",
        "4 exponential mechanisms of bounded range 0.125",
        "zCDP of rho = 0.01",
        "pure epsilon = 0.3",
        "3 times pure epsilon = 0.4",
        "(the largest of 2 disjoint parts of the table: Gaussian noise of mu = 0.2526 | "
        "Gaussian noise of mu = 0.2526)",
        "2 times (the best of 5 runs on average, each with Gaussian noise of mu = 0.2526)",
        "a delta of 1e-09 on top",
    ]
