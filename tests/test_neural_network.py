"""DPBayesianMLPClassifier: what users do with it, and what they do wrong."""

import warnings

import numba
import numpy as np
import pandas as pd
import pytest
from references import configured
from scipy.special import softmax
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianMLPClassifier
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy import PrivacyLedger

MOONS = make_moons(6000, noise=0.2, random_state=0)
QUICK = {"n_steps": 20, "n_draws": 5, "random_state": 0}


def fit(table=None, labels=None, hidden=(8,), **options):
    X, y = MOONS
    table, labels = X if table is None else table, y if labels is None else labels
    return configured(DPBayesianMLPClassifier(hidden), **{**QUICK, **options}).fit(table, labels)


@pytest.mark.nightly
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("sampler", ["sghmc", "sgld", "sgnht", "bbb"])
def test_a_curved_boundary_is_found(sampler, activation):
    X, y = MOONS
    straight = LogisticRegression().fit(X, y).score(X, y)
    options = {"n_steps": 1500} if sampler == "sgld" else {}
    clf = DPBayesianMLPClassifier(
        (16,),
        epsilon=8.0,
        activation=activation,
        sampler=sampler,
        data_norm=2.0,
        random_state=0,
    )
    configured(clf, **options).fit(X, y)
    assert clf.spent_epsilon_ <= 8.0
    assert clf.score(X, y) > straight + 0.02
    assert clf.posterior_samples_.shape == (100, clf.plan_.bounds.n_parameters)
    assert clf.plan_.name == sampler


def test_probabilities_are_those_of_the_draws_averaged():
    clf = fit(hidden=(8, 4))
    X = MOONS[0][:50]
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    rows = X * np.minimum(1.0, clf.data_norm_ / norms) * 4.0 / clf.row_norm_
    each = []
    for d in range(5):
        a = rows
        layers = clf.layers()
        for k, (weights, biases) in enumerate(layers):
            a = a @ weights[d] + biases[d]
            a = np.tanh(a) if k < len(layers) - 1 else a
        each.append(softmax(a, axis=1))
    expected = np.mean(each, axis=0)
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-5)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), clf.predict_proba(X))
    np.testing.assert_array_equal(clf.predict(X), clf.classes_[expected.argmax(axis=1)])


def test_attributes_are_those_of_the_plan():
    clf = fit(hidden=(8, 4), epsilon=2.0, delta=1e-6)
    assert clf.layer_sizes_ == (2, 8, 4, 2)
    assert (clf.n_layers_, clf.n_outputs_, clf.out_activation_) == (4, 2, "softmax")
    assert clf.spent_epsilon_ == clf.plan_.epsilon <= 2.0
    assert clf.spent_delta_ == 1e-6
    assert clf.privacy_cost_.epsilon(1e-6) == clf.spent_epsilon_
    assert clf.n_iter_ == 20
    assert clf.temperature_ == clf.plan_.temperature
    planned = clf.privacy_plan(6000, 2)
    assert planned == clf.plan_
    assert clf.privacy_plan(6000, 2, 5).bounds.n_parameters > planned.bounds.n_parameters


def test_batches_are_4096_of_larger_tables():
    clf = DPBayesianMLPClassifier()
    assert clf.privacy_plan(60_000, 10).sampling_rate == pytest.approx(4096 / 60_000)
    assert clf.privacy_plan(4000, 10).sampling_rate == 1
    assert clf.set_params(sampler__batch_size=None).privacy_plan(60_000, 10).sampling_rate == 1
    rate = clf.set_params(sampler__batch_size=100).privacy_plan(60_000, 10).sampling_rate
    assert rate == pytest.approx(1 / 600)


def test_no_hidden_layer_is_softmax_regression():
    X, y = MOONS
    # Next to nothing is clipped.
    options = {"n_steps": 1500, "n_draws": 200, "data_norm": 3.0, "clip_norm": 8.0}
    clf = fit(hidden=(), epsilon=np.inf, **options)
    reference = LogisticRegression().fit(X, y)
    assert clf.score(X, y) == pytest.approx(reference.score(X, y), abs=0.01)
    gap = np.abs(clf.predict_proba(X) - reference.predict_proba(X)).mean()
    assert gap < 0.02


