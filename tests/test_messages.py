"""What a tired user passes: the error or the warning names the remedy, and nothing was spent on the error."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import has_fit_parameter

from skdpbayes import DPBayesianLogisticRegression as Logistic
from skdpbayes import DPBayesianMLPClassifier as Network
from skdpbayes import DPGaussianMixturePosterior as Mixture
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.metrics import dp_accuracy_score, dp_log_loss, dp_roc_auc_score
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers import SGHMC, SGLD

N = 300
X = np.random.default_rng(0).uniform(-1, 1, (N, 3))
Y = (X[:, 0] > 0).astype(int)
HOLES, ENDLESS = X.copy(), X.copy()
HOLES[0, 0], ENDLESS[0, 0] = np.nan, np.inf
TEXT = pd.DataFrame(X, columns=list("abc")).assign(region="north")
NONE = [None, *Y[1:]]
NUMBERS, DATE = TEXT[["a", "b", "c"]].astype(object), pd.Timestamp("2020-01-01")


def with_cell(cell):
    table = NUMBERS.copy()
    table.iat[0, 0] = cell
    return table


def mixture(n_components=2, **options):
    return Mixture(n_components, data_norm=2.0, **options)


# What is done, and what the error has to say.
ERRORS = {
    "NaN": (lambda: Logistic().fit(HOLES, Y), "DPImputer.*constant for free"),
    "NaN, mixture": (lambda: mixture().fit(HOLES), "DPImputer.*constant for free"),
    "NaN, network": (lambda: Network((4,)).fit(HOLES, Y), "DPImputer.*constant for free"),
    "infinity": (
        lambda: Logistic().fit(ENDLESS, Y),
        "NaN, which .*DPImputer.* or by a public bound",
    ),
    "y=None": (lambda: Logistic().fit(X, None), "requires y to be passed"),
    "None in y": (lambda: Logistic().fit(X, NONE), "Rows without a label get any"),
    "None in y, classes": (
        lambda: Logistic(classes=[0, 1]).fit(X, NONE),
        "list all labels that can occur, and give rows without a label",
    ),
    "NA in y": (
        lambda: Logistic(classes=["a", "b"]).fit(
            X, pd.Series([None, *"ab" * 150][:N], dtype="string")
        ),
        "keep rows without a label",
    ),
    "a mark in a column of numbers": (
        lambda: Logistic().fit(np.where(X[0, 0] == X, "?", X.astype(object)), Y),
        r"pandas.to_numeric\(column, errors='coerce'\)",
    ),
    "a score of text without labels": (
        lambda: dp_log_loss(np.where(Y, "yes", "no"), np.full((N, 2), 0.5), epsilon=1.0),
        "e.g. labels=clf.classes_",
    ),
    "a rank of text without a label": (
        lambda: dp_roc_auc_score(np.where(Y, "yes", "no"), X[:, 0], epsilon=1.0),
        r"e.g. pos_label=clf.classes_\[1\]",
    ),
    "NaN in y, in a pipeline": (
        lambda: Logistic().fit(X, [np.nan, *Y[1:]]),
        r"y\.fillna\(label\).*such as 0 or 'no'.*model__sample_weight=y\.notna\(\)",
    ),
    "NaN in y": (lambda: Logistic().fit(X, [np.nan, *Y[1:]]), "keep rows without a label"),
    "labels of two kinds": (
        lambda: Logistic().fit(X, np.array(["yes", *Y[1:]], dtype=object)),
        "one kind, e.g. by y = np.asarray",
    ),
    "one label": (lambda: Logistic().fit(X, 0 * Y), r"classes=\[0, 1\]"),
    "text": (lambda: Logistic().fit(TEXT, Y), "'region'.*DPOneHotEncoder"),
    "text, objects": (lambda: Logistic().fit(TEXT.to_numpy(), Y), "DPOneHotEncoder"),
    "text among objects": (
        lambda: Logistic().fit(TEXT.astype(object), Y),
        r"in columns \['region'\], .*DPOneHotEncoder",
    ),
    "dates among objects": (
        lambda: Logistic().fit(NUMBERS.assign(day=pd.Series([DATE] * N, dtype=object)), Y),
        r"in columns \['day'\], holds dates.* turn dates into numbers",
    ),
    "NA among objects": (lambda: Logistic().fit(with_cell(pd.NA), Y), "DPImputer"),
    "NA in an array of objects": (
        lambda: Logistic().fit(with_cell(pd.NA).to_numpy(), Y),
        "DPImputer",
    ),
    "None among objects": (lambda: Logistic().fit(with_cell(None), Y), "DPImputer"),
    "text, scaler": (lambda: DPQuantileScaler().fit(TEXT), "'region'.*DPOneHotEncoder"),
    "sparse, network": (lambda: Network((4,)).fit(sp.csr_array(X), Y), "toarray"),
    "sparse, mixture": (lambda: mixture().fit(sp.csr_array(X)), "toarray"),
    "sparse, scaler": (lambda: DPQuantileScaler().fit(sp.csr_array(X)), "toarray"),
    "sparse, imputer": (lambda: DPImputer().fit(sp.csr_array(X)), "toarray"),
    "sparse, encoder": (lambda: DPOneHotEncoder().fit(sp.csr_array(X)), "toarray"),
    "negative epsilon": (lambda: Logistic(-1.0).fit(X, Y), r"range \(0.0, inf\]"),
    "negative epsilon, pipeline": (
        lambda: make_private_pipeline(Logistic(), epsilon=-1.0).fit(X, Y),
        "epsilon must be positive",
    ),
    "tiny epsilon, network": (lambda: Network((4,), epsilon=1e-6).fit(X, Y), "Raise epsilon"),
    "delta of 1": (lambda: Logistic(delta=1.0).fit(X, Y), r"range \[0.0, 1.0\)"),
    "a plan of data": (lambda: Logistic().privacy_plan(X, Y), r"privacy_plan\(\*X.shape\)"),
    "a plan of data, mixture": (lambda: mixture().privacy_plan(X, 3), r"privacy_plan\(\*X.shape\)"),
    "a plan of data, scaler": (
        lambda: DPQuantileScaler().privacy_plan(TEXT, 4),
        r"privacy_plan\(\*X.shape\)",
    ),
    "a plan of data, pipeline": (
        lambda: make_private_pipeline(Logistic()).privacy_plan(X, Y),
        r"privacy_plan\(\*X.shape\)",
    ),
    "a plan of data, search": (
        lambda: DPRandomizedSearchCV(Logistic(), {"data_norm": [1.0]}).privacy_plan(X),
        "takes sizes and no data",
    ),
    "too many draws of a path": (
        lambda: Logistic(sampler=SGLD(n_steps=100), n_draws=10**6).fit(X, Y),
        "n_draws.*n_steps",
    ),
    "weights, network": (
        lambda: Network((4,)).fit(X, Y, sample_weight=np.ones(N)),
        "not support sample_weight.*leave it out.*DPBayesianLogisticRegression",
    ),
    "weights, mixture": (
        lambda: mixture().fit(X, sample_weight=np.ones(N)),
        "not support sample_weight.*leave it out.*DPBayesianLogisticRegression",
    ),
    "an unknown argument": (lambda: mixture().fit(X, persons=Y), "unexpected.*'persons'"),
    "an unknown sampler": (lambda: Logistic(sampler="nuts").fit(X, Y), "'noise_aware'"),
}


@pytest.mark.parametrize("do, remedy", ERRORS.values(), ids=ERRORS)
def test_an_error_names_the_remedy_and_nothing_was_spent(do, remedy):
    with PrivacyLedger(100.0, 0.01) as ledger, pytest.raises((ValueError, TypeError)) as caught:
        do()
    assert re.search(remedy, str(caught.value))
    assert "SimpleImputer" not in str(caught.value)
    assert ledger.spent_epsilon == 0


def test_missing_cells_among_objects_are_the_same():
    missing = [
        DPImputer(fill_value=0.5).fit_transform(table)
        for cell in (None, pd.NA, np.nan)
        for table in (with_cell(cell), with_cell(cell).to_numpy())
    ]
    for table in missing:
        np.testing.assert_array_equal(table, missing[0])
    table = with_cell(pd.NA)
    DPImputer(fill_value=0.5).fit_transform(table)
    assert table.iat[0, 0] is pd.NA


@pytest.mark.parametrize(
    "one", [Network((4,), sampler=SGHMC(n_steps=3), n_draws=1), mixture()], ids=repr
)
def test_no_weights_are_none(one):
    """Also to scikit-learn, which asks before it passes weights, and passes None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one.fit(X, Y, sample_weight=None)
    assert not has_fit_parameter(one, "sample_weight")
    with sklearn.config_context(enable_metadata_routing=True), pytest.raises(TypeError):
        one.set_fit_request(sample_weight=True)


