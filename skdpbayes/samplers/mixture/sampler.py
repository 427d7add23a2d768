"""Mixtures: a private start, a path of any sampler in coordinates that are whitened around it, and back.

    start = f(S_1 + noise, S_2 + noise, ...),   path from theta = 0,   draws in canonical parameters

`plan` says what start and path cost together, `path` how the released start decides on the path; `start`
looks for it, by `statistics` alone; `core` runs both. See `skdpbayes.targets.mixture` for the coordinates.
"""

from typing import Any

import numpy as np
from sklearn.base import clone

from ..._typing import RandomStateLike
from .._machinery.parts import check_in_memory
from .._made_for import check_made_for
from .._protocol import Sampler, of_plan, resolved_batch_size
from .._public_numbers import check_public
from ..auto import Auto
from ..fisher import SGFS
from ..langevin import OPS, SGHMC, SGLD
from ..langevin.base import PATH_BURN_IN, LangevinSampler
from ..metropolis import RandomWalk
from ..noise_aware import NoiseAware
from ..variational import BayesByBackprop
from .path import complete_path
from .plan import plan_noisy_path, plan_walk, statistics_bounds
from .rounds import LARGEST_SIZE, RoundsPlan, plan_rounds, release_size, with_fewer

_BY_OPTION = {"step_size": "auto", "step_decay": 0.0, "init": "zeros", "release": "all_iterates"}


class MixtureSampler(Sampler):
    """A posterior given what was released, or a private start and a path around it.

    Parameters
    ----------
    path : Sampler
        `NoiseAware` for the first. Of the path: SGLD, SGHMC, SGNHT, a random walk, or your own; its step
        sizes follow from the start. What has to be convex, or to have rows or a Gaussian prior, is refused.
    chooses : bool, default=False
        Whether a model's number of components is the largest, and that of the draws follows from what is
        released. For `NoiseAware`.
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
        temperature: float | None = None,
        n_steps: int | None = None,
        n_draws: int | None = None,
    ) -> Any:
        """Divide a budget among what is released.

        Parameters
        ----------
        model : MixtureModel
            The mixture and its prior.
        n_samples, budget, temperature, n_steps, n_draws
            As for `Sampler.plan`.

        Returns
        -------
        plan : MixturePlan
            A `RoundsPlan` for `NoiseAware` under privacy, and for `Auto` with nothing that only chains have.

        Raises
        ------
        ValueError
            If a number of the model or an option is out of range, or if the options cannot all hold.
        """
        model = with_fewer(model.checked()) if self.chooses else model.checked()
        bounds, fixed = statistics_bounds(model), (temperature, n_steps, n_draws)
        check_public(bounds, n_samples, budget, *fixed)
        budget.checked_gaussian("a mixture's start")
        path = _chosen(clone(self.path), model, budget, fixed)
        if isinstance(path, NoiseAware):
            made_by = of_plan(MixtureSampler(path, self.chooses))
            return plan_rounds(made_by, model, n_samples, budget, n_draws, self.chooses)
        if self.chooses:
            raise ValueError(
                "n_components='auto' needs sampler='noise_aware', a finite epsilon and no options "
                "of chains: give a number of components."
            )
        path._validate_params()
        _check_path(path)
        made_by = of_plan(MixtureSampler(path))
        if isinstance(path, RandomWalk):
            return plan_walk(made_by, path, model, n_samples, budget, fixed)
        gradients = isinstance(path, LangevinSampler)
        rate, burn_in = 1.0, 0.0
        if gradients:
            batch = resolved_batch_size(path.batch_size, bounds, n_samples)
            rate = 1.0 if batch is None else batch / n_samples
            burn_in = path.burn_in_or(PATH_BURN_IN)
        plan = plan_noisy_path(made_by, model, n_samples, budget, rate, burn_in, gradients, fixed)
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
        if isinstance(self.path, RandomWalk):
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


def _chosen(path, model, budget, fixed):
    """Return the sampler that is meant: `NoiseAware`, or that of a path."""
    temperature, n_steps, _ = fixed
    if isinstance(path, NoiseAware) and budget.is_private:
        path.checked_options(temperature, n_steps)
        return path
    is_plain = set(path.get_params(deep=False).values()) <= {"auto"}
    if isinstance(path, NoiseAware) or (isinstance(path, Auto) and is_plain):
        chain = temperature not in (None, 1.0) or n_steps is not None
        if budget.is_private and not chain and release_size(model) <= LARGEST_SIZE:
            return NoiseAware()
        if not budget.is_private:
            return SGLD()
    return SGHMC(**path.get_params(deep=False)) if isinstance(path, Auto) else path


def _check_path(path):
    if isinstance(path, OPS | SGFS | BayesByBackprop):
        raise ValueError(
            f"sampler={path.name!r} does not support mixtures, whose posterior is not convex and "
            "has neither rows nor a Gaussian prior to work with: take 'sgld', 'sghmc', 'sgnht' or "
            "a random walk."
        )
    for name, default in _BY_OPTION.items():
        value = getattr(path, name, default)
        if isinstance(path, LangevinSampler | RandomWalk) and value != default:
            raise ValueError(
                f"{name}={value!r} does not go with sampler={path.name!r} for mixtures, whose "
                "steps follow from the released start: leave it out."
            )
