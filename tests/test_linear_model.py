"""DPBayesianLogisticRegression as its users meet it."""

import copy
import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from references import configured
from scipy.special import expit, log_softmax, logsumexp, softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor, DPBayesianRidge
from skdpbayes._estimator.classifier import (
    average_binary,
    average_binary_rows,
    average_softmax,
    expansion,
    fits_single_precision,
)
from skdpbayes.models.linear import make_linear
from skdpbayes.preprocessing import BoundedScaler, RowNormClipper, row_scales

X, y = make_classification(3000, 6, n_informative=4, n_redundant=0, random_state=0)
X3, y3 = make_classification(3000, 6, n_informative=4, n_classes=3, random_state=1)


def make(**options):
    return configured(DPBayesianLogisticRegression(random_state=0, sampler="sgld"), **options)


@pytest.fixture(scope="module")
def binary():
    return make().fit(X, y)


@pytest.fixture(scope="module")
def ternary():
    return make(epsilon=3.0).fit(X3, np.array(["a", "b", "c"])[y3])


def test_fitted_attributes(binary, ternary):
    assert binary.posterior_samples_.shape == (100, 1, 7)
    assert binary.coef_.shape == (1, 6) and binary.intercept_.shape == (1,)
    assert ternary.posterior_samples_.shape == (100, 3, 7)
    assert ternary.coef_.shape == (3, 6) and ternary.intercept_.shape == (3,)
    assert list(ternary.classes_) == ["a", "b", "c"]
    for clf in (binary, ternary):
        mean = clf.posterior_samples_.mean(axis=0)
        np.testing.assert_allclose(clf.coef_, mean[:, :-1])
        np.testing.assert_allclose(clf.intercept_, mean[:, -1])
        assert clf.n_features_in_ == 6
        assert clf.n_iter_ == clf.plan_.n_steps
        assert clf.temperature_ == clf.plan_.temperature >= 1
        assert 0.99 * clf.epsilon < clf.spent_epsilon_ <= clf.epsilon
        assert clf.spent_delta_ == 1e-5
        assert clf.privacy_cost_.epsilon(clf.spent_delta_) == clf.spent_epsilon_
    without = make(fit_intercept=False).fit(X, y)
    assert without.posterior_samples_.shape == (100, 1, 6)
    assert without.intercept_ == 0.0


def test_every_fitted_attribute_is_public(binary):
    """Nothing is kept but draws, their summaries, the plan and the schema of the table."""
    assert set(vars(binary)) - set(binary.get_params()) == {
        "classes_",
        "coef_",
        "data_norm_",
        "importance_weights_",
        "intercept_",
        "n_features_in_",
        "n_iter_",
        "_charges_of_fit",  # Numbers in ledgers.
        "_parameters_of_fit",
        "plan_",
        "posterior_samples_",
        "privacy_cost_",
        "released_",
        "spent_delta_",
        "spent_epsilon_",
        "temperature_",
    }


def test_what_is_released_is_documented():
    rows, labels = X[:500], y[:500]
    model = DPBayesianLogisticRegression(random_state=0).fit(rows, labels)
    ridge = DPBayesianRidge((-1, 1), random_state=0).fit(rows, labels)
    counts = DPBayesianPoissonRegressor(max_count=1, sampler="clipped_residuals", random_state=0)
    counts.fit(rows, labels, exposure=np.ones(500))
    for fitted in (model, ridge, counts):
        shared = type(fitted).__doc__ + DPBayesianLogisticRegression.__doc__
        missing = [key for key in fitted.released_ if f"``{key}``" not in shared]
        assert not missing, f"{type(fitted).__name__}: {missing}"


def test_draws_that_are_set_have_weights_of_their_own():
    model = DPBayesianLogisticRegression(random_state=0).fit(X[:500], y[:500])
    other = copy.copy(model)
    other.posterior_samples_ = 2.0 * model.posterior_samples_
    expected = model.plan_.sampler.importance_weights(model.released_, other.posterior_samples_)
    np.testing.assert_array_equal(other.importance_weights_, expected)
    assert np.abs(expected - model.importance_weights_).max() > 1e-4
    assert np.abs(other.predict_proba(X[:50]) - model.predict_proba(X[:50])).max() > 1e-3


