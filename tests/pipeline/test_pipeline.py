"""Pipelines: one budget, composed exactly, and steps that leak are named."""

import pickle
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import special
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import BudgetExceededError, PrivacyLeakWarning
from skdpbayes.metrics import make_private_scorer
from skdpbayes.model_selection import total_privacy_cost
from skdpbayes.pipeline import PrivatePipeline, make_private_pipeline
from skdpbayes.pipeline._steps import with_rows
from skdpbayes.preprocessing import BoundedScaler, DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, PureMechanism, privacy_report
from skdpbayes.privacy.unsafe_callers import StepRows, fitted_tree, step_tree

sys.path.insert(0, str(Path(__file__).parent))
from cheap import Cheap

N = 3000


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.uniform(18, 90, N),
            "income": rng.lognormal(10, 1, N),
            "region": rng.choice(["north", "south", None], N, p=[0.5, 0.4, 0.1]),
        }
    )
    table.loc[::9, "income"] = np.nan
    return table, (table["age"] > 50).astype(int).to_numpy()


def mixed(**options):
    numbers = make_pipeline(DPQuantileScaler(random_state=0), DPImputer())
    columns = ColumnTransformer(
        [
            ("numbers", numbers, ["age", "income"]),
            ("text", DPOneHotEncoder(random_state=0), ["region"]),
        ]
    )
    return make_private_pipeline(columns, Cheap(random_state=0), **options)


def test_a_frame_with_missing_values_end_to_end(frame):
    X, y = frame
    pipe = mixed(epsilon=1.0, delta=1e-5, strict=True).fit(X, y)
    assert 0.998 <= pipe.spent_epsilon_ <= 1.0
    inner = pipe[0].named_transformers_
    parts = [inner["numbers"][0].privacy_cost_, inner["text"].privacy_cost_, pipe[-1].privacy_cost_]
    total = parts[0] + parts[1] + parts[2]
    assert total.epsilon(1e-5) == pytest.approx(pipe.spent_epsilon_, rel=1e-6)
    assert pipe.privacy_plan(N, 3).cost == pipe.privacy_cost_
    assert inner["text"].categories_ == [["north", "south", None]]
    assert (abs(pipe[0].transform(X)) <= 1).all()
    assert pickle.loads(pickle.dumps(pipe)).predict(X).shape == (N,)
    assert "epsilon = " in str(pipe.plan_)


def test_the_last_step_gets_all_where_nothing_else_spends():
    pipe = make_private_pipeline(
        BoundedScaler(-1, 1), DPImputer(), Cheap(), epsilon=0.5, delta=1e-5
    )
    plan = pipe.privacy_plan(N, 4)
    assert list(plan.step_budgets) == ["cheap"]
    assert plan.epsilon == pytest.approx(0.5, rel=1e-3) and plan.epsilon <= 0.5


def test_a_plan_says_how_long_the_model_takes():
    model = DPBayesianLogisticRegression()
    pipe = make_private_pipeline(DPQuantileScaler(), model, epsilon=1.0, delta=1e-6)
    plan = pipe.privacy_plan(100_000, 20)
    alone = model.set_params(delta=1e-6, data_norm=20**0.5).privacy_plan(100_000, 20)
    assert plan.estimated_seconds == pytest.approx(alone.estimated_seconds, rel=1e-6)
    line = f"very roughly {plan.estimated_seconds:.2g} s"
    assert plan.summary()["work"] == line
    assert ["work", *line.split()] in [text.split() for text in str(plan).splitlines()]


def test_shares_decide_who_gets_what():
    plans = [
        mixed(shares=shares, delta=1e-5).privacy_plan(N, 3)
        for shares in (
            {"columntransformer__numbers__dpquantilescaler": s, "columntransformer__text": 0.1}
            for s in (0.1, 0.5)
        )
    ]
    assert plans[0].step_costs["cheap"].mu > plans[1].step_costs["cheap"].mu
    for plan in plans:
        assert 0.998 <= plan.epsilon <= 1.0
    with pytest.raises(ValueError, match="shares must have"):
        mixed(shares={"text": 0.1}).privacy_plan(N, 3)


