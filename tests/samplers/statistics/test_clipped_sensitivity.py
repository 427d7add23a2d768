"""What one record can move, by brute force, and what all releases reveal, by an attack."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from releases import Quieter
from summed import clipped_sums, squares_moment, weighted_moment

from skdpbayes.audit import audit_separation
from skdpbayes.models import LinearModel, Normal, second_moment
from skdpbayes.models.sums import read_together, residuals_of_block, reweighted
from skdpbayes.privacy import Budget
from skdpbayes.samplers import ClippedResiduals
from skdpbayes.samplers.statistics import requests
from skdpbayes.samplers.statistics.design import Coordinates
from skdpbayes.samplers.statistics.normal import NormalLikelihood
from skdpbayes.samplers.statistics.plan import Request
from skdpbayes.samplers.statistics.release import posterior_of
from skdpbayes.samplers.statistics.requests import Question, Records
from skdpbayes.samplers.statistics.sensitivity import FREE_SQUARE_RATIO, residual_mu_squared

FAMILY, LONG = Normal(-2.0, 2.0), np.longdouble


def table_of(rows, responses, weights=None, **options):
    model = LinearModel(family=FAMILY, n_features=rows.shape[1], norm=1.0, **options)
    return model, model.target(rows, responses, weights)


@pytest.mark.daily(4)
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("constant", [0.0, 0.7])
@pytest.mark.parametrize("ratio", [1.0, 2.0, 4.0])
def test_no_record_moves_a_release_by_more_than_its_noise_is_scaled_by(
    rng, monkeypatch, is_sparse, constant, ratio
):
    """Single records of any length, weight and residual, in coordinates that stretch some directions."""
    monkeypatch.setattr(requests, "release_sum", lambda parts, *_: parts)
    rows = rng.normal(size=(80, 3)) * rng.choice([1e-6, 0.1, 1.0], size=(80, 1))
    weights, responses = 3.0 * rng.random(80), rng.uniform(-3, 3, size=80)
    rows[:20] /= np.linalg.norm(rows[:20], axis=1)[:, None]
    weights[:40] = 3.0
    rows = np.ascontiguousarray(rows)
    rows = sp.csr_matrix(rows) if is_sparse else rows
    model, target = table_of(rows, responses, weights, constant=constant, max_weight=3.0)
    plan = ClippedResiduals().plan(model.bounds(), 80, Budget(1.0, 1e-6, "add_or_remove_one"))
    kinds = ("residuals", "mean_square", "curvature", "meat")
    asked = [Request.alone(kind, *[1.0] * (1 + (kind == "residuals"))) for kind in kinds]
    length, longest, apart, steepest = 3 + (constant > 0), 0.0, np.zeros(2), np.zeros(2)
    for _ in range(30):
        transform = rng.normal(size=(length, length)) * 10.0 ** rng.uniform(-1, 2, size=length)
        norm, clip = 10.0 ** rng.uniform(-1, 1), 10.0 ** rng.uniform(-2, 1)
        of_matrices = norm * math.sqrt(ratio)
        theta = rng.normal(size=length) * 10.0 ** rng.uniform(-2, 2)
        question = Question(transform, np.linalg.solve(transform, theta), clip)
        sums, matrices, squares = [], [], []
        for i in range(80):
            only = target._replace(weights=np.where(np.arange(80) == i, target.weights, 0.0))
            records = Records(plan, only, rng)
            records.set_weights(
                Coordinates(transform, norm, math.hypot(1.0, constant)), of_matrices
            )
            parts = [part for own in records.ask(asked, [question] * 4) for part in own]
            moved = [part.value / part.sensitivity for part in parts]
            assert 0.0 <= moved[1] <= 1 + 1e-9 and moved[2] == pytest.approx(moved[1])
            sums.append(moved[0])
            matrices.append(moved[3])
            squares.append(moved[4])
        longest = max(longest, np.linalg.norm(sums, axis=1).max())
        for k, found in enumerate((matrices, squares)):
            steepest[k] = max(steepest[k], max(np.linalg.norm(m) for m in found))
            some = found[::8]
            distances = [np.linalg.norm(m - other) for m in some for other in some]
            apart[k] = max(apart[k], max(distances))
    assert 0.9 < longest <= 1 + 1e-9
    assert np.all((steepest > 0.9) & (steepest <= 1 + 1e-9))
    assert np.all(apart <= math.sqrt(2.0) * (1 + 1e-9))


def test_sums_are_those_of_the_definition(rng):
    rows = rng.uniform(-0.5, 0.5, size=(50, 3))
    responses, weights = rng.uniform(-2, 2, size=50), rng.random(50)
    _, target = table_of(rows, responses, weights, constant=0.5, max_weight=1.0)
    z, theta = np.column_stack([rows, np.full(50, 0.5)]), rng.normal(size=4)
    psi = np.clip(responses - z @ theta, -0.8, 0.8)
    sums, square = clipped_sums(target, theta, 0.8)
    np.testing.assert_allclose(sums, (weights * psi) @ z, rtol=1e-12)
    assert square == pytest.approx((weights * psi) @ psi)
    assert clipped_sums(target, theta, 0.8, is_weighted=False)[1] == pytest.approx(psi @ psi)
    reads = [(residuals_of_block, (theta, 0.8, None, each)) for each in (True, False)]
    expected = [(weights @ psi, weights @ psi**2), (psi.sum(), psi @ psi)]
    np.testing.assert_allclose(read_together(target, reads), expected, rtol=1e-12)
    transform = rng.normal(size=(4, 4))
    moved = z @ transform
    expected = (moved * weights[:, None]).T @ moved
    np.testing.assert_allclose(weighted_moment(target, transform), expected, atol=1e-12)
    expected = (moved * (weights * psi**2)[:, None]).T @ moved
    found = squares_moment(target, theta, 0.8, transform)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.skipif(np.finfo(LONG).eps > 1e-18, reason="needs doubles of more than 64 bits")
@pytest.mark.parametrize("ratio", [1.0, 1.5])
@pytest.mark.parametrize("far", [1.0, 100.0])
def test_releases_are_rounded_by_less_than_is_charged(ratio, far):
    """Proposition 75, against sums in longer numbers, with rows beyond both norms."""
    rng, n, clip = np.random.default_rng(0), 3000, 0.3
    rows = np.ascontiguousarray(rng.normal(size=(n, 3)) * np.exp(rng.uniform(-3, 3, (n, 1))))
    responses, theta = rng.uniform(-2.0, 2.0, size=n), far * rng.normal(size=4)
    model, target = table_of(rows, responses, constant=0.7)
    transform = np.linalg.qr(rng.normal(size=(4, 4)))[0] * np.geomspace(1.0, 300.0, 4)
    plan = ClippedResiduals().plan(model.bounds(), n, Budget(1.0, 1e-6))
    z = np.hstack([rows.astype(LONG) * target.scale[:, None], np.full((n, 1), LONG(0.7))])
    moved = z @ transform.astype(LONG)
    squares = (moved * moved).sum(axis=1)
    norm = float(np.quantile(np.sqrt(squares), 0.3))
    at, of_matrices = Coordinates(transform, norm, float(np.hypot(1.0, 0.7))), ratio * norm
    own = reweighted(target, transform, norm, 1, of_matrices)
    v = np.minimum(LONG(norm) / np.sqrt(squares), LONG(of_matrices) ** 2 / squares)
    v = np.minimum(LONG(1), v)
    assert np.mean(squares > of_matrices**4 / norm**2) > 0.1 < np.mean(v == 1)
    psi = np.clip(responses - z @ theta.astype(LONG), -LONG(clip), LONG(clip))
    reach = (at.row_norm * float(np.linalg.norm(theta)) + FAMILY.half_width) / clip
    found, square = clipped_sums(own, theta, clip, is_weighted=False)
    room = at.inflation_within(plan, reach) - 1.0
    error = np.linalg.norm((found @ transform - (v * psi) @ moved).astype(float))
    assert 0 < error <= 0.5 * room * norm * clip
    assert abs(float(square - psi @ psi)) <= 0.5 * room * clip**2
    for power, factors, matrix in (
        (0, v, weighted_moment(own, transform)),
        (2, v * psi**2, squares_moment(own, theta, clip, transform)),
    ):
        room = at.inflation_within(plan, power * reach) - 1.0
        exact = (moved * factors[:, None]).T @ moved
        error = np.linalg.norm((matrix - exact).astype(float))
        assert 0 < error <= 0.5 * room * of_matrices**2 * clip**power


def moved_squares(of_square):
    """All that two records may move a noisy sum, squared, for residuals and weights on a grid."""
    t, w = np.linspace(-1.0, 1.0, 81), np.array([0.0, 0.3, 0.7, 1.0])
    t, w = (part.ravel() for part in np.meshgrid(t, w))
    # Opposite rows of the largest norm: sums are as far apart as residuals have the same sign.
    sums = 0.5 * np.abs((w * t)[:, None] + (w * t)[None])
    squares = np.abs((w * t**2)[:, None] - (w * t**2)[None])
    return np.max(sums**2 + of_square * squares**2)


def test_squares_are_free_up_to_a_bound_and_not_beyond():
    assert moved_squares(0.0) == pytest.approx(1.0)
    assert moved_squares(FREE_SQUARE_RATIO) <= 1.0 + 1e-12
    assert moved_squares(1.01 * FREE_SQUARE_RATIO) > 1.0
    assert math.isclose(FREE_SQUARE_RATIO, 0.6931356, abs_tol=1e-6)
    for of_square in (0.2, FREE_SQUARE_RATIO, 1.0, 5.0):
        assert moved_squares(of_square) <= residual_mu_squared(1.0, of_square, True) + 1e-12
    assert residual_mu_squared(1.0, 0.3, True) == 1.0
    assert residual_mu_squared(1.0, 0.3, False) == pytest.approx(1.3)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("n_features", [1, 8])
def test_the_parts_cost_what_the_plan_says_and_no_more_than_the_budget(
    epsilon, relation, n_features
):
    model = LinearModel(family=FAMILY, n_features=n_features, norm=1.0)
    plan = ClippedResiduals().plan(model.bounds(), 50_000, Budget(epsilon, 1e-6, relation))
    noisy_sums = np.array(plan.residual_multipliers) ** -2.0
    squares = np.array(plan.square_multipliers) ** -2.0
    replaces = relation == "replace_one"
    of_sums = noisy_sums.sum() if replaces else noisy_sums.sum() + squares.sum()
    if replaces:
        assert np.all(squares <= FREE_SQUARE_RATIO * noisy_sums)
    of_matrices = plan.moment_multiplier**-2.0 + plan.curvature_multiplier**-2.0
    if plan.meat_multiplier is not None:
        of_matrices += plan.meat_multiplier**-2.0
    if epsilon >= 1.0 or n_features == 8:
        assert (plan.meat_multiplier is None) == (epsilon < 1.0)
    of_wide_clip = 0.0
    if plan.wide_clip_multipliers is not None:
        of_mean, of_square = np.array(plan.wide_clip_multipliers) ** -2.0
        of_wide_clip = of_mean + (0.0 if replaces else of_square)
        assert not replaces or of_square <= FREE_SQUARE_RATIO * of_mean
    if plan.wide_residuals_multiplier is not None:
        of_wide_clip += plan.wide_residuals_multiplier**-2.0
    total = of_matrices + 2 * plan.mean_square_multiplier**-2.0 + of_sums + of_wide_clip
    assert plan.cost.mu**2 == pytest.approx(total, rel=1e-12)
    assert plan.cost.neighboring_relation == relation
    assert 0.999 * epsilon < plan.epsilon <= epsilon


@pytest.mark.nightly
@pytest.mark.parametrize("constant", [0.0, 0.5])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_an_attack_on_all_releases_stays_within_the_claim(monkeypatch, relation, constant):
    """The likelihood ratio of everything that is released, each given what came before.

    Two rows are opposite and have the same residual, which moves every noisy sum by all that there is.
    """
    n = 40
    angles = np.linspace(0.0, 2.0 * np.pi, n)
    rows = 0.88 * np.column_stack([np.cos(angles), np.sin(angles)])
    responses = 0.2 * np.sin(7.0 * angles)
    rows[0], responses[0] = [0.0, 1.0], 2.0
    other_rows, other_responses = rows.copy(), responses.copy()
    other_rows[0] = [0.0, -1.0]
    if relation == "add_or_remove_one":
        other_rows, other_responses = rows[1:], responses[1:]
    model, table = table_of(rows, responses, constant=constant)
    tables = [table, table_of(other_rows, other_responses, constant=constant)[1]]
    plan = ClippedResiduals().plan(model.bounds(), n, Budget(20.0, 1e-6, relation))
    scores, ask, answers = [], Records.ask, []

    def noted(records, *asked):
        answers.append((asked, ask(records, *asked)))
        return answers[-1][1]

    for which, table in enumerate(tables):
        found = []
        for seed in range(60):
            answers.clear()
            generator = np.random.default_rng(1000 * which + seed)
            with monkeypatch.context() as patched:
                patched.setattr(Records, "ask", noted)
                _, likelihood = posterior_of(plan, table, NormalLikelihood, generator)
            found.append(log_ratio(likelihood, answers, tables))
        scores.append(np.array(found))
    audit = audit_separation(*scores)
    assert audit.mu - 2.0 * audit.standard_error <= plan.cost.mu
    assert audit.mu > (0.6 if constant == 0.0 else 0.5) * plan.cost.mu
    assert (plan.wide_clip_multipliers is None) == (constant == 0.0)


def log_ratio(likelihood, answers, tables):
    """Log likelihood ratio of everything that was released, of two tables."""
    plan, released, total = likelihood.plan, likelihood.released, 0.0
    constant = plan.bounds.constant or plan.bounds.row_norm / 2.0
    for sign, table in zip((1, -1), tables, strict=True):
        miss = released.moment - second_moment(table, constant)
        total -= sign * np.sum(miss**2) / (2 * released.noise**2)
        exact = Records(plan, table, Quieter(np.random.default_rng(0), 0.0))
        exact.set_weights(likelihood.coordinates, likelihood.matrix_norm)
        for asked, answer in answers:
            for noisy, own in zip(sum(answer, ()), sum(exact.ask(*asked), ()), strict=True):
                miss = np.sum((noisy.value - own.value) ** 2)
                total -= sign * miss / (2 * noisy.noise**2)
    return total
