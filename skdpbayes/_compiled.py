"""Compiled functions, cached on disk where there is a folder to write to."""

from numba import njit


def compiled(function):
    """Compile a function at its first call, and keep the result on disk if that is possible."""
    options = {"error_model": "numpy", "nogil": True}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # There is no folder that numba may write to.
        return njit(**options)(function)
