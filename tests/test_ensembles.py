"""Ensembles and searches of other packages: what they do behind a guarantee's back is said or refused."""

import importlib
import inspect
import sys
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression, RANSACRegressor
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    validation_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils import all_estimators

from skdpbayes import DPBayesianLogisticRegression, DPBayesianRidge
from skdpbayes.exceptions import (
    LedgerOutOfReachError,
    PrivacyLeakWarning,
    PrivacyWarning,
    SeedWarning,
)
from skdpbayes.metrics import dp_accuracy_score, make_private_scorer
from skdpbayes.model_selection import DPRandomizedSearchCV, total_privacy_cost
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger, privacy_report
from skdpbayes.privacy.unsafe_callers import TOOLS

sys.path.insert(0, str(Path(__file__).parent))
from cheap import Cheap
from children import in_a_child

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3))
y = (X[:, 0] + 0.2 * rng.normal(size=400) > 0).astype(int)
three = np.digitize(X[:, 0], [-0.5, 0.5])
BOTH = np.column_stack([y, (X[:, 1] > 0).astype(int)])
DELTA = 1e-5


def model(epsilon=1.0, **options):
    return DPBayesianLogisticRegression(epsilon, delta=DELTA, classes=[0, 1], **options)


def step(**options):
    """Return a step of a private pipeline, which has no budget of its own."""
    return DPBayesianLogisticRegression(classes=[0, 1], **options)


def refitted(member):
    """Return coefficients of an attacker who knows all rows, and the seed that a member keeps."""
    return clone(member).fit(X, y, sample_weight=np.ones(len(X))).coef_


def test_an_ensemble_can_be_tested_for_membership_and_warns_of_it():
    """The attack that makes it necessary: from the stored seed a member is computed again, bit for bit."""
    with pytest.warns(SeedWarning, match="ensemble") as caught:
        members = BaggingClassifier(model(), n_estimators=3, bootstrap=False).fit(X, y).estimators_
    assert len([one for one in caught if one.category is SeedWarning]) == 3
    np.testing.assert_array_equal(members[0].coef_, refitted(members[0]))
    assert any("random_state" in text for text in privacy_report(members[0])["details"]["warnings"])


@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_ledger_refuses_members_with_seeds_and_is_not_charged(tmp_path, in_a_file):
    path = tmp_path / "ledger" if in_a_file else None
    with PrivacyLedger(np.inf, DELTA, path=path) as ledger:
        with pytest.raises(ValueError, match="BaggingClassifier.*Nothing was read"):
            BaggingClassifier(model(), bootstrap=False).fit(X, y)
    assert ledger.records() == []


SEEDED = {
    "estimator": lambda: model(random_state=0).fit(X, y),
    "norm": lambda: model(random_state=0, data_norm="auto").fit(np.tile(X, (5, 1)), np.tile(y, 5)),
    "persons": lambda: model(random_state=0, max_rows_per_group=1).fit(X, y, groups=np.arange(400)),
    "scaler": lambda: DPQuantileScaler(random_state=0).fit(X),
    "imputer": lambda: DPImputer(strategy="median", random_state=0).fit(X.clip(-1, 1)),
    "encoder": lambda: DPOneHotEncoder(random_state=0).fit(three[:, None]),
    "score": lambda: dp_accuracy_score(y, y, epsilon=0.5, random_state=0),
    "pipeline": lambda: make_private_pipeline(DPQuantileScaler(), step(random_state=0)).fit(X, y),
    "first step": lambda: make_private_pipeline(DPQuantileScaler(random_state=0), step()).fit(X, y),
    "search": lambda: search(random_state=0).fit(X, y),
    "candidate": lambda: search(model(random_state=0)).fit(X, y),
    "drawn": lambda: search(given={"random_state": [0, 1]}).fit(X, y),
    "scorer": lambda: search(
        scoring=make_private_scorer("accuracy", epsilon=1.0, random_state=0)
    ).fit(X, y),
}


def search(estimator=None, given=None, **options):
    options = {"epsilon": 3.0, "delta": DELTA, "mean_candidates": 2} | options
    return DPRandomizedSearchCV(estimator or model(), given or {"prior_scale": [1.0]}, **options)


