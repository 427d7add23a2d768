"""Plans for mixtures: a search for groups, and rounds of statistics in components' own coordinates.

For rows in the unit ball

    S_k = sum_i r_k(x_i) (1, x_i, x_i^2),     sum_k r_k = 1,     |(1, x, x^2)|^2 <= 3.

One record moves them by at most ``sqrt(3)``, under ``replace_one`` by ``sqrt(6)``: ``1 + x.x' +
x^2.x'^2 >= 0`` for rows in the unit ball, so that two records' statistics are never at an obtuse angle.
The search is a fixed number of passes, each of which releases all statistics with Gaussian noise, in two
phases:

- cells: the table is cut into ``CELLS K`` cells, by splitting those of largest spread, and by Lloyd's
  steps;
- soft: expectation maximisation with a component for each cell; then components are merged down to
  ``K``.

It is ``mu``-GDP with ``mu^2 = sum_phases T (Delta / sigma)^2``, all of it fixed beforehand. What comes after
it, `RoundsPlan` and `skdpbayes.samplers.gibbs` say.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...exceptions import PosteriorWarning
from ...models import TargetBounds
from ...models.mixture import STATISTICS_NORM, MixtureModel
from ...privacy.cost import PrivacyCost
from ...privacy.rounding import sum_inflation
from ..noise import sensitivity_after_rounding
from ..plan import Plan

# How many cells there are for a component, and how often Lloyd's steps are taken when all are there.
CELLS = 4
LLOYD = 2
SOFT_PASSES = 12
# Shares of mu^2 of the phases, and of a single component's first noisy sum: it needs no search.
SHARES = {"cells": 0.12, "soft": 0.23}
SHARE_OF_FIRST_ROUND = 0.05
# Seconds of a row for each component, and for each entry of its factor: guesses.
_COMPONENT_SECONDS = 3e-8
_ENTRY_SECONDS = 3e-9
N_DRAWS = 100
# How much more statistics can err, relative to gradients, than sums of gradients.
_STATISTICS_ROUNDING = 8.0


@dataclass(frozen=True)
class Phase:
    """A part of the search.

    Attributes
    ----------
    name : str
        What it is for.
    n_passes : int
        Over the table.
    noise_scale : float
        Standard deviation of the noise on statistics of rows in the unit ball.
    mu : float or None
        What a pass costs.
    """

    name: str
    n_passes: int
    noise_scale: float
    mu: float | None = None


@dataclass(frozen=True, kw_only=True)
class MixturePlan(Plan):
    """A plan for a mixture.

    Attributes
    ----------
    model : MixtureModel
        The mixture and its prior.
    phases : tuple of Phase
        The search.
    """

    model: MixtureModel
    phases: tuple[Phase, ...]

    _is_user_defined = False

    @property
    def start_passes(self):
        """The number of passes over the table that the search takes."""
        return sum(phase.n_passes for phase in self.phases)

    @property
    def record_gradients(self):
        """The number of records that are read, repeated reads included."""
        return super().record_gradients + self.start_passes * self.n_samples

    @property
    def estimated_seconds(self):
        """A rough guess of the run time."""
        model = self.model
        entries = model.n_features * (model.n_features if model.is_triangular else 1)
        each = _COMPONENT_SECONDS + _ENTRY_SECONDS * entries
        return (self.start_passes + self.n_steps) * self.n_samples * model.n_components * each

    @property
    def n_updates(self):
        """Updates in all, those of the search included."""
        return self.n_steps + self.start_passes

    def summary(self):
        """The lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        lines["start"] = ", ".join(f"{p.n_passes} passes to {p.name}" for p in self.phases)
        return lines


def statistics_bounds(model):
    """The bounds of statistics' sums, by which a search is accounted for."""
    return TargetBounds(model.n_parameters, STATISTICS_NORM, 1.0, (1.0, 1.0))


def search_shares(model):
    """The phases' shares of ``mu^2``."""
    return {"cells": SHARE_OF_FIRST_ROUND} if model.n_components == 1 else SHARES


