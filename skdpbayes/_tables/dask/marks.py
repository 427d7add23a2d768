"""Marks of partitions, which tell whether one that is computed again still has the same rows.

    mark = HMAC_key(number of the partition, types, shapes and bytes of X, y and weights)

The key is drawn for each fit: marks say nothing about rows, not even that two tables have the same.
"""

import hmac
from typing import Any

import numpy as np
import scipy.sparse as sp


def mark_of(rows, key, number):
    """Return the mark of the `Rows` of a partition.

    Parameters
    ----------
    rows : Rows
        Validated.
    key : bytes
    number : int
        Of the partition.

    Returns
    -------
    mark : bytes
    """
    mark = hmac.new(key, digestmod="sha256")  # Which processors have instructions for.
    mark.update(repr(number).encode())
    for part in rows:
        for array in _arrays_of(part):
            mark.update(repr((array.dtype.str, array.shape)).encode())
            mark.update(_bytes_of(array))
    return mark.digest()


def _arrays_of(part):
    if part is None:
        return ()
    if sp.issparse(part):
        return np.array(part.shape), part.data, part.indices, part.indptr
    return (np.asarray(part),)


def _bytes_of(array):
    if array.dtype.kind not in "OT":
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    # Labels and categories, whose own bytes are addresses: their different values, and which is where.
    values, numbers = array.ravel().tolist(), dict[Any, int]()
    try:
        places = [numbers.setdefault(value, len(numbers)) for value in values]
        if all(value == value for value in numbers):
            return np.array(places).tobytes() + repr(list(numbers)).encode()
    except TypeError:  # Some cannot be compared.
        pass
    return repr(values).encode()
