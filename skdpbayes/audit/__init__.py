"""Audits: lower bounds on what a mechanism spends, and a comparison of releases with what is charged."""

from .._mechanisms.door import Passage, through_door
from ._canaries import Canaries
from ._fit import audit_fit
from ._normal import Separation, audit_separation
from ._replay import Finding, ReplayResult, replay
from ._result import AuditResult
from ._scores import audit_scores

__all__ = [
    "AuditResult",
    "Canaries",
    "Finding",
    "Passage",
    "ReplayResult",
    "Separation",
    "audit_fit",
    "audit_scores",
    "audit_separation",
    "replay",
    "through_door",
]
