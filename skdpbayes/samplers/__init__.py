"""How a target is sampled, and what that costs: one folder for each family of algorithms."""

from importlib import import_module
from typing import TYPE_CHECKING

from .._compute.gradients import cache_folder
from .auto import Auto
from .base import Released, Sampler, resolve_sampler, sample
from .gibbs import Gibbs
from .langevin import OPS, SGFS, SGHMC, SGLD, SGNHT
from .plan import Plan
from .statistics import ClippedResiduals, NoiseAware
from .variational import BayesByBackprop

if TYPE_CHECKING:
    from .metropolis import DPMH, DPFastMH, DPFastMHGaussian, PenaltyMH

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


def __getattr__(name):
    if name in ("DPMH", "DPFastMH", "DPFastMHGaussian", "PenaltyMH"):  # Loaded when asked for.
        return getattr(import_module(f"{__name__}.metropolis"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
