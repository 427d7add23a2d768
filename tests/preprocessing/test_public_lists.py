"""Public lists match columns of their type, exactly, whatever library a table is of."""

from decimal import Decimal

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes._data.columns import exact_number
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.metrics import dp_accuracy_score, dp_confusion_matrix
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    FormulaEncoder,
)
from skdpbayes.privacy import PrivacyLedger

LONG = [900000000000000001, 900000000000000002]
rng = np.random.default_rng(0)
# The type that says of a column of pandas that it holds text: before version 3, strings were objects.
TEXT = "str" if pd.Series(["a"]).dtype != object else "string"


def frames(cells, *, text=False):
    """The same column as a frame of each library, by the name of its type."""
    missing = any(cell is None for cell in cells)
    kinds = [TEXT, "string[pyarrow]"] if text else ["Int64", "int64[pyarrow]"]
    kinds += [] if text or missing else ["int64", "uint64", "UInt64", "uint64[pyarrow]"]
    found = {kind: pd.DataFrame({"c": pd.array(cells, dtype=kind)}) for kind in kinds}
    found["category"] = pd.DataFrame({"c": found[kinds[0]].c.astype("category")})
    found["polars"] = pl.DataFrame({"c": cells}, schema={"c": pl.String if text else pl.Int64})
    found["arrow"] = pa.table({"c": pa.array(cells, pa.string() if text else pa.int64())})
    found["dask"] = dd.from_pandas(found[kinds[0]], npartitions=2)
    return found


def table_of(output):
    return np.asarray(output.compute() if hasattr(output, "compute") else output)


def encoders(levels):
    return DPOneHotEncoder(categories=[levels]), FormulaEncoder(f"C(c, levels={levels})")


@pytest.mark.parametrize("kind", frames(LONG))
def test_lists_of_text_are_refused_for_numbers(kind):
    for encoder in encoders(list(map(str, LONG))):
        with pytest.raises(ValueError, match=r"'c' has text, and the column holds numbers"):
            encoder.fit(frames(LONG)[kind])


@pytest.mark.parametrize("kind", frames(["a"], text=True))
def test_lists_of_numbers_are_refused_for_text(kind):
    table = frames(["1", "2"], text=True)[kind]
    for encoder in encoders([1, 2]):
        with pytest.raises(ValueError, match=r"'c' has numbers, and the column holds text"):
            encoder.fit(table)


@pytest.mark.parametrize(
    "listed, column",
    [
        (["True", "False"], np.array([True, False])),
        (["10115"], np.array([10115.0, np.nan])),
        ([1, "2"], np.array([1, 2])),
        ([10115], np.array(["10115", "20095"])),
    ],
)
def test_entries_of_another_type_are_refused_before_a_charge(listed, column):
    ledger = PrivacyLedger(epsilon=10.0, delta=1e-5)
    kind = TEXT if column.dtype.kind == "U" else column.dtype
    tables = (column[:, None], pd.DataFrame({"c": column}, dtype=kind))
    for table in tables:
        pipe = make_private_pipeline(
            make_column_transformer((DPOneHotEncoder(categories=[listed]), [0])),
            DPBayesianLogisticRegression(classes=[0, 1]),
            epsilon=1.0,
        )
        with ledger, pytest.raises(ValueError, match="categories: the list of column"):
            pipe.fit(table, [0, 1])
    assert ledger.spent_epsilon == 0


@pytest.mark.parametrize("encoder", [OneHotEncoder, OrdinalEncoder])
@pytest.mark.parametrize(
    "listed, column", [([1, 2], ["1", "2"]), (["a", "b"], [1, 2]), (["1", "x"], [1, 2])]
)
def test_lists_of_other_encoders_are_refused_where_none_is_cast(encoder, listed, column):
    how = {"handle_unknown": "ignore", "sparse_output": False}
    how = how if encoder is OneHotEncoder else {"handle_unknown": "use_encoded_value"}
    extra = {} if encoder is OneHotEncoder else {"unknown_value": -1}
    step = encoder(categories=[listed], **how, **extra)
    pipe = make_private_pipeline(
        make_column_transformer((step, ["c"])), DPBayesianLogisticRegression(classes=[0, 1])
    )
    with pytest.raises(ValueError, match="categories: the list of column 'c'"):
        pipe.fit(
            pd.DataFrame({"c": pd.array(column, dtype=TEXT if "1" in column else "int64")}), [0, 1]
        )


def test_columns_of_objects_match_what_is_equal():
    mixed = pd.DataFrame({"c": pd.Series([1, "1", 2.0, None], dtype=object)})
    for listed, counts in (([1, 2], [1, 1, 2]), (["1", "2"], [1, 0, 3]), ([1, "1"], [1, 1, 2])):
        encoded = DPOneHotEncoder(categories=[listed]).fit_transform(mixed)
        assert encoded.sum(axis=0).tolist() == counts


