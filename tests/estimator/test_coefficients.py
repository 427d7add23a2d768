"""Intervals and a table of coefficients."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor
from skdpbayes.exceptions import PosteriorWarning

N = 5000


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.uniform(-1, 1, (N, 3)), columns=["age", "income", "hours"])
    labels = rng.random(N) < expit(2 * rows["age"] - rows["income"] + 0.5)
    return rows, np.asarray(labels).astype(int)


def fitted(table, **options):
    rows, labels = table
    return DPBayesianLogisticRegression(**{"random_state": 0, **options}).fit(rows, labels)


@pytest.fixture(scope="module")
def binary(table):
    return fitted(table)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_their_share_of_draws(binary, level):
    interval = binary.posterior_interval(level)
    assert interval.shape == (1, 4, 2)
    draws = binary.posterior_samples_
    inside = (interval[..., 0] <= draws) & (draws <= interval[..., 1])
    np.testing.assert_allclose(inside.mean(axis=0), level, atol=0.01)
    below = (draws < interval[..., 0]).mean(axis=0)
    np.testing.assert_allclose(below, (1 - level) / 2, atol=0.01)


@pytest.mark.parametrize("level", [0.0, 1.0, -1, 2.0, np.nan])
def test_levels_are_between_zero_and_one(binary, level):
    with pytest.raises(ValueError, match="level"):
        binary.posterior_interval(level)


def test_nothing_is_told_before_a_fit():
    for ask in ("posterior_interval", "summary"):
        with pytest.raises(NotFittedError):
            getattr(DPBayesianLogisticRegression(), ask)()


def test_draws_of_private_chains_are_told_to_be_no_posterior(table):
    chain = fitted(table, sampler="sghmc")
    with pytest.warns(UserWarning, match="noise_aware"):
        chain.posterior_interval()
    with pytest.warns(UserWarning, match="noise_aware"):
        summary = chain.summary()
    assert summary["sd_without_privacy"].isna().all()


def test_a_summary_has_names_moments_and_ends(binary):
    summary = binary.summary(0.8)
    assert list(summary.index) == ["age", "income", "hours", "intercept"]
    np.testing.assert_array_equal(summary["mean"], binary.posterior_samples_[:, 0].mean(axis=0))
    np.testing.assert_array_equal(summary["sd"], binary.posterior_samples_[:, 0].std(axis=0))
    ends = summary[["10%", "90%"]].to_numpy()
    np.testing.assert_array_equal(ends, binary.posterior_interval(0.8)[0])


def test_of_several_classes_rows_are_by_class_and_name(table):
    rows, _ = table
    labels = np.array(["no", "perhaps", "yes"])[np.arange(N) % 3]
    clf = DPBayesianLogisticRegression(fit_intercept=False, random_state=0).fit(rows, labels)
    summary = clf.summary()
    assert summary.index.names == ["class", "coefficient"] and len(summary) == 9
    means = clf.posterior_samples_.mean(axis=0)
    assert summary.loc[("yes", "income"), "mean"] == means[2, 1]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_deviations_without_privacy_are_those_of_a_posterior(table, n_classes):
    """At a large budget against the inverse Hessian of scikit-learn's penalised fit."""
    rows, labels = table
    labels = labels if n_classes == 2 else labels + (np.arange(N) % 2) * labels
    clf = DPBayesianLogisticRegression(
        100.0, prior_scale=1.0, fit_intercept=False, n_draws=2000, random_state=0
    ).fit(rows, labels)
    x = rows.to_numpy()
    reference = LogisticRegression(C=1.0, fit_intercept=False).fit(x, labels)
    p = reference.predict_proba(x)
    blocks = [1] if n_classes == 2 else range(3)
    hessian = np.block(
        [[(x.T * (p[:, j] * ((j == k) - p[:, k]))) @ x for k in blocks] for j in blocks]
    )
    expected = np.sqrt(np.diag(np.linalg.inv(hessian + np.eye(len(hessian)))))
    summary = clf.summary()
    np.testing.assert_allclose(summary["sd_without_privacy"], expected, rtol=0.08)
    np.testing.assert_allclose(summary["sd"], expected, rtol=0.15)


