"""Columns from a formula whose levels and bounds are public, so that nothing is learnt from the rows.

    columns of a term = products of one column of each of its factors,      |row|^2 <= number of terms

Each factor makes a row of length at most 1, so that their products do, too, and the terms beside each other
make one of length at most the square root of their number: a public ``data_norm``.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._arguments import is_number
from .._data.columns import (
    column_cells,
    column_precision,
    exact_number,
    in_precision,
    refuse_other_types,
)
from .._data.partitions import OutputByBlocks
from .._errors import column_names, doubles, sanitize_errors, suppress_fp_warnings, to_native
from .._typing import MatrixLike
from ..privacy.planned_release import Disclosure, StepDisclosure, as_json

# What formulas read from a table: arithmetic with numbers of single rows, and categories.
#
#     evaluate(expression, table)_i = expression(row_i),      cells_of(table, name)_i = canonical(cell_i)
#
# Nothing here looks at other rows, and no error quotes a cell.


_NAMES = "abs cbrt cos exp expm1 log log10 log1p log2 sin sqrt square tanh"
FUNCTIONS = {name: getattr(np, name) for name in _NAMES.split(" ")}
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: np.power,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}


def unknown_part(node):
    """A part of an expression that `evaluate` does not know, or None."""
    operands = _operands(node)
    if operands is None:
        return node
    return next((part for part in map(unknown_part, operands) if part is not None), None)


def _operands(node):
    """The operands of the outermost operation, or None if it is not known."""
    if isinstance(node, ast.Name):
        return []
    if isinstance(node, ast.Constant):
        return [] if type(node.value) in (int, float) else None
    if isinstance(node, ast.Call):
        known = _called(node) in FUNCTIONS and len(node.args) == 1 and not node.keywords
        return node.args if known else None
    if isinstance(node, ast.UnaryOp):
        return [node.operand] if type(node.op) in _OPERATORS else None
    if isinstance(node, ast.BinOp):
        return [node.left, node.right] if type(node.op) in _OPERATORS else None
    if (compared := _compared(node)) is not None:
        return [compared[0], compared[2]] if type(compared[1]) in _OPERATORS else None
    return None


def _called(node):
    """The name of the function that a call is of, as in log(x) or np.log(x)."""
    function = node.func
    is_numpy = isinstance(function, ast.Attribute) and getattr(function.value, "id", None) in (
        "np",
        "numpy",
    )
    return function.attr if is_numpy else getattr(function, "id", None)


def columns_of(node):
    """The names of the columns in an expression, in their order."""
    if isinstance(node, ast.Name):
        return (node.id,)
    names = (name for operand in _operands(node) or () for name in columns_of(operand))
    return tuple(dict.fromkeys(names))


def constants_are_finite(node):
    """Whether all parts of an expression that read no column are finite numbers."""
    if columns_of(node):
        return all(map(constants_are_finite, _operands(node)))
    try:
        with suppress_fp_warnings():
            return bool(np.isfinite(evaluate(node, None)))
    except ArithmeticError:
        return False


def _compared(node):
    """(left, operator, right) of a comparison of two, or None."""
    match node:
        case ast.Compare(left, [operation], [right]):
            return left, operation, right
    return None


def evaluate(node, table):
    """The values of an expression that is known, in all rows."""
    if isinstance(node, ast.Name):
        return numbers_of(table, node.id)
    if isinstance(node, ast.Constant):
        return float(ast.literal_eval(node))
    if isinstance(node, ast.Call):
        return FUNCTIONS[_called(node)](evaluate(node.args[0], table))
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](evaluate(node.operand, table))
    if (compared := _compared(node)) is not None:
        left, right = evaluate(compared[0], table), evaluate(compared[2], table)
        unknown = np.isnan(left) | np.isnan(right)
        return np.where(unknown, np.nan, _OPERATORS[type(compared[1])](left, right))
    left, right = evaluate(node.left, table), evaluate(node.right, table)
    return _OPERATORS[type(node.op)](left, right)


def _column(table, name):
    if name not in (column_names(table) or ()):
        raise ValueError(f"the table has no column {name!r}, which the formula names.")
    column = table[name]
    return column if hasattr(column, "dtype") else np.asarray(column)


def numbers_of(table, name):
    """A column as numbers in double precision; missing ones are nan."""

    def on_error(error):
        if isinstance(error, _TimesError):
            return ValueError(
                f"column {name!r} holds dates or durations: turn them into numbers first, such as days "
                "since a public date."
            )
        return ValueError(
            f"column {name!r} must hold numbers: to turn marks such as '?' into NaN, use "
            "pandas.to_numeric(column, errors='coerce')."
        )

    def read(column):
        _refuse_times(column)
        # Whatever a type is called: truth values, say, are objects where one of them is missing.
        if np.asarray(column).dtype == object:
            column = [np.nan if _is_missing(value) else value for value in column]
        numbers = doubles(column)
        if numbers.ndim != 1:
            raise ValueError
        return numbers

    return sanitize_errors(read, _column(table, name), on_error=on_error)


def cells_of(table, name):
    """A column as canonical text, the empty one where it is missing."""

    def on_error(error):
        return ValueError(f"column {name!r} must hold categories: text, numbers or truth values.")

    def read(column):
        _refuse_times(column)
        return np.array([category_text(value) for value in column_cells(table[name])], dtype=object)

    return sanitize_errors(read, _column(table, name), on_error=on_error)


def missing_in(table, name):
    """Mask of the missing values of a column of any type, of shape (n_rows,)."""

    def on_error(error):
        return ValueError(f"column {name!r} must hold text, numbers, truth values or dates.")

    def read(column):
        mask = [not isinstance(value, str) and _is_missing(value) for value in column]
        return np.array(mask, dtype=bool)

    return sanitize_errors(read, _column(table, name), on_error=on_error)


class _TimesError(ValueError):
    """A column holds dates or durations."""


def _refuse_times(column):
    """Raise an error for a type of dates or durations, also if all of them are missing."""
    named = str(column.dtype).lower().startswith(("date", "time", "duration"))
    if named or np.asarray(column).dtype.kind in "mM":
        raise _TimesError


def _is_missing(value):
    if isinstance(value, Decimal):
        return value.is_nan()
    return value is None or str(value) in ("<NA>", "NaT", "nan")


def category_text(value):
    """Text that is the same for all spellings of a category, empty for a missing one."""
    if isinstance(value, str):
        return f"'{value}"
    if _is_missing(value):
        return ""
    return repr(exact_number(value))


# The factors of a formula: what each makes of the columns of a single row, from what the formula
# declares.
#
#     bounded(e, a, b) -> 2 (clip(e, a, b) - a) / (b - a) - 1,  0 if missing     one column within [-1, 1]
#     C(g, levels)     -> (g = level_1, g = level_2, ...)                         at most a single 1
#     bs(x, knots)     -> B-splines of clip(x, a, b), which add up to 1           rows of length at most 1
#     missing(x)       -> 1 if x is missing                                       one column of 0 and 1
#
# Only what is listed here is understood, and nothing here looks at other rows. Anything else is
# refused.


# What formulas have in R, patsy, formulaic, bambi and brms, by what takes its place here.
_LEARNING = {
    "center",
    "cumsum",
    "cut",
    "diff",
    "hashed",
    "lag",
    "max",
    "mean",
    "median",
    "min",
    "ntile",
    "poly",
    "qcut",
    "quantile",
    "rank",
    "rescale",
    "scale",
    "sd",
    "shift",
    "standardize",
    "std",
    "zscore",
}
_SMOOTH = {"bs", "cc", "cr", "cs", "gp", "hsgp", "ns", "s", "spline", "t2", "te", "ti"}
_CATEGORICAL = {
    "Categorical",
    "Sum",
    "Treatment",
    "as_factor",
    "cat",
    "category",
    "dummies",
    "factor",
    "get_dummies",
    "mo",
    "one_hot",
    "relevel",
    "strata",
}
_MISSING = {"isna", "isnull", "is_na"}
_CONDITIONAL = {"case_when", "if_else", "ifelse", "np_where", "where"}
# Names of arguments elsewhere, in the documentation among others.
_SYNONYMS = {"low": "lower", "high": "upper", "ref": "reference"}
_USES = {
    "bounded": "bounded(x, low, high)",
    "C": "C(x, levels=['a', 'b'], reference='a')",
    "bs": "bs(x, knots=[...], bounds=(low, high), degree=3)",
    "missing": "missing(x)",
}


class Factor:
    """One factor of a term."""

    @property
    def names(self) -> list[str]:
        """Names of the columns that come out."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the table."""
        raise NotImplementedError

    @property
    def affine(self):
        """``(raw name, scale, shift)`` of each column that comes out; by default these are raw."""
        return [(name, 1.0, 0.0) for name in self.names]

    def values(self, table: Any) -> np.ndarray:
        """An array of shape (n_rows, n_columns), each row from the same row of a table."""
        raise NotImplementedError


