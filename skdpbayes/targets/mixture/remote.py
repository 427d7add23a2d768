"""What stands for a mixture's rows elsewhere, in sums over records."""

from typing import NamedTuple

from .._remote import of_remote_rows
from .model import STATISTICS_NORM


@of_remote_rows
class RemoteMixtureTable(NamedTuple):
    """A mixture's rows in the unit ball."""

    address: int
    count: int  # type: ignore[assignment]  # Nobody counts entries of this tuple.
    gradient_bound: float
    n_features: int
    data_norm: float


def remote_mixture(address, count, model):
    """Return what stands for a mixture's rows elsewhere."""
    return RemoteMixtureTable(
        address, count, STATISTICS_NORM, model.n_features, float(model.data_norm)
    )
