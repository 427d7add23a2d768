"""Marks of active ledgers in the folder of temporary files: cleaners, other folders, processes that ended."""

import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from children import in_a_child

from skdpbayes.exceptions import LedgerOutOfReachError
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, ledger_processes
from skdpbayes.privacy.charge import charge

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")

COST = PrivacyCost("replace_one", mu=0.1)
CHILD = """
import sys
from types import SimpleNamespace
from skdpbayes.exceptions import LedgerOutOfReachError
from skdpbayes.privacy import PrivacyCost
from skdpbayes.privacy.charge import charge

plan = SimpleNamespace(cost=PrivacyCost("replace_one", mu=0.1))
for _ in sys.stdin:
    try:
        charge(plan)
    except LedgerOutOfReachError:
        print("refused", flush=True)
    else:
        print("charged", flush=True)
"""


class plan:
    cost = COST


def attempt():
    try:
        charge(plan)
    except LedgerOutOfReachError as error:
        return f"refused: {error}"
    return "charged"


@contextmanager
def child(**environment):
    """Yield a function that lets a process attempt a charge, and tells how that ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask():
        process.stdin.write("\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    try:
        yield ask
    finally:
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()


def clean_up():
    """Do what cleaners of temporary files do."""
    (mark,) = Path(tempfile.gettempdir()).glob(f"skdpbayes-ledger-{os.getpid()}-*")
    mark.unlink()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.mark.nightly
@needs_proc
@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize("has_file", [True, False])
def test_a_cleaner_takes_no_ledger_out_of_sight(folder, tmp_path, is_early, has_file):
    ledger = PrivacyLedger(np.inf, 1e-5, path=tmp_path / "ledger" if has_file else None)
    expected = "charged" if has_file else "refused"
    if is_early:
        with child() as ask:
            assert ask() == "charged"
            with ledger:
                assert ask() == expected
                clean_up()
                assert ask() == expected
            assert ask() == "charged"
    else:
        with ledger:
            clean_up()
            with child() as ask:
                assert ask() == ask() == expected
    assert len(ledger.records()) == (2 if has_file else 0)


@pytest.mark.nightly
@needs_proc
@pytest.mark.parametrize("is_early", [True, False])
def test_a_child_with_another_folder_of_temporary_files_finds_the_ledger(tmp_path, is_early):
    if is_early:
        with child(TMPDIR=str(tmp_path)) as ask, PrivacyLedger(np.inf, 1e-5):
            assert ask() == "refused"
    else:
        with PrivacyLedger(np.inf, 1e-5), child(TMPDIR=str(tmp_path)) as ask:
            clean_up()
            assert ask() == "refused"


@pytest.mark.nightly
def test_a_child_that_was_started_in_a_block_may_fit_after_it():
    with PrivacyLedger(np.inf, 1e-5):
        context = child()
        ask = context.__enter__()
        assert ask() == "refused"
    assert ask() == "charged"
    with PrivacyLedger(np.inf, 1e-5):
        assert ask() == "refused"
    context.__exit__(None, None, None)


@needs_fork
@needs_proc
def test_a_named_process_that_shows_no_mark_but_lives_is_a_refusal(folder):
    """Nobody can tell whether its block goes on."""
    with PrivacyLedger(np.inf, 1e-5):
        clean_up()
        ledger_processes._Own.file.close()
        said = in_a_child(attempt)
        assert f"process {os.getpid()}" in said and "is gone" in said
        assert said.startswith("refused") and "Nothing was read" in said


@needs_fork
def test_without_proc_a_mark_that_is_missing_is_a_refusal(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(ledger_processes, "_PROCESSES", tmp_path / "none")
    monkeypatch.setattr(
        ledger_processes, "_mark", lambda pid, started: folder / f"skdpbayes-ledger-{pid}-"
    )
    monkeypatch.setattr(ledger_processes._Own, "started", None)
    monkeypatch.setattr(ledger_processes._Own, "text", "")
    monkeypatch.setattr(ledger_processes._Own, "file", None)
    mark = folder / f"skdpbayes-ledger-{os.getpid()}-"
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        assert in_a_child(attempt).startswith("refused: a ledger of")
        named = os.environ["SKDPBAYES_ACTIVE_LEDGERS"]
        mark.unlink()
        assert "is gone" in in_a_child(attempt)
        charge(plan)  # Its process writes it again.
        assert in_a_child(attempt).startswith("refused: a ledger of")
    monkeypatch.setenv("SKDPBAYES_ACTIVE_LEDGERS", named)
    assert in_a_child(attempt) == "charged", "the block has ended, and its mark says so"
    mark.unlink()
    assert "is gone" in in_a_child(attempt)
    assert len(ledger.records()) == 1


@needs_fork
@needs_proc
def test_a_named_process_that_ended_binds_nobody(folder, monkeypatch):
    """Whether it left in peace, was killed, or only waits for its parent to notice."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ledger = PrivacyLedger(np.inf, 1e-5).__enter__()
            clean_up()
            os.write(writer, os.environ["SKDPBAYES_ACTIVE_LEDGERS"].encode())
            signal.alarm(60)
            signal.pause()
        finally:
            os._exit(int(ledger is None))
    monkeypatch.setenv("SKDPBAYES_ACTIVE_LEDGERS", os.read(reader, 1000).decode())
    said = attempt()
    os.kill(pid, signal.SIGKILL)
    assert said.startswith("refused: a ledger of")
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert attempt() == "charged"
    os.waitpid(pid, 0)
    assert attempt() == "charged"


