"""Costs as dp-accounting's events, for other tools to read."""

import math
from typing import TYPE_CHECKING, NamedTuple

from .loss_distributions import relation_of

if TYPE_CHECKING:
    import dp_accounting


class PublishedEvent(NamedTuple):
    """A dp-accounting event, and the only relation under which it means this cost."""

    event: "dp_accounting.DpEvent"
    neighboring_relation: "dp_accounting.NeighboringRelation"


def published_event(cost):
    """Return what `PrivacyCost.dp_event` does."""
    import dp_accounting

    relation = relation_of(cost.neighboring_relation)
    if cost.is_nothing:
        return PublishedEvent(dp_accounting.NonPrivateDpEvent(), relation)
    if cost.bits or cost.rho > 0 or cost.counted or cost.pure or cost.selected or cost.failure:
        if math.isinf(cost.concentrated):
            raise NotImplementedError(f"dp-accounting has no event for {cost}.")
        return PublishedEvent(dp_accounting.dp_event.ZCDpEvent(cost.concentrated), relation)
    events = [
        dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(
                part.sampling_rate, dp_accounting.GaussianDpEvent(part.noise_multiplier)
            ),
            part.count,
        )
        for part in cost.sampled
    ]
    if cost.mu > 0 and relation == relation_of("replace_one"):
        gaussian = dp_accounting.GaussianDpEvent(2.0 / cost.mu)
        events.append(dp_accounting.PoissonSampledDpEvent(1.0, gaussian))
    elif cost.mu > 0:
        events.append(dp_accounting.GaussianDpEvent(1.0 / cost.mu))
    if len(events) == 1:
        return PublishedEvent(events[0], relation)
    return PublishedEvent(dp_accounting.ComposedDpEvent(events), relation)
