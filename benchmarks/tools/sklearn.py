"""What `benchmarks.tools` tries of scikit-learn."""

from sklearn import (
    calibration,
    ensemble,
    feature_selection,
    model_selection,
    multiclass,
    multioutput,
)
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier

from benchmarks.tools.rows import (
    ADDS,
    AUTO,
    FITS,
    HOLDS,
    NO,
    X,
    both,
    few,
    folds,
    model,
    scorer,
    three,
    y,
)
from skdpbayes.preprocessing import BoundedScaler

SK = "scikit-learn"


def fitted(make, labels=y):
    """Return a run that fits what is made."""
    return lambda: make().fit(X, labels)


# Package, module, what is shown, run, guarantee, what to do instead.
SKLEARN = [
    (
        SK,
        "sklearn",
        "Pipeline",
        fitted(lambda: make_pipeline(BoundedScaler(lower=-3, upper=3), model())),
        HOLDS,
        "make_private_pipeline also names steps that leak",
    ),
    (
        SK,
        "sklearn",
        "cross_val_score, with KFold and a private scorer",
        lambda: model_selection.cross_val_score(model(), X, y, cv=folds, scoring=scorer()),
        ADDS,
        "total_privacy_cost says less than a ledger",
    ),
    (
        SK,
        "sklearn",
        "GridSearchCV",
        fitted(lambda: model_selection.GridSearchCV(model(), {"prior_scale": [1.0, 2.0]}, cv=2)),
        NO + "folds follow the labels of other rows, and scores have no noise",
        AUTO + ", or cv=KFold(...) and make_private_scorer",
    ),
    (
        SK,
        "sklearn",
        "CalibratedClassifierCV",
        fitted(lambda: calibration.CalibratedClassifierCV(model(), cv=2)),
        NO + "the calibrator and the stratified folds read labels",
        "the estimator's own probabilities",
    ),
    (
        SK,
        "sklearn",
        "StackingClassifier",
        fitted(lambda: ensemble.StackingClassifier([("a", model())], cv=2)),
        NO + "the final model and the stratified folds read labels",
        "one estimator with the whole budget",
    ),
    (
        SK,
        "sklearn",
        "VotingClassifier of private members",
        fitted(lambda: ensemble.VotingClassifier([("a", model()), ("b", model())])),
        ADDS,
        "total_privacy_cost",
    ),
    (
        SK,
        "sklearn",
        "VotingClassifier with others",
        fitted(lambda: ensemble.VotingClassifier([("a", model()), ("b", LogisticRegression())])),
        FITS + "other members have none",
        "private members only",
    ),
    (
        SK,
        "sklearn",
        "BaggingClassifier",
        fitted(lambda: ensemble.BaggingClassifier(model(), n_estimators=2)),
        NO + "rows are repeated, and seeds are kept",
        "one estimator with the whole budget",
    ),
    (
        SK,
        "sklearn",
        "BaggingClassifier(bootstrap=False)",
        fitted(lambda: ensemble.BaggingClassifier(model(), n_estimators=2, bootstrap=False)),
        NO + "seeds of the noise are kept",
        "one estimator with the whole budget",
    ),
    (
        SK,
        "sklearn",
        "AdaBoostClassifier",
        fitted(lambda: ensemble.AdaBoostClassifier(model(), n_estimators=2)),
        NO + "rows are weighted by other rows",
        "one estimator with the whole budget",
    ),
    (
        SK,
        "sklearn",
        "SelfTrainingClassifier",
        fitted(lambda: SelfTrainingClassifier(model()), few),
        NO + "rows are selected",
        "rows with labels only",
    ),
    (
        SK,
        "sklearn",
        "OneVsRestClassifier",
        fitted(lambda: multiclass.OneVsRestClassifier(model()), three),
        ADDS,
        "the estimator itself, with classes",
    ),
    (
        SK,
        "sklearn",
        "OneVsOneClassifier",
        fitted(lambda: multiclass.OneVsOneClassifier(model()), three),
        NO + "numbers of rows are private",
        "the estimator itself, with classes",
    ),
    (
        SK,
        "sklearn",
        "MultiOutputClassifier",
        fitted(lambda: multioutput.MultiOutputClassifier(model()), both),
        ADDS,
        "total_privacy_cost",
    ),
    (
        SK,
        "sklearn",
        "ClassifierChain",
        fitted(lambda: multioutput.ClassifierChain(model()), both),
        ADDS,
        "total_privacy_cost",
    ),
    (
        SK,
        "sklearn",
        "SelectFromModel",
        fitted(lambda: feature_selection.SelectFromModel(model())),
        HOLDS,
        "total_privacy_cost",
    ),
    (
        SK,
        "sklearn",
        "RFE",
        fitted(lambda: feature_selection.RFE(model(), n_features_to_select=2)),
        ADDS,
        "fit within a ledger",
    ),
    (
        SK,
        "sklearn",
        "RFECV",
        fitted(lambda: feature_selection.RFECV(model(), cv=folds)),
        NO + "columns are chosen by scores without noise",
        "scoring=make_private_scorer(...)",
    ),
    (
        SK,
        "sklearn",
        "SequentialFeatureSelector",
        fitted(
            lambda: feature_selection.SequentialFeatureSelector(
                model(), n_features_to_select=1, cv=folds
            )
        ),
        NO + "columns are chosen by scores without noise",
        "scoring=make_private_scorer(...)",
    ),
    (
        SK,
        "sklearn",
        "TunedThresholdClassifierCV",
        fitted(lambda: model_selection.TunedThresholdClassifierCV(model(), cv=2)),
        NO + "the threshold and the stratified folds read labels",
        "FixedThresholdClassifier",
    ),
    (
        SK,
        "sklearn",
        "FixedThresholdClassifier",
        fitted(lambda: model_selection.FixedThresholdClassifier(model(), threshold=0.3)),
        HOLDS,
        "a public threshold",
    ),
    (
        SK,
        "sklearn",
        "FrozenEstimator",
        lambda: FrozenEstimator(model().fit(X, y)).predict(X),
        HOLDS,
        "nothing more is fitted",
    ),
    (
        SK,
        "sklearn",
        "permutation_importance",
        lambda: permutation_importance(model().fit(X, y), X, y, n_repeats=2),
        FITS + "scores have no noise",
        "intervals of coefficients, or public rows",
    ),
]
