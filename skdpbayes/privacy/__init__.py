"""What a release costs: theorems as functions, budgets, ledgers, and reports.

Reports are loaded when they are first asked for.
"""

from typing import TYPE_CHECKING

from .budget import Budget, default_delta
from .cost import PrivacyCost, PublishedEvent, in_parallel
from .hidden_state import hidden_state_mu, hidden_state_mu_constant, hidden_state_mu_cyclic
from .ledger import PrivacyLedger
from .losses import (
    BoundedRangeDecisions,
    PoissonGaussian,
    PureMechanism,
    SampledGaussian,
    SelectedRun,
)

if TYPE_CHECKING:
    from ..report import PrivacyReport, privacy_report

__all__ = [
    "BoundedRangeDecisions",
    "Budget",
    "PoissonGaussian",
    "PrivacyCost",
    "PrivacyLedger",
    "PrivacyReport",
    "PublishedEvent",
    "PureMechanism",
    "SampledGaussian",
    "SelectedRun",
    "default_delta",
    "hidden_state_mu",
    "hidden_state_mu_constant",
    "hidden_state_mu_cyclic",
    "in_parallel",
    "privacy_report",
]


def __getattr__(name):
    if name not in ("PrivacyReport", "privacy_report"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .. import report

    return getattr(report, name)


def __dir__():
    return __all__
