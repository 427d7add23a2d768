"""Counts that are cut are told, and hardly others: of another law intervals hold."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from fit_warnings import FIT_WARNINGS
from scipy import stats

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor
from skdpbayes._estimator.model_checks import _LARGEST_SHARE_AT_MAX, interval_notes
from skdpbayes.exceptions import PosteriorWarning
from skdpbayes.models.families.poisson import CountLaw, drawn
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers.base import Diagnostics
from skdpbayes.samplers.statistics.dispersion import (
    count_edges,
    hidden_share_of_large,
    share_of_largest,
)
from skdpbayes.samplers.statistics.hmc import Posterior


def told(seed, law, rate, max_count=20, n=6000, d=3, epsilon=1.0, skewed=False, **options):
    """The estimator, and causes of warnings of a fit to counts of a law, a function of means."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1.0, 1.0, size=(n, d))
    if skewed:
        rows = np.minimum(rng.exponential(0.4, size=(n, d)), 3.0)
    means = np.exp(math.log(rate) + (rows - rows.mean(axis=0)) @ (0.5 * rng.normal(size=d)))
    model = DPBayesianPoissonRegressor(
        max_count,
        epsilon,
        1e-5,
        sampler="clipped_residuals",
        random_state=seed,
        **options,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, law(means, rng))
    found = [str(one.message) for one in caught if one.category in FIT_WARNINGS]
    costs = "fitting again spends budget again", "spends nothing"
    assert all(any(cost in text for cost in costs) for text in found)
    causes = {"reach max_count": "cut", "chains that drew": "chains"}
    named = [[causes[part] for part in causes if part in text] or ["other"] for text in found]
    return model, [cause for one in named for cause in one]


def poisson(means, rng):
    return rng.poisson(means)


def yes_or_no(means, rng):
    return rng.random(means.size) < np.minimum(means, 0.95)


def out_of_three(means, rng):
    return rng.binomial(3, np.minimum(means / 3.0, 0.95))


def dispersed(means, rng):
    return drawn(means, 2.0, rng)


def more_zeros(means, rng):
    return drawn(means, CountLaw(zeros=0.3), rng)


def rates_differ(means, rng):
    return drawn(means, CountLaw(growth=0.5), rng)


def lognormal(means, rng):
    return rng.poisson(means * np.exp(rng.normal(size=means.size) - 0.5))


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.nightly) for k in (1, 2))])
def test_counts_that_are_cut_are_told(seed):
    model, causes = told(seed, poisson, 20.0, max_count=5)
    assert causes == ["cut"]
    # What the warning is for: they come out too high.
    assert model.intercept_ > math.log(20.0) + 1.0


OTHER_LAWS = {
    "yes or no": dict(law=yes_or_no, rate=0.2),
    "out of three": dict(law=out_of_three, rate=0.6),
    "dispersed": dict(law=dispersed, rate=2.0),
    "more zeros": dict(law=more_zeros, rate=5.0, max_count=60),
    "rates differ": dict(law=rates_differ, rate=5.0, max_count=90),
    "lognormal rates": dict(law=lognormal, rate=5.0, max_count=200),
}


@pytest.mark.nightly
@pytest.mark.parametrize("options", OTHER_LAWS.values(), ids=OTHER_LAWS)
def test_intervals_of_ratios_hold_whatever_the_law_of_counts_in_silence(options):
    """Clips are as wide as what is not known of the law makes them; before they were below 0.7."""
    held, alarms = [], 0
    for seed in range(14):
        model, causes = told(seed, epsilon=2.0, n=10_000, **options)
        alarms += bool(causes)
        rng = np.random.default_rng(seed)
        rng.uniform(-1.0, 1.0, size=(10_000, 3))
        effects = 0.5 * rng.normal(size=3)
        low, high = model.posterior_interval(0.9)[0, :3].T
        held.append(np.mean((low < effects) & (effects < high)))
    assert np.mean(held) > 0.8 and alarms <= 1


