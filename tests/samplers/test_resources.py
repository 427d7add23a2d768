"""What would not fit into memory, or never end, is refused before it has spent anything."""

import re

import numpy as np
import pytest
from sklearn.datasets import make_classification

from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier
from skdpbayes.exceptions import TooLargeError
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers import SGLD, BayesByBackprop
from skdpbayes.samplers import plan as _resources

X, y = make_classification(300, 4, random_state=0)
HUGE = 10**12
MODELS = [
    *(
        DPBayesianLogisticRegression(sampler=sampler)
        for sampler in ("auto", "sgld", "sghmc", "sgnht", "sgfs", "bbb", "ops")
    ),
    *(DPBayesianLogisticRegression(sampler=sampler, delta=0.0) for sampler in ("dp_mh",)),
    DPBayesianLogisticRegression(data_norm="auto"),
    DPGaussianMixturePosterior(2),
    DPGaussianMixturePosterior(2, epsilon=np.inf),
    DPBayesianMLPClassifier(4),
]


@pytest.fixture
def ledger():
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        yield ledger


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{type(m).__name__}-{m.sampler}")
def test_too_many_draws_are_refused_and_the_limit_is_named(model, ledger):
    model.set_params(n_draws=HUGE)
    with pytest.raises(TooLargeError, match="GiB of memory.*Nothing was read") as refused:
        model.fit(X, y)
    assert ledger.records() == []
    most = int(re.search(r"n_draws=([\d,]+) is the most", str(refused.value))[1].replace(",", ""))
    assert 10**3 < most < HUGE
    with pytest.raises(TooLargeError):
        model.privacy_plan(*X.shape)


@pytest.mark.parametrize(
    "model",
    [
        DPBayesianLogisticRegression(random_state=0),
        DPBayesianLogisticRegression(sampler=BayesByBackprop(n_steps=20), random_state=0),
        DPGaussianMixturePosterior(2, epsilon=3.0, random_state=0),
    ],
    ids=lambda m: f"{type(m).__name__}-{m.sampler}",
)
def test_new_draws_beyond_memory_are_refused(model):
    model.fit(X[:, :2], y)
    with pytest.raises(TooLargeError, match="is the most that fits"):
        model.sample_posterior(HUGE)
    model.sample_posterior(10)


def test_the_number_that_is_named_fits_and_one_more_does_not(monkeypatch):
    monkeypatch.setattr(_resources, "memory_of_machine", lambda: 1_000_000)
    with pytest.raises(TooLargeError) as refused:
        _resources.check_draws(10**6, 7, beside=1234.0)
    most = int(re.search(r"n_draws=([\d,]+) is", str(refused.value))[1].replace(",", ""))
    _resources.check_draws(most, 7, beside=1234.0)
    with pytest.raises(TooLargeError):
        _resources.check_draws(most + 1, 7, beside=1234.0)
    with pytest.raises(TooLargeError, match="take fewer parameters"):
        _resources.check_draws(1, 7, beside=2e6)


def test_what_a_run_needs_beside_draws_counts_too(monkeypatch, ledger):
    model = DPBayesianLogisticRegression(sampler=SGLD(n_steps=50), n_draws=20)
    plan = model.privacy_plan(*X.shape)
    monkeypatch.setattr(_resources, "memory_of_machine", lambda: plan.memory_bytes - 1)
    with pytest.raises(TooLargeError, match=r"n_draws=19 is the most"):
        model.fit(X, y)
    monkeypatch.setattr(_resources, "memory_of_machine", lambda: plan.memory_bytes)
    model.fit(X, y)
    assert len(ledger.records()) == 1


def test_a_run_that_would_not_end_is_not_begun(ledger, monkeypatch):
    monkeypatch.setattr(_resources, "_LONGEST_SECONDS", 2.0)
    model = DPBayesianLogisticRegression(sampler=SGLD(n_steps=10**8), n_draws=10)
    with pytest.raises(TooLargeError, match=r"years.*n_steps=[\d,]+") as refused:
        model.fit(X, y)
    most = int(re.search(r"n_steps=([\d,]+)", str(refused.value))[1].replace(",", ""))
    seconds = model.set_params(sampler__n_steps=most).privacy_plan(*X.shape).estimated_seconds
    assert 0.99 < seconds / _resources._LONGEST_SECONDS < 1.01
    assert ledger.records() == []
