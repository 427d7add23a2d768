"""A report as headings, paragraphs and tables, in the order in which it is read.

record -> blocks -> Markdown, or a page

Blocks hold plain text; what writes them escapes it. Long lists are cut here, and are whole in the JSON.
"""

from decimal import ROUND_CEILING, Context
from typing import Any, NamedTuple

# Cells of a report's tables: numbers in a few digits, and lists that are cut where they are long.


# Most charges of a ledger that a page lists.
MOST_REPORTED_ROWS = 200
# Most bounds of columns that are listed.
_MOST_BOUNDS = 12
# Most names that are listed.
_MOST_NAMES = 6
# Most values of a parameter that are listed.
_MOST_VALUES = 12
# Longest text of a parameter, in characters.
_LONGEST_TEXT = 300
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
    """A number as text, never rounded down; None, which stands for infinite ones, is "none"."""
    if value is None:
        return "none"
    above = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(value)))
    return f"{float(above):.{digits}g}"


def named(place, step):
    """The number of a step and its class, as tables call it."""
    return f"{place}. {step['kind'] or step['name']}"


def step_rows(steps, rows):
    """Yield a row for each step; ``rows`` says what numbers of rows are."""
    for place, step in enumerate(steps[:MOST_REPORTED_ROWS], 1):
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
    if len(steps) > MOST_REPORTED_ROWS:
        more = f"and {len(steps) - MOST_REPORTED_ROWS:,} more, which are in the JSON record"
        yield (more, "", "", "", "")


def _place(step):
    """The name of a step in its pipeline, if its class does not say it."""
    plain = step["name"].lower() in step["kind"].lower()
    return "" if plain else f"called {_cut(step['name'])}"


def share_text(share):
    """A share in percent."""
    return "" if share is None else f"{100 * share:.1f} %"


def _reads(step, rows):
    number = ""
    if step["rows"] is not None:
        number = f"{step['rows']:,} {rows.get('counts', 'rows')}"
        if rows.get("at_most"):
            number = f"at most {number} (planned)"
    return "\n".join(filter(None, [number, columns_text(step["columns"])]))


def columns_text(columns):
    """Number of columns a step reads, and the first of their names."""
    if columns is None:
        return ""
    count, names = columns["number"], columns["names"]
    plural = "" if count == 1 else "s"
    text = f"{count:,} column{plural}"
    return text if not names else f"{text}: {_some(names, _MOST_NAMES)}"


def _some(values, most):
    shown = ", ".join(_cut(_value_text(value)) for value in values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most:,} more"


def _cut(text):
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def bound_rows(steps):
    """Yield a row for each bound, and how many of a step's are not shown."""
    for place, step in enumerate(steps[:MOST_REPORTED_ROWS], 1):
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


_VERDICTS = {
    "none": (
        "bad",
        "No guarantee",
        "No finite epsilon holds. What was released may reveal rows of the table.",
    ),
    "weakened": (
        "warn",
        "The guarantee is weakened",
        "It does not cover what is listed under warnings. Read them before anything is published.",
    ),
    "if_signed": (
        "good",
        "The guarantee holds under the assumptions below",
        "It follows from a proof and from what the program does. What no program can know is to be signed.",
    ),
}


class Title(NamedTuple):
    """The head of a report."""

    text: str
    under: str


class Heading(NamedTuple):
    """The head of a section."""

    text: str


class Paragraph(NamedTuple):
    """Text."""

    text: str


class Tiles(NamedTuple):
    """Numbers that are read first: (label, value, note)."""

    cells: tuple[tuple[str, str, str], ...]


class Callout(NamedTuple):
    """A text that is not to be missed: "good", "warn" or "bad"."""

    kind: str
    text: str
    note: str


class Bullets(NamedTuple):
    """A list."""

    items: tuple[str, ...]


class TermAndText(NamedTuple):
    """Two lists beside each other, each (title, items)."""

    left: tuple[str, tuple[str, ...]]
    right: tuple[str, tuple[str, ...]]


