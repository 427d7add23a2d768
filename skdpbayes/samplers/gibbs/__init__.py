"""Mixtures and normal linear models without privacy: some parameters given others, in turn."""

from .sampler import Gibbs

__all__ = ["Gibbs"]
