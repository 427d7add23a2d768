"""A private mean whose audit takes no time and has room for a thousand canaries."""

import math

import numpy as np
from sklearn.base import BaseEstimator

from skdpbayes.privacy import PrivacyCost
from skdpbayes.privacy.conversions import gaussian_mu
from skdpbayes.random import private_generator
from skdpbayes.samplers.noise import release_vector

DELTA = 1e-5


class Quieter:
    """A generator of a fraction of the noise."""

    def __init__(self, generator, fraction):
        self.generator, self.fraction = generator, fraction
        self.bit_generator = generator.bit_generator

    def standard_normal(self, size):
        return self.fraction * self.generator.standard_normal(size)


class NoisySum(BaseEstimator):
    """Releases the sum of rows of norm 1, with the fraction of the noise that is drawn."""

    def __init__(self, epsilon=1.0, drawn=1.0, random_state=None):
        self.epsilon, self.drawn, self.random_state = epsilon, drawn, random_state

    def fit(self, X, y=None):
        X = np.asarray(X, dtype=float)
        generator, mu = private_generator(self.random_state), gaussian_mu(self.epsilon, DELTA)
        total = (X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]).sum(axis=0)
        noise = 2.0 / mu * 1.001
        self.total_ = release_vector(total, noise, Quieter(generator, self.drawn), charged_mu=mu)
        self.privacy_cost_ = PrivacyCost("replace_one", mu=mu)
        self.spent_delta_ = DELTA
        return self

    def transform(self, X):
        return X


def score(fitted, canaries):
    """Correlations of what was released with the canaries."""
    return (canaries.X_in - canaries.X_out) @ fitted.total_ / math.sqrt(2.0)
