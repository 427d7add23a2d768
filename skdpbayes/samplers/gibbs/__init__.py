"""Mixtures without privacy: allocations given parameters, and parameters given allocations."""

from .sampler import Gibbs

__all__ = ["Gibbs"]
