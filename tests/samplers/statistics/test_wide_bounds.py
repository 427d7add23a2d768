"""Intervals of columns that vary far less than public bounds allow, beside indicators that use theirs."""

import warnings

import numpy as np
import pytest
from scipy.special import expit

from skdpbayes.linear_model import (
    DPBayesianLogisticRegression,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
)
from skdpbayes.samplers.statistics import design, prior

OPTIONS = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 2.0}
ESTIMATORS = {
    "labels": DPBayesianLogisticRegression(classes=[0, 1], **OPTIONS),
    "numbers": DPBayesianRidge((-8.0, 8.0), **OPTIONS),
    "counts": DPBayesianPoissonRegressor(max_count=60.0, sampler="clipped_residuals", **OPTIONS),
}


def a_table(seed, kind, n=8_000):
    """Two columns around .3 with deviations of 1/12 and a correlation of .6, and six indicators."""
    rng = np.random.default_rng(seed)
    numbers = rng.multivariate_normal(np.zeros(2), [[1.0, 0.6], [0.6, 1.0]], n)
    category = rng.choice(7, n, p=[0.3, 0.25, 0.15, 0.12, 0.1, 0.05, 0.03])
    X = np.c_[np.clip(0.3 + numbers / 12.0, -1.0, 1.0), category[:, None] == range(1, 7)].astype(
        float
    )
    effects = rng.choice([-1.0, 1.0], 8) * rng.uniform(0.15, 0.6, 8)
    effects[:2] *= 12.0
    logits = X @ effects
    logits -= logits.mean()
    if kind == "labels":
        return X, (rng.random(n) < expit(logits - 1.0)).astype(int), effects
    if kind == "numbers":
        return X, logits + rng.normal(size=n), effects
    return X, rng.poisson(np.exp(logits + 0.7)).astype(float), effects


def coverage(kind, n_tables=12):
    """The shares of coefficients that 90% intervals hold: of the first two columns, and of indicators."""
    held = []
    for seed in range(n_tables):
        X, y, effects = a_table(seed, kind)
        with warnings.catch_warnings(action="ignore"):
            model = ESTIMATORS[kind].set_params(random_state=seed).fit(X, y)
        table = model.coef_table().iloc[:8]
        held.append((table["5%"] <= effects) & (effects <= table["95%"]))
    return np.mean(held, axis=0)[:2].mean(), np.mean(held, axis=0)[2:].mean()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_intervals_cover_effects_of_columns_that_hardly_vary(kind):
    of_numbers, of_indicators = coverage(kind)
    assert of_numbers >= 0.75 and of_indicators >= 0.84


@pytest.mark.daily(1)
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_intervals_of_small_tables_hold_or_their_columns_are_named(kind):
    missed, silent, others = [], [], []
    for seed in range(20, 26):
        X, y, effects = a_table(seed, kind, n=2_000)
        with warnings.catch_warnings(action="ignore"):
            model = ESTIMATORS[kind].set_params(random_state=seed).fit(X, y)
        table = model.coef_table().iloc[:8]
        is_missed = ~((table["5%"] <= effects) & (effects <= table["95%"])).to_numpy()
        # Those of columns whose intervals are wide are another matter.
        notes = [note for note in model.interval_notes() if "times as wide" not in note]
        is_named = [any(f" x{j}" in note for note in notes) for j in range(8)]
        missed.append(is_missed[:2].mean())
        silent.append((is_missed & ~np.array(is_named))[:2].mean())
        others.append(np.mean(is_named[2:]))
    assert np.mean(silent) <= 0.13 and np.mean(missed) > 0.2
    # They are .31, .81 and .67: there is more noise on what is released for numbers and for counts.
    assert np.mean(others) < {"labels": 0.6, "numbers": 0.95, "counts": 0.9}[kind]


@pytest.mark.nightly
def test_they_do_not_if_columns_have_one_scale(monkeypatch):
    """And if how two columns vary together is believed to be known by what indicators do."""
    monkeypatch.setattr(prior, "_PER_DEVIATION", 0.0)
    monkeypatch.setattr(design, "_HIDDEN_CORRELATION_VARIANCE", 0.0)
    assert coverage("labels")[0] < 0.7