@needs_proc
def test_a_mark_of_a_living_process_with_another_start_binds_nobody(folder, monkeypatch):
    started = ledger_processes._kin(os.getppid())[1]
    for start, is_known in ((started, True), (str(int(started) - 1), False)):
        mark = folder / f"skdpbayes-ledger-{os.getppid()}-{start}"
        monkeypatch.setenv("SKDPBAYES_ACTIVE_LEDGERS", str(mark))
        assert attempt().startswith("refused") == is_known


@needs_proc
def test_a_mark_of_an_ancestor_that_was_killed_binds_nobody(folder, monkeypatch):
    """A process remembers its ancestors."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ancestors = {pid: ledger_processes._kin(pid)[1] for pid in (os.getppid(), process.pid)}
    monkeypatch.setattr(ledger_processes._Own, "ancestors", ancestors)
    started = ancestors[process.pid]
    ledger = {"place": "a ledger", "file": None, "label": None, "allow_seeds": False}
    (folder / f"skdpbayes-ledger-{process.pid}-{started}").write_text(json.dumps([ledger]))
    assert attempt().startswith("refused: a ledger")
    process.kill()
    process.communicate()
    assert attempt() == "charged"


@needs_proc
def test_blocks_leave_one_open_file_however_many_there_were():
    def n_open():
        return len(os.listdir("/proc/self/fd"))

    with PrivacyLedger(np.inf, 1e-5):
        pass
    gc.collect()  # Files of others that nobody holds any more.
    before = n_open()
    for _ in range(20):
        with PrivacyLedger(np.inf, 1e-5), PrivacyLedger(np.inf, 1e-5):
            charge(plan)
    assert n_open() == before


@needs_fork
@needs_proc
def test_a_child_does_not_pass_its_parents_ledger_for_its_own():
    """Forked, it has the parent's open files; a child of its own looks into both."""
    with PrivacyLedger(np.inf, 1e-5):
        with multiprocessing.get_context("fork").Pool(1) as pool:
            held = pool.apply(_held_by_this_process)
    assert held == []


def _held_by_this_process():
    links = [os.readlink(link.path) for link in os.scandir("/proc/self/fd") if link.is_symlink()]
    return [link for link in links if "skdpbayes-ledger" in link]


@pytest.mark.nightly
@needs_proc
def test_charges_from_many_threads_renew_a_mark_that_vanishes(folder):
    with PrivacyLedger(np.inf, 1e-5) as ledger:

        def clean_and_charge():
            for _ in range(20):
                for mark in folder.glob("skdpbayes-ledger-*"):
                    mark.unlink(missing_ok=True)
                charge(plan)

        threads = [threading.Thread(target=clean_and_charge) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with child() as ask:
            assert ask() == "refused"
    assert len(ledger.records()) == 80 and not list(folder.glob("skdpbayes-ledger-*"))
