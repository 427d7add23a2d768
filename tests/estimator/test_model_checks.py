"""Wrong priors and cut rows are told by their cause, from releases alone, and hardly ever without cause."""

import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fit_warnings import FIT_WARNINGS
from scipy.special import expit
from sklearn.compose import ColumnTransformer

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor, DPBayesianRidge
from skdpbayes._estimator.model_checks import (
    _CONFLICT_P_VALUES,
    NotedColumn,
    chains_disagree,
    columns_below_noise,
    interval_notes,
    low_ess_warnings,
    model_checks,
    prior_dominated,
    skewed_errors,
    surprise,
)
from skdpbayes.exceptions import DataScalingWarning
from skdpbayes.inspection import (
    average_marginal_effects,
    contrasts,
    odds_ratios,
    raw_coefficients,
)
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPOneHotEncoder
from skdpbayes.report import explain
from skdpbayes.samplers.base import Diagnostics
from skdpbayes.samplers.statistics import hmc
from skdpbayes.samplers.statistics.design import hidden_columns as hidden_columns_of
from skdpbayes.samplers.statistics.design import share_of_norm
from skdpbayes.samplers.statistics.plan import hidden_deviation, moment_geometry

CAUSES = {
    "coefficients are": "narrow",
    "intercepts are": "rare",
    "noise hides how rare": "hidden",
    "how large coefficients": "wide",
    "by the released second moment, squares": "cut",
    "by the released second moment, 9": "direction",
    "the chains that drew": "chains",
}