def test_a_ledger_is_charged_once_and_before_a_row_is_read(frame):
    X, y = frame
    with PrivacyLedger(1.0, 1e-5, allow_seeds=True) as ledger:
        mixed(epsilon=1.0, delta=1e-5).fit(X, y)
    assert ledger.spent_epsilon <= 1.0
    Cheap.seen.clear()
    with PrivacyLedger(0.5, 1e-5, allow_seeds=True) as ledger, pytest.raises(BudgetExceededError):
        mixed(epsilon=1.0, delta=1e-5).fit(X, y)
    assert ledger.spent_epsilon == 0 and not Cheap.seen


LEAKS = [
    StandardScaler(),
    MinMaxScaler(),
    RobustScaler(),
    SimpleImputer(),
    SimpleImputer(strategy="median"),
    SimpleImputer(strategy="most_frequent"),
    OneHotEncoder(sparse_output=False),
    OneHotEncoder(categories=[["a"]], min_frequency=3),
    OneHotEncoder(categories=[[0.0], [1.0]]),
    OneHotEncoder(categories=[[0.0], [1.0]], handle_unknown="warn"),
    OrdinalEncoder(categories=[[0.0], [1.0]]),
    OrdinalEncoder(),
    PCA(),
    SelectKBest(),
    TargetEncoder(),
    KBinsDiscretizer(),
    RBFSampler(gamma="scale"),
    FunctionTransformer(lambda X: X - X.mean(axis=0)),
]


@pytest.mark.parametrize("step", LEAKS, ids=lambda step: repr(step)[:40])
def test_steps_that_leak_are_named(step):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    inner = ColumnTransformer([("a", step, [0, 1])])
    for one in (step, inner):
        with pytest.raises(ValueError, match=type(step).__name__):
            make_private_pipeline(one, Cheap(), strict=True).fit(X, y)
    if isinstance(step, StandardScaler):
        with pytest.warns(PrivacyLeakWarning, match="BoundedScaler"):
            make_private_pipeline(step, Cheap()).fit(X, y)


def test_columns_that_a_function_selects_are_named():
    selected = [("a", DPImputer(), lambda X: X.columns[X.isna().any()])]
    assert "function" in step_tree(ColumnTransformer(selected)).leaks()[0]
    names = make_column_selector(pattern="^a")
    assert step_tree(ColumnTransformer([("a", DPImputer(), names)])).leaks() == []


class Missing(make_column_selector):
    """Selects columns that have holes."""

    def __call__(self, table):
        return list(table.columns[table.isna().any()])


def test_columns_that_are_selected_by_types_or_by_subclasses_are_named():
    """A single text among numbers, or a single missing value among integers, changes a column's type."""
    clean, one_text = pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, "2"]})
    for columns in (make_column_selector(dtype_include="number"), Missing()):
        assert "types" in step_tree(ColumnTransformer([("a", DPImputer(), columns)])).leaks()[0]
    by_type = make_column_selector(dtype_include="number")
    assert (by_type(clean), by_type(one_text)) == (["a"], [])


class Watching(Pipeline):
    """Remembers the largest entry."""

    def fit(self, X, y=None, **params):
        self.largest_ = np.max(X)
        return super().fit(X, y, **params)


class WatchingColumns(ColumnTransformer):
    pass


class WatchingUnion(FeatureUnion):
    pass


@pytest.mark.parametrize(
    "step",
    [
        Watching([("a", BoundedScaler(-1, 1))]),
        WatchingColumns([("a", BoundedScaler(-1, 1), [0])]),
        WatchingUnion([("a", BoundedScaler(-1, 1))]),
    ],
    ids=lambda step: type(step).__name__,
)
def test_subclasses_of_pipelines_may_do_anything(step):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    with pytest.raises(ValueError, match=type(step).__name__):
        make_private_pipeline(step, Cheap(), strict=True).fit(X, y)


