"""What is protected, against whom, what is spent and left, and what is to be signed; all JSON-ready.

    odds after a release <= exp(epsilon) * odds before,        p -> p e^epsilon / (1 - p + p e^epsilon)

for any guess about a row, apart from events whose probability delta bounds.
"""

import math
from typing import NamedTuple, Self

from ..budget import Budget
from ..loss_distributions import PERSON_RELATIONS, between_rows
from ..persons import chain_of_rows
from ..remaining import largest_epsilon, rounded_down
from ._account import epsilon_of, finite, shares
from ._assumptions import assumptions, trusted
from ._deployment import UNITS, UNPROTECTED, mechanisms

# What somebody may have believed before.
_GUESSES = (0.01, 0.1, 0.5)
_GUESSED = {
    "replace_one": "what a row says",
    "add_or_remove_one": "whether a row is in the table",
    "replace_one_person": "what a person's rows say",
    "add_or_remove_one_person": "whether a person is in the table",
}
_HOW = {
    "rows": {
        "replace_one": "public: neighbouring tables have the same number of rows",
        "add_or_remove_one": "declared as public_size; how many rows there are stays private",
        "replace_one_person": "planned for; the number of persons is public, that of rows is not",
        "add_or_remove_one_person": "declared as public_size; how many rows there are stays private",
    },
    "persons": {
        "replace_one_person": "public: neighbouring tables have the same number of persons",
        "add_or_remove_one_person": "expected; how many persons there are stays private",
    },
}
_STAGES = {"plan": "planned", "ledger": "everything charged so far"}


class Charged(NamedTuple):
    """The ledger beside a report.

    Attributes
    ----------
    budget : Budget
    spent, left : float
        Epsilons at the ledger's delta; what is left is for one more release.
    releases : int
    has_it : bool or None
        Whether it has a charge of the report's cost; None if the report is of the ledger.
    """

    budget: Budget
    spent: float
    left: float
    releases: int
    has_it: bool | None

    @classmethod
    def of(cls, account, ledger) -> Self:
        """Look into a ledger."""
        records, spent, budget = ledger.records(), ledger.spent, ledger.budget
        left = largest_epsilon(budget, spent)
        has_it = None
        if account.of != "ledger":
            has_it = any(row["cost"] == account.cost for row in records)
        return cls(budget, spent.epsilon(budget.delta), left, len(records), has_it)

    @property
    def warnings(self):
        """What is wrong about it."""
        if self.has_it is not False:
            return ()
        return (
            "the ledger has no charge of this cost: what this report is of was made outside of it, or "
            "charged in parts, and the ledger's total may not contain it.",
        )

    def as_json(self):
        """Return the numbers, none of them rounded up."""
        left = finite(self.left)
        return {
            "budget_epsilon": finite(self.budget.epsilon),
            "delta": self.budget.delta,
            "spent_epsilon": finite(self.spent),
            "left_epsilon": None if left is None else rounded_down(left),
            "releases": self.releases,
            "has_this_cost": self.has_it,
        }


def summary_of(account, charged, warnings):
    """Return what is read first."""
    budget = account.budget
    relation, delta = budget.neighboring_relation, budget.delta
    epsilon = account.cost.epsilon(delta)
    return {
        "of": account.of,
        "name": account.name or account.of,
        "stage": _STAGES.get(account.of, "released"),
        "verdict": _verdict(account, epsilon, warnings),
        "protected": {
            "unit": "person" if relation in PERSON_RELATIONS else "row",
            "neighboring_relation": relation,
            "statement": UNITS[relation],
            "max_rows_per_person": account.max_rows,
            "rows": _rows(account),
            "not_protected": [UNPROTECTED[relation], *account.unprotected],
        },
        "adversaries": trusted(account),
        "spent": {
            "epsilon": finite(epsilon),
            "delta": delta,
            "odds_factor": _factor(epsilon),
            "guess": _GUESSED[relation],
            "beliefs": [
                {"before": p, "at_most_after": _belief(p, epsilon)}
                for p in (_GUESSES if math.isfinite(epsilon) else ())
            ],
            "mechanisms": mechanisms(account.cost),
            "proof": account.proof,
        },
        "ceiling": {"epsilon": finite(budget.epsilon), "delta": delta},
        "ledger": None if charged is None else charged.as_json(),
    }


def _verdict(account, epsilon, warnings):
    """Return whether a guarantee is claimed: "none", "weakened", or "if_signed"."""
    if math.isinf(epsilon):
        return "none"
    unproven = any(step.role == "unproven" for step in account.steps)
    return "weakened" if warnings or unproven or account.seeds else "if_signed"


def _rows(account):
    relation = account.budget.neighboring_relation
    if account.rows is None:
        return None
    several = (account.max_rows or 1) > 1
    number, how = int(account.rows), _HOW[account.counts][relation]
    at_most = account.counts == "rows" and relation == "replace_one_person" and several
    return {"number": number, "counts": account.counts, "at_most": at_most, "how": how}


def _factor(epsilon):
    return math.exp(epsilon) if epsilon < 700 else None


def _belief(before, epsilon):
    return 1.0 / (1.0 + (1.0 - before) / before * math.exp(-epsilon))


def steps_of(account):
    """Return every step, or every charge."""
    delta = account.budget.delta
    if not account.steps:
        return [_bare(release) for release in account.releases]
    return [
        {
            "name": str(step.name),
            "kind": step.kind,
            "role": step.role,
            "does": step.does,
            "share": share,
            "epsilon": finite(epsilon_of(step, delta)),
            "delta": delta,
            "columns": _columns(step.columns),
            "rows": None if step.rows is None else int(step.rows),
            "bounds": [
                {
                    "what": fact.what,
                    "column": fact.column,
                    "value": fact.value,
                    "source": fact.source,
                }
                for fact in step.about.facts
            ],
            "mechanism": "" if step.cost is None or step.cost.is_zero else mechanisms(step.cost),
            "proof": step.about.proof,
            "note": step.note,
        }
        for step, share in zip(account.steps, shares(account), strict=True)
    ]


def _bare(release):
    """Return what is known of a release by its name alone."""
    name = str(release.get("estimator") or release.get("sampler") or "a release")
    return {
        **{"name": name, "kind": name, "role": "charged", "does": "", "share": None},
        **{"epsilon": release.get("epsilon"), "delta": None, "columns": None, "rows": None},
        **{"bounds": [], "mechanism": "", "proof": "", "note": ""},
    }


def _columns(columns):
    if columns is None:
        return None
    if isinstance(columns, tuple):
        return {"number": len(columns), "names": list(columns)}
    return {"number": int(columns), "names": None}


def assumptions_of(account, charged):
    """Return what must hold for the guarantee, each with an ``id`` that stays."""
    relation = account.budget.neighboring_relation
    limit = account.max_rows
    changes = limit is not None and chain_of_rows(between_rows(relation), limit)[1] > 1
    return assumptions(account, charged, persons_have_rows=changes)
