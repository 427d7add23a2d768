"""A ledger is in the memory of one process: no other one fits past it."""

import errno
import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import LedgerOutOfReachError
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, ledger_processes
from skdpbayes.privacy.charge import charge

X, y = make_classification(200, 3, n_redundant=0, random_state=0)
MODEL = DPBayesianLogisticRegression(sampler="sgld", n_draws=5, random_state=0)
PLAN = MODEL.privacy_plan(*X.shape)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def fit(model=None):
    """Fit a model that came along, or one that is made on the spot."""
    return (model or DPBayesianLogisticRegression(**MODEL.get_params())).fit(X, y).spent_epsilon_


def attempt(own_charge=None):
    """Tell in which process a charge was attempted, and how it ended."""
    try:
        own_charge() if own_charge else charge(PLAN)
    except LedgerOutOfReachError:
        return os.getpid(), "refused"
    return os.getpid(), "charged"


def attempts(own_charge=None):
    """Attempt charges in workers of loky's; return the workers, and how the attempts ended."""
    tasks = [delayed(attempt)(own_charge)] * 4
    pids, outcomes = zip(*Parallel(n_jobs=2, backend="loky")(tasks), strict=True)
    return set(pids), set(outcomes)


@pytest.mark.nightly
def test_workers_that_loky_started_before_a_block_refuse_until_it_ends():
    before, outcomes = attempts()
    assert outcomes == {"charged"} and os.getpid() not in before
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        for charge in (None, fit, partial(fit, MODEL)):
            within, outcomes = attempts(own_charge=charge)
            assert outcomes == {"refused"}
    after, outcomes = attempts()
    assert outcomes == {"charged"} and ledger.spent_epsilon == 0.0
    assert before & within & after, "the same workers"


@pytest.mark.daily(1)
def test_a_walk_to_ancestors_that_was_cut_short_is_made_again(monkeypatch):
    walks = []
    monkeypatch.setattr(ledger_processes._Own, "ancestors", {})
    for started, n_walks in (("", 2), ("1", 3)):

        def find(started=started):
            walks.append(1)
            return {os.getppid(): started}

        monkeypatch.setattr(ledger_processes, "_find_ancestors", find)
        for _ in range(2):
            ledger_processes.announced_by_ancestors()
        assert len(walks) == n_walks


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_a_mark_is_found_among_files_that_cannot_be_read(monkeypatch):
    kept, failures = os.readlink, [errno.ENAMETOOLONG, errno.ENOENT]

    def readlink(path):
        if failures:
            raise OSError(failures.pop(), "as planned")
        return kept(path)

    with PrivacyLedger(1.0, 1e-5):
        mark = ledger_processes._mark(*ledger_processes.this_process())
        mark.unlink()
        monkeypatch.setattr(os, "readlink", readlink)
        assert ledger_processes._texts(mark, os.getpid()) and not failures


@pytest.mark.parametrize(
    "method, early",
    [
        pytest.param("fork", True, marks=needs_fork),
        pytest.param("fork", False, marks=needs_fork),
        pytest.param("forkserver", True, marks=needs_fork),
        ("spawn", False),
    ],
)
def test_pools_of_processes_refuse_within_a_block_and_work_after_it(method, early):
    context = multiprocessing.get_context(method)
    pool = context.Pool(1) if early else None
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        pool = pool or context.Pool(1)
        assert pool.apply(attempt)[1] == "refused"
    with pool:
        assert pool.apply(attempt)[1] == "charged"
    assert ledger.spent_epsilon == 0.0


def attempt_in_a_child():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(attempt)


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_children_of_workers_refuse_too():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(attempt).result()[1] == "charged"
        with PrivacyLedger(np.inf, 1e-5):
            assert pool.submit(attempt_in_a_child).result()[1] == "refused"


def test_a_process_that_outlives_its_parent_is_still_known():
    """Its ancestors cannot be found any more."""
    last = "from test_ledger_processes import attempt; print(attempt()[1])"
    first = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {last!r}])"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
    }
    with PrivacyLedger(np.inf, 1e-5):
        environment.update({"SKDPBAYES_ACTIVE_LEDGERS": os.environ["SKDPBAYES_ACTIVE_LEDGERS"]})
        done = subprocess.run(
            [sys.executable, "-c", first], env=environment, capture_output=True, text=True
        )
    assert done.stdout.strip() == "refused", done.stderr


def spend_by_a_ledger_of_ones_own():
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        charge(PLAN)
    return ledger.spent_epsilon


def test_a_worker_charges_its_own_ledger_unless_in_anothers_block():
    run = partial(attempts, own_charge=spend_by_a_ledger_of_ones_own)
    assert run()[1] == {"charged"}
    with PrivacyLedger(np.inf, 1e-5):
        assert run()[1] == {"refused"}


