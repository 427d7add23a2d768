"""What a sampler provides, how it is found by name, and how it is run.

    plan     = sampler.plan(bounds, n_samples, budget)    public numbers: the steps and their cost
               sampler.check(plan, target)                does the plan fit the target?
               reserve(plan)                              refuses here, before a record is read
    released = sampler.run(plan, target, generator, ...)  carries out the plan

A sampler uses targets only through their generic functions. `Sampler` is the base class of the built-in
samplers and of yours.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, lru_cache, partial
from importlib import import_module
from numbers import Integral, Real
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import StrOptions

from .._arguments import Interval, callers_level
from .._compute.execution import compiler_announced
from .._data.shards import raise_failure
from .._errors import suppress_fp_warnings
from .._typing import GeneratorLike, RandomStateLike
from ..exceptions import PrivacyWarning
from ..privacy.charge import charge
from ..privacy.deferred_warnings import warnings_last
from ..random import private_generator
from .plan import (
    LARGEST_NUMBER,
    LARGEST_TEMPERATURE,
    Plan,
    check_plan,
    check_plan_matches_target,
    check_public,
)

# Samplers by name: every class that a folder of `samplers` makes public, and `auto`, the choice among
# them.
#
# Modules are found by looking, so that a new sampler is a folder and nothing else. They are loaded
# when they are first asked for, and not together with this module, because samplers themselves name
# each other in messages.


_PACKAGE = __name__.rpartition(".")[0]


def _named_samplers():
    """Yield (name, class) of samplers, loading one module after the other."""
    for module in iter_modules(import_module(_PACKAGE).__path__):
        if module.name.startswith("_"):
            continue
        submodule = import_module(f"{_PACKAGE}.{module.name}")
        for kind in (getattr(submodule, name) for name in getattr(submodule, "__all__", ())):
            if isinstance(vars(kind).get("name"), str):
                yield kind.name, kind


@cache
def _sampler_named(sampler):
    """The class of a name, or None; modules behind its own are not loaded."""
    return next((kind for name, kind in _named_samplers() if name == sampler), None)


@cache
def samplers_by_name():
    """A read-only mapping of {name: class} of the package's samplers, in alphabetical order.

    A class that wraps another sampler has the name of that sampler, and is left out.
    """
    kinds: dict[str, Any] = {}
    for name, kind in _named_samplers():
        if name in kinds:
            raise TypeError(f"{kinds[name]} and {kind} have the same name, {name!r}")
        kinds[name] = kind
    return MappingProxyType(dict(sorted(kinds.items())))


def samplers_with(holds: Callable[[Any], Any] = lambda sampler: True) -> str:
    """The names of samplers with some property, quoted, for a message.

    Parameters
    ----------
    holds : callable
        Of a sampler with its default options.
    """
    return ", ".join(repr(name) for name, kind in samplers_by_name().items() if holds(kind()))


def resolve_sampler(sampler: Any) -> Any:
    """A sampler object: the given one, or the one that a name stands for, with its defaults.

    Parameters
    ----------
    sampler : str or Sampler

    Returns
    -------
    sampler : Sampler

    Raises
    ------
    ValueError
        If the name is unknown.
    TypeError
        If it is a class instead of an object.

    Examples
    --------
    >>> from skdpbayes.samplers import resolve_sampler
    >>> resolve_sampler("sghmc")
    SGHMC()
    """
    if isinstance(sampler, type):
        raise TypeError(
            f"sampler={sampler.__name__} is a class: pass an instance, {sampler.__name__}()."
        )
    if not isinstance(sampler, str):
        return sampler
    if (kind := _sampler_named(sampler)) is None:
        raise ValueError(
            f"sampler={sampler!r} is not known: take one of {samplers_with()}, or an object of "
            "skdpbayes.samplers."
        )
    return kind()


# Which samplers take a linear model, by what they say of themselves.
#
# taken  <=>  (family in families, or there are none)
#             and (no weights, or takes_weights)  and  (noise is known, or "normal" in targets)
#
# What is not taken is refused with the names of samplers that take it.


def takes_family(sampler, family):
    """Whether a sampler takes a family of linear models; None is a target without one."""
    return family is None or not sampler.families or isinstance(family, sampler.families)


def takes(sampler, bounds):
    """Whether a sampler, with its options, takes records with such bounds."""
    return (
        _model_of(bounds) in sampler.targets
        and takes_family(sampler, bounds.family)
        and (sampler.takes_weights or bounds.max_weight is None)
    )


def check_taken(sampler, bounds):
    """Raise a ValueError if records have weights or unknown noise, and a sampler does not take these."""
    others = partial(samplers_with, lambda kind: takes(kind, bounds))
    if bounds.max_weight is not None and not sampler.takes_weights:
        raise ValueError(
            f"sampler={sampler.name!r}, with these options, does not support sample weights or class "
            f"weights: use one of {others()}, which do with their defaults; or omit them."
        )
    if _model_of(bounds) == "normal" and "normal" not in sampler.targets:
        raise ValueError(
            f"sampler={sampler.name!r} takes the noise of numbers as given, and does not learn it: take one "
            f"of {others()}, or give the noise (noise_scale of DPBayesianRidge, deviation of a family)."
        )


def _model_of(bounds):
    """The name of the model in samplers' ``targets``."""
    if bounds.has_unknown_error_sd:
        return "normal"
    return "network" if bounds.clipped else "linear"


