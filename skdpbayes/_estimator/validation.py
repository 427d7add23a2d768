"""Validating tables by scikit-learn's means, without quoting cells of them in an error."""

import numpy as np
from sklearn.utils.validation import validate_data

from .._silence import silently


def validate_table(estimator, X, y="no_validation", *, reset, accept_sparse="csr"):
    """Validate a table by scikit-learn's means; no error quotes a cell, and no warning depends on one.

    ``accept_sparse`` is as in scikit-learn's `check_array`.

    Raises
    ------
    ValueError
        If the table is not one of finite numbers.
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
            )
    except ValueError as error:
        remedy = _without_cells(str(error))
        if remedy is None:
            raise
    # Outside the handler, so that the message with the cells is not chained to the error either.
    raise ValueError(remedy)


def _without_cells(message):
    """Return what to say instead of a message of scikit-learn's that quotes the table or misleads."""
    if "could not convert string" in message:
        return (
            "X holds text where numbers are expected: encode categories by a public list of them, "
            "e.g. OneHotEncoder(categories=[...], handle_unknown='ignore')."
        )
    if message.startswith("Input X contains NaN"):
        # That of scikit-learn recommends imputers, most of which learn from the rows.
        return (
            "Input X contains NaN: fill in a public constant, e.g. by SimpleImputer(strategy='constant', "
            "fill_value=0, keep_empty_features=True) in a pipeline. Means and medians of private rows "
            "would leak."
        )
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
            f"columns {text} are not numeric: encode categories by a public list of them, e.g. "
            "OneHotEncoder(categories=[...], handle_unknown='ignore'), in a ColumnTransformer."
        )
