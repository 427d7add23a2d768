"""A record as a document: headings, paragraphs and tables in the order in which they are read.

    record -> document -> `Markdown`, or a `Page` of HTML

The document hands plain text to a writer, which escapes it. Long lists are cut, and are whole in the JSON.
"""

import re
from decimal import ROUND_CEILING, Context
from html import escape

# Most charges of a ledger that a page lists.
_MOST_ROWS = 200
# Most bounds of columns that are listed.
_MOST_BOUNDS = 12
# Most names that are listed.
_MOST_NAMES = 6
# Most values of a parameter that are listed.
_MOST_VALUES = 12
# Longest text of a parameter, in characters.
_LONGEST_TEXT = 300
# Headings where steps are releases.
_HEADINGS = {
    "ledger": "Every release in the ledger",
    "releases": "Everything that was released",
}
_ROLES = {
    "charged": "yes",
    "within": "paid for, within the search",
    "part": "paid for, counted once",
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


def document(report, title, fingerprint, write):
    """A record as text, written by `Markdown` or a `Page`."""
    summary, details = report["summary"], report["details"]
    name = f"{summary['name']}, {summary['stage']}"
    head = f"Privacy report: {title or name}"
    sections = [
        write.title(head, name if title else ""),
        write.callout(*_VERDICTS[summary["verdict"]]),
        _tiles(write, summary),
        *_warnings(write, details["warnings"]),
        *_in_plain_words(write, report.get("explanation")),
        *_protected(write, summary["protected"]),
        *_adversaries(write, summary["adversaries"]),
        *_spent(write, summary),
        *_steps(write, report["steps"], summary),
        *_bounds(write, report["steps"]),
        *_reports(write, report.get("reports", ())),
        *_assumptions(write, report["assumptions"]),
        *_technical(write, report, fingerprint),
    ]
    return write.document(head, filter(None, sections))


def printed(report):
    """The few lines that are printed of a record, which name the forms that have all of it."""
    summary, details = report["summary"], report["details"]
    spent, unit = summary["spent"], summary["protected"]["unit"]
    most = summary["ceiling"]["epsilon"]
    asked = "no ceiling" if most is None else f"of at most {most:g}"
    lines = [
        ("verdict", _VERDICTS[summary["verdict"]][1]),
        ("protects", f"one {unit} ({details['neighboring_relation'].replace('_', '-')})"),
        (
            "spends",
            f"{_epsilon(spent['epsilon'])} at delta = {spent['delta']:.3g} ({asked})",
        ),
    ]
    if summary["ledger"] is not None:
        lines.append(("ledger", ledger_text(summary["ledger"])))
    kind = "release" if summary["of"] in _HEADINGS else "step"
    for place, step in enumerate(report["steps"][:_MOST_ROWS], 1):
        called = ", ".join(filter(None, [_named(place, step), _place(step)]))
        is_charged = step["role"] == "charged"
        paid = _epsilon(step["epsilon"]) if is_charged else _ROLES[step["role"]]
        lines.append((kind, f"{called}: {paid}"))
    if (more := len(report["steps"]) - _MOST_ROWS) > 0:
        lines.append((kind, f"and {more:,} more"))
    lines += [("warning", text) for text in details["warnings"]]
    unsigned = sum(one["status"] == "to_sign" for one in report["assumptions"])
    lines.append(
        (
            "to sign",
            f"{unsigned} assumption{'s' * (unsigned != 1)}, which to_markdown() and to_html() list with "
            "the rest",
        )
    )
    head = f"Privacy report: {summary['name']}, {summary['stage']}"
    return "\n".join(
        [_one_line(head), *(f"  {name:<8}  {_one_line(text)}" for name, text in lines)]
    )


def _epsilon(value):
    return "an infinite epsilon" if value is None else f"epsilon = {_number(value)}"


def _one_line(value):
    """Text in one line, without characters that a terminal would obey."""
    shown = "".join(character if character.isprintable() else " " for character in str(value))
    return " ".join(shown.split())


def _tiles(write, summary):
    spent, ceiling, ledger = summary["spent"], summary["ceiling"], summary["ledger"]
    asked = "no ceiling" if ceiling["epsilon"] is None else f"of at most {ceiling['epsilon']:.4g}"
    tile = ("Left", "not kept", "no ledger was given")
    if ledger is not None:
        budget = ledger["budget_epsilon"]
        tile = (
            "Left in the ledger",
            "no limit" if ledger["left_epsilon"] is None else _number(ledger["left_epsilon"]),
            "no ceiling was set"
            if budget is None
            else f"of {budget:.4g}, for one more release{_at_other_delta(summary)}",
        )
    planned = summary["stage"] == "planned"
    return write.tiles(
        (
            ("Protected", f"one {summary['protected']['unit']}", "each by itself"),
            (
                "Epsilon to be spent" if planned else "Epsilon spent",
                _number(spent["epsilon"]),
                asked,
            ),
            ("Delta", _number(spent["delta"]), _rare(spent["delta"])),
            tile,
        )
    )


def _rare(delta):
    if delta <= 0:
        return "no exception at all"
    return f"rare cases, 1 in {1 / delta:,.0f}" if delta > 1e-12 else "rare cases"


def _warnings(write, warnings):
    if warnings:
        yield write.heading("Warnings")
        yield write.bullets([text[:1].upper() + text[1:] for text in map(str, warnings)])


def _in_plain_words(write, explanation):
    """The sentences about a fit, which plans, ledgers and reports of earlier releases do not have."""
    if explanation:
        yield write.heading("In plain words")
        yield write.bullets(explanation)


def _protected(write, protected):
    yield write.heading("What is protected")
    if protected["unit"] == "person":
        limit = protected["max_rows_per_person"]
        fits = " in a fit" if (protected["rows"] or {}).get("counts") == "persons" else ""
        are = "row of each person is" if limit == 1 else "rows of each person are"
        rows = "" if limit is None else f" At most {limit:,} {are} used{fits}."
        yield write.paragraph(f"Each person, with all rows that are theirs.{rows}")
    else:
        yield write.paragraph(
            "Each row of the table. A person is protected as well as a row if they have one row."
        )
    yield write.paragraph(
        f"In technical terms: {protected['statement'][:1].lower()}{protected['statement'][1:]}"
    )
    if (rows := protected["rows"]) is not None:
        counted = rows.get("counts", "rows")
        most = "at most " if rows.get("at_most") else ""
        yield write.paragraph(f"Number of {counted}: {most}{rows['number']:,} ({rows['how']}).")
    unprotected = ". ".join(protected["not_protected"])
    yield write.paragraph(
        f"Not protected, because taken to be public: {unprotected[:1].lower()}{unprotected[1:]}."
    )


def _adversaries(write, adversaries):
    yield write.heading("Against whom")
    yield write.pair(
        ("It protects against", adversaries["against"]),
        ("It does not protect against", adversaries["not_against"]),
    )


def _spent(write, summary):
    spent, ledger = summary["spent"], summary["ledger"]
    yield write.heading("What it means, and what is left")
    if spent["epsilon"] is None:
        yield write.paragraph(
            "Nothing is claimed: there is no limit on what the release tells of a row."
        )
    else:
        factor = spent["odds_factor"]
        times = "more than 10^300" if factor is None else _number(factor, 3)
        rare = ""
        if spent["delta"] > 0:
            rare = f", except in rare cases, which delta = {_number(spent['delta'])} controls"
        yield write.paragraph(
            f"Whoever guesses {spent['guess']} can become more certain by the release, but only so far: "
            f"the odds of the guess change by a factor of at most {times}{rare}."
        )
        yield write.table(
            ("somebody who was this sure before", "can be at most this sure afterwards"),
            [
                (_percent(belief["before"]), _percent(belief["at_most_after"]))
                for belief in spent["beliefs"]
            ],
            numbers=(0, 1),
            kind="narrow",
        )
    yield write.paragraph(ledger_text(ledger))
    if at_other := _at_other_delta(summary):
        yield write.paragraph(
            f"The epsilon of this report holds at delta = {_number(spent['delta'])}, those of the ledger"
            f"{at_other}: the same loss has a larger epsilon at a smaller delta. So do not compare them, or "
            "subtract one from the other."
        )


def _at_other_delta(summary):
    """The delta at which a ledger's numbers hold, if it is not the report's."""
    ledger = summary["ledger"]
    if ledger is None or ledger["delta"] == summary["spent"]["delta"]:
        return ""
    return f" at delta = {_number(ledger['delta'])}"


def ledger_text(ledger):
    """Sentences on what a ledger has spent and has left; None says that nobody keeps count."""
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
            f" One more release may have epsilon = {_number(ledger['left_epsilon'])} there."
        )
        used = (ledger["spent_epsilon"] or 0.0) + ledger["left_epsilon"]
        if ledger["budget_epsilon"] is not None and used > ledger["budget_epsilon"] > 0:
            text_of_rest += " (Together, releases reveal less than the sum of their epsilons.)"
    spent = "no finite epsilon"
    if ledger["spent_epsilon"] is not None:
        spent = f"epsilon = {_number(ledger['spent_epsilon'])}"
    releases = f"{ledger['releases']:,} releases, which together cost"
    if ledger["releases"] == 1:
        releases = "1 release, which costs"
    return f"The ledger has {releases} {spent}, {limit}, at delta = {_number(ledger['delta'])}.{text_of_rest}"


