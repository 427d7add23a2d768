"""Frames of pandas, polars and pyarrow: the same fits, tables and effects, and errors that quote no cell."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.audit import replay
from skdpbayes.inspection import average_marginal_effects
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPImputer, DPOneHotEncoder, DPQuantileScaler

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

N = 3000
rng = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": np.where(rng.random(N) < 0.1, np.nan, rng.uniform(18, 90, N)),
        "income": rng.uniform(0, 5e4, N),
        "region": rng.choice(["north", "south"], N).astype(object),
        "who": rng.integers(0, 1500, N),
    }
)
FRAME["bought"] = np.where(rng.random(N) < FRAME["income"] / 5e4, "yes", "no").astype(object)
KINDS = {
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "pandas on pyarrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
}
INPUTS = ["age", "income", "region"]


def columns_of(frame, names):
    return frame[names] if isinstance(frame, pd.DataFrame) else frame.select(names)


def pipeline():
    numbers = make_pipeline(DPQuantileScaler(random_state=0), DPImputer("median", random_state=0))
    columns = ColumnTransformer(
        [
            ("numbers", numbers, ["age", "income"]),
            ("text", DPOneHotEncoder(random_state=0), ["region"]),
        ]
    )
    model = DPBayesianLogisticRegression(classes=["no", "yes"], random_state=0)
    return make_private_pipeline(columns, model, epsilon=5.0, max_rows_per_group=2)


def bounded():
    scaler = BoundedScaler({"income": 0, "age": 18}, {"income": 5e4, "age": 90})
    return make_pipeline(scaler, DPImputer(), DPBayesianLogisticRegression(random_state=0))


def formula():
    text = "bought ~ C(region, levels=['north', 'south']) + bounded(income, 0, 50000)"
    return DPBayesianLogisticRegression.from_formula(text, classes=["no", "yes"], random_state=0)


FITS = {
    "pipeline of persons": lambda frame: pipeline().fit(
        columns_of(frame, INPUTS), frame["bought"], groups=frame["who"]
    ),
    "bounds by name": lambda frame: bounded().fit(
        columns_of(frame, ["age", "income"]), frame["bought"]
    ),
    "formula": lambda frame: formula().fit(frame),
}


@pytest.mark.daily(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_and_its_tables_do_not_depend_on_the_library(kind, fit):
    here, there = FITS[fit](FRAME), FITS[fit](KINDS[kind](FRAME))
    np.testing.assert_array_equal(here[-1].posterior_samples_, there[-1].posterior_samples_)
    pd.testing.assert_frame_equal(here[-1].summary(), there[-1].summary())
    names = FRAME.columns if fit == "formula" else list(here.feature_names_in_)
    rows = columns_of(KINDS[kind](FRAME.head(50)), list(names))
    np.testing.assert_array_equal(here.predict(FRAME.head(50)[names]), there.predict(rows))
    if fit != "bounds by name":
        wanted = FRAME.head(50)[names]
        pd.testing.assert_frame_equal(
            average_marginal_effects(here, wanted), average_marginal_effects(there, rows)
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "estimator",
    [
        BoundedScaler({"who": 0, "age": 0}, {"who": 1, "age": 1}),
        DPQuantileScaler(),
        DPBayesianLogisticRegression(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_is_refused_is_said_without_a_cell(kind, estimator):
    secret = "Jane Doe 987654321"
    frame = FRAME.assign(region=secret)[["region", "income"]]
    with pytest.raises((ValueError, TypeError)) as caught:
        estimator.fit(KINDS[kind](frame), FRAME["bought"])
    said = f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"
    assert secret not in said and str(frame["income"][0]) not in said


@pytest.mark.daily(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_a_replay_changes_a_row_of_any_frame(kind):
    frame = columns_of(KINDS[kind](FRAME), ["age", "income"])
    found = replay(DPQuantileScaler(), frame, None, [1e9, -1e9])
    assert found.passed and found.largest_share > 0
