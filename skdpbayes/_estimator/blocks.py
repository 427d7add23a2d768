"""What is computed row by row is computed partition by partition of a collection, when it is asked for.

f(X) = (f(X_1), f(X_2), ...)
"""

from functools import partial, wraps

from .tables import is_collection


def by_blocks(method):
    """Have a method of one table take collections of Dask, of which it returns such a collection."""

    @wraps(method)
    def either(self, X):
        if not is_collection(X):
            return method(self, X)
        from .._dask.blocks import map_blocks

        return map_blocks(partial(method, self), X)

    return either
