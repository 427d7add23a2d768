"""Networks: a path, and the two public numbers by which it is calibrated."""

from .sampler import NetworkSampler

__all__ = ["NetworkSampler"]
