"""How small a delta may be.

    budgets:      delta = 0  or  1e-300 <= delta < 1
    conversions:  every double in [0, 1), by its logarithm

What is planned divides a delta among parts. Numbers near the smallest doubles have few digits, so that a
part of them may be rounded up to several times what it is, or down to zero, which is another promise.
"""

import sys

SMALLEST_DELTA = 1e-300


def check_delta(delta):
    """Raise a ValueError if a budget may not have this delta."""
    if not 0 <= delta < 1:
        raise ValueError(
            f"delta must be in [0, 1), got {delta}: choose it well below 1 / n_samples."
        )
    if 0 < delta < SMALLEST_DELTA:
        raise ValueError(
            f"delta must be 0 or at least {SMALLEST_DELTA:g}, got {delta}: take delta=0 for pure "
            "differential privacy, or a larger delta."
        )


def rounded_down(part):
    """Return a part of a delta; 0 if it has lost digits, at which every epsilon is larger."""
    return part if part >= sys.float_info.min else 0.0


def rounded_up(delta):
    """Return what holds in place of a computed delta, which may be 0 by rounding alone."""
    return max(delta, SMALLEST_DELTA)
