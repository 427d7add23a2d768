"""Plans that release last iterates only: what they cost, what they refuse, and how they are made."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from references import planned

from skdpbayes.models import TargetBounds
from skdpbayes.privacy import Budget, hidden_state_mu, hidden_state_mu_cyclic
from skdpbayes.privacy.conversions import gaussian_mu
from skdpbayes.privacy.rounding import contraction_slack
from skdpbayes.samplers import OPS, SGLD

BOUNDS = TargetBounds(93, 1.0, 0.25, (0.16, 0.16), convex=True)
N = 24_420
S = 2.0


def plan(epsilon=1.0, delta=1e-5, n=N, bounds=BOUNDS, relation="replace_one", **options):
    budget = Budget(epsilon, delta, relation)
    return planned(SGLD, bounds, n, budget, release="last_iterate", **options)


def path(**options):
    return planned(SGLD, BOUNDS, N, Budget(1.0, 1e-5), **options)


def limit(made):
    """What an exact posterior sample costs, ``s / (tau sqrt(lambda))``."""
    s = 2.0 * made.bounds.gradient_bound
    return s / (made.temperature * math.sqrt(made.bounds.prior_precision[0]))


def segment(made):
    """Contraction, sensitivity and noise of every step of a one-draw plan, in exact arithmetic."""
    steps = made.step_sizes()
    contraction = 1 - steps * made.temperature * made.bounds.prior_precision[0]
    shifts = steps * 2.0 * made.bounds.gradient_bound * made.n_batches
    noise = np.sqrt(2 * steps * made.temperature)
    # What is released is the midpoint of the last two states.
    contraction[-1] = (1 + contraction[-1]) / 2
    shifts[-1] /= 2
    noise[-1] /= 2
    return contraction, shifts, noise


@pytest.mark.parametrize("options", [{}, {"step_decay": 0.3, "n_steps": 600, "n_draws": 3}])
def test_one_posterior_sample_is_the_last_iterate_on_the_full_table(options):
    made = planned(OPS, BOUNDS, N, Budget(1.0, 1e-5), **options)
    assert made == plan(**options)
    assert (made.name, plan(**options).name) == ("ops", "sgld")


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, math.inf])
@pytest.mark.parametrize("n_steps", [None, 1, 2, 300])
def test_the_cost_is_the_accountants(epsilon, n_steps):
    made = plan(epsilon, n_steps=n_steps)
    exact = hidden_state_mu(*segment(made))
    # Rounding enlarges the cost a little, and never the other way.
    assert exact < made.cost.mu < exact * 1.005
    assert made.epsilon <= epsilon


def test_decreasing_steps_are_accounted_one_by_one():
    made = plan(n_steps=5000, step_decay=1 / 3)
    exact = hidden_state_mu(*segment(made))
    assert exact < made.cost.mu < exact * 1.01
    assert made.epsilon <= 1.0


def test_a_draw_never_costs_more_than_an_exact_posterior_sample():
    for n_steps in (1, 10, 1000, 10**6, 10**8):
        made = plan(temperature=20.0, n_steps=n_steps, epsilon=math.inf, n=1000)
        assert made.cost.mu <= limit(made) * 1.005
        if n_steps == 10**8:
            assert made.cost.mu >= limit(made)
    costs = [
        plan(temperature=20.0, step_size=1e-4, n_steps=T, epsilon=math.inf).cost.mu
        for T in (1, 10, 100, 1000, 10**4, 10**5, 10**6)
    ]
    assert costs == sorted(costs)


def test_the_temperature_comes_from_the_budget():
    made = plan()
    hottest = S / (gaussian_mu(1.0, 1e-5) * math.sqrt(0.16))
    # Three relaxations cost a little less than the limit.
    assert 0.93 * hottest < made.temperature < hottest
    assert 1 - 1e-6 < made.epsilon <= 1.0
    assert made.relaxations == pytest.approx(3.0, rel=1e-3)


def test_draws_cost_the_square_root_of_their_number():
    for k in (2, 10, 100):
        one = plan(math.inf, temperature=30.0, n_steps=1000)
        many = plan(
            math.inf, temperature=30.0, n_steps=1000 * k, n_draws=k, step_size=one.step_size
        )
        assert many.cost.mu == pytest.approx(math.sqrt(k) * one.cost.mu, rel=1e-9)
        assert plan(n_draws=k).temperature == pytest.approx(
            math.sqrt(k) * plan().temperature, rel=0.01
        )
    uneven = plan(math.inf, temperature=30.0, n_steps=2001, n_draws=2, step_size=one.step_size)
    longer = plan(math.inf, temperature=30.0, n_steps=1001, step_size=one.step_size)
    assert uneven.cost.mu == pytest.approx(math.hypot(one.cost.mu, longer.cost.mu), rel=1e-9)
    assert list(uneven.kept_steps()) == [999, 2000]


def test_privacy_is_free_where_the_posterior_is_private_enough():
    narrow = BOUNDS._replace(prior_precision=(400.0, 400.0))
    free = plan(bounds=narrow, n=1000)
    assert free.temperature == 1.0
    assert free.cost.mu <= S / 20.0 * 1.001
    assert free.epsilon < 0.5
    assert free.epsilon == plan(5.0, bounds=narrow, n=1000).epsilon


@given(
    epsilon=st.floats(0.01, 20.0),
    n=st.integers(2, 10**6),
    smoothness=st.floats(0.01, 50.0),
    precision=st.floats(1e-2, 1e3),
    spread=st.floats(1.0, 10.0),
    n_draws=st.integers(1, 20),
)
@settings(max_examples=100, deadline=None)
def test_full_batch_plans_stay_within_the_budget(
    epsilon, n, smoothness, precision, spread, n_draws
):
    bounds = TargetBounds(
        7, 2 * math.sqrt(smoothness), smoothness, (precision, spread * precision), convex=True
    )
    made = plan(epsilon, n=n, bounds=bounds, n_draws=n_draws)
    assert made.epsilon <= epsilon
    assert made.temperature >= 1
    if made.temperature > 1:
        assert made.epsilon >= epsilon * (1 - 1e-6)
    m = made.temperature * precision
    stiffest = n * smoothness + made.temperature * spread * precision
    assert 0 < made.step_size <= 2 / (m + stiffest)
    assert made.n_draws == n_draws <= made.n_steps


# Single records at decreasing steps need more steps than can be accounted for; see below.
CYCLES = set(itertools.product([1, 7, 50, 99, 100], [0.0, 0.3], [None, 230])) - {(1, 0.3, None)}


@pytest.mark.parametrize("batch_size, decay, n_steps", sorted(CYCLES, key=str))
def test_cyclic_batches_are_accounted_for_the_worst_position(batch_size, decay, n_steps):
    n = 100
    bounds = BOUNDS._replace(n_parameters=3, prior_precision=(2.0, 3.0))
    made = plan(n=n, bounds=bounds, batch_size=batch_size, step_decay=decay, n_steps=n_steps)
    assert made.n_batches == math.ceil(n / batch_size)
    exact = hidden_state_mu_cyclic(*segment(made), made.n_batches).max()
    assert exact < made.cost.mu < exact * 1.003
    assert made.epsilon <= 1.0
    # The curvature of the largest batch, which stands for the table.
    largest = made.n_batches * math.ceil(n / made.n_batches) * bounds.smoothness
    m, stiffest = made.temperature * 2.0, largest + made.temperature * 3.0
    assert made.step_size <= 2 / (m + stiffest)
    if n_steps is None:
        assert made.n_steps % made.n_batches == 0


@pytest.mark.nightly
def test_more_steps_than_can_be_accounted_for_are_refused():
    bounds = BOUNDS._replace(n_parameters=3, prior_precision=(2.0, 3.0))
    with pytest.raises(ValueError, match="steps"):
        plan(n=100, bounds=bounds, batch_size=1, step_decay=0.3)


def test_several_draws_on_batches_that_do_not_divide_the_steps():
    n, n_draws = 100, 3
    bounds = BOUNDS._replace(n_parameters=3, prior_precision=(2.0, 2.0))
    made = plan(n=n, bounds=bounds, batch_size=30, n_steps=50, n_draws=n_draws)
    one = plan(math.inf, n=n, bounds=bounds, batch_size=30, n_steps=16, step_size=made.step_size,
               temperature=made.temperature)  # fmt: skip
    assert made.epsilon <= 1.0
    assert math.sqrt(2) * one.cost.mu < made.cost.mu < math.sqrt(3.3) * one.cost.mu


@pytest.mark.nightly
def test_batches_cost_at_most_a_tenth_more_than_the_table():
    full = plan()
    for batch_size in (8000, 2000, 500):
        made = plan(batch_size=batch_size)
        assert made.temperature < 1.06 * full.temperature
        assert made.record_gradients < full.record_gradients * 1.3


@pytest.mark.parametrize(
    "options, named",
    [
        ({"bounds": BOUNDS._replace(convex=False)}, "convex"),
        ({"bounds": BOUNDS._replace(prior_precision=(0.0, 1.0))}, "prior_precision"),
        ({"relation": "add_or_remove_one"}, "replace_one"),
        ({"burn_in": 0.5}, "burn_in"),
        ({"init": "ops"}, "init"),
        ({"step_size": 1.0}, "step_size"),
        ({"step_size": 2 / (0.25 * N)}, "step_size"),
        ({"n_steps": 3, "n_draws": 4}, "n_draws=4"),
        ({"batch_size": N + 1}, "batch_size"),
        ({"delta": 0.0}, "delta"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"temperature": 2.0, "step_size": 1e-4, "n_steps": 10**5}, "temperature.*step_size.*n_st"),
        ({"n_steps": 10**8, "batch_size": 100}, "n_steps"),
    ],
)
def test_what_has_no_guarantee_is_refused_by_name(options, named):
    with pytest.raises(ValueError, match=named):
        plan(**options)


def test_the_step_is_bounded_where_contraction_ends():
    """Beyond 2 / (m + M) the stiffest direction decides, and the cost is no longer capped."""
    m = 20.0 * 0.16
    edge = 2 / (m + 0.25 * N + m)
    made = plan(math.inf, temperature=20.0, step_size=edge * (1 - 1e-8), n_steps=100)
    assert made.step_size < edge
    with pytest.raises(ValueError, match="step_size"):
        plan(math.inf, temperature=20.0, step_size=edge * (1 + 1e-9), n_steps=100)


def test_a_short_chain_is_announced():
    assert plan().warnings == ()
    assert "relaxes" in plan(n_steps=100).warnings[0]
    assert "relaxes" in plan(temperature=2.0).warnings[0]
    assert "heat" in plan(batch_size=100, n_steps=20_000).warnings[-1]


def test_a_plan_prints_what_it_does():
    text = str(plan(n_draws=4, batch_size=5000))
    for word in ("epsilon", "replace-one", "hidden", "for each draw", "one of 5 batches", "4884"):
        assert word in text


@pytest.mark.parametrize("options", [{}, {"batch_size": 3000, "n_steps": 3000}])
@pytest.mark.parametrize("share", ["auto", 0.25, 0.8])
def test_a_path_that_starts_at_a_draw_costs_both(options, share):
    budget = Budget(1.0, 1e-5)
    made = planned(SGLD, BOUNDS, N, budget, init="ops", init_share=share, **options)
    assert 0.99 < made.epsilon <= 1.0
    assert made.start.n_draws == 1 and made.n_burn_in == 0
    path = planned(
        SGLD,
        BOUNDS,
        N,
        Budget(math.inf, 1e-5),
        temperature=made.temperature,
        step_size=made.step_size,
        n_steps=made.n_steps,
        burn_in=0.0,
        batch_size=options.get("batch_size"),
    )
    if options:
        assert made.cost.mu == pytest.approx(made.start.cost.mu, rel=1e-12)
        assert made.cost.sampled[0].count == made.n_steps
    else:
        together = math.hypot(path.cost.mu, made.start.cost.mu)
        assert made.cost.mu == pytest.approx(together, rel=1e-9)
    if share == "auto":
        assert made.start.temperature == made.temperature
    else:
        spent = (made.start.cost.mu / gaussian_mu(1.0, 1e-5)) ** 2
        assert spent == pytest.approx(share, rel=1e-6)
    assert made.n_updates == made.n_steps + made.start.n_steps
    assert "starts at" in str(made)


@pytest.mark.parametrize(
    "options, named",
    [
        ({"init_share": 0.5}, "init_share"),
        ({"init": "ops", "init_share": 1.0}, "init_share"),
        ({"init": "mode"}, "init"),
    ],
)
def test_starts_that_mean_nothing_are_refused(options, named):
    with pytest.raises(ValueError, match=named):
        path(**options)


def test_a_start_needs_what_a_last_iterate_needs():
    sampler = SGLD(init="ops")
    with pytest.raises(ValueError, match="convex"):
        sampler.plan(BOUNDS._replace(convex=False), N, Budget(1.0, 1e-5))
    with pytest.raises(ValueError, match="replace_one"):
        sampler.plan(BOUNDS, N, Budget(1.0, 1e-5, "add_or_remove_one"))


def test_rounding_is_charged_by_the_stated_units():
    """3 lattice units for each coordinate, and (d + 8) / 32 for products of rows with the state."""
    for d in (1, 93, 10_000):
        unit = math.sqrt(d) * 2.0**-24 * 0.3
        assert contraction_slack(d, 0.3) == pytest.approx((3 + (d + 8) / 32) * unit, rel=1e-12)
    for options in ({"n_steps": 2000}, {"n_steps": 2000, "batch_size": 5000}):
        wide = BOUNDS._replace(n_parameters=10**6)
        made = plan(math.inf, temperature=20.0, bounds=wide, **options)
        exact = hidden_state_mu_cyclic(*segment(made), made.n_batches).max()
        contraction, _, noise = segment(made)
        slack = contraction_slack(10**6, math.sqrt(2 * made.step_size * 20.0))
        rounding = hidden_state_mu(contraction, np.full(made.n_steps, slack), noise)
        # Whether it is added to the record's own shift or to its cost, it is all there.
        assert made.cost.mu > exact + 0.5 * rounding
        assert made.cost.mu < exact + 1.1 * rounding
        assert rounding > 0.1 * exact


def test_steps_on_batches_are_bounded_by_the_largest_batch():
    """Thirty of a hundred records make four batches of 25; of 101, the largest has 26."""
    bounds = BOUNDS._replace(n_parameters=3, prior_precision=(2.0, 2.0))
    m = 4.0
    for n, largest in ((100, 25), (101, 26)):
        edge = 2 / (2 * m + 4 * largest * 0.25)
        options = {"batch_size": 30, "temperature": 2.0, "n_steps": 40, "n": n, "bounds": bounds}
        assert plan(math.inf, step_size=edge * (1 - 1e-6), **options).step_size < edge
        with pytest.raises(ValueError, match="step_size"):
            plan(math.inf, step_size=edge * (1 + 1e-6), **options)


def test_decreasing_steps_begin_anew_with_every_draw():
    one = plan(math.inf, temperature=20.0, step_decay=0.5, n_steps=3000)
    five = plan(math.inf, temperature=20.0, step_decay=0.5, n_steps=15_000, n_draws=5)
    assert five.step_size == one.step_size
    assert five.relaxations == pytest.approx(one.relaxations)
    assert five.cost.mu == pytest.approx(math.sqrt(5) * one.cost.mu, rel=1e-9)


def test_plans_that_cannot_be_carried_out_are_refused_or_announced():
    with pytest.raises(ValueError, match="would need"):
        plan(bounds=BOUNDS._replace(prior_precision=(1e-14, 1e-14)))
    long = plan(n_steps=10**8)
    assert any("hours" in note for note in long.warnings)
    assert any("batches" in note for note in plan(batch_size=100, n_steps=50).warnings)
    with pytest.raises(ValueError, match="init='ops'"):
        path(init="ops", temperature=1.0)


def test_a_prior_that_decides_everything_is_no_problem():
    bounds = TargetBounds(3, 1.0, 1e-30, (0.3, 0.3), convex=True)
    assert plan(n=50, bounds=bounds).epsilon <= 1.0
