"""Gibbs sampling without privacy, of mixtures, and of normal responses whose noise is not known.

    z_i | theta ~ r(x_i),      w, m, Lambda | z            by their conditional laws
    beta | s, tau,     s | beta,     tau | beta            of a normal linear model

`draw_parameters` has the laws of mixtures, over which `run_gibbs` sweeps; `run_normal` sweeps over those of a
linear model, and `plan_gibbs` and `plan_normal` say how often.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from .._compute.execution import progress_bar, run_in_blocks
from .._compute.gradients import gradient_oracle, sums_at
from .._data.shards import map_records, total
from .._linalg import cholesky, eigh, solve
from ..models import MOMENT_ROWS
from ..models.mixture import (
    KEY_LENGTH,
    Components,
    MixtureModel,
    allocated,
    pack_mixture,
    statistics_size,
)
from ..models.sums import weighted_sums
from .base import (
    CONSTRAINTS,
    Diagnostics,
    Released,
    Sampler,
    freeze_sampler,
    options,
    resolve_auto,
    samplers_with,
)
from .mixture.plan import N_DRAWS, MixturePlan, search_phases, statistics_bounds
from .mixture.sampler import check_table
from .mixture.statistics import Statistics, StatisticsReleases, find_groups, starting_components
from .plan import (
    PlanWithoutPrivacy,
    chain_length,
    check_plan_matches_target,
    check_public,
    number_of_draws,
)
from .statistics.design import indicators, repeated_columns

__all__ = ["Gibbs"]

# The conditional laws of a mixture's parameters, given to which components its rows belong.
#
# With the sums ``N_k, M_k, Q_k`` of ``(1, x, x x^T)`` over a component's rows,
# ``S_k = Q_k - M_k m_k^T - m_k M_k^T + N_k m_k m_k^T``, and the prior of
# `skdpbayes.models.mixture`,
#
#     w   | ...  ~  Dirichlet(alpha + N)
#     m_k | ...  ~  N(P_k^-1 Lambda_k M_k, P_k^-1),      P_k = N_k Lambda_k + I / s^2
#     Lambda_k     | ...  ~  Wishart(nu + N_k, (nu c I + S_k)^-1)                           full
#     Lambda       | ...  ~  Wishart(nu + n, (nu c I + sum_k S_k)^-1)                       tied
#     lambda_kj    | ...  ~  Gamma((nu + N_k) / 2, rate (nu c + (S_k)_jj) / 2)              diag
#     lambda_k     | ...  ~  Gamma((nu + d N_k) / 2, rate (nu c + tr S_k) / 2)              spherical
#
# All numbers are in units of the ball. Nothing here is private: `run_gibbs` is for plans without
# privacy only.
#
# Diebolt and Robert, "Estimation of finite mixture distributions through Bayesian sampling", JRSS B,
# 1994.


# Least square root of a precision. Only empty components can reach these limits, under priors that say
# nothing.
_LEAST_FACTOR = 1e-6
# Largest square root of a precision.
_LARGEST_FACTOR = 1e13
# Least weight of a component.
_LEAST_WEIGHT = 1e-300


def draw_parameters(
    model: MixtureModel, statistics: Statistics, factors: np.ndarray, generator: Any
) -> Components:
    """New weights, means, and factors of precisions, one after the other.

    Parameters
    ----------
    model : MixtureModel
    statistics : Statistics
        Of the rows of every component.
    factors : ndarray
        Present factors of precisions, as those of `Components`.
    generator : numpy.random.Generator
    """
    # Without privacy.
    weights = np.maximum(
        generator.dirichlet(model.weight_concentration + statistics.counts), _LEAST_WEIGHT
    )
    draw_means = _means_given_matrices if factors.ndim == 3 else _means_given_vectors
    means = draw_means(model, statistics, factors, generator)
    draw_factors = _matrices if factors.ndim == 3 else _vectors
    return Components(np.log(weights), means, draw_factors(model, statistics, means, generator))


def _means_given_vectors(model, statistics, factors, generator):
    precisions = factors**2
    total = statistics.counts[:, None] * precisions + (model.data_norm / model.mean_scale) ** 2
    normal = generator.standard_normal(total.shape)  # Without privacy.
    return precisions * statistics.sums / total + normal / np.sqrt(total)


def _means_given_matrices(model, statistics, factors, generator):
    precisions = factors @ factors.swapaxes(-1, -2)
    prior = (model.data_norm / model.mean_scale) ** 2 * np.eye(model.n_features)
    lower = cholesky(statistics.counts[:, None, None] * precisions + prior)
    pulled = solve(lower, precisions @ statistics.sums[:, :, None])
    normal = generator.standard_normal(pulled.shape)  # Without privacy.
    return solve(lower.swapaxes(-1, -2), pulled + normal)[:, :, 0]


def _vectors(model, statistics, means, generator):
    counts, scatter = (
        statistics.counts[:, None],
        statistics.seconds - means * (2.0 * statistics.sums),
    )
    scatter = np.maximum(scatter + counts * means**2, 0.0)
    if model.covariance_type == "spherical":
        counts, scatter = counts * model.n_features, scatter.sum(axis=1, keepdims=True)
    degrees, width = model.degrees_of_freedom, _prior_width(model)
    shape = np.broadcast_to((degrees + counts) / 2.0, scatter.shape)
    drawn = generator.standard_gamma(shape) / ((width + scatter) / 2.0)  # Without privacy.
    factors = np.clip(np.sqrt(drawn), _LEAST_FACTOR, _LARGEST_FACTOR)
    return np.broadcast_to(factors, means.shape).copy()


def _matrices(model, statistics, means, generator):
    cross = means[:, :, None] * statistics.sums[:, None, :]
    scatter = statistics.seconds - cross - cross.swapaxes(-1, -2)
    scatter = scatter + statistics.counts[:, None, None] * means[:, :, None] * means[:, None, :]
    counts = statistics.counts
    if model.covariance_type == "tied":
        counts, scatter = counts.sum(keepdims=True), scatter.sum(axis=0, keepdims=True)
    degrees = model.degrees_of_freedom + counts
    factors = wishart_factors(scatter, _prior_width(model), degrees, generator)
    return np.repeat(factors, len(means) // len(factors), axis=0)


def _prior_width(model):
    """``nu c``."""
    return model.degrees_of_freedom * model.covariance / model.data_norm**2


def wishart_factors(
    scatter: np.ndarray, width: float, degrees: np.ndarray, generator: Any
) -> np.ndarray:
    """Lower triangular ``F``, ``F F^T ~ Wishart(degrees, (width I + scatter)^-1)`` (Bartlett).

    Parameters
    ----------
    scatter : ndarray of shape (n, d, d)
        Positive semidefinite, but for rounding.
    width : float
    degrees : ndarray of shape (n,)
        More than ``d - 1``.
    generator : numpy.random.Generator
    """
    values, vectors = eigh(scatter)
    roots = vectors / np.sqrt(width + np.maximum(values, 0.0))[:, None, :]
    d = scatter.shape[1]
    triangle = np.tril(generator.standard_normal(scatter.shape), -1)  # Without privacy.
    i = np.arange(d)
    triangle[:, i, i] = np.sqrt(generator.chisquare(degrees[:, None] - i))  # Without privacy.
    # A lower triangular factor of the same product.
    upper = np.asarray(np.linalg.qr((roots @ triangle).swapaxes(-1, -2), mode="r"))
    factors = upper.swapaxes(-1, -2)
    factors = factors * np.where(factors[:, i, i] < 0, -1.0, 1.0)[:, None, :]
    factors[:, i, i] = np.clip(factors[:, i, i], _LEAST_FACTOR, _LARGEST_FACTOR)
    return factors


# A normal linear model without privacy: coefficients, noise and prior scale, each given the others.
#
#     G = sum_i w_i z_i z_i^T,   t = sum_i w_i z_i y_i,   S = sum_i w_i (y_i - z_i u)^2,   n = sum_i w_i
#     u     | s, tau  ~  N(L^-1 t / s^2, L^-1),     L = G / s^2 + P(tau)
#     s^2   | u, a    ~  IG((1 + n) / 2, 1 / a + S / 2),          a | s  ~  IG(1, 1 / A^2 + 1 / s^2)
#     tau^2 | u, b    ~  IG((1 + d) / 2, 1 / b + sum_j P_j u_j^2 / 2),     b | tau  ~  IG(1, 1 + 1 / tau^2)
#
# ``P`` is the prior's precision, over ``tau^2`` for coefficients unless their scale is given. ``s``
# and ``tau`` are half-Cauchy with scales ``A``, half the width of the bounds of responses, and 1
# (Makalic and Schmidt, 2016). The sums are computed once. Nothing here is private.


# Least square of a scale, in its unit.
_LEAST_SQUARED_SCALE = 1e-24
# Largest square of a scale, in its unit: beyond, sums would overflow.
_LARGEST_SQUARED_SCALE = 1e24


def sums_of(target: Any) -> tuple[np.ndarray, np.ndarray, float, float]:
    """``(G, t, sum_i w_i y_i^2, n)``. **They are not private.**"""
    origin = np.zeros((1, target.prior_precision.size))
    gradient, moment = weighted_sums(target, target.family, None, origin)
    weights, responses = target.weights, target.responses
    return moment, -gradient[0], float(weights @ responses**2), float(weights.sum())


def run_normal(plan: Any, target: Any, generator: np.random.Generator) -> Released:
    """Carry out a `NormalGibbsPlan`. **Draws are not private.**"""
    sums = total(sums_of, target)
    kept = set(plan.kept_steps().tolist())
    state = _Sweeps(plan.bounds, target.prior_precision, sums, generator)
    draws, noise, scales = [], [], []
    for step in range(plan.n_steps):
        u = state.advance()
        if step in kept:
            draws.append(u)
            noise.append(np.sqrt(state.noise))
            scales.append(np.sqrt(state.scale))
    deviations, ratios = np.array(noise), np.array(scales)
    prior, errors = state.prior(1.0 / np.mean(ratios**-2.0)), np.mean(deviations**-2.0)
    other = Diagnostics(
        noise_deviations=deviations,
        prior_scale=ratios * target.prior_precision[0] ** -0.5,
        repeated_columns=_repeated_columns(sums[0], errors, prior, plan.bounds.constant),
    )
    return Released(np.array(draws), plan, other=other)


def _repeated_columns(moment, error_precision, prior, constant):
    """Those that others nearly repeat, but for indicators; the last one of ``moment`` may be a constant."""
    is_left_out = np.zeros(len(moment), dtype=bool)
    if constant:
        is_left_out[-1] = True
        is_left_out[:-1] = indicators(moment, 0.0, constant, moment[-1, -1] / constant**2)[1]
    information, prior = error_precision * moment + np.diag(prior), np.diag(prior)
    return repeated_columns(information, prior, np.eye(len(prior)), is_left_out)


class _Sweeps:
    """A chain of sweeps: ``noise`` is ``s^2``, ``scale`` is ``tau^2``."""

    def __init__(self, bounds, precision, sums, generator):
        self.moment, self.cross, self.square, self.count = sums
        self.generator, self.precision = generator, precision
        self.unit, self.learns = bounds.family.half_width**2, bounds.learns_scales[0]
        self.coefficients = precision.size - (bounds.constant > 0)
        self.noise = self.wide_noise = self.unit
        self.scale = self.wide_scale = 1.0

    def advance(self):
        """Draw all parameters once, and return ``u``."""
        first, prior = slice(self.coefficients), self.prior(self.scale)
        # Eigenvalues are safe if rows lie in a subspace and hardly any noise is left. A symmetric root does
        # not depend on the signs of the vectors.
        values, vectors = eigh(self.moment / self.noise + np.diag(prior))
        values = np.maximum(values, prior.min())
        normal = vectors.T @ self.generator.standard_normal(values.size)  # Without privacy.
        pulled = vectors.T @ self.cross / self.noise
        u = vectors @ (pulled / values + normal / np.sqrt(values))
        residual_square = max(self.square - 2.0 * u @ self.cross + u @ self.moment @ u, 0.0)
        self.noise, self.wide_noise = self._scale_of(
            self.count, residual_square, self.unit, self.noise, self.wide_noise
        )
        if self.learns:
            residual_square = float(self.precision[first] @ u[first] ** 2)
            self.scale, self.wide_scale = self._scale_of(
                self.coefficients, residual_square, 1.0, self.scale, self.wide_scale
            )
        return u

    def prior(self, scale):
        """Precisions of the prior for ``tau^2``."""
        precision = self.precision.copy()
        precision[: self.coefficients] /= scale
        return precision

    def _scale_of(self, count, square, unit, present, wide):
        """A half-Cauchy scale's square, given ``count`` numbers, and its mixing variable."""
        # Without privacy.
        gamma = self.generator.standard_gamma([0.5 * (1.0 + count), 1.0])
        precision = float((1.0 / wide + 0.5 * square) / max(gamma[0], 1e-300))
        precision = min(max(precision, _LEAST_SQUARED_SCALE * unit), _LARGEST_SQUARED_SCALE * unit)
        return precision, float((1.0 / unit + 1.0 / precision) / max(gamma[1], 1e-300))


