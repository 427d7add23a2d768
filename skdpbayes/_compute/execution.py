"""Running compiled chains: on how many cores, in blocks, with progress, interruptible.

numba's threads have two traps. Forking after GNU OpenMP was used aborts the child, and the workqueue layer
aborts the process when two threads use it at once. So a forked child never runs in parallel, and in any other
process one thread at a time may. All others compute the same sums on one core, with the same result.
"""

import os
import sys
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numba
from numba.core.event import Listener, install_listener
from threadpoolctl import ThreadpoolController

from .._mechanisms.audit_hook import traced_steps
from .gradients import several_cores

# Multiply-adds below which starting threads costs more than it saves.
_WORTH_THREADS = 300_000
# Seconds that a block of steps takes, about.
_BLOCK_SECONDS = 0.2
# Number of blocks after which another number of threads is tried.
_BLOCKS_BETWEEN_TRIALS = 10

_forked = False
_threads_in_use = threading.Lock()


def _after_fork():
    global _forked, _threads_in_use, _blas_lock
    _forked = True
    _threads_in_use = threading.Lock()
    _blas_lock = threading.Lock()
    _blas_users.clear()  # Those were threads of the parent.


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def cores(multiply_adds):
    """Yield whether a sum of so many multiply-adds may and should use several cores."""
    wanted = multiply_adds >= _WORTH_THREADS and not _forked and numba.get_num_threads() > 1
    # The workqueue layer cannot tell threads apart, ours or another library's.
    alone = threading.current_thread() is threading.main_thread() or _layer_is_thread_safe()
    if not (wanted and alone and _threads_in_use.acquire(blocking=False)):
        yield False
        return
    try:
        yield True
    finally:
        _threads_in_use.release()


def _layer_is_thread_safe():
    try:
        return numba.threading_layer() in ("omp", "tbb")
    except ValueError:  # No layer was started yet.
        return False


def run_in_blocks(advance, plan, work, verbose, label, watched=None):
    """Run ``advance(first, stop, loop)`` over all steps of a plan.

    Returns to Python several times a second, so that progress shows and Ctrl-C is answered. How
    many steps that are, and on how many cores, depends on the machine and changes no result.

    Parameters
    ----------
    advance : callable
        Performs the steps ``first`` to ``stop - 1``; true if there is nothing left to do. ``loop`` is the
        address of the loop over several cores, or zero for one.
    plan : Plan
        Says how many steps.
    work : float
        Multiply-adds of a step, roughly.
    verbose : int
        Show progress if positive.
    label : str
        What is running.
    watched : TracedChain, default=None
        Where somebody listens: steps then run one by one.
    """
    if watched is not None:
        with single_threaded_blas():
            traced_steps(advance, watched)
        return
    progress = _Progress(plan.n_steps, label) if verbose else None
    first = 0
    try:
        # Products inside cores are small, and BLAS's own threads would fight numba's.
        with cores(work) as parallel, single_threaded_blas():
            pace = _Pace(parallel)
            while first < plan.n_steps:
                stop = min(first + pace.steps(), plan.n_steps)
                started = time.perf_counter()
                over = advance(first, stop, several_cores() if pace.parallel else 0)
                pace.took(stop - first, time.perf_counter() - started)
                first = plan.n_steps if over else stop
                if progress:
                    progress.to(first)
    finally:
        if progress:
            progress.close()


@cache
def _libraries():
    """The controller of the loaded libraries' threads; cores use SciPy's BLAS."""
    return ThreadpoolController()


_blas_lock = threading.Lock()
# For each thread inside, the libraries that the first one has limited and their numbers of threads before;
# of the others, nothing.
_blas_users: list[Any] = []


@contextmanager
def single_threaded_blas():
    """Limit BLAS while a thread is inside: the first one limits it, the last one restores it.

    ``threadpool_limits`` would look for the libraries at every call, and threads that leave in another order
    than they came would leave the limit behind. Threads of OpenMP belong to the thread that calls: there,
    everyone limits its own.
    """
    shared, thread_pools = _blas_of_process(), _limited(_blas_of_threads())
    with _blas_lock:
        _blas_users.append([] if _blas_users else _limited(shared))
    try:
        yield
    finally:
        _restore(thread_pools)
        with _blas_lock:
            if len(_blas_users) > 1:
                # The one that restores stays for last, in whatever order they entered.
                _blas_users.pop()
            else:
                _restore(_blas_users.pop())


@cache
def _blas_of_threads():
    blas = _libraries().select(user_api="blas").lib_controllers
    return [library for library in blas if getattr(library, "threading_layer", "") == "openmp"]


