"""Langevin dynamics: SGLD and its underdamped relatives SGHMC and SGNHT, and one posterior sample (OPS).

    theta <- theta - eta (g(theta) + tau lambda theta) + N(0, 2 eta tau I)                      SGLD, OPS
    u <- (1 - f) u - kappa (g(theta) + tau lambda theta) + N(0, 2 kappa f tau I),
    theta <- theta + u                                                                       SGHMC, SGNHT

These are their options; `base` makes plans of them, and the chains are in `overdamped` and `underdamped`.
"""

import math
from numbers import Real

from sklearn.utils._param_validation import StrOptions

from ..._checks import Interval
from .._protocol import AUTO, CONSTRAINTS, given, options
from .base import LangevinSampler
from .dynamics import Thermostat, Underdamped, thermostat_gain
from .schedule import batch_trace, cost_at

_RELEASE = StrOptions({"all_iterates", "last_iterate"})
_INIT = {
    "init": [StrOptions({"zeros", "ops"})],
    "init_share": [AUTO, Interval(Real, 1e-6, 1, closed="left")],
}
_STEPS = ("temperature", "n_steps", "step_size", "step_decay")
_PATH = {name: CONSTRAINTS[name] for name in (*_STEPS, "batch_size", "burn_in")} | _INIT


@options()
class OPS(LangevinSampler):
    """One posterior sample: tempered draws, each the last iterate of a full-batch chain.

    The published sampler assumes an exact draw from the posterior [1]_, which no chain makes. Releasing only
    the last iterate of a contracting chain does not need exactness: after any number of steps it is
    ``mu``-GDP with ``mu <= s / (tau sqrt(lambda))``, the cost of an exact draw [2]_. Targets must be convex.
    Draws follow the posterior at temperature ``tau``, more closely the more steps there are.

    Parameters
    ----------
    temperature : float or "auto", default="auto"
        ``tau``, at least 1. "auto" is the lowest temperature that the budget affords.
    n_steps : int or "auto", default="auto"
        Number of updates, of all draws together. "auto" leaves it to the plan.
    step_size : float or "auto", default="auto"
        (First) step size of every chain.
    step_decay : float, default=0.0
        ``a`` in ``eta_k = eta_1 k^-a``.

    References
    ----------
    .. [1] Y.-X. Wang, S. E. Fienberg and A. Smola, "Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo", ICML 2015.
    .. [2] J. Bok, W. J. Su and J. Altschuler, "Shifted interpolation for differential privacy", ICML 2024.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import OPS
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(
    ...     3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0), convex=True
    ... )
    >>> plan = OPS().plan(bounds, 10_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0, plan.n_draws
    (True, 1)
    """

    name = "ops"
    proof = "Propositions 8 to 12, and 18"
    targets = frozenset({"linear"})
    release = "last_iterate"
    _parameter_constraints = {name: CONSTRAINTS[name] for name in _STEPS}

    step_size: float | str = "auto"
    step_decay: float = 0.0


@options()
class PathSampler(LangevinSampler):
    """Base class of samplers that release a path; see `SGLD`."""

    init: str = "zeros"
    init_share: float | str = "auto"
    batch_size: int | str | None = "auto"
    step_size: float | str = "auto"
    step_decay: float = 0.0
    burn_in: float | str = "auto"

    def _plan(self, *args):
        if given(self.init_share) is not None and self.init == "zeros":
            raise ValueError(f"init_share={self.init_share} is for init='ops': leave it 'auto'.")
        return super()._plan(*args)

    def _start_cost(self, bounds, n_samples, budget):
        if self.init == "zeros":
            return None
        bounds.checked_convex()
        if given(self.init_share) is not None:
            start = self._planned_start(bounds, n_samples, budget, None)
            return lambda temperature: start.cost
        # The start is drawn at the path's own temperature.
        draw = OPS().last_chain(bounds, n_samples, budget)
        return lambda temperature: cost_at(draw, temperature)

    def _planned_start(self, bounds, n_samples, budget, temperature):
        if self.init == "zeros":
            return None
        share = given(self.init_share)
        if share is not None:
            part = budget.with_mu(math.sqrt(share) * budget.mu)
            return OPS().plan(bounds, n_samples, part)
        return OPS(temperature=temperature).plan(bounds, n_samples, budget)


