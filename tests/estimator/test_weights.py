"""Weights of records and of classes: what is private about them, and what they do."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from references import configured
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
)
from skdpbayes._data.table import largest_weight
from skdpbayes.exceptions import DataScalingWarning, PrivacyWarning
from skdpbayes.models import potential_gradient, second_moment
from skdpbayes.models.families import classifier
from skdpbayes.models.linear import linear_bounds, linear_prior_precision, make_linear
from skdpbayes.models.sums import reweighted, weighted_scores, weighted_sums
from skdpbayes.privacy import Budget, PrivacyLedger
from skdpbayes.samplers import OPS, SGHMC, SGLD, NoiseAware
from skdpbayes.samplers.statistics.logistic import LogisticLikelihood
from skdpbayes.samplers.statistics.release import posterior_of
from skdpbayes.samplers.statistics.sensitivity import joint_mu_squared

N, FAR = 3000, np.full(4, 1e6)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    y = (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=N) > 0.8).astype(int)
    return X, y, rng.uniform(0, 1, size=N) * (0.2 + 0.8 * (X[:, 2] > X[:, 1]))


def logistic(epsilon=1.0, **options):
    options = {"data_norm": 4.0, "prior_scale": 10.0, "random_state": 0, **options}
    return configured(DPBayesianLogisticRegression(epsilon), **options)


def weighted_target(rows, labels, weights, largest, n_classes=2, constant=0.5):
    precision = linear_prior_precision(classifier(n_classes), rows.shape[1], 2.5, 2.5, constant)
    bounds = linear_bounds(
        classifier(n_classes), math.hypot(1.0, constant), precision, constant, largest
    )
    target = make_linear(
        rows, labels, classifier(n_classes), 1.0, constant, precision, weights, largest
    )
    return target, bounds


# Privacy


def differences(given, whole, other):
    """Distances of all releases between the table they are of and another, in deviations of their noise."""
    plan, link = given.plan, given.family
    transform, norm = given.coordinates.transform, given.coordinates.norm
    moments = [second_moment(t, plan.bounds.constant, t.weights) for t in (whole, other)]
    found = [np.linalg.norm(moments[0] - moments[1]) / given.released.noise]
    table, other = (reweighted(t, transform, norm) for t in (whole, other))
    zero = np.zeros((link.n_blocks, len(transform)))
    sums = [weighted_sums(t, link, None, zero, curvature=False)[0] for t in (table, other)]
    found.append(np.linalg.norm((sums[0] - sums[1]) @ transform) / given.label_sum.noise)
    for noisy_sums, which in ((given.noisy_sums, 0), (given.curvatures, 1)):
        for _, noise, point, *_ in noisy_sums:
            theta = point.reshape(link.n_blocks, -1) @ transform.T
            sums = [weighted_scores(t, link, theta, transform)[which] for t in (table, other)]
            moved = sums[0] - sums[1]
            moved = moved @ transform if which == 0 else moved
            found.append(np.linalg.norm(moved) / noise)
    return np.array(found)


@pytest.mark.daily(2)
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("largest", [0.5, 4.0])
def test_no_two_weighted_records_are_farther_apart_than_is_paid_for(relation, n_classes, largest):
    """Everything that is released, by its exact distances; the worst pair reaches most of what it can."""
    rng = np.random.default_rng(3)
    n, worst = 40, 0.0
    rows = 0.1 * rng.normal(size=(n, 2))
    labels = np.arange(n) % n_classes
    weights = rng.uniform(0, largest, size=n)
    for trial in range(6):
        rows[0], labels[0], weights[0] = [0.0, 1.0], 0, largest
        target, bounds = weighted_target(rows.copy(), labels, weights.copy(), largest, n_classes)
        plan = NoiseAware().plan(bounds, n, Budget(3.0, 1e-6, relation))
        if relation == "add_or_remove_one":
            other, _ = weighted_target(rows[1:], labels[1:], weights[1:], largest, n_classes)
        else:
            rows[0], labels[0] = [[0.0, -1.0], [1.0, 0.0]][trial % 2], trial % n_classes
            weights[0] = largest * [1.0, 0.0, 0.5][trial % 3]
            other, _ = weighted_target(rows.copy(), labels, weights.copy(), largest, n_classes)
        generator = np.random.default_rng(trial)
        _, given = posterior_of(plan, target, LogisticLikelihood, generator)
        found = differences(given, target, other)
        # A score and a curvature at one point count together.
        n_alone = 2 + len(given.noisy_sums)
        together = found[:n_alone] ** 2
        with_curvature = [2 + k for k, m in enumerate(plan.curvature_multipliers) if m is not None]
        together[with_curvature] += found[n_alone:] ** 2
        pairs = zip(plan.score_multipliers, plan.curvature_multipliers, strict=True)
        squares = ([m**-2.0 for m in pair if m is not None] for pair in pairs)
        joint = [joint_mu_squared(plan.family, *each) ** -0.5 for each in squares]
        bounds_of_parts = 1.0 / np.array([plan.moment_multiplier, plan.label_multiplier, *joint])
        assert (np.sqrt(together) <= bounds_of_parts * (1 + 1e-6)).all()
        assert math.hypot(*found) <= plan.cost.mu
        worst = max(worst, math.hypot(*found) / plan.cost.mu)
    assert worst > 0.45  # Of what the three parts can do, one record does not do all at once.


@pytest.mark.nightly
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("largest", [0.5, 4.0])
def test_gradients_of_chains_keep_to_their_bound(n_classes, largest):
    rng, longest = np.random.default_rng(0), 0.0
    for _ in range(60):
        row = rng.normal(size=(1, 2)) * 10.0 ** rng.uniform(-1, 1)
        label = rng.integers(n_classes, size=1)
        target, bounds = weighted_target(row, label, np.array([largest]), largest, n_classes)
        theta = rng.normal(size=bounds.n_parameters) * 10.0 ** rng.uniform(0, 2)
        found = np.linalg.norm(potential_gradient(target, theta, temperature=0.0))
        assert found <= bounds.gradient_bound * (1 + 1e-12)
        longest = max(longest, found / bounds.gradient_bound)
    assert longest > 0.95


def test_noise_is_in_proportion_to_the_largest_weight(table, monkeypatch):
    """Of scores from where nothing is known of probabilities."""
    monkeypatch.setattr(
        LogisticLikelihood, "update_mode", lambda self: vars(self).update(start=FAR)
    )
    monkeypatch.setattr(LogisticLikelihood, "posterior", lambda self: None)
    X, y, w = table
    of_moment, of_labels, of_scores = [], [], []
    for largest in (1.0, 3.0):
        target, bounds = weighted_target(X, y, np.minimum(w, 0.9), largest)
        plan = NoiseAware().plan(bounds, N, Budget(1.0, 1e-6))
        _, given = posterior_of(plan, target, LogisticLikelihood, np.random.default_rng(0))
        of_moment.append(given.released.noise)
        of_labels.append(given.label_sum.noise / given.coordinates.norm)
        of_scores.append(given.noisy_sums[0].noise / given.coordinates.norm)
    assert of_moment[1] == pytest.approx(3.0 * of_moment[0])
    assert of_labels[1] == pytest.approx(3.0 * of_labels[0], rel=1e-6)
    assert of_scores[1] == pytest.approx(3.0 * of_scores[0], rel=1e-3)


def test_weights_beyond_the_maximum_are_cut_without_a_word(table, recwarn):
    X, y, w = table
    cut = logistic(max_sample_weight=0.5).fit(X, y, sample_weight=np.minimum(w, 0.5))
    same = logistic(max_sample_weight=0.5).fit(X, y, sample_weight=w)
    np.testing.assert_array_equal(cut.coef_, same.coef_)
    assert not [warning for warning in recwarn if "eight" in str(warning.message)]


# What weights do


@pytest.mark.nightly
@pytest.mark.parametrize("largest", [1.0, 5.0])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_posteriors_are_around_the_weighted_fit(table, largest, n_classes, is_sparse):
    X, y, w = table
    y = y + (n_classes == 3) * (X[:, 2] > 0.7)
    rows = sp.csr_matrix(X) if is_sparse else X
    w = largest * w
    fit = logistic(100.0, max_sample_weight=largest, data_norm=6.0).fit(rows, y, sample_weight=w)
    weighted, plain = (
        LogisticRegression(C=100).fit(X, y, sample_weight=v).predict_proba(X) for v in (w, None)
    )
    distances = [np.abs(fit.predict_proba(rows) - p).mean() for p in (weighted, plain)]
    # With three classes a line separates one, and draws tell how surely.
    assert distances[0] < (0.015 if n_classes == 2 else 0.035)
    assert distances[0] < 0.5 * distances[1]


def test_class_weights_are_weights_of_their_records(table):
    X, y, _ = table
    named = logistic(5.0, class_weight={1: 3.0}).fit(X, y)
    weights = np.where(y == 1, 3.0, 1.0)
    given = logistic(5.0, max_sample_weight=3.0).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(named.coef_, given.coef_)
    assert named.plan_.bounds.max_weight == 3.0
    assert named.intercept_ > logistic(5.0).fit(X, y).intercept_ + 0.5
    planned = logistic(5.0, class_weight={1: 3.0}).privacy_plan(N, 3)
    assert planned == named.plan_


def test_records_that_count_nothing_are_as_if_they_were_others(table):
    X, y, w = table
    w = np.where(np.arange(N) % 3 == 0, 0.0, w)
    other = np.where(w[:, None] == 0, X[::-1], X)
    fits = [logistic(1.0, classes=[0, 1]).fit(rows, y, sample_weight=w) for rows in (X, other)]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"sampler": "sghmc", "n_steps": 50}])
def test_whether_any_record_counts_is_private(table, options):
    """With and without the only one that does, a fit says the same."""
    X, y, _ = table
    fits, told = [], []
    for weights in (np.zeros(200), np.eye(200)[0], 0.0):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", PrivacyWarning)  # Once per process, of the seed.
            model = logistic(classes=[0, 1], **options)
            fits.append(model.fit(X[:200], y[:200], sample_weight=weights))
        told.append([str(one.message) for one in caught])
    none, one, scalar = fits
    assert none.plan_ == one.plan_ == scalar.plan_
    assert told[0] == told[1] == told[2]
    assert np.isfinite(none.coef_).all()
    np.testing.assert_array_equal(none.coef_, scalar.coef_)


@pytest.mark.daily(1)
@pytest.mark.parametrize("number", [Fraction(1, 3), np.float32(0.1), np.longdouble(1) / 3])
def test_class_weights_are_numbers_of_any_kind(table, number):
    X, y, w = table
    fits = [
        logistic(class_weight={1: of_class, 0: of_class}).fit(X, y, sample_weight=w)
        for of_class in (number, float(number))
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


def test_half_the_weight_is_half_the_information(table):
    X, y, _ = table
    deviations = [
        logistic(200.0, n_draws=2000)
        .fit(X, y, sample_weight=np.full(N, v))
        .posterior_samples_.std(axis=0)
        for v in (1.0, 0.25)
    ]
    ratio = (deviations[1] / deviations[0])[0]
    assert (np.abs(ratio - 2.0) < 0.3).all()


def test_persons_may_have_weights(table):
    X, y, w = table
    groups = np.arange(N) // 2
    fit = logistic(5.0, max_rows_per_group=1).fit(X, y, sample_weight=w, groups=groups)
    assert fit.privacy_cost_.neighboring_relation == "replace_one_person"
    assert fit.plan_.n_samples == N // 2 and fit.plan_.bounds.max_weight == 1.0


def test_without_privacy_a_chain_reads_the_weights(table):
    X, y, w = table
    with pytest.warns():
        fit = logistic(np.inf, n_steps=400, n_draws=100).fit(
            X[:500], y[:500], sample_weight=w[:500]
        )
    assert fit.plan_.name == "sghmc" and fit.plan_.bounds.max_weight == 1.0


# What is refused


@pytest.mark.parametrize(
    "options, weights, named",
    [
        ({"class_weight": "balanced"}, None, "counts the labels"),
        ({"class_weight": {7: 2.0}}, None, "not in classes"),
        ({"class_weight": {0: -1.0}}, None, "non-negative"),
        ({"class_weight": {0: 0.0, 1: 0.0}}, None, "one of them positive"),
        ({"max_sample_weight": 0.0}, None, "max_sample_weight"),
        ({}, -np.ones(N), "Negative values"),
        ({}, np.full(N, np.nan), "NaN"),
        ({}, np.ones(5), "shape"),
        ({"sampler": "dp_fast_mh"}, np.ones(N), "'noise_aware'"),
        ({"sampler": "sgfs"}, np.ones(N), "'noise_aware'"),
        ({"sampler": OPS()}, np.ones(N), "'noise_aware'"),
        ({"sampler": SGLD(release="last_iterate")}, np.ones(N), "does not support sample weights"),
        ({"sampler": SGHMC(init="ops")}, np.ones(N), "does not support sample weights"),
        ({"sampler": "bbb", "class_weight": {0: 2.0}}, None, "class weights"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_spent(table, options, weights, named):
    X, y, _ = table
    with PrivacyLedger(10.0, 1e-5) as ledger, pytest.raises(ValueError, match=named):
        logistic(**options).fit(X, y, sample_weight=weights)
    assert ledger.spent_epsilon == 0


@pytest.mark.parametrize(
    "weight", ["Jane Doe 12345", {"Jane Doe": 12345}, 1.0 + 12345.0j, "12345 years"]
)
@pytest.mark.parametrize("frame", [list, pd.Series])
def test_weights_that_are_no_numbers_are_not_quoted(table, weight, frame):
    X, y, w = table
    with pytest.raises(ValueError, match="sample_weight must hold real numbers") as caught:
        logistic().fit(X, y, sample_weight=frame([*w[1:].tolist(), weight]))
    assert "12345" not in repr(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_the_largest_weight_is_public():
    assert largest_weight(None, 2, None) is None
    assert largest_weight(None, 2, 3.0) == 3.0
    assert largest_weight({0: 0.2}, 2, None) == 1.0
    assert largest_weight({0: 0.2, 1: 0.5}, 2, None) == 0.5
    assert largest_weight({0: 0.2, 1: 0.5}, 2, 4.0) == 2.0


def test_targets_refuse_weights_beyond_their_maximum():
    with pytest.raises(ValueError, match="from 0 to max_weight"):
        weighted_target(np.zeros((2, 1)), np.array([0, 1]), np.array([0.5, 1.5]), 1.0)


def test_weights_are_routed(table):
    X, y, w = table
    with sklearn.config_context(enable_metadata_routing=True):
        model = logistic(classes=[0, 1]).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        found = cross_validate(
            model, X, y, params={"sample_weight": w}, cv=2, return_estimator=True
        )
    assert all(fit.plan_.bounds.max_weight == 1.0 for fit in found["estimator"])


@pytest.mark.daily(2)
@pytest.mark.parametrize(
    "model, fill",
    [
        (DPBayesianLogisticRegression(classes=[0, 1]), 1),
        (DPBayesianLogisticRegression(classes=[0, 1, 2]), 2),
        (DPBayesianLogisticRegression(classes=["no", "yes"]), "no"),
        (DPBayesianRidge(target_bounds=(-3, 3)), 3),
        (DPBayesianPoissonRegressor(max_count=8), 8),
    ],
    ids=["two classes", "three classes", "names", "ridge", "counts"],
)
def test_rows_without_an_outcome_count_for_nothing_and_cost_nothing(model, fill):
    """Whatever fills the outcome and however many lack one, plan and draws are those of the rest."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4000, 2))
    z = 1.5 * X[:, 0] + rng.normal(size=4000)
    of_kind = {1: z > 0, 2: np.digitize(z, [-0.7, 0.7]), "no": np.where(z > 0, "yes", "no"), 3: z}
    y = pd.Series(of_kind[fill] if fill in of_kind else rng.poisson(np.exp(X[:, 0])))
    y = y.clip(-3, 3) if fill == 3 else y.clip(0, 8) if fill == 8 else y
    y = y.astype(float) if y.dtype.kind in "bif" else y.astype(object)
    lacking = pd.Series(np.arange(4000) % 3 == 0)
    missing = y.mask(lacking)
    model = clone(model).set_params(epsilon=2.0, delta=1e-6, random_state=1, n_draws=100)
    with pytest.raises(ValueError, match="sample_weight=0|with any valid y"):
        model.fit(X, missing)
    first = clone(model).fit(X, missing.fillna(fill), sample_weight=missing.notna())
    other = clone(model).fit(X, y, sample_weight=missing.notna())
    n_classes = () if fill in (3, 8) else (2,)
    plain = model.privacy_plan(4000, 2, *n_classes)
    assert first.plan_.cost == other.plan_.cost and first.plan_.n_samples == 4000
    assert first.spent_epsilon_ == pytest.approx(plain.epsilon, rel=1e-6)
    np.testing.assert_array_equal(first.posterior_samples_, other.posterior_samples_)
    rest = clone(model).fit(X[~lacking], y[~lacking].reset_index(drop=True))
    last = -1 if rest.posterior_samples_.shape[1] > 1 else 0
    slopes = [each.posterior_samples_[:, last, 0] for each in (first, rest)]
    spread = np.hypot(*(each.std() for each in slopes))
    assert abs(slopes[0].mean() - slopes[1].mean()) < 4 * spread
    assert slopes[0].mean() > 0