def test_a_largest_count_of_one_is_told_before_anything_is_spent():
    def plan(largest, **options):
        model = DPBayesianPoissonRegressor(largest, 1.0, **options)
        return " ".join(model.privacy_plan(6000, 3).warnings)

    sharp, chain = {"sampler": "clipped_residuals"}, {"sampler": "sghmc"}
    assert "max_count=1 leaves" in plan(1, **sharp)
    assert "take DPBayesianLogisticRegression" in plan(0.5, **sharp)
    for largest, options in ((2, sharp), ("auto", sharp), (1, chain)):
        assert "DPBayesianLogisticRegression" not in plan(largest, **options)
    with PrivacyLedger(9.0, 1e-3, allow_seeds=True) as ledger, warnings.catch_warnings():
        warnings.simplefilter("error", PosteriorWarning)
        with pytest.raises(PosteriorWarning, match="max_count=1 leaves"):
            DPBayesianPoissonRegressor(1, **sharp).fit(np.zeros((6000, 3)), np.arange(6000) % 2)
    assert ledger.spent_epsilon == 0.0


RIGHT = {
    "half": dict(law=poisson, rate=0.5),
    "a fifth": dict(law=poisson, rate=0.2, n=10_000),
    "rare": dict(law=poisson, rate=0.05),
    "many": dict(law=poisson, rate=20.0, max_count=96),
    "half of all are cut": dict(law=poisson, rate=5.0, max_count=5),
    "skewed": dict(law=poisson, rate=2.0, skewed=True, epsilon=3.0),
    "dispersed": dict(law=dispersed, rate=2.0),
    "drowned": dict(law=poisson, rate=1.0, epsilon=0.05),
    "few yes": dict(law=yes_or_no, rate=0.03),
    "yes or no": dict(law=yes_or_no, rate=0.5),
    "zeros": dict(law=more_zeros, rate=6.0, max_count=60),
}


@pytest.mark.daily(2)
@pytest.mark.parametrize("options", RIGHT.values(), ids=RIGHT)
def test_nothing_is_told_where_all_is_right(options):
    assert told(3, **options)[1] == []


@pytest.mark.nightly
@pytest.mark.parametrize("options", RIGHT.values(), ids=RIGHT)
def test_false_alarms_are_rare(options, monkeypatch):
    """At most 2% of fits, and the room of two deviations for 40 of them.

    What is told follows from releases, before any draw, and chains are left out.
    """
    monkeypatch.setattr(
        Posterior, "draw_all", lambda self, n, _: (np.zeros((n, self.density.start.size)), {})
    )
    alarms = sum(bool(told(seed, **options)[1]) for seed in range(100, 140))
    assert alarms / 40 <= 0.02 + 2.0 * math.sqrt(0.02 * 0.98 / 40)


def test_the_last_bin_has_what_is_at_the_largest_count(rng):
    for largest in (0.5, 1.0, 3.0, 7.5, 20.0, 1e6):
        edges = count_edges(largest)
        assert edges[-1] == largest and np.all(np.diff(edges) > 0.0)
        counts = np.minimum(rng.poisson(1.2 * largest, size=500), largest)
        bins = np.bincount(np.searchsorted(edges, counts, side="right"), minlength=edges.size + 1)
        assert bins[-1] == np.sum(counts == largest)
        assert share_of_largest(bins, 1e-9) == pytest.approx(np.mean(counts == largest))


