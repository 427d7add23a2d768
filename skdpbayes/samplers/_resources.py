"""Whether a run would end, and fit into memory, by public numbers: if not, it is refused before it spends.

8 bytes (draws x parameters) + what else a plan lists  <=  the machine's memory
"""

import os

from ..exceptions import TooLargeError

# A year: guesses of run times may be wrong by a factor of ten, and chains of days are a user's own affair.
_LONGEST_SECONDS = 3.2e7
# Where the system does not say what it has.
_LARGEST_MEMORY = 2**40


def memory_of_machine():
    """Return the bytes of memory that this machine has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _LARGEST_MEMORY


def check_draws(n_draws, size, beside=0):
    """Raise a `TooLargeError` if draws do not fit into memory.

    Parameters
    ----------
    n_draws : int
    size : int
        How many numbers a draw has.
    beside : float, default=0
        Bytes that are needed beside them.
    """
    memory = memory_of_machine()
    need = 8.0 * n_draws * size + beside
    if need <= memory:
        return
    most = int((memory - beside) / (8.0 * size))
    remedy = (
        f"n_draws={most:,} is the most that fits"
        if most > 0
        else "take fewer parameters or rows, or more memory"
    )
    raise TooLargeError(
        f"n_draws={n_draws:,} of {size:,} numbers need {need / 2**30:,.3g} GiB of memory, and this machine "
        f"has {memory / 2**30:,.3g}: {remedy}. Nothing was read."
    )


def check_plan(plan):
    """Raise a `TooLargeError` if a plan needs more memory than there is, or would not end within a year."""
    size = plan.n_parameters
    check_draws(plan.n_draws, size, plan.memory_bytes - 8.0 * plan.n_draws * size)
    seconds = plan.estimated_seconds
    if seconds > _LONGEST_SECONDS:
        name = "n_draws" if plan.n_draws > plan.n_steps else "n_steps"
        most = int(getattr(plan, name) * _LONGEST_SECONDS / seconds)
        raise TooLargeError(
            f"the run would take about {seconds / _LONGEST_SECONDS:,.3g} years, and a year is the most that "
            f"is begun: take at most {name}={max(most, 1):,}, or another sampler. Nothing was read."
        )
