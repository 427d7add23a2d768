"""Whether intervals of a noise-aware posterior cover."""

import numpy as np
import pytest
from noise_aware_tables import PRIOR_SCALE, labels_of, unit_rows
from skdpbayes.samplers.noise_aware.curvature import Curvature

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.samplers.noise_aware.releases import Releases

# Whether intervals cover


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
    "n, d, epsilon, n_classes",
    [
        pytest.param(2000, 4, 0.3, 2, marks=pytest.mark.nightly),
        (2000, 4, 1.0, 2),
        (3000, 3, 10.0, 2),
        pytest.param(3000, 3, 1.0, 3, marks=pytest.mark.nightly),
        pytest.param(3000, 3, 10.0, 3, marks=pytest.mark.nightly),
    ],
)
def test_intervals_cover_as_often_as_they_say(n, d, epsilon, n_classes):
    assert 0.83 <= covered(n, d, epsilon, 40, n_classes) <= 0.97


@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_noise_of_the_wrong_size_would_not_cover(monkeypatch, factor):
    """The test above can fail: draws that are told another noise cover too rarely, or always."""
    surrogate_of, given = Releases.surrogate, Curvature.given

    def deluded(self):
        looks = self.looks
        self.looks = [look._replace(noise=factor * look.noise) for look in looks]
        found = surrogate_of(self)
        self.looks = looks
        return found

    monkeypatch.setattr(Releases, "surrogate", deluded)
    monkeypatch.setattr(
        Curvature, "given", lambda self, value, noise: given(self, value, factor * noise)
    )
    found = covered(2000, 4, 1.0, 40)
    assert found < 0.8 if factor < 1 else found > 0.96
