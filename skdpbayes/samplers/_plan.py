"""A plan: what a run will do and cost, fixed before any record is read.

Nothing here, nor in the functions that make plans, takes a table: a plan is a function of public
quantities alone, and what a fit reports as spent is its plan's cost.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from ..privacy.budget import Budget
from ..privacy.cost import PrivacyCost
from ..privacy.floating_point import n_chunks
from ..privacy.persons import Persons
from ..privacy.release import PlannedRelease
from ..targets import TargetBounds

# Multiply-adds per second of one core on tables that are read once per gradient. It is a rough guess:
# `estimated_seconds` only warns, or refuses what would take years.
_ENTRIES_PER_SECOND = 1.5e9
# A gradient of a record of a target from elsewhere, which is computed and clipped one by one.
_RECORD_SECONDS = 6e-8

# No plan is hotter: posteriors are flat long before.
LARGEST_TEMPERATURE = 1e30


class NormRelease(NamedTuple):
    """A private choice of the norm to which rows are clipped, or of bounds of responses, before all else.

    Attributes
    ----------
    asked : Budget
        Of the choice and of what follows.
    log_odds_range : float
        Of the choice of each quantile.
    quantile : float or None
        Of the rows' norms, None if their bound is given.
    cost_of_fit : PrivacyCost
        What is charged for what follows.
    of_responses : tuple of float, default=()
        Quantiles of the responses.
    """

    asked: Budget
    log_odds_range: float
    quantile: float | None
    cost_of_fit: PrivacyCost
    of_responses: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Plan(PlannedRelease):
    """What a run will do and cost. All attributes are public numbers.

    Attributes
    ----------
    sampler : Sampler
        The sampler that carries the plan out.
    n_samples : int
        The public size of the table.
    bounds : TargetBounds
        Public bounds of the target.
    budget : Budget
        The requested budget; with ``persons`` or ``norm``, the part that is left for the run, per row.
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
    norm : NormRelease or None, default=None
        The private choice of a norm or of bounds of responses that precedes the run, if any; ``bounds`` are
        nominal until then.
    is_made : bool
        Set by the plan itself, which `dataclasses.replace` cannot change.
    """

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
    norm: NormRelease | None = None
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
        """Return a plan with other fields, for samplers: the caller vouches that the cost is that of the run.

        Parameters
        ----------
        **fields
            As for `dataclasses.replace`.
        """
        return replace(self, **{"is_made": False, **fields})

    @property
    def asked(self) -> Any:
        """The budget that was asked for, under the relation of what is protected."""
        if self.persons is not None:
            return self.persons.budget
        return self.budget if self.norm is None else self.norm.asked

    def as_run(self) -> Self:
        """Return the plan as samplers know it, with the cost of the run for a row."""
        if self.norm is not None:
            return self.changed(cost=self.norm.cost_of_fit, norm=None, persons=None)
        if self.persons is not None:
            return self.changed(cost=self.persons.cost_of_rows, persons=None)
        return self

    @property
    def mu_of_replacing(self) -> float:
        """``mu`` of replacing a row, where ``cost`` is that of adding or removing one."""
        return 2.0 * self.cost.mu

    @property
    def is_calibrated(self) -> bool:
        """Whether draws are a posterior that knows what privacy hides; those of private chains are not."""
        return not self.budget.is_private

    @property
    def name(self) -> str:
        """Name of the algorithm."""
        return self.sampler.name

    @property
    def n_parameters(self) -> int:
        """Length of a draw."""
        return self.bounds.n_parameters

    @property
    def n_updates(self) -> int:
        """Updates in all, those before the chain included."""
        return self.n_steps

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings that the user should read before the fit, a tuple of str."""
        hours = self.estimated_seconds / 3600.0
        if hours < 1:
            return ()
        remedy = "lower n_steps, if the sampler has them, or take another sampler"
        return (f"it may take {hours:.2g} hours: {remedy}.",)

    def _drowned(self):
        """Return the warning that draws are close to the prior."""
        return (
            f"noise hides nearly all that {self.n_samples:,} rows say at epsilon={self.budget.epsilon:g}: "
            "draws are close to the prior. Raise epsilon, or take more rows or fewer columns."
        )

    @property
    def record_gradients(self) -> float:
        """How many gradients of single records are expected to be computed."""
        return self.n_steps * self.sampling_rate * self.n_samples

    @property
    def estimated_seconds(self) -> float:
        """A rough guess of the run time on one core, for dense rows."""
        entries = self.record_gradients * self.n_parameters
        per_step = 2e-6 + 2e-8 * self.n_parameters
        one_by_one = self.record_gradients * _RECORD_SECONDS * self._is_from_elsewhere
        return entries / _ENTRIES_PER_SECOND + self.n_steps * per_step + one_by_one

    @property
    def _is_from_elsewhere(self):
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
        """Return the lines of the printed plan, a dict of {name: text}."""
        relation = self._protects()
        if self.persons is not None:
            relation += f" (of up to {self.persons.max_rows} rows)"
        size = self.sampling_rate * self.n_samples
        discarded = f", the first {self.n_burn_in:,} discarded" if self.n_burn_in else ""
        norm = {}
        if self.norm is not None:
            choice = f"by a choice of range {self.norm.log_odds_range:.4g}"
            if self.norm.quantile is not None:
                norm["norm of rows"] = f"their {self.norm.quantile:.3g} quantile, {choice}"
            if self.norm.of_responses:
                levels = " and ".join(f"{level:.3g}" for level in self.norm.of_responses)
                each = "each " if len(self.norm.of_responses) > 1 else ""
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

    def _intervals(self):
        """Return the line about intervals of a chain for counts, which is the default there."""
        family = self.bounds.family
        if self.is_calibrated or not getattr(family, "whole_numbers", False):
            return {}
        line = "how wide is not known beforehand, as noise tempers the draws of a chain"
        if others := self.sampler.calibrated_names(family):
            line += f"; sampler={others} says it, of counts that vary about as Poisson's law says"
        return {"intervals": line}

    def _title(self):
        return "Privacy plan"

    def _lines(self):
        passes = f"{self.record_gradients / self.n_samples:,.4g} passes over the table"
        seconds = f"very roughly {self.estimated_seconds:.2g} s on one core"
        if self._is_from_elsewhere:
            seconds += ", and some 5 to 30 s for compiling a target of your own, once per process"
        return [
            *self.summary().items(),
            ("work", f"{passes}, {seconds}"),
            ("memory", f"{self.memory_bytes / 2**20:.3g} MiB beside the table"),
        ]
