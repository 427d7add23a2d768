"""Nothing is lost once it is paid for: a fit is refused before its charge, and its warnings come last."""

import ast
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from cheap import Cheap
from fit_warnings import FIT_WARNINGS
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import FunctionTransformer

import skdpbayes
from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
    metrics,
)
from skdpbayes.exceptions import DataScalingWarning, PosteriorWarning, PrivacyWarning, SeedWarning
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.models import LinearModel, Logistic, Normal, Poisson, Softmax
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.privacy.deferred_warnings import (
    _first_filter,
    ignored_warnings,
    warn,
    warnings_last,
)
from skdpbayes.samplers.base import samplers_by_name

N = 3000
X = np.random.default_rng(0).uniform(-1, 1, (N, 3))
RARE = (np.arange(N) < 1).astype(int)
COMPLETE = "The fit is complete and can be used. Its cost is spent"


def logistic(**options):
    return DPBayesianLogisticRegression(classes=[0, 1], **options)


def seeded_pipeline():
    """A pipeline whose noise hides how rare a class is: without seeds one in 300 does not."""
    seeds = {"random_state": 0}
    return make_private_pipeline(
        DPQuantileScaler(**seeds), logistic(**seeds), epsilon=3.0, delta=1e-6
    )


def under_errors(fit, *allowed):
    """Call a fit where warnings are errors, but ``allowed`` ones; return the error and a ledger."""
    with PrivacyLedger(100.0, 1e-5, allow_seeds=True) as ledger, warnings.catch_warnings():
        warnings.simplefilter("error")
        for category in allowed:
            warnings.simplefilter("ignore", category)
        before = list(warnings.filters)
        with pytest.raises(Warning) as caught:
            fit()
        assert list(warnings.filters) == before
    return caught.value, ledger


# Bounds of plans and targets


def models(generator):
    def size(low=-3.0, high=3.0):
        kind = [float, np.float32][generator.integers(2)]
        return kind(10.0 ** generator.uniform(low, high))

    families = (
        lambda: Logistic(),
        lambda: Softmax(3),
        lambda: Normal(-size(), size(), *([size()] if generator.random() < 0.5 else [])),
        lambda: Poisson(size(0.0)),
    )
    for number in range(2000):
        yield LinearModel(
            family=families[number % 4](),
            n_features=int(generator.integers(1, 16)),
            norm=size(),
            prior_scale=[None, size()][generator.integers(2)],
            intercept_prior_scale=[None, size()][generator.integers(2)],
            constant=["short", "equal", 0.0, size()][generator.integers(4)],
            max_weight=[None, size()][generator.integers(2)],
        ).at_norm(size())


def test_bounds_of_a_target_are_those_of_its_model_to_the_last_digit():
    for model in models(np.random.default_rng(0)):
        X = np.zeros((2, model.n_features))
        bounds = model.bounds()
        own = model.target(X, np.zeros(2)).bounds
        assert own == bounds._replace(
            learns_scales=(False, False), max_weight=float(bounds.max_weight or 1.0)
        )
        assert model.target(X, np.zeros(2)).gradient_bound == bounds.gradient_bound


def test_odd_and_learnt_bounds_are_fitted():
    rng = np.random.default_rng(1)
    for _ in range(2):
        X, y = rng.normal(size=(4000, 3)), rng.poisson(2.0, 4000)
        low, high = rng.uniform(-60, 0), rng.uniform(0, 60)
        norm = rng.uniform(1, 6)
        options = {"epsilon": 3.0, "delta": 1e-5}
        for model in (
            DPBayesianRidge((low, high), data_norm=norm, **options),
            DPBayesianRidge(data_norm="auto", **options),
            DPBayesianPoissonRegressor(
                max_count=rng.uniform(3, 60), sampler="clipped_residuals", **options
            ),
        ):
            model.fit(X, y).predict(X[:2])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scale", [1e-310, 1e-100, 1e100, 1e307])
def test_bounds_are_learnt_of_responses_of_any_size(scale):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 2)), scale * rng.uniform(0.5, 1.0, N)
    with PrivacyLedger(10.0, 1e-5) as ledger:
        model = DPBayesianRidge(epsilon=3.0, delta=1e-6).fit(X, y)
    assert [one["status"] for one in ledger.records()] == ["completed"]
    assert np.isfinite(model.predict(X[:2])).all() and np.isfinite(model.target_bounds_).all()


