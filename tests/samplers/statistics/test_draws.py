"""Draws from a density: Hamiltonian paths, and moves of a scale that is not known."""

import dataclasses
import pickle
import warnings

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import rankdata

from skdpbayes.models.families import classifier
from skdpbayes.samplers.statistics import hmc as module
from skdpbayes.samplers.statistics.hmc import (
    Density,
    Posterior,
    draw,
    find_mode,
    find_mode_and_scales,
)
from skdpbayes.samplers.statistics.logistic import LogisticDensity, estimate_discrepancy
from skdpbayes.samplers.statistics.plan import N_CHAINS
from skdpbayes.samplers.statistics.population import Population
from skdpbayes.samplers.statistics.prior import Group, Growth, Prior, growth_of
from skdpbayes.samplers.statistics.requests import NoisySum

N_DRAWS = 10_000


def a_density(rng, length, noise, is_learnt, truth=1.0, scale=1.0):
    """What might be believed of a table of 400 records, in coordinates of one or two dimensions."""
    family = classifier(2).identified
    rows = rng.normal(size=(100, length)) + 0.3
    population = Population(family, rows, rng.uniform(0.5, 1.0, size=100), 4.0)
    u = np.full(length, truth)
    f = population.change(u[None])[0]
    noisy_sums = [NoisySum(1.1 * f + noise * rng.normal(size=length), noise, point=u)]
    score_discrepancy = estimate_discrepancy(population, noisy_sums, [], u)
    values, basis = np.linalg.eigh(population.curvature(u))
    make, precision = Group.learnt if is_learnt else Group.known, scale**-2.0 * np.eye(length)
    prior = Prior((make(precision, length),))
    probabilities = population.at(u[None])
    return LogisticDensity(
        family=family,
        synthetic_design=population,
        prior=prior,
        scales=prior.prior_mode,
        growth=growth_of(0.0, 1, np.eye(length)),
        transform=np.eye(length),
        shift=np.empty(0),
        label_sum=1.1 * f,
        noise=noise,
        score_discrepancy=score_discrepancy,
        origin=population.origin,
        slope=float(population.mean_variance(probabilities)[0]),
        basis=basis,
        sampling=values,
        start=u,
    )


def axis_of(given):
    """Points of a coordinate, from about as far out as draws go, dense where they are."""
    mode = find_mode(given)
    wide = np.sqrt(np.diag(np.linalg.inv(given.information(mode)))).max()
    n = 4000 if mode.size == 1 else 320
    return np.linspace(-1.0, 1.0, n) ** 3 * 200.0 * wide  # Without 0.


def quadrature(given):
    """Return (points, masses) on a grid, prior scales integrated out."""
    axis, length = axis_of(given), given.start.size
    widths = np.gradient(axis)
    points = np.stack(np.meshgrid(*[axis] * length, indexing="ij"), axis=-1).reshape(-1, length)
    masses = np.prod(
        np.stack(np.meshgrid(*[widths] * length, indexing="ij"), axis=-1), axis=-1
    ).ravel()
    parts = np.array_split(points, 200)
    energy = np.concatenate([given.negative_log_likelihood(u)[0] for u in parts])
    energy += given.prior.energy(points)
    masses = masses * np.exp(energy.min() - energy)
    return points, masses / masses.sum()


def errors_of(given, n_draws=N_DRAWS):
    """Errors of smooth shares below quantiles, of means and of deviations, in units of the chains' own.

    Numbers are squashed, so that tails that few draws reach do not decide.
    """
    points, masses = quadrature(given)
    drawn, _ = draw(given, n_draws, 0)
    chains = drawn.reshape(-1, N_CHAINS, drawn.shape[1])
    features = [(points[:, j], chains[:, :, j]) for j in range(points.shape[1])]
    features.append((np.log(np.sum(points**2, axis=1)), np.log(np.sum(chains**2, axis=2))))
    errors = []
    for wanted, found in features:
        order = np.argsort(wanted)
        places = np.searchsorted(np.cumsum(masses[order]), [0.05, 0.25, 0.5, 0.75, 0.95])
        quantiles = wanted[order][places]
        width = 0.1 * (quantiles[-1] - quantiles[0])
        for quantile in quantiles:
            pairs = (expit((each - quantile) / width) for each in (wanted, found))
            errors.append(error_of(masses, *pairs))
        wanted, found = (
            np.tanh((each - quantiles[2]) / (20.0 * width)) for each in (wanted, found)
        )
        errors.append(error_of(masses, wanted, found))
        mean = masses @ wanted
        errors.append(error_of(masses, (wanted - mean) ** 2, (found - mean) ** 2))
    return np.abs(errors)


def error_of(masses, wanted, found):
    of_chains = found.mean(axis=0)
    return (of_chains.mean() - masses @ wanted) / (of_chains.std() / np.sqrt(N_CHAINS - 1))


CASES = [
    pytest.param(1, 10.0, True, id="one dimension"),
    pytest.param(2, 10.0, True, id="two dimensions"),
    pytest.param(1, 150.0, True, id="one, nearly the prior"),
    pytest.param(2, 150.0, True, id="two, nearly the prior"),
    pytest.param(1, 30.0, False, id="one, a known scale"),
    pytest.param(2, 30.0, False, id="two, a known scale"),
]


@pytest.mark.daily(2)
@pytest.mark.parametrize("length, noise, is_learnt", CASES)
def test_draws_are_those_of_the_law(rng, length, noise, is_learnt):
    """Against quadrature: quantiles, means and deviations of coordinates, and of the squared length."""
    assert errors_of(a_density(rng, length, noise, is_learnt), 4 * N_DRAWS).max() < 4.0


