"""Plans for a mixture's posterior given what was released.

    search    cells and components of the unit ball                     share .35 of mu^2
    S^(1..6)  statistics in the components' own coordinates             the rest, growing 1.6 times each

A record moves statistics in components' own coordinates by at most ``B``, a replaced one by ``sqrt(2) B``,
whatever the components are (`scales`). One component needs no search but a first look, and more rounds: its
columns may be correlated in ways that only the next round sees.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...privacy.cost import PrivacyCost
from .._paid_noise import free_shift
from .plan import (
    N_DRAWS,
    SHARE_OF_FIRST_LOOK,
    SHARES,
    MixturePlan,
    search_phases,
    search_shares,
    statistics_bounds,
)
from .scales import scales_for, statistics_length

N_ROUNDS, GROWTH = 6, 1.6
N_ROUNDS_OF_ONE, GROWTH_OF_ONE = 8, 1.4
# Rounds on which the posterior is conditioned.
N_TOGETHER = 3
# Records count less beyond these distances, in deviations more than is usual: with several components, with a
# single one, which has to describe tails as well, and in the last rounds where noise costs no more than the
# fourth number in log density of a row.
REACH, REACH_OF_ONE, LONG_REACH, _CHEAP = 3.0, 4.0, 6.0, 1e-3
# A release is of up to so many numbers.
LARGEST_SIZE = 3000
# Components are mostly found where a cell has this many times as many records as its noise has deviation.
_FOUND = 2.0


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

    def with_components(self, n_components):
        """Return the plan with another number of components, which costs the same."""
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
        """A rough guess of the run time on one core, that for drawing included."""
        passes = self.start_passes + self.n_steps
        return (
            1.7e-7 * passes * self.n_samples * self.model.n_components + 0.033 * self.n_parameters
        )

    @property
    def n_together(self):
        """On how many of the last rounds the posterior is conditioned."""
        return N_TOGETHER

    @property
    def widening(self):
        """How much wider privacy makes intervals, about: of weights, means, and covariances.

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
        return math.sqrt(self.budget.records_moved / np.sum(last**-2.0))

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
        found, wanted = max(self.supported_components, 1), self.model.n_components
        if wanted <= found or self.most_components is not None:
            return super().warnings
        return (
            *super().warnings,
            f"n_components={wanted} is more than {self.n_samples:,} rows can tell apart at epsilon="
            f"{self.budget.epsilon:g}, which is about {found}: noise hides groups of so few rows. "
            "Take fewer "
            "components, more rows, or a larger epsilon.",
        )

    def summary(self):
        """Return the lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        scales = (f"{phase.noise_scale:.4g}" for phase in self.phases)
        lines["noise on statistics"] = ", ".join(scales)
        lines["temperature"] = "1: the posterior given what is released, noise included"
        if self.most_components is not None:
            found, most = self.model.n_components, self.most_components
            chosen = "" if found == most else f"{found} of "
            lines["components"] = f"{chosen}up to {most}, chosen by what is released"
        lines["steps"] = f"{self.n_steps} rounds in the components' own coordinates"
        search = SHARE_OF_FIRST_LOOK if len(self.phases) == 1 else sum(SHARES.values())
        lines["spent on"] = f"search {search:.0%}, rounds {1 - search:.0%} of mu^2"
        weights, means, covariances = self.widening
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
    size = release_size(model)
    if size > LARGEST_SIZE:
        raise ValueError(
            f"n_components={model.n_components} with covariance_type={model.covariance_type!r} of "
            f"{model.n_features} columns have {size:,} statistics, and sampler={sampler.name!r} is for up to "
            f"{LARGEST_SIZE:,}: take fewer columns or components, or covariance_type='diag'."
        )
    bounds, phases = search_phases(model, n_samples, budget)
    share = sum(search_shares(model).values())
    one = model.n_components == 1
    n_rounds, growth = (N_ROUNDS_OF_ONE, GROWTH_OF_ONE) if one else (N_ROUNDS, GROWTH)
    parts = growth ** np.arange(n_rounds)
    parts *= (1.0 - share) / parts.sum()
    multipliers = tuple((1.0 + 1e-12) / (math.sqrt(part) * budget.mu) for part in parts)
    for value in multipliers:
        free_shift(value, size)  # Raises where rounding would take too much of it.
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
    """Return a model with as many of its components as a round may release."""
    while model.n_components > 1 and release_size(model) > LARGEST_SIZE:
        model = model._replace(n_components=model.n_components - 1)
    return model


def release_size(model):
    """Return how many numbers a round releases."""
    return model.n_components * statistics_length(model.covariance_type, model.n_features)


def _scales(model, n_samples, budget, multipliers):
    """Return the `Scales` of every round: the last ones may reach farther."""
    d, kind, count = model.n_features, model.covariance_type, n_samples / model.n_components
    one = model.n_components == 1
    near, far = (scales_for(kind, d, r) for r in (REACH_OF_ONE if one else REACH, LONG_REACH))
    noise = math.sqrt(budget.records_moved) * far.norm * multipliers[-1] / count
    entries = {"diag": d / 4.0, "spherical": d / 4.0}.get(kind, d * (d + 1) / 8.0)
    cost = entries * (noise / far.second) ** 2 + 0.5 * d * (noise / far.mean) ** 2
    last = far if one or cost < _CHEAP else near
    n_first = len(multipliers) - N_TOGETHER
    return (near,) * n_first + (last,) * N_TOGETHER
