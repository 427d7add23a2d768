"""A private model of a table in many files, larger than the memory of one process.

    python examples/large_table.py                # 20,000 rows, some seconds
    python examples/large_table.py 10_000_000     # some minutes

Needs ``pip install "skdpbayes[distributed]" pyarrow``. Writes simulated people to parquet files, and fits a
private pipeline on two worker processes. One budget pays for quantiles of incomes, the list of regions, and
the model. The client holds no rows. The workers hold what reaches the model, here 14 numbers of 8 bytes for
each row, in memory or in temporary files of Dask.
"""

import resource
import sys
import tempfile
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPImputer, DPOneHotEncoder, DPQuantileScaler

ROWS_OF_A_FILE = 250_000
REGIONS = ["north", "south", "east", "west", "centre", "islands"]
DEGREES = ["none", "school", "college", "doctorate"]


def write(folder, n_rows):
    """Write simulated people to files: numbers, text, categories and missing values."""
    for number, first in enumerate(range(0, n_rows, ROWS_OF_A_FILE)):
        rng = np.random.default_rng(number)
        n = min(ROWS_OF_A_FILE, n_rows - first)
        people = pd.DataFrame(
            {
                "age": rng.integers(18, 91, n),
                "income": rng.lognormal(10.0, 0.7, n),
                "region": rng.choice(REGIONS, n),
                "degree": pd.Categorical(rng.choice(DEGREES, n), DEGREES),
            }
        )
        odds = (people["age"] - 50) / 20 + (people["income"] > 3e4) - (people["region"] == "north")
        people["votes"] = rng.random(n) < 1 / (1 + np.exp(-odds))
        people.loc[rng.random(n) < 0.1, "income"] = np.nan
        people.loc[rng.random(n) < 0.02, "region"] = None
        people.to_parquet(folder / f"{number:04}.parquet", index=False)


def pipeline():
    """Pipeline, the same as for a table in memory."""
    degrees = OneHotEncoder(categories=[DEGREES], handle_unknown="ignore", sparse_output=False)
    columns = ColumnTransformer(
        [
            ("age", BoundedScaler(18, 90), ["age"]),  # Public bounds spend nothing.
            ("income", make_pipeline(DPQuantileScaler(), DPImputer()), ["income"]),
            ("region", DPOneHotEncoder(), ["region"]),
            ("degree", degrees, ["degree"]),
        ]
    )
    # Two numbers and two categories, each at most 1 long.
    model = DPBayesianLogisticRegression(classes=[False, True], data_norm=2.0)
    return make_private_pipeline(columns, model, epsilon=1.0, delta=1e-8)


def peak_and_time():
    """Peak memory of this process in GiB, and its CPU seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    unit = 1 if sys.platform == "darwin" else 1024
    return used.ru_maxrss * unit / 2**30, used.ru_utime + used.ru_stime


def main(n_rows=20_000):
    """Write the files, fit, and print the model, memory and time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, n_rows)
        size = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
        print(f"{n_rows:,} rows in {size:,.0f} MiB of files\n")
        options = {"threads_per_worker": 1, "dashboard_address": None, "local_directory": name}
        with (
            LocalCluster(n_workers=2, memory_limit="1GiB", **options) as cluster,
            Client(cluster) as client,
        ):
            people = dd.read_parquet(folder)
            model = pipeline().fit(people.drop(columns="votes"), people["votes"])
            took = {"client": peak_and_time()} | client.run(peak_and_time)
        print(model.plan_)
        print(model.summary().round(3))
        print("\nlargest memory in GiB, and CPU seconds:")
        for process, (peak, seconds) in took.items():
            print(f"  {process}: {peak:.2f}, {seconds:.0f}")


if __name__ == "__main__":  # Workers import this file.
    main(*map(int, sys.argv[1:]))