def test_predictions_average_over_the_draws(binary, ternary):
    rows = X[:50] * np.minimum(1, np.sqrt(6) / np.linalg.norm(X[:50], axis=1))[:, None]
    draws = binary.posterior_samples_[:, 0]
    expected = expit(rows @ draws[:, :-1].T + draws[:, -1]).mean(axis=1)
    np.testing.assert_allclose(binary.predict_proba(X[:50])[:, 1], expected, rtol=1e-6)
    rows = X3[:50] * np.minimum(1, np.sqrt(6) / np.linalg.norm(X3[:50], axis=1))[:, None]
    draws = ternary.posterior_samples_
    logits = np.einsum("ij,skj->isk", rows, draws[:, :, :-1]) + draws[:, :, -1]
    expected = softmax(logits, axis=2).mean(axis=1)
    np.testing.assert_allclose(ternary.predict_proba(X3[:50]), expected, rtol=1e-6)


def test_proba_decision_and_prediction_agree(binary, ternary):
    proba = binary.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_allclose(expit(binary.decision_function(X)), proba[:, 1], rtol=1e-9)
    np.testing.assert_array_equal(binary.predict(X), (binary.decision_function(X) > 0).astype(int))
    np.testing.assert_allclose(binary.predict_log_proba(X), np.log(proba))
    log_proba = ternary.decision_function(X3)
    np.testing.assert_allclose(np.exp(log_proba), ternary.predict_proba(X3))
    np.testing.assert_array_equal(ternary.predict(X3), ternary.classes_[log_proba.argmax(axis=1)])


def test_certain_predictions_stay_finite():
    clf = make(epsilon=np.inf, data_norm=1e3, prior_scale=10.0, n_steps=400, n_draws=50)
    clf.fit(X[:30], y[:30])
    far = 1e3 * X[:30]
    assert np.isfinite(clf.decision_function(far)).all()
    assert np.isfinite(clf.predict_log_proba(far)).all()


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    "epsilon, low, high", [(0.02, 0.01, 0.2), (0.3, -1e-3, 0.01), (3, -1e-3, 2e-3)]
)
def test_predictions_come_near_those_without_privacy(epsilon, low, high):
    big, labels = make_classification(20_000, 8, n_informative=5, class_sep=0.8, random_state=3)
    clipped = RowNormClipper(np.sqrt(8)).fit_transform(big)
    reference = LogisticRegression(C=100.0).fit(clipped, labels)
    best = log_loss(labels, reference.predict_proba(clipped))
    loss = log_loss(labels, make(epsilon=epsilon).fit(big, labels).predict_proba(big))
    assert low < loss - best < high


def test_without_privacy_the_posterior_mean_is_near_the_mode():
    data, labels = X[:400], y[:400]
    norm = np.linalg.norm(data, axis=1).max()
    clf = make(epsilon=np.inf, data_norm=norm, prior_scale=1.0, n_draws=2000, n_steps=60_000)
    clf.fit(data, labels)
    mode = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-8).fit(
        np.column_stack([data, np.ones(400)]), labels
    )
    deviation = clf.posterior_samples_[:, 0].std(axis=0)
    mean = np.append(clf.coef_[0], clf.intercept_[0])
    assert (np.abs(mean - mode.coef_[0]) < 0.35 * deviation).all()
    assert clf.plan_.budget.epsilon == np.inf


def test_intercept_scaling_changes_no_posterior():
    data, labels = X[:300], y[:300]
    fits = [
        make(
            epsilon=np.inf, prior_scale=0.7, intercept_scaling=b, n_steps=80_000, n_draws=4000
        ).fit(data, labels)
        for b in (None, 0.5, 2.0)
    ]
    deviation = fits[0].posterior_samples_[:, 0].std(axis=0)
    for other in fits[1:]:
        gap = np.append(other.coef_[0] - fits[0].coef_[0], other.intercept_ - fits[0].intercept_)
        assert (np.abs(gap) < 0.25 * deviation).all()
        np.testing.assert_allclose(other.posterior_samples_[:, 0].std(axis=0), deviation, rtol=0.15)