class ReportTable(NamedTuple):
    """Rows of text; ``numbers`` are the columns of numbers, ``bar`` that of shares."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...] = ()
    bar: int | None = None
    kind: str = ""


class Checklist(NamedTuple):
    """Statements, each "to_sign", "checked" or "failed"."""

    items: tuple[tuple[str, str], ...]


class Blanks(NamedTuple):
    """Lines to be filled in by hand."""

    labels: tuple[str, ...]


def report_sections(report: dict[str, Any], title: str | None, fingerprint: str) -> list[Any]:
    """The blocks of a record."""
    summary = report["summary"]
    name = f"{summary['name']}, {summary['stage']}"
    return [
        Title(f"Privacy report: {title or name}", name if title else ""),
        Callout(*_VERDICTS[summary["verdict"]]),
        _tiles(summary),
        *_warnings(report["details"]),
        *_protected(summary),
        *_adversaries(summary),
        *_spent(summary),
        *_steps(report),
        *_bounds(report),
        *_assumptions(report),
        *_technical(report, fingerprint),
    ]


def _tiles(summary):
    spent, ceiling, ledger = summary["spent"], summary["ceiling"], summary["ledger"]
    asked = "no ceiling" if ceiling["epsilon"] is None else f"of at most {ceiling['epsilon']:.4g}"
    tile = ("Left", "not kept", "no ledger was given")
    if ledger is not None:
        budget = ledger["budget_epsilon"]
        tile = (
            "Left in the ledger",
            "no limit" if ledger["left_epsilon"] is None else number(ledger["left_epsilon"]),
            "no ceiling was set"
            if budget is None
            else f"of {budget:.4g}, for one more release{_at_other_delta(summary)}",
        )
    planned = summary["stage"] == "planned"
    return Tiles(
        (
            ("Protected", f"one {summary['protected']['unit']}", "each by itself"),
            (
                "Epsilon to be spent" if planned else "Epsilon spent",
                number(spent["epsilon"]),
                asked,
            ),
            ("Delta", number(spent["delta"]), _rare(spent["delta"])),
            tile,
        )
    )


def _rare(delta):
    if delta <= 0:
        return "no exception at all"
    return f"rare cases, 1 in {1 / delta:,.0f}" if delta > 1e-12 else "rare cases"


def _warnings(details):
    if details["warnings"]:
        yield Heading("Warnings")
        yield Bullets(tuple(map(_sentence, details["warnings"])))


def _sentence(text):
    text = str(text)
    return text[:1].upper() + text[1:]


def _protected(summary):
    protected = summary["protected"]
    yield Heading("What is protected")
    if protected["unit"] == "person":
        limit = protected["max_rows_per_person"]
        fits = " in a fit" if (protected["rows"] or {}).get("counts") == "persons" else ""
        are = "row of each person is" if limit == 1 else "rows of each person are"
        rows = "" if limit is None else f" At most {limit:,} {are} used{fits}."
        yield Paragraph(f"Each person, with all rows that are theirs.{rows}")
    else:
        yield Paragraph(
            "Each row of the table. A person is protected as well as a row if they have one row."
        )
    yield Paragraph(
        f"In technical terms: {protected['statement'][:1].lower()}{protected['statement'][1:]}"
    )
    if (rows := protected["rows"]) is not None:
        counted = rows.get("counts", "rows")
        most = "at most " if rows.get("at_most") else ""
        yield Paragraph(f"Number of {counted}: {most}{rows['number']:,} ({rows['how']}).")
    unprotected = ". ".join(protected["not_protected"])
    yield Paragraph(
        f"Not protected, because taken to be public: {unprotected[:1].lower()}{unprotected[1:]}."
    )


def _adversaries(summary):
    adversaries = summary["adversaries"]
    yield Heading("Against whom")
    yield TermAndText(
        ("It protects against", tuple(adversaries["against"])),
        ("It does not protect against", tuple(adversaries["not_against"])),
    )


def _spent(summary):
    spent, ledger = summary["spent"], summary["ledger"]
    yield Heading("What it means, and what is left")
    if spent["epsilon"] is None:
        yield Paragraph("Nothing is claimed: there is no limit on what the release tells of a row.")
    else:
        factor = spent["odds_factor"]
        times = "more than 10^300" if factor is None else number(factor, 3)
        rare = ""
        if spent["delta"] > 0:
            rare = f", except in rare cases, which delta = {number(spent['delta'])} controls"
        yield Paragraph(
            f"Whoever guesses {spent['guess']} can become more certain by the release, but only so far: "
            f"the odds of the guess change by a factor of at most {times}{rare}."
        )
        yield ReportTable(
            ("somebody who was this sure before", "can be at most this sure afterwards"),
            tuple(
                (_percent(belief["before"]), _percent(belief["at_most_after"]))
                for belief in spent["beliefs"]
            ),
            numbers=(0, 1),
            kind="narrow",
        )
    yield Paragraph(_left(ledger))
    if at_other := _at_other_delta(summary):
        yield Paragraph(
            f"The epsilon of this report holds at delta = {number(spent['delta'])}, those of the ledger"
            f"{at_other}: the same loss has a larger epsilon at a smaller delta. So do not compare them, or "
            "subtract one from the other."
        )


def _at_other_delta(summary):
    """The delta at which a ledger's numbers hold, if it is not the report's."""
    ledger = summary["ledger"]
    if ledger is None or ledger["delta"] == summary["spent"]["delta"]:
        return ""
    return f" at delta = {number(ledger['delta'])}"


def _left(ledger):
    if ledger is None:
        return (
            "No ledger was given with this report. Each further release about the same people adds to what "
            "is spent, and nobody keeps count here."
        )
    limit = "without a ceiling"
    if ledger["budget_epsilon"] is not None:
        limit = f"of a budget of {ledger['budget_epsilon']:.4g}"
    text_of_rest = ""
    if ledger["left_epsilon"] == 0:
        text_of_rest = " Nothing is left."
    elif ledger["left_epsilon"] is not None:
        text_of_rest = (
            f" One more release may have epsilon = {number(ledger['left_epsilon'])} there."
        )
        used = (ledger["spent_epsilon"] or 0.0) + ledger["left_epsilon"]
        if ledger["budget_epsilon"] is not None and used > ledger["budget_epsilon"] > 0:
            text_of_rest += " (Together, releases reveal less than the sum of their epsilons.)"
    spent = "no finite epsilon"
    if ledger["spent_epsilon"] is not None:
        spent = f"epsilon = {number(ledger['spent_epsilon'])}"
    releases = f"{ledger['releases']:,} releases, which together cost"
    if ledger["releases"] == 1:
        releases = "1 release, which costs"
    return f"The ledger has {releases} {spent}, {limit}, at delta = {number(ledger['delta'])}.{text_of_rest}"


def _percent(value):
    if value > 0.9999:
        return "more than 99.99 %"
    return f"{number(100 * value, 3)} %"


def _steps(report):
    steps, of = report["steps"], report["summary"]["of"]
    yield Heading("Every release in the ledger" if of == "ledger" else "Every step")
    if not steps:
        yield Paragraph("Nothing was released yet.")
        return
    yield ReportTable(
        ("release", "paid for", "share", "epsilon", "")
        if of == "ledger"
        else ("step", "paid for", "share", "epsilon", "reads"),
        tuple(step_rows(steps, report["summary"]["protected"]["rows"] or {})),
        numbers=(2, 3),
        bar=2,
        kind="steps",
    )
    if of != "ledger":
        yield Paragraph(_legend({step["role"] for step in steps}))
    if len(steps) > 1:
        yield Paragraph(
            "Shares are those of the loss, and add up to 100 %. The epsilons of single steps add up to more "
            "than the total, because together they reveal less than one by one."
        )


def _legend(roles):
    sentences = ["Steps that are paid for add noise, which the numbers above account for."]
    if "within" in roles:
        sentences.append(
            "What steps within a search spend is a part of what the search spends, which has a single number."
        )
    if "free" in roles:
        sentences.append("Free steps learn nothing from the rows, or use public numbers only.")
    if "vouched" in roles:
        sentences.append("Of free steps that are vouched for, the user said so.")
    if "unproven" in roles:
        sentences.append("A step that is not covered may have learnt from the rows without noise.")
    return " ".join(sentences)


def _bounds(report):
    rows = tuple(bound_rows(report["steps"]))
    if not rows:
        return
    yield Heading("Bounds and lists, and who said so")
    yield ReportTable(("step", "what", "value", "who said so"), rows, kind="bounds")


def _assumptions(report):
    yield Heading("Assumptions to sign")
    yield Paragraph(
        "The numbers above are proven if these statements are true. Those with a tick were checked by the "
        "program; the others only people can know."
    )
    yield Checklist(
        tuple(
            (assumption["statement"], assumption["status"]) for assumption in report["assumptions"]
        )
    )
    yield Blanks(
        (
            "Table, and purpose of the release",
            "Responsible for the table (name, date, signature)",
            "Ran the program (name, date, signature)",
            "Data protection officer (name, date, signature)",
        )
    )


def _technical(report, fingerprint):
    details, deployment = report["details"], report["deployment"]
    yield Heading("For the technical reader")
    cost = details["cost"]
    facts = [
        ("neighbouring tables", f"{details['neighboring_relation']} ({details['neighbors']})"),
        ("mechanisms", deployment["implementation"]["mechanisms"]),
        ("addition of costs", deployment["accounting"]["composition"]),
        ("Gaussian part, mu", number(cost["mu"])),
        ("as zero-concentrated DP, rho", number(cost["zcdp_rho"])),
        ("theorems", "; ".join(_proofs(report)) or "see the documentation's theory"),
        (
            "versions",
            ", ".join(
                f"{name} {library_version}" for name, library_version in details["versions"].items()
            ),
        ),
    ]
    if "audit" in details:
        facts.append(("audit", str(details["audit"])))
    yield ReportTable(("", ""), tuple((name, str(text)) for name, text in facts), kind="pairs")
    yield Paragraph(
        "Propositions are those of the theory in skdpbayes' documentation, with proofs. This page was made "
        f"of the JSON record with the SHA-256 {fingerprint}. The record is public, like all that is in it."
    )


def _proofs(report):
    proofs = [step["proof"] for step in report["steps"]]
    proofs += [report["summary"]["spent"]["proof"], "Proposition 1 for the conversion of mu"]
    return dict.fromkeys(filter(None, proofs))