@pytest.mark.daily(4)
@pytest.mark.parametrize("name", SEEDED)
def test_every_seed_is_announced_and_refused_before_a_charge(name):
    for relation in ("replace_one", "replace_one_person"):
        with PrivacyLedger(np.inf, DELTA, relation) as ledger:
            with pytest.raises(
                ValueError, match="random_state.*allow_seeds=True.*Nothing was read"
            ):
                SEEDED[name]()
        assert ledger.records() == []
    with pytest.warns(SeedWarning):
        SEEDED[name]()


def test_no_ledger_around_may_forbid_seeds(tmp_path):
    """Neither an inner one, nor an outer one, nor another object for the same file, nor a parent's."""
    path = tmp_path / "ledger"
    PrivacyLedger(np.inf, DELTA, path=path)

    def allowing():
        return PrivacyLedger.open(path, allow_seeds=True)

    for outer, inner in (
        (allowing(), PrivacyLedger.open(path)),
        (PrivacyLedger.open(path), allowing()),
    ):
        with outer, inner, pytest.raises(ValueError, match="allow_seeds"):
            model(random_state=0).fit(X, y)
        assert outer.records() == []
    with PrivacyLedger.open(path):
        assert "allow_seeds" in in_a_child(lambda: inside(allowing()))
    with allowing() as ledger:
        assert in_a_child(lambda: model(random_state=0).fit(X, y).epsilon) == "1.0"
    assert [row["label"] for row in ledger.records()] == ["(seeds allowed)"]
    with PrivacyLedger(np.inf, DELTA):
        assert LedgerOutOfReachError.__name__ in in_a_child(lambda: model(random_state=0).fit(X, y))


def inside(ledger):
    with ledger:
        model(random_state=0).fit(X, y)


def test_a_search_announces_seeds_once_however_many_candidates_there_were():
    counts = set()
    for _ in range(4):
        with pytest.warns(SeedWarning) as caught:
            search(Cheap(random_state=0), {"cut": [0.0]}, epsilon=30.0).fit(X, y)
        counts.add(len([one for one in caught if one.category is SeedWarning]))
    assert counts == {1}


SELECTING = {
    "AdaBoostClassifier": lambda one: AdaBoostClassifier(one, n_estimators=2),
    "BaggingClassifier": lambda one: BaggingClassifier(one, n_estimators=2),
    "SelfTrainingClassifier": lambda one: SelfTrainingClassifier(one),
    "OneVsOneClassifier": lambda one: OneVsOneClassifier(one),
}


@pytest.mark.parametrize("name", SELECTING)
def test_ensembles_that_select_repeat_or_weight_rows_are_refused(name):
    labels = {
        "SelfTrainingClassifier": np.where(np.arange(400) < 100, y, -1),
        "OneVsOneClassifier": three,
    }.get(name, y)
    ensemble = SELECTING[name]
    with PrivacyLedger(np.inf, DELTA, allow_seeds=True) as ledger:
        members = [model(), make_private_pipeline(BoundedScaler(-1, 1), step())]
        for one in members[: 1 if name == "AdaBoostClassifier" else 2]:  # It needs weights.
            with pytest.raises(ValueError, match=f"{name}.*rows must not be selected, repeated or"):
                ensemble(one).fit(X, labels)
    assert ledger.records() == []
    with pytest.raises(ValueError, match=f"{name}.*Nothing was read"):
        make_private_pipeline(BoundedScaler(-1, 1), ensemble(model())).fit(X, labels)
    with pytest.raises(ValueError, match=f"there is no total: {name}"):
        total_privacy_cost(ensemble(model()))


def test_without_privacy_nothing_is_claimed_and_nothing_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        BaggingClassifier(model(np.inf), n_estimators=2).fit(X, y)
        CalibratedClassifierCV(model(np.inf), cv=2).fit(X, y)