def names_of_calibrated(sampler, family):
    """The names of samplers for the same targets as another, and a family, that are calibrated.

    Of two names of one sampler it is the more special one.
    """

    def is_one(kind):
        return kind.is_calibrated and kind.targets & sampler.targets and takes_family(kind, family)

    return samplers_with(
        lambda kind: (
            is_one(kind) and not any(is_one(each()) for each in type(kind).__subclasses__())
        )
    )


AUTO = StrOptions({"auto"})
# Expected size of a batch for networks, whose passes are long and whose curvatures are not known.
BATCH_SIZE = 4096
# Constraints of options that several samplers have, by scikit-learn's validation.
CONSTRAINTS = {
    "temperature": [AUTO, Interval(Real, 1, LARGEST_TEMPERATURE, closed="both")],
    "n_steps": [AUTO, Interval(Integral, 1, LARGEST_NUMBER, closed="both")],
    "batch_size": [AUTO, None, Interval(Integral, 1, None, closed="left")],
    "step_size": [AUTO, Interval(Real, 0, None, closed="neither")],
    "step_decay": [Interval(Real, 0, 1, closed="left")],
    "friction": [AUTO, Interval(Real, 0, 1, closed="right")],
    "burn_in": [AUTO, Interval(Real, 0, 1, closed="left")],
}