def texts_of(model, **given):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X_TOLD, X_TOLD[:, 0] > 0, **given)
    of_weights = [one for one in caught if "weights" in str(one.message)]
    assert all(one.category is DataScalingWarning for one in of_weights)
    return [str(one.message) for one in caught]


X_TOLD = np.random.default_rng(0).uniform(-1, 1, (500, 2))


@pytest.mark.parametrize(
    "of_classes, told", [({False: 3.0}, 1), ({False: 1.0, True: 0.2}, 0), (None, 0)]
)
def test_weights_of_classes_above_one_are_told_of(of_classes, told):
    model = DPBayesianLogisticRegression(classes=[False, True], class_weight=of_classes)
    found = [text for text in texts_of(model) if "Divide all weights by the largest, 3" in text]
    assert len(found) == told


@pytest.mark.parametrize(
    "weights, largest, told",
    [
        (np.ones(500), 1.0, 1),
        (np.zeros(500, int), 1.0, 1),
        (np.full(500, 7.0), 1.0, 1),  # The values do not matter.
        (np.ones(500), 2.0, 0),
        (np.ones(500, bool), 1.0, 0),
        (pd.Series(np.ones(500, bool)), 1.0, 0),
        (pd.Series(np.ones(500, bool), dtype="boolean"), 1.0, 0),
        (True, 1.0, 0),
        (None, 1.0, 0),
    ],
)
def test_weights_at_the_default_maximum_are_told_of_by_their_type(weights, largest, told):
    model = DPBayesianLogisticRegression(classes=[False, True], max_sample_weight=largest)
    found = [text for text in texts_of(model, sample_weight=weights) if "count as 1" in text]
    assert len(found) == told


def test_a_list_of_booleans_counts_and_is_told_why_it_is_told_of():
    marks = [True, False] * 250
    model = DPBayesianLogisticRegression(classes=[False, True], epsilon=np.inf, random_state=0)
    (text,) = [t for t in texts_of(model, sample_weight=marks) if "max_sample_weight" in t]
    assert "True and False count as 1 and 0" in text and "and a list is" in text
    array = clone(model).fit(X_TOLD, X_TOLD[:, 0] > 0, sample_weight=np.array(marks))
    np.testing.assert_array_equal(model.posterior_samples_, array.posterior_samples_)
