"""Mixtures: what one record can do to statistics, and rows in the ball."""

import math

import numpy as np
import pytest
from mixtures import KINDS, make_model, make_reference
from scipy.spatial.distance import cdist

from skdpbayes.models.mixture import STATISTICS_NORM, Components, make_mixture
from skdpbayes.samplers.mixture.statistics import StatisticsReleases


def statistics_of(table, components, one):
    """Exact statistics of a single record."""
    alone = table._replace(values=table.values[one : one + 1], scale=table.scale[one : one + 1])
    return StatisticsReleases(alone, 1, np.random.default_rng(0)).release(components, 0.0)


def as_vector(statistics):
    """Symmetric matrices as they are: entries off the diagonal count twice."""
    return np.concatenate([part.ravel() for part in statistics])


def adversarial_components(rng, model):
    """Factors from tiny to huge, weights down to nothing, means anywhere in the ball and beyond."""
    size = 10.0 ** rng.uniform(-3, 6)
    weights = rng.dirichlet(np.full(model.n_components, 10.0 ** rng.uniform(-2, 1)))
    weights = np.maximum(weights, 1e-300)
    reach = rng.choice([0.0, 0.5, 1.0, 3.0])
    return make_reference(rng, model, weights, size, spread=30.0, reach=reach)


@pytest.mark.daily(2)
@pytest.mark.parametrize("n_features", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_statistics_of_a_record_are_in_the_ball_that_privacy_rests_on(rng, kind, n_features):
    model = make_model(kind, 4, n_features)
    longest, farthest = 0.0, 0.0
    for _ in range(150):
        components = adversarial_components(rng, model)
        rows = rng.normal(size=(6, n_features)) * 10.0 ** rng.integers(-1, 3, size=(6, 1))
        rows[4] = -rows[5]
        rows[3] = 1e9 * components.means[0]
        table = make_mixture(rows, model)
        vectors = [as_vector(statistics_of(table, components, one)) for one in range(6)]
        assert np.isfinite(vectors).all()
        longest = max(longest, np.linalg.norm(vectors, axis=1).max())
        farthest = max(farthest, cdist(vectors, vectors).max())
    assert 0.95 * STATISTICS_NORM < longest <= STATISTICS_NORM * (1 + 1e-12)
    assert 0.9 * math.sqrt(6.0) < farthest <= math.sqrt(6.0) * (1 + 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_two_records_reach_the_bound_on_their_distance(kind):
    """Each in a component of its own: a smaller bound would be wrong."""
    model = make_model(kind, 2, 1, data_norm=1.0)
    factors = np.full((2, 1, 1) if model.is_triangular else (2, 1), 50.0)
    components = Components(np.log([0.5, 0.5]), np.array([[1.0], [-1.0]]), factors)
    table = make_mixture(np.array([[1.0], [-1.0]]), model)
    vectors = [as_vector(statistics_of(table, components, one)) for one in range(2)]
    assert np.linalg.norm(vectors[0]) == pytest.approx(math.sqrt(3.0))
    assert np.linalg.norm(vectors[0] - vectors[1]) == pytest.approx(math.sqrt(6.0))


def test_rows_are_clipped_to_the_bound_and_no_further(rng):
    model = make_model("full", 2, 3, data_norm=2.5)
    rows = rng.normal(size=(200, 3))
    rows *= rng.choice([0.1, 1.0, 3.0, 1e6, 1e150], size=(200, 1))
    table = make_mixture(rows, model)
    kept = table.scale[:, None] * table.values
    lengths = np.linalg.norm(rows / 1e150, axis=1) * 1e150
    beyond = lengths > model.data_norm
    assert 20 < beyond.sum() < 180
    np.testing.assert_allclose(np.linalg.norm(kept[beyond], axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(kept[beyond], rows[beyond] / lengths[beyond, None], rtol=1e-13)
    np.testing.assert_allclose(kept[~beyond], rows[~beyond] / model.data_norm, rtol=1e-14)
