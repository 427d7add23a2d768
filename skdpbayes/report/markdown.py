"""Blocks as Markdown.

What a name holds stays text: characters that Markdown or HTML would read are escaped, and line breaks become
spaces, or ``<br>`` within a table.
"""

import re

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

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#!|~$&])")
# At the beginning of a line these would make lists or rules.
_AT_BEGINNING = re.compile(r"^(\d*)([-+=.)])")
_NUMBER = re.compile(r"\d+\.\d")
_LINE = r"\_" * 30
_BOXES = {"to_sign": "- [ ] {}", "checked": "- [x] {}", "failed": "- [ ] **Does not hold:** {}"}


def text(blocks):
    """Blocks as Markdown, with a line break at the end."""
    return "\n\n".join(filter(None, (_WRITERS[type(block)](block) for block in blocks))) + "\n"


def escaped(value):
    """Text that Markdown shows as it is, in one line."""
    shown = "".join(character if character.isprintable() else " " for character in str(value))
    line = _SPECIAL.sub(r"\\\1", " ".join(shown.split())).replace("://", r"\://")
    return line if _NUMBER.match(line) else _AT_BEGINNING.sub(r"\1\\\2", line)


def _cell(value):
    return "<br>".join(escaped(line) for line in str(value).split("\n"))


def _list(items):
    return "\n".join(f"- {escaped(item)}" for item in items)


def _pair(block):
    return "\n\n".join(
        f"### {escaped(title)}\n\n{_list(items)}" for title, items in (block.left, block.right)
    )


def _title(block):
    return f"# {escaped(block.text)}" + (f"\n\n{escaped(block.under)}" if block.under else "")


def _callout(block):
    return f"> **{escaped(block.text)}.** {escaped(block.note)}"


def _rows(header, rows, numbers=()):
    lines = [header, ["---:" if place in numbers else "---" for place in range(len(header))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _table(block):
    return _rows(
        [_cell(name) for name in block.header],
        [[_cell(value) for value in row] for row in block.rows],
        block.numbers,
    )


def _tiles(block):
    return _rows(
        [escaped(label) for label, _, _ in block.cells],
        [
            [f"**{escaped(value)}**" for _, value, _ in block.cells],
            [escaped(note) for _, _, note in block.cells],
        ],
    )


_WRITERS = {
    Title: _title,
    Heading: lambda block: f"## {escaped(block.text)}",
    Paragraph: lambda block: escaped(block.text),
    Callout: _callout,
    Bullets: lambda block: _list(block.items),
    TermAndText: _pair,
    ReportTable: _table,
    Tiles: _tiles,
    Checklist: lambda block: "\n".join(
        _BOXES[status].format(escaped(statement)) for statement, status in block.items
    ),
    Blanks: lambda block: "\n\n".join(f"{escaped(label)}: {_LINE}" for label in block.labels),
}
