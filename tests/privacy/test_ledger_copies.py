"""Copies of a ledger's file that were charged elsewhere, and files of the first format."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
from children import in_a_child

from skdpbayes.exceptions import LedgerFileError
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, ledger_file
from skdpbayes.privacy.charge import charge

SMALL = PrivacyCost("replace_one", mu=0.05)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


class small_plan:
    cost = SMALL


@pytest.fixture
def path(tmp_path):
    """A ledger with two charges, whose clock stands still."""
    path = tmp_path / "ledger"
    ledger = PrivacyLedger(10.0, 1e-6, path=path)
    for _ in range(2):
        ledger.reserve(SMALL)
    return path


@pytest.fixture(autouse=True)
def same_second(monkeypatch):
    monkeypatch.setattr(ledger_file, "now", lambda: "2030-01-01T00:00:00+00:00")


def charge_elsewhere(path, times):
    """Charge by a process that has never seen the file, in the same second."""
    script = f"""
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, ledger_file
ledger_file.now = lambda: "2030-01-01T00:00:00+00:00"
ledger = PrivacyLedger.open({str(path)!r})
for _ in range({times}):
    ledger.reserve(PrivacyCost("replace_one", mu=0.05))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


@pytest.mark.nightly
@pytest.mark.parametrize("times", [2, 1, 3, 0])
def test_a_backup_that_was_charged_elsewhere_is_not_the_ledger(path, tmp_path, times):
    """Also if it has as many charges, of the same costs, made in the same second."""
    shutil.copy(path, tmp_path / "backup")
    ledger = PrivacyLedger.open(path)
    for _ in range(2):
        ledger.reserve(SMALL)
    shutil.copy(tmp_path / "backup", path)
    charge_elsewhere(path, times)
    spend = (
        lambda: ledger.reserve(SMALL),
        lambda: ledger.spent_epsilon,
        lambda: PrivacyLedger.open(path),
        lambda: PrivacyLedger(10.0, 1e-6, path=path),
    )
    for again in spend:
        with pytest.raises(LedgerFileError, match="is a copy|charges are missing|before it"):
            again()


@pytest.mark.nightly
def test_an_object_that_was_opened_before_others_charged_notices_too(path, tmp_path):
    """It has not read the charges that were lost, but this process has."""
    early = PrivacyLedger.open(path)
    shutil.copy(path, tmp_path / "backup")
    PrivacyLedger.open(path).reserve(SMALL)
    shutil.copy(tmp_path / "backup", path)
    charge_elsewhere(path, 1)
    with pytest.raises(LedgerFileError, match="is a copy"):
        early.reserve(SMALL)


@pytest.mark.nightly
@needs_fork
def test_a_child_knows_what_its_parent_had_seen(path, tmp_path, monkeypatch):
    shutil.copy(path, tmp_path / "backup")
    ledger = PrivacyLedger.open(path)
    ledger.reserve(SMALL)

    def as_spawned():
        """Like a process that knows the announcement alone."""
        ledger_file._seen.clear()
        charge(small_plan)
        return "charged"

    with ledger:
        assert in_a_child(as_spawned) == "charged"
        shutil.copy(tmp_path / "backup", path)
        charge_elsewhere(path, 1)
        assert in_a_child(as_spawned).startswith("LedgerFileError")


@pytest.mark.nightly
def test_the_same_file_moved_away_and_back_is_the_ledger(path, tmp_path):
    ledger = PrivacyLedger.open(path)
    ledger.reserve(SMALL)
    shutil.copy(path, tmp_path / "copy")
    os.unlink(path)
    shutil.copy(tmp_path / "copy", path)
    charge_elsewhere(path, 2)
    ledger.reserve(SMALL)
    assert len(ledger.records()) == 6


@pytest.mark.daily(1)
@pytest.mark.parametrize("times", [0, 1])
def test_an_older_copy_under_another_name_is_not_the_ledger(path, tmp_path, times):
    shutil.copy(path, tmp_path / "copy")
    ledger = PrivacyLedger.open(path)
    ledger.reserve(SMALL)
    charge_elsewhere(tmp_path / "copy", times)
    with pytest.raises(LedgerFileError, match="is a copy"):
        PrivacyLedger.open(tmp_path / "copy")
    ledger.reserve(SMALL)
    assert len(ledger.records()) == 4


