"""Whether intervals of a noise-aware posterior cover."""

import functools
import math

import numpy as np
import pytest
from noise_aware_tables import PRIOR_SCALE, labels_of, uniform_table, unit_rows

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.samplers.statistics import logistic
from skdpbayes.samplers.statistics.logistic import LogisticLikelihood

# Parameters drawn from the prior


def covered(n, d, epsilon, repetitions, n_classes=2):
    """Share of 90% intervals, of parameters drawn from the prior, that cover them."""
    shares = []
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        rows = unit_rows(rng, n, d)
        theta = PRIOR_SCALE * rng.normal(size=(n_classes if n_classes > 2 else 1, d))
        if n_classes == 2:
            labels = labels_of(rng, rows, theta[0])
        else:
            logits = rows @ theta.T + rng.gumbel(size=(n, n_classes))
            labels = logits.argmax(axis=1)
        clf = DPBayesianLogisticRegression(
            epsilon=epsilon,
            data_norm=1.0,
            prior_scale=PRIOR_SCALE,
            fit_intercept=False,
            sampler="noise_aware",
            classes=range(n_classes),
            n_draws=200,
            random_state=seed,
        ).fit(rows, labels)
        # Differences between classes are what labels tell.
        draws, truth = clf.posterior_samples_, theta
        if n_classes > 2:
            draws, truth = draws[:, 1:] - draws[:, :1], truth[1:] - truth[:1]
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        shares.append(np.mean((low < truth) & (truth < high)))
    return np.mean(shares)


@pytest.mark.parametrize(
    "n, d, epsilon, n_classes, repetitions",
    [
        (2000, 4, 1.0, 2, 24),
        pytest.param(2000, 4, 0.3, 2, 40, marks=pytest.mark.nightly),
        pytest.param(2000, 4, 1.0, 2, 80, marks=pytest.mark.nightly),
        pytest.param(3000, 3, 10.0, 2, 40, marks=pytest.mark.nightly),
        pytest.param(3000, 3, 1.0, 3, 40, marks=pytest.mark.nightly),
        pytest.param(3000, 3, 10.0, 3, 40, marks=pytest.mark.nightly),
    ],
)
def test_intervals_cover_as_often_as_they_say(n, d, epsilon, n_classes, repetitions):
    room = 0.07 * math.sqrt(40 / repetitions)
    assert 0.9 - room <= covered(n, d, epsilon, repetitions, n_classes) <= 0.9 + room


@pytest.mark.nightly
@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_noise_of_the_wrong_size_would_not_cover(monkeypatch, factor):
    """The test above, on 80 tables, can fail: draws told another noise cover too rarely, or always."""
    learn = LogisticLikelihood.learn

    def deluded(self, request, *sums):
        learn(self, request, *(each._replace(noise=factor * each.noise) for each in sums))

    monkeypatch.setattr(LogisticLikelihood, "learn", deluded)
    found = covered(2000, 4, 1.0, 36)
    assert found < 0.85 if factor < 1 else found > 0.95


# Columns that depend on each other


def covered_of_levels(epsilon=3.0, n=20_000, n_columns=5, n_levels=8, repetitions=8):
    """Share of 90% intervals that cover, of coefficients of all levels of some columns."""
    shares, length = [], n_columns * n_levels
    for seed in range(repetitions):
        rng = np.random.default_rng(100 + seed)
        rows = np.zeros((n, length))
        for first in range(0, length, n_levels):
            law = rng.dirichlet(np.full(n_levels, 3.0))
            rows[np.arange(n), first + rng.choice(n_levels, size=n, p=law)] = n_columns**-0.5
        theta = PRIOR_SCALE * rng.normal(size=length)
        clf = DPBayesianLogisticRegression(
            epsilon,
            1e-6,
            data_norm=1.0,
            prior_scale=PRIOR_SCALE,
            fit_intercept=False,
            classes=[0, 1],
            random_state=seed,
        ).fit(rows, labels_of(rng, rows, theta))
        low, high = np.quantile(clf.posterior_samples_[:, 0], [0.05, 0.95], axis=0)
        shares.append(np.mean((low < theta) & (theta < high)))
    return np.mean(shares)


