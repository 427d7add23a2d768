"""Tables of benchmarks of mixtures: mixtures that are known, and pictures of digits."""

from typing import NamedTuple

import numpy as np
from scipy.fft import dctn
from scipy.special import logsumexp

N_HELD_OUT = 20_000
DEVIATIONS = (0.7, 1.3)
# Low-frequency coefficients of a picture in each direction.
N_FREQUENCIES = 3


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
DIGITS = "digits, 9 dimensions, 5"
DIGITS_NORM, DIGITS_COMPONENTS = 5.0, 5


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


def load_digits(path):
    """Return (rows, held-out rows): cosine transforms of digits 5 to 9, 3 x 3 lowest frequencies.

    Every column is centred and scaled as the *digits 0 to 4* would have it, which stand for public data: no
    protected row has any part in that. Sums over many pixels have no atoms, on which densities would be
    unbounded, as ages or hours of work in whole numbers would be.
    """
    parts = []
    with np.load(path) as data:
        for part in ("train", "test"):
            pictures = data[f"X_{part}"].reshape(-1, 28, 28) / 255.0
            spectrum = dctn(pictures, axes=(1, 2), norm="ortho")
            lowest = spectrum[:, :N_FREQUENCIES, :N_FREQUENCIES].reshape(len(pictures), -1)
            is_public = data[f"y_{part}"] < 5
            if part == "train":
                centre, scale = lowest[is_public].mean(axis=0), lowest[is_public].std(axis=0)
            parts.append(np.ascontiguousarray((lowest[~is_public] - centre) / scale))
    return parts
