"""Short names of the estimators."""

from ..linear_model import (
    DPBayesianLogisticRegression,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
)
from ..mixture import DPGaussianMixturePosterior
from ..neural_network import DPBayesianMLPClassifier

ESTIMATORS = {
    "logistic": DPBayesianLogisticRegression,
    "mixture": DPGaussianMixturePosterior,
    "network": DPBayesianMLPClassifier,
    "poisson": DPBayesianPoissonRegressor,
    "ridge": DPBayesianRidge,
}
