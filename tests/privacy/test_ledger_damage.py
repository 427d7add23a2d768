"""What cannot be charged to a ledger's file does not run: damage, locks, full and read-only disks."""

import os
import re
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from children import in_a_child
from sklearn.datasets import make_classification

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import LedgerFileError
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, ledger_file
from skdpbayes.privacy.ledger_file import FORMAT
from skdpbayes.samplers import SGLD

X, y = make_classification(200, 3, n_redundant=0, random_state=0)
MODEL = DPBayesianLogisticRegression(0.5, delta=1e-6, sampler="sgld", n_draws=5, random_state=0)
SMALL = PrivacyCost("replace_one", mu=0.05)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def path(tmp_path):
    """A file with epsilon 1 at delta 1e-6, and one charge."""
    path = tmp_path / "survey ledger?#.db"
    PrivacyLedger(1.0, 1e-6, path=path).reserve(SMALL)
    return path


def refuses(path, match, told=True):
    """Check that neither a fit nor a reservation gets past a ledger that was open before."""
    said = "Spent so far" if told else "cannot be known"

    def check(ledger):
        with pytest.raises(LedgerFileError, match=match) as refused:
            ledger.reserve(SMALL)
        assert said in str(refused.value) and "Nothing was read" in str(refused.value)
        with pytest.MonkeyPatch.context() as patched, ledger:
            patched.setattr(SGLD, "run", lambda *args: pytest.fail("a sampler ran"))
            with pytest.raises(LedgerFileError, match=match):
                MODEL.fit(X, y)

    return check


