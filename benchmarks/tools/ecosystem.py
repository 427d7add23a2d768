"""What `benchmarks.tools` tries of other packages, each imported where it is used."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from benchmarks.tools.rows import AUTO, FITS, HOLDS, NO, X, folds, frame, group, model, y
from skdpbayes.preprocessing import BoundedScaler


def resampled():
    from imblearn.over_sampling import RandomOverSampler
    from imblearn.pipeline import make_pipeline as make_imblearn

    make_imblearn(RandomOverSampler(), model()).fit(X, y)


def resampled_before():
    from imblearn.over_sampling import RandomOverSampler

    model().fit(*RandomOverSampler().fit_resample(X, y))


def balanced():
    from imblearn.ensemble import BalancedBaggingClassifier

    BalancedBaggingClassifier(model(), n_estimators=2).fit(X, y)


def reduced():
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    ExponentiatedGradient(model(), DemographicParity()).fit(X, y, sensitive_features=group)


def thresholds():
    from fairlearn.postprocessing import ThresholdOptimizer

    ThresholdOptimizer(estimator=model(), predict_method="predict_proba").fit(
        X, y, sensitive_features=group
    )


def by_group():
    from fairlearn.metrics import MetricFrame
    from sklearn.metrics import accuracy_score

    predicted = model().fit(X, y).predict(X)
    frame = MetricFrame(
        metrics=accuracy_score, y_true=y, y_pred=predicted, sensitive_features=group
    )
    assert len(frame.by_group) == 2


def logged():
    """Raise an error unless a metric of the training rows was logged."""
    import mlflow

    mlflow.sklearn.autolog(silent=True)
    try:
        with mlflow.start_run() as run:
            make_pipeline(BoundedScaler(lower=-3, upper=3), model()).fit(X, y)
        metrics = mlflow.get_run(run.info.run_id).data.metrics
        assert "training_accuracy_score" in metrics, sorted(metrics)
    finally:
        mlflow.sklearn.autolog(disable=True)


def tabular():
    from skrub import tabular_pipeline

    tabular_pipeline(model()).fit(frame(), y)


def feature_engine_imputed():
    from feature_engine.imputation import MeanMedianImputer

    make_pipeline(MeanMedianImputer(), model()).fit(frame()[["a", "b"]], y)


def feature_engine_selected():
    from feature_engine.selection import RecursiveFeatureElimination

    RecursiveFeatureElimination(model(), cv=folds).fit(frame()[["a", "b"]], y)


def target_encoded():
    from category_encoders import TargetEncoder

    make_pipeline(TargetEncoder(), model()).fit(frame(), y)


def explained():
    import shap

    shap.KernelExplainer(model().fit(X, y).predict_proba, X[:10]).shap_values(X[:2])


def explained_locally():
    from lime.lime_tabular import LimeTabularExplainer

    LimeTabularExplainer(X).explain_instance(X[0], model().fit(X, y).predict_proba)


def tuned_by_optuna():
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial):
        norm = trial.suggest_float("data_norm", 1.0, 4.0)
        one = model().set_params(data_norm=norm)
        return cross_val_score(one, X, y, cv=folds).mean()

    optuna.create_study().optimize(objective, n_trials=2)


def saved_by_skops():
    import skops.io as sio

    one = model().fit(X, y)
    text = sio.dumps(one)
    again = sio.loads(text, trusted=sio.get_untrusted_types(data=text))
    np.testing.assert_array_equal(one.coef_, again.coef_)


def saved_by_joblib():
    import joblib

    one, path = model().fit(X, y), Path(tempfile.mkdtemp(), "model")
    joblib.dump(one, path)
    np.testing.assert_array_equal(one.coef_, joblib.load(path).coef_)


def predicted_by_dask_ml():
    import dask.array as da
    from dask_ml.wrappers import ParallelPostFit

    ParallelPostFit(model()).fit(X, y).predict(da.from_array(X, chunks=(100, 4))).compute()


def series():
    from sktime.classification.compose import SklearnClassifierPipeline
    from sktime.transformations.reduce import Tabularizer

    SklearnClassifierPipeline(model(), [Tabularizer()]).fit(X[:, None, :], y)


def conformal():
    from mapie.classification import SplitConformalClassifier

    one = SplitConformalClassifier(model(), prefit=False)
    one.fit(X[:300], y[:300]).conformalize(X[300:], y[300:])


def crossed_conformal():
    from mapie.classification import CrossConformalClassifier

    CrossConformalClassifier(model(), cv=folds).fit_conformalize(X, y)


def cleaned():
    from cleanlab.classification import CleanLearning

    CleanLearning(model(), cv_n_folds=2).fit(X, y)


def venn():
    from venn_abers import VennAbersCalibrator

    VennAbersCalibrator(model(), inductive=True, cal_size=0.3).fit(X, y)


def mlxtend_selected():
    from mlxtend.feature_selection import SequentialFeatureSelector

    SequentialFeatureSelector(model(), k_features=1, cv=2).fit(X, y)


def thresholder():
    from sklego.meta import Thresholder

    Thresholder(model(), threshold=0.3).fit(X, y)


def visualised():
    import matplotlib

    matplotlib.use("Agg")
    from yellowbrick.classifier import ROCAUC

    visualiser = ROCAUC(model(), binary=True)
    visualiser.fit(X, y)
    visualiser.score(X, y)


def permuted_by_eli5():
    from eli5.sklearn import PermutationImportance

    PermutationImportance(model().fit(X, y), cv="prefit").fit(X, y)


def searched_by_skopt():
    from skopt import BayesSearchCV

    BayesSearchCV(model(), {"data_norm": (1.0, 4.0)}, n_iter=2, cv=folds).fit(X, y)


def boruta():
    from boruta import BorutaPy

    BorutaPy(model()).fit(X, y)


def onnx():
    from skl2onnx import to_onnx

    to_onnx(model().fit(X, y), X[:1])


# Package, module, what is shown, run, guarantee, what to do instead.
ECOSYSTEM = [
    (
        "imbalanced-learn",
        "imblearn",
        "Pipeline with a sampler",
        resampled,
        NO + "rows are repeated",
        "class_weight={label: number}",
    ),
    (
        "imbalanced-learn",
        "imblearn",
        "RandomOverSampler before the fit",
        resampled_before,
        NO + "rows are repeated, which nobody can see in the fit",
        "class_weight={label: number}",
    ),
    (
        "imbalanced-learn",
        "imblearn",
        "BalancedBaggingClassifier",
        balanced,
        NO + "rows are dropped, and seeds are kept",
        "class_weight={label: number}",
    ),
    (
        "fairlearn",
        "fairlearn",
        "ExponentiatedGradient",
        reduced,
        NO + "rows are weighted by other rows",
        "ThresholdOptimizer on public rows",
    ),
    (
        "fairlearn",
        "fairlearn",
        "ThresholdOptimizer",
        thresholds,
        FITS + "thresholds read labels",
        "fit it on public rows, with prefit=True",
    ),
    (
        "fairlearn",
        "fairlearn",
        "MetricFrame",
        by_group,
        FITS + "scores have no noise",
        "private scores of each group",
    ),
    (
        "mlflow",
        "mlflow",
        "autolog",
        logged,
        FITS + "training scores are logged without noise",
        "autolog(disable=True); log the plan and the report",
    ),
    (
        "skrub",
        "skrub",
        "tabular_pipeline",
        tabular,
        NO + "scales and categories come from other rows, without noise",
        "make_private_pipeline with DP steps",
    ),
    (
        "feature-engine",
        "feature_engine",
        "MeanMedianImputer in a Pipeline",
        feature_engine_imputed,
        NO + "medians of other rows fill in entries, without noise",
        "DPImputer",
    ),
    (
        "feature-engine",
        "feature_engine",
        "RecursiveFeatureElimination",
        feature_engine_selected,
        NO + "columns are chosen by scores without noise",
        "columns by knowledge, or " + AUTO,
    ),
    (
        "category-encoders",
        "category_encoders",
        "TargetEncoder in a Pipeline",
        target_encoded,
        NO + "entries are means over the labels of other rows",
        "DPOneHotEncoder",
    ),
    (
        "shap",
        "shap",
        "KernelExplainer",
        explained,
        "of the fit only: the explainer holds rows",
        "public or made-up background rows",
    ),
    (
        "lime",
        "lime",
        "LimeTabularExplainer",
        explained_locally,
        "of the fit only: the explainer learns from rows",
        "public or made-up rows",
    ),
    (
        "optuna",
        "optuna",
        "a study of cross_val_score",
        tuned_by_optuna,
        NO + "parameters are chosen by scores without noise",
        AUTO + ", or scoring=make_private_scorer(...)",
    ),
    (
        "scikit-optimize",
        "skopt",
        "BayesSearchCV",
        searched_by_skopt,
        NO + "parameters are chosen by scores without noise",
        AUTO,
    ),
    (
        "skops",
        "skops",
        "dumps and loads",
        saved_by_skops,
        HOLDS,
        "random_state=None, as everywhere",
    ),
    (
        "joblib",
        "joblib",
        "dump and load",
        saved_by_joblib,
        HOLDS,
        "random_state=None, as everywhere",
    ),
    ("skl2onnx", "skl2onnx", "to_onnx", onnx, HOLDS + " where it runs", "joblib or skops"),
    (
        "dask-ml",
        "dask_ml",
        "ParallelPostFit",
        predicted_by_dask_ml,
        HOLDS,
        "the estimators take Dask's tables themselves",
    ),
    (
        "sktime",
        "sktime",
        "SklearnClassifierPipeline",
        series,
        HOLDS + " if each series is transformed by itself",
        "check every transformer",
    ),
    (
        "mapie",
        "mapie",
        "SplitConformalClassifier",
        conformal,
        FITS + "quantiles have no noise",
        "posterior intervals",
    ),
    (
        "mapie",
        "mapie",
        "CrossConformalClassifier",
        crossed_conformal,
        FITS + "quantiles have no noise",
        "posterior intervals",
    ),
    (
        "cleanlab",
        "cleanlab",
        "CleanLearning",
        cleaned,
        NO + "rows are dropped by other rows",
        "one estimator with the whole budget",
    ),
    (
        "venn-abers",
        "venn_abers",
        "VennAbersCalibrator",
        venn,
        NO + "fits on the rows of two labels, and the calibrator reads labels",
        "the estimator's own probabilities",
    ),
    (
        "mlxtend",
        "mlxtend",
        "SequentialFeatureSelector",
        mlxtend_selected,
        NO + "columns are chosen by scores without noise",
        "columns by knowledge, or " + AUTO,
    ),
    ("scikit-lego", "sklego", "Thresholder", thresholder, HOLDS, "a public threshold"),
    (
        "yellowbrick",
        "yellowbrick",
        "ROCAUC",
        visualised,
        FITS + "curves have no noise",
        "dp_roc_auc_score",
    ),
    (
        "eli5",
        "eli5",
        "PermutationImportance",
        permuted_by_eli5,
        FITS + "scores have no noise",
        "intervals of coefficients",
    ),
    (
        "boruta",
        "boruta",
        "BorutaPy",
        boruta,
        NO + "columns are shuffled over rows",
        "columns by knowledge",
    ),
]
