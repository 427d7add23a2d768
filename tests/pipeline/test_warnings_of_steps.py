"""What a pipeline's plan tells of its steps, and a fit says once; arguments of steps have names."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger

rng = np.random.default_rng(0)
N = 100
X = rng.uniform(-1, 1, (N, 4))
Y = (X[:, 0] > 0).astype(int)
FAR = "dpquantilescaler: the noise may put bounds far beyond the values"


def scaled(**options):
    model = DPBayesianLogisticRegression(classes=[0, 1], n_draws=20)
    return make_private_pipeline(DPQuantileScaler(), model, **{"epsilon": 1.0, **options})


@pytest.mark.parametrize("scaler", [DPQuantileScaler(), BoundedScaler(0, 100)])
def test_zeros_that_are_filled_in_before_a_scaler_are_told(scaler):
    def warnings_of(*steps):
        branch = make_pipeline(*steps) if len(steps) > 1 else steps[0]
        model = DPBayesianLogisticRegression(classes=[0, 1], n_draws=20)
        pipe = make_private_pipeline(ColumnTransformer([("c", branch, [0])]), model)
        return [text for text in pipe.privacy_plan(10_000, 4).warnings if "DPImputer" in text]

    assert len(warnings_of(DPImputer(), scaler)) == 1
    assert warnings_of(scaler, DPImputer()) == warnings_of(DPImputer(fill_value=30.0), scaler) == []


def test_a_plan_has_the_warnings_of_its_steps_by_name():
    plan = scaled().privacy_plan(N, 4)
    text, last = plan.warnings
    assert text.startswith(FAR) and text in str(plan)
    assert last.startswith("dpbayesianlogisticregression: noise hides how much any column varies")
    epsilon, delta = plan.step_budgets["dpquantilescaler"]
    (own,) = DPQuantileScaler(epsilon=epsilon, delta=delta).privacy_plan(N, 4).warnings
    assert text == f"dpquantilescaler: {own}"
    assert scaled().privacy_plan(10_000, 4).warnings == ()


def test_the_warnings_of_a_last_step_are_told_too():
    model = DPBayesianLogisticRegression(classes=[0, 1])
    alone = model.set_params(epsilon=0.1).privacy_plan(N, 2).warnings
    model.set_params(epsilon=1.0)
    pipe = make_private_pipeline(BoundedScaler([0, 0], [1, 1]), model, epsilon=0.1)
    told = pipe.privacy_plan(N, 2).warnings
    assert [text.split()[1:4] for text in told] == [text.split()[:3] for text in alone] != []
    assert all(text.startswith("dpbayesianlogisticregression: ") for text in told)


def test_a_fit_tells_it_once_and_before_rows_are_read():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scaled().fit(X, Y)
    told = [one for one in caught if "the noise may put bounds" in str(one.message)]
    assert len(told) == 1 and str(told[0].message).startswith(FAR)
    assert told[0].category is PrivacyWarning and told[0].filename == __file__
    with PrivacyLedger(9.0, 1e-3) as ledger, warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrivacyWarning, match=FAR):
            scaled().fit(X, Y)
    assert ledger.spent_epsilon == 0


def test_what_a_plan_cannot_know_is_still_told_by_the_step():
    """The number of categories is not known beforehand, nor what the last step thinks of it."""
    frame = pd.DataFrame({"region": rng.choice(["a", "b"], N).astype(object)})
    model = DPBayesianLogisticRegression(classes=[0, 1])
    pipe = make_private_pipeline(DPOneHotEncoder(), model, epsilon=0.1)
    assert not any(t.startswith("dpbayesian") for t in pipe.privacy_plan(N, 1).warnings)
    with pytest.warns(UserWarning) as caught:
        pipe.fit(frame, Y)
    texts = [str(one.message) for one in caught]
    told = {f"dpbayesianlogisticregression: {text}" for text in pipe[-1].plan_.warnings}
    assert told and told <= set(texts)


@pytest.mark.filterwarnings("ignore")
def test_categories_that_persons_with_a_row_each_are_too_few_for_are_told():
    """With k rows each there would be k times as many rows, and none of these is certain."""
    n_persons, k = 300, 3
    columns = ColumnTransformer([("text", DPOneHotEncoder(), ["region"])])

    def plan(limit, n):
        model = DPBayesianLogisticRegression(classes=[0, 1], data_norm=1.0)
        options = {"epsilon": 6.0, "delta": 1e-6, "max_rows_per_group": limit}
        return make_private_pipeline(columns, model, **options).privacy_plan(n, 1)

    # The threshold lies between a fifth of the persons and a fifth of the rows that are planned for.
    steps = plan(k, n_persons).step_budgets
    (epsilon, delta), public = steps["columntransformer__text"], k * n_persons
    encoder = DPOneHotEncoder(epsilon=epsilon, delta=delta, rows_per_person=k)
    encoder.set_params(neighboring_relation="add_or_remove_one", public_size=public)
    own = encoder.privacy_plan(public, 1)
    assert 0.2 * n_persons < own.details["threshold"] < 0.2 * public and own.warnings == ()
    lost = "columntransformer__text: only categories with at least about"
    assert [t.startswith(lost) for t in plan(k, n_persons).warnings].count(True) == 1
    assert not any(t.startswith(lost) for t in plan(k, k * n_persons).warnings)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("groups", [None, np.arange(N)])
def test_an_argument_names_a_step_that_there_is(groups):
    pipe = scaled(max_rows_per_group=None if groups is None else 1, epsilon=9.0)
    with PrivacyLedger(100.0, 1e-3, pipe.privacy_plan(N, 4).cost.neighboring_relation) as ledger:
        with pytest.raises(ValueError, match="does not accept exposure=.*__exposure="):
            pipe.fit(X, Y, groups=groups, exposure=np.ones(N))
        with pytest.raises(ValueError, match="for a step 'logistic', .* its steps are .'dpquant"):
            pipe.fit(X, Y, groups=groups, logistic__sample_weight=np.ones(N))
    assert ledger.spent_epsilon == 0


@pytest.mark.filterwarnings("ignore")
def test_exposure_and_groups_work_together_in_every_pipeline():
    model = DPBayesianPoissonRegressor(
        max_count=3, data_norm=1.0, epsilon=9.0, delta=1e-5, n_draws=20
    )
    pipe = make_private_pipeline(model, epsilon=9.0, delta=1e-5, max_rows_per_group=1)
    pipe[-1].set_params(epsilon=1.0, delta=None)
    groups, exposure = np.arange(N), np.ones(N)
    pipe.fit(X, Y, groups=groups, dpbayesianpoissonregressor__exposure=exposure)
    assert pipe.plan_.cost.neighboring_relation == "replace_one_person"
    model = DPBayesianPoissonRegressor(
        max_count=3, data_norm=1.0, epsilon=9.0, n_draws=20, max_rows_per_group=1
    )
    model.fit(X, Y, groups=groups, exposure=exposure)
    plain = make_pipeline(BoundedScaler([-1] * 4, [1] * 4), model).fit(
        X,
        Y,
        dpbayesianpoissonregressor__groups=groups,
        dpbayesianpoissonregressor__exposure=exposure,
    )
    assert plain[-1].privacy_cost_.neighboring_relation == "replace_one_person"


def test_a_large_delta_is_told_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scaled(delta=0.05).fit(X, Y)
    assert sum("delta=0.05" in str(one.message) for one in caught) == 1
