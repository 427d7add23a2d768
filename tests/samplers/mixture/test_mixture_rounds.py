"""Rounds in the components' own coordinates: what they cost, and whether anything beats that."""

import math

import numpy as np
import pytest

from skdpbayes.audit import audit_separation
from skdpbayes.models.mixture import MixtureModel, make_mixture
from skdpbayes.privacy import Budget
from skdpbayes.samplers import NoiseAware
from skdpbayes.samplers.mixture import MixtureSampler, posterior, release
from skdpbayes.samplers.mixture.plan import LARGEST_MIXTURE_SIZE, release_mean_square, scales_for
from skdpbayes.samplers.mixture.posterior import (
    MixtureState,
    inflation,
    local_features,
    local_sums,
    own_moments,
)
from skdpbayes.samplers.mixture.release import Rounds
from skdpbayes.samplers.mixture.statistics import StatisticsReleases
from skdpbayes.samplers.statistics import requests

KINDS = ["spherical", "diag", "tied", "full"]
RELATIONS = ["replace_one", "add_or_remove_one"]


def model_of(k, d, kind="diag", norm=1.0):
    degrees = d if kind in ("tied", "full") else 1.0
    return MixtureModel(k, d, kind, norm, 1.0, norm, float(degrees), 0.1 * norm**2 / d)


@pytest.fixture
def few_points(monkeypatch):
    """What is believed does not matter here, and fewer simulated rows are faster."""
    monkeypatch.setattr(posterior, "N_POINTS", 64)
    monkeypatch.setattr(release, "_REPEATS", 1)
    monkeypatch.setattr(release, "_LAST_REPEATS", 1)


def plan_of(model, n, epsilon=1.0, relation="replace_one", **fixed):
    return MixtureSampler(NoiseAware()).plan(model, n, Budget(epsilon, 1e-6, relation), **fixed)


def reference_of(rng, k, d, kind):
    factors = rng.uniform(0.05, 0.4, size=(k, d))
    if kind == "spherical":
        factors[:] = factors[:, :1]
    if kind in ("tied", "full"):
        factors = factors[:, :, None] * (np.eye(d) + np.tril(rng.normal(size=(k, d, d)), -1))
    if kind == "tied":
        factors[:] = factors[0]
    return MixtureState(kind, rng.uniform(1.0, 5.0, size=k), 0.4 * rng.normal(size=(k, d)), factors)


# What it costs


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("k", [1, 4])
def test_search_and_rounds_use_up_the_budget_and_no_more(k, epsilon, relation):
    plan = plan_of(model_of(k, 3, "full"), 50_000, epsilon, relation)
    sensitivity = math.sqrt(6.0 if relation == "replace_one" else 3.0)
    search = sum(p.n_passes * (sensitivity / p.noise_scale) ** 2 for p in plan.phases)
    rounds = sum(m**-2.0 for m in plan.round_multipliers)
    # Rounding of the search's statistics is charged with them.
    assert (1 - 0.03) * plan.cost.mu**2 < search + rounds <= plan.cost.mu**2
    assert 0.999 * epsilon < plan.epsilon <= epsilon
    assert plan.n_updates == plan.start_passes + len(plan.round_multipliers)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 6])
