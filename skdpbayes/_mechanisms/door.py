"""The one door through which numbers that are made of records leave, with noise or by chance.

    released = release(),      told of it: what it is made of, its noise, and what is charged for it

Nobody listens in a fit. A replay (`skdpbayes.audit.replay`) does: it compares what two neighbouring tables bring to
the door with what is charged, and hands out the same release to both. Whoever listens sees sums of records
without noise, so what is made of this is private.
"""

from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple


class Passage(NamedTuple):
    """What passes the door.

    Attributes
    ----------
    kind : {"gaussian", "laplace", "choice", "counts"}
        Sums with Gaussian or with discrete Laplace noise, a choice by weights, or counts of values that occur.
    statistic : ndarray, dict or callable
        What it is made of: sums, logarithms of weights, or {value: count}; or what returns it.
    noise : ndarray or float or None
        Deviations of Gaussian noise, or the scale of Laplace noise.
    charged : float or None
        What is paid for it: ``mu``, epsilon, or a range of log odds; None is not known here.
    is_joint : bool
        Whether that is for this release and the ones before it together, back to the first that was not joint.
    """

    kind: str
    statistic: Any
    noise: Any = None
    charged: float | None = None
    is_joint: bool = False


_listener: ContextVar[Callable | None] = ContextVar("listener", default=None)


def through_door(passage, release, generator):
    """Return ``release()``, or what a listener makes of it.

    Parameters
    ----------
    passage : Passage
    release : callable
        Draws what is released.
    generator : Generator
        From which it draws.
    """
    listener = _listener.get()
    return release() if listener is None else listener(passage, release, generator)


@contextmanager
def listening(listener):
    """Hand over what passes the door, in this thread, to a listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