class OwnPipeline(PrivatePipeline):
    """A private pipeline of a user's own class."""


def test_subclasses_of_a_private_pipeline_are_private_pipelines():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    with pytest.raises(ValueError, match="StandardScaler may learn from the rows"):
        OwnPipeline([("scale", StandardScaler()), ("model", Cheap())], strict=True).fit(X, y)
    steps = [("scale", DPQuantileScaler()), ("model", Cheap())]
    with PrivacyLedger(1.0, 1e-5) as ledger:
        pipeline = OwnPipeline(steps, epsilon=1.0, delta=1e-5).fit(X, y)
    assert len(ledger.records()) == 1 and 0.9 < pipeline.spent_epsilon_ <= 1.0
    assert [step["name"] for step in privacy_report(pipeline)["steps"]] == ["scale", "model"]
    nested = PrivatePipeline([("scale", DPQuantileScaler()), ("inner", OwnPipeline(steps))])
    with pytest.raises(ValueError, match="inner is a private pipeline with a budget of its own"):
        nested.fit(X, y)


SEEN = []
REMEMBERS = np.frompyfunc(lambda entry: SEEN.append(entry) or entry, 1, 1)


@pytest.mark.parametrize(
    "options, safe",
    [
        ({"func": np.abs}, True),
        ({"func": special.expit}, True),
        ({"func": np.sinh, "inverse_func": np.arcsinh, "check_inverse": False}, True),
        ({"func": np.sinh, "inverse_func": np.arcsinh}, False),
        ({"func": np.abs, "inverse_func": lambda X: SEEN.append(X)}, False),
        ({"inverse_func": REMEMBERS}, False),
        ({"func": REMEMBERS}, False),
        ({"func": np.abs, "kw_args": {"where": True}}, False),
        ({"func": np.modf}, False),
        ({"func": np.vecdot if hasattr(np, "vecdot") else np.matmul}, False),
    ],
)
def test_functions_are_known_by_what_they_are(options, safe):
    assert (step_tree(FunctionTransformer(**options)).leaks() == []) is safe


