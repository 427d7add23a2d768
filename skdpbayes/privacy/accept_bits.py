"""What a decision of a Barker test, to accept or to reject, tells about one record.

A proposal at distance ``M`` moves a record's tempered log likelihood by ``|u| <= a = c M / tau``, and the
log-odds of its acceptance differ between neighbouring tables by at most ``eta``,

    all records:     eta = 2 a                             (replace_one),   a           (add_or_remove_one)
    Poisson batch:   eta = a (2 + r^2 / (1 + r))           (replace_one),   a (1 + r)   (add_or_remove_one)

with ``r = n a / lambda_T`` at most ``sqrt(2)``: the batch has ``n a (1 + 1 / r)`` records on average.

The decision is a bit. It is ``eta``-DP and ``eta^2 / 8``-zCDP, and the best that can be said of ``k`` of
them, however each depends on those before, is the hockey-stick curve ``D_k`` of

    D_0(e) = (1 - exp(e))_+,    D_{k+1}(e) = max over 0 <= s <= eta of
                                             P_s D_k(e - s) + (1 - P_s) D_k(e - s + eta)

where ``s`` and ``s - eta`` are the losses of a bit's two values and ``P_s`` is the probability of the first.
The largest ``D_1`` is ``(exp(eta/2) - exp(e/2))^2 / (exp(eta) - 1)``, which no single pair of bits attains.

Propositions 19 to 22 have the proofs. Barker (1965); Zhang, Cooper and De Sa (2020) for the
batch; Dong, Durfee and Rogers (2020) for bounded ranges.
"""

import math

import numpy as np

from .._compiled import compilable, compiled

# The bounds above are proved up to here: a smaller batch would leak more than they say.
LARGEST_BATCH_RATIO = math.sqrt(2.0)
# Bits are put together exactly in blocks of so many; blocks compose as privacy loss distributions.
BLOCK_BITS = 64
# Blocks of a larger range have no curve: exponentials would overflow, and a pure epsilon says as much.
LARGEST_BLOCK_RANGE = 30.0
# Losses of a bit are rounded up to a grid of so many cells: 0.8% of the range.
_CELLS = 128


def accept_range(record_bound, batch_ratio, neighboring_relation):
    """Return by how much the log-odds of an accept/reject decision may differ between neighbouring tables.

    Parameters
    ----------
    record_bound : float or ndarray
        ``a``: what a record may add to the log ratio.
    batch_ratio : float or ndarray
        ``n a / lambda_T``; 0 is the full table.
    neighboring_relation : {"replace_one", "add_or_remove_one"}

    Returns
    -------
    log_odds_range : float or ndarray

    Raises
    ------
    ValueError
        If the batch is too small for the bound to be proved.
    """
    if not np.all((batch_ratio >= 0) & (batch_ratio <= LARGEST_BATCH_RATIO)):
        raise ValueError(
            f"batch_ratio must be between 0 and sqrt(2), got {batch_ratio}: raise batch_size, or lower "
            "step_size."
        )
    if neighboring_relation == "replace_one":
        return record_bound * (2.0 + batch_ratio**2 / (1.0 + batch_ratio))
    return record_bound * (1.0 + batch_ratio)


@compilable
def _first_probabilities(spacing, cells):
    """Return the probability of a bit's first value, for every cell that its loss may lie in."""
    # A loss between two points of the grid is dominated by the pair of the farther ones.
    first = np.empty(cells)
    for j in range(cells):
        above, below = (j + 1) * spacing, (j - cells) * spacing
        first[j] = math.expm1(below) / math.expm1(below - above)
    return first


def _extend_once(curve, log_odds_range, cells):
    """Perform one step of the recursion on the curve of no bit, without the compiler."""
    spacing = log_odds_range / cells
    middle = curve.size // 2
    first = _first_probabilities(spacing, cells)
    before = [-math.expm1((i - middle) * spacing) for i in range(-cells, 0)]
    known = np.concatenate([before, curve, np.zeros(cells)])
    points, losses = np.arange(curve.size)[:, None], np.arange(cells)
    loss = known[cells + points - (losses + 1)]
    gain = known[cells + points + cells - losses]
    return np.maximum(0.0, (first * loss + (1.0 - first) * gain).max(axis=1))


@compiled
def _extend(curve, log_odds_range, n_bits, cells):
    """Perform ``n_bits`` steps of the recursion on a curve over a grid of spacing ``range / cells``."""
    spacing = log_odds_range / cells
    middle = curve.size // 2
    first = _first_probabilities(spacing, cells)
    extended = curve.copy()
    for bit in range(n_bits):
        reach = min((bit + 1) * (cells + 1), middle)
        for i in range(middle - reach, middle + reach + 1):
            largest = 0.0
            for j in range(cells):
                low, high = i - (j + 1), i + cells - j
                loss = curve[low] if low >= 0 else -math.expm1((low - middle) * spacing)
                gain = curve[high] if high < curve.size else 0.0
                largest = max(largest, first[j] * loss + (1.0 - first[j]) * gain)
            extended[i] = largest
        # Assigning to a slice would compile the text of an error about shapes, for three seconds.
        for i in range(curve.size):
            curve[i] = extended[i]
    return curve


def accept_bits_curve(log_odds_range, n_bits):
    """Return the worst hockey-stick divergence of so many decisions, chosen adaptively.

    Parameters
    ----------
    log_odds_range : float
    n_bits : int

    Returns
    -------
    epsilons : ndarray of shape (n_points,)
        A grid; beyond its ends the curve is ``(1 - exp(epsilon))_+``.
    deltas : ndarray of shape (n_points,)
        At least the divergence at every point; lines between them (as functions of ``exp(epsilon)``)
        are above the curve, too.
    """
    spacing = log_odds_range / _CELLS
    reach = n_bits * (_CELLS + 1)
    epsilons = spacing * np.arange(-reach, reach + 1)
    start = np.maximum(0.0, -np.expm1(epsilons))
    if n_bits == 1:
        return epsilons, _extend_once(start, log_odds_range, _CELLS)
    return epsilons, _extend(start, log_odds_range, n_bits, _CELLS)
