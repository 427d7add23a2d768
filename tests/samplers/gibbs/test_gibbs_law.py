"""The law of Gibbs sampling: against quadrature, and against the prior itself where data are drawn anew.

A factor of two in a rate or a shape, another temperature and a prior that was forgotten would all be seen.
"""

import math

import numpy as np
import pytest
from references import effective_size
from scipy.special import polygamma, psi
from scipy.stats import kstest

from skdpbayes.models.mixture import (
    Components,
    MixtureModel,
    make_mixture,
    uniform_of,
    unpack_mixture,
)
from skdpbayes.privacy import Budget
from skdpbayes.samplers import Gibbs, sample
from skdpbayes.samplers.gibbs import Allocations, draw_parameters, wishart_factors

KINDS = ["spherical", "diag", "tied", "full"]
NOT_PRIVATE = Budget(np.inf, 1e-5)


def draws_of(rows, model, n_steps, n_draws, seed=0):
    gibbs = Gibbs(n_steps=n_steps, burn_in=0.1)
    plan = gibbs.plan(model, len(rows), NOT_PRIVATE, n_draws=n_draws)
    return unpack_mixture(sample(make_mixture(rows, model), plan, random_state=seed), model)


# One component against quadrature


def by_quadrature(x, model, temperature=1.0, prior=1.0, rate=1.0):
    """[(mean, deviation)] of the mean and of the logarithm of the precision, on a grid."""
    m = np.linspace(-4.0, 4.0, 801)[:, None]
    log = np.linspace(-5.0, 6.0, 801)
    precision = np.exp(log)
    squares = sum((value - m) ** 2 for value in x)
    density = (0.5 * len(x) * log - 0.5 * precision * squares) / temperature
    density = density - prior * 0.5 * (m / model.mean_scale) ** 2
    half = 0.5 * model.degrees_of_freedom
    density = density + prior * (half * log - rate * half * model.covariance * precision)
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    assert max(weight[0].max(), weight[-1].max(), weight[:, 0].max()) < 1e-3 * weight.max()
    found = []
    for value in (m, log):
        mean = (weight * value).sum()
        found.append((mean, math.sqrt((weight * (value - mean) ** 2).sum())))
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_one_component_has_the_posterior_that_quadrature_finds(kind):
    """Six rows, so that the prior matters: Gamma's and Wishart's laws are one in one dimension."""
    x = np.array([0.4, 1.1, 1.9, -0.3, 0.8, 1.4])
    model = MixtureModel(1, 1, kind, 10.0, 1.0, 0.5, 5.0, 2.0)
    weights, means, factors = draws_of(x[:, None], model, 8000, 7000)
    assert (weights == 1.0).all()
    found = means.ravel(), 2.0 * np.log(factors.ravel())
    wrong = [{"temperature": 2.0}, {"prior": 0.0}, {"rate": 2.0}, {"rate": 0.5}]
    others = [by_quadrature(x, model, **change) for change in wrong]
    for i, (mean, deviation) in enumerate(by_quadrature(x, model)):
        size = effective_size(found[i])
        assert size > 3000
        allowed = 4.5 / math.sqrt(size)
        assert abs(found[i].mean() - mean) < allowed * deviation
        # Logarithms of precisions are skewed, and their deviations less certain.
        assert found[i].std() == pytest.approx(deviation, rel=1.5 * allowed)
        for other in others:
            shift = abs(other[i][0] - mean) / deviation
            assert shift > 2 * allowed or abs(other[i][1] / deviation - 1) > 3 * allowed or i == 0
    for other in others[:2]:  # The mean knows of the first two.
        assert other[0][1] > 1.1 * by_quadrature(x, model)[0][1]


# Two components against a grid


PRIOR_DEVIATION = 3.0


def gridded_moments(x, temperature=1.0):
    """(mean, deviation) of the middle of two means and of their distance, x ~ N(m1, 2)/2 + N(m2, 2)/2."""
    axis = np.linspace(-3.0, 6.0, 361)
    one = -((x[:, None] - axis) ** 2) / 4.0
    log_density = sum(np.logaddexp(row[:, None], row) for row in one) / temperature
    log_density -= np.add.outer(axis**2, axis**2) / (2.0 * PRIOR_DEVIATION**2)
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    edge = max(density[0].max(), density[-1].max())
    assert edge < 1e-6 * density.max()
    moments = []
    for value in (np.add.outer(axis, axis) / 2.0, np.abs(np.subtract.outer(axis, axis))):
        mean = (density * value).sum()
        moments.append((mean, math.sqrt((density * (value - mean) ** 2).sum())))
    return moments


