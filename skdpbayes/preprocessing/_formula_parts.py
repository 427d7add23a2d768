"""The factors of a formula: what each makes of the columns of a single row, from what the formula declares.

    bounded(e, a, b) -> 2 (clip(e, a, b) - a) / (b - a) - 1,  0 if missing     one column within [-1, 1]
    C(g, levels)     -> (g = level_1, g = level_2, ...)                         at most a single 1
    bs(x, knots)     -> B-splines of clip(x, a, b), which add up to 1           rows of length at most 1
    missing(x)       -> 1 if x is missing                                       one column of 0 and 1

Only what is listed here is understood, and nothing here looks at other rows. Anything else is refused.
"""

import ast
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.interpolate import BSpline

from .._checks import is_number
from ._formula_rows import (
    FUNCTIONS,
    canonical,
    cells_of,
    columns_of,
    constants_are_finite,
    evaluate,
    missing_in,
    numbers_of,
    unknown_part,
)

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
        return columns_of(self.expression)

    @property
    def affine(self):
        half = 0.5 * (self.upper - self.lower)
        return [(self.name, 1.0 / half, -0.5 * (self.upper + self.lower) / half)]

    def values(self, table):
        found = np.asarray(evaluate(self.expression, table), dtype=np.float64)
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
        cells = cells_of(table, self.column)
        return np.column_stack([cells == canonical(level) for level in self.kept]).astype(float)


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
    """Return the error about a part of a formula; ``within`` tells whether it is one of bounded(...)."""
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
    """Return what to write instead of a part that is usual elsewhere, or None."""
    inside = tree.args[0] if isinstance(tree, ast.Call) and tree.args else tree
    functions = [one.func for one in ast.walk(tree) if isinstance(one, ast.Call)]
    names = [
        one.id
        for one in ast.walk(inside)
        if isinstance(one, ast.Name) and one not in functions and one.id not in ("np", "numpy")
    ]
    column = names[0] if names else "x"
    if any(isinstance(one, ast.BoolOp | ast.BitAnd | ast.BitOr) for one in ast.walk(tree)):
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
        whole = ast.unparse(inside if name == "I" else tree)
        return f"write bounded({whole}, low, high), with public bounds of what it is"
    if not within and isinstance(tree, ast.BinOp | ast.UnaryOp):
        return f"write bounded({ast.unparse(tree)}, low, high), with public bounds of what it is"
    return None


def _arguments(tree, text, required, optional=()):
    """Return {name: node} of the arguments of a call."""
    names = (*required, *optional)
    found = dict(zip(names, tree.args, strict=False))
    found |= {_SYNONYMS.get(one.arg, one.arg): one.value for one in tree.keywords}
    complete = set(required) <= set(found) <= set(names)
    if not complete or len(found) != len(tree.args) + len(tree.keywords):
        raise ValueError(
            f"{text} has other arguments than {_USES[tree.func.id]}: write it like this."
        )
    return found


def _literal(node, text):
    """Return what a part of a formula declares: numbers, which may be arithmetic, or text."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        pass
    if unknown_part(node) is None and not columns_of(node) and constants_are_finite(node):
        return evaluate(node, None)
    leaks = any(isinstance(one, ast.Call | ast.Name) for one in ast.walk(node))
    raise ValueError(
        f"{text}: what is declared must be written as finite numbers or text"
        + (", since what is computed from rows would leak." if leaks else ".")
    )


def _ordered(values, text):
    """Return numbers, or raise a ValueError unless they are finite and ascending."""
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


def checked_bounds(pair, text):
    """Return (low, high), or raise a ValueError."""
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise ValueError(f"{text}: bounds are a pair (low, high).")
    return tuple(_ordered(pair, text))


def checked_levels(given, text, reference=None):
    """Return (levels, reference), or raise a ValueError."""
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
    known = [canonical(level) for level in given]
    if not known or len(set(known)) != len(known) or "" in known:
        raise ValueError(f"{text}: levels must be a list of different ones, of text or numbers.")
    if len(set(map(_shown, given))) != len(given):
        raise ValueError(f"{text}: levels must look different, as 1 and '1' do not: rename one.")
    if reference is not None and (reference not in given or len(given) < 2):
        raise ValueError(f"{text}: reference={reference!r} must be one of several levels.")
    return given, reference


def _bounded(tree, text, bounds, levels):
    found = _arguments(tree, text, ("x", "lower", "upper"))
    ends = [_literal(found[end], text) for end in ("lower", "upper")]
    if (part := unknown_part(found["x"])) is not None:
        raise _unknown(part, text, within=True)
    if not columns_of(found["x"]):
        raise ValueError(f"{text} names no column.")
    if not constants_are_finite(found["x"]):
        raise ValueError(f"{text} has a constant that is no finite number, such as 1 / 0.")
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
    if isinstance(found["levels"], ast.Name | ast.Attribute | ast.Call):
        raise ValueError(
            f"{text}: levels must be written as a list, and what they are compared with as a reference: "
            f"C({name}, levels=['a', 'b'], reference='a')."
        )
    reference = _literal(found["reference"], text) if "reference" in found else None
    return Levels(name, *checked_levels(_literal(found["levels"], text), text, reference))


def _spline(tree, text, bounds, levels):
    names = [one.arg for one in tree.keywords]
    if "knots" not in names or "bounds" not in names:
        raise _unknown(tree, text)
    found = _arguments(tree, text, ("x", "knots", "bounds"), ("degree",))
    lower, upper = checked_bounds(_literal(found["bounds"], text), text)
    knots = _literal(found["knots"], text)
    if not isinstance(knots, list | tuple):
        raise ValueError(f"{text}: knots must be a list of numbers.")
    knots = tuple(knots)
    _ordered([lower, *knots, upper], text)
    degree = _literal(found["degree"], text) if "degree" in found else 3
    if not isinstance(degree, int) or not 1 <= degree <= 5:
        raise ValueError(f"{text}: degree must be a whole number from 1 to 5.")
    return Spline(_name(found["x"], text), knots, lower, upper, degree)


def _missing(tree, text, bounds, levels):
    return Missing(_name(_arguments(tree, text, ("x",))["x"], text))


def _shown(level):
    return str(level) if isinstance(level, str) else repr(level)
