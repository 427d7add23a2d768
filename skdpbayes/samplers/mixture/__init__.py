"""Mixtures: a private start, and a path around it."""

from .sampler import MixtureSampler

__all__ = ["MixtureSampler"]
