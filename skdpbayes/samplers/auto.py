"""Choosing a sampler from public quantities.

Logistic regression of a stated size has a noise-aware posterior, and regression with normal errors or with
counts one from clipped residuals. Their draws are calibrated. They are chosen if no option is set that only
chains have: a temperature, a number of steps, batches. Without privacy, where those of labels and counts are
the posterior itself, numbers whose noise is not known have Gibbs sampling.

Otherwise the choice is a chain. Fisher scoring pays once the matrix that it releases says more than its
noise: the second moments of the rows have a mean eigenvalue of at most ``n R^2 / d``, their noise a norm of
about ``nu = sqrt(2 d) sigma``. It is chosen where

    n R^2 / d >= nu / 2,        i.e.  n mu >= sqrt(5) d^(3/2),

unless an underdamped chain in the coordinates as they are (SGHMC) is hardly tempered, so that there is
nothing to gain, or batches would be hotter in whitened coordinates than in the usual ones, or the target is
not for Fisher scoring. SGHMC is chosen in these cases, and where the inequality does not hold. Without
privacy the matrix costs nothing, and Fisher scoring takes the fewest steps.

Mixtures have the noise-aware posterior, and without privacy Gibbs sampling.
"""

import math
from typing import Any

from ..models.families import Normal
from .base import CONSTRAINTS, TemperedSampler, options
from .gibbs import Gibbs
from .langevin import SGHMC
from .langevin.fisher import SGFS, FisherPlan
from .statistics import ClippedResiduals, NoiseAware
from .statistics.sampler import is_default_for_labels, is_default_for_numbers

__all__ = ["Auto"]

# Samplers of posteriors given statistics, each with the function that tells whether it is for some bounds.
_POSTERIORS = (
    (NoiseAware, is_default_for_labels),
    (ClippedResiduals, is_default_for_numbers),
)

# The choice if no posterior given statistics is for a target.
CHAINS = (SGFS, SGHMC)

# Least average of the second moment's diagonal, over its noise, for which whitened coordinates are worth
# their cost.
_LEAST_SIGNAL = 0.5
# Temperature of the plain chain up to which whitening has nothing to gain.
_HARDLY_TEMPERED = 6.0
# A matrix of this many rows and columns takes a second or two to decompose.
_LARGEST_MATRIX = 2000


@options()
class Auto(TemperedSampler):
    """`NoiseAware` or `ClippedResiduals`, or a chain: `SGFS` if it is likely to pay, otherwise `SGHMC`.

    `NoiseAware` is for logistic regression, `ClippedResiduals` for regression with normal errors or counts.

    Setting any option selects a chain, except a temperature of 1, which is that of the posterior itself.
    Mixtures have no such options: they are for `NoiseAware`, or `Gibbs` without privacy.

    Parameters
    ----------
    temperature, n_steps, friction, batch_size, burn_in
        As for `SGHMC`.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import Auto
    >>> from skdpbayes.models import Logistic, TargetBounds
    >>> bounds = TargetBounds(20, 1.0, 0.25, (0.1, 0.1), row_norm=1.0, family=Logistic())
    >>> Auto().plan(bounds, 100_000, Budget(1.0, 1e-6)).name
    'noise_aware'
    >>> [Auto(burn_in=0.5).plan(bounds, n, Budget(1.0, 1e-6)).name for n in (100, 100_000)]
    ['sghmc', 'sgfs']
    """

    name = "auto"
    targets = frozenset({"linear", "mixture", "network", "normal"})
    wants_equal_precisions = False
    takes_weights = True
    _parameter_constraints = {
        name: CONSTRAINTS[name]
        for name in ("temperature", "n_steps", "friction", "batch_size", "burn_in")
    }

    friction: float | str = "auto"
    batch_size: int | str | None = "auto"
    burn_in: float | str = "auto"

    def _for_chains(self):
        """The names of options that are set and that only chains have."""
        params = self.get_params(deep=False).items()
        return [
            name
            for name, value in params
            if value != "auto" and (name, value) != ("temperature", 1)
        ]

    def _plan(self, bounds, n_samples, budget, n_draws):
        params = self.get_params(deep=False)
        if not self._for_chains():
            for posterior, is_for in _POSTERIORS:
                if is_for(bounds) and (budget.is_private or not isinstance(bounds.family, Normal)):
                    return posterior().plan(bounds, n_samples, budget, n_draws=n_draws)
        if bounds.has_unknown_error_sd:
            return self._for_unknown_error_sd(budget).plan(
                bounds, n_samples, budget, n_draws=n_draws
            )
        plain = SGHMC(**params).plan(bounds, n_samples, budget, n_draws=n_draws)
        # Without privacy it is the Hessian of all parameters that is decomposed.
        length = bounds.block_length if budget.is_private else bounds.n_parameters
        if length > _LARGEST_MATRIX or bounds.row_norm is None or bounds.max_weight is not None:
            return plain
        plan = SGFS(**params).plan(bounds, n_samples, budget, n_draws=n_draws)
        if not budget.is_private:
            return plan
        if self.temperature == "auto" and plain.temperature <= _HARDLY_TEMPERED:
            return plain
        assert isinstance(plan, FisherPlan)
        if plan.nominal_temperatures and plan.nominal_temperatures[0] > plain.temperature:
            return plain
        average = n_samples * bounds.row_norm**2 / bounds.block_length
        noise = math.sqrt(2.0 * bounds.block_length) * plan.moment_noise
        return plan if average >= _LEAST_SIGNAL * noise else plain

    def _for_unknown_error_sd(self, budget):
        """The sampler for numbers whose noise is not known, with the number of columns for which it can."""
        if self._for_chains():
            raise ValueError(
                f"{', '.join(self._for_chains())}: sampler='auto' has no such options for numbers whose "
                "noise is not known: leave them out, or without privacy set those of sampler='gibbs'."
            )
        return ClippedResiduals() if budget.is_private else Gibbs()

    def for_mixture(self, budget: Any) -> Any:
        """`NoiseAware`, or `Gibbs` without privacy."""
        if self._for_chains():
            raise ValueError(
                f"{', '.join(self._for_chains())}: sampler='auto' has no such options for mixtures: leave "
                "them out, or without privacy set those of sampler='gibbs'."
            )
        return NoiseAware() if budget.is_private else Gibbs()
