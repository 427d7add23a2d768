"""Functions of compiled code, as tests call them."""

from numba import njit


def called(function):
    """Return a function that has ``function`` compiled, and calls it."""

    @njit(error_model="numpy", nogil=True)
    def call(*args):
        return function(*args)

    return call
