"""A plan: what a run will do and cost, fixed before any record is read.

Nothing here, nor in the functions that make plans, takes a table: a plan is a function of public
quantities alone, and what a fit reports as spent is its plan's cost.
"""

import math
import os
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._compute.gradients import count_examples
from ..exceptions import TooLargeError
from ..models import TargetBounds
from ..models.families.base import NumberFamily
from ..models.linear import LinearTarget
from ..privacy.budget import Budget
from ..privacy.cost import PrivacyCost
from ..privacy.planned_release import PlannedRelease
from ..privacy.rounding import n_chunks
from ..privacy.units import Persons

# Seconds of a fit beside its steps. All of these are rough guesses, measured on two cores:
# `estimated_seconds` only warns, or refuses what would take years.
_FIT_SECONDS = 0.01
# Seconds of a record's residual in one block of a linear model.
_RESIDUAL_SECONDS = 1.5e-8
# Seconds of an entry of a record's row in one block of a linear model.
_ENTRY_SECONDS = 3e-10
# Seconds of a record's gradient of a user-defined target, which is computed and clipped one by one.
_RECORD_SECONDS = 6e-8
# Seconds of a weight in the gradient of a network at one record.
_WEIGHT_SECONDS = 7e-10

# What users ask of a plan, which is printed first: what it costs, for what, what comes out, and the work.
_FIRST_LINES = (
    *("spends", "protects", "spent on", "norm of rows", "responses"),
    *("intervals", "slopes", "columns", "work", "memory"),
)

# No plan is hotter: posteriors are flat long before.
LARGEST_TEMPERATURE = 1e30


