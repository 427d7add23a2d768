"""The audit's estimator itself."""

import numpy as np
import pytest

from skdpbayes.audit import audit_separation
from skdpbayes.privacy.gaussian import gaussian_epsilon


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


def test_degenerate_scores():
    assert audit_separation([1.0, 1.0], [1.0, 1.0]).mu == 0.0
    assert audit_separation([2.0, 2.0], [1.0, 1.0]).mu == np.inf
    for scores in ([1.0], [np.nan, 1.0], [np.inf, 1.0]):
        with pytest.raises(ValueError, match="finite scores"):
            audit_separation(scores, [0.0, 1.0])