# Options are fields with defaults: a constructor, get_params and clone follow from them.
options = partial(dataclass, kw_only=True, eq=False, repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagnostics(Mapping[str, Any]):
    """Public numbers that were released with draws; a field is None where there is no such number.

    It reads as a mapping of what there is, too.

    Attributes
    ----------
    second_moment : ndarray of shape (length, length)
        The noisy sum of ``z z^T`` over rows, with a constant in the last place where there is one.
    posterior : object
        The posterior itself, from which more can be drawn.
    share_of_a_direction, share_of_norm : float
        Lower bounds on the largest eigenvalue and the trace of that sum, over the largest possible trace.
    hidden_columns, hidden_or_rare_columns, unseen_columns : ndarray of int
        Columns that vary less than noise can show, those that may be indicators of rare events instead, and
        those of which noise hides whether they do.
    repeated_columns : ndarray of int
        Columns whose single coefficients the prior decides, as other columns nearly repeat them.
    unseen_deviation : float
        The least deviation of a column around 0 that would be seen; infinite if no column can have it.
    noise_deviations : ndarray of shape (n_draws,)
        Draws of the errors' deviation.
    prior_scale : ndarray of shape (n_draws,)
        Draws of the coefficients' prior scale.
    r_hat, effective_sample_size : ndarray of shape (n_parameters,)
        Of the chains that drew, in the order of a draw.
    rarest_class : tuple of float
        The 5%, 50% and 95% quantiles of the share of the rarest class.
    hidden_directions : float
        Noise of a second moment over its median eigenvalue.
    asymmetry : tuple of float
        The mean of residuals beyond that of symmetric errors, its deviation, and the errors' deviation.
    error_skewness : float
        Skewness of errors, that of new responses in predictions.
    noise_of_skewed_slopes : float
        Noise on what skewed errors change of slopes, over the errors' deviation.
    chi2_per_dof, chi2_dof : float, int
        Chi-squared of all releases at the mode, per degree of freedom, and the number of these.
    law : CountLaw
        How counts vary around their means.
    law_discrepancy : float
        Deviations by which a histogram of counts is off under that law.
    unexplained_large_counts : float
        What large counts have beyond that law, over the mean of counts.
    hidden_share_of_large : float
        Share of rows with ten times the rate of others that may be there unseen.
    dispersion : float
        Variance of counts over their mean.
    share_of_largest : float
        A lower bound on the share of counts that equal the largest one.
    typical_exposure : float
        Median exposure of rows, with noise, if they have exposures.
    acceptance_rate : float
        Share of a random walk's proposals that were accepted.
    n_iter : int
        Number of updates, where a run decides when to stop.
    row_norm : float
        Typical norm of rows, as a part of the bound on them.
    logit_scale : float
        Factor of the logits of a network.
    own : mapping of {str: object}
        Other numbers, of a sampler of one's own.
    """

    second_moment: np.ndarray | None = None
    posterior: Any = None
    share_of_a_direction: float | None = None
    share_of_norm: float | None = None
    hidden_columns: np.ndarray | None = None
    hidden_or_rare_columns: np.ndarray | None = None
    unseen_columns: np.ndarray | None = None
    repeated_columns: np.ndarray | None = None
    unseen_deviation: float | None = None
    noise_deviations: np.ndarray | None = None
    prior_scale: np.ndarray | None = None
    r_hat: np.ndarray | None = None
    effective_sample_size: np.ndarray | None = None
    rarest_class: tuple[float, ...] | None = None
    hidden_directions: float | None = None
    asymmetry: tuple[float, float, float] | None = None
    error_skewness: float | None = None
    noise_of_skewed_slopes: float | None = None
    chi2_per_dof: float | None = None
    chi2_dof: int | None = None
    law: Any = None
    law_discrepancy: float | None = None
    unexplained_large_counts: float | None = None
    hidden_share_of_large: float | None = None
    dispersion: float | None = None
    share_of_largest: float | None = None
    typical_exposure: float | None = None
    acceptance_rate: float | None = None
    n_iter: int | None = None
    row_norm: float | None = None
    logit_scale: float | None = None
    own: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, released: Mapping[str, Any]) -> Self:
        """The record of a mapping, such as an estimator's ``released_``; other names are in ``own``."""
        known = {name: released[name] for name in _DIAGNOSTIC_NAMES if name in released}
        own = {name: value for name, value in released.items() if name not in known}
        return cls(**known, own=own)

    def __getitem__(self, name: str) -> Any:
        value = getattr(self, name) if name in _DIAGNOSTIC_NAMES else None
        return self.own[name] if value is None else value

    def __iter__(self) -> Iterator[str]:
        for name in _DIAGNOSTIC_NAMES:
            if getattr(self, name) is not None:
                yield name
        yield from self.own

    def __len__(self) -> int:
        return sum(1 for _ in self)


# The fields that a record reads as a mapping of.
_DIAGNOSTIC_NAMES = tuple(each.name for each in fields(Diagnostics) if each.name != "own")


