"""Compiled code is kept as long as the code it was made of, and no longer."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numba.core import config

import skdpbayes
from skdpbayes._compute import gradients

PACKAGE = Path(skdpbayes.__file__).parent
LINKING = "_compute/gradients.py"


_no_caches = shutil.ignore_patterns("__pycache__")


@pytest.fixture
def package(tmp_path):
    """A copy of the package, to be edited."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "skdpbayes", ignore=_no_caches))


def replace(package, path, old, new):
    file = package / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def fingerprint(package):
    files = (path.read_bytes() for path in gradients._sources(package))
    return gradients._hash_of_code(package, gradients._hash(files))


def printed_by(package, script):
    """Return the words that a script prints in a process of its own, which keeps compiled code there."""
    places = {"PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": str(package / "kept")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, env=os.environ | places, cwd=package.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def before():
    return fingerprint(PACKAGE)


WORDS = [
    ('"""', '"""Other words.\n\n'),  # In the module's docstring, and all lines move.
    ("import ctypes\n", "import ctypes  # A comment\n# and another\n\n\n"),
    ('    """A target\'s number of records."""', '    """How many."""\n\n'),
    ('    """A target\'s number of records."""\n', ""),
    ('    """A compiled function of a target, or of arrays:', '    """What is compiled:'),
]


@pytest.mark.daily(1)
@pytest.mark.parametrize("old, new", WORDS)
def test_words_and_lines_are_not_code(package, before, old, new):
    replace(package, LINKING, old, new)
    assert fingerprint(package) == before


def test_a_module_of_words_alone_is_hashed(package, before):
    (package / "samplers" / "_empty.py").write_text('"""Words."""\n')
    assert fingerprint(package) != before  # There is one file more.


CODE = [
    ("_jit.py", "ir.IntType(64)", "ir.IntType(32)"),
    ("_compute/gradients.py", "done != n_chunks", "done < n_chunks"),
    ("_compute/gradients.py", '"an entry takes', '"an Entry takes'),
    ("models/__init__.py", '"""\n', '"""\n"""A string that is no docstring."""\n'),
]


@pytest.mark.parametrize("path, old, new", CODE)
def test_a_change_of_the_code_is_one_of_the_hash(package, before, path, old, new):
    replace(package, path, old, new)
    assert fingerprint(package) != before


def test_a_file_in_another_place_is_another_hash(package, before):
    (package / LINKING).rename(package / "_compute" / "links.py")
    assert fingerprint(package) != before


def test_files_changed_after_the_import_are_not_the_imported_ones(package):
    imported = gradients._hash(path.read_bytes() for path in gradients._sources(package))
    replace(package, LINKING, "done != n_chunks", "done < n_chunks")
    assert gradients._hash_of_code(package, imported) == imported
    assert fingerprint(package) != imported


SCRIPT = """
import numpy as np
from skdpbayes._compute import gradients
from skdpbayes.models import Logistic
from skdpbayes.models.linear import make_linear

X, y = np.ones((3, 2)), np.array([0.0, 1.0, 1.0])
assert gradients.count_examples(make_linear(X, y, Logistic(), 1.0, 0.0, np.ones(2))) == 3
stats = gradients._lay_out._cached.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


@pytest.mark.nightly
def test_comments_compile_nothing_and_code_elsewhere_does(package):
    def hits_and_misses():
        return printed_by(package, SCRIPT)

    assert hits_and_misses() == ["0", "1"]
    replace(package, LINKING, '"""', '"""Other words.\n\n')
    replace(package, "models/families/logistic.py", '"""', '"""Other words.\n\n')
    assert hits_and_misses() == ["1", "0"]
    replace(package, "_jit.py", '"nogil": True', '"nogil": 1')
    assert hits_and_misses() == ["0", "1"]


PREDICTING = """
import numpy as np
from skdpbayes._estimator import classifier

logits, weights = np.full((1, 4), 1.0, np.float32), np.full(4, 0.25, np.float32)
mean = np.empty((1, 2), np.float32)
classifier._average_of_logits(logits, weights, mean)
print(*mean[0].round(3))
"""


@pytest.mark.nightly
def test_predictions_are_not_computed_by_code_of_other_sources(package):
    def mean():
        return printed_by(package, PREDICTING)

    assert mean() == ["0.269", "0.731"]
    old = "x = _LEAST_EXPONENT if x < _LEAST_EXPONENT else x\n    shifted"
    replace(package, "models/single_precision.py", old, "x = _LEAST_EXPONENT\n    shifted")
    assert mean() == ["0.0", "1.0"]


class Pair(NamedTuple):
    """Two numbers."""

    first: float
    second: float


def sum_of(numbers, pair):
    return numbers[0] + pair.first + pair.second


def test_code_for_a_class_that_its_name_does_not_lead_to_is_not_kept(monkeypatch, tmp_path):
    """It would come back for another class, and be loaded at every call."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    hidden = Pair
    monkeypatch.setitem(globals(), "Pair", lambda *numbers: hidden(*numbers))
    core = gradients.CompiledCore(sum_of)
    assert core(np.ones(1), hidden(2.0, 3.0)) == 6.0 and not list(tmp_path.rglob("*sum_of*.nbc"))
    monkeypatch.setitem(globals(), "Pair", hidden)
    assert gradients.CompiledCore(sum_of)(np.ones(1), Pair(2.0, 3.0)) == 6.0
    assert list(tmp_path.rglob("*sum_of*.nbc"))