def search_phases(model, n_samples, budget):
    """(bounds of statistics, phases of the search).

    Parameters
    ----------
    model : MixtureModel
    n_samples : int
    budget : Budget
    """
    cells = math.ceil(math.log2(CELLS * model.n_components)) + 1 + LLOYD
    passes = {"cells": 1} if model.n_components == 1 else {"cells": cells, "soft": SOFT_PASSES}
    bounds, shares = statistics_bounds(model), search_shares(model)
    rounding = sum_inflation(n_samples, bounds.n_parameters, budget.neighboring_relation) - 1.0
    inflation = 1.0 + _STATISTICS_ROUNDING * rounding
    sensitivity = math.sqrt(budget.sensitivity_factor) * STATISTICS_NORM * inflation
    # Statistics of all cells are one vector, rounded to the lattice of its noise.
    triangular = model.n_features * (model.n_features + 3) // 2 + 1
    size = CELLS * model.n_components * triangular
    phases = []
    for name, count in passes.items():
        mu = math.sqrt(shares[name] / count) * budget.mu
        noise = (
            sensitivity / sensitivity_after_rounding(1.0 / mu, size) if budget.is_private else 0.0
        )
        phases.append(Phase(name, count, noise, mu))
    return bounds, tuple(phases)


# Scales of a record's statistics in a component's own coordinates, from public sizes alone.
#
#     (c_0 r, c_1 r z, c_2 r z z^T),    norm B


class Scales(NamedTuple):
    """``c_0, c_1, c_2`` and ``B``."""

    count: float  # type: ignore[assignment]  # Nobody counts entries of this tuple.
    mean: float
    second: float
    norm: float

    def are_acute(self, covariance_type, n_features):
        """Whether no two records' statistics can be at an obtuse angle."""
        columns = n_features if covariance_type == "diag" else 1
        return columns * self.mean**4 <= 4.0 * self.count**2 * self.second**2


# Of the statistics themselves.
UNSCALED = Scales(1.0, 1.0, 1.0, math.inf)


def scales_for(covariance_type, n_features, reach):
    """`Scales` for rows that are within ``reach`` standard deviations of what is usual.

    They share what noise costs in likelihood among weights, means and covariances about as is best, and keep
    ``c_0 >= sqrt(d) c_1^2 / (2 c_2)``, without ``sqrt(d)`` where covariances are matrices or spherical: then
    two records' statistics are never at an obtuse angle.
    """
    d, diagonal = n_features, covariance_type == "diag"
    square = d + reach * math.sqrt(2.0 * d)
    fourth = 3.0 * d + reach * math.sqrt(96.0 * d) if diagonal else square**2
    entries = {"diag": d / 4.0, "spherical": d**2 / 4.0}.get(covariance_type, d * (d + 1) / 8.0)
    mean, second = (0.5 * d / square) ** 0.25, (entries / fourth) ** 0.25
    least = (math.sqrt(d) if diagonal else 1.0) * mean**2 / (2.0 * second)
    count = max(math.sqrt(0.7), least * (1.0 + 1e-9))
    norm = math.sqrt(count**2 + mean**2 * square + second**2 * fourth)
    return Scales(count, mean, second, norm)


