"""What formulas read from a table: arithmetic with numbers of single rows, and categories.

    evaluate(expression, table)_i = expression(row_i),      cells_of(table, name)_i = canonical(cell_i)

Nothing here looks at other rows, and no error quotes a cell.
"""

import ast
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from .._inputs import column_names, doubles, unquoted
from .._silence import silently
from .._tables.lists import column_cells, exact_number

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
    """Return a part of an expression that `evaluate` does not know, or None."""
    operands = _operands(node)
    if operands is None:
        return node
    return next((one for one in map(unknown_part, operands) if one is not None), None)


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
    if (compared := _compared(node)) is not None:
        return [compared[0], compared[2]] if type(compared[1]) in _OPERATORS else None
    return None


def _called(node):
    """Return the name of the function that a call is of, as in log(x) or np.log(x)."""
    function = node.func
    is_numpy = isinstance(function, ast.Attribute) and getattr(function.value, "id", None) in (
        "np",
        "numpy",
    )
    return function.attr if is_numpy else getattr(function, "id", None)


def columns_of(node):
    """Return the names of the columns in an expression, in their order."""
    if isinstance(node, ast.Name):
        return (node.id,)
    names = (name for one in _operands(node) or () for name in columns_of(one))
    return tuple(dict.fromkeys(names))


def constants_are_finite(node):
    """Tell whether all parts of an expression that read no column are finite numbers."""
    if columns_of(node):
        return all(map(constants_are_finite, _operands(node)))
    try:
        with silently():
            return bool(np.isfinite(evaluate(node, None)))
    except ArithmeticError:
        return False


def _compared(node):
    """Return (left, operator, right) of a comparison of two, or None."""
    match node:
        case ast.Compare(left, [operation], [right]):
            return left, operation, right
    return None


def evaluate(node, table):
    """Return the values of an expression that is known, in all rows."""
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
    """Return a column as numbers in double precision; missing ones are nan."""

    def told(error):
        return ValueError(
            f"column {name!r} must hold numbers: to turn marks such as '?' into NaN, use "
            "pandas.to_numeric(column, errors='coerce')."
        )

    def read(column):
        _refuse_times(column)
        # Whatever a type is called: truth values, say, are objects where one of them is missing.
        if np.asarray(column).dtype == object:
            column = [np.nan if _is_missing(value) else value for value in column]
        found = doubles(column)
        if found.ndim != 1:
            raise ValueError
        return found

    return unquoted(read, _column(table, name), told=told)


def cells_of(table, name):
    """Return a column as canonical text, the empty one where it is missing."""

    def told(error):
        return ValueError(f"column {name!r} must hold categories: text, numbers or truth values.")

    def read(column):
        _refuse_times(column)
        return np.array([canonical(value) for value in column_cells(table[name])], dtype=object)

    return unquoted(read, _column(table, name), told=told)


def missing_in(table, name):
    """Return where a column of any type is missing, of shape (n_rows,)."""

    def told(error):
        return ValueError(f"column {name!r} must hold text, numbers, truth values or dates.")

    def read(column):
        found = [not isinstance(value, str) and _is_missing(value) for value in column]
        return np.array(found, dtype=bool)

    return unquoted(read, _column(table, name), told=told)


def _refuse_times(column):
    """Raise a ValueError for a type of dates or durations, also if all of them are missing."""
    named = str(column.dtype).lower().startswith(("date", "time", "duration"))
    if named or np.asarray(column).dtype.kind in "mM":
        raise ValueError


def _is_missing(value):
    if isinstance(value, Decimal):
        return value.is_nan()
    return value is None or str(value) in ("<NA>", "NaT", "nan")


def canonical(value):
    """Return text that is the same for all spellings of a category, empty for a missing one."""
    if isinstance(value, str):
        return f"'{value}"
    if _is_missing(value):
        return ""
    return repr(exact_number(value))
