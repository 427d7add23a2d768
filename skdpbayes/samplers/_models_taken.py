"""Which samplers take a linear model, by what they say of themselves.

taken  <=>  (family in families, or there are none)
            and (no weights, or takes_weights)  and  (noise is known, or "normal" in targets)

What is not taken is refused with the names of samplers that take it.
"""

from functools import partial

from ._registry import names_where


def takes_family(sampler, family):
    """Tell whether a sampler takes a family of linear models; None is a target without one."""
    return family is None or not sampler.families or isinstance(family, sampler.families)


def takes(sampler, bounds):
    """Tell whether a sampler, with its options, takes records with such bounds."""
    family = getattr(bounds, "family", None)
    return (
        _model_of(bounds) in sampler.targets
        and takes_family(sampler, family)
        and (sampler.takes_weights or not _are_weighted(bounds))
    )


def check_taken(sampler, bounds):
    """Raise a ValueError if records have weights or unknown noise, and a sampler does not take these."""
    others = partial(names_where, lambda own: takes(own, bounds))
    if _are_weighted(bounds) and not sampler.takes_weights:
        raise ValueError(
            f"sampler={sampler.name!r}, with these options, does not support sample weights or class "
            f"weights: use one of {others()}, which do with their defaults; or omit them."
        )
    if _model_of(bounds) == "normal" and "normal" not in sampler.targets:
        raise ValueError(
            f"sampler={sampler.name!r} takes the noise of numbers as given, and does not learn it: take one "
            f"of {others()}, or a family with a deviation."
        )


def _model_of(bounds):
    """Return what samplers call the model in their ``targets``."""
    if getattr(getattr(bounds, "family", None), "has_unknown_noise", False):
        return "normal"
    return "network" if getattr(bounds, "clipped", False) else "linear"


def _are_weighted(bounds):
    return getattr(bounds, "max_weight", None) is not None


def names_of_calibrated(sampler, family):
    """Return the names of samplers for the same targets as another, and a family, that are calibrated."""
    return names_where(
        lambda own: (
            own.is_calibrated and own.targets & sampler.targets and takes_family(own, family)
        )
    )
