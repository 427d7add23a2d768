"""Validation of tables with scikit-learn, without quoting any cell in an error."""

import numpy as np
from sklearn.utils.validation import validate_data

from .._silence import silently


def validate_table(
    estimator, X, y="no_validation", *, reset, accept_sparse="csr", ensure_all_finite=True
):
    """Validate a table with scikit-learn; no error quotes a cell, and no warning depends on one.

    ``accept_sparse`` and ``ensure_all_finite`` are as in scikit-learn's `check_array`.

    Raises
    ------
    ValueError
        If the table does not consist of finite numbers.
    """
    _refuse_text_columns(X)
    try:
        with silently():
            return validate_data(
                estimator,
                X,
                y,
                reset=reset,
                accept_sparse=accept_sparse,
                dtype=[np.float64, np.float32],
                order="C",
                ensure_all_finite=ensure_all_finite,
            )
    except (TypeError, ValueError) as error:
        remedy = _without_cells(str(error))
        if remedy is None:
            raise
        kind = type(error)
    # Outside the handler, so that the message with the cells is not chained to this error.
    raise kind(remedy)


def _without_cells(message):
    """Return a replacement for messages of scikit-learn that quote the table or mislead, else None."""
    if "could not convert string" in message:
        return (
            "X holds text where numbers are expected: encode categories with a public list of them, "
            "e.g. OneHotEncoder(categories=[...], handle_unknown='ignore'), or with DPOneHotEncoder, which "
            "finds them privately. To turn marks such as '?' in a column of numbers into NaN, use "
            "pandas.to_numeric(column, errors='coerce')."
        )
    if "argument must be a string or a real number" in message:
        return (
            "X holds None or other objects, and every argument must be a string of digits or a real number: "
            "use NaN for missing values."
        )
    if message.startswith("Input X contains NaN"):
        # scikit-learn's message recommends imputers, most of which learn from the rows.
        return (
            "Input X contains NaN: put skdpbayes.preprocessing.DPImputer() into the pipeline, after the "
            "scaler. It fills in a public constant for free, or private medians with strategy='median'. "
            "Without noise, means and medians would leak."
        )
    if message.startswith("Input X contains infinity"):
        return (
            "Input X contains infinity or a value too large for its type: replace it by NaN, which "
            "skdpbayes.preprocessing.DPImputer fills in, or by a public bound of its column."
        )
    if message.startswith("Input y contains NaN") or "value of NA is ambiguous" in message:
        return "Input y contains NaN: leave out rows without a label."
    if "Complex data not supported" in message:
        return "Complex data not supported: X must hold real numbers."
    if "Reshape your data" in message:
        return (
            "Expected 2D array, got one of fewer dimensions instead. Reshape your data: "
            "array.reshape(-1, 1) if there is a single feature, array.reshape(1, -1) if there is a "
            "single sample."
        )
    return None


def _refuse_text_columns(X):
    if not (hasattr(X, "dtypes") and hasattr(X, "columns")):
        return
    kinds = (str(kind).lower() for kind in X.dtypes)
    text = [
        str(name)
        for name, kind in zip(X.columns, kinds, strict=True)
        if kind.startswith(("str", "utf8", "category", "categorical", "enum", "datetime", "date"))
    ]
    if text:
        raise ValueError(
            f"columns {text} are not numeric: encode categories in a ColumnTransformer, with a public list "
            "of them, e.g. OneHotEncoder(categories=[...], handle_unknown='ignore'), or with "
            "DPOneHotEncoder, which finds them privately."
        )
