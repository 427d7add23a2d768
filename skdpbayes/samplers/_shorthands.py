"""Samplers by name, for those who need none of their options."""

from typing import Any

from .auto import Auto
from .fisher import SGFS
from .langevin import OPS, SGHMC, SGLD, SGNHT
from .metropolis import DPMH, DPFastMH, DPFastMHGaussian, PenaltyMH
from .noise_aware import NoiseAware
from .variational import BayesByBackprop

SHORTHANDS = {
    kind.name: kind
    for kind in (
        Auto,
        SGLD,
        SGHMC,
        SGNHT,
        SGFS,
        NoiseAware,
        OPS,
        BayesByBackprop,
        DPMH,
        DPFastMH,
        PenaltyMH,
        DPFastMHGaussian,
    )
}


def resolve_sampler(sampler: Any) -> Any:
    """Return a sampler object: the given one, or the one that a name stands for, with its defaults.

    Parameters
    ----------
    sampler : str or Sampler

    Returns
    -------
    sampler : Sampler

    Raises
    ------
    ValueError
        If the name is unknown.
    TypeError
        If it is a class instead of an object.

    Examples
    --------
    >>> from skdpbayes.samplers import resolve_sampler
    >>> resolve_sampler("sghmc")
    SGHMC()
    """
    if isinstance(sampler, type):
        raise TypeError(
            f"sampler={sampler.__name__} is a class: pass an instance, {sampler.__name__}()."
        )
    if not isinstance(sampler, str):
        return sampler
    if sampler not in SHORTHANDS:
        names = ", ".join(map(repr, SHORTHANDS))
        raise ValueError(
            f"sampler={sampler!r} is not known: take one of {names}, or an object of skdpbayes.samplers."
        )
    return SHORTHANDS[sampler]()
