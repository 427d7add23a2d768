"""This package's estimators with every option at its default, methods from papers, and no privacy."""

import sys
from pathlib import Path

import numpy as np
from protocol import serve

sys.path.insert(0, str(Path(__file__).parents[2]))
from scipy.stats import multivariate_normal
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.neural_network import MLPClassifier

from benchmarks.mixture.moments import gaussian
from benchmarks.peers.bootstrap import bootstrap_intervals
from benchmarks.regression.linear import ada_ssp
from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPBayesianRidge,
    DPGaussianMixturePosterior,
)


def shared(arrays, seed, options):
    """Return the options that all estimators of the package have."""
    names = "epsilon", "delta", "neighboring_relation"
    stated = {name: options[name] for name in names if name in options}
    if "neighboring_relation" in stated:  # What replacing a record keeps is to be stated.
        stated["public_size"] = len(arrays["X"])
    return stated | {"data_norm": float(arrays["norm"]), "random_state": seed}


def probabilities(model, arrays):
    """Return what a fitted classifier says of the test rows."""
    return {"probabilities": model.fit(arrays["X"], arrays["y"]).predict_proba(arrays["X_test"])}


def logistic(arrays, seed, options):
    """The linear classifier."""
    classes = list(range(int(arrays["n_classes"])))
    model = DPBayesianLogisticRegression(classes=classes, **shared(arrays, seed, options))
    return probabilities(model, arrays)


def logistic_public(arrays, seed, options):
    """scikit-learn's, with next to no penalty."""
    return probabilities(LogisticRegression(C=100.0, max_iter=2_000), arrays)


def network(arrays, seed, options):
    """The network."""
    model = DPBayesianMLPClassifier((options["n_hidden"],), **shared(arrays, seed, options))
    return probabilities(model, arrays)


def network_public(arrays, seed, options):
    """scikit-learn's, for rows of norm 4 as this package's network has them inside."""
    model = MLPClassifier((options["n_hidden"],), early_stopping=True, random_state=seed)
    scaled = arrays | {name: 4.0 * arrays[name] for name in ("X", "X_test")}
    return probabilities(model, scaled)


def linear(arrays, seed, options):
    """The linear regressor, and intervals of coefficients."""
    bound = float(arrays["bound"])
    model = DPBayesianRidge(
        (-bound, bound),
        fit_intercept=options.get("intercept", True),
        **shared(arrays, seed, options),
    ).fit(arrays["X"], arrays["y"])
    low, high = model.posterior_interval(options.get("level", 0.95))[0].T
    return {"predictions": model.predict(arrays["X_test"]), "low": low, "high": high}


def linear_public(arrays, seed, options):
    """Least squares, with the usual intervals."""
    model = LinearRegression(fit_intercept=options.get("intercept", True))
    return {"predictions": model.fit(arrays["X"], arrays["y"]).predict(arrays["X_test"])}


def of_sums(method):
    """Return a method of `benchmarks/regression/linear.py`."""

    def run(arrays, seed, options):
        z, z_test = (
            np.column_stack([arrays[name], np.ones(len(arrays[name]))]) for name in ("X", "X_test")
        )
        bound, norm = float(arrays["bound"]), float(arrays["norm"])
        theta = method(z, arrays["y"], bound, options["epsilon"], seed, norm)[0]
        return {"predictions": z_test @ theta}

    return run


def bootstrapped(arrays, seed, options):
    """Noisy sums, and intervals by a parametric bootstrap."""
    bound, norm = float(arrays["bound"]), float(arrays["norm"])
    low, high = bootstrap_intervals(
        arrays["X"], arrays["y"], bound, norm, options["mu"], options["level"], seed
    )
    return {"low": low, "high": high}


def mixture(arrays, seed, options):
    """The mixture: clusters of the test rows, and their mean log density."""
    model = DPGaussianMixturePosterior(
        int(arrays["n_clusters"]),
        covariance_type=options.get("covariance_type", "diag"),
        **shared(arrays, seed, options),
    ).fit(arrays["X"])
    return {"labels": model.predict(arrays["X_test"]), "density": model.score(arrays["X_test"])}


def mixture_public(arrays, seed, options):
    """scikit-learn's mixture."""
    kind = options.get("covariance_type", "diag")
    model = GaussianMixture(
        int(arrays["n_clusters"]), covariance_type=kind, n_init=5, random_state=seed
    ).fit(arrays["X"])
    return {"labels": model.predict(arrays["X_test"]), "density": model.score(arrays["X_test"])}


def noisy_moments(arrays, seed, options):
    """A Gaussian by noisy sums of rows and of their products; see `benchmarks/mixture/moments.py`."""
    norm, X = float(arrays["norm"]), arrays["X"]
    inside = X / norm / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / norm)
    deviation = np.sqrt(4.5) / options["mu"]
    mean, covariance = gaussian(inside, deviation, np.random.default_rng(seed))
    law = multivariate_normal(norm * mean, norm**2 * covariance)
    return {"density": law.logpdf(arrays["X_test"]).mean()}


if __name__ == "__main__":
    serve(
        {
            "logistic": logistic,
            "logistic_public": logistic_public,
            "network": network,
            "network_public": network_public,
            "linear": linear,
            "linear_public": linear_public,
            "ada_ssp": of_sums(ada_ssp),
            "bootstrap": bootstrapped,
            "mixture": mixture,
            "mixture_public": mixture_public,
            "noisy_moments": noisy_moments,
        }
    )