def test_a_drawn_norm_without_a_plan_falls_back_to_the_public_one():
    """At the norm of these rows, the prior would be wider than doubles are for."""
    model = logistic(data_norm="auto", prior_scale=1e6, epsilon=3.0, delta=1e-6)
    with PrivacyLedger(10.0, 1e-5) as ledger:
        with pytest.warns(DataScalingWarning, match="no fit can be made at the bounds.*e.1[0-9]"):
            model.fit(1e13 * X, np.arange(N) % 2)
    assert [one["status"] for one in ledger.records()] == ["completed"]
    assert model.data_norm_ == np.sqrt(3.0) and model.predict(X[:2]).shape == (2,)
    assert model.privacy_cost_ == model.privacy_plan(N, 3).cost


# Warnings come last


MISSING = np.where(np.arange(3) == 1, np.nan, X)
# A prior that is too narrow is seen whatever noise is.
SPLIT = (X[:, 0] > 0.0).astype(int)
FITS = {
    "logistic": lambda: logistic(prior_scale=0.05, epsilon=3.0, delta=1e-6).fit(X, SPLIT),
    "ridge": lambda: DPBayesianRidge((0, 10), epsilon=3.0, delta=1e-6).fit(X, np.full(N, 10.0)),
    "learnt bounds": lambda: DPBayesianRidge(epsilon=3.0, delta=1e-6).fit(X, np.full(N, 10.0)),
    "a pipeline": lambda: make_private_pipeline(
        DPQuantileScaler(), logistic(prior_scale=0.05), epsilon=3.0, delta=1e-6
    ).fit(X, SPLIT),
    "branches in workers": lambda: make_private_pipeline(
        ColumnTransformer(
            [("a", DPQuantileScaler(), [0]), ("b", DPImputer("median"), [1, 2])], n_jobs=2
        ),
        logistic(prior_scale=0.05),
        epsilon=3.0,
        delta=1e-6,
    ).fit(X, SPLIT),
}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_whose_warning_is_an_error_can_be_used(name, monkeypatch):
    fitted = []
    kinds = (DPBayesianRidge, DPBayesianLogisticRegression, type(make_private_pipeline(Cheap())))
    for kind in kinds:
        own = kind.fit

        def fit(self, *args, own=own, **params):
            fitted.append(self)
            return own(self, *args, **params)

        monkeypatch.setattr(kind, "fit", fit)
    error, ledger = under_errors(FITS[name])
    assert type(error) in FIT_WARNINGS and COMPLETE in str(error)
    (record,) = ledger.records()
    assert record["status"] == "completed"
    model = fitted[0]
    assert model.predict(X[:5]).shape == (5,)
    assert model.privacy_cost_.epsilon(1e-5) == pytest.approx(ledger.spent_epsilon)


def test_warnings_of_all_kinds_are_in_one_error():
    class Owner:
        """Of a fit that is not prepaid."""

    owner = Owner()

    def fit():
        with warnings_last(owner) as fit:
            fit.pay()
            warn("one.", PrivacyWarning)
            warn("two.", ConvergenceWarning)
            warn("one.", PrivacyWarning)
            np.float64(1.0) / np.float64(0.0)
            warnings.warn("of another package", FutureWarning, stacklevel=1)
            owner.is_complete = True

    with pytest.warns(FutureWarning, match="of another package"):
        error, _ = under_errors(fit)
    assert type(error) is PrivacyWarning and str(error).startswith(f"one. two. {COMPLETE}")
    assert owner.is_complete


def test_a_warning_before_the_charge_spends_nothing():
    short = logistic(epsilon=0.1, random_state=0)
    error, ledger = under_errors(lambda: short.fit(X[:100], RARE[:100]))
    assert COMPLETE not in str(error) and ledger.records() == []
    pipe = make_private_pipeline(DPQuantileScaler(), logistic(random_state=0), epsilon=9.0)
    error, ledger = under_errors(lambda: pipe.fit(X, RARE))
    assert type(error) is SeedWarning and ledger.records() == []


