"""Mixtures: a private search, and rounds of statistics around what it finds."""

from .sampler import MixtureSampler

__all__ = ["MixtureSampler"]
