"""Builds install without a network, and versions and requirements agree wherever they are listed."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

import skdpbayes

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def listed(text, section):
    """The names and versions of a list in the recipe, which is read as text: no YAML is required."""
    block = re.search(rf"^  {section}:\n((?:    - .*\n)+)", text, re.MULTILINE)[1]
    return {line.strip("- ").replace(" ", "") for line in block.splitlines()}


def test_the_recipe_requires_what_the_package_requires():
    recipe = (ROOT / "packaging/conda/recipe.yaml").read_text("utf-8")
    wanted = {f"python{PROJECT['requires-python']}", *PROJECT["dependencies"]}
    python_min = re.search(r'python_min: "(.+)"', recipe)[1]
    found = {one.replace("${{python_min}}", python_min) for one in listed(recipe, "run")}
    assert found == wanted
    for name, target in PROJECT["scripts"].items():
        assert f"- {name} = {target}\n" in recipe


def test_versions_agree():
    for file, pattern in {
        "CITATION.cff": r"^version: (.+)$",
        "packaging/conda/recipe.yaml": r'^  version: "(.+)"$',
        ".zenodo.json": r'^  "version": "(.+)",$',
    }.items():
        text = (ROOT / file).read_text("utf-8")
        assert (
            re.search(pattern, text, re.MULTILINE)[1] == skdpbayes.__version__ == PROJECT["version"]
        )


def test_the_oldest_requirements_are_those_of_the_project():
    lines = (ROOT / "constraints-oldest.txt").read_text("utf-8").splitlines()[1:]
    oldest = {re.sub(r"==([\d.]+?)(\.0)?$", r">=\1", line) for line in lines}
    needed = set(PROJECT["dependencies"])
    of_tests = {re.sub(r"\[.*\]", "", line) for line in PROJECT["optional-dependencies"]["test"]}
    assert needed <= oldest <= needed | of_tests


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The sources without what earlier builds left behind."""
    place = tmp_path_factory.mktemp("sources") / "skdpbayes"
    leftovers = shutil.ignore_patterns("build", "dist", "*.egg-info", "_build", "__pycache__", ".*")
    shutil.copytree(ROOT, place, ignore=leftovers)
    return place


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


OFFLINE = ("--no-index", "--no-deps", "--no-build-isolation", "--quiet")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_builds_and_installs_offline(copy, tmp_path, kind):
    source = copy
    if kind == "sdist":
        build = "from setuptools.build_meta import build_sdist; print(build_sdist('dist'))"
        name = run(sys.executable, "-c", build, cwd=copy).splitlines()[-1]
        source = copy / "dist" / name
        with tarfile.open(source) as archive:
            names = {member.name.partition("/")[2] for member in archive.getmembers()}
        wanted = {"LICENSE", "README.md", "CITATION.cff", "skdpbayes/py.typed", "tests/conftest.py"}
        assert wanted | {"docs/index.rst", "examples/plot_audit.py"} <= names
        built = ("docs/_build/", "docs/generated/", "docs/gallery/", "docs/sg_execution_times.rst")
        assert not [name for name in names if name.startswith(built)]
    pip = (sys.executable, "-m", "pip")
    run(*pip, "wheel", *OFFLINE, "--wheel-dir", str(tmp_path), str(source), cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    run(*pip, "install", *OFFLINE, "--target", str(site), str(wheel), cwd=tmp_path)
    installed = {str(path.relative_to(site)) for path in site.glob("skdpbayes/**/*.py")}
    assert installed == {str(path.relative_to(ROOT)) for path in ROOT.glob("skdpbayes/**/*.py")}
    assert (site / "skdpbayes/py.typed").exists() and (site / "bin/skdpbayes").exists()
    # No other folder of the sources is installed.
    assert {path.name for path in site.iterdir() if path.is_dir()} - {"bin"} == {
        "skdpbayes",
        f"skdpbayes-{skdpbayes.__version__}.dist-info",
    }
    environment = {**os.environ, "PYTHONPATH": str(site)}
    plan = run(
        sys.executable, "-m", "skdpbayes", "plan", "logistic", "--rows", "1000", "--columns", "3",
        cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert plan.startswith("Privacy plan")
