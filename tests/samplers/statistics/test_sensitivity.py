"""A score and a curvature at one point: no record moves both by more than is said, and one nearly does."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from skdpbayes.models.families import classifier
from skdpbayes.samplers.statistics.design import Coordinates
from skdpbayes.samplers.statistics.requests import Part, release_sum
from skdpbayes.samplers.statistics.sensitivity import (
    free_curvature,
    joint_mu_squared,
    joint_mu_squared_at,
)

SHARES = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 4.0]


class Parts(NamedTuple):
    """What records add to a score and a curvature, one row each, in units of the bounds on both."""

    scores: np.ndarray
    curvatures: np.ndarray


def parts_of(family, z, weights, point):
    """Parts of records ``z``, weighted down to ``C = 1``, at a point of shape (n_blocks, d)."""
    v = weights / np.maximum(1.0, np.sum(z**2, axis=1))
    n_classes = len(family.contrasts)
    p = softmax(z @ point.T @ family.contrasts.T, axis=1)
    away = (p - 1.0 / n_classes) @ family.contrasts
    slopes = np.einsum("nk,kl->nkl", p, np.eye(n_classes)) - p[:, :, None] * p[:, None]
    slopes = np.einsum("ka,nkl,lb->nab", family.contrasts, slopes, family.contrasts)
    scores = np.einsum("n,na,ni->nai", v, away, z) / family.score_bound
    curvatures = np.einsum("n,nab,ni,nj->naibj", v, slopes, z, z) / family.slope_bound
    return Parts(scores.reshape(len(z), -1), curvatures.reshape(len(z), -1))


def squares(parts, others, a, b):
    """``J`` of records that are replaced by others, or that come and go, with the noise of a plan."""
    if others is None:
        return a * np.sum(parts.scores**2, axis=1) + b * np.sum(parts.curvatures**2, axis=1)
    scores, curvatures = (x - y for x, y in zip(parts, others, strict=True))
    return a * np.sum(scores**2, axis=1) / 4.0 + b * np.sum(curvatures**2, axis=1) / 2.0


def records(rng, n, d):
    """Many of norm ``C``, some longer and shorter, along the first axis more often than elsewhere."""
    z = rng.normal(size=(n, d)) * [*rng.choice([0.3, 1.0, 3.0], size=1), *np.ones(d - 1)]
    lengths = np.where(rng.random(n) < 0.6, 1.0, np.exp(rng.normal(size=n)))
    return z / np.linalg.norm(z, axis=1, keepdims=True) * lengths[:, None]


def optimised(family, point, replaces, a, b, starts=5):
    """The worst records that ascents from random ones find."""
    rng, d, worst = np.random.default_rng(5), point.shape[1], 0.0
    count = 1 + replaces

    def loss(flat):
        parts = parts_of(family, flat.reshape(count, d), np.ones(count), point)
        first = Parts(*(part[:1] for part in parts))
        other = Parts(*(part[1:] for part in parts)) if replaces else None
        return -squares(first, other, a, b)[0]

    for _ in range(starts):
        start = records(rng, count, d).ravel()
        worst = max(worst, -minimize(loss, start, method="Nelder-Mead").fun)
    return worst


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("share", SHARES)
def test_the_joint_bound_is_the_maximum_over_probabilities(rng, n_classes, share):
    """Of scores and slopes with any probabilities, two equal ones among them: a closed form is met."""
    family = classifier(n_classes).identified
    p = rng.dirichlet(np.full(n_classes, 0.2), size=40_000)
    x = np.linspace(0.0, 1.0, 20_001)[:, None]
    p = np.vstack([p, x * np.eye(n_classes)[0] + (1.0 - x) * np.eye(n_classes)[1]])
    s, c = np.sum(p**2, axis=1), np.sum(p**3, axis=1)
    scores = (s - 1.0 / n_classes) / (1.0 - 1.0 / n_classes)
    slopes = 4.0 * (s - 2.0 * c + s**2)  # 16 p^2 (1 - p)^2 for two classes.
    worst = np.max(scores + share * slopes)
    bound = joint_mu_squared(family, 1.0, share)
    assert worst <= bound * (1 + 1e-9)
    assert worst > 0.999 * bound
    assert bound <= 1.0 + share
    assert (bound == 1.0) == (share <= free_curvature(family))
    assert joint_mu_squared(family, 9.0, 9.0 * share) == pytest.approx(9.0 * bound)


def test_curvatures_are_free_up_to_here_and_not_beyond():
    for n_classes, share in ((2, 1.0), (3, 0.75), (6, 0.6)):
        family = classifier(n_classes).identified
        assert free_curvature(family) == pytest.approx(share)
        assert joint_mu_squared(family, 1.0, share) == pytest.approx(1.0)
        assert joint_mu_squared(family, 1.0, 1.1 * share) > 1.05


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("replaces", [False, True])
def test_no_record_moves_the_sum_of_labels_by_more_than_is_paid_for(rng, n_classes, replaces):
    """Whatever its label, length and weight; opposite rows with one label move it by all of that."""
    family = classifier(n_classes).identified
    unit = (np.eye(n_classes) - 1.0 / n_classes) @ family.contrasts
    sums = []
    for sign in (1.0, -1.0):
        z, weights = records(rng, 5000, 3), rng.choice([0.0, 0.5, 1.0], 5000)
        z[0], weights[0] = [sign, 0.0, 0.0], 1.0
        labels = rng.integers(n_classes, size=5000)
        labels[0] = 0
        v = weights / np.maximum(1.0, np.sum(z**2, axis=1))
        sums.append(np.einsum("n,na,ni->nai", v, unit[labels], z).reshape(5000, -1))
    moved = np.linalg.norm(sums[0] - replaces * sums[1], axis=1)
    bound = (1 + replaces) * family.score_bound
    assert 0.999 * bound < moved.max() <= bound * (1 + 1e-12)


@pytest.mark.daily(6)
@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("reach", [0.0, 0.3, 1.0, 3.0, 8.0, 25.0])
def test_two_records_of_two_classes_are_apart_by_at_most_what_is_paid(reach, share, replaces):
    """Records of any length and weight, near the point, across it and opposite to it."""
    family, rng = classifier(2).identified, np.random.default_rng(1)
    point = np.array([[reach, 0.0, 0.0]])
    bound = joint_mu_squared_at(family, reach, replaces, 1.0, share)
    found = 0.0
    for _ in range(3):
        sets = []
        for _ in range(2):
            z, weights = records(rng, 10_000, 3), rng.choice([0.0, 0.5, 1.0], 10_000)
            z[0], z[1] = [1.0, 0.0, 0.0], np.eye(3)[1 + len(sets)]
            sets.append(parts_of(family, z, np.append([1.0, 1.0], weights[2:]), point))
        found = max(found, squares(sets[0], sets[1] if replaces else None, 1.0, share).max())
    found = max(found, optimised(family, point, replaces, 1.0, share))
    assert found <= bound * (1 + 1e-12)
    # With some of a curvature the worst two need not be opposite.
    assert found >= (0.9 if replaces else 0.995) * bound
    assert bound <= joint_mu_squared(family, 1.0, share)


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize("spread", [0.0, 1e-8, 0.5, 2.0, 6.0])
def test_no_record_of_several_classes_moves_more_than_is_paid_for(n_classes, spread, replaces):
    """At points where logits of two classes differ by no more than the spread for rows of norm 1."""
    family, rng = classifier(n_classes).identified, np.random.default_rng(2)
    share = free_curvature(family)
    found, scores, bound = 0.0, 0.0, joint_mu_squared_at(family, spread, replaces, 1.0, share)
    of_score = joint_mu_squared_at(family, spread, replaces, 1.0)
    for trial in range(8):
        logits = np.clip(rng.normal(size=n_classes), -0.5, 0.5)
        if trial < n_classes:
            logits = np.where(np.arange(n_classes) <= trial, 1.0, 0.0)
        logits = spread * (logits - logits.min()) / max(np.ptp(logits), 1e-9)
        point = np.outer(family.contrasts.T @ logits, [1.0, 0.0])
        z = records(rng, 4000, 2)
        z /= np.maximum(1.0, np.linalg.norm(z, axis=1, keepdims=True))
        z[:2] = [[1.0, 0.0], [0.0, 1.0]]
        parts = parts_of(family, z, np.ones(4000), point)
        others = None
        if replaces:
            other = rng.permutation(4000)
            others = Parts(*(part[other] for part in parts))
        found = max(found, squares(parts, others, 1.0, share).max())
        scores = max(scores, squares(parts, None, 1.0, 0.0).max())
    assert found <= bound * (1 + 1e-12)
    assert 0.99 * of_score <= scores <= of_score
    assert of_score <= 1.0 and bound <= 1.0 + 1e-9
    # Two halves, of which the bound on curvatures is, may be out of reach.
    assert found > (0.99 if spread < 0.1 else 0.5) * bound


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_at_the_start_scores_say_nothing(n_classes):
    """They are 0 there for any table, and in proportion to the logits close by, however close."""
    family = classifier(n_classes).identified
    for replaces in (False, True):
        assert joint_mu_squared_at(family, 0.0, replaces, 1.0) == 0.0
        for reach in (1e-12, 1e-9, 1e-4):
            near, far = (
                joint_mu_squared_at(family, r, replaces, 1.0) for r in (reach, 2.0 * reach)
            )
            assert near > 0.0
            assert far == pytest.approx(4.0 * near, rel=1e-3)
    # With other records in their place, half the distance to the farthest for two classes.
    alone, replaced = (joint_mu_squared_at(family, 1e-4, r, 1.0) for r in (False, True))
    assert replaced == pytest.approx(alone / 4.0 if n_classes == 2 else alone, rel=1e-2)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("reach", [1e3, 1e9, math.inf])
def test_far_from_the_start_nothing_is_saved(n_classes, reach):
    for replaces in (False, True):
        for share in (0.0, 0.3):
            family = classifier(n_classes).identified
            found = joint_mu_squared_at(family, reach, replaces, 1.0, share)
            assert found == pytest.approx(joint_mu_squared(family, 1.0, share), rel=2e-3)


def test_logits_are_within_reach(rng):
    """Of records of norm ``C`` in new coordinates, or of any row there can be."""
    transform = rng.normal(size=(3, 3))
    coordinates = Coordinates(transform, 1.7, 2.0)
    for n_classes in (2, 4):
        family = classifier(n_classes).identified
        point = rng.normal(size=(family.n_blocks, 3))
        theta = point @ transform.T
        reach, rows = (
            coordinates.logit_bound(family, point.ravel(), theta),
            rng.normal(size=(20_000, 3)),
        )
        if n_classes == 2:
            rows *= 1.7 / np.linalg.norm(rows, axis=1, keepdims=True)
            widest = np.abs(rows @ point[0]).max()
        else:
            rows *= 2.0 / np.linalg.norm(rows, axis=1, keepdims=True)
            widest = np.ptp(rows @ theta.T @ family.contrasts.T, axis=1).max()
        assert 0.99 * reach < widest <= reach * (1 + 1e-12)


def test_rounding_is_charged_in_full_where_residuals_are_short(rng):
    """Errors do not shrink with a bound: moved, errors and the lattice together are what was paid for."""
    family, room, a, b = classifier(2).identified, 1.0 + 1e-3, 40.0**-2.0, 60.0**-2.0
    parts = Part(np.zeros(60), 3.0, 40.0), Part(np.zeros((60, 60)), 5.0, 60.0)
    moved = math.sqrt(joint_mu_squared_at(family, 1.0, True, a, b))
    paid, lattice = math.sqrt(joint_mu_squared(family, a, b)), math.sqrt(3660) * 2.0**-24
    sums = release_sum(parts, rng, inflation=room, paid=paid, moved=moved)
    moved += 1e-3 * math.hypot(1.0 / 40.0, 1.0 / 60.0)
    for part, noisy_sum in zip(parts, sums, strict=True):
        factor = noisy_sum.noise / (part.sensitivity * part.multiplier)
        assert moved / factor + lattice == pytest.approx(paid, rel=1e-12)
    # A sum alone has the noise that a vector's has always been.
    (alone,) = release_sum((Part(np.zeros(3660), 3.0, 40.0),), rng, inflation=room)
    assert alone.noise == pytest.approx(3.0 * room / (1.0 / 40.0 - lattice), rel=1e-12)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_several_rows_that_are_replaced_are_as_far_apart_as_pairs_of_them(k, n_classes):
    """Persons with noise for rows that come and go: no group passes ``2 k``."""
    family, rng, reach = classifier(n_classes).identified, np.random.default_rng(k), 2.0
    point = np.outer(family.contrasts.T @ np.linspace(0.0, reach, n_classes), [1.0, 0.0, 0.0])
    for share in (0.0, free_curvature(family)):
        noise, worst = joint_mu_squared_at(family, reach, False, 1.0, share), 0.0
        for trial in range(300):
            sums = []
            for sign in (1.0, -1.0):
                z = np.repeat([[0.7, 0.7 * sign, 0.0]], k, axis=0)
                if trial:
                    z = records(rng, k, 3)
                if n_classes > 2:
                    z /= np.maximum(1.0, np.linalg.norm(z, axis=1, keepdims=True))
                weights = rng.choice([0.5, 1.0], size=k) if trial else np.ones(k)
                parts = parts_of(family, z, weights, point)
                sums.append(Parts(*(part.sum(axis=0) for part in parts)))
            score, curvature = (x - y for x, y in zip(*sums, strict=True))
            worst = max(worst, score @ score + share * (curvature @ curvature))
        assert worst <= (2.0 * k) ** 2 * noise
        # No two rows are opposite and both far from zero: logits of one are those of the other.
        assert worst > (0.3 if n_classes == 2 else 0.15) * (2.0 * k) ** 2 * noise


@pytest.mark.parametrize("reach", [0.1, 1.0, 5.0])
def test_the_longest_score_is_that_of_a_record_along_the_point(reach):
    found = joint_mu_squared_at(classifier(2).identified, reach, False, 1.0)
    assert found == pytest.approx(math.tanh(reach / 2.0) ** 2, rel=2e-3)
