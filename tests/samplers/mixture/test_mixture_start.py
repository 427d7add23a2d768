"""The search for a mixture's groups: what it finds, in how many passes, and an attack on what it releases."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from skdpbayes.audit import audit_separation
from skdpbayes.models.mixture import Components, MixtureModel, make_mixture
from skdpbayes.privacy import Budget
from skdpbayes.samplers import NoiseAware
from skdpbayes.samplers.mixture import MixtureSampler
from skdpbayes.samplers.mixture.plan import Phase
from skdpbayes.samplers.mixture.statistics import (
    StatisticsReleases,
    find_groups,
    merged,
    starting_components,
)

KINDS = ["spherical", "diag", "tied", "full"]


def seeds(quick, most):
    """Return seeds, of which the last ones are for the night."""
    return [
        *range(quick),
        *(pytest.param(s, marks=pytest.mark.nightly) for s in range(quick, most)),
    ]


def plan_of(model, n, epsilon, delta=1e-6, relation="replace_one"):
    return MixtureSampler(NoiseAware()).plan(model, n, Budget(epsilon, delta, relation))


# Merging and splitting


def totals(weights, means, variances):
    """Weight, mean and variance of a whole mixture."""
    mean = weights @ means
    return weights.sum(), mean, weights @ (variances + means**2) - mean**2


def assert_same_totals(first, second):
    for one, other in zip(totals(*first), totals(*second), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_halves_of_a_gaussian_are_merged_before_small_components():
    weights = np.array([0.02, 0.48, 0.02, 0.48])
    means = np.array([[0.0, 0.6], [0.08, 0.0], [0.0, -0.6], [-0.08, 0.0]])
    variances = np.full((4, 2), 0.01)
    variances[[1, 3], 0] = 0.0036
    whole = merged(weights, means, variances, 3)
    assert_same_totals(whole, (weights, means, variances))
    order = np.argsort(whole[0])
    np.testing.assert_allclose(whole[0][order], [0.02, 0.02, 0.96])
    np.testing.assert_allclose(whole[1][order[2]], [0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(whole[2][order[2]], [0.01, 0.01], atol=1e-12)
    np.testing.assert_allclose(np.sort(whole[1][order[:2], 1]), [-0.6, 0.6])


def test_equal_components_are_merged_first_whatever_they_weigh():
    weights = np.array([0.4, 0.4, 0.1, 0.1])
    means = np.array([[-0.3], [-0.3], [0.3], [0.5]])
    whole = merged(weights, means, np.full((4, 1), 0.004), 3)
    np.testing.assert_allclose(np.sort(whole[0]), [0.1, 0.1, 0.8])


def test_the_widest_is_split_where_there_are_too_few():
    weights, means = np.array([0.7, 0.3]), np.array([[0.0, 0.0], [0.5, 0.1]])
    variances = np.array([[0.01, 0.02], [0.05, 0.01]])
    made = merged(weights, means, variances, 3)
    assert_same_totals(made, (weights, means, variances))
    order = np.argsort(made[0])
    np.testing.assert_allclose(made[0][order], [0.15, 0.15, 0.7])
    offset = 0.8 * math.sqrt(0.05)
    halves = made[1][order[:2]]
    np.testing.assert_allclose(np.sort(halves[:, 0]), [0.5 - offset, 0.5 + offset])
    np.testing.assert_allclose(halves[:, 1], 0.1)


def test_merging_and_splitting_keep_the_whole(rng):
    for n_parts, n_components in ((1, 5), (3, 3), (4, 7), (12, 3), (9, 1)):
        parts = (
            rng.dirichlet(np.ones(n_parts)),
            rng.normal(size=(n_parts, 3)) / 3.0,
            rng.uniform(0.001, 0.1, size=(n_parts, 3)),
        )
        made = merged(*parts, n_components)
        assert made[0].shape == (n_components,)
        assert made[1].shape == made[2].shape == (n_components, 3)
        assert (made[0] > 0).all() and (made[2] > 0).all()
        assert_same_totals(made, parts)


# The search


class Recording:
    """All that the start may use of a table; keeps what was asked for and what was released."""

    def __init__(self, table, n, seed=0):
        self._releases = StatisticsReleases(table, n, np.random.default_rng(seed))
        self.calls = []

    def release(self, components, noise_scale, mu=None):
        found = self._releases.release(components, noise_scale)
        self.calls.append((components, noise_scale, found))
        return found


def noise_of(phases):
    return [phase.noise_scale for phase in phases for _ in range(phase.n_passes)]


def mean_log_density(rows, weights, means, covariances):
    joint = [
        np.log(w) + multivariate_normal(m, c).logpdf(rows)
        for w, m, c in zip(weights, means, covariances, strict=True)
    ]
    return logsumexp(joint, axis=0).mean()


@pytest.mark.parametrize("seed", seeds(2, 5))
def test_the_search_finds_blobs_of_unequal_weights(seed):
    rng = np.random.default_rng(seed)
    weights = np.array([0.8, 0.15, 0.05])
    means = np.array([[1.5, 0.0, 0.0], [-1.0, 1.2, 0.0], [-1.0, -1.2, 0.5]])
    rows = means[rng.choice(3, size=20_000, p=weights)] + 0.25 * rng.normal(size=(20_000, 3))
    model = MixtureModel(3, 3, "diag", 4.0, 1.0, 4.0, 5.0, 0.1)
    plan = plan_of(model, 20_000, np.inf)
    releases = Recording(make_mixture(rows, model), 20_000)
    found, centres, variances = find_groups(model, plan.phases, releases, 20_000)
    assert [call[1] for call in releases.calls] == noise_of(plan.phases)
    truth = mean_log_density(rows, weights, means, [0.25**2 * np.eye(3)] * 3)
    covariances = [np.diag(16.0 * variance) for variance in variances]
    assert mean_log_density(rows, found, 4.0 * centres, covariances) > truth - 0.02


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_the_search_bears_noise_as_large_as_the_variances_of_cells(seed):
    """Variances of cells, and one column's pooled variance, are lost in noise here: others stand in."""
    rng = np.random.default_rng(seed)
    d, k, n, norm = 10, 5, 60_000, 12.5
    means = 6.0 * np.sqrt(0.5) * np.eye(k, d) * rng.choice([-1.2, 1.2], size=(k, 1))
    deviations = rng.uniform(0.7, 1.3, size=(k, d))
    labels = rng.integers(k, size=n)
    rows = means[labels] + deviations[labels] * rng.normal(size=(n, d))
    model = MixtureModel(k, d, "diag", norm, 1.0, norm, 1.0, 1.6)
    plan = plan_of(model, n, 1.0)
    releases = StatisticsReleases(make_mixture(rows, model), n, rng)
    found, centres, _ = find_groups(model, plan.phases, releases, n)
    # Every group is one of those that there are: `rounds` see to the rest.
    distances = np.linalg.norm(norm * centres[:, None] - means, axis=2)
    assert sorted(distances.argmin(axis=0)) == list(range(k))
    assert distances.min(axis=0).max() < 1.5 and np.abs(found - 0.2).max() < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_components_of_the_model_s_kind(kind):
    model = MixtureModel(2, 2, kind, 1.0, 1.0, 1.0, 4.0, 0.1)
    weights, means = np.array([0.7, 0.3]), np.array([[0.0, 0.1], [0.5, 0.2]])
    variances = np.array([[0.01, 0.02], [0.04, 0.01]])
    at = starting_components(model, weights, means, variances)
    shared = {"spherical": [[0.015, 0.015], [0.025, 0.025]], "tied": [[0.019, 0.017]] * 2}
    factors = at.factors
    if model.is_triangular:
        assert factors.shape == (2, 2, 2) and (factors[:, [0, 1], [1, 0]] == 0).all()
        factors = np.diagonal(factors, axis1=1, axis2=2)
    np.testing.assert_allclose(factors**-2.0, shared.get(kind, variances))
    np.testing.assert_allclose(np.exp(at.log_weights), weights)
    assert at.means is means


