"""The command line: plans, ledgers and reports from a shell."""

import json
import re
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes._cli import main as run
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, privacy_report
from skdpbayes.privacy.conversions import gaussian_epsilon
from skdpbayes.samplers import SGLD


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "survey.ledger")
    run(["ledger", "create", path, "--epsilon", "1", "--delta", "1e-6"])
    return path


def test_a_ledger_is_made_and_shown(path, capsys):
    run(["ledger", "show", path])
    said = capsys.readouterr().out
    assert "budget    epsilon = 1 at delta = 1e-06" in said
    assert "left      one more may have epsilon = 1 at delta = 1e-06" in said
    PrivacyLedger.open(path, label="pilot").reserve(PrivacyCost("replace_one", mu=0.1))
    run(["ledger", "show", path])
    facts, _, table = capsys.readouterr().out.partition("\n\n")
    assert f"spent     epsilon = {gaussian_epsilon(0.1, 1e-6):.4g} in 1 release\n" in facts
    left = float(re.search(r"one more may have epsilon = (\S+) at", facts)[1])
    assert left == pytest.approx(PrivacyLedger.open(path).remaining_epsilon, rel=1e-3)
    header, row = table.splitlines()
    assert header.split()[-1] == "label" and row.split()[-1] == "pilot"
    before = Path(path).read_bytes()
    run(["ledger", "show", path, "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report == privacy_report(PrivacyLedger.open(path))
    assert Path(path).read_bytes() == before, "to look changes nothing"


def test_a_history_has_every_release(path, capsys):
    capsys.readouterr()
    run(["ledger", "history", path])
    assert len(capsys.readouterr().out.splitlines()) == 1, "nothing but its header yet"
    for label in ("pilot", "final"):
        PrivacyLedger.open(path, label=label).reserve(PrivacyCost("replace_one", mu=0.1))
    run(["ledger", "history", path])
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[-1] for row in rows] == ["pilot", "final"]
    run(["ledger", "history", path, "--json"])
    releases = json.loads(capsys.readouterr().out)
    assert [(one["label"], one["cost"]["mu"]) for one in releases] == [
        ("pilot", 0.1),
        ("final", 0.1),
    ]


def test_a_budget_that_is_spent(path, capsys):
    ledger = PrivacyLedger.open(path)
    ledger.reserve(PrivacyCost("replace_one", mu=ledger.budget.mu))
    run(["ledger", "show", path])
    assert "left      nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["show", "{}.none"], "there is no ledger"),
        (["create", "{}", "--epsilon", "2", "--delta", "0"], "already"),
        (["create", "{}.new", "--epsilon", "-2", "--delta", "0"], "epsilon must be positive"),
        (["show", __file__], "damaged"),
        (["history", "{}.none"], "there is no ledger"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_changed(path, arguments, said, capsys):
    before = sorted(Path(path).parent.iterdir())
    with pytest.raises(SystemExit) as ended:
        run(["ledger", *(argument.format(path) for argument in arguments)])
    assert ended.value.code == 1 and said in capsys.readouterr().err
    assert sorted(Path(path).parent.iterdir()) == before
    assert PrivacyLedger.open(path).budget.epsilon == 1.0


def test_it_is_a_module(path):
    command = [sys.executable, "-m", "skdpbayes", "ledger", "show", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Privacy ledger /") and done.stderr == ""


def test_a_plan_is_the_estimators(capsys):
    run(
        [
            "plan",
            "logistic",
            "--rows",
            "3000",
            "--columns",
            "4",
            "--epsilon",
            "2",
            "--delta",
            "1e-6",
            "--classes",
            "3",
        ]
    )
    clf = DPBayesianLogisticRegression(epsilon=2.0, delta=1e-6)
    assert capsys.readouterr().out == f"{clf.privacy_plan(3000, 4, 3)}\n"
    run(
        [
            "plan",
            "logistic",
            "--rows",
            "3000",
            "--columns",
            "4",
            "--sampler",
            "sgld",
            "--set",
            "sampler__n_steps=50",
            "--json",
        ]
    )
    report = json.loads(capsys.readouterr().out)
    clf = DPBayesianLogisticRegression(sampler=SGLD(n_steps=50))
    assert report == json.loads(json.dumps(privacy_report(clf.privacy_plan(3000, 4))))


@pytest.mark.parametrize(
    "arguments, said",
    [
        ("network --set hidden_layer_sizes=(5,)", "parameters        32"),
        ("mixture --components auto --epsilon 3", "components           up to 10"),
        ("mixture --components 2 --set covariance_type=full", "spends"),
        ("logistic --epsilon 0.001", "Warning: "),
        (
            "logistic --neighboring-relation add_or_remove_one --set public_size=900",
            "add-or-remove",
        ),
    ],
)
def test_parameters_reach_the_estimator(arguments, said, capsys):
    run(["plan", *arguments.split(), "--rows", "1000", "--columns", "3"])
    assert said in capsys.readouterr().out


def test_ledgers_and_reports(path, tmp_path, capsys):
    run(["ledger", "show", path])
    assert "budget    epsilon = 1 at delta = 1e-06" in capsys.readouterr().out
    run(["report", path])
    assert json.loads(capsys.readouterr().out) == privacy_report(PrivacyLedger.open(path))
    X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    clf = DPBayesianLogisticRegression(random_state=0).fit(X, X[:, 0] > 0)
    saved = str(tmp_path / "model.joblib")
    joblib.dump(clf, saved)
    run(["report", saved, "--trust-pickle"])
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(privacy_report(clf)))
    with pytest.raises(SystemExit):
        run(["report", saved])
    said = capsys.readouterr().err
    assert "damaged" in said and "--trust-pickle" in said, "no pickle is loaded unasked"


@pytest.mark.parametrize(
    "arguments, said",
    [
        ("plan logistic --rows 100 --columns 3 --epsilon -1", "epsilon"),
        ("plan logistic --rows 0 --columns 3", "n_samples"),
        ("plan logistic --rows 100 --columns 3 --set no_such=1", "no_such"),
        ("plan logistic --rows 100 --columns 3 --sampler nuts", "noise_aware"),
        ("plan logistic --rows 100 --columns 3 --set data_norm", "NAME=VALUE"),
        (
            "plan mixture --rows 100 --columns 3 --classes 3",
            "--classes is for logistic and network",
        ),
        ("plan network --rows 100 --columns 3 --components 3", "--components is for mixture"),
        ("plan forest --rows 100 --columns 3", "logistic"),
        ("report no_such.ledger", "there is no ledger"),
        ("report no_such.json", "there is no file no_such.json: give the file of a ledger"),
        ("report no_such.pkl --trust-pickle", "there is no file no_such.pkl"),
        (f"report {__file__}", "is not a ledger, report or plan"),
        (f"report {__file__} --trust-pickle", "which is no saved estimator"),
        ("", "{plan,"),
    ],
)
def test_mistakes_are_explained(arguments, said, capsys):
    with pytest.raises(SystemExit) as ended:
        run(arguments.split())
    assert ended.value.code in (1, 2) and said in capsys.readouterr().err
