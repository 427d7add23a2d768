"""The guide's table of planted bugs: what a replay and an attack find of each, and what they miss."""

import re
from pathlib import Path

import pytest
from planted_bugs import BUGS, RIDGE, Bug, attacked, replayed

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "planted_bugs.txt"
SLOW = {name for name, bug in BUGS.items() if bug.fit.estimator is RIDGE.estimator}
FITS = {"score": "a score without noise", "scaler": "bounds from the table"}
FITS |= {"medians": "a median without noise", "categories": "counts without noise"}
FITS |= {"a lone category": "categories from the table"}


def stated():
    """Return {bug: (kind, replay, attack)} as the page states them."""
    if not PAGE.exists():
        pytest.skip("the documentation is not here")
    rows = PAGE.read_text().split("   * - ")[2:]
    cells = [[cell.strip() for cell in re.split(r"\n\s+- ", row)] for row in rows]
    return {name: tuple(others) for name, *others in cells}


def said_of(result):
    """Return what the table says of a replay."""
    if result.passed:
        return "missed"
    return ", ".join(sorted({one.kind for one in result.violations or result.findings}))


def test_the_table_has_the_planted_bugs_and_their_kinds():
    assert len(BUGS) == 40
    assert {name: row[0] for name, row in stated().items()} == {
        name: bug.kind for name, bug in BUGS.items()
    }


@pytest.mark.parametrize("name", [name for name in BUGS if name not in SLOW])
def test_the_table_says_what_a_replay_finds(name):
    assert stated()[name][1] == said_of(replayed(BUGS[name]))


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(SLOW))
def test_the_table_says_what_a_replay_finds_in_a_regression(name):
    assert stated()[name][1] == said_of(replayed(BUGS[name]))


@pytest.mark.nightly
@pytest.mark.parametrize("name", BUGS)
def test_the_table_says_what_an_attack_finds(name):
    found = attacked(BUGS[name])
    assert stated()[name][2] == {None: "not tried", True: "found", False: "missed"}[found]


@pytest.mark.parametrize("name", FITS)
def test_fits_without_a_planted_bug_pass(name):
    result = replayed(Bug("none", BUGS[FITS[name]].fit))
    assert result.passed and result.n_looked_at == result.n_releases, str(result)