def test_norm_bound_and_prior_follow_the_documented_rules():
    plan = make().privacy_plan(1000, 16)
    bound = np.hypot(4.0, 2.0)  # data_norm = sqrt(16); the constant column is half of it.
    assert plan.bounds.gradient_bound == pytest.approx(bound)
    assert plan.bounds.smoothness == pytest.approx(bound**2 / 4)
    assert plan.bounds.prior_precision == pytest.approx((1 / 0.625**2,) * 2)
    plan = make(data_norm=3.0, prior_scale=2.0).privacy_plan(1000, 16)
    assert plan.bounds.gradient_bound == pytest.approx(np.hypot(3.0, 1.0))
    assert plan.bounds.prior_precision == pytest.approx((0.25, 0.25))
    plan = make(data_norm=3.0, prior_scale=2.0, intercept_scaling=0.5).privacy_plan(1000, 16)
    assert plan.bounds.gradient_bound == pytest.approx(np.hypot(3.0, 0.5))
    assert plan.bounds.prior_precision == pytest.approx((0.0625, 0.25))
    plan = make(data_norm=3.0, intercept_prior_scale=1.0, fit_intercept=False).privacy_plan(100, 4)
    assert plan.bounds.gradient_bound == pytest.approx(3.0)
    plan = make(data_norm=3.0, fit_intercept=False).privacy_plan(1000, 16, n_classes=3)
    assert plan.bounds.gradient_bound == pytest.approx(np.sqrt(2) * 3.0)
    assert plan.bounds.n_parameters == 48


def test_the_plan_beforehand_is_the_plan_that_is_carried_out(binary):
    plan = make().privacy_plan(3000, 6)
    assert plan == binary.plan_
    assert plan.epsilon == binary.spent_epsilon_
    assert "replace-one" in str(plan)


def test_sample_posterior_subsamples_without_replacement(binary):
    everything = binary.sample_posterior()
    np.testing.assert_array_equal(everything, binary.posterior_samples_)
    everything[:] = 0
    assert binary.posterior_samples_.any(), "a copy"
    some = binary.sample_posterior(40, random_state=0)
    assert some.shape == (40, 1, 7)
    assert len(np.unique(some[:, 0, 0])) == 40
    np.testing.assert_array_equal(some, binary.sample_posterior(40, random_state=0))
    assert set(some[:, 0, 0]) <= set(binary.posterior_samples_[:, 0, 0])
    for wrong in (101, 0, -1, 2.5, "all", True):
        with pytest.raises(ValueError, match="n_draws"):
            binary.sample_posterior(wrong)


# Kinds of tables


@pytest.mark.parametrize("labels", [y, y3])
def test_sparse_float32_memmap_and_frames_agree(tmp_path, labels):
    expected = make().fit(X, labels).posterior_samples_
    path = tmp_path / "table.npy"
    np.save(path, X)
    tables = {
        "csr array": sp.csr_array(X),
        "csr matrix": sp.csr_matrix(X),
        "csc": sp.csc_array(X),
        "memmap": np.load(path, mmap_mode="r"),
        "fortran": np.asfortranarray(X),
        "pandas": pd.DataFrame(X, columns=list("abcdef")),
        "polars": pl.DataFrame(X, schema=list("abcdef")),
        "list": X.tolist(),
    }
    for kind, table in tables.items():
        clf = make().fit(table, labels)
        np.testing.assert_allclose(clf.posterior_samples_, expected, atol=1e-5, err_msg=kind)
        assert clf.predict_proba(table).shape[0] == 3000
    single = make().fit(X.astype(np.float32), labels).posterior_samples_
    np.testing.assert_allclose(single, expected, atol=1e-4)


def test_feature_names_are_kept():
    for frame in (pd.DataFrame, pl.DataFrame):
        clf = make().fit(frame({f"x{j}": X[:, j] for j in range(6)}), y)
        assert list(clf.feature_names_in_) == [f"x{j}" for j in range(6)]


def test_a_table_is_never_copied_nor_made_dense(monkeypatch):
    seen = {}

    def spy(*args):
        seen["values"] = make_linear(*args).values
        return make_linear(*args)

    monkeypatch.setattr("skdpbayes.models.linear.make_linear", spy)
    wide = sp.random(2000, 5_000, density=1e-3, random_state=0, format="csr")
    make(n_steps=140).fit(wide, np.arange(2000) % 2)
    assert np.shares_memory(seen["values"], wide.data)
    make(n_steps=140).fit(X, y)
    assert np.shares_memory(seen["values"], X)
    small = X.astype(np.float32)
    make(n_steps=140).fit(small, y)
    assert np.shares_memory(seen["values"], small)


