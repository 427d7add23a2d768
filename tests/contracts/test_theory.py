"""The theory: what draws noise names the proposition that pays for it, and chapters name their code."""

import ast
import io
import re
import tokenize
from pathlib import Path

import numpy as np
import pytest

import skdpbayes

ROOT = Path(skdpbayes.__file__).parent
PROJECT = Path(__file__).resolve().parents[2]
THEORY = PROJECT / "docs" / "theory"
LONGEST_PAGE = 6_000

# What draws random numbers: methods of generators, and functions of the package that draw for their callers.
METHODS = {
    name
    for kind in (np.random.Generator, np.random.RandomState)
    for name in dir(kind)
    if not name.startswith("_") and callable(getattr(kind, name))
} - {"spawn", "seed", "get_state", "set_state"} | {"rvs", "gauss", "randbelow", "urandom"}
FUNCTIONS = {
    "noisy_step",
    "release_vector",
    "release_moment",
    "discrete_laplace",
    "with_noise",
    "draw_quantiles",
    "draw_column_quantiles",
    "stability_histogram",
    "integer_below",
    "choose_weighted",
    "choose_zero_crossing",
    "exact_bernoulli",
    "choose",
    "poisson",
    "poisson_batch",
    "shuffle",
    "next_batch",
    "choose_rows",
    "choose_with_firsts",
    "choose_in_parts",
    "draw_number",
    "draw_candidate",
}
NUMBERS = r"\d+(?!\.?\d)(?:(?:, and|,| and| to)\s+\d+(?!\.?\d))*"
MENTION = re.compile(rf"Propositions?\s+({NUMBERS})")
REASON = re.compile(
    rf"#\s*(?:Propositions? {NUMBERS}|Post-processing\b|Public\b|Without privacy\b)"
)


def mentioned(text):
    """Return the numbers of the propositions that a text mentions, ranges included."""
    found = set()
    for mention in MENTION.finditer(text):
        numbers = [int(number) for number in re.findall(r"\d+", mention[1])]
        found.update(numbers)
        for first, last in re.findall(r"(\d+)\s+to\s+(\d+)", mention[1]):
            found.update(range(int(first), int(last) + 1))
    return found


def comments(source):
    """Return {line: comment}."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def statements(tree):
    """Yield every statement with the nodes that are its own, those of statements inside it left out."""
    for statement in ast.walk(tree):
        if isinstance(statement, ast.stmt):
            own, waiting = [], [statement]
            while waiting:
                inside = ast.iter_child_nodes(waiting.pop())
                inside = [node for node in inside if not isinstance(node, ast.stmt)]
                own += inside
                waiting += inside
            yield statement, own


def draws_noise(node, called, shared):
    """Tell whether a node is, or hands on, what draws random numbers."""
    if isinstance(node, ast.Name):
        return node.id in shared and isinstance(node.ctx, ast.Load)
    if not isinstance(node, ast.Attribute) or node.attr not in METHODS | FUNCTIONS:
        return False
    owner = ast.unparse(node.value)
    if not called:
        return owner.split(".")[-1] in ("generator", "rng", "random_state")
    is_of_a_module = owner.split(".")[0] in ("np", "numpy", "math", "special")
    return not is_of_a_module or "random" in owner


def noise_calls(source):
    """Yield (line, text, reason) of what draws random numbers; the reason is None where there is none."""
    tree, said = ast.parse(source), comments(source)
    shared = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)} & FUNCTIONS
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            own = node.level or node.module.startswith("skdpbayes")
            names = FUNCTIONS if own else METHODS if "random" in node.module else set()
            shared |= {alias.asname or alias.name for alias in node.names if alias.name in names}
    for statement, nodes in statements(tree):
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        calls = [node for node in nodes if draws_noise(node, id(node) in called, shared)]
        if not calls:
            continue
        first, last = statement.lineno, statement.end_lineno
        if getattr(statement, "body", None):  # A comment in there is not about its head.
            last = max(getattr(node, "end_lineno", first) for node in nodes)
        while first - 1 in said and source.splitlines()[first - 2].lstrip().startswith("#"):
            first -= 1
        reasons = [said[line] for line in range(first, last + 1) if line in said]
        reason = next(filter(REASON.match, reasons), None)
        for call in calls:
            yield call.lineno, ast.unparse(call), reason


def modules():
    return sorted(ROOT.rglob("*.py"))


def chapters():
    return {path: path.read_text("utf-8") for path in sorted(THEORY.glob("*.rst"))}


def stated():
    """Return {number of a proposition: text of its chapter}."""
    found = {}
    for text in chapters().values():
        for number in re.findall(r"^\*\*Proposition (\d+)", text, re.MULTILINE):
            assert int(number) not in found, f"Proposition {number} is stated twice"
            found[int(number)] = text
    return found


def test_every_line_that_draws_noise_names_what_pays_for_it():
    calls = [
        (f"{path.relative_to(ROOT)}:{line}: {text}", reason)
        for path in modules()
        for line, text, reason in noise_calls(path.read_text("utf-8"))
    ]
    assert len(calls) > 80
    assert [where for where, reason in calls if reason is None] == []


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_chapter_of_a_named_proposition_names_the_module(path):
    known, where = stated(), path.relative_to(ROOT).as_posix()
    for line, text, reason in noise_calls(path.read_text("utf-8")):
        for number in mentioned(reason or ""):
            assert number in known, f"line {line}, {text}: there is no Proposition {number}"
            assert f"``{where}``" in known[number], f"Proposition {number}'s chapter: {where}"


@pytest.mark.parametrize(
    "source, n_missing",
    [
        ("noise = generator.laplace(size=3)", 1),
        ("noise = self.generator.normal()  # The noise.", 1),
        ("draw = generator.standard_normal", 1),
        ("import numpy as np\nx = np.random.normal()", 1),
        ("from numpy.random import normal\nx = normal()", 1),
        ("from scipy.stats import poisson\nx = poisson.pmf(0, 1.0)", 0),
        ("from .lattice import release_vector as r\nx = r(values, 1.0, generator)", 1),
        ("from .lattice import release_vector\nreleased = list(map(release_vector, v))", 1),
        ("from . import lattice\nlattice.noisy_step(g, 1.0, generator)", 1),
        ("if generator.random() < p:\n    # Proposition 19.\n    pass", 1),
        ("# Proposition 3.\n\nx = generator.random()", 1),
        ("# Propositional.\nx = generator.random()", 1),
        ("x = '# Proposition 3.', generator.random()", 1),
        ("x = generator.random()  # Proposition 3.", 0),
        ("# Propositions 3 and 8.\nx = generator.random(\n    3\n)", 0),
        ("x = generator.random()  # Post-processing.", 0),
        ("x = generator.random()  # Public: a proposal.", 0),
        ("x = generator.random()  # Without privacy.", 0),
    ],
)
def test_a_new_line_that_draws_noise_without_a_reason_is_found(source, n_missing):
    assert sum(reason is None for _, _, reason in noise_calls(source)) == n_missing


def test_what_nothing_pays_for_is_where_budgets_are_infinite():
    """That room's sampler refuses any other budget."""
    for path in modules():
        reasons = [reason for _, _, reason in noise_calls(path.read_text("utf-8"))]
        if any(reason and "Without privacy" in reason for reason in reasons):
            assert path == ROOT / "samplers" / "gibbs.py"


