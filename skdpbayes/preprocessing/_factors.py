"""Factors of a formula: the columns that each makes of a single row, from what the formula declares.

    bounded(e, a, b) -> 2 (clip(e, a, b) - a) / (b - a) - 1                     one column within [-1, 1]
    C(g, levels)     -> (g = level_1, g = level_2, ...)                         at most a single 1
    bs(x, knots)     -> B-splines of clip(x, a, b), which add up to 1           rows of length at most 1
    missing(x)       -> 1 if x is missing                                       one column of 0 and 1

A missing number counts as a public one, by default the middle of its bounds; a missing category has no
indicator, so that it counts as the reference, if there is one.

Only what is listed here is understood, and anything else is refused. Nothing here looks at other rows, and no
error quotes a cell.
"""

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from scipy.interpolate import BSpline

from .._arguments import is_number
from .._data.columns import column_cells, column_precision, exact_number, in_precision
from .._errors import column_names, doubles, sanitize_errors, suppress_fp_warnings

# What formulas read from a table: arithmetic with numbers of single rows, and categories.
#
#     evaluate(expression, table)_i = expression(row_i),      cells_of(table, name)_i = canonical(cell_i)

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
    match node:
        case ast.Name():
            return []
        case ast.Constant(value) if type(value) in (int, float):
            return []
        case ast.Call(_, [operand], []) if _called(node) in FUNCTIONS:
            return [operand]
        case ast.UnaryOp(operation, operand) if type(operation) in _OPERATORS:
            return [operand]
        case ast.BinOp(left, operation, right) | ast.Compare(left, [operation], [right]):
            return [left, right] if type(operation) in _OPERATORS else None
    return None


def _called(node):
    """The name of the function that a call is of, as in log(x) or np.log(x)."""
    match node.func:
        case ast.Name(name) | ast.Attribute(ast.Name("np" | "numpy"), name):
            return name
    return None


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


def evaluate(node, table):
    """The values of an expression that is known, in all rows."""
    if isinstance(node, ast.Name):
        return numbers_of(table, node.id)
    if isinstance(node, ast.Constant):
        return float(ast.literal_eval(node))
    operands = [evaluate(operand, table) for operand in _operands(node)]
    match node:
        case ast.Call():
            return FUNCTIONS[_called(node)](*operands)
        case ast.Compare(_, [operation], _):
            unknown = np.logical_or(*map(np.isnan, operands))
            return np.where(unknown, np.nan, _OPERATORS[type(operation)](*operands))
    return _OPERATORS[type(node.op)](*operands)


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


# What is declared.


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

    @property
    def label(self) -> str:
        """The name that it has in a term."""
        return self.names[0]

    @property
    def written(self) -> str:
        """The text of a formula that declares it elsewhere, with dots for what is declared in place."""
        return self.label

    @property
    def spans_constant(self) -> bool:
        """Whether its columns add up to 1."""
        return False

    @property
    def counts_missing_as(self) -> str:
        """The value that a missing cell counts as, empty if it counts as none of the others."""
        return ""

    @property
    def needs_margin(self) -> str:
        """Why a term with this factor needs the same term without it, empty if it does not."""
        return ""

    @property
    def without_margin(self) -> str:
        """The factor to write instead where a formula is to have no such term."""
        return ""

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
    # What a missing number counts as; None is the middle.
    fill: float | None = None

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

    @property
    def written(self):
        return self.name if self.names == list(self.columns) else f"bounded({self.name}, ...)"

    @property
    def needs_margin(self):
        if self.lower + self.upper == 0:
            return ""
        middle = 0.5 * (self.lower + self.upper)
        return f"the column of {self.name} is 0 at the middle of its bounds, {middle:.10g}, and not at 0"

    @property
    def without_margin(self):
        largest = max(-self.lower, self.upper)
        return f"bounds around 0, bounded({self.name}, {-largest:.10g}, {largest:.10g})"

    def values(self, table):
        numbers = np.asarray(evaluate(self.expression, table), dtype=np.float64)
        numbers = np.broadcast_to(numbers, len(table))
        lower, upper = self.lower, self.upper
        scaled = (np.clip(numbers, lower, upper) - lower) / (upper - lower) * 2.0 - 1.0
        filled = 0.0 if self.fill is None else (self.fill - lower) / (upper - lower) * 2.0 - 1.0
        return np.clip(np.where(np.isnan(scaled), filled, scaled), -1.0, 1.0)[:, None]

    @property
    def counts_missing_as(self):
        return f"{0.5 * (self.lower + self.upper) if self.fill is None else self.fill:,.10g}"


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

    @property
    def label(self):
        return self.column

    @property
    def spans_constant(self):
        return self.reference is None

    @property
    def counts_missing_as(self):
        return "" if self.reference is None else repr(self.reference)

    @property
    def needs_margin(self):
        if self.reference is None:
            return ""
        return f"{self.reference!r}, the reference of {self.column}, has no column of its own"

    @property
    def without_margin(self):
        return f"C({self.column}, levels=[...]) without a reference"

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
    def label(self):
        return f"bs({self.column})"

    @property
    def written(self):
        return f"bs({self.column}, ...)"

    @property
    def spans_constant(self):
        return True

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
        return _declared_factor(text, bounds, levels)
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


def _declared_factor(name, bounds, levels):
    """The factor of a column whose bounds or levels are declared outside the formula."""
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
    arguments = _arguments(tree, text, ("x", "lower", "upper"), ("fill",))
    ends = [_literal(arguments[end], text) for end in ("lower", "upper")]
    if (part := unknown_part(arguments["x"])) is not None:
        raise _unknown(part, text, within=True)
    if not columns_of(arguments["x"]):
        raise ValueError(f"{text} names no column.")
    if not constants_are_finite(arguments["x"]):
        raise ValueError(f"{text} has a constant that is no finite number, such as 1 / 0.")
    lower, upper = bounds_of_call(ends, text)
    fill = _literal(arguments["fill"], text) if "fill" in arguments else None
    if fill is not None and not (is_number(fill) and lower <= fill <= upper):
        raise ValueError(f"{text}: fill must be a public number within the bounds.")
    return Bounded(arguments["x"], ast.unparse(arguments["x"]), lower, upper, fill)


def _levels(tree, text, bounds, levels):
    arguments = _arguments(tree, text, ("x",), ("levels", "reference"))
    name = _name(arguments["x"], text)
    if "levels" not in arguments:
        if name not in levels:
            raise ValueError(
                f"{text} has no levels: list them, as in C({name}, levels=['a', 'b']). What levels occur in "
                "the rows is private."
            )
        if "reference" in arguments:
            raise ValueError(
                f"{text}: a reference stands beside the levels, as in C({name}, levels=['a', 'b'], "
                "reference='a'), or not at all."
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
