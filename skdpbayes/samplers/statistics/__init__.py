"""Posteriors given noisy sums over records, the noise included: of labels, numbers and counts."""

from .sampler import ClippedResiduals, NoiseAware

__all__ = ["ClippedResiduals", "NoiseAware"]
