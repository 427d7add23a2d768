"""Pages of reports: no name is read as HTML or Markdown, and no number is shown smaller than it is."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy import (
    Budget,
    PrivacyCost,
    PrivacyLedger,
    PrivacyReport,
    privacy_report,
)
from skdpbayes.privacy.planned_release import Disclosure, StepDisclosure
from skdpbayes.report.account import Account, Step
from skdpbayes.report.render import Markdown

NASTY = "<script>alert('x')</script>\n| a | [b](javascript:c) `d` **e**\x00\ud800 & \"f\""


class Nasty:
    """What has a nasty text in every place that a user can name."""

    def _privacy_account(self):
        facts = (
            Disclosure(NASTY, NASTY, "declared", NASTY),
            Disclosure("list", [NASTY, 1.0], "learnt"),
        )
        step = Step(
            NASTY,
            NASTY,
            "charged",
            cost=PrivacyCost("replace_one", mu=0.1),
            about=StepDisclosure(facts, NASTY),
            does=NASTY,
            columns=(NASTY,) * 2,
            rows=5,
            note=NASTY,
        )
        cost = PrivacyCost("replace_one", mu=0.1)
        return Account(
            NASTY,
            cost,
            Budget(1.0, 1e-6),
            ({"estimator": NASTY},),
            (NASTY,),
            (NASTY,),
            NASTY,
            (step,),
        )


class Tags(HTMLParser):
    """The tags of a page, which must be balanced, and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.open, self.shown = [], [], ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "wbr"):  # These have no end.
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.shown += data


def test_no_name_is_read_as_html():
    harmless = Tags(privacy_report(DPBayesianLogisticRegression().privacy_plan(2000, 3)).to_html())
    page = privacy_report(Nasty()).to_html(title=NASTY)
    found = Tags(page)
    assert {tag for tag, _ in found.tags} <= {tag for tag, _ in harmless.tags}
    assert "script" not in {tag for tag, _ in found.tags}
    assert found.shown.count("alert('x')") >= 10, "as text, it is shown"
    allowed = {"class", "style", "lang", "charset", "http-equiv", "content", "name"}
    for _, attributes in found.tags:
        assert attributes.keys() <= allowed
        assert re.fullmatch(r"(width:[\d.]+%)?", attributes.get("style", ""))
    assert "\x00" not in page and page.encode() and "http:" not in page


def test_a_page_needs_no_other_file_and_runs_nothing():
    page = privacy_report(DPBayesianLogisticRegression().privacy_plan(2000, 3)).to_html()
    assert not re.search(r"<script|<link|<img|<iframe|url\(|@import|javascript:|\son\w+=", page)
    assert "default-src 'none'" in page and "@media print" in page


def test_no_name_is_read_as_markdown():
    text = privacy_report(Nasty()).to_markdown(title=NASTY)
    assert not re.search(r"(?<!\\)<(?!br>)|(?<!\\)`|(?<!\\)\]\(", text)
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in tables}
    assert widths <= {3, 4, 5, 6}, "no name adds a column"
    assert text.encode() and text.startswith("# Privacy report: ")


@pytest.mark.parametrize(
    "name, shown",
    [
        ("a_b", r"a\_b"),
        ("- a", r"\- a"),
        ("1. a", r"1\. a"),
        ("0.5", "0.5"),
        ("# a\nb", r"\# a b"),
        ("http://a.b", r"http\://a.b"),
    ],
)
def test_markdown_shows_a_name_as_it_is(name, shown):
    assert Markdown().text(name) == shown


def test_a_report_is_read_again_from_its_json():
    report = privacy_report(Nasty())
    again = PrivacyReport.from_json(report.to_json())
    assert again == report and again.to_html("t") == report.to_html("t")
    assert again.fingerprint == report.fingerprint and again.fingerprint in again.to_markdown()
    again["summary"]["spent"]["epsilon"] = 0.001
    assert again.fingerprint != report.fingerprint


def test_a_report_is_printed_in_a_few_lines_and_shown_whole():
    report = privacy_report(Nasty())
    lines = str(report).split("\n")
    assert lines[0].startswith("Privacy report: ") and len(lines) < 15
    assert all(line.isprintable() and line.startswith("  ") for line in lines[1:])
    assert lines[-1].startswith("  to sign ") and "to_markdown()" in lines[-1]
    assert report._repr_markdown_() == report.to_markdown()
    assert str(PrivacyReport(steps=[])) == repr(PrivacyReport(steps=[]))  # Damaged, and no error.


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[1]", "no privacy report"),
        ('{"deployment": {}}', "no privacy report"),
        ('{"schema": "skdpbayes-privacy-report", "version": 2}', "another version"),
        ('{"schema": "skdpbayes-privacy-report", "version": 1, "steps": NaN}', "no JSON"),
        ('{"schema": "skdpbayes-privacy-report", "version": 1, "steps": []}', "damaged"),
    ],
)
def test_what_is_no_report_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        PrivacyReport.from_json(text)


