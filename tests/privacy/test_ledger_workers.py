"""A ledger in a file sees what workers spend, however they are started and whenever they are killed."""

import multiprocessing
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import BudgetExceededError, LedgerFileError, LedgerOutOfReachError
from skdpbayes.privacy import PrivacyCost, PrivacyLedger
from skdpbayes.privacy.charge import charge

X, y = make_classification(200, 3, n_redundant=0, random_state=0)
MODEL = DPBayesianLogisticRegression(0.3, delta=1e-6, sampler="sgld", n_draws=5)
PLAN = MODEL.privacy_plan(*X.shape)
MU = PLAN.cost.mu
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(3.0, 1e-6, path=tmp_path / "ledger", label="tried")


def attempt(meeting=None):
    """Tell in which process a charge was attempted, and how it ended.

    With a folder as `meeting`, nobody leaves before two processes are there: neither does all the work.
    """
    if meeting is not None:
        (meeting / str(os.getpid())).touch()
        give_up = time.monotonic() + 60
        while len([*meeting.iterdir()]) < 2 and time.monotonic() < give_up:
            time.sleep(0.01)
    try:
        charge(PLAN)
    except (LedgerOutOfReachError, BudgetExceededError, LedgerFileError) as error:
        return os.getpid(), type(error).__name__
    return os.getpid(), "allowed"


def attempts(n=4, meeting=None):
    if meeting is not None:
        meeting.mkdir()
    calls = [delayed(attempt)(meeting)] * n
    pids, outcomes = zip(*Parallel(n_jobs=2, backend="loky")(calls), strict=True)
    return set(pids), [*outcomes]


def charges(ledger):
    return len(ledger.history())


def test_workers_of_loky_charge_the_file_as_long_as_the_block_lasts(ledger, tmp_path):
    before, _ = attempts(meeting=tmp_path / "before")
    assert charges(ledger) == 0
    with ledger:
        within, outcomes = attempts(meeting=tmp_path / "within")
        assert outcomes == ["allowed"] * 4 and charges(ledger) == 4
    after, _ = attempts(meeting=tmp_path / "after")
    assert charges(ledger) == 4 and set(ledger.history().label) == {"tried"}
    assert before == within == after and os.getpid() not in within, "the same workers"
    assert ledger.spent.mu == pytest.approx(2 * MU)


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    "method, early",
    [
        pytest.param("fork", True, marks=needs_fork),
        pytest.param("fork", False, marks=needs_fork),
        pytest.param("forkserver", True, marks=needs_fork),
        ("spawn", False),
    ],
)
def test_pools_of_processes_charge_the_file(ledger, method, early):
    context = multiprocessing.get_context(method)
    pool = context.Pool(1) if early else None
    with ledger:
        pool = pool or context.Pool(1)
        assert pool.apply(attempt)[1] == "allowed"
    with pool:
        assert pool.apply(attempt)[1] == "allowed"
    assert charges(ledger) == 1


@pytest.mark.daily(1)
@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
def test_scores_and_searches_are_charged_fold_by_fold(ledger, backend):
    with ledger, parallel_config(backend=backend, n_jobs=2):
        assert np.isfinite(cross_val_score(MODEL, X, y, cv=3, error_score="raise")).all()
        GridSearchCV(MODEL, {"epsilon": [0.1, 0.2]}, cv=2, error_score="raise").fit(X, y)
    table = ledger.history()
    assert len(table) == 3 + 2 * 2 + 1 and set(table.status) == {"completed"}
    assert set(table.estimator) == {"DPBayesianLogisticRegression"}
    expected = PrivacyCost("replace_one")
    for cost in table.cost:
        expected = expected + cost
    assert ledger.spent.mu == pytest.approx(expected.mu)
    assert sum(table.epsilon) > ledger.spent_epsilon > 0.5


def test_what_exceeds_the_budget_is_refused_in_workers(tmp_path):
    with PrivacyLedger(0.7, 1e-6, path=tmp_path / "tight") as ledger:
        _, outcomes = attempts(8)
        with pytest.raises(BudgetExceededError, match=r"Spent so far: 0\.\d+. A release of"):
            cross_val_score(MODEL, X, y, n_jobs=2, error_score="raise")
    allowed = outcomes.count("allowed")
    assert outcomes.count("BudgetExceededError") == 8 - allowed
    budget = ledger.budget.mu
    assert allowed * MU**2 <= budget**2 < (allowed + 1) * MU**2
    assert charges(ledger) == allowed


@pytest.mark.nightly
def test_a_ledger_in_memory_beside_it_still_refuses(ledger):
    with ledger, PrivacyLedger(np.inf, 1e-6):
        assert set(attempts()[1]) == {"LedgerOutOfReachError"}
    with PrivacyLedger(np.inf, 1e-6), ledger:
        assert set(attempts()[1]) == {"LedgerOutOfReachError"}
    assert charges(ledger) == 0
    with ledger:
        with PrivacyLedger(np.inf, 1e-6):
            pass
        assert set(attempts()[1]) == {"allowed"}, "the inner block's end is known"


def attempt_within(path):
    with PrivacyLedger.open(path, label="by the worker"):
        return attempt()


def attempt_in_a_child():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(attempt)


@pytest.mark.nightly
def test_a_file_is_charged_once_however_often_it_is_open(ledger, tmp_path):
    with PrivacyLedger(3.0, 1e-6, path=tmp_path / "other") as other, ledger:
        assert Parallel(n_jobs=2)([delayed(attempt_within)(ledger.path)])[0][1] == "allowed"
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            assert pool.submit(attempt_in_a_child).result()[1] == "allowed"
    assert [*ledger.history().label] == ["by the worker", "tried"]
    assert charges(other) == 2


