"""Networks: gradients, norms and clipping against a loop over records, and against differences of losses."""

import numpy as np
import pytest
from compiling import called
from numba import njit
from scipy.special import log_softmax

from skdpbayes._compute.gradients import (
    estimate_gradient,
    gradient_oracle,
    gradient_sum,
    several_cores,
    shuffle,
)
from skdpbayes.models import clips_each_example, mlp_bounds, potential_gradient
from skdpbayes.models.mlp import (
    CHUNK,
    ROW_NORM,
    _backward,
    _softmax_error,
    _weighted_sum,
    forward,
    layers_of,
    make_mlp,
    mlp_size,
    random_start,
    scaled_rows,
)
from skdpbayes.models.rows import clip_rows

SHAPES = [(4, 3), (4, 5, 3), (4, 5, 6, 2)]
DATA_NORM = 2.5
ALL = np.arange(CHUNK)


def table(rng, n, sizes):
    return rng.normal(size=(n, sizes[0])) * 1.5, rng.integers(sizes[-1], size=n)


def network(X, y, sizes, activation="tanh", clip_norm=1.0, start=None):
    start = np.zeros(mlp_size(sizes)) if start is None else start
    return make_mlp(X, y, DATA_NORM, sizes, activation, clip_norm, 0.7, start)


def rows_of(X):
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return ROW_NORM / DATA_NORM * X * np.minimum(1.0, DATA_NORM / norms)


def logarithms(theta, row, sizes, activation):
    """Return the logarithms of the classes' probabilities."""
    a = row
    layers = layers_of(theta, sizes)
    for number, (weights, biases) in enumerate(layers):
        a = a @ weights + biases
        if number < len(layers) - 1:
            a = np.tanh(a) if activation == "tanh" else np.maximum(a, 0.0)
    return log_softmax(a)


def loss(theta, row, label, sizes, activation):
    return -logarithms(theta, row, sizes, activation)[label]


def weight_floor(theta, row, label, sizes, activation):
    """By what a record's norm counts as longer, so that its weight depends on its label by no more."""
    errors = np.exp(logarithms(theta, row, sizes, activation)) - np.eye(sizes[-1])
    lengths = np.linalg.norm(errors, axis=1)
    return max(1.0, 0.4 / sizes[-1] * lengths.max() / lengths[label])


def example_gradient(theta, row, label, sizes, activation):
    """Central differences of the loss, in double precision."""
    step = 1e-6
    return np.array(
        [
            (
                loss(theta + step * e, row, label, sizes, activation)
                - loss(theta - step * e, row, label, sizes, activation)
            )
            / (2.0 * step)
            for e in np.eye(theta.size)
        ]
    )


@pytest.mark.daily(2)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("sizes", SHAPES)
def test_gradients_and_norms_against_a_loop_over_differences(rng, sizes, activation):
    X, y = table(rng, 30, sizes)
    theta = rng.normal(size=mlp_size(sizes)) * 0.8
    each = [
        example_gradient(theta, row, label, sizes, activation)
        for row, label in zip(rows_of(X), y, strict=True)
    ]
    norms = np.linalg.norm(each, axis=1)
    floors = [
        weight_floor(theta, row, label, sizes, activation)
        for row, label in zip(rows_of(X), y, strict=True)
    ]
    assert max(floors) > 1.0
    for clip_norm in (np.quantile(norms, 0.1), np.median(norms), 2.0 * norms.max()):
        target = network(X, y, sizes, activation, clip_norm)
        expected = sum(
            min(1.0, clip_norm / (floor * norm)) * gradient
            for norm, gradient, floor in zip(norms, each, floors, strict=True)
        )
        found = potential_gradient(target, theta, temperature=0.0)
        np.testing.assert_allclose(found, expected, atol=2e-5 * norms.sum() / norms.size)
    prior = potential_gradient(target, theta, 3.0) - potential_gradient(target, theta, 0.0)
    np.testing.assert_allclose(prior, 3.0 * 0.7 * theta, rtol=1e-9)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_no_record_moves_the_sum_by_more_than_the_bound(rng, activation):
    sizes = (4, 6, 3)
    for scale in (1e-3, 1.0, 30.0, 1e4):
        theta = scale * rng.normal(size=mlp_size(sizes))
        for clip_norm in (1e-3, 1.0, 50.0):
            bound = mlp_bounds(sizes, clip_norm, 1.0).gradient_bound
            assert clip_norm < bound < 1.01 * clip_norm
            for _ in range(5):
                X, y = table(rng, 1, sizes)
                target = network(1e6 * X, y, sizes, activation, clip_norm)
                assert target.gradient_bound == bound
                norm = np.linalg.norm(potential_gradient(target, theta, 0.0))
                assert norm <= clip_norm * (1.0 + 1e-6)


