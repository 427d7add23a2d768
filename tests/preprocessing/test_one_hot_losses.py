"""What lists of categories lose, exactly."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from skdpbayes.preprocessing import DPOneHotEncoder


@pytest.mark.parametrize("relation, size", [("replace_one", None), ("add_or_remove_one", 1000)])
@pytest.mark.parametrize("n_columns", [1, 3])
def test_categories_exactly(relation, size, n_columns):
    """The encoder's exact curve on the worst neighbours stays below the claim, whose noise it has."""
    encoder = DPOneHotEncoder(
        epsilon=1.0, delta=1e-3, neighboring_relation=relation, public_size=size
    )
    plan = encoder.privacy_plan(1000, n_columns)
    scale, threshold = plan.details["noise_scale"], plan.details["threshold"]
    assert plan.cost.epsilon(1e-3) <= 1.0

    # In each column one row leaves a category of about the threshold, and another has it alone.
    kept = norm.sf((threshold - np.array([round(threshold), round(threshold) + 1])) / scale)
    alone = norm.sf((threshold - 1.0) / scale)
    pairs = [(kept[1], kept[0])] * n_columns + [(alone, 0.0)] * n_columns
    if relation == "replace_one":
        pairs += [(kept[0], kept[1])] * n_columns + [(0.0, alone)] * n_columns
    p, q = np.ones(1), np.ones(1)
    for a, b in pairs:
        p, q = np.outer(p, [a, 1 - a]).ravel(), np.outer(q, [b, 1 - b]).ravel()
    for first, second in ((p, q), (q, p)):
        for epsilon in (0.0, 0.3, 1.0):
            delta = np.maximum(first - math.exp(epsilon) * second, 0.0).sum()
            assert delta <= plan.cost.delta(epsilon)


def test_counts_of_many_categories_reach_the_gaussian_claim():
    """A row that leaves one category for another: the sum of squares of the moves, in units of the noise."""
    for relation, moved, size in (("replace_one", 2, None), ("add_or_remove_one", 1, 1000)):
        encoder = DPOneHotEncoder(delta=1e-5, neighboring_relation=relation, public_size=size)
        plan = encoder.privacy_plan(1000, 4)
        distance = math.sqrt(4 * moved) / plan.details["noise_scale"]
        assert 0.9 * plan.cost.mu < distance <= plan.cost.mu * (1 + 1e-12)


@pytest.mark.parametrize("other", [["a", None], ["a", "text"], ["a", True]])
def test_a_row_does_not_change_what_other_rows_hold(other):
    rows = [["a", 1.5]] * 3000
    found = [
        DPOneHotEncoder(random_state=0).fit(table).categories_
        for table in (rows, [*rows[1:], other])
    ]
    assert found == [[["a"], [1.5]]] * 2


def test_zero_has_no_sign_to_tell_which_row_came_first():
    for first in (0.0, -0.0):
        encoder = DPOneHotEncoder(random_state=0).fit([[first]] + [[0.0], [-0.0]] * 1000)
        assert math.copysign(1.0, encoder.categories_[0][0]) == 1.0