def test_tables_of_another_type_than_the_fit_are_refused():
    numbers, text = pd.DataFrame({"c": [1, 2]}), pd.DataFrame({"c": ["1", "2"]}, dtype=TEXT)
    learnt = DPOneHotEncoder(epsilon=np.inf).fit(numbers)
    for encoder in (*encoders([1, 2]), learnt):
        with pytest.raises(ValueError, match="holds text by its type"):
            encoder.fit(numbers).transform(text)
    # A table without its rarer categories may have a narrower type.
    learnt = DPOneHotEncoder(categories=[[1, "a"]]).fit(text.astype(object))
    assert learnt.transform(numbers).tolist() == [[1, 0, 0], [0, 0, 1]]


@given(st.lists(st.one_of(st.none(), st.sampled_from([*LONG, -5, 0, 7])), min_size=2, max_size=9))
@settings(max_examples=10, deadline=None)
def test_the_same_integers_of_all_libraries_are_the_same_categories(cells):
    levels = [*LONG, -5, 0, 7]
    expected = np.array([[cell == level for level in levels] for cell in cells], dtype=float)
    nonnegative = all(cell is None or cell >= 0 for cell in cells)
    for kind, table in frames([cell for cell in cells] if nonnegative else [None, *cells]).items():
        rows = expected if nonnegative else np.vstack([np.zeros(5), expected])
        one_hot, formula = encoders(levels)
        np.testing.assert_array_equal(
            table_of(one_hot.fit(table).transform(table))[:, :-1], rows, kind
        )
        np.testing.assert_array_equal(table_of(formula.fit(table).transform(table)), rows, kind)


@given(
    st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False)),
)
@settings(max_examples=200, deadline=None)
def test_spellings_of_a_number_are_one_number(value):
    number = exact_number(value)
    assert number == value
    spellings = [Decimal(value), *([float(value)] if float(value) == value else [])]
    spellings += [int(value)] if int(value) == value else []
    assert all(repr(exact_number(one)) == repr(number) for one in spellings)


def test_learnt_categories_are_a_public_list():
    table = pd.DataFrame({"s": ["a", None] * 2000, "n": [1.5, np.nan] * 2000, "i": range(4000)})
    learnt = DPOneHotEncoder(epsilon=5.0, random_state=0).fit(table)
    assert learnt.categories_ == [["a", None], [1.5, None], []]
    assert learnt.get_feature_names_out()[:2].tolist() == ["s_a", "s_nan"]
    with pytest.warns(UserWarning, match="a public list of categories is empty"):
        again = DPOneHotEncoder(categories=learnt.categories_).fit(table)
    assert again.categories_ == learnt.categories_ and again.spent_epsilon_ == 0
    np.testing.assert_array_equal(again.transform(table), learnt.transform(table))


def test_learnt_numbers_are_public_ones_of_the_next_fit():
    X = rng.normal(size=(2000, 2))
    scaler = DPQuantileScaler(epsilon=5.0, random_state=0).fit(X)
    public = BoundedScaler(scaler.lower_, scaler.upper_).fit(X)
    np.testing.assert_allclose(public.transform(X), scaler.transform(X), atol=1e-12)
    X[::3] = np.nan
    medians = DPImputer("median", epsilon=5.0, random_state=0).fit(X)
    public = DPImputer(fill_value=medians.statistics_).fit(X)
    np.testing.assert_array_equal(public.transform(X), medians.transform(X))
    for wrong in ([0.0, 1.0, 2.0], [0.0, np.nan], [[0.0, 1.0]], ["0", "1"]):
        with pytest.raises(ValueError, match="fill_value must be a finite number"):
            DPImputer(fill_value=wrong).fit(X)


@pytest.mark.parametrize("listed", ["ab", {"a", "b"}, [["a"]], 1])
def test_a_list_of_categories_is_a_list(listed):
    with pytest.raises(TypeError, match="categories must hold a list for each column"):
        DPOneHotEncoder(categories=[listed]).fit([["a"], ["b"]])


def labels():
    cells = LONG * 50
    columns = {name: table["c"] for name, table in frames(cells).items() if name != "dask"}
    return columns | {"list": cells, "frame": frames(cells)["Int64"]}


@pytest.mark.daily(4)
@pytest.mark.parametrize("kind", labels())
def test_labels_of_18_digits_stay_themselves(kind):
    X, y = np.tile(np.eye(2), (50, 1)), labels()[kind]
    for classes in (None, LONG):
        model = DPBayesianLogisticRegression(epsilon=1e3, classes=classes, random_state=0).fit(X, y)
        assert model.classes_.tolist() == LONG
        assert model.predict(X).tolist() == LONG * 50
    found = dp_confusion_matrix(y, LONG * 50, labels=LONG, epsilon=1e3, random_state=0)
    assert np.asarray(found).tolist() == [[50, 0], [0, 50]]