class BoundRelease(NamedTuple):
    """A private choice of the norm to which rows are clipped, or of bounds of responses, before all else.

    Attributes
    ----------
    requested_budget : Budget
        Of the choice and of what follows.
    log_odds_range : float
        Of the choice of each quantile.
    norm_quantile : float or None
        Of the rows' norms, None if their bound is given.
    cost_of_fit : PrivacyCost
        What is charged for what follows.
    response_quantiles : tuple of float, default=()
        Levels of the quantiles of responses that become their bounds.
    """

    requested_budget: Budget
    log_odds_range: float
    norm_quantile: float | None
    cost_of_fit: PrivacyCost
    response_quantiles: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Plan(PlannedRelease):
    """The plan of a run: what it will do and cost. All attributes are public numbers.

    Attributes
    ----------
    sampler : Sampler
        The sampler that carries the plan out.
    n_samples : int
        The public size of the table.
    bounds : TargetBounds
        Public bounds of the target.
    budget : Budget
        The budget of the run, per row: the requested one, or what ``persons`` or ``bound_release`` leave of
        it.
    cost : PrivacyCost
        Cost of the run, whatever happens during it.
    temperature : float
        The draws follow the posterior with the likelihood to the power of ``1 / temperature``.
    n_steps, n_burn_in, n_draws : int
        Total updates, updates before the first draw, and draws kept.
    sampling_rate : float, default=1.0
        Probability with which a record takes part in a step; 1 is the full batch.
    fixed : tuple of str, default=()
        Options that the user set instead of leaving them to the plan. Warnings may ask to change them.
    persons : Persons or None, default=None
        The persons whom ``cost`` protects; None if it protects rows.
    bound_release : BoundRelease or None, default=None
        The private choice of a norm or of bounds of responses that precedes the run, if any; ``bounds`` are
        nominal until then.
    is_made : bool
        Set by the plan itself, which `dataclasses.replace` cannot change.
    warning_category : type
        The category of ``warnings``, the same for all plans of a class.
    """

    warning_category: ClassVar[type[Warning]] = ConvergenceWarning

    sampler: Any = field(compare=False)
    n_samples: int
    bounds: TargetBounds
    budget: Budget
    cost: PrivacyCost = field(repr=False)
    temperature: float
    n_steps: int
    n_burn_in: int
    n_draws: int
    sampling_rate: float = 1.0
    fixed: tuple = field(default=(), compare=False, repr=False)
    persons: Persons | None = None
    bound_release: BoundRelease | None = None
    is_made: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self):
        # A constructor is not given ``is_made``, but `dataclasses.replace` passes it on.
        if self.is_made:
            raise ValueError(
                "the fields of a plan belong together, and its cost would no longer be that of the run: make "
                "another plan with the options that are to change, e.g. privacy_plan or sampler.plan. "
                "A sampler that computes the cost itself uses plan.changed(...)."
            )
        object.__setattr__(self, "is_made", True)

    def changed(self, **fields: Any) -> Self:
        """A plan with other fields, for samplers: the caller vouches that the cost is that of the run.

        Parameters
        ----------
        **fields
            As for `dataclasses.replace`.
        """
        return replace(self, **{"is_made": False, **fields})

    @property
    def requested_budget(self) -> Any:
        """The budget of the whole plan, under the relation of what is protected."""
        if self.persons is not None:
            return self.persons.budget
        return self.budget if self.bound_release is None else self.bound_release.requested_budget

    def as_run(self) -> Self:
        """The plan as samplers know it, with the cost of the run for a row."""
        if self.bound_release is not None:
            return self.changed(
                cost=self.bound_release.cost_of_fit, bound_release=None, persons=None
            )
        if self.persons is not None:
            return self.changed(cost=self.persons.cost_of_rows, persons=None)
        return self

    @property
    def is_calibrated(self) -> bool:
        """Whether draws are a posterior that knows what privacy hides; those of private chains are not."""
        return not self.budget.is_private

    @property
    def name(self) -> str:
        """Name of the algorithm."""
        return self.sampler.name

    @property
    def proof(self) -> str:
        """The propositions by which its cost is known."""
        return self.sampler.proof

    @property
    def n_parameters(self) -> int:
        """Length of a draw."""
        return self.bounds.n_parameters

    @property
    def n_updates(self) -> int:
        """Updates in all, those before the chain included."""
        return self.n_steps

    @property
    def interval_notes(self) -> tuple[str, ...]:
        """Notes beneath tables of intervals, a tuple of str."""
        return ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings that the user should read before the fit, a tuple of str."""
        hours = self.estimated_seconds / 3600.0
        if hours < 1:
            return ()
        remedy = "lower n_steps, if the sampler has them, or take another sampler"
        return (f"it may take {hours:.2g} hours: {remedy}.",)

    def _noise_dominates(self):
        """The warning that draws are close to the prior."""
        return (
            f"noise hides nearly all that {self.n_samples:,} rows say at epsilon={self.budget.epsilon:g}: "
            "draws are close to the prior. Raise epsilon, or take more rows or fewer columns."
        )

    @property
    def record_gradients(self) -> float:
        """The expected number of gradients of single records."""
        return self.n_steps * self.sampling_rate * self.n_samples

    @property
    def n_passes(self) -> float:
        """The expected number of passes over the table."""
        return self.record_gradients / self.n_samples

    @property
    def estimated_seconds(self) -> float:
        """A rough guess of the run time, for dense rows."""
        if self.bounds.clipped:
            per_record = _WEIGHT_SECONDS * self.n_parameters
        elif self._is_user_defined:
            per_record = _RECORD_SECONDS + _ENTRY_SECONDS * self.n_parameters
        else:
            blocks = _RESIDUAL_SECONDS * self.bounds.n_blocks
            per_record = blocks + _ENTRY_SECONDS * self.n_parameters
        per_step = 2e-6 + 2e-8 * self.n_parameters
        return _FIT_SECONDS + self.record_gradients * per_record + self.n_steps * per_step

    @property
    def _is_user_defined(self):
        """Whether the bounds are of a target that is not the package's: those have rows, or are clipped."""
        bounds = self.bounds
        return bounds.row_norm is None and bounds.family is None and not bounds.clipped

    @property
    def memory_bytes(self) -> float:
        """Memory that a run needs beside the table: draws, accumulators, per-record values."""
        accumulators = n_chunks(self.record_gradients / self.n_steps) + 6
        batch = self.n_samples if self.sampling_rate < 1 else 0
        vectors = self.n_draws + accumulators
        return 8 * (vectors * self.n_parameters + 2 * self.n_samples + batch)

    def summary(self) -> dict[str, str]:
        """The lines of the printed plan, a dict of {name: text}."""
        relation = self._protects()
        if self.persons is not None:
            relation += f" (of up to {self.persons.max_rows} rows)"
        size = self.sampling_rate * self.n_samples
        discarded = f", the first {self.n_burn_in:,} discarded" if self.n_burn_in else ""
        norm = {}
        if self.bound_release is not None:
            choice = f"by an exponential mechanism of bounded range {self.bound_release.log_odds_range:.4g}"
            if self.bound_release.norm_quantile is not None:
                norm["norm of rows"] = (
                    f"their {self.bound_release.norm_quantile:.3g} quantile, {choice}"
                )
            if self.bound_release.response_quantiles:
                levels = " and ".join(
                    f"{level:.3g}" for level in self.bound_release.response_quantiles
                )
                each = "each " if len(self.bound_release.response_quantiles) > 1 else ""
                norm["responses"] = f"bounds by their {levels} quantile, {each}{choice}"
        batch = "the full table" if self.sampling_rate == 1 else f"{size:.6g} records expected"
        return {
            "sampler": self.name,
            "spends": self._spends(digits=6),
            "protects": f"{relation}, table of {self.n_samples:,} rows",
            "parameters": f"{self.n_parameters:,}",
            "temperature": f"{self.temperature:.4g}",
            "steps": f"{self.n_steps:,}{discarded}",
            "draws": f"{self.n_draws:,}",
            "a step reads": batch,
            **norm,
            **self._intervals(),
        }

    def _report_lines(self):
        return self.summary()  # What is printed beside it depends on the machine.

    def _intervals(self):
        """The line about intervals of a chain for counts."""
        family = self.bounds.family
        if self.is_calibrated or not (isinstance(family, NumberFamily) and family.whole_numbers):
            return {}
        line = "how wide is not known beforehand, as noise tempers the draws of a chain"
        if others := self.sampler.calibrated_names(family):
            line += f"; sampler={others} says it"
        return {"intervals": line}

    def _title(self):
        return "Privacy plan"

    def _lines(self):
        passes = f"{self.n_passes:,.4g} passes over the table"
        seconds = f"very roughly {self.estimated_seconds:.2g} s"
        if self._is_user_defined:
            seconds += ", and some 5 to 30 s for compiling a target of your own, once per process"
        lines = {
            **self.summary(),
            "work": f"{passes}, {seconds}",
            "memory": f"{self.memory_bytes / 2**20:.3g} MiB beside the table",
        }
        first = [name for name in _FIRST_LINES if name in lines]
        return [(name, lines[name]) for name in dict.fromkeys([*first, *lines])]


