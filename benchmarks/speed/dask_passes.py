"""What a cluster adds to a pass, and tables that are larger than one likes to hold.

    python -m benchmarks.speed.dask_passes [--rows 10000000] [--workers 2]

Figures and table of "What it costs" of docs/guide/dask.rst.

Rows are drawn by the workers, or read by them from one file, and never by the client. Printed are: the
milliseconds of an empty task on every worker, which is what Dask itself takes; those of a pass beyond the
gradient, on tables so small that there is none; seconds of a fit on a file of float32 rows, in memory and on
the workers, and what these hold beside their chunks; and, from the rates that were measured, what a pass over
more rows would take on more workers.
"""

import argparse
import os
import tempfile
import time
import warnings

import dask
import dask.array as da
import numpy as np
import psutil
from distributed import Client, LocalCluster

from benchmarks.common import ignore_fit_warnings, print_heads
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.samplers import SGHMC

N_FEATURES, N_STEPS = 50, 200


def timed(function):
    """Return seconds."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def empty(_):
    """Return nothing."""


def round_trip(client, n_tasks):
    """Return seconds from sending empty tasks to having their results."""

    def once():
        client.gather(client.map(empty, range(n_tasks), pure=False))

    once()
    return timed(lambda: [once() for _ in range(N_STEPS)]) / N_STEPS


def small_table(n_rows, n_parts):
    """Return (X, y), drawn by the workers."""
    generator = da.random.default_rng(0)
    X = generator.normal(size=(n_rows, N_FEATURES), chunks=(n_rows // n_parts, -1))
    return X.persist(), (
        X[:, 0] + generator.normal(size=n_rows, chunks=n_rows // n_parts) > 0
    ).persist()


def overhead(client, n_parts):
    """Return seconds a pass of a chain on a table of which there is little to compute."""
    X, y = small_table(1_000 * n_parts, n_parts)
    here = X.compute(), y.compute()
    clf = DPBayesianLogisticRegression(
        sampler=SGHMC(n_steps=N_STEPS), n_draws=10, classes=[False, True], random_state=0
    )
    clf.fit(X, y, client=client), clf.fit(*here)  # Compiled.
    there = min(timed(lambda: clf.fit(X, y, client=client)) for _ in range(3))
    return (there - min(timed(lambda: clf.fit(*here)) for _ in range(3))) / N_STEPS


def write_rows(path, n_rows, size):
    """Write rows of float32 to a file, part by part."""
    rng = np.random.default_rng(0)
    table = np.memmap(path, np.float32, "w+", shape=(n_rows, N_FEATURES + 1))
    for first in range(0, n_rows, size):
        X = rng.standard_normal((min(size, n_rows - first), N_FEATURES + 1), np.float32)
        X[:, -1] = X[:, 0] - 0.5 * X[:, 1] + X[:, -1] > 0
        table[first : first + size] = X
    table.flush()


def read_rows(path, n_rows, first, size):
    """Return some rows and their labels."""
    table = np.memmap(path, np.float32, "r", shape=(n_rows, N_FEATURES + 1))
    return np.array(table[first : first + size, :-1]), table[first : first + size, -1] > 0


def collection(path, n_rows, size):
    """Return (X, y), read by the workers."""
    X, y = [], []
    for first in range(0, n_rows, size):
        rows = min(size, n_rows - first)
        both = dask.delayed(read_rows, nout=2)(path, n_rows, first, rows)
        X.append(da.from_delayed(both[0], (rows, N_FEATURES), np.float32))
        y.append(da.from_delayed(both[1], (rows,), bool))
    return da.concatenate(X), da.concatenate(y)


def resident():
    """Return the bytes that a process holds."""
    return psutil.Process().memory_info().rss


def large(client, n_rows, n_parts):
    """Return seconds of a fit in memory and on the workers, and bytes that they hold more than before."""
    size = -(-n_rows // n_parts)
    clf = DPBayesianLogisticRegression(classes=[False, True], random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows")
        write_rows(path, n_rows, size)
        clf.fit(*read_rows(path, n_rows, 0, 1_000))  # Compiled.

        def in_memory():
            clf.fit(*read_rows(path, n_rows, 0, n_rows))

        here = timed(in_memory)
        before = sum(client.run(resident).values())
        peak = []

        def watched(function):
            def call(*args):
                found = function(*args)
                peak.append(sum(client.run(resident).values()))
                return found

            return call

        from skdpbayes._data.dask_table import DaskShards

        DaskShards.call = watched(DaskShards.call)
        there = timed(lambda: clf.fit(*collection(path, n_rows, size), client=client))
    return here, there, max(peak) - before


def main():
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    ignore_fit_warnings()
    options = {"n_workers": args.workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        print(f"{1e3 * round_trip(client, args.workers):.1f} ms an empty task on every worker\n")
        print_heads("partitions | ms a pass beyond the gradient")
        for n_parts in (args.workers, 10 * args.workers, 50 * args.workers):
            cost = overhead(client, n_parts)
            print(f"| {n_parts} | {1e3 * cost:.1f} |", flush=True)
        here, there, held = large(client, args.rows, 10 * args.workers)
        chunks = 4.0 * args.rows * N_FEATURES
        print(
            f"\n{args.rows:,} x {N_FEATURES} in float32, {chunks / 2**30:.2f} GiB: {here:.1f} s in memory, "
            f"{there:.1f} s on {args.workers} workers, {there / here:.2f} times; beside their chunks these "
            f"hold {(held - chunks) / 2**30:.2f} GiB more than before.\n"
        )
        rate = args.rows * 12 / (there * args.workers)
        print_heads("rows | workers | seconds a pass")
        for n_rows in (10**8, 10**9):
            for workers in (16, 64, 256):
                print(f"| {n_rows:,} | {workers} | {n_rows / rate / workers + cost:.2f} |")


if __name__ == "__main__":
    main()
