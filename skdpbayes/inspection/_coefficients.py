"""Coefficients as rows: from named arrays of draws to one column of draws and one label each."""

import reprlib
from numbers import Integral

import numpy as np

# The most rows that are legible in one figure.
MOST_ROWS = 20


def column_names(feature_names, coords):
    """Return the names of the columns: as given, else as far as they are known."""
    known = coords["feature"]
    if feature_names is not None:
        if len(feature_names) != len(known):
            raise ValueError(
                f"feature_names has {len(feature_names)} names for {len(known)} features: give one for each."
            )
        return np.asarray(feature_names, dtype=str)
    return known


def take(variables, coords, dim, indices):
    """Return variables and coordinates at the given indices along a dimension."""
    taken = {
        name: (draws.take(indices, axis=1 + dims.index(dim)), dims)
        if dim in dims
        else (draws, dims)
        for name, (draws, dims) in variables.items()
    }
    return taken, {**coords, dim: [coords[dim][i] for i in indices]}


def class_index(label, classes):
    """Return the index of a label among the classes that have coefficients."""
    for i, known in enumerate(classes):
        if known == label:
            return i
    raise ValueError(
        f"class_of_interest={label!r} has no coefficients of its own: choose one of "
        f"{np.asarray(classes).tolist()}."
    )


def feature_indices(features, variables, coords):
    """Return the indices of the requested columns, or of those with the clearest coefficients."""
    names = list(coords["feature"])
    if features is not None:
        wanted = [features] if isinstance(features, str | Integral) else features
        return [_column_index(feature, names) for feature in wanted]
    draws, dims = next(pair for pair in variables.values() if "feature" in pair[1])
    draws = np.moveaxis(draws, 1 + dims.index("feature"), -1).reshape(len(draws), -1, len(names))
    size, deviation = np.abs(draws.mean(axis=0)), draws.std(axis=0)
    clarity = np.divide(size, deviation, out=size, where=deviation > 0).max(axis=0)
    n_shown = max(1, MOST_ROWS // draws.shape[1])
    return np.sort(np.argsort(-clarity, kind="stable")[:n_shown]).tolist()


def _column_index(feature, names):
    if isinstance(feature, str):
        if feature in names:
            return names.index(feature)
    elif isinstance(feature, Integral) and -len(names) <= int(feature) < len(names):
        return int(feature) % len(names)
    raise ValueError(
        f"feature {feature!r} is unknown: choose among the {len(names)} features "
        f"{reprlib.repr([str(name) for name in names])}."
    )


def rows(variables, coords, several):
    """Return (draws of shape (n_draws, n_rows), labels), with the columns as the outermost dimension."""
    columns, labels = [], []
    for name, (draws, dims) in variables.items():
        order = sorted(dims, key=lambda dim: dim != "feature")
        draws = draws.transpose(0, *(1 + dims.index(dim) for dim in order))
        for place in np.ndindex(draws.shape[1:]):
            at = {dim: coords[dim][i] for dim, i in zip(order, place, strict=True)}
            label = str(at.get("feature", name))
            others = ", ".join(str(at[dim]) for dim in order if dim in several)
            columns.append(draws[:, *place])
            labels.append(f"{label} [{others}]" if others else label)
    return np.column_stack(columns), labels
