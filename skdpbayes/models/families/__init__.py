"""Families: how a response depends on linear predictors, one file each."""

from .base import Family
from .logistic import Logistic, Softmax, classifier
from .normal import Normal
from .poisson import Poisson

__all__ = ["Family", "Logistic", "Normal", "Poisson", "Softmax", "classifier"]
