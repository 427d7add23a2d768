"""Plans for networks: a path, and what is released beside it to calibrate it.

    typical norm of rows:  r from 41 between data_norm / 1024 and data_norm,       before the path
    scale of the logits:   s from 25 between 1/16 and 1,                           after it

Both are choices by `skdpbayes._mechanisms.even_choice`, of range ``eta = 2 sqrt(share) mu`` each: that of a
mechanism which in the Gaussian limit is ``sqrt(share) mu``-GDP. The path has the rest.

Public weights decide if records are too few to decide: norms near ``data_norm``, and logits around 0.9 of
what a network says. (Clipped gradients make it overconfident, but least where records are few.) No factor is
above 1: draws that disagree are unsure together, however sure each is made.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...privacy.cost import AcceptBits, PrivacyCost
from .._plan import Plan

# Of what calibration has of mu^2: the norm's share and the scale's.
SHARES = 1.0 / 6.0, 5.0 / 6.0
# As parts of data_norm, and as factors of logits.
NORMS, SCALES = 2.0 ** (-np.arange(41) / 4.0), 2.0 ** (np.arange(-24, 1) / 6.0)
LOG_WEIGHTS_OF_NORMS = np.log(NORMS)
LOG_WEIGHTS_OF_SCALES = -0.5 * (np.log(SCALES / 0.9) / 0.5) ** 2
# More would tell no more.
_LARGEST_RANGE = 8.0
# What rounding of logarithms of weights may add to a range.
_ROUNDING = 2.0**-40
# Choices and path together cost a little more than Gaussians would: about one per cent of epsilon. What is
# left to the path, and by how much it is lowered at least and at most.
_LEAST, _LITTLE, _MUCH = 0.5, 0.9999, 0.9
# Lines of the printed plan that are not taken from that of the path.
_OF_THE_WHOLE = ("sampler", "spends", "protects")


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
        """How many gradients of single records are expected to be computed."""
        return self.path.record_gradients

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        return self.path.warnings

    def summary(self):
        """Return the lines of the printed plan, a dict of {name: text}."""
        of_norm, of_scale = (f"range {eta:.4g}" for eta in self.log_odds_ranges)
        return {
            **self.path.summary(),
            **{name: super(NetworkPlan, self).summary()[name] for name in _OF_THE_WHOLE},
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
        budget.neighboring_relation, bits=tuple(AcceptBits(eta + _ROUNDING, 1) for eta in ranges)
    )
    mu = math.sqrt(1.0 - share) * budget.mu
    while mu > _LEAST * budget.mu:
        path = plan_path(budget.with_mu(mu))
        cost = path.cost + choices
        spent = cost.epsilon(budget.delta)
        if spent <= budget.epsilon:
            return _made(sampler, path, n_samples, budget, cost, share, ranges)
        mu *= _LITTLE * max(_MUCH, budget.epsilon / spent)
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
