"""Persons with several rows in a mixture: how far apart two of them can be, and that no attack tells more."""

import math

import numpy as np
import pytest

from skdpbayes.audit import audit_separation
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.models.mixture import STATISTICS_NORM, Components, MixtureModel, make_mixture
from skdpbayes.privacy import Budget
from skdpbayes.privacy.units import plan_for_persons
from skdpbayes.samplers import NoiseAware
from skdpbayes.samplers.mixture import MixtureSampler, posterior, release
from skdpbayes.samplers.mixture.plan import Scales, scales_for
from skdpbayes.samplers.mixture.posterior import MixtureState, local_features, local_sums
from skdpbayes.samplers.mixture.release import Rounds
from skdpbayes.samplers.mixture.statistics import StatisticsReleases

KINDS = ["spherical", "diag", "tied", "full"]


def model_of(k, d, kind="diag"):
    degrees = d if kind in ("tied", "full") else 1.0
    return MixtureModel(k, d, kind, 1.0, 1.0, 1.0, float(degrees), 0.1 / d)


def plan_of(model, n_persons, k, epsilon=1.0, relation="replace_one", **options):
    sampler = MixtureSampler(NoiseAware())
    n = n_persons * k

    def make_plan(budget):
        return sampler.plan(model, n, budget, **options)

    return plan_for_persons(make_plan, Budget(epsilon, 1e-6, relation), k)


def persons(rng, k, d):
    """Up to ``k`` rows: all alike, all different, at the ball's edge or within it, or none at all but one."""
    rows = rng.normal(size=(1 if rng.random() < 0.7 else k, d))
    if rng.random() < 0.5:
        rows = np.sign(rows[:1] - 0.3) * np.eye(d)[rng.integers(d)]
    rows *= rng.choice([0.1, 1.0, 5.0])
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    return np.resize(rows, (k if rng.random() < 0.8 else 1, d))


def statistics(rows, model, components):
    found = StatisticsReleases(make_mixture(rows, model), len(rows), None)
    found = found.release(components, 0.0)
    return np.concatenate([part.ravel() for part in found])


def components_of(rng, kind, d):
    if kind in ("tied", "full"):
        factors = np.tril(rng.normal(size=(2, d, d))) * 3.0
        factors[:, np.arange(d), np.arange(d)] = rng.uniform(1.0, 30.0, size=(2, d))
    else:
        factors = rng.uniform(1.0, 30.0, size=(2, d))
    means = np.stack([np.eye(d)[0], -np.eye(d)[0]])
    return Components(np.log([0.5, 0.5]), means, factors)


@pytest.mark.parametrize("kind", ["diag", "full"])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_statistics_of_two_persons_are_at_most_sqrt_2_k_apart(rng, kind, k):
    """Of rows in the ball, with any number of rows up to ``k``, any weights and all kinds of mixtures."""
    d, model, farthest = 2, model_of(2, 2, kind), 0.0
    for _ in range(150):
        components = components_of(rng, kind, d)
        sums = [statistics(persons(rng, k, d), model, components) for _ in range(2)]
        farthest = max(farthest, np.linalg.norm(sums[0] - sums[1]))
    assert farthest <= math.sqrt(2.0) * k * STATISTICS_NORM * (1 + 1e-9)
    assert farthest > 0.9 * math.sqrt(2.0) * k * STATISTICS_NORM


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [2, 5])
def test_rounds_of_two_persons_are_at_most_sqrt_2_k_apart(rng, kind, k):
    """Of rows near, far, opposite and equal: what is cut keeps its direction."""
    d, scales, farthest = 2, scales_for(kind, 2, 3.0), 0.0
    line = np.linspace(-9.0, 9.0, 61)
    for _ in range(4):
        factors = rng.uniform(0.05, 0.3, size=(2, d))
        if kind == "spherical":
            factors[:] = factors[:, :1]
        if kind in ("tied", "full"):
            factors = factors[:, :, None] * (np.eye(d) + np.tril(rng.normal(size=(2, d, d)), -1))
        if kind == "tied":
            factors[:] = factors[0]
        reference = MixtureState(kind, np.array([2.0, 1.0]), rng.normal(size=(2, d)), factors)
        rows = [m + line[:, None] * rng.normal(size=d) * 0.3 for m in reference.means]
        rows += [rng.normal(size=(60, d))]
        features = local_features(np.concatenate(rows), reference, scales)
        whole = k * features
        mixed = np.array(
            [features[rng.integers(len(features), size=k)].sum(axis=0) for _ in range(400)]
        )
        everyone = np.vstack([whole, mixed, features])
        squares = np.sum(everyone**2, axis=1)
        apart = squares[:, None] + squares - 2.0 * everyone @ everyone.T
        farthest = max(farthest, math.sqrt(apart.max()))
    assert farthest <= math.sqrt(2.0) * k * scales.norm * (1 + 1e-9)
    assert farthest > 0.7 * math.sqrt(2.0) * k * scales.norm
    assert scales.are_acute(kind, d)


