"""Computations on records that emit no warnings, whatever the records hold.

A floating-point warning, or the error that `numpy.seterr` or `scipy.special.seterr` turns it into, would
reveal that a record overflowed.
"""

from contextlib import contextmanager

import numpy as np
from scipy import special


@contextmanager
def silently():
    """Suppress floating-point warnings and errors, as a context manager or decorator."""
    with np.errstate(all="ignore"), special.errstate(all="ignore"):
        yield