@pytest.mark.nightly
def test_wide_sparse_tables_fit_in_little_memory():
    import tracemalloc

    wide = sp.random(5000, 20_000, density=1e-4, random_state=0, format="csr")
    labels = np.arange(5000) % 2
    clf = make(n_steps=140, n_draws=20)
    clf.fit(wide, labels)
    tracemalloc.start()
    clf.fit(wide, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * clf.plan_.memory_bytes + 2**21 < 5000 * 20_000 * 8 / 10


def test_rows_are_clipped_in_fit_and_in_prediction():
    longer = X * np.where(np.arange(3000) % 2, 100.0, 1.0)[:, None]
    norms = np.linalg.norm(longer, axis=1)
    clipped = longer * np.minimum(1, 2.0 / norms)[:, None]
    given, expected = (make(data_norm=2.0).fit(table, y) for table in (longer, clipped))
    np.testing.assert_allclose(given.coef_, expected.coef_, atol=1e-6)
    np.testing.assert_allclose(given.predict_proba(longer), expected.predict_proba(clipped))


@pytest.mark.parametrize("table", [lambda t: t, sp.csr_array])
def test_absurdly_long_rows_are_clipped_without_overflow(table):
    absurd = X.copy()
    absurd[::7] *= 1e300 / np.abs(X).max()
    absurd[::11] = np.finfo(float).max
    clipped = X.copy()
    clipped[::7] *= np.sqrt(6) / np.linalg.norm(X[::7], axis=1)[:, None]
    clipped[::11] = 1.0
    clf, expected = make().fit(table(absurd), y), make().fit(table(clipped), y)
    np.testing.assert_allclose(clf.coef_, expected.coef_, atol=1e-6)
    assert np.isfinite(clf.predict_proba(table(absurd))).all()


@pytest.mark.parametrize("value", [1e308, 1.0, 5e-324])
def test_one_sparse_record_of_many_entries_moves_no_draw_to_infinity(value):
    entries = np.concatenate([np.full(3, value / 4), X[1:].ravel()])
    columns = np.concatenate([np.zeros(3, int), np.tile(np.arange(6), 2999)])
    starts = np.concatenate([[0], 3 + 6 * np.arange(3000)])
    clf = make().fit(sp.csr_array((entries, columns, starts), shape=(3000, 6)), y)
    assert np.isfinite(clf.posterior_samples_).all()


def test_constant_and_zero_columns_are_no_problem():
    table = np.column_stack([X, np.zeros(3000), np.ones(3000)])
    clf = make().fit(table, y)
    assert np.isfinite(clf.coef_).all()


# Labels


def test_declared_classes_include_absent_ones(binary):
    clf = make(classes=[0, 1, 2]).fit(X, y)
    assert list(clf.classes_) == [0, 1, 2]
    assert clf.predict_proba(X).shape == (3000, 3)
    only = make(classes=["no", "yes"]).fit(X, np.full(3000, "yes"))
    assert only.score(X, np.full(3000, "yes")) > 0.9
    same = make(classes=[1, 0]).fit(X, y)
    np.testing.assert_array_equal(same.posterior_samples_, binary.posterior_samples_)


def test_undeclared_labels_are_refused_without_being_quoted():
    secret = np.where(np.arange(3000) == 17, "rare-disease", "no").astype(object)
    with pytest.raises(ValueError, match="not in classes") as caught:
        make(classes=["no", "yes"]).fit(X, secret)
    assert "rare" not in str(caught.value)


def test_boolean_and_string_labels():
    clf = make().fit(X, y.astype(bool))
    assert clf.classes_.dtype == bool and clf.predict(X).dtype == bool
    assert set(make().fit(X, np.where(y, "good", "bad")).predict(X)) <= {"good", "bad"}


# Neighbouring relations and steps


def test_add_or_remove_one_uses_the_public_size_only():
    options = {"neighboring_relation": "add_or_remove_one", "public_size": 2500}
    full = make(**options, batch_size=2400).fit(X, y)
    fewer = make(**options, batch_size=2400).fit(X[:2000], y[:2000])
    assert full.plan_ == fewer.plan_, "the plan does not know the table's size"
    assert full.plan_.n_samples == 2500
    assert full.spent_delta_ == fewer.spent_delta_
    plan = make(**options).privacy_plan(10, 6)
    assert plan.n_samples == 2500


def test_poisson_batches_and_decreasing_steps():
    clf = make(batch_size=1500, n_steps=800, step_decay=1 / 3, epsilon=2.0).fit(X, y)
    assert clf.score(X, y) > 0.6
    assert clf.spent_epsilon_ <= 2.0
    assert clf.privacy_cost_.sampled and clf.privacy_cost_.mu == 0


def test_composition_of_fits(binary):
    both = binary.privacy_cost_ + binary.privacy_cost_
    assert 1.3 < both.epsilon(1e-5) < 1.6


# scikit-learn's tools


def test_grid_search_over_epsilon_in_two_processes():
    pipeline = make_pipeline(BoundedScaler(-3.0, 3.0), make(delta=1e-6))
    grid = {"dpbayesianlogisticregression__epsilon": [0.1, 1.0, 10.0]}
    for n_jobs in (1, 2):
        search = GridSearchCV(pipeline, grid, cv=3, n_jobs=n_jobs, scoring="neg_log_loss")
        search.fit(X, y)
        assert search.best_params_["dpbayesianlogisticregression__epsilon"] > 0.5
        assert search.best_estimator_[-1].spent_epsilon_ <= 10.0


def test_column_transformer_cross_validation_and_calibration():
    frame = pd.DataFrame({"age": 50 + 10 * X[:, 0], "group": np.where(X[:, 1] > 0, "a", "b")})
    encode = make_column_transformer(
        (BoundedScaler(0, 110), ["age"]),
        (OneHotEncoder(categories=[["a", "b", "c"]]), ["group"]),
    )
    pipeline = make_pipeline(encode, make(epsilon=3.0, data_norm=1.5))
    assert cross_val_score(pipeline, frame, y, cv=3).min() > 0.5
    calibrated = CalibratedClassifierCV(make(), cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (3000, 2)


def test_clone_pickle_joblib_and_reprs(tmp_path, binary):
    assert clone(binary).get_params() == binary.get_params()
    assert not hasattr(clone(binary), "coef_")
    copy = pickle.loads(pickle.dumps(binary))
    joblib.dump(binary, tmp_path / "model.joblib")
    for other in (copy, joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(other.predict_proba(X), binary.predict_proba(X))
        assert other.plan_ == binary.plan_
        assert other.privacy_cost_ == binary.privacy_cost_
    assert repr(make(epsilon=2.0, sampler="auto")) == (
        "DPBayesianLogisticRegression(epsilon=2.0, random_state=0)"
    )
    assert "DPBayesianLogisticRegression" in make_pipeline(make())._repr_html_()


def test_a_refit_replaces_everything(binary):
    clf = make().fit(X3, y3)
    clf.fit(X, y)
    np.testing.assert_array_equal(clf.posterior_samples_, binary.posterior_samples_)


def test_parameters_changed_after_a_fit_do_not_change_its_predictions(binary):
    expected = binary.predict_proba(X)
    changed = pickle.loads(pickle.dumps(binary)).set_params(data_norm=0.1, fit_intercept=False)
    np.testing.assert_array_equal(changed.predict_proba(X), expected)


def test_warnings_of_the_plan_are_given():
    with pytest.warns(ConvergenceWarning, match="relaxes"):
        make(n_steps=150).fit(X, y)


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_averages_of_probabilities_hold_at_all_sizes_of_logits(rng, n_classes, has_weights):
    """In single precision where that is enough; certain predictions have logarithms, too."""
    logits = rng.normal(size=(n_classes if n_classes > 2 else 1, 200, 50))
    logits *= 10.0 ** rng.uniform(-3, 4, size=(1, 200, 1))
    logits[:, 0], logits[:, 1] = 0.0, 1e6 * np.arange(1, len(logits) + 1)[:, None]
    average = average_binary if n_classes == 2 else average_softmax
    weights = rng.dirichlet(np.ones(50)) if has_weights else np.full(50, 1.0 / 50.0)
    with np.errstate(over="ignore", invalid="ignore"):
        found = average(logits, weights)
    full = logits if n_classes > 2 else np.stack([np.zeros_like(logits[0]), logits[0]])
    expected = logsumexp(log_softmax(full, axis=0) + np.log(weights), axis=2).T
    np.testing.assert_allclose(np.exp(found), np.exp(expected), atol=1e-6)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_predictions_of_a_row_do_not_depend_on_the_others(rng):
    """Nor on the number of threads; they are averages of probabilities to six digits."""
    fitted = DPBayesianLogisticRegression(random_state=0).fit(X, y)
    rows = rng.normal(size=(20_000, X.shape[1]))
    proba = fitted.predict_proba(rows)
    few = np.r_[7, 8191:8195, 19_999]
    np.testing.assert_array_equal(fitted.predict_proba(rows[few]), proba[few])
    clipped = rows[few] * row_scales(rows[few], fitted.data_norm_)[:, None]
    draws = fitted.posterior_samples_[:, 0]
    assert fits_single_precision(draws, np.hypot(fitted.data_norm_, 1.0))
    weights = fitted.plan_.sampler.importance_weights(fitted.released_, fitted.posterior_samples_)
    expected = expit(clipped @ draws[:, :-1].T + draws[:, -1]) @ weights
    np.testing.assert_allclose(proba[few, 1], expected, atol=1e-6)


def test_draws_are_the_same_if_zeros_of_a_table_are_left_out(monkeypatch):
    generator = np.random.default_rng(0)
    table = np.eye(40)[generator.integers(40, size=4_000)]
    labels = generator.random(4_000) < np.where(table[:, 0] > 0, 0.9, 0.3)

    def draws():
        clf = DPBayesianLogisticRegression(data_norm=1.0, random_state=0)
        return clf.fit(table, labels).posterior_samples_

    found = draws()
    monkeypatch.setattr("skdpbayes.models.sums._LARGEST_SPARSE_DENSITY", 0.0)
    np.testing.assert_allclose(found, draws(), atol=1e-6)


@pytest.mark.parametrize(
    "n_draws, length", [(400, 4), (400, 16), (400, 34), (400, 140), (12, 34), (2, 3)]
)
@pytest.mark.parametrize("has_weights", [False, True])
def test_expansions_are_within_a_hundredth_of_monte_carlo_errors(rng, n_draws, length, has_weights):
    weights = rng.dirichlet(np.ones(n_draws)) if has_weights else np.full(n_draws, 1.0 / n_draws)
    weights = np.where(weights < 0.3 / n_draws, 0.0, weights)
    weights /= weights.sum()
    skewed = rng.gamma(1.0, size=(n_draws, length)) @ rng.normal(size=(length, length))
    draws = rng.normal(size=length) + 0.01 * skewed / np.sqrt(length)
    rows = rng.normal(size=(500, length - 1)) * 10.0 ** rng.uniform(-2, 0.6, size=(500, 1))
    z = np.column_stack([rows, np.ones(500)])
    logits = z @ draws.T
    variances = (logits - (logits @ weights)[:, None]) ** 2 @ weights
    factor, most = expansion(draws, weights)
    np.testing.assert_allclose(np.sum((z @ factor[:, :-1]) ** 2, axis=1), variances, rtol=1e-9)
    assert 0.0 <= most < 0.1
    expected = expit(logits) @ weights
    found = np.exp(average_binary_rows(rows, np.ones(500), draws, weights))[:, 1]
    single = 1e-6 * (1.0 + np.abs(logits).max(axis=1))
    p = expit(logits @ weights)
    allowed = 0.01 * p * (1.0 - p) * np.sqrt(variances * np.sum(weights**2))
    assert np.all(np.abs(found - expected) <= np.where(variances <= most, allowed, 0.0) + single)
    # What a row gets does not depend on others.
    alone = [average_binary_rows(row[None], np.ones(1), draws, weights)[0] for row in rows[:30]]
    np.testing.assert_array_equal(np.exp(alone)[:, 1], found[:30])
    if n_draws == 400 and length <= 34 and not has_weights:
        assert np.any(variances <= most) and np.any(variances > most)
