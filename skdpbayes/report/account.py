"""The account of a fit: what was protected, released, spent and guaranteed, by every step.

    total = cost of all steps together,      share of a step = mu_i^2 / sum of mu_j^2,

where ``mu_i`` is that of the Gaussian release with the step's epsilon at the report's delta.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache, singledispatch
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple, Self

from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from ..privacy.budget import Budget, largest_epsilon, round_down_epsilon
from ..privacy.conversions import TooSmallBudget, gaussian_mu
from ..privacy.cost import PrivacyCost, composed
from ..privacy.ledger import _SEEDS_ALLOWED, PrivacyLedger
from ..privacy.losses import PERSON_RELATIONS
from ..privacy.planned_release import PlannedRelease, StepDisclosure, refuse_changed
from ..random import has_seeds

_KNOWN_PACKAGES = ("skdpbayes.", "sklearn.")


class Step(NamedTuple):
    """A step of what was released, or one that costs nothing.

    Attributes
    ----------
    name : str
    kind : str
        Its class, or the name of what was charged.
    role : {"charged", "within", "part", "free", "vouched", "unproven"}
        Whether it is paid for, is paid for by the search that chose it or by another release, is known to
        learn nothing, learns nothing in the user's word, or may learn without noise.
    epsilon : float or None
        Of the step alone, at the report's delta.
    cost : PrivacyCost or None
    about : StepDisclosure
    does : str
        In a sentence.
    columns : tuple of str, int or None
        The columns that it reads, or how many.
    rows : int or None
    note : str
        A warning, or when it was charged and how it ended.
    """

    name: str
    kind: str
    role: str
    epsilon: float | None = None
    cost: PrivacyCost | None = None
    about: StepDisclosure = StepDisclosure()
    does: str = ""
    columns: Any = None
    rows: int | None = None
    note: str = ""


class Account(NamedTuple):
    """The contents of a report. An object that is not known here has a method ``_privacy_account`` for one.

    Attributes
    ----------
    of : str
        What the report is of, such as "estimator".
    cost : PrivacyCost
        Of everything together.
    budget : Budget
        The ceiling, and the delta and the relation of the report.
    releases : tuple of dict
        What was released, or will be, JSON-ready.
    unprotected : tuple of str, default=()
        Quantities that are not protected, beside sizes and names of columns.
    warnings : tuple of str, default=()
        What weakens the guarantee.
    name : str, default=""
        Its class.
    steps : tuple of Step, default=()
        None stands for one for each release.
    rows : int or None, default=None
        The number of rows that is public.
    counts : {"rows", "persons"}, default="rows"
        What the numbers of rows of the account and its steps are numbers of.
    max_rows : int or None, default=None
        How many rows of a person are used at most, if persons are protected.
    seeds : bool or None, default=None
        Whether the noise came from a known seed; None if that is not known.
    proof : str, default=""
        The propositions by which the costs add up.
    may_have_changed : bool, default=False
        Whether steps of other packages are told by parameters that may have been set after the fit.
    label : str, default=""
        The formula of a fit, as ledgers call it; it is public.
    fits : tuple, default=()
        Objects whose releases the cost pays for, and that are what they were then; () is the object itself.
    charges : tuple, default=()
        For each fit that was charged by itself what it keeps of its charges, None if it keeps nothing.
    """

    of: str
    cost: PrivacyCost
    budget: Budget
    releases: tuple = ()
    unprotected: tuple = ()
    warnings: tuple = ()
    name: str = ""
    steps: tuple = ()
    rows: int | None = None
    counts: str = "rows"
    max_rows: int | None = None
    seeds: bool | None = None
    proof: str = ""
    may_have_changed: bool = False
    label: str = ""
    fits: tuple = ()
    charges: tuple = ()

    @property
    def relation(self) -> str:
        """The neighbouring relation of what is protected."""
        return self.budget.neighboring_relation

    @property
    def protects_persons(self) -> bool:
        """Whether persons are protected, and not rows."""
        return self.relation in PERSON_RELATIONS

    @property
    def epsilon(self) -> float:
        """The epsilon of everything together, at the report's delta."""
        return self.cost.epsilon(self.budget.delta)

    @property
    def knows_charges(self) -> bool:
        """Whether every fit keeps its charges."""
        return bool(self.charges) and None not in self.charges

    def numbers_in(self, ledger: PrivacyLedger, costs: dict[int, PrivacyCost]) -> list[int]:
        """The numbers of its charges in a ledger of such {number: cost}, [] if not all of it was charged."""
        name = ledger._book.ledger
        made = [[number for book, number in each if book == name] for each in self.charges]
        numbers = list(chain(*made))
        if not (all(made) and numbers and costs.keys() >= set(numbers)):
            return []
        return numbers if composed([costs[number] for number in numbers]) == self.cost else []


def account_of(obj: Any) -> Account:
    """The account of an object; raises an error that says what has none."""
    refuse_changed(obj)
    account = obj._privacy_account() if hasattr(obj, "_privacy_account") else _account(obj)
    label = getattr(getattr(obj, "best_estimator_", obj), "_ledger_label", None) or ""
    charges = account.charges or (getattr(obj, "_charges_of_fit", None),)
    return account._replace(label=label, fits=account.fits or (obj,), charges=charges)


