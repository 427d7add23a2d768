"""What a release costs: costs, plans that keep to a budget, ledgers, and audits."""

from .audit import AuditResult, audit_separation
from .automatic import plan_automatic
from .cost import AcceptBits, PoissonGaussian, PrivacyCost, PublishedEvent, SampledGaussian
from .fisher import FisherPlan, plan_fisher
from .hamiltonian import plan_hamiltonian
from .hidden_state import hidden_state_mu, hidden_state_mu_constant, hidden_state_mu_cyclic
from .langevin import plan_langevin
from .langevin_plans import HamiltonianPlan, LangevinPlan, LastStatePlan, ThermostatPlan
from .last_state import plan_last_state
from .ledger import PrivacyLedger
from .metropolis import plan_metropolis
from .metropolis_plans import MetropolisPlan
from .mixture import MixturePlan, plan_mixture
from .network import plan_network
from .options import SamplerOptions
from .plan import Budget, Plan, default_delta
from .published import ryffel_epsilon_not_a_guarantee, wang_epsilon_if_exact
from .thermostat import plan_thermostat
from .variational import VariationalPlan, plan_variational

__all__ = [
    "AcceptBits",
    "AuditResult",
    "Budget",
    "FisherPlan",
    "HamiltonianPlan",
    "LangevinPlan",
    "LastStatePlan",
    "MetropolisPlan",
    "MixturePlan",
    "Plan",
    "PoissonGaussian",
    "PrivacyCost",
    "PrivacyLedger",
    "PublishedEvent",
    "SampledGaussian",
    "SamplerOptions",
    "ThermostatPlan",
    "VariationalPlan",
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
    "plan_metropolis",
    "plan_mixture",
    "plan_network",
    "plan_thermostat",
    "plan_variational",
    "ryffel_epsilon_not_a_guarantee",
    "wang_epsilon_if_exact",
]