class Released(NamedTuple):
    """The releases of a run.

    Attributes
    ----------
    draws : ndarray of shape (n_draws, n_parameters)
    plan : Plan
        The plan as completed during the run; its cost is unchanged.
    parameters : mapping of {str: ndarray of shape (n_parameters,)}
        Other public vectors in the units of a draw.
    other : Diagnostics or mapping of {str: object}
        Other public numbers; a sampler of one's own names them as it likes.
    """

    draws: np.ndarray
    plan: Plan
    parameters: Mapping[str, np.ndarray] = MappingProxyType({})
    other: Mapping[str, Any] = Diagnostics()


class Sampler(BaseEstimator):
    """Base class of samplers: options, plans, and runs.

    A subclass takes its options as keyword parameters of ``__init__``, like scikit-learn's estimators (the
    decorator `options` turns fields of a class into such parameters). It has a class attribute ``name`` and
    implements at least `plan` and `run`. What others ask of a sampler, it says itself, by attributes; the
    defaults suit a chain of noisy steps.

    Attributes
    ----------
    name : str
        What plans print and, of the package's own, estimators take.
    targets : frozenset of str
        Which of the package's targets it samples: "linear", "mixture", "network", "normal". For "mixture" it
        takes a `MixtureModel` in the place of bounds, and draws what `unpack_mixture` takes apart. "normal"
        stands for linear models whose noise is not known: for these it also releases ``noise_deviations``,
        one number for each draw.
    families : tuple of type
        Families of linear models that it takes; none stands for all.
    releases : {"iterates", "statistics"}
        What it releases: iterates of a chain, or noisy statistics from which draws follow.
    has_rounds_of_mixtures : bool
        Whether mixtures are drawn for it by the package's rounds of statistics, and not by plans of its own.
    wants_equal_precisions : bool
        Whether to scale an intercept's column so that its prior precision equals that of the coefficients.
    takes_weights : bool
        Whether records may have weights.
    is_calibrated : bool
        Whether draws under privacy condition on the noisy releases (noise-aware), so that intervals include
        the noise.
    is_whitened : bool
        Whether it samples in whitened coordinates, in which a chain needs the fewest steps.
    needs_delta : bool
        Whether it needs a delta above 0.
    proof : str
        What its cost rests on, for reports: propositions of the documentation's theory, or a paper of yours.
    """

    name = "sampler"
    targets = frozenset({"linear", "network"})
    families: tuple[type, ...] = ()
    releases = "iterates"
    has_rounds_of_mixtures = False
    wants_equal_precisions = True
    takes_weights = False
    is_calibrated = False
    is_whitened = False
    needs_delta = True
    # What an error says where delta is 0, besides.
    note_without_delta = ""
    proof = ""
    _parameter_constraints: dict = {}

    def __setattr__(self, name, value):
        if self.__dict__.get("_is_of_plan") and name in self._get_param_names():
            raise AttributeError(
                f"{name} of a plan's sampler cannot change, because the plan's cost depends on "
                "it: set it on "
                "a copy, sklearn.base.clone(plan.sampler), and make a new plan."
            )
        super().__setattr__(name, value)

    def plan(
        self,
        bounds: Any,
        n_samples: int,
        budget: Any,
        *,
        n_draws: int | None = None,
    ) -> Plan:
        """Plan a run that keeps to a budget, from public numbers alone.

        Parameters
        ----------
        bounds : TargetBounds
            Public bounds of the target.
        n_samples : int
            Public size of the table.
        budget : Budget
            Ceiling on the cost.
        n_draws : int or None, default=None
            Number of draws to keep; None leaves it to the sampler.

        Returns
        -------
        plan : Plan

        Raises
        ------
        ValueError
            If an option is out of range, or if the options cannot all hold.
        """
        self._validate_params()
        check_public(bounds, n_samples, budget, n_draws)
        check_taken(self, bounds)
        # A copy, because an option that is itself a sampler may be given other options later.
        options = tuple(clone(self).get_params(deep=False).items())
        kind: Any = type(self)
        return _cached_plan(kind, options, bounds, n_samples, budget, n_draws)

    def _plan(self, bounds, n_samples, budget, n_draws):
        """Do what `plan` does, the numbers being in range; the results are cached."""
        raise NotImplementedError(f"{type(self).__name__} makes no plans: implement plan.")

    def for_mixture(self, budget: Any) -> Any:
        """The sampler that draws mixtures if this one is asked for: by default itself.

        Parameters
        ----------
        budget : Budget

        Returns
        -------
        sampler : Sampler

        Raises
        ------
        ValueError
            If its options do not go with mixtures.
        """
        return self

    def check(self, plan: Plan, target: NamedTuple) -> None:
        """Raise a ValueError if a plan was made for another target, or does not hold for this one.

        Parameters
        ----------
        plan : Plan
        target : NamedTuple
        """
        check_plan_matches_target(plan, target)

    def calibrated_names(self, family: Any) -> str:
        """The names of samplers for the same targets, and a family, that are calibrated."""
        return names_of_calibrated(self, family)

    def run(
        self, plan: Plan, target: NamedTuple, generator: np.random.Generator, verbose: int
    ) -> Any:
        """Carry out a plan. This is the only method that reads records.

        Parameters
        ----------
        plan : Plan
        target : NamedTuple
        generator : numpy.random.Generator
            Of the noise.
        verbose : int
            Show progress if positive.

        Returns
        -------
        released : Released
        """
        raise NotImplementedError(f"{type(self).__name__} does not run: implement run.")

    def redraw(self, released: Any, n_draws: int, random_state: GeneratorLike) -> np.ndarray | None:
        """New draws from what was released, or None if there is nothing to draw from.

        Parameters
        ----------
        released : mapping
            The parameters and other numbers of `Released`, in an estimator's units.
        n_draws : int
        random_state : RandomState
            It need not be secret.
        """
        return None

    def importance_weights(self, released: Any, draws: np.ndarray) -> np.ndarray | None:
        """The importance weights of draws in predictions, or None if all of them count the same.

        Parameters
        ----------
        released : mapping
            The parameters and other numbers of `Released`, in an estimator's units.
        draws : ndarray of shape (n_draws, ...)
            In these units, too.

        Returns
        -------
        weights : ndarray of shape (n_draws,) or None
            They add up to one.
        """
        return None