@dataclass(frozen=True, kw_only=True)
class PlanWithoutPrivacy(Plan):
    """A plan for the posterior itself, of which nothing is private."""

    @classmethod
    def made_for(
        cls, sampler: Any, bounds: Any, n_samples: int, budget: Any, **fields: Any
    ) -> Self:
        """A plan of infinite cost; parameters are those of `Sampler.plan`, and other fields."""
        return cls(
            sampler=sampler,
            n_samples=n_samples,
            bounds=bounds,
            budget=budget,
            cost=PrivacyCost(budget.neighboring_relation, mu=math.inf),
            temperature=1.0,
            **fields,
        )

    @property
    def mu_of_replacing(self) -> float:
        """``mu`` where one row is replaced by another."""
        return math.inf

    def summary(self) -> dict[str, str]:
        """The lines of the printed plan, a dict of {name: text}."""
        return {**super().summary(), "temperature": "1: the posterior, without privacy"}


# How many steps a chain has: what its draws need after the burn-in, and what can be accounted for.
#
#     T - floor(b T) >= n,     b the fraction of the burn-in, n the number of draws
#
# A plan that names neither has a default; one that names both has to agree with itself.


# A plan of more steps than this is refused.
MAX_STEPS = 10**9
# Most steps with batches that the rule takes by itself, at a higher temperature if need be.
MOST_BATCHES = 300_000
# Most steps with batches: composing the costs of more would take minutes.
COMPOSABLE_BATCHES = 3_000_000


