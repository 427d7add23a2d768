"""What a private pipeline can be told before a release, it is told before anything is charged."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from cheap import Cheap
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier, DPBayesianRidge
from skdpbayes.exceptions import PrivacyLeakWarning, PrivacyWarning
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.pipeline import PrivatePipeline, make_private_pipeline
from skdpbayes.pipeline._dry_run import dry_run
from skdpbayes.preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    RowNormClipper,
)
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.privacy.unsafe_callers import step_tree

N = 400
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
y = (X[:, 0] > 0).astype(int)
FRAME = pd.DataFrame(X, columns=list("abc")).assign(region=np.where(y, "north", "south"))
SECRET = "secret-4711"


def with_cell(value, kind=float):
    table = X.astype(kind)
    table[7, 1] = value
    return table


def logistic(**options):
    return DPBayesianLogisticRegression(classes=[0, 1], random_state=0, **options)


def scaled(*steps, **options):
    return make_private_pipeline(DPQuantileScaler(), *steps, delta=1e-5, **options)


def encoded(last):
    """Return a pipeline whose columns are not known before a release."""
    columns = make_column_transformer(
        (DPQuantileScaler(), list("abc")), (DPOneHotEncoder(), ["region"])
    )
    return make_private_pipeline(columns, last, delta=1e-5)


def behind_encoder(*steps, table=None, sparse=False):
    """Fit steps behind an encoder that finds categories, beside the columns that pass it."""
    encoder = DPOneHotEncoder(sparse_output=sparse)
    columns = make_column_transformer((encoder, ["region"]), remainder="passthrough")
    first = encoder if sparse else columns
    rows = FRAME[["region"]] if sparse else FRAME if table is None else table
    labels = None if isinstance(steps[-1], DPGaussianMixturePosterior) else y
    return make_private_pipeline(first, *steps, delta=1e-5).fit(rows, labels)


MISSING = FRAME.assign(a=np.where(np.arange(N) == 3, np.nan, FRAME["a"]))
TEXT = FRAME.assign(a=np.where(np.arange(N) == 3, SECRET, "x"))


def united(*steps):
    return FeatureUnion([(f"part{i}", step) for i, step in enumerate(steps)])


class Blind(BaseEstimator):
    """It can be fitted, but does not transform."""

    def fit(self, X, y=None):
        return self


def listed(*steps):
    return PrivatePipeline(list(steps), delta=1e-5)


REFUSED = {
    "NaN behind a scaler": (lambda: scaled(logistic()).fit(with_cell(np.nan), y), "DPImputer"),
    "NaN behind two": (
        lambda: scaled(BoundedScaler(-1, 1), logistic()).fit(with_cell(np.nan), y),
        "DPImputer",
    ),
    "NaN in one branch": (
        lambda: make_private_pipeline(
            make_column_transformer(
                (make_pipeline(DPQuantileScaler(), DPImputer()), [0]), (DPQuantileScaler(), [1, 2])
            ),
            logistic(),
        ).fit(with_cell(np.nan), y),
        "DPImputer",
    ),
    "infinity": (lambda: scaled(logistic()).fit(with_cell(np.inf), y), "infinity"),
    "infinity behind a private step": (
        lambda: make_private_pipeline(
            ColumnTransformer([("a", DPQuantileScaler(), [0])], remainder="passthrough"), logistic()
        ).fit(with_cell(np.inf), y),
        "infinity",
    ),
    "text": (lambda: scaled(logistic()).fit(with_cell(SECRET, object), y), "X holds text"),
    "text in a free step": (
        lambda: make_private_pipeline(Normalizer(), DPQuantileScaler(), logistic()).fit(
            with_cell(SECRET, object), y
        ),
        "X holds text",
    ),
    "text in a function": (
        lambda: make_private_pipeline(FunctionTransformer(np.abs), logistic()).fit(
            with_cell(SECRET, object), y
        ),
        "FunctionTransformer refuses|X holds text",
    ),
    "objects": (lambda: scaled(logistic()).fit(with_cell(None, object) + 1j, y), "."),
    "a column of text in a branch": (
        lambda: make_private_pipeline(
            make_column_transformer((DPQuantileScaler(), ["a"]), (DPImputer(), ["region"])),
            logistic(),
        ).fit(FRAME, y),
        "'region'",
    ),
    "a short y": (lambda: scaled(logistic()).fit(X, y[:-1]), "inconsistent"),
    "a short y behind an encoder": (lambda: encoded(logistic()).fit(FRAME, y[:-1]), "inconsistent"),
    "no y": (lambda: scaled(logistic()).fit(X), "requires y"),
    "no y behind an encoder": (lambda: encoded(logistic()).fit(FRAME), "requires y"),
    "no y, an estimator from elsewhere": (lambda: scaled(Cheap()).fit(X), "requires y"),
    "a label that is not declared": (
        lambda: scaled(logistic()).fit(X, np.where(y, SECRET, "no")),
        "not in classes",
    ),
    "such a label behind an encoder": (
        lambda: encoded(logistic()).fit(FRAME, np.where(y, 2, 0)),
        "not in classes",
    ),
    "such a label in an inner pipeline": (
        lambda: make_private_pipeline(
            DPQuantileScaler(), make_pipeline(DPImputer(), logistic())
        ).fit(X, y + 1),
        "not in classes",
    ),
    "a missing label": (
        lambda: scaled(logistic()).fit(X, np.where(X[:, 1] > 2, np.nan, y)),
        "without a label",
    ),
    "one class": (
        lambda: scaled(DPBayesianLogisticRegression()).fit(X, 0 * y),
        "needs two",
    ),
    "labels that are numbers": (
        lambda: scaled(DPBayesianLogisticRegression()).fit(X, X[:, 0]),
        "continuous",
    ),
    "negative weights": (
        lambda: scaled(logistic()).fit(X, y, dpbayesianlogisticregression__sample_weight=-1.0 - y),
        "sample_weight",
    ),
    "too few weights": (
        lambda: encoded(logistic()).fit(
            FRAME, y, dpbayesianlogisticregression__sample_weight=np.ones(N - 1)
        ),
        "sample_weight",
    ),
    "weights that a sampler refuses": (
        lambda: scaled(logistic(sampler="dp_mh")).fit(
            X, y, dpbayesianlogisticregression__sample_weight=np.ones(N)
        ),
        "weight",
    ),
    "weights of a network": (
        lambda: scaled(DPBayesianMLPClassifier((4,))).fit(
            X, y, dpbayesianmlpclassifier__sample_weight=np.ones(N)
        ),
        "sample_weight",
    ),
    "more classes than a plan allows": (
        lambda: scaled(DPBayesianLogisticRegression(sampler="noise_aware")).fit(
            X, np.arange(N) % 100
        ),
        "coefficients",
    ),
    "an argument for no step": (lambda: scaled(logistic()).fit(X, y, weight=1), "weight"),
    "two steps of one name": (
        lambda: listed(("a", DPQuantileScaler()), ("a", logistic())).fit(X, y),
        "not unique",
    ),
    "a step with the name of a parameter": (
        lambda: listed(("a", DPQuantileScaler()), ("epsilon", logistic())).fit(X, y),
        "conflict",
    ),
    "a name with two underscores": (
        lambda: listed(("a__b", DPQuantileScaler()), ("c", logistic())).fit(X, y),
        "__",
    ),
    "a step that does not transform": (
        lambda: listed(("a", DPQuantileScaler()), ("b", Blind()), ("c", logistic())).fit(X, y),
        "transform",
    ),
    "a branch that does not transform": (
        lambda: make_private_pipeline(
            make_column_transformer((DPQuantileScaler(), [0]), (Blind(), [1])), logistic()
        ).fit(X, y),
        "transform",
    ),
    "a class instead of a step": (
        lambda: listed(("a", DPQuantileScaler()), ("b", DPImputer), ("c", logistic())).fit(X, y),
        "instance",
    ),
    "no steps": (lambda: PrivatePipeline([]).fit(X, y), "empty"),
    "steps of another type": (lambda: PrivatePipeline({"a": logistic()}).fit(X, y), "steps"),
    "NaN beside an encoder": (lambda: behind_encoder(logistic(), table=MISSING), "DPImputer"),
    "NaN beside an encoder, behind nothing": (
        lambda: behind_encoder("passthrough", logistic(), table=MISSING),
        "DPImputer",
    ),
    "NaN beside an encoder, behind bounds": (
        lambda: behind_encoder(BoundedScaler(-9, 9), logistic(), table=MISSING),
        "DPImputer",
    ),
    "NaN beside an encoder, behind a union": (
        lambda: behind_encoder(
            united("passthrough", BoundedScaler(-9, 9)), logistic(), table=MISSING
        ),
        "DPImputer",
    ),
    "text beside an encoder, in a pipeline": (
        lambda: behind_encoder(make_pipeline(PolynomialFeatures()), logistic(), table=TEXT),
        "X holds text",
    ),
    "text beside an encoder, in a union": (
        lambda: behind_encoder(united(PolynomialFeatures()), logistic(), table=TEXT),
        "X holds text",
    ),
    "a parameter behind an encoder": (
        lambda: behind_encoder(RowNormClipper(-1.0), logistic()),
        "norm",
    ),
    "bounds behind an encoder": (lambda: behind_encoder(BoundedScaler(1, 0), logistic()), "below"),
    "a norm behind an encoder": (lambda: behind_encoder(Normalizer("L2"), logistic()), "norm"),
    "sparse indicators for a network": (
        lambda: behind_encoder(DPBayesianMLPClassifier(classes=[0, 1]), sparse=True),
        "sparse_output",
    ),
    "sparse indicators for a mixture": (
        lambda: behind_encoder(DPGaussianMixturePosterior(2), sparse=True),
        "sparse_output",
    ),
    "sparse indicators that bounds would fill": (
        lambda: behind_encoder(BoundedScaler(0, 1), logistic(), sparse=True),
        "move zero",
    ),
    "a folder that there cannot be": (
        lambda: scaled(logistic(), memory="/proc/cache").fit(X, y),
        "memory",
    ),
    "no memory": (lambda: scaled(logistic(), memory=3).fit(X, y), "memory"),
    "an imputer of NaN": (
        lambda: scaled(DPImputer(fill_value=np.nan), logistic()).fit(X, y),
        "fill_value",
    ),
    "bounds of two columns": (
        lambda: scaled(BoundedScaler([0, 0], [1, 1]), logistic()).fit(X, y),
        "3 columns",
    ),
    "lists of two columns": (
        lambda: make_private_pipeline(
            DPQuantileScaler(), DPOneHotEncoder(categories=[[0.0], [1.0]]), logistic()
        ).fit(X, y),
        "2 lists",
    ),
    "a column that there is not": (
        lambda: make_private_pipeline(
            make_column_transformer((DPQuantileScaler(), ["a", "z"])), logistic()
        ).fit(FRAME, y),
        "column",
    ),
    "a sparse table": (lambda: scaled(logistic()).fit(sp.csr_array(X), y), "toarray"),
    "a list of numbers": (lambda: scaled(logistic()).fit([1.0, 2.0], y[:2]), "rows and columns"),
    "no table": (lambda: scaled(logistic()).fit(None, y), "rows and columns"),
    "an empty list": (lambda: scaled(logistic()).fit([], []), "rows and columns"),
    "a number": (lambda: scaled(logistic()).fit(3.0, y), "rows and columns"),
    "no rows": (lambda: scaled(logistic()).fit(X[:0], y[:0]), "0 sample"),
    "no columns": (lambda: scaled(logistic()).fit(X[:, :0], y), "0 feature"),
    "a row that is not chosen": (
        lambda: scaled(logistic(), max_rows_per_group=1).fit_predict(
            with_cell(np.inf), y, groups=np.arange(N) // 200
        ),
        "infinity",
    ),
}


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_costs_nothing_and_quotes_nothing(name):
    call, message = REFUSED[name]
    relation = "replace_one_person" if "chosen" in name else "replace_one"
    with PrivacyLedger(np.inf, 1e-5, relation, allow_seeds=True) as ledger:
        with pytest.raises((ValueError, TypeError), match=message) as caught:
            call()
        assert ledger.records() == []
    error = caught.value
    while error is not None:
        assert SECRET not in str(error) and not hasattr(error, "__notes__")
        error = error.__context__


by_name = make_column_transformer(
    (DPQuantileScaler(), ["a", "b"]), remainder="drop", verbose_feature_names_out=False
).set_output(transform="pandas")
TAKEN = {
    "a list": lambda: scaled(logistic()).fit(X.tolist(), y.tolist()),
    "text labels": lambda: scaled(DPBayesianLogisticRegression()).fit(X, np.where(y, "a", "b")),
    "NaN that is imputed": lambda: scaled(DPImputer(add_indicator=True), logistic()).fit(
        with_cell(np.nan), y
    ),
    "a median behind a free imputer": lambda: make_private_pipeline(
        BoundedScaler(-1, 1), DPImputer("median"), logistic()
    ).fit(with_cell(np.nan), y),
    "columns by name behind a frame": lambda: make_private_pipeline(
        by_name, make_column_transformer((DPImputer(), ["b", "a"])), logistic()
    ).fit(FRAME, y),
    "frames everywhere": lambda: in_frames(
        lambda: scaled(DPImputer(), logistic()).fit(FRAME[list("abc")], y)
    ),
    "a union": lambda: make_private_pipeline(
        united(DPQuantileScaler(), make_pipeline(BoundedScaler(-1, 1), PolynomialFeatures(2))),
        logistic(),
    ).fit(X, y),
    "steps behind columns that are learnt": lambda: make_private_pipeline(
        DPOneHotEncoder(), RowNormClipper(), BoundedScaler(-1, 1), logistic()
    ).fit(FRAME[["region"]], y),
    "squares of columns that are learnt": lambda: behind_encoder(PolynomialFeatures(2), logistic()),
    "a union behind columns that are learnt": lambda: behind_encoder(
        united("passthrough", RowNormClipper()), logistic()
    ),
    "a choice of columns behind those that are learnt": lambda: behind_encoder(
        ColumnTransformer([("rest", BoundedScaler(-9, 9), [-1])], remainder="passthrough"),
        logistic(),
    ),
    "sparse indicators": lambda: behind_encoder(RowNormClipper(), logistic(), sparse=True),
    "public lists by name": lambda: make_private_pipeline(
        DPOneHotEncoder(categories={"region": ["north", "south"]}), logistic()
    ).fit(FRAME[["region"]], y),
    "free indicators": lambda: make_private_pipeline(
        make_column_transformer(
            (OneHotEncoder(categories=[["north"]], handle_unknown="ignore"), ["region"]),
            remainder=DPQuantileScaler(),
            sparse_threshold=0,
        ),
        logistic(),
    ).fit(FRAME, y),
    "a step without a name for it": lambda: scaled("passthrough", logistic()).fit(X, y),
    "no last step": lambda: scaled("passthrough").fit(X),
    "a mixture without labels": lambda: scaled(DPGaussianMixturePosterior(2, n_draws=5)).fit(X),
    "a sparse table": lambda: make_private_pipeline(RowNormClipper(), logistic()).fit(
        sp.csr_array(X), y
    ),
    "weights": lambda: scaled(logistic()).fit(
        X, y, dpbayesianlogisticregression__sample_weight=np.ones(N)
    ),
    "a memory": lambda: scaled(logistic(), memory=None).fit(X, y),
}


def in_frames(call):
    with sklearn.config_context(transform_output="pandas"):
        return call()


@pytest.mark.daily(7)
@pytest.mark.parametrize("name", TAKEN)
def test_what_a_fit_takes_is_not_refused_before(name):
    with PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as ledger:
        fitted = TAKEN[name]()
    assert [one["status"] for one in ledger.records()] == ["completed"]
    assert ledger.spent_epsilon == pytest.approx(fitted.privacy_cost_.epsilon(1e-5))


def test_an_error_of_a_step_in_the_fit_itself_quotes_no_cell():
    """Which columns a branch gets behind an encoder is not known before."""
    branch = ColumnTransformer([("squares", PolynomialFeatures(), [-1, -3])])
    with pytest.raises(ValueError, match="X holds text|refuses the rows") as caught:
        behind_encoder(branch, logistic(), table=FRAME.assign(c=TEXT["a"]))
    assert SECRET not in str(caught.value) and caught.value.__context__ is None


def test_squares_of_more_categories_than_a_model_can_take_are_put_together():
    table = pd.DataFrame(
        {"region": np.array([f"r{i:02}" for i in range(25)])[np.arange(5000) % 25]}
    )
    steps = DPOneHotEncoder(), PolynomialFeatures(2), DPBayesianRidge((-1, 1), n_draws=5)
    pipe = make_private_pipeline(*steps, epsilon=20.0, delta=1e-5)
    with pytest.warns(PrivacyWarning, match="infrequent"):
        pipe.fit(table, np.cos(np.arange(5000)))
    assert 100 < pipe[-1].n_features_in_ <= 200


def test_a_step_that_learns_without_noise_is_not_fitted_twice():
    """What follows it is checked as far as that does not depend on its output."""
    fits = []

    class Counted(StandardScaler):
        def fit(self, X, y=None):
            fits.append(len(X))
            return super().fit(X, y)

    pipe = make_private_pipeline(Counted(), logistic())
    with pytest.warns(PrivacyLeakWarning):
        pipe.fit(X, y)
    assert fits == [N]
    with pytest.warns(PrivacyLeakWarning), pytest.raises(ValueError, match="not in classes"):
        pipe.fit(X, y + 1)
    assert fits == [N]


@pytest.mark.parametrize("room", [ColumnTransformer, FeatureUnion, Pipeline])
def test_a_subclass_of_a_room_for_steps_is_like_any_unknown_step(room):
    """What it does with its steps is not known; labels are checked all the same."""
    other = type("Other", (room,), {})
    first = other([("a", BoundedScaler(-1, 1), *([[0, 1]] if room is ColumnTransformer else []))])
    pipe = make_private_pipeline(first, logistic())
    assert dry_run(step_tree(first), X).output is None
    with PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as ledger:
        with pytest.warns(PrivacyLeakWarning), pytest.raises(ValueError, match="not in classes"):
            pipe.fit(X, y + 1)
        assert ledger.records() == []


def test_a_refused_fit_leaves_no_trace():
    pipe = scaled(logistic())
    before = {name: repr(value) for name, value in pipe.get_params().items()}
    with pytest.raises(ValueError):
        pipe.fit(X, y + 1)
    assert {name: repr(value) for name, value in pipe.get_params().items()} == before
    assert not any(name.endswith("_") for step in pipe for name in vars(step))


def test_a_rehearsal_learns_nothing_from_rows():
    """What it makes up does not depend on them, but for what is missing."""
    columns = make_column_transformer(
        (DPQuantileScaler(), [0]), (DPImputer("median"), [1]), (DPOneHotEncoder(), [2])
    )
    steps = make_pipeline(DPQuantileScaler(), DPImputer())
    for table in (X, 1e6 * X[::-1]):
        assert dry_run(step_tree(columns), table).output is None
        assert dry_run(step_tree(make_pipeline(columns, "passthrough")), table).output is None
        assert (abs(dry_run(step_tree(steps), table).output) <= 1).all()
    holes = with_cell(np.nan)
    made_up = dry_run(step_tree(DPQuantileScaler()), holes).output
    np.testing.assert_array_equal(np.isnan(made_up), np.isnan(holes))


def test_a_rehearsal_stays_in_its_process():
    """In another one, a branch could not tell that its columns are unknown."""
    columns = make_column_transformer(
        (DPOneHotEncoder(), [0]), (BoundedScaler(-1, 1), [1, 2]), n_jobs=2
    )
    assert dry_run(step_tree(columns), X).output is None
    columns = make_column_transformer((DPImputer(), [0]), (BoundedScaler(-1, 1), [1, 2]), n_jobs=2)
    assert dry_run(step_tree(columns), X).output.shape == X.shape


def test_a_model_without_noise_at_the_end_still_needs_labels():
    pipe = scaled(LogisticRegression())
    with PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as ledger, pytest.warns(PrivacyLeakWarning):
        with pytest.raises(ValueError, match="requires y"):
            pipe.fit(X)
        assert ledger.records() == []
