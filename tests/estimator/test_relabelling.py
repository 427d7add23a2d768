"""One labelling for all draws of a mixture, whatever labels they came with."""

from itertools import product

import numpy as np
import pytest

from skdpbayes._estimator.mixture import relabel, reorder

S, K, D = 60, 4, 3


def switched(rng, weights, means, covariances):
    """Give every draw labels of its own; a shared matrix stays where it is."""
    order = np.array([rng.permutation(weights.shape[1]) for _ in weights])
    shared = covariances.ndim == 4 and covariances.shape[1] == 1
    kept = covariances if shared else reorder(covariances, order)
    return reorder(weights, order), reorder(means, order), kept


def matrices(rng, *shape):
    roots = rng.normal(size=(*shape, D, D))
    return roots @ roots.swapaxes(-1, -2) + 0.5 * np.eye(D)


def posterior(rng, kind):
    """Draws around four components that differ, by falling weight."""
    weights = rng.dirichlet([400, 300, 200, 100], size=S)
    means = 3 * rng.normal(size=(K, D)) + 0.3 * rng.normal(size=(S, K, D))
    if kind == "diag":
        return weights, means, rng.gamma(20, 0.05, size=(S, K, D))
    return weights, means, matrices(rng, S, 1 if kind == "tied" else K)


@pytest.mark.parametrize("kind", ["diag", "tied", "full"])
def test_switched_labels_are_brought_back(rng, kind):
    original = posterior(rng, kind)
    mixed = switched(rng, *original)
    order = relabel(*mixed)
    np.testing.assert_array_equal(reorder(mixed[0], order), original[0])
    np.testing.assert_array_equal(reorder(mixed[1], order), original[1])


@pytest.mark.parametrize("kind", ["diag", "tied", "full"])
def test_the_labelling_depends_neither_on_units_nor_on_the_labels_given(rng, kind):
    weights, means, covariances = posterior(rng, kind)
    means = means / 4  # Components overlap: not every draw has an obvious labelling.
    units = np.array([1e-6, 1.0, 1e5])
    scale = units**2 if kind == "diag" else np.outer(units, units)
    order = relabel(weights, means, covariances)
    np.testing.assert_array_equal(relabel(weights, means * units, covariances * scale), order)
    mixed = switched(rng, weights, means, covariances)
    again = reorder(mixed[1], relabel(*mixed))
    np.testing.assert_array_equal(again, reorder(means, order))


def test_two_symmetric_modes_have_distinct_means_again(rng):
    truth = np.array([[-1.0, 0.0], [1.0, 0.0]])
    means = truth + 0.2 * rng.normal(size=(500, 2, 2))
    flips = rng.integers(2, size=500).astype(bool)
    means[flips] = means[flips, ::-1]
    assert np.abs(means.mean(axis=0)).max() < 0.2, "switching hides the modes"
    weights = rng.dirichlet([50, 50], size=500)
    relabelled = reorder(means, relabel(weights, means, np.full((500, 2, 2), 0.1))).mean(axis=0)
    np.testing.assert_allclose(relabelled[np.argsort(relabelled[:, 0])], truth, atol=0.05)


def test_weights_tell_components_apart_that_share_everything_else(rng):
    weights = rng.dirichlet([200, 600, 200], size=S) * [0.2, 1.0, 0.9]
    weights /= weights.sum(axis=1, keepdims=True)
    mixed = switched(rng, weights, np.zeros((S, 3, D)), np.ones((S, 3, D)))
    recovered = reorder(mixed[0], relabel(*mixed))
    np.testing.assert_array_equal(recovered, -np.sort(-weights, axis=1))


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_covariances_tell_components_apart_that_share_everything_else(rng, kind):
    # The same volume and the same trace: only the directions differ.
    axes = np.array([[4.0, 0.25, 1.0], [1.0, 4.0, 0.25], [0.25, 1.0, 4.0]])
    covariances = rng.gamma(50, 0.02, size=(S, 3, 3)) * axes
    if kind == "full":
        covariances = covariances[..., None] * np.eye(3)
    weights = np.full((S, 3), 1 / 3)
    mixed = switched(rng, weights, np.zeros((S, 3, 3)), covariances)
    recovered = reorder(mixed[2], relabel(*mixed)).mean(axis=0)
    expected = covariances.mean(axis=0)
    # Equal weights leave the names of the components open.
    match = [np.argmin([np.abs(r - e).max() for e in expected]) for r in recovered]
    assert sorted(match) == [0, 1, 2]
    np.testing.assert_allclose(recovered, expected[match], rtol=1e-12)


def divergence(weights, means, variances):
    """The sum that is minimised, in one dimension: the components from their own mean component."""
    w = weights.mean(axis=0)
    m = (weights * means).mean(axis=0) / w
    v = (weights * (variances + (means - m) ** 2)).mean(axis=0) / w
    gaussian = (np.log(v / variances) + (variances + (means - m) ** 2) / v - 1) / 2
    return (weights * (np.log(weights / w) + gaussian)).sum()


@pytest.mark.parametrize("seed", range(10))
def test_few_draws_get_the_best_of_all_labellings(seed):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet([3, 2], size=7)
    means = np.array([-1.0, 1.0]) + 0.7 * rng.normal(size=(7, 2))
    variances = rng.gamma(4, 0.25, size=(7, 2))
    order = relabel(weights, means[:, :, None], variances[:, :, None])
    found = divergence(*(reorder(part, order) for part in (weights, means, variances)))
    best = np.inf
    for flips in product([0, 1], repeat=7):
        every = np.array([[0, 1], [1, 0]])[list(flips)]
        parts = (reorder(part, every) for part in (weights, means, variances))
        best = min(best, divergence(*parts))
    assert found == pytest.approx(best)


def test_components_are_in_the_order_of_their_mean_weight(rng):
    weights, means, variances = posterior(rng, "diag")
    shuffled = [3, 1, 0, 2]
    weights, means, variances = weights[:, shuffled], means[:, shuffled], variances[:, shuffled]
    relabelled = reorder(weights, relabel(weights, means, variances)).mean(axis=0)
    assert (np.diff(relabelled) < 0).all()


def test_empty_components_and_single_draws_are_no_problem(rng):
    weights, means, variances = posterior(rng, "diag")
    weights = np.array([0.75, 0.25, 0.0, 0.0]) * np.ones((S, 1))
    mixed = switched(rng, weights, means, variances)
    np.testing.assert_array_equal(reorder(mixed[0], relabel(*mixed)), weights)
    one = relabel(*(part[:1] for part in mixed))
    np.testing.assert_array_equal(reorder(mixed[0][:1], one), weights[:1])
    alone = relabel(np.ones((S, 1)), means[:, :1], variances[:, :1])
    np.testing.assert_array_equal(alone, np.zeros((S, 1), int))
