"""A gradient and a curvature at one point: no record moves both by more than is said, and one nearly does."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, softmax

from skdpbayes.samplers.noise_aware.coordinates import Coordinates
from skdpbayes.samplers.noise_aware.sensitivity import (
    free_curvature,
    joint_multiplier,
    joint_precision,
    joint_precision_at,
    noise_factor,
)
from skdpbayes.targets.linear.families import classifier

SHARES = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 4.0]


class Parts(NamedTuple):
    """What records add to a gradient and a curvature, one row each, in units of the bounds on both."""

    gradients: np.ndarray
    curvatures: np.ndarray


def parts_of(family, z, labels, weights, point):
    """Parts of records ``z``, weighted down to ``C = 1``, at a point of shape (n_blocks, d)."""
    v = weights / np.maximum(1.0, np.sum(z**2, axis=1))
    logits = np.zeros((len(z), len(family.contrasts))) + z @ point.T @ family.contrasts.T
    p = softmax(logits, axis=1)
    one_hot = np.eye(len(family.contrasts))[labels]
    residuals = (p - one_hot) @ family.contrasts
    slopes = np.einsum("nk,kl->nkl", p, np.eye(p.shape[1])) - p[:, :, None] * p[:, None]
    slopes = np.einsum("ka,nkl,lb->nab", family.contrasts, slopes, family.contrasts)
    gradients = np.einsum("n,na,ni->nai", v, residuals, z) / family.residual_bound
    curvatures = np.einsum("n,nab,ni,nj->naibj", v, slopes, z, z) / family.slope_bound
    return Parts(gradients.reshape(len(z), -1), curvatures.reshape(len(z), -1))


def squares(parts, others, a, b):
    """``J`` of records that are replaced by others, or that come and go, with the noise of a plan."""
    if others is None:
        return a * np.sum(parts.gradients**2, axis=1) + b * np.sum(parts.curvatures**2, axis=1)
    gradients, curvatures = (x - y for x, y in zip(parts, others, strict=True))
    return a * np.sum(gradients**2, axis=1) / 4.0 + b * np.sum(curvatures**2, axis=1) / 2.0


def records(rng, n, d):
    """Many of norm ``C``, some longer and shorter, along the first axis more often than elsewhere."""
    z = rng.normal(size=(n, d)) * [*rng.choice([0.3, 1.0, 3.0], size=1), *np.ones(d - 1)]
    lengths = np.where(rng.random(n) < 0.6, 1.0, np.exp(rng.normal(size=n)))
    return z / np.linalg.norm(z, axis=1, keepdims=True) * lengths[:, None]


def optimised(family, point, replaces, a, b, starts=5):
    """The worst records that ascents from random ones find, with every label."""
    rng, d, worst = np.random.default_rng(5), point.shape[1], 0.0
    count = 1 + replaces

    def loss(flat, labels):
        z = flat.reshape(count, d)
        parts = parts_of(family, z, labels, np.ones(count), point)
        first = Parts(*(part[:1] for part in parts))
        other = Parts(*(part[1:] for part in parts)) if replaces else None
        return -squares(first, other, a, b)[0]

    for _ in range(starts):
        labels = rng.integers(len(family.contrasts), size=count)
        start = records(rng, count, d).ravel()
        worst = max(worst, -minimize(loss, start, (labels,), "Nelder-Mead").fun)
    return worst


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("share", SHARES)
def test_the_joint_bound_is_the_maximum_over_probabilities(rng, n_classes, share):
    """Of residuals and slopes with any probabilities, two equal ones among them: a closed form is met."""
    family = classifier(n_classes).identified
    p = rng.dirichlet(np.full(n_classes, 0.2), size=40_000)
    x = np.linspace(0.0, 1.0, 20_001)[:, None]
    p = np.vstack([p, x * np.eye(n_classes)[0] + (1.0 - x) * np.eye(n_classes)[1]])
    longest = np.max(np.sum((p[:, None] - np.eye(n_classes)) ** 2, axis=2), axis=1)
    s, c = np.sum(p**2, axis=1), np.sum(p**3, axis=1)
    if n_classes == 2:
        longest, slopes = longest / 2.0, 16.0 * (p[:, 0] * p[:, 1]) ** 2
    else:
        longest, slopes = longest / 2.0, 4.0 * (s - 2.0 * c + s**2)
    worst = np.max(longest + share * slopes)
    bound = joint_precision(family, 1.0, share)
    assert worst <= bound * (1 + 1e-9)
    assert worst > 0.999 * bound
    assert bound <= 1.0 + share
    if share <= free_curvature(family):
        assert bound == 1.0
    assert share <= free_curvature(family) or bound > 1.0
    assert joint_precision(family, 9.0, 9.0 * share) == pytest.approx(9.0 * bound)


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("reach", [0.0, 1.0, 3.0, 8.0, 25.0])
def test_no_two_records_of_two_classes_are_farther_apart_at_a_point_than_is_paid_for(
    reach, share, replaces
):
    """Records of any length and weight, near the point, across it and opposite to it."""
    family, rng = classifier(2).identified, np.random.default_rng(1)
    point = np.array([[reach, 0.0, 0.0]])
    bound = joint_precision_at(family, reach, replaces, 1.0, share)
    found = 0.0
    for _ in range(3):
        sets = []
        for _ in range(2):
            z, labels = records(rng, 20_000, 3), rng.integers(2, size=20_000)
            sets.append(parts_of(family, z, labels, rng.choice([0.0, 0.5, 1.0], 20_000), point))
        found = max(found, squares(sets[0], sets[1] if replaces else None, 1.0, share).max())
    found = max(found, optimised(family, point, replaces, 1.0, share))
    assert found <= bound
    # Curvatures of two records at once are charged as if they did not point the same way.
    assert found > (0.75 if replaces and share else 0.985) * bound
    assert bound <= joint_precision(family, 1.0, share)


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0, 6.0])
def test_no_record_of_several_classes_moves_more_than_is_paid_for(n_classes, spread, replaces):
    """At points where logits of two classes differ by no more than the spread for rows of norm 1."""
    family, rng, share = classifier(n_classes).identified, np.random.default_rng(2), 0.25
    found, gradients, bound = 0.0, 0.0, joint_precision_at(family, spread, replaces, 1.0, share)
    of_gradient = joint_precision_at(family, spread, replaces, 1.0)
    for _ in range(8):
        logits = rng.normal(size=n_classes)
        logits[1:] = [logits[1], *([-9.0] * (n_classes - 2))][: n_classes - 1]
        logits = np.clip(logits, logits.max() - 1.0, None)
        logits = spread * (logits - logits.min()) / max(np.ptp(logits), 1e-9)
        point = np.outer(family.contrasts.T @ logits, [1.0, 0.0])
        z, labels = records(rng, 4000, 2), rng.integers(n_classes, size=4000)
        z /= np.maximum(1.0, np.linalg.norm(z, axis=1, keepdims=True))
        z[:2] = [[1.0, 0.0], [-1.0, 0.0]]
        parts = parts_of(family, z, labels, np.ones(4000), point)
        others = None
        if replaces:
            others = Parts(*(part[rng.permutation(4000)] for part in parts))
        found = max(found, squares(parts, others, 1.0, share).max())
        gradients = max(gradients, squares(parts, None, 1.0, 0.0).max())
    assert found <= bound
    assert gradients <= of_gradient
    assert gradients > 0.9 * of_gradient
    assert of_gradient <= 1.0 and bound <= 1.0


def test_at_the_start_residuals_are_known():
    """1/2 with two classes, whether one comes or is replaced; sqrt(1 - 1/K) with more."""
    for replaces in (False, True):
        assert joint_precision_at(classifier(2).identified, 0.0, replaces, 1.0) == pytest.approx(
            0.25
        )
        for n_classes in (3, 4, 10):
            expected = (1.0 - 1.0 / n_classes) / 2.0
            found = joint_precision_at(classifier(n_classes).identified, 0.0, replaces, 1.0)
            assert found == pytest.approx(expected)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("reach", [1e3, 1e9, math.inf])
def test_far_from_the_start_nothing_is_saved(n_classes, reach):
    for replaces in (False, True):
        for share in (0.0, 0.3):
            family = classifier(n_classes).identified
            found = joint_precision_at(family, reach, replaces, 1.0, share)
            assert found == pytest.approx(joint_precision(family, 1.0, share), rel=2e-3)


def test_logits_are_within_reach(rng):
    """Of records of norm ``C`` in new coordinates, or of any row there can be."""
    transform = rng.normal(size=(3, 3))
    coordinates = Coordinates(transform, 1.7, 2.0)
    for n_classes in (2, 4):
        family = classifier(n_classes).identified
        point = rng.normal(size=(family.n_blocks, 3))
        theta = point @ transform.T
        reach, rows = coordinates.reach(family, point.ravel(), theta), rng.normal(size=(20_000, 3))
        if n_classes == 2:
            rows *= 1.7 / np.linalg.norm(rows, axis=1, keepdims=True)
            widest = np.abs(rows @ point[0]).max()
        else:
            rows *= 2.0 / np.linalg.norm(rows, axis=1, keepdims=True)
            widest = np.ptp(rows @ theta.T @ family.contrasts.T, axis=1).max()
        assert 0.99 * reach < widest <= reach * (1 + 1e-12)


def test_rounding_is_charged_in_full_where_residuals_are_short():
    """Errors do not shrink with a bound: moved, errors and the lattice together are what was paid for."""
    family, multipliers, room, size = classifier(2).identified, (40.0, 60.0), 1.0 + 1e-3, 4000
    factor = noise_factor(family, 1.0, True, multipliers, room, size)
    a, b = (m**-2.0 for m in multipliers)
    moved = math.sqrt(joint_precision_at(family, 1.0, True, a, b)) + 1e-3 * math.hypot(
        math.sqrt(a), math.sqrt(b)
    )
    lattice = math.sqrt(size) * 2.0**-24
    paid = 1.0 / joint_multiplier(family, *multipliers)
    assert moved / factor + lattice == pytest.approx(paid, rel=1e-12)
    # Without a curvature and with everything within reach it is what a vector's noise has always been.
    alone = noise_factor(family, math.inf, True, (40.0, None), room, size)
    assert alone == pytest.approx(room / 40.0 / (1.0 / 40.0 - lattice), rel=1e-12)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_several_rows_that_are_replaced_are_as_far_apart_as_pairs_of_them(k, n_classes):
    """Persons with noise for rows that come and go: adversarial groups reach ``2 k``, none passes it."""
    family, rng, reach = classifier(n_classes).identified, np.random.default_rng(k), 2.0
    share = free_curvature(family)
    point = np.outer(family.contrasts.T @ np.linspace(0.0, reach, n_classes), [1.0, 0.0])
    noise = joint_precision_at(family, reach, False, 1.0, share)
    worst = 0.0
    for _ in range(300):
        sums = []
        for _ in range(2):
            z = np.repeat(records(rng, 1, 2), k, axis=0)
            if rng.random() < 0.5:
                z = records(rng, k, 2)
            if n_classes > 2:
                z /= np.maximum(1.0, np.linalg.norm(z, axis=1, keepdims=True))
            labels = np.full(k, rng.integers(n_classes))
            parts = parts_of(family, z, labels, rng.choice([0.5, 1.0], size=1), point)
            sums.append(Parts(*(part.sum(axis=0) for part in parts)))
        gradient, curvature = (x - y for x, y in zip(*sums, strict=True))
        worst = max(worst, gradient @ gradient + share * (curvature @ curvature))
    assert worst <= (2.0 * k) ** 2 * noise
    assert worst > 0.3 * (2.0 * k) ** 2 * noise


def test_the_bound_of_probabilities_that_is_used_is_no_larger_than_of_logits():
    """The largest residual for two classes is the logistic function of the logit, whichever way computed."""
    for reach in (0.1, 1.0, 5.0):
        found = joint_precision_at(classifier(2).identified, reach, False, 1.0)
        assert found == pytest.approx(expit(reach) ** 2, rel=2e-3)