def test_two_means_against_a_grid():
    """Weights and variances are pinned by their prior, which leaves the two means free."""
    rng = np.random.default_rng(1)
    n = 250
    x = np.where(rng.random(n) < 0.5, 0.0, 3.0) + math.sqrt(2.0) * rng.standard_normal(n)
    model = MixtureModel(2, 1, "diag", 20.0, 50_000.0, PRIOR_DEVIATION, 100_000.0, 2.0)
    weights, means, factors = draws_of(x[:, None], model, 10_000, 5000)
    assert np.abs(weights[:, 0] - 0.5).max() < 0.02
    assert np.abs(factors**-2.0 - 2.0).max() < 0.1
    first, second = means[:, 0, 0], means[:, 1, 0]
    found = ((first + second) / 2.0, np.abs(first - second))
    expected, hotter = gridded_moments(x), gridded_moments(x, 2.0)
    for values, (mean, deviation), (_, hot) in zip(found, expected, hotter, strict=True):
        size = effective_size(values)
        assert size > 300
        assert abs(values.mean() - mean) < (4.0 / math.sqrt(size) + 0.02) * deviation
        tolerance = 3.5 / math.sqrt(2.0 * size) + 0.02
        assert values.std() == pytest.approx(deviation, rel=tolerance)
        # A temperature off by two would be noticed.
        assert hot > (1.0 + 2.0 * tolerance) * deviation


# All conditionals together, of any kind: parameters whose rows are drawn anew have their prior (Geweke, 2004)


def prior_moments(model):
    """{name: (mean, deviation)} under the prior."""
    k, d = model.n_components, model.n_features
    alpha, half = model.weight_concentration, 0.5 * model.degrees_of_freedom
    share = alpha / (k * alpha)
    variance = share * (1 - share) / (k * alpha + 1)
    halves = half - 0.5 * np.arange(d) if model.is_triangular else np.full(d, half)
    scale = 1.0 / (half * model.covariance)
    return {
        "weight": (share, math.sqrt(variance)),
        "mean": (0.0, model.mean_scale),
        "square": (model.mean_scale**2, math.sqrt(2.0) * model.mean_scale**2),
        "log": (
            np.sum(psi(halves) + math.log(scale)),
            # Of a spherical precision all d logarithms are the same.
            math.sqrt(
                d**2 * polygamma(1, half)
                if model.covariance_type == "spherical"
                else polygamma(1, halves).sum()
            ),
        ),
        "precision": (1.0 / model.covariance, None),
    }


def statistics_of(at, model):
    """The same of a draw; precisions of the first component and coordinate."""
    factor = at.factors[0]
    diagonal = np.diag(factor) if factor.ndim == 2 else factor
    precision = (factor @ factor.T)[0, 0] if factor.ndim == 2 else factor[0] ** 2
    r = model.data_norm
    logs = 2.0 * np.log(diagonal / r).sum()
    mean = r * at.means[0, 0]
    return np.exp(at.log_weights[0]), mean, mean**2, logs, precision / r**2


def rows_of(at, n, rng):
    """Rows of a mixture in the ball, in units of the ball."""
    labels = rng.choice(len(at.means), size=n, p=np.exp(at.log_weights))
    normal = rng.standard_normal((n, at.means.shape[1]))
    if at.factors.ndim == 2:
        return at.means[labels] + normal / at.factors[labels]
    inverse = np.linalg.inv(at.factors).swapaxes(-1, -2)
    return at.means[labels] + np.einsum("nij,nj->ni", inverse[labels], normal)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_parameters_of_rows_that_are_drawn_anew_have_their_prior(kind):
    model = MixtureModel(2, 2, kind, 40.0, 2.0, 0.7, 8.0, 0.3)
    rng, n, n_sweeps = np.random.default_rng(0), 4, 4000
    shape = (2, 2) if model.is_triangular is False else (2, 2, 2)
    factors = 40.0 * (np.ones(shape) if len(shape) == 2 else np.eye(2)[None].repeat(2, axis=0))
    at = Components(np.log([0.5, 0.5]), np.zeros((2, 2)), factors)
    found, longest = [], 0.0
    for _ in range(n_sweeps):
        rows = rows_of(at, n, rng)
        longest = max(longest, np.linalg.norm(rows, axis=1).max())
        sums = Allocations(make_mixture(40.0 * rows, model), n, at).draw(at, rng)
        at = draw_parameters(model, sums, at.factors, rng)
        found.append(statistics_of(at, model))
    assert longest < 1.0, "no row is clipped"
    for values, (name, (mean, deviation)) in zip(
        np.array(found).T, prior_moments(model).items(), strict=True
    ):
        size = effective_size(values)
        assert size > 300, name
        spread = values.std() if deviation is None else deviation
        assert abs(values.mean() - mean) < 4.5 * spread / math.sqrt(size), name
        if deviation is not None:
            assert values.std() == pytest.approx(deviation, rel=8.0 / math.sqrt(size)), name


