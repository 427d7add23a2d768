"""Stochastic gradient Fisher scoring (SGFS)."""

from .sampler import SGFS

__all__ = ["SGFS"]
