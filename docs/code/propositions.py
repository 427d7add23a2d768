"""Links from every mention of a proposition, on pages and in docstrings, to its statement."""

import re

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform

# "Proposition 3", "Propositions 8 to 11, and 18"; not "Proposition 1.9", which is another paper's.
MENTION = re.compile(r"Propositions?\s+\d+(?!\.?\d)(?:(?:, and|,| and| to)\s+\d+(?!\.?\d))*")
_OPAQUE = (
    nodes.literal,
    nodes.literal_block,
    nodes.reference,
    nodes.strong,
    nodes.title,
    pending_xref,
)


class LinkPropositions(SphinxTransform):
    """Turn the numbers in mentions into references to labels ``proposition-N``."""

    default_priority = 600

    def apply(self, **kwargs):
        """Replace the texts that mention propositions."""
        for text in list(self.document.findall(nodes.Text)):
            if not _is_within(text, _OPAQUE) and MENTION.search(text):
                text.parent.replace(text, list(_linked(str(text))))


def _is_within(node, kinds):
    while node is not None and not isinstance(node, kinds):
        node = node.parent
    return node is not None


def _linked(text):
    done = 0
    for mention in MENTION.finditer(text):
        for number in re.finditer(r"\d+", mention[0]):
            start, end = (mention.start() + place for place in number.span())
            # A single proposition is linked with its word.
            if mention[0].startswith("Proposition "):
                start = mention.start()
            yield nodes.Text(text[done:start])
            yield _reference(text[start:end], number[0])
            done = end
    yield nodes.Text(text[done:])


def _reference(shown, number):
    attributes = {"refdomain": "std", "reftype": "ref", "reftarget": f"proposition-{number}"}
    reference = pending_xref("", refexplicit=True, refwarn=True, **attributes)
    reference.append(nodes.inline(shown, shown))
    return reference


def setup(app):
    """Register the transform."""
    app.add_transform(LinkPropositions)
    return {"parallel_read_safe": True}
