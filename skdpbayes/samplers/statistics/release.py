"""The samplers of noisy sums: one loop over what a plan asks, and the posterior given the answers.

    A  ->  W, C  ->  what tells how large responses are  ->  g_1 at the mode given these, g_2 at the next, ...

A plan has rounds of requests. A likelihood says where each is asked, given what was released before, and
takes over the answers; `requests` reads the records and adds noise. No other line of these samplers sees a
record.
"""

from typing import Any, NamedTuple

import numpy as np

from ..._compute.execution import progress_bar, single_threaded_blas
from ..._data.shards import map_records
from ...models.sums import compacted
from ..base import Diagnostics, Released
from .design import (
    Coordinates,
    Design,
    estimate_design,
    indicators,
    moment_diagnostics,
    number_of_records,
    repeated_columns,
    with_constant,
)
from .hmc import Density, Posterior, find_mode_and_scales
from .plan import Request, moment_geometry
from .requests import NoisySum, Question, Records


class ReleasedDesign(NamedTuple):
    """A released second moment, and what it says.

    Attributes
    ----------
    moment : ndarray of shape (length, length)
        With a constant, that of the intercept or one that was added, in its last row and column.
    noise : float
        Deviation of the noise on its diagonal.
    design : Design
        Of rows as they are.
    n_records : float
        How many records there are, or what they count.
    diagnostics : Diagnostics
        See `moment_diagnostics`.
    is_exact : bool
        Whether ``n_records`` is public.
    """

    moment: np.ndarray
    noise: float
    design: Design
    n_records: float
    diagnostics: Diagnostics
    is_exact: bool


def released_design(plan, noisy_moment):
    """The `ReleasedDesign` of a `NoisySum`, the second moment of rows with a constant."""
    bounds, (moment, noise) = plan.bounds, noisy_moment[:2]
    norm, constant, _ = moment_geometry(plan)
    n_records = plan.n_samples
    if bounds.max_weight is not None:  # Records are as many as they count.
        n_records *= 0.5 * bounds.max_weight
    is_exact = bounds.max_weight is None and plan.budget.neighboring_relation == "replace_one"
    known = moment, noise, constant
    diagnostics = moment_diagnostics(*known, norm, n_records, is_exact)
    if not is_exact:
        n_records = number_of_records(*known, n_records)
    design = estimate_design(*known, norm, n_records)
    if bounds.constant:
        design = with_constant(design, constant)
    return ReleasedDesign(moment, noise, design, n_records, diagnostics, is_exact)


class Likelihood:
    """What is believed of a model's parameters given noisy sums so far; it changes with every answer.

    Parameters
    ----------
    plan : StatisticsPlan
    released : ReleasedDesign
    prior_precision : ndarray of shape (n_parameters,)

    Attributes
    ----------
    coordinates : Coordinates
        ``W`` and ``C``, by which records are weighed.
    matrix_norm : float or None
        ``K``; None is ``C``.
    start : ndarray of shape (n,)
        The mode, so far.
    at_mode : Density
        The density there.
    """

    coordinates: Coordinates
    matrix_norm: float | None = None
    start: np.ndarray
    at_mode: Density
    # How many rounds look for the likeliest prior scales before each request.
    n_scale_rounds = 3

    def __init__(self, plan: Any, released: ReleasedDesign, prior_precision: np.ndarray):
        self.plan, self.released = plan, released
        self.design, self.n_records = released.design, released.n_records
        self.family, self.constant = plan.bounds.family.identified, plan.bounds.constant
        self.prior_precision = prior_precision

    def question(self, request: Request) -> Question:
        """The place at which a request is asked: a point, a clip."""
        raise NotImplementedError

    def learn(self, request: Request, *sums: NoisySum) -> None:
        """Take over the answer to a request, by the method of its kind."""
        getattr(self, f"_learn_{request.kind}")(*sums)

    def density(self) -> Density:
        """The log density given all answers so far."""
        raise NotImplementedError

    def diagnostics(self, posterior: Posterior, draws: np.ndarray) -> Diagnostics:
        """Other numbers that are released."""
        return Diagnostics()

    def update_mode(self, n_rounds=None):
        """The density at its mode and likeliest prior scales, which are noted."""
        self.at_mode = find_mode_and_scales(self.density(), n_rounds or self.n_scale_rounds)
        self.start, self.scales = self.at_mode.start, self.at_mode.scales
        return self.at_mode

    def posterior(self) -> Posterior:
        """The posterior that all answers amount to."""
        return Posterior(self.update_mode(2 * self.n_scale_rounds))


def posterior_of(plan, target, likelihood_of, generator, advance=lambda: None):
    """Ask what a plan asks.

    Parameters
    ----------
    plan : StatisticsPlan
    target : NamedTuple
        A linear model's target.
    likelihood_of : callable
        Takes a plan, a `ReleasedDesign` and prior precisions, and returns a `Likelihood`.
    generator : Generator
        Of the noise.
    advance : callable
        Called after every pass.

    Returns
    -------
    posterior : Posterior
    likelihood : Likelihood
    """
    target = map_records(compacted, target, in_place=True)
    records = Records(plan, target, generator, advance)
    ((moment,), *rounds) = plan.rounds
    released = released_design(plan, records.second_moment(moment))
    likelihood = likelihood_of(plan, released, target.prior_precision)
    records.set_weights(likelihood.coordinates, likelihood.matrix_norm)
    for requests in rounds:
        answers = records.ask(requests, [likelihood.question(request) for request in requests])
        for request, sums in zip(requests, answers, strict=True):
            likelihood.learn(request, *sums)
    return likelihood.posterior(), likelihood


@single_threaded_blas()  # Blocks of rows are not worth more.
def run(plan, target, likelihood_of, generator, verbose):
    """Carry out a `StatisticsPlan`: a `Released`."""
    with progress_bar(plan.n_steps, plan.name, verbose) as advance:
        posterior, likelihood = posterior_of(plan, target, likelihood_of, generator, advance)
    draws, drawn = posterior.draw_all(plan.n_draws, generator)
    released, density = likelihood.released, posterior.density
    known = released.moment, released.noise, moment_geometry(plan)[1], released.n_records
    is_left_out = np.ones(plan.bounds.block_length, dtype=bool)
    is_left_out[: len(released.moment) - 1] = indicators(*known)[1]
    is_left_out[released.diagnostics.unseen_columns] = True
    information, prior = density.information(density.start), density.prior.precision(density.scales)
    other = Diagnostics(
        second_moment=released.moment,
        posterior=posterior,
        repeated_columns=repeated_columns(information, prior, density.transform, is_left_out),
        **released.diagnostics,
        **drawn,
        **likelihood.diagnostics(posterior, draws),
    )
    return Released(draws, plan, {"coordinate_scale": np.ones(plan.n_parameters)}, other)
