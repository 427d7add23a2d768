"""Weighted fits, watched from outside: what goes into every release, and the noise that comes with it.

Between any two tables that differ in a record, its weight included, sums move by no more than noise was
bought for, whatever was released before: all fits continue with what one of them released. The budget is
large so that records are longer than what scores and curvatures are cut to.
"""

import itertools
import math

import numpy as np
import pytest

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.samplers.statistics import requests
from skdpbayes.samplers.statistics.hmc import Posterior
from skdpbayes.samplers.statistics.sensitivity import joint_mu_squared

C = 0.5
COMMON = np.array([[0.2, 0.1], [-0.1, 0.3], [0.0, -0.2], [0.05, 0.0]])
# Longest rows, two that are orthogonal once the constant is appended, one that is cut, and none.
ROWS = [(1.0, 0.0), (-(C**2), math.sqrt(1.0 - C**4)), (-1.0, 0.0), (0.0, -30.0), (0.0, 0.0)]


class NoNoise:
    """A generator of nothing: what is released is what went in, on the lattice."""

    def standard_normal(self, size):
        return np.zeros(size)


class Watched:
    """Releases as they are, and what they are of. Fits after the first go on with what that released."""

    def __init__(self, patch):
        self.history, self.fits = [], []
        for name in ("release_moment", "release_vector"):
            patch.setattr(requests, name, self.watch(getattr(requests, name)))

    def watch(self, release):
        def watched(values, noise, generator, **charged):
            found = release(values, noise, generator)
            self.fits[-1].append((release(values, noise, NoNoise()), noise, found))
            if len(self.fits) == 1:
                self.history.append(found)
            return self.history[len(self.fits[-1]) - 1]

        return watched


def fit(watched, model, record=None):
    """Return all sums that are released of a table, and their noise."""
    rows, labels = COMMON.copy(), np.arange(len(COMMON)) % 2
    weights = np.full(len(COMMON), 0.3)
    if record is not None:
        rows, labels = np.vstack([rows, record[0]]), np.append(labels, record[1])
        weights = np.append(weights, record[2])
    watched.fits.append([])
    model.set_params(random_state=len(watched.fits))
    model.fit(rows, labels, sample_weight=weights)
    return watched.fits[-1]


def standardised(sums, noise, found):
    """Return the noise of a release in deviations; off the diagonal of a matrix it is half as large."""
    errors = (found - sums) / noise
    if errors.ndim == 1:
        return errors
    upper = np.triu_indices(len(errors), 1)
    return np.append(errors.diagonal(), math.sqrt(2.0) * errors[upper])


@pytest.mark.nightly
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("largest", [0.5, 4.0])
def test_no_neighbours_are_farther_apart_than_the_noise_is_for(
    monkeypatch, relation, n_classes, largest
):
    size = 3 if n_classes == 2 else 3 * n_classes
    monkeypatch.setattr(Posterior, "draw_all", lambda self, n, _: (np.zeros((n, size)), {}))
    adds = relation == "add_or_remove_one"
    model = DPBayesianLogisticRegression(
        100.0,
        1e-6,
        sampler="noise_aware",
        data_norm=1.0,
        intercept_scaling=C,
        classes=list(range(n_classes)),
        max_sample_weight=largest,
        neighboring_relation=relation,
        public_size=5 if adds else None,
    )
    watched = Watched(monkeypatch)
    weights = (0.0, 0.5 * largest, 10.0 * largest)
    records = itertools.product(ROWS, range(n_classes), weights)
    tables = [fit(watched, model, record) for record in records]
    pairs = list(itertools.combinations(tables, 2))
    if adds:
        without = fit(watched, model)
        pairs = [(table, without) for table in tables]
    plan, shares = model.plan_, []
    # A score and a curvature at one point count together.
    bounds, firsts = [plan.moment_multiplier, plan.label_multiplier], [0, 1, 2]
    for pair in zip(plan.score_multipliers, plan.curvature_multipliers, strict=True):
        squares = [m**-2.0 for m in pair if m is not None]
        bounds.append(joint_mu_squared(plan.family, *squares) ** -0.5)
        firsts.append(firsts[-1] + 2 - pair.count(None))
    for one, other in pairs:
        assert [noise for _, noise, _ in one] == [noise for _, noise, _ in other]
        moved = [np.linalg.norm(a[0] - b[0]) / a[1] for a, b in zip(one, other, strict=True)]
        assert len(moved) == firsts[-1]
        shares.append(np.sqrt(np.add.reduceat(np.square(moved), firsts[:-1])) * bounds)
        assert math.hypot(*moved) <= plan.cost.mu
    worst = np.max(shares, axis=0)
    assert (worst <= 1.0).all()
    # How much of the others records reach depends on how long they are in coordinates of their own.
    assert worst[0] > 0.999 and worst[1] > 0.7 and worst[2:].max() > 0.65
    # The noise is what it is said to be: within four deviations of its own deviation.
    noise = np.concatenate([standardised(*release) for table in tables for release in table])
    assert abs(noise.std() - 1.0) < 4.0 / math.sqrt(2 * noise.size)