def test_an_inverse_that_is_checked_tells_of_rows():
    """scikit-learn warns if an inverse differs for some rows, and by then has read them."""
    squares = FunctionTransformer(np.square, np.sqrt)
    for sign, told in ((1, 0), (-1, 1)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            squares.fit(np.full((200, 1), sign * 2.0))
        assert len(caught) == told
    assert "check_inverse" in step_tree(squares).leaks()[0]


def test_an_encoder_that_drops_a_category_tells_of_unknown_ones():
    lists = OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore", drop="first")
    with pytest.warns(UserWarning, match="unknown"):
        lists.fit_transform([["a"], ["z"]])
    assert (
        "drop" in step_tree(lists).leaks()[0]
        and step_tree(lists.set_params(drop=None)).leaks() == []
    )


def test_a_tokenizer_may_remember_what_it_reads():
    assert step_tree(HashingVectorizer()).leaks() == []
    assert (
        step_tree(HashingVectorizer(tokenizer=lambda text: SEEN.append(text) or [])).leaks() != []
    )


def test_a_choice_by_density_tells_of_one_row():
    """scikit-learn's ``sparse_output_`` is part of what is published, and is not released by anybody."""
    lists = OneHotEncoder(categories=[["a", "b", "c"]], handle_unknown="ignore")
    rows = np.array([["a"]] * 18 + [["z"]] * 2)
    shown = []
    for last in ("a", "z"):
        rows[17] = last
        columns = ColumnTransformer([("a", lists, [0])], sparse_threshold=0.3)
        shown.append(columns.fit(rows).sparse_output_)
    assert shown == [False, True]
    with pytest.raises(ValueError, match="OneHotEncoder.*sparse_threshold=0.*Nothing was read"):
        make_private_pipeline(columns, Cheap(), strict=True).fit(rows, np.arange(20) % 2)


def columns_of(step, **options):
    inner = ColumnTransformer([("a", make_pipeline(step), ["region"])], **options)
    return ColumnTransformer([("b", inner, ["region"]), ("c", DPQuantileScaler(), ["age"])])


LISTS = OneHotEncoder(categories=[["north", "south"]], handle_unknown="ignore")


@pytest.mark.parametrize(
    "step, n_leaks",
    [
        (columns_of(LISTS), 2),
        (columns_of(LISTS, sparse_threshold=0), 1),
        (columns_of(LISTS).set_params(sparse_threshold=0, b__sparse_threshold=0), 0),
        (columns_of(clone(LISTS).set_params(sparse_output=False)), 0),
        (columns_of(DPOneHotEncoder(sparse_output=True)), 0),
        (make_pipeline(LISTS), 0),
    ],
)
def test_a_choice_by_density_is_named(step, n_leaks):
    found = step_tree(step).leaks()
    assert len(found) == n_leaks and all("sparse_output=False" in text for text in found)


def test_a_sparse_table_has_a_density():
    rows, labels = sp.csr_array(np.eye(40)[:, :3]), np.arange(40) % 2
    for threshold, found in ((0.3, "sparse table"), (0.0, None)):
        columns = ColumnTransformer([("a", Normalizer(), [0, 1, 2])], sparse_threshold=threshold)
        pipe = make_private_pipeline(columns, Cheap(), strict=True)
        if found:
            with pytest.raises(ValueError, match=found):
                pipe.fit(rows, labels)
        else:
            pipe.fit(rows, labels)


def test_private_indicators_have_the_same_density_in_every_table():
    """What they are is released; how many entries a row has is then known."""
    shapes = set()
    for seed in range(5):
        rows = np.random.default_rng(seed).choice(["a", "b", "z"], size=(50, 2)).astype(object)
        encoder = DPOneHotEncoder(categories=[["a", "b"], ["a", "c"]], sparse_output=True)
        shapes.add(tuple(np.diff(encoder.fit_transform(rows).indptr)))
    assert shapes == {(2,) * 50}


def test_a_private_pipeline_in_another_is_refused_and_nothing_is_spent(frame):
    X, y = frame
    inner = make_private_pipeline(DPQuantileScaler(), epsilon=50.0)
    steps = make_pipeline(inner), ColumnTransformer([("a", inner, [0, 1])]), inner
    for step in steps:
        with (
            PrivacyLedger(np.inf, 1e-5) as ledger,
            pytest.raises(ValueError, match="budget of its own"),
        ):
            make_private_pipeline(step, Cheap(), epsilon=0.5).fit(X[["age", "income"]], y)
        assert ledger.spent_epsilon == 0


def test_one_object_in_two_places_is_refused_since_it_has_one_epsilon(frame):
    X, y = frame
    step = DPQuantileScaler()
    columns = ColumnTransformer([("a", step, ["age"]), ("b", step, ["income"])])
    with PrivacyLedger(np.inf, 1e-5) as ledger, pytest.raises(ValueError, match="more than once"):
        make_private_pipeline(columns, Cheap()).fit(X, y)
    assert ledger.spent_epsilon == 0
    copies = ColumnTransformer([("a", step, ["age"]), ("b", clone(step), ["income"])])
    assert make_private_pipeline(copies, Cheap()).privacy_plan(N, 2).epsilon <= 1.0


def test_a_fit_that_fails_is_noted_as_one(frame):
    X, y = frame
    with PrivacyLedger(np.inf, 1e-5) as ledger, pytest.raises(ValueError):
        make_private_pipeline(DPQuantileScaler(), Cheap(fails=True)).fit(X[["age"]], y)
    assert [one["status"] for one in ledger.records()] == ["failed"]


REGIONS = ["north", "south", None, *(str(i) for i in range(600))]


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(categories=[REGIONS], handle_unknown="ignore", sparse_output=False),
        DPOneHotEncoder(categories=[REGIONS]),
        DPOneHotEncoder(categories={"region": REGIONS}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_too_many_columns_of_public_lists_are_refused_first(frame, encoder):
    X, y = frame
    columns = make_column_transformer((DPQuantileScaler(), ["age"]), (encoder, ["region"]))
    width = columns.fit_transform(X).shape[1]
    rows = StepRows(3, header=X.head(0))
    assert with_rows(step_tree(columns), rows).behind.n_columns == width > 600
    last = DPBayesianLogisticRegression(sampler="noise_aware", classes=[0, 1], data_norm=1.5)
    pipe = make_private_pipeline(columns, last, delta=1e-5)
    with PrivacyLedger(10.0, 1e-4) as ledger:
        with pytest.raises(ValueError, match=f"up to 512 coefficients, and there are {width + 1}"):
            pipe.fit(X, y)
        assert ledger.spent_epsilon == 0.0 and ledger.records() == []


class Narrow(Cheap):
    """It takes 60 columns, half as many with more than two labels."""

    def __init__(self, epsilon=1.0, delta=1e-5, *, classes=None, random_state=None):
        super().__init__(epsilon, delta, random_state=random_state)
        self.classes = classes

    def privacy_plan(self, n_samples, n_features, n_classes=2):
        most = 60 if n_classes == 2 else 30
        if n_features > most:
            raise ValueError(f"more than {most} columns")
        return super().privacy_plan(n_samples, n_features)

    def fit(self, X, y):
        self.privacy_plan(*np.shape(X), len(np.unique(y)))
        return super().fit(X, y)

    def _dry_run(self, X, y, planned=True):
        return np.unique(y)


# Of many categories the first are the most frequent, and there are a few of another kind.
MANY = pd.DataFrame(
    {
        "zip": np.r_[np.arange(300) % 10, np.arange(N - 300) % 80],
        "few": np.arange(N) % 5,
        "age": np.linspace(18, 90, N),
    }
)
ROOMS = {
    "a step": lambda: DPOneHotEncoder(),
    "branches": lambda: ColumnTransformer(
        [
            ("few", DPOneHotEncoder(), ["few"]),
            ("zip", DPOneHotEncoder(), ["zip"]),
            ("age", DPQuantileScaler(), ["age"]),
        ]
    ),
    "pipelines in branches": lambda: ColumnTransformer(
        [
            ("few", make_pipeline(DPOneHotEncoder(), Normalizer()), ["few"]),
            ("zip", make_pipeline("passthrough", DPOneHotEncoder(), Normalizer()), ["zip"]),
        ],
        remainder=DPQuantileScaler(),
        n_jobs=2,
    ),
    "a union": lambda: FeatureUnion([("a", DPOneHotEncoder()), ("b", BoundedScaler(0, 99))]),
    "one encoder of all": lambda: DPOneHotEncoder(),
}


def test_columns_that_grow_behind_an_encoder_in_a_branch_are_refused():
    columns = ColumnTransformer([("zip", DPOneHotEncoder(), [0])])
    more = SimpleImputer(add_indicator=True)
    pipe = make_private_pipeline(columns, more, Narrow(classes=[0, 1]), epsilon=20.0, delta=1e-5)
    with pytest.raises(ValueError, match="can take 60 columns, and how many"):
        pipe.privacy_plan(N, 3)


def test_a_report_passes_by_branches_of_no_column():
    inner = ColumnTransformer([("all", BoundedScaler(-1, 1), [0])])
    branches = ColumnTransformer([("none", inner, []), ("all", BoundedScaler(-1, 1), [0])])
    X, y = np.linspace(-1, 1, N)[:, None], np.arange(N) % 2
    model = DPBayesianLogisticRegression(classes=[0, 1], delta=1e-5)
    pipe = make_pipeline(branches, model).fit(X, y)
    names = [step["name"] for step in privacy_report(pipe)["steps"]]
    branch = "columntransformer__"
    assert names == [f"{branch}all", f"{branch}none__all", "dpbayesianlogisticregression"]


@pytest.mark.parametrize("name", ROOMS)
def test_categories_for_which_there_is_no_room_are_put_together(name):
    X = MANY[["zip"]] if name == "a step" else MANY[["zip", "few"]] if "all" in name else MANY
    behind = Normalizer() if name == "a union" else "passthrough"
    pipe = make_private_pipeline(
        ROOMS[name](), behind, Narrow(classes=[0, 1]), epsilon=20.0, delta=1e-5
    )
    plan = pipe.privacy_plan(*X.shape)
    assert plan.column_limit.n_columns == 60 and "at most   60 columns" in str(plan)
    with PrivacyLedger(200.0, 1e-4) as ledger, warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="The fit is complete.*can be used") as caught:
            pipe.fit(X, np.arange(N) % 2)
    assert "the last step can take 60 columns" in str(caught.value)
    assert "of 'zip'" in str(caught.value) and "of 'few'" not in str(caught.value)
    assert [one["status"] for one in ledger.records()] == ["completed"]
    assert ledger.spent_epsilon == pytest.approx(plan.cost.epsilon(1e-4))
    assert pipe.spent_epsilon_ == plan.epsilon
    assert pipe[-1].n_features_in_ == pipe[:-1].transform(X).shape[1] == 60
    nodes = (node.estimator for node in fitted_tree(pipe).walk())
    found = [step for step in nodes if type(step) is DPOneHotEncoder]
    kept = [one for encoder in found for one in encoder.categories_]
    assert set(range(10)) <= set(max(kept, key=len)) and pipe.predict(X[:3]).shape == (3,)
    assert all(
        encoder.transform(X[list(encoder.feature_names_in_)]).shape[1]
        == len(encoder.get_feature_names_out())
        for encoder in found
    )
    names = pipe[:-1].get_feature_names_out()
    assert len(set(names)) == 60 and pickle.loads(pickle.dumps(pipe)).predict(X[:3]).shape == (3,)
    assert "categories" in repr(privacy_report(pipe))


def test_what_was_found_is_kept_where_there_is_room_for_it():
    pipe = make_private_pipeline(
        ROOMS["branches"](), Narrow(classes=[0, 1]), epsilon=20.0, delta=1e-5
    )
    X = MANY.assign(zip=MANY["zip"] % 50)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pipe.fit(X, np.arange(N) % 2)
    assert not any("smallest noisy counts" in str(one.message) for one in told)
    assert pipe[-1].n_features_in_ == 50 + 1 + 5 + 1 + 1


def test_categories_are_put_together_by_their_noisy_counts():
    """What is dropped follows from what was released, and not from the counts of rows."""
    pipe = make_private_pipeline(
        DPOneHotEncoder(), Narrow(classes=[0, 1]), epsilon=20.0, delta=1e-5
    )
    released = {}
    release = DPOneHotEncoder._release

    def kept(self, *args):
        found = release(self, *args)
        released.update(found[0])
        return found

    with pytest.MonkeyPatch.context() as patch, pytest.warns(UserWarning, match="noisy counts"):
        patch.setattr(DPOneHotEncoder, "_release", kept)
        pipe.fit(MANY[["zip"]].assign(zip=np.arange(N) % 80), np.arange(N) % 2)
    largest = sorted(released, key=released.get)[-59:]
    assert len(released) > 59 and pipe[0].categories_ == [sorted(largest)]


@pytest.mark.parametrize("step", ["public lists", "labels"])
def test_a_last_step_without_room_for_any_category_is_refused_before(step, frame):
    X, y = frame
    lists = DPOneHotEncoder(categories=[range(60), "private"])
    X, last, y = MANY[["zip", "few"]], Narrow(classes=[0, 1]), np.arange(N) % 2
    if step == "labels":
        lists, last, y = (
            DPOneHotEncoder(categories=[range(30), "private"]),
            Narrow(),
            np.arange(N) % 3,
        )
    pipe = make_private_pipeline(lists, last, delta=1e-5)
    with PrivacyLedger(10.0, 1e-4) as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="more than [36]0 columns"):
            pipe.fit(X, y)
    assert ledger.records() == []


