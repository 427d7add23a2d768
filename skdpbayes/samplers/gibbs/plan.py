"""Plans of Gibbs sampling: a search for a start, and sweeps over the table, without privacy.

n_steps sweeps,   the first burn_in of them left out,   n_draws of the others, evenly spaced
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...privacy.cost import PrivacyCost
from ..langevin.paid_noise import chain_length
from ..langevin.schedule import number_of_draws
from ..mixture.plan import N_DRAWS, MixturePlan, search_phases

N_SWEEPS, BURN_IN = 1000, 0.25
# Seconds of a sweep beside those for reading rows: a guess.
_SWEEP_SECONDS = 3e-4


@dataclass(frozen=True, kw_only=True)
class GibbsPlan(MixturePlan):
    """A plan for the posterior of a mixture without privacy."""

    @property
    def mu_of_replacing(self) -> float:
        """``mu`` of another row in the place of one."""
        return math.inf

    @property
    def estimated_seconds(self) -> float:
        """A rough guess of the run time on one core."""
        return super().estimated_seconds + self.n_steps * _SWEEP_SECONDS

    def kept_steps(self) -> np.ndarray:
        """Return the sweeps after which parameters are kept."""
        after = self.n_steps - self.n_burn_in
        return self.n_burn_in + np.arange(1, self.n_draws + 1) * after // self.n_draws - 1

    def summary(self) -> dict[str, str]:
        """Return the lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        lines["temperature"] = "1: the posterior, without privacy"
        return lines


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
    draws = number_of_draws(n_draws, N_DRAWS, n_steps, burn_in)
    steps = chain_length(n_steps, N_SWEEPS, draws, burn_in, 1.0)
    return GibbsPlan(
        sampler=sampler,
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=PrivacyCost(budget.neighboring_relation, mu=math.inf),
        model=model,
        phases=phases,
        temperature=1.0,
        n_steps=steps,
        n_burn_in=math.floor(steps * burn_in),
        n_draws=draws,
    )