@pytest.mark.parametrize("largest", [2**63 + 1, 2**64 - 1])
def test_lists_of_long_labels_are_not_rounded(largest):
    X, pair = np.tile(np.eye(2), (50, 1)), [largest - 1, largest]
    model = DPBayesianLogisticRegression(epsilon=1e3, classes=[0, *pair], random_state=0)
    assert model.fit(X, pair * 50).classes_.tolist() == [0, *pair]
    assert model.predict(X).tolist() == pair * 50


def test_labels_that_a_type_rounds_are_refused():
    X, y = np.tile(np.eye(2), (50, 1)), np.array(LONG * 50, dtype=float)
    with pytest.raises(ValueError, match="y holds floating-point numbers, which round"):
        DPBayesianLogisticRegression(classes=LONG).fit(X, y)
    with pytest.raises(ValueError, match="y_pred holds labels that are not in labels"):
        dp_confusion_matrix(LONG * 50, y, labels=LONG, epsilon=1.0)
    with pytest.raises(ValueError, match="classes holds long integers beside other numbers"):
        DPBayesianLogisticRegression(classes=[0.5, *LONG]).fit(X, y)


def test_labels_in_lists_are_what_they_are_beside_any_others():
    for others in ([0.5], [-1], [2**63], [2**70, 0.5], [7]):
        y = [*LONG, 3, 3.0, 2**53, 2**53 + 1, *others]
        for pred, equal in ((LONG[0], 1), (3, 2), (2**53, 1), (2.0**53, 1), (2**53 - 1, 0)):
            counts = [dp_accuracy_score(y, kind, epsilon=np.inf) for kind in ([pred] * len(y),)]
            assert counts == [pytest.approx(equal / len(y))]


SINGLE = [0.1, 0.2, 0.7]


def single_frames():
    """A column of single precision, as an array and as a frame of each library."""
    cells = np.array(SINGLE, np.float32)
    return {
        "array": cells[:, None],
        "float32": pd.DataFrame({"c": cells}),
        "Float32": pd.DataFrame({"c": pd.array(cells, dtype="Float32")}),
        "pandas' arrow": pd.DataFrame({"c": pd.array(cells, dtype=pd.ArrowDtype(pa.float32()))}),
        "polars": pl.DataFrame({"c": pl.Series(cells, dtype=pl.Float32)}),
        "arrow": pa.table({"c": pa.array(cells, pa.float32())}),
        "dask": dd.from_pandas(pd.DataFrame({"c": cells}), npartitions=2),
        "half": pd.DataFrame({"c": np.array(SINGLE, np.float16)}),
    }


@pytest.mark.parametrize("kind", single_frames())
def test_a_listed_fraction_matches_a_column_of_less_precision(kind):
    X = single_frames()[kind]
    encoder = DPOneHotEncoder(categories=[SINGLE], sparse_output=False)
    np.testing.assert_array_equal(table_of(encoder.fit(X).transform(X)), np.eye(3, 4))
    doubles = np.array(SINGLE)[:, None]
    np.testing.assert_array_equal(encoder.transform(doubles), np.eye(3, 4))
    if kind != "array":
        formula = FormulaEncoder(f"C(c, levels={SINGLE})")
        np.testing.assert_array_equal(table_of(formula.fit(X).transform(X)), np.eye(3))


def test_a_column_of_missing_values_alone_has_any_type():
    column = pd.DataFrame({"region": ["north", "south", None] * 300})
    encoder = DPOneHotEncoder(epsilon=5.0, random_state=0).fit(column)
    missing = encoder.transform(pd.DataFrame({"region": [np.nan]}))
    assert np.array_equal(missing, encoder.transform(column[2:3]))


def test_a_column_of_single_persons_has_no_category_and_that_is_told():
    column = pd.DataFrame({"person": [f"p{i}" for i in range(500)]})
    with pytest.warns(PrivacyWarning, match="no category of 'person'"):
        DPOneHotEncoder(random_state=0).fit(column)


def test_sparse_indicators_in_frames_are_refused_before_a_charge():
    encoder = DPOneHotEncoder(sparse_output=True).set_output(transform="pandas")
    with PrivacyLedger(1.0, 1e-5) as ledger:
        with pytest.raises(ValueError, match="exclude each other"):
            encoder.fit_transform(pd.DataFrame({"region": ["north", "south"] * 300}))
        assert ledger.records() == []