def _percent(value):
    if value > 0.9999:
        return "more than 99.99 %"
    return f"{_number(100 * value, 3)} %"


def _steps(write, steps, summary):
    of, is_step = summary["of"], summary["of"] not in _HEADINGS
    yield write.heading(_HEADINGS.get(of, "Every step"))
    if not steps:
        yield write.paragraph("Nothing was released yet.")
        return
    yield write.table(
        (
            "step" if is_step else "release",
            "paid for",
            "share",
            "epsilon",
            "" if of == "ledger" else "reads",
        ),
        list(_step_rows(steps, summary["protected"]["rows"] or {})),
        numbers=(2, 3),
        bar=2,
        kind="steps",
    )
    if is_step:
        yield write.paragraph(_legend({step["role"] for step in steps}))
    if len(steps) > 1:
        yield write.paragraph(
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


def _bounds(write, steps):
    if rows := list(_bound_rows(steps)):
        yield write.heading("Bounds and lists, and who said so")
        yield write.table(("step", "what", "value", "who said so"), rows, kind="bounds")


def _reports(write, reports):
    """The parts of single reports that the one of all releases does not have."""
    for place, report in enumerate(reports, 1):
        summary = report["summary"]
        yield write.heading(f"Release {place}: {summary['name']}")
        if report.get("explanation"):
            yield write.bullets(report["explanation"])
        for section in (_steps(write, report["steps"], summary), _bounds(write, report["steps"])):
            yield from list(section)[1:]  # Without a heading of their own.


def _assumptions(write, assumptions):
    yield write.heading("Assumptions to sign")
    yield write.paragraph(
        "The numbers above are proven if these statements are true. Those with a tick were checked by the "
        "program; the others only people can know."
    )
    yield write.checklist([(one["statement"], one["status"]) for one in assumptions])
    yield write.blanks(
        (
            "Table, and purpose of the release",
            "Responsible for the table (name, date, signature)",
            "Ran the program (name, date, signature)",
            "Data protection officer (name, date, signature)",
        )
    )


def _technical(write, report, fingerprint):
    details, deployment = report["details"], report["deployment"]
    yield write.heading("For the technical reader")
    cost = details["cost"]
    facts = [
        ("neighbouring tables", f"{details['neighboring_relation']} ({details['neighbors']})"),
        ("mechanisms", deployment["implementation"]["mechanisms"]),
        ("addition of costs", deployment["accounting"]["composition"]),
        ("Gaussian part, mu", _number(cost["mu"])),
        ("as zero-concentrated DP, rho", _number(cost["zcdp_rho"])),
        ("theorems", "; ".join(_proofs(report)) or "see the documentation's theory"),
        ("versions", ", ".join(map(" ".join, details["versions"].items()))),
    ]
    if "audit" in details:
        facts.append(("audit", details["audit"]))
    yield write.table(("", ""), facts, kind="pairs")
    yield write.paragraph(
        "Propositions are those of the theory in skdpbayes' documentation, with proofs. This page was made "
        f"of the JSON record with the SHA-256 {fingerprint}. The record is public, like all that is in it."
    )


def _proofs(report):
    proofs = [step["proof"] for step in report["steps"]]
    proofs += [report["summary"]["spent"]["proof"], "Proposition 1 for the conversion of mu"]
    return dict.fromkeys(filter(None, proofs))


# Cells of tables: numbers in a few digits, and lists that are cut where they are long.


def _number(value, digits=4):
    """A number as text, never rounded down; None, which stands for infinite ones, is "none"."""
    if value is None:
        return "none"
    above = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(value)))
    return f"{float(above):.{digits}g}"


