"""skdpbayes: differentially private Bayesian estimators for scikit-learn."""

from .linear_model import DPBayesianLogisticRegression
from .mixture import DPGaussianMixturePosterior

__version__ = "0.1.0"

__all__ = ["DPBayesianLogisticRegression", "DPGaussianMixturePosterior", "__version__"]