def told(clf, X, y, *args):
    """Causes of warnings of a fit, each of which has a remedy and says what it costs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, y, *args)
    found = [str(one.message) for one in caught if one.category in FIT_WARNINGS]
    costs = "fitting again spends budget again", "spends nothing"
    assert all(any(cost in text.lower() for cost in costs) for text in found)
    return [
        next(cause for part, cause in CAUSES.items() if text.startswith(part)) for text in found
    ]


def a_fit(seed, deviation=1.0, intercept=0.0, n=4000, d=6, n_classes=2, **options):
    """Causes of warnings of a fit to columns in [-1, 1]."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1.0, 1.0, size=(n, d))
    if n_classes == 2:
        theta = deviation * rng.normal(size=d)
        labels = (rng.random(n) < expit(rows @ theta + intercept)).astype(int)
    else:
        theta = deviation * rng.normal(size=(n_classes, d))
        labels = (rows @ theta.T + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    clf = DPBayesianLogisticRegression(
        options.pop("epsilon", 1.0), 1e-5, classes=range(n_classes), random_state=seed, **options
    )
    return told(clf, rows, labels)


# Each cause has its warning


CASES = {
    "a prior that is too narrow": (dict(deviation=4.0, prior_scale=1.0), ["narrow"]),
    "of three classes": (dict(deviation=4.0, prior_scale=1.0, n_classes=3), ["narrow"]),
    "not private": (
        dict(deviation=4.0, prior_scale=1.0, epsilon=math.inf),
        ["narrow"],
    ),
    "rare classes": (
        dict(intercept=-6.0, prior_scale=1.0, intercept_prior_scale=1.0, epsilon=3.0),
        ["rare"],
    ),
    "rare classes, one prior that is learnt": (
        dict(intercept=-6.0, intercept_prior_scale=1.0, epsilon=3.0),
        ["rare"],
    ),
    "few rows of a class": (dict(intercept=-6.0), ["hidden"]),
    "and a prior that is right": (dict(intercept=-6.0, prior_scale=1.0), ["hidden"]),
    "a wide prior": (dict(deviation=4.0, prior_scale=15.0, epsilon=0.2), ["wide"]),
    "rows that are cut": (dict(data_norm=0.7), ["cut"]),
    "and a prior that is right for them as they were": (
        dict(data_norm=0.7, prior_scale=1.0),
        ["cut"],
    ),
}


@pytest.mark.parametrize("options, causes", CASES.values(), ids=CASES)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_wrong_assumption_is_told_by_its_cause(seed, options, causes):
    """Chains may not agree besides where noise hides nearly all."""
    assert a_fit(seed, **options) == causes


RIGHT = {
    "learnt": dict(),
    "large effects, learnt": dict(deviation=4.0),
    "rare classes, learnt": dict(intercept=-5.0, epsilon=10.0),
    "a class of a twentieth": dict(intercept=-3.2),
    "rare classes, an intercept that is learnt": dict(
        intercept=-5.0, prior_scale=1.0, epsilon=10.0
    ),
    "a right prior": dict(prior_scale=1.0),
    "of large effects": dict(deviation=3.0, prior_scale=3.0, fit_intercept=False),
    "at a small budget": dict(prior_scale=1.0, epsilon=0.1),
    "at a large one": dict(prior_scale=1.0, epsilon=10.0),
    "a wide prior that rows overrule": dict(prior_scale=15.0, epsilon=10.0, fit_intercept=False),
    "three classes": dict(n_classes=3, prior_scale=1.0),
    "a norm that is right": dict(data_norm=1.9),
    "a norm that is chosen privately": dict(data_norm="auto", epsilon=3.0),
}


@pytest.mark.parametrize("options", RIGHT.values(), ids=RIGHT)
def test_nothing_is_told_where_all_is_right(options):
    assert a_fit(3, **options) == []


def test_false_alarms_are_rare_by_what_may_happen_at_most():
    """Labels and draws are each called a conflict with these probabilities at most, whatever the table."""
    assert 0.0 < 2.0 * sum(_CONFLICT_P_VALUES) <= 0.02


@pytest.mark.nightly
@pytest.mark.parametrize(
    "scale, epsilon", [(0.3, 1.0), (1.25, 0.3), (1.25, 5.0), (4.0, 0.3), (4.0, 1.0)]
)
def test_false_alarms_are_rare(scale, epsilon):
    """At most 2% of fits whose prior is right, and the room of two deviations for 120 of them.

    A class that noise hides is no false alarm where it has less than a tenth of the rows.
    """
    alarms = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        rows, theta = rng.uniform(-1.0, 1.0, size=(1500, 4)), scale * rng.normal(size=5)
        labels = (rng.random(1500) < expit(rows @ theta[:4] + theta[4])).astype(int)
        clf = DPBayesianLogisticRegression(
            epsilon, 1e-5, prior_scale=scale, classes=[0, 1], random_state=seed
        )
        causes, share = told(clf, rows, labels), min(labels.mean(), 1.0 - labels.mean())
        alarms += bool(set(causes) - ({"hidden"} if share < 0.1 else set()))
    assert alarms / 120 <= 0.02 + 2.0 * math.sqrt(0.02 * 0.98 / 120)


@pytest.mark.nightly
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 10.0])
def test_a_wide_prior_covers_or_is_told(epsilon):
    """Uniform columns, coefficients of deviation 3 and a prior of 10."""
    shares = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows, theta = rng.uniform(-1.0, 1.0, size=(5000, 8)), 3.0 * rng.normal(size=8)
        labels = (rng.random(5000) < expit(rows @ theta)).astype(int)
        clf = DPBayesianLogisticRegression(
            epsilon, 1e-5, prior_scale=10.0, fit_intercept=False, random_state=seed
        )
        if not told(clf, rows, labels):
            low, high = clf.posterior_interval(0.9)[0].T
            shares.append(np.mean((low < theta) & (theta < high)))
    assert len(shares) < 5 or np.mean(shares) > 0.8
    assert len(shares) > 45 or epsilon < 10.0


# How they are told


@pytest.mark.nightly
@pytest.mark.parametrize("size", [1, 4, 20])
@pytest.mark.parametrize("noise", [0.03, 1.0])
def test_draws_under_a_right_prior_are_surprising_as_rarely_as_is_said(rng, size, noise):
    """Normal vectors seen through noise, with exact draws of their posterior."""
    truth = 2.0 * rng.normal(size=(3000, 1, size))
    share = 1.0 / (1.0 + noise**2)
    seen = truth + 2.0 * noise * rng.normal(size=truth.shape)
    draws = share * seen + 2.0 * noise * math.sqrt(share) * rng.normal(size=(3000, 200, size))
    found = np.array([surprise(one, 2.0) for one in draws])
    for level in (0.01, 0.05):
        assert np.mean(found < level) < 2.0 * level
        assert noise > 0.1 or np.mean(found < level) > 0.6 * level
    assert noise > 0.1 or np.mean([surprise(one, 0.6) < 0.01 for one in draws]) > 0.35