@dataclass(frozen=True)
class Bounded(Factor):
    """A number between public bounds."""

    expression: ast.expr = field(compare=False)
    name: str
    lower: float
    upper: float

    @property
    def names(self):
        return [self.name]

    @property
    def columns(self):
        return columns_of(self.expression)

    @property
    def affine(self):
        half = 0.5 * (self.upper - self.lower)
        return [(self.name, 1.0 / half, -0.5 * (self.upper + self.lower) / half)]

    def values(self, table):
        numbers = np.asarray(evaluate(self.expression, table), dtype=np.float64)
        numbers = np.broadcast_to(numbers, len(table))
        lower, upper = self.lower, self.upper
        scaled = (np.clip(numbers, lower, upper) - lower) / (upper - lower) * 2.0 - 1.0
        return np.where(np.isnan(scaled), 0.0, np.clip(scaled, -1.0, 1.0))[:, None]


@dataclass(frozen=True)
class Levels(Factor):
    """Indicators of public levels; anything else has none of them."""

    column: str
    levels: tuple
    reference: Any = None

    @property
    def kept(self):
        return [level for level in self.levels if level != self.reference]

    @property
    def names(self):
        return [f"{self.column}[{_shown(level)}]" for level in self.kept]

    @property
    def columns(self):
        return (self.column,)

    def values(self, table):
        cells = cells_of(table, self.column)
        precision = column_precision(table, list(column_names(table)).index(self.column))
        texts = [category_text(in_precision(level, precision)) for level in self.kept]
        return np.column_stack([cells == text for text in texts]).astype(float)