@options()
class TemperedSampler(Sampler):
    """Base class of samplers that take steps, towards a posterior at a temperature."""

    temperature: float | str = "auto"
    n_steps: int | str = "auto"

    def fixed(self) -> tuple[float | None, int | None]:
        """(temperature, number of steps), None for what is left to the plan."""
        return resolve_auto(self.temperature, float), resolve_auto(self.n_steps, int)


@lru_cache(maxsize=512)
def _cached_plan(sampler_class, options, bounds, n_samples, budget, n_draws):
    # The plan has a sampler of its own, because the user's may be given other options later.
    plan = freeze_sampler(sampler_class(**dict(options)))._plan(bounds, n_samples, budget, n_draws)
    fixed = {**dict(options), "n_draws": n_draws}
    return plan.changed(
        fixed=tuple(name for name in fixed if resolve_auto(fixed[name]) is not None)
    )


def checked_gaussian(sampler, bounds, budget):
    """Raise a ValueError where a budget has delta=0, and a sampler adds Gaussian noise."""
    others = ""
    if budget.delta == 0:  # Names are for the error alone.
        others = samplers_with(lambda other: not other.needs_delta and takes(other, bounds))
    budget.checked_gaussian(f"sampler={sampler.name!r}", others, sampler.note_without_delta)


def freeze_sampler(sampler):
    """A sampler whose options, and theirs, can no longer be set, because runs read them again."""
    for estimator in (sampler, *sampler.get_params().values()):
        if isinstance(estimator, Sampler):
            estimator._is_of_plan = True
    return sampler


