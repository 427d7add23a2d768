"""Private pipelines of persons with several rows: steps get the relation they need, strings stay hidden."""

from functools import wraps

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes._data.collections import header_of
from skdpbayes._mechanisms.histogram import plan_threshold
from skdpbayes.audit import replay
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.pipeline._plan import plan_pipeline
from skdpbayes.preprocessing import DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import Budget, PrivacyCost, PrivacyLedger, privacy_report
from skdpbayes.privacy.units import cost_for_persons
from skdpbayes.privacy.unsafe_callers import step_tree

PERSONS, K = 3000, 3
rng = np.random.default_rng(0)
WHO = np.append(np.repeat(0, 200), np.append(np.arange(1, PERSONS), rng.integers(1, PERSONS, 3000)))
FRAME = pd.DataFrame({"age": rng.uniform(18, 90, WHO.size)})
FRAME.loc[::7, "age"] = np.nan
FRAME["region"] = np.where(rng.random(WHO.size) < 0.5, "east", "west").astype(object)
FRAME.loc[WHO == 0, "region"] = "nowhere"
Y = (FRAME["region"] == "east").astype(int).to_numpy()


def pipeline(k=K, relation=None, **options):
    sizes = {} if relation is None else {"neighboring_relation": relation, "public_size": 6000}
    numbers = make_pipeline(DPQuantileScaler(**sizes), DPImputer())
    columns = ColumnTransformer(
        [("numbers", numbers, ["age"]), ("text", DPOneHotEncoder(**sizes), ["region"])]
    )
    model = DPBayesianLogisticRegression(classes=[0, 1], n_draws=20, **sizes)
    options = {"epsilon": 20.0, "delta": 1e-5, "max_rows_per_group": k, **options}
    return make_private_pipeline(columns, model, **options)


@pytest.mark.filterwarnings("ignore")
def test_steps_get_the_relation_of_persons_and_keep_their_parameters():
    """Without a word about relations or sizes; strings of one person with 200 rows are not learnt."""
    pipe = pipeline()
    before = {name: repr(value) for name, value in pipe.get_params().items()}
    with PrivacyLedger(np.inf, 1e-5, "replace_one_person") as ledger:
        pipe.fit(FRAME, Y, groups=WHO)
    plan = pipe.plan_
    assert ledger.spent == pipe.privacy_cost_ == plan.cost
    assert plan.cost.neighboring_relation == "replace_one_person"
    assert plan.persons.cost_of_rows.neighboring_relation == "add_or_remove_one"
    assert plan.n_samples == K * PERSONS and pipe.spent_epsilon_ <= 20.0
    encoder = pipe[0].named_transformers_["text"]
    assert set(encoder.categories_[0]) == {"east", "west"}
    assert encoder.plan_.details["threshold"] > K
    assert encoder.privacy_cost_.neighboring_relation == "add_or_remove_one"
    assert (encoder.neighboring_relation, encoder.rows_per_person) == ("add_or_remove_one", K)
    after = {name: repr(value) for name, value in pipe.get_params().items()}
    assert {name for name in before if before[name] != after[name]} <= {
        "steps",
        "columntransformer",
    }
    assert pipe[-1].plan_.bounds is not None and pipe[-1].public_size is None


@pytest.mark.parametrize("relation", [None, "add_or_remove_one"])
def test_a_plan_for_persons_costs_what_the_theorems_say(relation):
    """Closed form: j times mu of rows, ranges of choices from one row of each, and failures as they are."""
    plan = plan_pipeline(step_tree(pipeline(relation=relation)), PERSONS, 2, header_of(FRAME))
    j = 2 * K if relation is None else K
    of_rows, cost = plan.persons.cost_of_rows, plan.cost
    assert cost.mu == pytest.approx(j * of_rows.mu)
    assert cost.failure_probability == of_rows.failure_probability > 0
    assert len(cost.decisions) == 1 and cost.decisions == of_rows.decisions
    assert 19.0 < plan.epsilon <= 20.0
    assert sum(plan.step_costs.values(), PrivacyCost("add_or_remove_one")) == of_rows


