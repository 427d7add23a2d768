"""Whether two objects hold the same: fitted estimators, or what a score returned.

Objects are taken apart: attributes, entries and arrays, what functions enclose, what is behind a view,
and what else is in a copy of them, such as a frame's columns or the nodes of a tree. What cannot be looked
into is named.
"""

import _thread
import types
import weakref
from functools import partial
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

# They hold nothing.
_HARMLESS = (_thread.LockType, _thread.RLock, types.NotImplementedType, types.EllipsisType)
_VIEWS: Any = (type({}.keys()), type({}.values()), type({}.items()))
_BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)
# As many differences are told.
_MOST = 20


class Comparison(NamedTuple):
    """Names of parts that differ, that are generators of private noise, and that were not looked into."""

    differing: list
    generators: list
    unseen: list


class _NotCovered(Exception):
    pass


def differences(first, second):
    """Return the names of parts that differ, at most twenty."""
    return compared(first, second).differing


def compared(first, second):
    """Return the `Comparison` of two objects, with at most twenty parts that differ."""
    found = Comparison([], [], [])
    # Pairs are kept, since others that are made later could have the addresses of these.
    seen: dict[tuple[int, int], tuple] = {}
    waiting = [("", first, second)]
    while waiting and len(found.differing) < _MOST:
        path, a, b = waiting.pop(0)
        name = path or "the result"
        if (id(a), id(b)) in seen:
            continue
        seen[id(a), id(b)] = a, b
        if _is_private_generator(a) or _is_private_generator(b):
            found.generators.append(name)
            continue
        if a is b:
            continue
        if type(a) is not type(b):
            found.differing.append(name)
            continue
        try:
            parts = _parts(a, b)
        except _NotCovered:
            kind = type(a)
            found.unseen.append(f"{name} ({kind.__module__}.{kind.__qualname__})")
            continue
        if parts is None:
            found.differing.append(name)
        else:
            waiting += [(path + suffix, *pair) for suffix, pair in parts]
    return found


def _is_private_generator(one):
    """Tell whether private noise may come from it: whoever holds it may compute what was drawn."""
    if isinstance(one, np.random.Generator):
        one = one.bit_generator
    elif isinstance(one, np.random.RandomState):
        one = one._bit_generator  # type: ignore[attr-defined]
    return type(one).__name__ == "AESCounter"


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
        parts = [(a.func, b.func), (a.args, b.args), (a.keywords, b.keywords)]
        return _added([("", pair) for pair in parts], _of_attributes(a, b))
    if isinstance(a, types.MethodType):
        return [("", (a.__self__, b.__self__)), ("", (a.__func__, b.__func__))]
    if isinstance(a, _HARMLESS):
        return []
    if isinstance(a, (types.FunctionType, types.CellType, *_BOUND)):
        return _function_parts(a, b)
    if isinstance(a, types.GeneratorType):
        frames = [getattr(one.gi_frame, "f_locals", {}) for one in (a, b)]
        return None if a.gi_code != b.gi_code else [(".gi_frame", tuple(map(dict, frames)))]
    if isinstance(a, _VIEWS):
        return [("", (list(a), list(b))), (".mapping", (dict(a.mapping), dict(b.mapping)))]
    if isinstance(a, types.MappingProxyType):
        return [("", (dict(a), dict(b)))]
    if isinstance(a, memoryview):
        if (a.shape, a.format) != (b.shape, b.format):
            return None
        return [("", (a.tobytes(), b.tobytes())), (".obj", (a.obj, b.obj))]
    if isinstance(a, weakref.ref):
        return [("()", (a(), b()))]
    if isinstance(a, np.random.BitGenerator):
        return [(".state", (a.state, b.state))]
    if isinstance(a, np.random.Generator):
        return [("", (a.bit_generator, b.bit_generator))]
    if isinstance(a, np.random.RandomState):
        return [("", (a.get_state(legacy=False), b.get_state(legacy=False)))]
    if isinstance(a, types.ModuleType):
        raise _NotCovered
    if isinstance(a, type):
        # A class that a fit has made, since two fits have one each.
        both = [{k: v for k, v in vars(one).items() if k not in _OF_CLASSES} for one in (a, b)]
        return [(".__dict__", (both[0], both[1]))]
    return _added([("", (_copied(a), _copied(b)))], _of_attributes(a, b))


_OF_CLASSES = ("__dict__", "__weakref__", "__doc__", "_abc_impl")


def _function_parts(a, b):
    """Pairs of what two functions, or cells, enclose; None if the functions differ."""
    if isinstance(a, types.CellType):
        full = [_content(one) for one in (a, b)]
        return [("", (full[0], full[1]))]
    if isinstance(a, _BOUND):
        if a.__name__ != b.__name__:
            return None
        return [("", (a.__self__, b.__self__))]
    if a.__code__ != b.__code__:
        return None
    names = ("__closure__", "__defaults__", "__kwdefaults__")
    parts = [(f".{name}", (getattr(a, name), getattr(b, name))) for name in names]
    return _added(parts, _of_attributes(a, b))


def _content(cell):
    try:
        return (cell.cell_contents,)
    except ValueError:  # It is empty.
        return ()


def _of_arrays(a, b):
    if a.shape != b.shape or a.dtype != b.dtype:
        return None
    if a.dtype == object:
        return _added([("", (a.tolist(), b.tolist()))], _of_attributes(a, b))
    if not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
        return None
    # Behind a view there may be more.
    bases = [("", (a.base, b.base))] if _shows_part(a) and _shows_part(b) else []
    return _added(bases, _of_attributes(a, b))


def _shows_part(array):
    return isinstance(array.base, np.ndarray) and array.base.size > array.size


def _added(parts, attributes):
    return None if attributes is None else [*parts, *attributes]


def _of_attributes(a, b):
    own, other = _attributes(a), _attributes(b)
    if own.keys() != other.keys():
        return None
    return [(f".{name}", (value, other[name])) for name, value in own.items()]


def _attributes(one):
    slots = [vars(kind).get("__slots__", ()) for kind in type(one).__mro__]
    names = [name for own in slots for name in ([own] if isinstance(own, str) else own)]
    held = {name: getattr(one, name) for name in names if hasattr(one, name)}
    return {**held, **getattr(one, "__dict__", {})}


def _copied(one):
    """State from which an object would be copied, by ``__reduce_ex__``, slots and compiled parts included."""
    try:
        made_of = one.__reduce_ex__(4)
    except Exception as error:
        raise _NotCovered from error
    if isinstance(made_of, str):
        return made_of
    entries = [list(part) for part in made_of[3:5] if part is not None]
    return [*made_of[1:3], *entries]