def test_shares_are_from_below(rng):
    bins, noise = np.array([100.0, 200.0, 50.0, 0.0, 1600.0]), 25.0
    found = [share_of_largest(bins + noise * rng.normal(size=5), noise) for _ in range(2000)]
    share = 1600.0 / bins.sum()
    assert np.mean(np.array(found) > share) < 0.015 and np.mean(found) > share - 0.06
    assert share_of_largest(np.zeros(5), 10.0) == 0.0 and share > _LARGEST_SHARE_AT_MAX


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("top, is_named", [(1.0, False), (0.02, True)])
def test_chains_in_whitened_coordinates_name_columns_that_noise_hides(top, is_named, counts):
    """The default of labels with many columns, too: the second moment has been released."""
    rng, n = np.random.default_rng(0), 20_000
    rows = np.column_stack([rng.uniform(-1.0, 1.0, n), rng.uniform(0.0, top, n)])
    model = DPBayesianLogisticRegression(sampler="sgfs", n_draws=4, random_state=0)
    y = rng.integers(0, 2, n)
    if counts:
        model = DPBayesianPoissonRegressor(10, sampler="sgfs", n_draws=4, random_state=0)
        y = rng.poisson(np.exp(0.5 * rows[:, 0]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, y)
    assert any("hides how much x1 varies" in str(each.message) for each in caught) == is_named
    assert "intervals of those with a deviation below" in str(model.privacy_plan(n, 2))


def test_a_few_rows_with_a_rate_of_their_own_are_noted():
    def a_fiftieth(means, rng):
        return rng.poisson(means * np.where(rng.random(means.size) < 0.02, 10.0, 1.0))

    def rates_differ(means, rng):
        return rng.poisson(means * np.exp(rng.normal(size=means.size) - 0.5))

    for law, is_noted in ((a_fiftieth, True), (rates_differ, False), (poisson, False)):
        model, _ = told(0, law, 20.0, max_count=1000, n=40_000, epsilon=3.0)
        assert any("more counts are large" in note for note in model.interval_notes()) == is_noted
        assert (model.released_["unexplained_large_counts"] > 0.05) == is_noted


@pytest.mark.parametrize(
    "rate, n, is_noted", [(3.0, 5000, True), (3.0, 100_000, False), (0.3, 100_000, True)]
)
def test_it_is_noted_where_noise_hides_a_few_rows_with_large_rates(rate, n, is_noted):
    model, _ = told(0, poisson, rate, max_count=100, n=n, epsilon=1.0)
    assert any("ten times the rate" in note for note in model.interval_notes()) == is_noted
    # What two deviations of the noise, and half of what others have there, are of such rows.
    (request,) = (each for each in model.plan_.rounds[1] if each.kind == "histograms")
    mean, edges = model.predict(np.zeros((1, 3)))[0], count_edges(100.0)
    first = math.ceil(5.0 * mean)
    noise = 2.0 * request.multipliers[0] * math.sqrt(np.count_nonzero(edges >= first)) / n
    seen, others = stats.poisson.sf(first - 1, [10.0 * mean, mean])
    share = model.released_["hidden_share_of_large"]
    assert share == pytest.approx((noise + 0.5 * others) / seen, rel=0.4)
    assert hidden_share_of_large(1e6, 100.0, mean, n) == 1.0
    assert hidden_share_of_large(1.0, 4.0 * mean, mean, n) == 0.0


def test_survival_is_noted_and_other_exposures_are_not():
    rng = np.random.default_rng(1)
    rows = rng.uniform(-1.0, 1.0, size=(10_000, 3))
    means = np.exp(0.5 * rows[:, 0])
    times, exposure = rng.exponential(1.0 / means), rng.uniform(0.5, 2.0, size=len(rows))
    model = DPBayesianPoissonRegressor(5, 1.0, 1e-5, random_state=0)
    model.fit(rows, times <= 0.6, exposure=np.minimum(times, 0.6))
    assert any("ends with the event" in note for note in model.interval_notes())
    model.fit(rows, np.minimum(rng.poisson(means * exposure), 5), exposure=exposure)
    assert model.released_["law_discrepancy"] < 2.0 and not model.interval_notes()
    model.set_params(max_count=1).fit(rows, times <= 0.6, exposure=np.minimum(times, 0.6))
    assert any("counts up to 1 fit any law" in note for note in model.interval_notes())


def test_notes_on_counts_follow_from_what_was_released():
    plan = DPBayesianPoissonRegressor(5).privacy_plan(10_000, 3)
    released = Diagnostics(law_discrepancy=20.0, unexplained_large_counts=0.0, law=CountLaw())
    assert interval_notes(plan, Diagnostics(), ()) == ()
    # Counts of trials vary less than Poisson's: intervals are wide.
    assert interval_notes(plan, released, ()) == ()
    (note,) = interval_notes(plan, replace(released, law=CountLaw(1.0, 0.5)), ())
    assert "0 in nearly all rows" in note
    (note,) = interval_notes(plan, replace(released, unexplained_large_counts=0.1), ())
    assert "more counts are large" in note
    for large in (0.0, 0.1):
        exposed = replace(released, typical_exposure=1.0, unexplained_large_counts=large)
        (note,) = interval_notes(plan, exposed, ())
        assert "survival" in note
