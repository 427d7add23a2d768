"""An attack on searches that knows all but one row: the exact law of what a search releases.

    Q(c, v) = P(c) P(clip(t_c + noise) = v),    A(c, v) = Q(c | v) [f(Q(at most v)) - f(Q(below v))]

A run draws candidate ``c`` and scores it: ``t_c`` rows are right, and discrete Laplace noise is added. The
best of ``K`` runs, with ``f(x) = E x^K``, is released, ties broken at random. A row changes each ``t_c`` by
at most 1, and that of every candidate in any direction.
"""

import math
from itertools import product

import numpy as np
import pytest
from cheap import Cheap
from scipy import stats

from skdpbayes._mechanisms.laplace import laplace_scale
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.privacy.losses import number_law

DELTA = 1e-5
SHAPES = [0.0, 1.0, math.inf]


class Known(Cheap):
    """Its predictions are public functions of rows, so that the law of its scores is known."""

    def predict(self, X):
        return (np.asarray(X)[:, 0] > self.cut).astype(int)


def search_of(cuts, **options):
    return DPRandomizedSearchCV(Known(), {"cut": cuts}, delta=DELTA, **options)


def generating(mean, shape):
    """Return ``E x^K`` of the number of runs, as a function."""
    law = number_law(mean, shape)
    if mean == 1:
        return lambda x: x
    if math.isinf(shape):
        return lambda x: np.expm1(law * x) / np.expm1(law)
    if shape == 0:
        return lambda x: np.log1p(-(1 - law) * x) / np.log(law)
    return lambda x: ((1 - (1 - law) * x) ** -shape - 1) / (law**-shape - 1)


def released(right, n, scale, number):
    """Return the law of (candidate, released number of right ones), of shape (n_candidates, n + 1)."""
    ratio = math.exp(-1.0 / scale)
    values = np.arange(n + 1)[None, :] - np.asarray(right)[:, None]
    runs = (1 - ratio) / (1 + ratio) * ratio ** np.abs(values)
    # All below 0 count as 0, and all above n as n.
    runs[:, 0] = ratio ** -values[:, 0] / (1 + ratio)
    runs[:, -1] = ratio ** values[:, -1] / (1 + ratio)
    runs /= len(right)
    total = runs.sum(axis=0)
    most = np.concatenate([[0.0], np.minimum(np.cumsum(total), 1.0)])
    return runs / total * np.diff(number(most))


def worst(plan, scale, n=60):
    """Return the largest hockey-stick divergence over orders of candidates, and over changes of a row."""
    number, largest = generating(plan.mean_candidates, plan.shape), 0.0
    for right in ((30, 30, 30), (30, 31, 33), (20, 30, 50), (1, 30, 59), (58, 59, 59), (2, 2, 45)):
        ours = released(right, n, scale, number)
        for change in product((-1, 0, 1), repeat=3):
            theirs = released(np.add(right, change), n, scale, number)
            for first, second in ((ours, theirs), (theirs, ours)):
                over = np.maximum(first - math.exp(plan.budget.epsilon) * second, 0.0)
                largest = max(largest, over.sum())
    return largest


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [3.0, 10.0])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_row_and_no_order_of_candidates_beat_the_claim(shape, mean, epsilon):
    search = search_of([0.1, 0.2, 0.3], epsilon=epsilon, mean_candidates=mean, shape=shape)
    plan = search.privacy_plan(240)
    scale = float(laplace_scale(1, plan.score_epsilon))
    assert worst(plan, scale) <= DELTA < worst(plan, scale / 2)


def frequencies(right, n, plan, n_searches):
    """Return how often searches release each candidate with each number of right rows."""
    cuts, found = [0.1, 0.2, 0.3], np.zeros((3, n + 1))
    # A row of label 1 is right above the cut: 0.3 is above all of them, 0.15 above one.
    places = np.full(n, 0.05)
    for cut, count in zip(cuts, right, strict=True):
        places[:count] = cut + 0.05
    rows, labels = np.concatenate([np.zeros(n), places])[:, None], np.repeat([0, 1], n)
    for seed in range(n_searches):
        search = search_of(cuts, epsilon=plan.budget.epsilon, test_size=0.5, random_state=seed)
        search.set_params(mean_candidates=plan.mean_candidates)
        search._parts = lambda *given: (np.arange(n), np.arange(n, 2 * n))
        search.fit(rows, labels)
        which = cuts.index(search.best_params_["cut"])
        found[which, round(search.best_score_ * n)] += 1
    return found


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_searches_have_the_law_that_is_attacked():
    """What is attacked above is what a search does: winners and scores, at the edges, too."""
    right, n, n_searches = (26, 22, 17), 28, 500
    search = search_of([0.1, 0.2, 0.3], epsilon=5.0, mean_candidates=3.0)
    plan = search.set_params(test_size=0.5).privacy_plan(2 * n)
    scale = float(laplace_scale(1, plan.score_epsilon))
    found = frequencies(right, n, plan, n_searches).ravel()
    number = generating(plan.mean_candidates, plan.shape)
    chances = []
    for size in (scale, scale / 2):
        expected = n_searches * released(right, n, size, number).ravel()
        many = expected >= 8
        counts = [np.append(one[many], one[~many].sum()) for one in (found, expected)]
        chances.append(stats.chisquare(*counts).pvalue)
    assert chances[0] > 1e-3 and chances[1] < 1e-9
