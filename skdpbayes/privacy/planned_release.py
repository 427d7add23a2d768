"""What all plans and releases have in common: a cost within a budget, and what they say of themselves.

epsilon = epsilon(cost, delta),    delta of the budget
"""

import math
from collections.abc import Iterable
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

import joblib

from .budget import Budget
from .cost import PrivacyCost
from .losses import PERSON_RELATIONS, between_rows

# What a step says of itself in a report: the bounds that it used, and who said so.
#
# Facts are public: a user's own numbers, defaults, and what was released with noise. What the rows
# alone would tell, such as labels that were read off them, has no value here.


# What the norm to which rows are clipped is called.
LONGEST_ROW = "longest row"
# The attribute that holds the charges of a run which has not yet set the attributes of its plan.
CHARGES_OF_RUN = "_charges_of_run"


class Disclosure(NamedTuple):
    """A bound, a list or another public number that a step used.

    Attributes
    ----------
    what : str
        What it is, such as "range".
    value : number, str, list or None
        None if it is not known yet, or not to be told.
    source : {"declared", "learnt", "default", "steps", "labels"}
        Who said so: whoever ran it, the rows with noise that is paid for, the package, the steps before in a
        pipeline, or the table itself.
    column : str or None, default=None
        The column that it belongs to, None for all or none in particular.
    """

    what: str
    value: Any
    source: str
    column: str | None = None


class StepDisclosure(NamedTuple):
    """The disclosures of a step about itself.

    Attributes
    ----------
    facts : tuple of Disclosure, default=()
    proof : str, default=""
        The propositions by which its cost is known.
    """

    facts: tuple[Disclosure, ...] = ()
    proof: str = ""


def as_json(value: Any) -> Any:
    """A value as JSON has it: infinite numbers as None, and what is no number as text."""
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "tolist"):  # Of NumPy.
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return str(value)


def resolve_source(value: Any, default: Any, learnt: Any = None) -> tuple[Any, str]:
    """The value of a parameter that is a number, None or "auto", and who said so.

    Parameters
    ----------
    value : float, "auto" or None
        The parameter.
    default : float or None
        What None means.
    learnt : float or None, default=None
        What was learnt for "auto", None before a fit.
    """
    if value is None:
        return default, "default"
    return (learnt, "learnt") if isinstance(value, str) else (value, "declared")


def of_columns(
    what: str, values: Iterable[Any] | None, source: str, names: Iterable[Any] | None = None
) -> tuple[Disclosure, ...]:
    """A fact for each column, or one for all if they are alike or not known.

    Parameters
    ----------
    what : str
    values : iterable or None
        One for each column, None before a fit.
    source : str
    names : iterable or None, default=None
        Names of the columns.
    """
    if values is None:
        return (Disclosure(what, None, source),)
    values = [as_json(value) for value in values]
    if len(values) > 1 and all(value == values[0] for value in values):
        return (Disclosure(what, values[0], source, f"each of {len(values):,} columns"),)
    names = [f"column {place}" for place in range(len(values))] if names is None else list(names)
    return tuple(
        Disclosure(what, value, source, str(name))
        for name, value in zip(names, values, strict=True)
    )


# The parameters of a fit, so that a report tells of the fit and not of what was set afterwards.


# What decides nothing that a report says.
_IRRELEVANT = ("verbose", "n_jobs")
_PLAIN = (type(None), bool, int, float, str)


def parameter_fingerprint(estimator: Any) -> dict[str, str]:
    """Every parameter of an estimator, and of those inside, in words or as a digest.

    Of an estimator its class is told, and of a generator of random numbers that it is one, since both change
    in a fit.
    """
    parameters: dict[str, Any] = getattr(estimator, "get_params", dict)()
    return {
        name: _told(value)
        for name, value in parameters.items()
        if name.rpartition("__")[2] not in _IRRELEVANT
    }


def _told(value):
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_told, value))}]"
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if hasattr(value, "get_params") or "random" in type(value).__module__:
        return kind
    try:
        return f"{kind} {joblib.hash(value)}"
    except Exception:  # What cannot be pickled.
        return kind


def refuse_changed(fitted: Any) -> None:
    """Raise an error if parameters of something fitted, or of what it holds, are not those of its fit.

    Raises
    ------
    ValueError
        It names the parameters.
    """
    before = getattr(fitted, "_parameters_of_fit", None)
    if before is not None:
        now = parameter_fingerprint(fitted)
        changed = sorted(
            name for name in before.keys() | now.keys() if before.get(name) != now.get(name)
        )
        if changed:
            raise ValueError(
                f"{', '.join(changed)} of this {type(fitted).__name__} changed after its fit, and a report "
                "would not tell what was fitted: set it back, or fit again. Of a step of a private pipeline, "
                "report the pipeline, which set them for its fit."
            )
    held = [getattr(fitted, "best_estimator_", None)]
    if before is None:
        # Of a private pipeline, parameters of steps are its own; while it fits, they may be others.
        held += getattr(fitted, "get_params", dict)(deep=False).values()
        held.append(getattr(fitted, "transformers_", None))
    for estimator in _estimators(held):
        refuse_changed(estimator)