def test_a_file_that_is_in_use_for_long(path):
    ledger = PrivacyLedger.open(path, timeout=0.1, allow_seeds=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refuses(path, "in use for more than 0.1 s")(ledger)
        other.execute("ROLLBACK")
        other.execute("BEGIN EXCLUSIVE")
        refuses(path, "in use", told=False)(ledger)
    ledger.reserve(SMALL)


@pytest.mark.parametrize("length", [0, 1, 50, 99, 100, 4096, 5000, 8192, -4096, -1])
def test_a_truncated_file(path, length):
    ledger = PrivacyLedger.open(path, allow_seeds=True)
    os.truncate(path, length if length >= 0 else path.stat().st_size + length)
    refuses(path, "damaged|not a privacy ledger", told=False)(ledger)
    for make in (
        PrivacyLedger.open,
        lambda path: PrivacyLedger(1.0, 1e-6, path=path, allow_seeds=True),
    ):
        with pytest.raises(LedgerFileError):
            make(path)


def test_damage_anywhere_is_noticed_or_harmless(path, tmp_path):
    ledger = PrivacyLedger.open(path)
    for _ in range(20):
        ledger.reserve(SMALL)
    whole, generator, noticed = path.read_bytes(), np.random.default_rng(0), 0
    spent = ledger.spent
    for trial in range(300):
        damaged = bytearray(whole)
        start = generator.integers(len(whole))
        for i in range(start, min(start + 1 + trial % 40, len(whole))):
            damaged[i] ^= generator.integers(1, 256)
        other = tmp_path / "other"
        other.write_bytes(damaged)
        try:
            opened = PrivacyLedger.open(other, timeout=0.1)
            assert len(opened.history()) == 21
        except LedgerFileError:
            noticed += 1
        else:
            assert opened.spent.mu == pytest.approx(spent.mu, rel=1e-14)
            assert opened.budget == ledger.budget
    assert noticed > 30


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 4096, b"epsilon,delta\n1,1e-6\n" * 500, os.urandom(20000)]
)
def test_files_that_are_no_ledgers(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(LedgerFileError, match="not a privacy ledger|damaged"):
        PrivacyLedger(1.0, 1e-6, path=path)
    assert path.read_bytes() == content


def test_databases_that_are_no_ledgers_and_places_where_none_can_be(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other")) as connection:
        connection.executescript("CREATE TABLE budget (epsilon)")
    with pytest.raises(LedgerFileError, match="not a privacy ledger"):
        PrivacyLedger.open(tmp_path / "other")
    with pytest.raises(LedgerFileError, match=r"no ledger .*PrivacyLedger\(epsilon, delta, path"):
        PrivacyLedger.open(tmp_path / "none")
    with pytest.raises(LedgerFileError, match="cannot be created"):
        PrivacyLedger(1.0, 1e-6, path=tmp_path / "no folder" / "ledger")
    with pytest.raises(LedgerFileError):
        PrivacyLedger(1.0, 1e-6, path=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["other"]


def by_hand(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_newer_format(path):
    ledger = PrivacyLedger.open(path, allow_seeds=True)
    by_hand(path, f"PRAGMA user_version = {FORMAT + 1}")
    refuses(path, f"has format {FORMAT + 1}.*update skdpbayes", told=False)(ledger)


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM charges", "UPDATE charges SET cost = ''", "UPDATE charges SET time = 0"],
)
def test_nothing_is_given_back(path, statement):
    with pytest.raises(sqlite3.IntegrityError, match="nothing back|only the status"):
        by_hand(path, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM charges WHERE number = 1",
        "DELETE FROM charges WHERE number = 3",
        "DELETE FROM charges",
        "UPDATE charges SET cost = replace(cost, '0.05', '0.01')",
        "UPDATE charges SET number = 7 WHERE number = 3",
        "UPDATE budget SET epsilon = 10",
        "DELETE FROM budget",
        "INSERT INTO budget SELECT * FROM budget",
        "DROP TABLE charges",
    ],
)
def test_what_is_changed_by_hand_is_noticed(path, statement):
    for _ in range(2):
        PrivacyLedger.open(path).reserve(SMALL)
    by_hand(path, "DROP TRIGGER nothing_is_given_back", "DROP TRIGGER costs_are_final", statement)
    with pytest.raises(LedgerFileError, match="damaged"):
        PrivacyLedger.open(path)


def test_a_file_that_is_replaced_under_an_open_ledger(path, tmp_path):
    copy = shutil.copy(path, tmp_path / "copy")
    ledger = PrivacyLedger.open(path, allow_seeds=True)
    ledger.reserve(SMALL)
    PrivacyLedger(1.0, 1e-6, path=tmp_path / "another", allow_seeds=True)
    os.replace(copy, path)
    refuses(path, "charges are missing", told=False)(ledger)
    os.replace(tmp_path / "another", path)
    refuses(path, "another ledger", told=False)(ledger)
    path.unlink()
    refuses(path, "there is no ledger", told=False)(ledger)


def test_no_page_is_left(path, monkeypatch):
    connect = ledger_file._connect

    def full(*args):
        connection = connect(*args)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    ledger = PrivacyLedger.open(path)
    with monkeypatch.context() as patched:
        patched.setattr(ledger_file, "_connect", full)
        with pytest.raises(LedgerFileError, match="full.*make room on the disk. Spent so far"):
            for _ in range(20):
                ledger.reserve(PrivacyCost("replace_one", mu=1e-3), label="x" * 1000)
    spent, rows = ledger.spent, len(ledger.history())
    assert 1 < rows < 20 and spent.mu == pytest.approx(np.sqrt(0.05**2 + (rows - 1) * 1e-6))
    ledger.reserve(SMALL)


@needs_fork
def test_files_must_not_grow(path):
    """The operating system refuses writes in the middle of transactions."""

    import resource

    def limited():
        limit = path.stat().st_size + 3000
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        ledger, done = PrivacyLedger.open(path), 0
        try:
            for _ in range(20):
                ledger.reserve(PrivacyCost("replace_one", mu=1e-3), label="x" * 1000)
                done += 1
        except LedgerFileError as error:
            return f"{done} {error}"

    done, _, said = in_a_child(limited).partition(" ")
    assert "make room on the disk. Spent so far" in said
    assert len(PrivacyLedger.open(path).history()) == 1 + int(done) < 20


@needs_fork
@pytest.mark.parametrize("writable_file", [False, True])
def test_a_file_or_a_folder_that_is_read_only(writable_file):
    folder = Path(tempfile.mkdtemp())
    try:
        path = folder / "ledger"
        PrivacyLedger(1.0, 1e-6, path=path).reserve(SMALL)
        os.chmod(path, 0o666 if writable_file else 0o444)
        os.chmod(folder, 0o555 if writable_file else 0o755)

        def attempt():
            if os.geteuid() == 0:  # To whom nothing is read-only.
                os.setuid(65534)
            PrivacyLedger(1.0, 1e-6, path=path).reserve(SMALL)

        said = in_a_child(attempt)
        assert re.match(
            "LedgerFileError: .* cannot be written .*writable. Spent so far: 0.1", said
        ), said
        assert PrivacyLedger.open(path).spent == SMALL
    finally:
        os.chmod(folder, 0o755)
        shutil.rmtree(folder)
