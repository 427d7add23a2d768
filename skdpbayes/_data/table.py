"""Validated rows of a table, in this process, and what a fit does with them.

rows -> labels or responses in numbers, weights and offsets of records -> a target
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csr_array
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils._missing import is_pandas_na
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _num_samples,
    check_array,
    validate_data,
)

from .._errors import (
    doubles,
    holds_dates,
    refuse_fractions,
    reraise_if_safe,
    same_kind,
    sanitize_errors,
    suppress_fp_warnings,
    to_native,
)
from ..models.rows import real_numbers, without_duplicates
from .columns import effective_weights, encode_labels
from .lists import column_cells, integer_array

# Validation of tables with scikit-learn, without quoting any cell in an error.


_TEXT = ("str", "utf8", "category", "categorical", "enum")
_DATES = ("date", "time", "duration", "period")
WITHOUT_OUTCOME = (
    "keep rows without a label or response, with any valid y and sample_weight=0, so that the number of rows "
    "stays public, e.g. fit(X, y.fillna(0), sample_weight=y.notna()). Leave them out only where it is public "
    "which they are, or under neighboring_relation='add_or_remove_one'."
)
_MISSING_RESPONSE = f"Input y contains NaN: {WITHOUT_OUTCOME}"
# The beginning of a message of scikit-learn or NumPy, and what is said instead.
_REMEDIES = {
    ("could not convert string",): (
        "X holds text where numbers are expected: encode categories with a public list of them, "
        "e.g. OneHotEncoder(categories=[...], handle_unknown='ignore'), or with DPOneHotEncoder, which "
        "finds them privately. To turn marks such as '?' in a column of numbers into NaN, use "
        "pandas.to_numeric(column, errors='coerce')."
    ),
    ("float() argument must be", "must be real number", "cannot convert"): (
        "X holds dates or other objects, and every argument must be a string of digits or a real number: "
        "turn dates into numbers, e.g. days since a public date, and use NaN for missing values."
    ),
    # scikit-learn's message recommends imputers, most of which learn from the rows.
    ("Input X contains NaN", "Input contains NaN"): (
        "Input X contains NaN: put skdpbayes.preprocessing.DPImputer() into the pipeline, after the "
        "scaler. It fills in a public constant for free, or private medians with strategy='median'. "
        "Without noise, means and medians would leak."
    ),
    ("Input X contains infinity",): (
        "Input X contains infinity or a value too large for its type: replace it by NaN, which "
        "skdpbayes.preprocessing.DPImputer fills in, or by a public bound of its column."
    ),
    ("Input y contains NaN", "boolean value of NA"): _MISSING_RESPONSE,
    ("Complex data not supported",): (
        "Complex data not supported: X must hold real numbers, and y labels that are not complex."
    ),
    ("Expected 2D",): (
        "Expected 2D array, got one of fewer dimensions instead. Reshape your data: "
        "array.reshape(-1, 1) if there is a single feature, array.reshape(1, -1) if there is a "
        "single sample."
    ),
    ("setting an array element with a sequence",): (
        "X or y has rows of different lengths, or lists in its cells: every row of X needs one number for "
        "each column, and y one label for each row."
    ),
}
_UNREADABLE = (
    "X or y could not be read: X must be a table of real numbers, such as an array of two dimensions, and y "
    "a column of labels."
)


@suppress_fp_warnings()
def validate_table(
    estimator,
    X,
    y="no_validation",
    *,
    reset,
    accept_sparse="csr",
    ensure_all_finite=True,
    dtype=(np.float64, np.float32),
):
    """Validate a table with scikit-learn; no error quotes a cell, and no warning depends on one.

    ``accept_sparse``, ``ensure_all_finite`` and ``dtype`` are as in scikit-learn's `check_array`. A sparse
    matrix is returned with one entry in a place.

    Raises
    ------
    ValueError, TypeError
        If the table does not consist of finite numbers.
    """
    X, y = to_native(X, "X"), _exact_integers(to_native(y, "y"))
    _refuse_columns(X)
    X = _without_na(X)
    if sanitize_errors(_holds_dates, X, on_error=without_cells):
        raise ValueError(
            "X holds dates or durations: turn them into numbers, e.g. days since a public date."
        )
    array = sanitize_errors(
        validate_data,
        estimator,
        X,
        y,
        reset=reset,
        accept_sparse=accept_sparse,
        dtype=list(dtype),
        order="C",
        ensure_all_finite=ensure_all_finite,
        on_error=partial(_table_error, X=X),
    )
    return (
        (without_duplicates(array[0]), array[1])
        if isinstance(array, tuple)
        else without_duplicates(array)
    )


def validate_objects(estimator, X, on_error, *, reset):
    """The cells of a table of any kind as objects, of shape (n_samples, n_features).

    ``on_error`` is as for `sanitize_errors`.

    Raises
    ------
    ValueError, TypeError
        If it is no table, or its columns are not those of the fit.
    """
    X = to_native(X, "X")
    is_frame = hasattr(X, "columns") and hasattr(X, "shape")
    # As objects, since a single string would turn all numbers of a list into strings.
    table = (
        X
        if is_frame
        else sanitize_errors(
            check_array, X, dtype=object, ensure_all_finite=False, on_error=on_error
        )
    )
    _check_feature_names(estimator, X, reset=reset)
    _check_n_features(estimator, table, reset=reset)
    if _num_samples(table) < 1 or table.shape[1] < 1:
        raise ValueError(f"X has shape {table.shape}: at least one row and one column are needed.")
    cells = np.empty(table.shape, dtype=object)
    for j in range(table.shape[1]):
        column = sanitize_errors(_safe_indexing, table, j, axis=1, on_error=on_error)
        column = sanitize_errors(column_cells, column, on_error=on_error)
        cells[:, j] = np.fromiter(column, object, len(column))
    return cells


def without_cells(error, unknown=_UNREADABLE):
    """The error to raise instead of one that may hold a cell; ``unknown`` is its text for other forms."""
    for beginnings, remedy in _REMEDIES.items():
        if str(error).startswith(beginnings):
            return same_kind(error, remedy)
    return reraise_if_safe(unknown)(error)


def _table_error(error, X):
    """Error that `validate_table` raises; scikit-learn does not name y if it holds objects."""
    if str(error).startswith("Input contains NaN"):
        return ValueError(_MISSING_RESPONSE)
    shown = without_cells(error)
    names = _no_numbers(X) if str(shown).startswith("X holds") else []
    text = str(shown).replace("X holds", f"X, in columns {names}, holds", bool(names))
    return same_kind(shown, text)


def _objects_of(X):
    """{name: column} of a frame of pandas, of those that hold objects."""
    if not (_is_frame(X) and hasattr(X, "iloc")):
        return {}
    return {str(X.columns[j]): X.iloc[:, j] for j in _places_of_objects(X)}


def _places_of_objects(X):
    return np.flatnonzero(X.dtypes.astype(str) == "object")


def _no_numbers(X):
    """The names of columns of objects that are no numbers."""

    def is_none(column):
        try:
            with suppress_fp_warnings():
                np.asarray(column).astype(float)
        except Exception:  # Whose message may hold a cell.
            return True
        return False

    return [name for name, column in _objects_of(X).items() if is_none(column)]


def _without_na(X):
    """A table with NaN in the place of pandas.NA among objects, which NumPy does not read."""
    if isinstance(X, np.ndarray) and X.dtype == object:
        missing = np.array([is_pandas_na(cell) for cell in X.flat], bool).reshape(X.shape)
        return np.where(missing, np.nan, X) if missing.any() else X
    marks = {
        name: np.array([is_pandas_na(cell) for cell in column], bool)
        for name, column in _objects_of(X).items()
    }
    if not any(missing.any() for missing in marks.values()):
        return X
    X = X.copy(deep=False)
    for j in _places_of_objects(X):
        column = X.iloc[:, j].to_numpy(dtype=object)
        X.isetitem(j, np.where(marks[str(X.columns[j])], np.nan, column))
    return X


def _exact_integers(y):
    """Integers as an array of NumPy's, since scikit-learn would round those of other types to doubles."""
    if y is None or isinstance(y, str | np.ndarray):
        return y
    array = sanitize_errors(integer_array, y, on_error=without_cells)
    # Other types, and integers beside missing ones, are left to scikit-learn.
    return y if array is None else array