def test_warnings_point_to_the_line_that_fits():
    with pytest.warns(PosteriorWarning, match="^dpbayesianlogisticregression: ") as caught:
        seeded_pipeline().fit(X, RARE)
    assert {one.filename for one in caught} == {__file__}


def test_a_free_step_that_warns_does_not_stop_a_paid_pipeline():
    def future(X):
        warnings.warn("this will change", FutureWarning, stacklevel=1)
        return X

    pipe = make_private_pipeline(
        DPQuantileScaler(),
        FunctionTransformer(future, feature_names_out="one-to-one"),
        logistic(),
        epsilon=9.0,
        delta=1e-6,
        learns_nothing=["functiontransformer"],
    )
    with PrivacyLedger(100.0, 1e-5) as ledger, warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("error", category=FutureWarning)
        pipe.fit(X, np.arange(N) % 2)
    assert [one["status"] for one in ledger.records()] == ["completed"]
    assert any("this will change" in str(one.message) for one in caught)


def test_a_fit_that_fails_keeps_its_error_where_warnings_are_errors():
    class Interrupted(DPBayesianLogisticRegression):
        def _origin(self):
            raise KeyboardInterrupt

    seeded = Interrupted(classes=[0, 1], epsilon=3.0, delta=1e-6, random_state=0)
    with PrivacyLedger(9.0, 1e-5, allow_seeds=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SeedWarning)
        with pytest.raises(KeyboardInterrupt) as caught:
            seeded.fit(X, RARE)
    assert "noise hides how rare" in caught.value.__notes__[0]


@pytest.mark.nightly
def test_a_search_tells_what_its_best_fit_does():
    # By chance noise does not hide it: the seed fixes what both fits release.
    search = DPRandomizedSearchCV(
        logistic(), {"data_norm": [1.0, 2.0]}, epsilon=8.0, delta=1e-6, random_state=0
    )
    with pytest.warns(PosteriorWarning, match="^best_estimator_: noise hides how rare"):
        search.fit(X, RARE)
    error, ledger = under_errors(lambda: search.fit(X, RARE), SeedWarning)
    assert COMPLETE in str(error) and len(ledger.records()) == 1
    search.predict(X[:2])


def test_fits_in_threads_leave_filters_as_they_are():
    barrier = threading.Barrier(2)

    def fit(number):
        barrier.wait()
        pipe = seeded_pipeline()
        with pytest.raises(PosteriorWarning, match=COMPLETE):
            pipe.fit(X, RARE)
        pipe.predict(X[:2])

    with warnings.catch_warnings():
        warnings.simplefilter("error", PosteriorWarning)
        before = list(warnings.filters)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(fit, range(4)))
        assert list(warnings.filters) == before


def test_a_filter_that_another_thread_takes_back_hides_no_other():
    entered, leave, left = (threading.Event() for _ in range(3))

    class SlowToLook(type):
        def __subclasscheck__(cls, category):
            leave.set()  # The other thread would take its filter back here.
            left.wait(0.5)
            return False

    class Elsewhere(Warning, metaclass=SlowToLook):
        pass

    def fit_elsewhere():
        with _first_filter(("default", None, Elsewhere, None, 0)):
            entered.set()
            leave.wait(10.0)
        left.set()

    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        before = list(warnings.filters)
        thread = threading.Thread(target=fit_elsewhere)
        thread.start()
        entered.wait(10.0)
        with pytest.raises(ConvergenceWarning, match="seen"):
            warn("seen", ConvergenceWarning)
        thread.join()
        assert list(warnings.filters) == before


def test_warnings_are_ignored_in_one_thread_only():
    caught = []

    def elsewhere():
        with pytest.warns(UserWarning, match="seen"):
            warnings.warn("seen", UserWarning, stacklevel=1)
        caught.append(True)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ignored_warnings():
            warnings.warn("of another package", FutureWarning, stacklevel=1)
            warn("of this one")
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
    assert caught == [True]


# Scores


