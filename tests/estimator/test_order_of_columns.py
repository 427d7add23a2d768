"""Weights and exposures with an index: those of other rows are refused, as groups are."""

import numpy as np
import pandas as pd
import pytest

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor, DPBayesianRidge
from skdpbayes.metrics import make_private_scorer
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy import PrivacyLedger

rng = np.random.default_rng(0)
N = 300
X = pd.DataFrame(rng.uniform(-1, 1, (N, 2)), columns=["a", "b"], index=rng.permutation(N) + 87_000)
Y = (X["a"] > 0).astype(int)
OWN = pd.Series(rng.uniform(0.5, 1.0, N), index=X.index)
OTHER = OWN.sample(frac=1.0, random_state=1)
CHEAP = {"data_norm": 1.5, "n_draws": 20}


def logistic():
    return DPBayesianLogisticRegression(classes=[0, 1], **CHEAP)


def counts():
    return DPBayesianPoissonRegressor(5, sampler="ops", data_norm=1.5)


FITTED = counts().fit(X, Y, exposure=OWN)
PIPE = {"dpbayesianlogisticregression__sample_weight": None}
WAYS = {
    "classes": ("sample_weight", lambda X, c: logistic().fit(X, Y, sample_weight=c)),
    "numbers": (
        "sample_weight",
        lambda X, c: DPBayesianRidge((0, 1), **CHEAP).fit(X, Y, sample_weight=c),
    ),
    "counts": ("exposure", lambda X, c: counts().fit(X, Y, exposure=c)),
    "pipeline": (
        "sample_weight",
        lambda X, c: make_private_pipeline(BoundedScaler(-1, 1), logistic(), epsilon=9.0).fit(
            X, Y, **dict.fromkeys(PIPE, c)
        ),
    ),
    "search": (
        "exposure",
        lambda X, c: DPRandomizedSearchCV(
            DPBayesianPoissonRegressor(5, sampler="sghmc"),
            {"data_norm": [1.5]},
            epsilon=9.0,
            mean_candidates=1.0,
        ).fit(X, Y, exposure=c),
    ),
    "score": (
        "exposure",
        lambda X, c: make_private_scorer("neg_mean_poisson_deviance", epsilon=1.0)(
            FITTED, X, np.asarray(Y), exposure=c
        ),
    ),
    "prediction": ("exposure", lambda X, c: FITTED.predict(X, exposure=c)),
    "interval": ("exposure", lambda X, c: FITTED.prediction_interval(X, exposure=c)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WAYS)
def test_columns_in_another_order_than_rows_are_refused_before_anything_is_spent(name):
    called, way = WAYS[name]
    said = rf"{called} has another index than X, .* would get those of other rows: .*to_numpy"
    with PrivacyLedger(50.0, 1e-4) as ledger:
        with pytest.raises(ValueError, match=said) as raised:
            way(X, OTHER)
    assert ledger.spent_epsilon == 0 and not ledger.records()
    assert not any(str(label) in str(raised.value) for label in X.index)


@pytest.mark.daily(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in WAYS if name != "search"])
def test_columns_of_the_same_index_or_without_one_are_taken_as_they_are(name):
    for column in (OWN, OWN.to_numpy(), OTHER.to_numpy().tolist()):
        WAYS[name][1](X, column)
