"""Explainable boosting machines of interpret under differential privacy (DP-EBM), with public bounds."""

from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor
from protocol import serve


def _options(arrays, seed, options):
    X = arrays["X"]
    return {
        "epsilon": options["epsilon"],
        "delta": options["delta"],
        "feature_types": ["continuous"] * X.shape[1],
        "privacy_bounds": dict(
            enumerate(zip(arrays["lower"].tolist(), arrays["upper"].tolist(), strict=True))
        ),
        "n_jobs": 1,
        "random_state": seed,
    }


def logistic(arrays, seed, options):
    """Classes; it knows two alone."""
    model = DPExplainableBoostingClassifier(**_options(arrays, seed, options))
    model.fit(arrays["X"], arrays["y"])
    return {"probabilities": model.predict_proba(arrays["X_test"])}


def linear(arrays, seed, options):
    """Numbers."""
    bound = float(arrays["bound"])
    model = DPExplainableBoostingRegressor(
        **_options(arrays, seed, options), privacy_target_min=-bound, privacy_target_max=bound
    ).fit(arrays["X"], arrays["y"])
    return {"predictions": model.predict(arrays["X_test"])}


if __name__ == "__main__":
    serve({"logistic": logistic, "linear": linear})