def _named(place, step):
    """The number of a step and its class, as tables call it."""
    return f"{place}. {step['kind'] or step['name']}"


def _step_rows(steps, rows):
    """Yield a row for each step; ``rows`` says what numbers of rows are."""
    for place, step in enumerate(steps[:_MOST_ROWS], 1):
        charged = step["role"] == "charged"
        known = step["delta"] is not None
        limited = step["epsilon"] is not None or not (charged and known)
        lines = [_named(place, step), step["does"], _place(step), step["note"]]
        yield (
            "\n".join(filter(None, lines)),
            _ROLES[step["role"]] if limited else "NO LIMIT",
            _share_text(step["share"]) if charged else "",
            _number(step["epsilon"]) if charged and known else "",
            _reads(step, rows),
        )
    if len(steps) > _MOST_ROWS:
        more = f"and {len(steps) - _MOST_ROWS:,} more, which are in the JSON record"
        yield (more, "", "", "", "")


def _place(step):
    """The name of a step in its pipeline, if its class does not say it."""
    plain = step["name"].lower() in step["kind"].lower()
    return "" if plain else f"called {_cut(step['name'])}"


def _share_text(share):
    """A share in percent."""
    return "" if share is None else f"{100 * share:.1f} %"


def _reads(step, rows):
    number = ""
    if step["rows"] is not None:
        number = f"{step['rows']:,} {rows.get('counts', 'rows')}"
        if rows.get("at_most"):
            number = f"at most {number} (planned)"
    return "\n".join(filter(None, [number, _columns_text(step["columns"])]))


