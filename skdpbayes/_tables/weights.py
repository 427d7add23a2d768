"""Weights of records: their own, reduced to a public maximum, times that of their class.

w_i = c(y_i) min(s_i, s_max),      0 <= w_i <= s_max max_k c(k)
"""

from numbers import Real

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_non_negative

from .._inputs import holds_dates, unless_harmless, unquoted


def largest_weight(class_weight, n_classes, max_sample_weight):
    """Return the public maximum of a record's weight, or None if all weights are 1.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
    n_classes : int
    max_sample_weight : float or None
        None if records have no weights of their own.

    Raises
    ------
    ValueError
        If the weights of classes are invalid, or not public.
    """
    if class_weight is None:
        return max_sample_weight
    if isinstance(class_weight, str):
        raise ValueError(
            "class_weight='balanced' counts the labels, which are private: give a dict of public weights, "
            "e.g. class_weight={0: 0.2, 1: 1.0}."
        )
    values = list(class_weight.values()) + [1.0] * (len(class_weight) < n_classes)
    are_real = all(isinstance(v, Real) and not isinstance(v, bool) for v in values)
    if not are_real or not all(0 <= v < np.inf for v in values) or not max(values) > 0:
        raise ValueError(
            f"class_weight must hold non-negative numbers, at least one of them positive, got {class_weight}."
        )
    return float(max(values)) * (1.0 if max_sample_weight is None else max_sample_weight)


def effective_weights(class_weight, classes, labels, sample_weight, max_sample_weight, X):
    """Return the weights of all records, or None if all are 1.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
    classes : ndarray of shape (n_classes,)
    labels : ndarray of shape (n_samples,)
        Indices of classes.
    sample_weight : array-like of shape (n_samples,) or None
    max_sample_weight : float
    X : array-like of shape (n_samples, n_features)

    Raises
    ------
    ValueError
        As in `largest_weight`; or if a weight is negative, not finite, or for a label that cannot occur.
    """
    if class_weight is None and sample_weight is None:
        return None
    largest_weight(class_weight, len(classes), max_sample_weight)  # Refuses invalid weights.
    weights = np.ones(X.shape[0])
    if sample_weight is not None:
        weights = np.minimum(own_weights(sample_weight, X.shape[0]), max_sample_weight)
    if class_weight is not None:
        unknown = [label for label in class_weight if label not in classes]
        if unknown:
            raise ValueError(
                f"class_weight has weights for {unknown}, but these are not in classes={classes.tolist()}."
            )
        of_classes = np.array([float(class_weight.get(c, 1.0)) for c in classes.tolist()])
        weights = weights * of_classes[labels]
    return weights


def own_weights(weights, n_samples):
    """Return the records' own weights. All may be 0, because whether any is positive is private."""
    if isinstance(weights, Real):
        weights = np.full(n_samples, weights)
    told = unless_harmless("sample_weight must hold real numbers, one for each row.")
    if unquoted(holds_dates, weights, told=told):
        raise ValueError("sample_weight holds dates or durations: it must hold real numbers.")
    weights = unquoted(
        check_array,
        weights,
        dtype=np.float64,
        ensure_2d=False,
        input_name="sample_weight",
        told=told,
    )
    if weights.shape != (n_samples,):
        raise ValueError(
            f"sample_weight is of shape {weights.shape} and must be ({n_samples},): one for each row."
        )
    check_non_negative(weights, "sample_weight")
    return weights


def refuse_weights(estimator, others):
    """Raise a TypeError for unknown arguments of a fit, with advice if they are weights.

    Parameters
    ----------
    estimator : estimator
    others : dict
    """
    name = type(estimator).__name__
    for argument, value in others.items():
        if argument != "sample_weight":
            raise TypeError(f"{name}.fit() got an unexpected keyword argument {argument!r}.")
        if value is not None:
            raise TypeError(
                f"{name} does not support sample_weight, and every row has weight 1: leave it out, or use "
                "DPBayesianLogisticRegression. Do not repeat rows instead: only one copy would be protected."
            )
