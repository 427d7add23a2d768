"""What rounding does to sums over records, against sums in longer numbers, and what is charged for it."""

from types import SimpleNamespace

import numpy as np
import pytest

from skdpbayes.models import Logistic, MixtureModel, make_mixture, potential_gradient
from skdpbayes.models.families import classifier
from skdpbayes.models.linear import make_linear
from skdpbayes.models.sums import reweighted, weighted_sums
from skdpbayes.privacy import Budget
from skdpbayes.privacy.rounding import UNIT_ROUNDOFF, n_chunks, sum_inflation
from skdpbayes.samplers.mixture.plan import scales_for
from skdpbayes.samplers.mixture.posterior import MixtureState, inflation, local_sums, lower_entries
from skdpbayes.samplers.statistics.design import Coordinates

LONG = np.longdouble
pytestmark = pytest.mark.skipif(
    np.finfo(LONG).eps > 1e-18, reason="needs doubles of more than 64 bits"
)
CONSTANT = 0.7
BLOCK = 4096


def plan_for(n, n_blocks):
    budget, bounds = Budget(1.0, 1e-6), SimpleNamespace(n_blocks=n_blocks)
    return SimpleNamespace(n_samples=n, budget=budget, bounds=bounds)


def proved_share(n, d, n_classes, growth, logit):
    """Proposition 37: the error relative to a record's bound."""
    of_logits = 0.4 * (d + 1) if n_classes == 2 else 2.0 * (d + n_classes + 3)
    operations = BLOCK + n / BLOCK + 5 * d + 9 * n_classes + 61 + of_logits * logit
    return 1.03 * UNIT_ROUNDOFF * n * growth * operations


@pytest.mark.parametrize("n_classes", [2, 3, 4, 11, 101])
def test_charges_for_gradients_and_curvatures_cover_what_is_proved(n_classes):
    for d in {1, 2, 3, 10, 50, 100, 200, 256, 512}:
        if d * max(1, n_classes - 1) > 512:
            continue
        for n in (1, 100, 10**4, 10**9, 10**12):
            for growth in (1.0, 30.0, 1e5):
                for logit in (0.0, 1.0, 1e3, 1e8):
                    norm = 2.0
                    # Made so that it is this growth, and the point so that it is this logit.
                    transform = np.eye(d) * growth * norm / np.sqrt(d)
                    at = Coordinates(transform, norm, 1.0)
                    theta = np.zeros((1, d))
                    theta[0, 0] = logit
                    plan = plan_for(n, 1 if n_classes == 2 else n_classes)
                    charged = at.inflation(plan, theta) - 1.0
                    proved = proved_share(n, d, n_classes, growth, logit)
                    # Differences from 1 are known to within a few units of rounding.
                    assert charged / 2.0 >= proved * (1 - 1e-9) - 1e-15


