"""Tables of numbers and of counts, regressors that are quick to fit, and what they refuse."""

import numpy as np
import pytest

from skdpbayes import DPBayesianPoissonRegressor, DPBayesianRidge
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers import SGHMC

SHORT = SGHMC(n_steps=50)


def counts(n=2000, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    exposure = rng.uniform(0.2, 2.0, size=n)
    return X, rng.poisson(exposure * np.exp(0.5 + X @ [0.8, -0.5, 0.0])), exposure


def poisson(**options):
    options = {"max_count": 15, "sampler": SHORT, "n_draws": 20, "random_state": 0, **options}
    return DPBayesianPoissonRegressor(**options)


def ridge(**options):
    options = {"target_bounds": (-4.0, 8.0), "epsilon": np.inf, "random_state": 0, **options}
    return DPBayesianRidge(**options)


def numbers(n=400, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 3))
    return X, 2.0 + X @ [1.0, -0.5, 0.0] + noise * rng.normal(size=n)


def refused(wrong, act, *args, **options):
    """Return the message of an error that quotes none of what it refuses, before anything is spent."""
    with PrivacyLedger(50.0, 1e-3, allow_seeds=True) as ledger:
        with pytest.raises((ValueError, TypeError)) as error:
            act(*args, **options)
    assert ledger.spent_epsilon == 0.0 and wrong not in str(error.value)
    assert error.value.__cause__ is None and error.value.__context__ is None
    return str(error.value)
