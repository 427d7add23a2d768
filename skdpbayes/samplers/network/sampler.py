"""Networks: rows of a released norm, a path of any sampler, and logits of a released scale.

    x -> 4 x / r,    theta by the path's sampler,    z -> s z

`plan` says what the three cost together, `choice` how ``r`` and ``s`` are chosen, by `statistics`; `core`
does it.
"""

from typing import Any

import numpy as np
from sklearn.base import clone

from ..._typing import GeneratorLike
from .._protocol import Sampler, of_plan
from .._public_numbers import check_public
from .plan import plan_network


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
        """That of the path, and of its calibration."""
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

        made_by = of_plan(NetworkSampler(path, self.share))
        return plan_network(made_by, plan_path, n_samples, budget, self.share)

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another target, or this one is no network."""
        if not hasattr(target, "clip_norm"):
            raise ValueError(f"the plan is for a network, and {type(target).__name__} is none.")
        plan.path.sampler.check(plan.path, target)

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Release the norm, run the path, and release the scale."""
        from .core import run_network

        return run_network(plan, target, generator, verbose)

    def redraw(self, released: Any, n_draws: int, random_state: GeneratorLike) -> np.ndarray | None:
        """Return new draws where the path's sampler has them: what it released is calibrated."""
        return self.path.redraw(released, n_draws, random_state)
