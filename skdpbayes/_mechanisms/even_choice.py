"""A private choice of the point of a public grid at which a sum over records comes out even.

    S_j = sum_i v_ij,  |v_ij| <= 1,     P(j) ~ w_j exp(-eta |S_j| / (2 D)),

``D = 2`` under ``replace_one`` and 1 under ``add_or_remove_one``: the exponential mechanism of McSherry and
Talwar (2007), with public weights ``w``. A record moves every ``|S_j|`` by at most ``D``, and so no two
log-probabilities by more than ``eta`` relative to each other: what is chosen costs what a bit of that range
does (`skdpbayes.privacy.accept_bits`).

Sums are exact, in units of ``UNIT``. Weights are doubles, and of these the choice is exact: an even integer
below their sum, which all are integers of one unit.
"""

import math

import numpy as np

from .door import Passage, through_door
from .integers import choose_weighted

# Of a record's share in a sum.
UNIT = 2.0**-24
# What is less likely than this, relatively, in logarithms, counts as no less likely: a record moves that
# bound no farther than the rest.
_LEAST_LIKELY = -60.0
_WEIGHT_BITS = 140


def choose_even(sums, log_weights, log_odds_range, records_moved, generator):
    """Return the number of a point at which a sum is nearly zero.

    Parameters
    ----------
    sums : ndarray of shape (n_points,), int64
        In units of `UNIT`; a record moves each by at most ``1 / UNIT``, up or down.
    log_weights : ndarray of shape (n_points,)
        Public.
    log_odds_range : float
        ``eta``; ``inf`` takes the least sum.
    records_moved : float
        ``D``: how many records' shares neighbouring tables differ by.
    generator : numpy.random.Generator

    Returns
    -------
    number : int
    """
    uneven = np.abs(sums)
    if math.isinf(log_odds_range):
        return int(np.argmin(uneven))
    # Less the least, exactly: of what is left, none that matters is large, and rounding little.
    uneven = (uneven - uneven.min()) * UNIT
    logs = log_weights - log_odds_range / (2.0 * records_moved) * uneven
    logs = np.maximum(logs - logs.max(), _LEAST_LIKELY)
    weights = [int(math.ldexp(math.exp(log), _WEIGHT_BITS)) for log in logs]

    def release():
        return choose_weighted(weights, generator)[0]  # Proposition 34.

    passage = Passage("choice", np.log(np.array(weights, dtype=float)), None, log_odds_range)
    return through_door(passage, release, generator)
