"""What a family says of its law: derivatives of its losses, and bounds that hold and are attained."""

import numpy as np
import pytest

from skdpbayes.models import LinearModel, Logistic, Normal, Poisson, Softmax, potential_gradient
from skdpbayes.models.families import classifier
from skdpbayes.models.linear import LinearTarget

CLASSES = [Logistic(), Softmax(3), Softmax(5), Softmax(3).identified]
NUMBERS = [
    Normal(-1.0, 3.0),
    Normal(-1.0, 3.0, deviation=0.5, clip=0.7),
    Poisson(6.0),
    Poisson(6.0, clip=2.0),
]
FAMILIES = CLASSES + NUMBERS


def some_logits(family, rng, n=50):
    logits = rng.normal(size=(family.n_blocks, n))
    if family in CLASSES:
        return logits, rng.integers(family.n_classes, size=n)
    # No mean is as large as to be clipped.
    return 0.8 * logits, family.checked_responses(rng.integers(7, size=n), n)


def by_differences(function, logits, step=1e-6):
    """Return derivatives of values of shape (..., n) by each block of logits, on the first axis."""
    found = []
    for j in range(len(logits)):
        up, down = logits.copy(), logits.copy()
        up[j] += step
        down[j] -= step
        found.append((function(up) - function(down)) / (2.0 * step))
    return np.array(found)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_residuals_and_slopes_are_derivatives_of_losses(family, rng):
    logits, responses = some_logits(family, rng)
    predicted = family.inverse_link(logits)
    found = by_differences(lambda z: family.losses(z, responses), logits)
    np.testing.assert_allclose(family.residuals(predicted, responses), found, atol=1e-8)
    found = by_differences(lambda z: family.mean(family.inverse_link(z)), logits)
    for j, unit in enumerate(np.eye(family.n_blocks)):
        slopes = family.slope_times(predicted, unit[:, None])
        np.testing.assert_allclose(slopes, found[j], atol=1e-8)
    found = by_differences(lambda z: family.mean_variance(family.inverse_link(z)), logits)
    own = family.slope_times(predicted, family.mean_variance_by_mean(predicted))
    np.testing.assert_allclose(own, found, atol=1e-8)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_no_slope_is_larger_than_its_bounds_and_one_is_as_large(family, rng):
    logits = 3.0 * rng.normal(size=(family.n_blocks, 4000))
    logits[:, 0] = 0.0 if family in CLASSES else 40.0
    if family.n_blocks > 1:  # Two classes that are equally likely, and no other.
        pair = np.where(np.arange(family.n_classes) < 2, 40.0, 0.0)
        logits[:, 0] = np.linalg.lstsq(family.contrasts, pair - pair.mean(), rcond=None)[0]
    predicted = family.inverse_link(logits)
    units = np.eye(family.n_blocks)
    slopes = np.stack([family.slope_times(predicted, unit[:, None]) for unit in units]).T
    largest = np.linalg.eigvalsh(slopes)[:, -1]
    assert family.slope_bound == pytest.approx(largest.max(), rel=1e-9)
    room = np.linalg.eigvalsh(family.largest_slope - slopes)
    assert room.min() > -1e-9


@pytest.mark.parametrize("variance", [0.1, 1.0, 10.0])
def test_the_expected_slope_is_that_of_normal_logits(variance, rng):
    family = Logistic()
    predicted = family.inverse_link(rng.normal(size=(1, 10**6)) * variance**0.5)
    assert family.mean_variance(predicted).mean() == pytest.approx(
        family.expected_slope(variance), rel=0.05
    )


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_target_of_a_model_knows_its_family_and_its_bounds(n_classes, rng):
    model = LinearModel(family=classifier(n_classes), n_features=3, norm=2.0, max_weight=2.0)
    X, y = rng.normal(size=(30, 3)), rng.integers(n_classes, size=30)
    weights = rng.uniform(0.0, 2.0, size=30)
    target = model.target(X, y, weights)
    assert isinstance(target, LinearTarget)
    assert target.family == model.family == model.bounds().family
    # Whether a prior scale was given is what a model knows.
    assert target.bounds == model.bounds()._replace(learns_scales=(False, False))
    assert target.n_features == 3
    with pytest.raises(ValueError, match="labels must be one class number"):
        model.target(X, y + 1)
    # The constant column adds as much to the logits as the intercept does.
    theta = rng.normal(size=target.prior_precision.size)
    blocks = model.in_blocks(theta[None].copy())[0]
    clipped = X * np.minimum(1.0, 2.0 / np.linalg.norm(X, axis=1))[:, None]
    logits = blocks[:, :3] @ clipped.T + blocks[:, 3:]
    residuals = weights * model.family.residuals(model.family.inverse_link(logits), y)
    gradient = np.hstack(
        [residuals @ clipped, model.constant_value * residuals.sum(axis=1)[:, None]]
    )
    expected = gradient.ravel() + target.prior_precision * theta
    np.testing.assert_allclose(potential_gradient(target, theta), expected, rtol=1e-9)


def test_laws_are_equal_only_if_they_are_the_same():
    assert Logistic() == Logistic() != Softmax(3)
    assert Softmax(3) != Softmax(4) and Softmax(3) != Softmax(3).identified
    assert Logistic().identified == Logistic()
    assert classifier(2) == Logistic() and classifier(3) == Softmax(3)


@pytest.mark.parametrize("n_classes", [1, 2])
def test_softmax_is_for_more_than_two_classes(n_classes):
    """What bounds two classes is what bounds one logit, and its contrast is longer than 1."""
    with pytest.raises(ValueError, match="at least 3 classes"):
        Softmax(n_classes)
