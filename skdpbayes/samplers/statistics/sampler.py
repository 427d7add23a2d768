"""NoiseAware and ClippedResiduals: posteriors given noisy sums, the noise included.

    p(theta | t, a_1, F_1, ...)  ~  p(theta) N(t; a(theta), V(theta) + sigma^2 I),    a = E[sum_i y_i x_i]

`plan` says what is released and what it costs, `release` does it, `hmc` draws.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..._typing import GeneratorLike
from ...models.families import Logistic, Normal, Poisson, Softmax
from ...models.families.base import ClassFamily
from ..base import Sampler, checked_gaussian, options, resolve_sampler
from ..plan import check_draws, check_linear
from .exact import ExactPlan, plan_exact, run_exact
from .plan import (
    DEFAULT_SIZE,
    ClippedCountsPlan,
    ClippedResidualsPlan,
    plan_clipped_residuals,
    plan_noise_aware,
    share_budget,
    share_for_counts,
)

# Matrices of more rows are not released: a fit would take minutes, and with more than two classes even for
# fewer.
LARGEST_LABELS_SIZE = 512


def n_identified_coefficients(bounds):
    """Number of coefficients labels can tell apart, or None for a target of another kind."""
    if bounds.row_norm is None or not isinstance(bounds.family, ClassFamily):
        return None
    return bounds.family.identified.n_blocks * bounds.block_length


def is_default_for_labels(bounds):
    """Whether a target is one that this is the default for."""
    size = n_identified_coefficients(bounds)
    return size is not None and size <= DEFAULT_SIZE


def check_constant(bounds):
    """Raise a ValueError if the intercept's constant leaves rows no part of the norm."""
    if bounds.constant**2 > (1.0 - 1e-6) * bounds.row_norm**2:
        raise ValueError(
            f"the constant column of the intercept, {bounds.constant:g}, leaves hardly any of a norm of "
            f"{bounds.row_norm:g} to the rows: take intercept_scaling about as large as data_norm."
        )


@options()
class NoiseAware(Sampler):
    """The posterior given the released statistics: calibrated, untempered draws under the user's prior.

    It releases a second moment, the sum of weighted labels, and scores and curvatures of weighted records
    without labels, in eleven passes. Draws come from the posterior of the parameters given these noisy
    numbers [1]_ [2]_, which is wider than the posterior without privacy because it accounts for the noise. A
    prior scale that is not given is learnt from them. Any number of draws is free. It supports
    logistic targets with up to 200 coefficients, counting all classes but one, for which it is the default,
    and up to 512 of two classes: then a fit takes about half a minute. Without privacy (``epsilon=inf``)
    Hamiltonian chains over the table draw from the posterior itself, under the same prior. Numbers and counts
    have the plan of `ClippedResiduals`, which is a name for the same sampler. For mixtures it releases
    statistics of the components, in their own coordinates; without privacy the plan is that of `Gibbs`.

    References
    ----------
    .. [1] G. Bernstein and D. Sheldon, "Differentially private Bayesian linear regression", NeurIPS 2019.
    .. [2] T. Kulkarni, J. Jälkö, A. Koskela, S. Kaski and A. Honkela, "Differentially private Bayesian
       inference for generalized linear models", ICML 2021.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import NoiseAware
    >>> from skdpbayes.models import LinearModel, Logistic
    >>> bounds = LinearModel(family=Logistic(), n_features=3, norm=1.0, constant=0.0).bounds()
    >>> plan = NoiseAware().plan(bounds, 100_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.temperature, 0.999 < plan.epsilon <= 1.0
    (1.0, True)
    """

    name = "noise_aware"
    proof = "Propositions 32, 37, 70 and 71; of numbers and counts, 73 to 77"
    targets = frozenset({"linear", "mixture", "normal"})
    families = (Logistic, Softmax, Normal, Poisson)
    releases = "statistics"
    has_rounds_of_mixtures = True
    is_calibrated = True
    wants_equal_precisions = False
    takes_weights = True
    _wrong_target = "is for linear models and mixtures"
    _checked_targets = "linear models' targets"

    def _plan(self, bounds, n_samples, budget, n_draws):
        checked_gaussian(self, bounds, budget)
        if bounds.row_norm is None or not isinstance(bounds.family, self.families):
            raise ValueError(f"sampler={self.name!r} {self._wrong_target}: take sampler='auto'.")
        check_constant(bounds)
        given = self, bounds, n_samples, budget, n_draws
        if isinstance(bounds.family, ClassFamily):
            return _plan_of_labels(*given)
        return _plan_of_numbers(*given)

    def for_mixture(self, budget: Any) -> Any:
        """Itself or, without privacy, what "auto" takes."""
        return self if budget.is_private else resolve_sampler("auto").for_mixture(budget)

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another target, or this one has no rows and responses."""
        check_linear(plan, target, self._checked_targets)

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Release what the plan says, and draw given it."""
        if isinstance(plan, ExactPlan):
            return run_exact(plan, target, generator, verbose)
        from .release import run

        return run(plan, target, self.likelihood(plan.bounds.family), generator, verbose)

    def likelihood(self, family: Any) -> Callable[..., Any]:
        """The class of likelihoods of a family's responses, or a function; a subclass may have another."""
        if isinstance(family, Normal):
            from .normal import NormalLikelihood

            return NormalLikelihood
        if isinstance(family, Poisson):
            from .poisson import PoissonLikelihood

            return PoissonLikelihood
        from .logistic import LogisticLikelihood

        return LogisticLikelihood

    def redraw(self, released: Any, n_draws: int, random_state: GeneratorLike) -> np.ndarray | None:
        """New draws given what was released, in the units of the first."""
        if "posterior" not in released:  # Without privacy.
            return None
        unit = np.atleast_2d(released["coordinate_scale"])
        check_draws(n_draws, unit.size)
        draws = released["posterior"].draw(n_draws, random_state)
        return draws.reshape(n_draws, *unit.shape) * unit

    def importance_weights(self, released: Any, draws: np.ndarray) -> np.ndarray | None:
        """The importance weights of draws in predictions, for which large prior scales are less probable."""
        if "posterior" not in released:
            return None
        unit = np.atleast_2d(released["coordinate_scale"])
        # Post-processing.
        return released["posterior"].importance_weights((draws / unit).reshape(len(draws), -1))


