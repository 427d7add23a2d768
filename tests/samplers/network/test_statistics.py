"""What calibrates a network, against plain numpy; and the same of a record wherever it stands."""

import numpy as np
import pytest
from scipy.special import softmax

from skdpbayes._mechanisms.exponential import SUM_UNIT
from skdpbayes.models.mlp import layers_of, make_mlp, mlp_size
from skdpbayes.samplers.network import confidence_sums, norm_sums

SCALES = np.array([0.1, 0.7, 1.3], dtype=np.float32)


def network(X, y, sizes, activation="tanh"):
    return make_mlp(X, y, 3.0, sizes, activation, 1.0, 1.0, np.zeros(mlp_size(sizes)))


def test_norms_are_even_at_a_typical_norm(rng):
    X = rng.normal(size=(301, 5)) * rng.lognormal(size=(301, 1))
    target = network(X, np.zeros(301, int), (5, 2))
    norms = np.geomspace(0.1, 4.0, 9)
    lengths = np.linalg.norm(target.values.astype(float), axis=1)
    expected = np.tanh(np.log(lengths[:, None] / norms)).sum(axis=0)
    np.testing.assert_allclose(norm_sums(target, norms) * SUM_UNIT, expected, atol=301 * SUM_UNIT)
    alike = network(np.full((50, 1), -0.6), np.zeros(50, int), (1, 2))
    assert abs(norm_sums(alike, np.array([0.8]))[0] * SUM_UNIT) < 1e-4


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("sizes", [(4, 3), (4, 6, 2), (4, 5, 6, 3)])
def test_confidence_is_that_of_draws_averaged(rng, sizes, activation):
    X, y = rng.normal(size=(300, 4)), rng.integers(sizes[-1], size=300)
    target = network(X, y, sizes, activation)
    draws = rng.normal(size=(7, mlp_size(sizes))).astype(np.float32)
    expected = []
    for scale in SCALES:
        each = []
        for draw in draws.astype(float):
            a = target.values.astype(float)
            layers = layers_of(draw, sizes)
            for k, (weights, biases) in enumerate(layers):
                a = a @ weights + biases
                if k < len(layers) - 1:
                    a = np.tanh(a) if activation == "tanh" else np.maximum(a, 0.0)
            each.append(softmax(scale * a, axis=1))
        mean = np.mean(each, axis=0)
        expected.append(np.sum(mean.max(axis=1) - (mean.argmax(axis=1) == y)))
    np.testing.assert_allclose(
        confidence_sums(target, draws, SCALES) * SUM_UNIT, expected, atol=2e-3
    )


@pytest.mark.parametrize("sizes", [(5, 3), (7, 33, 17, 2), (30, 100, 19)])
def test_a_record_says_the_same_wherever_it_stands(rng, sizes):
    """Else a sum could move by more than a record's own part, where one before it is missing."""
    X, y = rng.normal(size=(300, sizes[0])), rng.integers(sizes[-1], size=300)
    draws = rng.normal(size=(4, mlp_size(sizes))).astype(np.float32)
    norms = np.geomspace(0.1, 4.0, 9)

    def sums(rows):
        target = network(X[rows], y[rows], sizes)
        return np.r_[norm_sums(target, norms), confidence_sums(target, draws, SCALES)]

    whole = sums(np.arange(300))
    for order in (np.arange(300)[::-1], rng.permutation(300)):
        np.testing.assert_array_equal(sums(order), whole)
    each = sum(sums([i]) for i in range(300))
    np.testing.assert_array_equal(each, whole)
    # And no record says more than one.
    assert all(np.abs(sums([i]) * SUM_UNIT).max() <= 1.0 for i in range(300))


@pytest.mark.parametrize("size", [1e20, 1e38, 1e300])
def test_what_is_no_number_counts_at_most_as_one(rng, size):
    with np.errstate(over="ignore"):
        draws = (size * rng.normal(size=(2, mlp_size((4, 6, 3))))).astype(np.float32)
    target = network(rng.normal(size=(50, 4)), rng.integers(3, size=50), (4, 6, 3), "relu")
    assert np.abs(confidence_sums(target, draws, SCALES) * SUM_UNIT).max() <= 50.0
