"""The score of endlessly many normal rows is an integral, and stands for those of many rows."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from skdpbayes.models.families import classifier
from skdpbayes.samplers.statistics import population as module
from skdpbayes.samplers.statistics.design import Design, with_constant
from skdpbayes.samplers.statistics.population import (
    NormalPopulation,
    Population,
    moment_matched_sample,
    normal_population,
    rows_like,
)

LOGISTIC = classifier(2).identified


def a_design(rng, n_columns, mean=0.5):
    root = rng.normal(size=(n_columns, n_columns))
    return with_constant(Design(mean * rng.normal(size=n_columns), root @ root.T), 0.7)


def unweighted(mean, covariance, size=1.0):
    """No row is so long that its weight is not 1."""
    design = Design(np.asarray(mean, dtype=float), np.asarray(covariance, dtype=float))
    return normal_population(design, np.eye(design.mean.size), LOGISTIC, 1e6, size)


def test_the_logistic_law_is_a_mixture_of_normal_ones():
    x = np.linspace(-50.0, 50.0, 2001)
    found = norm.cdf(x[:, None] * module._SLOPES) @ module._SHARES
    assert np.abs(found - expit(x)).max() < 5e-7


@pytest.mark.parametrize("deviation", [0.0, 0.2, 3.0, 50.0])
@pytest.mark.parametrize("mean", [0.0, -1.3, -6.0])
def test_expectations_of_one_logit_are_integrals(mean, deviation):
    """``A``, ``B`` and its two derivatives, by quadrature."""
    made = unweighted([mean], [[deviation**2]])
    found = made.at(np.ones((1, 1)))
    p = expit
    integrands = (
        lambda e: p(e) - 0.5,
        lambda e: p(e) * p(-e),
        lambda e: p(e) * p(-e) * (1 - 2 * p(e)),
        lambda e: p(e) * p(-e) * (1 - 6 * p(e) * p(-e)),
    )
    # The logit 0, where slopes are, wherever the law is.
    breaks = [-mean / deviation] if deviation else None
    for value, of_logit in zip(found[1:], integrands, strict=True):
        wanted = of_logit(mean)
        if deviation:
            wanted = quad(
                lambda z, g=of_logit: g(mean + deviation * z) * norm.pdf(z),
                -12.0,
                12.0,
                points=breaks,
                limit=500,
            )[0]
        assert (value @ made.masses)[0] == pytest.approx(wanted, abs=5e-6)


def test_without_weights_moments_are_those_of_the_design(rng):
    """Near zero a score is a quarter of the second moment times the point."""
    design, transform = a_design(rng, 3), rng.normal(size=(4, 4))
    made = normal_population(design, transform, LOGISTIC, 1e6, 5000.0)
    moment = transform.T @ design.second_moment @ transform
    assert made.mean_weight == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(made.mean_squares, np.diag(moment), rtol=1e-9)
    curvature = made.curvature(np.zeros(4))
    np.testing.assert_allclose(curvature, 5000.0 / 4.0 * moment, atol=2e-5 * curvature.max())
    np.testing.assert_allclose(curvature, curvature.T, atol=1e-9 * curvature.max())


@pytest.mark.parametrize("reach", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("length", [1, 2])
def test_scores_of_weighted_rows_are_integrals(rng, length, reach):
    """On a grid of normal quantiles; those of one column and a constant, or of two columns."""
    design = a_design(rng, 1) if length == 1 else Design(np.array([0.4, -0.2]), np.diag([1.0, 0.3]))
    root, transform = np.sqrt(np.diag(design.covariance)), rng.normal(size=(2, 2))
    axis = norm.ppf((np.arange(600) + 0.5) / 600)
    grid = np.array(list(product(axis, axis if length == 2 else [0.0])))
    rows = (design.mean + grid * root) @ transform
    bound = math.sqrt(1.3 * np.mean(np.sum(rows**2, axis=1)))
    weights = np.minimum(1.0, bound**2 / np.sum(rows**2, axis=1))
    exact = Population(LOGISTIC, rows, weights, 1.0 / len(rows))
    made = normal_population(design, transform, LOGISTIC, bound, 1.0)
    assert made.mean_weight == pytest.approx(exact.mean_weight, abs=0.01)
    u = rng.normal(size=(1, 2))
    u *= reach / np.std(rows @ u[0])
    for name, tolerance in (("change", 0.01), ("mean_variance", 0.02), ("curvature", 0.02)):
        point = {"change": u, "curvature": u[0]}.get(name)
        found, wanted = (
            getattr(one, name)(one.at(u) if point is None else point) for one in (made, exact)
        )
        assert np.linalg.norm(found - wanted) < tolerance * np.linalg.norm(wanted), name


def test_many_rows_have_the_scores_of_endlessly_many(rng):
    """With 40 columns and large coefficients, where a thousand rows are far off."""
    design = a_design(rng, 39)
    transform = rng.normal(size=(40, 40)) / np.sqrt(40)
    bound = math.sqrt(1.3 * np.trace(transform.T @ design.second_moment @ transform))
    made = moment_matched_sample(design, transform, LOGISTIC, bound, 1.0, 1000)
    assert isinstance(made, NormalPopulation)
    u = rng.normal(size=(2, 40))
    off = []
    for n_rows in (1000, 100_000):
        rows, weights = rows_like(design, transform, bound, n_rows, rng)
        score = Population(LOGISTIC, rows, weights, 1.0 / n_rows).change(u)
        off.append(np.linalg.norm(score - made.change(u)) / np.linalg.norm(score))
    assert off[1] < 0.2 * off[0]
    assert off[1] < 0.02


@pytest.mark.parametrize("length", [1, 4])
def test_derivatives_of_a_normal_population_are_derivatives(rng, length):
    design, step = a_design(rng, length), 1e-5
    length += 1
    bound = math.sqrt(1.3 * np.trace(design.second_moment))
    made = normal_population(design, np.eye(length), LOGISTIC, bound, 3.0)
    u = rng.normal(size=length)
    moves = np.vstack([u + step * np.eye(length), u - step * np.eye(length)])
    ahead, behind = np.split(made.change(moves), 2)
    jacobian = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(jacobian, made.curvature(u), atol=1e-8)
    ahead, behind = np.split(made.mean_variance(made.at(moves)), 2)
    vector, factor = rng.normal(size=length), 2.3
    wanted = jacobian @ vector + factor * (ahead - behind) / (2 * step)
    found = made.vjp(made.at(u[None]), vector[None], np.array([factor]))[0]
    np.testing.assert_allclose(found, wanted, atol=1e-7)
    assert not made.change(np.zeros((1, length))).any()


@pytest.mark.parametrize("mean, variance", [(0.0, 0.0), (2.0, 0.0), (0.0, 4.0), (0.0, 1e-200)])
def test_laws_without_width_have_weights(mean, variance):
    """A constant column alone, and rows that are zero."""
    bound = math.sqrt(1.3) * math.hypot(mean, math.sqrt(variance)) or 1.0
    design = Design(np.array([mean]), np.array([[variance]]))
    with np.errstate(all="raise", under="ignore"):
        made = normal_population(design, np.eye(1), LOGISTIC, bound, 10.0)
        assert np.isfinite(made.change(np.ones((1, 1)))).all()
    assert 0.8 < made.mean_weight < 1.0 + 1e-4


@pytest.mark.parametrize("n_columns", [1, 2, 5, 40, 300])
@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("room", [1.3, 2.0, 3.0, 6.0])
def test_weights_are_positive_and_near_those_of_the_rows(rng, n_columns, power, room):
    """Negative ones would make slopes negative where decisions are far from most rows.

    Where noise dominates, a row's bound is far above most lengths.
    """
    values = (1.0 + np.arange(n_columns)) ** -power
    mean_square = values.sum()
    rates, shares = module._weights(values, np.zeros(n_columns), math.sqrt(room * mean_square))
    squares = np.linspace(0.0, 60.0, 1000) * mean_square
    assert (np.exp(-0.5 * np.outer(squares, rates)) @ shares >= 0).all()
    squares = (rng.normal(size=(10_000, n_columns)) ** 2) @ values
    found = np.exp(-0.5 * np.outer(squares, rates)) @ shares
    wanted = np.minimum(1.0, room * mean_square / np.maximum(squares, 1e-300))
    assert np.sqrt(np.mean((found - wanted) ** 2)) < 0.05
    assert found.mean() == pytest.approx(wanted.mean(), abs=0.01)