def number_of_draws(n_draws, default, n_steps, burn_in):
    """The user's number of draws, or a default: no more than steps after the burn-in."""
    if n_draws is not None or n_steps is None:
        return n_draws or default
    return min(default, n_steps - math.floor(n_steps * burn_in))


def fewest_steps(n_steps, n_draws, burn_in, most, rate):
    """The number of steps that draws need; raises a ValueError if a given number is out of range."""
    fewest = max(1, math.floor(n_draws / (1 - burn_in)))
    while fewest - math.floor(fewest * burn_in) < n_draws:
        fewest += 1
    if n_steps is not None and n_steps < fewest:
        after, or_burn_in = (f" after burn_in={burn_in:g}", " or burn_in") if burn_in else ("", "")
        raise ValueError(
            f"n_steps={n_steps} leaves fewer than n_draws={n_draws} steps{after}: take n_steps >= "
            f"{fewest}, or lower n_draws{or_burn_in}."
        )
    if n_steps is not None and n_steps > most:
        batches = ", with a larger batch_size or batch_size=None" if rate < 1 else ""
        raise ValueError(
            f"n_steps={n_steps} is more than the {most} whose cost can be computed: take fewer{batches}."
        )
    return fewest


def most_steps(rate):
    """Number of steps of a path can be accounted for, and how many the rule takes at most."""
    return (MAX_STEPS, MAX_STEPS) if rate == 1 else (COMPOSABLE_BATCHES, MOST_BATCHES)


def chain_length(n_steps, default, n_draws, burn_in, rate):
    """The user's number of steps, or a default: as many as the draws after the burn-in need."""
    if n_steps is None:
        return max(default, math.ceil((n_draws + 1) / (1.0 - burn_in)))
    fewest_steps(n_steps, n_draws, burn_in, most_steps(rate)[0], rate)
    return n_steps


# Whether a plan holds for a target: all that a plan relies on is compared, one number by one.
#
#     G, B, R, w, G / R, B / R^2  of the target  <=  those of the plan,        b, blocks, records  the same
#
# A plan relies on more than the product of these numbers. Rows that are ten times as long, with
# weights of a tenth, have the same bound on gradients, and second moments that are a hundred times as
# large.


# What is computed in another order may differ by rounding.
_ROUNDING_FACTOR = 1.0 + 1e-12


def check_plan_matches_target(plan, target):
    """Raise a ValueError if a plan was not made for a target."""
    bounds = plan.bounds
    _check_at_most("gradient_bound", target.gradient_bound, bounds.gradient_bound)
    precision = getattr(target, "prior_precision", None)
    if precision is not None:
        _check_precision(precision, bounds)
    if hasattr(target, "smoothness"):
        _check_at_most("smoothness", target.smoothness, bounds.smoothness * _ROUNDING_FACTOR)
    target_bounds = getattr(target, "bounds", None)
    if isinstance(target_bounds, TargetBounds):
        _check_bounds(target_bounds, bounds)
    # The number of records is public under replace_one only, and otherwise not compared.
    replaced = plan.budget.neighboring_relation == "replace_one"
    if replaced and count_examples(target) != plan.n_samples:
        raise ValueError(
            f"the plan is for {plan.n_samples} records, but the target has {count_examples(target)}."
        )


def _check_precision(precision, bounds):
    low, high = bounds.prior_precision
    if np.shape(precision) != (bounds.n_parameters,):
        raise ValueError(
            f"the plan is for {bounds.n_parameters} parameters, but the target's "
            f"prior_precision has shape {np.shape(precision)}."
        )
    if not (low <= precision.min() and precision.max() <= high):
        raise ValueError(f"the plan assumes prior precisions between {low:g} and {high:g}.")


