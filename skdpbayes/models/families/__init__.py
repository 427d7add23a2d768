"""Families: how a response depends on linear predictors, one file each."""

from .base import Family
from .logistic import Logistic, Softmax
from .normal import Normal
from .poisson import Poisson

__all__ = ["Family", "Logistic", "Normal", "Poisson", "Softmax", "classifier"]


def classifier(n_classes: int) -> Family:
    """The family of a response with some number of classes."""
    return Logistic() if n_classes == 2 else Softmax(n_classes)