@dataclass(frozen=True)
class Spline(Factor):
    """B-splines with public knots; a missing number has none of them."""

    column: str
    knots: tuple
    lower: float
    upper: float
    degree: int = 3

    @property
    def _all_knots(self):
        ends = [self.lower] * (self.degree + 1), [self.upper] * (self.degree + 1)
        return np.array([*ends[0], *self.knots, *ends[1]], dtype=np.float64)

    @property
    def names(self):
        return [f"bs({self.column})[{j}]" for j in range(len(self.knots) + self.degree + 1)]

    @property
    def columns(self):
        return (self.column,)

    def values(self, table):
        numbers = numbers_of(table, self.column)
        missing = np.isnan(numbers)
        inside = np.clip(np.where(missing, self.lower, numbers), self.lower, self.upper)
        basis = np.zeros((len(inside), len(self.names)))
        if len(inside):  # SciPy has no matrix of no rows.
            basis = BSpline.design_matrix(inside, self._all_knots, self.degree).toarray()
        basis[missing] = 0.0
        return basis


@dataclass(frozen=True)
class Missing(Factor):
    """An indicator of missing cells."""

    column: str

    @property
    def names(self):
        return [f"missing({self.column})"]

    @property
    def columns(self):
        return (self.column,)

    def values(self, table):
        return missing_in(table, self.column).astype(float)[:, None]


def factor_of(text, is_name, bounds, levels):
    """The `Factor` that a part of a formula stands for.

    Parameters
    ----------
    text : str
    is_name : bool
        Whether it is the name of a column, in whatever characters.
    bounds, levels : dict
        What is declared of columns by name, here and elsewhere in the formula.

    Raises
    ------
    ValueError
        If it is not one of those that look at single rows.
    """
    if is_name:
        return _of_name(text, bounds, levels)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(
            f"{text} is not understood. A column whose name is no word is declared outside the formula, by "
            "bounds={'my name': (low, high)} or levels={'my name': [...]}, and stands within backticks."
        ) from None
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        make = {"bounded": _bounded, "C": _levels, "bs": _spline, "missing": _missing}.get(
            tree.func.id
        )
        if make is not None:
            return make(tree, text, bounds, levels)
    raise _unknown(tree, text)


def _of_name(name, bounds, levels):
    if name in levels:
        return Levels(name, *levels[name])
    if name in bounds:
        return Bounded(ast.Name(name), name, *bounds[name])
    if not name.isidentifier():
        raise ValueError(
            f"{name} is neither bounded nor has it levels: declare it by bounds={{{name!r}: (low, high)}} or "
            f"levels={{{name!r}: [...]}}, with public ones."
        )
    raise ValueError(
        f"{name} is neither bounded nor has it levels: write bounded({name}, low, high) with public bounds, "
        f"or C({name}, levels=[...]) with public levels."
    )


