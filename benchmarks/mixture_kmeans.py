"""Private KMeans of diffprivlib, run by `benchmarks/mixture.py kmeans` in an environment of its own.

    python mixture_kmeans.py table.npz centres.npy

The table's file has X, half (rows are within [-half, half]^d), n_clusters, epsilon and seed.
"""

import sys
import warnings

import numpy as np
from diffprivlib.models import KMeans


def main(table, output):
    """Save the centres."""
    with np.load(table) as data:
        X, half = data["X"], float(data["half"])
        options = {"epsilon": float(data["epsilon"]), "random_state": int(data["seed"])}
        n_clusters = int(data["n_clusters"])
    bounds = np.full(X.shape[1], -half), np.full(X.shape[1], half)
    warnings.simplefilter("ignore")
    model = KMeans(n_clusters, bounds=bounds, **options).fit(np.clip(X, -half, half))
    np.save(output, model.cluster_centers_)


if __name__ == "__main__":
    main(*sys.argv[1:])
