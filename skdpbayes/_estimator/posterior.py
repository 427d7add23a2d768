"""A fitted posterior as a value: draws, what makes more of them, and what they say of parameters.

    interval  = quantiles of the draws at (1 - level) / 2 and (1 + level) / 2
    widening  = 1 - (deviation without privacy) / (deviation of the draws)

An estimator makes it of its public attributes, and delegates to it; a kind of model says how draws are laid
out, and what its parameters are called. Everything here is post-processing of what was released.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._arguments import check_level
from ..privacy.deferred_warnings import warn
from ..samplers import Plan
from ..samplers.base import Diagnostics
from .model_checks import LEAST_DRAWS, chain_diagnostics
from .summaries import (
    append_intercept,
    coefficient_index,
    interval_table,
    required_pandas,
    statement_table,
)

# Number of draws that intervals are computed from, if new ones are free.
_INTERVAL_DRAWS = 400


@dataclass(frozen=True, eq=False)
class DrawnPosterior:
    """Draws of a model's parameters, and what was released with them.

    Attributes
    ----------
    draws : ndarray of shape (n_draws, ...), or named tuple of such arrays
        As they were published, along the chain.
    plan : Plan
        That of the fit.
    released : mapping
        An estimator's ``released_``.
    columns : ndarray of str
        Names of the columns.
    origin : ndarray or float, default=0.0
        The point that is added to new draws of the sampler.
    """

    draws: Any
    plan: Plan
    released: Mapping[str, Any]
    columns: np.ndarray
    origin: Any = 0.0

    # What a kind of model says

    def variables(self) -> dict[str, tuple[np.ndarray, tuple[str, ...]]]:
        """{name: (draws of shape (n_draws, ...), names of the dimensions after the first)}."""
        raise NotImplementedError

    def coords(self) -> dict[str, Any]:
        """{dimension: coordinates}."""
        raise NotImplementedError

    def index(self) -> Any:
        """Names of all parameters, in the order of `flat`, for a table of them."""
        raise NotImplementedError

    def redraw(self, n_draws: int, generator: Any) -> Any:
        """New draws given what was released, or None if there is nothing to draw from."""
        fresh = self.plan.sampler.redraw(self.released, n_draws, generator)
        return None if fresh is None else fresh + self.origin

    def deviations_without_noise(self, posterior: Any) -> np.ndarray:
        """The deviations of `flat` that a released posterior says there would be without noise."""
        raise NotImplementedError

    # What follows

    @property
    def diagnostics(self) -> Diagnostics:
        """The record of what was released."""
        return Diagnostics.of(self.released)

    def draw(self, n_draws: int | None = None, random_state: Any = None) -> Any:
        """All draws or, if new ones are not free, some of them: a ValueError if there are too few."""
        if n_draws is not None:
            generator = generator_of(random_state)
            fresh = self.redraw(check_number_of_draws(n_draws), generator)
            if fresh is not None:
                return fresh
        kept = len(self.parts(self.draws)[0])
        chosen = choose_draws(kept, n_draws, random_state)
        return self.each(self.draws, lambda part: part[chosen])

    def enough(self) -> Any:
        """The draws, or new ones if there are few and new ones are free."""
        if self.plan.n_draws < _INTERVAL_DRAWS and "posterior" in self.released:
            return self.draw(_INTERVAL_DRAWS, random_state=0)
        return self.draws

    def interval(self, level: float) -> Any:
        """The ends of equal-tailed intervals, along a last axis of length 2."""
        check_level(level)
        self.warn_unless_calibrated()
        quantiles = [(1 - level) / 2, (1 + level) / 2]
        return self.each(
            self.enough(), lambda part: np.moveaxis(np.quantile(part, quantiles, axis=0), 0, -1)
        )

    def summary(self, level: float) -> Any:
        """A data frame of means, deviations, intervals, and what privacy adds to their width."""
        ends = [part.reshape(-1, 2) for part in self.parts(self.interval(level))]
        return interval_table(
            self.flat(self.draws),
            np.vstack(ends),
            self.deviations_without_privacy(),
            self.index(),
            level,
        )

    def statements(self, level: float) -> Any:
        """A data frame of means, deviations, intervals, and how sure signs are."""
        required_pandas()
        self.warn_unless_calibrated()
        return statement_table(self.flat(self.enough()), self.index(), level)

    def mixing(self) -> Any:
        """A data frame of split R-hat and effective sample sizes."""
        pd = required_pandas()
        names = ("r_hat", "effective_sample_size")
        columns = {name: self.released[name] for name in names if name in self.released}
        columns = columns or dict(zip(names, chain_diagnostics(self.flat(self.draws)), strict=True))
        return pd.DataFrame(columns, index=self.index())

    def deviations_without_privacy(self) -> np.ndarray:
        """The deviations of `flat` without privacy, as far as what was released tells; nan otherwise."""
        deviations = self.flat(self.draws).std(axis=0)
        if not self.plan.budget.is_private:
            return deviations
        posterior = self.released.get("posterior")
        if posterior is None:
            return np.full_like(deviations, np.nan)
        return self.deviations_without_noise(posterior)

    def width_factors(self) -> np.ndarray:
        """Factors by which privacy widens intervals of `flat`, 1 or more; nan where they are not known."""
        deviations, without = self.flat(self.draws).std(axis=0), self.deviations_without_privacy()
        known = np.isfinite(without) & (deviations > 0)
        factors = np.full(deviations.shape, np.nan)
        return np.divide(
            deviations, np.clip(without, 1e-9 * deviations, deviations), factors, where=known
        )

    def warn_unless_calibrated(self) -> None:
        """Warn if the draws are not a calibrated posterior."""
        if (plan := self.plan).is_calibrated:
            return
        calibrated = plan.sampler.calibrated_names(plan.bounds.family)
        named = calibrated.replace(", ", " or sampler=")
        of_others = f" sampler={named} gives calibrated draws." if calibrated else ""
        warn(
            f"draws of sampler={plan.name!r} under privacy are not a calibrated posterior: the "
            f"coverage of intervals may be below or above their level.{of_others}"
        )

    def to_arviz(self, *, split: bool = True) -> Any:
        """The draws in ArviZ's container, as two chains if ``split`` and there are at least 8.

        ArviZ splits every chain in two, but returns nan for a single chain: of two halves it compares the
        quarters.

        Raises
        ------
        ImportError
            If ArviZ is not installed.
        ValueError
            If there are fewer than 4 draws.
        """
        try:
            import arviz
        except ImportError as error:
            raise ImportError(
                "to_arviz requires ArviZ, which is part of the extra 'diagnostics': "
                'pip install "skdpbayes[diagnostics]"'
            ) from error
        variables, coords, plan = self.variables(), self.coords(), self.plan
        n_draws = len(self.parts(self.draws)[0])
        if n_draws < LEAST_DRAWS:
            raise ValueError(
                f"diagnostics of a chain require at least {LEAST_DRAWS} draws, and this fit released "
                f"{n_draws}: use posterior_samples_ directly, or fit with a larger n_draws."
            )
        n_chains = 2 if split and n_draws >= 2 * LEAST_DRAWS else 1
        posterior = {name: _in_chains(draws, n_chains) for name, (draws, _) in variables.items()}
        names = {name: list(dims) for name, (_, dims) in variables.items()}
        if int(arviz.__version__.partition(".")[0]) >= 1:
            data = arviz.from_dict({"posterior": posterior}, coords=coords, dims=names)
        else:
            data = arviz.from_dict(posterior=posterior, coords=coords, dims=names)
        data["posterior"].attrs.update(
            inference_library="skdpbayes",
            sampler=plan.name,
            epsilon=plan.epsilon,
            delta=plan.delta,
            neighboring_relation=plan.requested_budget.neighboring_relation,
            temperature=plan.temperature,
            n_steps=plan.n_steps,
        )
        return data

    # Draws of one array or of several

    @staticmethod
    def parts(draws: Any) -> tuple[np.ndarray, ...]:
        """The arrays of draws."""
        return draws if isinstance(draws, tuple) else (draws,)

    @classmethod
    def each(cls, draws: Any, function: Any) -> Any:
        """A function of every array of draws, in their form."""
        results = [function(part) for part in cls.parts(draws)]
        return type(draws)(*results) if isinstance(draws, tuple) else results[0]

    @classmethod
    def flat(cls, draws: Any) -> np.ndarray:
        """Draws of all parameters, of shape (n_draws, n)."""
        parts = [part.reshape(len(part), -1) for part in cls.parts(draws)]
        return parts[0] if len(parts) == 1 else np.hstack(parts)


@dataclass(frozen=True, eq=False)
class CoefficientPosterior(DrawnPosterior):
    """Draws of coefficients, of shape (n_draws, n_blocks, n_columns + has_intercept).

    Attributes
    ----------
    classes : ndarray or None, default=None
        The labels of a classifier.
    """

    classes: np.ndarray | None = None

    def variables(self):
        """Coefficients and, if there is one, the intercept."""
        draws, n_columns = self.draws, len(self.columns)
        blocks: tuple[str, ...] = () if self.classes is None else ("class",)
        if self.classes is None:
            draws = draws[:, 0]
        dims: tuple[str, ...] = (*blocks, "feature")
        variables = {"coef": (draws[..., :n_columns], dims)}
        if draws.shape[-1] > n_columns:
            variables["intercept"] = (draws[..., -1], blocks)
        return variables

    def coords(self):
        """Columns and, of a classifier, classes: the second of two, as there is one block."""
        coords = {"feature": self.columns}
        if self.classes is not None:
            coords = {"class": self.classes[-self.draws.shape[1] :], **coords}
        return coords

    def index(self):
        """An entry for each coefficient, by class with more than two."""
        names = append_intercept(self.columns, self.draws.shape[2])
        labels = self.coords().get("class", ())
        return coefficient_index(names, labels if len(labels) > 1 else None)

    def deviations_without_noise(self, posterior):
        """The posterior's, in the units of a draw."""
        deviations = posterior.deviations_without_privacy().reshape(self.draws.shape[1:])
        return (deviations * self.released["coordinate_scale"]).ravel()


