"""Mixtures: a private start, a path of any sampler in coordinates that are whitened around it, and back.

    start = f(S_1 + noise, S_2 + noise, ...),   path from theta = 0,   draws in canonical parameters

`plan` says what start and path cost together, `path` how the released start decides on the path; `start`
looks for it, by `statistics` alone; `core` runs both. See `skdpbayes.targets.mixture` for the coordinates.
"""

from typing import Any

import numpy as np
from sklearn.base import clone

from ..._typing import RandomStateLike
from .._machinery.shards import check_in_memory
from .._made_for import check_made_for
from .._protocol import Sampler, given, of_plan
from .._public_numbers import check_public
from .._registry import names_where
from .path import complete_path
from .plan import plan_noisy_path, plan_walk, statistics_bounds
from .rounds import RoundsPlan, plan_rounds, with_fewer


class MixtureSampler(Sampler):
    """A posterior given what was released, or a private start and a path around it.

    Parameters
    ----------
    path : Sampler
        One whose ``mechanism`` is "statistics", for the first, or one that makes the path; its step sizes
        follow from the start. What has to be convex, or to have rows or a Gaussian prior, says by its
        ``targets`` that it is not for mixtures, and is refused.
    chooses : bool, default=False
        Whether a model's number of components is the largest, and that of the draws follows from what is
        released. For statistics.
    """

    def __init__(self, path: Sampler, chooses: bool = False):
        self.path = path
        self.chooses = chooses

    @property
    def name(self) -> str:
        """That of the path's sampler."""
        return self.path.name

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
            A `RoundsPlan` where statistics are released.

        Raises
        ------
        ValueError
            If a number of the model or an option is out of range, or if the options cannot all hold.
        """
        model = with_fewer(model.checked()) if self.chooses else model.checked()
        bounds = statistics_bounds(model)
        check_public(bounds, n_samples, budget, n_draws)
        budget.checked_gaussian("a mixture's start")
        self.path._validate_params()
        path = clone(self.path).for_mixture(model, budget)
        _check_path(path)
        if path.mechanism == "statistics":
            made_by = of_plan(MixtureSampler(path, self.chooses))
            return plan_rounds(made_by, model, n_samples, budget, n_draws, self.chooses)
        if self.chooses:
            raise ValueError(
                f"n_components='auto' needs {names_where(_conditions_on_statistics)} as the sampler, a "
                "finite epsilon and no options of chains: give a number of components."
            )
        made_by = of_plan(MixtureSampler(path))
        if path.mechanism == "decisions":
            return plan_walk(made_by, path, model, n_samples, budget, n_draws)
        halves = path.mechanism == "gradients"
        pace = path.pace(bounds, n_samples)
        fixed = *(given(getattr(path, name, None)) for name in ("temperature", "n_steps")), n_draws
        plan = plan_noisy_path(made_by, model, n_samples, budget, *pace, halves, fixed)
        # What cannot be planned around a start is refused before one is released.
        complete_path(plan, path, lambda deviation: 1.0, 1.0)
        return plan

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another table."""
        check_made_for(plan, target)
        for name in ("n_features", "data_norm"):
            planned, own = getattr(plan.model, name), getattr(target, name, None)
            if own != planned:
                raise ValueError(
                    f"the plan is for {name}={planned:g}, but the target's is {own}: make a table of the "
                    "plan's model, skdpbayes.targets.make_mixture(X, plan.model)."
                )
        if self.path.mechanism == "decisions":
            check_in_memory(self.path, target)

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Release what the plan says, and draw given it or around it."""
        from .core import run_mixture
        from .noise_aware import run_rounds

        run = run_rounds if isinstance(plan, RoundsPlan) else run_mixture
        return run(plan, target, generator, verbose)

    def redraw(
        self, released: Any, n_draws: int, random_state: RandomStateLike
    ) -> np.ndarray | None:
        """Return new draws given what was released, or None for a path."""
        posterior = released.get("posterior")
        return None if posterior is None else posterior.draw(n_draws, random_state)


def _conditions_on_statistics(sampler):
    return sampler.mechanism == "statistics" and "mixture" in sampler.targets


def _check_path(path):
    if "mixture" not in path.targets:
        raise ValueError(
            f"sampler={path.name!r} does not support mixtures, whose posterior is not convex and "
            "has neither rows nor a Gaussian prior to work with: take one of "
            f"{names_where(lambda other: 'mixture' in other.targets)}."
        )
    for name, needed in path.set_by_start.items():
        value = getattr(path, name, needed)
        if value != needed:
            raise ValueError(
                f"{name}={value!r} does not go with sampler={path.name!r} for mixtures, whose "
                "steps follow from the released start: leave it out."
            )
