"""Families: how a response depends on linear predictors, one file each."""

from ..family import Family
from .logistic import Logistic
from .normal import Normal
from .poisson import Poisson
from .softmax import Softmax

__all__ = ["Family", "Logistic", "Normal", "Poisson", "Softmax", "classifier"]


def classifier(n_classes: int) -> Family:
    """Return the family of a response with some number of classes."""
    return Logistic() if n_classes == 2 else Softmax(n_classes)
