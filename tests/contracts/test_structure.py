"""The house: what plans sees no records, layers import downwards, and a fit stays within so many files.

Planning is recognised by what a function takes and returns: public bounds, or a plan. Neither names of files
nor of folders matter, so that a plan and its run may share a module.
"""

import ast
import csv
import functools
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

import skdpbayes
from benchmarks.refresh import PAGES, figures_of
from benchmarks.results import figure_of
from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPGaussianMixturePosterior,
    samplers,
)
from skdpbayes.samplers import resolve_sampler
from skdpbayes.samplers.base import samplers_by_name

ROOT = Path(skdpbayes.__file__).parent

# Rooms by layer: each knows its own and those above it in this table.
LAYERS = {
    "core": {
        *("_arguments", "_compute", "_data", "_errors", "_estimator", "_jit", "_linalg"),
        *("_mechanisms", "_typing", "exceptions", "linear_model", "mixture", "models"),
        *("neural_network", "privacy", "random", "samplers"),
    },
    "workflow": {
        *("descriptive", "inspection", "metrics", "model_selection", "pipeline"),
        "preprocessing",
    },
    "tools": {"__main__", "_cli", "audit", "report"},
}
# Arrows back, each within a function: constructors that are named by users where they look for them, and the
# records of what was planned and spent, which reports read.
ARROWS_BACK = {
    ("linear_model._base", "pipeline"): "from_formula returns a pipeline",
    ("linear_model._base", "preprocessing"): "from_formula returns a pipeline",
    ("privacy", "report"): "privacy_report is loaded when asked for",
    ("metrics._base", "report"): "a score's account",
    ("pipeline._report", "report"): "a pipeline's account",
    ("model_selection._search", "report"): "a search's account",
}


class Source(NamedTuple):
    """A module's syntax tree, what it defines at its top, and where its imported names come from."""

    name: str
    path: Path
    tree: ast.Module
    defined: dict
    imported: dict


@functools.cache
def sources():
    """Return {name of a module: `Source`}; a package is its ``__init__``."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text("utf-8"))
        defined = {
            node.name: node
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        imported = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = parts[:-1][: len(parts) - node.level]
                module = ".".join([*base, *filter(None, [node.module])])
                imported |= {
                    alias.asname or alias.name: (module, alias.name) for alias in node.names
                }
        found[name] = Source(name, path, tree, defined, imported)
    return found


def room_of(name):
    return name.split(".")[1] if "." in name else ""


def arrows():
    """Yield (module, module it imports from) inside the package."""
    for source in sources().values():
        for module, name in source.imported.values():
            inner = f"{module}.{name}"
            yield source.name, inner if inner in sources() else module


def test_no_module_imports_itself_through_others():
    """Neither where it is loaded, nor within its functions."""
    graph = defaultdict(set)
    for module, other in arrows():
        graph[module].add(other)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_every_room_has_a_layer():
    rooms = {room_of(name) for name in sources()} - {""}
    assert rooms == set().union(*LAYERS.values())


def test_layers_import_downwards():
    level = {room: k for k, rooms in enumerate(LAYERS.values()) for room in rooms}
    back = set()
    for module, other in arrows():
        above, below = level.get(room_of(module), -1), level.get(room_of(other), -1)
        if room_of(module) and below > above:
            back.add((module.removeprefix("skdpbayes."), room_of(other)))
    assert back == set(ARROWS_BACK)


@pytest.mark.parametrize(
    "room, unknown",
    [
        ("privacy", ("samplers", "models", "_data", "_compute", "_estimator", "_mechanisms")),
        ("models", ("samplers", "privacy", "_data", "_compute", "_estimator", "_mechanisms")),
        ("_compute", ("samplers", "_data", "_estimator")),
        ("_data", ("samplers", "_estimator", "_mechanisms")),
        ("samplers", ("_estimator", "linear_model", "mixture", "neural_network")),
        ("_estimator", ("linear_model", "mixture", "neural_network")),
        ("metrics", ("samplers", "models", "_estimator", "linear_model", "model_selection")),
        ("descriptive", ("models", "_estimator", "linear_model", "model_selection", "pipeline")),
        ("preprocessing", ("samplers", "_estimator", "linear_model", "metrics", "pipeline")),
        ("model_selection", ("samplers", "models", "_estimator", "linear_model", "mixture")),
    ],
)
def test_rooms_know_only_what_is_below_them(room, unknown):
    for module, other in arrows():
        assert room_of(module) != room or room_of(other) not in unknown, f"{module} -> {other}"


def test_mechanisms_know_theory_and_random_numbers_only():
    """Neither estimators nor samplers, tables or ledgers: these ask mechanisms, and pay for them."""
    charging = {"charge", "ledger", "ledger_file", "ledger_processes"}
    for module, other in arrows():
        if room_of(module) == "_mechanisms":
            assert room_of(other) in {"_mechanisms", "privacy", "random"}, f"{module} -> {other}"
            assert other.rpartition(".")[2] not in charging, f"{module} -> {other}"


# What holds records, by the names of parameters.
RECORDS = {"X", "y", "data", "rows", "table", "target"}


def parameters(function):
    own = function.args
    return {arg.arg for arg in [*own.posonlyargs, *own.args, *own.kwonlyargs]}


def functions_of(source):
    """Yield (name, function, its class or None) at a module's top and in its classes."""
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node, None
        elif isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    yield f"{node.name}.{member.name}", member, node


