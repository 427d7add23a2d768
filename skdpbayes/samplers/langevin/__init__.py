"""Langevin dynamics: SGLD, SGHMC, SGNHT, and one posterior sample (OPS)."""

from .sampler import OPS, SGHMC, SGLD, SGNHT

__all__ = ["OPS", "SGHMC", "SGLD", "SGNHT"]
