"""Numbers that a user passes: no booleans, and no budgets that are none."""

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone

from skdpbayes import DPBayesianLogisticRegression as Logistic
from skdpbayes import DPBayesianMLPClassifier as Network
from skdpbayes import DPBayesianPoissonRegressor, DPBayesianRidge, samplers
from skdpbayes import DPGaussianMixturePosterior as Mixture
from skdpbayes.metrics import (
    dp_accuracy_score,
    dp_calibration_curve,
    dp_mean_absolute_error,
    dp_mean_score,
    dp_mean_squared_error,
    dp_r2_score,
    dp_roc_auc_score,
    make_private_scorer,
)
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    RowNormClipper,
)
from skdpbayes.privacy import (
    BoundedRangeDecisions,
    Budget,
    PoissonGaussian,
    PrivacyCost,
    PrivacyLedger,
    PureMechanism,
    SampledGaussian,
    default_delta,
)
from skdpbayes.samplers import SGHMC, SGLD

Y = np.arange(100) % 2
PRIVATE = {
    "logistic": lambda epsilon: Logistic(epsilon).privacy_plan(100, 5),
    "logistic, norm": lambda epsilon: Logistic(epsilon, data_norm="auto").privacy_plan(100, 5),
    "logistic, persons": lambda epsilon: Logistic(epsilon, max_rows_per_group=3).privacy_plan(
        100, 5
    ),
    "network": lambda epsilon: Network(epsilon=epsilon).privacy_plan(100, 5),
    "mixture": lambda epsilon: Mixture(epsilon=epsilon).privacy_plan(100, 5),
    "scaler": lambda epsilon: DPQuantileScaler(epsilon=epsilon).privacy_plan(100, 5),
    "imputer": lambda epsilon: DPImputer(strategy="median", epsilon=epsilon).privacy_plan(100, 5),
    "encoder": lambda epsilon: DPOneHotEncoder(epsilon=epsilon).privacy_plan(100, 5),
    "score": lambda epsilon: dp_accuracy_score(Y, Y, epsilon=epsilon),
    "scorer": lambda epsilon: make_private_scorer("accuracy", epsilon=epsilon),
    "ledger": lambda epsilon: PrivacyLedger(epsilon, 1e-5),
    "pipeline": lambda epsilon: make_private_pipeline(Logistic(), epsilon=epsilon).privacy_plan(
        100, 5
    ),
    "search": lambda epsilon: DPRandomizedSearchCV(
        Logistic(), {"data_norm": [1.0]}, epsilon=epsilon
    ).privacy_plan(100),
    "budget": lambda epsilon: (
        Logistic()._model(5, 2).bounds()
        and SGLD().plan(Logistic()._model(5, 2).bounds(), 100, Budget(epsilon, 1e-5))
    ),
}


@pytest.mark.parametrize(
    "epsilon", [True, np.True_, "1", None, [1.0], 1e-300, 1e-12, 0, -1.0, np.nan]
)
@pytest.mark.parametrize("use", PRIVATE.values(), ids=PRIVATE)
def test_an_epsilon_that_is_none_is_named(use, epsilon):
    with pytest.raises((ValueError, TypeError), match="epsilon"):
        use(epsilon)


@pytest.mark.parametrize("use", PRIVATE.values(), ids=PRIVATE)
def test_an_epsilon_far_too_small_or_large_says_so_itself(use):
    """And not a part of it, of which the user knows nothing."""
    with pytest.raises(ValueError, match=re.escape("epsilon=1e-12 is below 1e-09")):
        use(1e-12)
    if use is not PRIVATE["search"]:  # Whose own parameter ends earlier.
        with pytest.raises(ValueError, match=re.escape("epsilon=1e+300 is above 1e+09")):
            use(1e300)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-8, 1e-6])
