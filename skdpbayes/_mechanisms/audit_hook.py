"""The hook through which every release passes, so that audits can observe it.

    released = release(),      and an event: its statistic, its noise, and what is charged for it

A fit has no observer. A replay (`skdpbayes.audit.replay`) has one: it compares the statistics of two
neighbouring tables with what is charged, and hands out the same release to both. An observer sees sums of
records without noise, and whatever is made of these is private.
"""

from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

import numpy as np


class ReleaseEvent(NamedTuple):
    """A release as an audit sees it.

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
    without_records : callable or None
        Draws the same without records, so that the noise of a statistic that ``is_noisy`` can be seen.
    rate : float
        At which a record is in a batch.
    is_noisy : bool
        Whether the statistic has its noise already, because compiled code has added it. Two runs that draw
        the same numbers then differ in what records have moved.
    is_post_processing : callable or None
        Of what was released, where that is more than the statistic: whether all of it follows from the
        statistic and from what is public.
    of_one_row : bool
        Whether one row of each person is read, so that what is charged for a row is charged for a person.
    threshold : float or None
        Of counts, what a noisy one has to reach for its value to be released. ``without_records`` then takes
        a list of (value, count).
    """

    kind: str
    statistic: Any
    noise: Any = None
    charged: float | None = None
    is_joint: bool = False
    without_records: Callable[..., Any] | None = None
    rate: float = 1.0
    is_noisy: bool = False
    is_post_processing: Callable[[Any], bool] | None = None
    of_one_row: bool = False
    threshold: float | None = None


_observer: ContextVar[Any] = ContextVar("observer", default=None)


def audited_release(
    event: ReleaseEvent, release: Callable[[], Any], generator: np.random.Generator
) -> Any:
    """``release()``, or what an observer makes of it.

    A sampler of your own that adds its noise in here can be replayed.

    Parameters
    ----------
    event : ReleaseEvent
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
    >>> from skdpbayes.audit import ReleaseEvent, audited_release
    >>> generator, sums = np.random.default_rng(0), np.array([3.0, 4.0])
    >>> event = ReleaseEvent("gaussian", sums, noise=2.0, charged=0.5)
    >>> noisy = audited_release(event, lambda: sums + 2.0 * generator.normal(size=2), generator)
    >>> noisy.shape
    (2,)
    """
    observer = _observer.get()
    return release() if observer is None else observer(event, release, generator)


def is_observed() -> bool:
    """Whether there is an observer."""
    return _observer.get() is not None


def record_unreplayed(what):
    """Tell the observer that compiled code adds noise, and to what."""
    observer = _observer.get()
    if observer is not None:
        observer.record_unreplayed(what)