def _unknown(tree, text, within=False):
    """The error about a part of a formula; ``within`` tells whether it is one of bounded(...)."""
    called = tree.func if isinstance(tree, ast.Call) else None
    name = getattr(called, "id", getattr(called, "attr", None))
    if name in _LEARNING | _SMOOTH:
        return ValueError(
            f"{text} learns from all rows, which would leak: declare public numbers instead, as in "
            "bounded(x, low, high) or bs(x, knots=[...], bounds=(low, high)), or learn bounds privately by "
            "a DPQuantileScaler in a private pipeline."
        )
    if (instead := _instead(tree, name, within)) is not None:
        return ValueError(f"{text} is not understood: {instead}.")
    return ValueError(
        f"{text} is not understood: a formula has bounded(x, low, high), C(x, levels=[...]), bs(x, "
        "knots=[...], bounds=(low, high)), missing(x), and names of columns that are declared so; their "
        "products by ':' and '*'. Within bounded(...) there may be arithmetic, comparisons and "
        f"{', '.join(sorted(FUNCTIONS))}."
    )


def _instead(tree, name, within):
    """The remedy for a part of a formula that is usual elsewhere, or None."""
    inside = tree.args[0] if isinstance(tree, ast.Call) and tree.args else tree
    functions = [call.func for call in ast.walk(tree) if isinstance(call, ast.Call)]
    names = [
        call.id
        for call in ast.walk(inside)
        if isinstance(call, ast.Name) and call not in functions and call.id not in ("np", "numpy")
    ]
    column = names[0] if names else "x"
    if any(isinstance(call, ast.BoolOp | ast.BitAnd | ast.BitOr) for call in ast.walk(tree)):
        return "comparisons are 0 or 1, so that 'and' is a product: (a > 0) * (b > 1)"
    if isinstance(tree, ast.Compare):
        return "of categories take C(x, levels=[...]), and of numbers compare by < or >, which is 0 or 1"
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.BitXor):
        return f"a power is written {ast.unparse(tree.left)} ** {ast.unparse(tree.right)}"
    if name in ("pow", "power"):
        return f"a power is written bounded({column} ** 2, low, high), with public bounds"
    if name in ("exposure", "offset"):
        return (
            "an exposure is no part of a formula, but of the fit, and not as a logarithm: "
            f"DPBayesianPoissonRegressor.from_formula(...).fit(table, model__exposure=table[{column!r}])"
        )
    if name == "weights":
        return f"weights are of the fit: fit(table, model__sample_weight=table[{column!r}])"
    if name in _CATEGORICAL:
        return f"write C({column}, levels=[...]), with public levels"
    if name in _MISSING:
        return f"write missing({column})"
    if name in _CONDITIONAL:
        return f"a comparison is 0 or 1: write bounded({column} > 5, 0, 1)"
    if name in ("clip", "pmax", "pmin"):
        return "bounded(x, low, high) clips by itself"
    if name == "ln":
        return f"write log({column})"
    if name == "Q":
        return (
            "a name that is no word stands within backticks, and is declared outside the formula, by "
            "bounds={'my name': (low, high)} or levels={'my name': [...]}"
        )
    if isinstance(tree, ast.Subscript) or (isinstance(tree, ast.Attribute) and names):
        return "name the column alone, as in bounded(age, 18, 90)"
    if within and name == "I":
        return f"leave out I(...): write {ast.unparse(inside)} as it is"
    if within and name in FUNCTIONS:
        return f"{name} takes one argument here, as in {name}({column})"
    if not within and (name == "I" or name in FUNCTIONS):
        text_of_part = ast.unparse(inside if name == "I" else tree)
        return f"write bounded({text_of_part}, low, high), with public bounds of what it is"
    if not within and isinstance(tree, ast.BinOp | ast.UnaryOp):
        return f"write bounded({ast.unparse(tree)}, low, high), with public bounds of what it is"
    return None


def _arguments(tree, text, required, optional=()):
    """{name: node} of the arguments of a call."""
    names = (*required, *optional)
    arguments = dict(zip(names, tree.args, strict=False))
    arguments |= {
        _SYNONYMS.get(keyword.arg, keyword.arg): keyword.value for keyword in tree.keywords
    }
    complete = set(required) <= set(arguments) <= set(names)
    if not complete or len(arguments) != len(tree.args) + len(tree.keywords):
        raise ValueError(
            f"{text} has other arguments than {_USES[tree.func.id]}: write it like this."
        )
    return arguments


