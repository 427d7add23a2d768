"""Components of a mixture in the units of a pipeline's table."""

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpbayes import DPBayesianLogisticRegression, DPGaussianMixturePosterior
from skdpbayes.inspection import raw_components
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPQuantileScaler

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N = 4000
rng = np.random.default_rng(0)
KIND = np.arange(N) % 3 > 0
X = pd.DataFrame(
    {
        "spend": rng.normal(np.where(KIND, 20.0, 80.0), 5.0),
        "visits": rng.normal(np.where(KIND, -300.0, 500.0), 60.0),
    }
)
SCALER = BoundedScaler([0, -1000], [100, 1000])


def mixture(kind="diag", **params):
    return DPGaussianMixturePosterior(2, covariance_type=kind, n_draws=30, random_state=0, **params)


def fitted(*steps, table=X):
    with warnings.catch_warnings(action="ignore"):
        return make_private_pipeline(*steps, epsilon=20.0).fit(table)


@pytest.mark.parametrize("kind", ["spherical", "diag", "tied", "full"])
def test_components_of_any_kind_are_undone_draw_by_draw(kind):
    pipeline = fitted(SCALER, mixture(kind))
    table = raw_components(pipeline, 0.8, n_draws=200, random_state=1)
    draws = pipeline[-1].sample_posterior(200, random_state=1)
    half, middle = np.array([50.0, 1000.0]), np.array([50.0, 0.0])
    covariances = draws.covariances
    variances = {
        "spherical": lambda: np.stack([covariances, covariances], axis=2),
        "diag": lambda: covariances,
        "tied": lambda: np.stack([np.einsum("sjj->sj", covariances)] * 2, axis=1),
        "full": lambda: np.einsum("skjj->skj", covariances),
    }[kind]()
    for name, values in (
        ("mean", draws.means * half + middle),
        ("deviation", np.sqrt(variances) * half),
    ):
        expected = np.quantile(values, [0.5, 0.1, 0.9], axis=0).reshape(3, -1).T
        np.testing.assert_allclose(table.loc[name].to_numpy(), expected, rtol=1e-9)
    assert list(table.columns) == ["median", "10%", "90%"]
    assert list(table.loc["mean"].index[:2]) == [(0, "spend"), (0, "visits")]


def test_components_are_found_in_the_units_of_the_table():
    table = raw_components(fitted(SCALER, mixture("full")))
    medians = table["median"]
    expected = {(0, "spend"): 20.0, (1, "spend"): 80.0, (0, "visits"): -300.0, (1, "visits"): 500.0}
    for (component, column), mean in expected.items():
        spread = 5.0 if column == "spend" else 60.0
        assert abs(medians["mean", component, column] - mean) < spread / 5
        assert abs(medians["deviation", component, column] / spread - 1) < 0.1
    assert (table["5%"] < medians).all() and (medians < table["95%"]).all()


def test_components_follow_branches_learnt_bounds_and_signs():
    parts = [("b", BoundedScaler(-1000, 1000), ["visits"]), ("a", "passthrough", ["spend"])]
    columns = ColumnTransformer(parts, transformer_weights={"b": -1.0})
    table = raw_components(fitted(columns, DPQuantileScaler(random_state=0), mixture()))
    assert list(table.loc["mean"].index[:2]) == [(0, "visits"), (0, "spend")]
    assert abs(table.loc[("mean", 0, "visits"), "median"] + 300) < 30
    assert abs(table.loc[("deviation", 1, "spend"), "median"] - 5) < 1
    assert (table["5%"] < table["95%"]).all()


def test_pipelines_of_scikit_learn_have_components_too():
    plain = make_pipeline(SCALER, mixture(epsilon=20.0)).fit(X)
    private = copy.deepcopy(fitted(SCALER, mixture()))
    private.steps[-1] = plain.steps[-1]
    pd.testing.assert_frame_equal(raw_components(plain), raw_components(private))


def test_columns_without_steps_are_raw():
    model = mixture(epsilon=20.0, data_norm=10.0).fit(X / [50, 500])
    table = raw_components(model, 0.9)
    np.testing.assert_allclose(
        table.loc["mean"][["5%", "95%"]].to_numpy().ravel(),
        model.posterior_interval(0.9).means.ravel(),
    )


def test_logarithms_before_a_scaler_are_raw_units_of_their_own():
    logs = FunctionTransformer(np.log1p)
    pipeline = fitted(logs, BoundedScaler(0, 6), mixture(), table=X[["spend"]].clip(lower=0))
    names = raw_components(pipeline).index.get_level_values("column")
    assert set(names) == {"log1p(spend)"}


def test_there_are_no_raw_components_behind_what_combines_scaled_columns():
    turn = PCA(2).fit([[1.0, 0.0], [0.0, 1.0], [0.3, 0.7]])
    turned = make_pipeline(SCALER, turn, mixture(epsilon=20.0)).fit(X)
    with pytest.raises(ValueError, match="no raw units behind pca"):
        raw_components(turned)
    with pytest.raises(ValueError, match="pass the fitted pipeline"):
        raw_components(fitted(SCALER, mixture())[-1])
    for level in (0.0, 2.0):
        with pytest.raises(ValueError, match="level"):
            raw_components(fitted(SCALER, mixture()), level)


def test_models_without_components_are_refused():
    clf = DPBayesianLogisticRegression(random_state=0).fit(X / [50, 500], KIND)
    with pytest.raises(TypeError, match="no components"):
        raw_components(clf)