@pytest.mark.parametrize("batch_size", [None, 700])
def test_the_same_seed_gives_the_same_draws_on_any_number_of_cores(batch_size):
    draws = []
    before = numba.get_num_threads()
    try:
        for n_threads in (1, before):
            numba.set_num_threads(n_threads)
            draws.append(fit(batch_size=batch_size).posterior_samples_)
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(*draws)
    assert not np.array_equal(draws[0], fit(random_state=1).posterior_samples_)


def test_chains_start_apart_and_where_no_record_matters():
    options = {"n_draws": 1, "n_steps": 1, "burn_in": 0.0, "epsilon": 0.05, "calibration": 0.0}
    first, second = fit(**options), fit(-MOONS[0], 1 - MOONS[1], **options)
    start = first.posterior_samples_[0] + second.posterior_samples_[0]
    assert np.abs(first.posterior_samples_[0]).max() > 0.05
    # The same start and the same noise: what differs is at most what records did.
    apart = first.posterior_samples_[0] - second.posterior_samples_[0]
    reach = first.plan_.gradient_step * 6000 * first.plan_.bounds.gradient_bound
    assert np.linalg.norm(apart) <= reach < np.linalg.norm(start)


def test_users_keep_their_labels_and_names():
    X, y = MOONS
    frame = pd.DataFrame(X, columns=["left", "right"])
    names = np.where(y == 1, "yes", "no")
    clf = fit(frame, names, classes=["yes", "no", "perhaps"])
    assert list(clf.classes_) == ["no", "perhaps", "yes"]
    assert list(clf.feature_names_in_) == ["left", "right"]
    assert clf.predict_proba(frame).shape == (6000, 3)
    assert set(clf.predict(frame)) <= {"no", "perhaps", "yes"}


def test_draws_are_taken_from_what_was_released():
    clf = fit()
    some = clf.sample_posterior(3, random_state=0)
    assert all((clf.posterior_samples_ == draw).all(axis=1).any() for draw in some)
    assert clf.layers(some)[0][0].shape == (3, 2, 8)
    with pytest.raises(ValueError, match="more than the 5 draws"):
        clf.sample_posterior(6)


def test_bayes_by_backprop_gives_any_number_of_draws():
    clf = fit(sampler="bbb")
    draws = clf.sample_posterior(500, random_state=0)
    assert draws.shape == (500, clf.plan_.bounds.n_parameters)
    z = (draws.mean(axis=0) - clf.released_.variational_mean) / clf.released_.variational_scale
    assert np.abs(z).max() < 5.5 / np.sqrt(500)
    np.testing.assert_allclose(draws.std(axis=0), clf.released_.variational_scale, rtol=0.2)


def test_a_fit_leaves_nothing_of_the_one_before():
    clf = fit(sampler="bbb")
    table = MOONS[0][:10]
    clf.set_params(sampler="sghmc", sampler__n_steps=20).fit(*MOONS)
    assert set(clf.released_) == {"row_norm", "logit_scale"}
    before = clf.predict_proba(table)
    clf.set_params(activation="relu")
    np.testing.assert_array_equal(clf.predict_proba(table), before)


def test_it_lives_in_pipelines_and_grids():
    X, y = MOONS
    pipe = make_pipeline(
        BoundedScaler(-3.0, 3.0), configured(DPBayesianMLPClassifier((4,)), **QUICK)
    )
    search = GridSearchCV(pipe, {"dpbayesianmlpclassifier__epsilon": [1.0, 5.0]}, cv=2)
    search.fit(X[:500], y[:500])
    assert search.best_estimator_[-1].spent_epsilon_ <= 5.0


def test_adding_or_removing_needs_a_public_size():
    with pytest.raises(ValueError, match="public_size"):
        fit(neighboring_relation="add_or_remove_one")
    options = {"epsilon": 2.0, "batch_size": 1000}
    clf = fit(neighboring_relation="add_or_remove_one", public_size=5000, **options)
    assert clf.plan_.n_samples == 5000
    other = fit(**options)
    assert clf.plan_.path.noise_multiplier < 0.75 * other.plan_.path.noise_multiplier


