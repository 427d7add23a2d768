"""Draws from a posterior given noisy sums: its mode, and Hamiltonian chains around it, all in step.

    p(u | tau) ~ exp(-U(u) - sum_g q_g(u) / (2 tau_g^2)),      q_g = u^T P_g u,      tau_g on a grid

Every round draws the prior scales ``tau`` that are learnt given ``u``, takes a Hamiltonian path of ``u``
given them, and tries a move by which all coefficients grow and the mean of logits stays (`Growth`), with
scales integrated out. A path is about a quarter of a period of a normal law, in coordinates ``u = Q z / d``
in which the curvatures of ``U`` and of the prior at the mode are diagonal, ``d^2 = f + sum_g w_g / tau_g^2``.

Chains warm up for five autocorrelation times of the slowest coordinate, which costs no privacy, and until the
energy has no trend. How they mix is told by effective sample sizes and split R-hat [1]_. Whoever draws again
goes on from where chains were, after some rounds that are forgotten.

References
----------
.. [1] A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner, "Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16(2), 2021.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from ..._compute.execution import drawing_bar, single_threaded_blas
from ..._linalg import cholesky, eigh, inv, solve
from .plan import N_CHAINS
from .prior import Prior

# Fewest rounds of a warm-up, and most: then chains draw all the same, and R-hat tells.
_LEAST_WARM_UP = 12
_MOST_WARM_UP = 100
# Rounds after which the metric is adapted, and at least those until it is asked again whether a warm-up ends.
_ROUNDS_BETWEEN_CHECKS = 4
# Length of a warm-up, in autocorrelation times of the slowest coordinate.
_AUTOCORRELATION_TIMES = 5.0
# Largest trend of the energy, in its standard errors.
_LARGEST_TREND = 2.5
# Chains that go on make so many rounds before other draws. States before and after then have hardly anything
# in common. Only if noise hides nearly all and a scale is learnt, their ranks have correlations of up to 0.3.
_N_FORGOTTEN_ROUNDS = 6
# Fewest rounds of draws, without those: R-hat and effective sample sizes of fewer say little.
_LEAST_ROUNDS = 8
# One of so many rounds is kept that draws have an autocorrelation time of about this, and at most so many.
_AUTOCORRELATION_TIME_KEPT = 2.5
_MOST_THINNING = 6
# The seed of chains that settle, which `chain_seed` never returns.
_CHAIN_SEED = 2**31
# Most rounds of which R-hat and effective sample sizes are computed.
_MOST_ROUNDS_COMPARED = 40
# Acceptance to which the step size is tuned in the warm-up.
_ACCEPTANCE = 0.75
# Length of a path, in deviations of a normal law, and the least and the most steps that it has: one step of
# that length is nearly as long as steps are stable.
_PATH_LENGTH = 1.6
_LEAST_LEAPS = 2
_MOST_LEAPS = 8
# First deviation of ``c``, and the acceptance to which it is tuned.
_GROWTH_SD = 0.4
_GROWTH_ACCEPTANCE = 0.45
# Largest factor by which curvatures are adapted at once.
_LARGEST_ADAPTATION = 4.0
# Least share of a likelihood in a curvature.
_LEAST_LIKELIHOOD_SHARE = 1e-6

# Prior deviation of the logarithm by which weighted records overstate deviations without noise: with 0.2 to
# 0.3 errors were least on simulated tables with a rare indicator, at epsilon 0.3, 1 and 5.
_WEIGHTING_LOG_SD = 0.25
# Logarithm by which they may be off as rows are not normal.
_SHAPE_LOG_ERROR = 0.05


class Density:
    """A log density of ``u`` given noisy sums, a likelihood with a prior, which chains draw from.

    Attributes
    ----------
    prior : Prior
    scales : ndarray of shape (n_scales,)
        Prior scales at which a mode is looked for.
    start : ndarray of shape (n,)
        Where to look for it.
    growth : Growth or None
        What chains try where a scale is learnt.
    transform : ndarray of shape (length, length)
        Coefficients of a block, or contrast, of a linear model are this matrix times their part of a point.
    """

    prior: Prior
    scales: np.ndarray
    start: Any
    growth: Any
    transform: Any
    # Whether predictions weigh draws by a narrower law of scales.
    weighs_draws = False

    def negative_log_likelihood(self, u):
        """The negative log likelihood, up to a constant, and its gradient, for (n_points, n)."""
        raise NotImplementedError

    def information(self, u):
        """The curvature of the potential at one point, about: it is positive."""
        raise NotImplementedError

    def parameters(self, u, random):
        """Draws of parameters, of shape (n_draws, n_parameters), and `Diagnostics` drawn with them."""
        raise NotImplementedError

    def level(self, u):
        """A level of predictions of each block, as the mean logit, of shape (n_points, n_blocks).

        Growing coefficients keep it; chains are right whatever it is, and mix faster if it is well known.
        """
        raise NotImplementedError

    def potential(self, u):
        """The negative log density at ``scales``, up to a constant, and its gradient."""
        energy, gradient = self.negative_log_likelihood(u)
        of_prior, pull = self.prior.energy_given(u, self.scales)
        return energy + of_prior, gradient + pull

    def prior_predictive_p_values(self):
        """The probability of releases that say as much against a narrow prior; 1 where none does."""
        return 1.0

    def deviations_without_noise(self):
        """The deviations that parameters would have without noise, nan where that is not known."""
        return np.full(self.start.size, np.nan)


def find_mode(density):
    """The mode, by Newton's steps that are damped until they descend."""
    u, damping = density.start, 1e-3
    energy, gradient = (part[0] for part in density.potential(u[None]))
    for _ in range(60):
        information = density.information(u)
        for _ in range(20):
            damped = information + damping * np.diag(np.diag(information))
            step = solve(damped, gradient)
            with np.errstate(over="ignore", invalid="ignore"):  # Energies of nan are refused.
                new_energy, new_gradient = (part[0] for part in density.potential((u - step)[None]))
            if new_energy <= energy:
                break
            damping *= 4.0
        else:
            return u
        gained = energy - new_energy
        u, energy, gradient = u - step, new_energy, new_gradient
        damping = max(damping / 4.0, 1e-6)
        if gained < 1e-4:
            return u
    return u