def statistics_length(covariance_type, n_features):
    """Number of numbers a component's statistics have."""
    d = n_features
    second = {"diag": d, "spherical": 1}.get(covariance_type, d * (d + 1) // 2)
    return 1 + d + second


# Plans for a mixture's posterior given what was released.
#
#     search    cells and components of the unit ball                     share .35 of mu^2
#     S^(1..6)  statistics in the components' own coordinates             the rest, growing 1.6 times each
#
# A record moves statistics in components' own coordinates by at most ``B``, a replaced one by
# ``sqrt(2) B``, whatever the components are (`scales`). One component needs no search but a first
# noisy sum, and more rounds: its columns may be correlated in ways that only the next round sees.


N_ROUNDS = 6
ROUND_GROWTH = 1.6
N_ROUNDS_OF_ONE = 8
GROWTH_OF_ONE = 1.4
# Rounds on which the posterior is conditioned.
N_TOGETHER = 3
# Records count less beyond these distances, in deviations more than is usual: with several components, with a
# single one, which has to describe tails as well, and in the last rounds where noise costs no more than the
# fourth number in log density of a row.
REACH = 3.0
REACH_OF_ONE = 4.0
LONG_REACH = 6.0
_CHEAP = 1e-3
# A release is of up to so many numbers.
LARGEST_MIXTURE_SIZE = 3000
# Components are mostly found where a cell has this many times as many records as its noise has deviation.
_FOUND = 2.0


# Run time of each type of covariances, relative to that of full ones about.
_SECONDS_BY_TYPE = {"full": 0.9, "tied": 1.7, "diag": 0.6, "spherical": 0.6}


@dataclass(frozen=True, kw_only=True)
class RoundsPlan(MixturePlan):
    """A plan for a mixture's posterior given what is released.

    Attributes
    ----------
    round_multipliers : tuple of float
        Noise multipliers of the rounds.
    scales : tuple of Scales
        Of their statistics.
    most_components : int or None
        Up to how many components are chosen by what is released, if they are.
    """

    round_multipliers: tuple
    scales: tuple
    most_components: int | None = None

    warning_category = PosteriorWarning

    def with_components(self, n_components):
        """The plan with another number of components, which costs the same."""
        model = self.model._replace(n_components=n_components)
        scales = _scales(model, self.n_samples, self.budget, self.round_multipliers)
        return self.changed(model=model, bounds=statistics_bounds(model), scales=scales)

    @property
    def mu_of_replacing(self):
        """``mu`` where one row is replaced by another; the statistics of two form no obtuse angle."""
        kind, d = self.model.covariance_type, self.model.n_features
        is_acute = all(scales.are_acute(kind, d) for scales in self.scales)
        return (math.sqrt(2.0) if is_acute else 2.0) * self.cost.mu

    @property
    def is_calibrated(self):
        """Whether draws are a posterior that knows what privacy hides."""
        return True

    @property
    def estimated_seconds(self):
        """A rough guess of the run time, that for drawing included."""
        passes = self.start_passes + self.n_steps
        reading = 1.7e-7 * passes * self.n_samples * self.model.n_components
        return _SECONDS_BY_TYPE[self.model.covariance_type] * (reading + 0.033 * self.n_parameters)

    @property
    def n_together(self):
        """On how many of the last rounds the posterior is conditioned."""
        return N_TOGETHER

    @property
    def interval_inflation(self):
        """The approximate factors by which privacy widens intervals: of weights, means, and covariances.

        For components of equal weight that are apart. On a component's ``N`` records a count, a mean and a
        variance have standard errors of ``sqrt(N)``, ``sqrt(N)`` and ``sqrt(2 N)``, in units of ``t``.
        """
        count = self.n_samples / self.model.n_components
        noise = self.noise_together
        last = self.scales[-1]
        sides = ((last.count, 1.0), (last.mean, 1.0), (last.second, 2.0))
        return tuple(
            math.sqrt(1.0 + noise**2 / (scale**2 * times * count)) for scale, times in sides
        )

    @property
    def noise_together(self):
        """Deviation of the noise on statistics, that of all rounds together."""
        each = [
            scales.norm * multiplier
            for scales, multiplier in zip(self.scales, self.round_multipliers, strict=True)
        ]
        last = np.array(each[-self.n_together :])
        return math.sqrt(self.budget.sensitivity_factor / np.sum(last**-2.0))

    @property
    def supported_components(self):
        """Up to how many components are found as a rule, if they are apart and equally large."""
        cells = self.phases[0]
        if self.model.n_components > 1:
            return int(self.n_samples / (_FOUND * 4.0 * cells.noise_scale))
        return 1

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        supported, wanted = max(self.supported_components, 1), self.model.n_components
        if wanted <= supported or self.most_components is not None:
            return super().warnings
        return (
            *super().warnings,
            f"n_components={wanted} is more than {self.n_samples:,} rows can tell apart at epsilon="
            f"{self.budget.epsilon:g}, which is about {supported}: noise hides groups of so few rows. "
            "Take fewer "
            "components, more rows, or a larger epsilon.",
        )

    def summary(self):
        """The lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        scales = (f"{phase.noise_scale:.4g}" for phase in self.phases)
        lines["noise on statistics"] = ", ".join(scales)
        lines["temperature"] = "1: the posterior given what is released, noise included"
        if self.most_components is not None:
            n_components, most = self.model.n_components, self.most_components
            chosen = "" if n_components == most else f"{n_components} of "
            lines["components"] = f"{chosen}up to {most}, chosen by what is released"
        lines["steps"] = f"{self.n_steps} rounds in the components' own coordinates"
        search = SHARE_OF_FIRST_ROUND if len(self.phases) == 1 else sum(SHARES.values())
        lines["spent on"] = f"search {search:.0%}, rounds {1 - search:.0%} of mu^2"
        weights, means, covariances = self.interval_inflation
        lines["intervals"] = (
            f"about {weights:.2g} (weights), {means:.2g} (means) and {covariances:.2g} (covariances) times "
            "as wide as without privacy, for equal, well separated components"
        )
        return lines


def plan_rounds(sampler, model, n_samples, budget, n_draws, chooses=False):
    """Share a budget among a search and rounds.

    Parameters
    ----------
    sampler : MixtureSampler
    model : MixtureModel
    n_samples : int
    budget : Budget
    n_draws : int or None
    chooses : bool
        Whether the model's number of components is the largest.

    Returns
    -------
    plan : RoundsPlan

    Raises
    ------
    ValueError
        If there are too many statistics.
    """
    size = release_mean_square(model)
    if size > LARGEST_MIXTURE_SIZE:
        raise ValueError(
            f"n_components={model.n_components} with covariance_type={model.covariance_type!r} of "
            f"{model.n_features} columns have {size:,} statistics, and sampler={sampler.name!r} is for up to "
            f"{LARGEST_MIXTURE_SIZE:,}: take fewer columns or components, or covariance_type='diag'."
        )
    bounds, phases = search_phases(model, n_samples, budget)
    share = sum(search_shares(model).values())
    is_single = model.n_components == 1
    n_rounds, growth = (N_ROUNDS_OF_ONE, GROWTH_OF_ONE) if is_single else (N_ROUNDS, ROUND_GROWTH)
    parts = growth ** np.arange(n_rounds)
    parts *= (1.0 - share) / parts.sum()
    multipliers = tuple((1.0 + 1e-12) / (math.sqrt(part) * budget.mu) for part in parts)
    for value in multipliers:
        sensitivity_after_rounding(value, size)  # Raises where rounding would take too much of it.
    search = share * budget.mu**2
    return RoundsPlan(
        sampler=sampler,
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=PrivacyCost(
            budget.neighboring_relation,
            mu=math.sqrt(search + sum(value**-2.0 for value in multipliers)),
        ),
        model=model,
        phases=phases,
        temperature=1.0,
        n_steps=n_rounds,
        n_burn_in=0,
        n_draws=n_draws or N_DRAWS,
        round_multipliers=multipliers,
        scales=_scales(model, n_samples, budget, multipliers),
        most_components=model.n_components if chooses else None,
    )


def with_fewer(model):
    """A model with as many of its components as a round may release."""
    while model.n_components > 1 and release_mean_square(model) > LARGEST_MIXTURE_SIZE:
        model = model._replace(n_components=model.n_components - 1)
    return model


def release_mean_square(model):
    """Number of numbers a round releases."""
    return model.n_components * statistics_length(model.covariance_type, model.n_features)


def _scales(model, n_samples, budget, multipliers):
    """The `Scales` of every round: the last ones may reach farther."""
    d, kind, count = model.n_features, model.covariance_type, n_samples / model.n_components
    is_single = model.n_components == 1
    near, far = (scales_for(kind, d, r) for r in (REACH_OF_ONE if is_single else REACH, LONG_REACH))
    noise = math.sqrt(budget.sensitivity_factor) * far.norm * multipliers[-1] / count
    entries = {"diag": d / 4.0, "spherical": d / 4.0}.get(kind, d * (d + 1) / 8.0)
    cost = entries * (noise / far.second) ** 2 + 0.5 * d * (noise / far.mean) ** 2
    last = far if is_single or cost < _CHEAP else near
    n_first = len(multipliers) - N_TOGETHER
    return (near,) * n_first + (last,) * N_TOGETHER
