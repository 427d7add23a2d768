"""Deltas as small as doubles are: costs are converted as in many digits, and plans refuse them."""

import math
import warnings
from math import comb

import mpmath
import numpy as np
import pytest

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPGaussianMixturePosterior,
)
from skdpbayes._cli import main as run
from skdpbayes.metrics import dp_accuracy_score, make_private_scorer
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.models import TargetBounds
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import (
    BoundedRangeDecisions,
    Budget,
    PoissonGaussian,
    PrivacyCost,
    PrivacyLedger,
    PureMechanism,
    SampledGaussian,
    SelectedRun,
)
from skdpbayes.privacy.conversions import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    zcdp_delta,
    zcdp_epsilon,
)
from skdpbayes.samplers import SGHMC

SUBNORMAL = [2e-308, 5.6e-309, 5.5e-309, 1e-310, 1e-320, 5e-324]
DELTAS = [0.3, 1e-5, 1e-12, 1e-16, 1e-100, 1e-299, 1e-300, 1e-307, *SUBNORMAL]
MUS = [1e-7, 1e-4, 0.1, 1.0, 30.0, 44_684.0, 1e6]


@pytest.fixture(autouse=True)
def many_digits_and_no_warnings():
    with mpmath.workdps(400), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def exact_delta_of_gaussian(mu, epsilon):
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    above, below = mpmath.ncdf(mu / 2 - epsilon / mu), mpmath.ncdf(-mu / 2 - epsilon / mu)
    return above - mpmath.exp(epsilon) * below


def exact_delta_of_responses(level, count, epsilon):
    """Of so many randomised responses of one level (Kairouz, Oh and Viswanath, 2015)."""
    level, total = mpmath.mpf(level), mpmath.mpf(0)
    for lies in range(count + 1):
        loss = (count - 2 * lies) * level
        if loss > epsilon:
            mass = comb(count, lies) * mpmath.exp((count - lies) * level)
            total += mass * -mpmath.expm1(epsilon - loss) / (1 + mpmath.exp(level)) ** count
    return total


def exact_delta_of_sampled(noise, rate, epsilon):
    """Of a record that is there with this probability, against none."""
    odds = mpmath.log1p(mpmath.expm1(mpmath.mpf(epsilon)) / rate)
    return rate * exact_delta_of_gaussian(1.0 / noise, odds)


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("delta", DELTAS)
def test_a_gaussian_cost_is_exact(mu, delta):
    epsilon = PrivacyCost("replace_one", mu=mu).epsilon(delta)
    if epsilon == 0:
        assert exact_delta_of_gaussian(mu, 0) <= delta
        return
    # Roots are found to 1e-12 or to the last digits of epsilon.
    more = epsilon * (1 + 1e-11) + 3e-12
    assert exact_delta_of_gaussian(mu, more) <= delta
    assert exact_delta_of_gaussian(mu, max(0, 2 * epsilon - more)) >= delta


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_lies_between_the_gaussian_and_the_classical_formula(mu, delta):
    rho = mu**2 / 2
    epsilon, log = PrivacyCost("replace_one", rho=rho).epsilon(delta), -math.log(delta)
    assert gaussian_epsilon(mu, delta) * (1 - 1e-9) <= epsilon + 3e-12
    assert epsilon <= (rho + 2 * math.sqrt(rho * log)) * (1 + 1e-3)


@pytest.mark.parametrize("rho", [5e-324, 1e-200, 1e-20, 1e-16, 1e-3, 1.0, 1e5, 1e9, 1e200])
def test_zcdp_of_any_size_is_converted_without_a_warning(rho):
    for delta in DELTAS:
        epsilon = zcdp_epsilon(rho, delta)
        assert epsilon >= 0
        if epsilon > 0 and rho <= 1:
            assert zcdp_delta(rho, epsilon * (1 + 1e-3)) <= max(delta, 1e-300)
    for epsilon in (0.0, 1e-300, 1.0, 1e300):
        assert 1e-300 <= zcdp_delta(rho, epsilon) <= 1
    mu = math.sqrt(2 * min(rho, 1e12))
    if mu > 1e-150:  # What the bound at epsilon 0 has to exceed: the distance of two Gaussians.
        assert zcdp_delta(rho, 0.0) >= mpmath.erf(mu / math.sqrt(8))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("level", "count"), [(0.01, 1), (2.0, 1), (0.5, 7), (3.0, 40)])
def test_no_pure_cost_is_below_that_of_randomised_responses(level, count, delta):
    pure = PrivacyCost("replace_one", pure_events=(PureMechanism(level, count),)).epsilon(delta)
    assert pure <= level * count * (1 + 1e-12)
    assert exact_delta_of_responses(level, count, pure + 1e-12) <= delta
    bits = PrivacyCost("replace_one", decisions=(BoundedRangeDecisions(2 * level, count),)).epsilon(
        delta
    )
    assert exact_delta_of_responses(level, count, bits + 1e-12) <= delta


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("noise", "rate"), [(0.8, 0.1), (5.0, 0.01)])
def test_no_cost_of_a_batch_is_below_that_of_one_record(noise, rate, delta):
    cost = PrivacyCost("add_or_remove_one", sampled=(SampledGaussian(noise, rate, 1),))
    epsilon = cost.epsilon(delta)
    if math.isfinite(epsilon):
        assert exact_delta_of_sampled(noise, rate, epsilon + 1e-9) <= delta * (1 + 1e-6)