def _literal(node, text):
    """The value that a part of a formula declares: numbers, which may be arithmetic, or text."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        pass
    if unknown_part(node) is None and not columns_of(node) and constants_are_finite(node):
        return evaluate(node, None)
    leaks = any(isinstance(part, ast.Call | ast.Name) for part in ast.walk(node))
    raise ValueError(
        f"{text}: what is declared must be written as finite numbers or text"
        + (", since what is computed from rows would leak." if leaks else ".")
    )


def _ordered(values, text):
    """Numbers; raises a ValueError unless they are finite and ascending."""
    numbers = [float(value) for value in values if is_number(value)]
    ascending = np.isfinite(numbers).all() and (np.diff(numbers) > 0).all()
    if len(numbers) != len(values) or not ascending:
        raise ValueError(
            f"{text}: bounds and knots must be finite numbers, each above the one before."
        )
    return numbers


def _name(node, text):
    if not isinstance(node, ast.Name):
        raise ValueError(f"{text}: the first argument must be the name of a column.")
    return node.id


def bounds_of_call(pair, text):
    """(low, high); raises a ValueError."""
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise ValueError(f"{text}: bounds are a pair (low, high).")
    return tuple(_ordered(pair, text))


def checked_levels(given, text, reference=None):
    """(levels, reference); raises a ValueError."""
    if isinstance(given, set | frozenset):
        raise ValueError(
            f"{text}: levels must be a list, whose order is that of the columns: a set has no order that "
            "other processes share."
        )
    if isinstance(given, np.ndarray):
        given = given.tolist() if given.ndim == 1 and given.dtype.kind not in "mM" else ()
    given = tuple(given) if isinstance(given, list | tuple) else ()
    # A scalar of NumPy's is shown by its type, which would be in the names of columns.
    given = tuple(one.item() if isinstance(one, np.generic) else one for one in given)
    known = [category_text(level) for level in given]
    if not known or len(set(known)) != len(known) or "" in known:
        raise ValueError(f"{text}: levels must be a list of different ones, of text or numbers.")
    if len(set(map(_shown, given))) != len(given):
        raise ValueError(f"{text}: levels must look different, as 1 and '1' do not: rename one.")
    if reference is not None and (reference not in given or len(given) < 2):
        raise ValueError(f"{text}: reference={reference!r} must be one of several levels.")
    return given, reference


def _bounded(tree, text, bounds, levels):
    arguments = _arguments(tree, text, ("x", "lower", "upper"))
    ends = [_literal(arguments[end], text) for end in ("lower", "upper")]
    if (part := unknown_part(arguments["x"])) is not None:
        raise _unknown(part, text, within=True)
    if not columns_of(arguments["x"]):
        raise ValueError(f"{text} names no column.")
    if not constants_are_finite(arguments["x"]):
        raise ValueError(f"{text} has a constant that is no finite number, such as 1 / 0.")
    return Bounded(arguments["x"], ast.unparse(arguments["x"]), *bounds_of_call(ends, text))


def _levels(tree, text, bounds, levels):
    arguments = _arguments(tree, text, ("x",), ("levels", "reference"))
    name = _name(arguments["x"], text)
    if "levels" not in arguments:
        if name not in levels:
            raise ValueError(
                f"{text} has no levels: list them, as in C({name}, levels=['a', 'b']). What levels occur in "
                "the rows is private."
            )
        return Levels(name, *levels[name])
    if isinstance(arguments["levels"], ast.Name | ast.Attribute | ast.Call):
        raise ValueError(
            f"{text}: levels must be written as a list, and what they are compared with as a reference: "
            f"C({name}, levels=['a', 'b'], reference='a')."
        )
    reference = _literal(arguments["reference"], text) if "reference" in arguments else None
    return Levels(name, *checked_levels(_literal(arguments["levels"], text), text, reference))


def _spline(tree, text, bounds, levels):
    names = [keyword.arg for keyword in tree.keywords]
    if "knots" not in names or "bounds" not in names:
        raise _unknown(tree, text)
    arguments = _arguments(tree, text, ("x", "knots", "bounds"), ("degree",))
    lower, upper = bounds_of_call(_literal(arguments["bounds"], text), text)
    knots = _literal(arguments["knots"], text)
    if not isinstance(knots, list | tuple):
        raise ValueError(f"{text}: knots must be a list of numbers.")
    knots = tuple(knots)
    _ordered([lower, *knots, upper], text)
    degree = _literal(arguments["degree"], text) if "degree" in arguments else 3
    if not isinstance(degree, int) or not 1 <= degree <= 5:
        raise ValueError(f"{text}: degree must be a whole number from 1 to 5.")
    return Spline(_name(arguments["x"], text), knots, lower, upper, degree)


def _missing(tree, text, bounds, levels):
    return Missing(_name(_arguments(tree, text, ("x",))["x"], text))


def _shown(level):
    return str(level) if isinstance(level, str) else repr(level)


_RESPONSE = (
    "the response must be the name of one column. Make a column of what it is computed from, such as "
    "table['answer'] = table['text'] == 'Yes'; a classifier takes text as it is, with "
    "classes=['No', 'Yes'], and counts out of several trials have a row for each trial."
)
_NO_BARS = (
    "'|' has no meaning here. Levels of a group are a column, C(group, levels=[...]), whose coefficients the "
    "prior shrinks; counts out of several trials have a row for each trial."
)
# What is meant by what formulaic refuses, by a pattern of the formula.
_REMEDIES = (
    (
        r"(?<![\w.])\.(?![\w.])",
        "'.' stands for all columns, and a formula declares each: list them with public bounds or levels, "
        "such as bounded(age, 18, 90) + C(region, levels=['north', 'south']).",
    ),
    (r"\|", _NO_BARS),
    (r"[=<>]=?[^~]*~", _RESPONSE),
    (r"\bas\.factor\(", "write C(x, levels=[...]), with public levels."),
    (r"\bis\.na\(", "write missing(x)."),
    (r"\b(?:bounded|C|bs|missing)\s+\(", "no space stands before the parenthesis of a function."),
    (r"[,)]\s*weights\b", "weights are of the fit: fit(table, model__sample_weight=...)."),
    (
        r"^[^~]*(?:<-|(?<![=<>!])=)[^=~]*$",
        "a response stands before '~', as in 'y ~ bounded(age, 18, 90)'.",
    ),
    (r"\$", "name the column alone, as in bounded(age, 18, 90)."),
    (
        r"~(?:[^()]|\([^()]*\))*?[<>=!]",
        "a comparison stands within bounded(...), as in bounded(age > 65, 0, 1); of categories take "
        "C(x, levels=[...]).",
    ),
    (
        r"~\s*([\"'])|(?<![\w,)\]])\s*\b[A-Za-z_]\w*\s+[A-Za-z_]\w*",
        "a name that is no word stands within backticks, without quotes, and is declared outside the "
        "formula, by bounds={'my name': (low, high)} or levels={'my name': [...]}.",
    ),
)


class FormulaEncoder(OutputByBlocks, TransformerMixin, BaseEstimator):
    """Make columns by a formula with declared levels and bounds; this spends no budget.

    Requires the extra ``formulas``. The formula is read by formulaic, and its parts by this class, which
    knows only functions of single rows:

    ``bounded(x, low, high)``
        A number, clipped to public bounds and scaled to [-1, 1]. ``x`` is a column, or arithmetic with
        columns, comparisons and functions such as ``log``. A missing number is in the middle.
    ``C(x, levels=[...])``
        An indicator for each public level. Any other category, and a missing one, is a row of zeros. With
        ``reference=level`` that level has no indicator: others are compared with it, and unknown
        categories count as it.
    ``bs(x, knots=[...], bounds=(low, high), degree=3)``
        B-splines with public knots.
    ``missing(x)``
        Whether a cell is missing.

    Once a column is declared, anywhere in the formula or by ``bounds`` or ``levels``, its name alone stands
    for it, as in ``age:income``. Terms are joined by ``+``, ``-``, ``:``, ``*`` and ``**``. What looks at
    other rows, such as ``scale(x)`` or ``bs(x, df=4)``, is refused, and so is what is not known.

    Parameters
    ----------
    formula : str
        Such as ``"C(region, levels=['north', 'south']) + bounded(age, 18, 90)"``. A response before ``~`` is
        left out.
    bounds : mapping of str to (float, float), default=None
        Public bounds of columns that are named in the formula.
    levels : mapping of str to sequence, default=None
        Public levels of columns that are named in the formula.

    Attributes
    ----------
    norm : float
        Length of the longest row that can come out, a public number: a ``data_norm`` for the next step.
    n_features_in_ : int
        Number of columns that the formula reads.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names. Other columns of a table are not read.

    See Also
    --------
    skdpbayes.linear_model.DPBayesianLogisticRegression.from_formula : A model of a formula.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpbayes.preprocessing import FormulaEncoder
    >>> table = pd.DataFrame({"age": [18.0, 54.0], "region": ["north", "elsewhere"]})
    >>> encoder = FormulaEncoder("bounded(age, 18, 90) * C(region, levels=['north', 'south'])")
    >>> encoder.set_output(transform="pandas").fit_transform(table).T
                         0    1
    age               -1.0  0.0
    region[north]      1.0  0.0
    region[south]      0.0  0.0
    age:region[north] -1.0  0.0
    age:region[south] -0.0  0.0
    """

    def __init__(
        self,
        formula: str,
        *,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        levels: Mapping[str, Sequence[Any]] | None = None,
    ):
        self.formula = formula
        self.bounds = bounds
        self.levels = levels

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        tags.input_tags.two_d_array = False
        return tags

    @property
    def norm(self) -> float:
        """Length of the longest row that can come out."""
        return math.sqrt(len(self._terms()))

    @property
    def columns(self) -> list[str]:
        """Names of the columns that the formula reads, in their order."""
        return list(
            dict.fromkeys(
                name for term in self._terms() for factor in term for name in factor.columns
            )
        )

    @property
    def n_columns(self) -> int:
        """Number of columns that come out."""
        return len(self._names())

    def _about(self):
        facts = [Disclosure("formula", str(self.formula), "declared")]
        facts += [
            Disclosure("range", as_json(interval), "declared", str(name))
            for name, interval in _items(self.bounds, "bounds")
        ]
        facts += [
            Disclosure("categories", as_json(list(interval)), "declared", str(name))
            for name, interval in _items(self.levels, "levels")
        ]
        return StepDisclosure(tuple(facts))

    def _terms(self):
        """The terms, each a tuple of factors, without the constant."""
        parts = parsed(self.formula)[1]
        bounds = {
            name: bounds_of_call(interval, f"bounds of {name}")
            for name, interval in _items(self.bounds, "bounds")
        }
        levels = {
            name: checked_levels(interval, f"levels of {name}")
            for name, interval in _items(self.levels, "levels")
        }
        given = [*bounds, *levels]
        texts = dict.fromkeys(factor for term in parts for factor in term)
        declared = [
            factor_of(text, False, bounds, levels) for text, is_name in texts if not is_name
        ]
        for factor in declared:
            if isinstance(factor, Levels):
                _declare(levels, factor.column, (factor.levels, factor.reference))
            elif hasattr(factor, "lower") and factor.names == list(factor.columns):
                _declare(bounds, factor.names[0], (factor.lower, factor.upper))
        terms: dict[frozenset[str], tuple[Factor, ...]] = {}
        known: dict[str, Factor] = {}
        for term in parts:
            found = [factor_of(text, is_name, bounds, levels) for text, is_name in term]
            factors = {factor.names[0]: factor for factor in found}
            for name, factor in factors.items():
                _declare(known, name, factor)
            terms.setdefault(frozenset(factors), tuple(factors.values()))
        if not terms:
            raise ValueError(f"formula={self.formula!r} has no term but the constant.")
        read = {name for term in terms.values() for interval in term for name in interval.columns}
        if unused := [name for name in given if name not in read]:
            raise ValueError(f"bounds or levels declare {unused}, which the formula does not name.")
        return list(terms.values())

    def _names(self):
        return [
            ":".join(names)
            for term in self._terms()
            for names in product(*(factor.names for factor in term))
        ]

    def fit(self, X: MatrixLike, y: Any = None) -> Self:
        """Check that the table has the columns; nothing is learnt from the rows.

        Parameters
        ----------
        X : data frame of shape (n_samples, n_columns)
            Of pandas, polars or Dask.
        y : ignored

        Returns
        -------
        self : FormulaEncoder

        Raises
        ------
        ImportError
            If formulaic is not installed.
        ValueError, TypeError
            If the formula is not understood, if the table is no frame with its columns, or if a level is of
            another type than its column.
        """
        X, read = to_native(X, "X"), self.columns
        _check_columns(X, read)
        _check_levels(self._terms(), X)
        self.feature_names_in_ = np.asarray(read, dtype=object)
        self.n_features_in_ = len(read)
        return self

    def transform(self, X: MatrixLike) -> MatrixLike:
        """Make the columns of the formula.

        Parameters
        ----------
        X : data frame of shape (n_samples, n_columns)

        Returns
        -------
        X : ndarray of shape (n_samples, n_columns)
        """
        check_is_fitted(self)
        _check_columns(X, self.feature_names_in_)
        terms = self._terms()
        _check_levels(terms, X, wholly=True)
        factors = {factor.names[0]: factor for term in terms for factor in term}
        values = {name: factor.values(X) for name, factor in factors.items()}
        return np.hstack([reduce(_products, (values[f.names[0]] for f in term)) for term in terms])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """The names of the columns, such as ``age``, ``region[north]`` and ``age:region[north]``.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        return np.asarray(self._names(), dtype=object)

    def _affine(self):
        """(A, c, names) with columns ``A x + c``, for products of raw columns ``x``."""
        rows = []
        for term in self._terms():
            for parts in product(*(factor.affine for factor in term)):
                # Products of (scale raw + shift), a power of two of them.
                row: dict[tuple[str, ...], float] = {(): 1.0}
                for name, scale, shift in parts:
                    row = {
                        key: weight
                        for names, slope in row.items()
                        for key, weight in (((*names, name), slope * scale), (names, slope * shift))
                    }
                rows.append({":".join(names): weight for names, weight in row.items() if weight})
        names = tuple(dict.fromkeys(name for row in rows for name in row if name))
        matrix = np.array([[row.get(name, 0.0) for name in names] for row in rows])
        return matrix, np.array([row.get("", 0.0) for row in rows]), names