@needs_fork
def test_a_forked_copy_charges_the_file_by_hand_too(ledger):
    with ledger:
        if (child := os.fork()) == 0:
            try:
                attempt()
                ledger.reserve(PLAN.cost)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        attempt()
    assert charges(ledger) == 3 and ledger.spent.mu == pytest.approx(np.sqrt(3) * MU)


def test_a_file_that_is_gone_or_another_is_noticed_by_workers(ledger, tmp_path):
    with ledger:
        os.rename(ledger.path, tmp_path / "away")
        assert set(attempts()[1]) == {"LedgerFileError"}
        PrivacyLedger(3.0, 1e-6, path=ledger.path)
        assert set(attempts()[1]) == {"LedgerFileError"}
        os.replace(tmp_path / "away", ledger.path)
        assert set(attempts()[1]) == {"allowed"}


@needs_fork
def test_forks_of_a_process_whose_threads_are_charging_do_not_hang(ledger):
    """SQLite's own locks are free in a child."""
    ledger = PrivacyLedger(np.inf, 1e-6, path=f"{ledger.path}.inf")
    with ledger, parallel_config(backend="threading", n_jobs=2):

        def forked(_):
            if (child := os.fork()) == 0:
                signal.alarm(60)
                try:
                    os._exit(0 if attempt()[1] == "allowed" else 1)
                finally:
                    os._exit(2)
            return os.waitpid(child, 0)[1]

        calls = [delayed(forked)(0), delayed(attempt)()] * 10
        assert Parallel()(calls)[::2] == [0] * 10
    assert charges(ledger) == 20


# Processes that are killed


def spend(path, notes, seed, size):
    """Reserve until the budget is gone; note what was allowed, each time before the next."""
    ledger, generator = PrivacyLedger.open(path), np.random.default_rng(seed)
    with open(notes, "a", buffering=1) as file:
        for _ in range(10**6):
            cost = PrivacyCost("replace_one", mu=float(size * generator.uniform(0.5, 1.5)))
            try:
                ledger.reserve(cost)
            except BudgetExceededError:
                return
            file.write(f"{cost.mu!r}\n")


def usual_size(budget, n_wanted):
    """Return the mu of which so many fit, and some more, if they differ as they do in `spend`."""
    return budget.mu / np.sqrt(1.1 * n_wanted)


def spend_while_being_killed(path, folder, n_wanted, pause, seed):
    """Spend a file's budget in eight processes that are killed at random; return (what was noted, kills)."""
    context, generator = multiprocessing.get_context("fork"), np.random.default_rng(seed)
    size = usual_size(PrivacyLedger.open(path).budget, n_wanted)
    workers, started, kills = [], 0, 0
    while True:
        for _ in range(8 - len(workers)):
            arguments = (path, folder / f"notes{started}", seed + started, size)
            workers.append(context.Process(target=spend, args=arguments))
            workers[-1].start()
            started += 1
        time.sleep(generator.exponential(pause))
        victim = workers.pop(generator.integers(8))
        if not victim.is_alive():
            break
        victim.kill()
        victim.join()
        kills += 1
    for worker in workers:
        worker.join()
    assert victim.exitcode == 0 and {worker.exitcode for worker in workers} == {0}
    lines = "".join(file.read_text() for file in folder.glob("notes*")).split("\n")
    return [float(line) for line in lines if line], kills


@pytest.mark.nightly
@needs_fork
def test_eight_processes_that_are_killed_at_random(tmp_path, n_wanted=2_000, pause=0.1):
    """What is recorded is never below what ran, nor above the budget."""
    ledger = PrivacyLedger(1.0, 1e-6, path=tmp_path / "ledger")
    noted, kills = spend_while_being_killed(ledger.path, tmp_path, n_wanted, pause, seed=0)
    recorded = [row["cost"].mu for row in ledger.records()]
    assert kills >= 5 and len(recorded) > 0.95 * n_wanted
    assert not set(noted) - set(recorded), "what ran is recorded"
    assert len(set(recorded)) == len(recorded) <= len(noted) + kills
    total = np.sqrt(np.sum(np.square(recorded)))
    assert ledger.spent.mu == pytest.approx(total, rel=1e-12)
    assert np.sqrt(np.sum(np.square(noted))) <= total * (1 + 1e-12)
    assert ledger.spent_epsilon <= 1.0 * (1 + 1e-9)
    # All processes have ended because no cost of at least half the size would fit.
    size = usual_size(ledger.budget, n_wanted)
    assert total**2 + (1.5 * size) ** 2 > ledger.budget.mu**2
    # Whoever was killed before it wrote may leave an empty journal, which the next charge takes away.
    ledger.reserve(PrivacyCost("replace_one", mu=1e-6 * size))
    assert [row["cost"].mu for row in ledger.records()] == [*recorded, 1e-6 * size]
    assert sorted(file.name for file in Path(tmp_path).glob("ledger*")) == ["ledger"]


def test_processes_that_make_the_same_file_agree_on_one(tmp_path):
    make = partial(PrivacyLedger, 1.0, 1e-6, path=tmp_path / "ledger")
    with multiprocessing.get_context("fork").Pool(8) as pool:
        made = pool.map(partial(make_and_reserve, make), range(8), chunksize=1)
    assert len(set(made)) == 1 and charges(make()) == 8
    assert [file.name for file in tmp_path.iterdir()] == ["ledger"]


def make_and_reserve(make, _):
    ledger = make()
    ledger.reserve(PrivacyCost("replace_one", mu=1e-3))
    return ledger._book.ledger
