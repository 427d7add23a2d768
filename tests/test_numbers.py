"""Numbers that a user passes: no booleans, and no budgets that are none."""

import re

import numpy as np
import pytest

from skdpbayes import DPBayesianLogisticRegression as Logistic
from skdpbayes import DPBayesianMLPClassifier as Network
from skdpbayes import DPGaussianMixturePosterior as Mixture
from skdpbayes.metrics import dp_accuracy_score, dp_mean_score, make_private_scorer
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import Budget, PrivacyCost, PrivacyLedger
from skdpbayes.privacy.profiles import PureMechanism
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
    bits = PrivacyCost("replace_one", mu=1.0, pure=(PureMechanism(1.0),))
    vast = PrivacyCost("replace_one", mu=1e4, pure=(PureMechanism(1.0),))
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
        epsilon = PrivacyCost("replace_one", pure=(one,)).epsilon(delta)
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
