"""Accuracy and log loss of the main example by epsilon, over many seeds.

    python -m benchmarks.classification.votes [--repeats 30] [--results docs/results/votes.csv]

Table of README.md, by `measure` of `examples/vote.py`: means over seeds, which are those of split and
sampler, and their standard errors.
"""

import argparse

import numpy as np

from benchmarks.common import ResultsTable, allow_seeds
from examples import vote


def main():
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    allow_seeds()
    results = ResultsTable(
        "model | accuracy | error of accuracy | log loss | error of loss", arguments.results
    )
    for model, found in vote.measure(*vote.load(), arguments.repeats).items():
        numbers = np.column_stack([found.mean(axis=0), vote.standard_error(found)])[:2].ravel()
        results.add(f"{model}", *(f"{number:.4f}" for number in numbers))


if __name__ == "__main__":
    main()