@singledispatch
def _account(obj):
    if isinstance(obj, Pipeline) and Pipeline not in _account.registry:
        import_module("skdpbayes.pipeline")  # It registers scikit-learn's pipelines.
        return _account(obj)
    if hasattr(obj, "plan_"):
        return of_estimator(obj)
    if hasattr(obj, "cost") and hasattr(obj, "budget"):
        return plan_account(obj)
    if hasattr(obj, "privacy_plan"):
        raise NotFittedError(
            f"this {type(obj).__name__} is not fitted: fit it, or report its plan, "
            "privacy_report(estimator.privacy_plan(n_samples, n_features))."
        )
    raise TypeError(
        "a report needs a fitted estimator, a plan or a ledger, a pipeline or a score, not an object of "
        f"type {type(obj).__name__}."
    )


def register(kind: type, make: Callable[[Any], Account]) -> None:
    """Let objects of another package's class have reports."""
    _account.register(kind, make)


def of_estimator(estimator: Any, of: str = "estimator") -> Account:
    """The account of a fitted estimator with one plan."""
    plan = estimator.plan_
    unprotected: tuple[str, ...] = ()
    if takes_labels_from_rows(estimator):
        unprotected = ("The set of labels, which was taken from the data (classes=None)",)
    account = plan_account(plan, of)
    name, (release,) = type(estimator).__name__, account.releases
    account = account._replace(
        releases=({"estimator": name, **release},),
        unprotected=unprotected,
        name=name,
        steps=(step_of(estimator, plan.cost, rows=account.rows),),
    )
    return with_seeds(account, estimator)


def with_seeds(account: Account, estimator: Any) -> Account:
    """An account that says whether an estimator, or one inside it, has a seed."""
    if not has_seeds(estimator):
        return account._replace(seeds=False)
    warning = (
        "random_state was given: anyone who knows it can subtract the noise, and nothing is protected "
        "from them."
    )
    return account._replace(seeds=True, warnings=(warning, *account.warnings))


@_account.register(PlannedRelease)
def plan_account(plan: Any, of: str = "plan") -> Account:
    """The account of a plan."""
    kind, plan = type(plan).__name__, reported(plan)
    name, proof, rows = str(plan.name), proof_of(plan), plan.n_samples
    step = Step(
        name,
        kind,
        "charged",
        cost=plan.cost,
        about=StepDisclosure(proof=proof),
        rows=rows,
    )
    return Account(
        of,
        plan.cost,
        plan.requested_budget,
        (release_of(plan),),
        name=name,
        steps=(step,),
        rows=rows,
        counts="persons" if plan.protects_persons else "rows",
        max_rows=plan.max_rows if plan.persons is None else plan.persons.max_rows,
        proof=proof,
    )


@dataclass(frozen=True)
class _OtherPlan(PlannedRelease):
    """A plan of somebody's own: a cost and a budget, and perhaps a name, a number of rows and a summary."""

    budget: Any
    cost: PrivacyCost
    plan: Any

    @property
    def name(self) -> str:
        return str(getattr(self.plan, "name", type(self.plan).__name__))

    @property
    def n_samples(self) -> int | None:
        return getattr(self.plan, "n_samples", None)

    def _report_lines(self):
        return dict(self.plan.summary()) if hasattr(self.plan, "summary") else {}


def reported(plan: Any) -> Any:
    """A plan as reports read it: itself, or what is known of one that is no `PlannedRelease`."""
    if isinstance(plan, PlannedRelease):
        return plan
    return _OtherPlan(getattr(plan, "budget", None), plan.cost, plan)


def release_of(plan: Any) -> dict[str, Any]:
    """The releases of a plan, JSON-ready."""
    plan = reported(plan)
    return {
        "sampler": plan.name,
        "epsilon": finite(plan.cost.epsilon(plan.budget.delta)),
        "cost": cost_fields(plan.cost),
        "plan": plan._report_lines(),
    }


def proof_of(plan: Any) -> str:
    """The propositions by which a plan's cost is known, as far as it says."""
    plan = reported(plan)
    parts = [plan.proof]
    if plan.bound_release is not None:
        parts.append("Propositions 50 and 62 for learnt bounds")
    if plan.persons is not None:
        parts.append("Propositions 60 and 72 for persons")
    return "; ".join(filter(None, parts))


def step_of(step: Any, cost: PrivacyCost | None, name: str = "", **fields: Any) -> Step:
    """The `Step` of a report, from a step's disclosures."""
    try:
        about = step._about() if hasattr(step, "_about") else StepDisclosure()
    except (
        Exception
    ):  # A parameter may be wrong. A fit says so; what it is called in a report is not worth one.
        about = StepDisclosure()
    if not about.proof and cost is not None and hasattr(step, "plan_"):
        about = about._replace(proof=proof_of(step.plan_))
    names = getattr(step, "feature_names_in_", None)
    columns = getattr(step, "n_features_in_", None) if names is None else tuple(map(str, names))
    kind = type(step)
    does = ""
    if kind.__module__.startswith(_KNOWN_PACKAGES):
        does = (inspect.getdoc(kind) or "").partition("\n")[0]
    known = {
        "role": "free" if cost is None or cost.is_zero else "charged",
        "cost": cost,
        "about": about,
        "does": does,
        "columns": columns,
    }
    return Step(name or kind.__name__, kind.__name__, **{**known, **fields})