def test_rows_that_are_clipped_count_fully_without_privacy():
    """Rows with a rare indicator are long: what weighted ones tell was twice the deviation."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.uniform(-1, 1, 10_000), rng.random(10_000) < 0.03])
    labels = (rng.random(10_000) < 1 / (1 + np.exp(0.5 - rows @ [1.0, 0.7]))).astype(int)
    p = LogisticRegression(C=np.inf).fit(rows, labels).predict_proba(rows)[:, 1]
    x = np.column_stack([rows, np.ones(10_000)])
    expected = np.sqrt(np.diag(np.linalg.inv((x.T * (p * (1 - p))) @ x)))
    tables = [
        DPBayesianLogisticRegression(1.0, data_norm=1.5, random_state=seed)
        .fit(rows, labels)
        .summary()
        for seed in range(3)
    ]
    without = np.mean([table["sd_without_privacy"] for table in tables], axis=0)
    np.testing.assert_allclose(without, expected, rtol=0.2)
    assert all(table.loc["x1", "sd"] > 1.8 * expected[1] for table in tables)


def test_counted_rows_that_are_clipped_count_fully_without_privacy():
    """What weighted ones tell of a rare indicator was three to four times the deviation."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.uniform(-1, 1, 20_000), rng.random(20_000) < 0.02])
    means = np.exp(rows @ [0.5, 0.5])
    x = np.column_stack([rows, np.ones(20_000)])
    expected = np.sqrt(np.diag(np.linalg.inv((x.T * means) @ x)))
    model = DPBayesianPoissonRegressor(10, epsilon=3.0, data_norm=1.5, random_state=0)
    without = model.fit(rows, rng.poisson(means)).summary()["sd_without_privacy"]
    assert np.all(np.abs(np.log(without / expected)) < [0.1, 0.5, 0.2])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_privacy_no_deviation_is_known_of_classes_apart(n_classes):
    """They would be those of a normal law at the mode, and many times too small."""
    rows = np.random.default_rng(0).uniform(-1, 1, (3_000, 2))
    labels = np.digitize(rows[:, 0], np.linspace(-1, 1, n_classes + 1)[1:-1])
    clf = DPBayesianLogisticRegression(3.0, random_state=0).fit(rows, labels)
    assert clf.summary()["sd_without_privacy"].isna().all()
    assert not any("times as wide" in note for note in clf.interval_notes())


def test_privacy_has_the_larger_share_the_smaller_the_budget(table):
    shares = [fitted(table, epsilon=e).summary()["share_of_privacy"].mean() for e in (0.3, 1, 1000)]
    assert shares[0] > shares[1] > shares[2] and shares[2] < 0.1 and shares[0] > 0.4
    without = fitted(table, epsilon=np.inf).summary()
    assert (without["share_of_privacy"] == 0).all()


def test_intervals_survive_pickling(binary):
    copy = pickle.loads(pickle.dumps(binary))
    np.testing.assert_array_equal(copy.posterior_interval(), binary.posterior_interval())
    pd.testing.assert_frame_equal(copy.summary(), binary.summary())


def test_few_draws_are_made_more_of(table):
    """Three draws have no quantiles to speak of; new ones are free."""
    few, many = fitted(table, n_draws=3), fitted(table)
    widths = [np.diff(clf.posterior_interval())[..., 0] for clf in (few, many)]
    np.testing.assert_allclose(widths[0], widths[1], rtol=0.25)


def test_draws_may_come_from_a_generator(binary):
    draws = [binary.sample_posterior(5, random_state=np.random.default_rng(1)) for _ in range(2)]
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize("level", [1e-7, 0.999999999])
def test_ends_have_names_of_their_own(binary, level):
    assert binary.summary(level).shape == (4, 6)


@pytest.mark.parametrize("size, narrow", [(0.8, False), (4.0, True)])
def test_a_prior_that_holds_coefficients_back_is_told(size, narrow):
    """One that a user gave; the default is learnt, and holds nothing back."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (N, 6))
    truth = size * np.array([1, -1, 1, 1, -1, 1])
    labels = (rng.random(N) < expit(rows @ truth)).astype(int)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DPBayesianLogisticRegression(prior_scale=1.0, random_state=0).fit(rows, labels)
        told = len([one for one in caught if "prior deviations" in str(one.message)])
        learnt = DPBayesianLogisticRegression(random_state=0).fit(rows, labels)
        wide = DPBayesianLogisticRegression(prior_scale=4.0, random_state=0).fit(rows, labels)
    all_told = [one for one in caught if "prior deviations" in str(one.message)]
    assert told == len(all_told) == narrow
    assert all(one.category is PosteriorWarning for one in all_told)
    for fit in (learnt, wide):
        low, high = fit.posterior_interval(0.99)[0, :-1].T
        assert ((low < truth) & (truth < high)).all()
