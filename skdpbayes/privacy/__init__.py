"""What a release costs: costs, plans that keep to a budget, ledgers, and audits."""

from .audit import AuditResult, audit_separation
from .cost import PrivacyCost, PublishedEvent, SampledGaussian
from .langevin import LangevinOptions, LangevinPlan, plan_langevin
from .ledger import PrivacyLedger
from .plan import Budget, Plan, default_delta

__all__ = [
    "AuditResult",
    "Budget",
    "LangevinOptions",
    "LangevinPlan",
    "Plan",
    "PrivacyCost",
    "PrivacyLedger",
    "PublishedEvent",
    "SampledGaussian",
    "audit_separation",
    "default_delta",
    "plan_langevin",
]
