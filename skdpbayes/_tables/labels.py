"""Class labels: which labels can occur is public, which of them do occur is private."""

from numbers import Real

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from .._inputs import unless_harmless, unquoted
from ..privacy.deferred_warnings import warn
from .lists import comparable, integer_array, refuse_rounded_labels

_OF_SEVERAL_KINDS = (
    "{name} holds labels of several kinds, such as numbers, text and None, which have no order: make "
    "all labels one kind, e.g. by {name} = np.asarray({name}).astype(str). Rows without a label get any of "
    "them, and sample_weight=0."
)
_ONE_AGAINST_REST = "; in OneVsRestClassifier each fit has two, classes=[0, 1]"
# More labels, most of them consecutive integers, are rather counts or measurements.
_MANY = 30
_FEW = 10


def label_set(classes):
    """Return the declared labels, sorted, or raise if they are invalid."""
    if np.ndim(classes) != 1:
        nested = f" of {np.ndim(classes)} dimensions" if np.ndim(classes) else ""
        raise ValueError(
            f"classes must be a list of labels, such as [0, 1], and is a {type(classes).__name__}{nested}: "
            "pass list(...) of a set or a dict, or of a table the list of its labels."
        )
    if len({isinstance(one, str) for one in classes}) > 1:
        raise ValueError(_OF_SEVERAL_KINDS.format(name="classes"))
    labels = np.asarray(classes)
    if (integers := integer_array(classes)) is not None:
        labels = integers
    elif labels.dtype.kind == "f" and any(
        isinstance(one, int) and abs(one) > 2**53 for one in classes
    ):
        raise ValueError(
            "classes holds long integers beside other numbers, which would round them: list text, e.g. "
            "classes=[str(label) for label in classes]."
        )
    unique = _distinct(labels, "classes")
    if unique.size < 2 or unique.size != labels.size:
        # Not quoted: it may be the column itself.
        raise ValueError(
            "classes must list at least two different labels, each once, such as [0, 1], and lists "
            f"{labels.size}, of which {unique.size} are different."
        )
    return unique


def _distinct(labels, name):
    """Return the distinct labels, sorted."""
    try:
        return np.unique(labels)
    except Exception:  # Of NumPy's, or of labels of a class of their own.
        pass
    # Outside the handler, because the caught error names types and would not help.
    raise ValueError(_OF_SEVERAL_KINDS.format(name=name))


def looks_like_numbers(labels):
    """Tell whether sorted labels are many, and most of them consecutive integers."""
    if labels.size <= _MANY or labels.dtype.kind not in "iuf":
        return False
    return bool(np.mean(np.diff(labels) == 1) > 0.5)


def _numbers(n_classes):
    return list(range(n_classes)) if n_classes <= _FEW else f"range({n_classes})"


def labels_in(y, classes):
    """Return the sorted labels: those that are declared or, if ``classes`` is None, those that occur."""
    if classes is not None:
        return label_set(classes)
    labels = _distinct(y, "y")
    if labels.dtype == object and all(isinstance(label, Real) for label in labels):
        labels = y = np.unique(np.array(labels.tolist()))
    if labels.dtype.kind not in "biu":  # Whole numbers are labels, whatever they are.
        unknown = "y holds labels of a kind that is not known: use text or whole numbers, e.g. y.astype(int)."
        told = unless_harmless(unknown)
        if labels.dtype == object and not all(isinstance(label, str) for label in labels):
            raise ValueError(unknown)
        unquoted(check_classification_targets, y, told=told)
    if labels.size < 2:
        raise ValueError(
            "y holds only one class, and a classifier needs two: if others can occur, list all labels, "
            "e.g. classes=[0, 1]."
        )
    if looks_like_numbers(labels):
        warn(
            f"y has {labels.size} different labels, most of them consecutive whole numbers, as counts "
            "have: a classifier learns each one by itself, and knows no order. To predict a count, take "
            "DPBayesianPoissonRegressor; to predict a number, DPBayesianRidge. If these are labels, list "
            "them in classes.",
        )
    return labels


def encode_labels(y, classes):
    """Return the index of every row's label among ``classes``.

    The only condition on ``y`` is that it holds no others. Whether its entries are whole numbers, and how
    many different ones occur, must not be revealed.
    """
    labels = label_set(classes)
    refuse_rounded_labels(labels, y, "y")
    try:
        listed, y = comparable(labels, y)
        codes = np.minimum(np.searchsorted(listed, y), labels.size - 1)
        known = np.array_equal(listed[codes], y)
    except Exception:  # Labels of another kind, which cannot be compared.
        known = False
    if not known:
        raise ValueError(
            "y holds labels that are not in classes: list all labels that can occur, and give rows without "
            "a label any of them and sample_weight=0. Where another tool numbers the labels first, as "
            "VotingClassifier does, the numbers are the labels: "
            f"classes={_numbers(labels.size)}{_ONE_AGAINST_REST * (labels.size > 2)}."
        )
    return codes
