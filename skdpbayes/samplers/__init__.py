"""How a target is sampled: one file per algorithm."""

from . import fisher, hamiltonian, langevin, metropolis  # noqa: F401  (they register themselves for their plans)
from ._interface import carry_out, sample

__all__ = ["carry_out", "sample"]
