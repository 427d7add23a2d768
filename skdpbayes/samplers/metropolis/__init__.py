"""Metropolis-Hastings: DPMH, DPFastMH, PenaltyMH, DPFastMHGaussian."""

from .sampler import DPMH, DPFastMH, DPFastMHGaussian, PenaltyMH

__all__ = ["DPMH", "DPFastMH", "DPFastMHGaussian", "PenaltyMH"]
