"""Tables of benchmarks of mixtures, which are drawn from mixtures that are known."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

N_HELD_OUT = 20_000
DEVIATIONS = (0.7, 1.3)


class Scenario(NamedTuple):
    """A family of mixtures, from which a seed takes one.

    Attributes
    ----------
    n_features, n_components : int
    half : float
        Centres are uniform in ``[-half, half]^d``, or the middle of them is.
    data_norm : float
        Public: what rows are clipped to.
    apart : float
        Least distance of two centres; or, if ``exactly``, that of each from the next.
    weights : tuple of float or None
        None for equal ones.
    exactly : bool
    """

    n_features: int
    n_components: int
    half: float
    data_norm: float
    apart: float
    weights: tuple | None = None
    exactly: bool = False


SCENARIOS = {
    "2 dimensions, 3 apart": Scenario(2, 3, 6.0, 10.6, 6.0),
    "10 dimensions, 5 apart": Scenario(10, 5, 4.0, 12.5, 6.0),
    "2 dimensions, 3 overlapping": Scenario(2, 3, 5.0, 10.6, 2.5, exactly=True),
    "2 dimensions, 3 of 80%, 15%, 5%": Scenario(2, 3, 6.0, 10.6, 6.0, (0.8, 0.15, 0.05)),
}


class Known(NamedTuple):
    """A mixture with diagonal covariances."""

    weights: np.ndarray
    means: np.ndarray
    deviations: np.ndarray

    def sample(self, n_samples, generator):
        """Return (rows, their components)."""
        labels = generator.choice(len(self.weights), n_samples, p=self.weights)
        noise = generator.standard_normal((n_samples, self.means.shape[1]))
        return self.means[labels] + self.deviations[labels] * noise, labels

    def score(self, X):
        """Return the mean log density."""
        logs = []
        for weight, mean, deviation in zip(*self, strict=True):
            scaled = (X - mean) / deviation
            constant = np.log(weight) - np.log(deviation).sum()
            logs.append(constant - 0.5 * (scaled**2).sum(axis=1))
        return logsumexp(logs, axis=0).mean() - X.shape[1] * np.log(2.0 * np.pi) / 2.0


def draw_mixture(scenario, generator):
    """Return one `Known` mixture of a scenario."""
    shape = scenario.n_components, scenario.n_features
    if scenario.exactly:
        # Corners of a regular polygon, turned and shifted.
        angles = generator.uniform(0, 2 * np.pi) + 2 * np.pi * np.arange(shape[0]) / shape[0]
        radius = scenario.apart / (2 * np.sin(np.pi / shape[0]))
        middle = generator.uniform(-scenario.half, scenario.half, shape[1])
        means = middle + radius * np.column_stack((np.cos(angles), np.sin(angles)))
    else:
        distance = 0.0
        while distance < scenario.apart:
            means = generator.uniform(-scenario.half, scenario.half, shape)
            pairs = means[:, None] - means[None]
            distance = np.linalg.norm(pairs, axis=2)[~np.eye(shape[0], dtype=bool)].min()
    weights = np.full(shape[0], 1 / shape[0]) if scenario.weights is None else scenario.weights
    return Known(np.array(weights), means, generator.uniform(*DEVIATIONS, shape))


def draw_tables(name, n_samples, seed):
    """Return (rows, held-out rows, their components, the mixture)."""
    generator = np.random.default_rng(seed)
    known = draw_mixture(SCENARIOS[name], generator)
    X_test, labels = known.sample(N_HELD_OUT, generator)
    return known.sample(n_samples, generator)[0], X_test, labels, known
