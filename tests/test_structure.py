"""The house: what plans sees no records, theory knows no algorithm, and imports go one way."""

import ast
import functools
import importlib
import inspect
import pkgutil
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import skdpbayes
from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPGaussianMixturePosterior,
    samplers,
)
from skdpbayes.samplers import resolve_sampler
from skdpbayes.samplers._registry import samplers_by_name

ROOT = Path(skdpbayes.__file__).parent
# What plans may know of targets: public bounds, sizes and constants.
PUBLIC = {
    "TargetBounds",
    "MixtureModel",
    "MOMENT_ROWS",
    "STATISTICS_NORM",
}
PLANNING = {
    "_plan.py",
    "_chain_length.py",
    "plan.py",
    "schedule.py",
    "sensitivity.py",
    "dynamics.py",
    "geometry.py",
    "all_iterates.py",
    "last_iterate.py",
    "_paid_noise.py",
    "paid_noise.py",
    "clipped.py",
    "clipped_normal.py",
    "search.py",
    "exact.py",
    "kernel.py",
    "rounds.py",
    "scales.py",
}


def imports_of(path, only_at_once=False):
    """Return {(module inside the package, name)} that a file imports, and what it imports from outside."""
    inside, outside = set(), set()
    here = ("skdpbayes", *path.relative_to(ROOT).parts[:-1])
    tree = ast.parse(path.read_text())
    for node in tree.body if only_at_once else ast.walk(tree):
        if isinstance(node, ast.Import):
            outside.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level + 1]
            module = ".".join([*base, *filter(None, [node.module])])
            inside.update((module, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            outside.add(node.module.partition(".")[0])
    return inside, outside


def files(folder, pattern="**/*.py"):
    return sorted((ROOT / folder).glob(pattern))


def planning_modules():
    return [path for path in files("samplers") if path.name in PLANNING]


def test_every_planning_module_is_there():
    assert {path.name for path in planning_modules()} == PLANNING


def test_every_class_of_plans_is_in_a_planning_module():
    for path in files("samplers"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                makes_plans = node.name == "Plan" or any(base.endswith("Plan") for base in bases)
                assert not makes_plans or path.name in PLANNING, f"{node.name} in {path}"


@pytest.mark.parametrize("room", ["metrics", "model_selection", "preprocessing"])
def test_plans_beside_samplers_import_nothing_that_reads_records(room):
    inside, outside = imports_of(ROOT / room / "_plan.py")
    assert not outside & {"numba", "numpy", "scipy"}
    for module, _ in inside:
        assert module.split(".")[1] in {"_checks", "_typing", "exceptions", "privacy", "random"}, (
            module
        )


def test_what_makes_plans_is_a_planning_module():
    """Functions that begin with `plan_` are nowhere else, so that the tests here see all of them."""
    for path in files("samplers"):
        names = {
            n.name for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)
        }
        makes_plans = any(name.startswith("plan_") for name in names)
        assert not makes_plans or path in {*planning_modules(), *samplers_that_plan()}, path


def samplers_that_plan():
    """Modules of classes with a `plan` of their own, which `check` targets, too, and `run`."""
    found = []
    for path in files("samplers"):
        classes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ClassDef)]
        methods = {n.name for c in classes for n in c.body if isinstance(n, ast.FunctionDef)}
        if methods & {"plan", "_plan"}:
            found.append(path)
    return found


# What tells of which kind a target is.
KINDS = {
    *("Logistic", "Softmax", "Normal", "Poisson"),
    *("clips_each_example", "has_losses", "has_own_prior"),
}


