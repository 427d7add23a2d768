"""Computations on records that emit no warnings, whatever the records hold.

A floating-point warning, or the error that `numpy.seterr` turns it into, would reveal that a record
overflowed.
"""

from contextlib import contextmanager

import numpy as np


@contextmanager
def silently():
    """Suppress floating-point warnings and errors, as a context manager or decorator."""
    with np.errstate(all="ignore"):
        yield