@pytest.mark.daily(1)
@pytest.mark.parametrize("length, wrong", [(1, 0.0), (1, 2.0), (2, 0.0)])
def test_moves_that_forget_their_volume_would_be_seen(rng, length, wrong):
    """The test above can fail: here a move counts its volume some other number of times."""
    given = a_density(rng, length, 150.0, True)
    given = dataclasses.replace(given, growth=given.growth._replace(rank=wrong * length))
    assert errors_of(given, 4 * N_DRAWS).max() > 6.0


def test_draws_that_follow_each_other_are_from_different_chains(rng):
    drawn, _ = draw(a_density(rng, 2, 30.0, True), 4000, 0)
    # Chains agree, and neighbours are not alike. Ranks, as tails are heavy.
    ranks = rankdata(drawn, axis=0) / len(drawn)
    chains = ranks.reshape(-1, N_CHAINS, 2)
    assert np.abs(chains.mean(axis=0) - 0.5).max() < 0.35
    assert abs(np.corrcoef(ranks[:-1, 0], ranks[1:, 0])[0, 1]) < 0.1
    # What a call leaves behind is nearly forgotten by the next, even where a scale is hardly known.
    forgotten = np.corrcoef(chains[:-7, :, 0].ravel(), chains[7:, :, 0].ravel())[0, 1]
    assert abs(forgotten) < 0.3


def test_chains_settle_once(rng, monkeypatch):
    """Further draws are cheap, are those of the law, and depend on their seed alone."""
    given, calls = a_density(rng, 2, 30.0, True), []
    settled = module.warmed_up_chains

    def counted(*args):
        calls.append(args)
        return settled(*args)

    monkeypatch.setattr(module, "warmed_up_chains", counted)
    posterior = Posterior(given)
    first, second = (posterior.draw(400, np.random.default_rng(seed)) for seed in (1, 2))
    again = pickle.loads(pickle.dumps(posterior)).draw(400, np.random.default_rng(1))
    assert len(calls) == 1
    np.testing.assert_array_equal(first, again)
    assert not np.isin(first, second).any()


@pytest.mark.parametrize("n_draws", [1, 49, 50, 51, 400])
def test_there_are_as_many_draws_as_are_wanted(rng, n_draws):
    given = a_density(rng, 2, 30.0, True)
    drawn, again, other = (draw(given, n_draws, seed)[0] for seed in (3, 3, 4))
    assert drawn.shape == (n_draws, 2)
    np.testing.assert_array_equal(drawn, again)
    assert not np.array_equal(drawn, other)


# Modes and scales


@pytest.mark.parametrize("is_learnt", [True, False])
def test_the_mode_is_one(rng, is_learnt):
    given = a_density(rng, 2, 20.0, is_learnt)
    mode = find_mode(dataclasses.replace(given, start=np.array([-2.0, 1.0])))
    energy = given.potential(mode[None])[0][0]
    nearby = mode + rng.normal(size=(300, 2)) * np.geomspace(1e-3, 1.0, 300)[:, None]
    assert (given.potential(nearby)[0] > energy - 1e-3).all()


@pytest.mark.parametrize("truth, low, high", [(0.02, 0.05, 0.8), (1.0, 0.5, 2.0), (3.0, 1.5, 6.0)])
def test_settling_finds_scales_like_those_of_the_coefficients(rng, truth, low, high):
    given = find_mode_and_scales(a_density(rng, 2, 1.0, True, truth), 50)
    assert low < given.scales[0] < high
    np.testing.assert_allclose(given.start, find_mode(given), atol=0.05)
    again = find_mode_and_scales(given, 50)
    assert again.scales[0] == given.scales[0]


def test_settling_leaves_a_scale_that_is_known(rng):
    given = find_mode_and_scales(a_density(rng, 2, 1.0, False, 3.0), 50)
    np.testing.assert_array_equal(given.scales, 1.0)


def test_coefficients_are_not_shrunk_by_a_scale_that_is_learnt(rng):
    """Ten times the prior's: with a known scale they would be drawn to it."""
    given = (a_density(rng, 2, 10.0, is_learnt, 1.0, scale=0.1) for is_learnt in (True, False))
    learnt, known = (draw(find_mode_and_scales(each, 6), 4000, 0)[0] for each in given)
    assert np.abs(known.mean()) < 0.7 * np.abs(learnt.mean())
    inside = np.mean(
        (np.quantile(learnt, 0.05, axis=0) < 1.0) & (np.quantile(learnt, 0.95, axis=0) > 1.0)
    )
    assert inside == 1.0


@dataclasses.dataclass
class Steep(Density):
    """A likelihood that overflows some 27 away from its mode."""

    prior: Prior
    scales: np.ndarray
    start: np.ndarray
    growth: Growth

    def negative_log_likelihood(self, u):
        """Return it."""
        energy = np.exp(u**2)
        return energy.sum(axis=1), 2.0 * u * energy

    def information(self, u):
        """Return the curvature of its potential."""
        return np.diag((2.0 + 4.0 * u**2) * np.exp(u**2)) + self.prior.precision(self.scales)

    def level(self, u):
        """Nothing, as there is no intercept."""
        return np.zeros((len(u), 1))


def test_paths_that_overflow_are_refused_without_a_word():
    prior = Prior((Group.learnt(np.eye(2), 2),))
    given = Steep(prior, prior.prior_mode, np.full(2, 6.0), growth_of(0.0, 1, np.eye(2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn, _ = draw(given, 1000, 0)
    assert np.abs(drawn).max() < 2.0 and drawn.std() > 0.2
    assert np.abs(find_mode(given)).max() < 1e-6
