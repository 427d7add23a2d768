"""Private Bayesian linear models: classes, counts, and numbers.

    p(theta | data) ~ prod_i p(y_i | x_i . beta + b) p(theta)

A family of `skdpbayes.models` says what the law of a response is; estimators are thin.
"""

from ._logistic import DPBayesianLogisticRegression
from ._poisson import DPBayesianPoissonRegressor
from ._ridge import DPBayesianRidge

__all__ = ["DPBayesianLogisticRegression", "DPBayesianPoissonRegressor", "DPBayesianRidge"]


def __dir__():
    return __all__
