"""The norm of rows that public steps of a pipeline bound, and what columns are called in warnings."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import DataScalingWarning
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy import PrivacyLedger, privacy_report


def indicators(**options):
    """Three bounded columns and one of categories: rows of norm 2, in 6 columns."""
    return make_private_pipeline(
        make_column_transformer(
            (BoundedScaler([-1, -1, -1], [1, 1, 1]), [0, 1, 2]),
            (OneHotEncoder(categories=[[0, 1, 2]]), [3]),
        ),
        DPBayesianLogisticRegression(classes=[0, 1], n_draws=10, **options),
    )


def rows_of_indicators(n=300):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (n, 3)), rng.integers(0, 3, n)])
    return X, (X[:, 0] > 0).astype(int)


def test_a_pipeline_gives_the_longest_row_to_its_last_step(recwarn):
    X, y = rows_of_indicators()
    for outer in (indicators(), make_private_pipeline(*(s for _, s in indicators().steps))):
        fitted = clone(outer).fit(X, y)
        assert fitted[-1].data_norm is None and fitted[-1].data_norm_ == 2.0
        plan = fitted.privacy_plan(*X.shape)
        assert fitted.plan_.data_norm == plan.data_norm == 2.0 and "longest row" in str(plan)
        assert plan.cost == fitted.plan_.cost and fitted.spent_epsilon_ <= 1.0
        for account in (fitted, plan):
            assert "public, from the steps before" in privacy_report(account).to_markdown()
    assert not [one for one in recwarn if "data_norm" in str(one.message)]


def test_a_norm_that_a_user_sets_wins():
    X, y = rows_of_indicators()
    fitted = indicators(data_norm=2.5).fit(X, y)
    assert fitted[-1].data_norm_ == 2.5 and fitted.plan_.data_norm is None
    assert indicators(data_norm="auto").privacy_plan(300, 4).data_norm is None


def test_a_norm_reaches_the_end_of_a_nested_pipeline():
    X, y = rows_of_indicators()
    encode, model = (step for _, step in indicators().steps)
    nested = make_private_pipeline(encode, make_pipeline("passthrough", model)).fit(X, y)
    assert nested[-1][-1].data_norm_ == 2.0 and nested[-1][-1].data_norm is None
    unknown = make_private_pipeline("passthrough", clone(model)).fit(X, y)
    assert unknown.plan_.data_norm is None and unknown[-1].data_norm_ == 2.0


def test_searches_and_ledgers_take_the_norm_of_a_pipeline():
    X, y = rows_of_indicators()
    search = GridSearchCV(indicators(), {"epsilon": [0.5, 1.0]}, cv=2).fit(X, y)
    assert search.best_estimator_[-1].data_norm_ == 2.0
    with PrivacyLedger(epsilon=2.0, delta=1e-4) as ledger:
        fitted = indicators().fit(X, y)
    assert ledger.spent_epsilon <= fitted.spent_epsilon_ * (1 + 1e-9)
    with pytest.raises(ValueError, match="n_draws"):
        indicators().set_params(dpbayesianlogisticregression__n_draws=0).fit(X, y)
    broken = indicators()
    with pytest.raises(ValueError):
        broken.fit(X, np.full(len(X), 7))
    assert broken[-1].data_norm is None


def test_a_warning_of_a_fit_names_the_raw_columns():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(18, 90, 10_000), "rate": rng.uniform(0, 1, 10_000)})
    model = make_private_pipeline(
        BoundedScaler([18, 0], [90, 500]),
        DPBayesianLogisticRegression(classes=[0, 1], random_state=0),
    )
    with pytest.warns(DataScalingWarning, match="how much rate var"):
        model.fit(table, (table["age"] > 50).astype(int))