def surprises_of(seed, times, epsilon=1.0):
    """Those of coefficients and intercepts, whose deviations are ``times`` their prior's."""
    rng = np.random.default_rng(seed)
    rows, theta = rng.uniform(-1.0, 1.0, size=(1000, 4)), rng.normal(size=5) * times
    labels = (rng.random(1000) < expit(rows @ theta[:4] + theta[4])).astype(int)
    clf = DPBayesianLogisticRegression(
        epsilon,
        1e-5,
        prior_scale=1.0,
        intercept_prior_scale=1.0,
        classes=[0, 1],
        random_state=seed,
        n_draws=4,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clf.fit(rows, labels).released_["posterior"].prior_predictive_p_values()


@pytest.mark.nightly
def test_labels_of_a_right_prior_are_as_surprising_as_others():
    """Twenty fits of two uniform numbers; a prior that predicts too little or too much would shift them."""
    found = np.array([surprises_of(seed, 1.0) for seed in range(20)])
    assert found.shape == (20, 2)
    assert 0.35 < np.median(found) < 0.7
    assert 0.1 < np.mean(found < 0.25) < 0.45
    assert np.mean(found < 0.02) <= 0.075


def test_labels_say_whose_scale_is_too_narrow():
    coefficients = [surprises_of(seed, [5.0] * 4 + [1.0]) for seed in range(6)]
    intercepts = [surprises_of(seed, [0.7] * 4 + [6.0]) for seed in range(20, 26)]
    assert np.median(coefficients, axis=0)[0] < 0.02 < np.median(coefficients, axis=0)[1]
    assert np.median(intercepts, axis=0)[1] < 0.06 < np.median(intercepts, axis=0)[0]


def test_draws_that_follow_a_wide_prior_are_told_from_those_that_do_not(rng):
    prior, known = 5.0 * rng.normal(size=(2, 400, 1, 8))
    known = 10.0 + 0.1 * known
    assert prior_dominated(prior, 5.0, 2.5 / 3.0)
    assert not prior_dominated(known, 5.0, 2.5 / 3.0)
    assert not prior_dominated(
        prior, 5.0, 2.5 / 1.9
    )  # A deviation of logits of at most 10 is not wide.
    assert not prior_dominated(prior[:10], 5.0, 2.5 / 3.0)
    # Much shorter than the prior says, and known to a fifth or a fiftieth: it moves only the first by much.
    direction = rng.normal(size=(1, 1, 8))
    for spread, is_told in ((0.2, True), (0.02, False)):
        lengths = 3.0 * np.exp(spread * rng.normal(size=(400, 1, 1)))
        draws = lengths * direction / np.linalg.norm(direction)
        assert bool(prior_dominated(draws, 5.0, 2.5 / 3.0)) == is_told


def test_doubts_follow_from_what_is_released_and_spend_nothing():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, size=(3000, 4))
    labels = (rng.random(3000) < expit(5.0 * rows[:, 0] - 5.0 * rows[:, 1])).astype(int)
    clf = DPBayesianLogisticRegression(1.0, prior_scale=0.5, random_state=0)
    assert told(clf, rows, labels) == ["narrow"]
    again = model_checks(
        clf.posterior_samples_, clf._model(4, 2), clf.plan_, Diagnostics.of(clf.released_), "abcd"
    )
    assert len(again) == 1 and "prior_scale=0.5" in again[0][0]
    plain = DPBayesianLogisticRegression(1.0, random_state=0).privacy_plan(3000, 4)
    assert clf.spent_epsilon_ == plain.epsilon


def test_directions_that_noise_hides_are_told_of_numbers():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, size=(2000, 3))
    y = rows @ [1.0, 0.0, -1.0] + 0.3 * rng.normal(size=2000)
    found = DPBayesianRidge((-4.0, 4.0), epsilon=1.0, delta=1e-5, random_state=0).fit(rows, y)

    def of(hidden):
        released = Diagnostics.of({**found.released_, "hidden_directions": hidden})
        return model_checks(found.posterior_samples_, found._model(3), found.plan_, released, "abc")

    assert found.released_["hidden_directions"] < 1.0 and of(2.9) == ()
    assert len(of(3.1)) == 1 and "data_norm" in of(3.1)[0][0]


# The length of rows


def moment_of(rows, constant, noise, rng):
    rows = np.column_stack([rows, np.full(len(rows), constant)])
    errors = noise * rng.normal(size=(rows.shape[1],) * 2)
    return rows.T @ rows + (errors + errors.T) / 2.0


def test_the_share_of_a_norm_is_that_of_the_mean_square(rng):
    rows = rng.uniform(-1.0, 1.0, size=(1000, 5))
    found = share_of_norm(moment_of(rows, 1.0, 1e-9, rng), 1e-9, 1.0, 3.0, 1000)
    assert found == pytest.approx(np.mean(np.sum(rows**2, axis=1)) / 9.0)
    sphere = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert share_of_norm(moment_of(sphere, 1.0, 1e-9, rng), 1e-9, 1.0, 1.0, 1000) > 1.0 - 1e-9


