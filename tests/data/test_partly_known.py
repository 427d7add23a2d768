"""A branch whose columns are not public hides no error that the columns beside it have."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPOneHotEncoder
from skdpbayes.privacy import PrivacyLedger

Y = np.arange(400) % 2
TEXT = np.array([["a"], ["b"]] * 200, dtype=object)
MODEL = DPBayesianLogisticRegression(classes=[0, 1])


def refused(*steps, X, match):
    with PrivacyLedger(10.0, 1e-3) as ledger:
        with pytest.raises(ValueError, match=match):
            make_private_pipeline(*steps, delta=1e-5).fit(X, Y)
        assert ledger.records() == []


@pytest.mark.parametrize("last", [[MODEL], [BoundedScaler(-1, 1), MODEL]], ids=["model", "scaler"])
def test_text_beside_private_categories_is_found_before_the_charge(last):
    union = FeatureUnion([("e", DPOneHotEncoder()), ("p", "passthrough")])
    refused(union, *last, X=TEXT, match="text where numbers")


def test_missing_values_beside_an_encoder_are_found_before_the_charge():
    frame = pd.DataFrame({"c": TEXT[:, 0], "x": np.where(np.arange(400) == 7, np.nan, 1.0)})
    step = ColumnTransformer([("e", DPOneHotEncoder(), ["c"])], remainder="passthrough")
    refused(step, MODEL, X=frame, match="contains NaN")
    inner = FeatureUnion([("inner", step)])
    refused(inner, MODEL, X=frame, match="contains NaN")


def test_what_is_right_beside_private_categories_is_fitted():
    frame = pd.DataFrame({"c": TEXT[:, 0], "x": np.linspace(-1.0, 1.0, 400)})
    step = ColumnTransformer([("e", DPOneHotEncoder(), ["c"])], remainder="passthrough")
    pipe = make_private_pipeline(step, MODEL, delta=1e-5).fit(frame, Y)
    assert pipe.spent_epsilon_ <= 1.0
