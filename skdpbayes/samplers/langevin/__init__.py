"""Langevin dynamics: SGLD, SGHMC, SGNHT, SGFS, and one posterior sample (OPS)."""

from .fisher import SGFS
from .sampler import OPS, SGHMC, SGLD, SGNHT

__all__ = ["OPS", "SGFS", "SGHMC", "SGLD", "SGNHT"]
