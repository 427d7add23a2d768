"""Products and exponentials in single precision: right, and the same wherever an entry stands."""

import numpy as np
import pytest
from compiling import called
from numba import njit

from skdpbayes.models.single_precision import PLAIN, TRANSPOSED, exp_float32, multiply

multiplied = called(multiply)

# Rows, depth and columns: whole tiles, remainders of every kind, and less than one of anything.
SHAPES = [
    (1, 1, 1),
    (3, 5, 2),
    (4, 7, 16),
    (5, 3, 17),
    (37, 41, 31),
    (128, 170, 128),
    (128, 129, 10),
    (170, 128, 100),
]


def factors(rng, shape):
    rows, depth, columns = shape
    a, b = rng.normal(size=(rows, depth)), rng.normal(size=(depth, columns))
    return a.astype(np.float32), b.astype(np.float32)


def product(a, b, columns=0):
    out = np.full((a.shape[0], b.shape[1] + columns), np.nan, np.float32)
    multiplied(a, PLAIN, b, PLAIN, out)
    return out


def assert_same_bits(first, second):
    np.testing.assert_array_equal(first.view(np.int32), second.view(np.int32))


def sum_in_order(a, b):
    """numpy rounds every product, and every sum, before it goes on."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total += a[:, k : k + 1] * b[k]
    return total


@pytest.mark.parametrize("shape", SHAPES)
def test_entries_are_sums_of_rounded_products_in_order(rng, shape):
    a, b = factors(rng, shape)
    assert_same_bits(product(a, b), sum_in_order(a, b))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_of_a_product_is_the_same_at_every_place(rng, shape):
    a, b = factors(rng, shape)
    whole = product(a, b)
    for i in range(len(a)):
        moved = np.roll(a, i, axis=0)
        assert_same_bits(product(moved, b), np.roll(whole, i, axis=0))
        assert_same_bits(product(a[i : i + 1], b), whole[i : i + 1])
        assert_same_bits(product(a[: i + 1], b), whole[: i + 1])


@pytest.mark.parametrize("shape", SHAPES)
def test_transposes_and_wider_results_change_no_bit(rng, shape):
    a, b = factors(rng, shape)
    whole = product(a, b)
    for a_transposed in (PLAIN, TRANSPOSED):
        for b_transposed in (PLAIN, TRANSPOSED):
            out = np.empty_like(whole)
            multiplied(
                np.ascontiguousarray(a.T) if a_transposed else a,
                a_transposed,
                np.ascontiguousarray(b.T) if b_transposed else b,
                b_transposed,
                out,
            )
            assert_same_bits(out, whole)
    wider = product(a, b, columns=3)
    assert_same_bits(np.ascontiguousarray(wider[:, :-3]), whole)
    assert np.isnan(wider[:, -3:]).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_products_err_by_no_more_than_any_order_of_summation(rng, shape):
    a, b = (factor.astype(float) for factor in factors(rng, shape))
    found = product(a.astype(np.float32), b.astype(np.float32))
    roundings = shape[1] * 2.0**-24
    limit = roundings / (1 - roundings) * (np.abs(a) @ np.abs(b))
    assert (np.abs(found - a @ b) <= limit + 1e-14).all()


@njit
def exponentials(x, out):
    for i in range(x.size):
        out[i] = exp_float32(x[i])


def test_an_exponential_is_the_same_in_a_vector_and_alone(rng):
    x = -np.float32(90.0) * rng.random(1003, dtype=np.float32)
    whole = np.empty_like(x)
    exponentials(x, whole)
    for i in range(x.size):
        alone = np.empty(1, np.float32)
        exponentials(x[i : i + 1], alone)
        assert_same_bits(alone, whole[i : i + 1])
    for shift in range(1, 17):
        moved = np.empty_like(x[shift:])
        exponentials(x[shift:], moved)
        assert_same_bits(moved, whole[shift:])


def test_exponentials_are_those_of_nonpositive_numbers():
    x = np.r_[-np.logspace(-12, np.log10(87.0), 20_001), 0.0].astype(np.float32)
    found = np.empty_like(x)
    exponentials(x, found)
    np.testing.assert_allclose(found, np.exp(x.astype(float)), rtol=2.0**-22)
    assert found[-1] == 1.0
    edges = np.array([-87.0, -88.0, -1e30, -np.inf, np.nan], np.float32)
    found = np.empty_like(edges)
    exponentials(edges, found)
    assert (found[:4] == found[0]).all()
    assert found[0] >= np.finfo(np.float32).smallest_normal
    assert np.isnan(found[4])
