"""Chains in blocks, interrupted, in threads and in forked processes."""

import multiprocessing
import os
import re
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from joblib import Parallel, delayed
from numba.core.caching import CacheImpl
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_info, threadpool_limits

import skdpbayes
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes._compute import execution, gradients
from skdpbayes._compute.execution import progress_bar, single_threaded_blas
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.models import TargetBounds, example_gradient, implements, n_examples
from skdpbayes.privacy import Budget, PrivacyLedger
from skdpbayes.samplers import SGFS, SGHMC, SGLD, Auto, sample
from skdpbayes.samplers.langevin import chains

# Of the sources that are tested, for processes that are started from elsewhere.
HERE = {**os.environ, "PYTHONPATH": str(Path(skdpbayes.__file__).parents[1])}
# Large enough for the gradient to run on several cores.
X, y = make_classification(8000, 60, n_informative=8, random_state=0)


def fit(seed=0):
    clf = DPBayesianLogisticRegression(sampler=Auto(n_steps=140), random_state=seed)
    return clf.fit(X, y).coef_


@pytest.fixture(scope="module")
def expected():
    return fit()


def test_the_table_is_large_enough_to_test_threads():
    assert X.size > execution._WORTH_THREADS


def test_python_threads_at_once(expected):
    with ThreadPoolExecutor(4) as pool:
        for coef in pool.map(lambda _: fit(), range(4)):
            np.testing.assert_array_equal(coef, expected)


@pytest.mark.parametrize("backend", ["threading", "loky", "multiprocessing"])
def test_joblib_backends(expected, backend):
    results = Parallel(n_jobs=2, backend=backend)(delayed(fit)(0) for _ in range(4))
    for coef in results:
        np.testing.assert_array_equal(coef, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_computes_the_same_and_does_not_abort(expected):
    # The parent has started numba's threads by now: GNU OpenMP would abort the child.
    with multiprocessing.get_context("fork").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply_async(fit).get(timeout=300), expected)


def test_workqueue_layer_survives_threads(tmp_path):
    """numba's workqueue layer aborts the process if two threads enter it at once."""
    script = tmp_path / "threads.py"
    script.write_text(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "import numpy as np\n"
        "from sklearn.datasets import make_classification\n"
        "from skdpbayes import DPBayesianLogisticRegression\n"
        "X, y = make_classification(8000, 60, random_state=0)\n"
        "def fit(_):\n"
        "    clf = DPBayesianLogisticRegression(sampler='sgld', random_state=0)\n"
        "    clf.set_params(sampler__n_steps=140)\n"
        "    return clf.fit(X, y).coef_\n"
        "first = fit(0)\n"
        "with ThreadPoolExecutor(4) as pool:\n"
        "    assert all(np.array_equal(c, first) for c in pool.map(fit, range(4)))\n"
        "print('survived')\n"
    )
    environment = {**HERE, "NUMBA_THREADING_LAYER": "workqueue", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0 and "survived" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "sampler", [SGLD(), SGFS(), SGHMC(init="ops")], ids=["sgld", "sgfs", "sghmc"]
)
def test_an_interrupt_is_answered_and_costs_the_whole_plan(monkeypatch, sampler):
    calls = []

    def interrupted_soon(advance, *args):
        def advance_or_stop(first, stop, parallel):
            calls.append(stop - first)
            if len(calls) == 4:
                raise KeyboardInterrupt
            advance(first, stop, parallel)

        return execution.run_in_blocks(advance_or_stop, *args)

    monkeypatch.setattr(chains, "run_in_blocks", interrupted_soon)
    monkeypatch.setattr(execution, "_BLOCK_SECONDS", 0.01)
    clf = DPBayesianLogisticRegression(sampler=sampler, random_state=0)
    clf.set_params(sampler__n_steps=20_000)
    with PrivacyLedger(epsilon=5.0, delta=1e-5, allow_seeds=True) as ledger:
        with pytest.warns(PrivacyWarning, match=r"whole plan is spent.*epsilon = 1"):
            with pytest.raises(KeyboardInterrupt):
                clf.fit(X, y)
    assert ledger.spent_epsilon == pytest.approx(1.0, abs=1e-6)
    assert not hasattr(clf, "coef_")
    assert max(calls) < 20_000 / 10, "blocks are short, so that Ctrl-C is answered"
    assert execution._threads_in_use.acquire(blocking=False), "the lock is free again"
    execution._threads_in_use.release()


def test_blocks_change_nothing(monkeypatch, expected):
    monkeypatch.setattr(execution, "_BLOCK_SECONDS", 1e-9)
    np.testing.assert_array_equal(fit(), expected)


