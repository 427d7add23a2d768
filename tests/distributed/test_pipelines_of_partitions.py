"""Private pipelines on collections of Dask: the draws of memory, and no row that leaves its partition."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    RowNormClipper,
)
from skdpbayes.privacy import PrivacyLedger

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

from skdpbayes._data.partitions import mark_of
from skdpbayes._data.table import Rows

N = 12_000
SECRET = "Jane Doe 987654321"
COLUMNS = ["age", "income", "hours", "region", "job", "sex"]


@pytest.fixture(scope="module")
def people():
    """Numbers in units of their own, text, categories, and gaps in all of them."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.uniform(18, 90, N),
            "income": rng.lognormal(8, 1, N),
            "hours": rng.integers(0, 99, N).astype(float),
            "region": rng.choice(["north", "south", "east", None], N, p=[0.4, 0.3, 0.2, 0.1]),
            "job": pd.Categorical(rng.choice(list("abc"), N)),
            "sex": rng.choice(["f", "m"], N),
        }
    )
    table.loc[::7, "income"] = np.nan
    table.loc[::11, "hours"] = np.nan
    odds = (table.age - 50) / 20 - (table.sex == "f")
    table["votes"] = np.where(rng.random(N) < 1 / (1 + np.exp(-odds)), "yes", "no")
    return table