# Plans of Gibbs sampling without privacy: a search and sweeps over a table, or sweeps over its sums.
#
#     n_steps sweeps,   the first burn_in of them left out,   n_draws of the others, evenly spaced


N_SWEEPS = 1000
BURN_IN = 0.25
# Seconds of a sweep beside those for reading rows, and operations on matrices per second: guesses.
_SWEEP_SECONDS = 3e-4
_OPERATIONS = 5e9
# Draws of a normal linear model, which are nearly independent.
_NORMAL_DRAWS = 1000


class _Sweeping(PlanWithoutPrivacy):
    """Base class of the plans of sweeps."""

    def kept_steps(self) -> np.ndarray:
        """The sweeps after which parameters are kept."""
        after = self.n_steps - self.n_burn_in
        return self.n_burn_in + np.arange(1, self.n_draws + 1) * after // self.n_draws - 1


@dataclass(frozen=True, kw_only=True)
class GibbsPlan(_Sweeping, MixturePlan):
    """A plan for the posterior of a mixture without privacy."""

    @property
    def estimated_seconds(self) -> float:
        """A rough guess of the run time."""
        return super().estimated_seconds + self.n_steps * _SWEEP_SECONDS


@dataclass(frozen=True, kw_only=True)
class NormalGibbsPlan(_Sweeping):
    """A plan for the posterior of a normal linear model without privacy; sweeps read no records."""

    @property
    def record_gradients(self) -> float:
        """The expected number of gradients of single records."""
        return float(self.n_samples)

    @property
    def estimated_seconds(self) -> float:
        """A rough guess of the run time."""
        d = float(self.n_parameters)
        return (self.n_samples * d**2 + self.n_steps * d**3) / _OPERATIONS + 1e-4 * self.n_steps

    @property
    def memory_bytes(self) -> float:
        """Memory that a run needs beside the table."""
        d = self.n_parameters
        return 8.0 * (self.n_draws * (d + 2) + 6 * d**2 + MOMENT_ROWS * d)

    def summary(self) -> dict[str, str]:
        """The lines of the printed plan, a dict of {name: text}."""
        return {**super().summary(), "a step reads": "sums over the table, which is read once"}


