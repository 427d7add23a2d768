"""Mixtures: which sampler draws them, and how the noise-aware one does it.

    S = f(rows) + noise,   theta given S

`plan` says what the search and the rounds after it cost; `find_groups` searches, by `statistics` alone, and
`run_rounds` does the rest. A sampler that does not use them makes its own plans of a `MixtureModel`.
"""

from typing import Any

import numpy as np
from sklearn.base import clone

from ..._typing import RandomStateLike
from ..base import Sampler, freeze_sampler, samplers_with
from ..plan import check_plan_matches_target, check_public
from .plan import plan_rounds, statistics_bounds, with_fewer


class MixtureSampler(Sampler):
    """The sampler that is asked for, or what it is where mixtures are drawn.

    Parameters
    ----------
    sampler : Sampler
        One whose ``targets`` include "mixture". If it has ``has_rounds_of_mixtures``, those of this folder
        are taken; any other makes plans of a `MixtureModel` itself.
    chooses : bool, default=False
        Whether a model's number of components is only the largest, and the number of the draws follows from
        released statistics.
    """

    def __init__(self, sampler: Sampler, chooses: bool = False):
        self.sampler = sampler
        self.chooses = chooses

    @property
    def name(self) -> str:  # type: ignore[override]  # It depends on an option.
        """The name of the sampler."""
        return self.sampler.name

    @property
    def proof(self) -> str:  # type: ignore[override]
        """The proposition of the rounds, or the sampler's."""
        inner = self.sampler
        return "Propositions 27, 36 and 38" if inner.has_rounds_of_mixtures else inner.proof

    def plan(
        self,
        model: Any,
        n_samples: int,
        budget: Any,
        *,
        n_draws: int | None = None,
    ) -> Any:
        """Divide a budget among what is released.

        Parameters
        ----------
        model : MixtureModel
            The mixture and its prior.
        n_samples, budget, n_draws
            As for `Sampler.plan`.

        Returns
        -------
        plan : MixturePlan
            A `RoundsPlan` where statistics are released, or that of the sampler itself.

        Raises
        ------
        ValueError
            If a number of the model or an option is out of range, or if the options cannot all hold.
        """
        model = with_fewer(model.checked()) if self.chooses else model.checked()
        check_public(statistics_bounds(model), n_samples, budget, n_draws)
        self.sampler._validate_params()
        inner = clone(self.sampler).for_mixture(budget)
        _check_for_mixtures(inner)
        if inner.has_rounds_of_mixtures:
            budget.checked_gaussian("a mixture's statistics")
            made_by = freeze_sampler(MixtureSampler(inner, self.chooses))
            return plan_rounds(made_by, model, n_samples, budget, n_draws, self.chooses)
        if self.chooses:
            raise ValueError(
                f"n_components='auto' needs {samplers_with(_conditions_on_statistics)} as the sampler, and a "
                "finite epsilon: give a number of components."
            )
        return inner.plan(model, n_samples, budget, n_draws=n_draws)

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another table."""
        check_table(plan, target)

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Release what the plan says, and draw given it."""
        from .release import run_rounds

        return run_rounds(plan, target, generator, verbose)

    def redraw(
        self, released: Any, n_draws: int, random_state: RandomStateLike
    ) -> np.ndarray | None:
        """New draws given what was released."""
        return released["posterior"].draw(n_draws, random_state)


def check_table(plan: Any, target: Any) -> None:
    """Raise a ValueError if a plan of a mixture was made for another table."""
    check_plan_matches_target(plan, target)
    for name in ("n_features", "data_norm"):
        planned, given_value = getattr(plan.model, name), getattr(target, name, None)
        if given_value != planned:
            raise ValueError(
                f"the plan is for {name}={planned:g}, but the target's is {given_value}: make a table of the "
                "plan's model, skdpbayes.models.make_mixture(X, plan.model)."
            )


def _conditions_on_statistics(sampler):
    return sampler.has_rounds_of_mixtures


def _check_for_mixtures(sampler):
    if "mixture" not in sampler.targets:
        raise ValueError(
            f"sampler={sampler.name!r} does not support mixtures: take one of "
            f"{samplers_with(lambda other: 'mixture' in other.targets)}."
        )
