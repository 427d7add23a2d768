"""What is sampled: one file per model, with its gradient and its public bounds."""

from .base import (
    TargetBounds,
    add_gradient,
    clips_each_example,
    example_gradient,
    example_loss,
    has_losses,
    has_own_prior,
    implements,
    loss_differences,
    n_examples,
    potential_gradient,
    prior_gradient,
    prior_potential,
    pullback,
    record,
    selected_from,
    shared_parameters,
)
from .families import Logistic, Normal, Poisson, Softmax
from .linear import LinearModel
from .mixture import MixtureModel, make_mixture, unpack_mixture
from .mlp import make_mlp, mlp_bounds
from .sums import MOMENT_ROWS, record_weights, second_moment

__all__ = [
    "MOMENT_ROWS",
    "LinearModel",
    "Logistic",
    "MixtureModel",
    "Normal",
    "Poisson",
    "Softmax",
    "TargetBounds",
    "add_gradient",
    "clips_each_example",
    "example_gradient",
    "example_loss",
    "has_losses",
    "has_own_prior",
    "implements",
    "loss_differences",
    "make_mixture",
    "make_mlp",
    "mlp_bounds",
    "n_examples",
    "potential_gradient",
    "prior_gradient",
    "prior_potential",
    "pullback",
    "record",
    "record_weights",
    "second_moment",
    "selected_from",
    "shared_parameters",
    "unpack_mixture",
]


def __dir__():
    return __all__
