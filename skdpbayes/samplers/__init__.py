"""How a target is sampled, and what that costs: one folder for each family of algorithms."""

from .._compute.gradients import cache_folder
from .auto import Auto
from .base import Released, Sampler, resolve_sampler, sample
from .gibbs import Gibbs
from .langevin import OPS, SGFS, SGHMC, SGLD, SGNHT
from .metropolis import DPMH, DPFastMH, DPFastMHGaussian, PenaltyMH
from .plan import Plan
from .statistics import ClippedResiduals, NoiseAware
from .variational import BayesByBackprop

__all__ = [
    "DPMH",
    "OPS",
    "SGFS",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "Auto",
    "BayesByBackprop",
    "ClippedResiduals",
    "DPFastMH",
    "DPFastMHGaussian",
    "Gibbs",
    "NoiseAware",
    "PenaltyMH",
    "Plan",
    "Released",
    "Sampler",
    "cache_folder",
    "resolve_sampler",
    "sample",
]


def __dir__():
    return __all__