def find_mode_and_scales(density, rounds):
    """A density with the likeliest prior scales, which starts at its mode.

    Expectation and maximisation, with a normal law around the mode, until scales stay or for some rounds.
    """
    for _ in range(rounds if density.prior.is_learnt else 0):
        mode = find_mode(density)
        covariance = inv(density.information(mode))
        scales = density.prior.likeliest(mode, covariance)
        if np.array_equal(scales, density.scales):
            return replace(density, start=mode)
        density = replace(density, start=mode, scales=scales)
    return replace(density, start=find_mode(density))


def chain_seed(random):
    """A seed for `draw` from a Generator or RandomState, which need not be secret."""
    # Post-processing.
    return int(random.integers(2**31) if hasattr(random, "integers") else random.randint(2**31))


class Chains(NamedTuple):
    """Chains that have settled.

    Attributes
    ----------
    points : ndarray of shape (N_CHAINS, n)
    metric : Metric
    step : float
        Length of a step of a path, on average.
    growth_sd : float
        Deviation of ``c``.
    thinning : int, default=1
        One round of so many is kept, where rounds depend on each other.
    """

    points: np.ndarray
    metric: "Metric"
    step: float
    growth_sd: float
    thinning: int = 1


class Metric(NamedTuple):
    """Coordinates ``u = Q z / d`` of a path.

    Attributes
    ----------
    basis : ndarray of shape (n, n)
        ``Q``.
    likelihood : ndarray of shape (n,)
        ``f``.
    prior : ndarray of shape (n_scales, n)
        ``w``.
    """

    basis: np.ndarray
    likelihood: np.ndarray
    prior: np.ndarray

    @classmethod
    def at(cls, density: Any, mode: np.ndarray) -> Self:
        """The metric of the curvatures at a mode, found with the scales of the density."""
        inverse = inv(cholesky(density.information(mode)))
        prior, basis = density.prior, inverse.T
        if prior.groups:
            # Of different weights, so that eigenvalues are, and no rounding turns the basis.
            weights = np.arange(1.0, density.scales.size + 1.0)
            whole = prior.precision(density.scales / np.sqrt(weights))
            turn = eigh(inverse @ whole @ inverse.T)[1]
            largest = np.argmax(np.abs(turn), axis=0)
            basis = basis @ (turn * np.sign(turn[largest, np.arange(mode.size)]))
        squares = prior.squares_along(basis)
        likelihood = 1.0 - density.scales**-2.0 @ squares
        return cls(basis, np.maximum(likelihood, _LEAST_LIKELIHOOD_SHARE), squares)

    def adapted(self, points, scales):
        """A metric in which points of chains, given their scales, have variances of one."""
        # Relative to each coordinate's own unit: rounding does not pass from a large one to a small one.
        units = np.max(np.abs(self.basis), axis=1, keepdims=True)
        away = (points - points.mean(axis=0)).T
        variances = solve(self.basis / units, away / units).var(axis=1)
        of_prior = np.mean(scales**-2.0, axis=0) @ self.prior
        likelihood = np.maximum(1.0 / variances - of_prior, _LEAST_LIKELIHOOD_SHARE)
        ends = self.likelihood / _LARGEST_ADAPTATION, self.likelihood * _LARGEST_ADAPTATION
        return self._replace(likelihood=np.clip(likelihood, *ends))

    def widths(self, scales):
        """``1 / d`` of chains, of shape (n_chains, n), for scales of shape (n_chains, n_scales)."""
        return (self.likelihood + scales**-2.0 @ self.prior) ** -0.5


