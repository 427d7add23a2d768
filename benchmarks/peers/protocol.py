"""How a peer is asked: jobs in, arrays and seconds out. Needs NumPy alone, since every environment has that.

    python run_NAME.py jobs.jsonl

Each line of the file is a job: {"id", "method", "data", "output", "seed", "options"}. ``data`` is an
.npz whose arrays the method takes, ``output`` the .npz for the arrays that it returns. Each line of the
output is {"id", "seconds"}, CPU seconds of the method, or {"id", "error"}. A method that takes more CPU time
or memory than `SECONDS` and `GIGABYTES` is given up.
"""

import contextlib
import json
import resource
import signal
import sys
import time
import warnings

import numpy as np

# CPU time of one fit that is waited for.
SECONDS = 120
# Memory of the process.
GIGABYTES = 12


@contextlib.contextmanager
def limited():
    """Give up what takes more CPU time or memory than is waited for."""

    def give_up(*_):
        raise TimeoutError(f"more than {SECONDS} s of CPU time")

    most = int(GIGABYTES * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    except MemoryError as error:
        raise MemoryError(f"more than {GIGABYTES} GB") from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def serve(methods):
    """Answer the jobs of the file that the command line names.

    Parameters
    ----------
    methods : dict of {str: callable}
        Each takes (arrays, seed, options) and returns {name: array}.
    """
    warnings.simplefilter("ignore")
    with open(sys.argv[1]) as file:
        jobs = [json.loads(line) for line in file]
    for job in jobs:
        with np.load(job["data"]) as data:
            arrays = dict(data)
        start = time.process_time()
        try:
            with limited():
                found = methods[job["method"]](arrays, job["seed"], job["options"])
        except Exception as error:  # One that fails must not stop those behind it.
            text = " ".join(f"{type(error).__name__}: {error}".split())
            answer = {"id": job["id"], "error": text[:200]}
        else:
            answer = {"id": job["id"], "seconds": time.process_time() - start}
            np.savez(job["output"], **found)
        print(json.dumps(answer), flush=True)
