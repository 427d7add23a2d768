"""Short names of the estimators."""

from ..linear_model import DPBayesianLogisticRegression
from ..mixture import DPGaussianMixturePosterior
from ..neural_network import DPBayesianMLPClassifier

ESTIMATORS = {
    "logistic": DPBayesianLogisticRegression,
    "mixture": DPGaussianMixturePosterior,
    "network": DPBayesianMLPClassifier,
}
