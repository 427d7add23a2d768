"""Draws from the posterior given looks at residuals that are clipped ever tighter."""

from .sampler import ClippedResiduals

__all__ = ["ClippedResiduals"]