@pytest.mark.parametrize("faster", [True, False])
def test_the_faster_of_one_core_and_several_is_taken(faster):
    pace, steps, taken = execution._Pace(True), 0, {True: 0, False: 0}
    for _ in range(60):
        size = pace.steps()
        taken[pace.parallel] += size
        pace.took(size, size * (1e-3 if pace.parallel == faster else 1e-2))
        steps += size
    assert taken[faster] > 0.95 * steps
    assert taken[not faster] > 0, "the other is tried again now and then"
    alone = execution._Pace(False)
    for _ in range(30):
        assert alone.parallel is False
        alone.took(alone.steps(), 0.1)


def test_progress_is_shown_with_and_without_tqdm(monkeypatch, capsys):
    small = DPBayesianLogisticRegression(sampler="sgld", random_state=0, verbose=1)
    small.fit(X[:300], y[:300])
    assert "SGLD" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    steps = small.n_iter_
    small.fit(X[:300], y[:300])
    assert f"SGLD: step {steps:,} of {steps:,}" in capsys.readouterr().out


def test_only_one_thread_at_a_time_uses_several_cores():
    big = 10 * execution._WORTH_THREADS
    answers = {}
    with execution.cores(big) as first:
        thread = threading.Thread(target=lambda: answers.update(other=_enter(big)))
        thread.start()
        thread.join()
        with execution.cores(big) as nested:
            answers["nested"] = nested
    assert answers == {"other": False, "nested": False}
    assert first == (numba.get_num_threads() > 1)


def _enter(work):
    with execution.cores(work) as parallel:
        return parallel


def test_compiled_cores_are_kept_on_disk():
    DPBayesianLogisticRegression(sampler=SGLD(n_steps=140), random_state=0).fit(X[:300], y[:300])
    core = chains._advance_overdamped._cached
    assert core.stats.cache_hits or core.stats.cache_misses
    context = core.targetdescr.target_context
    # Of two processes that write at once, one may lose an entry of the index, and compiles again.
    assert any(core._cache.load_overload(s, context) is not None for s in core.signatures)


def test_compiled_cores_are_stale_where_their_constants_changed():
    # The cut of drifts, in noise.py, is made of those of rounding.py.
    root = Path(skdpbayes.__file__).parent
    sources = {str(path.relative_to(root)) for path in gradients._sources(root)}
    assert {"_jit.py", "privacy/rounding.py", "models/mixture.py"} <= sources


