"""Bayes by backprop."""

from .sampler import BayesByBackprop

__all__ = ["BayesByBackprop"]
