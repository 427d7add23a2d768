"""Draws from the posterior given what was released, its noise included."""

from .sampler import NoiseAware

__all__ = ["NoiseAware"]
