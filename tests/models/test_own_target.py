"""A user's own target has the same guarantees: its gradients are clipped record by record."""

from typing import NamedTuple

import numpy as np
import pytest
from references import planned

from skdpbayes.models import (
    TargetBounds,
    add_gradient,
    clips_each_example,
    example_gradient,
    implements,
    n_examples,
    potential_gradient,
    prior_gradient,
    pullback,
    shared_parameters,
)
from skdpbayes.privacy import Budget, PrivacyLedger
from skdpbayes.samplers import SGFS, SGLD, sample


class Location(NamedTuple):
    """ell_i = ||theta - z_i||^2 / 2, whose gradient is unbounded and must be clipped."""

    points: np.ndarray
    prior_precision: np.ndarray
    gradient_bound: float


@implements(n_examples, Location)
def _count(target):
    return target.points.shape[0]


@implements(example_gradient, Location)
def _gradient(target, theta, i, out):
    for j in range(theta.size):
        out[j] = theta[j] - target.points[i, j]


class Table(NamedTuple):
    """The same, under another name."""

    table: np.ndarray
    prior_precision: np.ndarray
    gradient_bound: float


@implements(n_examples, Table)
def _count_table(target):
    return target.table.shape[0]


@implements(example_gradient, Table)
def _gradient_table(target, theta, i, out):
    for j in range(theta.size):
        out[j] = theta[j] - target.table[i, j]


class Pulled(NamedTuple):
    """In two parts, or with a `pullback` alone."""

    table: NamedTuple
    gradient_bound: float


class Summed(NamedTuple):
    """Adds up by itself."""

    gradient_bound: float


class PulledOnly(NamedTuple):
    """Adds up nothing by itself."""

    gradient_bound: float


@implements(add_gradient, Summed)
def _sum(target, theta, selection, count, out):
    pass


@implements(shared_parameters, Pulled)
def _go(target, theta, out):
    pass


@implements(pullback, Pulled)
def _pull(target, theta, inner, sums, count, gradient, prior):
    pass


@implements(pullback, PulledOnly)
def _pull_only(target, theta, inner, sums, count, gradient, prior):
    pass


class CubicPrior(NamedTuple):
    """No records' worth of likelihood, and a prior of its own."""

    points: np.ndarray
    gradient_bound: float


@implements(n_examples, CubicPrior)
def _count_cubic(target):
    return target.points.shape[0]


@implements(example_gradient, CubicPrior)
def _no_gradient(target, theta, i, out):
    pass


@implements(prior_gradient, CubicPrior)
def _cubic(target, theta, out):
    for j in range(theta.size):
        out[j] = theta[j] + theta[j] ** 3


BOUNDS = TargetBounds(2, gradient_bound=1.0, smoothness=1.0, prior_precision=(1.0, 1.0))


def test_every_record_is_clipped_to_the_bound():
    points = np.array([[3.0, 4.0], [0.1, 0.0], [-1e200, 0.0], [np.inf, 0.0]])
    target = Location(points, np.zeros(2), 1.0)
    expected = [-0.6 - 0.1 + 1.0, -0.8]
    np.testing.assert_allclose(potential_gradient(target, np.zeros(2)), expected, rtol=1e-12)


def test_a_prior_of_its_own_replaces_the_gaussian_one():
    target = CubicPrior(np.zeros((3, 2)), 1.0)
    np.testing.assert_allclose(potential_gradient(target, np.array([2.0, -1.0])), [10.0, -2.0])


def test_it_is_sampled_by_the_same_plan_and_sampler():
    rng = np.random.default_rng(0)
    points = np.array([0.3, -0.2]) + 0.1 * rng.normal(size=(400, 2))
    target = Location(points, np.ones(2), 1.0)
    plan = planned(SGLD, BOUNDS, 400, Budget(np.inf, 1e-5), n_steps=40_000, n_draws=4_000)
    draws = sample(target, plan, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=0), points.sum(axis=0) / 401, atol=0.005)
    np.testing.assert_allclose(draws.var(axis=0), 1 / 401, rtol=0.12)


def test_records_may_be_called_a_table():
    points = np.random.default_rng(0).uniform(size=(300, 2))
    table, twin = (kind(points, np.ones(2), 1.0) for kind in (Table, Location))
    theta = np.array([0.3, -0.2])
    np.testing.assert_array_equal(potential_gradient(table, theta), potential_gradient(twin, theta))
    plan = SGLD().plan(TargetBounds(2, 1.0, 1.0, (1.0, 1.0)), 300, Budget(1.0, 1e-5))
    drawn = sample(table, plan, random_state=0)
    np.testing.assert_array_equal(drawn, sample(twin, plan, random_state=0))


def test_pulling_back_does_not_hide_that_gradients_are_clipped():
    # Last iterates are refused for such targets.
    assert not clips_each_example(Summed(1.0))
    assert clips_each_example(PulledOnly(1.0))
    assert not clips_each_example(Pulled(Summed(1.0), 1.0))
    points = np.zeros((3, 2))
    assert clips_each_example(Pulled(Location(points, np.ones(2), 1.0), 1.0))


def test_a_plan_for_another_target_is_refused_before_anything_is_read():
    plan = SGLD().plan(BOUNDS, 5, Budget(1.0, 1e-5))
    good = Location(np.zeros((5, 2)), np.ones(2), 1.0)
    for target, what in [
        (good._replace(gradient_bound=2.0), "gradient_bound"),
        (good._replace(gradient_bound=np.nan), "gradient_bound"),
        (good._replace(prior_precision=np.ones(3)), "prior_precision"),
        (good._replace(prior_precision=np.full(2, 0.5)), "prior precision"),
        (good._replace(points=np.zeros((6, 2))), "records"),
    ]:
        with pytest.raises(ValueError, match=what):
            sample(target, plan, random_state=0)


def test_the_number_of_records_is_not_looked_at_under_add_or_remove_one():
    plan = SGLD().plan(BOUNDS, 5, Budget(1.0, 1e-5, "add_or_remove_one"))
    target = Location(np.zeros((8, 2)), np.ones(2), 1.0)
    assert sample(target, plan, random_state=0).shape == (100, 2)


def test_fisher_scoring_of_other_targets_is_refused_before_the_charge():
    target = Location(np.zeros((30, 2)), np.ones(2), 1.0)
    plan = SGFS().plan(BOUNDS._replace(row_norm=1.0), 30, Budget(1.0, 1e-5))
    with PrivacyLedger(1.0, 1e-5) as ledger:
        with pytest.raises(ValueError, match="row_norm"):
            sample(target, plan, random_state=0)
    assert ledger.spent_epsilon == 0