@pytest.mark.parametrize("level", [90, 0, 1, np.nan, "0.9"])
def test_levels_are_no_percentages(level):
    with pytest.raises(ValueError, match="0.9 for 90 percent"):
        Logistic(random_state=0).fit(X, Y).posterior_interval(level)
    with pytest.raises(ValueError, match="0.9 for 90 percent"):
        dp_accuracy_score(Y, Y, epsilon=1.0).interval(level)


# What is planned: the warning is there before anything is read.
WARNINGS = {
    "tiny epsilon": (lambda: Logistic(1e-6).privacy_plan(N, 3), "Raise epsilon"),
    "tiny epsilon, scaler": (
        lambda: DPQuantileScaler(epsilon=1e-6).privacy_plan(N, 3),
        "Raise epsilon",
    ),
    "few rows": (lambda: Logistic(1.0).privacy_plan(N, 80), "more rows or fewer columns"),
    "three components, two rows": (lambda: mixture(3).privacy_plan(2, 3), "Take fewer components"),
    "a million draws": (
        lambda: Logistic(n_draws=10**6).privacy_plan(N, 3),
        r"sample_posterior\(n\), which spends nothing",
    ),
}


def pipeline(**options):
    return make_private_pipeline(
        make_column_transformer(
            (make_pipeline(DPQuantileScaler(), DPImputer()), ["a", "b", "c"]),
            (DPOneHotEncoder(), ["region"]),
        ),
        Logistic(classes=[0, 1], **options),
        delta=1e-5,
    )


