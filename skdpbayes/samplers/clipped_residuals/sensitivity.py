"""What one record can move of a look: a sum of rows times clipped residuals, and the sum of their squares.

    J = sup  a |g - g'|^2 / (q C tau)^2 + b (s - s')^2 / tau^4,      g = w v psi z,  s = w psi^2

is the square of ``mu`` for multipliers ``a^(-1/2)`` of the sum and ``b^(-1/2)`` of the square. Sums are
farthest apart where both residuals are at the clip, and then squares are the same: if records are replaced,
the square is free up to a multiple of what the sum costs.
"""

import math

# The largest ``b / a`` at which squares add nothing if records are replaced.
FREE = (11.0 + 5.0 * math.sqrt(5.0)) / 32.0


def look_precision(of_sum, of_square, replaces):
    """Return a bound on ``J``, exact where squares are free or records are not replaced.

    Parameters
    ----------
    of_sum, of_square : float
        ``a`` and ``b``: squares of the inverse noise multipliers.
    replaces : bool
        Whether a record is replaced.
    """
    if not replaces:
        return of_sum + of_square
    return of_sum + max(0.0, of_square - FREE * of_sum)
