"""Tables of the documentation, which tests compare with what is measured."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


def stated(page):
    """Rows of a page's list table, {first cell: the others}; the test is skipped without the page."""
    if not page.exists():
        pytest.skip("the documentation is not here")
    rows = page.read_text().split("   * - ")[2:]
    cells = [[cell.strip() for cell in re.split(r"\n\s+- ", row)] for row in rows]
    return {name: tuple(others) for name, *others in cells}