@pytest.mark.parametrize(
    "one", [Logistic(), Logistic(data_norm="auto"), Network((4,)), Mixture()], ids=repr
)
def test_an_epsilon_below_delta_is_planned_or_refused_with_a_remedy(one, epsilon):
    try:
        plan = one.set_params(epsilon=epsilon, delta=1e-5).privacy_plan(1000, 3)
    except ValueError as error:
        assert re.search("[Rr]aise epsilon", str(error)) and "0.0" not in str(error)
    else:
        assert plan.epsilon <= epsilon


def test_a_network_at_a_vast_epsilon_needs_no_terabytes():
    """Losses of up to mu^2 do not fit a grid; the cost is then bounded otherwise, and never from below."""
    for epsilon in (1e4, 1e6, 1e9):
        assert Network((4,), epsilon=epsilon).privacy_plan(100, 5).epsilon <= epsilon
    bits = PrivacyCost("replace_one", mu=1.0, pure_events=(PureMechanism(1.0),))
    vast = PrivacyCost("replace_one", mu=1e4, pure_events=(PureMechanism(1.0),))
    assert vast.epsilon(1e-5) > PrivacyCost("replace_one", mu=1e4).epsilon(1e-5) > 5e7
    assert vast.delta(1e3) == 1.0 and 0 < bits.delta(1.0) < 1


NUMBERS = {
    Logistic: (
        "delta data_norm prior_scale intercept_prior_scale intercept_scaling max_sample_weight "
        "n_draws public_size max_rows_per_group random_state"
    ),
    Network: "delta clip_norm data_norm prior_scale calibration n_draws random_state",
    Mixture: (
        "n_components delta data_norm weight_concentration_prior mean_prior_scale covariance_prior "
        "degrees_of_freedom_prior n_draws max_components random_state"
    ),
    DPQuantileScaler: "delta public_size random_state",
}


@pytest.mark.parametrize("value", [True, False, np.True_])
@pytest.mark.parametrize(
    "kind, name", [(kind, name) for kind, names in NUMBERS.items() for name in names.split()]
)
def test_no_boolean_is_a_number(kind, name, value):
    with pytest.raises(ValueError, match=f"'{name}'"):
        kind(**{name: value}).privacy_plan(100, 5)


def test_no_boolean_is_a_number_elsewhere():
    X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    refused = {
        "n_samples": lambda: Logistic().privacy_plan(True, 2),
        "friction": lambda: Logistic(sampler=SGHMC(friction=True)).privacy_plan(100, 2),
        "batch_size": lambda: Logistic(sampler=SGHMC(batch_size=True)).privacy_plan(100, 2),
        "class_weight": lambda: Logistic(class_weight={0: True}).fit(X, Y),
        "quantiles": lambda: DPQuantileScaler(quantiles=(False, True)).privacy_plan(100, 2),
        "bounds": lambda: dp_mean_score(X[:, 0], bounds=(False, True), epsilon=1.0),
        "delta": lambda: dp_accuracy_score(Y, Y, epsilon=1.0, delta=False),
        "random_state": lambda: dp_accuracy_score(Y, Y, epsilon=1.0, random_state=True),
    }
    with PrivacyLedger(10.0, 1e-3) as ledger:
        for name, do in refused.items():
            with pytest.raises((ValueError, TypeError), match=name):
                do()
    assert ledger.spent_epsilon == 0


@pytest.mark.parametrize("level", [1e-3, 1.0, 40.0, 800.0])
def test_a_pure_mechanism_has_an_epsilon_at_every_delta(level):
    """The smallest one: its delta is that delta, or it is 0."""
    one = PureMechanism(level)
    for delta in (1e-9, 1e-5, 0.1, 0.3, 0.4999, 0.5, 0.9, 1 - 2.0**-53):
        epsilon = PrivacyCost("replace_one", pure_events=(one,)).epsilon(delta)
        assert 0 <= epsilon <= level and one.delta(epsilon) <= delta + 1e-12
        assert epsilon == 0 or one.delta(epsilon * (1 - 1e-6)) >= delta - 1e-12


