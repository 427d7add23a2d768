"""Chains whose noise and number of steps are fixed, and paid for, before their coordinates are known.

Part of a budget releases something (a second moment, a start), the rest buys ``T`` steps at the noise
multiplier ``nu``: a cost that is known beforehand. What was released then decides on coordinates, and
with them on the bound ``G`` of a record's gradient; a step of diffusion time ``eta`` at temperature
``tau`` has the multiplier ``q sqrt(2 tau / eta) / G``, so that

    eta <= 2 tau (q / (nu G))^2,

and the temperature is the lowest from 1 at which the chain gets the time that it wants.
"""

import math

from ...privacy.root_finding import smallest_within
from .._paid_noise import free_shift
from .schedule import Schedule, heat_limited_step, well_damped_step


def schedule_at_noise(chain, noise_multiplier, temperature):
    """Return the schedule of a chain at noise that is paid for.

    Parameters
    ----------
    chain : Chain
        With its number of steps.
    noise_multiplier : float
        What a step's noise is, relative to the bound on a record's gradient; 0 without privacy.
    temperature : float or None
        None is the lowest from 1 at which the wanted step is affordable.

    Returns
    -------
    schedule : Schedule
    """

    def shortage(log_temperature):
        at = math.exp(log_temperature)
        return _wanted_step(chain, at) / _allowed_step(chain, noise_multiplier, at) - 1.0

    if temperature is None:
        affordable = shortage(0.0) <= 0
        temperature = 1.0 if affordable else math.exp(smallest_within(shortage, tolerance=1e-9))
    allowed = _allowed_step(chain, noise_multiplier, temperature)
    return Schedule(temperature, min(_wanted_step(chain, temperature), allowed), chain.n_steps)


def _wanted_step(chain, temperature):
    """Return the diffusion time of a step at which the slowest direction relaxes as is wanted."""
    if not chain.budget.is_private:  # More diffusion time only helps.
        return well_damped_step(chain, temperature)
    longest = chain.dynamics.longest_step(chain.geometry, temperature)
    return min(chain.time(temperature) / chain.n_steps, longest)


def _allowed_step(chain, noise_multiplier, temperature):
    """Return the longest step that noise pays for, and at which batches heat by a stated share at most."""
    paid = affordable_step(
        chain.record_bound,
        chain.sampling_rate,
        chain.bounds.n_parameters,
        noise_multiplier,
        temperature,
    )
    return min(paid, heat_limited_step(chain, temperature))


def affordable_step(record_bound, rate, n_parameters, noise_multiplier, temperature):
    """Return the largest diffusion time of a step that the noise multiplier covers."""
    if noise_multiplier == 0:
        return math.inf
    moved = free_shift(noise_multiplier, n_parameters)
    return 2.0 * temperature * (moved * rate / record_bound) ** 2