def _columns_text(columns):
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


def _bound_rows(steps):
    """Yield a row for each bound, and how many of a step's are not shown."""
    for place, step in enumerate(steps[:_MOST_ROWS], 1):
        bounds, name = step["bounds"], _named(place, step)
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


# What a document is written with: a method for each kind of section, which returns it as text.


class Markdown:
    """Sections as Markdown.

    Text stays text: characters that Markdown or HTML would read are escaped, and line breaks become spaces,
    or ``<br>`` within a table.
    """

    _SPECIAL = re.compile(r"([\\`*_{}\[\]<>#!|~$&])")
    # At the beginning of a line these would make lists or rules.
    _AT_BEGINNING = re.compile(r"^(\d*)([-+=.)])")
    _NUMBER = re.compile(r"\d+\.\d")
    _BOXES = {
        "to_sign": "- [ ] {}",
        "checked": "- [x] {}",
        "failed": "- [ ] **Does not hold:** {}",
    }

    def text(self, value):
        """Text that Markdown shows as it is, in one line."""
        line = self._SPECIAL.sub(r"\\\1", _one_line(value)).replace("://", r"\://")
        return line if self._NUMBER.match(line) else self._AT_BEGINNING.sub(r"\1\\\2", line)

    def document(self, title, sections):
        """The sections one below the other, with a line break at the end."""
        return "\n\n".join(sections) + "\n"

    def title(self, text, under):
        """The head of a report."""
        return f"# {self.text(text)}" + (f"\n\n{self.text(under)}" if under else "")

    def heading(self, text):
        """The head of a section."""
        return f"## {self.text(text)}"

    def paragraph(self, text):
        """Text."""
        return self.text(text)

    def callout(self, kind, text, note):
        """A text that is not to be missed, whose kind is "good", "warn" or "bad"."""
        return f"> **{self.text(text)}.** {self.text(note)}"

    def tiles(self, cells):
        """Numbers that are read first: (label, value, note) of each."""
        labels, values, notes = (
            [self.text(text) for text in row] for row in zip(*cells, strict=True)
        )
        return self._rows([labels, [f"**{value}**" for value in values], notes])

    def bullets(self, items):
        """A list."""
        return "\n".join(f"- {self.text(item)}" for item in items)

    def pair(self, *lists):
        """Two lists beside each other, each (title, items)."""
        return "\n\n".join(
            f"### {self.text(title)}\n\n{self.bullets(items)}" for title, items in lists
        )

    def table(self, header, rows, *, numbers=(), bar=None, kind=""):
        """Rows of text; ``numbers`` are the columns of numbers, ``bar`` that of shares."""
        cells = [
            ["<br>".join(map(self.text, str(cell).split("\n"))) for cell in row]
            for row in (header, *rows)
        ]
        return self._rows(cells, numbers)

    def checklist(self, items):
        """Statements with their status: "to_sign", "checked" or "failed"."""
        return "\n".join(self._BOXES[status].format(self.text(text)) for text, status in items)

    def blanks(self, labels):
        """Lines to be filled in by hand."""
        line = r"\_" * 30
        return "\n\n".join(f"{self.text(label)}: {line}" for label in labels)

    @staticmethod
    def _rows(rows, numbers=()):
        header, *others = rows
        rule = ["---:" if place in numbers else "---" for place in range(len(header))]
        return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *others))


