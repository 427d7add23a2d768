"""Searches over private pipelines: one budget for all that steps learn of raw tables, in every run."""

import numpy as np
import pandas as pd
import pytest
from cheap import Cheap
from scipy.optimize import brentq
from scipy.stats import randint
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.audit import replay
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, PureMechanism, privacy_report

N, DELTA = 3000, 1e-5
rng = np.random.default_rng(0)
FRAME = pd.DataFrame({"age": rng.uniform(18, 90, N), "income": rng.lognormal(10, 1, N)})
FRAME.loc[::7, "income"] = np.nan
FRAME["region"] = rng.choice(["north", "south", None], N)
Y = np.where(FRAME["age"] + rng.normal(0, 10, N) > 54, "yes", "no")
WHO = np.append(np.arange(N // 2), np.arange(N // 2))


def raw(last=None, **options):
    numbers = make_pipeline(DPQuantileScaler(), DPImputer())
    columns = ColumnTransformer(
        [("numbers", numbers, ["age", "income"]), ("text", DPOneHotEncoder(), ["region"])]
    )
    last = DPBayesianLogisticRegression(classes=["no", "yes"], n_draws=5) if last is None else last
    return make_private_pipeline(columns, last, **options)


def search_of(estimator, params, **options):
    options = {"epsilon": 8.0, "delta": DELTA, "mean_candidates": 2.0, "random_state": 0, **options}
    return DPRandomizedSearchCV(estimator, params, **options)


@pytest.mark.daily(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("k", [None, 1, 2])
def test_a_raw_table_is_searched_within_one_budget_that_is_said_before(k):
    name = "dpbayesianlogisticregression__data_norm"
    search = search_of(raw(max_rows_per_group=k), {name: [1.0, 2.0]})
    relation, given = ("replace_one", {}) if k is None else ("replace_one_person", {"groups": WHO})
    with PrivacyLedger(np.inf, DELTA, relation, allow_seeds=True) as ledger:
        search.fit(FRAME, Y, **given)
    plan = search.privacy_plan(N if k is None else N // 2)
    assert ledger.spent == search.privacy_cost_ == plan.cost and len(ledger.records()) == 1
    assert search.spent_epsilon_ <= 8.0
    best = search.best_estimator_
    assert best.privacy_cost_.neighboring_relation == relation
    assert best.privacy_cost_.epsilon(plan.fit_delta) <= plan.fit_epsilon
    assert best.privacy_cost_.decisions and best.privacy_cost_.failure_probability > 0
    assert set(search.predict(FRAME)) <= {"no", "yes"} and search.best_score_ > 0.6


@pytest.mark.parametrize("mean", [1.0, 2.0, 10.0])
def test_a_run_of_any_form_is_charged_as_randomised_response_that_may_fail(mean):
    """Closed form: the choice costs twice the e that the geometric law allows for, then the run itself."""
    plan = search_of(raw(), {"memory": [None]}, epsilon=2.0, mean_candidates=mean).privacy_plan(N)
    level, failure = plan.fit_epsilon / (1.0 - 1e-8), plan.fit_delta
    assert failure == pytest.approx(0.9 * DELTA / mean)
    cost = PrivacyCost(
        "replace_one", pure_events=(PureMechanism(level),), failure_probability=failure
    )
    assert plan.fit_cost.failure_probability == cost.failure_probability
    odds = np.inf if mean == 1 else 1.0 / (mean - 1.0)

    def delta(e):
        return failure + max(0.0, -np.expm1(e - level)) / (1.0 + np.exp(-level))

    shift = 0.0 if mean == 1 else 2.0 * brentq(lambda e: delta(e) - odds * np.expm1(e), 0, level)
    left = DELTA / mean - failure
    exact = shift + level + np.log1p(-left * (1.0 + np.exp(-level)))
    assert exact == pytest.approx(2.0, rel=1e-3) and exact <= 2.0 * (1 + 1e-9)


@pytest.mark.parametrize(
    "estimator, params, message",
    [
        (make_private_pipeline(StandardScaler(), Cheap()), {"cheap__cut": [0.0]}, "StandardScaler"),
        (raw(), {"dpbayesianlogisticregression__epsilon": [3.0]}, "splits its own epsilon"),
        (raw(), {"epsilon": [3.0]}, "which the search sets"),
        (raw(), {"max_rows_per_group": [1]}, "needs to know the person"),
        (
            make_private_pipeline(
                BoundedScaler(-1, 1),
                DPBayesianLogisticRegression(neighboring_relation="replace_one"),
            ),
            {"boundedscaler__lower": [-1]},
            "are not numeric",
        ),
    ],
)
def test_what_a_pipeline_refuses_is_refused_before_a_charge(estimator, params, message):
    with (
        PrivacyLedger(np.inf, DELTA, allow_seeds=True) as ledger,
        pytest.raises((ValueError, TypeError), match=message),
    ):
        search_of(estimator, params).fit(FRAME, Y)
    assert ledger.spent_epsilon == 0


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("index", [0, 1])
def test_a_row_moves_each_release_of_a_search_as_is_charged(index):
    search = search_of(raw(), {"memory": [None]})
    record = {"X": [1e9, -1e9, "elsewhere"], "y": "no"}
    found = replay(search, FRAME.iloc[:400], Y[:400], record, index=index)
    # With so large a budget, the noise of a count of right answers is often 0.
    assert {one.kind for one in found.violations} <= {"noise"}, str(found)
    assert found.n_releases > 5


@pytest.mark.daily(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("k", [None, 2])
def test_a_report_says_that_steps_within_a_search_are_paid_for(k):
    name = "dpbayesianlogisticregression__data_norm"
    search = search_of(raw(max_rows_per_group=k), {name: [1.0, 2.0]})
    search.fit(FRAME, Y, **({} if k is None else {"groups": WHO}))
    report = privacy_report(search)
    roles = {step["kind"]: (step["role"], step["share"]) for step in report["steps"]}
    assert roles == {
        "DPQuantileScaler": ("within", None),
        "DPImputer": ("free", 0.0),
        "DPOneHotEncoder": ("within", None),
        "DPRandomizedSearchCV": ("charged", 1.0),
    }
    page = report.to_markdown()
    assert page.count("| paid for, within the search |") == 2
    known = [report["summary"], privacy_report(search.plan_)["summary"]]
    statement = report["assumptions"][0]["statement"]
    for summary in known:
        rows = summary["protected"]["rows"]
        assert summary["protected"]["max_rows_per_person"] == k
        assert rows["number"] == (N if k is None else N // 2)
        assert rows["counts"] == ("rows" if k is None else "persons")
    if k is not None:
        assert "Number of persons: 1,500 (public: " in page and "1,500 rows" not in page
        assert "At most 2 rows of each person are used in a fit." in page
        assert "at most 2 are used in a fit" in statement


def test_a_limit_of_rows_that_is_drawn_is_told_if_it_is_known():
    plans = [
        search_of(raw(max_rows_per_group=1), {"max_rows_per_group": drawn}).privacy_plan(N)
        for drawn in ([1, 3], randint(1, 4))
    ]
    assert [plan.max_rows for plan in plans] == [3, None]
    page = privacy_report(plans[1]).to_markdown()
    assert "Each person, with all rows that are theirs.\n" in page


def alone(last=None, **options):
    """A private pipeline in which the last step alone is charged."""
    last = DPBayesianLogisticRegression(classes=["no", "yes"], n_draws=5) if last is None else last
    columns = ColumnTransformer([("numbers", BoundedScaler([18], [90]), ["age"])])
    return make_private_pipeline(columns, DPImputer(), last, **options)


NORMS = {"dpbayesianlogisticregression__data_norm": [0.5, 1.0, 2.0]}


@pytest.mark.daily(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("k", [None, 1, 3])
def test_a_pipeline_that_charges_its_last_step_alone_has_a_gaussian_cost(k):
    search = search_of(alone(max_rows_per_group=k), NORMS, epsilon=2.0, mean_candidates=4.0)
    n = N if k is None else N // 2
    plan = search.privacy_plan(n)
    assert plan.not_gaussian == "" and plan.fit_cost.is_gaussian
    # As much as the last step would get without a pipeline around it.
    single = search_of(alone()[-1], {"data_norm": [0.5]}, epsilon=2.0, mean_candidates=4.0)
    assert plan.fit_epsilon == single.privacy_plan(n).fit_epsilon
    relation, given = ("replace_one", {}) if k is None else ("replace_one_person", {"groups": WHO})
    with PrivacyLedger(np.inf, DELTA, relation, allow_seeds=True) as ledger:
        search.fit(FRAME, Y, **given)
    assert ledger.spent == search.privacy_cost_ == plan.cost and search.spent_epsilon_ <= 2.0
    paid = search.best_estimator_.privacy_cost_
    assert paid.is_gaussian and 0.99 * plan.run_mu < paid.mu <= plan.run_mu


DPQUANTILES = {"columntransformer__numbers": [BoundedScaler([18], [90]), DPQuantileScaler()]}
LAST = "dpbayesianlogisticregression__"


@pytest.mark.parametrize(
    "estimator, params",
    [
        (raw(), NORMS),
        (alone(), DPQUANTILES),
        (alone(), {LAST + "sampler": ["auto", "dp_mh"]}),
        (alone(), {LAST + "data_norm": [1.0, "auto"]}),
        (alone(), {LAST + "sampler": ["auto", "no such sampler"]}),
        (alone(), {LAST + name: [1, 2] for name in ("prior_scale", "data_norm", "n_draws")}
         | {"memory": [None] * 7}),
    ],
)  # fmt: skip
def test_a_pipeline_whose_candidates_may_cost_otherwise_has_any_form(estimator, params):
    plan = search_of(estimator, params).privacy_plan(N)
    assert plan.not_gaussian == "PrivatePipeline" and not plan.fit_cost.is_gaussian
    assert plan.fit_delta < DELTA
