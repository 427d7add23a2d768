"""A private pipeline on files with strings: seconds on two Dask workers, against one read of the files.

    python -m benchmarks.speed.dask_categories [--rows 2000000 10000000] [--workers 2]
        [--results docs/results/dask_categories.csv]

For docs/guide/dask.rst. Six numbers and three columns of strings, of 50, 80 and 6
categories that are found privately, amount to 145 coefficients. CPU seconds are those of the fit alone.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster
from sklearn.compose import ColumnTransformer

from benchmarks.common import ResultsTable
from benchmarks.speed.dask_passes import timed
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPOneHotEncoder

ROWS_OF_A_FILE = 250_000
NUMBERS = [f"number_{j}" for j in range(6)]
CATEGORIES = {"state": 50, "occupation": 80, "kind": 6}


def write(folder, n_rows):
    """Write the files."""
    for number, first in enumerate(range(0, n_rows, ROWS_OF_A_FILE)):
        rng = np.random.default_rng(number)
        n = min(ROWS_OF_A_FILE, n_rows - first)
        table = pd.DataFrame({name: rng.uniform(0, 1, n) for name in NUMBERS})
        for name, size in CATEGORIES.items():
            table[name] = np.array([f"{name}_{k:02}" for k in range(size)], object)[
                rng.integers(0, size, n)
            ]
        odds = 2.0 * table["number_0"] - 1.0 + (table["kind"] == "kind_00")
        table["label"] = rng.random(n) < 1 / (1 + np.exp(-odds))
        table.to_parquet(folder / f"{number:04}.parquet", index=False)


def pipeline():
    """Return the model."""
    columns = [("numbers", BoundedScaler(0, 1), NUMBERS)]
    columns += [(name, DPOneHotEncoder(), [name]) for name in CATEGORIES]
    model = DPBayesianLogisticRegression(classes=[False, True], data_norm=2.5)
    return make_private_pipeline(ColumnTransformer(columns), model, epsilon=1.0, delta=1e-8)


def measure(n_rows, n_workers):
    """Return (coefficients, seconds of a read and of a fit, CPU seconds of client and busiest worker)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, n_rows)
        options = {"threads_per_worker": 1, "dashboard_address": None, "local_directory": name}
        with (
            LocalCluster(n_workers=n_workers, memory_limit="2GiB", **options) as cluster,
            Client(cluster) as client,
        ):
            table = dd.read_parquet(folder)
            read = timed(table.map_partitions(len).compute)
            before = time.process_time(), client.run(time.process_time)
            model = pipeline()
            fit = timed(lambda: model.fit(table.drop(columns="label"), table["label"]))
            own = time.process_time() - before[0]
            workers = [now - before[1][key] for key, now in client.run(time.process_time).items()]
    return len(model.summary()), read, fit, own, max(workers)


def main():
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000, 10_000_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--results", help="a CSV file")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = "rows | coefficients | workers | read | fit | CPU of client | CPU of worker"
    results = ResultsTable(heads, args.results)
    for n_rows in args.rows:
        coefficients, *seconds = measure(n_rows, args.workers)
        results.add(n_rows, coefficients, args.workers, *(f"{value:.1f}" for value in seconds))


if __name__ == "__main__":  # Workers import this file.
    main()
