"""What one record can move of what is released of counts, by brute force, and what all of it reveals."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from summed import clipped_sums, weighted_moment

from skdpbayes.audit import audit_separation
from skdpbayes.models import LinearModel, Poisson, second_moment
from skdpbayes.models.sums import binned, reweighted
from skdpbayes.privacy import Budget
from skdpbayes.privacy.rounding import UNIT_ROUNDOFF
from skdpbayes.samplers import ClippedResiduals
from skdpbayes.samplers.statistics.design import Coordinates
from skdpbayes.samplers.statistics.dispersion import centre_for, count_edges, exposure_edges
from skdpbayes.samplers.statistics.poisson import PoissonLikelihood
from skdpbayes.samplers.statistics.release import posterior_of
from skdpbayes.samplers.statistics.requests import Question, Records
from skdpbayes.samplers.statistics.sensitivity import FREE_SQUARE_RATIO

LARGEST = 9.0
LONG = np.longdouble


def table_of(rows, counts, weights=None, offsets=None, **options):
    model = LinearModel(family=Poisson(LARGEST), n_features=rows.shape[1], norm=1.0, **options)
    return model, model.target(rows, counts, weights, offsets)


def alone(target, i):
    chosen = np.arange(target.weights.size) == i
    return target._replace(weights=np.where(chosen, target.weights, 0.0))


@pytest.mark.daily(1)
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("constant", [0.0, 0.7])
def test_no_record_moves_a_release_by_more_than_its_noise_is_scaled_by(rng, is_sparse, constant):
    """Counts of 0 and of the maximum, residuals at their clip and below, rows of all lengths."""
    n = 60
    rows = rng.normal(size=(n, 3)) * rng.choice([1e-6, 0.1, 1.0], size=(n, 1))
    rows[:20] /= np.linalg.norm(rows[:20], axis=1)[:, None]
    weights, counts = 3.0 * rng.random(n), rng.choice([0.0, 1.0, 4.0, 50.0], size=n)
    weights[:40] = 3.0
    offsets = 5.0 * rng.normal(size=n)
    rows = np.ascontiguousarray(rows)
    options = {"constant": constant, "max_weight": 3.0}
    shaped = sp.csr_matrix(rows) if is_sparse else rows
    _, target = table_of(shaped, counts, weights, offsets, **options)
    length, longest, steepest, apart, farthest = 3 + (constant > 0), 0.0, 0.0, 0.0, 0.0
    for _ in range(25):
        transform = rng.normal(size=(length, length)) * 10.0 ** rng.uniform(-1, 2, size=length)
        norm, clip = 10.0 ** rng.uniform(-1, 1), 10.0 ** rng.uniform(-2, 1)
        centre = centre_for(max(clip, 1.0), 1.3, LARGEST)
        theta = rng.normal(size=length) * 10.0 ** rng.uniform(-2, 2)
        own = reweighted(target, transform, norm)
        sums, squares, matrices = [], [], []
        for i in range(n):
            of_record, _ = clipped_sums(alone(own, i), theta, clip, centre=centre)
            _, square = clipped_sums(alone(target, i), theta, clip, centre=centre)
            squares.append(square / (3.0 * clip**2))
            sums.append(of_record @ transform / (3.0 * norm * clip))
            matrix = weighted_moment(alone(own, i), transform)
            matrices.append(matrix / (3.0 * norm**2))
        assert min(squares) >= 0.0 and max(squares) <= 1 + 1e-9
        longest = max(longest, np.linalg.norm(sums, axis=1).max())
        steepest = max(steepest, max(np.linalg.norm(m) for m in matrices))
        some = matrices[::6]
        apart = max(apart, max(np.linalg.norm(m - other) for m in some for other in some))
        # Of a noisy sum, both parts together.
        for i in range(0, n, 7):
            moved = 0.25 * np.sum((sums[i] - np.array(sums)) ** 2, axis=1)
            moved += FREE_SQUARE_RATIO * (squares[i] - np.array(squares)) ** 2
            farthest = max(farthest, moved.max())
    assert 0.9 < longest <= 1 + 1e-9
    assert 0.9 < steepest <= 1 + 1e-9
    assert apart <= math.sqrt(2.0) * (1 + 1e-9)
    assert farthest <= 1 + 1e-9


def test_a_record_is_in_one_bin_of_each_histogram(rng):
    n, edges = 50, count_edges(LARGEST)
    counts, weights = rng.integers(0, 30, size=n).astype(float), 2.0 * rng.random(n)
    offsets = rng.normal(size=n) * rng.choice([0.1, 300.0], size=n)
    weights[:10] = 2.0
    _, target = table_of(rng.normal(size=(n, 2)), counts, weights, offsets, max_weight=2.0)
    found = [
        np.array(binned(alone(target, i), edges, exposure_edges())[:2], object) for i in range(n)
    ]
    for which in range(2):
        parts = np.array([one[which] for one in found])
        assert np.all(np.count_nonzero(parts, axis=1) == 1)
        assert parts.sum(axis=1) == pytest.approx(weights)
        longest = max(np.linalg.norm(one - other) for one in parts for other in parts)
        assert 1.9 < longest <= 2.0 * math.sqrt(2.0)
    of_counts, of_offsets, exposed = binned(target, edges, exposure_edges())
    assert exposed and of_counts.sum() == pytest.approx(of_offsets.sum())
    inner = np.minimum(counts, LARGEST)
    assert of_counts[:4] == pytest.approx([weights[inner == k].sum() for k in range(4)])
    bare = table_of(rng.normal(size=(n, 2)), counts, weights, max_weight=2.0)[1]
    assert not binned(bare, edges, exposure_edges())[2]


def test_rounding_moves_no_histogram_by_more_than_is_charged():
    """Weights of half a unit in the last place of their sum: one chain rounded them up or down together."""
    n = 2**21
    weights, counts = np.ones(n), np.zeros(n)
    weights[n // 2 :] = 0.5 * np.spacing(float(n // 2)) * (1.0 + 2.0**-10)
    others = counts.copy()
    others[0] = 5.0
    options = {"constant": 0.0, "max_weight": 1.0}
    (model, target), (_, other) = (
        table_of(np.zeros((n, 1)), one, weights, **options) for one in (counts, others)
    )
    edges = count_edges(LARGEST), exposure_edges()
    moved = np.linalg.norm(binned(target, *edges)[0] - binned(other, *edges)[0])
    plan = ClippedResiduals().plan(model.bounds(), n, Budget(1.0, 1e-9))
    room = Coordinates(np.eye(1), 1.0, 1.0).inflation_within(plan, 0.0)
    assert moved <= math.sqrt(2.0) * room
    in_one_chain = [np.bincount(one > 0.0, weights)[0] for one in (counts, others)]
    assert in_one_chain[0] - in_one_chain[1] > 1.0 + 4.0 * (room - 1.0)


@pytest.mark.skipif(np.finfo(LONG).eps > 1e-18, reason="needs doubles of more than 64 bits")
@pytest.mark.parametrize("far, clip", [(1.0, 2.0), (20.0, 1.0), (300.0, 1.0)])
def test_sums_and_curvatures_are_rounded_by_less_than_is_charged(far, clip):
    """Proposition 77, against sums in longer numbers."""
    rng, n, d = np.random.default_rng(0), 3000, 3
    rows = np.ascontiguousarray(rng.normal(size=(n, d)) * np.exp(rng.uniform(-3, 3, (n, 1))))
    counts, offsets = rng.integers(0, 10, size=n), 3.0 * rng.normal(size=n)
    model, target = table_of(rows, counts, None, offsets, constant=0.7)
    transform = np.linalg.qr(rng.normal(size=(4, 4)))[0] * np.geomspace(1.0, 300.0, 4)
    theta = far * rng.normal(size=4)
    plan = ClippedResiduals().plan(model.bounds(), n, Budget(1.0, 1e-6))
    records = Records(plan, target, rng)
    records.coordinates = Coordinates(transform, 1.5, float(np.hypot(1.0, 0.7)))
    own = reweighted(target, transform, 1.5)
    z = np.hstack([rows.astype(LONG) * target.scale[:, None], np.full((n, 1), LONG(0.7))])
    moved = z @ transform.astype(LONG)
    v = np.minimum(LONG(1), LONG(1.5) ** 2 / (moved * moved).sum(axis=1))
    centre = centre_for(clip, 1.3, LARGEST)
    logits = np.clip(z @ theta.astype(LONG) + offsets, centre.nodes[0], centre.nodes[-1])
    place = np.minimum(np.searchsorted(centre.nodes, logits), centre.nodes.size - 1)
    place = np.maximum(place, 1)
    nodes, values = centre.nodes.astype(LONG), centre.values.astype(LONG)
    share = (logits - nodes[place - 1]) / (nodes[place] - nodes[place - 1])
    subtracted = values[place - 1] + share * (values[place] - values[place - 1])
    psi = np.clip(np.minimum(counts, LARGEST) - subtracted, -LONG(clip), LONG(clip))
    found = clipped_sums(own, theta, clip, is_weighted=False, centre=centre)
    point = np.linalg.solve(transform, theta)
    reach = records._reach(Question(transform, point, clip, centre))
    room = records._inflation(reach) - 1.0
    error = np.linalg.norm((found[0] @ transform - (v * psi) @ moved).astype(float))
    assert 0 < error <= 0.5 * room * 1.5 * clip
    assert abs(float(found[1] - psi @ psi)) <= 0.5 * room * clip**2
    matrix = weighted_moment(own, transform)
    exact = (moved * v[:, None]).T @ moved
    room = records._inflation(0.0) - 1.0
    error = np.linalg.norm((matrix - exact).astype(float))
    assert UNIT_ROUNDOFF < error <= 0.5 * room * 1.5**2


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_the_parts_cost_what_the_plan_says_and_no_more_than_the_budget(epsilon, relation):
    model = LinearModel(family=Poisson(LARGEST), n_features=4, norm=1.0)
    plan = ClippedResiduals().plan(model.bounds(), 50_000, Budget(epsilon, 1e-6, relation))
    noisy_sums = np.array(plan.residual_multipliers) ** -2.0
    squares = np.array(plan.square_multipliers) ** -2.0
    replaces = relation == "replace_one"
    if replaces:
        assert np.all(squares <= FREE_SQUARE_RATIO * noisy_sums)
    total = plan.moment_multiplier**-2.0 + plan.curvature_multiplier**-2.0
    total += (
        2 * plan.mean_square_multiplier**-2.0
        + noisy_sums.sum()
        + (0 if replaces else squares.sum())
    )
    assert plan.cost.mu**2 == pytest.approx(total, rel=1e-12)
    assert 0.999 * epsilon < plan.epsilon <= epsilon


@pytest.mark.nightly
@pytest.mark.parametrize("relation, exposed", [("replace_one", True), ("add_or_remove_one", False)])
def test_an_attack_on_all_releases_stays_within_the_claim(monkeypatch, relation, exposed):
    """The likelihood ratio of everything that is released, each given what came before.

    Two rows are opposite, and both have a count of 0 where others have the maximum, or one is left out.
    Points and clips are fixed here: what they follow from takes time, and reads what is released only.
    """
    monkeypatch.setattr(PoissonLikelihood, "update_mode", lambda self, rounds=None: None)
    monkeypatch.setattr(PoissonLikelihood, "_laws", lambda self: self.laws)
    monkeypatch.setattr(PoissonLikelihood, "next_clip", lambda self, reach: 1.5)
    tables, plan = two_tables(relation, exposed)
    scores = [
        np.array([scored(plan, table, tables, 10_000 * which + seed) for seed in range(100)])
        for which, table in enumerate(tables)
    ]
    audit = audit_separation(*scores)
    assert audit.mu - 2.5 * audit.standard_error <= plan.cost.mu
    assert audit.mu > 0.6 * plan.cost.mu


@pytest.mark.nightly
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_an_attack_on_fits_as_they_are_stays_within_the_claim(relation):
    tables, plan = two_tables(relation, False)
    scores = [
        np.array([scored(plan, table, tables, 10_000 * which + seed) for seed in range(40)])
        for which, table in enumerate(tables)
    ]
    audit = audit_separation(*scores)
    assert audit.mu - 2.5 * audit.standard_error <= plan.cost.mu
    assert audit.mu > 0.4 * plan.cost.mu


def two_tables(relation, exposed, n=30):
    angles = np.linspace(0.0, 2.0 * np.pi, n)
    rows = 0.88 * np.column_stack([np.cos(angles), np.sin(angles)])
    counts, offsets = np.round(2.0 + 2.0 * np.sin(7.0 * angles)), np.zeros(n)
    rows[0], counts[0] = [0.0, 1.0], LARGEST
    others = rows.copy(), counts.copy(), offsets.copy()
    others[0][0], others[2][0] = [0.0, -1.0], -3.0
    if relation == "add_or_remove_one":
        others = rows[1:], counts[1:], offsets[1:]
    model, table = table_of(rows, counts, None, offsets if exposed else None, constant=0.0)
    _, other = table_of(*others[:2], None, others[2] if exposed else None, constant=0.0)
    return [table, other], ClippedResiduals().plan(model.bounds(), n, Budget(20.0, 1e-6, relation))


def scored(plan, table, tables, seed):
    """Log likelihood ratio of everything that is released of a table, of two."""
    given = posterior_of(plan, table, PoissonLikelihood, np.random.default_rng(seed))[1]
    transform, n_records, found = given.transform, given.n_records, 0.0
    constant = plan.bounds.row_norm / 2.0
    for sign, one in zip((1, -1), tables, strict=True):
        own = reweighted(one, transform, given.coordinates.norm)
        parts = [(given.released, second_moment(one, constant))]
        parts.append((given.matrix, weighted_moment(own, transform)))
        bins = binned(one, count_edges(LARGEST), exposure_edges())
        parts += [pair for pair in zip(given.histograms, bins, strict=False) if pair[0] is not None]
        for noisy_sum, square in zip(given.noisy_sums, given.squares, strict=True):
            at = transform @ noisy_sum.point, noisy_sum.clip
            value = clipped_sums(own, *at, centre=noisy_sum.centre)[0] @ transform
            parts.append((noisy_sum, value))
            parts.append((square, clipped_sums(one, *at, centre=square.centre)[1] / n_records))
        found -= sign * sum(
            np.sum((noisy[0] - exact) ** 2) / (2.0 * noisy[1] ** 2) for noisy, exact in parts
        )
    return found