@pytest.mark.parametrize("value", [None, "x", [], {}, {"name": 1}])
@pytest.mark.parametrize("part", ["summary", "details", "deployment"])
def test_a_report_that_lacks_a_part_has_no_page(part, value):
    report = privacy_report(Nasty())
    report[part] = value
    with pytest.raises(ValueError, match="lacks a part"):
        report.to_html()


@pytest.mark.parametrize("field, value", [("share", "<b>"), ("role", "<b>"), ("epsilon", "<b>")])
def test_a_step_that_was_changed_by_hand_has_no_page(field, value):
    report = privacy_report(Nasty())
    report["steps"][0][field] = value
    with pytest.raises(ValueError, match="has another form"):
        report.to_html()


def test_a_title_is_text():
    report = privacy_report(Nasty())
    with pytest.raises(TypeError, match="title must be a str"):
        report.to_html(title=3)
    assert "Survey of 2026" in report.to_html("Survey of 2026")


def test_no_number_is_shown_smaller_than_it_is():
    cost = PrivacyCost("replace_one", mu=0.123456789)
    ledger = PrivacyLedger(1.0, 1e-6)
    ledger.reserve(cost)
    report = privacy_report(ledger)
    text = report.to_markdown()
    shown = float(re.search(r"\*\*one row\*\* \| \*\*([\d.]+)\*\*", text)[1])
    assert ledger.spent_epsilon <= shown <= ledger.spent_epsilon * 1.001
    assert report["summary"]["ledger"]["left_epsilon"] <= ledger.remaining_epsilon
    factor = float(re.search(r"factor of at most ([\d.]+)", text)[1])
    assert np.exp(ledger.spent_epsilon) <= factor <= np.exp(ledger.spent_epsilon) * 1.01


def test_a_ledger_with_many_charges_has_a_page_that_can_be_read():
    ledger = PrivacyLedger(np.inf, 1e-6, label="a day")
    for _ in range(250):
        ledger.reserve(PrivacyCost("replace_one", mu=0.001))
    report = privacy_report(ledger)
    assert len(report["steps"]) == 250
    assert sum(step["share"] for step in report["steps"]) == pytest.approx(1.0)
    page = report.to_html()
    assert page.count("a day") == 200 and "50 more, which are in the JSON" in page


def test_a_table_of_many_columns_has_a_page_that_can_be_read():
    names = [f"column_{j}" for j in range(3000)]
    table = pd.DataFrame(np.zeros((20, 3000)), columns=names)
    scaler = BoundedScaler(0.0, dict(zip(names, np.arange(1.0, 3001.0), strict=True)))
    model = make_private_pipeline(scaler, DPBayesianLogisticRegression(sampler="sgld"))
    plan = model.privacy_plan(20_000, 3000)
    assert len(privacy_report(plan)["steps"][0]["bounds"]) == 3000
    page = privacy_report(plan).to_html()
    assert len(page) < 30_000 and "2,988 more, which are in the JSON" in page
    assert scaler.fit(table)._about().facts[2].value == [0.0, 3.0]


class Bare:
    """What brings an account without steps."""

    def _privacy_account(self):
        cost = PrivacyCost("replace_one", mu=0.1)
        return Account("own", cost, Budget(1.0, 1e-6), ({"estimator": "scaler"},))


def test_an_account_without_steps_has_a_page():
    report = privacy_report(Bare())
    assert [step["name"] for step in report["steps"]] == ["scaler"]
    assert "NO LIMIT" not in report.to_html() and "scaler" in report.to_markdown()


def test_json_has_no_number_that_json_has_not():
    cost = PrivacyCost("replace_one", mu=np.inf)
    report = privacy_report(cost_only(cost))
    assert "Infinity" not in json.dumps(report, allow_nan=False)
    page = report.to_html()
    assert "No guarantee" in page and "NO LIMIT" in page and report["summary"]["verdict"] == "none"


def cost_only(cost):
    ledger = PrivacyLedger(np.inf, 1e-6)
    ledger.reserve(cost)
    return ledger


def test_long_names_break_behind_underscores():
    table = pd.DataFrame(np.zeros((20, 1)), columns=["a_<b>__c_"])
    model = make_private_pipeline(BoundedScaler(0.0, 1.0), DPBayesianLogisticRegression())
    page = privacy_report(model.fit(table, [0, 1] * 10)).to_html()
    assert "a_<wbr>&lt;b&gt;__<wbr>c_<" in page
    assert "<wbr>" not in re.search("<title>.*</title>", page)[0]


def test_two_deltas_in_one_report_are_told_apart(tmp_path):
    rows = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    clf = DPBayesianLogisticRegression(epsilon=2.0, delta=1e-6, classes=[0, 1], n_draws=20)
    told = "holds at delta = 1e-06, those of the ledger at delta = 1e-05"
    for delta, is_told in ((1e-5, True), (1e-6, False)):
        with PrivacyLedger(3.0, delta) as ledger:
            clf.fit(rows, np.arange(300) % 2)
        text = privacy_report(clf, ledger=ledger).to_markdown()
        assert (told in text) == is_told
        assert ("for one more release at delta" in text) == is_told
        assert "1 release, which costs epsilon = " in text
