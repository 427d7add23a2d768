"""Discrete Laplace noise has the law that it is accounted as."""

import numpy as np
import pytest

from skdpbayes._mechanisms.laplace import discrete_laplace, laplace_scale, with_noise
from skdpbayes.random import private_generator


@pytest.mark.parametrize("sensitivity, epsilon", [(1, 1.0), (2, 0.3), (1, 3.0), (7, 0.11)])
def test_noise_has_the_law_that_it_is_accounted_as(sensitivity, epsilon):
    scale = laplace_scale(sensitivity, epsilon)
    assert scale * 1.0 >= sensitivity / epsilon
    assert float(scale) < sensitivity / epsilon * (1 + 1e-8)
    n = 20_000
    noise = discrete_laplace(scale, n, private_generator(1))
    ratio = np.exp(-1.0 / float(scale))
    values = np.arange(-2000, 2001)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(values)
    counts = np.bincount(noise + 2000, minlength=4001)
    often = law * n > 8
    chi_square = np.sum((counts[often] - n * law[often]) ** 2 / (n * law[often]))
    assert chi_square < often.sum() + 4.5 * np.sqrt(2 * often.sum())
    assert counts[~often].sum() == pytest.approx(n * law[~often].sum(), abs=60)


def test_an_epsilon_that_drowns_every_table_is_refused():
    with pytest.raises(ValueError, match="too small for a score"):
        laplace_scale(2**24, 1e-9)


def test_no_noise_is_drawn_where_none_is_asked_for():
    for scale in (laplace_scale(3, np.inf), laplace_scale(0, 1.0)):
        np.testing.assert_array_equal(with_noise([[1, 2], [3, 4]], scale, None), [[1, 2], [3, 4]])
