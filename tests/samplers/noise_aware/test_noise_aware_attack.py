"""An attack on all that a noise-aware posterior releases."""

import numpy as np
import pytest
from noise_aware_tables import a_plan

from skdpbayes.privacy import audit_separation
from skdpbayes.samplers.noise_aware.releases import Releases
from skdpbayes.targets import second_moment
from skdpbayes.targets.linear.weighted import record_weights, weighted_sums


@pytest.mark.parametrize(
    "n_classes, relation",
    [
        (2, "replace_one"),
        pytest.param(3, "add_or_remove_one", marks=pytest.mark.nightly),
        pytest.param(2, "add_or_remove_one", marks=pytest.mark.nightly),
        pytest.param(3, "replace_one", marks=pytest.mark.nightly),
    ],
)
def test_an_attack_on_all_releases_stays_within_the_claim(make_target, relation, n_classes):
    """The likelihood ratio of moment, gradients and curvature, each given what came before."""
    n, d = 30, 2
    rows = np.zeros((n, d))
    rows[:, 0] = 0.02
    labels = np.arange(n) % n_classes
    rows[0] = [0.0, 1.0]
    other_rows, other_labels = rows.copy(), labels.copy()
    other_labels[0] = 1 - labels[0]
    other_rows[0] = [0.0, -0.5]
    if relation == "add_or_remove_one":
        other_rows, other_labels = rows[1:], labels[1:]
    tables = [
        make_target(*part, n_classes=n_classes)[0]
        for part in ((rows, labels), (other_rows, other_labels))
    ]
    bounds = make_target(rows, labels, n_classes=n_classes)[1]
    plan = a_plan(bounds, n, 2.0, relation)
    scores = []
    for which, table in enumerate(tables):
        found = []
        for seed in range(150):
            released = Releases(plan, table, np.random.default_rng(1000 * which + seed))
            released.look_around()
            found.append(log_ratio(released, tables))
        scores.append(np.array(found))
    audit = audit_separation(*scores)
    assert audit.mu <= plan.cost.mu
    assert audit.mu > 0.1 * plan.cost.mu


def log_ratio(released, tables):
    """Log likelihood ratio of everything that was released, of two tables."""
    transform, norm = released.coordinates.transform, released.coordinates.norm
    constant = released.plan.bounds.row_norm / 2.0
    total = 0.0
    for sign, table in zip((1, -1), tables, strict=True):
        miss = released.moment - second_moment(table, constant)
        total -= sign * np.sum(miss**2) / (2 * released.moment_noise**2)
        weights = record_weights(table, transform, norm)
        for point, gradient, noise in released.looks:
            theta = point.reshape(released.family.n_blocks, -1) @ transform.T
            own, _ = weighted_sums(table, released.family, weights, theta, transform)
            total -= sign * np.sum((gradient - (own @ transform).ravel()) ** 2) / (2 * noise**2)
        for point, curvature, noise in released.curvatures:
            theta = point.reshape(released.family.n_blocks, -1) @ transform.T
            _, matrix = weighted_sums(table, released.family, weights, theta, transform)
            total -= sign * np.sum((curvature - matrix) ** 2) / (2 * noise**2)
    return total
