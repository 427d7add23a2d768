"""Choosing a sampler from public quantities.

Logistic regression of a stated size has a noise-aware posterior, whose draws are calibrated, wherever the
budget is finite and nothing is asked for that only chains have: a temperature, a number of steps, batches.

Elsewhere it is a chain. Fisher scoring pays once the matrix that it releases says more than its noise: the
second moments of the rows have a mean eigenvalue of at most ``n R^2 / d``, their noise a norm of about
``nu = sqrt(2 d) sigma``. It is chosen where

    n R^2 / d >= nu / 2,        i.e. about  n mu >= 2 d^(3/2),

and an underdamped chain in the coordinates as they are (SGHMC) elsewhere, where that chain is hardly
tempered, so that there is nothing to gain, where batches would be hotter in whitened coordinates than in the
usual ones, and wherever a target is not for Fisher scoring. Without privacy the matrix costs nothing, and
Fisher scoring takes the fewest steps.

Mixtures have the noise-aware posterior, and Gibbs sampling without privacy.
"""

import math
from typing import Any

from ._protocol import CONSTRAINTS, Sampler, options
from .fisher import SGFS
from .gibbs import Gibbs
from .langevin import SGHMC
from .noise_aware import NoiseAware
from .noise_aware.sampler import is_for

__all__ = ["Auto"]

# What it takes where a posterior given statistics is not for a target.
CHAINS = (SGFS, SGHMC)

_WORTH = 0.5
_HARDLY_TEMPERED = 6.0
# A matrix of this many rows and columns takes a second or two to decompose.
_LARGEST_MATRIX = 2000


@options()
class Auto(Sampler):
    """`NoiseAware` for logistic regression, or a chain: `SGFS` if it is likely to pay, otherwise `SGHMC`.

    Setting a temperature, a number of steps or any option selects a chain. Mixtures have no chains: they are
    for `NoiseAware`, or `Gibbs` without privacy.

    Parameters
    ----------
    friction, batch_size, burn_in
        As for `SGHMC`.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import Auto
    >>> from skdpbayes.targets import Logistic, TargetBounds
    >>> bounds = TargetBounds(20, 1.0, 0.25, (0.1, 0.1), row_norm=1.0, family=Logistic())
    >>> Auto().plan(bounds, 100_000, Budget(1.0, 1e-6)).name
    'noise_aware'
    >>> [Auto(burn_in=0.5).plan(bounds, n, Budget(1.0, 1e-6)).name for n in (100, 100_000)]
    ['sghmc', 'sgfs']
    """

    name = "auto"
    targets = frozenset({"linear", "mixture", "network"})
    wants_equal_precisions = False
    takes_weights = True
    _parameter_constraints = {
        name: CONSTRAINTS[name] for name in ("friction", "batch_size", "burn_in")
    }

    friction: float | str = "auto"
    batch_size: int | str | None = "auto"
    burn_in: float | str = "auto"

    def _plan(self, bounds, n_samples, budget, temperature, n_steps, n_draws):
        own = self.get_params(deep=False)
        chain = (
            temperature not in (None, 1.0) or n_steps is not None or set(own.values()) != {"auto"}
        )
        if not chain and budget.is_private and is_for(bounds):
            return NoiseAware().plan(bounds, n_samples, budget, n_draws=n_draws)
        fixed = {"temperature": temperature, "n_steps": n_steps, "n_draws": n_draws}
        plain = SGHMC(**own).plan(bounds, n_samples, budget, **fixed)
        # Without privacy it is the Hessian of all parameters that is decomposed.
        length = bounds.block_length if budget.is_private else bounds.n_parameters
        if length > _LARGEST_MATRIX or bounds.row_norm is None or bounds.max_weight is not None:
            return plain
        plan = SGFS(**own).plan(bounds, n_samples, budget, **fixed)
        if not budget.is_private:
            return plan
        if temperature is None and plain.temperature <= _HARDLY_TEMPERED:
            return plain
        if plan.nominal_temperatures and plan.nominal_temperatures[0] > plain.temperature:
            return plain
        average = n_samples * bounds.row_norm**2 / bounds.block_length
        noise = math.sqrt(2.0 * bounds.block_length) * plan.moment_noise
        return plan if average >= _WORTH * noise else plain

    def for_mixture(self, budget: Any) -> Any:
        """Return `NoiseAware`, or `Gibbs` without privacy."""
        own = {k: v for k, v in self.get_params(deep=False).items() if v != "auto"}
        if own:
            raise ValueError(
                f"{', '.join(own)}: these are options of chains, which mixtures do not have: leave them out."
            )
        return NoiseAware() if budget.is_private else Gibbs()