@pytest.mark.parametrize("k", [1, 2, 5, 40])
@pytest.mark.parametrize("n_columns", [1, 7])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_what_only_one_person_has_is_found_as_rarely_as_delta_pays_for(k, n_columns, relation):
    """Closed form of Proposition 53: the worst persons have one category, or as many as they have rows."""
    budget = Budget(0.5, 1e-6, relation)
    scale, threshold, cost = plan_threshold(budget, n_columns, k)
    most = 1 if k == 1 and relation == "add_or_remove_one" else 2
    for count, n_categories in ((k, 1), (1, k)):
        found = norm.sf((threshold - count) / scale)
        assert most * n_categories * n_columns * found / (1.0 - found) <= cost.failure_probability
    found = norm.sf((threshold - k) / scale)
    if relation == "add_or_remove_one" or k > 1:
        used = (1 if k == 1 else 2) * k * n_columns * found / (1.0 - found)
        assert used > 0.99 * cost.failure_probability, "the noise is larger than it had to be"
    assert cost.mu == pytest.approx(
        np.sqrt((2 if relation == "replace_one" else 1) * n_columns) / scale
    )


def test_a_threshold_for_rows_is_not_taken_for_one_of_persons():
    cost = plan_threshold(Budget(0.5, 1e-6, "add_or_remove_one"), 1)[2]
    with pytest.raises(ValueError, match="not known for persons"):
        cost_for_persons(cost, "add_or_remove_one", 2)
    told = cost_for_persons(cost, "add_or_remove_one", 2, failure_is_of_persons=True)
    assert (told.mu, told.failure_probability) == (2 * cost.mu, cost.failure_probability)


def test_counts_of_a_person_move_by_no_more_than_is_charged():
    """One who has k rows of one category, in the place of one with k of another."""
    k, scale = 5, plan_threshold(Budget(0.5, 1e-6, "add_or_remove_one"), 1, 5)[0]
    mu = plan_threshold(Budget(0.5, 1e-6, "add_or_remove_one"), 1, 5)[2].mu
    moved = np.hypot(k, k) / scale
    assert moved <= 2 * k * mu and k / scale == pytest.approx(k * mu)


# What a person moves: of K rows, which a fit keeps all, in the place of K others.

SMALL = np.repeat(np.arange(40), K)
TEXT = pd.DataFrame({"a": rng.uniform(-1, 1, SMALL.size)})
TEXT["word"] = np.where(np.arange(SMALL.size) % 2, "left", "right").astype(object)
TEXT.loc[: K - 1] = [1.0, "left"]
LABELS = np.append(np.ones(K, dtype=int), np.arange(SMALL.size - K) % 2)


def logistic(**options):
    return DPBayesianLogisticRegression(
        2.0, data_norm=1.0, classes=[0, 1], n_draws=5, fit_intercept=False, **options
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_person_moves_a_fit_as_far_as_is_charged_for_persons(relation):
    sizes = {} if relation == "replace_one" else {"public_size": SMALL.size}
    model = logistic(max_rows_per_group=K, neighboring_relation=relation, **sizes)
    record = None if sizes else {"X": [[-1.0]] * K, "y": 1}
    found = replay(model, TEXT[["a"]].to_numpy(), LABELS, record, index=range(K), groups=SMALL)
    assert not found.violations, str(found)
    assert found.largest_share > 0.3


@pytest.mark.filterwarnings("ignore")
def test_a_fit_that_is_charged_for_fewer_rows_is_found(monkeypatch):
    """Planted bug: a person's rows are charged as half as many."""
    monkeypatch.setattr(
        "skdpbayes.privacy.units.row_relation_and_distance",
        lambda relation, k: ("add_or_remove_one", k),
    )
    model = logistic(max_rows_per_group=K)
    record = {"X": [[-1.0]] * K, "y": 1}
    found = replay(model, TEXT[["a"]].to_numpy(), LABELS, record, index=range(K), groups=SMALL)
    assert "sensitivity" in {one.kind for one in found.violations}


@pytest.mark.daily(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("word", ["right", "only here"])
def test_a_person_moves_a_pipeline_as_far_as_is_charged_for_persons(word):
    columns = ColumnTransformer(
        [("numbers", DPQuantileScaler(), ["a"]), ("text", DPOneHotEncoder(), ["word"])]
    )
    model = DPBayesianLogisticRegression(classes=[0, 1], n_draws=5)
    pipe = make_private_pipeline(columns, model, epsilon=20.0, delta=1e-3, max_rows_per_group=K)
    record = {"X": [[-9.0, word]] * K, "y": 0}
    found = replay(pipe, TEXT, LABELS, record, index=range(K), groups=SMALL)
    assert not found.violations, str(found)
    assert found.n_releases > 3 and found.largest_share > 0.2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_largest_weights_move_a_pipeline_as_far_as_is_charged(relation):
    sizes = {} if relation == "replace_one" else {"public_size": SMALL.size}
    model = logistic(neighboring_relation=relation, max_sample_weight=2.0, **sizes)
    model.set_params(epsilon=1.0)
    pipe = make_private_pipeline(model, epsilon=20.0, delta=1e-3, max_rows_per_group=K)
    name = "dpbayesianlogisticregression__sample_weight"
    record = None if sizes else {"X": [[-1.0]] * K, "y": 1, name: [9.0] * K}
    weights = np.append([9.0] * K, np.full(SMALL.size - K, 0.1))
    who = {"index": range(K), "groups": SMALL, name: weights}
    found = replay(pipe, TEXT[["a"]].to_numpy(), LABELS, record, **who)
    assert not found.violations, str(found)
    assert found.largest_share > 0.3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series])