@pytest.mark.parametrize("kind", KINDS)
def test_scales_at_which_two_records_can_be_at_an_obtuse_angle_are_known(rng, kind):
    """And they can: the condition is not there for nothing."""
    d = 3
    plain = scales_for(kind, d, 3.0)
    lower = Scales(0.5 * plain.count, 2.0 * plain.mean, 0.5 * plain.second, plain.norm)
    assert not lower.are_acute(kind, d)
    factors = np.ones((1, d)) if kind in ("diag", "spherical") else np.eye(d)[None]
    reference = MixtureState(kind, np.ones(1), np.zeros((1, d)), factors)
    z = np.linspace(-3.0, 3.0, 121)[:, None] * np.ones(d) / math.sqrt(d)
    for scales, some_are in ((plain, False), (lower, True)):
        features = local_features(z, reference, scales)
        assert (np.min(features @ features.T) < -1e-9) == some_are


@pytest.mark.parametrize("epsilon", [0.1, 3.0])
@pytest.mark.parametrize("k", [2, 5])
def test_plans_for_persons_charge_sqrt_2_k_and_use_up_the_budget(epsilon, k):
    rounds = plan_of(model_of(3, 2), 20_000, k, epsilon)
    assert rounds.cost.mu == pytest.approx(math.sqrt(2.0) * k * rounds.persons.cost_of_rows.mu)
    assert 0.999 * epsilon < rounds.epsilon <= epsilon
    added = plan_of(model_of(3, 2), 20_000, k, epsilon, "add_or_remove_one")
    assert added.cost.mu == pytest.approx(k * added.persons.cost_of_rows.mu)


def test_one_row_of_a_person_is_a_row_that_is_replaced():
    rows = MixtureSampler(NoiseAware()).plan(model_of(2, 2), 5000, Budget(1.0, 1e-6))
    person = plan_of(model_of(2, 2), 5000, 1)
    assert person.cost.mu == rows.cost.mu


def test_a_norm_that_is_drawn_first_leaves_the_chain_of_rows():
    """The fit's plan is made after the draw, and what it may cost a person was fixed before."""
    found = DPGaussianMixturePosterior(
        2, epsilon=2.0, delta=1e-6, data_norm="auto", max_rows_per_group=3
    )
    plan = found.privacy_plan(5000, 2)
    assert plan.bound_release is not None
    assert plan.cost.mu == pytest.approx(6.0 * plan.persons.cost_of_rows.mu)


def test_rounds_whose_scales_are_not_acute_cost_a_chain_of_rows():
    plan = MixtureSampler(NoiseAware()).plan(
        model_of(2, 2), 5000, Budget(1.0, 1e-6, "add_or_remove_one")
    )
    assert plan.mu_of_replacing == math.sqrt(2.0) * plan.cost.mu
    obtuse = tuple(s._replace(count=0.1 * s.count) for s in plan.scales)
    assert plan.changed(scales=obtuse).mu_of_replacing == 2.0 * plan.cost.mu


@pytest.mark.nightly
def test_an_attack_on_all_releases_of_a_person_stays_within_the_claim(monkeypatch):
    """All rows of a person are replaced by others, in a table in which nobody else is near."""
    monkeypatch.setattr(posterior, "N_POINTS", 64)
    monkeypatch.setattr(release, "_REPEATS", 1)
    monkeypatch.setattr(release, "_LAST_REPEATS", 1)
    k, n_persons, model = 3, 14, model_of(1, 1)
    rows = np.zeros((k * n_persons, 1))
    rows[:k], other = 1.0, rows.copy()
    other[:k] = -1.0
    tables = [make_mixture(part, model) for part in (rows, other)]
    plan = plan_of(model, n_persons, k, 4.0)
    run, seen = plan.as_run(), []
    found_by_search = StatisticsReleases.release

    def exact(table, components):
        parts = found_by_search(StatisticsReleases(table, len(rows), None), components, 0.0)
        return np.concatenate([part.ravel() for part in parts])

    def watched(self, components, noise_scale, mu=None):
        found = found_by_search(self, components, noise_scale)
        sums = [exact(table, components) for table in tables]
        seen.append((np.concatenate([part.ravel() for part in found]), sums, noise_scale))
        return found

    monkeypatch.setattr(StatisticsReleases, "release", watched)

    scores = []
    for which, table in enumerate(tables):
        own = []
        for seed in range(100):
            seen.clear()
            released = Rounds(run, table, np.random.default_rng(1000 * which + seed))
            released.run_rounds()
            for each in released.noisy_sums:
                sums = [local_sums(part, each.reference, each.scales) for part in tables]
                seen.append((each.noisy_sum.value, sums, each.noisy_sum.noise))
            own.append(sum(log_ratio(*part) for part in seen))
        scores.append(np.array(own))
    audit = audit_separation(*scores)
    assert audit.mu - 3.5 * audit.standard_error <= plan.cost.mu
    assert audit.mu > 0.5 * plan.cost.mu


def log_ratio(noisy, sums, noise):
    """Log likelihood ratio of what was released, of two tables' sums."""
    first, second = sums
    return np.sum((noisy - second) ** 2 - (noisy - first) ** 2) / (2 * noise**2)