def check_linear(plan, target, kind, remedy="plan another sampler"):
    """Raise a ValueError if a plan was made for another target, or this one is of no linear model.

    Parameters
    ----------
    plan : Plan
    target : NamedTuple
    kind, remedy : str
        Which targets are needed, and what to do if this is none of them, for the message.
    """
    check_plan_matches_target(plan, target)
    if not isinstance(target, LinearTarget):
        raise ValueError(
            f"sampler={plan.name!r} needs one of the package's own {kind}, and {type(target).__name__} is "
            f"not one: {remedy}."
        )


def _check_bounds(target_bounds, bounds):
    """Compare a target's own bounds with a plan's; those on rows only if the plan knows of rows."""
    _check_at_most("gradient_bound", target_bounds.gradient_bound, bounds.gradient_bound)
    _check_at_most("smoothness", target_bounds.smoothness, bounds.smoothness * _ROUNDING_FACTOR)
    _check_at_most("max_weight", target_bounds.max_weight or 1.0, bounds.max_weight or 1.0)
    if bounds.convex and not target_bounds.convex:
        raise ValueError("the plan assumes convex=True, but the target may not be convex.")
    if bounds.row_norm is None:
        return
    if target_bounds.row_norm is None:
        raise ValueError(
            "the plan is for a target of rows, with a row_norm, but the target has none: make the plan from "
            "the target's own bounds."
        )
    if bounds.family is not None and target_bounds.family != bounds.family:
        raise ValueError(
            f"the plan is for {bounds.family}, but the target's is {target_bounds.family}: make the plan "
            "from the target's own bounds."
        )
    for name in ("n_blocks", "constant"):
        value, planned = getattr(target_bounds, name), getattr(bounds, name)
        if value != planned:
            raise ValueError(
                f"the plan is for {name}={planned:g}, but the target's is {value:g}: make the plan from the "
                "target's own bounds."
            )
    _check_at_most("row_norm", target_bounds.row_norm, bounds.row_norm * _ROUNDING_FACTOR)
    for name, power in (("gradient_bound", 1), ("smoothness", 2)):
        ratios = [
            getattr(one_side, name) / one_side.row_norm**power
            for one_side in (target_bounds, bounds)
        ]
        _check_at_most(f"{name} / row_norm^{power}", ratios[0], ratios[1] * _ROUNDING_FACTOR)


def _check_at_most(name, value, largest):
    if not value <= largest:
        raise ValueError(
            f"the plan assumes {name}={largest:g}, but the target's is {value:g}: make the plan "
            "from the target's own bounds."
        )


# Whether a run would end, and fit into memory, by public numbers: if not, it is refused before it
# spends.
#
# 8 bytes (draws x parameters) + what else a plan lists  <=  the machine's memory


# A year: guesses of run times may be wrong by a factor of ten, and chains of days are a user's own affair.
_LONGEST_SECONDS = 3.2e7
# Where the system does not say what it has.
_LARGEST_MEMORY = 2**40