def nasty(rng, n, d):
    """Rows that nearly cancel, in long runs of one sign and of all sizes."""
    rows = rng.normal(size=(n, d)) * np.exp(rng.uniform(-3.0, 3.0, (n, 1)))
    rows[: n // 2] = np.abs(rows[: n // 2])
    rows[n // 2 :] = -rows[: n - n // 2] * (1.0 + 1e-9)
    return rows


def exact_sums(target, family, transform, norm, theta):
    rows = target.values.astype(LONG) * target.scale[:, None]
    rows = np.hstack([rows, np.full((len(rows), 1), LONG(CONSTANT))])
    transform, theta, contrasts = (
        part.astype(LONG) for part in (transform, theta, family.contrasts)
    )
    z = rows @ transform
    v = np.minimum(LONG(1), LONG(norm) ** 2 / (z * z).sum(axis=1))
    logits = rows @ theta.T @ contrasts.T
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    residuals = (p - np.eye(p.shape[1], dtype=LONG)[target.responses]) @ contrasts
    gradient = np.einsum("i,ik,ij->kj", v, residuals, z)
    slopes = np.einsum("ck,ic,cl->ikl", contrasts, p, contrasts)
    mean = p @ contrasts
    slopes -= mean[:, :, None] * mean[:, None, :]
    size = gradient.size
    matrix = np.einsum("i,ikl,ia,ib->kalb", v, slopes, z, z).reshape(size, size)
    return gradient, matrix


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(("spread", "far"), [(1.0, 1.0), (3e3, 1.0), (30.0, 300.0)])
def test_gradients_and_curvatures_are_rounded_by_less_than_is_charged(n_classes, spread, far):
    rng, n, d = np.random.default_rng(0), 5000, 4
    rows, length = nasty(rng, n, d), d + 1
    family = classifier(n_classes).identified
    precision = np.ones(length * (1 if n_classes == 2 else n_classes))
    target = make_linear(
        rows, rng.integers(0, n_classes, n), classifier(n_classes), 1.0, CONSTANT, precision
    )
    rotation = np.linalg.qr(rng.normal(size=(length, length)))[0]
    transform = rotation * np.geomspace(1.0, spread, length)
    at = Coordinates(transform, 1.5, float(np.hypot(1.0, CONSTANT)))
    theta = far * rng.normal(size=(family.n_blocks, length))
    weighted = reweighted(target, transform, at.norm)
    gradient, matrix = weighted_sums(weighted, family, None, theta, transform)
    exact = exact_sums(target, family, transform, at.norm, theta)
    room = at.inflation(plan_for(n, 1 if n_classes == 2 else n_classes), theta) - 1.0
    bounds = family.residual_bound * at.norm, family.slope_bound * at.norm**2
    for found, true, bound in zip((gradient @ transform, matrix), exact, bounds, strict=True):
        error = float(np.linalg.norm((found - true).astype(float)))
        assert 0 < error <= 0.5 * room * bound
    # The same curvature, summed before it is transformed.
    _, matrix = weighted_sums(weighted, family, None, theta)
    blocks = np.kron(np.eye(family.n_blocks), transform)
    room = at.inflation(plan_for(n, 1 if n_classes == 2 else n_classes), theta, power=2) - 1.0
    error = float(np.linalg.norm((blocks.T @ matrix @ blocks - exact[1]).astype(float)))
    assert 0 < error <= 0.5 * room * bounds[1]


KINDS = ["full", "diag", "spherical"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_charged_for_a_mixture_s_statistics_covers_what_is_proved(kind):
    for d in (1, 2, 5, 30):
        for k in (1, 10, 1000):
            for deviation in (1e-3, 0.1, 1.5):
                factors = np.full((k, d), deviation)
                if kind == "full":
                    factors = factors[:, :, None] * np.eye(d)
                means = np.zeros((k, d))
                means[:, 0] = 1.0
                reference = MixtureState(kind, np.ones(k), means, factors)
                for n in (1, 10**4, 10**9, 10**12):
                    chain = BLOCK + n / BLOCK + 7 * d + k + 81
                    square = (6.6 * d + 6.4) * reference.rounding_amplification() ** 2
                    proved = 1.03 * UNIT_ROUNDOFF * n * (chain + square)
                    charged = inflation(n, "replace_one", reference) - 1.0
                    assert charged / 2.0 >= proved * (1 - 1e-9) - 1e-15


def exact_statistics(table, reference, scales):
    rows = (table.values * table.scale[:, None]).astype(LONG)
    full = reference.factors.ndim == 3
    logits, local = [], []
    for k, mean in enumerate(reference.means):
        inverse = np.linalg.inv(reference.factors[k]) if full else 1.0 / reference.factors[k]
        gaps, inverse = rows - mean.astype(LONG), inverse.astype(LONG)
        z = gaps @ inverse.T if full else gaps * inverse
        diagonal = np.diagonal(inverse) if full else inverse
        at = LONG(np.log(reference.weights[k]) + np.log(diagonal.astype(float)).sum())
        logits.append(at - (z * z).sum(axis=1) / 2)
        local.append(z)
    shares = np.exp(np.array(logits) - np.max(logits, axis=0))
    shares /= shares.sum(axis=0)
    sums = []
    for z, share in zip(local, shares, strict=True):
        if full:
            i, j, twice = lower_entries(z.shape[1])
            second = z[:, i] * z[:, j] * twice
        else:
            second = z**2
        second = (
            second.sum(axis=1, keepdims=True)
            if reference.covariance_type == "spherical"
            else second
        )
        ones = np.full((len(z), 1), LONG(scales.count))
        t = np.hstack([ones, LONG(scales.mean) * z, LONG(scales.second) * second])
        length = np.sqrt((t * t).sum(axis=1))
        sums.append((share * np.minimum(LONG(1), LONG(scales.norm) / length)) @ t)
    return np.concatenate(sums)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("deviation", [1e-3, 0.3])
def test_a_mixture_s_statistics_are_rounded_by_less_than_is_charged(kind, deviation):
    rng, n, d, k = np.random.default_rng(1), 5000, 3, 4
    model = MixtureModel(k, d, kind, 1.0, 1.0, 1.0, 5.0, 0.1)
    table = make_mixture(0.3 * nasty(rng, n, d), model)
    factors = deviation * np.exp(rng.uniform(0.0, 1.0, (k, d)))
    if kind == "full":
        factors = np.tril(rng.normal(scale=0.3 * deviation, size=(k, d, d)), -1) + (
            factors[:, :, None] * np.eye(d)
        )
    elif kind == "spherical":
        factors = np.repeat(factors[:, :1], d, axis=1)
    reference = MixtureState(
        kind, rng.uniform(1.0, 9.0, k), rng.uniform(-0.5, 0.5, (k, d)), factors
    )
    scales = scales_for(kind, d, 3.0)
    found = local_sums(table, reference, scales)
    true = exact_statistics(table, reference, scales)
    error = float(np.linalg.norm((found - true).astype(float)))
    room = inflation(n, "replace_one", reference) - 1.0
    assert 0 < error <= 0.5 * room * scales.norm


def test_a_table_far_beyond_its_public_size_is_rounded_as_proved():
    public, n, d = 50, 40_000, 4
    rows = nasty(np.random.default_rng(2), n, d)
    target = make_linear(rows, np.arange(n) % 2, Logistic(), 1.0, 0.0, np.zeros(d) + 1e-300)
    theta = np.array([1.0, -2.0, 3.0, 0.5])
    x = (target.values * target.scale[:, None]).astype(LONG)
    p = 1 / (1 + np.exp(-(x @ theta.astype(LONG))))
    true = (p - target.responses) @ x
    error = float(np.linalg.norm((potential_gradient(target, theta) - true).astype(float)))
    assert n_chunks(public) == 1
    allowance = 2.0 * UNIT_ROUNDOFF * (n + 64 + d + 8) * n
    assert 0 < 2.0 * error <= allowance
    assert sum_inflation(public, d, "add_or_remove_one") - 1.0 < 1e-3 * allowance
