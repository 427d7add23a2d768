"""A private classifier that costs no time: one noisy mean, of which parameters make better or worse use."""

import warnings
from types import SimpleNamespace

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from skdpbayes.privacy import PrivacyCost
from skdpbayes.privacy.charge import charge
from skdpbayes.privacy.conversions import gaussian_mu


class Cheap(ClassifierMixin, BaseEstimator):
    """Predicts class 1 where the first column is above ``cut``, but for noise on it."""

    seen = []

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        *,
        cut=0.0,
        fails=False,
        factor=1.0,
        verbose=0,
        neighboring_relation="replace_one",
        public_size=None,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.cut = cut
        self.fails = fails
        self.factor = factor
        self.verbose = verbose
        self.neighboring_relation = neighboring_relation
        self.public_size = public_size
        self.random_state = random_state

    def privacy_plan(self, n_samples, n_features, n_classes=2):
        mu = gaussian_mu(self.epsilon, self.delta) * self.factor
        cost = PrivacyCost(self.neighboring_relation, mu=mu)
        return SimpleNamespace(cost=cost, n_samples=n_samples)

    def fit(self, X, y):
        Cheap.seen.append(np.asarray(X)[:, 0])
        self.n_features_in_ = np.shape(X)[1]
        self.plan_ = self.privacy_plan(len(X), self.n_features_in_)
        self.privacy_cost_ = self.plan_.cost
        charge(self.plan_, self)
        warnings.warn("a warning of one candidate", stacklevel=1)
        if self.verbose:
            print("a line of one candidate")
        if self.fails:
            raise ValueError(f"a secret: {X[0]}")
        self.classes_ = (
            np.array(["no", "yes"]) if np.asarray(y).dtype.kind in "UO" else np.arange(2)
        )
        noise = np.random.default_rng(self.random_state).normal() / self.privacy_cost_.mu
        self.threshold_ = self.cut + noise / len(X)
        return self

    def predict(self, X):
        return self.classes_[(np.asarray(X)[:, 0] > self.threshold_).astype(int)]
