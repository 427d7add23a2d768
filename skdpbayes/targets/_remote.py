"""Targets whose records are elsewhere: their public numbers, and where sums over their records come from.

    sum_i grad ell_i(theta) = sum_p sum_{i in shard p} grad ell_i(theta)

Compiled code calls a Python function by its address: see `skdpbayes.samplers._machinery.shards`.
"""

import numpy as np
from numba import types

from .._compiled import call_address, compiled_for
from ._interface import add_gradient, implements, n_examples


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
    # If a Python function is interrupted, what it returns means nothing, so that it sets a flag besides.
    answered = np.zeros(1, np.int64)
    asked = (*place, out.ctypes.data, out.size, answered.ctypes.data)
    call_address(target.address, asked)  # type: ignore[call-arg]  # numba gives the context.
    if answered[0] != 1:
        raise RuntimeError("a sum over rows elsewhere was interrupted.")


def of_remote_rows(target_class):
    """Declare a class of targets whose ``count`` records are elsewhere; ``address`` gives sums over them."""
    implements(n_examples, target_class)(_count)
    implements(add_gradient, target_class)(_ask)
    # The sum is cut into chunks where the records are, and not here.
    target_class.n_chunks = 1
    return target_class
