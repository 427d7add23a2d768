"""The guide's table of planted bugs: what a replay and an attack find of each, and what they miss."""

import pytest
from fits_to_replay import FITS
from planted_bugs import BUGS, Bug, attacked, replayed
from stated import GUIDE, stated

PAGE = GUIDE / "planted_bugs.txt"
# Fits whose replays take seconds.
SLOW = ["a scaler", "medians", "labels", "a regression", "a regression of persons", "counts"]


def slow_ones_nightly(fits):
    """The names of fits, {name: Fit}, of which those of slow estimators are for long tests."""
    slow = [FITS[name].estimator for name in SLOW]
    return [
        pytest.param(name, marks=pytest.mark.nightly)
        if any(fit.estimator is one for one in slow)
        else name
        for name, fit in fits.items()
    ]


def said_of(result):
    """What the table says of a replay."""
    if result.passed:
        return "missed"
    return ", ".join(sorted({one.kind for one in result.violations or result.findings}))


def test_the_table_has_the_planted_bugs_and_their_kinds():
    assert {name: row[0] for name, row in stated(PAGE).items()} == {
        name: bug.kind for name, bug in BUGS.items()
    }


def test_the_guide_counts_what_the_tools_find():
    rows = stated(PAGE).values()
    missed = sum(replay == "missed" for _, replay, _ in rows)
    uncovered = sum(replay == "not covered" for _, replay, _ in rows)
    found, tried = (
        sum(attack in of for *_, attack in rows) for of in (["found"], ["found", "missed"])
    )
    text = " ".join((GUIDE / "check_it_yourself.rst").read_text().split())
    assert (
        f"Of {len(BUGS)} bugs a replay finds {len(BUGS) - missed - uncovered}, says of {uncovered} that "
        f"something was not covered, and misses {missed}. Attacks find {found} of the {tried}"
    ) in text


@pytest.mark.daily(4)
@pytest.mark.parametrize("name", slow_ones_nightly({name: bug.fit for name, bug in BUGS.items()}))
def test_the_table_says_what_a_replay_finds(name):
    assert stated(PAGE)[name][1] == said_of(replayed(BUGS[name]))


@pytest.mark.nightly
@pytest.mark.parametrize("name", BUGS)
def test_the_table_says_what_an_attack_finds(name):
    found = attacked(BUGS[name])
    assert stated(PAGE)[name][2] == {None: "not tried", True: "found", False: "missed"}[found]


@pytest.mark.daily(3)
@pytest.mark.parametrize("name", slow_ones_nightly(FITS))
def test_fits_without_a_planted_bug_pass(name):
    result = replayed(Bug("none", FITS[name]))
    assert result.passed, str(result)
