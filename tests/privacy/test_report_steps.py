"""What a report says of each step: its share, its bounds, who said so, and what it does not cover."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
)
from skdpbayes.exceptions import PrivacyLeakWarning
from skdpbayes.metrics import (
    dp_accuracy_score,
    dp_confusion_matrix,
    dp_mean_squared_error,
    make_private_scorer,
)
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    RowNormClipper,
)
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, privacy_report
from skdpbayes.privacy.conversions import gaussian_mu
from skdpbayes.samplers.base import samplers_by_name

N = 3000
rng = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": rng.normal(55, 16, N).clip(18, 99),
        "hours": rng.integers(0, 81, N).astype(float),
        "smoker": rng.choice(["no", "yes", "used to"], N),
        "region": rng.choice(["north", "south"], N),
    }
)
y = (rng.random(N) < 0.5).astype(int)
X = TABLE[["age", "hours"]].to_numpy()
BOUNDS = BoundedScaler(0.0, 100.0)


def raw_pipeline(**options):
    return make_private_pipeline(
        make_column_transformer(
            (make_pipeline(DPQuantileScaler(), DPImputer()), ["age"]),
            (BoundedScaler(0, 80), ["hours"]),
            (DPOneHotEncoder(), ["smoker"]),
            (OneHotEncoder(categories=[["north", "south"]], handle_unknown="ignore"), ["region"]),
            sparse_threshold=0,
        ),
        DPBayesianLogisticRegression(classes=[0, 1], data_norm=2.0),
        epsilon=1.0,
        delta=1e-6,
        **options,
    )


def steps_of(report):
    return {step["kind"]: step for step in report["steps"]}


def status_of(report):
    return {one["id"]: one["status"] for one in report["assumptions"]}


@pytest.fixture(scope="module")
def fitted():
    ledger = PrivacyLedger(2.0, 1e-5)
    with ledger:
        model = raw_pipeline(strict=True).fit(TABLE, y)
    return model, ledger


def test_every_step_has_its_share_and_the_source_of_its_bounds(fitted):
    model, _ = fitted
    report = privacy_report(model)
    steps = steps_of(report)
    assert [step["role"] for step in report["steps"]] == [
        *("charged", "free", "free", "charged", "free", "charged")
    ]
    assert sum(step["share"] for step in report["steps"]) == pytest.approx(1.0)
    paid = [step for step in report["steps"] if step["role"] == "charged"]
    mus = [gaussian_mu(step["epsilon"], 1e-6) ** 2 for step in paid]
    assert [step["share"] for step in paid] == pytest.approx(np.divide(mus, sum(mus)))
    told = {
        (fact["what"], fact["column"]): (fact["value"], fact["source"])
        for step in report["steps"]
        for fact in step["bounds"]
    }
    scaler = model[0].named_transformers_["pipeline"][0]
    learnt = [float(scaler.lower_[0]), float(scaler.upper_[0])]
    assert told["range", "age"] == (learnt, "learnt")
    assert told["range", "hours"] == ([0.0, 80.0], "declared")
    assert told["value for missing ones", None] == (0.0, "default")
    assert told["categories", "smoker"] == (["no", "used to", "yes"], "learnt")
    assert told["categories", "region"] == (["north", "south"], "declared")
    assert told["longest row", None] == (2.0, "declared")
    assert told["labels", None] == ([0, 1], "declared")
    assert steps["DPQuantileScaler"]["columns"] == {"number": 1, "names": ["age"]}
    assert steps["DPQuantileScaler"]["proof"] == "Proposition 50"
    assert {step["rows"] for step in report["steps"]} == {N}
    assert report["summary"]["protected"]["rows"]["number"] == N
    assert report["summary"]["spent"]["epsilon"] == model.spent_epsilon_
    assert report["summary"]["verdict"] == "if_signed"
    assert [one["step"] for one in report["details"]["releases"]] == list(model.plan_.step_budgets)


def test_what_a_plan_says_of_steps_is_said_before_a_row_is_read():
    pipeline = make_private_pipeline(
        DPQuantileScaler(), DPImputer(), DPBayesianLogisticRegression(), delta=1e-6
    )
    report = privacy_report(pipeline.privacy_plan(N, 2))
    assert report["summary"]["stage"] == "planned"
    steps = steps_of(report)
    assert [step["role"] for step in report["steps"]] == ["charged", "free", "charged"]
    (range_,) = steps["DPQuantileScaler"]["bounds"]
    assert (range_["value"], range_["source"]) == (None, "learnt")
    assert "not known before the fit" in report.to_html()
    assert status_of(report)["no_seed"] == "to_sign"


def test_a_ledger_says_what_is_left_and_whether_it_knows_of_the_fit(fitted):
    model, ledger = fitted
    report = privacy_report(model, ledger=ledger)
    told = report["summary"]["ledger"]
    assert told["budget_epsilon"] == 2.0 and told["has_this_cost"] is True
    assert told["left_epsilon"] == pytest.approx(ledger.remaining_epsilon, rel=1e-3)
    assert status_of(report)["charged"] == "checked" and not report["details"]["warnings"]
    other = privacy_report(model, ledger=PrivacyLedger(2.0, 1e-5))
    assert status_of(other)["charged"] == "failed"
    assert other["summary"]["verdict"] == "weakened"
    assert "no charge of the ledger is known" in other["details"]["warnings"][0]
    with pytest.raises(TypeError, match="must be a PrivacyLedger"):
        privacy_report(model, ledger="a.ledger")


def test_a_fit_that_was_saved_has_the_same_report(fitted):
    model, _ = fitted
    assert privacy_report(pickle.loads(pickle.dumps(model))) == privacy_report(model)


def test_a_report_says_nothing_of_the_rows_that_was_not_released():
    """Two tables, with the same randomness and nothing learnt, have the same report but for their draws."""
    models = [
        make_pipeline(BOUNDS, DPBayesianLogisticRegression()).fit(X, labels)
        for labels in (y, 1 - y)
    ]
    reports = [privacy_report(model) for model in models]
    explanations = [report.pop("explanation") for report in reports]
    assert reports[0] == reports[1] and explanations[0] != explanations[1]
    for name in ("posterior_samples_", "released_"):
        setattr(models[1][-1], name, getattr(models[0][-1], name))
    assert privacy_report(models[1])["explanation"] == explanations[0]
    strange = np.where(y == 1, "8128", "0")
    text = privacy_report(DPBayesianLogisticRegression().fit(X / 100, strange)).to_json()
    assert "8128" not in text, "labels that were read off the table are not told"


STEPS = (DPQuantileScaler(), StandardScaler(), DPBayesianLogisticRegression())


@pytest.mark.parametrize("make", [make_private_pipeline, make_pipeline])
def test_a_step_that_is_not_covered_weakens_the_guarantee(make):
    with warnings.catch_warnings(action="ignore", category=PrivacyLeakWarning):
        report = privacy_report(make(*map(clone, STEPS)).fit(X, y))
    step = steps_of(report)["StandardScaler"]
    assert step["role"] == "unproven" and "may learn" in step["note"]
    assert status_of(report)["unproven_steps"] == "failed"
    assert report["summary"]["verdict"] == "weakened"
    assert "NOT COVERED" in report.to_html()


def test_a_step_that_is_vouched_for_is_to_be_signed():
    model = make_private_pipeline(*STEPS, strict=True, learns_nothing=["standardscaler"])
    report = privacy_report(model.fit(X, y))
    assert steps_of(report)["StandardScaler"]["role"] == "vouched"
    assert status_of(report)["vouched_steps"] == "to_sign"
    assert report["summary"]["verdict"] == "if_signed"


def test_an_ordinary_pipeline_costs_what_its_steps_cost_together():
    model = make_pipeline(
        make_union(DPQuantileScaler(epsilon=0.5), make_pipeline(BOUNDS, FunctionTransformer())),
        DPBayesianLogisticRegression(epsilon=1.0, delta=1e-6),
    ).fit(X, y)
    report = privacy_report(model)
    scaler = model[0].transformer_list[0][1]
    total = scaler.privacy_cost_ + model[-1].privacy_cost_
    assert report["summary"]["spent"]["epsilon"] == total.epsilon(1e-6)
    assert [step["kind"] for step in report["steps"]] == [
        *("DPQuantileScaler", "BoundedScaler", "DPBayesianLogisticRegression")
    ]
    assert report["summary"]["ceiling"]["epsilon"] is None


def test_a_pipeline_within_another_is_one_step_with_its_own_cost():
    inner = make_private_pipeline(DPQuantileScaler(), DPImputer(), epsilon=0.5, delta=1e-6)
    model = make_pipeline(inner, DPBayesianLogisticRegression(delta=1e-6)).fit(X, y)
    report = privacy_report(model)
    assert steps_of(report)["PrivatePipeline"]["epsilon"] == model[0].privacy_cost_.epsilon(1e-6)


def test_what_cannot_be_added_is_refused():
    other = DPQuantileScaler(neighboring_relation="add_or_remove_one", public_size=N)
    with pytest.raises(ValueError, match="protect against different things"):
        privacy_report(make_pipeline(other, DPBayesianLogisticRegression()).fit(X, y))


@pytest.mark.parametrize(
    "unfitted",
    [
        make_pipeline(DPQuantileScaler(), DPBayesianLogisticRegression()),
        make_pipeline(ColumnTransformer([("a", DPQuantileScaler(), [0])]), DPImputer()),
        make_private_pipeline(DPQuantileScaler(), DPBayesianLogisticRegression()),
        DPRandomizedSearchCV(DPBayesianLogisticRegression(), {"data_norm": [1.0]}),
        DPQuantileScaler(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_is_not_fitted_has_no_report(unfitted):
    with pytest.raises(NotFittedError, match="plan"):
        privacy_report(unfitted)


@pytest.mark.parametrize("columns", [[0], "a", lambda X: [0]], ids=["places", "name", "function"])
def test_an_unfitted_branch_before_a_fitted_step_has_no_report(columns):
    early = ColumnTransformer([("a", BoundedScaler(-1, 1), columns)])
    last = DPBayesianLogisticRegression(n_draws=5).fit(X, y)
    with pytest.raises(NotFittedError, match="a step of this pipeline is not fitted"):
        privacy_report(Pipeline([("early", early), ("last", last)]))


def test_a_pipeline_without_privacy_has_no_report():
    with pytest.raises(TypeError, match="no step of the pipeline is private"):
        privacy_report(make_pipeline(StandardScaler()).fit(X))


def test_persons_are_what_is_protected():
    private = {"neighboring_relation": "add_or_remove_one", "public_size": N}
    model = make_private_pipeline(
        DPQuantileScaler(**private),
        DPBayesianLogisticRegression(**private),
        epsilon=3.0,
        delta=1e-6,
        max_rows_per_group=3,
    ).fit(X, y, groups=np.arange(N) // 3)
    report = privacy_report(model)
    protected = report["summary"]["protected"]
    assert (protected["unit"], protected["max_rows_per_person"]) == ("person", 3)
    assert "stays private" in protected["rows"]["how"]
    assert "groups_are_persons" in status_of(report) and "public_size" in status_of(report)
    ends = [step["epsilon"] for step in report["steps"]]
    assert max(ends) < model.spent_epsilon_ < sum(ends), "costs of steps are for persons, too"
    assert "Proposition" in report["summary"]["spent"]["proof"]


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    "model, responses, expected",
    [
        (DPBayesianRidge((0, 1)), X[:, 0], {"range of responses": ([0, 1], "declared")}),
        (DPBayesianRidge(), X[:, 0], {"range of responses": ("target_bounds_", "learnt")}),
        (
            DPBayesianPoissonRegressor(sampler="clipped_residuals", data_norm="auto"),
            y,
            {"largest count": ("max_count_", "learnt"), "longest row": ("data_norm_", "learnt")},
        ),
        (
            DPBayesianPoissonRegressor(7, sampler="clipped_residuals"),
            y,
            {"largest count": (7, "declared"), "longest row": ("data_norm_", "default")},
        ),
        (
            DPBayesianLogisticRegression(class_weight={0: 1.0, 1: 2.0}, classes=[0, 1]),
            y,
            {"weights of labels": (["0: 1.0", "1: 2.0"], "declared")},
        ),
    ],
)
def test_estimators_say_who_said_their_bounds(model, responses, expected):
    report = privacy_report(model.fit(X / 100, responses))
    told = {one["what"]: (one["value"], one["source"]) for one in report["steps"][0]["bounds"]}
    for what, (value, source) in expected.items():
        if isinstance(value, str):
            value = getattr(model, value)
            value = list(value) if isinstance(value, tuple) else value
        assert told[what] == (value, source)


def test_a_norm_that_is_too_dear_to_learn_is_a_default():
    model = DPBayesianLogisticRegression(0.01, data_norm="auto", classes=[0, 1]).fit(X[:60], y[:60])
    told = privacy_report(model)["steps"][0]["bounds"][0]
    assert model.plan_.bound_release is None and told["source"] == "default"


def test_a_network_says_what_it_learns():
    told = {
        fact.what: fact.source for fact in DPBayesianMLPClassifier(data_norm=2.0)._about().facts
    }
    assert told["longest row"] == "declared" and told["longest gradient of a row"] == "default"
    assert told["typical length of rows"] == "learnt" and told["labels"] == "labels"


def test_a_search_says_what_it_chose():
    search = DPRandomizedSearchCV(
        make_pipeline(RowNormClipper(3.0), DPBayesianLogisticRegression(classes=[0, 1])),
        {"dpbayesianlogisticregression__data_norm": [1.0, 2.0]},
        mean_candidates=2.0,
    ).fit(X / 100, y)
    report = privacy_report(search)
    free, paid = report["steps"]
    assert free["role"] == "free" and free["bounds"][0]["value"] == 3.0
    told = {one["what"]: (one["value"], one["source"]) for one in paid["bounds"]}
    assert told["chosen data_norm"] == (search.best_estimator_[-1].data_norm, "learnt")
    assert "longest row" not in told
    assert paid["share"] == 1.0 and paid["proof"] == "Propositions 42 and 43"
    assert paid["rows"] == N
    assert privacy_report(search.plan_)["summary"]["name"] == "random search"


def test_scores_have_reports():
    score = dp_accuracy_score(y, y, epsilon=0.5)
    report = privacy_report(score)
    assert report["summary"]["name"] == "accuracy" and report["summary"]["of"] == "score"
    assert report["summary"]["spent"]["epsilon"] == 0.5
    hidden = dp_accuracy_score(y, y, epsilon=0.5, neighboring_relation="add_or_remove_one")
    assert privacy_report(hidden)["summary"]["protected"]["rows"] is None
    matrix = dp_confusion_matrix(y, y, epsilon=0.5, labels=[0, 1])
    assert privacy_report(matrix)["steps"][0]["proof"] == "Proposition 40"
    with pytest.raises(TypeError, match="only a score itself"):
        privacy_report(matrix.view())


def test_seeds_in_a_ledger_are_told():
    ledger = PrivacyLedger(2.0, 1e-6, allow_seeds=True)
    with ledger:
        DPBayesianLogisticRegression(random_state=0).fit(X, y)
    report = privacy_report(ledger)
    assert status_of(report)["no_seed"] == "failed"
    assert report["summary"]["verdict"] == "weakened"
    plain = PrivacyLedger(2.0, 1e-6)
    for mu in (0.1, 0.2):
        plain.reserve(PrivacyCost("replace_one", mu=mu))
    report = privacy_report(plain)
    assert status_of(report)["no_seed"] == "to_sign"
    assert [step["share"] for step in report["steps"]] == pytest.approx([0.2, 0.8])


def test_a_delta_that_protects_nobody_is_a_warning():
    report = privacy_report(DPBayesianLogisticRegression(delta=0.01).privacy_plan(N, 2))
    assert "publishing one row at random" in report["details"]["warnings"][0]
    assert report["summary"]["verdict"] == "weakened"


@pytest.mark.parametrize("scaler", [BoundedScaler(1, 0), DPQuantileScaler(bounds=(1, 2, 3))])
def test_what_a_report_cannot_describe_is_refused_by_the_fit_itself(scaler):
    model = make_private_pipeline(scaler, DPBayesianLogisticRegression(classes=[0, 1]))
    with pytest.raises(ValueError, match="bounds must be|lower must be below"):
        model.fit(X, y)


def test_a_plan_describes_parameters_and_not_an_earlier_fit():
    scaler = BoundedScaler(0, 100)
    model = make_private_pipeline(scaler, DPBayesianLogisticRegression(classes=[0, 1])).fit(X, y)
    scaler.set_params(upper=200)
    told = privacy_report(model.privacy_plan(N, 2))["steps"][0]["bounds"][0]
    assert told["value"] == [0.0, 200.0]
    scaler.set_params(upper=100)
    assert privacy_report(model)["steps"][0]["bounds"][0]["value"] == [0.0, 100.0]


def _a_search():
    scorer = make_private_scorer("accuracy", epsilon=1.0)
    model = DPBayesianLogisticRegression(classes=[0, 1])
    grid = {"prior_scale": [1.0, 2.0]}
    return DPRandomizedSearchCV(model, grid, epsilon=8.0, scoring=scorer)


@pytest.mark.parametrize(
    "make, changed",
    [
        (lambda: DPBayesianLogisticRegression(random_state=0), {"random_state": None}),
        (lambda: DPBayesianLogisticRegression(), {"classes": [0, 1]}),
        (lambda: DPBayesianLogisticRegression(data_norm="auto"), {"data_norm": 0.1}),
        (
            lambda: make_private_pipeline(BoundedScaler(0, 1), DPBayesianLogisticRegression()),
            {"dpbayesianlogisticregression__data_norm": 0.1},
        ),
        (
            lambda: make_private_pipeline(BoundedScaler(0, 1), DPBayesianLogisticRegression()),
            {"learns_nothing": ["boundedscaler"]},
        ),
        (
            lambda: make_pipeline(DPQuantileScaler(epsilon=1.0), DPBayesianLogisticRegression()),
            {"dpquantilescaler__quantiles": (0.1, 0.9)},
        ),
        (_a_search, {"estimator__classes": None}),
    ],
)
def test_what_was_set_after_the_fit_is_not_reported_as_fitted(make, changed):
    fitted = make().fit(X, y)
    before = {name: fitted.get_params()[name] for name in changed}
    privacy_report(fitted)
    fitted.set_params(**changed)
    name = next(iter(changed)).rpartition("__")[2]
    with pytest.raises(ValueError, match=f"{name} of this .* changed after its fit"):
        privacy_report(fitted)
    fitted.set_params(**before)
    privacy_report(fitted)


@pytest.mark.nightly
def test_a_chosen_model_that_was_changed_has_no_report():
    fitted = _a_search().fit(X, y)
    fitted.best_estimator_.set_params(classes=None)
    with pytest.raises(ValueError, match="classes of this DPBayesian"):
        privacy_report(fitted)


def test_a_seed_of_a_search_s_scores_is_told():
    search = _a_search()
    search.set_params(scoring=make_private_scorer("accuracy", epsilon=1.0, random_state=0))
    report = privacy_report(search.fit(X, y))
    (seed,) = [one for one in report["assumptions"] if one["id"] == "no_seed"]
    assert seed["status"] == "failed" and report["summary"]["verdict"] == "weakened"


def test_columns_that_were_named_by_the_rows_are_not_named():
    words = pd.DataFrame({"d": np.where(np.arange(N) == 7, "HIV", "none")})
    encoder = OneHotEncoder(sparse_output=False).set_output(transform="pandas")
    fitted = make_pipeline(encoder, DPBayesianLogisticRegression(classes=[0, 1])).fit(words, y)
    report = privacy_report(fitted)
    assert "HIV" not in report.to_json() and "HIV" not in report.to_html()
    assert report["steps"][1]["columns"] is None
    ids = [one["id"] for one in report["assumptions"]]
    assert "parameters_are_those_of_the_fit" in ids


def test_labels_that_were_read_off_the_rows_are_told_wherever_they_were():
    inner = make_private_pipeline(BoundedScaler(0, 1), DPBayesianLogisticRegression())
    search = _a_search()
    search.set_params(estimator__classes=None)
    for model in (make_pipeline(inner), search):
        report = privacy_report(model.fit(X, y))
        assert any(
            "set of labels" in text for text in report["summary"]["protected"]["not_protected"]
        )
        assert "labels_are_public" in [one["id"] for one in report["assumptions"]]
    assert "declared_is_public" in [one["id"] for one in privacy_report(inner)["assumptions"]]


def test_bounds_of_scores_are_to_be_signed():
    score = dp_mean_squared_error(y, y, epsilon=1.0, target_bounds=(0, 1))
    assert "declared_is_public" in [one["id"] for one in privacy_report(score)["assumptions"]]


def test_every_private_sampler_names_its_propositions():
    for name, kind in samplers_by_name().items():
        if name not in ("auto", "gibbs"):
            assert kind.proof.startswith("Proposition"), name


def test_a_pipeline_of_scikit_learn_has_a_report_in_a_new_process():
    """Nothing else need have been imported, as where a pickle was loaded."""
    code = (
        "import numpy as np; from sklearn.pipeline import make_pipeline\n"
        "from skdpbayes import DPBayesianLogisticRegression; from skdpbayes.privacy import privacy_report\n"
        "from skdpbayes.preprocessing import BoundedScaler\n"
        "X, y = np.random.default_rng(0).uniform(size=(300, 2)), np.arange(300) % 2\n"
        "model = make_pipeline(BoundedScaler(0, 1), DPBayesianLogisticRegression()).fit(X, y)\n"
        "print(privacy_report(model).to_markdown().splitlines()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Privacy report")
