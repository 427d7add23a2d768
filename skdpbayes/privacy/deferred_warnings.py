"""Warnings of a fit, which come last once it is paid for.

    before the charge: a warning is shown at once; where it is an error, nothing is spent
    after the charge:  it is kept until all attributes are set; where it is an error, nothing is lost

The filters of `warnings` belong to the whole process, and `warnings.catch_warnings` in several threads leaves
those of another thread behind. What this package says is therefore kept in a list of the fit. Filters change
for what other packages say, for all threads at once and under a lock, and come back when the last leaves.

A fit that a larger one has paid for, perhaps in another process, leaves its warnings on the estimator, from
where the larger one takes them.
"""

import threading
import warnings
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from .._checks import callers_level
from .._silence import silently
from .vouchers import is_prepaid

_P = ParamSpec("_P")
_T = TypeVar("_T")
_KEPT = "_deferred_warnings"
_IS_AN_ERROR = (
    "Its cost is spent: a warning is an error here, and comes last so that nothing is lost."
)
_FIT = f"The fit is complete and can be used. {_IS_AN_ERROR}"
_SCORE = f"The attribute `score` of this error is the score that was released. {_IS_AN_ERROR}"


class _Filters:
    """Filters of the process while something is ignored, or no warning may be an error.

    Where no filter makes an error of a warning, those of a paid fit are left alone.
    """

    def __init__(self):
        self.lock = threading.RLock()
        self.counts = {"ignore": 0, "show": 0}
        self.saved = None

    @contextmanager
    def changed(self, how):
        """Ignore warnings of other packages ("ignore"), or "show" those that would be errors."""
        self._enter(how, 1)
        try:
            yield
        finally:
            self._enter(how, -1)

    def _enter(self, how, number):
        with self.lock:
            self.counts[how] += number
            wanted = self._wanted()
            if wanted is not None and self.saved is None:
                self.context = warnings.catch_warnings()
                self.context.__enter__()
                self.saved = list(warnings.filters)
            if wanted is not None:
                warnings.filters = wanted
            elif self.saved is not None:
                self.context.__exit__(None, None, None)
                self.saved = None

    def _wanted(self):
        own = warnings.filters if self.saved is None else self.saved
        if self.counts["ignore"]:
            return [("ignore", None, Warning, None, 0)]
        if self.counts["show"] and any(action == "error" for action, *_ in own):
            return [("default" if one[0] == "error" else one[0], *one[1:]) for one in own]
        return None

    def warn(self, text, category):
        """Show a warning by the filters that hold where nothing is changed."""
        with self.lock:
            now = warnings.filters
            if self.saved is not None:
                warnings.filters = self.saved
            try:
                warnings.warn(text, category, stacklevel=callers_level())
            finally:
                warnings.filters = now


_filters = _Filters()


class _Fit:
    """What is under way: whether it is paid for, and the warnings that are kept until it is complete."""

    def __init__(self, owner, is_ignored=False):
        self.owner = owner
        self.is_ignored = is_ignored
        self.is_prepaid = is_prepaid(owner)
        self.is_paid = False
        self.kept = {}  # The order matters, and the values do not.
        self.score = None
        self.stack = ExitStack()
        if self.is_prepaid:
            self.pay()

    def pay(self):
        if not (self.is_paid or self.is_ignored):
            self.is_paid = True
            self.stack.enter_context(_filters.changed("show"))


_current: ContextVar[_Fit | None] = ContextVar("fit", default=None)


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn the caller of this package: at once, or when the fit that is paid for is complete."""
    fit = _current.get()
    if fit is not None and fit.is_ignored:
        return
    if fit is not None and fit.is_paid:
        fit.kept[text, category] = None
    else:
        _filters.warn(text, category)


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
    if outer is not None and (outer.owner is owner or outer.is_ignored):
        yield outer
        return
    fit = _Fit(owner)
    token = _current.set(fit)
    try:
        with silently(), fit.stack:
            yield fit
    except BaseException as error:
        for text, category in fit.kept:
            error.add_note(f"{category.__name__}: {text}")
        raise
    finally:
        _current.reset(token)
    if fit.is_prepaid:
        setattr(owner, _KEPT, tuple(fit.kept))
    elif outer is not None and outer.is_paid:
        outer.kept |= fit.kept
    else:
        _show(fit)


def warns_last(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a `fit` whose warnings after the charge are shown when it is complete."""

    @wraps(method)
    def complete(*args: _P.args, **params: _P.kwargs) -> _T:
        with warnings_last(args[0]):
            return method(*args, **params)

    return complete


def take_warnings(owner: Any) -> tuple[tuple[str, type[Warning]], ...]:
    """Return (text, category) of what a fit that was paid for has left on an estimator, and remove it."""
    return vars(owner).pop(_KEPT, ())


@contextmanager
def ignored_warnings():
    """Ignore all warnings of the body."""
    token = _current.set(_Fit(None, is_ignored=True))
    try:
        with _filters.changed("ignore"):
            yield
    finally:
        _current.reset(token)


def _show(fit):
    errors = []
    for text, category in fit.kept:
        try:
            _filters.warn(text, category)
        except Warning as error:
            errors.append(error)
    if errors:
        texts = [*map(str, errors), _FIT if fit.score is None else _SCORE]
        whole = type(errors[0])(" ".join(texts))
        if fit.score is not None:
            whole.score = fit.score  # type: ignore[attr-defined]  # No error has it otherwise.
        raise whole