def parsed(formula):
    """(name of the response or None, terms, whether there is a constant).

    Terms are tuples of ``(text, whether it is a name)``.

    Raises
    ------
    ImportError
        If formulaic is not installed.
    ValueError
        If the formula is not one.
    """
    try:
        from formulaic import Formula
        from formulaic.errors import FormulaicError
    except ImportError as error:
        raise ImportError(
            "formulas require formulaic: pip install 'skdpbayes[formulas]'"
        ) from error
    if not isinstance(formula, str):
        raise TypeError(f"formula must be a str, got {type(formula).__name__}.")
    try:
        formula_sides = Formula(formula)
    except (FormulaicError, SyntaxError) as error:
        # Errors of formulaic are coloured for terminals, and mark what they are about by brackets.
        remedy = re.sub(r"\x1b\[[0-9;]*m|\s*\n.*", "", str(error), flags=re.DOTALL)
        if remedy.startswith("Numeric literals"):
            remedy = "a number is no term, and scales none: a constant is 1, or 0 for none."
        remedy = next(
            (known for pattern, known in _REMEDIES if re.search(pattern, formula)), remedy
        )
        raise ValueError(f"formula={formula!r} is not understood: {remedy}") from None
    sides = [getattr(formula_sides, "lhs", None), getattr(formula_sides, "rhs", formula_sides)]
    if any(isinstance(side, tuple) for side in sides):
        raise ValueError(f"formula={formula!r} is not understood: {_NO_BARS}")
    terms = [tuple(map(_text, term.factors)) for term in sides[1]]
    constant = (("1", False),)
    return (
        _response(sides[0], formula),
        [term for term in terms if term != constant],
        constant in terms,
    )