Y = np.arange(40) % 2
SCORES = {
    "accuracy": lambda **how: metrics.dp_accuracy_score(Y, Y, **how),
    "log loss": lambda **how: metrics.dp_log_loss(Y, np.full(40, 0.5), **how),
    "confusion matrix": lambda **how: metrics.dp_confusion_matrix(Y, Y, labels=[0, 1], **how),
    "calibration curve": lambda **how: metrics.dp_calibration_curve(Y, np.full(40, 0.5), **how),
    "R^2": lambda **how: metrics.dp_r2_score(Y, Y, target_bounds=(0, 1), **how),
}


@pytest.mark.parametrize("name", SCORES)
def test_a_score_that_drowns_says_so_before_it_is_charged(name):
    error, ledger = under_errors(lambda: SCORES[name](epsilon=0.01))
    assert "the score says little" in str(error) and ledger.records() == []


@pytest.mark.parametrize("name", SCORES)
def test_a_score_of_a_private_size_is_carried_by_the_error(name):
    relation = "add_or_remove_one"
    with PrivacyLedger(np.inf, 1e-5, relation, allow_seeds=True) as ledger:
        with warnings.catch_warnings():
            warnings.simplefilter("error", PrivacyWarning)
            warnings.simplefilter("ignore", SeedWarning)
            for seed in range(20):  # A noisy size may be large by chance.
                try:
                    SCORES[name](epsilon=0.01, neighboring_relation=relation, random_state=seed)
                except PrivacyWarning as error:
                    assert "attribute `score`" in str(error)
                    assert error.score.spent_epsilon == pytest.approx(0.01)
                    break
            else:
                pytest.fail("no score has warned")
    assert len(ledger.records()) == seed + 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("epsilon", [1e-300, 1e-8, 5e-8, 1e-7, np.float32(0.3), 1e3, 1e300])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_score_is_refused_before_it_is_charged_or_released(epsilon, relation):
    values = 1e200 * Y
    scores = {
        **SCORES,
        "squares": lambda **how: metrics.dp_mean_squared_error(
            values, values, target_bounds=(0, 1e200), **how
        ),
        "errors": lambda **how: metrics.dp_mean_absolute_error(
            values, values, target_bounds=(0, 1e200), **how
        ),
        "curve": lambda **how: metrics.dp_roc_auc_score(
            Y, Y, public_size=None if relation == "replace_one" else 40, **how
        ),
    }
    for score in scores.values():
        with PrivacyLedger(np.inf, 1e-5, relation) as ledger:
            try:
                score(epsilon=epsilon, neighboring_relation=relation).interval()
            except ValueError:
                assert ledger.records() == []
            else:
                assert len(ledger.records()) == 1


# What is not refused before a charge is fitted


SAMPLERS = ("auto", *samplers_by_name())


