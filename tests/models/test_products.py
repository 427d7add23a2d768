"""Compiled sums over rows, a few at a time: those that NumPy computes, whatever shapes and numbers are."""

import multiprocessing
import threading

import numpy as np
import pytest
import scipy.sparse as sp

from skdpbayes.models import Logistic
from skdpbayes.models import rows as clipped_rows
from skdpbayes.models.kernels import logistic_sums, moment, squared_lengths
from skdpbayes.models.rows import map_chunks

# Below, at and above multiples of the rows and columns that are summed together.
SHAPES = [(0, 3), (1, 1), (5, 8), (64, 7), (67, 9), (300, 16), (301, 25)]


@pytest.fixture(params=SHAPES, ids=str)
def rows(request, rng):
    n, n_features = request.param
    return rng.normal(size=(n, n_features)), rng.uniform(0.1, 1.0, n)


def with_column(rows, constant):
    x, scale = rows
    z = x * scale[:, None]
    return np.column_stack([z, np.full(len(z), constant)]) if constant else z


@pytest.mark.parametrize("constant", [0.0, 0.7])
def test_products_of_columns_are_summed_with_factors_of_any_sign(rng, rows, constant):
    z, factors = with_column(rows, constant), rng.normal(size=len(rows[0]))
    found = moment(rows[0], factors, rows[1], constant)
    np.testing.assert_allclose(found, (z.T * factors) @ z, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("constant", [0.0, 0.7])
@pytest.mark.parametrize("size", [0.1, 3.0, 1e3, 1e300])
def test_logistic_sums_are_those_of_the_family(rng, rows, constant, size):
    z, n = with_column(rows, constant), len(rows[0])
    theta, centres, weights = (
        size * rng.normal(size=z.shape[1]),
        rng.uniform(size=n),
        rng.uniform(size=n),
    )
    p = Logistic().inverse_link(z @ theta)
    for curvature in (False, True):
        gradient, matrix = logistic_sums(*rows, constant, theta, centres, weights, curvature)
        expected = (weights * (p - centres)) @ z
        np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        matrix, (z.T * (weights * p * (1.0 - p))) @ z, rtol=1e-10, atol=1e-10
    )


def test_lengths_are_those_of_transformed_rows(rng, rows):
    z = with_column(rows, 0.7)
    transform = rng.normal(size=(z.shape[1], z.shape[1]))
    expected = np.sum((z @ transform) ** 2, axis=1)
    np.testing.assert_allclose(squared_lengths(*rows, 0.7, transform.T.copy().T), expected)


@pytest.mark.parametrize("constant", [0.0, 0.7])
def test_sums_of_sparse_rows_are_those_of_the_array(rng, rows, constant):
    x = np.where(rng.random(rows[0].shape) < 0.3, rows[0], 0.0)
    n, length = len(x), x.shape[1] + (constant > 0)
    sparse = sp.csr_array(x)
    np.testing.assert_array_equal(sparse.toarray(), x)
    given = rng.normal(size=length), rng.uniform(size=n), rng.uniform(size=n), True
    transform = rng.normal(size=(length, length))
    wanted = logistic_sums(x, rows[1], constant, *given)
    moved = transform.T @ wanted[1] @ transform
    for of_rows in (x, sparse):
        found = logistic_sums(of_rows, rows[1], constant, *given)
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-12, atol=1e-12)
        gradient, matrix = logistic_sums(of_rows, rows[1], constant, *given, transform)
        np.testing.assert_allclose(gradient, wanted[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(matrix, moved, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(
        squared_lengths(sparse, rows[1], constant, transform),
        squared_lengths(x, rows[1], constant, transform),
        rtol=1e-12,
    )


def ends_of_chunks(n_rows=10):
    return map_chunks(lambda first, stop: (first, stop), n_rows, 3, n_rows)


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(clipped_rows, "_WORTH_THREADS", 1)
    monkeypatch.setattr(clipped_rows.numba, "get_num_threads", lambda: 2)


def test_chunks_come_in_their_order(two_threads):
    assert ends_of_chunks() == [(0, 3), (3, 6), (6, 10)]


def test_an_error_in_a_thread_is_raised_and_ends_the_pass(two_threads):
    seen = []

    def fails(first, stop):
        seen.append(first)
        raise ValueError(threading.current_thread().name)

    with pytest.raises(ValueError, match="ThreadPool"):
        map_chunks(fails, 1000, 1000, 1000)
    assert len(seen) <= 2
    assert len(ends_of_chunks()) == 3  # Threads go on to the next pass.


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_is_forked_has_threads_of_its_own(two_threads):
    ends_of_chunks()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(ends_of_chunks).get(timeout=60) == ends_of_chunks()
