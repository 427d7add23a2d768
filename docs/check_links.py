"""Links of the built pages that lead nowhere: python docs/check_links.py docs/_build/html

Every href and src that stays within the site has to name a file, and an element of it if it has a fragment.
Prints what is broken, and exits with 1 if anything is.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the names to which one may link."""

    def __init__(self, text):
        super().__init__()
        self.links, self.names = set(), {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Note what a tag refers to and what it is called."""
        for key, value in attrs:
            if key in ("href", "src") and value:
                self.links.add(value)
            elif key in ("id", "name") and value:
                self.names.add(value)


def broken_links(root):
    """Return a list of (page, link)."""
    pages = {
        path: Page(path.read_text("utf-8"))
        for path in sorted(root.rglob("*.html"))
        if "_static" not in path.parts
    }
    broken = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            fragment = unquote(parts.fragment)
            if not target.exists() or (target in pages and fragment not in pages[target].names):
                broken.append((path.relative_to(root), link))
    return broken


if __name__ == "__main__":
    found = broken_links(Path(sys.argv[1]).resolve())
    for page, link in found:
        print(f"{page}: {link}")
    print(f"{len(found)} broken links")
    sys.exit(bool(found))