@single_threaded_blas()  # Fifty rows are not worth more.
def warmed_up_chains(density):
    """`Chains` that have forgotten where they started."""
    generator = np.random.default_rng(_CHAIN_SEED)
    mode = find_mode(density)
    metric = Metric.at(density, mode)
    # Start chains nearer the mode than posterior draws; tails can be stiff.
    # Post-processing.
    u = mode + 0.5 * generator.standard_normal((N_CHAINS, mode.size)) @ metric.basis.T
    chains = Chains(u, metric, mode.size**-0.25, _GROWTH_SD)
    state, states = (u, *density.negative_log_likelihood(u)), []
    next_check, time = _LEAST_WARM_UP, 1.0
    with drawing_bar(_MOST_WARM_UP, "warm-up") as advance:
        for n_rounds in range(1, _MOST_WARM_UP + 1):
            state, accepted, grew = _round(density, chains, state, generator)
            gain = 1.0 / (1.0 + (n_rounds - 1) / 4.0)
            chains = chains._replace(
                step=chains.step * math.exp(gain * (accepted - _ACCEPTANCE)),
                growth_sd=chains.growth_sd * math.exp(gain * (grew - _GROWTH_ACCEPTANCE)),
            )
            states.append(np.column_stack([state[0], state[1] + density.prior.energy(state[0])]))
            advance()
            # Rounds, chains, and coordinates with the energy, the last.
            window = np.array(states[len(states) // 2 :])
            if n_rounds == next_check:
                time = window[..., 0].size / effective_sample_size(window).min()
                enough = math.ceil(_AUTOCORRELATION_TIMES * time)
                if n_rounds >= enough and not _has_trend(window[..., -1]):
                    break
                next_check = max(n_rounds + _ROUNDS_BETWEEN_CHECKS, enough)
            if n_rounds % _ROUNDS_BETWEEN_CHECKS == 0:
                points = np.concatenate(window)[:, :-1]
                metric = metric.adapted(points, density.prior.scales_given(points, generator))
                chains = chains._replace(metric=metric)
    thinning = min(max(round(time / _AUTOCORRELATION_TIME_KEPT), 1), _MOST_THINNING)
    return chains._replace(points=state[0], thinning=thinning)


def _has_trend(energies):
    """Whether energies of shape (n_rounds, N_CHAINS) still rise or fall."""
    first, second = np.array_split(energies, 2)
    error = math.sqrt(2.0 / N_CHAINS) * energies.std()
    return abs(second.mean() - first.mean()) >= _LARGEST_TREND * error


def normalized_ranks(draws):
    """Normal quantiles of ranks, of draws and of their distances to the median [1]_.

    Ranks are those among all rounds and chains, so that a few draws far out do not decide. Chains whose
    distances differ have intervals of different lengths.

    Parameters
    ----------
    draws : ndarray of shape (n_rounds, n_chains, n)

    Returns
    -------
    ranks : ndarray of shape (n_rounds, n_chains, 2, n)
    """
    n_draws = draws.shape[0] * draws.shape[1]
    both = np.stack([draws, np.abs(draws - np.median(draws, axis=(0, 1)))], axis=2)
    ranks = rankdata(both.reshape(n_draws, -1), axis=0)
    return ndtri((ranks - 0.375) / (n_draws + 0.25)).reshape(both.shape)


def r_hat(draws):
    """Rank-normalized split R-hat of every coordinate, of draws or of their distances to the median.

    Parameters
    ----------
    draws : ndarray of shape (n_rounds, n_chains, n)

    Returns
    -------
    r_hat : ndarray of shape (n,)
        The larger of both; about 1 where halves of chains agree with each other.
    """
    half, ranks = len(draws) // 2, normalized_ranks(draws)
    parts = np.concatenate([ranks[:half], ranks[-half:]], axis=1)
    within = np.maximum(parts.var(axis=0, ddof=1).mean(axis=0), 1e-300)
    between = parts.mean(axis=0).var(axis=0, ddof=1)
    return np.sqrt((half - 1.0) / half + between / within).max(axis=0)


def effective_sample_size(draws):
    """The number of independent draws that those of chains are worth, for every coordinate.

    Autocorrelations of `normalized_ranks` are ``1 - V_t / (2 V)``, with ``V_t`` the mean square of
    differences of those that are ``t`` rounds apart and ``V`` the variance of all. They are added up by pairs
    of lags while these are positive.

    Parameters
    ----------
    draws : ndarray of shape (n_rounds, n_chains, n)

    Returns
    -------
    sizes : ndarray of shape (n,)
        At most the number of draws; the smaller of theirs and that of their distances to the median.
    """
    n_rounds, n_draws, ranks = len(draws), draws.shape[0] * draws.shape[1], normalized_ranks(draws)
    variance = np.maximum(ranks.var(axis=(0, 1), ddof=1), 1e-300)
    lags = np.array(
        [
            np.mean((ranks[lag:] - ranks[: n_rounds - lag]) ** 2, axis=(0, 1))
            for lag in range(n_rounds - n_rounds % 2)
        ]
    )
    correlations = 1.0 - 0.5 * lags / variance
    pairs = correlations[::2] + correlations[1::2]
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    time = 2.0 * np.sum(np.where(positive, pairs, 0.0), axis=0) - 1.0
    return (n_draws / np.maximum(time, 1.0)).min(axis=0)


@single_threaded_blas()
def draw(density, n_draws, seed, chains=None):
    """Draws of ``u``, and rounds of chains of which they are the last.

    Parameters
    ----------
    density : Density
    n_draws : int
    seed : int
        It need not be secret.
    chains : Chains or None, default=None
        Those of the density, if they have settled already.

    Returns
    -------
    draws : ndarray of shape (n_draws, n)
        Draws that follow each other come from different chains.
    rounds : ndarray of shape (n_rounds, N_CHAINS, n)
    """
    chains = chains or warmed_up_chains(density)
    generator, kept = np.random.default_rng(seed), []
    state = (chains.points, *density.negative_log_likelihood(chains.points))
    n_rounds = _N_FORGOTTEN_ROUNDS + max(-(-n_draws // N_CHAINS), _LEAST_ROUNDS)
    with drawing_bar(n_rounds * chains.thinning) as advance:
        for turn in range(n_rounds * chains.thinning):
            state, *_ = _round(density, chains, state, generator)
            if turn % chains.thinning == 0:
                kept.append(state[0])
            advance()
    rounds = np.array(kept)
    return rounds[_N_FORGOTTEN_ROUNDS:].reshape(-1, density.start.size)[:n_draws], rounds


def _round(density, chains, state, generator):
    """(states after a path and a move along which coefficients grow, mean chances of both)."""
    prior, grew = density.prior, _GROWTH_ACCEPTANCE
    with np.errstate(over="ignore", invalid="ignore"):  # Energies of nan are refused.
        scales = prior.scales_given(state[0], generator)
        state, accepted = _path(density, chains, state, scales, generator)
        if prior.is_learnt:
            state, grew = _grown(density, chains.growth_sd, state, generator)
    return state, accepted, grew


def _path(density, chains, state, scales, generator):
    """(states after a Hamiltonian path or as they were, the mean chance of acceptance)."""
    basis, widths = chains.metric.basis, chains.metric.widths(scales)
    leaps = min(max(math.ceil(_PATH_LENGTH / chains.step), _LEAST_LEAPS), _MOST_LEAPS)
    step = min(chains.step, _PATH_LENGTH / leaps) * generator.uniform(0.7, 1.2)  # Post-processing.
    u, value, force = state
    energy, pull = density.prior.energy_given(u, scales)
    momentum = generator.standard_normal(u.shape)  # Post-processing.
    start = value + energy + 0.5 * np.sum(momentum**2, axis=1)
    kick = 0.5 * step * widths * ((force + pull) @ basis)
    for _ in range(leaps):
        momentum = momentum - kick
        u = u + step * (widths * momentum) @ basis.T
        value, force = density.negative_log_likelihood(u)
        energy, pull = density.prior.energy_given(u, scales)
        kick = 0.5 * step * widths * ((force + pull) @ basis)
        momentum = momentum - kick
    change = start - value - energy - 0.5 * np.sum(momentum**2, axis=1)
    return _accepted(state, (u, value, force), change, generator)


def _grown(density, growth_sd, state, generator):
    """(states after moves along which coefficients grow or shrink, the mean chance of acceptance)."""
    growth, prior = density.growth, density.prior
    c = growth_sd * generator.standard_normal((N_CHAINS, 1))  # Post-processing.
    own = state[0] @ growth.matrix.T
    grown = np.exp(c) * own
    shift = density.level(own) - density.level(grown)
    u = state[0] + (grown - own) + np.kron(shift, growth.intercept)
    value, gradient = density.negative_log_likelihood(u)
    change = state[1] + prior.energy(state[0]) - value - prior.energy(u)
    return _accepted(state, (u, value, gradient), change + growth.rank * c[:, 0], generator)


def _accepted(state, proposal, change, generator):
    """(one of two states for every chain, the mean chance that it is the second)."""
    chance = np.exp(np.minimum(0.0, np.nan_to_num(change, nan=-np.inf)))
    accepted = generator.random(N_CHAINS) < chance  # Post-processing.
    pairs = zip(proposal, state, strict=True)
    rows = tuple(np.where(accepted.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in pairs)
    return rows, float(chance.mean())


def deviations_of_all_records(weighted, of_design, design):
    """The deviations that coefficients have where all records count fully, of shape (n_parameters,).

    Weighted records tell too little of rare indicators, whose rows are long; the design tells of all, as far
    as noise leaves the variances of columns.

    Parameters
    ----------
    weighted, of_design : ndarray of shape (n_parameters,)
        Deviations by the curvature of weighted records, and by that of rows with the moments of the design.
    design : Design
    """
    # Of the constant, which does not vary, the errors are infinite. A deviation is the root of a variance.
    variances, errors = np.diag(design.covariance), np.full(len(design.covariance), np.inf)
    uncertainty = np.diag(np.broadcast_to(design.uncertainty, design.covariance.shape))
    np.divide(0.5 * np.sqrt(uncertainty), variances, out=errors, where=variances > 0.0)
    shares = np.resize(_WEIGHTING_LOG_SD**2 / (_WEIGHTING_LOG_SD**2 + errors**2), weighted.size)
    # Weights only hide.
    hidden = np.maximum(np.log(weighted / of_design) - _SHAPE_LOG_ERROR, 0.0)
    return weighted * np.exp(-hidden * shares)


@dataclass(frozen=True)
class Posterior:
    """A posterior given noisy sums: it draws, weighs draws, and pickles; chains settle at the first draws.

    Attributes
    ----------
    density : Density
        In its own coordinates, with what makes parameters of them.
    """

    density: Any

    @cached_property
    def _chains(self):
        return warmed_up_chains(self.density)

    def draw(self, n_draws, random):
        """Draws of parameters, of shape (n_draws, n_parameters).

        Parameters
        ----------
        n_draws : int
        random : Generator or RandomState
            It need not be secret.
        """
        u, _ = draw(self.density, n_draws, chain_seed(random), self._chains)
        return self.density.parameters(u, random)[0]

    def draw_all(self, n_draws, random):
        """Draws as of `draw`, and `Diagnostics`: what else is drawn, and how well chains agree.

        ``r_hat`` and ``effective_sample_size`` are those of parameters, of shape (n_parameters,).
        """
        u, rounds = draw(self.density, n_draws, chain_seed(random), self._chains)
        draws, other = self.density.parameters(u, random)
        rounds = rounds[:_MOST_ROUNDS_COMPARED]
        # Post-processing.
        whole, _ = self.density.parameters(np.concatenate(rounds), np.random.default_rng(0))
        whole = whole.reshape(*rounds.shape[:2], -1)
        sizes = effective_sample_size(whole) * (len(draws) / whole[..., 0].size)
        return draws, replace(other, r_hat=r_hat(whole), effective_sample_size=sizes)

    def importance_weights(self, draws):
        """The importance weights of draws in predictions, of shape (n_draws,), or None for equal ones.

        Parameters
        ----------
        draws : ndarray of shape (n_draws, n_parameters)
        """
        if not self.density.weighs_draws:
            return None
        return self.density.prior.importance_weights(self.density.points(draws))

    def prior_predictive_p_values(self):
        """The probability of releases that say at least as much against a narrow prior.

        Of coefficients and, if there is one, of the intercept; 1 where nothing is compared with a prior.
        """
        return self.density.prior_predictive_p_values()

    def deviations_without_privacy(self):
        """The deviations that parameters would have without noise, as far as that is known."""
        return self.density.deviations_without_noise()
