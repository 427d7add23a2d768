"""Blocks as a page of HTML: one file, without scripts, for a screen or for paper.

All text is escaped, and a content policy allows nothing but the page's own style sheet, so that no name of a
column can do anything.
"""

import re
from html import escape

from ._blocks import (
    Blanks,
    Bullets,
    Callout,
    Checklist,
    Heading,
    Pair,
    Paragraph,
    Table,
    Tiles,
    Title,
)
from ._style import STYLE

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
    """Return a page of blocks."""
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
    """Return escaped text; characters that no document may have become question marks."""
    kept = "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in str(value))
    return escape(kept, quote=True)


def _broken(value):
    """Return escaped text that breaks behind underscores, as names of steps do not by themselves."""
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
    Pair: _pair,
    Table: _table,
    Tiles: _tiles,
    Checklist: _checklist,
    Blanks: _blanks,
}
