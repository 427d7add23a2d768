"""skdpbayes: differentially private Bayesian estimators for scikit-learn."""

from .linear_model import (
    DPBayesianLogisticRegression,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
)
from .mixture import DPGaussianMixturePosterior
from .neural_network import DPBayesianMLPClassifier

__version__ = "0.1.0"

__all__ = [
    "DPBayesianLogisticRegression",
    "DPBayesianMLPClassifier",
    "DPBayesianPoissonRegressor",
    "DPBayesianRidge",
    "DPGaussianMixturePosterior",
    "__version__",
]
