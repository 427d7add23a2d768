"""skdpbayes: differentially private Bayesian estimators for scikit-learn."""

from importlib import import_module

from .linear_model import (
    DPBayesianLogisticRegression,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
)
from .mixture import DPGaussianMixturePosterior
from .neural_network import DPBayesianMLPClassifier

__version__ = "0.1.0"

# Loaded when they are first asked for.
_SUBMODULES = [
    "audit",
    "descriptive",
    "exceptions",
    "inspection",
    "linear_model",
    "metrics",
    "mixture",
    "model_selection",
    "models",
    "neural_network",
    "pipeline",
    "preprocessing",
    "privacy",
    "random",
    "report",
    "samplers",
]

__all__ = [
    *_SUBMODULES,
    "DPBayesianLogisticRegression",
    "DPBayesianMLPClassifier",
    "DPBayesianPoissonRegressor",
    "DPBayesianRidge",
    "DPGaussianMixturePosterior",
    "__version__",
]


def __dir__():
    return __all__


def __getattr__(name):
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
