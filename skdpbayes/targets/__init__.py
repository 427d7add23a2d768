"""What is sampled: one file per model, with its gradient and its public bounds."""

from ._interface import (
    TargetBounds,
    add_gradient,
    clips_each_example,
    example_gradient,
    implements,
    n_examples,
    potential_gradient,
    prior_gradient,
    record,
    selected_from,
)
from .logistic import logistic_bounds, logistic_prior_precision, make_logistic

__all__ = [
    "TargetBounds",
    "add_gradient",
    "clips_each_example",
    "example_gradient",
    "implements",
    "logistic_bounds",
    "logistic_prior_precision",
    "make_logistic",
    "n_examples",
    "potential_gradient",
    "prior_gradient",
    "record",
    "selected_from",
]
