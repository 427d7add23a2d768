"""Models of diffprivlib, purely private with public bounds: logistic and linear regression, k-means."""

import numpy as np
from diffprivlib.models import KMeans, LinearRegression, LogisticRegression
from protocol import serve


def logistic(arrays, seed, options):
    """Objective perturbation; several classes share the budget."""
    model = LogisticRegression(
        epsilon=options["epsilon"],
        data_norm=float(arrays["norm"]),
        C=options.get("C", 1.0),
        max_iter=1_000,
        random_state=seed,
    ).fit(arrays["X"], arrays["y"])
    return {"probabilities": model.predict_proba(arrays["X_test"])}


def linear(arrays, seed, options):
    """The functional mechanism."""
    bound = float(arrays["bound"])
    model = LinearRegression(
        epsilon=options["epsilon"],
        bounds_X=(arrays["lower"], arrays["upper"]),
        bounds_y=(-bound, bound),
        random_state=seed,
    ).fit(arrays["X"], arrays["y"])
    return {"predictions": np.ravel(model.predict(arrays["X_test"]))}


def clusters(arrays, seed, options):
    """Private k-means."""
    half = float(arrays["half"])
    X = arrays["X"]
    bounds = np.full(X.shape[1], -half), np.full(X.shape[1], half)
    model = KMeans(
        int(arrays["n_clusters"]), epsilon=options["epsilon"], bounds=bounds, random_state=seed
    ).fit(np.clip(X, -half, half))
    distances = ((arrays["X_test"][:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    return {"labels": distances.argmin(axis=1)}


if __name__ == "__main__":
    serve({"logistic": logistic, "linear": linear, "clusters": clusters})