def test_a_block_within_a_block_does_not_end_it():
    with PrivacyLedger(np.inf, 1e-5) as outer:
        with PrivacyLedger(np.inf, 1e-5) as inner:
            assert attempts()[1] == {"refused"}
            charge(PLAN)
        assert attempts()[1] == {"refused"}
        charge(PLAN)
    assert attempts()[1] == {"charged"}
    assert outer.spent.mu == pytest.approx(np.sqrt(2) * inner.spent.mu)


@needs_fork
def test_a_forked_copy_of_a_ledger_is_never_charged():
    """Whether by a fit, by hand, or after the copy's block was left."""
    cost = PrivacyCost("replace_one", mu=0.1)
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        reader, writer = os.pipe()
        if os.fork() == 0:
            try:
                said = [attempt()[1], attempt(partial(ledger.reserve, cost))[1]]
                ledger.__exit__(None, None, None)
                said.append(attempt()[1])
                os.write(writer, " ".join(said).encode())
            finally:
                os._exit(0)
        os.wait()
        assert os.read(reader, 100) == b"refused refused refused"
        assert attempts()[1] == {"refused"}, "the child's leaving did not end the block"
        charge(PLAN)
    assert ledger.spent.mu == pytest.approx(PLAN.cost.mu)


def predict_and_fit(path):
    with open(path, "rb") as file:
        model = pickle.load(file)
    return model.predict_proba(X).shape, attempt(partial(fit, model))[1]


def test_models_that_are_saved_within_a_block_are_like_any_others(tmp_path):
    path = tmp_path / "model.pickle"
    elsewhere = partial(Parallel(n_jobs=2, backend="loky"), [delayed(predict_and_fit)(path)])
    with PrivacyLedger(np.inf, 1e-5, allow_seeds=True):
        path.write_bytes(pickle.dumps(DPBayesianLogisticRegression(**MODEL.get_params()).fit(X, y)))
        assert elsewhere() == [((200, 2), "refused")]
    assert elsewhere() == [((200, 2), "charged")] == [predict_and_fit(path)]


def test_nothing_stays_when_a_block_ends():
    def traces():
        marks = Path(tempfile.gettempdir()).glob(f"skdpbayes-ledger-{os.getpid()}-*")
        return [*marks, *os.environ.get("SKDPBAYES_ACTIVE_LEDGERS", "").split()]

    with pytest.raises(KeyboardInterrupt), PrivacyLedger(np.inf, 1e-5):
        assert len(traces()) == 2
        raise KeyboardInterrupt
    assert traces() == []


@needs_fork
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_what_a_killed_process_left_binds_no_later_one_of_its_number(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with PrivacyLedger(np.inf, 1e-5):
        monkeypatch.setenv("SKDPBAYES_ACTIVE_LEDGERS", "")
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply(attempt)[1] == "refused"
            (mark,) = tmp_path.iterdir()
            number, started = mark.name.rsplit("-", 1)
            left = mark.rename(tmp_path / f"{number}-{int(started) - 1}")
            assert pool.apply(attempt)[1] == "charged"
            left.rename(mark)


# joblib ends its workers when one raises


@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_fits_in_workers_of_joblib_say_what_is_wrong(backend):
    with PrivacyLedger(3.0, 1e-5) as ledger:
        with pytest.raises(LedgerOutOfReachError) as refused:
            Parallel(n_jobs=2, backend=backend)([delayed(fit)()] * 2)
    for said in (
        "epsilon=3, delta=1e-05",
        f"process {os.getpid()},",
        "n_jobs=1",
        "Nothing was read",
    ):
        assert said in str(refused.value)
    assert ledger.spent_epsilon == 0.0


@pytest.mark.nightly
def test_a_search_over_processes_is_refused_and_over_threads_charged():
    search = GridSearchCV(MODEL, {"epsilon": [0.5, 1.0]}, cv=2, n_jobs=2, refit=False)
    with PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as ledger:
        with pytest.raises(LedgerOutOfReachError):
            search.set_params(error_score="raise").fit(X, y)
        # By default scikit-learn makes scores of nan of errors, and gives up where all are.
        with pytest.raises(ValueError, match="LedgerOutOfReachError"):
            search.set_params(error_score=np.nan).fit(X, y)
        assert ledger.spent_epsilon == 0.0
        with parallel_config(backend="threading"):
            search.fit(X, y)
    plans = [search.estimator.set_params(epsilon=e).privacy_plan(100, 3) for e in (0.5, 1.0)]
    assert ledger.spent.mu == pytest.approx(np.sqrt(2 * sum(p.cost.mu**2 for p in plans)))
