"""A privacy report: what is protected, how much, by what, and what is not, for people who were not there.

``report["summary"]``, ``["steps"]`` and ``["assumptions"]`` are what a data protection officer reads and
signs; `PrivacyReport.to_html` makes a page of them. ``report["deployment"]`` has the fields of OpenDP's
registry of deployments, and ``report["details"]`` numbers and versions.
"""

import hashlib
import json
from contextlib import suppress
from typing import Any, Self

from ..privacy.ledger import PrivacyLedger
from .account import Charged, account_of
from .explain import Explanation, explain, model_behind, sentences_of
from .joint import joint_record
from .render import Markdown, Page, document, printed
from .wording import SCHEMA, VERSION, record_of

__all__ = ["Explanation", "PrivacyReport", "explain", "privacy_report"]


def __dir__():
    return __all__


# The record of a report, and its forms: JSON, of which Markdown and a page are made.


_PARTS = {"summary": dict, "steps": list, "assumptions": list, "deployment": dict, "details": dict}
# Errors that a report raises which lacks a part.
_DAMAGE_ERRORS = (KeyError, TypeError, AttributeError, IndexError, ValueError)


class PrivacyReport(dict):
    """A privacy report: a dict with forms to read and sign. Printed, it has a few lines; notebooks show all.

    Its keys are ``schema`` and ``version``, which changes if a key changes its meaning, ``summary``,
    ``steps``, ``assumptions``, ``deployment`` and ``details``; see `privacy_report`, which makes it. A report
    of a fitted model has ``explanation`` as well, and one of several releases ``reports``, that of each.

    Examples
    --------
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.privacy import PrivacyReport, privacy_report
    >>> plan = DPBayesianLogisticRegression(epsilon=0.5, delta=1e-6).privacy_plan(5000, 10)
    >>> report = privacy_report(plan)
    >>> [(one["name"], one["role"], one["share"]) for one in report["steps"]]
    [('noise_aware', 'charged', 1.0)]
    >>> PrivacyReport.from_json(report.to_json()) == report
    True
    >>> report.to_html(title="Survey of 2026").startswith("<!DOCTYPE html>")
    True
    """

    def __str__(self):
        with suppress(*_DAMAGE_ERRORS):
            return printed(self)
        return repr(self)

    def _repr_markdown_(self):
        with suppress(*_DAMAGE_ERRORS):
            return self.to_markdown()
        return None

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The report that `to_json` wrote.

        Parameters
        ----------
        text : str or bytes

        Returns
        -------
        report : PrivacyReport

        Raises
        ------
        ValueError
            If it is none, or one of a newer version.
        """
        try:
            record = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise ValueError("this is no JSON: save a report by report.to_json().") from None
        if not isinstance(record, dict) or record.get("schema") != SCHEMA:
            raise ValueError(
                f"this JSON is no privacy report, which has a 'schema' of {SCHEMA!r}: make one with "
                "privacy_report(...).to_json(), or with skdpbayes report."
            )
        if record.get("version") != VERSION:
            raise ValueError(
                f"this report has another version than {VERSION}, which this release of skdpbayes reads: "
                "use the release that wrote it."
            )
        if not all(isinstance(record.get(name), kind) for name, kind in _PARTS.items()):
            raise ValueError(f"this report is damaged: it must have {', '.join(_PARTS)}.")
        if not isinstance(record.get("explanation", []), list):
            raise ValueError("this report is damaged: its explanation must be a list of sentences.")
        if not isinstance(record.get("reports", []), list):
            raise ValueError("this report is damaged: its reports must be a list.")
        return cls(record)

    def to_json(self) -> str:
        """The report as JSON.

        Returns
        -------
        text : str
        """
        return json.dumps(self, indent=2, allow_nan=False)

    def to_markdown(self, title: str | None = None) -> str:
        """The report as Markdown.

        Parameters
        ----------
        title : str, default=None
            What the report is about, such as the name of a survey.

        Returns
        -------
        text : str
        """
        return self._document(title, Markdown())

    def to_html(self, title: str | None = None) -> str:
        """The report as a page that needs no other file, runs no script, and can be printed.

        Parameters
        ----------
        title : str, default=None
            What the report is about, such as the name of a survey.

        Returns
        -------
        page : str
        """
        return self._document(title, Page())

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the record, which pages show: it tells which record a signed page belongs to."""
        plain = json.dumps(self, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(plain.encode()).hexdigest()

    def _document(self, title, write):
        if not (title is None or isinstance(title, str)):
            raise TypeError(f"title must be a str or None, not a {type(title).__name__}.")
        try:
            return document(self, title, self.fingerprint, write)
        except _DAMAGE_ERRORS as error:
            raise ValueError(
                "the report lacks a part, or one has another form: make it again with privacy_report."
            ) from error


def _refuse(constant: Any):
    raise ValueError(constant)


def privacy_report(
    obj: Any, *, audit: Any = None, ledger: PrivacyLedger | None = None
) -> PrivacyReport:
    """Report what is protected, how strongly and by which mechanisms, and what is not. The report itself is
    public.

    Parameters
    ----------
    obj : fitted estimator, pipeline or search, description, released score, Plan or PrivacyLedger, or a list
        For a ledger, the report covers everything charged so far. In a pipeline of scikit-learn, steps that
        may learn from the rows without noise are named, and are not covered. For a list of what was released
        about the same rows, it has the total, and a section for each; with ``ledger``, also its other
        charges. A fit counts once if another release of the list is the same object, or a search that holds
        it; with ``ledger``, also a pipeline of scikit-learn. Without a ledger, the total is at the largest
        delta, or at the sum of all if failures of thresholds need it.
    audit : AuditResult, default=None
        Of `skdpbayes.audit`, with the same settings: its verdict becomes a line of ``details``. Make it on a
        table that is no secret.
    ledger : PrivacyLedger, default=None
        The ledger that ``obj`` was charged to. The report then says what is left of its budget, and whether
        it was charged. Fits know their charges; of a description or a score there may only be one of its
        cost, and the report says so.

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
        Of a fitted model, ``explanation`` has the sentences of `skdpbayes.report.explain`, but no results of
        a fit without privacy. Of several releases, ``steps`` are these, and ``reports`` has that of each.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.
    TypeError
        If objects of this type have no report.
    ValueError
        If releases, or the steps of a pipeline, protect different things, so that their costs cannot be
        added, or if parameters were set after the fit.

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
    if not (ledger is None or isinstance(ledger, PrivacyLedger)):
        raise TypeError(f"ledger must be a PrivacyLedger or None, not a {type(ledger).__name__}.")
    if type(obj) in (list, tuple):
        if audit is not None:
            raise ValueError("an audit is of one release: report it alone.")
        return PrivacyReport(joint_record(obj, [privacy_report(one) for one in obj], ledger))
    account = account_of(obj)
    if account.of == "ledger" and ledger is None:
        ledger = obj
    record = record_of(account, None if ledger is None else Charged.of(account, ledger))
    if audit is not None:
        record["details"]["audit"] = audit.verdict
    if (model := model_behind(obj)) is not None:
        record["explanation"] = sentences_of(obj, model, record, is_public=True)
    return PrivacyReport(record)
