"""The estimator for normal scores, and the check that they are."""

import numpy as np
import pytest

from skdpbayes.audit import audit_scores, audit_separation
from skdpbayes.privacy.conversions import gaussian_epsilon


def test_separation_of_normal_scores_and_its_error():
    rng = np.random.default_rng(0)
    estimates = [
        audit_separation(2.0 + 3.0 * rng.normal(size=400), 3.0 * rng.normal(size=400))
        for _ in range(400)
    ]
    mus = np.array([e.mu for e in estimates])
    assert mus.mean() == pytest.approx(2 / 3, abs=0.02)
    assert mus.std() == pytest.approx(np.mean([e.standard_error for e in estimates]), rel=0.1)
    assert estimates[0].epsilon(1e-5) == gaussian_epsilon(estimates[0].mu, 1e-5)
    assert estimates[0].epsilon(1e-5, 3.0) < estimates[0].epsilon(1e-5)
    # Normal scores are rarely taken for others.
    assert np.mean([e.is_normal for e in estimates[:60]]) > 0.95


def test_degenerate_scores():
    assert audit_separation([1.0, 1.0], [1.0, 1.0]).mu == 0.0
    assert audit_separation([2.0, 2.0], [1.0, 1.0]).mu == np.inf
    assert not audit_separation([2.0] * 50, [1.0] * 50).is_normal
    for scores in ([1.0], [np.nan, 1.0], [np.inf, 1.0]):
        with pytest.raises(ValueError, match="finite scores"):
            audit_separation(scores, [0.0, 1.0])


OTHER_LAWS = {
    "coins": lambda rng, n: (rng.random(n) < 0.95, rng.random(n) < 0.05),
    "Laplace": lambda rng, n: (rng.laplace(1.0, size=n), rng.laplace(size=n)),
    "a rare give-away": lambda rng, n: (
        rng.normal(size=n) + 50 * (rng.random(n) < 0.01),
        rng.normal(size=n),
    ),
    "unequal variances": lambda rng, n: (rng.normal(0, 2, n), rng.normal(size=n)),
}


@pytest.mark.parametrize("name", OTHER_LAWS)
def test_scores_of_other_laws_are_noticed_and_bounded_all_the_same(name):
    """The difference of means makes 26 of coins that are 3-private, and next to nothing of a give-away."""
    scores = OTHER_LAWS[name](np.random.default_rng(0), 2000)
    assert not audit_separation(*scores).is_normal
    result = audit_scores(*scores, delta=1e-5, claim="normal")
    assert result.claim == "mu" and "do not look normal" in result.notes[0]
    assert result.mu_lower_bound == audit_scores(*scores, delta=1e-5, claim="mu").mu_lower_bound
