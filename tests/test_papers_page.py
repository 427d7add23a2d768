"""The page of papers says nothing but what the scripts of `benchmarks/papers` have written."""

import csv
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?![\w-])")


def numbers(text):
    """Return numbers in a text as they are written, without commas and those that years or counts may be."""
    found = {match.replace(",", "") for match in NUMBER.findall(text)}
    return {number for number in found if "." in number or int(number) > 20}


def test_figures_on_the_page_of_papers_are_in_files_of_results():
    page = (DOCS / "papers.rst").read_text()
    # Neither code, years of papers nor options of directives.
    said = numbers(
        re.sub(r":result:`[^`]*`|``[^`]*``|\(\d{4}\)|\bof \d{4}\b|\n   :\w+:.*", "", page)
    )
    cells = []
    for path in (DOCS / "results").glob("papers*.csv"):
        with path.open(newline="") as file:
            cells += [cell for line in csv.reader(file) for cell in line]
    written = {float(number) for cell in cells for number in numbers(cell)}
    missing = {
        number
        for number in said
        if not any(f"{value:.{len(number.partition('.')[2])}f}" == number for value in written)
    }
    assert said and missing == set()


def test_every_paper_of_the_page_has_a_script_and_lines():
    page = (DOCS / "papers.rst").read_text()
    with (DOCS / "results" / "papers.csv").open(newline="") as file:
        papers = {line["paper"] for line in csv.DictReader(file)}
    for paper in papers:
        assert f"\n{paper}\n---" in page
    scripts = re.findall(r"python -m benchmarks\.papers\.(\w+)", page)
    assert len(scripts) == len(papers)
    for name in scripts:
        assert (DOCS.parent / "benchmarks" / "papers" / f"{name}.py").exists()
