"""Which samplers take a linear model, by what they say of themselves.

taken  <=>  (family in families, or there are none)
            and (no weights, or takes_weights)  and  (noise is known, or "normal" in targets)

What is not taken is refused with the names of samplers that take it.
"""

from ._registry import names_where


def takes_family(sampler, family):
    """Tell whether a sampler takes a family of linear models; None is a target without one."""
    return family is None or not sampler.families or isinstance(family, sampler.families)


def takes(sampler, bounds):
    """Tell whether a sampler, with its options, takes records with such bounds."""
    family = getattr(bounds, "family", None)
    kind = "network" if getattr(bounds, "clipped", False) else "linear"
    if getattr(family, "has_unknown_noise", False):
        kind = "normal"
    has_weights = getattr(bounds, "max_weight", None) is not None
    return (
        kind in sampler.targets
        and takes_family(sampler, family)
        and (sampler.takes_weights or not has_weights)
    )


def check_taken(sampler, bounds):
    """Raise a ValueError if records have weights or unknown noise, and a sampler does not take these."""
    family = getattr(bounds, "family", None)
    learns_noise = getattr(family, "has_unknown_noise", False)
    if getattr(bounds, "max_weight", None) is not None and not sampler.takes_weights:
        model = "normal" if learns_noise else "linear"
        others = names_where(
            lambda own: own.takes_weights and model in own.targets and takes_family(own, family)
        )
        raise ValueError(
            f"sampler={sampler.name!r}, with these options, does not support sample weights or class "
            f"weights: use one of {others}, which do with their defaults; or omit them."
        )
    if learns_noise and "normal" not in sampler.targets:
        raise ValueError(
            f"sampler={sampler.name!r} takes the noise of numbers as given, and does not learn it: take one "
            f"of {names_where(lambda own: 'normal' in own.targets)}, or a family with a deviation."
        )


def names_of_calibrated(sampler, family):
    """Return the names of samplers for the same targets as another, and a family, that are calibrated."""
    return names_where(
        lambda own: (
            own.is_calibrated and own.targets & sampler.targets and takes_family(own, family)
        )
    )
