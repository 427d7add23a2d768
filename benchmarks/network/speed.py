"""Steps per second of a private network's chain, against DP-SGD of Opacus in the same run.

    python -m benchmarks.network.speed --mnist mnist.npz [--results docs/results/network_speed.csv]

"Neural networks" of docs/benchmarks.rst. Opacus runs in the environment that `benchmarks.peers`
builds for it.

The same 169-128-10 network of tanh units, 57,344 pictures (`data.py`), Poisson batches of 4,096 and
of 256 (57,344 is a multiple of both, as Opacus' loader needs it for that rate), clipping to norm 1, single
precision. Opacus has the noise multiplier of 1,000 steps at epsilon 2, and ours that of a turn's steps: time
does not depend on it. A step of ours draws a batch, clips, adds noise, moves and, now and then, keeps a draw;
its randomness is cryptographic, and Opacus' is not. Opacus runs

    hooks, loader   as its tutorials have it
    hooks           batches are taken from tensors by a mask instead
    ghost           the same, by ghost clipping, which keeps no record's gradient either

on all threads, and the last two on one, too: on busy cores threads that wait for each other are slower than
one, which is why ours chooses as it goes. (NUMBA_NUM_THREADS=1 leaves one to everybody.) Contestants take
turns, each for so many steps, compiled and warm: least and median time of a step over the turns. Ratios are
a contestant's time over that of ours, first row.
"""

import argparse
import subprocess
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numba import get_num_threads
from sklearn.base import clone

from benchmarks.common import SETTLE_SECONDS, ResultsTable
from benchmarks.network.data import load_digits
from benchmarks.peers.environments import default_cache, python_of
from skdpbayes.models.mlp import make_mlp, random_start
from skdpbayes.neural_network import DPBayesianMLPClassifier
from skdpbayes.random import public_generator
from skdpbayes.samplers import SGHMC, SGLD, sample

N_ROWS, N_HIDDEN, N_CLASSES = 57_344, 128, 10
# Expected size of a batch: steps a turn. Slower contestants take a share of them.
STEPS = {4096: 60, 256: 400}
EPSILON, DELTA, PLANNED_STEPS = 2.0, 1e-5, 1000
CLIP_NORM = 1.0
# Mode of Opacus: share of the steps.
MODES = {"hooks-loader": 0.05, "hooks": 0.05, "ghost": 0.25}
PEER_SCRIPT = Path(__file__).with_name("run_opacus.py")


def planned(sampler, n_steps):
    """Return the plan of so many steps."""
    model = DPBayesianMLPClassifier(
        (N_HIDDEN,),
        epsilon=EPSILON,
        delta=DELTA,
        sampler=clone(sampler).set_params(n_steps=n_steps),
        clip_norm=CLIP_NORM,
        calibration=0.0,
        n_draws=min(n_steps // 4, 100),
        neighboring_relation="add_or_remove_one",
        public_size=N_ROWS,
    )
    return model.privacy_plan(N_ROWS, 169, N_CLASSES)


def our_step(target, sampler):
    """Return a function that takes so many steps and returns the seconds of one."""

    def run(n_steps):
        plan = planned(sampler, n_steps)
        start = time.perf_counter()
        sample(target, plan)
        return (time.perf_counter() - start) / n_steps

    return run


@contextmanager
def peer(python, setting):
    """Yield a function of a mode, numbers of threads, of records and of steps that returns seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "setting.npz")
        np.savez(path, **setting)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([python, PEER_SCRIPT, path], **pipes) as process:

            def run(*order):
                process.stdin.write(" ".join(map(str, order)) + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
                if not answer:
                    raise RuntimeError("Opacus ended.")
                return float(answer)

            yield run


def peer_step(run, mode, n_threads, batch_size):
    """Return a function that takes a share of so many steps and returns the seconds of one."""

    def run_share(n_steps):
        n_steps = max(1, round(MODES[mode] * n_steps))
        return run(mode, n_threads, batch_size, n_steps) / n_steps

    return run_share


def compare(results, contestants, batch_size, n_steps, n_turns):
    """Add a line for every contestant; the first is ours."""
    seconds = {name: [] for name in contestants}
    names = list(contestants)
    for turn in range(-1, n_turns):  # The first one warms up.
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(SETTLE_SECONDS)
            taken = contestants[name](n_steps)
            if turn >= 0:
                seconds[name].append(taken)
    ours = np.median(seconds[names[0]])
    for name, values in seconds.items():
        median = np.median(values)
        times = f"{1e3 * min(values):.2f}", f"{1e3 * median:.2f}"
        results.add(batch_size, name, *times, f"{median / ours:.2f}")


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mnist", required=True, metavar="PATH")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="of environments")
    parser.add_argument("--results", help="a CSV file")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="fewer turns, fewer steps")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y, _, _ = load_digits(arguments.mnist, "patches")
    X, y = X[:N_ROWS], y[:N_ROWS]
    sizes = X.shape[1], N_HIDDEN, N_CLASSES
    start = random_start(sizes, public_generator(0))
    target = make_mlp(X, y, 1.0, sizes, "tanh", CLIP_NORM, 1.0, start)
    noise = [planned(SGHMC(batch_size=size), PLANNED_STEPS).noise_multiplier for size in STEPS]
    setting = {
        "X": X,
        "y": y,
        "n_hidden": N_HIDDEN,
        "clip_norm": CLIP_NORM,
        "batch_sizes": list(STEPS),
        "noise_multipliers": noise,
    }
    turns = 3 if arguments.quick else arguments.turns
    n_threads = get_num_threads()
    results = ResultsTable("batch | sampler | least ms | ms | ratio", arguments.results)
    with peer(python_of("opacus", arguments.cache), setting) as run:
        for batch_size, n_steps in STEPS.items():
            contestants = {
                f"ours, {kind.name}": our_step(target, kind(batch_size=batch_size))
                for kind in (SGHMC, SGLD)
            }
            for mode in MODES:
                for threads in (n_threads,) if mode == "hooks-loader" else (n_threads, 1):
                    name = f"Opacus, {mode.replace('-', ', ')}, threads: {threads}"
                    contestants[name] = peer_step(run, mode, threads, batch_size)
            compare(
                results, contestants, batch_size, n_steps // (3 if arguments.quick else 1), turns
            )


if __name__ == "__main__":
    main()