def test_two_names_of_one_file_are_one_ledger(path, tmp_path):
    os.link(path, tmp_path / "link")
    with PrivacyLedger.open(path) as ledger, PrivacyLedger.open(tmp_path / "link"):
        charge(small_plan)
    assert len(ledger.records()) == 3


def rewritten(path, *statements):
    """Change rows by hand, whatever triggers say."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER costs_are_final")
        for statement in statements:
            connection.execute(statement)


def test_two_charges_that_change_places_are_noticed_by_any_process(path, monkeypatch):
    rewritten(path, "UPDATE charges SET digest = (SELECT digest FROM charges WHERE number = 1)")
    monkeypatch.setattr(ledger_file, "_seen", {})
    with pytest.raises(LedgerFileError, match=r"charge 2, or one before it, has changed"):
        PrivacyLedger.open(path)


# Format 1

COST = (
    '{"neighboring_relation": "replace_one", "mu": %s, "sampled": [], "counted": [], "bits": [], '
    '"rho": 0.0, "pure": [], "selected": [], "failure": 0.0}'
)
TIME = "2026-11-23T22:30:46+00:00"
FORMAT_1 = [
    (1, TIME, None, None, "old", COST % "0.05", 0.189213172726440864712, 0.189213172726440864712),
    (2, TIME, None, None, "old", COST % "0.1", 0.39685737764408318684, 0.447152809718331156751),
]
DIGESTS = ["3e0de304b9e11d4111ac79becae4d758", "d506354ffa9bbcf3cb09fa5b175930a7"]


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A file of format 1, which this process has not seen."""
    monkeypatch.setattr(ledger_file, "_seen", {})
    path = tmp_path / "old"
    PrivacyLedger(1.0, 1e-6, path=path)
    row = ("e77d04f3c73e4d20ab8cf09b8cdef8bf", 1.0, 1e-6, "replace_one")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM budget")
        connection.execute(
            "INSERT INTO budget VALUES (?, ?, ?, ?, ?)", (*row, "c194e7a641487606a3161660759bfe45")
        )
        for charge, digest in zip(FORMAT_1, DIGESTS, strict=True):
            connection.execute(
                "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'reserved')",
                (*charge, digest),
            )
        connection.execute("PRAGMA user_version = 1")
    return path


def version_of(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_files_of_the_first_format_open_and_go_on(old):
    ledger = PrivacyLedger.open(old)
    assert ledger.spent.mu == pytest.approx(np.hypot(0.05, 0.1)) and version_of(old) == 1
    ledger.reserve(SMALL)
    assert version_of(old) == 2, "an older version of the package would not chain digests"
    ledger_file._seen.clear()
    again = PrivacyLedger.open(old)
    assert again.spent == ledger.spent and len(again.records()) == 3
    assert [row["label"] for row in again.records()] == ["old", "old", None]


def test_what_comes_after_charges_of_the_first_format_is_chained_to_them(old):
    PrivacyLedger.open(old).reserve(SMALL)
    other = (*FORMAT_1[1][:5], COST % "0.01", *FORMAT_1[1][6:])
    digest = ledger_file._digest(other)
    rewritten(old, f"UPDATE charges SET cost = '{other[5]}', digest = '{digest}' WHERE number = 2")
    ledger_file._seen.clear()
    with pytest.raises(LedgerFileError, match=r"charge 3, or one before it, has changed"):
        PrivacyLedger.open(old)


def test_a_charge_of_the_first_format_after_one_of_the_second_is_not_ours(old):
    PrivacyLedger.open(old).reserve(SMALL)
    row = (4, *FORMAT_1[0][1:])
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute(
            "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'reserved')",
            (*row, ledger_file._digest(row)),
        )
    with pytest.raises(LedgerFileError, match="charge 4"):
        PrivacyLedger.open(old)
