"""Releases that a larger plan has paid for.

    plan of several releases -> charged as a whole -> each release consumes an authorization, and no budget

An authorization belongs to the object that is to be fitted. It goes wherever that object is cloned, pickled
or sent, so that it reaches threads and worker processes. It is good for one release of at most its cost,
while the plan is carried out, by the process that issued it or one of its descendants. It stands for a file,
and whoever removes the file has taken it: of all copies in all processes, one. A release that finds no
authorization, or one that has been used or has expired, is charged like any other.
"""

import shutil
import tempfile
from collections.abc import Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator

from .cost import PrivacyCost
from .ledger_processes import descends_from, this_process

_ATTRIBUTE = "_authorization"
_is_dry_run = ContextVar("is_dry_run", default=False)


class UnplannedReleaseError(ValueError):
    """A step that was said to learn nothing makes a private release."""


@contextmanager
def without_releases():
    """Refuse all releases: what runs here runs before a plan has been charged."""
    token = _is_dry_run.set(True)
    try:
        yield
    finally:
        _is_dry_run.reset(token)


def refuse_in_dry_run(plan: Any) -> None:
    """Raise an `UnplannedReleaseError` for a plan that costs something, where nothing may be released."""
    if _is_dry_run.get():
        raise UnplannedReleaseError(
            f"a step makes a private release of its own ({getattr(plan, 'name', type(plan).__name__)}), "
            "which the plan of the pipeline does not contain: put the private step directly into the "
            "pipeline. Nothing was read."
        )


class Authorization(NamedTuple):
    """The authorization of one release, which is paid for.

    Attributes
    ----------
    cost : PrivacyCost
    issuer : tuple of (int, str)
        The process that issued it.
    file : Path
        There until the authorization is taken or expires.
    rows : object, default=None
        Which rows of its table the release may read, as for `read_table`; None is all.
    """

    cost: PrivacyCost
    issuer: tuple[int, str]
    file: Path
    rows: Any = None

    def check_covers(self, plan: Any) -> None:
        """Raise a RuntimeError if a plan costs more than was paid for it."""
        if not dominates(self.cost, plan.cost):
            raise RuntimeError(
                "the cost of this step does not have the planned form, and exceeds what the whole plan "
                "reserved for it: set its sampler or its data_norm, or give public lists of categories. "
                "This step has read nothing."
            )


def clone_with_authorization(estimator: Any) -> Any:
    """The ``__sklearn_clone__`` of what can be a part of a larger plan: a clone keeps the authorization."""
    copy = BaseEstimator.__sklearn_clone__(estimator)
    if (authorization := vars(estimator).get(_ATTRIBUTE)) is not None:
        setattr(copy, _ATTRIBUTE, authorization)
    return copy


def consume_authorization(holder: Any) -> Authorization | None:
    """Consume the authorization of an object, and return it; None if it has none that is good."""
    authorization = getattr(holder, "__dict__", {}).pop(_ATTRIBUTE, None)
    return authorization if authorization is not None and _claim_file(authorization) else None


def is_prepaid(holder: Any) -> bool:
    """Whether an object has an authorization that is good."""
    authorization = getattr(holder, "__dict__", {}).get(_ATTRIBUTE)
    return authorization is not None and _is_known(authorization) and authorization.file.exists()


def rows_paid_for(holder: Any) -> Any:
    """The rows that the authorization of an object is for; None is all, or that none is good."""
    return vars(holder)[_ATTRIBUTE].rows if is_prepaid(holder) else None


def _is_known(authorization):
    return authorization.issuer == this_process() or descends_from(authorization.issuer)


def _claim_file(authorization):
    if not _is_known(authorization):
        return False
    try:
        authorization.file.unlink()
    except OSError:
        return False
    return True


@contextmanager
def authorizations(costs: Iterable[tuple[Any, ...]]):
    """Give authorizations to objects; they expire in the end, and so do all copies, here and elsewhere.

    ``costs`` has an object and its cost for each, and may have the rows that it may read.
    """
    folder = Path(tempfile.mkdtemp(prefix="skdpbayes-authorizations-"))
    holders = []
    try:
        for number, (holder, cost, *rows) in enumerate(costs):
            file = folder / str(number)
            file.touch()
            setattr(holder, _ATTRIBUTE, Authorization(cost, this_process(), file, *rows))
            holders.append(holder)
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for holder in holders:
            vars(holder).pop(_ATTRIBUTE, None)


def dominates(paid: PrivacyCost, cost: PrivacyCost) -> bool:
    """Whether a cost that was paid for is at least another.

    Either every mechanism has its counterpart that reveals at least as much, or what was paid for is a
    randomised response that may fail, which is worse than any mechanism with that epsilon and delta (Kairouz,
    Oh and Viswanath 2015).
    """
    if paid.neighboring_relation != cost.neighboring_relation:
        return False
    if paid.is_infinite or paid == cost:
        return True
    response = PrivacyCost(
        paid.neighboring_relation,
        pure_events=paid.pure_events,
        failure_probability=paid.failure_probability,
    )
    if paid == response and [event.count for event in paid.pure_events] == [1]:
        return cost.epsilon(paid.failure_probability) <= paid.pure_events[0].level
    ranges = [
        [(event.log_odds_range, event.count) for event in each.decisions] for each in (paid, cost)
    ]
    same_bits = [count for _, count in ranges[0]] == [count for _, count in ranges[1]]
    rest = [replace(each, mu=0.0, decisions=()) for each in (paid, cost)]
    return (
        rest[0] == rest[1]
        and cost.mu <= paid.mu
        and same_bits
        and all(event[0] >= other[0] for event, other in zip(*ranges, strict=True))
    )
