"""Batches: independent coin flips along a path, and turns in a random order where it is hidden."""

import gc
import weakref

import numpy as np
import pytest
from compiling import called
from numba import njit

from skdpbayes._compute.gradients import (
    cyclic_batches,
    gradient_oracle,
    next_batch,
    poisson_batch,
    sums_at,
)
from skdpbayes.random import private_generator


def test_poisson_batches_are_independent_coin_flips():
    drawn = called(poisson_batch)

    @njit
    def count(generator, n, rate, repeats):
        batch = np.empty(n, np.int64)
        hits = np.zeros(n)
        pairs = np.zeros(n)
        sizes = np.zeros(repeats)
        for r in range(repeats):
            size = drawn(generator, n, rate, batch)
            sizes[r] = size
            for i in range(size):
                hits[batch[i]] += 1
                if i > 0 and batch[i] == batch[i - 1] + 1:
                    pairs[batch[i]] += 1
        return hits, pairs, sizes

    n, repeats = 40, 50_000
    for rate in (0.02, 0.5, 0.97):
        hits, pairs, sizes = count(private_generator(3), n, rate, repeats)
        error = 4.5 * np.sqrt(rate * (1 - rate) / repeats)
        assert np.abs(hits / repeats - rate).max() < error
        error = 4.5 * np.sqrt(rate**2 * (1 - rate**2) / repeats)
        assert np.abs(pairs[1:] / repeats - rate**2).max() < error
        assert sizes.var() == pytest.approx(n * rate * (1 - rate), rel=0.04)
    hits, _, sizes = count(private_generator(3), n, 1.0, 10)
    assert (hits == 10).all()


def test_batches_take_turns_in_an_order_that_sees_no_record():
    generator, next_one = np.random.default_rng(0), next_batch
    batches = cyclic_batches(103, 10)
    taken = [next_one(generator, batches).copy() for _ in range(20)]
    for first, again in zip(taken[:10], taken[10:], strict=True):
        assert np.array_equal(first, again)
    sizes = np.diff(batches.ends, prepend=0)
    assert sizes.sum() == 103 and set(sizes) == {10, 11}
    assert np.array_equal(np.sort(batches.order), np.arange(103))
    assert np.array_equal(np.concatenate(taken[:10]), batches.order)
    assert all((np.diff(part) > 0).all() for part in taken), "within a batch the table's order"
    # Every record is as often in the first batch as in any other.
    counts = np.zeros(103)
    for _ in range(2000):
        counts[next_one(generator, cyclic_batches(103, 10))] += 1
    assert np.abs(counts / 2000 - 10 / 103).max() < 5 * np.sqrt(0.1 * 0.9 / 2000)


def test_a_target_lives_as_long_as_its_oracle(rng, make_target):
    target, bounds = make_target(rng.normal(size=(200, 3)), rng.integers(2, size=200))
    theta, values = rng.normal(size=bounds.n_parameters), weakref.ref(target.values)
    oracle, _ = gradient_oracle(target, theta.size, 200, sums_only=True)
    expected = sums_at(oracle, theta, 0)
    del target
    gc.collect()
    assert values() is not None
    np.testing.assert_array_equal(sums_at(oracle, theta, 0), expected)
    del oracle
    gc.collect()
    assert values() is None
