"""Blocks as a page of HTML: one file, without scripts, for a screen or for paper.

All text is escaped, and a content policy allows nothing but the page's own style sheet, so that no name of a
column can do anything.
"""

import re
from html import escape

from .layout import (
    Blanks,
    Bullets,
    Callout,
    Checklist,
    Heading,
    Paragraph,
    ReportTable,
    TermAndText,
    Tiles,
    Title,
)

# The style sheet of a report's page, for screens and for A4.


STYLE = """\
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


def page(blocks):
    """A page of blocks."""
    title = next(block.text for block in blocks if isinstance(block, Title))
    body = "\n".join(filter(None, (_WRITERS[type(block)](block) for block in blocks)))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="skdpbayes">
<title>{_text(title)}</title>
<style>
{STYLE}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def _text(value):
    """Escaped text; characters that no document may have become question marks."""
    kept = "".join(
        character if character.isprintable() or character in "\n\t" else "\ufffd"
        for character in str(value)
    )
    return escape(kept, quote=True)


def _broken(value):
    """Escaped text that breaks behind underscores, as names of steps do not by themselves."""
    return re.sub("_+(?=[^_])", r"\g<0><wbr>", _text(value))


def _lines(value):
    first, *others = map(_broken, str(value).split("\n"))
    return first + "".join(f'<span class="under">{line}</span>' for line in others)


def _title(block):
    kind, _, name = block.text.partition(": ")
    under = f'<p class="under">{_text(block.under)}</p>\n' if block.under else ""
    return f'<header>\n<p class="kind">{_text(kind)}</p>\n<h1>{_text(name)}</h1>\n{under}</header>'


def _callout(block):
    return (
        f'<div class="callout {_text(block.kind)}"><strong>{_text(block.text)}.</strong> '
        f"{_text(block.note)}</div>"
    )


def _tiles(block):
    cells = "\n".join(
        f'<div><dt>{_text(label)}</dt><dd>{_text(value)}</dd><dd class="note">{_text(note)}</dd></div>'
        for label, value, note in block.cells
    )
    return f'<dl class="tiles">\n{cells}\n</dl>'


def _list(items):
    lines = "\n".join(f"<li>{_broken(item)}</li>" for item in items)
    return f"<ul>\n{lines}\n</ul>"


def _pair(block):
    sides = "\n".join(
        f"<div>\n<h3>{_text(title)}</h3>\n{_list(items)}\n</div>"
        for title, items in (block.left, block.right)
    )
    return f'<div class="pair">\n{sides}\n</div>'


def _table(block):
    head = ""
    if any(block.header):
        cells = "".join(
            f"<th{_class(block, place)}>{_text(name)}</th>"
            for place, name in enumerate(block.header)
        )
        head = f"<thead><tr>{cells}</tr></thead>\n"
    rows = "\n".join(
        f"<tr>{''.join(_cell(block, place, value) for place, value in enumerate(row))}</tr>"
        for row in block.rows
    )
    kind = f' class="{block.kind}"' if block.kind else ""
    return f'<div class="wide"><table{kind}>\n{head}<tbody>\n{rows}\n</tbody>\n</table></div>'


def _class(block, place):
    return ' class="number"' if place in block.numbers else ""


def _cell(block, place, value):
    bar = ""
    if place == block.bar and value:
        width = min(100.0, max(0.0, float(value.rstrip(" %"))))
        bar = f'<span class="bar"><span style="width:{width:.1f}%"></span></span>'
    return f"<td{_class(block, place)}>{_lines(value)}{bar}</td>"


def _checklist(block):
    items = []
    for statement, status in block.items:
        box, by = _BOXES[status]
        items.append(f"<li>{box}<span>{_broken(statement)}{by}</span></li>")
    return '<ul class="checks">\n' + "\n".join(items) + "\n</ul>"


def _blanks(block):
    lines = "\n".join(f"<div><span>{_text(label)}</span></div>" for label in block.labels)
    return f'<div class="blanks">\n{lines}\n</div>'


_WRITERS = {
    Title: _title,
    Heading: lambda block: f"<h2>{_text(block.text)}</h2>",
    Paragraph: lambda block: f"<p>{_text(block.text)}</p>",
    Callout: _callout,
    Bullets: lambda block: _list(block.items),
    TermAndText: _pair,
    ReportTable: _table,
    Tiles: _tiles,
    Checklist: _checklist,
    Blanks: _blanks,
}
