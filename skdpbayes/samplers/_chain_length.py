"""How many steps a chain has: what its draws need after the burn-in, and what can be accounted for.

    T - floor(b T) >= n,     b the fraction of the burn-in, n the number of draws

A plan that names neither has a default; one that names both has to agree with itself.
"""

import math

# A plan of more steps than this is refused.
MAX_STEPS = 10**9
# With batches, the rule takes at most so many steps by itself, at a higher temperature if need be. More than
# the second number are refused, because composing their costs would take minutes.
MOST_BATCHES = 300_000
COMPOSABLE_BATCHES = 3_000_000


def number_of_draws(n_draws, default, n_steps, burn_in):
    """Return the user's number of draws, or a default: no more than steps after the burn-in."""
    if n_draws is not None or n_steps is None:
        return n_draws or default
    return min(default, n_steps - math.floor(n_steps * burn_in))


def fewest_steps(n_steps, n_draws, burn_in, most, rate):
    """Return how many steps draws need; raise a ValueError if a number that is given is out of range."""
    fewest = max(1, math.floor(n_draws / (1 - burn_in)))
    while fewest - math.floor(fewest * burn_in) < n_draws:
        fewest += 1
    if n_steps is not None and n_steps < fewest:
        after, or_burn_in = (f" after burn_in={burn_in:g}", " or burn_in") if burn_in else ("", "")
        raise ValueError(
            f"n_steps={n_steps} leaves fewer than n_draws={n_draws} steps{after}: take n_steps >= "
            f"{fewest}, or lower n_draws{or_burn_in}."
        )
    if n_steps is not None and n_steps > most:
        batches = ", with a larger batch_size or batch_size=None" if rate < 1 else ""
        raise ValueError(
            f"n_steps={n_steps} is more than the {most} whose cost can be computed: take fewer{batches}."
        )
    return fewest


def most_steps(rate):
    """Return how many steps of a path can be accounted for, and how many the rule takes at most."""
    return (MAX_STEPS, MAX_STEPS) if rate == 1 else (COMPOSABLE_BATCHES, MOST_BATCHES)


def chain_length(n_steps, default, n_draws, burn_in, rate):
    """Return the user's number of steps, or a default: as many as the draws after the burn-in need."""
    if n_steps is None:
        return max(default, math.ceil((n_draws + 1) / (1.0 - burn_in)))
    fewest_steps(n_steps, n_draws, burn_in, most_steps(rate)[0], rate)
    return n_steps