def is_planning(function, owner):
    """Whether a function takes bounds of a target, or returns a plan, or belongs to one."""
    returned = ast.unparse(function.returns) if function.returns else ""
    return (
        "bounds" in parameters(function)
        or "Plan" in returned
        or re.match(r"_?plan(_|$)", function.name) is not None
        or (owner is not None and owner.name.endswith("Plan"))
    )


def planning_functions(*rooms):
    for source in sources().values():
        if room_of(source.name) in rooms:
            for name, function, owner in functions_of(source):
                if is_planning(function, owner):
                    yield source, name, function


def defined_at(module, name):
    """Return (module, name) of the function or class that a name of a module stands for, or None."""
    for _ in range(9):
        source = sources().get(module)
        if source is None:
            return None
        if name in source.defined:
            return module, name
        if name not in source.imported:
            return None
        module, name = source.imported[name]
    return None


def mentioned_functions(source, function):
    """Yield (module, name) of what a function mentions: names, and attributes of modules."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            yield defined_at(source.name, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, name = source.imported.get(node.value.id, ("", ""))
            if f"{module}.{name}" in sources():
                yield defined_at(f"{module}.{name}", node.attr)


def test_functions_that_plan_take_no_records():
    seen = list(planning_functions("samplers"))
    assert len(seen) > 120
    for source, name, function in seen:
        assert not parameters(function) & RECORDS, f"{source.name}.{name}"


def test_functions_that_plan_reach_none_that_takes_records():
    seen, to_do = set(), [(s, f, s.name + "." + n) for s, n, f in planning_functions("samplers")]
    while to_do:
        source, function, way = to_do.pop()
        for found in mentioned_functions(source, function):
            if found is None or found in seen:
                continue
            seen.add(found)
            module, name = found
            node = sources()[module].defined[name]
            if isinstance(node, ast.FunctionDef):
                assert not parameters(node) & RECORDS, f"{way} reaches {module}.{name}"
                to_do.append((sources()[module], node, f"{way}, {name}"))
    assert len(seen) > 100


def test_a_planning_function_that_takes_a_target_is_found():
    text = "def price(bounds, target):\n    pass\ndef plan_steps(n_rows, X):\n    pass"
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert all(is_planning(f, None) and parameters(f) & RECORDS for f in functions)


def test_plans_of_pipelines_take_no_table():
    """A fit gives them the names and types of its columns, as a table without rows."""
    for name, function, _ in functions_of(sources()["skdpbayes.pipeline._plan"]):
        assert not {"X", "y", "table"} & parameters(function), name


# Where samplers may be named: the exports, the choice among them, an estimator's default, and what another
# sampler is built on or compares itself with.
NAMED = {
    "samplers/__init__.py": None,
    "samplers/auto.py": None,
    "neural_network.py": {"sghmc"},
    "samplers/metropolis/sampler.py": {"SGHMC"},
}


@functools.cache
def words_of(path):
    """Return the names and the words of strings in a file's code, docstrings left out."""
    return frozenset(_words(ast.parse(path.read_text())))


