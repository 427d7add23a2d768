"""The directive ``package-tree``: modules of the package, each with its docstring's first sentence."""

import ast
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

import skdpbayes

ROOT = Path(skdpbayes.__file__).parent


def lines_of_tree(root=ROOT):
    """Lines of text: a folder's modules are indented below it."""
    found = [f"{root.name}/"]
    for path in sorted(
        root.rglob("*.py"), key=lambda p: [p.parent.parts, p.name != "__init__.py", p.name]
    ):
        depth = len(path.relative_to(root).parts)
        title = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n")[0]
        name = path.name
        if name == "__init__.py":
            if depth == 1:
                continue
            depth, name = depth - 1, f"{path.parent.name}/"
        found.append(f"{'  ' * depth}{name:<{max(1, 30 - 2 * depth)}} {title}".rstrip())
    return found


class PackageTree(Directive):
    """The tree as a literal block."""

    def run(self):
        """Nodes of the block."""
        text = "\n".join(lines_of_tree())
        return [nodes.literal_block(text, text, language="none")]


def setup(app):
    """Add the directive."""
    app.add_directive("package-tree", PackageTree)
    return {"parallel_read_safe": True}
