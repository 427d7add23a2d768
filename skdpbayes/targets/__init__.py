"""What is sampled: one file per model, with its gradient and its public bounds."""

from ._bounds import TargetBounds
from ._interface import (
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
from .linear.blocks import MOMENT_ROWS
from .linear.families import Logistic, Normal, Poisson, Softmax
from .linear.model import LinearModel
from .linear.moments import second_moment
from .linear.weighted import record_weights
from .mixture.target import MixtureModel, make_mixture, unpack_mixture
from .network.mlp import make_mlp, mlp_bounds

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