class Page:
    """Sections as a page of HTML: one file, without scripts, for a screen or for paper.

    All text is escaped, and a content policy allows nothing but the page's own style sheet, so that no name
    of a column can do anything. Methods are those of `Markdown`.
    """

    _BOXES = {
        "to_sign": ('<span class="box"></span>', ""),
        "checked": (
            '<span class="box done">&#10003;</span>',
            ' <span class="by">checked by the program</span>',
        ),
        "failed": (
            '<span class="box failed">&#10007;</span>',
            ' <span class="by failed">does not hold</span>',
        ),
    }

    def text(self, value):
        """Escaped text; characters that no document may have become question marks."""
        kept = "".join(
            character if character.isprintable() or character in "\n\t" else "\ufffd"
            for character in str(value)
        )
        return escape(kept, quote=True)

    def document(self, title, sections):
        """The sections as the body of a page."""
        body = "\n".join(sections)
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="skdpbayes">
<title>{self.text(title)}</title>
<style>
{_STYLE}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""

    def title(self, text, under):
        kind, _, name = text.partition(": ")
        under = f'<p class="under">{self.text(under)}</p>\n' if under else ""
        name = f"<h1>{self.text(name)}</h1>"
        return f'<header>\n<p class="kind">{self.text(kind)}</p>\n{name}\n{under}</header>'

    def heading(self, text):
        return f"<h2>{self.text(text)}</h2>"

    def paragraph(self, text):
        return f"<p>{self.text(text)}</p>"

    def callout(self, kind, text, note):
        text = f"<strong>{self.text(text)}.</strong> {self.text(note)}"
        return f'<div class="callout {kind}">{text}</div>'

    def tiles(self, cells):
        lines = "\n".join(
            f"<div><dt>{self.text(label)}</dt><dd>{self.text(value)}</dd>"
            f'<dd class="note">{self.text(note)}</dd></div>'
            for label, value, note in cells
        )
        return f'<dl class="tiles">\n{lines}\n</dl>'

    def bullets(self, items):
        lines = "\n".join(f"<li>{self._broken(item)}</li>" for item in items)
        return f"<ul>\n{lines}\n</ul>"

    def pair(self, *lists):
        sides = "\n".join(
            f"<div>\n<h3>{self.text(title)}</h3>\n{self.bullets(items)}\n</div>"
            for title, items in lists
        )
        return f'<div class="pair">\n{sides}\n</div>'

    def table(self, header, rows, *, numbers=(), bar=None, kind=""):
        styles = [' class="number"' if place in numbers else "" for place in range(len(header))]
        head = ""
        if any(header):
            cells = "".join(
                f"<th{style}>{self.text(name)}</th>"
                for style, name in zip(styles, header, strict=True)
            )
            head = f"<thead><tr>{cells}</tr></thead>\n"
        lines = "\n".join(
            "".join(
                f"<td{style}>{self._lines(cell)}{self._bar(cell) if place == bar else ''}</td>"
                for place, (style, cell) in enumerate(zip(styles, row, strict=True))
            ).join(("<tr>", "</tr>"))
            for row in rows
        )
        kind = f' class="{kind}"' if kind else ""
        return f'<div class="wide"><table{kind}>\n{head}<tbody>\n{lines}\n</tbody>\n</table></div>'

    def checklist(self, items):
        lines = []
        for statement, status in items:
            box, by = self._BOXES[status]
            lines.append(f"<li>{box}<span>{self._broken(statement)}{by}</span></li>")
        return '<ul class="checks">\n' + "\n".join(lines) + "\n</ul>"

    def blanks(self, labels):
        lines = "\n".join(f"<div><span>{self.text(label)}</span></div>" for label in labels)
        return f'<div class="blanks">\n{lines}\n</div>'

    def _broken(self, value):
        """Escaped text that breaks behind underscores, as names of steps do not by themselves."""
        return re.sub("_+(?=[^_])", r"\g<0><wbr>", self.text(value))

    def _lines(self, value):
        first, *others = map(self._broken, str(value).split("\n"))
        return first + "".join(f'<span class="under">{line}</span>' for line in others)

    @staticmethod
    def _bar(share):
        """A bar as long as a share in percent, which is text."""
        if not share:
            return ""
        width = min(100.0, max(0.0, float(share.rstrip(" %"))))
        return f'<span class="bar"><span style="width:{width:.1f}%"></span></span>'


