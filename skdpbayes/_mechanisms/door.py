"""The one door through which numbers that are made of records leave, with noise or by chance.

    released = release(),      told of it: what it is made of, its noise, and what is charged for it

Nobody listens in a fit. A replay (`skdpbayes.audit.replay`) does: it compares what two neighbouring tables
bring to the door with what is charged, and hands out the same release to both. Whoever listens sees sums of
records without noise, and what is made of these is private.
"""

from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np


class Passage(NamedTuple):
    """What passes the door.

    Attributes
    ----------
    kind : {"gaussian", "laplace", "choice", "counts", "batch"}
        Sums with Gaussian or discrete Laplace noise, a choice by weights, counts of values, or sums
        over a batch with Gaussian noise.
    statistic : ndarray, dict or callable
        What it is made of: sums, logarithms of weights, or {value: count}; or what returns it.
    noise : ndarray or float or None
        Deviations of Gaussian noise, or the scale of Laplace noise.
    charged : float or None
        What is paid for it: ``mu``, epsilon, or a range of log odds; of batches, how far a record in one may
        move it, in deviations. None is not known here.
    is_joint : bool
        Whether that is for this release and those before it, back to the last that was not joint.
    alone : callable or None
        Draws the same without records, for the noise of a statistic that ``is_noisy`` to be seen.
    rate : float
        At which a record is in a batch.
    is_noisy : bool
        Whether the statistic has its noise already, because compiled code has added it. Two runs that draw
        the same numbers then differ in what records have moved.
    rest : callable or None
        Tells of what was released, where that is more than the statistic, whether all of it follows from the
        statistic and from what is public.
    of_one_row : bool
        Whether one row of each person is read, so that what is charged for a row is charged for a person.
    threshold : float or None
        Of counts, what a noisy one has to reach for its value to be released. ``alone`` then takes a list of
        (value, count).
    """

    kind: str
    statistic: Any
    noise: Any = None
    charged: float | None = None
    is_joint: bool = False
    alone: Callable[..., Any] | None = None
    rate: float = 1.0
    is_noisy: bool = False
    rest: Callable[[Any], bool] | None = None
    of_one_row: bool = False
    threshold: float | None = None


_listener: ContextVar[Any] = ContextVar("listener", default=None)


def through_door(
    passage: Passage, release: Callable[[], Any], generator: np.random.Generator
) -> Any:
    """Return ``release()``, or what a listener makes of it.

    A sampler of your own that adds its noise in here can be replayed.

    Parameters
    ----------
    passage : Passage
        What is released, without its noise, and what is charged.
    release : callable
        Draws what is released.
    generator : numpy.random.Generator
        From which it draws.

    Returns
    -------
    released : object
        What ``release`` returns.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.audit import Passage, through_door
    >>> generator, sums = np.random.default_rng(0), np.array([3.0, 4.0])
    >>> passage = Passage("gaussian", sums, noise=2.0, charged=0.5)
    >>> noisy = through_door(passage, lambda: sums + 2.0 * generator.normal(size=2), generator)
    >>> noisy.shape
    (2,)
    """
    listener = _listener.get()
    return release() if listener is None else listener(passage, release, generator)


def is_listened_to() -> bool:
    """Tell whether somebody listens."""
    return _listener.get() is not None


def pass_by(what):
    """Tell a listener that noise is added elsewhere, by compiled code, and what it is added to."""
    listener = _listener.get()
    if listener is not None:
        listener.pass_by(what)


@contextmanager
def listening(listener):
    """Hand over what passes the door, in this thread, to a listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