@contextmanager
def observe_releases(observer):
    """Hand the releases of this thread to an observer."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


# Steps of compiled chains one by one, for an observer.
#
#     x_{k+1} = F(x_k, table, noise),      x'_{k+1} = F(x_k, another table, the same noise)
#
# Compiled code draws its noise itself. Since two runs draw the same numbers, noise cancels in the
# difference, which is what records move; and a step on a table without records shows the noise alone.
# What a step leaves behind beside the numbers with noise has to follow from these: it is computed a
# second time, from them and from where the step began. Without an observer chains run in blocks,
# and nothing of this happens.


# So many of a chain's steps have their noise looked at: half of them evenly spaced, half at random.
_N_STEPS_INSPECTED = 64
# What is computed a second time, in sums of another order, may differ by so much of the largest number.
_RELATIVE_ROUNDING = 1e-9


class TracedChain(NamedTuple):
    """The steps of a chain as an observer sees them.

    Attributes
    ----------
    generator : Generator
    memory : callable
        Takes the number of a step; returns the arrays that it overwrites, first the one to whose numbers
        noise is added.
    deviation : callable
        Takes it, and returns the deviation of that noise.
    charges : ndarray of shape (n_steps,)
        What is charged for each, see `step_charges`.
    rate : float
        At which records are in a batch; 1 is for the full table.
    without_records : callable
        As what performs steps, on a table without records.
    follows : callable
        Takes the number of a step, the arrays before it, and the first of them after it; returns the others,
        as they follow from these. It may draw from the generator what a step draws first.
    """

    generator: np.random.Generator
    memory: Callable[[int], tuple[np.ndarray, ...]]
    deviation: Callable[[int], float]
    charges: np.ndarray
    rate: float
    without_records: Callable[[int, int, int], Any]
    follows: Callable[[int, list[np.ndarray], np.ndarray], tuple[np.ndarray, ...]]


def step_charges(plan: Any) -> np.ndarray | None:
    """The charge of each step by a plan's cost, or None where it says nothing of single ones.

    On full tables ``mu``; on batches how far a record in the batch may move the step, in deviations.

    Parameters
    ----------
    plan : Plan
        With a ``noise_multiplier``, that of the first step.

    Returns
    -------
    charges : ndarray of shape (n_steps,) or None
    """
    cost, sensitivity_factor = plan.cost, plan.budget.sensitivity_factor
    if cost.is_infinite or getattr(plan, "hides_path", False) or plan.noise_multiplier <= 0:
        return None
    if plan.sampling_rate < 1:
        # Where tables differ in their sizes, the same numbers draw other batches.
        counts = [part.count for part in cost.sampled]
        missing = plan.n_steps - sum(counts)
        if plan.budget.neighboring_relation != "replace_one" or missing < 0 or not counts:
            return None
        # Noise grows along a chain.
        multipliers = np.repeat([part.noise_multiplier for part in sorted(cost.sampled)], counts)
        # Steps that are not charged are told all the same: then there are more than the cost has.
        return sensitivity_factor / np.pad(multipliers, (0, missing), mode="edge")
    sizes = np.arange(1.0, plan.n_steps + 1) ** -getattr(plan, "step_decay", 0.0)
    charges = sensitivity_factor / plan.noise_multiplier * np.sqrt(sizes)
    # Rounding may be a part of the cost that the multiplier does not contain.
    rounding = cost.mu / np.linalg.norm(charges)
    return charges * (rounding if 1.0 < rounding < 1.01 else 1.0)


def trace_chain(
    plan: Any,
    what: str,
    generator: np.random.Generator,
    memory: Callable[[int], tuple[np.ndarray, ...]],
    deviation: Callable[[int], float],
    without_records: Callable[[int, int, int], Any],
    follows: Callable[[int, list[np.ndarray], np.ndarray], tuple[np.ndarray, ...]],
) -> TracedChain | None:
    """The `TracedChain` for an observer; None without one, or for a chain that cannot be traced.

    Parameters
    ----------
    plan : Plan
    what : str
        What its steps are.
    generator, memory, deviation, without_records, follows
        As for `TracedChain`.
    """
    if not is_observed():
        return None
    charges = step_charges(plan)
    if charges is None:
        record_unreplayed(what)
        return None
    return TracedChain(
        generator, memory, deviation, charges, plan.sampling_rate, without_records, follows
    )


def traced_rows(draws: np.ndarray, kept: np.ndarray, number: int) -> np.ndarray:
    """The rows of the draws of a step, of which there is one or none."""
    return draws[np.searchsorted(kept, number) : np.searchsorted(kept, number, "right")]


def traced_steps(advance: Callable[[int, int, int], Any], watched: TracedChain) -> None:
    """Perform all steps of a chain, each of which passes the hook.

    Parameters
    ----------
    advance : callable
        Performs the steps ``first`` to ``stop - 1``, see `run_in_blocks`.
    watched : TracedChain
    """
    n_steps = watched.charges.size
    looked_at = _looked_at(n_steps, watched.generator)
    for k in range(n_steps):
        memory = watched.memory(k)
        step = _Step(memory, k, watched.generator)
        event = ReleaseEvent(
            "gaussian" if watched.rate == 1 else "batch",
            partial(step.outcome, advance),
            watched.deviation(k),
            float(watched.charges[k]),
            without_records=partial(step.numbers, watched.without_records)
            if k in looked_at
            else None,
            rate=watched.rate,
            is_noisy=True,
            is_post_processing=partial(step.is_followed, watched.follows),
        )
        released = audited_release(event, partial(step.taken, advance), watched.generator)
        _write(memory, released)


def _looked_at(n_steps, generator):
    """The numbers of steps whose noise is looked at."""
    if n_steps <= _N_STEPS_INSPECTED:
        return set(range(n_steps))
    evenly = np.linspace(0, n_steps - 1, _N_STEPS_INSPECTED // 2).astype(int).tolist()
    apart = np.random.Generator(generator.bit_generator.jumped())
    # Public: which steps are looked at.
    others = apart.choice(
        np.setdiff1d(np.arange(n_steps), evenly), _N_STEPS_INSPECTED // 2, replace=False
    )
    return {*evenly, *others.tolist()}


class _Step:
    """One step, which may be taken several times from the same place."""

    def __init__(self, memory, number, generator):
        self.memory, self.number, self.generator = memory, number, generator
        self.before = [array.copy() for array in memory]
        self.begun = generator.bit_generator.state

    def taken(self, advance):
        """All numbers that it leaves behind."""
        for array, values in zip(self.memory, self.before, strict=True):
            array[...] = values
        advance(self.number, self.number + 1, 0)
        return np.concatenate([array.ravel() for array in self.memory])

    def numbers(self, advance):
        """The numbers to which noise is added, with the noise."""
        return self.taken(advance)[: self.before[0].size]

    def outcome(self, advance):
        """The same, and leave the generator as it is: the step is yet to be taken."""
        state = self.generator.bit_generator.state
        numbers = self.numbers(advance)
        self.generator.bit_generator.state = state
        return numbers

    def is_followed(self, follows, values):
        """Whether all that it left behind follows from its numbers with noise."""
        state = self.generator.bit_generator.state
        self.generator.bit_generator.state = self.begun
        first, *others = _parts(self.memory, values)
        expected = follows(self.number, [array.copy() for array in self.before], first)
        self.generator.bit_generator.state = state
        return all(
            np.max(np.abs(a - b), initial=0.0)
            <= _RELATIVE_ROUNDING * np.max(np.abs(b), initial=0.0)
            for a, b in zip(others, expected, strict=True)
        )


def _parts(memory, values):
    ends = np.cumsum([array.size for array in memory])
    parts = np.split(values, ends[:-1])
    return [part.reshape(array.shape) for array, part in zip(memory, parts, strict=True)]


def _write(memory, values):
    for array, part in zip(memory, _parts(memory, values), strict=True):
        array[...] = part
