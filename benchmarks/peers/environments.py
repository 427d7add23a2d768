"""Virtual environments of the peers, built once, and the jobs that are run in them.

Requirements are pinned where a peer's newest release or its dependencies' do not work together. An
environment is built again when its requirements change.
"""

import hashlib
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
# One thread each, so that seconds compare, and nobody waits for threads on a busy machine.
ONE_THREAD = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    )
} | {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
# Name: lists of what pip installs, one after the other. An empty one is this very Python.
REQUIREMENTS = {
    "skdpbayes": (),
    "written": (),
    "diffprivlib": (("diffprivlib==0.6.6", "scikit-learn<1.7", "numpy<2.3"),),
    # Not `interpret`, which takes pictures and servers with it.
    "interpret": (("interpret-core==0.7.8",),),
    "opacus": (("torch==2.13.0",), ("opacus==1.6.0",)),
    "jax": (("jax>=0.5",),),
    # Not Opacus and PyTorch, which its synthesizers by networks need.
    "smartnoise": (
        (
            "smartnoise-sql==1.0.10",
            "mbi==1.1.0",
            "disjoint-set==0.9.0",
            "Faker>=17",
            "scikit-learn",
        ),
        ("--no-deps", "smartnoise-synth==1.0.8"),
    ),
    "binagg": (
        (
            "binagg @ git+https://github.com/shuronglin/binagg.git"
            "@95262ecc3fd37c06d42ff6527ded7e01f2c08973",
        ),
    ),
}


class NotInstallableError(Exception):
    """An environment cannot be built here; the text says why."""


def default_cache():
    """Return the folder for environments in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "skdpbayes-peers"


def reason_of(text):
    """Return the line of pip's output that says why it failed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR:", "fatal:", "error:"))]
    return (errors or lines or ["no message"])[0].removeprefix("ERROR:").strip()[:160]


def python_of(name, cache, sources=None):
    """Return the path of a peer's Python, and build its environment first if need be.

    Parameters
    ----------
    name : str
        One of ``REQUIREMENTS``.
    cache : Path
    sources : dict of {str: str} or None
        A peer's requirement instead of the last of those above: a folder, or a file.
    """
    steps = [list(step) for step in REQUIREMENTS[name]]
    if not steps:
        return sys.executable
    if sources and name in sources:
        steps[-1] = [sources[name]]
    folder = Path(cache) / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    built, wanted = folder / "requirements.sha256", hashlib.sha256(repr(steps).encode()).hexdigest()
    if built.exists() and built.read_text() == wanted:
        return python
    if not python.exists():
        venv.create(folder, with_pip=True)
    for step in steps:
        command = [python, "-m", "pip", "install", "--disable-pip-version-check", *step]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise NotInstallableError(reason_of(result.stderr))
    built.write_text(wanted)
    return python


def run_jobs(python, script, jobs, folder, take):
    """Call ``take`` with the answer to each job for one peer, as it comes; see `protocol`.

    Jobs without an answer, because the process has died, have an error.
    """
    path, errors = Path(folder) / f"{script}.jsonl", Path(folder) / f"{script}.err"
    path.write_text("".join(json.dumps(job) + "\n" for job in jobs))
    # What is meant for this Python would be found by those of others.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | ONE_THREAD
    command, open_ = [python, HERE / f"{script}.py", path], {job["id"] for job in jobs}
    with (
        errors.open("w+") as file,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=file, text=True, env=env
        ) as process,
    ):
        for line in process.stdout:
            if line.startswith("{"):
                answer = json.loads(line)
                open_.discard(answer["id"])
                take(answer)
    last = (errors.read_text().strip().splitlines() or ["no answer"])[-1][:200]
    for job in jobs:
        if job["id"] in open_:
            take({"id": job["id"], "error": last})
