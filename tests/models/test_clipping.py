"""Rows in a ball, whatever doubles they hold: what one record can do to a sum rests on it."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from references import configured

from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier
from skdpbayes._errors import suppress_fp_warnings
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.models.rows import NORMS, clip_rows
from skdpbayes.preprocessing import RowNormClipper, row_scales
from skdpbayes.privacy import PrivacyLedger

LARGEST, SUBNORMAL = np.finfo(np.float64).max, 5e-324
ESTIMATORS = [DPBayesianLogisticRegression, DPBayesianMLPClassifier, DPGaussianMixturePosterior]


def odd_rows():
    """Rows of extreme and ordinary numbers, mixtures of both, and rows whose factors are subnormal."""
    rng = np.random.default_rng(0)
    exponents = np.concatenate(
        [rng.uniform(-323, 308.2, (200, 4)), rng.uniform(300, 308.2, (100, 4))]
    )
    table = [
        [LARGEST, LARGEST, LARGEST, LARGEST],
        [LARGEST, SUBNORMAL, -1e-310, 0.0],
        [-1e308, 1e308, -1e308, 1e308],
        [4e305, 4e305, 4e305, 3.92e305],  # 1e-18 over its norm is rounded up to twice as much.
        [2.1e295, 1e-300, 0.0, 0.0],
        [1e200, 1.0, SUBNORMAL, -1e200],
        [1.1e150, 0.0, 0.0, 0.0],
        [0.9e150, 0.0, 0.0, 0.0],
        [SUBNORMAL, SUBNORMAL, -SUBNORMAL, 0.0],
        [0.0, -0.0, 0.0, -0.0],
        [3.0, 4.0, 0.0, 0.0],
    ]
    return np.vstack([table, rng.choice([-1.0, 1.0], exponents.shape) * 10.0**exponents])


def lengths(table, scale):
    """Norms of the rows times their factors; `math.hypot` neither overflows nor underflows."""
    dense = table.toarray() if sp.issparse(table) else table
    return np.array([math.hypot(*row) for row in dense.astype(np.float64) * scale[:, None]])


@pytest.mark.parametrize("norm", [NORMS[0], 1e-18, 1.0, 1e10, NORMS[1]])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@suppress_fp_warnings()
def test_no_row_is_longer_than_the_norm_and_none_is_shortened_in_vain(container, norm):
    X = odd_rows()
    before = np.array(
        [math.hypot(*(0.25 * row)) for row in X]
    )  # A quarter, for what would overflow.
    for found in (
        lengths(*clip_rows(container(X), norm)),
        lengths(RowNormClipper(norm).fit_transform(container(X)), np.ones(len(X))),
    ):
        assert found.max() <= norm * (1 + 1e-12)
        np.testing.assert_allclose(0.25 * found, np.minimum(before, 0.25 * norm), rtol=1e-12)


@pytest.mark.parametrize("norm", [NORMS[0], 1e-18, 1.1e-6, 1.0, NORMS[1]])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_rows_in_single_precision_have_factors_in_double(container, norm):
    X = np.clip(odd_rows(), -3.4e38, 3.4e38).astype(np.float32)
    assert lengths(*clip_rows(container(X), norm)).max() <= norm * (1 + 1e-12)
    clipped = RowNormClipper(norm).fit_transform(container(X))
    assert clipped.dtype == (np.float32 if norm > 1e-30 else np.float64)
    expected = np.minimum(lengths(X, np.ones(len(X))), norm)
    np.testing.assert_allclose(lengths(clipped, np.ones(len(X))), expected, rtol=1e-6)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_a_factor_that_is_no_normal_double_is_zero(container):
    X, norm = odd_rows(), 1e-18
    scale = row_scales(container(X), norm)
    assert lengths(X, scale).max() <= norm * (1 + 1e-12)
    assert scale[0] == 0.0 and scale[6] / norm * 1.1e150 == pytest.approx(1.0)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@suppress_fp_warnings()
def test_rows_of_a_usual_size_are_read_in_place_beside_any_other(rng, container):
    X = rng.normal(size=(50, 4))
    table, mixed = container(X), container(np.vstack([X, odd_rows()]))
    alone, scale = clip_rows(table, 1.0)
    assert np.shares_memory(*(t.data if sp.issparse(t) else t for t in (alone, table)))
    before = mixed.copy()
    together, scales = clip_rows(mixed, 1.0)
    assert (together[:50] != table).sum() == 0
    np.testing.assert_array_equal(scales[:50], scale)
    assert (mixed != before).sum() == 0, "the user's table is left alone"


@pytest.mark.parametrize("norm", [0.9 * NORMS[0], 1.1 * NORMS[1]])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_norms_out_of_range_are_refused_before_anything_is_spent(rng, estimator, norm):
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    with PrivacyLedger(np.inf, 1e-5) as ledger, pytest.raises(ValueError, match="data_norm.*1e-60"):
        estimator(data_norm=norm).fit(X, y)
    assert ledger.spent_epsilon == 0.0
    with pytest.raises(ValueError, match="data_norm"):
        estimator(data_norm=norm).privacy_plan(1000, 2)
    for function in (clip_rows, row_scales):
        with pytest.raises(ValueError, match="norm"):
            function(X, norm)


@pytest.mark.parametrize("options", [{"intercept_scaling": 1e61}, {"intercept_prior_scale": 1e62}])
def test_constant_columns_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="intercept_scaling"):
        DPBayesianLogisticRegression(data_norm=1.0, **options).privacy_plan(1000, 2)


@pytest.mark.parametrize("unit", [2.0**-199, 2.0**199])
@pytest.mark.parametrize("sampler", ["sgld", "sghmc", "sgnht", "sgfs", "ops", "bbb", "dp_fast_mh"])
def test_plans_do_not_depend_on_the_unit_of_the_rows(sampler, unit):
    """To both ends of the range: numbers on the way are neither subnormal nor infinite."""
    one, other = (
        DPBayesianLogisticRegression(sampler=sampler, data_norm=norm).privacy_plan(100_000, 5)
        for norm in (1.0, unit)
    )
    assert one.epsilon == pytest.approx(other.epsilon, rel=1e-9)
    assert one.temperature == pytest.approx(other.temperature, rel=1e-9, nan_ok=True)
    assert one.n_steps == other.n_steps


@pytest.mark.nightly
@pytest.mark.parametrize("unit", [2.0**-199, 2.0**199])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_fits_do_not_depend_on_the_unit_of_the_rows(rng, estimator, unit):
    X, y = rng.normal(size=(200, 2)), np.arange(200) % 2
    options = {"n_draws": 5, "random_state": 0}
    if estimator is DPBayesianLogisticRegression:
        options |= {"sampler": "sgfs", "n_steps": 40}
    elif estimator is DPBayesianMLPClassifier:
        options |= {"hidden_layer_sizes": (3,), "n_steps": 40}
    one, other = (
        configured(estimator(data_norm=norm), **options).fit(norm * X, y).predict_proba(norm * X)
        for norm in (1.0, unit)
    )
    np.testing.assert_allclose(one, other, rtol=1e-6)
