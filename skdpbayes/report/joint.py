"""One report of several releases about the same rows, and of whatever else their ledger was charged.

    cost = cost_1 + ... + cost_k + charges of the ledger that are of none of these

Costs are added as a ledger adds them, and each release keeps a report of its own. An assumption of several
holds for all of them, or does not hold.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from ..privacy.budget import Budget
from ..privacy.cost import PrivacyCost, composed
from ..privacy.ledger import PrivacyLedger
from .account import Account, Charged, Step, account_of, finite
from .wording import record_of

# Of an assumption, and of a report, from the best to the worst.
_STATUSES = ("checked", "to_sign", "failed")
_VERDICTS = ("if_signed", "weakened", "none")
# Assumptions about all releases together, which those of single ones cannot know.
_ABOUT_ALL = ("all_releases", "charged")


def joint_record(
    releases: Sequence[Any], reports: Sequence[dict[str, Any]], ledger: PrivacyLedger | None
) -> dict[str, Any]:
    """The record of several releases, with the report of each.

    Raises
    ------
    ValueError
        If there is none, if one is a plan or a ledger, or if they protect different things.
    """
    accounts = [account_of(release) for release in releases]
    if not accounts:
        raise ValueError("a report of several releases needs at least one.")
    if wrong := {account.of for account in accounts} & {"plan", "ledger"}:
        raise ValueError(
            f"a {min(wrong)} is no release: report plans one by one, and give a ledger beside the releases, "
            "as in privacy_report([...], ledger=ledger)."
        )
    charges = None if ledger is None else account_of(ledger)
    others = {} if charges is None else dict(enumerate(charges.steps, 1))
    payers = [_payer(place, accounts, ledger is not None) for place in range(len(accounts))]
    are_charged = [
        ledger is None or payer is not None or _take(others, account, ledger)
        for account, payer in zip(accounts, payers, strict=True)
    ]
    account = _joint(accounts, payers, are_charged, charges, list(others.values()))
    charged = None
    if ledger is not None:
        knows = all(
            account.knows_charges
            for account, payer in zip(accounts, payers, strict=True)
            if payer is None
        )
        charged = Charged.of(account, ledger)._replace(has_it=all(are_charged), is_its=knows)
    record = record_of(account, charged)
    assumptions = {(one["id"], one["statement"]): one for one in record["assumptions"]}
    for one in (one for report in reports for one in report["assumptions"]):
        if one["id"] not in _ABOUT_ALL:
            known = assumptions.setdefault((one["id"], one["statement"]), one)
            if _STATUSES.index(one["status"]) > _STATUSES.index(known["status"]):
                assumptions[one["id"], one["statement"]] = one
    verdicts = [report["summary"]["verdict"] for report in (record, *reports)]
    record["summary"]["verdict"] = max(verdicts, key=_VERDICTS.index)
    return {**record, "assumptions": list(assumptions.values()), "reports": list(reports)}


def _payer(place, accounts, has_ledger):
    """The place of another release whose cost pays for all fits of this one, None if there is none.

    Equal costs prove nothing: it is the same object, or one that a pipeline or a search holds as it was. Of
    steps that may have been fitted again in the meantime, only a ledger knows the earlier fits.
    """
    fits = set(map(id, accounts[place].fits))
    for other, account in enumerate(accounts):
        if account.may_have_changed and not has_ledger:
            continue
        held = set(map(id, account.fits))
        if other != place and fits <= held and (fits < held or other < place):
            return other
    return None


def _take(charges, account, ledger):
    """Whether a ledger has an account's charges, which are then taken out of {number: charge}.

    What is not taken counts twice. A fit knows the numbers of its charges. Of what does not, such as a score,
    they are of its class and cost, or of each step's; of two that are alike nobody can tell which it is.
    """
    if account.knows_charges:
        costs = {number: charge.cost for number, charge in charges.items()}
        numbers = account.numbers_in(ledger, costs)
        for number in numbers:
            del charges[number]
        return bool(numbers)
    steps = [(step.kind, step.cost) for step in account.steps if step.role == "charged"]
    for wanted in ([(account.name, account.cost)], steps):
        left = dict(charges)
        for kind, cost in wanted:
            place = next((k for k, one in left.items() if _is_of(one, kind, cost)), None)
            if place is None:
                break
            del left[place]
        else:
            if wanted:
                charges.clear()
                charges.update(left)
                return True
    return False


def _is_of(charge, kind, cost):
    """Whether a charge is of a class, "class by sampler" in full, and of a cost."""
    return charge.kind.partition(" by ")[0].lower() == kind.lower() and charge.cost == cost


def _joint(accounts, payers, are_charged, charges, others):
    """The account of releases, and of the steps that are other charges of their ledger."""
    nothing = () if charges is None else (PrivacyCost(charges.relation),)
    paid = [account for account, payer in zip(accounts, payers, strict=True) if payer is None]
    cost = composed((*(part.cost for part in (*paid, *others)), *nothing))
    if charges is None:
        deltas = [account.budget.delta for account in paid]
        # Failures add up to what no smaller delta covers.
        delta = sum(deltas) if cost.failure_probability >= max(deltas) > 0 else max(deltas)
        budget = Budget(float("inf"), delta, cost.neighboring_relation)
    else:
        budget = charges.budget
        cost = charges.cost if all(are_charged) else cost  # To the last digit.
    sizes = {(account.rows, account.counts, account.max_rows) for account in accounts}
    rows, counts, max_rows = min(sizes) if len(sizes) == 1 else (None, "rows", None)
    is_seeded = [account.seeds for account in accounts] + [None] * bool(others)
    warnings = [
        f"release {place}, {account.name}: {text}"
        for place, account in enumerate(accounts, 1)
        for text in account.warnings
    ]
    more = f" and {len(others)} other charge{'s' * (len(others) > 1)}" if others else ""
    return Account(
        "releases",
        cost,
        budget,
        tuple(release for account in paid for release in account.releases)
        + tuple({"estimator": one.kind, "epsilon": finite(one.epsilon)} for one in others),
        tuple(dict.fromkeys(text for account in accounts for text in account.unprotected)),
        (*warnings, *(charges.warnings if others else ())),
        name=f"{len(accounts)} release{'s' * (len(accounts) > 1)}{more}",
        steps=(*map(_release, accounts, payers, are_charged, repeat(budget.delta)), *others),
        rows=rows,
        counts=counts,
        max_rows=max_rows,
        seeds=True if True in is_seeded else (None if None in is_seeded else False),
        proof="Propositions 2 and 35",
        may_have_changed=any(account.may_have_changed for account in accounts),
    )


def _release(account, payer, is_charged, delta):
    """A release as a step, with the budget that it had."""
    ceiling = "no ceiling"
    if account.budget.is_private:
        ceiling = f"epsilon = {account.budget.epsilon:g} at delta = {account.budget.delta:g}"
    note = f"budget: {ceiling}" + (
        "" if is_charged else "; no charge of the ledger is known to be its own"
    )
    columns = account.steps[0].columns if account.steps else None
    step = Step(
        account.label or account.name, account.name, "charged", columns=columns, rows=account.rows
    )
    if payer is not None:
        return step._replace(
            role="part", note=f"paid for by release {payer + 1}, which is or holds this fit"
        )
    return step._replace(epsilon=account.cost.epsilon(delta), cost=account.cost, note=note)
