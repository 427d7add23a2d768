"""What one record can do to a mixture's gradients: never more than the bound, and not far less."""

import math

import numpy as np
import pytest
from mixtures import KINDS, make_model, make_reference, make_table
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from skdpbayes.samplers._machinery.compiled_entries import CompiledCore
from skdpbayes.samplers._machinery.losses import potential_at
from skdpbayes.samplers.mixture.core import places
from skdpbayes.targets import add_gradient, pullback, shared_parameters
from skdpbayes.targets._rows import read_only
from skdpbayes.targets.mixture.target import bound_near, mixture_target


@CompiledCore
def _each_gradient(target, theta, inner, sums, prior, out):
    shared_parameters(target, theta, inner)
    for i in range(out.shape[0]):
        sums[:] = 0.0
        add_gradient(target.table, inner, i, 1, sums)
        pullback(target, theta, inner, sums, 1, out[i], prior)


def record_gradients(target, theta, rows):
    """Gradients of single records, given as rows in the unit ball."""
    table = target.table._replace(values=read_only(rows), scale=read_only(np.ones(len(rows))))
    inner, sums = (np.empty(size) for size in target.table_sizes)
    out = np.zeros((len(rows), theta.size))
    _each_gradient(target._replace(table=table), theta, inner, sums, np.empty(theta.size), out)
    return out


def gradient_bound(target, theta):
    return places(target, theta[None])[0].scaling[0]