@pytest.mark.nightly
def test_compiled_cores_are_loaded_by_the_next_process(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(
        "from sklearn.datasets import make_classification\n"
        "from skdpbayes import DPBayesianLogisticRegression\n"
        "from skdpbayes.samplers.langevin.chains import _advance_overdamped\n"
        "X, y = make_classification(300, 4, random_state=0)\n"
        "DPBayesianLogisticRegression(sampler='sgld').fit(X, y)\n"
        "stats = getattr(_advance_overdamped._cached, 'stats', None)\n"
        "print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))\n"
    )

    def run(folder):
        environment = {**HERE, "NUMBA_CACHE_DIR": str(folder)}
        done = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert run(tmp_path / "cache") == ["0", "1"]
    assert run(tmp_path / "cache") == ["1", "0"]
    names = [path.name for path in (tmp_path / "cache").rglob("*.nbi")]
    assert any("_advance" in name for name in names)


def test_waiting_for_the_compiler_is_announced(capsys):
    class Flat(NamedTuple):
        """A target of this process: its code cannot have been kept."""

        n: int
        prior_precision: np.ndarray
        gradient_bound: float

    implements(n_examples, Flat)(lambda target: target.n)
    implements(example_gradient, Flat)(lambda target, theta, i, out: None)
    plan = SGLD().plan(TargetBounds(2, 1.0, 1.0, (1.0, 1.0)), 5, Budget(1.0, 1e-5))
    for expected in (1, 0):
        sample(Flat(5, np.ones(2), 1.0), plan, random_state=0, verbose=1)
        assert capsys.readouterr().out.count("sgld: compiling once, which takes") == expected


@pytest.mark.nightly
def test_a_fit_after_warm_up_compiles_nothing(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(
        "from sklearn.datasets import make_classification\n"
        "from skdpbayes import DPBayesianLogisticRegression\n"
        "for n in (300, 20_000):\n"
        "    X, y = make_classification(n, 30, random_state=0)\n"
        "    DPBayesianLogisticRegression(verbose=1).fit(X, y)\n"
    )
    environment = {**HERE, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    outputs = []
    for command in (["-m", "skdpbayes", "warm-up", "--estimators", "logistic"], [str(script)]):
        done = subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert "logistic (sampler=SGFS(n_steps=20)): " in outputs[0]
    # The folder that holds all of it, and not one of those that numba makes in there.
    assert outputs[0].endswith(f"stored in {tmp_path / 'cache'}\n")
    assert "compiling" not in outputs[1]


def test_without_a_folder_for_the_cache_cores_are_compiled_anew(monkeypatch):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    core = gradients.CompiledCore(lambda target: target + 1)
    assert core(1) == 2
    assert core._cached(1) == 2
    assert core._cached.stats.cache_path is None


def blas_threads():
    """How many threads each BLAS has."""
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_blas_has_its_threads_back_in_whatever_order_they_leave():
    before = blas_threads()
    first, second = single_threaded_blas(), single_threaded_blas()
    first.__enter__()
    second.__enter__()
    assert set(blas_threads()) == {1}
    first.__exit__(None, None, None)
    assert set(blas_threads()) == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


def test_blas_is_limited_from_any_thread_and_restored_from_another():
    before = blas_threads()
    with single_threaded_blas():
        pass  # threadpoolctl would hear the thread that was first, and no other.
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        first, second = single_threaded_blas(), single_threaded_blas()
        one.submit(first.__enter__).result()
        assert set(one.submit(blas_threads).result()) == {1}
        other.submit(second.__enter__).result()
        one.submit(first.__exit__, None, None, None).result()
        assert set(other.submit(blas_threads).result()) == {1}
        other.submit(second.__exit__, None, None, None).result()
    assert blas_threads() == before


def test_limits_of_others_work_after_a_thread_has_limited_blas():
    before = blas_threads()
    with ThreadPoolExecutor(1) as one:
        one.submit(single_threaded_blas()(blas_threads)).result()
        with threadpool_limits(1, user_api="blas"):
            assert set(blas_threads()) == {1}
    assert blas_threads() == before


def test_draws_show_progress_after_the_rows_were_read(capsys):
    X, y = make_classification(300, 3, n_redundant=0, random_state=0)
    model = DPBayesianLogisticRegression(delta=1e-6, classes=[0, 1], n_draws=20)
    with warnings.catch_warnings(action="ignore"):
        model.set_params(verbose=1).fit(X, y)
        shown = "".join(capsys.readouterr())
        model.set_params(verbose=0).fit(X, y)
    assert "noise_aware, drawing" in shown
    assert "".join(capsys.readouterr()) == ""


def test_bars_of_a_fit_end_full(capsys, monkeypatch):
    X, y = make_classification(300, 3, n_redundant=0, random_state=0)
    model = DPBayesianLogisticRegression(delta=1e-6, classes=[0, 1], n_draws=20, verbose=1)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with warnings.catch_warnings(action="ignore"):
        model.fit(X, y)
    last = {}
    for line in capsys.readouterr().out.splitlines():
        if found := re.fullmatch(r"(.*): step ([\d,]+) of ([\d,]+)", line):
            last[found[1]] = found[2], found[3]
    assert set(last) == {"noise_aware", "noise_aware, warm-up", "noise_aware, drawing"}
    assert all(done == total for done, total in last.values())


def test_a_bar_is_full_after_less_work_and_not_after_an_error(capsys):
    pytest.importorskip("tqdm")
    with progress_bar(8, "less", True) as advance:
        advance()
    with pytest.raises(KeyboardInterrupt), progress_bar(8, "stopped", True) as advance:
        advance()
        raise KeyboardInterrupt
    less, stopped = capsys.readouterr().err.strip("\n").split("\n")  # Bars are written over.
    assert "1/1" in less.split("\r")[-1]
    assert "1/8" in stopped.split("\r")[-1]


def test_a_target_of_ones_own_is_said_to_take_longer_and_to_compile():
    budget = Budget(epsilon=2.0, delta=1e-6)
    bounds = TargetBounds(3, 1.0, 1.0, (1.0, 1.0))
    own = SGLD(n_steps=1000).plan(bounds, n_samples=5000, budget=budget)
    linear = SGLD(n_steps=1000).plan(bounds._replace(row_norm=1.0), n_samples=5000, budget=budget)
    assert own.estimated_seconds > 3 * linear.estimated_seconds
    assert own.estimated_seconds == pytest.approx(5e6 * 6e-8, rel=0.1)
    assert "compiling a target of your own" in str(own)
    assert "compiling" not in str(linear)
