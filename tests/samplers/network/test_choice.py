"""A network's private choices: no neighbouring table moves their laws by more than their range."""

import itertools

import numpy as np
import pytest

from skdpbayes._mechanisms.exponential import SUM_UNIT
from skdpbayes.models.mlp import make_mlp, mlp_size
from skdpbayes.samplers.network import NORMS, SCALES, release_norm, release_scale

SIZES = (2, 4, 3)
MOVED = {"replace_one": 2.0, "add_or_remove_one": 1.0}


def law(sums, log_weights, eta, moved):
    """The law that is claimed."""
    logs = log_weights - eta / (2.0 * moved) * np.abs(np.asarray(sums) * SUM_UNIT)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def of_range(first, second):
    """By how much log-odds of any two points differ."""
    return np.ptp(np.log(first) - np.log(second))


def network(X, y, start):
    return make_mlp(X, y, 2.0, SIZES, "tanh", 1.0, 1.0, start)


def neighbours(rng, relation):
    """A table, and neighbours that differ in a record as far as may be."""
    X, y = rng.normal(size=(7, 2)), rng.integers(3, size=7)
    X[0] = 0.0
    yield X, y
    if relation == "add_or_remove_one":
        for i in range(7):
            yield np.delete(X, i, axis=0), np.delete(y, i)
        return
    for i, size, label in itertools.product((0, 6), (0.0, 1e-3, 2.0, 1e9), range(3)):
        rows, labels = X.copy(), y.copy()
        rows[i], labels[i] = size, label
        yield rows, labels


@pytest.mark.parametrize("relation", sorted(MOVED))
def test_the_laws_on_neighbouring_tables_keep_to_the_range(monkeypatch, rng, relation):
    """Both releases, from the records on: all that is random in them is the choice of these laws."""
    laws, eta, moved = [], 0.4, MOVED[relation]
    monkeypatch.setattr(
        "skdpbayes.samplers.network.choose_zero_crossing",
        lambda sums, weights, eta, moved, _: laws.append(law(sums, weights, eta, moved)) or 0,
    )
    # Sure of themselves, as far as doubles go: the worst that a record can say.
    draws = 30.0 * rng.normal(size=(3, mlp_size(SIZES)))
    for X, y in neighbours(rng, relation):
        target = network(X, y, draws[0])
        release_norm(target, eta, moved, None)
        release_scale(target, draws, eta, moved, None)
    for of_one, points in ((laws[0::2], NORMS), (laws[1::2], SCALES)):
        assert len(of_one[0]) == points.size
        farthest = max(of_range(of_one[0], other) for other in of_one[1:])
        assert 0.2 * eta < farthest <= eta * (1.0 + 1e-9)
