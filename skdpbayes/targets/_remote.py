"""Targets whose records are elsewhere: their public numbers, and whom to ask for sums over records.

    sum_i grad ell_i(theta) = sum_p sum_{i in part p} grad ell_i(theta)

Compiled code asks a function at an address, which is Python's: see `skdpbayes.samplers._machinery.parts`.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from .._compiled import call_address, compiled_for
from ._interface import add_gradient, implements, n_examples
from .linear.logistic import BOUNDS, public_numbers
from .mixture.model import STATISTICS_NORM


class LogisticElsewhere(NamedTuple):
    """Logistic regression; ``n_classes`` is the number of blocks, 1 for two classes."""

    address: int
    count: int
    intercept_scaling: float
    prior_precision: np.ndarray
    gradient_bound: float
    row_norm: float
    max_weight: float
    n_classes: int

    bounds = BOUNDS
    # Whom it asks cuts the sum into parts of its own.
    n_parts = 1


class MixtureTableElsewhere(NamedTuple):
    """A mixture's rows in the unit ball."""

    address: int
    count: int
    gradient_bound: float
    n_features: int
    data_norm: float

    n_parts = 1


def _count(target):
    return target.count


def _members_at(selection):
    """Return where the numbers of some records are, 0 for a whole table (generic, compiled)."""
    raise NotImplementedError("_members_at is a generic of compiled code.")


@compiled_for(_members_at)
def _where_members_are(selection):
    if isinstance(selection, types.Integer):
        return lambda selection: 0
    return lambda selection: selection.ctypes.data


def _ask(target, theta, selection, count, out):
    place = (theta.ctypes.data, theta.size, _members_at(selection), count)
    # What a function of Python's returns that is interrupted is anything.
    answered = np.zeros(1, np.int64)
    call_address(target.address, (*place, out.ctypes.data, out.size, answered.ctypes.data))
    if answered[0] != 1:
        raise RuntimeError("a sum over rows elsewhere was interrupted.")


for _target in (LogisticElsewhere, MixtureTableElsewhere):
    implements(n_examples, _target)(_count)
    implements(add_gradient, _target)(_ask)


def logistic_elsewhere(address, count, norm, n_classes, constant, prior_precision, max_weight):
    """Return what stands for the targets that `make_logistic` makes of rows elsewhere."""
    numbers = public_numbers(norm, n_classes, constant, prior_precision, max_weight)
    return LogisticElsewhere(address, count, *numbers, 1 if n_classes == 2 else n_classes)


def mixture_elsewhere(address, count, model):
    """Return what stands for a mixture's rows elsewhere."""
    return MixtureTableElsewhere(
        address, count, STATISTICS_NORM, model.n_features, float(model.data_norm)
    )
