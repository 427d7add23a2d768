"""How much draws count in predictions: as if large prior scales were less probable, in predictions only."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, softmax
from scipy.stats import multivariate_normal

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.models import TargetBounds
from skdpbayes.samplers.statistics.prior import Group, Prior, SplitLogNormal, prior_of

WIDE, NARROW = SplitLogNormal(1.2, 0.7, 1.4), SplitLogNormal(1.2, 0.7, 0.7)
rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, size=(3_000, 6))
LOGITS = X @ np.array([1.0, -1.0, 0.5, 0.0, 0.0, 0.0])


def fitted(n_classes, epsilon=0.1, **options):
    noise = np.random.default_rng(1).gumbel(size=(len(X), n_classes))
    y = (LOGITS[:, None] * np.arange(n_classes) + noise).argmax(axis=1)
    return DPBayesianLogisticRegression(epsilon, 1e-5, random_state=0, **options).fit(X, y)


@pytest.fixture(scope="module", params=[2, 3])
def model(request):
    return fitted(request.param)


def weights_of(model):
    return model.plan_.sampler.importance_weights(model.released_, model.posterior_samples_)


def probabilities(draws, weights):
    """Return averages for some rows, which fit into the norm."""
    logits = np.einsum("skd,nd->snk", draws[:, :, :-1], X[:50]) + draws[:, None, :, -1]
    of_draws = expit(logits) if logits.shape[2] == 1 else softmax(logits, axis=2)
    return np.tensordot(weights, of_draws, 1)


# What they are


def density(law):
    """Return the probabilities of scales on the grid."""
    logs = Group.learnt(np.eye(1), 1).logs
    away = logs - np.log(law.mode)
    return softmax(-0.5 * (away / np.where(away < 0.0, law.below, law.above)) ** 2)


def test_weights_are_ratios_of_priors_under_two_laws_of_scales(rng):
    """Of four parts in five the narrow one, against sums of normal densities."""
    root = rng.normal(size=(3, 3))
    precision = root @ root.T + np.eye(3)
    covariance = np.linalg.inv(precision)
    prior = Prior((Group.learnt(precision, 3, WIDE, NARROW),))
    points = rng.normal(size=(30, 3)) * np.geomspace(0.1, 30.0, 30)[:, None]
    normal = np.transpose(
        [
            multivariate_normal.pdf(points, cov=np.exp(2.0 * log) * covariance)
            for log in prior.groups[0].logs
        ]
    )
    wanted = normal @ (0.8 * density(NARROW) + 0.2 * density(WIDE)) / (normal @ density(WIDE))
    np.testing.assert_allclose(prior.importance_weights(points), wanted / wanted.sum(), rtol=1e-9)


def test_no_weight_is_far_below_the_others(rng):
    """So that averages are over many draws, even if draws of large and of small scales are as many."""
    group = Group.learnt(np.eye(5), 5, WIDE, NARROW)
    points = np.geomspace(1e-3, 1e6, 200)[:, None] * rng.normal(size=(200, 5))
    weights = Prior((group,)).importance_weights(points)
    assert weights.max() / weights.min() < 8.0
    assert 1.0 / np.sum(weights**2) > 0.5 * len(points)


def test_large_coefficients_count_less(model):
    """Those of intercepts, whose law is narrow anyway, do not matter."""
    draws, weights = model.posterior_samples_, weights_of(model)
    assert weights.sum() == pytest.approx(1.0)
    sizes = np.linalg.norm(draws[:, :, :-1] - draws[:, :, :-1].mean(axis=1, keepdims=True), axis=2)
    if draws.shape[1] == 1:
        sizes = np.abs(np.linalg.norm(draws[:, 0, :-1], axis=1))[:, None]
    order = np.argsort(np.sum(sizes**2, axis=1))
    assert (np.diff(weights[order]) < 1e-12).mean() > 0.9
    assert weights[order[:100]].sum() > 1.2 * weights[order[-100:]].sum()
    moved = draws.copy()
    moved[:, :, -1] += 3.0
    again = model.plan_.sampler.importance_weights(model.released_, moved)
    np.testing.assert_allclose(again, weights, rtol=1e-9)


def test_a_scale_that_is_given_has_no_other_law_in_predictions():
    weights = weights_of(fitted(2, prior_scale=1.0))
    np.testing.assert_allclose(weights, 1.0 / 400.0, rtol=1e-12)
    bounds = TargetBounds(4, 1.0, 0.25, (1.0, 1.0), constant=0.5, learns_scales=(True, True))
    coefficients, intercept = prior_of(bounds, 1, np.ones(4), np.eye(4)).groups
    assert not np.array_equal(coefficients.in_predictions, coefficients.weights)
    assert intercept.in_predictions is None


@pytest.mark.parametrize("options", [{"sampler": "sghmc"}, {"epsilon": np.inf}])
@pytest.mark.filterwarnings("ignore")
def test_draws_of_others_count_the_same(options):
    assert weights_of(fitted(2, **options)) is None


# What they are good for


@pytest.mark.daily(1)
def test_averages_are_those_of_draws_under_the_other_law(model):
    """Against chains of their own, to the error of so many draws."""
    posterior = model.released_["posterior"]
    coefficients, intercept = posterior.density.prior.groups
    other = Prior((replace(coefficients, weights=coefficients.in_predictions), intercept))
    own = replace(posterior, density=replace(posterior.density, prior=other))
    unit, shape = model.released_["coordinate_scale"], (-1, *model.posterior_samples_.shape[1:])
    n_draws = 8_000
    wide, narrow = (
        (each.draw(n_draws, np.random.default_rng(2)).reshape(shape) * unit)
        for each in (posterior, own)
    )
    equal = np.full(n_draws, 1.0 / n_draws)
    weighed = probabilities(wide, model.plan_.sampler.importance_weights(model.released_, wide))
    wanted, unweighed = probabilities(narrow, equal), probabilities(wide, equal)
    off, off_without = np.abs(weighed - wanted).mean(), np.abs(unweighed - wanted).mean()
    assert off < 0.4 * off_without, (off, off_without)


def test_predictions_take_them(model):
    draws, weights = model.posterior_samples_, weights_of(model)
    wanted = probabilities(draws, weights)
    columns = [1] if model.classes_.size == 2 else slice(None)
    for rows in (X[:50], pytest.importorskip("scipy.sparse").csr_matrix(X[:50])):
        found = model.predict_proba(rows)
        np.testing.assert_allclose(found[:, columns], wanted, atol=1e-6)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(rows)), found, atol=1e-6)
    without = probabilities(draws, np.full(400, 1.0 / 400.0))
    assert np.abs(wanted - without).max() > 1e-3
    scores = model.decision_function(X[:50])
    if model.classes_.size == 2:
        np.testing.assert_allclose(expit(scores), found[:, 1], atol=1e-6)
    else:
        np.testing.assert_allclose(np.exp(scores), found, atol=1e-6)


def test_intervals_means_and_new_draws_do_not(model):
    draws, weights = model.posterior_samples_, weights_of(model)
    ends = np.moveaxis(np.quantile(draws, [0.05, 0.95], axis=0), 0, -1)
    np.testing.assert_allclose(model.posterior_interval(0.9), ends, rtol=1e-9)
    np.testing.assert_allclose(model.coef_, draws[:, :, :-1].mean(axis=0))
    assert np.abs(np.tensordot(weights, draws[:, :, :-1], 1) - model.coef_).max() > 1e-3
    own = model.released_["posterior"].draw(100, np.random.default_rng(1))
    new = model.sample_posterior(100, random_state=np.random.default_rng(1))
    np.testing.assert_array_equal(new, own.reshape(new.shape) * model.released_["coordinate_scale"])


@pytest.mark.parametrize(
    "options",
    [
        {"sample_weight": np.linspace(0.1, 1.0, len(X))},
        {"groups": np.arange(len(X)) // 2},
    ],
)
def test_weights_of_rows_and_persons_have_them_as_well(options):
    persons = {
        "max_rows_per_group": 2,
        "neighboring_relation": "add_or_remove_one",
        "public_size": 3_000,
    }
    y = (LOGITS + rng.logistic(size=len(X)) > 0).astype(int)
    clf = DPBayesianLogisticRegression(
        0.1, 1e-5, random_state=0, **(persons if "groups" in options else {})
    ).fit(X, y, **options)
    weights = weights_of(clf)
    assert weights.max() > 1.1 * weights.min()
    wanted = probabilities(clf.posterior_samples_, weights)
    np.testing.assert_allclose(clf.predict_proba(X[:50])[:, [1]], wanted, atol=1e-6)


def test_blocks_of_a_collection_have_the_same(model):
    array = pytest.importorskip("dask.array")
    found = model.predict_proba(array.from_array(X, chunks=(1_000, -1)))
    np.testing.assert_array_equal(np.asarray(found), model.predict_proba(X))


def test_a_group_that_was_pickled_without_such_a_law_weighs_nothing(rng):
    group = Group.learnt(np.eye(2), 2, WIDE, NARROW)
    del group.__dict__["in_predictions"]
    np.testing.assert_allclose(Prior((group,)).importance_weights(rng.normal(size=(4, 2))), 0.25)