@pytest.mark.parametrize("noise", [1e-6, 5.0, 20.0])
def test_it_is_from_below(rng, noise):
    rows = rng.normal(size=(1000, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows *= rng.uniform(0.7, 1.0, size=(1000, 1))
    share = np.mean(np.sum(rows**2, axis=1))
    found = [
        share_of_norm(moment_of(rows, 0.5, noise, rng), noise, 0.5, 1.0, 1000) for _ in range(300)
    ]
    assert np.mean(np.array(found) > share) < 0.05


@pytest.mark.parametrize("exact", [True, False])
def test_rows_of_binary_columns_may_have_one_norm(rng, exact):
    """They are not cut: of a row that is, no entry is 1."""
    levels = np.eye(4)[rng.integers(4, size=2000)]
    signs = rng.choice([-1.0, 1.0], size=(2000, 3))
    for rows in (np.hstack([levels, levels[::-1]]), signs, np.hstack([levels, signs])):
        norm = np.linalg.norm(rows[0])
        moments = moment_of(rows, 1.0, 5.0, rng), moment_of(rows / 2.0, 1.0, 5.0, rng)
        whole, cut = (
            share_of_norm(moment, 5.0, 1.0, size, 2000, exact)
            for moment, size in zip(moments, (norm, norm / 2.0), strict=True)
        )
        assert whole == 0.0
        assert cut > (0.9 if exact else 0.7)


# Columns that hardly vary, and errors that are skewed


def hidden(rows, noise=100.0, rng=None):
    """Lists of hidden columns and of candidates by a made-up release; the noise is that of sums of rows."""
    constant, norm = 1.0, rows.shape[1] ** 0.5
    moment = moment_of(rows, constant, noise, rng)
    found = hidden_columns_of(moment, noise, constant, norm, len(rows))
    return [of.tolist() for of in found[:2]]


def test_hidden_columns_are_named_unless_they_may_be_indicators(rng):
    """Around 0 it has the moments of a rare one: a candidate, and none where other indicators are seen."""
    n = 10_000
    kind, narrow = rng.uniform(-1.0, 1.0, size=(n, 3)), 0.01 * rng.normal(size=(n, 1))
    levels = rng.choice(8, n, p=[0.4, 0.2, 0.13, 0.1, 0.08, 0.05, 0.035, 0.005])
    indicators = (levels[:, None] == range(8)).astype(float)
    for columns, expected in (
        ([kind], [[], []]),
        ([narrow + 0.5, kind], [[0], []]),
        ([narrow - 0.9, kind, indicators], [[0], []]),
        ([narrow, kind], [[], [0]]),
        ([narrow, kind, indicators], [[], []]),
        ([kind, indicators], [[], []]),
    ):
        rows = np.column_stack(columns)
        # A variance exceeds 1.5 deviations of its noise in 7 of 100 tables.
        assert np.mean([hidden(rows, rng=rng) == expected for _ in range(40)]) > 0.75


@pytest.mark.parametrize("is_sign", [False, True])
def test_rare_indicators_are_hidden_columns_in_few_tables(rng, is_sign):
    """Their intervals cover: at most 2% of tables may name one, as 0 and 1 or as -1 and 1."""
    shares = [0.002, 0.005, 0.01, 0.03, 0.1, 0.5]
    events = (rng.random((10_000, 6)) < shares).astype(float)
    rows = np.column_stack(
        [rng.uniform(-1.0, 1.0, size=(10_000, 3)), (1 + is_sign) * events - is_sign]
    )
    named = [
        hidden(rows, noise, rng) != [[], []] for noise in (30.0, 100.0, 200.0) for _ in range(100)
    ]
    assert np.mean(named) <= 0.02


def test_nothing_is_said_of_a_column_where_noise_hides_kind_ones_too(rng):
    rows = rng.uniform(-1.0, 1.0, size=(10_000, 3)) * [1.0, 1.0, 0.01]
    assert hidden(rows, 1000.0, rng) == [[], []]


def test_hidden_columns_are_named_and_a_few_stand_for_many():
    draws = np.zeros((100, 1, 9))
    released = Diagnostics(hidden_columns=np.array([1, 2]))
    (text,) = columns_below_noise(released, draws, ["age", "income", "debt"])
    assert "income, debt" in text and "age" not in text
    (text,) = columns_below_noise(Diagnostics(hidden_columns=np.arange(9)), draws, "abcdefghi")
    assert "f and 3 more" in text
    for nothing in (Diagnostics(), Diagnostics(hidden_columns=np.array([]))):
        assert columns_below_noise(nothing, draws, "ab") == ()


def test_candidates_are_named_if_nothing_is_learnt_of_their_effects(rng):
    indices = {"hidden_columns": np.array([2]), "hidden_or_rare_columns": np.array([0, 1])}
    released = Diagnostics(**indices)
    draws = rng.normal([3.0, 0.3, 3.0], size=(400, 1, 3))
    (text,) = columns_below_noise(released, draws, ["seen", "unseen", "hidden"])
    assert "much unseen, hidden vary" in text


@pytest.mark.parametrize("estimator", ["classes", "numbers"])
def test_a_fit_names_the_column_whose_bounds_are_too_wide(estimator):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.uniform(-1.0, 1.0, size=(10_000, 3)), columns=["a", "b", "income"])
    table["income"] = 0.01 * table["income"] - 0.8
    if estimator == "classes":
        model = DPBayesianLogisticRegression(1.0, classes=[0, 1], random_state=0)
        y = (rng.random(len(table)) < expit(table["a"])).astype(int)
    else:
        model = DPBayesianRidge((-4.0, 4.0), random_state=0)
        y = table["a"] + rng.normal(size=len(table))
    with pytest.warns(DataScalingWarning, match="how much income var.*DPQuantileScaler"):
        model.fit(table, y)


def test_columns_whose_variance_noise_hides_are_unseen(rng):
    """Variances are 0.33, 0.01 and 0.07; two deviations of noise are 0.04, or 0.3."""
    n = 10_000
    rows = np.column_stack(
        [rng.uniform(-1.0, 1.0, n), 0.1 * rng.normal(size=n), rng.random(n) < 0.08]
    )
    for noise, expected in ((200.0, [0.0, 0.95, 0.05]), (1500.0, [0.45, 0.95, 0.95])):
        found = np.zeros(3)
        for _ in range(100):
            moment = moment_of(rows, 1.0, noise, rng)
            found[hidden_columns_of(moment, noise, 1.0, 3.0**0.5, n)[2]] += 0.01
        np.testing.assert_allclose(found, expected, atol=0.15)


def test_tables_of_intervals_name_what_noise_hides_and_only_there():
    """Beneath every table of coefficients, in print and in notebooks, with what the threshold is."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.uniform(-1.0, 1.0, (2_000, 3)), columns=["a", "b", "<income>"])
    X["<income>"] /= 20.0
    model = DPBayesianLogisticRegression(epsilon=0.5, random_state=0).fit(X, X["a"] > 0.0)
    note, *others = model.interval_notes()
    assert note.startswith("noise hides how much <income> varies")
    hidden = model.released_["unseen_deviation"]
    assert f"below {hidden:.2g}, as they were passed" in note
    # Two deviations of noise instead of one and a half.
    from_plan = hidden_deviation(model.plan_, moment_geometry(model.plan_))
    assert hidden == pytest.approx(from_plan * math.sqrt(2.0 / 1.5))
    for table in (
        model.coef_table(),
        model.summary(),
        odds_ratios(model),
        raw_coefficients(model),
        contrasts(model, "a - b"),
        average_marginal_effects(model, X[:5]),
    ):
        assert table.attrs["notes"] == (note, *others)
        printed = "".join(f"\nNote: {each}" for each in (note, *others))
        assert str(table).endswith(printed) and "&lt;income&gt; varies" in table._repr_html_()
    kind = DPBayesianLogisticRegression(5.0, random_state=0).fit(X[["a", "b"]], X["a"] > 0.0)
    assert kind.interval_notes() == () and "Note" not in str(kind.coef_table())
    free = DPBayesianLogisticRegression(np.inf, random_state=0).fit(X, X["a"] > 0.0)
    assert free.interval_notes() == ()


def test_slopes_are_said_to_be_of_a_centre_where_no_wide_clip_is_asked():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1.0, 1.0, (20_000, 3))
    for n, is_centre in ((1_000, True), (20_000, False)):
        model = DPBayesianRidge((-4.0, 4.0), random_state=0).fit(X[:n], X[:n, 0])
        assert any("of a centre" in note for note in model.interval_notes()) == is_centre
    counts = DPBayesianPoissonRegressor(max_count=10, random_state=0)
    counts.fit(X[:1_000], rng.poisson(np.exp(X[:1_000, 0])))
    assert not any("centre" in note for note in counts.interval_notes())


def test_skewed_errors_are_noted_where_intervals_allow_for_them():
    """Where noise is small, nothing is said."""
    for released, is_noted in (
        ({"asymmetry": (0.5, 0.1, 2.0), "noise_of_skewed_slopes": 0.04}, True),
        ({"asymmetry": (0.5, 0.1, 2.0), "noise_of_skewed_slopes": 0.01}, False),
        ({"asymmetry": (0.5, 0.3, 2.0), "noise_of_skewed_slopes": 0.04}, False),
        ({"asymmetry": (0.5, 0.1, 2.0)}, False),
        ({"asymmetry": (0.0, 0.0, 0.0), "noise_of_skewed_slopes": 0.04}, False),
    ):
        plan = DPBayesianRidge((-4.0, 4.0)).privacy_plan(20_000, 3)
        notes = interval_notes(plan, Diagnostics(**released), map(NotedColumn, "abc"))
        assert any("their mean is 0.5 above" in note for note in notes) == is_noted
    hidden = Diagnostics(asymmetry=(0.5, 0.3, 2.0), noise_of_skewed_slopes=0.1)
    assert (
        "hides whether errors are skewed"
        in interval_notes(plan, hidden, map(NotedColumn, "abc"))[0]
    )


def test_notes_on_pipelines_know_indicators_and_the_units_of_a_table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "income": rng.lognormal(10.0, 0.5, 3_000),
            "age": rng.normal(50.0, 4.0, 3_000).clip(18, 100),
            "smoker": rng.choice(["y", "n"], 3_000, p=[0.03, 0.97]),
        }
    )
    branches = [
        ("num", BoundedScaler([0, 0], [1e6, 120]), ["income", "age"]),
        ("cat", DPOneHotEncoder(categories=[["y", "n"]]), ["smoker"]),
    ]
    model = DPBayesianLogisticRegression(random_state=0)
    model = make_private_pipeline(ColumnTransformer(branches), model, epsilon=0.5)
    model.fit(X, rng.random(3_000) < 0.3)
    alone, *_ = model[-1].interval_notes()
    assert "cat__smoker_y" in alone
    limit = model[-1].released_["unseen_deviation"]
    for table, named in (
        (raw_coefficients(model), True),
        (odds_ratios(model, raw=True), True),
        (average_marginal_effects(model, X[:50]), True),
        (odds_ratios(model), False),
        (contrasts(model, "num__income - num__age"), False),
    ):
        note, of_widths, *of_levels = table.attrs["notes"]
        assert len(of_levels) == ("P(> 1)" in table.columns)  # Ratios say what levels are against.
        assert "smoker" not in note and ("num__income, num__age vary" in note) != named
        assert re.search(r"have, or lack, (cat__)?smoker_y, (cat__)?smoker_n", of_widths)
        of_income, of_age = (float(f"{limit * half:.2g}") for half in (5e5, 60.0))
        assert (f"income ({of_income:,g}), age ({of_age:,g}) vary" in note) == named


@pytest.mark.parametrize(
    "n, n_exposed, message",
    [
        (40_000, 1_000, r"exposed \([234]\.\d times\). More"),
        (2_000, 60, "but wide, because noise"),
    ],
)
def test_intervals_that_noise_makes_wide_are_noted(n, n_exposed, message):
    """Those of an indicator that few rows have, also where noise hides how many."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.uniform(-1.0, 1.0, n), "exposed": np.arange(n) < n_exposed})
    labels = rng.random(n) < expit(X["age"] + X["exposed"])
    model = DPBayesianLogisticRegression(0.8, random_state=0).fit(X.astype(float), labels)
    (note,) = model.interval_notes()
    assert re.search(message, note) and "age" not in note
    assert note[:150] in " ".join(explain(model)) and note in model.coef_table().attrs["notes"]


def test_all_columns_are_noted_and_no_deviation_that_none_has():
    plan = DPBayesianLogisticRegression().privacy_plan(300, 9)
    unseen = Diagnostics(unseen_columns=np.arange(9), unseen_deviation=math.inf)
    (note,) = interval_notes(plan, unseen, list(map(NotedColumn, "abcdefghi")))
    assert "f, g, h, i vary: intervals of numbers that use little of their bounds" in note
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (300, 9))
    model = DPBayesianLogisticRegression(0.1, random_state=0).fit(rows, rows[:, 0] > 0.0)
    assert model.released_["unseen_deviation"] == math.inf