def candidate_rows(rng, components, n):
    """Rows where gradients may be longest: on the sphere, inside, at means and opposite to them."""
    means = components.means
    d = means.shape[1]
    sphere = rng.normal(size=(n, d))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    inside = sphere[: n // 4] * rng.uniform(size=(n // 4, 1))
    directions = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
    middles = (means[:, None] + means[None]).reshape(-1, d) / 2.0
    axes = np.eye(d)
    rows = np.vstack([sphere, inside, directions, -directions, middles, axes, -axes])
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


def climb(target, theta, rows, lengths, n_starts=2):
    """Return the longest gradient near the best rows, and that row."""

    def into_ball(x):
        return np.ascontiguousarray(x / max(1.0, np.linalg.norm(x)))

    def negative(x):
        return -np.linalg.norm(record_gradients(target, theta, into_ball(x)[None])[0])

    found = rows[[lengths.argmax()]]
    for start in np.argsort(-lengths)[:n_starts]:
        best = minimize(negative, rows[start], method="Nelder-Mead", options={"maxfev": 80})
        found = np.vstack([found, into_ball(best.x)[None]])
    return found


def largest_found(rng, target, theta, n=250):
    """Return (longest gradient, half the largest distance of two) that a search finds."""
    rows = candidate_rows(rng, places(target, theta[None])[0], n)
    gradients = record_gradients(target, theta, rows)
    better = climb(target, theta, rows, np.linalg.norm(gradients, axis=1))
    gradients = np.vstack([gradients, record_gradients(target, theta, better)])
    longest = np.linalg.norm(gradients, axis=1)
    extreme = gradients[np.argsort(-longest)[:60]]
    return longest.max(), cdist(extreme, gradients).max() / 2.0


def bounds_at(target, theta):
    return tuple(gradient_bound(target._replace(halved=h), theta) for h in (False, True))


def adversarial_targets(rng, kind):
    """Mixtures with narrow and wide, rare and frequent components, on the border, and far from theta = 0.

    Yields (target, theta, whether the bound should be close).
    """
    for n_components, n_features in ((1, 1), (1, 3), (2, 1), (2, 2), (3, 3), (5, 2)):
        for spread, size, reach, rare, away in (
            (1.0, 3.0, 0.5, False, 0.0),
            (30.0, 3.0, 1.0, False, 0.3),
            (30.0, 8.0, 1.0, True, 0.0),
            (30.0, 1.0, 0.7, True, 1.0),
            (900.0, 10.0, 0.9, False, 0.1),
            (3.0, 0.3, 0.9, True, 3.0),
        ):
            model = make_model(kind, n_components, n_features)
            weights = None
            if rare and n_components > 1:
                weights = np.full(n_components, 0.01)
                weights[0] = 1.0 - 0.01 * (n_components - 1)
            reference = make_reference(rng, model, weights, size, spread, reach)
            target = mixture_target(make_table(rng, model, 2), model, reference)
            step = rng.normal(size=model.n_parameters)
            yield target, away * step / np.linalg.norm(step), away < 0.5 and spread < 100


@pytest.mark.parametrize("kind", KINDS)
def test_no_gradient_exceeds_the_bound_that_privacy_rests_on(rng, kind):
    """Nor is it far from what is found near the reference, or paths would be noisier than they have to be."""
    loosest = 0.0
    for target, theta, is_usual in adversarial_targets(rng, kind):
        found = largest_found(rng, target, theta)
        bounds = bounds_at(target, theta)
        for largest, bound in zip(found, bounds, strict=True):
            assert largest <= bound
            loosest = max(loosest, bound / largest if is_usual else 0.0)
    assert loosest <= 12.0, loosest


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_is_close_where_components_are_alike(rng, kind):
    for n_components in (1, 2, 4):
        model = make_model(kind, n_components, 2)
        weights = np.full(n_components, 1.0 / n_components)
        reference = make_reference(rng, model, weights, 4.0, 1.5, 0.6)
        target = mixture_target(make_table(rng, model, 2), model, reference)
        theta = np.zeros(model.n_parameters)
        found = largest_found(rng, target, theta)
        for largest, bound in zip(found, bounds_at(target, theta), strict=True):
            assert largest <= bound <= 5.0 * largest


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_scaled_down_by_a_public_factor(rng, kind, halved):
    """Only where the bound at theta is larger than what the chain is accounted for with."""
    for n_components in (1, 3):
        model = make_model(kind, n_components, 2)
        free = mixture_target(make_table(rng, model, 2), model, make_reference(rng, model))
        free = free._replace(halved=halved)
        origin = np.zeros(model.n_parameters)
        limit = 1.2 * gradient_bound(free, origin)
        target = free._replace(gradient_bound=limit)
        rows = candidate_rows(rng, places(target, origin[None])[0], 40)
        near = 1e-3 * rng.normal(size=origin.size)
        for theta in (origin, near):
            np.testing.assert_array_equal(
                record_gradients(target, theta, rows), record_gradients(free, theta, rows)
            )
        cut = 0
        for length in (3.0, 10.0, 50.0, 1000.0):
            step = rng.normal(size=origin.size)
            theta = length * step / np.linalg.norm(step)
            gradients = record_gradients(target, theta, rows)
            unscaled = record_gradients(free, theta, rows)
            if halved:
                assert cdist(gradients, gradients).max() / 2.0 <= limit
            else:
                assert np.linalg.norm(gradients, axis=1).max() <= limit
            bound = gradient_bound(free, theta)
            factor = places(target, theta[None])[0].scaling[1]
            assert factor <= min(1.0, limit / bound)
            cut += factor < 1
            scale = np.abs(unscaled).max()
            np.testing.assert_allclose(gradients, factor * unscaled, rtol=1e-9, atol=1e-12 * scale)
        assert cut >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_near_the_reference_holds_up_to_the_limit(rng, kind):
    """At points just inside the prior's support, in random directions and along single coordinates."""
    limit = 0.25
    closest = math.inf
    for n_components, n_features, spread, weights in (
        (1, 2, 3.0, None),
        (3, 2, 5.0, [0.9, 0.08, 0.02]),
        (2, 3, 30.0, [0.99, 0.01]),
    ):
        model = make_model(kind, n_components, n_features)
        reference = make_reference(rng, model, weights, 4.0, spread, 0.9)
        table = make_table(rng, model, 2)
        target = mixture_target(table, model, reference, limit=limit)
        origin = np.zeros(model.n_parameters)
        bound = bound_near(target, limit)
        assert bound >= gradient_bound(target, origin)
        directions = np.vstack([rng.normal(size=(12, origin.size)), np.eye(origin.size)[::2]])
        for direction in directions:
            inside, outside = 0.0, 1e3
            for _ in range(40):
                middle = (inside + outside) / 2.0
                is_inside = potential_at(target, middle * direction) < np.inf
                inside, outside = (middle, outside) if is_inside else (inside, middle)
            theta = inside * direction
            assert 0 < inside < 999
            rows = candidate_rows(rng, places(target, theta[None])[0], 40)
            longest = np.linalg.norm(record_gradients(target, theta, rows), axis=1).max()
            assert longest <= bound
            closest = min(closest, bound / longest)
    assert closest < 25.0, closest


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_scaled_down_where_means_are_far_beyond_the_ball(rng, kind):
    """There the chain rule multiplies rounding of statistics by the square of their norm."""
    model = make_model(kind, 2, 2)
    free = mixture_target(make_table(rng, model, 2), model, make_reference(rng, model))
    theta = np.zeros(model.n_parameters)
    first = 1  # Behind the weights of two components.
    theta[first : first + 4] = 1e6
    place = places(free, theta[None])[0]
    far = (place.means**2).sum(axis=1).max()
    assert far > 1e6
    target = free._replace(gradient_bound=10.0 * place.scaling[0])
    assert places(target, theta[None])[0].scaling[1] < 100.0 / far