@options()
class SGLD(PathSampler):
    """Stochastic gradient Langevin dynamics: tempered draws along a path.

    ``theta <- theta - eta_k (g(theta) + tau lambda theta) + N(0, 2 eta_k tau I)``, where ``g`` is the summed
    gradient of the records' losses. Draws are midpoints of successive iterates, which on quadratic
    potentials follow the posterior at temperature ``tau`` exactly at any stable step. A released path is
    ``mu``-GDP with ``mu^2 = s^2 t / (2 tau)``, where ``t`` is the sum of the step sizes [1]_. A last iterate
    costs no more than an exact posterior sample, ``mu = s / (tau sqrt(lambda))``, after any number of steps
    [2]_.

    Parameters
    ----------
    temperature : float or "auto", default="auto"
        ``tau``, at least 1: draws follow the posterior with the likelihood to the power of ``1 / tau``.
        "auto" is the lowest temperature that the budget affords. For networks it follows from the noise of
        the budget and the longest useful step, and is at most 1.
    n_steps : int or "auto", default="auto"
        Number of updates; their total if only last iterates are released. The updates that draw the start
        of a path are not included. "auto" leaves it to the plan, and is 600 for networks.
    release : {"all_iterates", "last_iterate"}, default="all_iterates"
        What is released: the whole path of the chain, or only its last iterate. The latter is for convex
        targets under "replace_one". The default is then one draw; ``n_draws=K`` costs ``sqrt(K)`` times the
        ``mu`` of one.
    init : {"zeros", "ops"}, default="zeros"
        Where a path starts: at zero, or at a posterior sample, for which part of the budget pays.
    init_share : float or "auto", default="auto"
        With ``init="ops"``: the share of ``mu^2`` that the start costs. "auto" draws the start at the
        temperature of the path.
    batch_size : int, "auto" or None, default="auto"
        Expected size of a Poisson batch. If last iterates are released: size of the batches, which take
        turns. None reads the full table at every step. "auto" does the same, except for networks, where it is
        4,096.
    step_size : float or "auto", default="auto"
        Size of the (first) step. Privacy pays for the sum of the step sizes.
    step_decay : float, default=0.0
        ``a`` in ``eta_k = eta_1 k^-a``.
    burn_in : float or "auto", default="auto"
        Fraction of the updates before the first draw. "auto" is 0.25; 0.5 for networks, 0 with
        ``init="ops"``.

    References
    ----------
    .. [1] Y.-X. Wang, S. E. Fienberg and A. Smola, "Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo", ICML 2015.
    .. [2] J. Bok, W. J. Su and J. Altschuler, "Shifted interpolation for differential privacy", ICML 2024.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import SGLD
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    >>> plan = SGLD().plan(bounds, 10_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0
    True
    """

    name = "sgld"
    proof = "Proposition 3, on Poisson batches 7; of a last iterate, Propositions 8 to 12, and 18"
    _parameter_constraints = {"release": [_RELEASE], **_PATH}

    release: str = "all_iterates"


@options()
class SGHMC(PathSampler):
    """Stochastic gradient Hamiltonian Monte Carlo: tempered draws along a path.

    ``u <- (1 - f) u - kappa (g(theta) + tau lambda theta) + N(0, 2 kappa f tau I)``, ``theta <- theta + u``
    [1]_: underdamped Langevin dynamics. With ``eta = kappa / f`` it costs as much as a path of SGLD, ``mu^2 =
    s^2 t / (2 tau)``, and needs about the square root of its number of steps. Draws are midpoints ``theta - u
    / 2``, which follow the posterior at temperature ``tau`` exactly on quadratic potentials.

    Parameters
    ----------
    friction : float or "auto", default="auto"
        ``f``: share of its velocity that the chain loses in a step, in (0, 1]. "auto" damps the slowest
        direction critically; 0.1 for networks.
    temperature, n_steps, init, init_share, batch_size, step_size, step_decay, burn_in
        As for `SGLD`.

    References
    ----------
    .. [1] T. Chen, E. B. Fox and C. Guestrin, "Stochastic gradient Hamiltonian Monte Carlo", ICML 2014.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import SGHMC, SGLD
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(0.1, 0.1))
    >>> budget = Budget(epsilon=1.0, delta=1e-6)
    >>> [sampler.plan(bounds, 100_000, budget).n_steps for sampler in (SGHMC(), SGLD())]
    [461, 13233]
    """

    name = "sghmc"
    proof = "Proposition 13; on Poisson batches, Proposition 7"
    is_overdamped = False
    _parameter_constraints = {"friction": CONSTRAINTS["friction"], **_PATH}

    friction: float | str = "auto"

    def _dynamics(self, relaxations, bounds, n_samples, rate):
        return Underdamped(relaxations, self.friction_or(None))


class SGNHT(SGHMC):
    """Stochastic gradient Nose-Hoover thermostat: SGHMC that controls its temperature.

    ``f <- f + gain (|(u + u')/2|^2 / (d kappa) - tau)`` removes the heat that batches add [1]_, and reads
    only released velocities. If the budget does not allow the diffusion time that the slowest direction
    needs, the run is shorter and the draws are not heated. The cost is that of SGHMC with the friction at
    which the thermostat starts.

    Parameters
    ----------
    temperature : float or "auto", default="auto"
        ``tau`` of the draws, at least 1. "auto" is 1, except for networks, where it is as for `SGLD`.
    friction : float or "auto", default="auto"
        Friction at which the thermostat starts, in (0, 1].
    n_steps, init, init_share, batch_size, step_size, step_decay, burn_in
        As for `SGLD`.

    References
    ----------
    .. [1] N. Ding, Y. Fang, R. Babbush, C. Chen, R. D. Skeel and H. Neven, "Bayesian sampling using
       stochastic gradient thermostats", NIPS 2014.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import SGNHT
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(0.1, 0.1))
    >>> plan = SGNHT().plan(bounds, 100_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.temperature
    1.0
    """

    name = "sgnht"

    def _dynamics(self, relaxations, bounds, n_samples, rate):
        underdamped = super()._dynamics(relaxations, bounds, n_samples, rate)
        return Thermostat(underdamped, batch_trace(bounds, n_samples, rate))

    def _own_temperature(self, temperature):
        return 1.0 if temperature is None else temperature

    def _gain(self, friction, temperature):
        return thermostat_gain(friction, temperature)
