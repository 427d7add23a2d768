"""Sums over rows in blocks: the same on any number of cores, and what sums over all rows at once are."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from skdpbayes.models import LinearModel, Logistic, second_moment
from skdpbayes.models import rows as clipped_rows
from skdpbayes.models import sums as blocks
from skdpbayes.models.sums import record_weights, sum_of_losses, weighted_sums

N, D, CONSTANT = 9000, 5, 0.6


@pytest.fixture
def rows(rng):
    return rng.normal(size=(N, D)) * rng.choice([0.0, 1e-3, 1.0, 1e3], size=(N, 1))


def sums(target, rng):
    family, transform = target.family.identified, rng.normal(size=(D + 1, D + 1))
    theta = rng.normal(size=(1, D + 1))
    weights = record_weights(target, transform, 2.0)
    parts = second_moment(target), second_moment(target, 0.0, weights), weights
    parts += weighted_sums(target, family, weights, theta)
    parts += weighted_sums(target, family, weights, theta, transform)
    return (*parts, sum_of_losses(target, family, theta)), transform, theta


@pytest.mark.parametrize("kind", [np.float64, np.float32, sp.csr_array])
def test_sums_are_those_over_all_rows(rng, make_target, rows, kind):
    table = kind(rows) if kind is sp.csr_array else rows.astype(kind)
    y = rng.integers(0, 2, N)
    target, _ = make_target(table, y, intercept_scaling=CONSTANT)
    found, transform, theta = sums(target, rng)
    x = rows.astype(kind) if kind is np.float32 else rows
    z = np.column_stack([x * target.scale[:, None], np.full(N, CONSTANT)])
    moved, p = z @ transform, expit(z @ theta[0])
    v = np.minimum(1.0, 4.0 / np.sum(moved**2, axis=1))
    slopes = (v * p * (1.0 - p))[:, None]
    expected = (
        z.T @ z,
        (z[:, :D] * v[:, None]).T @ z[:, :D],
        v,
        [(v * (p - y)) @ z],
        z.T @ (slopes * z),
        [(v * (p - y)) @ z],
        moved.T @ (slopes * moved),
        -np.sum(np.log(np.where(y == 1, p, 1.0 - p))),
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def test_sums_do_not_depend_on_how_many_threads_there_are(make_target, rows, monkeypatch):
    target, _ = make_target(rows, np.arange(N) % 2, intercept_scaling=CONSTANT)
    alone, *_ = sums(target, np.random.default_rng(0))
    names, make_block = set(), blocks._block

    def noted(*args):
        names.add(threading.current_thread().name)
        return make_block(*args)

    monkeypatch.setattr(blocks, "_block", noted)
    monkeypatch.setattr(clipped_rows, "_WORTH_THREADS", 1)
    monkeypatch.setattr(clipped_rows.numba, "get_num_threads", lambda: 3)
    shared, *_ = sums(target, np.random.default_rng(0))
    assert threading.main_thread().name not in names
    for one, other in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(one, other)


def test_chains_of_additions_are_as_short_as_rounding_is_allowed_for():
    for n in np.unique(np.geomspace(1, 1e12, 400).astype(int)):
        n_chunks = min(blocks._MOST_CHUNKS, max(1, -(-n // blocks.MOMENT_ROWS)))
        for size in (blocks._SMALLEST_BLOCK, 1000, blocks._LARGEST_BLOCK):
            of_chunk = -(-n // n_chunks)
            chain = min(size, of_chunk) + -(-of_chunk // size) + n_chunks - 3
            assert chain <= blocks.MOMENT_ROWS + n / blocks.MOMENT_ROWS


def test_warnings_that_were_turned_into_errors_stay_silent_in_threads(make_target, monkeypatch):
    monkeypatch.setattr(clipped_rows, "_WORTH_THREADS", 1)
    monkeypatch.setattr(clipped_rows.numba, "get_num_threads", lambda: 2)
    target, _ = make_target(np.zeros((N, D)), np.arange(N) % 2)
    with np.errstate(all="raise"):
        weights = record_weights(target, np.eye(D), 1.0)
    np.testing.assert_array_equal(weights, 1.0)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_sums_of_no_rows_are_zero(sparse):
    rows = sp.csr_array((0, 3)) if sparse else np.empty((0, 3))
    model = LinearModel(family=Logistic(), n_features=3, norm=1.0)
    target = model.target(rows, np.empty(0, dtype=int))
    np.testing.assert_array_equal(second_moment(target), np.zeros((4, 4)))
    gradient, matrix = weighted_sums(target, Logistic(), None, np.zeros((1, 4)), np.eye(4))
    assert not gradient.any() and not matrix.any() and matrix.shape == (4, 4)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_zeros_are_left_out_of_wide_rows_that_have_many(rng, kind):
    table = np.eye(40, dtype=kind)[rng.integers(40, size=5_000)]
    table[:, 0] = rng.normal(size=len(table))
    model = LinearModel(family=Logistic(), n_features=40, norm=1.0)
    labels = rng.integers(2, size=len(table))
    target = model.target(table, labels)
    compact = blocks.compacted(target)
    assert compact.values.size < table.size / 8
    np.testing.assert_array_equal(blocks._table(compact).toarray(), table)
    np.testing.assert_array_equal(compact.scale, target.scale)
    assert blocks.compacted(compact) is compact
    theta, transform = rng.normal(size=(1, 41)), rng.normal(size=(41, 41))
    reads = (
        second_moment,
        lambda target: record_weights(target, transform, 2.0),
        lambda target: weighted_sums(target, Logistic(), None, theta)[0],
        lambda target: weighted_sums(target, Logistic(), None, theta)[1],
        lambda target: weighted_sums(target, Logistic(), None, theta, transform)[1],
    )
    for read in reads:
        np.testing.assert_allclose(read(compact), read(target), rtol=1e-11, atol=1e-11)
    for dense in (table[:, :20], np.where(table == 0, 0.01, table)):
        model = LinearModel(family=Logistic(), n_features=dense.shape[1], norm=1.0)
        target = model.target(np.ascontiguousarray(dense), labels)
        assert blocks.compacted(target) is target
