"""What a step says of itself in a report: the bounds that it used, and who said so.

Facts are public: a user's own numbers, defaults, and what was released with noise. What the rows alone would
tell, such as labels that were read off them, has no value here.
"""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, NamedTuple

# Who said so. "labels" is what was taken from the table without noise, and is assumed to be public.
# "steps" is what follows from public parameters of a pipeline's earlier steps.
SOURCES = ("declared", "learnt", "default", "steps", "labels")
# What the norm to which rows are clipped is called.
LONGEST_ROW = "longest row"


class Fact(NamedTuple):
    """A bound, a list or another public number that a step used.

    Attributes
    ----------
    what : str
        What it is, such as "range".
    value : number, str, list or None
        None if it is not known yet, or not to be told.
    source : {"declared", "learnt", "default", "steps", "labels"}
        Who said so: whoever ran it, the rows with noise that is paid for, the package, the steps before in a
        pipeline, or the table itself.
    column : str or None, default=None
        The column that it belongs to, None for all or none in particular.
    """

    what: str
    value: Any
    source: str
    column: str | None = None


class About(NamedTuple):
    """What a step says of itself.

    Attributes
    ----------
    facts : tuple of Fact, default=()
    proof : str, default=""
        The propositions by which its cost is known.
    """

    facts: tuple[Fact, ...] = ()
    proof: str = ""


def as_json(value: Any) -> Any:
    """Return a value as JSON has it: infinite numbers as None, and what is no number as text."""
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "tolist"):  # Of NumPy.
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    return str(value)


def given(value: Any, default: Any, learnt: Any = None) -> tuple[Any, str]:
    """Return the value of a parameter that is a number, None or "auto", and who said so.

    Parameters
    ----------
    value : float, "auto" or None
        The parameter.
    default : float or None
        What None means.
    learnt : float or None, default=None
        What was learnt for "auto", None before a fit.
    """
    if value is None:
        return default, "default"
    return (learnt, "learnt") if isinstance(value, str) else (value, "declared")


def of_columns(
    what: str, values: Iterable[Any] | None, source: str, names: Iterable[Any] | None = None
) -> tuple[Fact, ...]:
    """Return a fact for each column, or one for all if they are alike or not known.

    Parameters
    ----------
    what : str
    values : iterable or None
        One for each column, None before a fit.
    source : str
    names : iterable or None, default=None
        Names of the columns.
    """
    if values is None:
        return (Fact(what, None, source),)
    values = [as_json(value) for value in values]
    if len(values) > 1 and all(value == values[0] for value in values):
        return (Fact(what, values[0], source, f"each of {len(values):,} columns"),)
    names = [f"column {place}" for place in range(len(values))] if names is None else list(names)
    return tuple(
        Fact(what, value, source, str(name)) for name, value in zip(names, values, strict=True)
    )
