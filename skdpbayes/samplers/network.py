"""Calibrated networks: rows of a released norm, a path of any sampler, logits of a released scale.

    x -> 4 x / r,    theta by the path's sampler,    z -> s z

`plan_network` says what the three cost together, `release_norm` and `release_scale` choose ``r`` and ``s``,
and `run_network` does all of it.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from .._compute.gradients import CompiledCore
from .._errors import suppress_fp_warnings
from .._jit import compilable
from .._mechanisms.exponential import SUM_UNIT, choose_zero_crossing
from .._typing import GeneratorLike
from ..models.mlp import ACTIVATIONS, ROW_NORM, layers_of
from ..models.rows import read_only
from ..models.single_precision import PLAIN, exponential, multiply
from ..privacy.cost import PrivacyCost
from ..privacy.losses import BoundedRangeDecisions
from .base import Diagnostics, Sampler, freeze_sampler
from .plan import Plan, check_public

__all__ = ["NetworkSampler"]

# Plans for networks: a path, and what is released beside it to calibrate it.
#
#     typical norm of rows:  r from 41 between data_norm / 1024 and data_norm,       before the path
#     scale of the logits:   s from 25 between 1/16 and 1,                           after it
#
# Both are choices by `skdpbayes._mechanisms.exponential`, of range ``eta = 2 sqrt(share) mu`` each:
# that of a mechanism which in the Gaussian limit is ``sqrt(share) mu``-GDP. The path has the rest.
#
# Public weights decide if records are too few to decide: norms near ``data_norm``, and logits around
# 0.9 of what a network says. (Clipped gradients make it overconfident, but least where records are
# few.) No factor is above 1: draws that disagree are unsure together, however sure each is made.


# Split of the calibration budget between norm and scale.
SHARES = 1.0 / 6.0, 5.0 / 6.0
# Candidates for the clipping norm, as parts of data_norm.
NORMS = 2.0 ** (-np.arange(41) / 4.0)
# Candidates for the scale, as factors of logits.
SCALES = 2.0 ** (np.arange(-24, 1) / 6.0)
LOG_WEIGHTS_OF_NORMS = np.log(NORMS)
LOG_WEIGHTS_OF_SCALES = -0.5 * (np.log(SCALES / 0.9) / 0.5) ** 2
# A larger exponential-mechanism range has no effect.
_LARGEST_RANGE = 8.0
# What rounding of logarithms of weights may add to a range.
_WEIGHT_ROUNDING = 2.0**-40
# Least share of the budget that is left to the path. Choices and path together cost a little more than
# Gaussians would: about one per cent of epsilon.
_LEAST_PATH_SHARE = 0.5
# Largest factor of that share from one try to the next.
_LARGEST_FACTOR = 0.9999
# Smallest factor of that share from one try to the next.
_SMALLEST_FACTOR = 0.9
# Lines of the printed plan that are not taken from that of the path.
_OWN_LINES = ("sampler", "spends", "protects")


@dataclass(frozen=True, kw_only=True)
class NetworkPlan(Plan):
    """A plan for a network.

    Attributes
    ----------
    path : Plan
        Of the path alone.
    share : float
        Of ``mu^2``, for calibration.
    log_odds_ranges : tuple of (float, float)
        Of the choice of a norm and of a scale; ``inf`` without privacy.
    """

    path: Plan
    share: float
    log_odds_ranges: tuple[float, float]

    @property
    def n_updates(self):
        """Updates in all."""
        return self.path.n_updates

    @property
    def record_gradients(self):
        """The expected number of gradients of single records."""
        return self.path.record_gradients

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        return self.path.warnings

    def summary(self):
        """The lines of the printed plan, a dict of {name: text}."""
        of_norm, of_scale = (f"range {eta:.4g}" for eta in self.log_odds_ranges)
        return {
            **self.path.summary(),
            **{name: super(NetworkPlan, self).summary()[name] for name in _OWN_LINES},
            "norm of rows": f"one of {NORMS.size}, by a choice of {of_norm}",
            "calibration": f"by one of {SCALES.size} factors of the logits, a choice of {of_scale}",
        }


def plan_network(sampler, plan_path, n_samples, budget, share):
    """Divide a budget between a path and its calibration.

    Parameters
    ----------
    sampler : NetworkSampler
    plan_path : callable
        Maps a budget to the plan of a path.
    n_samples : int
    budget : Budget
    share : float
        Of ``mu^2``, for calibration.

    Returns
    -------
    plan : NetworkPlan

    Raises
    ------
    ValueError
        If the budget is too small for all that.
    """
    if not budget.is_private:
        path = plan_path(budget)
        return _made(sampler, path, n_samples, budget, path.cost, share, (math.inf, math.inf))
    ranges = tuple(
        min(_LARGEST_RANGE, 2.0 * math.sqrt(share * part) * budget.mu) for part in SHARES
    )
    choices = PrivacyCost(
        budget.neighboring_relation,
        decisions=tuple(BoundedRangeDecisions(eta + _WEIGHT_ROUNDING, 1) for eta in ranges),
    )
    mu = math.sqrt(1.0 - share) * budget.mu
    while mu > _LEAST_PATH_SHARE * budget.mu:
        path = plan_path(budget.with_mu(mu))
        cost = path.cost + choices
        spent = cost.epsilon(budget.delta)
        if spent <= budget.epsilon:
            return _made(sampler, path, n_samples, budget, cost, share, ranges)
        mu *= _LARGEST_FACTOR * max(_SMALLEST_FACTOR, budget.epsilon / spent)
    raise ValueError(
        f"epsilon={budget.epsilon:g} at delta={budget.delta:g} is too small a budget for a network and its "
        "calibration: raise them, or take calibration=0."
    )


def _made(sampler, path, n_samples, budget, cost, share, ranges):
    same = {
        name: getattr(path, name)
        for name in (
            "bounds",
            "temperature",
            "n_steps",
            "n_burn_in",
            "n_draws",
            "sampling_rate",
        )
    }
    return NetworkPlan(
        sampler=sampler,
        n_samples=n_samples,
        budget=budget,
        cost=cost,
        path=path,
        share=share,
        log_odds_ranges=ranges,
        **same,
    )


# Sums over a network's records that come out even where a fit is calibrated.
#
#     v_i(r) = (|x_i|^2 - r^2) / (|x_i|^2 + r^2),
#     v_i(s) = max_k p_k(x_i) - [y_i = argmax_k p_k(x_i)],     p(x) = mean over draws of softmax(s z(x))
#
# The first is ``tanh log(|x_i| / r)``: it sums to zero where ``r`` is a typical norm of rows. The
# second does where the mean confidence is the accuracy. Both are between -1 and 1, and of a record's
# own row and label alone, to the last bit (`skdpbayes.models.mlp`); they are rounded to multiples of
# ``UNIT`` and summed as integers.


_BLOCK_ROWS = 8192
# Numbers of a layer's outputs that are added to at once: they stay in the cache.
_BLOCK_SIZE = 32768


@suppress_fp_warnings()
def norm_sums(target, norms):
    """The sums of ``v(r)`` for some norms ``r``."""
    sums, thresholds = np.zeros(norms.size, np.int64), norms * norms
    for first in range(0, len(target.values), _BLOCK_ROWS):
        rows = target.values[first : first + _BLOCK_ROWS].astype(np.float64)
        # Number by number: NumPy's own sums depend on the place of a row.
        squares = np.zeros((len(rows), 1))
        for j in range(rows.shape[1]):
            squares += rows[:, j, None] * rows[:, j, None]
        shares = (squares - thresholds) / (squares + thresholds)
        sums += _rounded(shares)
    return sums


def _rounded(shares):
    """Sums over records of multiples of ``UNIT``; what is no number counts as 1."""
    shares[~(np.abs(shares) <= 1.0)] = 1.0
    return np.rint(shares / SUM_UNIT).astype(np.int64).sum(axis=0)


@compilable
def _multiply(a, b, out):
    multiply(a, PLAIN, b, PLAIN, out)


@CompiledCore
def _product(a, b, out):
    # A core has other options than gradients have, and would compile this once more if it called it.
    _multiply(a, b, out)


def _outputs(rows, layers, is_tanh):
    """``z`` less its maximum, of shape (n_classes, n_rows)."""
    for number, (weights, biases) in enumerate(layers):
        z = np.empty((len(rows), biases.size), np.float32)
        _product(rows, weights, z)
        z += biases
        if number < len(layers) - 1 and is_tanh:
            shrunk = exponential(np.float32(-2.0) * np.abs(z))
            rows = np.copysign((1 - shrunk) / (1 + shrunk), z)
        elif number < len(layers) - 1:
            rows = np.maximum(z, 0)
    return (z - z.max(axis=1, keepdims=True)).T


def _confidences(outputs, labels, scale):
    """``v_i(s)``, from outputs of shape (n_draws, n_classes, n_rows)."""
    mean = np.zeros(outputs.shape[1:], np.float32)
    for of_draw in outputs:
        terms = exponential(scale * of_draw)
        total = np.zeros(len(labels), np.float32)
        for term in terms:
            total += term
        mean += terms / total
    top, places = mean.argmax(axis=0), np.arange(len(labels))
    return mean[top, places].astype(float) / len(outputs) - (top == labels)


@suppress_fp_warnings()
def confidence_sums(target, draws, scales):
    """The sums of ``v(s)`` for some scales ``s`` (both and the draws in single precision)."""
    is_tanh = ACTIVATIONS[target.activation] == "tanh"
    sums = np.zeros(scales.size, np.int64)
    step = max(1, _BLOCK_SIZE // int(target.sizes[1:].max()))
    for first in range(0, len(target.values), step):
        part = slice(first, first + step)
        # A copy: for one that is read only, products would be compiled once more.
        rows, labels = target.values[part].copy(), target.labels[part]
        outputs = np.array(
            [_outputs(rows, layers_of(draw, tuple(target.sizes)), is_tanh) for draw in draws]
        )
        sums += _rounded(np.stack([_confidences(outputs, labels, s) for s in scales], axis=1))
    return sums


class NetworkSampler(Sampler):
    """A path, and the two numbers by which it is calibrated.

    Parameters
    ----------
    path : Sampler
        Of the path, or your own.
    share : float
        Of ``mu^2``, for calibration.
    """

    def __init__(self, path: Sampler, share: float):
        self.path, self.share = path, share

    @property
    def name(self) -> str:  # type: ignore[override]  # It depends on an option.
        """Name of the path's sampler."""
        return self.path.name

    @property
    def proof(self) -> str:  # type: ignore[override]
        """The propositions of the path and of its calibration."""
        return f"{self.path.proof}; with Propositions 31 and 34 for networks"

    def plan(
        self,
        bounds: Any,
        n_samples: int,
        budget: Any,
        *,
        n_draws: int | None = None,
    ) -> Any:
        """Divide a budget between the path and its calibration; see `Sampler.plan`."""
        check_public(bounds, n_samples, budget, n_draws)
        budget.checked_gaussian("calibrated networks")
        path = clone(self.path)

        def plan_path(part):
            return path.plan(bounds, n_samples, part, n_draws=n_draws)

        made_by = freeze_sampler(NetworkSampler(path, self.share))
        return plan_network(made_by, plan_path, n_samples, budget, self.share)

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another target, or this one is no network."""
        if not hasattr(target, "clip_norm"):
            raise ValueError(f"the plan is for a network, and {type(target).__name__} is none.")
        plan.path.sampler.check(plan.path, target)

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Release the norm, run the path, and release the scale."""

        return run_network(plan, target, generator, verbose)

    def redraw(self, released: Any, n_draws: int, random_state: GeneratorLike) -> np.ndarray | None:
        """New draws where the path's sampler has them: what it released is calibrated."""
        return self.path.redraw(released, n_draws, random_state)


