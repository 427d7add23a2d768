"""What a step of each of Metropolis' samplers costs, and how often it accepts.

The log ratio at distance ``M = x sigma`` is ``N(-x^2/2, x^2)`` on a normal posterior, and what batches and
noise add has the same form. With ``s^2`` the sum of the variances, a share

    A(s) = exp(-s^2/8) E[sech(s Z / 2)] / 2   (Barker's rule),      A(s) = 2 Phi(-s / 2)   (Metropolis')

of the proposals is accepted, ``Z`` standard normal.
"""

import math
from functools import cache

import numpy as np
from scipy.special import ndtr

from ...privacy.accept_bits import LARGEST_BATCH_RATIO, accept_range
from ...privacy.cost import PrivacyCost
from ...privacy.floating_point import covered_records
from ...privacy.loss_distributions import AcceptBits, PoissonGaussian, records_moved

# More than the rounding of log-odds that decide anything, which are at most 40.
ROUNDED_LOG_ODDS = 2.0**-45


def rounded_noisy_ratio(noise_variance):
    """Return how much farther apart rounding can leave two log ratios to which noise is added.

    Ratios of more than ``v + 256`` in size leave next to nothing open: see "Noise" in
    docs/theory/decisions_in_floating_point.rst.
    """
    return 2.0**-50 * (noise_variance + 256.0)


def barker_acceptance(deviation):
    """Return the mean of ``1 / (1 + exp(-x))``, ``x`` normal with mean ``-deviation^2 / 2``."""
    deviation = np.asarray(deviation, dtype=float)
    # The mean of sech is smooth, and is looked up; beyond the table it hardly matters.
    mean = np.interp(deviation, *_mean_sech())
    return np.exp(-(deviation**2) / 8.0) * mean / 2.0


@cache
def _mean_sech():
    """Return deviations, and the mean of ``sech(x / 2)`` for ``x`` normal with them and mean 0."""
    deviations, nodes = np.linspace(0.0, 40.0, 4001), np.linspace(0.0, 9.0, 181)
    weights = np.exp(-(nodes**2) / 2.0) * np.where(nodes == 0, 0.5, 1.0)
    sech = 1.0 / np.cosh(np.multiply.outer(deviations, nodes) / 2.0)
    return deviations, (sech @ weights) / weights.sum()


def metropolis_acceptance(deviation):
    """Return the mean of ``min(1, exp(x))``, ``x`` normal with mean ``-deviation^2 / 2``."""
    return 2.0 * ndtr(-np.asarray(deviation) / 2.0)


class Kernel:
    """What a step of one of the samplers costs: public numbers only.

    Parameters
    ----------
    on_batches : bool
        Whether it may read Poisson batches.
    noisy : bool
        Whether Gaussian noise protects it; else Barker's rule does.
    relation : str
        Neighbouring relation.
    private : bool
        Whether anything is to be protected; else Metropolis' rule is better.
    n_samples : int
        Public size of the table.
    """

    def __init__(self, on_batches, noisy, relation, private, n_samples):
        self.on_batches, self.relation, self.n = on_batches, relation, n_samples
        self.noisy = noisy and private
        self.rule = "metropolis" if noisy or not private else "barker"
        self.sides = records_moved(relation)

    def acceptance(self, deviation):
        """Return the share of proposals that is accepted, given the deviation of the log ratio."""
        exact = metropolis_acceptance if self.rule == "metropolis" else barker_acceptance
        return exact(deviation)

    def _range(self, bound, ratio):
        """Return the range of a bit's log-odds, with what rounding can add to it."""
        exact = accept_range(bound, ratio, self.relation)
        return exact + ROUNDED_LOG_ODDS + self._rounded_batch(bound, ratio)

    def _rounded_batch(self, bound, ratio):
        """Return how much farther apart rounding can leave the log ratios of batches of two tables."""
        records = covered_records(self.n, self.relation)
        with np.errstate(divide="ignore"):
            size = records * bound * (1.0 + np.divide(1.0, ratio))
        return np.where(ratio == 0, 0.0, 2.0**-48 * (size + 128.0))

    def _counted(self, bound, ratio, noise_variance):
        """Return (what a record adds each time that it counts, how often it does)."""
        rounded = self._rounded_batch(bound, ratio) + rounded_noisy_ratio(noise_variance)
        return np.log1p(ratio) + rounded, bound * (1.0 + np.divide(1.0, ratio))

    def _shift(self, bound, noise_variance):
        """Return how far apart the noisy log ratios of all records of two tables are, rounding included."""
        return self.sides * bound + rounded_noisy_ratio(noise_variance)

    def fixed_rounding(self, ratio, noise_variance):
        """Return what rounding adds to a step's range, or shift, however short the step is."""
        if self.noisy:
            return rounded_noisy_ratio(noise_variance)
        return ROUNDED_LOG_ODDS + (0.0 if ratio == 0 else float(self._rounded_batch(0.0, ratio)))

    def units(self, bound, ratio, noise_variance, pure):
        """Return what steps take of a budget's epsilon if it is pure, else of its ``mu^2``, as arrays.

        In the limit of many small steps.
        """
        if self.rule == "metropolis" and not self.noisy:
            return np.zeros(np.broadcast_shapes(bound.shape, ratio.shape))
        if not self.noisy:
            moved = self._range(bound, np.minimum(ratio, LARGEST_BATCH_RATIO))
            return moved if pure else moved**2 / 4.0
        with np.errstate(divide="ignore", invalid="ignore"):
            jump, rate = self._counted(bound, ratio, noise_variance)
            all_records = self._shift(bound, noise_variance)
            moved = np.where(ratio == 0, all_records, self.sides * jump * rate)
        return moved**2 / noise_variance

    def cost(self, bound, ratio, noise_variance, n_steps):
        """Return the cost of steps of one length, whose record bound is ``bound``."""
        if self.rule == "metropolis" and not self.noisy:
            return PrivacyCost(self.relation, mu=math.inf)
        if not self.noisy:
            bits = AcceptBits(float(self._range(bound, ratio)), n_steps)
            return PrivacyCost(self.relation, bits=(bits,))
        deviation = math.sqrt(noise_variance)
        if ratio == 0:
            mu = self._shift(bound, noise_variance) / deviation * math.sqrt(n_steps)
            return PrivacyCost(self.relation, mu=mu)
        jump, rate = map(float, self._counted(bound, ratio, noise_variance))
        counted = PoissonGaussian(deviation / jump, rate, n_steps)
        return PrivacyCost(self.relation, counted=(counted,))

    def concentrated(self, bound, ratio, noise_variance):
        """Return what one step of a filtered chain costs, as zCDP."""
        return self.cost(bound, ratio, noise_variance, 1).concentrated
