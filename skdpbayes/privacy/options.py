"""What a user may fix of a chain, and what of it is out of range by itself."""

import math
from typing import NamedTuple


class SamplerOptions(NamedTuple):
    """What a user may fix; ``None`` leaves it to the rule.

    Attributes
    ----------
    temperature : float or None
        At least 1.
    step_size : float or None
        First step size.
    step_decay : float
        ``a`` in ``eta_k = eta_1 k^-a``, in [0, 1).
    n_steps : int or None
        Number of updates.
    burn_in : float or None
        Fraction of the updates before the first draw.
    n_draws : int or None
        Draws kept.
    batch_size : int or None
        Expected size of a Poisson batch; size of a cyclic batch where only last states are released.
        None is the full table.
    init : {"zeros", "ops"}
        Where a path starts: at zero, or at a posterior sample that is released, too.
    init_share : float or None
        Share of ``mu^2`` that this sample may cost, in (0, 1); None gives it the path's temperature.
    friction : float or None
        Share of the velocity that a step of an underdamped chain loses, in (0, 1].
    proposal : {"sphere", "gaussian"}
        Law of Metropolis' proposals: at a fixed distance, or Gaussian.
    adapt_step_size : bool
        Whether Metropolis' step size follows the accept bits of the burn-in.
    noise_multiplier : float or None
        Deviation of the noise on Metropolis' log ratio over its sensitivity, positive.
    max_batch_size : int or None
        Where a Poisson batch would have more records on average, Metropolis takes the whole table.
    n_effective : int or None
        Effective sample size at which Metropolis' chain is to end, where the budget allows it.
    initial_scale : float or None
        Deviation at which a variational posterior's start, over the prior's, in (0, 1].
    """

    temperature: float | None = None
    step_size: float | None = None
    step_decay: float = 0.0
    n_steps: int | None = None
    burn_in: float | None = None
    n_draws: int | None = None
    batch_size: int | None = None
    init: str = "zeros"
    init_share: float | None = None
    friction: float | None = None
    proposal: str = "sphere"
    adapt_step_size: bool = False
    noise_multiplier: float | None = None
    max_batch_size: int | None = None
    n_effective: int | None = None
    initial_scale: float | None = None

    def refuse(self, names, why):
        """Raise a ValueError if one of the named options is not left as it is by default."""
        for name in names:
            value = getattr(self, name)
            if value != self._field_defaults[name]:
                raise ValueError(f"{name}={value!r} {why}")


def check_options(bounds, n_samples, budget, options):
    """Raise a ValueError that names an option that is out of range for a Langevin chain by itself."""
    check_common_options(bounds, n_samples, budget, options)
    options.refuse(
        ("proposal", "adapt_step_size", "noise_multiplier", "max_batch_size", "n_effective"),
        "is for the samplers of Metropolis' family, e.g. sampler='dp_fast_mh'.",
    )
    if budget.delta == 0 and not math.isinf(budget.epsilon):
        raise ValueError(
            "delta=0 asks for pure differential privacy, and Langevin samplers ('sgld', 'sghmc', ...) add "
            "Gaussian noise, which has none: give a delta in (0, 1), e.g. delta=None for the default, or "
            "take sampler='dp_fast_mh'."
        )


def check_common_options(bounds, n_samples, budget, options):
    """Raise a ValueError that names an option that is out of range for any chain."""
    check_ranges(bounds, n_samples, budget, options)
    options.refuse(
        ("initial_scale",),
        "is where the deviations of a variational posterior start, and chains have none: leave it out, "
        "or take sampler='bbb'.",
    )


def check_ranges(bounds, n_samples, budget, options):
    """Raise a ValueError that names an option that is out of range whatever the sampler."""
    bounds.checked()
    budget.checked()
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}.")
    if options.batch_size is not None and not 1 <= options.batch_size <= n_samples:
        raise ValueError(
            f"batch_size={options.batch_size} must be between 1 and the table's public size, "
            f"{n_samples}; batch_size=None takes the full table."
        )
    if options.temperature is not None and not 1 <= options.temperature < math.inf:
        raise ValueError(f"temperature must be at least 1, got {options.temperature}.")
    if not 0 <= options.step_decay < 1:
        raise ValueError(f"step_decay must be in [0, 1), got {options.step_decay}.")
    if options.burn_in is not None and not 0 <= options.burn_in < 1:
        raise ValueError(f"burn_in is a fraction in [0, 1), got {options.burn_in}.")
    for name in ("n_steps", "n_draws", "n_effective", "max_batch_size"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    if options.friction is not None and not 0 < options.friction <= 1:
        raise ValueError(f"friction must be in (0, 1], got {options.friction}.")
    if options.init not in ("zeros", "ops"):
        raise ValueError(f"init must be 'zeros' or 'ops', got {options.init!r}.")
    if options.init_share is not None and not 1e-6 <= options.init_share < 1:
        raise ValueError(f"init_share must be in (0, 1), at least 1e-6, got {options.init_share}.")
    if options.init_share is not None and options.init == "zeros":
        raise ValueError(f"init_share={options.init_share} is for release='path' and init='ops'.")
