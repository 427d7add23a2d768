"""Columns that others nearly repeat are named, and no others: their single coefficients follow the prior."""

import warnings

import numpy as np
import pytest

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor, DPBayesianRidge
from skdpbayes.samplers.statistics.design import indicators, repeated_columns

MODELS = {
    "labels": lambda **options: DPBayesianLogisticRegression(classes=[0, 1], **options),
    "classes": lambda **options: DPBayesianLogisticRegression(classes=[0, 1, 2], **options),
    "counts": lambda **options: DPBayesianPoissonRegressor(max_count=20, **options),
    "numbers": lambda **options: DPBayesianRidge((-6.0, 6.0), **options),
}
PRIVATE = [(kind, epsilon) for kind in MODELS for epsilon in (1.0, 3.0)]


def rows_of(seed, n=6_000, d=6):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, d))


def with_copy(rows):
    """Two nearly equal columns, the first ones."""
    noise = np.random.default_rng(1).normal(size=len(rows))
    rows[:, 1] = np.clip(rows[:, 0] + 0.03 * noise, -1.0, 1.0)
    return rows


def fitted(kind, rows, epsilon, effects=(0.6, -0.4, 0.5, -0.7, 0.3, 0.4)):
    rng, logits = np.random.default_rng(2), rows @ effects
    y = {
        "labels": (rng.random(len(rows)) < 1.0 / (1.0 + np.exp(-logits))).astype(int),
        "classes": np.argmax(
            np.outer(logits, [-1.0, 0.0, 1.0]) + rng.gumbel(size=(len(rows), 3)), axis=1
        ),
        "counts": rng.poisson(np.exp(logits)),
        "numbers": np.clip(logits + 0.5 * rng.normal(size=len(rows)), -6.0, 6.0),
    }[kind]
    with warnings.catch_warnings(action="ignore"):
        return MODELS[kind](epsilon=epsilon, random_state=0).fit(rows, y)


def notes_on_repeated(model):
    return [note for note in model.interval_notes() if "nearly repeat" in note]


@pytest.mark.parametrize(("kind", "epsilon"), PRIVATE)
def test_columns_that_repeat_each_other_are_named(kind, epsilon):
    model = fitted(kind, with_copy(rows_of(0)), epsilon)
    assert list(model.released_["repeated_columns"]) == [0, 1]
    (note,) = notes_on_repeated(model)
    assert note.startswith("other columns, or the constant, nearly repeat x0, x1:")
    assert note in model.summary().attrs["notes"]


@pytest.mark.parametrize(("kind", "epsilon"), PRIVATE)
def test_columns_that_do_not_repeat_are_not_named(kind, epsilon):
    """Neither independent ones nor all levels of a category, nor ones that have half a factor in common."""
    levels, factor = rows_of(3), rows_of(4)
    levels[:, :3] = np.eye(3)[np.random.default_rng(5).integers(3, size=len(levels))]
    factor = 0.6 * factor + 0.4 * factor[:, :1]
    for rows in (rows_of(0), levels, factor):
        model = fitted(kind, rows, epsilon)
        assert model.released_["repeated_columns"].size == 0
        assert not notes_on_repeated(model)


@pytest.mark.parametrize("kind", MODELS)
def test_repeated_columns_are_named_without_privacy(kind):
    model = fitted(kind, with_copy(rows_of(0, n=1_500)), np.inf)
    assert notes_on_repeated(model)[0].startswith(
        "other columns, or the constant, nearly repeat x0, x1:"
    )
    levels = rows_of(3, n=300)
    levels[:, :3] = np.eye(3)[np.random.default_rng(5).integers(3, size=300)]
    for rows in (rows_of(0, n=300), levels):
        assert fitted(kind, rows, np.inf).interval_notes() == ()


def test_without_effects_a_small_prior_scale_names_none():
    """All coefficients follow the prior then, and not because of other columns."""
    model = fitted("labels", rows_of(0, n=2_000), 1.0, effects=np.zeros(6))
    assert model.released_["repeated_columns"].size == 0


def test_a_share_and_a_growth_are_those_of_two_columns():
    """Of two columns with a correlation ``r`` and a prior of 1, for 100 times their information."""
    none = np.zeros(3, dtype=bool)
    for r, named in ((0.9, []), (0.99, [0, 1]), (0.9999, [0, 1])):
        data = 100.0 * np.eye(3)
        data[0, 1] = data[1, 0] = 100.0 * r
        given = data + np.eye(3), np.eye(3), np.eye(3)
        values = np.array([100.0 * (1.0 + r), 100.0 * (1.0 - r)]) + 1.0
        share = np.sum(values**-2.0) / np.sum(values**-1.0)
        growth = np.mean(values) * np.mean(1.0 / values)
        assert (share >= 0.1 and growth >= 4.0) == bool(named)
        assert repeated_columns(*given, none).tolist() == named
        # Coordinates do not matter, and columns may be left out.
        turn = np.random.default_rng(0).normal(size=(3, 3))
        turned = turn.T @ given[0] @ turn, turn.T @ given[1] @ turn, turn
        assert repeated_columns(*turned, none).tolist() == named
        assert repeated_columns(*given, np.array([True, False, False])).tolist() == named[1:]


def test_a_weak_prior_decides_where_columns_are_equal():
    data = np.ones((2, 2)) * 1e6
    given = data + 1e-4 * np.eye(2), 1e-4 * np.eye(2), np.eye(2)
    assert repeated_columns(*given, np.zeros(2, dtype=bool)).tolist() == [0, 1]


def test_indicators_are_seen_through_noise_and_without_it():
    rng, n = np.random.default_rng(0), 10_000
    rows = np.column_stack([rng.random(n) < 0.3, rng.uniform(-1, 1, n), rng.choice([-1, 1], n)])
    rows = np.column_stack([rows, np.full(n, 0.5)])
    moment = rows.T @ rows
    for noise in (0.0, 50.0):
        noisy = moment + noise * rng.normal(size=moment.shape)
        assert indicators(noisy, noise, 0.5, n)[1].tolist() == [True, False, False]