def _estimators(values):
    for value in values:
        if isinstance(value, list | tuple):
            yield from _estimators(value)
        elif hasattr(value, "get_params") and not isinstance(value, type):
            yield value


class PlannedRelease:
    """A release before it is made. What inherits from this is a frozen dataclass.

    Attributes
    ----------
    budget : Budget
        The requested budget.
    cost : PrivacyCost
        What is spent, whatever the rows hold.
    """

    budget: Budget
    cost: PrivacyCost

    if TYPE_CHECKING:  # Dataclasses would take a property for the default of a field of this name.

        @property
        def name(self) -> str:
            """The name of what was planned, where `_title` has one."""

    # What reports ask of every plan, and most plans do not have: persons that it protects, most rows of each
    # of them, and bounds that it learns first.
    persons: Any = None
    max_rows: int | None = None
    bound_release: Any = None
    # What plans for persons ask: whether a failure is one of a person.
    failure_is_of_persons: bool = False

    @property
    def cost_of_all_rows(self) -> PrivacyCost:
        """The cost of a row without ``cost_of_single_row_steps``."""
        return self.cost

    @property
    def cost_of_single_row_steps(self) -> PrivacyCost | None:
        """The cost for a row of what reads one row of each person, None if nothing does."""
        return None

    @property
    def mu_of_replacing(self) -> float:
        """``mu`` of replacing a row, where ``cost`` is that of adding or removing one."""
        return 2.0 * self.cost.mu

    @property
    def protects_persons(self) -> bool:
        """Whether its number of rows is a number of persons."""
        return False

    @property
    def proof(self) -> str:
        """The propositions by which its cost is known."""
        return ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings about the plan, for before it is run."""
        return ()

    @property
    def requested_budget(self) -> Budget:
        """The budget that was asked for, under the neighbouring relation of what is protected."""
        return self.budget

    @cached_property
    def epsilon(self) -> float:
        """The epsilon that is spent, at ``delta``: at most what was asked for."""
        return self.cost.epsilon(self.delta)

    @property
    def delta(self) -> float:
        """The delta at which ``epsilon`` is reported."""
        return self.budget.delta

    def _title(self):
        """The first line of the printed plan."""
        return f"{self.name} plan"

    def _lines(self):
        """The lines that are printed of a plan beside its warnings, a list of (name, text)."""
        return [("spends", self._spends()), ("protects", self._protects())]

    def _report_lines(self):
        """The lines of a report, a dict of {name: text}."""
        return dict(self._lines())

    def _spends(self, digits=4):
        return (
            f"epsilon = {self.epsilon:.{digits}g} at delta = {self.delta:.3g} "
            f"(asked for at most {self.requested_budget.epsilon:g})"
        )

    def _protects(self):
        return self.requested_budget.neighboring_relation.replace("_", "-")

    def _width(self, names):
        """The indentation of texts."""
        return max(map(len, names))

    def __str__(self):
        lines = [*self._lines(), *(("warning", text) for text in self.warnings)]
        width = self._width([name for name, _ in lines])
        return "\n".join([self._title(), *(f"  {name:<{width}}  {text}" for name, text in lines)])


class UnitRelease(PlannedRelease):
    """A release whose budget's neighbouring relation says which unit it protects, a row or a person."""

    @property
    def protects_persons(self) -> bool:
        """Whether persons are protected, who may have several rows."""
        return self.budget.neighboring_relation in PERSON_RELATIONS

    @property
    def counts(self) -> str:
        """The unit that is counted: rows, or persons."""
        return "persons" if self.protects_persons else "rows"

    @property
    def replaces(self) -> bool:
        """Whether neighbouring tables have the same number of units."""
        return between_rows(self.budget.neighboring_relation) == "replace_one"


def set_privacy_attributes(estimator: Any, plan: PlannedRelease) -> None:
    """Set the attributes by which a fitted estimator says what it did and spent."""
    estimator.plan_ = plan
    estimator.privacy_cost_ = plan.cost
    estimator.spent_epsilon_ = plan.epsilon
    estimator.spent_delta_ = plan.delta
    estimator._parameters_of_fit = parameter_fingerprint(estimator)
    estimator._charges_of_fit = vars(estimator).pop(CHARGES_OF_RUN, None)