def test_what_has_no_direction_counts_as_zero(rng):
    sizes = (4, 6, 5, 3)
    X, y = table(rng, 200, sizes)
    for activation in ("tanh", "relu"):
        for size in (1e20, 1e38, 1e300):
            theta = size * rng.normal(size=mlp_size(sizes))
            target = network(X, y, sizes, activation)
            found = potential_gradient(target, theta, 0.0)
            assert np.isfinite(found).all()
            assert np.linalg.norm(found) <= 200 * target.gradient_bound


@pytest.mark.parametrize("n", [1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 17])
def test_sums_do_not_depend_on_how_they_are_cut(rng, n):
    sizes = (4, 6, 3)
    X, y = table(rng, n, sizes)
    target = network(X, y, sizes)
    theta = rng.normal(size=mlp_size(sizes))
    one_by_one = sum(
        potential_gradient(network(X[i : i + 1], y[i : i + 1], sizes), theta, 0.0) for i in range(n)
    )
    for n_chunks in (1, 3, 16):
        sums = []
        oracle, _ = gradient_oracle(target, theta.size, n)
        order = np.arange(n)[::-1].copy()
        for loop in (0, several_cores()):
            out = np.empty(theta.size)
            chunks = np.full((n_chunks, theta.size), np.nan)
            summed(oracle._replace(chunks=chunks), theta, order, n, loop, out)
            sums.append(out)
        np.testing.assert_array_equal(*sums)
        np.testing.assert_allclose(sums[0], one_by_one, atol=1e-6 * n)


@njit
def summed(oracle, theta, order, count, loop, out):
    gradient_sum(oracle, theta, order, count, loop, out, np.empty(out.size))


@njit
def errors_of(target, theta, selection):
    """Return the inputs of all layers, and the errors times the records' weights: one chunk's."""
    sizes, size = target.sizes, selection.size
    weights = theta.astype(np.float32)
    acts = np.empty(size * (sizes[:-1] + 1).sum(), np.float32)
    deltas = np.empty(size * sizes[1:].sum(), np.float32)
    squares, floors = np.empty(size), np.empty(size)
    network = target.values, sizes, target.activation
    forward(*network, weights, acts, deltas, selection, 0, size)
    _softmax_error(target.labels, sizes[-1], deltas, selection, 0, size, floors)
    _backward(sizes, target.activation, weights, acts, deltas, size, squares)
    summed = np.empty_like(weights)
    _weighted_sum(sizes, target.clip_norm, acts, deltas, squares, floors, size, summed)
    return acts, deltas, squares * floors


def bits_of_each_record(target, theta, selection):
    """Return one row for each record: the bits of all that its clipped gradient is made of."""
    acts, deltas, squares = errors_of(target, theta, selection)
    n, sizes = selection.size, target.sizes
    columns = [squares.view(np.int64)[:, None]]
    for flat, widths in ((acts, sizes[:-1] + 1), (deltas, sizes[1:])):
        for layer in np.split(flat, n * np.cumsum(widths)[:-1]):
            columns.append(layer.view(np.int32).reshape(n, -1))
    return np.hstack(columns)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("sizes", [(5, 3), (7, 33, 17, 2), (169, 128, 10), (30, 100, 19)])
def test_a_clipped_gradient_is_the_same_wherever_its_record_is(rng, sizes, activation):
    """What the accounting of batches in random order rests on."""
    X, y = table(rng, CHUNK, sizes)
    theta = rng.normal(size=mlp_size(sizes)) * 0.3
    clip_norm = np.median(np.sqrt(errors_of(network(X, y, sizes, activation), theta, ALL)[2]))
    target = network(X, y, sizes, activation, clip_norm)
    straight = bits_of_each_record(target, theta, ALL)
    for order in (ALL[::-1].copy(), rng.permutation(CHUNK), np.roll(ALL, 1), ALL[:77], ALL[-3:]):
        np.testing.assert_array_equal(bits_of_each_record(target, theta, order), straight[order])
    for i in range(CHUNK):
        alone = bits_of_each_record(target, theta, ALL[i : i + 1])
        np.testing.assert_array_equal(alone, straight[i : i + 1])


def test_errors_that_underflow_are_not_clipped_to_more_than_the_norm():
    """More than half of the smallest number would be rounded up to the whole of it."""
    row, label, clip_norm = np.array([[DATA_NORM]]), np.zeros(1, int), 1e-6
    longest = 0.0
    for size in np.logspace(31.0, 37.3, 40):
        # Enormous units, behind weights so small that labels hardly know of them.
        for last in np.logspace(-29.0, -22.5, 40):
            theta = np.array([size, 0.0, 1.0 / size, 0.0, last, -last, 0.0, 0.0])
            target = network(row, label, (1, 1, 1, 2), "relu", clip_norm)
            norm = np.linalg.norm(potential_gradient(target, theta, 0.0))
            assert norm <= clip_norm * (1.0 + 2.0**-24)
            longest = max(longest, norm)
    assert longest > 0.999 * clip_norm


