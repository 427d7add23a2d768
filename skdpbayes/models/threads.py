"""Chunks of a table's rows, shared out among threads, which wait for the next table."""

import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import numba

# Entries of a table below which threads cost more than they save.
_WORTH_THREADS = 1_000_000

# By numbers of threads. A process that was forked has none of them.
_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def of_chunks(function, n_rows, n_chunks, n_entries):
    """The results of a function for chunks of rows, in their order.

    Parameters
    ----------
    function : callable
        Of the numbers of a chunk's first row and of the one after its last.
    n_rows, n_chunks : int
    n_entries : int
        How large the table is.
    """
    ends = [n_rows * k // n_chunks for k in range(n_chunks + 1)]
    waiting, results = deque(range(n_chunks)), {}

    def work():
        while waiting:
            try:
                chunk = waiting.popleft()
            except IndexError:  # Another thread was faster.
                return
            results[chunk] = function(ends[chunk], ends[chunk + 1])

    n_threads = min(numba.get_num_threads(), n_chunks) if n_entries >= _WORTH_THREADS else 1
    if n_threads == 1 or threading.current_thread() is not threading.main_thread():
        work()
    else:
        pool = _pools.get(n_threads) or _pools.setdefault(n_threads, ThreadPoolExecutor(n_threads))
        # numpy's error state lives in the context, so run workers in a copy of it.
        jobs = [pool.submit(copy_context().run, work) for _ in range(n_threads)]
        try:
            for job in jobs:
                job.result()
        finally:
            waiting.clear()
    return [results[chunk] for chunk in range(n_chunks)]