def test_a_warning_that_noise_hides_directions_is_enough():
    plan = DPBayesianRidge((-4.0, 4.0)).privacy_plan(3_000, 3)
    columns = [NotedColumn("a"), NotedColumn("b", is_indicator=True), NotedColumn("c")]
    released = {"repeated_columns": np.array([0, 1, 2])}
    told = [
        note for note in interval_notes(plan, Diagnostics(**released), columns) if "repeat" in note
    ]
    assert told[0].startswith("other columns, or the constant, nearly repeat a, c:")
    hidden = Diagnostics(**released, hidden_directions=5.0)
    assert not any("repeat" in note for note in interval_notes(plan, hidden, columns))


def test_skewed_errors_are_told_and_heavy_tails_are_not():
    assert skewed_errors(Diagnostics(asymmetry=(0.5, 0.1, 2.0)))
    assert skewed_errors(Diagnostics()) == ()
    assert skewed_errors(Diagnostics(asymmetry=(-0.5, 0.1, 2.0)))[0].count("below") == 1
    for of_noise in ((0.5, 0.3, 2.0), (0.03, 0.001, 2.0)):
        assert skewed_errors(Diagnostics(asymmetry=of_noise)) == ()
    rng = np.random.default_rng(2)
    X = rng.uniform(-1.0, 1.0, size=(20_000, 2))
    for errors, is_skewed in (
        (rng.standard_t(3, len(X)), False),
        (rng.gamma(1.0, 1.5, len(X)) * (1.5 + X[:, 0]), True),
    ):
        model = DPBayesianRidge((-30.0, 30.0), epsilon=3.0, random_state=0).fit(X, X[:, 1] + errors)
        assert (
            skewed_errors(Diagnostics.of(model.released_)) == ()
        )  # Intervals hold slopes of the mean.
        hidden = replace(Diagnostics.of(model.released_), noise_of_skewed_slopes=math.inf)
        assert bool(skewed_errors(hidden)) == is_skewed