@pytest.mark.parametrize("path", samplers_that_plan(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_sampler_that_plans_imports_nothing_that_reads_records(path):
    inside, outside = imports_of(path, only_at_once=True)
    assert "numba" not in outside
    for module, name in inside:
        if module.startswith("skdpbayes.targets"):
            assert name in PUBLIC | KINDS, f"{name} of {module}"
        assert module.rpartition(".")[2] not in {"core", "gradients"}, module


def modules():
    """Return {module: modules that it imports, at any level}; a package is its ``__init__``."""
    found = {}
    for path in files("."):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        own = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[own] = set()
        for module, name in imports_of(path)[0]:
            inner = ROOT.parent.joinpath(*module.split("."), name)
            is_module = inner.with_suffix(".py").exists() or (inner / "__init__.py").exists()
            found[own].add(f"{module}.{name}" if is_module else module)
    return found


def test_no_module_imports_itself_through_others():
    """Neither where it is loaded, nor within its functions."""
    try:
        TopologicalSorter(modules()).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.parametrize("path", planning_modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_what_plans_imports_nothing_that_reads_records(path):
    inside, outside = imports_of(path)
    assert "numba" not in outside
    for module, name in inside:
        if module.startswith("skdpbayes.targets"):
            assert name in PUBLIC, f"{name} of {module}"
        elif module.startswith("skdpbayes.samplers"):
            imported = ROOT.parent.joinpath(*module.split(".")).with_suffix(".py")
            assert imported.name in PLANNING, module
        else:
            assert module.startswith(("skdpbayes.privacy", "skdpbayes._linalg")), module


@pytest.mark.parametrize(
    "room, unknown",
    [
        ("privacy", ("samplers", "targets", "_tables", "_estimator", "linear_model", "metrics")),
        ("targets", ("samplers", "privacy", "_tables", "_estimator", "linear_model", "mixture")),
        ("samplers", ("_tables", "_estimator", "linear_model", "mixture", "neural_network")),
        ("_tables", ("_estimator", "linear_model", "mixture", "metrics", "preprocessing")),
        ("_estimator", ("linear_model", "neural_network")),
        ("metrics", ("samplers", "targets", "_estimator", "linear_model", "model_selection")),
        ("preprocessing", ("linear_model", "mixture", "neural_network", "metrics", "pipeline")),
        ("preprocessing", ("samplers", "_estimator", "model_selection")),
        *((room, ("_mechanisms",)) for room in ("privacy", "targets", "_tables")),
        ("model_selection", ("samplers", "targets", "_estimator", "linear_model", "mixture")),
    ],
)
def test_rooms_know_only_what_is_below_them(room, unknown):
    for path in files(room):
        for module, _ in imports_of(path)[0]:
            assert module.split(".")[1] not in unknown, f"{path.name} imports {module}"


def test_mechanisms_know_theory_and_random_numbers_only():
    """Neither estimators nor samplers, tables or ledgers: these ask mechanisms, and pay for them."""
    for path in files("_mechanisms"):
        for module, _ in imports_of(path)[0]:
            room, _, inner = module.removeprefix("skdpbayes.").partition(".")
            assert room in ("_mechanisms", "privacy", "random"), f"{path.name} imports {module}"
            charges = inner.startswith(("ledger", "reserve", "vouchers", "report"))
            assert not (room == "privacy" and charges), f"{path.name} imports {module}"


# Where samplers may be named: the exports, the choice among them, an estimator's default, and what another
# sampler is built on or compares itself with.
NAMED = {
    "samplers/__init__.py": None,
    "samplers/auto.py": None,
    "neural_network.py": {"sghmc"},
    "samplers/fisher/sampler.py": {"SGHMC"},
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
    """Return {folder of samplers: classes and names of the samplers there}."""
    found = {}
    for name, kind in samplers_by_name().items():
        folder = kind.__module__.split(".")[2]
        classes = {own.__name__ for own in kind.__mro__ if f".{folder}." in own.__module__}
        if folder != "auto":
            found.setdefault(folder, set()).update({name, *classes})
    return found


def test_a_sampler_is_named_in_its_own_folder_only():
    """What others ask of it, its attributes say."""
    strangers = set()
    for folder, names in families().items():
        for path in files("."):
            place = path.relative_to(ROOT).as_posix()
            allowed = NAMED.get(place, set())
            if place.startswith(f"samplers/{folder}/") or allowed is None:
                continue
            # A folder's name may be a word of a path or an import, as noise_aware is.
            found = (names & words_of(path)) - allowed
            strangers |= {f"{name} in {place}" for name in found}
    assert len(families()) >= 5 and strangers == set()


def test_a_name_is_that_of_one_exported_class():
    for name, kind in samplers_by_name().items():
        assert type(resolve_sampler(name)) is kind and getattr(samplers, kind.__name__) is kind
    exported = {
        kind
        for kind in map(vars(samplers).get, samplers.__all__)
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


@pytest.mark.parametrize("name", ["_plan", "_steps_of_persons", "_last_step", "_columns", "_norms"])
def test_plans_of_pipelines_take_no_table(name):
    """A fit gives them the names and types of its columns, as a table without rows."""
    module = importlib.import_module(f"skdpbayes.pipeline.{name}")
    for _, function in inspect.getmembers(module, inspect.isfunction):
        if function.__module__ != module.__name__:
            continue
        assert not {"X", "y", "table"} & set(inspect.signature(function).parameters), function


def test_only_one_module_decomposes_matrices():
    """What `numpy.linalg` raises there, or leaves to the processor's kernels, would lose a paid fit."""
    names = {"cholesky", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "pinv", "solve"}
    for path in files("."):
        for node in ast.walk(ast.parse(path.read_text())):
            is_call = isinstance(node, ast.Attribute) and node.attr in names
            if is_call and ast.unparse(node.value).endswith("linalg"):
                assert path.name == "_linalg.py", f"{path}: {ast.unparse(node)}"
