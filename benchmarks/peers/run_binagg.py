"""BinAgg, by its authors' package: linear regression from noisy sums of bins.

It takes a budget of mu (Gaussian differential privacy) and has no intercept of its own: a column of
ones within (0, 1) stands for it where ``intercept`` says so.
"""

import numpy as np
from binagg import dp_linear_regression
from protocol import serve


def linear(arrays, seed, options):
    """Predictions, coefficients and their intervals."""
    X, X_test = arrays["X"], arrays["X_test"]
    bounds = list(zip(arrays["lower"], arrays["upper"], strict=True))
    if options["intercept"]:
        X, X_test = (np.column_stack([rows, np.ones(len(rows))]) for rows in (X, X_test))
        bounds.append((0.0, 1.0))
    bound = float(arrays["bound"])
    found = dp_linear_regression(
        X,
        arrays["y"],
        bounds,
        (-bound, bound),
        mu=options["mu"],
        alpha=1.0 - options.get("level", 0.95),
        random_state=seed,
    )
    low, high = found.confidence_intervals.T
    return {"predictions": X_test @ found.coefficients, "low": low, "high": high}


if __name__ == "__main__":
    serve({"linear": linear})
