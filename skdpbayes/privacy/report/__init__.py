"""A privacy report: what is protected, how much, by what, and what is not, for people who were not there.

``report["summary"]``, ``["steps"]`` and ``["assumptions"]`` are what a data protection officer reads and
signs; `PrivacyReport.to_html` makes a page of them. ``report["deployment"]`` has the fields of OpenDP's
registry of deployments, and ``report["details"]`` numbers and versions.
"""

import sys
from importlib.metadata import version
from typing import Any

from ..budget import too_large_delta
from ..ledger import PrivacyLedger
from ._account import (
    Account,
    Step,
    account_of,
    asked_for,
    cost_fields,
    finite,
    of_estimator,
    of_plan,
    register,
    release_of,
    step_of,
    takes_labels_from_rows,
    with_seeds,
)
from ._deployment import KINDS_OF_NEIGHBOURS, deployment_of
from ._record import SCHEMA, VERSION, PrivacyReport
from ._summary import Charged, assumptions_of, steps_of, summary_of

__all__ = [
    "SCHEMA",
    "Account",
    "PrivacyReport",
    "Step",
    "asked_for",
    "cost_fields",
    "finite",
    "of_estimator",
    "of_plan",
    "privacy_report",
    "register",
    "release_of",
    "step_of",
    "takes_labels_from_rows",
    "with_seeds",
]

_LIBRARIES = ("dp-accounting", "scikit-learn", "numpy", "scipy", "randomgen")


def privacy_report(
    obj: Any, *, audit: Any = None, ledger: PrivacyLedger | None = None
) -> PrivacyReport:
    """Report what is protected, how strongly and by which mechanisms, and what is not. The report itself is
    public.

    Parameters
    ----------
    obj : fitted estimator, pipeline or search, Plan, released score or PrivacyLedger
        For a ledger, the report covers everything charged so far. In a pipeline of scikit-learn, steps that
        may learn from the rows without noise are named, and are not covered.
    audit : AuditResult, default=None
        Of `skdpbayes.audit`, with the same settings: its verdict becomes a line of ``details``. Make it on a
        table that is no secret.
    ledger : PrivacyLedger, default=None
        The ledger that ``obj`` was charged to. The report then says what is left of its budget, and whether
        it has a charge of this cost.

    Returns
    -------
    report : PrivacyReport
        A dict, ready for ``json.dumps``, with methods ``to_html``, ``to_markdown`` and ``to_json``.
        ``summary`` says in words and numbers what is protected, against whom, what is spent and left.
        ``steps`` has every step with its share, columns, rows, bounds and who said so. ``assumptions`` are to
        be signed. ``deployment`` has the fields of OpenDP's registry [1]_ that can be filled
        in automatically: ``dp_variant``, ``privacy_loss``, ``deployment_model``, ``accounting`` and
        ``implementation``. ``details`` has the relation between neighbours, in the terms of NIST [2]_ and of
        this package, budget and cost, each release, ``warnings`` and versions. Infinite numbers are None.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.
    TypeError
        If objects of this type have no report.
    ValueError
        If the steps of a pipeline protect different things, so that their costs cannot be added, or if
        parameters were set after the fit.

    References
    ----------
    .. [1] OpenDP, "Differential Privacy Deployments Registry", schema of deployments,
       https://github.com/opendp/deployments-registry-data.
    .. [2] J. P. Near, D. Darais, N. Lefkovitz and G. S. Howarth, "Guidelines for evaluating differential
       privacy guarantees", NIST SP 800-226, 2025, https://doi.org/10.6028/NIST.SP.800-226.

    Examples
    --------
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.privacy import privacy_report
    >>> plan = DPBayesianLogisticRegression(epsilon=1.0, delta=1e-6).privacy_plan(5000, 10)
    >>> report = privacy_report(plan)
    >>> report["deployment"]["privacy_loss"]["privacy_unit"]
    'Record-level'
    >>> report["deployment"]["dp_variant"]["variant_name"], report["details"]["neighbors"]
    ('Approximate DP', 'bounded')
    >>> round(report["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"], 4)
    1.0
    >>> print(report.to_markdown(title="A survey").splitlines()[0])
    # Privacy report: A survey
    """
    account = account_of(obj)
    if not (ledger is None or isinstance(ledger, PrivacyLedger)):
        raise TypeError(f"ledger must be a PrivacyLedger or None, not a {type(ledger).__name__}.")
    if account.of == "ledger" and ledger is None:
        ledger = obj
    charged = None if ledger is None else Charged.of(account, ledger)
    details = _details(account, charged)
    if audit is not None:
        details["audit"] = audit.verdict
    return PrivacyReport(
        {
            "schema": SCHEMA,
            "version": VERSION,
            "summary": summary_of(account, charged, details["warnings"]),
            "steps": steps_of(account),
            "assumptions": assumptions_of(account, charged),
            "deployment": deployment_of(account),
            "details": details,
        }
    )


def _details(account, charged):
    delta = account.budget.delta
    return {
        "of": account.of,
        "neighboring_relation": account.budget.neighboring_relation,
        "neighbors": KINDS_OF_NEIGHBOURS[account.budget.neighboring_relation],
        "budget": {"epsilon": finite(account.budget.epsilon), "delta": delta},
        "cost": {
            "epsilon": finite(account.cost.epsilon(delta)),
            "delta": delta,
            "zcdp_rho": finite(account.cost.concentrated),
            **cost_fields(account.cost),
        },
        "releases": list(account.releases),
        "warnings": [
            *account.warnings,
            *too_large_delta(account.budget, account.rows or 0),
            *(charged.warnings if charged else ()),
        ],
        "versions": _versions(),
    }


def _versions():
    # The package may run from its sources, without being installed.
    own = sys.modules[__name__.partition(".")[0]].__version__
    return {"skdpbayes": own, **{name: version(name) for name in _LIBRARIES}}
