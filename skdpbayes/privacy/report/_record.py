"""The record of a report, and its forms: JSON, of which Markdown and a page are made."""

import hashlib
import json
from typing import Any, Self

from ._blocks import blocks_of
from ._html import page
from ._markdown import text

SCHEMA = "skdpbayes-privacy-report"
VERSION = 1
_PARTS = {"summary": dict, "steps": list, "assumptions": list, "deployment": dict, "details": dict}


class PrivacyReport(dict):
    """A privacy report: a dict with forms to read and sign.

    Its keys are ``schema`` and ``version``, which changes if a key changes its meaning, ``summary``,
    ``steps``, ``assumptions``, ``deployment`` and ``details``; see `privacy_report`, which makes it.

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

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the report that `to_json` wrote.

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
        return cls(record)

    def to_json(self) -> str:
        """Return the report as JSON.

        Returns
        -------
        text : str
        """
        return json.dumps(self, indent=2, allow_nan=False)

    def to_markdown(self, title: str | None = None) -> str:
        """Return the report as Markdown.

        Parameters
        ----------
        title : str, default=None
            What the report is about, such as the name of a survey.

        Returns
        -------
        text : str
        """
        return text(self._blocks(title))

    def to_html(self, title: str | None = None) -> str:
        """Return the report as a page that needs no other file, runs no script, and can be printed.

        Parameters
        ----------
        title : str, default=None
            What the report is about, such as the name of a survey.

        Returns
        -------
        page : str
        """
        return page(self._blocks(title))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the record, which pages show: it tells which record a signed page belongs to."""
        plain = json.dumps(self, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(plain.encode()).hexdigest()

    def _blocks(self, title):
        if not (title is None or isinstance(title, str)):
            raise TypeError(f"title must be a str or None, not a {type(title).__name__}.")
        try:
            return blocks_of(self, title, self.fingerprint)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise ValueError(
                "the report lacks a part, or one has another form: make it again with privacy_report."
            ) from error


def _refuse(constant: Any):
    raise ValueError(constant)
