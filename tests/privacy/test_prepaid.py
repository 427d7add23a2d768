"""What a larger plan has paid for is not charged again, wherever it is fitted; anything else is."""

import pickle

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from scipy.stats import uniform
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import BudgetExceededError, PrivacyLeakWarning
from skdpbayes.metrics import make_private_scorer
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPImputer, DPQuantileScaler
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, PureMechanism
from skdpbayes.privacy.charge import dominates
from skdpbayes.privacy.losses import BoundedRangeDecisions, accept_range

DELTA = 1e-5
X = np.random.default_rng(0).uniform(-1, 1, (2000, 4))
Y = (X[:, 0] > 0).astype(int)


def model(epsilon=1.0):
    return DPBayesianLogisticRegression(epsilon, classes=[0, 1], n_draws=5)


def side_by_side(*steps):
    columns = [[0, 1], [2, 3]]
    named = [(str(i), step, columns[i]) for i, step in enumerate(steps)]
    return ColumnTransformer(named, n_jobs=2, sparse_threshold=0)


@pytest.fixture(params=["threading", "loky", "multiprocessing"])
def backend(request):
    with parallel_config(backend=request.param):
        yield


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    path = None if request.param == "memory" else tmp_path / "ledger"
    return PrivacyLedger(1.0, DELTA, path=path)


@pytest.mark.nightly
def test_steps_in_workers_are_paid_for_by_their_pipeline(backend, ledger):
    pipe = make_private_pipeline(
        side_by_side(DPQuantileScaler(), make_pipeline(DPQuantileScaler(), DPImputer())),
        model(),
        epsilon=1.0,
        delta=DELTA,
    )
    with ledger:
        pipe.fit(X, Y)
    assert ledger.spent == pipe.privacy_cost_ == pipe.plan_.cost
    assert len(ledger.records()) == 1 and 0.99 < ledger.spent_epsilon <= 1.0


@pytest.mark.nightly
def test_a_search_leaves_one_line_whatever_its_candidates_do_in_workers(backend, ledger):
    search = DPRandomizedSearchCV(
        Pipeline(
            [("columns", side_by_side(DPImputer(), BoundedScaler(-1, 1))), ("model", model())]
        ),
        {"model__prior_scale": uniform(0.5, 2.0)},
        mean_candidates=3.0,
        delta=DELTA,
        shape=np.inf,
        scoring="neg_log_loss",
    )
    with ledger:
        search.fit(X, Y)
    assert ledger.spent == search.privacy_cost_ and len(ledger.records()) == 1


def test_a_charge_of_nothing_leaves_no_line():
    with PrivacyLedger(1.0, DELTA) as ledger:
        DPImputer().fit(X)
        make_pipeline(DPImputer(), DPImputer()).fit(X)
    assert ledger.records() == []


def test_a_authorization_is_good_for_a_single_fit():
    pipe = make_private_pipeline(DPQuantileScaler(), model(), delta=DELTA)
    with PrivacyLedger(1.0, DELTA) as ledger:
        pipe.fit(X, Y)
        for step in (pipe[0], pipe[-1], clone(pipe[-1]), pickle.loads(pickle.dumps(pipe))[-1]):
            with pytest.raises(BudgetExceededError):
                step.fit(X, Y)
    assert ledger.spent == pipe.privacy_cost_


