"""Plans for networks: the noise that the budget asks for, and the longest step that is of use with it.

    nu  from the budget, the batches and the number of steps,
    eta = min( S / (n C),  2 (q / (nu C))^2 ),      tau = eta nu^2 C^2 / (2 q^2)

``eta`` is diffusion time per step (``kappa = f eta`` for underdamped chains), ``C`` the norm to which
gradients of records are clipped. The second length is that at which the noise is the posterior's own, at
temperature 1: steps are no longer, because noise would take the weights farther than the posterior does.
The first is what was found to be stable: clipped gradients move nothing by more than ``S`` a step, ``f S``
a change of velocity, whatever the curvature, which no public number of a network bounds to any use. Where
it is the shorter, or what the prior's curvature allows is, the whole budget makes the draws colder than
the posterior (``tau < 1``). With a fixed temperature noise is raised to it, and less is spent.

The likelihood is not convex and gradients are clipped one by one: whole paths are released and accounted
for, hidden states are not. Li, Chen, Liu and Carin (2019); Abadi et al. (2016) for the clipping.
"""

import math
from functools import lru_cache

from .cost import gaussian_mu
from .floating_point import sum_inflation
from .given_noise import GivenNoise, chain_length, free_shift, path_cost, path_multiplier
from .hamiltonian import HamiltonianCalibration
from .langevin_calibration import LangevinCalibration
from .langevin_plans import HamiltonianPlan, LangevinPlan, ThermostatPlan
from .options import SamplerOptions, check_options
from .plan import Plan
from .thermostat import thermostat_gain

NETWORK_SAMPLERS = ("sgld", "sghmc", "sgnht")
N_STEPS, N_STEPS_WITHOUT_PRIVACY = 600, 3000
# Of an underdamped chain's velocity, a step.
FRICTION = 0.1
_SHORTEST_STEP = 1e-30
# S: overdamped, and underdamped.
OVERDAMPED_REACH, UNDERDAMPED_REACH = 20.0, 40.0


class _NetworkPath:
    """What plans for networks say of themselves: nothing of relaxations, which the prior alone decides."""

    @property
    def notes(self):
        """What the user should know before running it, a tuple of str."""
        return Plan.notes.fget(self)

    def _rows(self):
        left_out = ("relaxations", "subsampling", "noise temperature")
        return [row for row in super()._rows() if row[0] not in left_out]


class NetworkLangevinPlan(_NetworkPath, LangevinPlan):
    """A plan for SGLD on a network."""


class NetworkHamiltonianPlan(_NetworkPath, HamiltonianPlan):
    """A plan for SGHMC on a network."""


class NetworkThermostatPlan(_NetworkPath, ThermostatPlan):
    """A plan for SGNHT on a network: ``friction`` is where the thermostat starts."""


class _Overdamped(LangevinCalibration):
    default_burn_in = 0.5
    reach, own_friction = OVERDAMPED_REACH, 1.0


class _Underdamped(HamiltonianCalibration):
    default_burn_in = 0.5
    reach, own_friction = UNDERDAMPED_REACH, FRICTION


_RULES = {"sgld": _Overdamped, "sghmc": _Underdamped, "sgnht": _Underdamped}


