"""A private mean that is easily broken, for audits that ought to notice."""

import math
import warnings

import numpy as np
from sklearn.base import BaseEstimator

from skdpbayes.privacy import PrivacyCost
from skdpbayes.privacy.conversions import gaussian_mu
from skdpbayes.random import private_generator
from skdpbayes.samplers.noise import release_vector

DELTA = 1e-5


class Quieter:
    """A generator of half the noise."""

    def __init__(self, generator):
        self.generator, self.bit_generator = generator, generator.bit_generator

    def standard_normal(self, size):
        return 0.5 * self.generator.standard_normal(size)


class NoisySum(BaseEstimator):
    """Releases the sum of rows of norm 1; ``bug`` is what is wrong with it."""

    def __init__(self, epsilon=1.0, bug=None, random_state=None):
        self.epsilon, self.bug, self.random_state = epsilon, bug, random_state

    def fit(self, X, y=None, sample_weight=None):
        X = np.asarray(X, dtype=float)
        generator, mu = private_generator(self.random_state), gaussian_mu(self.epsilon, DELTA)
        norms = np.linalg.norm(X, axis=1)
        norm = norms.max() if self.bug == "bound" else 1.0
        if self.bug != "clipping":
            X = X / np.maximum(norms, 1.0)[:, None]
        if sample_weight is not None:
            X = (
                X
                * (sample_weight if self.bug == "weights" else np.minimum(sample_weight, 1.0))[
                    :, None
                ]
            )
        noise = (1.0 if self.bug == "factor" else 2.0) * norm / mu * 1.001
        if self.bug == "noise":
            noise *= 0.5
        source = Quieter(generator) if self.bug == "draws" else generator
        total = X.sum(axis=0)
        if self.bug == "step" and total[0] < 0:
            release_vector(total, 1e6, generator, mu=1e-9)
        if self.bug == "shape" and total[0] < 0:
            total = np.append(total, 0.0)
        if self.bug == "warning" and (norms > 1.0).any():
            warnings.warn("rows are long", stacklevel=2)
        if self.bug == "error" and (norms > 1.0).any():
            raise ValueError("rows are long")
        self.total_ = release_vector(total, noise, source, mu=mu)
        if self.bug == "twice":
            release_vector(total, noise, generator, mu=mu)
        if self.bug == "own noise":
            self.total_ = X.sum(axis=0) + noise * generator.standard_normal(X.shape[1])
        if self.bug == "output":
            self.largest_ = norms.max()
        self.privacy_cost_ = PrivacyCost(
            "replace_one", mu=mu * (2.0 if self.bug == "charge" else 1.0)
        )
        self.spent_delta_ = DELTA
        return self

    def transform(self, X):
        return X


def score(fitted, canaries):
    """Correlate what was released with the canaries."""
    return (canaries.X_in - canaries.X_out) @ fitted.total_ / math.sqrt(2.0)
