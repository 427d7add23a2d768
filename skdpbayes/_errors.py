"""What is passed in is read without floating-point warnings, and with errors that quote no cell.

    to_native -> sanitize_errors(a function of scikit-learn's or NumPy's) -> an array, or an error of ours

An error of another package may hold a cell, or a whole table: its message is passed on only if its form is
known, and is replaced otherwise.
"""

import re
from contextlib import contextmanager

import numpy as np
from scipy import special
from sklearn import config_context

# Computations on records that emit no warnings, whatever the records hold.
#
# A floating-point warning, or the error that `numpy.seterr` or `scipy.special.seterr` turns it into,
# would reveal that a record overflowed.


@contextmanager
def suppress_fp_warnings():
    """Suppress floating-point warnings and errors, as a context manager or decorator."""
    with np.errstate(all="ignore"), special.errstate(all="ignore"):
        yield


# Forms of messages that hold nothing but shapes, sizes, and names of columns and types.
_HARMLESS = re.compile(
    r"Found array with \d+ (sample|feature)\(s\) \(shape=\([\d, ]*\)\) while a minimum of \d+ is required"
    r"[\w ]*\."
    r"|Found array with dim \d+[\w .,]* <= 2[\w ]*\."
    r"|X has \d+ features, but \w+ is expecting \d+ features as input\.?"
    r"|(The feature names should match|Feature names are only supported)(?s:.*)"
    r"|Sparse data was passed[\w ]*, but dense data is required\.[\w .'()]*"
    r"|np\.matrix is not supported[\w .,:/-]*"
    r"|Found input variables with inconsistent numbers of samples: \[[\d, ]*\]"
    r"|Expected a 2-dimensional container but got <class '[\w.]*'> instead\.[\w .(),]*"
    r"|Expected sequence or array-like, got <class '[\w.]*'>"
    r"|y should be a 1d array, got an array of shape \([\d, ]*\) instead\."
    r"|(This )?\w+ (estimator )?requires y to be passed, but the target y is None\.?"
    r"|Unknown label type: [\w-]+\.[\w ,.-]*"
    r"|Negative values in data passed to \w+\.?"
    r"|Input \w+ contains (NaN|infinity or a value too large for dtype\('\w+'\))\."
)


def to_native(values, name):
    """A table or column as it is, or what a narwhals frame wraps.

    Raises
    ------
    TypeError
        If it has not been computed yet, or is masked: NumPy would count what a mask hides.
    """
    if type(values).__module__.startswith("narwhals") and hasattr(values, "to_native"):
        values = values.to_native()
    if type(values).__name__ == "LazyFrame":
        raise TypeError(f"{name} is a LazyFrame, which holds no rows yet: pass {name}.collect().")
    parts = values if isinstance(values, list | tuple) else (values,)
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        raise TypeError(
            f"{name} is a masked array, whose mask would be lost: fill in what is masked, e.g. with "
            f"{name}.filled(np.nan) for missing values."
        )
    return values


def column_names(X):
    """The names of a frame's columns, of whatever library, or None of what is no frame.

    Tables of pyarrow have names beside columns, and ``columns`` are the cells themselves.
    """
    names = getattr(X, "column_names", None)
    names = getattr(X, "columns", None) if names is None else names
    return None if names is None else list(names)


def sanitize_errors(read, *args, on_error, **options):
    """The result of a function of private values, silently; an error that might quote one is replaced.

    scikit-learn reads arrays of all libraries as NumPy's, and checks that numbers are finite, whatever its
    configuration.

    Parameters
    ----------
    read : callable
    *args, **options
        Its arguments.
    on_error : callable
        Maps an error to the one that is raised instead.

    Raises
    ------
    ValueError, TypeError
        If ``read`` raises an error.
    """
    try:
        with suppress_fp_warnings(), config_context(array_api_dispatch=False, assume_finite=False):
            return read(*args, **options)
    except MemoryError:
        raise
    except Exception as error:
        instead = on_error(error)
    # Outside the handler, so that the error with the cells is not chained to this one.
    raise instead


def same_kind(error, text):
    """A TypeError or ValueError with a text."""
    return (TypeError if isinstance(error, TypeError) else ValueError)(text)


def reraise_if_safe(text):
    """Function for `sanitize_errors`: a ValueError with a text, unless a message can hold no cell."""

    def on_error(error):
        harmless = _HARMLESS.fullmatch(str(error))
        return same_kind(error, str(error)) if harmless else ValueError(text)

    return on_error


def doubles(values):
    """Numbers as a contiguous array of doubles.

    Raises
    ------
    TypeError, ValueError
        If they are text, complex numbers, dates or durations, which NumPy would turn into numbers; or none.
    """
    array = np.asarray(values)
    if array.dtype.kind in "SUTMmc" or holds_dates(array) or _holds_others(array):
        raise TypeError("no real numbers")
    return np.ascontiguousarray(array, dtype=np.float64)


def refuse_fractions(numbers, name):
    """Raise a ValueError if finite numbers are not whole, but for rounding."""
    if np.any(np.abs(numbers - np.rint(numbers)) > 1e-9 * np.maximum(1.0, np.abs(numbers))):
        raise ValueError(
            f"{name} must hold counts, which are whole numbers, and holds fractions. If these are rates, "
            "pass the counts themselves, and exposure=... for what they were divided by; if counts were "
            "computed, round them."
        )


def _holds_others(array):
    """Whether an array of objects holds text or complex numbers, which NumPy would turn into numbers."""
    others = str | bytes | complex | np.complexfloating
    return array.dtype == object and any(isinstance(value, others) for value in array.flat)


def holds_dates(values):
    """Whether an array or nested list holds dates or durations, which NumPy would turn into numbers."""
    array = np.asarray(values)
    if array.dtype != object:
        return array.dtype.kind in "mM"
    return any(isinstance(value, np.datetime64 | np.timedelta64) for value in array.flat)
