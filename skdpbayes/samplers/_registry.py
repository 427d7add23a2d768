"""Samplers by name: every class that a folder of `samplers` makes public, and `auto`, the choice among them.

Modules are found by looking, so that a new sampler is a folder and nothing else. They are loaded when they
are first asked for, and not together with this module, because samplers themselves name each other in
messages.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any

_PACKAGE = __name__.rpartition(".")[0]


@cache
def samplers_by_name():
    """Return a read-only mapping of {name: class} of the package's samplers, in alphabetical order.

    A class that wraps another sampler has the name of that sampler, and is left out.
    """
    found: dict[str, Any] = {}
    for module in iter_modules(import_module(_PACKAGE).__path__):
        if module.name.startswith("_"):
            continue
        room = import_module(f"{_PACKAGE}.{module.name}")
        for kind in (getattr(room, name) for name in room.__all__):
            if isinstance(vars(kind).get("name"), str):
                if kind.name in found:
                    raise TypeError(
                        f"{found[kind.name]} and {kind} have the same name, {kind.name!r}"
                    )
                found[kind.name] = kind
    return MappingProxyType(dict(sorted(found.items())))


def names_where(holds: Callable[[Any], Any] = lambda sampler: True) -> str:
    """Return the names of samplers with some property, quoted, for a message.

    Parameters
    ----------
    holds : callable
        Of a sampler with its default options.
    """
    return ", ".join(repr(name) for name, kind in samplers_by_name().items() if holds(kind()))


def resolve_sampler(sampler: Any) -> Any:
    """Return a sampler object: the given one, or the one that a name stands for, with its defaults.

    Parameters
    ----------
    sampler : str or Sampler

    Returns
    -------
    sampler : Sampler

    Raises
    ------
    ValueError
        If the name is unknown.
    TypeError
        If it is a class instead of an object.

    Examples
    --------
    >>> from skdpbayes.samplers import resolve_sampler
    >>> resolve_sampler("sghmc")
    SGHMC()
    """
    if isinstance(sampler, type):
        raise TypeError(
            f"sampler={sampler.__name__} is a class: pass an instance, {sampler.__name__}()."
        )
    if not isinstance(sampler, str):
        return sampler
    if sampler not in samplers_by_name():
        raise ValueError(
            f"sampler={sampler!r} is not known: take one of {names_where()}, or an object of "
            "skdpbayes.samplers."
        )
    return samplers_by_name()[sampler]()