def test_wishart_factors_have_the_moments_of_their_law(rng):
    scatter = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.7]])
    n, degrees, width = 40_000, 5.5, 0.4
    factors = wishart_factors(np.broadcast_to(scatter, (n, 3, 3)), width, np.full(n, degrees), rng)
    assert (factors == np.tril(factors)).all() and (
        np.diagonal(factors, axis1=1, axis2=2) > 0
    ).all()
    precisions = factors @ factors.swapaxes(-1, -2)
    scale = np.linalg.inv(scatter + width * np.eye(3))
    np.testing.assert_allclose(precisions.mean(axis=0), degrees * scale, atol=0.03 * scale.max())
    variance = degrees * (scale**2 + np.outer(np.diag(scale), np.diag(scale)))
    np.testing.assert_allclose(precisions.var(axis=0), variance, rtol=0.06)


# Allocations


def test_a_row_s_numbers_are_uniform_whatever_the_key():
    with np.errstate(over="ignore"):
        for high, low in ((0, 0), (2**32 - 1, 5), (12345, 678)):
            values = [uniform_of(float(high), float(low), number) for number in range(4000)]
            assert kstest(values, "uniform").pvalue > 1e-3
            assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.06
        one = [uniform_of(float(key), 7.0, 3) for key in range(4000)]
    assert kstest(one, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_rows_go_to_components_as_often_as_responsibilities_say(rng, kind):
    model = MixtureModel(3, 2, kind, 3.0, 1.0, 1.0, 4.0, 0.1)
    rows = rng.uniform(-2.0, 2.0, size=(50, 2))
    means = 0.3 * rng.normal(size=(3, 2))
    factors = rng.uniform(2.0, 4.0, size=(3, 2))
    joint = np.log([0.5, 0.3, 0.2]) + np.log(factors).sum(axis=1)
    joint = joint - 0.5 * (((rows[:, None] / 3.0 - means) * factors) ** 2).sum(axis=2)
    shares = np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))
    if kind == "full":
        factors = factors[:, :, None] * np.eye(2)
    at = Components(np.log([0.5, 0.3, 0.2]), means, factors)
    table = make_mixture(rows, model)
    allocations = Allocations(table, 50, at)
    drawn = [allocations.draw(at, rng) for _ in range(2000)]
    counts = np.array([sums.counts for sums in drawn])
    assert (counts.sum(axis=1) == 50).all()
    error = np.sqrt((shares * (1 - shares)).sum(axis=0))
    np.testing.assert_array_less(
        np.abs(counts.mean(axis=0) - shares.sum(axis=0)), 4.5 * error / math.sqrt(2000)
    )
    np.testing.assert_allclose(counts.std(axis=0), error, rtol=0.1)
    sums = np.mean([one.sums for one in drawn], axis=0)
    spread = np.sqrt((shares * (1 - shares)).T @ (rows / 3.0) ** 2)
    off = np.abs(sums - shares.T @ rows / 3.0)
    np.testing.assert_array_less(off, 4.5 * spread / math.sqrt(2000))
    # Nothing is lost: of all components together sums are known.
    scaled = rows / 3.0
    second = scaled.T @ scaled if kind == "full" else (scaled**2).sum(axis=0)
    for one in drawn[:3]:
        np.testing.assert_allclose(one.sums.sum(axis=0), scaled.sum(axis=0), rtol=1e-12)
        np.testing.assert_allclose(one.seconds.sum(axis=0), second, rtol=1e-12)
