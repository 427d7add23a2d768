"""The factors of a formula: what each makes of the columns of a single row, from what the formula declares.

    bounded(e, a, b) -> 2 (clip(e, a, b) - a) / (b - a) - 1,  0 if missing     one column within [-1, 1]
    C(g, levels)     -> (g = level_1, g = level_2, ...)                         at most a single 1
    bs(x, knots)     -> B-splines of clip(x, a, b), which add up to 1           rows of length at most 1
    missing(x)       -> 1 if x is missing                                       one column of 0 and 1

Only what is listed here is understood, and nothing here looks at other rows. Anything else is refused.
"""

import ast
import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.interpolate import BSpline

from .._inputs import doubles, unquoted

_NAMES = "abs cbrt cos exp expm1 log log10 log1p log2 sin sqrt square tanh"
FUNCTIONS = {name: getattr(np, name) for name in _NAMES.split(" ")}
_OPERATORS = {
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
# Functions of other packages for formulas, which look at all rows.
_LEARNING = {
    "bs",
    "cc",
    "center",
    "cr",
    "cs",
    "hashed",
    "lag",
    "poly",
    "scale",
    "standardize",
    "te",
}


class Factor:
    """One factor; ``names`` are those of its columns, and ``columns`` those of the table that it reads.

    ``affine`` has ``(raw name, scale, shift)`` for each of its columns, as functions of what is raw.
    """

    names: list[str]
    columns: tuple[str, ...]

    @property
    def affine(self):
        """By default, what the factor makes is raw."""
        return [(name, 1.0, 0.0) for name in self.names]

    def values(self, table: Any) -> np.ndarray:
        """Return an array of shape (n_rows, n_columns), each row from the same row of a table."""
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
        return _columns_of(self.expression)

    @property
    def affine(self):
        half = 0.5 * (self.upper - self.lower)
        return [(self.name, 1.0 / half, -0.5 * (self.upper + self.lower) / half)]

    def values(self, table):
        found = np.asarray(_evaluate(self.expression, table), dtype=np.float64)
        found = np.broadcast_to(found, len(table))
        lower, upper = self.lower, self.upper
        scaled = (np.clip(found, lower, upper) - lower) / (upper - lower) * 2.0 - 1.0
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
        cells = _cells(table, self.column)
        return np.column_stack([cells == _canonical(level) for level in self.kept]).astype(float)


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
        numbers = _numbers(table, self.column)
        missing = np.isnan(numbers)
        inside = np.clip(np.where(missing, self.lower, numbers), self.lower, self.upper)
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
        return (_cells(table, self.column) == "").astype(float)[:, None]


def factor_of(text, is_name, bounds, levels):
    """Return the `Factor` that a part of a formula stands for.

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
    tree = ast.parse(text.strip(), mode="eval").body
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
    raise ValueError(
        f"{name} is neither bounded nor has it levels: write bounded({name}, low, high) with public bounds, "
        f"or C({name}, levels=[...]) with public levels."
    )


def _unknown(tree, text):
    called = tree.func if isinstance(tree, ast.Call) else None
    name = getattr(called, "id", getattr(called, "attr", None))
    if name in _LEARNING:
        return ValueError(
            f"{text} learns from all rows, which would leak: declare public numbers instead, as in "
            "bounded(x, low, high) or bs(x, knots=[...], bounds=(low, high)), or learn bounds privately by "
            "a DPQuantileScaler in a private pipeline."
        )
    return ValueError(
        f"{text} is not understood: a formula has bounded(x, low, high), C(x, levels=[...]), bs(x, "
        "knots=[...], bounds=(low, high)), missing(x), and names of columns that are declared so; their "
        "products by ':' and '*'. Within bounded(...) there may be arithmetic, comparisons and "
        f"{', '.join(sorted(FUNCTIONS))}."
    )


def _arguments(tree, text, required, optional=()):
    """Return {name: node} of the arguments of a call."""
    names = (*required, *optional)
    found = dict(zip(names, tree.args, strict=False))
    found |= {one.arg: one.value for one in tree.keywords}
    complete = set(required) <= set(found) <= set(names)
    if not complete or len(found) != len(tree.args) + len(tree.keywords):
        raise ValueError(
            f"{text} needs the arguments {list(required)}, and may have {list(optional)}."
        )
    return found


def _literal(node, text):
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(f"{text}: what is declared must be written as numbers or text.") from None


def _ordered(values, text):
    """Return numbers, or raise a ValueError unless they are finite and ascending."""
    try:
        numbers = [float(value) for value in values if not isinstance(value, bool | str)]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != len(values) or not (
        np.isfinite(numbers).all() and (np.diff(numbers) > 0).all()
    ):
        raise ValueError(
            f"{text}: bounds and knots must be finite numbers, each above the one before."
        )
    return numbers


def _name(node, text):
    if not isinstance(node, ast.Name):
        raise ValueError(f"{text}: the first argument must be the name of a column.")
    return node.id


def checked_bounds(pair, text):
    """Return (low, high), or raise a ValueError."""
    if len(pair) != 2:
        raise ValueError(f"{text}: bounds are a pair (low, high).")
    return tuple(_ordered(pair, text))


def checked_levels(given, text, reference=None):
    """Return (levels, reference), or raise a ValueError."""
    given = tuple(given) if isinstance(given, list | tuple | set | np.ndarray) else ()
    known = [_canonical(level) for level in given]
    if not known or len(set(known)) != len(known) or "" in known:
        raise ValueError(f"{text}: levels must be a list of different ones, of text or numbers.")
    if reference is not None and (reference not in given or len(given) < 2):
        raise ValueError(f"{text}: reference={reference!r} must be one of several levels.")
    return given, reference


def _bounded(tree, text, bounds, levels):
    found = _arguments(tree, text, ("x", "lower", "upper"))
    ends = [_literal(found[end], text) for end in ("lower", "upper")]
    _check_expression(found["x"], text)
    if not _columns_of(found["x"]):
        raise ValueError(f"{text} names no column.")
    return Bounded(found["x"], ast.unparse(found["x"]), *checked_bounds(ends, text))


def _levels(tree, text, bounds, levels):
    found = _arguments(tree, text, ("x",), ("levels", "reference"))
    name = _name(found["x"], text)
    if "levels" not in found:
        if name not in levels:
            raise ValueError(
                f"{text} has no levels: list them, as in C({name}, levels=['a', 'b']). What levels occur in "
                "the rows is private."
            )
        return Levels(name, *levels[name])
    reference = _literal(found["reference"], text) if "reference" in found else None
    return Levels(name, *checked_levels(_literal(found["levels"], text), text, reference))


def _spline(tree, text, bounds, levels):
    names = [one.arg for one in tree.keywords]
    if "knots" not in names or "bounds" not in names:
        raise _unknown(tree, text)
    found = _arguments(tree, text, ("x", "knots", "bounds"), ("degree",))
    lower, upper = checked_bounds(_literal(found["bounds"], text), text)
    knots = tuple(_literal(found["knots"], text))
    _ordered([lower, *knots, upper], text)
    degree = _literal(found["degree"], text) if "degree" in found else 3
    if not isinstance(degree, int) or not 1 <= degree <= 5:
        raise ValueError(f"{text}: degree must be a whole number from 1 to 5.")
    return Spline(_name(found["x"], text), knots, lower, upper, degree)


def _missing(tree, text, bounds, levels):
    return Missing(_name(_arguments(tree, text, ("x",))["x"], text))


def _check_expression(node, text):
    """Raise a ValueError unless `_evaluate` knows an expression, which looks at single rows."""
    operands = _operands(node)
    if operands is None:
        raise _unknown(node, text)
    for one in operands:
        _check_expression(one, text)


def _operands(node):
    """Return the operands of the outermost operation, or None if it is not known."""
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
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
        return [node.left, *node.comparators]
    return None


def _called(node):
    """Return the name of the function that a call is of, as in log(x) or np.log(x)."""
    function = node.func
    is_numpy = isinstance(function, ast.Attribute) and getattr(function.value, "id", None) in (
        "np",
        "numpy",
    )
    return function.attr if is_numpy else getattr(function, "id", None)


def _columns_of(node):
    """Return the names of the columns in an expression, in their order."""
    if isinstance(node, ast.Name):
        return (node.id,)
    return tuple(dict.fromkeys(name for one in _operands(node) for name in _columns_of(one)))


def _evaluate(node, table):
    if isinstance(node, ast.Name):
        return _numbers(table, node.id)
    if isinstance(node, ast.Constant):
        return float(node.value)
    if isinstance(node, ast.Call):
        return FUNCTIONS[_called(node)](_evaluate(node.args[0], table))
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_evaluate(node.operand, table))
    if isinstance(node, ast.Compare):
        left, right = _evaluate(node.left, table), _evaluate(node.comparators[0], table)
        unknown = np.isnan(left) | np.isnan(right)
        return np.where(unknown, np.nan, _OPERATORS[type(node.ops[0])](left, right))
    left, right = _evaluate(node.left, table), _evaluate(node.right, table)
    return _OPERATORS[type(node.op)](left, right)


def _column(table, name):
    if name not in table.columns:
        raise ValueError(f"the table has no column {name!r}, which the formula names.")
    return table[name]


def _numbers(table, name):
    """Return a column as numbers in double precision; missing ones are nan."""

    def told(error):
        return ValueError(
            f"column {name!r} must hold numbers: to turn marks such as '?' into NaN, use "
            "pandas.to_numeric(column, errors='coerce')."
        )

    def read(column):
        if column.dtype == object or str(column.dtype).startswith(("Int", "Float", "boolean")):
            column = [np.nan if _is_missing(value) else value for value in column]
        found = doubles(column)
        if found.ndim != 1:
            raise ValueError
        return found

    return unquoted(read, _column(table, name), told=told)


def _cells(table, name):
    """Return a column as canonical text, the empty one where it is missing."""

    def told(error):
        return ValueError(f"column {name!r} must hold categories: text, numbers or truth values.")

    def read(column):
        return np.array([_canonical(value) for value in column], dtype=object)

    return unquoted(read, _column(table, name), told=told)


def _is_missing(value):
    return value is None or str(value) in ("<NA>", "NaT", "nan")


def _canonical(value):
    """Return text that is the same for all spellings of a category, empty for a missing one."""
    if isinstance(value, str):
        return f"'{value}"
    if _is_missing(value):
        return ""
    return repr(float(value) + 0.0)


def _shown(level):
    return level if isinstance(level, str) else repr(level)