def takes_labels_from_rows(estimator: Any) -> bool:
    """Whether a fitted estimator read the set of labels off the rows."""
    return hasattr(estimator, "classes_") and getattr(estimator, "classes", ()) is None


@_account.register(PrivacyLedger)
def _of_ledger(ledger):
    records = ledger.records()
    releases = tuple(_plain({**row, "cost": cost_fields(row["cost"])}) for row in records)
    seeded = any((row["label"] or "").endswith(_SEEDS_ALLOWED) for row in records)
    warnings: tuple[str, ...] = ()
    if seeded:
        warnings = (
            "some charges were made with seeds allowed: anyone who knows a seed can subtract the noise, and "
            "the total is no guarantee against them.",
        )
    return Account(
        "ledger",
        ledger.spent,
        ledger.budget,
        releases,
        warnings=warnings,
        name="PrivacyLedger",
        steps=tuple(_charge(row, ledger.budget.delta) for row in records),
        seeds=True if seeded else None,
        proof="Propositions 2 and 35",
    )


def _charge(row, delta):
    name = row["label"] or row["estimator"] or row["sampler"] or "a charge"
    kind = " by ".join(filter(None, [row["estimator"], row["sampler"]])) or "cost"
    when = " ".join(filter(None, [row["status"], row["time"]]))
    epsilon = row["epsilon"]
    if epsilon is None:
        epsilon = row["cost"].epsilon(delta)
    return Step(name, kind, "charged", epsilon=epsilon, cost=row["cost"], note=when)


def shares(account: Account) -> list[float | None]:
    """The share of each step in the loss, None where it is not known or a part is not finite."""
    delta = account.budget.delta
    parts = [_squared_mu(epsilon_of(step, delta), delta) for step in account.steps]
    total = math.fsum(parts) or 1.0
    hidden = [step.role in ("within", "part") for step in account.steps]
    if not math.isfinite(total):
        return [None if part or no else 0.0 for part, no in zip(parts, hidden, strict=True)]
    return [None if no else part / total for part, no in zip(parts, hidden, strict=True)]


@lru_cache(maxsize=1024)  # Charges of a ledger are often alike.
def _squared_mu(epsilon, delta):
    """The quantity that adds up: the squared ``mu``, or epsilon if delta is 0."""
    if epsilon == 0 or delta == 0 or math.isinf(epsilon):
        return epsilon
    try:
        return gaussian_mu(epsilon, delta) ** 2
    except TooSmallBudget:
        return 0.0


def epsilon_of(step: Step, delta: float) -> float:
    """The epsilon of a step alone."""
    if step.epsilon is not None:
        return step.epsilon
    return 0.0 if step.cost is None or step.cost.is_zero else step.cost.epsilon(delta)


def cost_fields(cost: PrivacyCost) -> dict[str, Any]:
    """All numbers of a cost, JSON-ready."""
    return _plain(asdict(cost))


def _plain(value):
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return finite(value) if isinstance(value, float) else value


def finite(number: float) -> float | None:
    """A number, or None if it is not finite."""
    return float(number) if math.isfinite(number) else None


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
    is_its : bool
        Whether that is known to be the report's own charge, and no other of this cost.
    """

    budget: Budget
    spent: float
    left: float
    releases: int
    has_it: bool | None
    is_its: bool

    @classmethod
    def of(cls, account, ledger) -> Self:
        """Look into a ledger."""
        records, spent, budget = ledger.records(), ledger.spent, ledger.budget
        has_it, is_its = None, False
        if account.of != "ledger":
            costs = dict(enumerate((row["cost"] for row in records), 1))
            knows = account.knows_charges
            is_its = knows and bool(account.numbers_in(ledger, costs))
            # If a fit knows of none, it may have been charged by hand.
            alike = [row for row in records if row["cost"] == account.cost]
            has_it = is_its or any(row["estimator"] is None or not knows for row in alike)
        epsilon_left = largest_epsilon(budget, spent)
        return cls(budget, spent.epsilon(budget.delta), epsilon_left, len(records), has_it, is_its)

    @property
    def warnings(self):
        """The warnings of a report."""
        if self.has_it is not False:
            return ()
        return (
            "no charge of the ledger is known to be of what is reported: it was made outside of the ledger, "
            "or charged in parts or by hand, and the ledger's total may not contain it.",
        )

    def as_json(self):
        """The numbers, none of them rounded up."""
        epsilon_left = finite(self.left)
        return {
            "budget_epsilon": finite(self.budget.epsilon),
            "delta": self.budget.delta,
            "spent_epsilon": finite(self.spent),
            "left_epsilon": None if epsilon_left is None else round_down_epsilon(epsilon_left),
            "releases": self.releases,
            "has_this_cost": self.has_it,
        }
