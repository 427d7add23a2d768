"""Methods written from their papers, run by this very Python."""

import sys
from pathlib import Path

import numpy as np
from protocol import serve

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.peers import objective_perturbation, random_trees
from benchmarks.peers.boosted_ada_ssp import boosted_ada_ssp
from benchmarks.peers.tukey import tukey_em


def of_coefficients(method, *names):
    """Return a linear regression whose options have these names."""

    def run(arrays, seed, options):
        z, z_test = (
            np.column_stack([arrays[name], np.ones(len(arrays[name]))]) for name in ("X", "X_test")
        )
        public = float(arrays["bound"]), options["epsilon"], seed, float(arrays["norm"])
        chosen = {name: options[name] for name in names if name in options}
        return {"predictions": z_test @ method(z, arrays["y"], *public, **chosen)[0]}

    return run


if __name__ == "__main__":
    serve(
        {
            "boosted_ada_ssp": of_coefficients(boosted_ada_ssp, "n_rounds", "power", "clip"),
            "tukey": of_coefficients(tukey_em),
            "objective_perturbation": objective_perturbation.logistic,
            "random_trees": random_trees.logistic,
            "random_trees_of_numbers": random_trees.linear,
        }
    )