@pytest.mark.parametrize("reach", [3.0, 6.0])
def test_no_two_records_are_farther_apart_than_is_paid_for(rng, kind, d, reach):
    """All pairs of rows near, between and far from components, opposite ones and equal ones among them."""
    scales, longest, farthest = scales_for(kind, d, reach), 0.0, 0.0
    for k in (1, 3):
        reference = reference_of(rng, k, d, kind)
        rows = [m + s * rng.normal(size=(60, d)) for m in reference.means for s in (0.1, 1.0, 9.0)]
        line = np.linspace(-6.0, 6.0, 121)[:, None] * np.eye(d)[0]
        local = [m + line @ np.atleast_2d(np.eye(d) * f if f.ndim == 1 else f).T
                 for m, f in zip(reference.means, reference.factors, strict=True)]  # fmt: skip
        features = local_features(np.concatenate(rows + local), reference, scales)
        norms = np.linalg.norm(features, axis=1)
        squares = norms[:, None] ** 2 + norms**2 - 2.0 * features @ features.T
        longest, farthest = max(longest, norms.max()), max(farthest, squares.max())
    assert 0.99 * scales.norm < longest <= scales.norm * (1 + 1e-9)
    assert 1.1 * scales.norm**2 < farthest <= 2.0 * scales.norm**2 * (1 + 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_what_records_add(rng, kind):
    """Also in blocks, of tables in single precision."""
    model, reference = model_of(3, 2, kind), reference_of(rng, 3, 2, kind)
    rows, scales = 0.5 * rng.normal(size=(5000, 2)), scales_for(kind, 2, 3.0)
    for table in (make_mixture(rows, model), make_mixture(rows.astype(np.float32), model)):
        inside = table.values.astype(float) * table.scale[:, None]
        expected = local_features(inside, reference, scales).sum(axis=0)
        np.testing.assert_allclose(local_sums(table, reference, scales), expected, rtol=1e-9)


@pytest.mark.nightly
@pytest.mark.parametrize("relation, moved", [("replace_one", 2), ("add_or_remove_one", 1)])
@pytest.mark.parametrize("kind", ["diag", "full"])
def test_noise_is_as_large_as_multipliers_and_bounds_say(
    rng, relation, moved, kind, monkeypatch, few_points
):
    """Nothing here may be off by a factor: what a release adds, and what the draws are told of it."""
    model = model_of(2, 2, kind)
    plan = plan_of(model, 2000, 1.0, relation)
    misses = []

    def watched(vector, noise_scale, generator, **charged):
        noisy = release_vector(vector, noise_scale, generator)
        misses.append((noisy - vector) / noise_scale)
        return noisy

    release_vector = requests.release_vector
    monkeypatch.setattr(requests, "release_vector", watched)
    table = make_mixture(rng.normal(size=(2000, 2)) * 0.3, model)
    for seed in range(20):
        found = Rounds(plan, table, np.random.default_rng(seed))
        found.run_rounds()
    for each, scales, multiplier in zip(
        found.noisy_sums, plan.scales, plan.round_multipliers, strict=True
    ):
        expected = math.sqrt(moved) * scales.norm * multiplier
        assert each.noisy_sum.noise == pytest.approx(expected, rel=1e-3)
        assert each.noisy_sum.noise >= expected
    misses = np.concatenate(misses)
    assert misses.size > 1000
    assert misses.std() == pytest.approx(1.0, rel=0.1)


def test_room_for_rounding_grows_with_what_it_is_for(rng):
    near = reference_of(rng, 2, 3, "full")
    steep = near.widened(1e-3)
    assert 1.0 < inflation(10_000, "replace_one", near) < 1 + 1e-5
    first, second = (inflation(10_000, "replace_one", r) - 1 for r in (near, steep))
    assert second > 1e4 * first
    assert inflation(10**6, "replace_one", near) - 1 > 99 * first


# Of each of two tables.
N_ATTACKS = 30


@pytest.mark.daily(1)
@pytest.mark.parametrize("k", [pytest.param(1, marks=pytest.mark.nightly), 2])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_an_attack_on_all_releases_stays_within_the_claim(monkeypatch, few_points, relation, k):
    """The likelihood ratio of search and rounds, each given what came before."""
    model, n = model_of(k, 1), 40
    rows = np.full((n, 1), 0.3)
    rows[: n // 2] = -0.3
    rows[0], other = 1.0, rows.copy()
    other[0] = 0.0
    other = rows[1:] if relation == "add_or_remove_one" else other
    tables = [make_mixture(part, model) for part in (rows, other)]
    plan, seen = plan_of(model, n, 20.0, relation), []
    found_by_search = StatisticsReleases.release

    def watched(self, components, noise_scale, mu=None):
        found = found_by_search(self, components, noise_scale, mu)
        sums = [exact(table, components) for table in tables]
        seen.append((np.concatenate([part.ravel() for part in found]), sums, noise_scale))
        return found

    def exact(table, components):
        parts = found_by_search(StatisticsReleases(table, n, None), components, 0.0)
        return np.concatenate([part.ravel() for part in parts])

    monkeypatch.setattr(StatisticsReleases, "release", watched)
    scores, distances = [], []
    for which, table in enumerate(tables):
        own = []
        for seed in range(N_ATTACKS):
            seen.clear()
            released = Rounds(plan, table, np.random.default_rng(1000 * which + seed))
            released.run_rounds()
            for each in released.noisy_sums:
                sums = [local_sums(part, each.reference, each.scales) for part in tables]
                seen.append((each.noisy_sum.value, sums, each.noisy_sum.noise))
            own.append(
                sum(
                    np.sum((noisy - second) ** 2 - (noisy - first) ** 2) / (2 * noise**2)
                    for noisy, (first, second), noise in seen
                )
            )
            squares = (
                np.sum((first - second) ** 2) / noise**2 for _, (first, second), noise in seen
            )
            distances.append(np.sqrt(sum(squares)))
        scores.append(np.array(own))
    # How far apart the tables are is exact, and that noise is as large as it says is what an audit tells.
    assert 0.3 * plan.cost.mu < np.mean(distances) and np.max(distances) <= plan.cost.mu
    audit = audit_separation(*scores)
    assert audit.mu <= plan.cost.mu
    # With half of the noise it would be twice that.
    assert abs(audit.mu - np.mean(distances)) < 3.0 * audit.standard_error


# What is refused, what is said beforehand


def test_too_many_statistics_are_refused_with_a_remedy():
    model = model_of(10, 40, "full")
    assert release_mean_square(model) > LARGEST_MIXTURE_SIZE
    with pytest.raises(ValueError, match="covariance_type='diag'"):
        plan_of(model, 10**6)


def test_more_components_than_rows_support_are_told_beforehand():
    few, many = (plan_of(model_of(10, 4), n) for n in (3000, 10**6))
    assert "n_components=10 is more than 3,000 rows can tell apart" in few.warnings[0]
    assert few.supported_components < 10 < many.supported_components
    assert not many.warnings
    assert not plan_of(model_of(1, 4), 100).warnings


def test_own_moments_are_those_of_a_standard_normal_law():
    """Against quadrature in one dimension; without a cut they would be c_0, 0 and c_2."""
    scales = scales_for("diag", 1, 3.0)
    z = np.linspace(-12.0, 12.0, 200_001)
    t = np.stack([scales.count * np.ones_like(z), scales.mean * z, scales.second * z**2])
    cut = np.minimum(1.0, scales.norm / np.linalg.norm(t, axis=0))
    density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    expected = np.trapezoid(cut * t * density, z, axis=1)
    np.testing.assert_allclose(own_moments("diag", 1, scales), expected, atol=1e-6)
    assert expected[2] < 0.99 * scales.second
