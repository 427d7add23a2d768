"""Public numbers of absurd size: a plan within its budget, or an error that says what to change."""

import math
import random
import warnings

import numpy as np
import pytest
from references import configured, planned

from skdpbayes import samplers
from skdpbayes.linear_model import DPBayesianLogisticRegression
from skdpbayes.models import Logistic, TargetBounds
from skdpbayes.privacy import Budget

SAMPLERS = [
    samplers.SGLD(),
    samplers.SGLD(step_decay=0.5),
    samplers.SGLD(init="ops"),
    samplers.SGLD(release="last_iterate"),
    samplers.SGHMC(),
    samplers.SGHMC(friction=0.1),
    samplers.SGNHT(),
    samplers.SGFS(),
    samplers.NoiseAware(),
    samplers.OPS(),
    samplers.Auto(),
    samplers.BayesByBackprop(),
    samplers.DPMH(),
    samplers.DPMH(proposal="gaussian"),
    samplers.DPFastMH(),
    samplers.PenaltyMH(),
    samplers.PenaltyMH(adapt_step_size=True),
]
# What an error has to name one of.
REMEDIES = ("prior_scale", "epsilon", "delta", "temperature", "n_steps", "data_norm", "replace_one")


def bounds_of(n_parameters, norm, deviation, apart=1.0):
    """Return bounds of rows of a norm, the largest of which has logits of a prior deviation."""
    low = (norm / deviation) ** 2
    return TargetBounds(
        n_parameters,
        norm,
        norm**2 / 4.0,
        (low, low * apart),
        convex=True,
        row_norm=norm,
        family=Logistic(),
    )


def made_or_explained(sampler, bounds, n_samples, budget, **fixed):
    """Assert that a plan is one, or that an error explains why there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            plan = planned(sampler, bounds, n_samples, budget, **fixed)
        except ValueError as refused:
            assert any(name in str(refused) for name in REMEDIES), refused
            return
        assert plan.epsilon <= budget.epsilon and str(plan)
    for name, value in vars(plan).items():
        pending = isinstance(plan.sampler, samplers.SGFS) and name == "temperature"
        without = name == "epsilon" and not budget.is_private
        assert not isinstance(value, float) or math.isfinite(value) or pending or without, name


@pytest.mark.daily(1)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_plans_of_extreme_numbers_are_plans_or_are_explained(sampler):
    rng = random.Random(repr(sampler))
    for _ in range(40):
        bounds = bounds_of(
            rng.choice([1, 20]),
            rng.choice([1e-60, 1e-30, 1.0, 1e30, 1e60]),
            10.0 ** rng.uniform(-33, 18),
            rng.choice([1.0, 1e8, 1e40]),
        )
        epsilon = rng.choice([1e-12, 1e-6, 1e-2, 1.0, 1e2, math.inf])
        delta = rng.choice([0.0, 1e-300, 1e-15, 1e-6, 0.5])
        relation = rng.choice(["replace_one", "add_or_remove_one"])
        fixed = rng.choice([{}, {}, {"temperature": 1.0}, {"n_steps": 1000}, {"n_draws": 1}])
        n_samples = rng.choice([1, 2, 1000, 10**7])
        made_or_explained(sampler, bounds, n_samples, Budget(epsilon, delta, relation), **fixed)


@pytest.mark.parametrize(
    "sampler, norm, deviation, budget, n_samples, fixed",
    [
        # A division by a step of zero, by an overflowing curvature, and a logarithm of a delta of zero.
        (samplers.SGLD(), 1e30, 2e6, Budget(0.01, 1e-15), 2, {"temperature": 1.0}),
        (samplers.OPS(), 1e60, 3e-14, Budget(1e-2, 1e-6), 1, {}),
        (samplers.SGLD(init="ops"), 1e60, 2.6e-5, Budget(1e-12, 1e-6), 2, {}),
        (samplers.SGFS(), 1e-30, 2.5, Budget(1e-12, 1e-300), 1000, {}),
        (samplers.SGLD(), 1.0, 2.5, Budget(1e-6, 1e-15), 1000, {}),
        (samplers.SGHMC(), 1.0, 1e300, Budget(1.0, 1e-6), 1, {}),
        (samplers.PenaltyMH(), 1e30, 1e200, Budget(1e-6, 1e-6), 1, {}),
        (samplers.DPMH(proposal="gaussian"), 1.0, 1.0, Budget(1e-12, 1e-6), 10, {}),
    ],
    ids=str,
)
def test_what_used_to_end_in_an_arithmetic_error(
    sampler, norm, deviation, budget, n_samples, fixed
):
    made_or_explained(sampler, bounds_of(5, norm, deviation), n_samples, budget, **fixed)


@pytest.mark.parametrize("name", ["n_samples", "n_steps", "n_draws"])
def test_numbers_beyond_a_double_are_refused_by_name(name):
    fixed = {"n_samples": 100, name: 10**400}
    with pytest.raises(ValueError, match=f"{name} must be at most|'{name}' parameter"):
        planned(samplers.SGLD, bounds_of(3, 1.0, 1.0), budget=Budget(1.0, 1e-6), **fixed)


@pytest.mark.parametrize(
    "options, named",
    [
        ({"data_norm": 1e-60, "intercept_scaling": 1e60}, "intercept_scaling=None"),
        ({"data_norm": 1e60, "intercept_scaling": 1e-60}, "intercept_scaling=None"),
        ({"data_norm": 1e-60, "prior_scale": 1e80}, "prior_scale nearer to 1 / data_norm"),
        ({"data_norm": 1e20, "prior_scale": 1e-74}, "prior_scale nearer to 1 / data_norm"),
        (
            {"intercept_prior_scale": 1e-30, "intercept_scaling": 1.0},
            "intercept_prior_scale nearer",
        ),
        ({"temperature": 1e200}, "'temperature' parameter"),
    ],
    ids=str,
)
@pytest.mark.parametrize("sampler", ["auto", "ops", "dp_mh", "penalty", "bbb"])
def test_estimators_name_the_parameters_that_are_too_far_apart(options, named, sampler):
    X, y = np.eye(4, 2), [0, 1, 0, 1]
    clf = DPBayesianLogisticRegression(delta=1e-6, sampler=sampler, random_state=0)
    configured(clf, **options)
    with pytest.raises(ValueError, match=named):
        clf.fit(X, y)
    assert not hasattr(clf, "spent_epsilon_")
