"""A noise-aware posterior: what is released and what it costs."""

import math
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from noise_aware_tables import PRIOR_SCALE, a_plan, labels_of, unit_rows
from scipy.special import softmax

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.models import LinearModel, Logistic, Softmax, TargetBounds
from skdpbayes.models.families import classifier
from skdpbayes.models.sums import record_weights, weighted_scores, weighted_sums
from skdpbayes.privacy import Budget
from skdpbayes.samplers import NoiseAware, resolve_sampler, sample
from skdpbayes.samplers.noise import release_vector
from skdpbayes.samplers.statistics import requests as module
from skdpbayes.samplers.statistics.design import Coordinates
from skdpbayes.samplers.statistics.logistic import LogisticLikelihood
from skdpbayes.samplers.statistics.release import posterior_of
from skdpbayes.samplers.statistics.requests import Records
from skdpbayes.samplers.statistics.sensitivity import joint_mu_squared_at

# What it costs


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("family", [Logistic(), Softmax(4)])
def test_the_parts_cost_what_the_plan_says_and_no_more_than_the_budget(epsilon, relation, family):
    n_parameters = 7 if family == Logistic() else 28
    bounds = TargetBounds(n_parameters, 1.0, 0.25, (0.1, 0.1), row_norm=1.0, family=family)
    plan = a_plan(bounds._replace(n_blocks=n_parameters // 7), 50_000, epsilon, relation)
    scores = np.array(plan.score_multipliers) ** -2.0
    curvatures = np.array([value or math.inf for value in plan.curvature_multipliers]) ** -2.0
    # Of a score, of two halves, and of what lies between for several classes.
    joint = np.maximum(scores, curvatures)
    if family != Logistic():
        joint = np.maximum(scores, scores / 3.0 + curvatures)
    np.testing.assert_allclose(joint, scores, rtol=1e-12)  # Curvatures are for free.
    of_moment, of_labels = plan.moment_multiplier**-2.0, plan.label_multiplier**-2.0
    total = of_moment + of_labels + joint.sum()
    assert plan.cost.mu**2 == pytest.approx(total, rel=1e-12)
    # Another row in the place of one: second moments are positive, a sum of labels may turn round.
    replaced = 2.0 * of_moment + 4.0 * (of_labels + joint.sum())
    assert plan.mu_of_replacing**2 == pytest.approx(replaced, rel=1e-12)
    shares = np.array([of_moment, of_labels, joint.sum()]) / total
    np.testing.assert_allclose(shares, [0.19, 0.41, 0.40], rtol=1e-9)
    np.testing.assert_allclose(scores[1:] / scores[:-1], 1.3, rtol=1e-9)
    assert plan.cost.neighboring_relation == relation
    assert 0.999 * epsilon < plan.epsilon <= epsilon


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_residuals_and_slopes_of_a_link_keep_to_their_bounds(rng, n_classes):
    """For probabilities of all kinds, two equal ones among them, at which a slope is largest."""
    family, size = classifier(n_classes).identified, 4000
    logits = rng.normal(size=(family.n_blocks, size)) * 10.0 ** rng.uniform(-1, 2, size=size)
    p = softmax(family.contrasts @ logits, axis=0)
    if n_classes > 2:
        pair = family.contrasts.T @ np.where(np.arange(n_classes) < 2, 30.0, 0.0)
        logits[:, 0], p[:, 0] = pair, softmax(family.contrasts @ pair)
    found = family.inverse_link(logits)
    np.testing.assert_allclose(family.mean(found), family.contrasts.T @ p, atol=1e-12)
    labels = rng.integers(n_classes, size=size)
    residuals = family.mean(found) - family.contrasts[labels].T
    assert np.linalg.norm(residuals, axis=0).max() <= family.residual_bound * (1 + 1e-12)
    slopes = np.stack(
        [family.slope_times(found, unit[:, None]) for unit in np.eye(family.n_blocks)]
    )
    norms = np.linalg.norm(slopes, axis=(0, 1))
    assert 0.99 * family.slope_bound < norms.max() <= family.slope_bound * (1 + 1e-12)
    i = 7
    expected = (
        family.contrasts.T @ (np.diag(p[:, i]) - np.outer(p[:, i], p[:, i])) @ family.contrasts
    )
    np.testing.assert_allclose(slopes[:, :, i], expected, atol=1e-12)
    sizes = np.trace(slopes) / family.n_blocks
    np.testing.assert_allclose(family.mean_variance(found), sizes, atol=1e-12)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("constant", [0.0, 0.7])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_record_weighs_more_than_the_bounds_that_noise_is_scaled_by(
    rng, make_target, is_sparse, constant, n_classes
):
    """Records of any length, at any point, in coordinates that stretch some directions a lot."""
    d, family = 4, classifier(n_classes).identified
    rows = unit_rows(rng, 60, d) * rng.choice([1e-6, 0.1, 1.0], size=(60, 1))
    table = sp.csr_matrix(rows) if is_sparse else rows
    target, _ = make_target(
        table, np.arange(60) % n_classes, n_classes=n_classes, intercept_scaling=constant
    )
    length = d + (constant > 0)
    longest, steepest = 0.0, 0.0
    for _ in range(20):
        transform = rng.normal(size=(length, length)) * 10.0 ** rng.uniform(-1, 2, size=length)
        norm = 10.0 ** rng.uniform(-1, 1)
        weights = record_weights(target, transform, norm)
        theta = rng.normal(size=(family.n_blocks, length)) * 10.0 ** rng.uniform(-2, 3)
        matrices, gradients, scores = [], [], []
        for i in range(0, 60, 3):
            own = np.where(np.arange(60) == i, weights, 0.0)
            gradient, matrix = weighted_sums(target, family, own, theta, transform)
            gradients.append((gradient @ transform).ravel() / norm)
            matrices.append(matrix / norm**2)
            score, _ = weighted_scores(target._replace(weights=own), family, theta, transform)
            scores.append((score @ transform).ravel() / norm)
        longest = max(longest, np.linalg.norm(gradients, axis=1).max())
        steepest = max(steepest, max(np.linalg.norm(m) for m in matrices))
        assert np.linalg.norm(scores, axis=1).max() <= family.score_bound * (1 + 1e-9)
        apart = max(np.linalg.norm(m - other) for m in matrices for other in matrices)
        assert apart <= math.sqrt(2.0) * family.slope_bound * (1 + 1e-9)
    assert 0.5 * family.residual_bound < longest <= family.residual_bound * (1 + 1e-9)
    assert 0.2 * family.slope_bound < steepest <= family.slope_bound * (1 + 1e-9)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_weighted_sums_are_derivatives_of_each_other(rng, make_target, n_classes):
    rows, constant, family = unit_rows(rng, 300, 3), 0.5, classifier(n_classes).identified
    labels = np.arange(300) % n_classes
    target, _ = make_target(rows, labels, n_classes=n_classes, intercept_scaling=constant)
    weights, theta = rng.uniform(size=300), rng.normal(size=(family.n_blocks, 4))
    transform = rng.normal(size=(4, 4))
    gradient, matrix = weighted_sums(target, family, weights, theta, transform)
    back = np.kron(np.eye(family.n_blocks), np.linalg.inv(transform))
    matrix = back.T @ matrix @ back
    z = np.column_stack([rows, np.full(300, constant)])
    p = softmax(z @ theta.T @ family.contrasts.T, axis=1)
    expected = family.contrasts.T @ ((p - np.eye(n_classes)[labels]) * weights[:, None]).T @ z
    np.testing.assert_allclose(gradient, expected, atol=1e-12)
    step = 1e-5
    for j, unit in enumerate(np.eye(theta.size)):
        ahead, behind = (
            weighted_sums(target, family, weights, theta + h * unit.reshape(theta.shape))[0]
            for h in (step, -step)
        )
        found = (ahead - behind).ravel() / (2 * step)
        np.testing.assert_allclose(found, matrix[j], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_curvatures_are_the_same_whenever_they_are_transformed(make_target, n_classes, monkeypatch):
    rng = np.random.default_rng(0)
    rows, labels = unit_rows(rng, 500, 3), np.arange(500) % n_classes
    target, bounds = make_target(rows, labels, n_classes=n_classes, intercept_scaling=0.5)
    plan = NoiseAware().plan(bounds, 500, Budget(1.0, 1e-6))
    _, likelihood = posterior_of(plan, target, LogisticLikelihood, rng)
    at, records = likelihood.coordinates, Records(plan, target, rng)
    records.set_weights(at)
    theta = rng.normal(size=(records.family.n_blocks, 4))
    score, matrix, room = records._score(at.transform, theta, True)
    monkeypatch.setattr(module, "_EARLY_SUM_INFLATION", 1.0)
    late_score, late, late_room = records._score(at.transform, theta, True)
    np.testing.assert_allclose(score, late_score, rtol=1e-12)
    np.testing.assert_allclose(matrix, late, rtol=1e-9, atol=1e-9 * np.abs(late).max())
    assert room == max(late_room, at.inflation(plan, theta, power=2)) > 1.0
    # Where it is not wanted, there is nothing to allow for.
    assert records._score(at.transform, theta, False)[1:] == (None, late_room)


@pytest.mark.parametrize("relation, moved", [("replace_one", 2), ("add_or_remove_one", 1)])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("constant", [0.0, 0.6])
def test_noise_is_as_large_as_multipliers_and_bounds_say(
    rng, make_target, relation, moved, n_classes, constant
):
    """Nothing here may be off by a factor: what a release adds, and what the draws are told of it."""
    labels = np.arange(500) % n_classes
    target, bounds = make_target(
        unit_rows(rng, 500, 3), labels, n_classes=n_classes, intercept_scaling=constant
    )
    plan = a_plan(bounds, 500, 1.0, relation)
    _, found = posterior_of(plan, target, LogisticLikelihood, np.random.default_rng(0))
    norm = found.coordinates.norm
    # Nothing is known of labels, so that their sum is charged in full.
    score, slope = (0.5, 0.25) if n_classes == 2 else (math.sqrt(2.0 / 3.0), 0.5)
    expected = moved * score * norm * plan.label_multiplier
    assert expected < found.label_sum.noise < (1.0 + 1e-4) * expected
    scores = moved * score * norm * np.array(plan.score_multipliers)
    factors = np.array([noisy_sum.noise for noisy_sum in found.noisy_sums]) / scores
    squares = []
    for noisy_sum, *pair in zip(
        found.noisy_sums, plan.score_multipliers, plan.curvature_multipliers, strict=True
    ):
        theta = noisy_sum.point.reshape(found.family.n_blocks, -1) @ found.coordinates.transform.T
        reach = found.coordinates.logit_bound(found.family, noisy_sum.point, theta)
        a, b = (0.0 if value is None else value**-2.0 for value in pair)
        squares.append(joint_mu_squared_at(found.family, reach, moved == 2, a, b) / a)
    np.testing.assert_allclose(factors, np.sqrt(squares), rtol=1e-3)
    # Scores alone are short where logits are.
    alone = [value is None for value in plan.curvature_multipliers]
    assert (factors[alone] < 0.9).any() and (factors <= 1.0 + 1e-4).all()
    multipliers = np.array([value for value in plan.curvature_multipliers if value])
    curvatures = math.sqrt(moved) * slope * norm**2 * multipliers
    found_factors = np.array([noisy_sum.noise for noisy_sum in found.curvatures]) / curvatures
    np.testing.assert_allclose(found_factors, factors[np.logical_not(alone)], rtol=1e-12)
    square = 1.0 + (constant or 0.5) ** 2
    expected = math.sqrt(moved) * square * plan.moment_multiplier
    assert found.released.noise == pytest.approx(expected, rel=1e-4)
    released = release_vector(np.zeros(100_000), 0.7, rng)
    assert released.std() == pytest.approx(0.7, rel=0.02)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"row_norm": None}, "linear models"),
        ({"n_parameters": 513}, "513"),
        ({"family": Softmax(4), "n_blocks": 4, "n_parameters": 280}, "210"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(changed, message):
    bounds = TargetBounds(3, 1.0, 0.25, (0.1, 0.1), row_norm=1.0, family=Logistic())._replace(
        **changed
    )
    with pytest.raises(ValueError, match=message):
        NoiseAware().plan(bounds, 1000, Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="delta=0"):
        NoiseAware().plan(bounds, 1000, Budget(1.0, 0.0))


@pytest.mark.parametrize("name", ["temperature", "n_steps"])
def test_it_has_no_option_of_chains(name):
    assert name not in NoiseAware().get_params()
    clf = DPBayesianLogisticRegression(sampler="noise_aware")
    with pytest.raises(ValueError, match=f"{name}.*NoiseAware"):
        clf.set_params(**{f"sampler__{name}": 5})


# Corners


def test_directions_of_which_rows_say_nothing_keep_the_prior(rng):
    """All dummies up and the intercept down: no label depends on it, however many there are."""
    n, levels = 50_000, 4
    rows = np.eye(levels)[rng.integers(levels, size=n)]
    labels = labels_of(rng, rows, np.array([1.0, -1.0, 0.5, 0.0]))
    clf = DPBayesianLogisticRegression(
        10.0,
        1e-5,
        data_norm=1.0,
        prior_scale=1.0,
        intercept_prior_scale=1.0,
        n_draws=2000,
        random_state=0,
    )
    draws = clf.fit(rows, labels).posterior_samples_[:, 0]
    empty = np.append(np.ones(levels), -1.0) / math.sqrt(levels + 1)
    assert (draws @ empty).std() == pytest.approx(1.0, rel=0.15)
    assert (draws[:, 0] - draws[:, 1]).std() < 0.1


@pytest.mark.parametrize(
    "public_size",
    [
        2500,
        pytest.param(5000, marks=pytest.mark.nightly),
        pytest.param(10_000, marks=pytest.mark.nightly),
    ],
)
def test_public_sizes_may_be_off_by_a_factor(public_size):
    shares = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows, theta = unit_rows(rng, 5000, 3), PRIOR_SCALE * rng.normal(size=3)
        clf = DPBayesianLogisticRegression(
            1.0,
            1e-5,
            data_norm=1.0,
            prior_scale=PRIOR_SCALE,
            fit_intercept=False,
            neighboring_relation="add_or_remove_one",
            public_size=public_size,
            random_state=seed,
        ).fit(rows, labels_of(rng, rows, theta))
        low, high = np.moveaxis(clf.posterior_interval()[0], -1, 0)
        shares.append(np.mean((low < theta) & (theta < high)))
    assert 0.8 <= np.mean(shares) <= 0.99


# As users meet it


def test_any_number_of_draws_is_free(rng):
    rows = unit_rows(rng, 2000, 3)
    labels = labels_of(rng, rows, np.array([2.0, 0.0, -1.0]))
    clf = DPBayesianLogisticRegression(sampler="noise_aware", n_draws=50, random_state=0)
    clf.fit(rows, labels)
    assert clf.posterior_samples_.shape == (50, 1, 4)
    many = clf.sample_posterior(2000, random_state=1)
    assert many.shape == (2000, 1, 4)
    error = many.std(axis=0) * 4.0 / math.sqrt(25)  # Of 50 draws that are worth half of that.
    assert (np.abs(many.mean(axis=0) - clf.posterior_samples_.mean(axis=0)) < error).all()
    assert clf.temperature_ == 1.0
    assert clf.n_iter_ == 11


@pytest.mark.parametrize(
    "options", [{"data_norm": 1e-60}, {"data_norm": 1e60}, {"intercept_prior_scale": 1e12}]
)
def test_units_do_not_matter(rng, options):
    rows = unit_rows(rng, 500, 3) * options.get("data_norm", 1.0)
    clf = DPBayesianLogisticRegression(1.0, n_draws=10, random_state=0, **options)
    assert np.isfinite(clf.fit(rows, np.arange(500) % 2).posterior_samples_).all()


def test_a_constant_beside_which_rows_vanish_is_refused():
    with pytest.raises(ValueError, match="intercept_scaling"):
        DPBayesianLogisticRegression(1.0, intercept_scaling=1e8).privacy_plan(3000, 4)


def test_without_privacy_the_plan_reads_the_table_for_every_path():
    bounds = TargetBounds(3, 1.0, 0.25, (0.1, 0.1), row_norm=1.0, family=Logistic())
    plan = NoiseAware().plan(bounds, 1000, Budget(math.inf, 1e-6))
    assert plan.name == "noise_aware" and plan.cost.mu == math.inf
    assert plan.record_gradients > 1000 * plan.n_draws


def test_classes_have_in_common_what_the_prior_says(rng):
    """Labels tell nothing of a vector that is added to the coefficients of all classes."""
    rows, labels = unit_rows(rng, 3000, 2), rng.integers(3, size=3000)
    clf = DPBayesianLogisticRegression(
        10.0,
        sampler="noise_aware",
        data_norm=1.0,
        prior_scale=2.0,
        intercept_prior_scale=2.0,
        n_draws=1000,
        random_state=0,
    ).fit(rows, labels)
    common = clf.posterior_samples_.sum(axis=1) / math.sqrt(3)
    deviations = common.std(axis=0)
    np.testing.assert_allclose(deviations, 2.0, rtol=0.1)
    contrast = (clf.posterior_samples_[:, 0] - clf.posterior_samples_[:, 1])[:, :2].std(axis=0)
    assert (contrast < 0.5).all()


def test_other_targets_are_refused(rng):
    """By their bounds before anything is read, by what they are after that."""

    class Rows(NamedTuple):
        gradient_bound: float

    bounds = TargetBounds(2, 1.0, 0.25, (0.1, 0.1), row_norm=1.0, family=Logistic())
    plan = a_plan(bounds, 50, relation="add_or_remove_one")
    with pytest.raises(ValueError, match="package's own linear models' targets"):
        plan.sampler.check(plan, Rows(1.0))


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"row_norm": 0.5}, "row_norm"),
        ({"constant": 0.2}, "constant"),
        ({"n_blocks": 2}, "n_blocks"),
    ],
)
def test_plans_for_shorter_rows_or_other_constants_are_refused(rng, make_target, changed, message):
    """They would have too little noise; nothing is read."""
    target, bounds = make_target(unit_rows(rng, 100, 4), np.arange(100) % 2)
    with pytest.raises(ValueError, match=message):
        sample(target, a_plan(bounds._replace(**changed), 100), random_state=0)