def check_number_of_draws(n_draws):
    """A number of draws; raises a ValueError if it is not a positive integer."""
    if isinstance(n_draws, bool) or not isinstance(n_draws, Integral) or n_draws < 1:
        raise ValueError(f"n_draws must be a positive integer or None, got {n_draws!r}.")
    return n_draws


def choose_draws(kept, n_draws, random_state):
    """The indices of some of the draws that were kept, in ascending order; all of them for None.

    Raises
    ------
    ValueError
        If there are fewer draws than requested.
    """
    if n_draws is None:
        return np.arange(kept)
    if check_number_of_draws(n_draws) > kept:
        raise ValueError(
            f"n_draws={n_draws} is more than the {kept} draws that were released, and more "
            f"would spend more budget: fit with n_draws={n_draws}."
        )
    # Post-processing.
    return np.sort(generator_of(random_state).choice(kept, size=n_draws, replace=False))


def generator_of(random_state):
    """The generator of `numpy.random` for a seed, or the one that is given."""
    given = isinstance(random_state, np.random.Generator)
    return random_state if given else check_random_state(random_state)


def _in_chains(draws, n_chains):
    # An odd draw is dropped at the beginning, where the chain may not have converged.
    kept = draws[len(draws) % n_chains :].copy()
    return kept.reshape(n_chains, -1, *draws.shape[1:])
