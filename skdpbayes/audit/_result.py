"""What an audit says, in words."""

import math
from dataclasses import dataclass

from .._typing import Claim


@dataclass(frozen=True)
class AuditResult:
    """A lower bound on what a mechanism spends, from what an attack achieved.

    Attributes
    ----------
    epsilon_lower_bound : float
        If the mechanism were (epsilon, delta)-private with a smaller epsilon, an attack would be as
        successful with probability at most ``1 - confidence``.
    delta : float
    confidence : float
    claim : {"epsilon", "mu", "normal"}
        What is refuted: that the mechanism is (epsilon, delta)-private; that it is ``mu``-GDP, ``mu`` being
        that of this epsilon and delta; or the latter, if scores are normal.
    mu_lower_bound : float or None
        The same for ``mu``, for claims of ``mu``.
    largest_possible : float
        The bound if the attack had been right each time: no audit of this size finds more.
    n_scores : int
        How many scores, or canaries, the bound is from.
    claimed_epsilon : float or None
        The epsilon that is claimed at this delta.
    n_runs : int or None
        How many releases the scores are from, where it is not one for each.
    notes : tuple of str
    """

    epsilon_lower_bound: float
    delta: float
    confidence: float
    claim: Claim
    mu_lower_bound: float | None
    largest_possible: float
    n_scores: int
    claimed_epsilon: float | None = None
    n_runs: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def contradicts(self) -> bool:
        """Whether the bound is above what is claimed."""
        claimed = self.claimed_epsilon
        return claimed is not None and self.epsilon_lower_bound > claimed

    @property
    def verdict(self) -> str:
        """What it means, in a few sentences."""
        found = (
            f"With {100 * self.confidence:g}% confidence, epsilon is at least "
            f"{self.epsilon_lower_bound:.3g} at delta = {self.delta:.3g}"
        )
        if self.claimed_epsilon is None:
            return f"{found}. Nothing is claimed that it could be compared with. {self._at_best()}."
        claimed = f"the claimed {self.claimed_epsilon:.3g}"
        if self.contradicts:
            return (
                f"{found}: more than {claimed}. The claim is wrong, or the records that were exchanged are "
                f"no neighbours, or releases were not independent. {self._at_best()}."
            )
        text = f"{found}: no contradiction to {claimed}, and no proof of it. {self._at_best()}"
        if self.largest_possible <= self.claimed_epsilon and math.isfinite(self.largest_possible):
            return f"{text}: take more runs, or more canaries."
        return f"{text}."

    def _at_best(self):
        if math.isinf(self.largest_possible):
            return "As scores are taken to be normal, no size of an audit limits what it finds"
        most = f"{self.largest_possible:.3g}"
        return f"An audit of this size finds at most {most}, even if every guess is right"

    def __str__(self):
        size = f"{self.n_scores} scores"
        if self.n_runs is not None:
            size = f"{self.n_scores} canaries in {self.n_runs} run{'s' * (self.n_runs != 1)}"
        lines = [f"Audit: {size}", f"  {self.verdict}", *(f"  {note}" for note in self.notes)]
        return "\n".join(lines)