def _holds_dates(X):
    # Columns of other types were refused by name.
    kinds = {str(kind).lower() for kind in X.dtypes} if _is_frame(X) else {"object"}
    return not sp.issparse(X) and "object" in kinds and holds_dates(X)


def _is_frame(X):
    return hasattr(X, "dtypes") and hasattr(X, "columns")


def _refuse_columns(X):
    """Raise a ValueError if a data frame has columns of text or dates, or of one name; names are public."""
    if not _is_frame(X):
        return
    names = [str(name) for name in X.columns]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"X has several columns named {repeated}: give every column a name of its own."
        )
    kinds = [(str(name), str(kind).lower()) for name, kind in zip(X.columns, X.dtypes, strict=True)]
    if dates := [name for name, kind in kinds if kind.startswith(_DATES)]:
        raise ValueError(
            f"columns {dates} hold dates or durations: turn them into numbers, e.g. days since a public date."
        )
    if text := [name for name, kind in kinds if kind.startswith(_TEXT)]:
        raise ValueError(
            f"columns {text} are not numeric: encode categories in a ColumnTransformer, with a public list "
            "of them, e.g. OneHotEncoder(categories=[...], handle_unknown='ignore'), or with "
            "DPOneHotEncoder, which finds them privately."
        )


# As in scikit-learn.
UNLABELLED = "no_validation"


class Rows(NamedTuple):
    """Validated rows.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,) or None
        Classes as numbers, or the responses of a regressor.
    weights : ndarray of shape (n_samples,) or None
    offsets : ndarray of shape (n_samples,) or None
        Logarithms of exposures, which are added to logits.
    """

    X: np.ndarray | csr_array
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    offsets: np.ndarray | None = None


