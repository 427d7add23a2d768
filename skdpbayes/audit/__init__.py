"""Audits: lower bounds on what a mechanism spends, and a comparison of releases with what is charged."""

from .._mechanisms.audit_hook import ReleaseEvent, audited_release
from ._bounds import AuditResult, Separation, audit_scores, audit_separation
from ._fit import Canaries, audit_fit
from ._replay import Finding, ReplayResult, replay

__all__ = [
    "AuditResult",
    "Canaries",
    "Finding",
    "ReleaseEvent",
    "ReplayResult",
    "Separation",
    "audit_fit",
    "audit_scores",
    "audit_separation",
    "audited_release",
    "replay",
]


def __dir__():
    return __all__