def test_a_plan_says_which_columns_noise_hides():
    """And warns where these are columns that are spread evenly over their bounds."""
    for model in (DPBayesianLogisticRegression(), DPBayesianRidge((-4.0, 4.0))):
        plan = model.privacy_plan(20_000, 10)
        below = float(re.search(r"deviation below (\S+) of half", str(plan))[1])
        assert 0.1 < below < 0.2 and plan.warnings == ()
        small = model.set_params(epsilon=0.5).privacy_plan(1_000, 20)
        assert "any column varies" in " ".join(small.warnings) or "nearly all" in small.warnings[0]
        free = model.set_params(epsilon=np.inf, sampler="auto").privacy_plan(1_000, 20)
        assert "columns" not in free.summary()
    model = DPBayesianRidge((-4.0, 4.0))
    assert "of the mean, as far as" in str(model.privacy_plan(20_000, 10))
    assert "of a centre" in str(model.privacy_plan(1_000, 10))


@pytest.mark.nightly
def test_hidden_columns_are_told_where_intervals_miss_and_hardly_else():
    """Designs of numbers and indicators at sizes and budgets other than those that set the thresholds."""
    rng, false, found = np.random.default_rng(11), [], []
    for turn in range(120):
        n, epsilon = int(rng.choice([800, 4_000, 12_000])), float(rng.choice([0.5, 2.0, 5.0]))
        narrow = 1.0 if turn % 2 else 0.03
        numbers = np.clip(0.4 * rng.normal(size=(n, rng.integers(1, 6))), -1.0, 1.0)
        numbers[:, 0] = numbers[:, 0] * narrow + (0.6 if narrow < 1.0 else 0.0)
        levels = rng.choice(4, n, p=[0.5, 0.3, 0.15, 0.05])[:, None] == range(1, 4)
        rows = np.column_stack([numbers, levels])
        y = (rng.random(n) < expit(2.0 * numbers[:, 0] / narrow * 0.3)).astype(int)
        model = DPBayesianLogisticRegression(epsilon, classes=[0, 1], random_state=turn)
        with warnings.catch_warnings(action="ignore"):
            model.fit(rows, y)
        is_told = 0 in model.released_["hidden_columns"]
        if narrow == 1.0:
            false.append(len(model.released_["hidden_columns"]) > 0)
        elif n * epsilon > 8_000:
            found.append(is_told)
    assert np.mean(false) <= 0.05 and np.mean(found) >= 0.8


