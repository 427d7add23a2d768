"""Intervals of one row's class probabilities: quantiles over draws, which may have weights."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier
from skdpbayes._estimator.classifier import quantiles_of_draws
from skdpbayes.linear_model import _logistic
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.samplers import SGHMC

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (1500, 3))
SCORES = X @ rng.normal(size=(3, 3)) + rng.gumbel(size=(1500, 3))
ROWS = X[:40]


def logistic(**params):
    return DPBayesianLogisticRegression(random_state=0, **params)


@pytest.fixture(scope="module")
def binary():
    return logistic(epsilon=0.5, classes=[0, 1]).fit(X, SCORES[:, 0] > SCORES[:, 1])


@pytest.fixture(scope="module")
def three():
    return logistic(epsilon=0.5, classes=[0, 1, 2]).fit(X, SCORES.argmax(axis=1))


@pytest.fixture(scope="module")
def network():
    return DPBayesianMLPClassifier((4,), sampler=SGHMC(n_steps=20), random_state=0).fit(
        X, SCORES.argmax(axis=1)
    )


def by_draw(model, rows):
    """Probabilities of shape (n_draws, n_rows, n_classes), a draw after the other."""
    proba = []
    for draw in model.posterior_samples_:
        logits = rows @ draw[:, :-1].T + draw[:, -1]
        both = np.hstack([expit(-logits), expit(logits)])
        proba.append(both if len(draw) == 1 else softmax(logits, axis=1))
    return np.array(proba)


def test_ends_have_the_tails_of_the_weighted_draws(binary):
    weights, proba = binary.importance_weights_, by_draw(binary, ROWS)
    assert weights.max() > 1.2 * weights.min()
    interval = binary.probability_interval(ROWS, 0.8)
    assert interval.shape == (40, 2, 2)
    for end, tail in ((interval[..., 0], 0.1), (interval[..., 1], 0.9)):
        below = np.einsum("s,snk->nk", weights, proba < end)
        assert np.abs(below - tail).max() <= 2.0 * weights.max()
    np.testing.assert_allclose(interval[:, 0], 1.0 - interval[:, 1, ::-1], atol=1e-12)


def test_three_classes_have_quantiles_of_their_own(three):
    weights, proba = three.importance_weights_, by_draw(three, ROWS)
    interval = three.probability_interval(ROWS)
    assert interval.shape == (40, 3, 2)
    for end, tail in ((interval[..., 0], 0.05), (interval[..., 1], 0.95)):
        below = np.einsum("s,snk->nk", weights, proba < end)
        assert np.abs(below - tail).max() <= 2.0 * weights.max()
    means = three.predict_proba(ROWS)
    assert np.mean((interval[..., 0] < means) & (means < interval[..., 1])) > 0.9


@pytest.mark.parametrize("n_draws", [2, 3, 50])
def test_quantiles_are_numpys_if_weights_are_equal(n_draws):
    values, levels = rng.normal(size=(4, 5, n_draws)), [0.01, 0.5, 0.9]
    equal = quantiles_of_draws(values, np.full(n_draws, 1.0 / n_draws), levels)
    np.testing.assert_allclose(equal, quantiles_of_draws(values, None, levels), atol=1e-12)
    np.testing.assert_allclose(equal[..., 1], np.median(values, axis=-1), atol=1e-12)


def test_draws_without_weight_do_not_count():
    values, weights = rng.normal(size=(6, 40)), np.repeat([0.0, 0.05], 20)
    values[:, :5] = 100.0, -100.0, 200.0, -200.0, 0.0
    quantiles = quantiles_of_draws(values, weights, [0.1, 0.9])
    expected = np.quantile(values[:, 20:], [0.1, 0.9], axis=1).T
    np.testing.assert_allclose(quantiles, expected, atol=0.5)


def test_blocks_of_rows_change_nothing(binary, monkeypatch):
    whole = binary.probability_interval(X)
    monkeypatch.setattr(_logistic, "_CHUNK_ENTRIES", 3 * len(binary.posterior_samples_))
    np.testing.assert_allclose(binary.probability_interval(X), whole, rtol=1e-12)


def test_networks_have_intervals_of_their_draws(network):
    interval = network.probability_interval(ROWS, 0.9)
    singles = []
    for draw in network.posterior_samples_:
        single = copy.copy(network)
        single.posterior_samples_ = draw[None]
        singles.append(single.predict_proba(ROWS))
    ends = np.quantile(singles, [0.05, 0.95], axis=0)
    np.testing.assert_allclose(interval, np.moveaxis(ends, 0, -1), rtol=1e-5)
    with pytest.warns(UserWarning, match="not a calibrated posterior"):
        network.probability_interval(ROWS)


def test_a_single_draw_has_no_interval():
    one = logistic(sampler="ops").fit(X, SCORES[:, 0] > 0)
    with pytest.raises(ValueError, match="single draw"):
        one.probability_interval(ROWS)


def test_intervals_refuse_levels_rows_and_models_as_others_do(binary):
    for level in (0.0, 1.0, "0.9", np.nan):
        with pytest.raises((ValueError, TypeError)):
            binary.probability_interval(ROWS, level)
    with pytest.raises(ValueError, match="features"):
        binary.probability_interval(ROWS[:, :2])
    with pytest.raises(NotFittedError):
        clone(binary).probability_interval(ROWS)


def test_tables_of_any_kind_have_the_same_intervals(binary):
    expected = binary.probability_interval(ROWS)
    np.testing.assert_allclose(binary.probability_interval(csr_matrix(ROWS)), expected, rtol=1e-12)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = logistic(epsilon=0.5, classes=[0, 1]).fit(frame, SCORES[:, 0] > SCORES[:, 1])
    np.testing.assert_array_equal(named.probability_interval(frame[:40]), expected)
    with pytest.raises(ValueError, match="names"):
        named.probability_interval(frame[["b", "a", "c"]])
    da = pytest.importorskip("dask.array")
    parts = binary.probability_interval(da.from_array(ROWS, chunks=(15, 3)))
    assert parts.chunks[0] == (15, 15, 10)
    np.testing.assert_allclose(parts.compute(), expected, rtol=1e-12)


def test_pipelines_have_the_intervals_of_their_last_step(binary):
    y, scaler = SCORES[:, 0] > SCORES[:, 1], BoundedScaler(-2, 2)
    private = make_private_pipeline(scaler, logistic(classes=[0, 1])).fit(X, y)
    expected = private[-1].probability_interval(ROWS / 2, 0.8)
    np.testing.assert_allclose(private.probability_interval(ROWS, 0.8), expected, rtol=1e-9)
    plain = make_pipeline(scaler, logistic(classes=[0, 1])).fit(X, y)
    expected = plain[-1].probability_interval(ROWS / 2, 0.8)
    found = plain[-1].probability_interval(plain[:-1].transform(ROWS), 0.8)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert not hasattr(make_private_pipeline(scaler), "probability_interval")


@pytest.mark.nightly
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_intervals_cover_the_true_probability(epsilon):
    covered = []
    for seed in range(60):
        generator = np.random.default_rng(seed)
        rows = generator.uniform(-1, 1, (3100, 4))
        truth = expit(rows @ generator.normal(size=4) + 0.5 * generator.normal())
        y = generator.random(3100) < truth
        model = logistic(epsilon=epsilon, classes=[False, True]).set_params(random_state=seed)
        with warnings.catch_warnings(action="ignore"):
            low, high = model.fit(rows[:3000], y[:3000]).probability_interval(rows[3000:])[:, 1].T
        covered.append(np.mean((low <= truth[3000:]) & (truth[3000:] <= high)))
    error = np.std(covered) / np.sqrt(len(covered))
    assert abs(np.mean(covered) - 0.9) < 0.04 + 3 * error


def test_intervals_of_labels_are_refused_with_what_there_is(binary, network):
    """By an AttributeError, so that `hasattr` says that there are none."""
    for model in (binary, network, clone(binary)):
        assert not hasattr(model, "prediction_interval")
        with pytest.raises(AttributeError, match=r"take probability_interval\(X\)"):
            model.prediction_interval(ROWS)
    pipeline = make_private_pipeline(clone(binary))
    with pytest.raises(AttributeError) as raised:
        pipeline.prediction_interval(ROWS)
    assert "take probability_interval(X)" in str(raised.value.__cause__)