def test_draws_go_to_arviz():
    pytest.importorskip("arviz")
    clf = fit(hidden=(8, 4), n_draws=10)
    posterior = clf.to_arviz()["posterior"]
    assert dict(posterior["weights_2"].sizes) == {"chain": 2, "draw": 5, "unit_1": 8, "unit_2": 4}
    assert posterior["weights_out"].dims[-1] == "class"


# What a tired user passes

BAD = [
    ({"hidden": (0,)}, "hidden_layer_sizes"),
    ({"hidden": (3.5,)}, "hidden_layer_sizes"),
    ({"hidden": ((3, 2),)}, "hidden_layer_sizes"),
    ({"hidden": -4}, "hidden_layer_sizes"),
    ({"hidden": "wide"}, "hidden_layer_sizes"),
    ({"activation": "logistic"}, "activation"),
    ({"sampler": "ops"}, "sampler"),
    ({"clip_norm": 0.0}, "clip_norm"),
    ({"clip_norm": np.inf}, "clip_norm"),
    ({"clip_norm": 1e-300}, "clip_norm"),
    ({"prior_scale": 1e-200}, "prior_scale"),
    ({"step_size": 1.0}, "diverge"),
    ({"prior_scale": -1.0}, "prior_scale"),
    ({"prior_scale": 1e200}, "prior_scale"),
    ({"calibration": -0.1}, "calibration"),
    ({"calibration": 0.9}, "calibration"),
    ({"data_norm": 0.0}, "data_norm"),
    ({"epsilon": -1.0}, "epsilon"),
    ({"delta": 1.0}, "delta"),
    ({"delta": 0.0}, "delta"),
    ({"batch_size": 7000}, "batch_size"),
    ({"batch_size": "large"}, "batch_size"),
    ({"temperature": 0.3}, "temperature"),
    ({"friction": 2.0}, "friction"),
    ({"sampler": "sgld", "friction": 0.2}, "friction"),
    ({"initial_scale": 0.1}, "initial_scale"),
    ({"n_draws": 50}, "n_steps"),
    ({"classes": [0]}, "classes"),
    ({"public_size": 100}, "public_size"),
    ({"table": np.full((6000, 2), np.nan)}, "NaN"),
    ({"table": np.full((6000, 2), np.inf)}, "infinity"),
    ({"table": np.zeros((6000, 0))}, "0 feature"),
    ({"table": np.full((6000, 2), "a")}, "text"),
    ({"labels": np.zeros(6000)}, "one class"),
    ({"labels": np.linspace(0, 1, 6000)}, "Unknown label type"),
    ({"labels": np.zeros(10)}, "inconsistent"),
]


@pytest.mark.parametrize("options, named", BAD)
def test_bad_input_is_named_before_anything_is_read(monkeypatch, options, named):
    monkeypatch.setattr(
        "skdpbayes.samplers.base.charge", lambda *args: pytest.fail("a plan was charged")
    )
    with pytest.raises(ValueError, match=named):
        fit(**options)


def test_ledgers_refuse_what_they_do_not_allow():
    with PrivacyLedger(1.0, 1e-5, allow_seeds=True) as ledger, pytest.raises(BudgetExceededError):
        fit(epsilon=2.0, delta=1e-5)
    assert ledger.spent_epsilon == 0


def test_constant_columns_and_huge_rows_are_no_trouble():
    X, y = MOONS
    for table in (np.hstack([X, np.ones((6000, 1))]), X * 1e30, X * 1e-30, np.zeros_like(X)):
        clf = fit(table, y)
        assert np.isfinite(clf.predict_proba(table)).all()


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_rows_that_are_all_clipped_are_told_of_where_enough_decide(epsilon):
    rng = np.random.default_rng(0)
    scaled = rng.uniform(-1, 1, (4000, 2))
    labels = (scaled[:, 0] > 0).astype(int)

    def warned(rows, epsilon=epsilon):
        model = DPBayesianMLPClassifier((2,), epsilon=epsilon, classes=[0, 1])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(rows, labels)
        return any("row_norm_, reaches data_norm=1.41" in str(one.message) for one in caught)

    assert warned(40.0 + scaled)
    assert not warned(scaled)
    assert not warned(40.0 + scaled, epsilon=0.1)  # The choice may be the noise's.
