"""What scores lose, exactly: over all small neighbours never more than epsilon, and all of it somewhere.

Integers that move by ``d_j`` under discrete Laplace noise of scale ``b_j`` have a largest loss of ``sum
|d_j| / b_j``, which is reached with positive probability: the best attack there is.
"""

import itertools

import numpy as np
import pytest

from skdpbayes._mechanisms.laplace import discrete_laplace, laplace_scale
from skdpbayes.metrics import (
    _scores,
    _tables,
    dp_accuracy_score,
    dp_brier_score,
    dp_calibration_curve,
    dp_confusion_matrix,
    dp_log_loss,
    dp_mean_absolute_error,
    dp_mean_poisson_deviance,
    dp_mean_score,
    dp_mean_squared_error,
    dp_r2_score,
    dp_roc_auc_score,
)
from skdpbayes.random import private_generator

EPSILON = 0.7
LABELS = list(itertools.product((0, 1), (0, 1)))
PROBABILITIES = list(itertools.product((0, 1), (0.0, 0.3, 0.5, 1.0)))
SCORES = {
    "accuracy": (dp_accuracy_score, LABELS, {}),
    "confusion": (dp_confusion_matrix, LABELS, {"labels": [0, 1]}),
    "log loss": (dp_log_loss, PROBABILITIES, {}),
    "brier": (dp_brier_score, PROBABILITIES, {}),
    "calibration": (dp_calibration_curve, PROBABILITIES, {"n_bins": 2}),
    "auc": (dp_roc_auc_score, PROBABILITIES, {}),
    "squared error": (dp_mean_squared_error, PROBABILITIES, {"target_bounds": (0.0, 1.0)}),
    "squared error, reduced": (
        dp_mean_squared_error,
        PROBABILITIES,
        {"target_bounds": (-1.0, 3.0), "largest_error": 0.4},
    ),
    "absolute error": (dp_mean_absolute_error, PROBABILITIES, {"target_bounds": (0.0, 1.0)}),
    "deviance": (dp_mean_poisson_deviance, PROBABILITIES, {"largest_deviance": 1.0}),
    "r2": (dp_r2_score, PROBABILITIES, {"target_bounds": (0.0, 1.0)}),
    "mean": (lambda y, v, **kw: dp_mean_score(v, **kw), PROBABILITIES, {"bounds": (0.0, 0.5)}),
}


@pytest.fixture
def released(monkeypatch):
    """Return a function that tells what a score adds noise to, in units of the noise."""
    caught = []

    def catch(integers, scale, generator, **charged):
        caught.append(np.ravel(np.asarray(integers, dtype=float)) / float(scale))
        return np.asarray(integers)

    for module in (_scores, _scores, _tables, _tables):
        monkeypatch.setattr(module, "with_noise", catch)

    def release(score, rows, **options):
        caught.clear()
        columns = np.array(rows, dtype=float).reshape(-1, 2)
        score(columns[:, 0].astype(int), columns[:, 1], epsilon=EPSILON, random_state=0, **options)
        return np.concatenate(caught)

    return release


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
@pytest.mark.parametrize("name", SCORES)
def test_replacing_a_row_costs_at_most_epsilon_and_somewhere_all_of_it(released, name):
    score, kinds, options = SCORES[name]
    of_table = {
        rows: released(score, rows, **options) for rows in itertools.product(kinds, repeat=3)
    }
    losses = [
        np.abs(of_table[rows] - of_table[(*rows[:place], other, *rows[place + 1 :])]).sum()
        for rows in of_table
        for place in range(3)
        for other in kinds
    ]
    assert max(losses) <= EPSILON * (1 + 1e-12)
    assert max(losses) > 0.9 * EPSILON


@pytest.mark.daily(3)
@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
@pytest.mark.parametrize("name", SCORES)
def test_adding_a_row_costs_at_most_epsilon_and_somewhere_all_of_it(released, name):
    score, kinds, options = SCORES[name]
    options = {**options, "neighboring_relation": "add_or_remove_one"}
    if name == "auc":
        options["public_size"] = 2
    of_table = {
        rows: released(score, rows, **options)
        for n in range(4)
        for rows in itertools.product(kinds, repeat=n)
    }
    losses = [
        np.abs(of_table[rows] - of_table[rows[:place] + rows[place + 1 :]]).sum()
        for rows in of_table
        for place in range(len(rows))
    ]
    assert max(losses) <= EPSILON * (1 + 1e-12)
    assert max(losses) > 0.9 * EPSILON


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
def test_an_attack_on_drawn_scores_reaches_the_claim():
    # One wrong prediction among three, or none: what is seen at the top is exp(epsilon) times as likely.
    epsilon, y = 1.0, np.zeros(3, dtype=int)
    scale = laplace_scale(1, epsilon)
    draws = [
        sums + discrete_laplace(scale, 40_000, private_generator(seed))
        for seed, sums in ((1, 3), (2, 2))
    ]
    above = [np.mean(draw >= 3) for draw in draws]
    assert 0.9 * epsilon < np.log(above[0] / above[1]) < 1.05 * epsilon
    assert dp_accuracy_score(y, y, epsilon=epsilon, random_state=0).spent_epsilon == epsilon