def plan_normal(
    sampler: Any,
    bounds: Any,
    n_samples: int,
    budget: Any,
    n_steps: int | None,
    n_draws: int | None,
    burn_in: float,
) -> NormalGibbsPlan:
    """Plan sweeps over the parameters of a normal linear model; parameters are those of `plan_gibbs`."""
    length = (n_steps, n_draws, burn_in, _NORMAL_DRAWS)
    return _made(NormalGibbsPlan, sampler, bounds, n_samples, budget, *length)


def plan_gibbs(
    sampler: Any,
    model: Any,
    n_samples: int,
    budget: Any,
    n_steps: int | None,
    n_draws: int | None,
    burn_in: float,
) -> GibbsPlan:
    """Plan a search and sweeps.

    Parameters
    ----------
    sampler : Gibbs
    model : MixtureModel
    n_samples : int
    budget : Budget
        Without privacy.
    n_steps, n_draws : int or None
        Sweeps, and draws to keep.
    burn_in : float
        Fraction of the sweeps before the first draw.

    Returns
    -------
    plan : GibbsPlan

    Raises
    ------
    ValueError
        If there are fewer sweeps than draws.
    """
    bounds, phases = search_phases(model, n_samples, budget)
    length = (n_steps, n_draws, burn_in, N_DRAWS)
    fields = {"model": model, "phases": phases}
    return _made(GibbsPlan, sampler, bounds, n_samples, budget, *length, **fields)


