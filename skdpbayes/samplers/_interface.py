"""What a sampler must offer: a compiled core, and `run` for its kind of plan.

    draws = sample(target, plan)

A sampler knows targets by their generic functions only, and a plan tells it what to do: `sample` finds
the algorithm by the plan's class.
"""

import hashlib
import warnings
from functools import cache, singledispatch
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from .._compiled import compiled
from ..exceptions import PrivacyWarning
from ..privacy.ledger import reserve
from ..privacy.plan import Plan
from ..random import private_generator
from ..targets import clips_each_example, has_losses, n_examples, prior_potential
from ..targets._interface import has_own_prior

_PACKAGE = __name__.partition(".")[0]


@cache
def _fingerprint():
    """Return a hash of the sources that end up in compiled cores."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for folder in ("samplers", "targets"):
        for path in sorted((root / folder).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class CompiledCore:
    """A compiled function of a target: cached on disk for this package's targets only.

    numba looks at a core's own file to tell whether its cache is stale, and not at the files of what
    the core calls. A cached core is therefore filed under a hash of all sources. A target of the
    user's may change without this package noticing, so it is compiled once per process.

    Parameters
    ----------
    function : callable
        Its first argument is a target.
    """

    def __init__(self, function):
        self._fresh = njit(error_model="numpy", nogil=True)(function)
        function.__qualname__ += f"_{_fingerprint()}"
        self._cached = compiled(function)

    def __call__(self, target, *args):
        ours = type(target).__module__.partition(".")[0] == _PACKAGE
        return (self._cached if ours else self._fresh)(target, *args)


@CompiledCore
def count_examples(target):
    """Return a target's number of records."""
    return n_examples(target)


@CompiledCore
def _prior_potential_of(target, theta):
    return prior_potential(target, theta)


def start_of(target, plan):
    """Return where a chain starts: at the target's own start, which is public, or at zero."""
    start = getattr(target, "start", None)
    return np.zeros(plan.bounds.n_parameters) if start is None else np.array(start, dtype=float)


class Released(NamedTuple):
    """What a run lets out: draws, the plan as it was completed on the way, and other public numbers."""

    draws: np.ndarray
    plan: Plan
    other: dict


@singledispatch
def run(plan, target, generator, verbose):
    """Carry out a plan; each sampler registers itself for its class of plans.

    Returns
    -------
    draws : ndarray of shape (n_draws, n_parameters) or Released
    """
    raise TypeError(f"no sampler carries out a {type(plan).__name__}.")


def sample(target, plan, *, random_state=None, verbose=0):
    """Draw from a target's posterior by a plan.

    Parameters
    ----------
    target : NamedTuple
        A target of `skdpbayes.targets`, or your own.
    plan : Plan
        Made for the target's bounds; its cost is spent when this is called, whatever happens then.
    random_state : None, int, RandomState or Generator, default=None
        None for privacy; see `skdpbayes.random.private_generator`.
    verbose : int, default=0
        Show progress if positive.

    Returns
    -------
    draws : ndarray of shape (n_draws, n_parameters)

    Raises
    ------
    ValueError
        If the plan was made for another target or another number of records, or if its guarantee does
        not hold for the target.
    BudgetExceededError
        If an active ledger does not allow the plan; nothing is read then.
    """
    return carry_out(target, plan, random_state, verbose).draws


def carry_out(target, plan, random_state, verbose):
    """Do what `sample` does, and return all that is released.

    Returns
    -------
    released : Released

    Warns
    -----
    PrivacyWarning
        If interrupted: the whole plan is spent all the same.
    """
    _check_made_for(plan, target)
    if plan.condition:
        warnings.warn(
            f"epsilon = {plan.epsilon:.6g} holds if {plan.condition}: other samplers need no condition.",
            PrivacyWarning,
            stacklevel=3,
        )
    reserve(plan)
    try:
        result = run(plan, target, private_generator(random_state), verbose)
    except KeyboardInterrupt:
        warnings.warn(
            f"The fit was interrupted. Its whole plan is spent all the same: epsilon = "
            f"{plan.epsilon:.6g} at delta = {plan.delta:.3g}.",
            PrivacyWarning,
            stacklevel=3,
        )
        raise
    return result if isinstance(result, Released) else Released(result, plan, {})


def _check_contraction(plan, target):
    bounds = plan.bounds.checked_convex()
    if clips_each_example(target):
        raise ValueError(
            f"{type(target).__name__} clips the gradient of every example, and clipping can undo the "
            "contraction that hidden states rest on: implement add_gradient with a gradient that is "
            "bounded by itself (clip the rows), or release the path."
        )
    smoothness = getattr(target, "smoothness", bounds.smoothness)
    if not smoothness <= bounds.smoothness * (1 + 1e-12):  # They may be computed in other orders.
        raise ValueError(
            f"the plan assumes smoothness={bounds.smoothness:g}, but the target's is {smoothness:g}: "
            "make the plan from the target's own bounds."
        )


def _check_losses(plan, target):
    if not has_losses(target):
        raise ValueError(
            f"sampler={plan.sampler!r} compares losses, and {type(target).__name__} has none: implement "
            "example_loss for it, or plan another sampler."
        )
    if not _prior_potential_of(target, np.zeros(plan.bounds.n_parameters)) < np.inf:
        raise ValueError("the chain starts at zero, where the prior density must not be zero.")


def _check_gaussian_prior(plan, target):
    precision = getattr(target, "prior_precision", None)
    if precision is None or has_own_prior(target):
        raise ValueError(
            f"sampler={plan.sampler!r} needs an independent Gaussian prior around zero, which it reads off "
            f"an array prior_precision, and {type(target).__name__} has another: add the field and no "
            "prior_gradient, or plan another sampler."
        )
    start = getattr(target, "start", None)
    if start is not None and np.shape(start) != np.shape(precision):
        raise ValueError(
            f"the target's start has shape {np.shape(start)}, its prior_precision {np.shape(precision)}."
        )


def _check_made_for(plan, target):
    bounds = plan.bounds
    if not target.gradient_bound <= bounds.gradient_bound:
        raise ValueError(
            f"the plan assumes gradient_bound={bounds.gradient_bound:g}, but the target's is "
            f"{target.gradient_bound:g}: make the plan from the target's own bounds."
        )
    if plan.needs_contraction:
        _check_contraction(plan, target)
    if plan.needs_losses:
        _check_losses(plan, target)
    if plan.needs_gaussian_prior:
        _check_gaussian_prior(plan, target)
    if plan.needs_rows and not hasattr(target, "intercept_scaling"):
        raise ValueError(
            f"sampler={plan.sampler!r} works with the rows of the package's own logistic targets, and "
            f"{type(target).__name__} is none: leave row_norm out of its bounds, or plan another sampler."
        )
    precision = getattr(target, "prior_precision", None)
    if precision is not None:
        low, high = bounds.prior_precision
        if np.shape(precision) != (bounds.n_parameters,):
            raise ValueError(
                f"the plan is for {bounds.n_parameters} parameters, but the target's "
                f"prior_precision has shape {np.shape(precision)}."
            )
        if not (low <= precision.min() and precision.max() <= high):
            raise ValueError(f"the plan assumes prior precisions between {low:g} and {high:g}.")
    # The number of records is public under replace_one only; nothing is said of it otherwise.
    replaced = plan.budget.neighboring_relation == "replace_one"
    if replaced and count_examples(target) != plan.n_samples:
        raise ValueError(
            f"the plan is for {plan.n_samples} records, but the target has {count_examples(target)}."
        )
