"""How a target is sampled, and what that costs: one folder for each family of algorithms."""

from ._machinery.compiled_entries import cache_folder
from ._plan import Plan
from ._protocol import Released, Sampler, sample
from ._registry import resolve_sampler
from .auto import Auto
from .clipped_residuals import ClippedResiduals
from .fisher import SGFS
from .gibbs import Gibbs
from .langevin import OPS, SGHMC, SGLD, SGNHT
from .metropolis import DPMH, DPFastMH, DPFastMHGaussian, PenaltyMH
from .noise_aware import NoiseAware
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
