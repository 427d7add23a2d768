"""The random number of runs of a private selection, of which only the best is released."""

import math

from ..privacy.profiles import number_law


def draw_number(generator, mean, shape):
    """Draw the number of runs.

    Parameters
    ----------
    generator : numpy.random.Generator
        Of private randomness: the number is not to be known.
    mean, shape : float
        As for `SelectedRun`.

    Returns
    -------
    number : int
        At least 1.
    """
    law, number = number_law(mean, shape), 0
    if mean == 1:
        return 1
    if shape == 0:
        return int(generator.logseries(1.0 - law))  # Proposition 43.
    while number == 0:
        poisson = math.isinf(shape)
        # Proposition 43.
        number = generator.poisson(law) if poisson else generator.negative_binomial(shape, law)
    return int(number)
