"""Integers that are drawn exactly, of any size."""

import numpy as np
import pytest
from scipy.stats import chisquare

from skdpbayes._mechanisms.laplace import choose_weighted, integer_below


def test_numbers_below_a_total_are_even(rng):
    for total in (5, 2**64 + 1):
        drawn = np.array([integer_below(total, rng) * 5 // total for _ in range(10_000)])
        assert chisquare(np.bincount(drawn, minlength=5)).pvalue > 1e-4


class Bytes:
    """A generator that counts through all numbers of one byte."""

    def __init__(self):
        self.next = iter(range(256))

    def bytes(self, length):
        assert length == 1
        return bytes([next(self.next)])


@pytest.mark.parametrize("end", [1, 2, 5, 8, 100, 255])
def test_no_number_is_preferred_by_a_single_byte(end):
    """All bytes once: what is drawn is drawn equally often, up to the last, cut short."""
    source, drawn = Bytes(), []
    with pytest.raises(StopIteration):
        while True:
            drawn.append(integer_below(end, source))
    counts = np.bincount(drawn, minlength=end)
    assert counts.size == end and counts.max() == counts.min() > 0


def test_a_weighted_choice_is_even_within_what_it_chose():
    source, weights = Bytes(), [3, 0, 1, 4]
    drawn = [choose_weighted(weights, source) for _ in range(128)]
    assert set(drawn) == {(n, left) for n, weight in enumerate(weights) for left in range(weight)}


def test_weights_may_be_larger_than_any_machine_word(rng):
    weights = [2**200, 3 * 2**200]
    drawn = [choose_weighted(weights, rng)[0] for _ in range(10_000)]
    assert chisquare(np.bincount(drawn), [2_500, 7_500]).pvalue > 1e-4