def test_levels_that_add_up_to_one_are_covered_too():
    """Labels do not tell what coefficients of a column have in common, and noise hides that they do not."""
    assert covered_of_levels() >= 0.8


def test_who_takes_what_noise_hides_for_known_would_not_cover_them(monkeypatch):
    """The test above can fail."""
    monkeypatch.setattr(logistic, "_LEAST_RELATIVE_VARIANCE", np.inf)
    assert covered_of_levels() < 0.75


# Parameters that the default prior does not expect


def intervals(times, repetitions, epsilon=1.0, d=8, n=5000, prior_scale=None):
    """Return (share of 90% intervals that cover, their median width), of several fits.

    Coefficients are drawn with ``times`` the deviation of the default prior.
    """
    shares, widths = [], []
    for seed in range(repetitions):
        rows, labels, theta = uniform_table(seed, n, d, times)
        clf = DPBayesianLogisticRegression(
            epsilon,
            1e-6,
            data_norm=math.sqrt(d),
            prior_scale=prior_scale,
            fit_intercept=False,
            sampler="noise_aware",
            classes=[0, 1],
            n_draws=200,
            random_state=seed,
        ).fit(rows, labels)
        low, high = np.quantile(clf.posterior_samples_[:, 0], [0.05, 0.95], axis=0)
        shares.append(np.mean((low < theta) & (theta < high)))
        widths.append(np.median(high - low))
    return np.mean(shares), np.median(widths)


of_quick_cells = functools.cache(functools.partial(intervals, repetitions=5))


@pytest.mark.parametrize("times", [0.3, 1.0, 3.0])
def test_intervals_cover_whatever_the_scale_of_coefficients(times):
    """None is given, and it is learnt: forty intervals of five tables."""
    assert of_quick_cells(times)[0] >= 0.78


def test_a_prior_that_is_kept_would_not_cover_three_times_what_it_expects():
    """The test above can fail."""
    assert of_quick_cells(3.0, prior_scale=2.5 / math.sqrt(8))[0] < 0.7


def test_a_learnt_scale_costs_little_width_where_the_default_is_right():
    """The right prior's intervals are about as wide."""
    right = of_quick_cells(1.0, prior_scale=2.5 / math.sqrt(8))[1]
    assert 0.8 < of_quick_cells(1.0)[1] / right < 1.2


def test_who_ignores_noise_in_learning_has_far_wider_intervals(monkeypatch):
    """A misfit that is all noise, of whose size it is a sign, hides what labels tell."""
    learn = logistic.estimate_discrepancy

    def deluded(population, noisy_sums, curvatures, *others):
        told = (
            [e._replace(noise=0.03 * e.noise) for e in part] for part in (noisy_sums, curvatures)
        )
        return learn(population, *told, *others)

    _, width = intervals(3.0, 2, d=20)
    monkeypatch.setattr(logistic, "estimate_discrepancy", deluded)
    assert intervals(3.0, 2, d=20)[1] > 1.7 * width


@pytest.mark.nightly
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("times", [0.3, 1.0, 3.0, 6.0])
def test_intervals_cover_whatever_the_scale_of_coefficients_and_the_budget(times, epsilon):
    """Where effects are large, coefficients of a table share the error of their scale: more tables."""
    repetitions = 60 if times > 1.0 else 20
    assert 0.82 <= intervals(times, repetitions, epsilon)[0] <= 0.98


@pytest.mark.nightly
@pytest.mark.parametrize("times", [0.3, 1.0, 3.0])
def test_intervals_of_twenty_columns_cover_whatever_their_scale(times):
    assert 0.82 <= intervals(times, 36 if times > 1.0 else 12, d=20)[0] <= 0.97