def resolve_auto(value, kind=None):
    """An option's value, as a number of a kind if there is one, and None for "auto"."""
    if value is None or (isinstance(value, str) and value == "auto"):
        return None
    return value if kind is None else kind(value)


def resolved_batch_size(batch_size, bounds, n_samples):
    """The expected size of a batch, or None for the full table."""
    if resolve_auto(batch_size) is None:
        small = batch_size is None or not bounds.clipped or n_samples <= BATCH_SIZE
        return None if small else BATCH_SIZE
    if batch_size > n_samples:
        raise ValueError(
            f"batch_size={batch_size} must be between 1 and the table's public size, {n_samples}; "
            "batch_size=None takes the full table."
        )
    return int(batch_size)


def sample(
    target: NamedTuple,
    plan: Plan,
    *,
    random_state: RandomStateLike = None,
    verbose: int = 0,
    estimator: Any = None,
) -> np.ndarray:
    """Draw from a target's posterior by a plan.

    Parameters
    ----------
    target : NamedTuple
        A target of `skdpbayes.models`, or your own.
    plan : Plan
        Made for the target's bounds. The call spends its cost, whatever happens afterwards.
    random_state : None, int, RandomState or Generator, default=None
        None for privacy; see `skdpbayes.random.private_generator`.
    verbose : int, default=0
        Show progress if positive.
    estimator : estimator, default=None
        The estimator of your own that is fitted. A ledger notes its name, and what a
        `skdpbayes.pipeline.PrivatePipeline` or a search has paid for it is not charged again.

    Returns
    -------
    draws : ndarray of shape (n_draws, n_parameters)

    Raises
    ------
    ValueError
        If the plan was made for another target or table size, or its guarantee does not hold for this target.
    BudgetExceededError
        If an active ledger does not allow the plan. Nothing is read in that case.
    """
    return run_plan(target, plan, random_state, verbose, estimator).draws


def run_plan(target, plan, random_state, verbose, estimator=None):
    """Do what `sample` does, for an estimator, and return all that is released.

    Returns
    -------
    released : Released
        Its ``other`` is a `Diagnostics`.

    Warns
    -----
    PrivacyWarning
        If interrupted, or ended by an error: the whole plan is spent all the same.
    """
    with warnings_last(target if estimator is None else estimator):
        return _charge_and_run(target, plan, random_state, verbose, estimator)


def _charge_and_run(target, plan, random_state, verbose, estimator):
    check_plan(plan)
    plan.sampler.check(plan, target)
    # The cost is put into words before records are read.
    cost = f"epsilon = {plan.epsilon:.6g} at delta = {plan.delta:.3g}"
    generator = private_generator(random_state)
    reservations = charge(plan, estimator)
    try:
        with suppress_fp_warnings(), compiler_announced(plan.name, verbose):
            released = plan.sampler.run(plan.as_run(), target, generator, verbose)
            raise_failure(target)
    except BaseException as error:
        reservations.close("failed")
        how = "was interrupted" if isinstance(error, KeyboardInterrupt) else "ended with an error"
        warnings.warn(
            f"The fit {how}. Its whole plan is spent all the same: {cost}.",
            PrivacyWarning,
            stacklevel=callers_level(),
        )
        raise
    reservations.close("completed")
    # A run may complete its plan, or hand back that of a part, but what is spent is what was reserved.
    carried_out = released.plan
    reserved = {
        name: getattr(plan, name) for name in ("budget", "cost", "persons", "bound_release")
    }
    if any(getattr(carried_out, name) != value for name, value in reserved.items()):
        carried_out = carried_out.changed(**reserved)
    other = released.other
    if not isinstance(other, Diagnostics):  # Of a sampler of one's own.
        other = Diagnostics.of(other)
    return released._replace(plan=carried_out, other=other)
