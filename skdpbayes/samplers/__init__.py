"""How a target is sampled: one file per algorithm."""

from . import langevin  # noqa: F401  (registers the sampler for its plans)
from ._interface import sample

__all__ = ["sample"]
