"""Whether two objects hold the same: fitted estimators, or what a score returned.

Objects are taken apart: attributes, entries and arrays, and what else is in a copy of them, such as a frame's
columns or the nodes of a tree. Functions, generators of random numbers and what cannot be copied, such as
locks, are passed over.
"""

import types
from functools import partial
from numbers import Number

import numpy as np
import scipy.sparse as sp

_PASSED_OVER = (
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    type,
)
# As many differences are told.
_MOST = 20


def differences(first, second):
    """Return the names of parts that differ, at most twenty."""
    found: list[str] = []
    # Pairs are kept, since others that are made later could have the addresses of these.
    seen: dict[tuple[int, int], tuple] = {}
    waiting = [("", first, second)]
    while waiting and len(found) < _MOST:
        name, a, b = waiting.pop(0)
        if a is b or isinstance(a, _PASSED_OVER) or (id(a), id(b)) in seen:
            continue
        seen[id(a), id(b)] = a, b
        if type(a) is not type(b):
            found.append(name)
            continue
        parts = _parts(a, b)
        if parts is None:
            found.append(name)
        elif parts:
            waiting += [(name + suffix, *pair) for suffix, pair in parts]
    return found


def _parts(a, b):
    """Return what two objects of one type are made of, in pairs; None if they differ, and [] if not."""
    if isinstance(a, np.ndarray):
        return _of_arrays(a, b)
    if isinstance(a, np.generic):
        return _of_arrays(np.asarray(a), np.asarray(b))
    if isinstance(a, Number | str | bytes | bytearray | range | slice | None):
        return [] if a == b or (a != a and b != b) else None
    if sp.issparse(a):
        return [("", (a.toarray(), b.toarray()))]
    if isinstance(a, dict):
        if list(a) != list(b):
            return None
        return [(f".{key}" if isinstance(key, str) else f"[{key}]", (a[key], b[key])) for key in a]
    if isinstance(a, tuple | list):
        if len(a) != len(b):
            return None
        pairs = zip(a, b, strict=True)
        entries = [(f"[{i}]", pair) for i, pair in enumerate(pairs)]
        return _added(entries, _of_attributes(a, b))
    if isinstance(a, set | frozenset):
        return [] if a == b else None
    if isinstance(a, partial):
        return [("", (a.args, b.args)), ("", (a.keywords, b.keywords))]
    if isinstance(a, types.MethodType):
        return [("", (a.__self__, b.__self__))]
    return _added([("", (_copied(a), _copied(b)))], _of_attributes(a, b))


def _of_arrays(a, b):
    if a.shape != b.shape or a.dtype != b.dtype:
        return None
    if a.dtype == object:
        return _added([("", (a.tolist(), b.tolist()))], _of_attributes(a, b))
    same = np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    return _of_attributes(a, b) if same else None


def _added(parts, attributes):
    return None if attributes is None else [*parts, *attributes]


def _of_attributes(a, b):
    own, other = getattr(a, "__dict__", {}), getattr(b, "__dict__", {})
    if own.keys() != other.keys():
        return None
    return [(f".{name}", (value, other[name])) for name, value in own.items()]


def _copied(one):
    """Return what a copy of an object is made of, where that can be told: slots and compiled parts, too."""
    try:
        made_of = one.__reduce_ex__(4)
    except Exception:
        return None
    if isinstance(made_of, str):
        return made_of
    entries = [list(part) for part in made_of[3:5] if part is not None]
    return [*made_of[1:3], *entries]
