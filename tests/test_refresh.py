"""What `benchmarks.refresh` measures again, replaces and leaves."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import refresh
from benchmarks.papers.results import HEADS, PAPERS, VERDICTS, merge, read_verdicts

TASK = refresh.Task("a.csv b.csv", "speed.cores --folder {folder}", has_verdicts=True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder of results, in which commands write what the test says."""
    monkeypatch.setattr(refresh, "FOLDER", tmp_path)
    monkeypatch.setattr(refresh, "RECORD", tmp_path / "measured.json")
    return tmp_path


def commands(monkeypatch, texts, fails=False):
    """Let commands write files of these texts, and end well or not."""

    def run(command, **options):
        for name, text in texts.items():
            (Path(command[-1]) / name).write_text(text)
        return SimpleNamespace(returncode=int(fails))

    monkeypatch.setattr(refresh.subprocess, "run", run)


def test_which_warnings_a_script_leaves_out_is_no_part_of_what_it_measures(tmp_path):
    texts = (
        "import warnings\nfrom benchmarks.common import a\nwarnings.simplefilter('ignore')\na()",
        "from benchmarks.common import a, ignore_fit_warnings\nignore_fit_warnings()\na()",
        "from benchmarks.common import a, ignore_fit_warnings\nignore_fit_warnings()\na(2)",
    )
    paths = [tmp_path / f"{place}.py" for place in range(3)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    first, second, third = map(refresh._measuring_code_at, paths)
    assert first == second != third


def test_what_is_measured_is_current_until_the_code_changes(folder, monkeypatch):
    commands(monkeypatch, {"a.csv": "1", "b.csv": "2"})
    assert not refresh.is_current(TASK, refresh.load_record())
    assert refresh.refresh([TASK], {}) == []
    assert (folder / "a.csv").read_text() == "1" and (folder / "b.csv").read_text() == "2"
    record = refresh.load_record()
    assert refresh.is_current(TASK, record)
    assert set(record["a.csv"]) == {"code", "date", "seconds"}
    (folder / "b.csv").unlink()
    assert not refresh.is_current(TASK, record)
    (folder / "b.csv").write_text("2")
    monkeypatch.setattr(refresh, "code_hash", lambda modules: "another")
    assert not refresh.is_current(TASK, record)


def test_what_fails_replaces_nothing_and_is_reported(folder, monkeypatch):
    (folder / "a.csv").write_text("old")
    commands(monkeypatch, {"a.csv": "new", "b.csv": "new"}, fails=True)
    assert refresh.refresh([TASK], {}) == [TASK]
    assert (folder / "a.csv").read_text() == "old" and not (folder / "b.csv").exists()
    assert refresh.load_record() == {}


def test_a_task_whose_file_is_not_given_is_not_run(folder, monkeypatch):
    commands(monkeypatch, {"a.csv": "1"})
    task = refresh.Task("a.csv", "network.digits {mnist} {folder}")
    assert refresh.refresh([task], {"mnist": None}) == [task]
    assert not (folder / "a.csv").exists()


def test_verdicts_of_one_paper_replace_its_own_alone(folder, monkeypatch):
    first, second = (f'"{paper}",claim,{{}},holds\n' for paper in PAPERS[:2])
    heads = ",".join(HEADS) + "\n"
    (folder / VERDICTS).write_text(heads + first.format(1) + second.format(2))
    commands(monkeypatch, {"a.csv": "", "b.csv": "", VERDICTS: heads + first.format(3)})
    assert refresh.measure(TASK, {})
    assert [line[2] for line in read_verdicts(folder / VERDICTS)] == ["3", "2"]
    merge(folder / VERDICTS, [(PAPERS[2], "claim", "4", "holds")])
    assert [line[2] for line in read_verdicts(folder / VERDICTS)] == ["3", "2", "4"]


def test_every_task_names_a_script_and_every_file_once():
    names = [name for task in refresh.TASKS for name in task.files.split()]
    assert len(names) == len(set(names))
    for task in refresh.TASKS:
        for module in task.modules:
            path = refresh.ROOT / "benchmarks" / module.replace(".", "/")
            assert path.is_dir() or path.with_suffix(".py").exists(), module


def test_every_file_of_results_has_a_task():
    known = {VERDICTS}.union(*(task.files.split() for task in refresh.TASKS))
    assert {path.name for path in refresh.FOLDER.glob("*.csv")} == known
    assert json.loads(refresh.RECORD.read_text()).keys() <= known


@pytest.mark.skipif(not (refresh.ROOT / ".git").exists(), reason="of commits")
@pytest.mark.parametrize("is_same", [True, False])
def test_files_are_carried_over_only_if_fits_are_the_same(folder, monkeypatch, is_same):
    """So are those alone that the old code measured, with modules that have not changed, and no times."""
    tasks = [refresh.Task(f"{name}.csv", "regression.tables") for name in ("now", "older", "time")]
    tasks[2] = tasks[2]._replace(is_alone=True)
    tasks.append(refresh.Task("module.csv", "metropolis"))
    monkeypatch.setattr(refresh, "TASKS", tasks)
    monkeypatch.setattr(refresh, "code_hash", lambda modules, root="new": f"{root == 'new'}")
    monkeypatch.setattr(
        refresh,
        "_measuring_code_at",
        lambda path: f"{path.is_relative_to(refresh.ROOT)}" * ("metropolis" in f"{path}"),
    )
    monkeypatch.setattr(
        refresh, "_hashes", lambda root: b"same" if is_same or root == refresh.ROOT else b"other"
    )
    before = {
        task.files: {"code": "elder" if task.files == "older.csv" else "False"} for task in tasks
    }
    (folder / "measured.json").write_text(json.dumps(before))
    assert refresh.carry_over("HEAD") == is_same
    carried = {"code": "True", "measured with": "HEAD"}
    assert refresh.load_record() == (before | {"now.csv": carried} if is_same else before)