def _words(tree):
    documentation = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            documentation.add(node.body[0].value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(getattr(node, "value", None), str) and node not in documentation:
            yield from re.findall(r"\w+", node.value)


def families():
    """Return {folder or file of samplers: classes and names of the samplers there}."""
    found = {}
    for name, kind in samplers_by_name().items():
        room = kind.__module__.split(".")[2]
        classes = {own.__name__ for own in kind.__mro__ if f".{room}" in own.__module__}
        if room != "auto":
            found.setdefault(room, set()).update({name, *classes})
    return found


def test_a_sampler_is_named_in_its_own_room_only():
    """What others ask of it, its attributes say."""
    strangers = set()
    for room, names in families().items():
        for source in sources().values():
            place = source.path.relative_to(ROOT).as_posix()
            allowed = NAMED.get(place, set())
            own = (f"samplers/{room}/", f"samplers/{room}.py")
            if place.startswith(own) or allowed is None:
                continue
            strangers |= {
                f"{name} in {place}" for name in (names & words_of(source.path)) - allowed
            }
    assert len(families()) >= 5 and strangers == set()


def test_a_name_is_that_of_one_exported_class():
    for name, kind in samplers_by_name().items():
        assert type(resolve_sampler(name)) is kind and getattr(samplers, kind.__name__) is kind
    exported = {
        kind
        for kind in (getattr(samplers, name) for name in samplers.__all__)
        if inspect.isclass(kind) and issubclass(kind, samplers.Sampler)
    }
    assert exported - {samplers.Sampler} == set(samplers_by_name().values())


@pytest.mark.parametrize(
    "estimator", [DPBayesianLogisticRegression, DPBayesianMLPClassifier, DPGaussianMixturePosterior]
)
def test_an_estimator_has_few_parameters(estimator):
    assert len(inspect.signature(estimator).parameters) <= 19


def test_the_classifier_has_fewer():
    assert len(inspect.signature(DPBayesianLogisticRegression).parameters) <= 17


# Special methods whose types users meet.
SPECIAL = ("__init__", "__add__", "__call__", "__enter__")


def public_modules():
    names = [module.name for module in pkgutil.iter_modules(skdpbayes.__path__)]
    return [
        skdpbayes,
        *(
            importlib.import_module(f"skdpbayes.{name}")
            for name in names
            if not name.startswith("_")
        ),
    ]


def test_public_modules_show_what_is_public():
    for module in public_modules():
        assert dir(module) == sorted(module.__all__), module.__name__
    inner = {module.__name__.removeprefix("skdpbayes.") for module in public_modules()[1:]}
    assert inner <= set(skdpbayes.__all__)


def public_callables():
    """Yield (name, function) of what every `__all__` names, and of the public methods of classes there."""
    modules = [skdpbayes]
    for module in pkgutil.walk_packages(skdpbayes.__path__, "skdpbayes."):
        if not module.name.endswith("__main__"):
            modules.append(importlib.import_module(module.name))
    for module in modules:
        for name in getattr(module, "__all__", ()):
            found = getattr(module, name)
            if inspect.isclass(found) and not issubclass(found, BaseException):
                for room in found.__mro__:
                    for own, member in vars(room).items():
                        member = getattr(member, "fget", None) or getattr(
                            member, "__func__", member
                        )
                        if own in SPECIAL or not own.startswith("_"):
                            yield f"{module.__name__}.{name}.{own}", member
            else:
                yield f"{module.__name__}.{name}", found


def test_public_callables_are_annotated():
    """The package has `py.typed`: a type checker sees parameters and results."""
    assert ROOT.joinpath("py.typed").exists()
    missing, n_seen = set(), 0
    for name, function in public_callables():
        function = inspect.unwrap(function) if callable(function) else function
        if not (inspect.isfunction(function) and function.__module__.startswith("skdpbayes")):
            continue
        if not function.__code__.co_filename.startswith(str(ROOT)):
            continue  # Made by a decorator, as the methods of dataclasses are.
        n_seen += 1
        signature = inspect.signature(function)
        for parameter in signature.parameters.values():
            if parameter.name not in ("self", "cls") and parameter.annotation is parameter.empty:
                missing.add(f"{name}({parameter.name})")
        if signature.return_annotation is signature.empty and not name.endswith("__init__"):
            missing.add(f"{name} -> ?")
    assert n_seen > 300 and missing == set()


def test_only_one_module_decomposes_matrices():
    """What `numpy.linalg` raises there, or leaves to the processor's kernels, would lose a paid fit."""
    names = {"cholesky", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "pinv", "solve"}
    for source in sources().values():
        for node in ast.walk(source.tree):
            is_call = isinstance(node, ast.Attribute) and node.attr in names
            if is_call and ast.unparse(node.value).endswith("linalg"):
                assert source.path.name == "_linalg.py", f"{source.name}: {ast.unparse(node)}"


# Names that other fields have no use for, or that stand for several things; see `docs/development.rst`.
WORDS_NOT_USED = {
    *("at", "found_", "own_", "told", "whole", "doubts", "surprises", "held_back", "let_loose"),
    *("unquoted", "unless_harmless", "plain", "silently", "says_why", "told_parameters"),
    *("tell_names", "rehearse", "Rehearsal", "spender", "AuthorizationHolder", "covers", "reserve"),
    *("through_door", "Passage", "pass_by", "listening", "Watched", "watched_chain"),
    *("choose_even", "draw_frequent", "Fact", "facts_of", "About", "given", "WholeTable"),
    *("N_LOOKS", "Size", "Look", "CountLook", "Beliefs", "Misfit", "learn_misfit", "settle"),
    *("Settled", "settled_chains", "Law", "Tails", "free_shift", "records_moved", "reckoned"),
    *("forgetting", "Reference", "condition", "Conditioned", "gathered_eigenvalues", "apart"),
    *("cut", "levelled", "chain_of_rows", "steps_to_person", "of_plan", "carry_out"),
    *("keep_spent", "check_made_for", "names_where", "as_written", "least_above", "most_below"),
    *("do_one", "do_each", "do_sum", "do_add", "laid_out", "cut_anew", "happens", "confined"),
    *(
        "_tamed",
        "_can_be_tamed",
        "Follower",
        "KeyReader",
        "Enough",
        "Noted",
        "NormRelease",
        "Clock",
    ),
    *("Room", "LaplaceState", "released_bounds", "weighed", "stretch_of"),
}


def test_words_that_are_no_names_are_no_names():
    used = {
        f"{source.name}.{name}"
        for source in sources().values()
        for name in source.defined
        if name in WORDS_NOT_USED
    }
    assert used == set()


# The same of attributes, arguments and variables.
WORDS_NOT_USED_ANYWHERE = {
    *("records_moved", "look_around", "surprises", "told", "says_why", "voucher", "redeem"),
    *("widening", "weigh", "stretch", "misfit", "population", "doubt", "own_doubt", "_drowned"),
    *("_norm_room", "_within_reach", "_reaching", "plan_at_paid_noise", "burnt", "quiet_step"),
    *(
        "looks",
        "passage",
        "listener",
        "is_nothing",
        "beliefs",
        "contradiction",
        "_rehearse",
        "anew",
    ),
    *("take_authorization", "of_looks", "look_multipliers", "size_multiplier", "tails_multipliers"),
    *("wanted_acceptance", "forgetting", "steepness", "mapped", "_told_names"),
}


def test_words_that_are_no_names_are_not_inside_functions():
    used = set()
    for source in sources().values():
        for node in ast.walk(source.tree):
            names = [getattr(node, field, None) for field in ("id", "attr", "arg", "name")]
            used |= {f"{source.name}: {one}" for one in names if one in WORDS_NOT_USED_ANYWHERE}
    assert used == set()


# Private rooms that a folder of tests mirrors; other folders have the room of their own name.
MIRRORED = {
    "data": {"_data"},
    "distributed": {"_data"},
    "compute": {"_compute"},
    "estimator": {"_estimator"},
    "mechanisms": {"_mechanisms"},
    "": {"_cli", "_estimator"},
}
# Imports of private modules from another room; lower it where a public name allows it.
MOST_CROSSINGS = 32


def private_imports(path):
    """Yield names of private modules of the package that a file imports."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
            if node.module == "skdpbayes":
                modules = [f"skdpbayes.{alias.name}" for alias in node.names]
        for module in modules:
            room, *rest = [*module.split("."), ""][1:]
            if module.startswith("skdpbayes.") and any(
                part.startswith("_") for part in (room, *rest)
            ):
                yield module


def test_tests_reach_into_the_room_that_they_mirror():
    """What cuts across, in `contracts` and `_helpers`, may import from anywhere."""
    tests, crossings = Path(__file__).parents[1], []
    for path in sorted(tests.rglob("*.py")):
        folder = path.relative_to(tests).parts[0] if path.parent != tests else ""
        if folder not in ("contracts", "_helpers"):
            rooms = MIRRORED.get(folder, {folder})
            crossings += [
                f"{path.name}: {module}"
                for module in private_imports(path)
                if module.split(".")[1] not in rooms
            ]
    assert len(crossings) <= MOST_CROSSINGS, "\n".join(crossings)


def test_names_of_tests_are_read_at_a_glance():
    for path in Path(__file__).parents[1].rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node, "name", "")
            assert not isinstance(node, ast.FunctionDef) or len(name) <= 70, f"{path.name}: {name}"


def test_docstrings_begin_with_what_is_returned():
    """By its noun, not by "Return what", "How much" or "That of"."""
    headless = re.compile(r"(Return|How|Where|That of|Those of|What|Whose|By what)\b")
    for source in sources().values():
        for name, function, _ in functions_of(source):
            text = ast.get_docstring(function) or ""
            assert not headless.match(text), f"{source.name}.{name}: {text.splitlines()[0]}"


@functools.cache
def defined_names():
    """Return names of modules, functions, classes, attributes and constants, and what modules import."""
    names = set()
    for source in sources().values():
        names.update(source.name.split("."))
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute):
                names.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
            elif isinstance(node, ast.alias):
                names.update((node.asname or node.name).split("."))
        for node in source.tree.body:
            for target in node.targets if isinstance(node, ast.Assign) else ():
                names.update(n.id for n in ast.walk(target) if isinstance(n, ast.Name))
    return names


@functools.cache
def prose():
    """Return (name of a module, line, text) of all comments and docstrings."""
    texts = []
    for source in sources().values():
        with source.path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                quoted = token.type == tokenize.STRING and token.string.lstrip("r")[:3] == '"""'
                if quoted or token.type == tokenize.COMMENT:
                    texts.append((source.name, token.start[0], token.string))
    return texts


ELSEWHERE = {
    "numpy",
    "scipy",
    "pandas",
    "dataclasses",
    "cross_val_score",
    "cross_validate",
    "make_pipeline",
}


def test_names_in_backticks_exist():
    names, missing = defined_names() | ELSEWHERE, []
    for module, line, text in prose():
        code = re.sub(r"``.*?``", "", text, flags=re.DOTALL)
        for match in re.finditer(r"(?<![:`\w])`([A-Za-z_][\w.]*)(?:\(\))?`", code):
            parts = match[1].split(".")
            if parts[0] not in ELSEWHERE and not names.issuperset(parts):
                place = line + code[: match.start()].count("\n")
                missing.append(f"{module}:{place}: {match[1]}")
    assert not missing, "\n".join(missing)


def test_types_in_docstrings_exist():
    names = defined_names() | {"None", "Figure", "ErrorbarContainer", "InferenceData", "DataTree"}
    missing = []
    # A line with a type and nothing else, or a name of two capitals or more.
    pattern = re.compile(r"^ +[\w*, ]+ : (?:\w+ of )?([A-Z]\w+$|[A-Z][a-z]+[A-Z]\w+)", re.MULTILINE)
    for module, line, text in prose():
        missing += [
            f"{module}:{line}: {name}"
            for name in pattern.findall(text)
            if name not in names and not hasattr(np.random, name)
        ]
    assert not missing, "\n".join(missing)


def test_files_that_the_documentation_names_exist():
    pages = [*(ROOT.parent / "docs").rglob("*.rst"), ROOT.parent / "CONTRIBUTING.md"]
    for page in pages:
        for name in re.findall(
            r"``((?:skdpbayes/)?[a-z_]+(?:/[a-z_]+)+\.py)``", page.read_text("utf-8")
        ):
            found = [ROOT.parent / name, ROOT / name]
            assert any(path.exists() for path in found), f"{page.name}: {name}"


def test_a_constant_has_a_line_of_its_own():
    """Its name says what it is, and its comment the unit and where the number comes from."""
    for source in sources().values():
        for node in source.tree.body:
            several = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
            assert not several or not isinstance(node.value, ast.Tuple), (
                f"{source.name}: {ast.unparse(node)}"
            )


# Words that say nothing of a constant without a noun.
BARE = set(
    """
    LEAST MOST LARGEST SMALLEST FARTHEST FAR FEW FEWER FEWEST ROOM DEVIATIONS LONGEST SHORTEST WIDEST CLOSE
    NARROWEST LITTLE TINY USUAL ROOT ROUNDING GROWTH MANY UNKNOWN SAFE SHARPEST HIDDEN ENOUGH FIRST LAST
    LEFT MUCH POSITIVE WORTH FORGETTING SPREAD CLEAR CLEARER TOP DOUBT USED WANTED STRETCH GIVEN UPPER
    LOWER NEAR HIGHEST LOWEST RARE OWN KEPT KINDS EARLY BEYOND TOLERANCE LIMITS OF IN
    """.split()  # noqa: SIM905  # A list of as many strings is four times as long.
)


def test_names_of_constants_have_a_noun():
    for source in sources().values():
        for node in source.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                words = name.strip("_").split("_")
                is_bare = set(words) <= BARE or words[0] in ("OF", "IN")
                assert not (name.isupper() and is_bare), f"{source.name}: {name}"


# A constant of each kind of sampler, or an interface that several modules have on purpose.
SHARED_NAMES = {"BURN_IN", "MOMENT_SHARE", "NORMS", "N_DRAWS", "N_STEPS", "SHARES"} | {
    "N_STEPS_WITHOUT_PRIVACY",
    "main",
}


def test_a_top_level_name_stands_for_one_thing():
    where = defaultdict(set)
    for source in sources().values():
        for node in source.tree.body:
            names = [getattr(node, "name", "")]
            if isinstance(node, ast.Assign):
                names = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            for name in names:
                if name and not name.startswith("_"):
                    where[name].add(source.name)
    several = {name: places for name, places in where.items() if len(places) > 1}
    assert set(several) - SHARED_NAMES == set(), several


COUNTED = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from sklearn.linear_model import LogisticRegression
import skdpbayes
from skdpbayes import DPBayesianLogisticRegression, DPBayesianRidge
from skdpbayes.pipeline import PrivatePipeline
from skdpbayes.preprocessing import DPQuantileScaler
from skdpbayes.privacy import privacy_report

ROOT = skdpbayes.__path__[0]
rng = np.random.default_rng(0)
X, y = rng.normal(size=(400, 4)), rng.integers(0, 2, 400)
r = np.clip(X[:, 0], -3.0, 3.0)
fitted = DPBayesianLogisticRegression(random_state=0).fit(X, y)
runs = {
    "fit": lambda: DPBayesianLogisticRegression().fit(X, y),
    "ridge": lambda: DPBayesianRidge((-3.0, 3.0)).fit(X, r),
    "pipeline": lambda: PrivatePipeline(
        [("scale", DPQuantileScaler()), ("model", DPBayesianLogisticRegression())], epsilon=1.0
    ).fit(X, y),
    "predict_proba": lambda: fitted.predict_proba(X),
    "report": lambda: privacy_report(fitted),
}
counts = {}
for name, run in runs.items():
    run()
    found = []
    for _ in range(10):  # What warns, or has a prior of its own, depends on noise.
        seen = set()
        def notice(frame, event, argument):
            if event == "call" and frame.f_code.co_filename.startswith(ROOT):
                seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))
        sys.setprofile(notice)
        run()
        sys.setprofile(None)
        found.append((len({file for file, _ in seen}), len(seen)))
    counts[name] = min(found)