def _plan_of_labels(sampler, bounds, n_samples, budget, n_draws):
    size = n_identified_coefficients(bounds)
    largest = LARGEST_LABELS_SIZE if bounds.family.identified.n_blocks == 1 else DEFAULT_SIZE
    if size > largest:
        raise ValueError(
            f"sampler={sampler.name!r} releases matrices, for up to {largest} coefficients, and there are "
            f"{size}: take fewer columns, or a chain by sampler='auto'."
        )
    plan = plan_noise_aware if budget.is_private else plan_exact
    return plan(sampler, bounds, n_samples, budget, n_draws)


def _plan_of_numbers(sampler, bounds, n_samples, budget, n_draws):
    if bounds.n_parameters > LARGEST_NUMBERS_SIZE:
        other = ", or a chain by sampler='auto'"
        if bounds.family.has_unknown_error_sd:
            other = (
                ", or put rare categories together; no other sampler learns the noise of numbers"
            )
        raise ValueError(
            f"sampler={sampler.name!r} releases matrices, for up to {LARGEST_NUMBERS_SIZE} coefficients, "
            f"and there are {bounds.n_parameters}: take fewer columns{other}."
        )
    if not budget.is_private:
        if isinstance(bounds.family, Poisson):
            return plan_exact(sampler, bounds, n_samples, budget, n_draws)
        raise ValueError(
            f"sampler={sampler.name!r} is for a finite epsilon: without privacy take sampler='auto'."
        )
    kind: type = ClippedResidualsPlan
    share: Callable[..., Any] = partial(share_budget, has_intercept=bool(bounds.constant))
    if isinstance(bounds.family, Poisson):
        kind, share = ClippedCountsPlan, share_for_counts
    return plan_clipped_residuals(kind, share, sampler, bounds, n_samples, budget, n_draws)


# A posterior given noisy sums of clipped residuals: for numbers with unknown errors, and for counts.
#
#     p(u, s | g_1, g_2, ...)  ~  p(u) p(s) N(g; E[g | u, s], Cov(g | u, s) + noise)
#
# `plan` says what is released and what it costs, `release` does it, `normal` and `poisson` have the
# posteriors.


# Matrices of more rows are not released: noise would drown them, and drawing take minutes.
LARGEST_NUMBERS_SIZE = 200


def is_default_for_numbers(bounds):
    """Whether a target is one that this is the default for."""
    is_linear = bounds.row_norm is not None and isinstance(bounds.family, Normal | Poisson)
    return is_linear and bounds.n_parameters <= LARGEST_NUMBERS_SIZE


@options()
class ClippedResiduals(NoiseAware):
    """The posterior given noisy sums of residuals that are clipped ever tighter, for numbers or counts.

    It releases two second moments of rows and then, at one mode after the other, the sum of rows times
    clipped residuals. Each clip follows from what was released before: as residuals get smaller, so does
    the noise [1]_ [2]_. Draws come from the posterior of the coefficients and of the errors' deviation given
    these noisy numbers [3]_, in which clips are accounted for as well. Of counts it releases a histogram,
    too, and learns how they vary and whether there are more zeros than Poisson's law says. A prior scale that
    is not given is learnt. Any number of draws is free. It supports normal and Poisson responses and up to
    200 coefficients. Without privacy (``epsilon=inf``) chains over the table draw from the posterior of
    counts under Poisson's law; numbers are for `Gibbs` then.

    References
    ----------
    .. [1] P. Varshney, A. Thakurta and P. Jain, "(Nearly) optimal private linear regression for sub-Gaussian
       data via adaptive clipping", COLT 2022.
    .. [2] X. Liu, P. Jain, W. Kong, S. Oh and A. Suggala, "Label robust and differentially private linear
       regression: computational and statistical efficiency", NeurIPS 2023.
    .. [3] G. Bernstein and D. Sheldon, "Differentially private Bayesian linear regression", NeurIPS 2019.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import ClippedResiduals
    >>> from skdpbayes.models import LinearModel, Normal
    >>> model = LinearModel(family=Normal(-1.0, 1.0), n_features=3, norm=1.0)
    >>> plan = ClippedResiduals().plan(model.bounds(), 100_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.temperature, 0.999 < plan.epsilon <= 1.0
    (1.0, True)
    """

    name = "clipped_residuals"
    proof = "Propositions 73 to 75; of counts, 76 and 77, too"
    targets = frozenset({"linear", "normal"})
    families = (Normal, Poisson)  # type: ignore[assignment]
    has_rounds_of_mixtures = False
    _wrong_target = "is for responses that are numbers"
    _checked_targets = "targets of numbers"
