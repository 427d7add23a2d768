"""Linear algebra of released matrices neither raises nor returns what is no number, on any processor."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdpbayes import _linalg

rng = np.random.default_rng(0)
USUAL = rng.normal(size=(3, 5, 5))
POSITIVE = USUAL @ USUAL.swapaxes(1, 2)
EXTREMES = {
    "zero": np.zeros((4, 4)),
    "not numbers": np.full((4, 4), np.nan),
    "infinite": np.full((4, 4), np.inf),
    "one is not a number": np.where(np.eye(4) == 1, 1.0, np.nan),
    "largest doubles": np.full((4, 4), np.finfo(float).max),
    "smallest doubles": np.full((4, 4), 5e-324),
    "of rank one": np.ones((4, 4)),
    "graded": np.diag([1e300, 1.0, 1e-300, 0.0]) + 1e-5,
    "indefinite": np.diag([1.0, -1.0, 0.0, 2.0]),
    "several": np.stack([np.eye(4), np.zeros((4, 4)), np.full((4, 4), np.nan)]),
    "empty": np.zeros((0, 0)),
}
FUNCTIONS = {
    "eigh": _linalg.eigh,
    "eigvalsh": _linalg.eigvalsh,
    "cholesky": _linalg.cholesky,
    "inv": _linalg.inv,
    "solve": lambda a: _linalg.solve(a, np.ones((*a.shape[:-1], 2))),
}
OF_MATRICES = {"pinv": _linalg.pinv, "lstsq": lambda a: _linalg.lstsq(a, np.ones(len(a)))}


def parts(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_numpy_to_the_bit_where_it_has_any(name):
    function, same = FUNCTIONS[name], getattr(np.linalg, name)
    right = () if name != "solve" else (np.ones((3, 5, 2)),)
    for ours, theirs in zip(parts(function(POSITIVE)), parts(same(POSITIVE, *right)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("name", FUNCTIONS | OF_MATRICES)
def test_extreme_matrices_have_finite_results_of_the_right_shape(name, extreme):
    matrix = EXTREMES[extreme]
    if matrix.ndim > 2 and name in OF_MATRICES:
        return
    with np.errstate(all="raise"):
        result = (FUNCTIONS | OF_MATRICES)[name](matrix)
    usual = (FUNCTIONS | OF_MATRICES)[name](np.broadcast_to(np.eye(matrix.shape[-1]), matrix.shape))
    for part, like in zip(parts(result), parts(usual), strict=True):
        assert part.shape == like.shape and np.all(np.isfinite(part))


entries = st.floats(width=64, allow_nan=True, allow_infinity=True)


@given(st.lists(entries, min_size=9, max_size=9))
def test_no_matrix_is_refused(numbers):
    matrix = np.array(numbers).reshape(3, 3)
    with np.errstate(all="ignore"):
        matrix = np.triu(matrix) + np.triu(matrix, 1).T
    for function in (FUNCTIONS | OF_MATRICES).values():
        assert all(np.all(np.isfinite(part)) for part in parts(function(matrix)))


@pytest.mark.parametrize("unit", [2.0**-1000, 2.0**-300, 2.0**300, 2.0**1000])
def test_matrices_that_numpy_refuses_are_scaled_and_made_definite(monkeypatch, unit):
    """As where LAPACK does not converge, or finds a pivot of 0, at the first try of each."""
    matrix, failed = POSITIVE[0] * unit, []

    def once(function):
        def refusing(argument, *others, **options):
            if function not in failed:
                failed.append(function)
                raise np.linalg.LinAlgError
            return function(argument, *others, **options)

        return refusing

    for name in ("eigh", "cholesky", "inv"):
        monkeypatch.setattr(np.linalg, name, once(getattr(np.linalg, name)))
    values, vectors = _linalg.eigh(matrix)
    np.testing.assert_allclose(vectors @ (values[:, None] / unit * vectors.T), POSITIVE[0])
    lower = _linalg.cholesky(matrix)
    np.testing.assert_array_equal(lower, np.tril(lower))
    root = np.sqrt(unit)
    np.testing.assert_allclose((lower / root) @ (lower / root).T, POSITIVE[0])
    np.testing.assert_allclose(_linalg.inv(matrix) @ matrix, np.eye(5), atol=1e-9)
    assert len(failed) == 3


def test_a_singular_system_has_a_solution_along_what_is_known():
    matrix = np.diag([2.0, 0.0, 4.0])
    solved = _linalg.solve(matrix, np.array([2.0, 0.0, 8.0]))
    np.testing.assert_allclose(solved, [1.0, 0.0, 2.0])
