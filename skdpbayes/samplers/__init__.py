"""How a target is sampled: one file per algorithm."""

# They register themselves for their plans.
from . import fisher, hamiltonian, langevin, metropolis, mixture, variational  # noqa: F401
from ._interface import carry_out, sample

__all__ = ["carry_out", "sample"]