GAUSSIAN = PrivacyCost("replace_one", mu=0.7)
FORMS = {
    "mu": GAUSSIAN,
    "rho": PrivacyCost("replace_one", rho=0.2),
    "mu and rho": PrivacyCost("replace_one", mu=0.5, rho=0.2),
    "pure": PrivacyCost("replace_one", pure_events=(PureMechanism(0.5, 3),)),
    "bits": PrivacyCost("replace_one", decisions=(BoundedRangeDecisions(0.1, 20),)),
    "mu and bits": PrivacyCost("replace_one", mu=0.5, decisions=(BoundedRangeDecisions(0.1, 20),)),
    "sampled": PrivacyCost("replace_one", sampled=(SampledGaussian(2.0, 0.1, 10),)),
    "sampled and rho": PrivacyCost(
        "replace_one", rho=0.1, sampled=(SampledGaussian(2.0, 0.1, 10),)
    ),
    "counted": PrivacyCost("replace_one", counted=(PoissonGaussian(2.0, 0.1, 10),)),
    "selected": PrivacyCost("replace_one", selection_events=(SelectedRun((GAUSSIAN,), 5.0),)),
    "the worse of two": PrivacyCost(
        "replace_one",
        selection_events=(SelectedRun((GAUSSIAN, PrivacyCost("replace_one", rho=0.3))),),
    ),
    "failure": PrivacyCost("replace_one", mu=0.7, failure_probability=1e-20),
    "small failure": PrivacyCost("replace_one", mu=0.7, failure_probability=1e-301),
    "persons": PrivacyCost(
        "replace_one_person", mu=0.7, decisions=(BoundedRangeDecisions(0.1, 20),)
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_smaller_delta_never_costs_less(form):
    cost = FORMS[form]
    epsilons = [cost.epsilon(delta) for delta in [*DELTAS, 0.0]]
    assert epsilons == sorted(epsilons)
    assert epsilons[1] > 0
    assert epsilons[-1] == cost.pure_epsilon


@pytest.mark.parametrize("form", FORMS)
def test_a_delta_is_zero_only_where_a_cost_is_pure(form):
    cost = FORMS[form]
    for epsilon in (0.0, 0.3, 3.0, 100.0, 1e4, 1e9):
        delta = cost.delta(epsilon)
        assert (delta == 0) == (cost.pure_epsilon <= epsilon)
        assert delta == 0 or delta >= 1e-300


ROWS = np.random.default_rng(0).uniform(-1, 1, (60, 3))
LABELS = np.arange(60) % 2


def fitted(estimator):
    return lambda delta: estimator.set_params(delta=delta).fit(ROWS, LABELS)


def search(delta):
    model = DPBayesianLogisticRegression(classes=[0, 1])
    return DPRandomizedSearchCV(model, {"prior_scale": [1.0, 2.0]}, delta=delta).fit(ROWS, LABELS)


DOORS = {
    "budget": lambda delta: Budget(1.0, delta).checked(),
    "ledger": lambda delta: PrivacyLedger(1.0, delta),
    "sampler": lambda delta: SGHMC().plan(
        TargetBounds(3, 1.0, 0.25, (1.0, 1.0)), 1000, Budget(1.0, delta)
    ),
    "logistic": fitted(DPBayesianLogisticRegression(classes=[0, 1])),
    "its norm": fitted(DPBayesianLogisticRegression(classes=[0, 1], data_norm="auto")),
    "its plan": lambda delta: DPBayesianLogisticRegression(delta=delta).privacy_plan(100, 3),
    "its persons": lambda delta: DPBayesianLogisticRegression(
        delta=delta, max_rows_per_group=3
    ).privacy_plan(100, 3),
    "network": fitted(DPBayesianMLPClassifier(classes=[0, 1])),
    "mixture": fitted(DPGaussianMixturePosterior()),
    "scaler": fitted(DPQuantileScaler()),
    "imputer": fitted(DPImputer(strategy="median")),
    "encoder": fitted(DPOneHotEncoder()),
    "pipeline": fitted(
        make_private_pipeline(
            BoundedScaler(-1.0, 1.0), DPBayesianLogisticRegression(classes=[0, 1])
        )
    ),
    "search": search,
    "score": lambda delta: dp_accuracy_score(LABELS, LABELS, epsilon=1.0, delta=delta),
    "scorer": lambda delta: make_private_scorer("accuracy", epsilon=1.0, delta=delta),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("delta", [9.9e-301, 1e-310, 5e-324])
def test_plans_refuse_a_delta_that_they_cannot_divide(door, delta):
    with PrivacyLedger(math.inf, 1e-6) as charged:
        with pytest.raises(ValueError, match="delta must be 0 or at least 1e-300, got "):
            DOORS[door](delta)
        assert charged.records() == []


def test_so_does_the_command_line(tmp_path, capsys):
    path = tmp_path / "survey.ledger"
    for words in (
        ["plan", "logistic", "--rows", "1000", "--columns", "3"],
        ["ledger", "create", str(path)],
    ):
        with pytest.raises(SystemExit):
            run([*words, "--epsilon", "1", "--delta", "1e-310"])
        assert "delta must be 0 or at least 1e-300, got 1e-310" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize("mu", [1.3e-7, 1.8e-6, 1.2e-4, 1e-3, 0.02, 0.3, 1.0, 7.0])
@pytest.mark.parametrize("delta", [3e-160, 1e-30, 9e-6, 1e-3])
def test_rounding_never_takes_from_a_conversion(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    exact = exact_delta_of_gaussian(mu, epsilon)
    assert exact <= delta
    assert exact <= gaussian_delta(mu, epsilon)
    if mu > 1e-6:
        assert gaussian_epsilon(gaussian_mu(epsilon, delta), delta) <= epsilon