def test_authorizations_of_a_fit_that_failed_are_taken_back():
    class Broken(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            raise RuntimeError("broken")

        def transform(self, X):
            return X

    pipe = make_private_pipeline(DPQuantileScaler(), Broken(), model(), delta=DELTA)
    with PrivacyLedger(1.0, DELTA) as ledger:
        with pytest.raises(ValueError, match="Broken refuses"), pytest.warns(PrivacyLeakWarning):
            pipe.fit(X, Y)
        for step in (pipe[0], pipe[-1]):
            with pytest.raises(BudgetExceededError):
                step.fit(X, Y)
    assert len(ledger.records()) == 1


def test_copies_that_were_made_during_a_fit_are_charged_like_any_other():
    kept = []

    class Snapshot(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            kept.extend([pickle.dumps(last), clone(last)])
            return self

        def transform(self, X):
            return X

    last = model()
    pipe = make_private_pipeline(Snapshot(), last, delta=DELTA, learns_nothing=["snapshot"])
    with PrivacyLedger(1.0, DELTA) as ledger:
        pipe.fit(X, Y)
        for copy in (pickle.loads(kept[-2]), pickle.loads(kept[-2]), *kept[1::2]):
            with pytest.raises(BudgetExceededError):
                copy.fit(X, Y)
    assert ledger.spent == pipe.privacy_cost_


def test_one_authorization_is_good_for_one_release_also_within_the_fit():
    class Greedy(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            clone(last).fit(X, y)  # Takes the authorization that the last step needs.
            return self

        def transform(self, X):
            return X

    last = model()
    pipe = make_private_pipeline(Greedy(), last, delta=DELTA)
    with PrivacyLedger(1.0, DELTA), pytest.warns(PrivacyLeakWarning):
        with pytest.raises(BudgetExceededError):
            pipe.fit(X, Y)


class Wrapper(TransformerMixin, BaseEstimator):
    def __init__(self, held=None):
        self.held = held

    def fit(self, X, y=None):
        DPQuantileScaler(epsilon=7.0).fit(X)
        return self

    def transform(self, X):
        return X


def test_a_step_that_was_vouched_for_releases_nothing_before_the_charge():
    hidden = make_private_pipeline(Wrapper({"x": [DPQuantileScaler()]}), model(), delta=DELTA)
    hidden.learns_nothing = ["wrapper"]
    secret = make_private_pipeline(Wrapper(), model(), delta=DELTA, learns_nothing=["wrapper"])
    with PrivacyLedger(np.inf, DELTA) as ledger:
        with pytest.raises(ValueError, match="holds a DPQuantileScaler"):
            hidden.fit(X, Y)
        with pytest.raises(ValueError, match="private release of its own"):
            secret.fit(X, Y)
    assert ledger.records() == []


class Secretive(TransformerMixin, BaseEstimator):
    """Fits a private model of its own, which no plan can know of."""

    def fit(self, X, y):
        self.spent_ = DPBayesianLogisticRegression(2.0, delta=DELTA, n_draws=5).fit(X, y).plan_.cost
        return self

    def transform(self, X):
        return X


def test_private_fits_that_the_plan_does_not_contain_are_charged():
    pipe = make_private_pipeline(Secretive(), model(), delta=DELTA)
    with PrivacyLedger(np.inf, DELTA) as ledger, pytest.warns(PrivacyLeakWarning):
        pipe.fit(X, Y)
    assert ledger.spent == pipe.privacy_cost_ == pipe.plan_.cost + pipe[0].spent_
    with PrivacyLedger(1.5, DELTA), pytest.warns(PrivacyLeakWarning):
        with pytest.raises(BudgetExceededError):
            pipe.fit(X, Y)


SCORER = make_private_scorer("accuracy", epsilon=0.1)


@pytest.mark.parametrize(
    "holder",
    [
        CalibratedClassifierCV(model(5.0), cv=3),
        GridSearchCV(model(5.0), {"prior_scale": [1.0, 2.0]}, scoring=SCORER),
        GridSearchCV(LogisticRegression(), {"C": [1.0, 2.0]}, scoring=SCORER),
        SelectFromModel(model(5.0)),
        VotingClassifier([("a", model(5.0)), ("b", LogisticRegression())]),
        make_pipeline(BoundedScaler(-1, 1), CalibratedClassifierCV(model(5.0))),
        side_by_side(SelectFromModel(model(5.0)), "passthrough"),
        FeatureUnion([("one", SelectFromModel(DPQuantileScaler()))]),
        type("Subclass", (Pipeline,), {})([("scale", DPQuantileScaler()), ("model", model())]),
    ],
    ids=lambda holder: type(holder).__name__,
)
@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyLeakWarning")
def test_what_a_plan_cannot_count_is_refused_and_nothing_is_spent(holder):
    pipe = make_private_pipeline(DPQuantileScaler(), holder, epsilon=1.0, delta=DELTA)
    search = DPRandomizedSearchCV(
        Pipeline([("held", holder), ("model", model())]), {"model__prior_scale": [1.0]}, delta=DELTA
    )
    with PrivacyLedger(np.inf, DELTA) as ledger:
        for whole in (pipe, search):
            with pytest.raises(ValueError, match=r"holds a|cannot be planned"):
                whole.fit(X, Y)
    assert ledger.records() == []


def test_a_authorization_covers_what_reveals_no_more():
    def cost(**parts):
        return PrivacyCost("replace_one", **parts)

    bits, more = (
        (BoundedRangeDecisions(accept_range(a, 0.0, "replace_one"), 10),) for a in (0.01, 0.02)
    )
    response = cost(pure_events=(PureMechanism(1.0),), failure_probability=1e-6)
    assert dominates(cost(mu=1.0), cost(mu=1.0)) and dominates(cost(mu=1.0), cost(mu=0.5))
    assert not dominates(cost(mu=0.5), cost(mu=1.0))
    assert not dominates(cost(mu=1.0), PrivacyCost("add_or_remove_one", mu=0.5))
    assert dominates(cost(mu=1.0, decisions=more), cost(mu=1.0, decisions=bits))
    assert not dominates(cost(mu=1.0, decisions=bits), cost(mu=1.0, decisions=more))
    assert not dominates(cost(mu=9.0), cost(mu=0.1, decisions=bits))
    assert not dominates(cost(mu=9.0), cost(rho=1e-6)) and not dominates(
        cost(mu=9.0), cost(failure_probability=1e-9)
    )
    # Randomised response that may fail is worse than anything with its epsilon at that delta.
    assert dominates(response, cost(mu=0.15)) and not dominates(response, cost(mu=0.3))
    assert dominates(
        cost(pure_events=(PureMechanism(1.0),)), cost(pure_events=(PureMechanism(0.5, 2),))
    )
    assert not dominates(
        cost(pure_events=(PureMechanism(1.0),)), cost(pure_events=(PureMechanism(0.6, 2),))
    )
    assert not dominates(cost(pure_events=(PureMechanism(1.0),)), cost(mu=1e-3))
    assert dominates(cost(mu=np.inf), cost(mu=5.0))


def one_fit(estimator, X, y):
    return DPBayesianLogisticRegression.fit(estimator, X, y).coef_


class Averaged(DPBayesianLogisticRegression):
    """Fits several clones of itself, before itself."""

    def fit(self, X, y):
        clones = [clone(self) for _ in range(2)]
        Parallel(n_jobs=2)(delayed(one_fit)(each, X, y) for each in clones)
        return super().fit(X, y)


@pytest.mark.nightly
def test_one_authorization_is_good_for_one_release_in_all_workers_together(backend, tmp_path):
    pipe = make_private_pipeline(
        BoundedScaler(-1, 1), Averaged(classes=[0, 1], n_draws=5), epsilon=0.1, delta=DELTA
    )
    with PrivacyLedger(10.0, DELTA, path=tmp_path / "ledger") as ledger:
        pipe.fit(X, Y)
    assert len(ledger.records()) == 3, "the pipeline, and two of three fits that its plan lacks"
    assert ledger.spent_epsilon > 1.7 * pipe.plan_.epsilon
