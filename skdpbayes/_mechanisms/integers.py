"""Integers of any size, drawn exactly from random bytes: evenly below a number, or by integer weights."""


def integer_below(end, generator):
    """Draw an integer uniformly from 0 to ``end - 1``."""
    bits = end.bit_length()
    while True:
        # Propositions 34 and 50.
        drawn = int.from_bytes(generator.bytes((bits + 7) // 8), "little") >> (-bits % 8)
        if drawn < end:
            return drawn


def choose_weighted(weights, generator):
    """Draw one of several with probabilities proportional to their weights.

    Parameters
    ----------
    weights : sequence of int
        At least 0, and not all 0.
    generator : numpy.random.Generator

    Returns
    -------
    number : int
        Position of the weight that was drawn.
    left : int
        Uniform from 0 to that weight less 1, for a choice within.
    """
    left = integer_below(sum(weights), generator)  # Propositions 34 and 50.
    for number, weight in enumerate(weights):
        if left < weight:
            return number, left
        left -= weight
    raise AssertionError("a number below a sum is below one of its parts.")