def memory_of_machine():
    """The bytes of memory that this machine has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _LARGEST_MEMORY


def check_draws(n_draws, size, beside=0):
    """Raise a `TooLargeError` if draws do not fit into memory.

    Parameters
    ----------
    n_draws : int
    size : int
        How many numbers a draw has.
    beside : float, default=0
        Bytes that are needed beside them.
    """
    memory = memory_of_machine()
    need = 8.0 * n_draws * size + beside
    if need <= memory:
        return
    most = int((memory - beside) / (8.0 * size))
    remedy = (
        f"n_draws={most:,} is the most that fits"
        if most > 0
        else "take fewer parameters or rows, or more memory"
    )
    raise TooLargeError(
        f"n_draws={n_draws:,} of {size:,} numbers need {need / 2**30:,.3g} GiB of memory, and this machine "
        f"has {memory / 2**30:,.3g}: {remedy}. Nothing was read."
    )


def check_plan(plan):
    """Raise a `TooLargeError` if a plan needs more memory than there is, or would not end within a year."""
    size = plan.n_parameters
    check_draws(plan.n_draws, size, plan.memory_bytes - 8.0 * plan.n_draws * size)
    seconds = plan.estimated_seconds
    if seconds > _LONGEST_SECONDS:
        name = "n_draws" if plan.n_draws > plan.n_steps else "n_steps"
        most = int(getattr(plan, name) * _LONGEST_SECONDS / seconds)
        raise TooLargeError(
            f"the run would take about {seconds / _LONGEST_SECONDS:,.3g} years, and a year is the most that "
            f"is begun: take at most {name}={max(most, 1):,}, or another sampler. Nothing was read."
        )


# Public numbers of a plan, and how large they may be, whatever the sampler.
#
# Within these limits plans are computed from normal doubles: squares of squares, over squares of
# numbers of records.


LARGEST_NUMBER = 2**53
_GRADIENT_BOUNDS = (1e-75, 1e75)
_NOISE_SD_RANGE = (1e-30, 1e15)
_LARGEST_PRECISION = 1e150
# Constant column over the norm of rows: fourth powers of it are normal doubles.
_LEAST_CONSTANT_RATIO = 1e-75


def check_public(bounds, n_samples, budget, n_draws):
    """Raise a ValueError that names a number that is out of range whatever the sampler."""
    bounds.checked()
    check_scales(bounds)
    budget.checked()
    for name, value in (("n_samples", n_samples), ("n_draws", n_draws)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
        if value is not None and value > LARGEST_NUMBER:
            raise ValueError(f"{name} must be at most 2^53.")
    if n_draws is not None:
        check_draws(n_draws, bounds.n_parameters)


def check_scales(bounds):
    """Raise a ValueError if the numbers of a target are so far apart that plans cannot be computed."""
    low, high = bounds.prior_precision
    # Noise that is learnt has the unit of responses; otherwise the unit is 1.
    unit = bounds.family.half_width if bounds.has_unknown_error_sd else 1.0
    least, most = _GRADIENT_BOUNDS
    if not least <= bounds.gradient_bound <= most:
        raise ValueError(
            f"gradient_bound={bounds.gradient_bound:g} must be between {least:g} and {most:g}: change the "
            "units of the parameters (for networks, change clip_norm)."
        )
    least, most = _NOISE_SD_RANGE
    deviation = bounds.gradient_bound / unit / math.sqrt(low) / unit
    if not least <= deviation <= most:
        raise ValueError(
            f"a record of the largest norm has a logit of prior deviation {deviation:.3g}, which must be "
            f"between {least:g} and {most:g} (gradient_bound={bounds.gradient_bound:g} over the "
            "root of the "
            f"smallest prior precision, {low:g}): choose prior_scale nearer to 1 / data_norm, a smaller "
            "intercept_prior_scale or "
            "max_count, and leave "
            "intercept_scaling=None; for networks, choose prior_scale nearer to 1 / clip_norm."
        )
    if not high <= _LARGEST_PRECISION:
        raise ValueError(
            f"a prior precision of {high:g} is beyond {_LARGEST_PRECISION:g}: choose prior_scale nearer to "
            "1 / data_norm, or intercept_scaling=None."
        )
    if not high <= most**2 * low:
        raise ValueError(
            f"prior precisions between {low:g} and {high:g} are too far apart: leave "
            "intercept_scaling=None, "
            "which gives all coordinates the same, or choose intercept_prior_scale nearer to "
            "prior_scale * data_norm."
        )
    if (
        bounds.row_norm is not None
        and 0 < bounds.constant < _LEAST_CONSTANT_RATIO * bounds.row_norm
    ):
        raise ValueError(
            f"the constant column, {bounds.constant:g}, is too short beside rows of norm "
            f"{bounds.row_norm:g}: choose intercept_prior_scale nearer to prior_scale * data_norm, leave "
            "intercept_scaling=None, or set fit_intercept=False."
        )
    if not bounds.smoothness / unit / unit <= most**2 * low:
        raise ValueError(
            f"smoothness={bounds.smoothness:g} is too far from the smallest prior precision, "
            f"{low:g}: lower "
            "data_norm or prior_scale."
        )