LEARNING = {
    "CalibratedClassifierCV": lambda one: CalibratedClassifierCV(one, cv=2),
    "StackingClassifier": lambda one: StackingClassifier([("a", one)], cv=2),
    "VotingClassifier": lambda one: VotingClassifier([("a", one), ("b", LogisticRegression())]),
    "TunedThresholdClassifierCV": lambda one: TunedThresholdClassifierCV(one, cv=2),
    "RFECV": lambda one: RFECV(one, cv=2),
    "SequentialFeatureSelector": lambda one: SequentialFeatureSelector(
        one, n_features_to_select=1, cv=2
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", LEARNING)
def test_ensembles_that_learn_from_rows_themselves_are_named(name):
    with pytest.warns(PrivacyLeakWarning, match=f"{name} .*without noise.*do not cover it"):
        LEARNING[name](model()).fit(X, y)
    with pytest.raises(ValueError, match=f"there is no total: {name}"):
        total_privacy_cost(LEARNING[name](model()))
    with pytest.raises(ValueError, match=name):
        make_private_pipeline(BoundedScaler(-1, 1), LEARNING[name](model()), strict=True).fit(X, y)


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_ensembles_are_seen_in_workers_too(backend):
    from joblib import parallel_config

    with parallel_config(backend=backend), pytest.raises(ValueError, match="BaggingClassifier"):
        BaggingClassifier(model(), n_estimators=2, n_jobs=2).fit(X, y)


ADDED = {
    "voting": (lambda: VotingClassifier([("a", model()), ("b", model(0.5))]), y),
    "rest": (lambda: OneVsRestClassifier(model()), three),
    "outputs": (lambda: MultiOutputClassifier(model()), BOTH),
    "chain": (lambda: ClassifierChain(model()), BOTH),
    "threshold": (lambda: FixedThresholdClassifier(model(), threshold=0.3), y),
    "selection": (lambda: SelectFromModel(model()), y),
}


@pytest.mark.daily(1)
@pytest.mark.parametrize("name", ADDED)
def test_the_total_of_an_ensemble_is_what_a_ledger_counted(name):
    make, labels = ADDED[name]
    with warnings.catch_warnings(), PrivacyLedger(np.inf, DELTA) as ledger:
        warnings.simplefilter("error", PrivacyLeakWarning)
        ensemble = make().fit(X, labels)
    assert total_privacy_cost(ensemble).mu == pytest.approx(ledger.spent.mu)


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    "ensemble, labels, reason",
    [
        (BaggingClassifier(model(), n_estimators=2, bootstrap=False), y, "keeps the seeds"),
        (RFE(model(), n_features_to_select=1), y, "does not keep the fits"),
        (ClassifierChain(model(), cv=2), BOTH, "cross-validation"),
        (SelectFromModel(model(), max_features=lambda X: 1), y, "may read the rows"),
        (VotingClassifier([("a", DummyClassifier())]), y, "VotingClassifier"),
        (OneVsRestClassifier(DummyClassifier()), three, "is not private"),
    ],
)
def test_what_cannot_be_counted_is_refused_with_the_reason(ensemble, labels, reason):
    with pytest.raises(ValueError, match=reason):
        total_privacy_cost(ensemble.fit(X, labels))


def test_selections_by_private_scores_are_not_named():
    scorer = make_private_scorer("accuracy", epsilon=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        RFECV(model(), cv=KFold(2), scoring=scorer).fit(X, y)


def package(monkeypatch, name):
    """Return a module that stands for a package that need not be installed."""
    module = ModuleType(name)
    for parent in (name.rpartition(".")[0], name):
        monkeypatch.setitem(sys.modules, parent or name, module)
    return module


RESAMPLING = """
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline as Plain

class RandomOverSampler(BaseEstimator):
    def fit_resample(self, X, y):
        rare = np.flatnonzero(y == 1)
        more = np.concatenate([np.arange(len(y)), np.tile(rare, 3)])
        return X[more], y[more]

class Pipeline(Plain):
    def fit(self, X, y):
        for _, step in self.steps[:-1]:
            X, y = step.fit_resample(X, y) if hasattr(step, "fit_resample") else (step.fit_transform(X), y)
        self.steps[-1][1].fit(X, y)
        return self
"""


def test_resampling_pipelines_are_refused_and_others_are_not(monkeypatch):
    imblearn = package(monkeypatch, "imblearn.pipeline")
    exec(RESAMPLING, vars(imblearn))
    sampler = imblearn.RandomOverSampler()
    with (
        PrivacyLedger(np.inf, DELTA) as ledger,
        pytest.raises(ValueError, match="imbalanced-learn"),
    ):
        imblearn.Pipeline([("a", sampler), ("b", model())]).fit(X, y)
    with pytest.raises(ValueError, match="imbalanced-learn.*Nothing was read"):
        make_private_pipeline(make_pipeline(sampler), step()).fit(X, y)
    assert ledger.records() == []
    with PrivacyLedger(np.inf, DELTA) as ledger:
        imblearn.Pipeline([("a", BoundedScaler(-1, 1)), ("b", model())]).fit(X, y)
    assert len(ledger.records()) == 1


def test_synthetic_rows_of_smote_are_refused_unread():
    """They mix a row with its neighbours, so that one row changes many."""
    over_sampling = pytest.importorskip("imblearn.over_sampling")
    pipelines = pytest.importorskip("imblearn.pipeline")
    steps = over_sampling.SMOTE(), model()
    with PrivacyLedger(np.inf, DELTA) as ledger:
        for pipeline in (
            pipelines.make_pipeline(*steps),
            make_private_pipeline(BoundedScaler(-1, 1), pipelines.make_pipeline(*steps)),
        ):
            with pytest.raises(ValueError, match="invents rows.*Nothing was read"):
                pipeline.fit(X, y)
    assert ledger.records() == []


class Modest(ClassifierMixin, BaseEstimator):
    """A user's own meta-estimator with a name of somebody else's."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        self.estimator.fit(X, y)
        return self


def test_names_alone_do_not_make_a_tool():
    CalibratedClassifierCV = type("CalibratedClassifierCV", (Modest,), {})
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        CalibratedClassifierCV(model()).fit(X, y)
    assert isinstance(Pipeline([("a", Cheap())]), Pipeline)


@pytest.mark.parametrize(
    "tool", [one for one in TOOLS if one.module.startswith("sklearn")], ids=lambda one: one.name
)
def test_the_code_of_a_listed_tool_is_where_the_list_says(tool):
    """If scikit-learn moves or renames it, this fails before anything goes unnoticed."""
    names = vars(importlib.import_module(tool.module))
    assert all(not name or name in names for name in tool.functions)


def test_a_transformer_of_responses_is_named_and_functions_are_not():
    regressor = DPBayesianRidge((-5, 5), data_norm=3.0, epsilon=1.0, delta=DELTA, n_draws=5)
    target = X[:, 0]
    with pytest.warns(PrivacyLeakWarning, match="TransformedTargetRegressor fits a transformer"):
        TransformedTargetRegressor(regressor, transformer=StandardScaler()).fit(X, target)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        TransformedTargetRegressor(regressor, func=np.tanh, inverse_func=np.arctanh).fit(X, target)


def test_where_warnings_are_errors_each_tool_around_a_fit_is_named():
    told = []

    class Member(DPBayesianLogisticRegression):
        def fit(self, X, y):
            try:
                return super().fit(X, y)
            except PrivacyLeakWarning as warning:
                told.append(str(warning))
                raise

    search = GridSearchCV(Member(n_draws=5), {"epsilon": [0.5, 1.0]}, cv=2, error_score=np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", PrivacyLeakWarning)
        TunedThresholdClassifierCV(search, cv=2).fit(X, y)
    assert any("TunedThresholdClassifierCV chooses a threshold" in text for text in told)
    assert any("a search of scikit-learn" in text for text in told)


def test_a_halving_search_is_named_once_and_as_one():
    search = HalvingGridSearchCV(cheap(), {"prior_scale": [1.0, 2.0]}, cv=KFold(2))
    (text,) = leaks_told(search.fit, X, y)
    assert text.startswith("a halving search") and "PrivacyLedger" in text


@pytest.mark.daily(1)
@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
def test_a_search_by_scores_without_noise_is_named_once(search):
    how = {"n_iter": 2} if search is RandomizedSearchCV else {}
    choice, folds = {"epsilon": [0.5, 1.0]}, KFold(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search(model(n_draws=5), choice, cv=folds, **how).fit(X, y)
    texts = [str(one.message) for one in caught if one.category is PrivacyLeakWarning]
    assert len(texts) == 1 and "make_private_scorer" in texts[0]
    scorer = make_private_scorer("accuracy", epsilon=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        search(model(n_draws=5), choice, cv=folds, scoring=scorer, **how).fit(X, y)


@pytest.mark.parametrize("name", ["RANSACRegressor", "IterativeImputer"])
def test_fits_on_rows_chosen_or_filled_in_by_others_are_refused(name):
    regressor = DPBayesianRidge((-5, 5), data_norm=3.0, epsilon=1.0, delta=DELTA, n_draws=5)
    table = np.where(X > 2.0, np.nan, X) if name == "IterativeImputer" else X
    tool = {"RANSACRegressor": RANSACRegressor, "IterativeImputer": IterativeImputer}[name]
    ledger = PrivacyLedger(np.inf, DELTA, allow_seeds=True)
    with ledger, pytest.raises(ValueError, match=name):
        tool(regressor, **({"min_samples": 50} if tool is RANSACRegressor else {})).fit(
            table, X[:, 0]
        )
    assert ledger.records() == []


def leaks_told(fit, *args, **options):
    """Return the texts of the leak warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(*args, **options)
    return [str(one.message) for one in caught if one.category is PrivacyLeakWarning]


def cheap(**options):
    return model(n_draws=5, **options)


BRANCHES = [("a", make_pipeline(StandardScaler()), [0, 1]), ("b", BoundedScaler(-1, 1), [2])]
LEAKING = {
    "one after the other": (
        lambda: make_pipeline(SimpleImputer(), StandardScaler(), cheap()),
        ["simpleimputer: SimpleImputer", "standardscaler: StandardScaler", "DPImputer"],
    ),
    "in a branch": (
        lambda: make_pipeline(ColumnTransformer(BRANCHES), cheap()),
        ["columntransformer__a__standardscaler: StandardScaler"],
    ),
    "in a pipeline inside": (
        lambda: make_pipeline(make_pipeline(StandardScaler()), BoundedScaler(-1, 1), cheap()),
        ["pipeline__standardscaler: StandardScaler"],
    ),
    "of somebody's own class": (
        lambda: OwnPipeline([("scale", StandardScaler()), ("model", cheap())]),
        ["scale: StandardScaler"],
    ),
    "between private steps": (
        lambda: make_pipeline(DPQuantileScaler(), StandardScaler(), cheap()),
        ["standardscaler: StandardScaler"],
    ),
    "before a tool": (
        lambda: make_pipeline(StandardScaler(), OneVsRestClassifier(cheap())),
        ["standardscaler: StandardScaler"],
    ),
}


class OwnPipeline(Pipeline):
    pass


@pytest.mark.daily(3)
@pytest.mark.parametrize("name", LEAKING)
def test_a_pipeline_names_the_steps_that_may_learn_from_rows_once(name):
    make, expected = LEAKING[name]
    pipeline = make()
    (text,) = leaks_told(pipeline.fit, X, y)
    assert leaks_told(pipeline.fit, X, y) == [text]  # Once for each fit.
    assert all(part in text for part in [*expected, "make_private_pipeline"])
    assert text.count("may learn from the rows without noise") == len(
        [part for part in expected if ": " in part]
    )


def test_a_pipeline_of_public_steps_or_without_privacy_is_silent():
    public = OneHotEncoder(categories=[[0, 1, 2]], handle_unknown="ignore", sparse_output=False)
    branches = [("a", FunctionTransformer(lambda rows: 2 * rows), [0, 1]), ("b", public, [2])]
    assert leaks_told(make_pipeline(ColumnTransformer(branches), cheap()).fit, X, y) == []
    assert leaks_told(make_pipeline(BoundedScaler(-1, 1), DPImputer(), cheap()).fit, X, y) == []
    free = DPBayesianLogisticRegression(np.inf, n_draws=5)
    assert leaks_told(make_pipeline(StandardScaler(), free).fit, X, y) == []


class Untold(BaseEstimator):
    """A step that keeps its parameters under other names, which an ordinary pipeline never asks for."""

    def __init__(self, power=1):
        self._power = power

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X**self._power


class Unnamed(Untold):
    """A step whose parameters have no names."""

    def __init__(self, *powers):
        self._power = powers[0]


@pytest.mark.parametrize("step", [Untold(), Unnamed(1)])
def test_a_pipeline_fits_steps_that_do_not_tell_their_parameters(step):
    (text,) = leaks_told(make_pipeline(step, BoundedScaler(-1, 1), cheap()).fit, X, y)
    assert f"{type(step).__name__} may learn" in text


def test_a_private_pipeline_tells_of_its_own_steps_alone():
    inner = make_private_pipeline(StandardScaler(), step(n_draws=5))
    assert len(leaks_told(make_pipeline(BoundedScaler(-1, 1), inner).fit, X, y)) == 1


CROSS_VALIDATIONS = {
    "cross_val_score": lambda **how: cross_val_score(cheap(), X, y, **how),
    "cross_validate": lambda **how: cross_validate(cheap(), X, y, **how),
    "learning_curve": lambda **how: learning_curve(cheap(), X, y, train_sizes=[0.9], **how),
    "validation_curve": lambda **how: validation_curve(
        cheap(), X, y, param_name="prior_scale", param_range=[1.0], **how
    ),
}


@pytest.mark.daily(2)
@pytest.mark.parametrize("name", CROSS_VALIDATIONS)
def test_a_cross_validation_without_noise_says_so_once(name):
    (text,) = leaks_told(CROSS_VALIDATIONS[name], cv=2)
    assert "computes scores of the rows, without noise" in text
    assert "make_private_scorer" in text and "fold spends its own epsilon" in text
    scorer = make_private_scorer("accuracy", epsilon=1.0)
    assert leaks_told(CROSS_VALIDATIONS[name], cv=KFold(2), scoring=scorer) == []


def test_cross_validated_predictions_are_not_private():
    (text,) = leaks_told(cross_val_predict, cheap(), X, y, cv=2)
    assert "cross_val_predict" in text and "fold spends its own epsilon" in text
    # Its own cross-validation is told of by the tool itself.
    (text,) = leaks_told(CalibratedClassifierCV(cheap(), cv=2, ensemble=False).fit, X, y)
    assert "cross_val_predict" not in text


def test_a_search_says_that_its_fits_cost_and_how_they_add_up():
    (text,) = leaks_told(GridSearchCV(cheap(), {"prior_scale": [1.0]}, cv=2).fit, X, y)
    assert "choice is not private" in text and "its own epsilon" in text
    assert "total_privacy_cost(search) adds" in text


# Tools of scikit-learn that take an estimator and neither learn nor choose from rows themselves, and why.
HARMLESS = {
    "ClassifierChain": "fits on the same rows, with labels as columns",
    "ColumnTransformer": "hands columns on",
    "FeatureUnion": "hands rows on",
    "FixedThresholdClassifier": "its threshold is public",
    "FrozenEstimator": "fits nothing",
    "MultiOutputClassifier": "fits on the same rows",
    "MultiOutputRegressor": "fits on the same rows",
    "OneVsRestClassifier": "reads labels, as the documentation's table says",
    "Pipeline": "hands rows on",
    "RFE": "chooses by what private fits have published",
    "RegressorChain": "fits on the same rows, with responses as columns",
    "SelectFromModel": "chooses by what a private fit has published",
}
TAKES = {"estimator", "estimators", "steps", "transformers", "transformer_list", "regressor"}


def test_every_scikit_learn_tool_of_estimators_is_listed_or_harmless():
    """One that a later version brings is noticed here."""
    taking = {
        name: kind
        for name, kind in all_estimators()
        if TAKES & set(inspect.signature(kind).parameters)
    }
    taking["IterativeImputer"] = IterativeImputer
    taking["HalvingGridSearchCV"] = HalvingGridSearchCV
    taking["HalvingRandomSearchCV"] = HalvingRandomSearchCV
    modules = {tool.module: tool.functions for tool in TOOLS}
    listed = {
        name
        for name, kind in taking.items()
        if kind.__module__ in modules and name.startswith(modules[kind.__module__])
    }
    listed |= {"OneVsOneClassifier"}  # Its module has two tools.
    assert set(taking) - listed == set(HARMLESS)


class FitsTwice(DPQuantileScaler):
    def fit(self, X, y=None):
        super().fit(X, y)
        return super().fit(X, y)


def test_a_step_that_fits_twice_is_in_what_the_pipeline_has_spent():
    pipeline = make_private_pipeline(FitsTwice(), step(n_draws=5), epsilon=2.0, delta=DELTA)
    with (
        PrivacyLedger(np.inf, DELTA) as ledger,
        pytest.warns(PrivacyWarning, match="1 private fit"),
    ):
        pipeline.fit(X, y)
    assert (
        pipeline.spent_epsilon_ == pytest.approx(ledger.spent_epsilon) and ledger.spent_epsilon > 2
    )
