"""What a histogram with noise says of counts of a few trials, under laws that are known."""

import math

import numpy as np
import pytest

from skdpbayes.models.families.poisson import drawn
from skdpbayes.samplers.statistics.dispersion import count_edges, evidence_of_few_trials

N, TOLD = 10_000, math.log(50.0)
EDGES = count_edges(20.0)


def evidence(law, rate, rng, noise=37.0, spread=0.3, believed=0.3, off=0.1):
    """Of a table whose logits have a deviation of ``spread``, but are believed to have others."""
    means = rate * np.exp(spread * rng.normal(size=N) - 0.5 * spread**2)
    counts = np.minimum(law(means, rng), 20.0)
    bins = np.bincount(np.searchsorted(EDGES, counts, side="right"), minlength=EDGES.size + 1)
    values = (bins + noise * rng.normal(size=bins.size)) / N
    logits = math.log(rate) + believed * rng.normal(size=24) + off * rng.normal()
    return evidence_of_few_trials(values, noise / N, EDGES, logits, N)


def poisson(means, rng):
    return rng.poisson(means)


def dispersed(means, rng):
    return drawn(means, 1.5, rng)


def yes_or_no(means, rng):
    return rng.random(means.size) < np.minimum(means, 0.95)


def out_of_three(means, rng):
    return rng.binomial(3, np.minimum(means / 3.0, 0.95))


@pytest.mark.parametrize("rate", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("law, believed", [(poisson, 0.3), (poisson, 0.9), (dispersed, 0.3)])
def test_counts_that_follow_the_law_hardly_seem_to_be_of_few_trials(rng, law, rate, believed):
    """Nor if rows are believed to differ far more than they do; at most 2%, by Markov's inequality."""
    found = np.array([evidence(law, rate, rng, believed=believed) for _ in range(40)])
    assert np.mean(found > TOLD) <= 0.025


def test_evidence_has_the_mean_of_one_under_the_law(rng):
    found = np.exp([evidence(poisson, 0.1, rng, believed=0.3) for _ in range(200)])
    assert found.mean() < 1.0 + 3.0 * found.std() / math.sqrt(found.size)


@pytest.mark.parametrize("law, rate", [(yes_or_no, 0.2), (yes_or_no, 0.5), (out_of_three, 1.0)])
def test_answers_and_counts_out_of_three_are_told(rng, law, rate):
    found = np.array([evidence(law, rate, rng) for _ in range(20)])
    assert np.mean(found > TOLD) >= 0.9


@pytest.mark.parametrize("law, rate, noise", [(yes_or_no, 0.05, 37.0), (yes_or_no, 0.5, 1e5)])
def test_where_noise_hides_counts_above_one_nothing_is_said(rng, law, rate, noise):
    found = np.abs([evidence(law, rate, rng, noise) for _ in range(20)])
    assert np.mean(found) < 1.0 and found.max() < TOLD