def test_rows_that_are_chosen_bring_their_weights_along(kind, monkeypatch):
    seen, fit = [], DPBayesianLogisticRegression.fit

    @wraps(fit)
    def watched(self, X, y, sample_weight=None, **others):
        seen.append((np.asarray(X)[:, 0], np.asarray(sample_weight)))
        return fit(self, X, y, sample_weight, **others)

    monkeypatch.setattr(DPBayesianLogisticRegression, "fit", watched)
    model = logistic().set_params(epsilon=1.0)
    pipe = make_private_pipeline(model, epsilon=20.0, delta=1e-3, max_rows_per_group=2)
    weights = np.abs(TEXT["a"].to_numpy())
    given = {"dpbayesianlogisticregression__sample_weight": kind(weights)}
    pipe.fit(TEXT[["a"]].to_numpy(), LABELS, groups=SMALL, **given)
    rows, used = seen[-1]
    assert len(rows) == 80
    np.testing.assert_array_equal(used, np.abs(rows))
    cost = pipe.privacy_cost_
    assert cost == pipe.fit(TEXT[["a"]].to_numpy(), LABELS, groups=SMALL).privacy_cost_


@pytest.mark.daily(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("k", [1, 2, K])
def test_a_report_tells_what_each_step_costs_a_person(k):
    pipe = pipeline(k).fit(FRAME, Y, groups=WHO)
    report = privacy_report(pipe)
    paid = {step["name"]: step["epsilon"] for step in report["steps"] if step["role"] == "charged"}
    assert set(paid) == set(pipe.plan_.step_costs)
    assert max(paid.values()) < pipe.spent_epsilon_ < sum(paid.values())
    encoder = next(name for name in paid if name.endswith("text"))
    assert ("one row of each person" in report.to_markdown()) == (k > 1)
    steps = 1 if k == 1 else 2 * k
    of_rows = pipe.plan_.step_costs[encoder]
    exact = PrivacyCost(
        "replace_one_person", mu=steps * of_rows.mu, failure_probability=of_rows.failure_probability
    )
    assert paid[encoder] == exact.epsilon(1e-5)
    assert report["summary"]["protected"]["max_rows_per_person"] == k
    planned = privacy_report(plan_pipeline(step_tree(pipeline(k)), PERSONS, 2, header_of(FRAME)))
    assert {one["name"]: one["epsilon"] for one in planned["steps"] if one["epsilon"]} == paid


@pytest.mark.parametrize("k", [1, K])
def test_a_printed_plan_tells_what_each_step_costs_a_person(k):
    """The numbers of the report, at the delta of the whole, which are far above those of rows."""
    plan = plan_pipeline(step_tree(pipeline(k)), PERSONS, 2, header_of(FRAME))
    printed = str(plan)
    for step in privacy_report(plan)["steps"]:
        if step["role"] == "charged":
            assert f"{step['name']}  epsilon = {step['epsilon']:.4g}, delta = 1e-05" in printed
            for_rows = k == 1 or step["name"] in plan.of_one_row
            assert for_rows or step["epsilon"] > (2 * k - 1) * plan.step_budgets[step["name"]][0]


@pytest.mark.parametrize("k, said", [(1, "3,000 rows"), (K, "at most 9,000 rows (planned)")])
def test_a_report_does_not_take_planned_rows_for_those_that_are_read(k, said):
    report = privacy_report(plan_pipeline(step_tree(pipeline(k)), PERSONS, 2, header_of(FRAME)))
    page = report.to_markdown().replace("\\", "")
    assert page.count(f"| {said}") == len(report["steps"])
    assert f"Number of rows: {said.split(' rows')[0]} (planned for" in page
