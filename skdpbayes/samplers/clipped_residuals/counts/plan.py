"""What is released for a posterior of counts, and what it costs.

    A    = sum_i (x_i, c) (x_i, c)^T + N
    h_b  = sum_i [y_i in bin b] + N,  and the same of exposures
    F    = sum_i v_i z_i z_i^T + N
    g_k  = sum_i v_i z_i psi_i + N,     s_k = sum_i psi_i^2 + N        psi_i = psi_{tau_k}(y_i - m_i(u_k))

Noise is that of a plan for numbers, since a record moves each as much (Proposition 76). Points and clips
follow from what was released before.
"""

import math
from dataclasses import dataclass

from ...noise_aware.plan import BURN_IN, LEAPS, N_CHAINS, N_ROWS
from ..plan import ClippedResidualsPlan
from ..schedule import CLIPPING, SIZE_SHARE, Clippings, Shares

# Of mu^2, and how many looks, each of which has more than the last. Clips follow from counts from the first
# look on, since a histogram tells these: looks need not begin with little.
_MOMENT, _CURVATURE, _N_LOOKS, _GROWTH = 0.08, 0.12, 4, 1.5
# Slopes and clips where counts are about 1.
_SLOPE, _CLIP = 0.75, 1.25
# A largest count that leaves answers of yes and no.
_YES = 1.0
# An expected error of logits at which little is learnt, and noise of the curvature, relative to its usual
# eigenvalue, that hides which columns vary together.
_NOTHING, _HIDDEN = 0.5, 1.0


def share_for_counts(n_samples, length, mu, moved):
    """Return `Shares`, `Clippings`, and about the error where counts have a mean of 1; as `share_budget`."""
    looks = [_GROWTH**k for k in range(_N_LOOKS)]
    left = (1.0 - SIZE_SHARE - _MOMENT - _CURVATURE) / sum(looks)
    shares = Shares(_MOMENT, _CURVATURE, SIZE_SHARE, 0.0, tuple(left * x for x in looks))
    reach = moved * math.sqrt(CLIPPING * length) * _CLIP / _SLOPE
    noise = reach / (n_samples * mu * math.sqrt(sum(shares.looks)))
    return shares, Clippings(), math.sqrt(length) * math.hypot(noise, n_samples**-0.5)


@dataclass(frozen=True, kw_only=True)
class ClippedCountsPlan(ClippedResidualsPlan):
    """A plan for a posterior of counts; ``size_multiplier`` is that of a histogram."""

    @property
    def estimated_seconds(self):
        """A rough guess of the run time, that for drawing included."""
        entries = self.n_samples * self.n_parameters
        reading = entries * (2e-8 * self.n_steps + 1.1e-9 * self.n_parameters)
        rounds = BURN_IN + self.n_draws / N_CHAINS
        return (
            reading + 2.0 + N_ROWS * N_CHAINS * LEAPS * rounds * (5e-8 + 2e-9 * self.n_parameters)
        )

    @property
    def widening(self):
        """How much wider privacy makes intervals, about, if counts have a mean of 1."""
        return self.expected_error / math.sqrt(self.n_parameters / self.n_samples)

    @property
    def is_drowned(self):
        """Whether noise hides nearly all."""
        return self.expected_error > _NOTHING

    @property
    def noise_of_rows(self):
        """About the largest eigenvalue of the curvature's noise, over the mean one of curvatures."""
        length, moved = self.n_parameters, self.budget.records_moved
        noise = math.sqrt(moved) * CLIPPING * length * self.curvature_multiplier / self.n_samples
        return noise * math.sqrt(2.0 * length)

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        found = super().warnings
        if (largest := self.bounds.family.max_count) <= _YES:
            found += (
                f"max_count={largest:g} leaves 0 and one other count, which are taken for larger counts that "
                "were cut: rates of answers of yes and no come out too high, several times where most are "
                "yes. For yes or no take DPBayesianLogisticRegression; for counts set max_count to a public "
                "number that few of them reach.",
            )
        if self.noise_of_rows > _HIDDEN and not self.is_drowned:
            found += (
                f"noise hides how columns vary together, in {self.n_samples:,} rows at "
                f"epsilon={self.budget.epsilon:g}: if a few directions have most of their variance, "
                "intervals are too short. Raise epsilon, or take more rows or fewer columns.",
            )
        return found

    def summary(self):
        """Return the lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        lines["spent on"] = lines["spent on"].replace("sizes of responses", "a histogram of counts")
        lines["intervals"] = (
            f"about {self.widening:.2g} times as wide as without privacy, if counts have a mean of 1"
        )
        lines["slopes"] = "those of Poisson's law, which many zeros or heavy tails may bend"
        return lines