def test_every_proposition_that_is_cited_exists():
    known = set(stated())
    files = [
        path
        for folder in ("skdpbayes", "tests", "examples", "benchmarks")
        for path in (PROJECT / folder).rglob("*.py")
    ]
    files += [*PROJECT.glob("*.md"), *pages(), PROJECT / "docs" / "first_steps.ipynb"]
    cited = set()
    for path in files:
        if path != Path(__file__).resolve():
            found = mentioned(path.read_text("utf-8"))
            assert found <= known, f"{path.relative_to(PROJECT)}: {found - known}"
            cited |= found
    assert len(cited) > 40


def test_the_index_lists_every_proposition_with_its_chapter():
    index = (THEORY / "index.rst").read_text("utf-8")
    listed = dict(re.findall(r"^   \* - (\d+)\n     - .+\n     - :doc:`(\w+)`$", index, re.M))
    by_chapter = {
        number: path.stem
        for path, text in chapters().items()
        for number in re.findall(r"^\.\. _proposition-(\d+):\n\n\*\*Proposition \1\b", text, re.M)
    }
    assert listed == by_chapter
    assert {int(number) for number in listed} == set(stated())


def test_a_chapter_opens_with_what_is_released_its_cost_and_its_code():
    for path, text in chapters().items():
        if "**Proposition" in text:
            head = text[:3_000]
            fields = [head.index(f"\n:{name}:") for name in ("Released", "Cost", "Code")]
            assert fields == sorted(fields), path.name


def test_every_folder_of_samplers_has_a_chapter():
    named = "".join(chapters().values())
    for path in (ROOT / "samplers").iterdir():
        if path.is_dir() and not path.name.startswith("_"):
            assert re.search(rf"``samplers/{path.name}/\w+\.py``", named), path.name


def test_modules_that_chapters_name_are_there():
    for path, text in chapters().items():
        for named in re.findall(r"``([\w/]+(?:\.py|/))``", text):
            assert (ROOT / named).exists() or named == "skdpbayes/", f"{path.name}: {named}"


def pages():
    docs = PROJECT / "docs"
    return [path for path in docs.rglob("*.rst") if not {"_build", "gallery"} & set(path.parts)]


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.stem)
def test_no_page_is_a_book(path):
    assert len(path.read_text("utf-8").split()) <= LONGEST_PAGE