# The style sheet of a page, for screens and for A4.
_STYLE = """\
:root { color-scheme: light; --ink: #1b2733; --soft: #56636f; --line: #d5dce2; --blue: #1f5fa8; }
* { box-sizing: border-box; }
body { margin: 0; background: #eef1f4; color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Liberation Sans", Arial, sans-serif; }
main { max-width: 52rem; margin: 2rem auto; padding: 2.5rem 3rem; background: #fff;
  border: 1px solid var(--line); border-radius: 4px; }
header { border-bottom: 3px solid var(--blue); padding-bottom: 0.75rem; margin-bottom: 1.25rem; }
.kind { margin: 0; color: var(--blue); font-size: 0.8rem; font-weight: 600; letter-spacing: 0.08em;
  text-transform: uppercase; }
h1 { margin: 0.1rem 0 0; font-size: 1.65rem; line-height: 1.25; overflow-wrap: anywhere; }
header .under { margin: 0.2rem 0 0; color: var(--soft); }
h2 { margin: 1.9rem 0 0.5rem; font-size: 1.12rem; color: var(--blue); }
p { margin: 0.45rem 0; overflow-wrap: anywhere; }
h3 { margin: 0 0 0.3rem; font-size: 0.92rem; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1.6rem; font-size: 0.92rem; }
.narrow { width: auto; }
.narrow th, .narrow td { padding-right: 2.5rem; }
ul { margin: 0.4rem 0; padding-left: 1.3rem; }
li { margin: 0.2rem 0; overflow-wrap: anywhere; }
.callout { padding: 0.7rem 1rem; border-left: 5px solid; border-radius: 3px; }
.good { background: #eaf5ee; border-color: #2c7a4b; }
.warn { background: #fff5e0; border-color: #b7791f; }
.bad { background: #fdecea; border-color: #b3261e; }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: 0.75rem; margin: 1rem 0; }
.tiles div { padding: 0.6rem 0.8rem; border: 1px solid var(--line); border-radius: 4px; }
.tiles dt { color: var(--soft); font-size: 0.78rem; }
.tiles dd { margin: 0; font-size: 1.35rem; font-weight: 600; line-height: 1.3; }
.tiles dd.note { font-size: 0.78rem; font-weight: 400; color: var(--soft); }
.wide { overflow-x: auto; }
table { width: 100%; margin: 0.6rem 0; border-collapse: collapse; font-size: 0.86rem; line-height: 1.4; }
th { padding: 0.35rem 0.6rem 0.35rem 0; border-bottom: 2px solid var(--line); text-align: left;
  vertical-align: bottom; color: var(--soft); font-weight: 600; }
td { padding: 0.4rem 0.6rem 0.4rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere; }
td:first-child { font-weight: 600; }
.steps td:first-child { width: 46%; }
.steps td:last-child { width: 29%; }
.bounds td:first-child { width: 17.5rem; }
td.number:first-child, td .under { font-weight: 400; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td .under { display: block; color: var(--soft); }
.pairs td:first-child { width: 12rem; color: var(--soft); font-weight: 400; }
.bar { display: block; width: 4.5rem; height: 5px; margin: 0.2rem 0 0 auto; background: #e4e9ee; }
.bar span { display: block; height: 5px; background: var(--blue); }
.checks { padding: 0; list-style: none; }
.checks li { display: flex; gap: 0.7rem; margin: 0.45rem 0; break-inside: avoid; }
.box { flex: none; width: 1.05rem; height: 1.05rem; margin-top: 0.18rem; border: 1.5px solid var(--ink);
  border-radius: 2px; font-size: 0.85rem; line-height: 0.95rem; text-align: center; }
.box.done { border-color: #2c7a4b; color: #2c7a4b; }
.box.failed, .by.failed { border-color: #b3261e; color: #b3261e; }
.by { color: #2c7a4b; font-size: 0.82rem; white-space: nowrap; }
.blanks { display: grid; grid-template-columns: 1fr 1fr; gap: 0 2rem; margin-top: 1.2rem; }
.blanks div { height: 4.6rem; border-bottom: 1px solid var(--ink); break-inside: avoid; }
.blanks span { display: block; padding-top: 0.5rem; color: var(--soft); font-size: 0.8rem; }
@media (max-width: 44rem) {
  main { margin: 0; padding: 1.2rem; }
  .tiles, .blanks { grid-template-columns: 1fr 1fr; }
  .pair { grid-template-columns: 1fr; }
}
@page { size: A4; margin: 14mm 15mm 15mm; }
@media print {
  html { font-size: 11.5px; }
  body { background: #fff; font-size: 11.5px; line-height: 1.42; }
  main { max-width: none; margin: 0; padding: 0; border: 0; }
  .callout, .bar, .bar span { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  .wide { overflow: visible; }
  h2 { break-after: avoid; }
  h2 { margin-top: 1.3rem; }
  tr, .callout, .tiles, .blanks, .pair, .narrow { break-inside: avoid; }
  thead { display: table-header-group; }
}
"""
