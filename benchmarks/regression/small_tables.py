"""Private linear regression on small real tables of numbers.

    python -m benchmarks.regression.small_tables FILE [--repetitions 10] [--epsilons 0.3 1 3]

Table "Small tables" of docs/benchmarks_numbers.rst, by ``--results docs/results/small_tables.csv``.
``FILE`` holds tables of the UCI repository as arrays
``NAME_X`` and ``NAME_y``. Bounds are stated from what columns mean, as units and ranges of an instrument, and
not taken from the rows. Printed are medians of R^2 on a quarter of the rows that no fit saw, of least
squares, `DPBayesianRidge`, and AdaSSP with the same bounds. All are private under replace_one at delta 1e-5.
"""

import argparse
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from benchmarks.common import ResultsTable, allow_seeds, r_squared
from benchmarks.regression.linear import ada_ssp
from skdpbayes import DPBayesianRidge
from skdpbayes.preprocessing import BoundedScaler

DELTA = 1e-5

# Bounds of columns, and of responses.
BOUNDS = {
    "energy": (
        [(0.5, 1), (500, 850), (200, 450), (100, 250), (3, 7.5), (2, 5), (0, 0.5), (0, 5)],
        (0, 50),
    ),
    "concrete": (
        [
            *[(100, 600), (0, 400), (0, 250), (100, 250), (0, 35), (750, 1200), (550, 1050)],
            (0, 365),
        ],
        (0, 100),
    ),
    "housing": (
        [
            *[(0, 100), (0, 100), (0, 30), (0, 1), (0.3, 1), (3, 9), (0, 100), (1, 13), (1, 24)],
            *[(150, 750), (10, 25), (0, 400), (0, 40)],
        ],
        (0, 50),
    ),
    "autompg": (
        [(3, 8), (50, 500), (40, 250), (1500, 5500), (5, 25), (70, 82), (1, 3)],
        (5, 50),
    ),
    "airfoil": ([(200, 20_000), (0, 25), (0, 0.35), (30, 75), (0, 0.06)], (100, 145)),
}


def scores(X, y, target_bounds, epsilon, seed):
    """Return R^2 of least squares, of `DPBayesianRidge`, and of AdaSSP, on a quarter of the rows."""
    train, test, told, hidden = train_test_split(X, y, test_size=0.25, random_state=seed)
    z, z_test = (np.column_stack([rows, np.ones(len(rows))]) for rows in (train, test))
    least_squares = z_test @ np.linalg.lstsq(z, told, rcond=None)[0]
    model = DPBayesianRidge(target_bounds, epsilon=epsilon, delta=DELTA, random_state=seed)
    private = model.fit(train, told).predict(test)
    middle, half = np.mean(target_bounds), np.ptp(target_bounds) / 2.0
    mean, *_ = ada_ssp(z, told - middle, half, epsilon, seed, np.sqrt(X.shape[1]))
    predicted = (least_squares, private, z_test @ mean + middle)
    return [r_squared(hidden, each) for each in predicted]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--results", help="a CSV file")
    args = parser.parse_args()
    allow_seeds()
    warnings.simplefilter("ignore", ConvergenceWarning)  # Most fits tell that noise hides columns.
    tables = np.load(args.file)
    heads = "table | rows | columns | epsilon | least squares | DPBayesianRidge | AdaSSP"
    results = ResultsTable(heads, args.results)
    for name, (bounds, target_bounds) in BOUNDS.items():
        X, y = (tables[f"{name}_{part}"].astype(float) for part in "Xy")
        X = BoundedScaler(*np.array(bounds, dtype=float).T).fit_transform(X)
        for epsilon in args.epsilons:
            found = [scores(X, y, target_bounds, epsilon, seed) for seed in range(args.repetitions)]
            cells = (f"{score:.3f}" for score in np.median(found, axis=0))
            results.add(name, len(y), X.shape[1], f"{epsilon:g}", *cells)


if __name__ == "__main__":
    main()