def degenerate_tables(n, d):
    rng = np.random.default_rng(0)
    yield np.zeros((n, d))
    yield np.full((n, d), 0.7)
    yield np.full((n, d), 1e9)
    yield np.outer(np.arange(n) % 2 - 0.5, np.ones(d))
    yield rng.normal(size=(n, d))


@pytest.mark.parametrize("noise", ["none", "planned", "overwhelming"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_search_takes_as_many_passes_whatever_the_table(kind, noise):
    """And always returns a mixture: also of three rows, or of equal ones, for eight components."""
    most = 8 if kind == "full" else 3
    for n, n_components, d in ((3, most, 2), (40, 2, 1), (40, 1, 3)):
        model = MixtureModel(n_components, d, kind, 2.0, 1.0, 2.0, d + 2.0, 0.2)
        epsilon = np.inf if noise == "none" else 1.0
        phases = plan_of(model, n, epsilon, 1e-5).phases
        if noise == "overwhelming":
            phases = tuple(Phase(p.name, p.n_passes, 1e8) for p in phases)
        for seed, rows in enumerate(degenerate_tables(n, d)):
            releases = Recording(make_mixture(rows, model), n, seed)
            passes = []
            groups = find_groups(model, phases, releases, n, partial(passes.append, 1))
            start = starting_components(model, *groups)
            assert [call[1] for call in releases.calls] == noise_of(phases)
            assert len(passes) == len(releases.calls)
            assert all(np.isfinite(part).all() for part in start)
            assert start.means.shape == (n_components, d)
            weights = np.exp(start.log_weights)
            assert weights.sum() == pytest.approx(1.0)
            assert (weights > 0).all()
            diagonals = start.factors
            if model.is_triangular:
                diagonals = np.diagonal(start.factors, axis1=1, axis2=2)
            assert (diagonals > 0).all()


def test_what_is_released_is_noisy_as_stated(rng):
    """Entries off the diagonal count twice, and have half the variance."""
    model = MixtureModel(2, 2, "full", 1.0, 1.0, 1.0, 4.0, 0.1)
    rows = rng.normal(size=(30, 2)) / 3.0
    releases = StatisticsReleases(make_mixture(rows, model), 30, rng)
    components = Components(
        np.log([0.3, 0.7]), np.array([[0.1, 0.2], [-0.3, 0.0]]), np.array([2 * np.eye(2)] * 2)
    )
    exact = releases.release(components, 0.0)
    noisy = [releases.release(components, 1.7) for _ in range(4000)]
    for part in range(3):
        errors = np.array([found[part] for found in noisy]) - exact[part]
        expected = np.full(exact[part].shape, 1.7)
        if part == 2:
            expected[:, [0, 1], [1, 0]] /= math.sqrt(2.0)
            np.testing.assert_array_equal(errors, errors.transpose(0, 1, 3, 2))
        np.testing.assert_allclose(errors.std(axis=0), expected, rtol=0.06)
        assert (np.abs(errors.mean(axis=0)) < 4.5 * expected / math.sqrt(4000)).all()


# An attack on the search

N_ROWS, REPETITIONS = 20, 80


def log_ratio(calls, tables):
    """Log likelihood ratio of all that was released, to one who knows both tables."""
    exact = [StatisticsReleases(table, N_ROWS, np.random.default_rng(0)) for table in tables]
    total = 0.0
    for components, noise, found in calls:
        squares = []
        for releases in exact:
            parts = releases.release(components, 0.0)
            # Symmetric entries appear twice, with half the variance each: as one of that variance.
            squares.append(sum(((a - b) ** 2).sum() for a, b in zip(found, parts, strict=True)))
        total += (squares[1] - squares[0]) / (2.0 * noise**2)
    return total


def attack(model, phases, tables):
    scores = []
    for which, table in enumerate(tables):
        of_table = []
        for r in range(REPETITIONS):
            releases = Recording(table, N_ROWS, 2 * r + which)
            find_groups(model, phases, releases, N_ROWS)
            of_table.append(log_ratio(releases.calls, tables))
        scores.append(of_table)
    return audit_separation(*scores)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "kind, relation",
    [
        ("diag", "replace_one"),
        ("full", "add_or_remove_one"),
        pytest.param("diag", "add_or_remove_one", marks=pytest.mark.nightly),
        pytest.param("full", "replace_one", marks=pytest.mark.nightly),
    ],
)
def test_an_attack_on_the_search_stays_within_the_claim(kind, relation):
    model = MixtureModel(2, 2, kind, 1.0, 1.0, 1.0, 4.0, 0.1)
    plan = plan_of(model, N_ROWS, 20.0, 1e-3, relation)
    # A few passes of each phase, at the plan's own noise.
    phases = tuple(
        Phase(p.name, passes, p.noise_scale) for p, passes in zip(plan.phases, (6, 5), strict=True)
    )
    sensitivity = math.sqrt(6.0 if relation == "replace_one" else 3.0)
    claim = math.sqrt(sum(p.n_passes * (sensitivity / p.noise_scale) ** 2 for p in phases))
    common = 0.9 * np.outer(np.arange(N_ROWS - 1) % 2 * 2.0 - 1.0, [1.0, 0.0])
    x = np.array([[1.0, 0.0]])
    other = np.vstack([common, -x]) if relation == "replace_one" else common
    tables = [make_mixture(rows, model) for rows in (np.vstack([common, x]), other)]
    result = attack(model, phases, tables)
    assert result.mu - 3.5 * result.standard_error <= claim, "the claim is broken"
    assert result.mu >= 0.2 * claim, "the claim is loose, or the noise is too large"
    halved = tuple(Phase(p.name, p.n_passes, p.noise_scale / 2.0) for p in phases)
    broken = attack(model, halved, tables)
    assert broken.mu - 3.5 * broken.standard_error > claim, "the attack has no power"
