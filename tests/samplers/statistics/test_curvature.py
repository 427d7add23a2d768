"""What is believed of a second moment: eigenvalues that noise has spread, and what is left of the noise."""

import warnings

import numpy as np
import pytest

from skdpbayes import DPBayesianRidge
from skdpbayes.samplers.statistics.curvature import (
    _noise_share,
    combined,
    denoised_eigenvalues,
)
from skdpbayes.samplers.statistics.design import Design


def with_noise(matrix, deviation, rng):
    """Deviation of the noise off the diagonal."""
    errors = deviation * rng.normal(size=matrix.shape) / np.sqrt(2.0)
    return matrix + errors + errors.T


def a_matrix(rng, bulk, length=41):
    """A few large eigenvalues, and others like each other."""
    values = np.r_[0.9, 0.5, 0.3, 0.2, bulk * rng.uniform(0.8, 1.2, size=length - 4)]
    basis, _ = np.linalg.qr(rng.normal(size=(length, length)))
    return (basis * values) @ basis.T


@pytest.mark.parametrize("deviation", [0.002, 0.009, 0.03])
def test_eigenvalues_are_what_the_matrix_has_along_eigenvectors(rng, deviation):
    gathered, spread, left, believed = [], [], [], []
    for _ in range(20):
        truth = a_matrix(rng, 0.03)
        values, basis = np.linalg.eigh(with_noise(truth, deviation, rng))
        seen = np.full(truth.shape, deviation**2) * (1.0 + np.eye(len(truth)))
        inside = basis.T @ truth @ basis
        along = np.diag(inside)
        found = denoised_eigenvalues(values, seen.sum() / len(truth))
        gathered.append(np.mean((found - along) ** 2))
        spread.append(np.mean((values - along) ** 2))
        off = inside[~np.eye(len(truth), dtype=bool)]
        left.append(np.mean(off**2) / deviation**2)
        believed.append(_noise_share(values, found, seen))
    assert np.mean(gathered) < 0.15 * np.mean(spread)
    assert 0.1 < np.mean(left) < 0.9
    assert np.mean(believed) == pytest.approx(np.mean(left), rel=0.35)


@pytest.mark.parametrize("length", [2, 3, 5, 11])
def test_far_eigenvalues_keep_their_noise_between_them(rng, length):
    truth, deviation = np.diag(np.arange(1.0, length + 1.0)), 0.002
    seen = np.full(truth.shape, deviation**2) * (1.0 + np.eye(length))
    believed = []
    for _ in range(60):
        values = np.linalg.eigvalsh(with_noise(truth, deviation, rng))
        found = denoised_eigenvalues(values, seen.sum() / length)
        believed.append(_noise_share(values, found, seen))
    assert np.mean(believed) > 0.6


def test_without_noise_eigenvalues_stay(rng):
    values = np.sort(rng.gamma(2.0, size=7))
    np.testing.assert_allclose(denoised_eigenvalues(values, 1e-14), values, atol=1e-10)
    np.testing.assert_array_equal(denoised_eigenvalues(values, 0.0), values)
    assert denoised_eigenvalues(values[:1], 0.3) == pytest.approx(values[:1])
    assert _noise_share(values[:1], values[:1], np.ones((1, 1))) == 1.0


def test_a_flat_spectrum_that_noise_hides_is_believed_to_be_flat(rng):
    """Eigenvectors of noise would be taken for directions of which records say little, or much."""
    length, n = 41, 20_000
    truth = a_matrix(rng, 0.03)
    _, own = np.linalg.eigh(truth + 0.005 * np.diag(rng.normal(size=length)))
    truth = own.T @ truth @ own  # In coordinates that a first release has found, about.
    noise = 0.009 * np.sqrt(2.0) * n
    released = n * with_noise(truth, 0.009, rng)
    design = Design(np.zeros(length), np.diag(np.diag(truth)), np.full((length, length), 1e-3))
    found = combined(design, np.eye(length), released, noise, n)
    along = np.diag(found.transform.T @ truth @ found.transform)
    assert np.abs(found.values - along).max() < 0.03
    # As they were released, the least are below zero.
    assert np.linalg.eigvalsh(released / n)[2] < 0.0 < 0.005 < found.values.min()
    errors = found.transform.T @ truth @ found.transform - np.diag(found.values)
    off = errors[~np.eye(length, dtype=bool)]
    believed = np.outer(found.variance_factor, found.variance_factor).mean()
    assert believed < 0.009**2 and 0.3 < np.mean(off**2) / believed < 1.2


