"""Metropolis-Hastings: DPMH, DPFastMH, PenaltyMH, DPFastMHGaussian."""

from .sampler import DPMH, DPFastMH, DPFastMHGaussian, PenaltyMH, RandomWalk

__all__ = ["DPMH", "DPFastMH", "DPFastMHGaussian", "PenaltyMH", "RandomWalk"]
