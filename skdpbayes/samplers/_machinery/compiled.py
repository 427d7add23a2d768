"""Cores: compiled functions of a target, cached on disk for this package's targets.

numba looks at a core's own file to tell whether its cache is stale, and not at the files of what the core
calls. A cached core is therefore filed under a hash of all sources that can end up in one. A target of the
user's may change without this package noticing, so it is compiled once per process.
"""

import hashlib
from functools import cache
from pathlib import Path

import numpy as np
from numba import njit

from ..._compiled import compiled
from ...targets import n_examples, prior_potential

_PACKAGE = __name__.partition(".")[0]


@cache
def _fingerprint():
    """Return a hash of the sources that end up in compiled cores."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[2]
    for folder in ("samplers", "targets"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class CompiledCore:
    """A compiled function of a target.

    Parameters
    ----------
    function : callable
        Its first argument is a target.
    """

    def __init__(self, function):
        self._fresh = njit(error_model="numpy", nogil=True)(function)
        function.__qualname__ += f"_{_fingerprint()}"
        self._cached = compiled(function)

    def __call__(self, target, *args):
        ours = type(target).__module__.partition(".")[0] == _PACKAGE
        return (self._cached if ours else self._fresh)(target, *args)


@CompiledCore
def count_examples(target):
    """Return a target's number of records."""
    return n_examples(target)


@CompiledCore
def prior_potential_of(target, theta):
    """Return ``-log p(theta)`` up to a constant."""
    return prior_potential(target, theta)


def start_of(target, plan):
    """Return where a chain starts: at the target's own start, which is public, or at zero."""
    start = getattr(target, "start", None)
    return np.zeros(plan.bounds.n_parameters) if start is None else np.array(start, dtype=float)
