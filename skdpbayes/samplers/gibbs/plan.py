"""Plans of Gibbs sampling without privacy: a search and sweeps over a table, or sweeps over its sums.

n_steps sweeps,   the first burn_in of them left out,   n_draws of the others, evenly spaced
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...privacy.cost import PrivacyCost
from ...targets import MOMENT_ROWS
from .._chain_length import chain_length, number_of_draws
from .._plan import Plan
from ..mixture.plan import N_DRAWS, MixturePlan, search_phases

N_SWEEPS, BURN_IN = 1000, 0.25
# Seconds of a sweep beside those for reading rows, and operations on matrices per second: guesses.
_SWEEP_SECONDS, _OPERATIONS = 3e-4, 5e9
# Draws of a normal linear model, which are nearly independent.
_NORMAL_DRAWS = 1000


class _Sweeping(Plan):
    """What plans of sweeps have in common."""

    @property
    def mu_of_replacing(self) -> float:
        """``mu`` where one row is replaced by another."""
        return math.inf

    def kept_steps(self) -> np.ndarray:
        """Return the sweeps after which parameters are kept."""
        after = self.n_steps - self.n_burn_in
        return self.n_burn_in + np.arange(1, self.n_draws + 1) * after // self.n_draws - 1

    def summary(self) -> dict[str, str]:
        """Return the lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        lines["temperature"] = "1: the posterior, without privacy"
        return lines


@dataclass(frozen=True, kw_only=True)
class GibbsPlan(_Sweeping, MixturePlan):
    """A plan for the posterior of a mixture without privacy."""

    @property
    def estimated_seconds(self) -> float:
        """A rough guess of the run time on one core."""
        return super().estimated_seconds + self.n_steps * _SWEEP_SECONDS


@dataclass(frozen=True, kw_only=True)
class NormalGibbsPlan(_Sweeping):
    """A plan for the posterior of a normal linear model without privacy; sweeps read no records."""

    @property
    def record_gradients(self) -> float:
        """How many gradients of single records are expected to be computed."""
        return float(self.n_samples)

    @property
    def estimated_seconds(self) -> float:
        """A rough guess of the run time on one core."""
        d = float(self.n_parameters)
        return (self.n_samples * d**2 + self.n_steps * d**3) / _OPERATIONS + 1e-4 * self.n_steps

    @property
    def memory_bytes(self) -> float:
        """Memory that a run needs beside the table."""
        d = self.n_parameters
        return 8.0 * (self.n_draws * (d + 2) + 6 * d**2 + MOMENT_ROWS * d)

    def summary(self) -> dict[str, str]:
        """Return the lines of the printed plan, a dict of {name: text}."""
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
    own = {"model": model, "phases": phases}
    return _made(GibbsPlan, sampler, bounds, n_samples, budget, *length, **own)


def _made(
    kind, sampler, bounds, n_samples, budget, n_steps, n_draws, burn_in, default_draws, **own
):
    """Return a plan of sweeps, as many as its draws need unless their number is given."""
    draws = number_of_draws(n_draws, default_draws, n_steps, burn_in)
    steps = chain_length(n_steps, N_SWEEPS, draws, burn_in, 1.0)
    return kind(
        sampler=sampler,
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=PrivacyCost(budget.neighboring_relation, mu=math.inf),
        temperature=1.0,
        n_steps=steps,
        n_burn_in=math.floor(steps * burn_in),
        n_draws=draws,
        **own,
    )
