"""The command that writes reports of ledgers, saved reports and estimators, in three forms."""

import json
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes._cli import main as run
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, PrivacyReport, privacy_report


@pytest.fixture
def ledger(tmp_path):
    ledger = PrivacyLedger(1.0, 1e-6, path=tmp_path / "survey.ledger", label="pilot")
    ledger.reserve(PrivacyCost("replace_one", mu=0.1))
    return ledger


def test_a_ledger_becomes_a_page(ledger, tmp_path, capsys):
    run(["report", ledger.path, "--html"])
    page = capsys.readouterr().out
    assert page == privacy_report(ledger).to_html()
    out = str(tmp_path / "report.html")
    for _ in range(2):  # A report may be written again.
        run(["report", ledger.path, "--html", out, "--title", "A <survey>"])
        assert capsys.readouterr().out == f"report written to {out}\n"
    assert "A &lt;survey&gt;" in Path(out).read_text(encoding="utf-8")
    run(["report", ledger.path, "--markdown"])
    assert capsys.readouterr().out == privacy_report(ledger).to_markdown()


@pytest.mark.parametrize("form", ["--json", "--html"])
def test_a_reader_that_stops_early_sees_no_traceback(ledger, form):
    """As in ``skdpbayes report FILE | head``."""
    command = [sys.executable, "-m", "skdpbayes", "report", str(ledger.path), form]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[1]
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 1


def test_a_saved_report_becomes_a_page(ledger, tmp_path, capsys):
    saved = str(tmp_path / "report.json")
    run(["report", ledger.path, "--json", saved])
    capsys.readouterr()
    run(["report", saved, "--html"])
    assert capsys.readouterr().out == privacy_report(ledger).to_html()
    run(["report", saved])
    assert PrivacyReport.from_json(capsys.readouterr().out) == privacy_report(ledger)


def test_the_report_of_a_plan_becomes_a_page(tmp_path, capsys):
    run(["plan", "logistic", "--rows", "3000", "--columns", "4", "--json"])
    saved = tmp_path / "plan.json"
    saved.write_text(capsys.readouterr().out)
    run(["report", str(saved), "--markdown"])
    assert capsys.readouterr().out.startswith("# Privacy report: noise\\_aware, planned")


def test_an_estimator_is_reported_with_its_ledger(ledger, tmp_path, capsys):
    X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    with ledger:
        clf = DPBayesianLogisticRegression(0.1, delta=1e-6, classes=[False, True])
        clf.fit(X, X[:, 0] > 0)
    saved = str(tmp_path / "model.joblib")
    joblib.dump(clf, saved)
    run(["report", saved, "--trust-pickle", "--ledger", ledger.path])
    told = json.loads(capsys.readouterr().out)["summary"]["ledger"]
    assert told["has_this_cost"] is True and told["releases"] == 2


@pytest.mark.parametrize(
    "arguments, said",
    [
        ("{ledger} --html {ledger}", "is no report in this form"),
        ("{ledger} --html {other}", "is no report in this form"),
        ("{ledger} --html {folder}", "is no report in this form"),
        ("{ledger} --html {folder}/no/such.html", "there is no folder {folder}/no: make it"),
        ("{page}", "is not a ledger, report or plan"),
        ("{page} --trust-pickle", "which is no saved estimator: give a file"),
        ("{broken} --trust-pickle", "cannot load {broken} here: "),
        ("{folder} --trust-pickle", "there is no file {folder}"),
        ("{cut}", "{cut} is damaged"),
        ("{ledger} --html --json", "not allowed with"),
        ("{ledger} --title x", "--title is for pages"),
        ("{ledger} --ledger {ledger}", "--ledger is for estimators"),
        ("{other} --html", "cannot be read"),
        ("{folder} --html", "skdpbayes report"),
        ("--html {ledger}", "required: FILE"),
    ],
)
def test_nothing_but_a_report_is_overwritten(ledger, tmp_path, arguments, said, capsys):
    other = tmp_path / "other.json"
    other.write_text('{"a": "<!DOCTYPE html>"}')
    page, broken, cut = tmp_path / "page.html", tmp_path / "broken.joblib", tmp_path / "cut.ledger"
    page.write_text("csecret\ncell\n")  # To pickle, the name of a module.
    broken.write_bytes(b"\x80\x04cno_such_module\nname\n.")
    cut.write_bytes(b"no ledger any more")
    names = {"ledger": ledger.path, "other": other, "folder": tmp_path}
    names |= {"page": page, "broken": broken, "cut": cut}
    before = Path(ledger.path).read_bytes()
    with pytest.raises(SystemExit) as ended:
        run(["report", *arguments.format(**names).split()])
    error = capsys.readouterr().err
    assert ended.value.code in (1, 2)
    assert said.format(**names) in error or said == "skdpbayes report"
    assert "secret" not in error and "Errno" not in error
    assert Path(ledger.path).read_bytes() == before
    assert other.read_text() == '{"a": "<!DOCTYPE html>"}'
