"""How a peer is asked: jobs in, arrays and seconds out. Needs NumPy alone, since every environment has that.

    python run_NAME.py jobs.jsonl

Each line of the file is a job: {"id", "method", "data", "output", "seed", "options"}. ``data`` is an
.npz whose arrays the method takes, ``output`` the .npz for the arrays that it returns. Each line of the
output is {"id", "seconds"}, CPU seconds of the method, or {"id", "error"}.
"""

import json
import sys
import time
import warnings

import numpy as np


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
            found = methods[job["method"]](arrays, job["seed"], job["options"])
        except Exception as error:  # One that fails must not stop those behind it.
            text = " ".join(f"{type(error).__name__}: {error}".split())
            answer = {"id": job["id"], "error": text[:200]}
        else:
            answer = {"id": job["id"], "seconds": time.process_time() - start}
            np.savez(job["output"], **found)
        print(json.dumps(answer), flush=True)
