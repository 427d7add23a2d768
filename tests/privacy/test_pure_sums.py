"""Pure costs: many scores add up to what is written, and thousands of charges compose in moments."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from skdpbayes._mechanisms.laplace import laplace_scale
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.metrics import (
    dp_accuracy_score,
    dp_brier_score,
    dp_calibration_curve,
    dp_confusion_matrix,
    dp_log_loss,
    dp_mean_score,
)
from skdpbayes.privacy import BoundedRangeDecisions, PrivacyCost, PrivacyLedger, cost
from skdpbayes.privacy.conversions import decimal_exact, round_down, round_up
from skdpbayes.privacy.losses import PureMechanism

y = np.arange(1000) % 2


def pure(level, count=1):
    return PrivacyCost("replace_one", pure_events=(PureMechanism(level, count),))


SCORES = {
    "accuracy": lambda epsilon: dp_accuracy_score(y, y, epsilon=epsilon),
    "log loss": lambda epsilon: dp_log_loss(y, np.where(y, 0.9, 0.1), epsilon=epsilon),
    "Brier": lambda epsilon: dp_brier_score(y, np.where(y, 0.9, 0.1), epsilon=epsilon),
    "mean": lambda epsilon: dp_mean_score(y, bounds=(0.0, 1.0), epsilon=epsilon),
    "matrix": lambda epsilon: dp_confusion_matrix(y, y, labels=[0, 1], epsilon=epsilon),
    "curve": lambda epsilon: dp_calibration_curve(y, np.where(y, 0.9, 0.1), epsilon=epsilon),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("epsilon, times, ceiling", [(0.1, 3, 0.3), (0.7, 3, 2.1), (0.07, 10, 0.7)])
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_scores_that_add_up_to_a_ceiling_fit_it_and_nothing_more_does(
    name, epsilon, times, ceiling, delta
):
    with PrivacyLedger(ceiling, delta) as ledger:
        for _ in range(times):
            SCORES[name](epsilon)
        if delta == 0:
            assert ledger.spent_epsilon == ceiling and ledger.remaining_epsilon == 0.0
            for more in (1e-6, 1e-17, 1e-30):
                with pytest.raises(BudgetExceededError):
                    ledger.reserve(pure(more))
    assert len(ledger.records()) == times


def test_what_is_left_of_a_pure_ledger_can_be_spent_to_the_last_digit():
    ledger = PrivacyLedger(0.3, 0.0)
    for _ in range(2):
        ledger.reserve(pure(0.1))
    assert ledger.remaining_epsilon == 0.1
    ledger.reserve(pure(ledger.remaining_epsilon))
    assert ledger.spent_epsilon == 0.3


def test_sums_are_never_below_what_is_written():
    rng = np.random.default_rng(0)
    for _ in range(300):
        levels = [float(f"{level:.{rng.integers(1, 17)}g}") for level in rng.exponential(size=5)]
        counts = rng.integers(1, 50, 5).tolist()
        whole = sum(Fraction(repr(e)) * k for e, k in zip(levels, counts, strict=True))
        total = sum(
            (pure(e, k) for e, k in zip(levels, counts, strict=True)), PrivacyCost("replace_one")
        )
        assert Fraction(repr(math.nextafter(total.epsilon(0.0), 0.0))) < whole
        assert whole <= Fraction(repr(total.epsilon(0.0)))
        assert decimal_exact(round_down(whole)) <= whole <= decimal_exact(round_up(whole))


def test_the_noise_of_a_score_is_that_of_epsilon_as_it_is_written_or_less():
    """So that the sum is a statement about what was done, not about decimals."""
    for epsilon in (0.1, 0.3, 0.7, 1e-3, 1 / 3, 123.456, 5e-7):
        for sensitivity in (1, 2, 1_000):
            spent = sensitivity / laplace_scale(sensitivity, epsilon)
            assert spent <= Fraction(repr(epsilon)) and spent <= Fraction(epsilon)


# Composition


def exact_delta(parts, epsilon):
    """Return the delta of randomised responses by listing all numbers of honest answers."""
    loss, first = np.zeros(1), np.ones(1)
    for part in parts:
        k = np.arange(part.count + 1)
        probability = binom(part.count, 1.0 / (1.0 + math.exp(-part.level))).pmf(k)
        loss = np.add.outer(loss, part.level * (2.0 * k - part.count)).ravel()
        first = np.multiply.outer(first, probability).ravel()
    above = loss > epsilon
    return float(np.sum(first[above] * -np.expm1(epsilon - loss[above])))


@pytest.mark.parametrize(
    "parts",
    [
        [(0.1, 2)],
        [(0.05, 300)],
        [(2.0, 40)],
        [(0.01, 200), (0.3, 30)],
        [(0.02, 50), (0.1, 20), (1.0, 7)],
        [(0.5, 1), (0.25, 60)],
    ],
)
def test_equal_mechanisms_compose_at_once_from_above_and_closely(parts):
    parts = tuple(PureMechanism(*part) for part in parts)
    composed = PrivacyCost("replace_one", pure_events=parts)
    for share in (0.05, 0.2, 0.5):
        epsilon = share * composed.pure_epsilon
        exact, computed = exact_delta(parts, epsilon), composed._exact_delta(epsilon)
        assert exact <= computed <= exact * 1.01 + 2 * composed._roundoff()


def test_large_levels_take_no_memory():
    composed = PrivacyCost(
        "replace_one", pure_events=(PureMechanism(1e5, 1000), PureMechanism(30.0, 5))
    )
    assert composed.epsilon(1e-6) <= composed.pure_epsilon == 1e8 + 150.0


def test_a_long_history_without_a_ceiling_composes_losses_once(monkeypatch):
    levels = [0.01 * (1 + number % 20) for number in range(1_000)]
    ledger, compositions = PrivacyLedger(np.inf, 1e-6), []
    for level in levels:
        ledger.reserve(pure(level))
    compose = cost.compose_losses
    monkeypatch.setattr(
        cost, "compose_losses", lambda *args: compositions.append(1) or compose(*args)
    )
    totals = [row["total_epsilon"] for row in ledger.records()]
    assert len(compositions) <= 1
    assert totals[-1] == ledger.spent_epsilon
    # Each of the bounds holds, and those in the middle are not far off.
    half = sum(map(pure, levels[:500]), PrivacyCost("replace_one")).epsilon(1e-6)
    assert half <= totals[499] <= 1.2 * half


def test_the_rest_of_a_long_ledger_is_found_with_few_compositions(monkeypatch):
    parts = tuple(PureMechanism(0.01 * level, 500) for level in range(1, 21))
    ledger, made = PrivacyLedger(200.0, 1e-6), []
    ledger.reserve(PrivacyCost("replace_one", pure_events=parts))
    compose = PureMechanism.composed
    monkeypatch.setattr(
        PureMechanism, "composed", lambda self, *args: made.append(self) or compose(self, *args)
    )
    assert 0 < ledger.remaining_epsilon < 200.0
    assert len(made) <= 2 * len(parts)


@pytest.mark.parametrize("level", [500.0, 1000.0, 1500.0, 1e4, 1e6, 1e9])
def test_large_pure_losses_cost_what_they_are_and_take_no_large_grid(level):
    """Of randomised response nearly all losses are the largest, also where exp(level) is no double."""
    first, second = (
        PrivacyCost("replace_one", pure_events=(PureMechanism(share * level),))
        for share in (0.3, 0.7)
    )
    cost = first + second
    assert 0.999 * level < cost.epsilon(1e-6) <= cost.epsilon(0.0) == pytest.approx(level)
    assert cost.delta(0.5 * level) == pytest.approx(1.0)


# Losses beyond any curve, a delta below what curves resolve, bits of a large range, and a zCDP part.
BEYOND_CURVES = {
    "delta": (1e-15, {"mu": 1.0, "pure_events": (PureMechanism(1e5),)}),
    "loss": (1e-5, {"mu": 1.0, "pure_events": (PureMechanism(1e7),)}),
    "range": (1e-5, {"mu": 1.0, "decisions": (BoundedRangeDecisions(100.0, 1),)}),
    "both": (
        1e-15,
        {
            "mu": 1.0,
            "decisions": (BoundedRangeDecisions(0.1, 2),),
            "pure_events": (PureMechanism(300.0),),
        },
    ),
    "rho": (1e-5, {"rho": 0.5, "pure_events": (PureMechanism(1e5),)}),
}


@pytest.mark.parametrize("name", BEYOND_CURVES)
def test_what_has_no_curve_costs_a_sum_of_epsilons_at_most(name):
    delta, parts = BEYOND_CURVES[name]
    whole = PrivacyCost("replace_one", **parts)
    rest = PrivacyCost("replace_one", mu=whole.mu, rho=whole.rho).epsilon(delta)
    alone = PrivacyCost(
        "replace_one", pure_events=whole.pure_events, decisions=whole.decisions
    ).pure_epsilon
    found = whole.epsilon(delta)
    assert max(alone / 2.0, rest) <= found <= (alone + rest) * (1.0 + 1e-12)
    assert whole.delta(found * (1.0 + 1e-9)) <= delta * (1.0 + 1e-3)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
def test_a_single_pure_cost_is_rounded_up(rng, delta):
    for level in [299.0, *rng.uniform(0.5, 500.0, size=50)]:
        found = PureMechanism(float(level)).epsilon(delta)
        with mpmath.workdps(40):
            loss = mpmath.mpf(found) - mpmath.mpf(level)
            exact = -mpmath.expm1(loss) / (1 + mpmath.exp(-mpmath.mpf(level)))
            assert exact <= delta, level