def walk(seed, samplers=SAMPLERS):
    """Return an estimator with odd public parameters, and what it is fitted to."""
    rng = np.random.default_rng(seed)

    def one_of(*values):
        return values[rng.integers(len(values))]

    def number():
        far = (float(10.0 ** rng.uniform(-size, size)) for size in (9, 60, 300))
        return one_of(1.0, 2, np.float32(rng.uniform(0.1, 5)), *far)

    n, d = one_of(1, 2, 30, 300), one_of(1, 2, 4)
    table = rng.normal(size=(n, d))
    table = one_of(
        table,
        0.0 * table,
        1e-320 * np.sign(table),
        1e150 * table,
        1.7e308 * np.sign(table),
        table * 10.0 ** rng.uniform(-300, 300, table.shape),
        table.astype(np.float32),
    )
    y = rng.integers(0, 2, n)
    options = {
        "epsilon": one_of(1.0, 3.0, 2, float(10.0 ** rng.uniform(-6, 6)), np.inf),
        "delta": one_of(None, 1e-5, 0.0, 1e-300, 0.5),
        "random_state": seed,
    }
    if rng.random() < 0.3:
        size = one_of(1, 300, 10**6)
        options |= {"neighboring_relation": "add_or_remove_one", "public_size": size}
    of_linear = {
        "data_norm": one_of(None, "auto", number()),
        "prior_scale": one_of(None, None, number()),
        "intercept_prior_scale": one_of(None, None, number()),
        "intercept_scaling": one_of(None, None, None, number()),
        "max_sample_weight": one_of(1.0, number()),
        "fit_intercept": one_of(True, False),
        "n_draws": one_of("auto", 1, 3),
    }
    of_linear["sampler"] = of_any = one_of(*samplers)
    fit = {}
    if rng.random() < 0.2:
        options["max_rows_per_group"], fit["groups"] = one_of(1, 3), rng.integers(0, n, n)
    form = one_of(np.asarray, np.asfortranarray, sp.csr_array, pd.DataFrame)
    make, own, labels = one_of(
        (DPBayesianLogisticRegression, {**of_linear, "classes": [0, 1]}, y),
        (DPBayesianRidge, {**of_linear, "target_bounds": one_of("auto", (-0.1, 0.7))}, y * 0.3),
        (DPBayesianRidge, of_linear, one_of(1e-300, 1e150, 1e307) * (y + 0.5)),
        (DPBayesianPoissonRegressor, {**of_linear, "max_count": one_of("auto", number())}, 3 * y),
        (DPQuantileScaler, {"bounds": one_of(None, (-number(), number()))}, None),
        (DPImputer, {"strategy": "median"}, None),
        (DPOneHotEncoder, {}, None),
        (
            DPGaussianMixturePosterior,
            {
                "n_components": one_of(1, 3, "auto"),
                "covariance_type": one_of("diag", "tied", "full", "spherical"),
                "data_norm": of_linear["data_norm"],
                "mean_prior_scale": one_of(None, None, number()),
                "covariance_prior": one_of(None, None, number()),
                "weight_concentration_prior": one_of(1.0, number()),
                "n_draws": 3,
            },
            None,
        ),
        (
            DPBayesianMLPClassifier,
            {
                "hidden_layer_sizes": one_of((), (2,)),
                "classes": [0, 1],
                "data_norm": of_linear["data_norm"],
                "clip_norm": one_of(1.0, number()),
                "prior_scale": one_of(1.0, number()),
                "sampler": one_of("sghmc", "sghmc" if of_any == "auto" else of_any),
            },
            y,
        ),
    )
    if labels is None or "max_rows_per_group" not in options:
        options.pop("max_rows_per_group", None)
        fit = {}
    if of_linear.items() <= own.items() and rng.random() < 0.2:
        fit["sample_weight"] = rng.uniform(0, float(own["max_sample_weight"]), n)
    return make(**options, **own), form(table), labels, fit


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "seeds, options",
    [
        (range(24), {"samplers": ["auto"]}),
        pytest.param(range(24, 1500), {}, marks=pytest.mark.nightly),
    ],
    ids=["some", "many"],
)
def test_nothing_is_refused_between_the_charge_and_the_last_attribute(seeds, options, monkeypatch):
    charged = []
    monkeypatch.setattr("skdpbayes.privacy.charge.defer_warnings", lambda: charged.append(True))
    # Chains of hours are no errors.
    monkeypatch.setattr("skdpbayes.samplers.plan._LONGEST_SECONDS", 1.0)
    n_fitted = 0
    for seed in seeds:
        model, table, labels, fit = walk(seed, **options)
        charged.clear()
        try:
            model.fit(table, labels, **fit)
        except (ValueError, TypeError):
            assert not charged, f"seed {seed}: {model}"
            continue
        n_fitted += 1
        (model.transform if hasattr(model, "transform") else model.predict)(table)
    assert n_fitted > len(seeds) / 5


# How it is held


ROOT = Path(skdpbayes.__file__).parent
# The charge has failed then, or the run after it, and an error is on its way.
WARN_THEMSELVES = {"privacy/deferred_warnings.py", "samplers/base.py"}


def test_warnings_go_through_one_function():
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "warn":
                found.add(path.relative_to(ROOT).as_posix())
    assert found == WARN_THEMSELVES


def test_every_fit_that_may_be_charged_shows_its_warnings_last():
    kinds = {
        node.name: (path, node)
        for path in sorted(ROOT.rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    }
    plain = {
        name
        for name, (_, node) in kinds.items()
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "fit"
        if "warns_last" not in [one.id for one in method.decorator_list if hasattr(one, "id")]
    }
    # These charge nothing.
    assert plain == {"BoundedScaler", "RowNormClipper", "FormulaEncoder", "_StandIn"}
