"""An attack on all that a noise-aware posterior releases."""

import numpy as np
import pytest
from noise_aware_tables import a_plan

from skdpbayes.audit import audit_separation
from skdpbayes.models import second_moment
from skdpbayes.models.sums import reweighted, weighted_scores, weighted_sums
from skdpbayes.samplers.statistics.logistic import LogisticLikelihood
from skdpbayes.samplers.statistics.release import posterior_of


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
    """The likelihood ratio of moment, labels, scores and curvatures, each given what came before.

    Two rows are opposite and have one label, which moves the sum of labels by all that there is.
    """
    n = 30
    # As long as records may be before they count less, so that one in their midst moves all it can.
    angles = np.linspace(0.0, 2.0 * np.pi, n)
    rows = 0.88 * np.column_stack([np.cos(angles), np.sin(angles)])
    labels = np.arange(n) % n_classes
    rows[0] = [0.0, 1.0]
    other_rows, other_labels = rows.copy(), labels.copy()
    other_rows[0] = [0.0, -1.0]
    if relation == "add_or_remove_one":
        other_rows, other_labels = rows[1:], labels[1:]
    tables = [
        make_target(*part, n_classes=n_classes)[0]
        for part in ((rows, labels), (other_rows, other_labels))
    ]
    bounds = make_target(rows, labels, n_classes=n_classes)[1]
    plan = a_plan(bounds, n, 20.0, relation)
    scores = []
    for which, table in enumerate(tables):
        found = []
        for seed in range(60):
            generator = np.random.default_rng(1000 * which + seed)
            _, released = posterior_of(plan, table, LogisticLikelihood, generator)
            found.append(log_ratio(released, tables))
        scores.append(np.array(found))
    audit = audit_separation(*scores)
    assert audit.mu - 2.0 * audit.standard_error <= plan.cost.mu
    assert audit.mu > 0.6 * plan.cost.mu  # 0.97 of it where records are opposite.


def log_ratio(released, tables):
    """Log likelihood ratio of everything that was released, of two tables."""
    family, transform = released.family, released.coordinates.transform
    moment, moment_noise = released.released[:2]
    constant = released.plan.bounds.row_norm / 2.0
    zero, total = np.zeros((family.n_blocks, len(transform))), 0.0
    for sign, table in zip((1, -1), tables, strict=True):
        miss = moment - second_moment(table, constant)
        total -= sign * np.sum(miss**2) / (2 * moment_noise**2)
        own = reweighted(table, transform, released.coordinates.norm)
        gradient, _ = weighted_sums(own, family, None, zero, curvature=False)
        miss = released.label_sum.value + (gradient @ transform).ravel()
        total -= sign * np.sum(miss**2) / (2 * released.label_sum.noise**2)
        for noisy_sums, which in ((released.noisy_sums, 0), (released.curvatures, 1)):
            for value, noise, point, *_ in noisy_sums:
                theta = point.reshape(family.n_blocks, -1) @ transform.T
                found = weighted_scores(own, family, theta, transform)[which]
                found = found if which else (found @ transform).ravel()
                total -= sign * np.sum((value - found) ** 2) / (2 * noise**2)
    return total