def _made(
    kind, sampler, bounds, n_samples, budget, n_steps, n_draws, burn_in, default_draws, **fields
):
    """A plan of sweeps, as many as its draws need unless their number is given."""
    draws = number_of_draws(n_draws, default_draws, n_steps, burn_in)
    steps = chain_length(n_steps, N_SWEEPS, draws, burn_in, 1.0)
    fields |= {"n_steps": steps, "n_burn_in": math.floor(steps * burn_in), "n_draws": draws}
    return kind.made_for(sampler, bounds, n_samples, budget, **fields)


@options()
class Gibbs(Sampler):
    """Gibbs sampling without privacy, of Gaussian mixtures and of normal responses: the posterior itself.

    For a mixture a sweep allocates every row to a component at random, given the parameters, and draws
    weights, means and precisions from their conditional laws, given the allocations [1]_. It starts where a
    search without noise ends. For a linear model with normal noise of unknown deviation, a sweep draws
    coefficients, the noise and, unless it is given, the prior scale, given sums over the table [2]_. It needs
    ``epsilon=inf``.

    Parameters
    ----------
    n_steps : int or "auto", default="auto"
        Number of sweeps. "auto" is 1000, or as many as the draws need.
    burn_in : float or "auto", default="auto"
        Fraction of the sweeps before the first draw. "auto" is 0.25.

    References
    ----------
    .. [1] J. Diebolt and C. P. Robert, "Estimation of finite mixture distributions through Bayesian
       sampling", Journal of the Royal Statistical Society B, 1994.
    .. [2] E. Makalic and D. F. Schmidt, "A simple sampler for the horseshoe estimator", IEEE Signal
       Processing Letters, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.mixture import DPGaussianMixturePosterior
    >>> from skdpbayes.samplers import Gibbs
    >>> X = np.random.default_rng(0).normal([[-1.0], [1.0]], 0.2, size=(2, 500)).reshape(-1, 1)
    >>> gibbs = Gibbs(n_steps=400)
    >>> mixture = DPGaussianMixturePosterior(2, epsilon=np.inf, data_norm=2.0, sampler=gibbs)
    >>> mixture.fit(X).means_.round(1).ravel().tolist() in ([-1.0, 1.0], [1.0, -1.0])
    True
    """

    name = "gibbs"
    targets = frozenset({"mixture", "normal"})
    takes_weights = True
    _parameter_constraints = {name: CONSTRAINTS[name] for name in ("n_steps", "burn_in")}

    n_steps: int | str = "auto"
    burn_in: float | str = "auto"

    def plan(
        self,
        bounds: Any,
        n_samples: int,
        budget: Any,
        *,
        n_draws: int | None = None,
    ) -> Any:
        """Plan sweeps; see `Sampler.plan`. For mixtures it takes a ``MixtureModel`` instead of bounds.

        Raises
        ------
        ValueError
            If the budget is finite, an option is out of range, or if the options cannot all hold.
        """
        if not isinstance(bounds, MixtureModel):
            return super().plan(bounds, n_samples, budget, n_draws=n_draws)
        self._validate_params()
        model = bounds.checked()
        check_public(statistics_bounds(model), n_samples, budget, n_draws)
        self._check_not_private(budget, lambda other: "mixture" in other.targets)
        made_by = freeze_sampler(clone(self))
        return plan_gibbs(made_by, model, n_samples, budget, *self._length(n_draws))

    def _plan(self, bounds, n_samples, budget, n_draws):
        family = bounds.family
        if family is None or not family.has_unknown_error_sd:
            raise ValueError(
                f"sampler={self.name!r} is for mixtures, and for numbers whose noise is not known: take "
                "sampler='auto'."
            )
        if family.clip < family.half_width:
            raise ValueError(f"sampler={self.name!r} does not clip residuals: leave clip out.")
        self._check_not_private(budget, lambda other: "normal" in other.targets)
        return plan_normal(self, bounds, n_samples, budget, *self._length(n_draws))

    def _length(self, n_draws):
        """(sweeps, draws, share of burn-in)."""
        steps, burn_in = resolve_auto(self.n_steps, int), resolve_auto(self.burn_in, float)
        return steps, n_draws, BURN_IN if burn_in is None else burn_in

    def _check_not_private(self, budget, holds):
        if budget.is_private:
            private = samplers_with(lambda other: holds(other) and other.is_calibrated)
            others = f"sampler='auto' or {private}, or " if private else ""
            raise ValueError(
                f"sampler={self.name!r} is without privacy, which epsilon={budget.epsilon:g} asks for: take "
                f"{others}epsilon=inf."
            )

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another table."""
        (check_plan_matches_target if isinstance(plan, NormalGibbsPlan) else check_table)(
            plan, target
        )

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Search for a start, and sweep."""
        if isinstance(plan, NormalGibbsPlan):
            return run_normal(plan, target, generator)

        return run_gibbs(plan, target, generator, verbose)


