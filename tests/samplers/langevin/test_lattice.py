"""What the records move a step by is the same wherever a chain is: the prior's part is rounded by itself."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from references import planned

from skdpbayes.models import TargetBounds, add_gradient, implements, n_examples
from skdpbayes.privacy import Budget
from skdpbayes.privacy.rounding import box_half_width, lattice_spacing
from skdpbayes.samplers import SGHMC, SGLD
from skdpbayes.samplers import noise as lattice
from skdpbayes.samplers.langevin.chains import run_overdamped, run_underdamped

N_PARAMETERS = 400


class Push(NamedTuple):
    """ell = g . theta, of one record."""

    gradient: np.ndarray
    prior_precision: np.ndarray
    gradient_bound: float


@implements(n_examples, Push)
def _count(target):
    return 1


@implements(add_gradient, Push)
def _push(target, theta, selection, count, out):
    for j in range(theta.size):
        out[j] += target.gradient[j]


def moved_apart(sampler, run, start_in_boxes):
    """Return, in units of the lattice, how far apart one step leaves the draws of two tables."""
    bounds = TargetBounds(N_PARAMETERS, 1.0, 1e-3, (1.0, 1.0))
    plan = planned(sampler, bounds, 1, Budget(np.inf, 1e-6), temperature=1.0, n_steps=1, n_draws=1)
    noise = np.sqrt(2 * plan.step_size) * (plan.friction or 1.0)
    rng = np.random.default_rng(0)
    start = start_in_boxes * box_half_width(noise) * rng.uniform(0.5, 1.0, N_PARAMETERS)
    draws = []
    for seed in (1, 2):
        gradient = np.random.default_rng(seed).normal(size=N_PARAMETERS) / 20.0
        target = Push(gradient, np.ones(N_PARAMETERS), 1.0)
        draws.append(run(plan, target, np.random.default_rng(0), 0, start.copy())[0])
    # A midpoint of two states: half of what the step moves.
    return 2.0 * (draws[1] - draws[0]) / lattice_spacing(noise)


@pytest.mark.parametrize("start", [0.9, 2.0**-6])
@pytest.mark.parametrize(
    "sampler, run",
    [(SGLD(burn_in=0.0), run_overdamped), (SGHMC(burn_in=0.0), run_underdamped)],
    ids=["overdamped", "underdamped"],
)
def test_the_records_part_of_a_step_does_not_depend_on_the_state(sampler, run, start):
    """A sum of both parts would be rounded by up to 2^-6 of a cell before the lattice rounds it."""
    near = np.rint(moved_apart(sampler, run, 0.0))
    assert np.abs(near).max() > 1e5
    # Draws are midpoints; far out their halves are rounded where velocities are no lattice points.
    np.testing.assert_array_equal(np.rint(moved_apart(sampler, run, start)), near)


def test_parts_are_rounded_by_themselves_whatever_their_size():
    spacing, generator = 2.0**-30, SimpleNamespace(standard_normal=lambda: 0.0)
    rng = np.random.default_rng(0)
    gradient = rng.normal(size=1000)
    prior = rng.uniform(1.0, 2.0, 1000) * spacing * 2.0**46
    out = np.empty(1000)
    lattice.noisy_step(gradient, 2.0**-10, 1.0, spacing, generator, out)
    alone = out.copy()
    np.testing.assert_array_equal(alone, -spacing * np.rint(2.0**-10 * gradient / spacing))
    lattice.add_prior_step(prior, 0.7, spacing, out)
    np.testing.assert_array_equal(out - alone, -spacing * np.rint(0.7 * prior / spacing))
