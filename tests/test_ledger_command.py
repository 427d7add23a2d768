"""The command line of ledgers."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from skdpbayes.ledger import main
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, privacy_report
from skdpbayes.privacy.cost import gaussian_epsilon


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "survey.ledger")
    main(["create", path, "--epsilon", "1", "--delta", "1e-6"])
    return path


def test_a_ledger_is_made_and_shown(path, capsys):
    main(["show", path])
    said = capsys.readouterr().out
    assert "budget    epsilon = 1 at delta = 1e-06" in said
    assert "left      one more may have epsilon = 1 at delta = 1e-06" in said
    PrivacyLedger.open(path, label="pilot").reserve(PrivacyCost("replace_one", mu=0.1))
    main(["show", path])
    facts, _, table = capsys.readouterr().out.partition("\n\n")
    assert f"spent     epsilon = {gaussian_epsilon(0.1, 1e-6):.4g} in 1 release\n" in facts
    left = float(re.search(r"one more may have epsilon = (\S+) at", facts)[1])
    assert left == pytest.approx(PrivacyLedger.open(path).remaining_epsilon, rel=1e-3)
    header, row = table.splitlines()
    assert header.split()[-1] == "label" and row.split()[-1] == "pilot"
    before = Path(path).read_bytes()
    main(["show", path, "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report == privacy_report(PrivacyLedger.open(path))
    assert Path(path).read_bytes() == before, "to look changes nothing"


def test_a_budget_that_is_spent(path, capsys):
    ledger = PrivacyLedger.open(path)
    ledger.reserve(PrivacyCost("replace_one", mu=ledger.budget.mu))
    main(["show", path])
    assert "left      nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["show", "{}.none"], "there is no ledger"),
        (["create", "{}", "--epsilon", "2", "--delta", "0"], "already"),
        (["create", "{}.new", "--epsilon", "-2", "--delta", "0"], "epsilon must be positive"),
        (["show", __file__], "damaged"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_changed(path, arguments, said, capsys):
    before = sorted(Path(path).parent.iterdir())
    with pytest.raises(SystemExit) as ended:
        main([argument.format(path) for argument in arguments])
    assert ended.value.code == 1 and said in capsys.readouterr().err
    assert sorted(Path(path).parent.iterdir()) == before
    assert PrivacyLedger.open(path).budget.epsilon == 1.0


def test_it_is_a_module(path):
    command = [sys.executable, "-m", "skdpbayes.ledger", "show", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Privacy ledger /") and done.stderr == ""