assert "skdpbayes.samplers.metropolis" not in sys.modules  # Loaded when asked for.
print(json.dumps(counts))
"""
# Files and functions of the package that are run through; lower these where code allows it. A few more
# functions read the marks that earlier tests' ledgers have left in this process.
MOST_RUN = {
    "fit": (45, 428),
    "ridge": (45, 457),
    "pipeline": (61, 697),
    "predict_proba": (10, 41),
    "report": (31, 214),  # 12 and 96 of them for its sentences on effects, widths and checks.
}


def test_a_fit_runs_through_few_files():
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name, (files, functions) in json.loads(done.stdout).items():
        most_files, most_functions = MOST_RUN[name]
        assert files <= most_files and functions <= most_functions, f"{name}: {files}, {functions}"


def test_figures_of_the_gallery_can_be_read_on_a_phone():
    """Five inches at most, in one column; and some example has cells that are missing."""
    texts = {path.name: path.read_text() for path in (ROOT.parent / "examples").glob("plot_*.py")}
    for name, text in texts.items():
        widths = [float(width) for width in re.findall(r"figsize=\(([\d.]+),", text)]
        columns = re.findall(r"subplots\(\s*\d+, (\d+)", text)
        assert widths and max(widths) <= 5.0 and set(columns) <= {"1"}, name
    assert any("missing(" in text for text in texts.values())


def test_tables_of_results_are_made_of_files_that_are_there():
    """Every directive names a file of ``docs/results``, and columns and fields that it has."""
    found = 0
    for page in (ROOT.parent / "docs").rglob("*.rst"):
        for match in re.finditer(r"\.\. results-table:: (\S+)\n((?:   .*\n)+)", page.read_text()):
            with open(page.parent / match[1], newline="") as file:
                heads, *lines = csv.reader(file)
            options = dict(re.findall(r":(\w+): (.*(?:\n      .*)*)", match[2]))
            named = [options["rows"], options.get("columns", "")]
            named = [name.strip() for text in named for name in text.split(",") if name.strip()]
            fields = re.findall(r"\{([^}.:]+)", options["cells"])
            assert lines and fields and set(named + fields) <= set(heads), (page, match[1])
            found += 1
    assert found > 8


def test_figures_in_sentences_are_cells_of_files():
    """The role ``result`` names a file, a query that finds lines of it, and a cell that is one figure."""
    texts = [
        (page.name, text)
        for page in (ROOT.parent / "docs").rglob("*.rst")
        for text in re.findall(r":result:`([^`]*)`", page.read_text())
    ]
    assert len(texts) > 50
    for page, text in texts:
        try:
            figure = figure_of(text)
        except (ValueError, KeyError, FileNotFoundError, pd.errors.UndefinedVariableError) as error:
            raise AssertionError(f"{page}: {text}: {error!r}") from error
        assert re.fullmatch(r"[-+]?[\d,.]+%?", figure), f"{page}: {text} is {figure!r}"


@pytest.mark.parametrize("name", PAGES)
def test_pages_of_benchmarks_have_no_figure_of_their_own(name):
    assert not figures_of((ROOT.parent / "docs" / f"{name}.rst").read_text())


def test_figures_are_told_from_settings_and_from_cells_of_files():
    text = "At epsilon 0.1 and 0.3, 90% intervals of :result:`a.csv; x == 0.2; {y:.2f}` and 0.25 hold 95%."
    assert figures_of(text) == ["0.25", "95%"]
    assert not figures_of(
        "Text.\n\n.. results-table:: a.csv\n   :only: x == 0.5\n\nMore of version 1.9.\n"
    )
