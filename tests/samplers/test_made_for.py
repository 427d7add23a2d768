"""A target that a plan was not made for is refused, also if one of its numbers makes up for another."""

import numpy as np
import pytest
import scipy.sparse as sp

from skdpbayes.models import MixtureModel, make_mixture, make_mlp, mlp_bounds
from skdpbayes.models.families import classifier
from skdpbayes.models.linear import linear_bounds, make_linear
from skdpbayes.privacy import Budget, PrivacyLedger
from skdpbayes.samplers import (
    DPMH,
    OPS,
    SGFS,
    SGHMC,
    SGLD,
    BayesByBackprop,
    NoiseAware,
    sample,
)
from skdpbayes.samplers.mixture.sampler import MixtureSampler
from skdpbayes.samplers.network import NetworkSampler

N, D = 200, 3
BUDGET = Budget(1.0, 1e-6)
ROWS = np.random.default_rng(0).uniform(-1.0, 1.0, (N, D))
WEIGHTED = NoiseAware(), SGHMC(), SGLD(), SGLD(batch_size=50)
UNWEIGHTED = SGFS(), DPMH(), BayesByBackprop(), OPS()
KINDS = [(np.ascontiguousarray, 2), (sp.csr_array, 2), (np.ascontiguousarray, 3), (sp.csr_array, 3)]
IDS = ["dense", "sparse", "dense softmax", "sparse softmax"]
# What the plan is made for.
NORM, CONSTANT, MAX_WEIGHT, PRECISION = 1.0, 0.5, 2.0, 1.0


def precisions(n_classes, precision=PRECISION):
    return np.full((D + 1) * (1 if n_classes == 2 else n_classes), precision)


def bounds_of(n_classes, max_weight):
    total = float(np.hypot(NORM, CONSTANT))
    return linear_bounds(classifier(n_classes), total, precisions(n_classes), CONSTANT, max_weight)


def target_of(form, n_classes, norm=NORM, constant=CONSTANT, max_weight=None, precision=PRECISION):
    weights = None if max_weight is None else np.full(N, max_weight)
    made = precisions(n_classes, precision)
    labels = np.arange(N) % n_classes
    return make_linear(
        form(ROWS), labels, classifier(n_classes), norm, constant, made, weights, max_weight
    )


def refused(target, plan, what):
    with PrivacyLedger(np.inf, 1e-6) as ledger:
        with pytest.raises(ValueError, match=what):
            sample(target, plan, random_state=0)
    assert ledger.records() == []


# Every entry alone or together with others keeps the bound on gradients where it was, or below.
TRADES = {
    "longer rows, smaller weights": (
        {"norm": 10.0, "constant": 5.0, "max_weight": 0.19},
        "row_norm|constant|smooth",
    ),
    "longer rows, the same constant": ({"norm": 10.0, "max_weight": 0.1}, "row_norm|smooth"),
    "shorter rows, larger weights": (
        {"norm": 0.1, "constant": 0.05, "max_weight": 19.0},
        "max_weight",
    ),
    "a smaller constant": ({"norm": float(np.sqrt(1.25 - 0.01)), "constant": 0.1}, "constant"),
    "a larger constant": ({"norm": 0.1, "constant": float(np.sqrt(1.24))}, "constant"),
    "a flatter prior": ({"precision": 0.5}, "precision"),
    "a steeper prior": ({"precision": 2.0}, "precision"),
}


@pytest.mark.parametrize("trade", TRADES)
@pytest.mark.parametrize(("form", "n_classes"), KINDS, ids=IDS)
def test_no_number_of_a_logistic_target_makes_up_for_another(form, n_classes, trade):
    changes, what = TRADES[trade]
    target = target_of(form, n_classes, **{"max_weight": MAX_WEIGHT, **changes})
    for sampler in WEIGHTED:
        refused(target, sampler.plan(bounds_of(n_classes, MAX_WEIGHT), N, BUDGET), what)
    if "max_weight" not in changes:
        target = target_of(form, n_classes, **changes)
        for sampler in UNWEIGHTED:
            refused(target, sampler.plan(bounds_of(n_classes, None), N, BUDGET), what)


