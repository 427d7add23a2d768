"""One report of all that was released about a table: a total as of a ledger, and a section for each."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpbayes import DPBayesianLogisticRegression, DPBayesianRidge
from skdpbayes.audit import audit_scores
from skdpbayes.descriptive import dp_describe
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger, PrivacyReport, privacy_report
from skdpbayes.report import explain

DELTA = 1e-6
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.uniform(-1.0, 1.0, (500, 2)), columns=["age", "bmi"])
LABELS = np.arange(500) % 2


def labels(epsilon=0.5, **options):
    options = {"classes": [0, 1], "delta": DELTA, "n_draws": 20, **options}
    return DPBayesianLogisticRegression(epsilon, **options).fit(TABLE, LABELS)


def three_releases():
    numbers = DPBayesianRidge((-1, 1), epsilon=0.4, delta=DELTA, n_draws=20)
    bounds = {"age": (-1, 1), "bmi": (-1, 1)}
    description = dp_describe(TABLE, bounds=bounds, epsilon=0.3, delta=DELTA)
    return [labels(), numbers.fit(TABLE, TABLE["bmi"]), description]


def test_the_total_is_that_of_the_ledger_whose_other_charges_are_listed():
    with PrivacyLedger(3.0, DELTA) as ledger:
        releases = three_releases()
        labels(0.2)
    report = privacy_report(releases, ledger=ledger)
    summary, steps = report["summary"], report["steps"]
    assert summary["spent"]["epsilon"] == ledger.spent_epsilon and summary["verdict"] == "if_signed"
    assert (
        summary["name"] == "3 releases and 1 other charge" and summary["ceiling"]["epsilon"] == 3.0
    )
    assert [step["kind"] for step in steps[:3]] == [type(each).__name__ for each in releases]
    assert [round(step["epsilon"], 2) for step in steps] == [0.5, 0.4, 0.3, 0.2]
    assert (
        "completed" in steps[3]["note"]
        and steps[1]["note"] == "budget: epsilon = 0.4 at delta = 1e-06"
    )
    assert sum(step["share"] for step in steps) == pytest.approx(1.0)
    assert report["reports"] == [privacy_report(each) for each in releases]
    statuses = {one["id"]: one["status"] for one in report["assumptions"]}
    # Whether one of two that are alike was made outside of it, a ledger cannot know.
    assert statuses["charged"] == "to_sign" and len(statuses) == len(report["assumptions"])
    assert PrivacyReport.from_json(report.to_json()) == report
    for text in (report.to_markdown("Survey"), report.to_html("Survey")):
        assert "Everything that was released" in text and "Release 3: Description" in text
        assert "This is a linear regression on 2 columns" in text


def test_a_release_outside_of_the_ledger_takes_no_charge_of_another_class():
    class Other(DPBayesianLogisticRegression):
        pass

    outside = Other(0.5, classes=[0, 1], delta=DELTA, n_draws=20).fit(TABLE, LABELS)
    with PrivacyLedger(3.0, DELTA) as ledger:
        inside = labels()
    assert inside.privacy_cost_ == outside.privacy_cost_
    report = privacy_report([outside], ledger=ledger)
    total = (inside.privacy_cost_ + outside.privacy_cost_).epsilon(DELTA)
    assert report["summary"]["spent"]["epsilon"] == pytest.approx(total)
    assert {one["id"]: one["status"] for one in report["assumptions"]}["charged"] == "failed"


def test_a_ledger_without_a_bound_can_be_reported():
    with PrivacyLedger(np.inf, DELTA) as ledger:
        release = labels()
        labels(np.inf)
    report = privacy_report([release], ledger=ledger)
    assert PrivacyReport.from_json(report.to_json()) == report and report.to_html()


def test_a_description_tells_its_public_bounds_and_lists():
    table = TABLE.assign(arm=np.where(LABELS, "a", "b"), sex=np.where(LABELS, "f", "m"))
    lists = {"arm": ["a", "b"], "sex": ["f", "m"]}
    bounds = {"age": (-1, 1)}
    description = dp_describe(
        table.drop(columns="bmi"),
        bounds=bounds,
        categories=lists,
        by="arm",
        bins={"age": [-1, 0, 1]},
        epsilon=1.0,
    )
    (step,) = privacy_report(description)["steps"]
    assert {(one["what"], one["column"]): one["value"] for one in step["bounds"]} == {
        ("range", "age"): [-1.0, 1.0],
        ("bins", "age"): [-1.0, 0.0, 1.0],
        ("categories", "sex"): ["f", "m"],
        ("groups", "arm"): ["a", "b"],
    }
    assert all(one["source"] == "declared" for one in step["bounds"])


def test_without_a_ledger_costs_are_added_as_it_adds_them():
    releases = three_releases()
    report, ledger = privacy_report(tuple(releases)), PrivacyLedger(np.inf, DELTA)
    for release in releases:
        ledger.reserve(release.privacy_cost_)
    assert report["summary"]["spent"]["epsilon"] == ledger.spent_epsilon < 0.5 + 0.4 + 0.3
    assert report["summary"]["ledger"] is None and report["summary"]["ceiling"]["epsilon"] is None
    assert report["details"]["neighboring_relation"] == "replace_one"
    assert len(report["details"]["releases"]) == 3


def test_failures_of_thresholds_take_up_the_sum_of_deltas():
    levels = pd.DataFrame({"city": ["a", "b"] * 250})
    encoders = [DPOneHotEncoder(epsilon=1.0, delta=1e-5).fit(levels) for _ in range(3)]
    spent = privacy_report(encoders)["summary"]["spent"]
    assert spent["delta"] == pytest.approx(3e-5) and spent["epsilon"] <= 3.0


def test_what_does_not_hold_for_one_release_does_not_hold_for_all():
    report = privacy_report([labels(), labels(random_state=0)])
    (noise,) = [one for one in report["assumptions"] if one["id"] == "no_seed"]
    assert noise["status"] == "failed" and report["summary"]["verdict"] == "weakened"
    assert report["details"]["warnings"][0].startswith(
        "release 2, DPBayesianLogisticRegression: random_state"
    )


def test_a_release_outside_of_the_ledger_is_told():
    with PrivacyLedger(3.0, DELTA) as ledger:
        inside = labels()
    report = privacy_report([inside, labels(0.4)], ledger=ledger)
    assert [("no charge" in step["note"]) for step in report["steps"]] == [False, True]
    assert {"charged": "failed"}.items() <= {
        o["id"]: o["status"] for o in report["assumptions"]
    }.items()
    assert report["summary"]["spent"]["epsilon"] > ledger.spent_epsilon
    twice = privacy_report([inside, copy.deepcopy(inside)], ledger=ledger)  # One charge is not two.
    assert "no charge" in twice["steps"][1]["note"]


def spent(releases, ledger=None):
    return privacy_report(releases, ledger=ledger)["summary"]["spent"]["epsilon"]


def test_the_same_fit_twice_counts_once():
    with PrivacyLedger(3.0, DELTA) as ledger:
        model, other = labels(), labels()
    assert spent([model, model]) == spent([model]) < spent([model, other])
    report = privacy_report([model, other, model], ledger=ledger)
    assert report["summary"]["spent"]["epsilon"] == ledger.spent_epsilon
    assert [step["share"] for step in report["steps"]] == [0.5, 0.5, None]
    assert "paid for by release 1" in report["steps"][2]["note"]
    assert status_of_charge([model, other, model], ledger) == "checked"
    assert "paid for, counted once" in report.to_markdown() and report.to_html()


def test_a_pipeline_and_its_step_count_once_in_any_order():
    scaler = DPQuantileScaler(epsilon=0.3, delta=DELTA)
    model = DPBayesianLogisticRegression(0.4, delta=DELTA, classes=[0, 1], n_draws=20)
    with PrivacyLedger(3.0, DELTA) as ledger:
        pipeline = make_pipeline(scaler, model).fit(TABLE, LABELS)
        releases = [pipeline[-1], pipeline, pipeline[0]]
        assert spent(releases, ledger) == pytest.approx(ledger.spent_epsilon, rel=1e-9)
        pipeline[-1].fit(TABLE, LABELS)  # The pipeline holds this fit now, and its ledger both.
    assert spent(releases) > ledger.spent_epsilon  # Without a ledger nobody knows of the first.
    assert spent(releases, ledger) == pytest.approx(ledger.spent_epsilon, rel=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("steps", [(), (FunctionTransformer(),)])
def test_a_search_and_its_best_model_count_once_until_it_is_refitted(steps):
    model = DPBayesianLogisticRegression(classes=[0, 1], n_draws=20)
    model = make_pipeline(*steps, model) if steps else model
    name = "dpbayesianlogisticregression__" * bool(steps) + "data_norm"
    options = {"mean_candidates": 2, "epsilon": 2.0, "delta": DELTA}
    search = DPRandomizedSearchCV(model, {name: [1.0, 2.0]}, **options).fit(TABLE, LABELS)
    best = search.best_estimator_
    assert spent([best, search]) == spent([search, best]) == spent([search])
    assert spent(pickle.loads(pickle.dumps([search, best]))) == spent([search])
    assert spent([search, pickle.loads(pickle.dumps(best))]) > spent([search])
    (warnings,) = {tuple(privacy_report(search)["details"]["warnings"])}
    best.fit(TABLE, LABELS)
    assert spent([best, search]) == spent([search, best]) > spent([search])
    (more,) = set(privacy_report(search)["details"]["warnings"]) - set(warnings)
    assert "best_estimator_ was fitted again" in more


@pytest.mark.filterwarnings("ignore")
def test_a_search_pays_for_no_later_fit_of_a_step_nor_another_model():
    model = DPBayesianLogisticRegression(classes=[0, 1], n_draws=20)
    pipeline = make_private_pipeline(DPQuantileScaler(), model)
    grid = {"dpbayesianlogisticregression__prior_scale": [1.0, 2.0]}
    options = {"mean_candidates": 2, "delta": DELTA}
    search, other = (
        DPRandomizedSearchCV(pipeline, grid, epsilon=epsilon, **options).fit(TABLE, LABELS)
        for epsilon in (4.0, 8.0)
    )
    best = search.best_estimator_
    assert spent([search, best]) == spent([search])
    assert "The search measured" in explain(search)[-1]
    best[-1].fit(TABLE, LABELS)
    other.best_estimator_ = DPBayesianLogisticRegression(0.5, delta=DELTA).fit(TABLE, LABELS)
    for one in (search, other):
        assert "best_estimator_ was fitted again" in str(privacy_report(one))
        assert spent([one, one.best_estimator_]) > spent([one])
        assert "was not measured" in explain(one)[-1]


def status_of_charge(release, ledger):
    assumptions = privacy_report(release, ledger=ledger)["assumptions"]
    (status,) = [one["status"] for one in assumptions if one["id"] == "charged"]
    return status


def test_a_release_outside_of_the_ledger_takes_no_charge_of_its_cost():
    outside = labels()
    with PrivacyLedger(3.0, DELTA) as ledger:
        inside = labels()
    total = (inside.privacy_cost_ + outside.privacy_cost_).epsilon(DELTA)
    assert spent([inside], ledger) == ledger.spent_epsilon
    assert spent([outside], ledger) == spent([outside, inside], ledger) == pytest.approx(total)
    for releases in (lambda one: one, lambda one: [one]):
        assert status_of_charge(releases(inside), ledger) == "checked"
        assert status_of_charge(releases(outside), ledger) == "failed"
    other = labels(0.2)  # As of a ledger whose older copy was put in its place.
    other._charges_of_fit = inside._charges_of_fit
    assert status_of_charge(other, ledger) == status_of_charge([other], ledger) == "failed"
    ledger.reserve(outside.privacy_cost_)  # By hand, for whatever it was.
    assert status_of_charge(outside, ledger) == "to_sign"


def test_a_fit_that_failed_leaves_its_charge_to_no_earlier_one(monkeypatch):
    model = labels()
    sampler = type(model.plan_.sampler)
    with PrivacyLedger(3.0, DELTA) as ledger, monkeypatch.context() as patch:
        patch.setattr(sampler, "run", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError), pytest.warns(UserWarning, match="is spent"):
            model.fit(TABLE, LABELS)
    assert ledger.records()[0]["cost"] == model.privacy_cost_
    assert status_of_charge(model, ledger) == status_of_charge([model], ledger) == "failed"
    assert spent([model], ledger) > ledger.spent_epsilon


@pytest.mark.filterwarnings("ignore")
def test_fits_that_were_saved_know_their_charges_in_each_ledger(tmp_path):
    path = tmp_path / "ledger"
    with PrivacyLedger(9.0, DELTA) as memory, PrivacyLedger(9.0, DELTA, path=path):
        labels(data_norm="auto")
        model, scaler = labels(data_norm="auto"), DPQuantileScaler(delta=DELTA).fit(TABLE)
        pipeline = make_pipeline(
            DPQuantileScaler(delta=DELTA), DPBayesianRidge((-1, 1), delta=DELTA)
        )
        pipeline.fit(TABLE, TABLE["bmi"])
        private = make_private_pipeline(DPQuantileScaler(), DPBayesianRidge((-1, 1)), delta=DELTA)
        private.fit(TABLE, TABLE["bmi"])
        bounds = {"age": (-1, 1), "bmi": (-1, 1)}
        description = dp_describe(TABLE, bounds=bounds, epsilon=0.3, delta=DELTA)
    saved = pickle.loads(pickle.dumps([model, scaler, pipeline, private]))
    for ledger in (memory, PrivacyLedger.open(path)):
        assert [status_of_charge(one, ledger) for one in saved] == ["checked"] * 4
        assert status_of_charge(saved, ledger) == "checked"
        assert len(privacy_report(saved, ledger=ledger)["steps"]) == 4 + 2
        assert spent(saved, ledger) == ledger.spent_epsilon
        assert status_of_charge(description, ledger) == "to_sign"


def test_formulas_name_their_releases():
    table = TABLE.assign(died=LABELS)
    options = {"epsilon": 0.5, "delta": DELTA, "classes": [0, 1], "n_draws": 20}
    formulas = ["died ~ bounded(age, -1, 1)", "died ~ bounded(bmi, -1, 1) + missing(bmi)"]
    make = DPBayesianLogisticRegression.from_formula
    models = [make(formula, **options).fit(table) for formula in formulas]
    report = privacy_report(models)
    assert [step["name"] for step in report["steps"]] == ["died ~ age", "died ~ bmi + missing(bmi)"]
    assert [step["kind"] for step in report["steps"]] == ["FormulaPipeline"] * 2
    names = [one["summary"]["name"] for one in report["reports"]]
    assert names == ["FormulaPipeline: died ~ age", "FormulaPipeline: died ~ bmi + missing(bmi)"]
    assert (
        "called died ~ bmi + missing(bmi)" in str(report)
        and "Release 2: FormulaPipeline" in report.to_html()
    )


def test_a_pipeline_that_was_charged_by_steps_is_not_counted_twice():
    with PrivacyLedger(3.0, DELTA) as ledger:
        scaler = DPQuantileScaler(epsilon=0.3, delta=DELTA)
        model = DPBayesianLogisticRegression(0.4, delta=DELTA, classes=[0, 1], n_draws=20)
        pipeline = make_pipeline(scaler, model).fit(TABLE, LABELS)
    report = privacy_report([pipeline], ledger=ledger)
    assert len(report["steps"]) == 1 and report["summary"]["name"] == "1 release"
    assert report["summary"]["spent"]["epsilon"] == pytest.approx(ledger.spent_epsilon, rel=1e-9)


def test_what_cannot_be_added_up_is_refused():
    model, ledger = labels(), PrivacyLedger(3.0, DELTA)
    other = labels(neighboring_relation="add_or_remove_one", public_size=500)
    for releases, message in (
        ([model, other], "different things"),
        ([model, model.plan_], "a plan is no release"),
        ([model, ledger], "ledger=ledger"),
        ([], "at least one"),
    ):
        with pytest.raises(ValueError, match=message):
            privacy_report(releases)
    with pytest.raises(ValueError, match="different things"):
        privacy_report([other], ledger=ledger)
    with pytest.raises(ValueError, match="one release"):
        privacy_report([model], audit=audit_scores([1.0] * 30, [0.0] * 30, delta=DELTA))
    with pytest.raises(ValueError, match="reports must be a list"):
        PrivacyReport.from_json(PrivacyReport({**privacy_report(model), "reports": 1}).to_json())
