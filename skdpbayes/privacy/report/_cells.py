"""Cells of a report's tables: numbers in a few digits, and lists that are cut where they are long."""

from decimal import ROUND_CEILING, Context

MOST_ROWS = 200
_MOST_BOUNDS = 12
_MOST_NAMES = 6
_MOST_VALUES = 12
_LONGEST = 300
_ROLES = {
    "charged": "yes",
    "within": "paid for, within the search",
    "free": "free",
    "vouched": "free, vouched for",
    "unproven": "NOT COVERED",
}
_SOURCES = {
    "declared": "declared as public",
    "learnt": "learnt with noise, paid for",
    "default": "default of the program",
    "steps": "public, from the steps before",
    "labels": "read off the table without noise",
}


def number(value, digits=4):
    """Return a number as text, never rounded down; None, which stands for infinite ones, is "none"."""
    if value is None:
        return "none"
    above = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(value)))
    return f"{float(above):.{digits}g}"


def named(place, step):
    """Return the number of a step and its class, as tables call it."""
    return f"{place}. {step['kind'] or step['name']}"


def step_rows(steps, rows):
    """Yield a row for each step; ``rows`` says what numbers of rows are."""
    for place, step in enumerate(steps[:MOST_ROWS], 1):
        charged = step["role"] == "charged"
        known = step["delta"] is not None
        limited = step["epsilon"] is not None or not (charged and known)
        lines = [named(place, step), step["does"], _place(step), step["note"]]
        yield (
            "\n".join(filter(None, lines)),
            _ROLES[step["role"]] if limited else "NO LIMIT",
            share_text(step["share"]) if charged else "",
            number(step["epsilon"]) if charged and known else "",
            _reads(step, rows),
        )
    if len(steps) > MOST_ROWS:
        more = f"and {len(steps) - MOST_ROWS:,} more, which are in the JSON record"
        yield (more, "", "", "", "")


def _place(step):
    """Return the name of a step in its pipeline, if its class does not say it."""
    plain = step["name"].lower() in step["kind"].lower()
    return "" if plain else f"called {_cut(step['name'])}"


def share_text(share):
    """Return a share in percent."""
    return "" if share is None else f"{100 * share:.1f} %"


def _reads(step, rows):
    number = ""
    if step["rows"] is not None:
        number = f"{step['rows']:,} {rows.get('counts', 'rows')}"
        if rows.get("at_most"):
            number = f"at most {number} (planned)"
    return "\n".join(filter(None, [number, columns_text(step["columns"])]))


def columns_text(columns):
    """Return how many columns a step reads, and the first of their names."""
    if columns is None:
        return ""
    count, names = columns["number"], columns["names"]
    plural = "" if count == 1 else "s"
    text = f"{count:,} column{plural}"
    return text if not names else f"{text}: {_some(names, _MOST_NAMES)}"


def _some(values, most):
    shown = ", ".join(_cut(_value_text(one)) for one in values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most:,} more"


def _cut(text):
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def bound_rows(steps):
    """Yield a row for each bound, and how many of a step's are not shown."""
    for place, step in enumerate(steps[:MOST_ROWS], 1):
        bounds, name = step["bounds"], named(place, step)
        for count, bound in enumerate(bounds[:_MOST_BOUNDS]):
            column = "" if bound["column"] is None else f" of {_cut(bound['column'])}"
            yield (
                name if count == 0 else "",
                f"{bound['what']}{column}",
                _bound_text(bound),
                _SOURCES[bound["source"]],
            )
        if len(bounds) > _MOST_BOUNDS:
            more = f"and {len(bounds) - _MOST_BOUNDS:,} more, which are in the JSON record"
            yield ("", more, "", "")


def _bound_text(bound):
    value = bound["value"]
    if value is None:
        return {"learnt": "not known before the fit", "labels": "not told here"}.get(
            bound["source"], "none"
        )
    if isinstance(value, list):
        if bound["what"].startswith("range") and len(value) == 2:
            return f"{_value_text(value[0])} to {_value_text(value[1])}"
        return _some(value, _MOST_VALUES) or "none"
    return _cut(_value_text(value))


def _value_text(value):
    if isinstance(value, float):
        return f"{value:.6g}"
    return "none" if value is None else str(value)
