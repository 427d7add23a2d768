"""Parameters and methods of private pipelines: budgets of steps, fits, and steps that users vouch for."""

import numpy as np
import pytest
import sklearn
from cheap import Cheap
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import PrivacyLeakWarning
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.model_selection import total_privacy_cost
from skdpbayes.pipeline import PrivatePipeline, make_private_pipeline
from skdpbayes.preprocessing import DPImputer, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger

N = 400
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
y = (X[:, 0] > 0).astype(int)


def logistic(**options):
    return DPBayesianLogisticRegression(classes=[0, 1], random_state=0, **options)


def scaled(*steps, **options):
    return make_private_pipeline(DPQuantileScaler(), *steps, delta=1e-5, **options)


# A step's own budget


OWN = {
    "epsilon of a scaler": (
        lambda: make_private_pipeline(DPQuantileScaler(epsilon=0.1), Cheap()),
        "dpquantilescaler__epsilon=0.1",
    ),
    "delta of a scaler": (
        lambda: make_private_pipeline(DPQuantileScaler(delta=1e-7), Cheap()),
        "dpquantilescaler__delta=1e-07",
    ),
    "of the last step": (lambda: scaled(Cheap(epsilon=0.5)), "cheap__epsilon=0.5"),
    "without privacy": (lambda: scaled(logistic(epsilon=np.inf)), "epsilon=inf"),
    "inside columns": (
        lambda: make_private_pipeline(
            make_column_transformer((DPQuantileScaler(epsilon=0.1), [0])), Cheap()
        ),
        "columntransformer__dpquantilescaler__epsilon=0.1",
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_a_budget_that_a_step_was_given_is_not_overwritten_in_silence(name):
    make, message = OWN[name]
    with PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as ledger:
        for call in (lambda: make().fit(X, y), lambda: make().privacy_plan(N, 3)):
            with pytest.raises(ValueError, match=f"{message}.*shares"):
                call()
        assert ledger.records() == []


def test_a_free_step_may_have_any_budget():
    pipe = make_private_pipeline(DPImputer(epsilon=0.1), Cheap(), delta=1e-5)
    assert list(pipe.privacy_plan(N, 3).step_budgets) == ["cheap"]


def test_a_fit_does_not_change_parameters_and_can_be_repeated():
    pipe = scaled(Cheap(random_state=0), epsilon=1.0)
    given = {name: value for name, value in pipe.get_params().items() if "__" in name}
    first = pipe.fit(X, y).privacy_cost_
    assert {name: pipe.get_params()[name] for name in given} == given
    assert pipe.fit(X, y).privacy_cost_ == first == clone(pipe).fit(X, y).privacy_cost_
    assert pipe.set_params(epsilon=2.0).fit(X, y).spent_epsilon_ == pytest.approx(2.0, rel=2e-3)
    failing = scaled(Cheap(fails=True))
    with pytest.raises(ValueError, match="Cheap refuses the rows"):
        failing.fit(X, y)
    assert failing[-1].epsilon == 1.0 and failing[0].epsilon == 1.0


# Methods


@pytest.mark.parametrize(
    "last, methods",
    [
        (logistic(), ["fit_predict"]),
        (DPImputer(), ["fit_transform"]),
        ("passthrough", ["fit_transform"]),
        (DPGaussianMixturePosterior(), ["fit_predict"]),
    ],
)
def test_only_methods_that_work_are_there(last, methods):
    pipe = scaled(last)
    assert [name for name in ("fit_predict", "fit_transform") if hasattr(pipe, name)] == methods


@pytest.mark.parametrize(
    "last, method", [(logistic(), "fit_transform"), (DPImputer(), "fit_predict")]
)
def test_a_method_that_the_last_step_lacks_costs_nothing(last, method):
    with PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as ledger:
        with pytest.raises(AttributeError, match=method):
            getattr(scaled(last), method)(X, y)
        assert ledger.records() == []


class Shift(TransformerMixin, Cheap):
    """A private transformer."""

    def transform(self, X):
        return X - self.threshold_


def test_methods_that_fit_take_groups():
    groups = np.arange(N) // 2
    pipe = scaled(Shift(), max_rows_per_group=1)
    assert pipe.fit_transform(X, y, groups=groups).shape == X.shape
    assert pipe.privacy_cost_.neighboring_relation == "replace_one_person"
    pipe = scaled(logistic(), max_rows_per_group=1)
    assert pipe.fit_predict(X, y, groups).shape == (N,)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = scaled(Shift(), max_rows_per_group=1).set_fit_request(groups=True)
        assert pipe.fit_transform(X, y, groups=groups).shape == X.shape


# Steps for which the user vouches


class Embedding(TransformerMixin, BaseEstimator):
    """A fixed map of another package."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.tanh(X)

    def __sklearn_is_fitted__(self):
        return True


FROZEN = FrozenEstimator(StandardScaler().fit(rng.normal(size=(50, 3))))


@pytest.mark.parametrize("step", [FROZEN, Embedding()], ids=["frozen", "elsewhere"])
def test_what_the_user_vouches_for_passes_and_nothing_else(step):
    name = type(step).__name__.lower()
    options = {"strict": True, "delta": 1e-5}
    with pytest.raises(ValueError, match=rf"learns_nothing=\['{name}'\]"):
        make_private_pipeline(step, logistic(), **options).fit(X, y)
    pipe = make_private_pipeline(step, logistic(), learns_nothing=[name], **options).fit(X, y)
    assert total_privacy_cost(pipe) == pipe.privacy_cost_
    inner = make_column_transformer((step, [0, 1, 2]))
    path = f"columntransformer__{name}"
    for names, passes in (([path], True), (["columntransformer"], False)):
        pipe = make_private_pipeline(inner, logistic(), learns_nothing=names, **options)
        if passes:
            pipe.fit(X, y)
        else:
            with pytest.raises(ValueError, match="may learn"):
                pipe.fit(X, y)
    with pytest.raises(ValueError, match="StandardScaler"):
        make_private_pipeline(
            step, StandardScaler(), logistic(), learns_nothing=[name], **options
        ).fit(X, y)


def test_a_frozen_private_step_is_not_fitted_again_and_not_charged_again():
    frozen = FrozenEstimator(DPQuantileScaler().fit(X))
    pipe = make_private_pipeline(
        frozen, logistic(), strict=True, learns_nothing=["frozenestimator"], delta=1e-5
    )
    with PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as ledger:
        lower = pipe.fit(X, y)[0].lower_
    np.testing.assert_array_equal(lower, frozen.estimator.lower_)
    assert ledger.spent == pipe.privacy_cost_ and len(ledger.records()) == 1


def test_a_step_with_a_known_remedy_is_not_offered_a_authorization():
    with pytest.warns(PrivacyLeakWarning) as told:
        make_private_pipeline(StandardScaler(), logistic()).fit(X, y)
    assert not any("learns_nothing" in str(one.message) for one in told)


@pytest.mark.parametrize(
    "names, message",
    [
        (["frozen"], r"names \['frozen'\]"),
        (["cheap"], "without a budget"),
        ("frozenestimator", "list"),
    ],
)
def test_nobody_vouches_for_what_is_not_there_or_has_a_budget(names, message):
    pipe = make_private_pipeline(FROZEN, Cheap(), learns_nothing=names)
    for call in (lambda: pipe.fit(X, y), lambda: pipe.privacy_plan(N, 3)):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("steps", [None, [], [1.0, 2.0], ["scale"], [("only a name",)]])
def test_steps_that_are_none_are_refused_by_name(steps):
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        for call in (lambda p: p.fit(X, y), lambda p: p.privacy_plan(N, 3)):
            with pytest.raises((TypeError, ValueError), match="steps"):
                call(PrivatePipeline(steps))
    assert ledger.records() == []