@cache
def _blas_of_process():
    blas = _libraries().select(user_api="blas").lib_controllers
    return [library for library in blas if library not in _blas_of_threads()]


def _limited(libraries):
    """Limit libraries, and return each with its number of threads before."""
    before = [(library, library.get_num_threads()) for library in libraries]
    for library in libraries:
        _set_threads(library, 1)
    return before


def _restore(before):
    for library, number in before:
        _set_threads(library, number)


def _set_threads(library, number):
    """Set the number of a library's threads, from any thread.

    threadpoolctl hears the first thread that ever sets OpenBLAS's number, and silently ignores all others
    while that one lives. The lock does for all what this is for.
    """
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(number)
    release(force=True)


@contextmanager
def progress_bar(total, label, verbose):
    """Yield a function that notes a step of at most ``total``, for work that Python does step by step.

    Work that ends earlier was all that there was to do, and its bar is full.
    """
    progress = _Progress(total, label) if verbose else None

    def advance():
        if progress:
            progress.to(progress.done + 1)

    try:
        yield advance
        if progress:
            progress.complete()
    finally:
        if progress:
            progress.close()


# What is running, and whether it shows progress, for what is called deep inside.
_running: ContextVar[tuple[str, int]] = ContextVar("running", default=("", 0))


@contextmanager
def compiler_announced(label, verbose):
    """Say so, once, if what happens inside waits for the compiler."""
    token = _running.set((label, verbose))
    try:
        if not verbose:
            yield
            return
        with install_listener("numba:compile", _Announcement(label)):
            yield
    finally:
        _running.reset(token)


def drawing_bar(total, phase="drawing"):
    """A `progress_bar` for chains that run after all records were read, on what was released."""
    label, verbose = _running.get()
    return progress_bar(total, f"{label}, {phase}", verbose)


class _Announcement(Listener):
    def __init__(self, label):
        self.label, self.made = label, False

    def on_start(self, event):
        if not self.made:
            _say(f"{self.label}: compiling once, which takes up to about 20 seconds")
        self.made = True

    def on_end(self, event):
        pass


def _say(line):
    """Print a line of its own, also where a progress bar is under way."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        print(line, flush=True)
    else:
        tqdm.write(line)
        sys.stdout.flush()


class _Pace:
    """Decides how many steps to run at once, and whether several cores are worth it.

    On a machine that is busy otherwise, threads that wait for each other at every step can be ten
    times slower than one alone; so both are timed, again and again, and the faster is taken.
    """

    def __init__(self, parallel):
        self.ways = (True, False) if parallel else (False,)
        self.parallel = self.ways[0]
        self.seconds: dict[bool, float] = {}
        self.blocks = 0

    def steps(self):
        """Number of steps to run next: few at first, then for a fraction of a second."""
        known = self.seconds.get(self.parallel)
        if known is None:
            return 1 if self.blocks == 0 else 4
        budget = _BLOCK_SECONDS if len(self.seconds) == len(self.ways) else _BLOCK_SECONDS / 20
        return int(min(max(1, budget / known), 10_000))

    def took(self, n_steps, seconds):
        """Note how long a block took, and choose for the next one."""
        self.blocks += 1
        if self.blocks == 1:  # It compiled, or loaded what was compiled.
            return
        self.seconds[self.parallel] = max(seconds / n_steps, 1e-9)
        if len(self.seconds) > 1 and self.blocks % _BLOCKS_BETWEEN_TRIALS == 0:
            del self.seconds[max(self.seconds, key=self.seconds.__getitem__)]
        untried = [way for way in self.ways if way not in self.seconds]
        fastest = min(self.seconds, key=self.seconds.__getitem__)
        self.parallel = untried[0] if untried else fastest


class _Progress:
    """A progress bar by tqdm where it is installed, else a line now and then."""

    def __init__(self, total, label):
        self.total, self.label, self.done = total, label, 0
        self.last_line = time.monotonic()
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self.bar = None
        else:
            self.bar = tqdm(total=total, desc=label, unit="step")

    def to(self, done):
        if self.bar is not None:
            self.bar.update(done - self.done)
        elif done == self.total or time.monotonic() - self.last_line > 2.0:
            print(f"{self.label}: step {done:,} of {self.total:,}", flush=True)
            self.last_line = time.monotonic()
        self.done = done

    def complete(self):
        """Fewer steps than were possible were all."""
        if self.done == self.total:
            return
        self.total = self.done
        if self.bar is not None:
            self.bar.total = self.done
            self.bar.refresh()
        else:
            self.to(self.done)

    def close(self):
        if self.bar is not None:
            self.bar.close()