@pytest.mark.parametrize(("form", "n_classes"), KINDS, ids=IDS)
def test_the_target_that_it_was_made_for_is_sampled(form, n_classes):
    target = target_of(form, n_classes, max_weight=MAX_WEIGHT)
    for sampler in (NoiseAware(), SGLD()):
        plan = sampler.plan(bounds_of(n_classes, MAX_WEIGHT), N, BUDGET, n_draws=5)
        assert sample(target, plan, random_state=0).shape == (5, precisions(n_classes).size)


def test_weights_need_a_plan_that_knows_of_them():
    weighted = target_of(np.ascontiguousarray, 2, 0.5, 0.25, max_weight=2.0)
    for sampler in (*WEIGHTED, *UNWEIGHTED):
        refused(weighted, sampler.plan(bounds_of(2, None), N, BUDGET), "max_weight|constant")


def test_more_classes_do_not_pass_for_parameters():
    softmax = target_of(np.ascontiguousarray, 3, 0.1, CONSTANT)
    size = softmax.prior_precision.size
    bounds = bounds_of(2, None)._replace(n_parameters=size, gradient_bound=2.0, smoothness=4.0)
    for sampler in (SGFS(), NoiseAware()):
        refused(softmax, sampler.plan(bounds, N, BUDGET), "Softmax")
    refused(softmax, SGFS().plan(bounds._replace(family=None), N, BUDGET), "n_blocks")


def test_a_norm_in_the_plan_does_not_divide_what_gradients_are_bounded_by():
    # In coordinates of the rows, noise is relative to the gradient's bound over the row's.
    bounds = bounds_of(2, None)
    target = target_of(np.ascontiguousarray, 2)
    loose = bounds._replace(row_norm=10 * bounds.row_norm)
    refused(target, SGFS().plan(loose, N, BUDGET), "gradient_bound / row_norm")
    flat = bounds._replace(row_norm=2 * bounds.row_norm, gradient_bound=2 * bounds.gradient_bound)
    refused(target, SGFS().plan(flat, N, BUDGET), "smoothness / row_norm")


def network(sizes=(D, 4, 2), clip_norm=1.0, precision=1.0):
    start = np.zeros(mlp_bounds(sizes, clip_norm, precision).n_parameters)
    labels = np.arange(N) % 2
    return make_mlp(ROWS, labels, 1.0, sizes, "tanh", clip_norm, precision, start)


def test_no_number_of_a_network_makes_up_for_another():
    good = network()
    bounds = mlp_bounds((D, 4, 2), 1.0, 1.0)
    for sampler in (SGHMC(), NetworkSampler(SGHMC(), 0.03)):
        plan = sampler.plan(bounds, N, BUDGET)
        for target, what in (
            (network(clip_norm=2.0), "gradient_bound"),
            (good._replace(clip_norm=2.0), "gradient_bound"),
            (good._replace(gradient_bound=2.0), "gradient_bound"),
            (network(precision=0.5), "precision"),
            (network(sizes=(D, 5, 2)), "parameters"),
            (network()._replace(values=good.values[:-1]), "records"),
        ):
            refused(target, plan, what)
    refused(target_of(np.ascontiguousarray, 2), plan, "network")
    hidden = OPS().plan(bounds._replace(convex=True, clipped=False), N, BUDGET)
    refused(good, hidden, "convex")


def test_a_mixture_s_table_has_the_columns_and_the_norm_of_the_plan():
    def model(n_features, data_norm):
        return MixtureModel(2, n_features, "diag", data_norm, 1.0, 1.0, 5.0, 0.1)

    for budget in (BUDGET, Budget(np.inf, 1e-6)):
        plan = MixtureSampler(NoiseAware()).plan(model(D, 1.0), N, budget)
        for made, what in (
            (make_mixture(ROWS, model(D, 10.0)), "data_norm"),
            (make_mixture(ROWS[:, :2].copy(), model(2, 1.0)), "n_features"),
            (make_mixture(ROWS[1:], model(D, 1.0)), "records"),
            (target_of(np.ascontiguousarray, 2), "parameters"),
        ):
            refused(made, plan, what)