@lru_cache(maxsize=512)
def plan_network(bounds, n_samples, budget, options=SamplerOptions(), *, sampler="sghmc"):  # noqa: B008
    """Plan a path of a network's weights that spends a budget.

    Parameters
    ----------
    bounds : TargetBounds
        Of `skdpbayes.targets.mlp_bounds`, or of another target with clipped gradients.
    n_samples : int
        Public size of the table.
    budget : Budget
        Ceiling on the cost.
    options : SamplerOptions, default=SamplerOptions()
        What the user fixes.
    sampler : {"sghmc", "sgld", "sgnht"}, default="sghmc"
        The algorithm.

    Returns
    -------
    plan : HamiltonianPlan, LangevinPlan or ThermostatPlan

    Raises
    ------
    ValueError
        If an option is out of range, or if the options cannot all hold.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget, SamplerOptions, plan_network
    >>> from skdpbayes.targets import mlp_bounds
    >>> bounds = mlp_bounds((169, 128, 10), clip_norm=1.0, prior_precision=1.0)
    >>> options = SamplerOptions(n_steps=300, batch_size=4096)
    >>> plan = plan_network(bounds, 60_000, Budget(2.0, 1e-5, "add_or_remove_one"), options)
    >>> plan.epsilon <= 2.0, plan.temperature < 1.0
    (True, True)
    """
    _check(bounds, n_samples, budget, options, sampler)
    private = not math.isinf(budget.epsilon)
    rule_class = _RULES[sampler]
    steps = chain_length(rule_class, options, N_STEPS if private else N_STEPS_WITHOUT_PRIVACY)
    rule = rule_class(bounds, n_samples, budget, options._replace(n_steps=steps, step_size=None))
    total = gaussian_mu(budget.epsilon, budget.delta)
    multiplier, cost = path_multiplier(bounds, budget, rule.q, steps, total, 0.0)
    inflation = sum_inflation(n_samples, bounds.n_parameters, budget.neighboring_relation)
    chain = GivenNoise(rule, multiplier, steps, inflation)
    friction = rule.own_friction if options.friction is None else options.friction
    step, temperature = _schedule(chain, friction, options)
    used = temperature * chain.affordable_step(1.0) / step
    if private and used > 1.0 + 1e-9:  # More noise than the budget asks for.
        multiplier = _raised(multiplier, used * (1.0 - 1e-9), bounds.n_parameters)
        cost = path_cost(budget.neighboring_relation, rule.q, steps, multiplier)
    common = {
        "sampler": sampler,
        "n_samples": n_samples,
        "bounds": bounds,
        "budget": budget,
        "cost": cost,
        "temperature": temperature,
        "n_steps": steps,
        "n_burn_in": math.floor(steps * rule.burn_in),
        "n_draws": rule.draws,
        "sampling_rate": rule.q,
        "step_size": step,
        "step_decay": 0.0,
        "noise_multiplier": multiplier,
        "wanted_relaxations": 0.0,
    }
    if sampler == "sgld":
        return NetworkLangevinPlan(**common)
    if sampler == "sghmc":
        return NetworkHamiltonianPlan(**common, friction=friction)
    gain = thermostat_gain(friction, temperature)
    return NetworkThermostatPlan(**common, friction=friction, thermostat_gain=gain)


def _schedule(chain, friction, options):
    """Return (diffusion time of a step, temperature)."""
    rule = chain.rule
    # An underdamped chain's reach is of what its velocity adds up to, whatever the friction.
    reach = rule.reach * rule.own_friction / friction
    at_one = chain.affordable_step(1.0)
    fixed = options.temperature
    # In one step the prior alone takes away what it pulls at, and no more.
    stiffest = (1.0 if fixed is None else fixed) * rule.bounds.prior_precision[1]
    longest = min(reach / (rule.n * rule.bounds.gradient_bound), 1.0 / (friction * stiffest))
    if options.step_size is not None:
        step = options.step_size
    else:
        step = min(longest, at_one * (1.0 if fixed is None else fixed))
    needed = 1.0 if math.isinf(at_one) else step / at_one
    temperature = needed if fixed is None else max(needed, fixed)
    _check_step(step, friction, temperature, rule.bounds.prior_precision[1])
    if fixed is not None and needed > fixed * (1.0 + 1e-9):
        raise ValueError(
            f"step_size={step:g} asks for a temperature of {needed:.4g} within this budget, and temperature="
            f"{fixed:g} is lower: leave one of them 'auto'."
        )
    return step, temperature


def _check_step(step, friction, temperature, precision):
    """Refuse steps at which the prior's own pull makes the chain diverge, or that do nothing."""
    if friction * step * temperature * precision > 1.0 + 1e-9:
        raise ValueError(
            f"step_size={step:g} is too long: at temperature {temperature:.3g}, which this budget's noise "
            "makes of it, the prior alone would make the chain diverge: take step_size='auto', or less."
        )
    if step < _SHORTEST_STEP:
        raise ValueError(
            f"step_size={step:g} is too short to be of any use: take step_size='auto'."
        )


def _raised(multiplier, factor, n_parameters):
    """Return the multiplier of noise with ``factor`` times the variance; rounding stays as it is."""
    moved = free_shift(multiplier, n_parameters)
    return 1.0 / (moved / math.sqrt(factor) + (1.0 / multiplier - moved))


def _check(bounds, n_samples, budget, options, sampler):
    if sampler not in NETWORK_SAMPLERS:
        raise ValueError(f"sampler must be one of {NETWORK_SAMPLERS}, got {sampler!r}.")
    check_options(bounds, n_samples, budget, options)
    underdamped = sampler != "sgld"
    options.refuse(
        ("step_decay", "init", *(() if underdamped else ("friction",))),
        f"does not go with sampler={sampler!r} of networks: leave it out.",
    )
    if options.step_size is not None and not 0 < options.step_size < math.inf:
        raise ValueError(f"step_size must be positive, got {options.step_size}.")
