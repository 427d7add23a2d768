"""What plans for Metropolis-Hastings say.

A chain's clock counts what its accept/reject decisions cost. With steps of one length all cost the same, and
the clock counts steps. Where lengths differ, as those of Gaussian proposals or adapted ones do, it counts
zCDP of every step as it is proposed, and ends the chain before its total would be passed: a privacy filter
(Rogers et al., 2016; Feldman and Zrnic, 2021; Whitehouse et al., 2023).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._plan import Plan

# Seconds of a step, of a record that is looked up, and of one in a pass over the table; the second numbers
# are for each parameter. They choose between plans that cost the same, and are guesses on any machine.
STEP_SECONDS = (1e-6, 4e-8)
LOOKUP_SECONDS = (3e-8, 2e-9)
PASS_SECONDS = (8e-9, 1.5e-9)
# Exact costs shorten steps by some hundredths more than the search reckons with: no reason for a warning.
_SHORT_SHARE = 0.85
# The distance that is adapted to decisions keeps within this factor of the plan's.
LARGEST_CHANGE = 4.0


class Clock(NamedTuple):
    """What a step is charged, and when the chain ends.

    Attributes
    ----------
    coefficient : float
        A step is charged so many times its squared distance; 0 charges 1 for any step.
    total : float
        No step is made that would pass it.
    burnt : float
        Where burn-in ends.
    wanted_acceptance : float
        At which step sizes are aimed until then; 0 leaves them alone.
    """

    coefficient: float
    total: float
    burnt: float
    wanted_acceptance: float


@dataclass(frozen=True, kw_only=True)
class MetropolisPlan(Plan):
    """A plan for a random walk, of which accept/reject decisions are paid for.

    Where steps differ in length, ``n_steps`` is how many there are at most.

    Attributes
    ----------
    step_size : float
        Distance of a proposal (in one dimension at most; for Gaussian ones its root mean square).
    proposal : {"sphere", "gaussian"}
        Law of the proposals.
    rule : {"barker", "metropolis"}
        How a ratio becomes a probability.
    noise_variance : float
        Variance of the Gaussian noise on the log ratio.
    batch_ratio : float
        ``n a / lambda_T`` of the Poisson batch; 0 takes the whole table.
    adapt_step_size : bool
        Whether the step size follows the accept/reject decisions of the burn-in.
    clock : Clock
        What is charged, and when the chain ends.
    expected_acceptance : float
        Share of proposals that a typical posterior accepts.
    typical_deviation : float
        Deviation of a parameter under a posterior whose curvature is typical of the bounds.
    relaxations : float
        How often such a posterior relaxes after burn-in; half of it is its effective sample size.
    wanted_relaxations : float
        How often it should at least.
    expected_steps : int
        How many steps are expected where the clock decides.
    advice : str
        What else to try, if the budget moves too little.
    """

    step_size: float
    proposal: str
    rule: str
    noise_variance: float
    batch_ratio: float
    adapt_step_size: bool
    clock: Clock
    expected_acceptance: float
    typical_deviation: float
    relaxations: float
    wanted_relaxations: float
    expected_steps: int
    advice: str = ""

    @property
    def lambda_t(self):
        """``lambda_T``: the part of the batch's expected size that does not depend on the distance."""
        if self.batch_ratio == 0:
            return 0.0
        bound = self.bounds.gradient_bound * self.step_size / self.temperature
        return self.n_samples * bound / self.batch_ratio

    @property
    def batch_size(self):
        """Expected number of records that a step reads."""
        return self.sampling_rate * self.n_samples

    @property
    def record_gradients(self):
        """How many records are expected to be read."""
        return self.expected_steps * self.batch_size

    @property
    def estimated_seconds(self):
        """A rough guess of the run time on one core, for dense rows."""
        return self.expected_steps * step_seconds(
            self.bounds.n_parameters, self.batch_size, self.batch_ratio == 0
        )

    @property
    def is_short(self):
        """Whether the chain relaxes clearly less often than it should."""
        return self.relaxations < _SHORT_SHARE * self.wanted_relaxations

    @property
    def memory_bytes(self):
        """Memory that a run needs beside the table: draws, and what clipping keeps."""
        return 8 * ((self.n_draws + 4) * self.bounds.n_parameters + 2 * self.n_samples)

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        found = super().warnings
        if self.is_short:
            found += (
                f"a typical direction of the posterior relaxes {self.relaxations:.2g} times instead of "
                f"{self.wanted_relaxations:g}: the chain hardly leaves its start.",
            )
        return found + ((self.advice,) if self.advice else ())

    def draw_marks(self):
        """Return where the clock stands when the draws are kept: evenly spaced after burn-in."""
        spacing = (self.clock.total - self.clock.burnt) / self.n_draws
        marks = self.clock.burnt + spacing * np.arange(1, self.n_draws + 1)
        # Sums of many charges fall short of the total by rounding.
        return np.minimum(marks, self.clock.total) * (1 - 1e-9)

    def summary(self):
        """Return the lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        if self.n_steps != self.expected_steps:
            most = f"about {self.expected_steps:,}, at most {self.n_steps:,}"
            lines["steps"] = f"{most}, the first {self.n_burn_in:,} or so discarded"
        law = "on a sphere" if self.proposal == "sphere" else "Gaussian"
        adapted = ", adapted to accept/reject decisions in burn-in" if self.adapt_step_size else ""
        lines["proposals"] = f"{law}, at distance {self.step_size:.4g}{adapted}"
        noise = f", noise of variance {self.noise_variance:.4g}" if self.noise_variance else ""
        expected = f"about {100 * self.expected_acceptance:.0f}% expected"
        rule = "Barker's" if self.rule == "barker" else "Metropolis'"
        lines["acceptance"] = f"{rule} rule{noise}, {expected}"
        if self.batch_ratio:
            lines["batch"] = f"lambda_T = {self.lambda_t:.4g} of it, ratio {self.batch_ratio:.3g}"
        typical = f"of a typical direction (deviation {self.typical_deviation:.3g})"
        lines["relaxations"] = f"{self.relaxations:.3g} {typical}"
        return lines


def step_seconds(n_parameters, records, whole_table):
    """Return a rough guess of the seconds of a step."""
    fixed, each = PASS_SECONDS if whole_table else LOOKUP_SECONDS
    step = STEP_SECONDS[0] + STEP_SECONDS[1] * n_parameters
    return step + records * (fixed + each * n_parameters)
