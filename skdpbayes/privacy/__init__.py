"""What a release costs: theorems as functions, budgets, ledgers, reports, and audits."""

from .audit import AuditResult, audit_separation
from .budget import Budget, default_delta
from .cost import AcceptBits, PoissonGaussian, PrivacyCost, PublishedEvent, SampledGaussian
from .hidden_state import hidden_state_mu, hidden_state_mu_constant, hidden_state_mu_cyclic
from .ledger import PrivacyLedger
from .published import ryffel_epsilon_not_a_guarantee, wang_epsilon_if_exact
from .report import privacy_report

__all__ = [
    "AcceptBits",
    "AuditResult",
    "Budget",
    "PoissonGaussian",
    "PrivacyCost",
    "PrivacyLedger",
    "PublishedEvent",
    "SampledGaussian",
    "audit_separation",
    "default_delta",
    "hidden_state_mu",
    "hidden_state_mu_constant",
    "hidden_state_mu_cyclic",
    "privacy_report",
    "ryffel_epsilon_not_a_guarantee",
    "wang_epsilon_if_exact",
]
