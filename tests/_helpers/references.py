"""What tests compare with: posteriors that are known otherwise, and how well a chain knows its mean."""

from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from skdpbayes.models import add_gradient, implements, n_examples, record


def planned(sampler, bounds, n_samples, budget, *, n_draws=None, **options):
    """Plan by a sampler or a class of them, with options of its own; no number is one left to the plan."""
    sampler = sampler() if isinstance(sampler, type) else clone(sampler)
    for name in ("temperature", "n_steps"):
        if name in options and options[name] is None:
            options[name] = "auto"
    return sampler.set_params(**options).plan(bounds, n_samples, budget, n_draws=n_draws)


class Tilt(NamedTuple):
    """ell_i = -z_i . theta: with a Gaussian prior the posterior is Gaussian, and known.

    The gradient is ``z_i`` whatever ``theta`` is, so that a record can always differ most.
    """

    directions: np.ndarray
    prior_precision: np.ndarray
    gradient_bound: float


@implements(n_examples, Tilt)
def _count(target):
    return target.directions.shape[0]


@implements(add_gradient, Tilt)
def _gradient(target, theta, selection, count, out):
    for i in range(count):
        for j in range(theta.size):
            out[j] -= target.directions[record(selection, i), j]


def grid_moments(log_density, axes):
    """Mean and covariance by quadrature on a grid."""
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    log_weight = log_density(points)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ points
    return mean, (points - mean).T @ (weight[:, None] * (points - mean))


def moments(log_density, reach, dimension):
    """Mean and covariance of a density within ``reach`` of zero, on grids that close in on it.

    Sums over a grid are exact to many digits once its spacing is well below the deviation.
    """
    n_points = 41
    centre, half = np.zeros(dimension), np.full(dimension, float(reach))
    for _ in range(5):
        axes = [np.linspace(c - h, c + h, n_points) for c, h in zip(centre, half, strict=True)]
        centre, covariance = grid_moments(log_density, axes)
        spacing = 2 * half / (n_points - 1)
        half = 7 * np.maximum(np.sqrt(np.diag(covariance)), spacing / 2)
    return centre, covariance


def log_posterior(points, X, y, prior_scale, temperature=1.0):
    """Logistic regression's log posterior at given points, up to a constant."""
    z = points @ X.T
    likelihood = (y * z - np.logaddexp(0.0, z)).sum(axis=1)
    return likelihood / temperature - 0.5 * np.sum((points / prior_scale) ** 2, axis=1)


def logistic_moments(X, y, prior_scale, temperature=1.0, reach=None):
    """Mean and covariance of logistic regression with one or two parameters, by quadrature."""
    return moments(
        lambda points: log_posterior(points, X, y, prior_scale, temperature),
        8.0 * np.max(prior_scale) if reach is None else reach,
        X.shape[1],
    )


def standard_error(values):
    """Standard error of a chain's mean, by batch means, along the first axis."""
    means = [batch.mean(axis=0) for batch in np.array_split(values, 40)]
    return np.std(means, axis=0, ddof=1) / np.sqrt(40)


def effective_size(values):
    """Effective sample size of a chain."""
    return values.var() / standard_error(values) ** 2


def configured(estimator, **options):
    """Set an estimator's parameters, and those of its sampler by their own names."""
    own = estimator.get_params(deep=False)
    names = {name: name if name in own else f"sampler__{name}" for name in options}
    # Of a copy: samplers of a table of cases serve several.
    return estimator.set_params(
        **{names[name]: clone(value, safe=False) for name, value in options.items()}
    )


class ColumnTable:
    """A table of one column, for what reads tables by counts."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def count(self, function, *args):
        return function(self.values, *args)


def itself(values):
    """Return the column of a `ColumnTable`."""
    return values