def test_rows_that_a_step_changes_in_place_are_not_changed_twice():
    class InPlace(OneToOneFeatureMixin, FunctionTransformer):
        def transform(self, X):
            X += 1000
            return X

    pipe = make_private_pipeline(
        InPlace(),
        DPOneHotEncoder(),
        Narrow(classes=[0, 1]),
        epsilon=20.0,
        delta=1e-5,
        learns_nothing=["inplace"],
    )
    seen = []
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(
            DPOneHotEncoder,
            "transform",
            lambda self, X, old=DPOneHotEncoder.transform: seen.append(np.min(X)) or old(self, X),
        )
        pipe.fit(np.array(MANY[["zip"]]), np.arange(N) % 2)
    assert len(seen) == 2 and set(seen) == {1000}


def test_steps_that_learn_nothing_pass():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    constant = SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True)
    steps = (
        FunctionTransformer(np.abs),
        Normalizer(),
        BoundedScaler(-1, 1),
        constant,
        "passthrough",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        make_private_pipeline(*steps[:4], Cheap(), strict=True).fit(X, y)
    lists = OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore")
    assert step_tree(lists).leaks() == [] and step_tree("passthrough").leaks() == []


class Other(Cheap):
    """Its cost is Gaussian for a single column only."""

    def privacy_plan(self, n_samples, n_features, n_classes=2):
        plan = super().privacy_plan(n_samples, n_features)
        if n_features > 1:
            pure = (PureMechanism(0.9 * self.epsilon),)
            plan.cost = PrivacyCost("replace_one", mu=1e-3, pure_events=pure)
        return plan


class Small(Cheap):
    """It takes no table of any size."""

    def privacy_plan(self, n_samples, n_features, n_classes=2):
        raise ValueError("too many columns")


def encoded(final, **options):
    return make_private_pipeline(DPOneHotEncoder(random_state=0), final, delta=1e-5, **options)


def test_a_cost_of_another_form_at_the_columns_to_come_is_planned_for(frame):
    X, y = frame
    pipe = encoded(Other(random_state=0), strict=True).fit(X[["region"]], y)
    assert not pipe.plan_.step_costs["other"].is_gaussian and pipe.spent_epsilon_ <= 1.0
    spent = pipe[0].privacy_cost_ + pipe[-1].privacy_cost_
    assert spent.epsilon(1e-5) <= pipe.spent_epsilon_ * (1 + 1e-6)
    assert encoded(Cheap()).privacy_plan(N, 1).step_costs["cheap"].is_gaussian


class Pure(Cheap):
    """Purely private; a single column costs it half as much."""

    def privacy_plan(self, n_samples, n_features, n_classes=2):
        level = self.epsilon if n_features > 1 else 0.5 * self.epsilon
        cost = PrivacyCost("replace_one", pure_events=(PureMechanism(level),))
        return SimpleNamespace(cost=cost, n_samples=n_samples)


def test_without_delta_columns_to_come_are_charged_in_full():
    lists = DPOneHotEncoder(categories=[["north", "south"]])
    plan = make_private_pipeline(lists, Pure(), epsilon=1.0, delta=0.0).privacy_plan(N, 1)
    assert plan.cost.epsilon(0.0) == pytest.approx(1.0)


def test_a_last_step_without_a_plan_fails_before_anything_is_spent(frame):
    X, y = frame
    with PrivacyLedger(1.0, 1e-5) as ledger, pytest.raises(ValueError, match="too many columns"):
        encoded(Small()).fit(X[["region"]], y)
    assert ledger.spent_epsilon == 0


def test_what_a_search_over_whole_pipelines_spent(frame):
    X, y = frame
    scorer = make_private_scorer("accuracy", epsilon=0.1, random_state=0)
    pipe = mixed(delta=1e-5)
    search = GridSearchCV(pipe, {"epsilon": [0.5, 1.0]}, cv=KFold(3), scoring=scorer)
    total = total_privacy_cost(search.fit(X, y))
    # A record is in two folds of three for both candidates, scored twice, and in the refit.
    fits = [clone(pipe).set_params(epsilon=e).privacy_plan(2 * N // 3, 3).cost for e in (0.5, 1.0)]
    scores = scorer.privacy_cost + scorer.privacy_cost
    folds = fits[0] + fits[0] + fits[1] + fits[1] + scores
    expected = folds + search.best_estimator_.privacy_cost_
    assert total.epsilon(1e-5) == pytest.approx(expected.epsilon(1e-5), rel=1e-6)


def test_it_is_a_scikit_learn_estimator(frame):
    X, y = frame
    pipe = clone(mixed(delta=1e-5)).set_params(epsilon=2.0)
    assert pipe.get_params()["epsilon"] == 2.0
    search = GridSearchCV(pipe, {"epsilon": [1.0]}, cv=KFold(2)).fit(X, y)
    assert search.best_estimator_.spent_epsilon_ <= 1.0


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize(
    "inside", [lambda one: one, make_pipeline, lambda one: FeatureUnion([("one", one)])]
)
def test_a_function_that_selects_columns_by_rows_is_refused(frame, inside):
    """A plan would take its step to have no columns, and count nothing for it."""
    X, y = frame

    def many_values(table):
        return [name for name in ("age",) if table[name].nunique() > 10]

    columns = make_column_transformer((DPQuantileScaler(), many_values), ("drop", ["region"]))
    pipe = make_private_pipeline(inside(columns), DPBayesianLogisticRegression(classes=[0, 1]))
    with (
        PrivacyLedger(1.0, 1e-5) as ledger,
        pytest.raises(ValueError, match="chooses others with rows"),
    ):
        pipe.fit(X, y)
    assert ledger.spent_epsilon == 0.0


def test_a_plan_sees_names_and_types_of_columns_without_rows(frame):
    X, y = frame
    seen = []

    def selected(table):
        seen.append(len(table))
        return ["age"]

    columns = make_column_transformer((DPQuantileScaler(), selected))
    model = DPBayesianLogisticRegression(classes=[0, 1], data_norm=1.0)
    with pytest.warns(PrivacyLeakWarning):
        make_private_pipeline(columns, model).fit(X, y)
    assert 0 in seen
    with pytest.raises(ValueError, match="no column reaches"):
        make_private_pipeline(make_column_transformer((DPQuantileScaler(), [])), model).fit(X, y)


@pytest.mark.parametrize("lower", [[0.0] * 3, {"x0_a": 0.0, "x0_b": 0.0}])
def test_bounds_by_column_behind_found_categories_are_refused_first(lower):
    X = np.array([["a"], ["b"]] * 300, dtype=object)
    steps = DPOneHotEncoder(random_state=0), BoundedScaler(lower, 1.0)
    pipeline = make_private_pipeline(*steps, DPBayesianLogisticRegression(), epsilon=20.0)
    with PrivacyLedger(epsilon=30.0, delta=1e-5, allow_seeds=True) as ledger:
        with pytest.raises(ValueError, match="public lists of categories"):
            pipeline.fit(X, np.arange(600) % 2)
    assert not ledger.records()
    one_for_all = pipeline.set_params(boundedscaler=BoundedScaler(0.0, 1.0))
    assert one_for_all.fit(X, np.arange(600) % 2).predict(X[:2]).shape == (2,)