# Running a calibrated network: see `skdpbayes.samplers.network` for what it costs.
#
# The scale goes into the weights and biases of the last layer: calibrated draws are those of a
# network.


# Draws of a path are alike: confidence is averaged over so many of them.
_SOME_DRAWS = 10


def release_norm(target, log_odds_range, sensitivity_factor, generator):
    """A typical norm of the rows, as a part of the bound on them."""
    sums = norm_sums(target, ROW_NORM * NORMS)
    # Proposition 34.
    chosen = choose_zero_crossing(
        sums, LOG_WEIGHTS_OF_NORMS, log_odds_range, sensitivity_factor, generator
    )
    return float(NORMS[chosen])


def release_scale(target, draws, log_odds_range, sensitivity_factor, generator):
    """The factor of the logits at which the draws are about as sure as they are right."""
    step = -(-len(draws) // _SOME_DRAWS)
    some = np.ascontiguousarray(draws[step // 2 :: step], dtype=np.float32)
    sums = confidence_sums(target, some, SCALES.astype(np.float32))
    # Proposition 34.
    chosen = choose_zero_crossing(
        sums, LOG_WEIGHTS_OF_SCALES, log_odds_range, sensitivity_factor, generator
    )
    return float(SCALES[chosen])


def run_network(plan, target, generator, verbose):
    """Carry out a `NetworkPlan`."""
    of_norm, of_scale = plan.log_odds_ranges
    sensitivity_factor = plan.budget.sensitivity_factor
    norm = release_norm(target, of_norm, sensitivity_factor, generator)
    target = target._replace(values=read_only(target.values * np.float32(1.0 / norm)))
    released = plan.path.sampler.run(plan.path, target, generator, verbose)
    scale = release_scale(target, released.draws, of_scale, sensitivity_factor, generator)
    factors = np.ones(plan.n_parameters)
    factors[-(target.sizes[-2] + 1) * target.sizes[-1] :] = scale
    return released._replace(
        draws=released.draws * factors,
        plan=plan.changed(path=released.plan, temperature=released.plan.temperature),
        parameters={name: factors * vector for name, vector in released.parameters.items()},
        other=replace(Diagnostics.of(released.other), row_norm=norm, logit_scale=scale),
    )
