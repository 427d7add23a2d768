"""Plans for stochastic gradient Fisher scoring (SGFS): sampling in whitened coordinates.

A share of ``mu^2`` releases the second moment of the rows once, a Gaussian mechanism on a symmetric matrix:

    A = sum_i z_i z_i^T + N,    ||z z^T - z' z'^T||_F <= sqrt(2) R^2   (R^2 under add_or_remove_one),

``N_jj ~ N(0, sigma^2)``, ``N_jk ~ N(0, sigma^2 / 2)``, so that ``||N||_2`` is about ``nu = sqrt(2 d) sigma``.
With its eigenvalues floored there, ``theta = W u``, ``W = (A / n)^(-1/2)``: in ``u`` all directions that the
data speak of have about the same curvature. Rows are clipped to ``||W^T z|| <= C``, ``C^2`` being 1.2 times
the mean square that ``A`` itself predicts, or more where nothing is tempered all the same.

The rest of the budget buys ``T`` steps of an underdamped chain in ``u`` at a noise multiplier that is fixed
beforehand, so that the cost is, too. Only then does the matrix decide on the step and the temperature,
the lowest at which directions of curvature ``0.03 n`` relax ``k`` times: in whitened coordinates a record
adds ``p (1 - p)`` to the curvature on average, and this is a modest value of it.

Ahn, Korattikara and Welling (2012), with the Fisher information of records of equal weight.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..targets import MOMENT_ROWS
from .cost import gaussian_mu
from .floating_point import sum_inflation
from .given_noise import GivenNoise, chain_length, free_shift, path_multiplier
from .hamiltonian import HamiltonianCalibration
from .langevin_plans import HamiltonianPlan
from .options import SamplerOptions, check_options
from .plan import Plan

SHARE = 0.2
RELAXATIONS, RELAXATIONS_WITHOUT_PRIVACY = 3.0, 10.0
N_STEPS, N_STEPS_WITHOUT_PRIVACY = 300, 3000
# C^2 over the mean square of the whitened rows.
CLIPPING = 1.2
# A record's Hessian is at most a quarter of z z^T: below so many prior precisions the prior decides.
_PRIOR_FLOOR = 4.0
# In whitened coordinates a record's Fisher information is p (1 - p): taken to be at least this.
_LEAST_INFORMATION = 0.03


@dataclass(frozen=True, kw_only=True)
class FisherPlan(Plan):
    """A plan for SGFS, as far as it can be made before the second moment is released.

    ``temperature`` is nan until then; `complete` returns the rest.

    Attributes
    ----------
    share : float
        Share of ``mu^2`` that the matrix costs.
    moment_noise : float
        Standard deviation of the noise on its diagonal; off it, ``1 / sqrt(2)`` of that.
    noise_multiplier : float
        Of every step, relative to what one record can contribute to the whitened gradient.
    options : SamplerOptions
        What the user has fixed.
    """

    share: float
    moment_noise: float
    noise_multiplier: float
    options: SamplerOptions

    @property
    def needs_rows(self):
        """Whether the sampler works with the rows of a logistic target."""
        return True

    def _rows(self):
        rows = dict(super()._rows())
        rows["temperature"] = "from the released second moment"
        rows["second moment"] = (
            f"noise of deviation {self.moment_noise:.4g}, {100 * self.share:.3g}% of mu^2"
        )
        rows["noise multiplier"] = f"{self.noise_multiplier:.4g}"
        return list(rows.items())

    def whitening(self, moment):
        """Return (transform, its eigenvalues' floor, norm to which whitened rows are clipped).

        Parameters
        ----------
        moment : ndarray of shape (length, length)
            As released.
        """
        noise = math.sqrt(2.0 * len(moment)) * self.moment_noise
        floor = max(noise, _PRIOR_FLOOR * self.bounds.prior_precision[0])
        values, vectors = np.linalg.eigh(moment)
        floored = np.maximum(values, floor)
        transform = np.ascontiguousarray(vectors * np.sqrt(self.n_samples / floored))
        if math.isinf(self.budget.epsilon):  # Nothing needs to be clipped.
            return transform, floor, self.bounds.row_norm * math.sqrt(self.n_samples / floored[0])
        mean_square = np.sum(np.maximum(values, 0.0) / floored)
        # The constant column is not clipped, and must leave room for the rest of a row.
        constant = transform[-1] * self.bounds.constant
        least = max(1.0, 2.0 * float(constant @ constant))
        return transform, floor, math.sqrt(max(CLIPPING * mean_square, least))

    def complete(self, moment):
        """Return (plan of the path, transform), post-processing of the released matrix.

        Parameters
        ----------
        moment : ndarray of shape (length, length)
            As released.

        Returns
        -------
        path : HamiltonianPlan
            In whitened coordinates; its cost is the whole plan's.
        transform : ndarray of shape (length, length)
            ``W``.
        norm : float
            To which whitened rows are to be clipped.
        """
        transform, floor, norm = self.whitening(moment)
        chain = _WhitenedChain(self, transform, floor, norm)
        temperature = self.options.temperature
        if temperature is None:
            temperature = chain.lowest_temperature()
            if temperature == 1.0:
                chain = chain.with_least_clipping()
        path = HamiltonianPlan(
            sampler=self.sampler,
            n_samples=self.n_samples,
            bounds=chain.bounds,
            budget=self.budget,
            cost=self.cost,
            temperature=temperature,
            n_steps=self.n_steps,
            n_burn_in=self.n_burn_in,
            n_draws=self.n_draws,
            sampling_rate=self.sampling_rate,
            step_size=chain.step(temperature),
            step_decay=0.0,
            noise_multiplier=self.noise_multiplier,
            wanted_relaxations=chain.goal,
            friction=chain.rule.friction(temperature, chain.step(temperature), self.n_steps),
            least_data_curvature=chain.rule.least_data_curvature,
        )
        return path, transform, chain.norm


class _WhitenedCalibration(HamiltonianCalibration):
    relaxations = (RELAXATIONS, RELAXATIONS_WITHOUT_PRIVACY)

    def __init__(self, bounds, n_samples, budget, options):
        super().__init__(bounds, n_samples, budget, options)
        self.least_data_curvature = _LEAST_INFORMATION * n_samples if self.private else 0.0

    def _slowest(self, temperature):
        return self.least_data_curvature or super()._slowest(temperature)


class _WhitenedChain(GivenNoise):
    """The schedule of an underdamped chain in whitened coordinates."""

    def __init__(self, plan, transform, floor, norm):
        self.plan, self.transform, self.floor, self.norm = plan, transform, floor, norm
        self.goal = _relaxations(plan.budget)
        grown = norm / plan.bounds.row_norm
        low, high = plan.bounds.prior_precision
        largest = float(np.linalg.eigvalsh(transform.T @ transform)[-1])
        self.bounds = plan.bounds._replace(
            gradient_bound=plan.bounds.gradient_bound * grown,
            smoothness=plan.bounds.smoothness * grown**2,
            prior_precision=(min(low * plan.n_samples / floor, high * largest), high * largest),
        )
        options = plan.options._replace(n_steps=plan.n_steps, n_draws=plan.n_draws)
        rule = _WhitenedCalibration(self.bounds, plan.n_samples, plan.budget, options)
        super().__init__(rule, plan.noise_multiplier, plan.n_steps, self._inflation())

    def _inflation(self):
        """Sums are rounded before they are transformed, which can make their errors as much larger."""
        plan = self.plan
        grown = float(np.linalg.norm(self.transform)) * plan.bounds.row_norm / self.norm
        relation = plan.budget.neighboring_relation
        rounding = sum_inflation(plan.n_samples, plan.bounds.n_parameters, relation) - 1.0
        return 1.0 + rounding * max(1.0, grown)

    def _relaxes(self, temperature):
        """Whether steps are long enough for the directions that are to relax."""
        time = self.n_steps * self.wanted_step(temperature)
        return time * self.rule._slowest(temperature) >= self.goal * (1 - 1e-9)

    def with_least_clipping(self):
        """Return the chain with the largest norm of rows at which nothing is tempered."""
        # No row is longer than this.
        top = self.plan.bounds.row_norm * float(np.linalg.norm(self.transform, 2))
        low, high = math.log(self.norm), math.log(max(top, self.norm))
        for _ in range(30):
            middle = 0.5 * (low + high)
            chain = _WhitenedChain(self.plan, self.transform, self.floor, math.exp(middle))
            if chain.is_affordable(1.0) and chain._relaxes(1.0):
                low = middle
            else:
                high = middle
        return _WhitenedChain(self.plan, self.transform, self.floor, math.exp(low))


def _relaxations(budget):
    return RELAXATIONS_WITHOUT_PRIVACY if math.isinf(budget.epsilon) else RELAXATIONS


@lru_cache(maxsize=512)
def plan_fisher(bounds, n_samples, budget, options=SamplerOptions()):  # noqa: B008
    """Find the noise of a second moment and of an underdamped path that a budget affords together.

    Parameters
    ----------
    bounds : TargetBounds
        Public bounds of the target, with its ``row_norm``.
    n_samples : int
        Public size of the table.
    budget : Budget
        Ceiling on the cost.
    options : SamplerOptions, default=SamplerOptions()
        What the user fixes; step sizes follow from the matrix.

    Returns
    -------
    plan : FisherPlan

    Raises
    ------
    ValueError
        If an option is out of range, or if the options cannot all hold.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget, plan_fisher
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(3, 1.0, 0.25, (0.1, 0.1), row_norm=1.0)
    >>> plan = plan_fisher(bounds, 100_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0
    True
    """
    check_options(bounds, n_samples, budget, options)
    _check(bounds, options)
    steps = chain_length(HamiltonianCalibration, options, _default_steps(budget))
    # It checks the options against each other, and knows the defaults.
    rule = HamiltonianCalibration(bounds, n_samples, budget, options._replace(n_steps=steps))
    total = gaussian_mu(budget.epsilon, budget.delta)
    of_matrix = math.sqrt(SHARE) * total
    multiplier, cost = path_multiplier(bounds, budget, rule.q, steps, total, of_matrix)
    return FisherPlan(
        sampler="sgfs",
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=cost,
        temperature=math.nan if options.temperature is None else options.temperature,
        n_steps=steps,
        n_burn_in=math.floor(steps * rule.burn_in),
        n_draws=rule.draws,
        sampling_rate=rule.q,
        share=SHARE,
        moment_noise=_moment_noise(bounds, n_samples, budget, of_matrix),
        noise_multiplier=multiplier,
        options=options,
    )


def _default_steps(budget):
    if math.isinf(budget.epsilon):
        return N_STEPS_WITHOUT_PRIVACY
    # They cost no privacy; colder chains have farther to go.
    return math.ceil(N_STEPS * max(1.0, 2.0 * gaussian_mu(budget.epsilon, budget.delta)))


def _moment_noise(bounds, n_samples, budget, mu):
    if math.isinf(mu):
        return 0.0
    replaced = budget.neighboring_relation == "replace_one"
    records = n_samples if replaced else 10 * n_samples
    # Rounding of the sum, in both tables, and of every entry to the lattice of its noise.
    chain = MOMENT_ROWS + records / MOMENT_ROWS + 8
    sums = 1.0 + 2.0 * 2.0**-53 * chain * records
    sensitivity = (math.sqrt(2.0) if replaced else 1.0) * bounds.row_norm**2 * sums
    return sensitivity / free_shift(1.0 / mu, bounds.block_length**2)


def _check(bounds, options):
    if bounds.row_norm is None:
        raise ValueError(
            "sampler='sgfs' is for targets of rows, and this one's bounds do not state a row_norm."
        )
    options.refuse(
        ("step_size", "step_decay", "init"),
        "does not go with sampler='sgfs', whose steps follow from the second moment that it releases "
        "first: leave it out.",
    )