def test_names_of_categories_are_as_different_as_the_categories():
    values = [
        1234567,
        1234568,
        0.1,
        0.1 + 2**-54,
        1e300,
        3,
        "3",
        "infrequent",
        "nan",
        None,
        "north",
    ]
    column = np.array(values, dtype=object).reshape(-1, 1)
    encoder = DPOneHotEncoder(categories=[values]).fit(column)
    names = encoder.get_feature_names_out(["x"]).tolist()
    assert len(set(names)) == len(values) + 1
    assert names[:2] + names[5:] == [
        *(
            "x_1234567",
            "x_1234568",
            "x_3",
            "x_'3'",
            "x_'infrequent'",
            "x_'nan'",
            "x_nan",
            "x_north",
        ),
        "x_infrequent",
    ]


EXTREME = [
    *(0, 5e-324, 1e-320, 1e-300, 1e-150, 1e150, 1e300, 1.7e308, np.inf, np.nan, -1, -1e300),
    *(np.float32(0.5), np.float64(1e-300), np.int64(3), True, np.True_, 2**63, 10**400, -(10**400)),
    *(Fraction(1, 3), Fraction(1, 10**400), Decimal("0.5"), 1e9, 10**12),
]
SAMPLERS = [
    "SGLD",
    "SGHMC",
    "SGNHT",
    "SGFS",
    "OPS",
    "DPMH",
    "DPFastMH",
    "DPFastMHGaussian",
    "PenaltyMH",
    "NoiseAware",
]
NUMBERS_OF_PLANS = {
    "logistic": Logistic(),
    "ridge": DPBayesianRidge((0.0, 1.0)),
    "Poisson": DPBayesianPoissonRegressor(3),
    "network": Network((4,)),
    "mixture": Mixture(),
    "scaler": DPQuantileScaler(),
    "imputer": DPImputer("median"),
    "encoder": DPOneHotEncoder(),
    **{name: Logistic(sampler=getattr(samplers, name)()) for name in SAMPLERS},
}


def tried(name, value, do):
    """Require a result, or an error that names the number."""
    try:
        return do()
    except (ValueError, TypeError) as error:
        assert name in str(error) or "raise epsilon" in str(error), f"{name}={value!r}: {error}"


@pytest.mark.daily(28)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("value", EXTREME, ids=lambda value: f"{value!r:.20}")
@pytest.mark.parametrize("one", NUMBERS_OF_PLANS.values(), ids=NUMBERS_OF_PLANS)
def test_a_plan_is_made_for_any_number_or_the_number_is_named(one, value):
    """And no number overflows, divides by zero or takes all memory."""
    options = one.get_params() if isinstance(one, Logistic) and one.sampler != "auto" else {}
    names = [name for name in options if name.startswith("sampler__")] or one.get_params()
    for name in names:
        if name not in ("random_state", "verbose"):
            changed = clone(one).set_params(**{name: value})
            tried(name.rpartition("__")[-1], value, lambda one=changed: one.privacy_plan(100, 3))
    for size in ("n_samples", "n_features"):
        sizes = {"n_samples": 100, "n_features": 3, size: value}
        tried(size, value, lambda sizes=sizes: one.privacy_plan(**sizes))


