"""Marks of partitions, which tell whether one that is computed again still has the same rows.

    mark = HMAC_key(number of the partition, types, shapes and bytes of X, y and weights)

The key is drawn for each fit: marks say nothing about rows, not even that two tables have the same.
"""

import hmac

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
    if array.dtype.kind in "OT":  # Labels, whose bytes are addresses.
        return repr(array.tolist()).encode()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
