"""The generator: fresh and cryptographic by default, repeatable and announced with a seed."""

import warnings

import numpy as np
import pytest
from randomgen import AESCounter
from scipy import stats

from skdpbayes import random as skdp_random
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.random import private_generator


def test_default_is_a_block_cipher_with_a_fresh_key():
    generators = [private_generator() for _ in range(3)]
    assert all(isinstance(g.bit_generator, AESCounter) for g in generators)
    assert len({g.integers(2**63) for g in generators}) == 3


@pytest.mark.parametrize(
    "make", [lambda: 7, lambda: np.random.RandomState(7), lambda: np.random.default_rng(7)]
)
def test_seeds_repeat(make):
    first, second = private_generator(make()), private_generator(make())
    np.testing.assert_array_equal(first.normal(size=5), second.normal(size=5))
    assert isinstance(first.bit_generator, AESCounter)


def test_a_shared_random_state_moves_on():
    state = np.random.RandomState(0)
    assert private_generator(state).normal() != private_generator(state).normal()


def test_seeds_are_announced_once_per_process(monkeypatch):
    monkeypatch.setattr(skdp_random, "_warned", False)
    with pytest.warns(PrivacyWarning, match="seed used for two fits"):
        private_generator(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        private_generator(0)
        private_generator()


def test_normals_are_normal():
    values = private_generator(1).standard_normal(200_000)
    assert stats.kstest(values, "norm").pvalue > 1e-3


@pytest.mark.parametrize("seed", [-1, "seed", 1.5])
def test_seeds_that_are_none(seed):
    with pytest.raises(ValueError, match=r"[Ss]eed|random"):
        private_generator(seed)