# Gibbs sampling: sweeps over the table from a start that a search without noise finds.
#
#     z_i | theta ~ r(x_i),      theta | z     (`draw_parameters`)
#
# Rows keep their allocations, which are drawn anew at the next sweep: only sums over the rows of each
# component come back, wherever the rows are (`skdpbayes.models.mixture`).


def run_gibbs(plan: Any, table: Any, generator: np.random.Generator, verbose: int) -> Released:
    """Carry out a `GibbsPlan`. **Draws are not private.**"""
    releases = StatisticsReleases(table, plan.n_samples, generator)
    with progress_bar(plan.start_passes, "start", verbose) as advance:
        groups = find_groups(plan.model, plan.phases, releases, plan.n_samples, advance)
    sweeps = Sweeps(plan, table, starting_components(plan.model, *groups), generator)
    work = plan.n_samples * sweeps.allocations.size
    run_in_blocks(sweeps.advance, plan, work, verbose, plan.name)
    return Released(np.array(sweeps.draws), plan)


class Sweeps:
    """A chain of sweeps, and the draws that it has kept.

    Parameters
    ----------
    plan : GibbsPlan
    table : MixtureTable
    start : Components
    generator : numpy.random.Generator
    """

    def __init__(self, plan: Any, table: Any, start: Components, generator: np.random.Generator):
        self.model, self.at, self.generator = plan.model, start, generator
        self.allocations = Allocations(table, plan.n_samples, start)
        self.draws: list[np.ndarray] = []
        self._kept = set(plan.kept_steps().tolist())
        self._found: Statistics | None = None

    def advance(self, first: int, stop: int, loop: int) -> bool:
        """Make some sweeps; ``loop`` is as for `run_in_blocks`."""
        for step in range(first, stop):
            # A single component always has the same rows.
            if self._found is None or self.model.n_components > 1:
                self._found = self.allocations.draw(self.at, self.generator, loop)
            self.at = draw_parameters(self.model, self._found, self.at.factors, self.generator)
            if step in self._kept:
                self.draws.append(pack_mixture(self.at, self.model))
        return False


class Allocations:
    """Allocates the rows of a table to components, again and again.

    Parameters
    ----------
    table : MixtureTable
    public_size : int
        By which sums are cut into chunks.
    components : Components
        Of the shape of all that rows are allocated to.
    """

    def __init__(self, table: Any, public_size: int, components: Components):
        self.size = statistics_size(*components.means.shape, components.factors.ndim == 3)
        table = map_records(allocated, table, numbered=True)
        self._oracle, _ = gradient_oracle(table, self.size, public_size, sums_only=True)

    def draw(
        self, components: Components, generator: np.random.Generator, loop: int = 0
    ) -> Statistics:
        """The statistics of all components, of rows that are allocated at random.

        ``loop`` is the address of the loop over several cores, or zero for one.
        """
        key = generator.integers(2**32, size=KEY_LENGTH)  # Without privacy.
        vector = np.concatenate([components.as_vector(), key.astype(np.float64)])
        return Statistics.of_vector(sums_at(self._oracle, vector, loop), components)
