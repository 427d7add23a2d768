"""How often a random walk accepts, against quadrature."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from skdpbayes.samplers.metropolis.plan import barker_acceptance, metropolis_acceptance


@pytest.mark.parametrize("deviation", [0.1, 1.0, 3.0, 8.0])
def test_acceptance_against_quadrature(deviation):
    def mean(rule):
        def integrand(z):
            return norm.pdf(z) * rule(deviation * z - deviation**2 / 2)

        return quad(integrand, -12, 12 + deviation, points=[deviation / 2], limit=200)[0]

    assert barker_acceptance(deviation) == pytest.approx(mean(expit), rel=1e-6)
    accepted = mean(lambda x: np.exp(np.minimum(x, 0.0)))
    assert metropolis_acceptance(deviation) == pytest.approx(accepted, rel=1e-6)
