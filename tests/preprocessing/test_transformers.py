"""Scaling that looks at nothing but the number of columns."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from skdpbayes._errors import suppress_fp_warnings
from skdpbayes.models.rows import clip_rows
from skdpbayes.preprocessing import BoundedScaler, RowNormClipper, row_scales

rng = np.random.default_rng(0)
X = rng.normal(size=(50, 3)) * [1.0, 10.0, 100.0]


def test_scaler_maps_bounds_to_the_range_and_clips():
    scaler = BoundedScaler(lower=[-1, -10, 0], upper=[1, 10, 50], feature_range=(0, 2)).fit(X)
    scaled = scaler.transform([[-1, 10, 25], [-7, 0, 99]])
    np.testing.assert_allclose(scaled, [[0, 2, 1], [0, 1, 2]])
    inside = np.array([[0.3, -4.0, 12.0]])
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(inside)), inside)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_bounds_that_name_columns_go_by_name(frame):
    table = frame({"age": [18.0, 90.0], "hours": [0.0, 50.0]})
    lower, upper = pd.Series({"hours": 0.0, "age": 18.0}), pd.Series({"age": 90.0, "hours": 100.0})
    scaler = BoundedScaler(lower, upper).fit(table)
    np.testing.assert_allclose(scaler.transform(table), [[-1.0, -1.0], [1.0, 0.0]])
    np.testing.assert_array_equal([scaler.lower_, scaler.upper_], [[18.0, 0.0], [90.0, 100.0]])
    assert BoundedScaler(lower, 100.0).fit(table).lower_.tolist() == [18.0, 0.0]


def test_bounds_without_names_go_by_position():
    table = pd.DataFrame({"age": [18.0, 90.0], "hours": [0.0, 50.0]})
    scaler = BoundedScaler(pd.Series([18.0, 0.0]), [90.0, 100.0]).fit(table)
    np.testing.assert_allclose(scaler.transform(table), [[-1.0, -1.0], [1.0, 0.0]])
    numbered = pd.DataFrame(table.to_numpy(), columns=[1, 0])
    assert BoundedScaler(pd.Series([0.0, 18.0]), 100.0).fit(numbered).lower_.tolist() == [18.0, 0.0]


def test_sparse_columns_have_no_names():
    table, bound = sp.csr_array(np.eye(2)), pd.Series({"a": 1.0, "b": 2.0})
    with pytest.raises(ValueError, match="lower names columns"):
        BoundedScaler(-bound, bound).fit(table)
    scaler = BoundedScaler(-bound.to_numpy(), bound.to_numpy())
    np.testing.assert_allclose(scaler.fit_transform(table).toarray(), [[1.0, 0.0], [0.0, 0.5]])


@pytest.mark.parametrize(
    "lower, named",
    [
        (pd.Series({"a": 0.0, "b": 0.0, "d": 0.0}), "lacks.*'c'.*lacks.*'d'"),
        (pd.Series({"a": 0.0, "b": 0.0}), "lacks.*'c'"),
        (
            pd.Series([0.0, 0.0, 0.0], index=["a", "b", "b"]),
            r"lacks \['c'\], and it repeats \['b'\]\.",
        ),
        (pd.Series([0.0] * 4, index=["a", "b", "c", "d"]), r"each once: X lacks \['d'\]\."),
    ],
)
def test_bounds_that_name_other_columns_are_refused(lower, named):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.raises(ValueError, match=named):
        BoundedScaler(lower, 200.0).fit(frame)
    with pytest.raises(ValueError, match="lower names columns"):
        BoundedScaler(lower, 200.0).fit(X)


def test_missing_values_are_passed_through():
    scaled = BoundedScaler(0, 10).fit_transform([[5.0, np.nan], [np.nan, 99.0]])
    np.testing.assert_allclose(scaled, [[0.0, np.nan], [np.nan, 1.0]])
    with pytest.raises(ValueError, match="infinity"):
        BoundedScaler(-1, 1).fit([[np.inf]])


def test_what_is_fitted_does_not_depend_on_the_rows():
    scaler = BoundedScaler(-3, 3)
    first, second = scaler.fit(X).__dict__.copy(), scaler.fit(1e6 * X[:7]).__dict__.copy()
    assert first.keys() == second.keys()
    for name in ("scale_", "min_"):
        np.testing.assert_array_equal(first[name], second[name])
    assert set(vars(RowNormClipper().fit(X))) == {"norm", "n_features_in_"}


def test_sparse_where_zero_stays_zero():
    table = sp.random(40, 5, density=0.3, random_state=0, format="csr") * 4
    for scaler in (
        BoundedScaler(-2, 2),
        BoundedScaler(0, 2, feature_range=(0, 1)),
        BoundedScaler(lower=[-1, -2, -3, -4, -5], upper=[1, 2, 3, 4, 5]),
        RowNormClipper(0.7),
    ):
        scaled = scaler.fit_transform(table)
        assert sp.issparse(scaled)
        np.testing.assert_allclose(scaled.toarray(), scaler.transform(table.toarray()))
    back = BoundedScaler(-5, 5).fit(table)
    np.testing.assert_allclose(
        back.inverse_transform(back.transform(table)).toarray(), table.toarray()
    )
    with pytest.raises(ValueError, match="fill a sparse matrix"):
        BoundedScaler(0, 2).fit(table)


def test_names_and_containers():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for transformer in (BoundedScaler(-3, 3), RowNormClipper(2.0)):
        out = transformer.set_output(transform="pandas").fit_transform(frame)
        assert list(out.columns) == ["a", "b", "c"]
        assert list(transformer.get_feature_names_out()) == ["a", "b", "c"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_precision_is_kept_and_input_is_not_written_to(dtype):
    table = X.astype(dtype)
    before = table.copy()
    for transformer in (BoundedScaler(-3, 3), RowNormClipper(2.0)):
        assert transformer.fit_transform(table).dtype == dtype
        np.testing.assert_array_equal(table, before)


@pytest.mark.parametrize("table", [X, sp.csr_array(X), X.astype(np.float32)])
def test_rows_are_shortened_never_lengthened(table):
    clipped = RowNormClipper(20.0).fit_transform(table)
    clipped = clipped.toarray() if sp.issparse(clipped) else clipped
    norms, before = np.linalg.norm(clipped, axis=1), np.linalg.norm(X, axis=1)
    assert (norms <= 20.0 * (1 + 1e-6)).all()
    np.testing.assert_allclose(norms, np.minimum(before, 20.0), rtol=1e-6)


@suppress_fp_warnings()
def test_norms_of_extreme_rows():
    extreme = np.array([[1e300, 1e300], [1e-300, 0.0], [0.0, 0.0], [np.finfo(float).max] * 2])
    for table in (extreme, sp.csr_array(extreme)):
        scale = row_scales(table, 1.0)
        np.testing.assert_allclose(scale[:3], [np.sqrt(0.5) * 1e-300, 1.0, 1.0])
        usable, scale = clip_rows(table, 1.0)
        dense = usable.toarray() if sp.issparse(usable) else usable
        rows = dense * scale[:, None]
        np.testing.assert_allclose(rows[0], np.sqrt([0.5, 0.5]))
        assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12


@pytest.mark.parametrize(
    "options, named",
    [
        ({"lower": 1.0, "upper": 1.0}, "lower must be below upper"),
        ({"lower": [0.0, 2.0, 0.0], "upper": [1.0, 1.0, 1.0]}, "not in column 1"),
        ({"lower": np.nan}, "lower"),
        ({"upper": np.inf}, "upper"),
        ({"lower": "low"}, "lower"),
        ({"lower": ["a", "b", "c"]}, "lower"),
        ({"lower": [[0.0]]}, "lower"),
        ({"lower": [0.0, 0.0], "upper": [1.0, 1.0]}, "2 entries, but X has 3"),
        ({"lower": [0.0, 0.0], "upper": [1.0, 1.0, 1.0]}, "lower has 2"),
        ({"feature_range": (1, 0)}, "feature_range"),
        ({"feature_range": (1,)}, "feature_range"),
    ],
)
def test_bounds_that_are_none(options, named):
    with pytest.raises(ValueError, match=named):
        BoundedScaler(**{"lower": -1.0, "upper": 1.0, **options}).fit(X)


@pytest.mark.parametrize("norm", [0.0, -1.0, np.nan, np.inf, "one"])
def test_norms_that_are_none(norm):
    with pytest.raises(ValueError, match="norm"):
        RowNormClipper(norm).fit(X)


@pytest.mark.parametrize("flagged", [False, True])
def test_entries_that_add_up_do_not_dodge_the_norm(flagged):
    """A CSR matrix may hold several entries in one place; believed flags must not hide them."""
    entries = np.full(16, 0.25)
    table = sp.csr_array((entries, np.zeros(16, int), [0, 16]), shape=(1, 2))
    if flagged:
        table.has_canonical_format = True
    usable, scale = clip_rows(table, 1.0)
    assert np.linalg.norm(usable.toarray() * scale[:, None]) <= 1 + 1e-12
    assert usable.nnz == 1
    assert table.nnz == 16, "the user's matrix is left alone"
    clipped = RowNormClipper(1.0).fit_transform(
        sp.csr_array((entries, np.zeros(16, int), [0, 16]), shape=(1, 2))
    )
    assert np.linalg.norm(clipped.toarray()) <= 1 + 1e-12


@pytest.mark.parametrize("value", [np.float64(1.7e308), np.float32(3e38)])
def test_entries_that_add_up_to_infinity_are_refused(value):
    table = sp.csr_array(
        (np.array([value, value, 1]), np.array([0, 0, 0]), [0, 2, 3]), shape=(2, 1)
    )
    table.data = table.data.astype(value.dtype)
    with pytest.raises(ValueError, match="infinity"):
        clip_rows(table, 1.0)


def test_scaler_bounds_entries_that_add_up():
    table = sp.csr_matrix((np.full(100, 0.1), np.zeros(100, int), [0, 100]), shape=(1, 1))
    table.has_canonical_format = True
    for transformer in (BoundedScaler(-1, 1), RowNormClipper(1.0)):
        scaled = transformer.fit_transform(table)
        assert isinstance(scaled, sp.csr_matrix)
        assert abs(scaled.toarray()).max() <= 1 + 1e-12


def test_sparse_indices_out_of_range_are_refused():
    table = sp.csr_array((np.ones(2), np.array([0, 1]), [0, 1, 2]), shape=(2, 2))
    table.indices[1] = 7
    with pytest.raises(ValueError, match="ind"):
        clip_rows(table, 1.0)