@pytest.fixture(scope="module")
def parquet(people, tmp_path_factory):
    """The table in a folder of files."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("people")
    for number in range(4):
        part = people.iloc[number * N // 4 : (number + 1) * N // 4]
        part.to_parquet(folder / f"{number}.parquet", index=False)
    return folder


def logistic(**options):
    return DPBayesianLogisticRegression(classes=["no", "yes"], random_state=3, **options)


def of_columns(last=None, **options):
    """Return a pipeline with public and private steps side by side."""
    income = [
        ("log", FunctionTransformer(np.log1p, feature_names_out="one-to-one")),
        ("scale", DPQuantileScaler(random_state=0)),
        ("fill", DPImputer(add_indicator=True)),
    ]
    hours = [("fill", DPImputer("median", random_state=1)), ("scale", BoundedScaler(0, 99))]
    fill = SimpleImputer(strategy="constant", fill_value="?", keep_empty_features=True)
    jobs = OneHotEncoder(categories=[list("abc")], handle_unknown="ignore", sparse_output=False)
    unknown = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
    columns = ColumnTransformer(
        [
            ("income", Pipeline(income), ["income"]),
            ("age", BoundedScaler(18, 90), make_column_selector("^age")),
            ("hours", Pipeline(hours), ["hours"]),
            ("region", DPOneHotEncoder(random_state=2), ["region"]),
            ("job", make_pipeline(fill, jobs), ["job"]),
            ("sex", OrdinalEncoder(categories=[["f", "m"]], **unknown), ["sex"]),
        ],
        sparse_threshold=0,
    )
    return make_private_pipeline(columns, last or logistic(), epsilon=2.0, **options)


def assert_same(here, there):
    np.testing.assert_array_equal(here[-1].posterior_samples_, there[-1].posterior_samples_)
    assert here.spent_epsilon_ == there.spent_epsilon_
    assert list(here.summary().index) == list(there.summary().index)


def test_a_pipeline_of_columns_has_the_draws_that_the_table_has_in_memory(people, parquet):
    here = of_columns().fit(people[COLUMNS], people["votes"])
    table = dd.read_parquet(parquet)
    with PrivacyLedger(2.0, 1e-4, allow_seeds=True) as ledger:
        there = of_columns().fit(table[COLUMNS], table["votes"])
    assert_same(here, there)
    assert ledger.spent_epsilon <= 2.0 and len(ledger.records()) == 1
    assert "income__income" in list(there.summary().index)
    for method in ("predict", "predict_proba", "decision_function"):
        lazy = getattr(there, method)(table[COLUMNS])
        assert isinstance(lazy, da.Array)
        np.testing.assert_array_equal(lazy.compute(), getattr(here, method)(people[COLUMNS]))
    score = here.score(people[COLUMNS], people["votes"])
    assert there.score(table[COLUMNS], table["votes"]) == score
    with pytest.raises(TypeError, match="takes nothing but rows"):
        there.predict_proba(table[COLUMNS], check_input=False)


def half(part):
    return part.iloc[::2]


@pytest.mark.daily(1)
def test_no_row_and_no_label_leaves_its_partition(people, parquet, client, monkeypatch):
    """What comes back is as large for half of the rows: sums and counts, and no column."""
    sizes, gather = [], distributed.Client.gather

    def weighed(self, futures, *args, **options):
        found = gather(self, futures, *args, **options)
        sizes.append(len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(distributed.Client, "gather", weighed)
    table = dd.read_parquet(parquet)
    with client.as_current():
        there = of_columns().fit(table[COLUMNS], table["votes"])
        all_rows, sizes = sizes, []
        table = table.map_partitions(half)
        of_columns().fit(table[COLUMNS], table["votes"])
    assert_same(of_columns().fit(people[COLUMNS], people["votes"]), there)
    assert len(sizes) == len(all_rows) > 10
    # A column of numbers takes 8 bytes for each row, and one of labels more.
    assert np.abs(np.subtract(sizes, all_rows)).max() < N / 10


@pytest.mark.nightly
def test_unions_arrays_and_columns_by_number(people):
    X, y = people[["age", "hours"]].fillna(3.0).to_numpy(), people["votes"].to_numpy(dtype=object)

    def made():
        union = FeatureUnion(
            [
                ("public", BoundedScaler(0, 100)),
                ("private", make_pipeline(DPQuantileScaler(random_state=0), RowNormClipper())),
            ]
        )
        columns = [("as it is", "passthrough", [0, 1]), ("none", StandardScaler(), [])]
        again = ("again", DPQuantileScaler(random_state=1), slice(2, 4))
        options = {"learns_nothing": ["columntransformer__none"]}
        return make_private_pipeline(
            union, ColumnTransformer([*columns, again]), logistic(), **options
        )

    here = made().fit(X, y)
    there = made().fit(da.from_array(X, chunks=(700, 1)), da.from_array(y, chunks=900))
    assert_same(here, there)
    np.testing.assert_array_equal(here[:-1].transform(X), there[:-1].transform(X))


def test_frames_of_partitions_have_the_names_of_columns(people):
    table = dd.from_pandas(people, npartitions=3)
    scaler = BoundedScaler(18, 90).set_output(transform="pandas")
    scaled = scaler.fit_transform(table[["age"]])
    assert isinstance(scaled, dd.DataFrame) and list(scaled.columns) == ["age"]
    expected = scaler.fit_transform(people[["age"]])
    pd.testing.assert_frame_equal(scaled.compute(), expected)
    here = of_columns().fit(people[COLUMNS], people["votes"])
    with config_context(transform_output="pandas"):
        there = of_columns().fit(table[COLUMNS], table["votes"])
    assert_same(here, there)
    assert "region__region_north" in there[-1].feature_names_in_


@pytest.mark.parametrize("step", [StandardScaler(), OneHotEncoder(), FunctionTransformer(len)])
def test_steps_that_learn_from_rows_are_refused_before_anything_is_read(people, step):
    def read(part):
        raise AssertionError("a partition was read")

    table = dd.from_pandas(people, npartitions=2)
    lazy = table.map_partitions(read, meta=table._meta)
    pipeline = make_private_pipeline(ColumnTransformer([("one", step, ["age"])]), logistic())
    named = f"{type(step).__name__} .*only private steps read those.*Nothing was read"
    lazy = lazy[COLUMNS]
    lazy.__class__ = type("Counted", (type(lazy),), {"__len__": lambda self: N})
    with (
        PrivacyLedger(2.0, 1e-4, allow_seeds=True) as ledger,
        pytest.raises(TypeError, match=named),
    ):
        pipeline.fit(lazy, table["votes"])
    assert ledger.spent_epsilon == 0.0


def strict(part):
    if part.isin([SECRET]).any(axis=None):
        raise ValueError(f"what is {SECRET}?")
    return np.zeros((len(part), 1))


def spoilt(people):
    """Return a table whose last row has a secret as its region, and in a column of numbers."""
    table = people.astype({"age": object}).copy()
    table.loc[N - 1, ["region", "age"]] = SECRET
    return dd.from_pandas(table, npartitions=2)


@pytest.mark.parametrize("column", ["region", "age"])
@pytest.mark.parametrize("on_cluster", [False, True])
def test_errors_and_logs_of_workers_quote_no_cell(people, client, on_cluster, column):
    step = {"region": FunctionTransformer(strict), "age": BoundedScaler(18, 90)}[column]
    columns = ColumnTransformer([("one", step, [column])])
    pipeline = make_private_pipeline(columns, logistic(), learns_nothing=["columntransformer__one"])
    table = spoilt(people)
    if column == "age":  # Its type is declared, and wrong.
        meta = table._meta.astype({"age": float})
        table = table.map_partitions(lambda part: part, meta=meta)
    with (
        client.as_current() if on_cluster else config_context(),
        PrivacyLedger(2.0, 1e-4, allow_seeds=True) as ledger,
        pytest.raises(ValueError) as caught,
    ):
        pipeline.fit(table[[column]], table["votes"])
    assert ledger.spent_epsilon == 0.0
    assert SECRET not in "".join(map(str, (caught.value, caught.value.__cause__)))
    if on_cluster:
        logs = str(client.get_worker_logs())
        assert "unless_failed" in logs and SECRET not in logs


def test_marks_of_objects_tell_values_apart_and_not_their_addresses():
    def mark(values):
        return mark_of(Rows(np.array(values, dtype=object).reshape(-1, 1)), b"k" * 32, 0)

    words = ["north", 1.0, None, "south", "north"]
    copies = ["".join(list(one)) if isinstance(one, str) else one for one in words]
    assert mark(words) == mark(copies)
    others = [words[::-1], [*words[:4], "south"], ["North", *words[1:]], words[:4]]
    assert len({mark(one) for one in [words, *others]}) == 5
    assert mark([[1], np.nan]) == mark([[1], float("nan")]) != mark([[2], np.nan])


@pytest.mark.nightly
def test_categories_without_room_are_those_of_memory(monkeypatch):
    monkeypatch.setattr("skdpbayes.pipeline._plan._most_columns", lambda *_: 30)
    X = pd.DataFrame({"zip": np.arange(3000) % 50, "few": np.arange(3000) % 5})
    y = pd.Series(np.arange(3000) % 2)
    found = []
    for table, labels in ((X, y), (dd.from_pandas(X, 3), dd.from_pandas(y, 3))):
        scaled = make_pipeline(DPOneHotEncoder(random_state=1), RowNormClipper(0.5))
        step = ColumnTransformer(
            [("zip", scaled, ["zip"]), ("few", DPOneHotEncoder(random_state=2), ["few"])]
        )
        last = make_pipeline(
            RowNormClipper(1.0), DPBayesianLogisticRegression(classes=[0, 1], random_state=3)
        )
        pipe = make_private_pipeline(step, last, epsilon=50.0, delta=1e-5)
        with pytest.warns(
            UserWarning, match="27 with the smallest.*zip__dponehotencoder: 27 of 'zip'"
        ):
            pipe.fit(table, labels)
        assert pipe[0].transform(X).shape[1] == len(pipe[0].get_feature_names_out()) == 30
        found.append(pipe.predict_proba(X))
    np.testing.assert_allclose(*found, rtol=1e-9)