@pytest.mark.parametrize("noise", [0.03, 0.1, 0.2])
def test_a_curvature_is_doubted_as_much_as_it_is_wrong(noise, rng):
    """The first release has found no correlation, and rows vary along two directions most."""
    length, n = 6, 2000
    off, squares = ~np.eye(length, dtype=bool), []
    for _ in range(60):
        values = np.r_[0.58, 0.4, 0.1, 0.07, 0.05, 0.03]
        basis, _ = np.linalg.qr(rng.normal(size=(length, length)))
        truth = (basis * values) @ basis.T
        design = Design(
            np.zeros(length), np.eye(length) * values.mean(), np.zeros((length, length))
        )
        released = n * with_noise(truth, noise, rng)
        found = combined(design, np.eye(length), released, noise * np.sqrt(2.0) * n, n)
        p, errors = found.variance_factor, found.transform.T @ truth @ found.transform
        errors = (errors - np.diag(found.values)) ** 2
        doubts = np.outer(p, p) + np.diag(p**2 + found.diagonal_variance)
        squares.append([np.mean(errors[part] / doubts[part]) for part in (off, ~off)])
    of_pairs, of_squares = np.mean(squares, axis=0)
    assert 0.3 < of_pairs < 2.5 and 0.3 < of_squares < 5.0


def test_what_is_hidden_is_the_most_that_may_be_unknown_along_a_direction(rng):
    length, n, noise = 100, 1_000, 0.02
    design = Design(np.zeros(length), np.eye(length), np.zeros((length, length)))
    released = n * with_noise(np.eye(length), noise, rng)
    found = combined(design, np.eye(length), released, noise * np.sqrt(2.0) * n, n)
    assert np.all(found.variance_factor < found.values / np.sqrt(length))
    roots = np.sqrt(found.variance_factor)
    errors = with_noise(np.zeros((length, length)), 1.0, rng) * np.outer(roots, roots)
    expected = np.linalg.eigvalsh(errors)[-1] / np.median(found.values)
    assert found.hidden == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize(("noise", "is_limited"), [(0.002, False), (1.0, True)])
def test_what_is_unknown_between_eigenvectors_is_limited(rng, noise, is_limited):
    length, n = 20, 1_000
    design = Design(np.zeros(length), np.eye(length), np.zeros((length, length)))
    released = n * with_noise(np.eye(length), noise, rng)
    found = combined(design, np.eye(length), released, noise * np.sqrt(2.0) * n, n)
    most = found.values / np.sqrt(length)
    assert np.all(found.variance_factor <= most)
    assert np.any(found.variance_factor == most) == is_limited
    # Of the whole, what is hidden would be 2 at most.
    assert (found.hidden > 2.0) == is_limited


def test_along_larger_eigenvalues_there_is_no_less(rng):
    values = np.linalg.eigvalsh(with_noise(a_matrix(rng, 0.03), 0.03, rng))
    found = denoised_eigenvalues(values, 0.03**2 * (len(values) + 1))
    assert np.all(np.diff(found) >= 0.0)
    assert found.sum() == pytest.approx(values.sum())


@pytest.mark.nightly
@pytest.mark.parametrize("is_decaying", [True, False])
def test_hidden_directions_are_told_where_rows_hardly_vary_in_most(is_decaying):
    n, d, told = 20_000, 40, 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows = rng.uniform(-1.0, 1.0, size=(n, d))
        if is_decaying:
            basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
            rows = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.7 @ basis / 1.5
            rows = np.clip(rows, -1.0, 1.0)
        y = np.clip(rows @ rng.normal(size=d) / 2.0 + 0.3 * rng.normal(size=n), -8.0, 8.0)
        model = DPBayesianRidge((-8.0, 8.0), epsilon=0.1, delta=1e-5, random_state=seed)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            model.fit(rows, y)
        told += any("noise hides along which directions" in str(one.message) for one in found)
    assert told >= 3 if is_decaying else told == 0