class Table:
    """Rows in this process; a context manager, which remote tables need to release their shards.

    Parameters
    ----------
    rows : Rows
    classes : ndarray of shape (n_classes,) or None
    n_samples : int or None, default=None
        The size that plans are for: the number of persons, if these are protected.
    one_of_each : bool, default=False
        Whether it has one row of each person, chosen of those that others read.
    """

    def __init__(self, rows, classes, n_samples=None, one_of_each=False):
        self.rows, self.classes, self.one_of_each = rows, classes, one_of_each
        self.n_features = rows.X.shape[1]
        self.n_samples = rows.X.shape[0] if n_samples is None else n_samples

    @property
    def sizes(self):
        """The public size of what labels are, besides that of the table: the number of classes, if any."""
        return () if self.classes is None else (self.classes.size,)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def count(self, function, *args):
        """The sum over records of the integers that a function of `Rows` computes."""
        return function(self.rows, *args)

    def target(self, make, remote):
        """The target that ``make`` builds from `Rows`; remote tables use ``remote``, too."""
        return make(self.rows)


def chosen_rows(X, only):
    """The rows of a validated table of which an array tells that they are wanted; all for None."""
    if only is None:
        return X
    if only.shape != X.shape[:1]:
        raise RuntimeError(
            "a step gets another number of rows than its pipeline has chosen, and cannot know whose they "
            "are: steps before it must return a row for each row."
        )
    return X[only]


def prepared(estimator, classes, sample_weight):
    """A function, with public arguments only, that makes of validated `Rows` what targets are made of.

    Parameters
    ----------
    estimator : estimator
    classes : ndarray of shape (n_classes,) or None
        None for regressors.
    sample_weight : object or None
        Whether records have weights of their own.
    """
    largest = None if sample_weight is None else float(estimator.max_sample_weight)
    if classes is None:
        least = 0.0 if get_tags(estimator).target_tags.positive_only else -np.inf
        counts = getattr(estimator, "_reads_counts", False)
        return partial(numbered, least=least, largest=largest, counts=counts)
    weights = getattr(estimator, "class_weight", None)
    return partial(encoded, classes=classes, class_weight=weights, largest=largest)


def encoded(rows, classes, class_weight, largest):
    """`Rows` with encoded labels and effective weights."""
    labels = encode_labels(rows.labels, classes)
    weights = effective_weights(class_weight, classes, labels, rows.weights, largest, rows.X)
    return Rows(rows.X, labels, weights)


def numbered(rows, least, largest, counts):
    """`Rows` of a regressor: responses of at least ``least``, weights, logarithms of exposures."""
    count = rows.X.shape[0]
    # scikit-learn looks for NaN only.
    if np.asarray(rows.labels).dtype.kind == "O" and any(label is None for label in rows.labels):
        raise ValueError(f"Input y contains None: {WITHOUT_OUTCOME}")
    responses = real_numbers(rows.labels, count, least, name="y")
    if counts:
        refuse_fractions(responses, "y")
    weights = effective_weights(None, (), None, rows.weights, largest, rows.X)
    return Rows(rows.X, responses, weights, logarithms(rows.offsets, count))


def logarithms(exposure, n_rows):
    """The logarithms of exposures, of shape (n_rows,), or None of None."""
    if exposure is None:
        return None
    exposure = exposures(exposure, n_rows)
    if not np.all(exposure > 0):
        raise ValueError(
            "exposure must be positive: give rows that were not exposed an exposure of 1 and sample_weight=0."
        )
    return np.log(exposure)


def _with_nan(values):
    """`doubles`; what types of pandas have in the place of missing values is NaN."""
    if hasattr(values, "to_numpy") and hasattr(values, "isna"):
        values = values.to_numpy(dtype=object, na_value=np.nan)
    return doubles(values)


def exposures(values, n_rows):
    """Exposures that may be 0 as an array of doubles, of shape (n_rows,).

    A single column is taken for what it holds.

    Raises
    ------
    ValueError
        If they are no such numbers. Each cause has a message of its own, which quotes no cell.
    """
    on_error = reraise_if_safe("exposure must hold real numbers, not text, dates or objects.")
    numbers = sanitize_errors(_with_nan, values, on_error=on_error)
    if numbers.shape == (n_rows, 1):
        numbers = numbers[:, 0]
    if numbers.shape != (n_rows,):
        raise ValueError(
            f"exposure is of shape {numbers.shape} and must be ({n_rows},): one number for each row."
        )
    if np.isnan(numbers).any():
        raise ValueError(
            "exposure has missing values: give rows without one an exposure of 1 and sample_weight=0."
        )
    if np.isinf(numbers).any():
        raise ValueError("exposure must be finite, and holds infinity or a number too large.")
    if (numbers < 0).any():
        raise ValueError("exposure must be positive, and holds numbers below 0.")
    return numbers