SCORED = np.random.default_rng(0).uniform(size=100)
SCORES = {
    "squared error": (dp_mean_squared_error, "target_bounds largest_error epsilon delta"),
    "absolute error": (dp_mean_absolute_error, "target_bounds largest_error epsilon"),
    "r2": (dp_r2_score, "target_bounds largest_error epsilon"),
    "AUC": (lambda y, p, **options: dp_roc_auc_score(Y, p, **options), "epsilon delta"),
    "curve": (lambda y, p, **options: dp_calibration_curve(Y, p, **options), "epsilon n_bins"),
    "mean": (lambda y, p, **options: dp_mean_score(y, **options), "bounds epsilon"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("value", EXTREME, ids=lambda value: f"{value!r:.20}")
@pytest.mark.parametrize("score, names", SCORES.values(), ids=SCORES)
def test_a_score_takes_any_number_or_names_it(score, names, value):
    for name in names.split():
        values = [value]
        if name.endswith("bounds"):
            values = [(0, value), (value, 1), (-1, value)]
        for one in values:
            bounds = next((n for n in names.split() if n.endswith("bounds")), None)
            options = {"epsilon": 1.0, **({bounds: (0, 1)} if bounds else {}), name: one}
            found = tried(name, one, lambda options=options: score(SCORED, SCORED, **options))
            # A bin in which no probability lies has no mean.
            assert found is None or "n_bins" in names or np.isfinite(float(found))


TABLE = np.array([[0.0, 1e18], [2.0, -3.0], [1e-300, np.nan]])
COLUMNS = {
    "lower": lambda value: BoundedScaler(value, 1),
    "upper": lambda value: BoundedScaler(0, value),
    "feature_range": lambda value: BoundedScaler(0, 1, feature_range=(-1, value)),
    "norm": lambda value: RowNormClipper(value),
    "fill_value": lambda value: DPImputer(fill_value=value),
    "bounds": lambda value: DPQuantileScaler(bounds=(0, value)),
    "quantiles": lambda value: DPQuantileScaler(quantiles=(value, 0.9)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("value", EXTREME, ids=lambda value: f"{value!r:.20}")
@pytest.mark.parametrize("name", COLUMNS)
def test_a_transformer_scales_by_any_number_or_names_it(name, value):
    table = np.nan_to_num(TABLE) if name == "norm" else TABLE
    found = tried(name, value, lambda: COLUMNS[name](value).fit_transform(table))
    assert found is None or np.isnan(found).sum() == (
        np.isnan(table).sum() if name != "fill_value" else 0
    )


@pytest.mark.parametrize(
    "lower, upper", [(-1.7e308, 1.7e308), (0.0, 1.7e308), (1e-300, 3e-300), (1.6e18, 1.6e18 + 2048)]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bounds_of_any_size_are_scaled_to_the_ends_and_the_middle(lower, upper, dtype):
    middle = lower / 2 + upper / 2
    scaler = BoundedScaler(lower, upper)
    found = scaler.fit_transform(np.array([[lower], [middle], [upper]], dtype=np.float64))
    np.testing.assert_allclose(found, [[-1.0], [0.0], [1.0]], atol=1e-12)
    np.testing.assert_allclose(scaler.inverse_transform(found)[:, 0], [lower, middle, upper])
    found = scaler.fit_transform(np.array([[0.0], [1.0]], dtype=dtype))
    assert np.isfinite(found).all() and (np.abs(found) <= 1.0).all()


COSTS = {
    "mu": lambda value: PrivacyCost("replace_one", mu=value),
    "rho": lambda value: PrivacyCost("replace_one", rho=value),
    "level": lambda value: PrivacyCost("replace_one", pure_events=(PureMechanism(value),)),
    "log_odds_range": lambda value: PrivacyCost(
        "replace_one", decisions=(BoundedRangeDecisions(value, 1),)
    ),
    "noise_multiplier": lambda value: PrivacyCost(
        "replace_one", sampled=(SampledGaussian(value, 0.1, 10),)
    ),
    "rate": lambda value: PrivacyCost("replace_one", counted=(PoissonGaussian(1.0, value, 10),)),
}


@pytest.mark.parametrize("value", EXTREME, ids=lambda value: f"{value!r:.20}")
@pytest.mark.parametrize("name", COSTS)
def test_a_cost_is_of_any_number_or_names_it(name, value):
    found = tried(name, value, lambda: COSTS[name](value).epsilon(1e-5))
    assert found is None or found >= 0
    cost = PrivacyCost("replace_one", mu=1.0, decisions=(BoundedRangeDecisions(0.1, 3),))
    tried("delta", value, lambda: cost.epsilon(value))
    tried("epsilon", value, lambda: cost.delta(value))
    tried("n_samples", value, lambda: default_delta(value))
    tried("epsilon", value, lambda: PrivacyLedger(value, 1e-5))
