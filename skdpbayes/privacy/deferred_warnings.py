"""Warnings of a fit, which come last once it is paid for.

    before the charge: a warning is shown at once; where it is an error, nothing is spent
    after the charge:  it is kept until all attributes are set; where it is an error, nothing is lost

What this package says is kept in a list of the fit. What others say is shown where it comes, and is no error
after the charge. Filters of `warnings` belong to the whole process, and `warnings.catch_warnings` in
several threads leaves those of another thread behind: filters are put before all others here that match in
the thread of the fit alone.

A fit that a larger one has paid for, perhaps in another process, leaves its warnings on the estimator, from
where the larger one takes them.

The fit under way is a context variable, because filters, and what warns while a table is read or a seed is
taken, know of no fit, and two fits may run in two threads.
"""

import warnings
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from threading import RLock
from typing import Any, ParamSpec, TypeVar

from .._arguments import callers_level
from .._errors import suppress_fp_warnings

_P = ParamSpec("_P")
_T = TypeVar("_T")
# Attribute of what a larger fit has paid for: an `Authorization`.
AUTHORIZATION = "_authorization"
_ATTRIBUTE = "_deferred_warnings"
_IS_AN_ERROR = (
    "Its cost is spent: a warning is an error here, and comes last so that nothing is lost."
)
_FIT = f"The fit is complete and can be used. {_IS_AN_ERROR}"
_SCORE = f"The attribute `score` of this error is the score that was released. {_IS_AN_ERROR}"


def is_prepaid(owner: Any) -> bool:
    """Whether a larger fit has paid for that of an object, with an authorization that is good."""
    authorization = getattr(owner, "__dict__", {}).get(AUTHORIZATION)
    return authorization is not None and authorization.is_good


class _Fit:
    """A fit under way: whether it is paid for, and the warnings that are kept until it is complete."""

    def __init__(self, owner, is_ignored):
        self.owner = owner
        self.is_ignored = is_ignored
        self.is_prepaid = is_prepaid(owner)
        self.is_paid = self.is_prepaid
        self.kept = {}  # The order matters, and the values do not.
        self.score = None

    def pay(self):
        self.is_paid = True


_current: ContextVar[_Fit | None] = ContextVar("fit", default=None)


class _InThisContext(type):
    """Type of categories of filters that match where ``_current`` says so, and in no other thread."""

    matches: Callable

    def __subclasscheck__(cls, category):
        fit = _current.get()
        return fit is not None and cls.matches(fit, category)


class _Ignored(Warning, metaclass=_InThisContext):
    """All warnings, where they are ignored."""

    @staticmethod
    def matches(fit, category):
        return fit.is_ignored


class _Shown(Warning, metaclass=_InThisContext):
    """Those that would be errors, where a fit is paid for."""

    @staticmethod
    def matches(fit, category):
        return fit.is_paid and not fit.is_ignored and _may_be_error(category)


def _may_be_error(category):
    for action, message, filter_category, module, line in warnings.filters:
        if not isinstance(filter_category, _InThisContext) and issubclass(
            category, filter_category
        ):
            if action == "error":
                return True
            if message is None and module is None and not line:
                return False
    return False


# Filters are put first, each as often as there are fits that need it; a tuple that another thread still reads
# must not be freed.
_SHOW: Any = ("default", None, _Shown, None, 0)
_IGNORE: Any = ("ignore", None, _Ignored, None, 0)
# Held while they are put and taken back, and while this package warns: a warning passes over the next filter
# where one is taken back that it has just come to.
_FILTERS = RLock()


@contextmanager
def _first_filter(first_filter):
    """Put a filter before all others, and take it back."""
    filters: Any = warnings.filters
    with _FILTERS:
        filters.insert(0, first_filter)
    try:
        yield
    finally:
        with _FILTERS:
            if first_filter in filters:
                filters.remove(first_filter)


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn the caller of this package: at once, or when the fit that is paid for is complete."""
    fit = _current.get()
    if fit is not None and fit.is_paid:
        fit.kept[text, category] = None
    elif fit is None or not fit.is_ignored:
        with _FILTERS:
            warnings.warn(text, category, stacklevel=callers_level())


def defer_warnings() -> None:
    """Keep all warnings from here on until the fit, or score, that is under way is complete."""
    if (fit := _current.get()) is not None:
        fit.pay()


@contextmanager
def warnings_last(owner: Any):
    """Show warnings that follow the charge when the body is complete; those of one owner may be nested.

    What the body sets as the attribute ``score`` of what is yielded is not lost if a warning is an error.

    Raises
    ------
    Warning
        If a warning is an error: one for all of them.
    """
    outer = _current.get()
    if outer is not None and outer.owner is owner:
        yield outer
        return
    is_ignored = outer is not None and outer.is_ignored
    fit = _Fit(owner, is_ignored)
    token = _current.set(fit)
    may_fail = "error" in [action for action, *_ in warnings.filters]
    try:
        with (
            suppress_fp_warnings(),
            _first_filter(_SHOW) if may_fail else nullcontext(),
        ):
            yield fit
    except BaseException as error:
        for text, category in fit.kept:
            error.add_note(f"{category.__name__}: {text}")
        raise
    finally:
        _current.reset(token)
    if fit.is_prepaid:
        setattr(owner, _ATTRIBUTE, tuple(fit.kept))
    elif outer is not None and (outer.is_paid or is_ignored):
        outer.kept |= fit.kept
    else:
        _show(fit)


def warns_last(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """A `fit` whose warnings after the charge are shown when it is complete."""

    @wraps(method)
    def complete(*args: _P.args, **params: _P.kwargs) -> _T:
        with warnings_last(args[0]):
            return method(*args, **params)

    return complete


def take_warnings(owner: Any) -> tuple[tuple[str, type[Warning]], ...]:
    """(text, category) of what a fit that was paid for has left on an estimator, and remove it."""
    return getattr(owner, "__dict__", {}).pop(_ATTRIBUTE, ())


@contextmanager
def ignored_own_warnings():
    """Ignore what this package warns of in the body, and leave filters alone, which threads share."""
    token = _current.set(_Fit(object(), is_ignored=True))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def ignored_warnings():
    """Ignore all warnings of the body, but for those that prepaid fits leave on estimators."""
    with ignored_own_warnings(), _first_filter(_IGNORE):
        yield


def _show(fit):
    errors = []
    for text, category in fit.kept:
        try:
            with _FILTERS:
                warnings.warn(text, category, stacklevel=callers_level())
        except Warning as error:
            errors.append(error)
    if errors:
        texts = [*map(str, errors), _FIT if fit.score is None else _SCORE]
        whole = type(errors[0])(" ".join(texts))
        if fit.score is not None:
            whole.score = fit.score  # type: ignore[attr-defined]  # No error has it otherwise.
        raise whole