def test_errors_of_a_score_are_those_of_a_gradient(rng, make_target):
    """They are larger relative to it: it is at most 1/2, or sqrt(2/3), where those are 1, or sqrt(2)."""
    for n_classes, grown in ((2, 2.0), (3, math.sqrt(3.0))):
        target, bounds = make_target(
            unit_rows(rng, 50, 3), np.arange(50) % 3 % n_classes, n_classes=n_classes
        )
        plan = a_plan(bounds, 50)
        _, likelihood = posterior_of(plan, target, LogisticLikelihood, rng)
        at, records = likelihood.coordinates, Records(plan, target, rng)
        records.set_weights(at)
        theta = rng.normal(size=(records.family.n_blocks, 3))
        of_gradient = at.inflation(plan, theta) - 1.0
        of_score = records._inflation_of_scores(theta) - 1.0
        assert of_score == pytest.approx(grown * of_gradient, rel=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_are_read_once(rng, make_target, n_classes):
    """Scores and curvatures of tables that differ in labels are the same, and the sum is what it says."""
    rows, sums = unit_rows(rng, 40, 3), []
    family, theta = classifier(n_classes).identified, rng.normal(size=(n_classes - 1, 3))
    for labels in (np.arange(40) % n_classes, np.arange(40) // 7 % n_classes):
        target, bounds = make_target(rows, labels, n_classes=n_classes)
        sums.append(weighted_scores(target, family, theta, np.eye(3)))
        plan = a_plan(bounds, 40, 1e6)
        _, found = posterior_of(plan, target, LogisticLikelihood, np.random.default_rng(0))
        z = rows @ found.coordinates.transform
        v = np.minimum(1.0, found.coordinates.norm**2 / np.sum(z**2, axis=1))
        unit = (np.eye(n_classes) - 1.0 / n_classes) @ family.contrasts
        expected = np.einsum("n,na,ni->ai", v, unit[labels], z).ravel()
        label_sum, noise = found.label_sum[:2]
        np.testing.assert_allclose(label_sum, expected, atol=6.0 * noise)
        assert noise < 0.1
    for one, other in zip(*sums, strict=True):
        np.testing.assert_array_equal(one, other)


def test_room_for_rounding_is_small_and_grows_with_what_it_is_for():
    plan = a_plan(TargetBounds(3, 1.0, 0.25, (0.1, 0.1), row_norm=1.0, family=Logistic()), 100_000)
    near, far = (Coordinates(scale * np.eye(3), 1.0, 1.0) for scale in (1.0, 1e3))
    theta = np.ones(3)
    assert 1.0 < near.inflation(plan, theta) < 1 + 1e-5
    assert near.inflation(plan, 1e4 * theta) > near.inflation(plan, theta)
    assert far.inflation(plan, theta) - 1 > 1e2 * (near.inflation(plan, theta) - 1)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_plan_says_how_much_wider_intervals_will_be(rng, relation):
    """Measured against fits with so large a budget that nothing is hidden, on rows like those it is for."""
    n, d = 10_000, 6
    rows = rng.normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = labels_of(rng, rows, PRIOR_SCALE * rng.normal(size=d))
    public = n if relation == "add_or_remove_one" else None
    width, said = {}, {}
    for epsilon in (0.3, 1e4):
        clf = DPBayesianLogisticRegression(
            epsilon,
            1e-6,
            sampler="noise_aware",
            data_norm=1.0,
            prior_scale=PRIOR_SCALE,
            fit_intercept=False,
            neighboring_relation=relation,
            public_size=public,
            random_state=0,
        ).fit(rows, labels)
        width[epsilon] = clf.posterior_samples_.std(axis=0).mean()
        said[epsilon] = clf.plan_.interval_inflation
    assert said[1e4] == pytest.approx(1.0, abs=0.01)
    assert said[0.3] > 1.5
    assert 0.4 < said[0.3] / (width[0.3] / width[1e4]) < 1.5
    assert f"{said[1e4]:.2g} times" in str(clf.plan_)


@pytest.mark.parametrize("kind", ["zero", "one", "huge", "tiny"])
@pytest.mark.parametrize("epsilon", [1e-3, 1e3])
def test_tables_that_say_nothing_still_have_a_posterior(rng, kind, epsilon):
    rows = {
        "zero": np.zeros((4, 2)),
        "one": np.ones((1, 2)),
        "huge": 1e300 * rng.normal(size=(4, 2)),
        "tiny": 1e-310 * rng.normal(size=(4, 2)),
    }[kind]
    clf = DPBayesianLogisticRegression(
        epsilon=epsilon, sampler="noise_aware", n_draws=10, classes=[0, 1], random_state=0
    ).fit(rows, np.arange(len(rows)) % 2)
    assert np.isfinite(clf.posterior_samples_).all()
    assert clf.spent_epsilon_ <= epsilon


@pytest.mark.parametrize("size, is_default, says", [(200, True, False), (201, False, True)])
def test_wide_tables_are_for_those_who_ask_for_them(size, is_default, says):
    bounds = LinearModel(family=Logistic(), n_features=size, norm=1.0, constant=0.0).bounds()
    plan = NoiseAware().plan(bounds, 100_000, Budget(1.0, 1e-6))
    assert any(f"with {size} coefficients" in line for line in plan.warnings) == says
    chosen = resolve_sampler("auto").plan(bounds, 100_000, Budget(1.0, 1e-6))
    assert (chosen.name == "noise_aware") == is_default
