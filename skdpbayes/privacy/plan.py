"""A plan: what a run will do and cost, fixed before any record is read.

Nothing here, nor in the functions that make plans, takes a table: a plan is a function of public
quantities alone, and what a fit reports as spent is its plan's cost.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ..targets import TargetBounds
from .cost import NEIGHBORING_RELATIONS, PrivacyCost
from .floating_point import n_chunks

# Multiply-adds per second of one core on tables that are read once per gradient: a rough guess
# for `estimated_seconds`, never used for anything else.
_ENTRIES_PER_SECOND = 1.5e9


class Budget(NamedTuple):
    """A ceiling on the cost.

    Attributes
    ----------
    epsilon : float
        Positive; ``inf`` is no ceiling.
    delta : float
        In [0, 1).
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        What a neighbouring table is.
    """

    epsilon: float
    delta: float
    neighboring_relation: str = "replace_one"

    def checked(self):
        """Return self, or raise a ValueError that names what is wrong."""
        if not self.epsilon > 0:
            raise ValueError(f"epsilon must be positive (or inf), got {self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise ValueError(
                f"delta must be in [0, 1), got {self.delta}. It is the probability that the "
                "guarantee fails: choose it well below 1 / n_samples."
            )
        if self.neighboring_relation not in NEIGHBORING_RELATIONS:
            raise ValueError(
                f"neighboring_relation must be one of {sorted(NEIGHBORING_RELATIONS)}, "
                f"got {self.neighboring_relation!r}."
            )
        return self

    def allows(self, cost):
        """Tell whether a cost stays below the ceiling."""
        return math.isinf(self.epsilon) or cost.epsilon(self.delta) <= self.epsilon


def default_delta(n_samples):
    """``min(1e-5, 1 / (10 n))``: the guarantee may fail for far fewer than one record."""
    return min(1e-5, 1.0 / (10.0 * n_samples))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What every plan says. Attributes are public numbers.

    Attributes
    ----------
    sampler : str
        Name of the algorithm.
    n_samples : int
        The public size of the table.
    bounds : TargetBounds
        Public bounds of the target.
    budget : Budget
        What was asked for.
    cost : PrivacyCost
        What the run costs, whatever happens during it.
    temperature : float
        The draws follow the posterior with the likelihood to the power of ``1 / temperature``.
    n_steps, n_burn_in, n_draws : int
        Updates in all, updates before the first draw, draws kept.
    sampling_rate : float
        Probability with which a record takes part in a step; 1 is the full batch.
    """

    sampler: str
    n_samples: int
    bounds: TargetBounds
    budget: Budget
    cost: PrivacyCost = field(repr=False)
    temperature: float
    n_steps: int
    n_burn_in: int
    n_draws: int
    sampling_rate: float

    @property
    def condition(self):
        """What the cost holds under, beyond what the package sees to itself; nothing as a rule."""
        return ""

    @property
    def needs_contraction(self):
        """Whether the cost holds only for convex targets whose gradients are not clipped one by one."""
        return False

    @property
    def needs_rows(self):
        """Whether the sampler works with the rows of a logistic target."""
        return False

    @property
    def needs_losses(self):
        """Whether the sampler compares records' losses."""
        return False

    @property
    def needs_gaussian_prior(self):
        """Whether the sampler reads an independent Gaussian prior off the target's ``prior_precision``."""
        return False

    @property
    def notes(self):
        """What the user should know before running it, a tuple of str."""
        hours = self.estimated_seconds / 3600.0
        if hours < 1:
            return ()
        return (f"it may take {hours:.2g} hours: fix n_steps, or take another sampler.",)

    @cached_property
    def epsilon(self):
        """The epsilon that is spent, at ``delta``: at most what was asked for."""
        return self.cost.epsilon(self.delta)

    @property
    def delta(self):
        """The delta at which ``epsilon`` is reported."""
        return self.budget.delta

    @property
    def record_gradients(self):
        """How many gradients of single records are expected to be computed."""
        return self.n_steps * self.sampling_rate * self.n_samples

    @property
    def estimated_seconds(self):
        """A rough guess of the run time on one core, for dense rows."""
        entries = self.record_gradients * self.bounds.n_parameters
        per_step = 2e-6 + 2e-8 * self.bounds.n_parameters
        return entries / _ENTRIES_PER_SECOND + self.n_steps * per_step

    @property
    def memory_bytes(self):
        """Memory that a run needs beside the table: draws, accumulators, per-record values."""
        accumulators = n_chunks(self.record_gradients / self.n_steps) + 6
        batch = self.n_samples if self.sampling_rate < 1 else 0
        vectors = self.n_draws + accumulators
        return 8 * (vectors * self.bounds.n_parameters + 2 * self.n_samples + batch)

    def _rows(self):
        """Return the lines of the printed plan that every sampler has, as (name, text) pairs."""
        relation = self.budget.neighboring_relation.replace("_", "-")
        asked = f"asked for at most {self.budget.epsilon:g}"
        size = self.sampling_rate * self.n_samples
        discarded = f", the first {self.n_burn_in:,} discarded" if self.n_burn_in else ""
        batch = "the full table" if self.sampling_rate == 1 else f"{size:.6g} records expected"
        return [
            ("sampler", self.sampler),
            ("spends", f"epsilon = {self.epsilon:.6g} at delta = {self.delta:.3g} ({asked})"),
            ("protects", f"{relation}, table of {self.n_samples:,} rows"),
            ("parameters", f"{self.bounds.n_parameters:,}"),
            ("temperature", f"{self.temperature:.4g}"),
            ("steps", f"{self.n_steps:,}{discarded}"),
            ("draws", f"{self.n_draws:,}"),
            ("a step reads", batch),
        ]

    def __str__(self):
        work = f"{self.record_gradients / self.n_samples:,.4g} passes over the table"
        seconds = f"very roughly {self.estimated_seconds:.2g} s on one core"
        rows = [*self._rows(), ("work", f"{work}, {seconds}")]
        rows.append(("memory", f"{self.memory_bytes / 2**20:.3g} MiB beside the table"))
        if self.condition:
            rows.append(("condition", f"the cost holds if {self.condition}"))
        rows.extend(("note", text) for text in self.notes)
        width = max(len(name) for name, _ in rows)
        body = "\n".join(f"  {name:<{width}}  {text}" for name, text in rows)
        return f"Privacy plan\n{body}"