WARNINGS |= {
    "data_norm too large": (
        lambda: pipeline(data_norm=1e4).privacy_plan(N, 4),
        "longer than 2, but data_norm is 10000.*leave data_norm out",
    ),
}


@pytest.mark.parametrize("plan, remedy", WARNINGS.values(), ids=WARNINGS)
def test_a_plan_warns_and_names_the_remedy(plan, remedy):
    assert re.search(remedy, " ".join(plan().warnings))


def test_a_usual_plan_has_no_warnings():
    for one in (Logistic(), DPQuantileScaler(), pipeline(), pipeline(data_norm=2.0)):
        assert one.privacy_plan(20_000, 4).warnings == ()


def test_the_bound_on_rows_holds():
    """And a fit says what its plan says."""
    with pytest.warns(UserWarning, match="leave data_norm out"):
        fitted = pipeline(data_norm=100.0).fit(TEXT, Y)
    lengths = np.linalg.norm(fitted[:-1].transform(TEXT.assign(a=1e9, region="atlantis")), axis=1)
    assert lengths.max() <= 2.0 + 1e-12


@pytest.mark.parametrize(
    "one", [Logistic(), mixture(), Network((4,)), DPQuantileScaler()], ids=repr
)
def test_a_delta_that_protects_nobody_is_warned_of(one):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.warns(PrivacyWarning, match="delta=None"):
            one.set_params(delta=0.1).fit(X, Y)
