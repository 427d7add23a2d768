"""What a release costs: costs, plans that keep to a budget, ledgers, and audits."""

from .audit import AuditResult, audit_separation
from .automatic import plan_automatic
from .cost import PrivacyCost, PublishedEvent, SampledGaussian
from .fisher import FisherPlan, plan_fisher
from .hamiltonian import plan_hamiltonian
from .hidden_state import hidden_state_mu, hidden_state_mu_constant, hidden_state_mu_cyclic
from .langevin import plan_langevin
from .langevin_options import LangevinOptions
from .langevin_plans import HamiltonianPlan, LangevinPlan, LastStatePlan, ThermostatPlan
from .last_state import plan_last_state
from .ledger import PrivacyLedger
from .plan import Budget, Plan, default_delta
from .published import ryffel_epsilon_not_a_guarantee, wang_epsilon_if_exact
from .thermostat import plan_thermostat

__all__ = [
    "AuditResult",
    "Budget",
    "FisherPlan",
    "HamiltonianPlan",
    "LangevinOptions",
    "LangevinPlan",
    "LastStatePlan",
    "Plan",
    "PrivacyCost",
    "PrivacyLedger",
    "PublishedEvent",
    "SampledGaussian",
    "ThermostatPlan",
    "audit_separation",
    "default_delta",
    "hidden_state_mu",
    "hidden_state_mu_constant",
    "hidden_state_mu_cyclic",
    "plan_automatic",
    "plan_fisher",
    "plan_hamiltonian",
    "plan_langevin",
    "plan_last_state",
    "plan_thermostat",
    "ryffel_epsilon_not_a_guarantee",
    "wang_epsilon_if_exact",
]
