"""Methods of other papers that `benchmarks.peers` compares with: their noise is that of their theorems."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, ndtr
from scipy.stats import norm

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.peers import boosted_ada_ssp, objective_perturbation, random_trees, tukey

DELTA = 1e-5


# Objective perturbation


def worst_delta(sigma, strength, epsilon, slope):
    """Return delta of a table without rows against one with a single row 1 of label 0, or the reverse."""

    def log_density(theta, is_there):
        chance = expit(theta) * is_there
        tilt = -strength * theta - chance
        return norm.logpdf(tilt, scale=sigma) + math.log(strength + chance * (1.0 - expit(theta)))

    def excess(theta, first):
        ratio = log_density(theta, first) - log_density(theta, not first)
        return math.exp(log_density(theta, first)) * -math.expm1(min(epsilon - ratio, 0.0))

    far = 12.0 * sigma / strength
    return max(
        quad(excess, -far, far, args=(first,), limit=500, epsabs=1e-12)[0]
        for first in (False, True)
    )


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_objective_perturbation_spends_what_it_states(epsilon):
    """With one column the density of theta is known, and so is delta of the worst pair of tables."""
    for calibrated in (
        objective_perturbation.classical(epsilon, DELTA, 1.0, 1),
        objective_perturbation.tight(epsilon, DELTA, 1.0, 1, 0.2),
    ):
        assert worst_delta(*calibrated, epsilon, 1.0) <= DELTA
    # No theorem can do with half of the noise.
    sigma, strength = objective_perturbation.tight(epsilon, DELTA, 1.0, 1, 0.2)
    assert worst_delta(sigma / 2.0, strength, epsilon, 1.0) > 10.0 * DELTA


def test_delta_of_one_problem_is_twice_a_gaussian_mechanisms():
    """The ratio is that of a Gaussian mechanism, where that is positive, with |Z| in the place of Z."""
    mu, epsilon = 0.5, 1.0
    usual = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    sums = objective_perturbation.sums_of_halves(1)
    found = objective_perturbation.delta_of(mu, epsilon, sums, 1)
    assert found == pytest.approx(2.0 * usual, rel=0.02) and found >= 2.0 * usual
    assert objective_perturbation.sums_of_halves(3).sum() == pytest.approx(1.0)


def test_constants_of_the_classical_theorem():
    sigma, strength = objective_perturbation.classical(0.5, DELTA, 3.0, 1)
    assert sigma**2 == pytest.approx(9.0 * (8.0 * math.log(2.0 / DELTA) + 2.0) / 0.25)
    assert strength == pytest.approx(2.0 * 9.0 / 4.0 / 0.5)


def test_a_minimum_is_one():
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(300, 4)), rng.random(300) < 0.4
    tilt = 20.0 * rng.normal(size=4)
    theta = objective_perturbation.minimum(rows, labels, 2.0, tilt)
    slope = rows.T @ (expit(rows @ theta) - labels) + 2.0 * theta + tilt
    assert np.abs(slope).max() < 1e-8


# Boosted AdaSSP


def test_noise_of_boosting_adds_up_to_its_budget():
    of_square, of_gradient = boosted_ada_ssp.deviations(9.0, 0.5, 2.0, 100)
    # The second moment, its least eigenvalue and a hundred gradients, each by what a replacement moves.
    moves = [(9.0, of_square)] * 2 + [(2.0 * 3.0 * 0.5, of_gradient)] * 100
    assert sum((most / noise) ** 2 for most, noise in moves) == pytest.approx(2.0**2)


def test_boosting_without_noise_is_least_squares():
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.uniform(-1.0, 1.0, size=(2_000, 3)), np.ones(2_000)])
    responses = rows @ [0.5, -0.2, 0.3, 0.1] + 0.05 * rng.normal(size=2_000)
    (theta,) = boosted_ada_ssp.boosted_ada_ssp(rows, responses, 2.0, 1e5, 0, math.sqrt(3.0))
    assert theta == pytest.approx(np.linalg.lstsq(rows, responses, rcond=None)[0], abs=2e-3)


# TukeyEM


def test_volumes_are_those_of_boxes():
    columns = np.sort(np.random.default_rng(2).normal(size=(9, 2)), axis=0)
    found = np.exp(tukey.volumes(columns))
    wanted = [np.prod(columns[-depth] - columns[depth - 1]) for depth in range(1, 5)]
    assert found == pytest.approx(wanted)
    assert np.exp(tukey.exact(np.log(found))).sum() == pytest.approx(wanted[0])


def test_the_distance_to_unsafe_models_changes_by_one_at_most():
    """Whoever is replaced, by whatever: else the test's noise is too small."""
    rng = np.random.default_rng(3)
    models = rng.normal(size=(200, 2))

    def distance(models):
        volumes = tukey.volumes(np.sort(models, axis=0))
        return tukey.safe_distance(volumes, 0.5, 0.01, len(models) // 4)

    middle = distance(models)
    assert middle > 3
    for _ in range(100):
        changed = models.copy()
        changed[rng.integers(200)] = 10.0 ** rng.uniform(-2, 4) * rng.normal(size=2)
        assert abs(distance(changed) - middle) <= 1
    # Many at once are seen.
    assert distance(np.concatenate([models[:140], 1e6 * rng.normal(size=(60, 2))])) < middle - 3


def test_answers_of_neighbours_are_as_close_as_the_test_assures():
    """In one column the density is known: exp(2 eta) and delta hold for all replacements that are tried."""
    rng, eta, delta, least = np.random.default_rng(4), 0.5, 1e-3, 40

    def masses(models, edges):
        middles = (edges[1:] + edges[:-1]) / 2.0
        below = np.searchsorted(np.sort(models), middles)
        depths = np.minimum(below, len(models) - below)
        density = np.where(depths >= least, np.exp(eta * depths), 0.0) * np.diff(edges)
        return density / density.sum()

    models = rng.normal(size=160)
    volumes = tukey.volumes(np.sort(models)[:, None])
    assert tukey.safe_distance(volumes, eta, delta, least) >= 0
    for value in (-100.0, 0.0, 0.1, 100.0, 1e6):
        for place in range(0, 160, 8):
            changed = models.copy()
            changed[place] = value
            edges = np.unique(np.concatenate([models, changed]))
            first, second = masses(models, edges), masses(changed, edges)
            for one, other in ((first, second), (second, first)):
                assert np.maximum(one - math.exp(2.0 * eta) * other, 0.0).sum() <= delta


def test_few_models_or_a_small_budget_make_tukey_abstain():
    models = np.random.default_rng(5).normal(size=(1_000, 3))
    point = tukey.deep_point(models, 1.0, DELTA, np.random.default_rng(0))
    assert np.abs(point).max() < 0.5
    for few, epsilon in ((models[:60], 1.0), (models, 0.02)):
        with pytest.raises(tukey.AbstainedError):
            tukey.deep_point(few, epsilon, DELTA, np.random.default_rng(0))


# Random trees


def test_noise_of_trees_is_that_of_one_record_in_all_of_them():
    deviation = random_trees.deviation_of(200, 1.25, 0.5)
    assert 200 * (1.25 / deviation) ** 2 == pytest.approx(0.5**2)
    # Without rows all that is left is noise: in each leaf of the one tree, for g and for h.
    arrays = {name: np.zeros((0, 1)) for name in ("X", "y")}
    arrays |= {
        "X_test": np.linspace(-1.0, 1.0, 500)[:, None],
        "lower": -np.ones(1),
        "upper": np.ones(1),
    }
    options, length, found = {"n_trees": 1, "depth": 1, "mu": 200.0}, 1.0, []
    for seed in range(2_000):
        scores = random_trees.boosted(
            arrays, lambda scores: (scores, scores), 1, length, seed, options
        )
        found += np.unique(scores).tolist()
    assert np.std(found) == pytest.approx(random_trees.RATE * length / 200.0, rel=0.05)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_derivatives_of_trees_are_as_short_as_their_noise_assumes(n_classes):
    rng = np.random.default_rng(6)
    chances = rng.dirichlet(np.full(n_classes, 0.3), size=200_000)
    labels = np.eye(n_classes)[rng.integers(n_classes, size=len(chances))]
    first, second = chances - labels, chances * (1.0 - chances)
    if n_classes == 2:
        first, second, most = first[:, 1:], second[:, 1:], math.hypot(1.0, 0.25)
    else:
        most = math.sqrt(2.0 + 4.0 / 27.0)
    assert np.linalg.norm(np.hstack([first, second]), axis=1).max() <= most


def test_trees_without_noise_learn():
    rng = np.random.default_rng(7)
    X = rng.uniform(-1.0, 1.0, size=(4_000, 2))
    y = (X[:, 0] > 0.1).astype(int)
    arrays = {
        "X": X,
        "y": y,
        "X_test": X,
        "lower": -np.ones(2),
        "upper": np.ones(2),
        "n_classes": 2,
    }
    options = {"n_trees": 200, "depth": 3, "mu": 1e5}
    found = random_trees.logistic(arrays, 0, options)["probabilities"]
    assert np.mean(found.argmax(axis=1) == y) > 0.95
