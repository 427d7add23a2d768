"""However large the noise, rounding moves no count: what is charged is a count that moves by one."""

import numpy as np
import pytest

from skdpbayes._mechanisms import histogram


@pytest.mark.parametrize("scale", [0.3, 40.0, 2.0**25, 2.0**30, 2.0**34])
def test_a_count_that_moves_by_one_moves_its_release_by_one(scale, monkeypatch):
    released, on_lattice = [], histogram.on_lattice

    def kept(values, noise, spacing):
        released.append(on_lattice(values, noise, spacing))
        return released[-1]

    monkeypatch.setattr(histogram, "on_lattice", kept)
    for count in (1_000_000, 1_000_001, 1_000_002):
        generator = np.random.default_rng(0)
        histogram.stability_histogram([("a", count)], scale, 0.0, generator)
    np.testing.assert_array_equal(np.diff(np.ravel(released)), 1.0)
