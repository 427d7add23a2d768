"""How a target is sampled: one file per algorithm."""

from . import hamiltonian, langevin  # noqa: F401  (they register themselves for their plans)
from ._interface import sample

__all__ = ["sample"]