def _text(factor):
    return str(factor.expr), factor.eval_method.value == "lookup"


def _response(side, formula):
    if side is None:
        return None
    parts = [_text(factor) for term in side for factor in term.factors]
    if len(parts) != 1 or not parts[0][1]:
        raise ValueError(f"formula={formula!r}: {_RESPONSE}")
    return parts[0][0]


def _items(given, name):
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a dict of names of columns, got {type(given).__name__}.")
    return () if given is None else given.items()


def _declare(known, name, what):
    if known.setdefault(name, what) != what:
        raise ValueError(f"{name} is declared twice, in different ways.")


def _check_columns(X, names):
    columns = column_names(X)
    if columns is None:
        raise TypeError("a formula needs a data frame, whose columns have names.")
    if missing := [name for name in names if name not in columns]:
        raise ValueError(f"X has no columns {missing}, which the formula names.")
    if repeated := [name for name in names if columns.count(name) > 1]:
        raise ValueError(f"X has several columns named {repeated}.")


def _check_levels(terms, X, *, wholly=False):
    lists = {f.column: f.levels for term in terms for f in term if isinstance(f, Levels)}
    refuse_other_types(list(lists.values()), X, "levels", list(lists), wholly=wholly)


def _products(left, right):
    """Products of all pairs of columns, row by row."""
    return (left[:, :, None] * right[:, None, :]).reshape(len(left), left.shape[1] * right.shape[1])
