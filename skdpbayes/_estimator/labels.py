"""Labels: which can occur is public, which do is not."""

import numpy as np
from sklearn.utils.multiclass import check_classification_targets


def label_set(classes):
    """Return the declared labels, sorted, or raise if they are invalid."""
    labels = np.asarray(classes)
    unique = _numbered(labels, "classes")[0]
    if labels.ndim != 1 or unique.size < 2 or unique.size != labels.size:
        raise ValueError(
            f"classes must list at least two different labels, each once, got {classes!r}."
        )
    return unique


def _numbered(labels, name):
    """Return the sorted labels, and the number of each."""
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError:
        pass
    # Outside the handler: that error names kinds of values, and is no help.
    raise ValueError(
        f"{name} holds labels of several kinds, such as numbers, text and None, which have no order: leave "
        "out rows without a label, and make labels one kind, e.g. by "
        f"{name} = np.asarray({name}).astype(str)."
    )


def encode_labels(y, classes):
    """Return the sorted labels, and the number of every row's label.

    Where labels are declared, nothing is asked of ``y`` but that it holds no others: whether they are whole
    numbers, or how many occur, must not show.
    """
    if classes is None:
        labels, codes = _numbered(y, "y")
        check_classification_targets(y)
        if labels.size < 2:
            raise ValueError(
                "y holds one class only, and a classifier needs two: name the labels that can occur, "
                "e.g. classes=[0, 1], if the other one can occur."
            )
        return labels, codes
    labels = label_set(classes)
    try:
        codes = np.minimum(np.searchsorted(labels, y), labels.size - 1)
        known = np.array_equal(labels[codes], y)
    except TypeError:  # Labels of another kind, which do not even compare.
        known = False
    if not known:
        raise ValueError(
            "y holds labels that are not in classes: list all labels that can occur, and leave out rows "
            "without a label."
        )
    return labels, codes