@pytest.mark.nightly
def test_intervals_of_rare_indicators_cover_and_their_fits_do_not_warn():
    """Before, 35% of such fits named one."""
    rng, covered, named = np.random.default_rng(13), [], []
    for turn in range(120):
        n, epsilon = int(rng.choice([1_000, 5_000, 15_000])), float(rng.choice([0.5, 1.0, 3.0]))
        numbers = np.clip(rng.normal(size=(n, 3)) / 3.0, -1.0, 1.0)
        events = (rng.random((n, 6)) < [0.002, 0.005, 0.01, 0.03, 0.1, 0.5]).astype(float)
        rows = np.column_stack([numbers, 2.0 * events - 1.0 if turn % 3 == 0 else events])
        effects = rng.choice([-1.0, 1.0], 9) * np.append(
            rng.uniform(0.6, 2.0, 3), rng.uniform(0.1, 1.0, 6)
        )
        y = (rng.random(n) < expit(rows @ effects - 0.8)).astype(int)
        model = DPBayesianLogisticRegression(
            epsilon, classes=[0, 1], data_norm=3.0, random_state=turn
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(rows, y)
        named.append(any("noise hides how much x" in str(one.message) for one in caught))
        table = model.coef_table()[3:6]
        covered.append((table["5%"] <= effects[3:6]) & (effects[3:6] <= table["95%"]))
    assert np.mean(named) <= 0.02 + 2.0 * math.sqrt(0.02 / 120)
    assert np.mean(covered) >= 0.85


@pytest.mark.nightly
def test_skew_is_told_of_some_thousand_rows_and_not_of_symmetric_errors():
    rng, false, found = np.random.default_rng(12), [], []
    for turn in range(60):
        n, epsilon = int(rng.choice([6_000, 15_000])), float(rng.choice([1.5, 6.0]))
        X = rng.uniform(-1.0, 1.0, size=(n, 3))
        law = turn % 3
        errors = (
            rng.logistic(size=n),
            rng.standard_t(3.5, size=n) * (1.2 + X[:, 1]),
            rng.weibull(0.8, size=n) * (1.5 + X[:, 0]),
        )[law]
        model = DPBayesianRidge((-40.0, 40.0), epsilon=epsilon, random_state=turn)
        with warnings.catch_warnings(action="ignore"):
            model.fit(X, X[:, 2] + errors)
        hidden = replace(Diagnostics.of(model.released_), noise_of_skewed_slopes=math.inf)
        (found if law == 2 else false).append(bool(skewed_errors(hidden)))
    assert np.mean(false) <= 0.05 and np.mean(found) >= 0.9


def test_chains_that_disagree_are_told():
    fine = Diagnostics(r_hat=np.ones(3), effective_sample_size=np.full(3, 300.0))
    assert chains_disagree(fine, 400) == () and chains_disagree(Diagnostics(), 400) == ()
    few = Diagnostics(
        r_hat=np.array([1.0, 1.4, 1.0]),
        effective_sample_size=np.array([300.0, 12.0, 300.0]),
        posterior=object(),
    )
    (warning,) = chains_disagree(few, 400)
    assert "R-hat 1.40" in warning and "12 independent" in warning and "sample_posterior" in warning
    assert chains_disagree(replace(few, effective_sample_size=np.full(3, 60.0)), 4000) == ()
    assert chains_disagree(few, 50) == ()
    # Without privacy the chains are not kept.
    (warning,) = chains_disagree(replace(few, posterior=None), 400)
    assert warning.endswith("Take a larger n_draws.") and "sample_posterior" not in warning


def test_steps_are_asked_of_samplers_that_have_them(rng):
    X, y = rng.uniform(-1, 1, (300, 2)), rng.integers(2, size=300)
    slow = np.cumsum(rng.normal(size=(400, 3)), axis=0)
    for sampler, is_told in (("auto", False), ("sgfs", True)):
        model = DPBayesianLogisticRegression(np.inf, sampler=sampler, random_state=0).fit(X, y)
        assert bool(low_ess_warnings(slow, model.plan_)) == is_told


@pytest.mark.parametrize("between, is_told", [(0.0, False), (0.2, False), (0.5, True), (1.0, True)])
def test_chains_that_never_meet_are_told(between, is_told):
    """Of fifty chains in fourteen rounds, as a fit has; ``between`` is their share of the variance."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        means = math.sqrt(between) * rng.normal(size=(50, 1))
        rounds = means + math.sqrt(1.0 - between) * rng.normal(size=(14, 50, 1))
        sizes = hmc.effective_sample_size(rounds) * 400 / 700
        released = Diagnostics(r_hat=hmc.r_hat(rounds), effective_sample_size=sizes)
        assert bool(chains_disagree(released, 400)) == is_told