def test_batches_are_shuffled_evenly():
    shuffled = called(shuffle)
    generator = np.random.default_rng(0)
    places = np.zeros((5, 5))
    for _ in range(20_000):
        batch = np.arange(9)
        shuffled(generator, batch, 5)
        assert sorted(batch[:5]) == list(range(5))
        assert list(batch[5:]) == list(range(5, 9))
        places[np.arange(5), batch[:5]] += 1
    assert np.abs(places - 4000).max() < 5 * np.sqrt(20_000 * 0.16)


def test_rows_are_brought_to_a_common_norm(rng):
    X = rng.normal(size=(50, 3)) * 10.0 ** rng.uniform(-3, 3, size=(50, 1))
    for norm, factor in ((2.0, 1.0), (1e-35, 1e-30), (1e38, 1e36)):
        rows = scaled_rows(factor * X, norm)
        assert rows.dtype == np.float32
        rows = rows.astype(float)
        assert np.linalg.norm(rows, axis=1).max() <= ROW_NORM * (1 + 1e-6)
        clipped = factor * X * np.minimum(1.0, norm / np.linalg.norm(factor * X, axis=1))[:, None]
        np.testing.assert_allclose(rows, clipped * ROW_NORM / norm, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("extreme", [1e29, 1e31, 1e160, 1e308])
def test_a_row_s_own_size_decides_on_no_other_row(rng, extreme):
    X = rng.normal(size=(300, 3))
    other = X.copy()
    other[7] = [extreme, 0.0, -extreme]
    keep = np.arange(300) != 7
    np.testing.assert_array_equal(scaled_rows(X, 2.0)[keep], scaled_rows(other, 2.0)[keep])
    np.testing.assert_allclose(np.linalg.norm(scaled_rows(other, 2.0)[7]), ROW_NORM, rtol=1e-6)
    for first, second in zip(clip_rows(X, 2.0), clip_rows(other, 2.0), strict=True):
        np.testing.assert_array_equal(first[keep], second[keep])


def test_one_record_less_moves_a_full_sum_by_at_most_the_bound():
    """Rows that make every chunk's error as large as can be, in an order that shifts by one."""
    n, sizes, clip_norm = 40_960, (1, 2), 0.5**0.5
    theta = np.array([0.0, 8.0, 10.0, -10.0])
    rows = np.tile(np.r_[np.zeros(65), np.full(63, 0.79)], n // 128)[:, None]
    labels = np.tile(np.r_[np.ones(65, int), np.zeros(63, int)], n // 128)
    chunks = np.empty((16, 4))
    generator = np.random.default_rng(0)
    sums = []
    for first in (0, 1):
        target = make_mlp(
            rows[first:], labels[first:], 1.0, sizes, "tanh", clip_norm, 1.0, np.zeros(4)
        )
        found = np.empty(4)
        oracle, batch = gradient_oracle(target, 4, n)
        one_estimate(oracle._replace(chunks=chunks), generator, theta, batch, found)
        sums.append(found)
    assert np.linalg.norm(sums[0] - sums[1]) <= target.gradient_bound


@njit
def one_estimate(oracle, generator, theta, batch, out):
    estimate_gradient(oracle, generator, theta, 1.0, batch, 0, out, np.empty(out.size))


@pytest.mark.parametrize("clip_norm", [0.0, 1e-7, 1e7, np.nan])
def test_clip_norms_are_of_a_usual_size(clip_norm):
    with pytest.raises(ValueError, match="clip_norm"):
        mlp_bounds((3, 2), clip_norm, 1.0)


def test_units_start_apart_and_of_a_moderate_size():
    sizes = (50, 40, 30, 4)
    start = random_start(sizes, np.random.default_rng(0))
    assert start.shape == (mlp_size(sizes),)
    layers = layers_of(start, sizes)
    assert [weights.shape for weights, _ in layers] == [(50, 40), (40, 30), (30, 4)]
    assert all((biases == 0).all() for _, biases in layers)
    # A row at the norm bound, through the first layer.
    row = ROW_NORM * np.ones(50) / np.sqrt(50)
    assert (row @ layers[0][0]).std() == pytest.approx(1 / 3, rel=0.4)
    assert layers[1][0].std() == pytest.approx(40**-0.5, rel=0.1)


def test_gradients_are_known_to_be_clipped_one_by_one(rng):
    """Hidden states must be refused for this target, and its bounds say so."""
    sizes = (4, 3)
    assert not mlp_bounds(sizes, 1.0, 1.0).convex
    assert clips_each_example(network(*table(rng, 5, sizes), sizes))
