"""Ledgers: what several fits spend adds up, and what would exceed it is refused unread."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.privacy import PrivacyCost, PrivacyLedger
from skdpbayes.privacy.conversions import gaussian_delta
from skdpbayes.samplers import SGFS, SGHMC

X, y = make_classification(500, 4, random_state=0)


def test_fits_are_charged_until_the_budget_is_gone(monkeypatch):
    clf = DPBayesianLogisticRegression(epsilon=1.0, delta=1e-5, random_state=0)
    with PrivacyLedger(epsilon=1.5, delta=1e-5, allow_seeds=True) as ledger:
        clf.fit(X, y)
        clf.fit(X, y)
        total = clf.privacy_cost_ + clf.privacy_cost_
        assert ledger.spent_epsilon == pytest.approx(total.epsilon(1e-5))
        draws = clf.posterior_samples_.copy()
        for sampler in (SGFS, SGHMC):
            monkeypatch.setattr(sampler, "run", lambda *args: pytest.fail("a sampler ran"))
        with pytest.raises(BudgetExceededError, match="Nothing was read"):
            clf.fit(X, y)
        assert ledger.spent_epsilon == pytest.approx(total.epsilon(1e-5))
    np.testing.assert_array_equal(clf.posterior_samples_, draws)


def test_ledgers_nest_and_end():
    cost = PrivacyCost("replace_one", mu=0.1)
    with PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as outer:
        with PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as inner:
            DPBayesianLogisticRegression(random_state=0).fit(X, y)
        DPBayesianLogisticRegression(random_state=0).fit(X, y)
    DPBayesianLogisticRegression(random_state=0).fit(X, y)
    assert outer.spent.mu == pytest.approx(np.sqrt(2) * inner.spent.mu)
    outer.reserve(cost)
    assert "spent_epsilon" in repr(outer)


@pytest.mark.parametrize("ceilings", [(0.5, np.inf), (np.inf, 0.5)])
def test_a_refusal_by_one_ledger_charges_no_other(ceilings):
    with (
        PrivacyLedger(ceilings[0], 1e-5, allow_seeds=True) as outer,
        PrivacyLedger(ceilings[1], 1e-5, allow_seeds=True) as inner,
    ):
        with pytest.raises(BudgetExceededError):
            DPBayesianLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
    assert outer.spent_epsilon == inner.spent_epsilon == 0.0


def test_relations_do_not_mix():
    ledger = PrivacyLedger(1.0, 1e-5)
    with pytest.raises(
        ValueError, match="cannot be added: give both the same neighboring_relation"
    ):
        ledger.reserve(PrivacyCost("add_or_remove_one", mu=0.1))
    with pytest.raises(ValueError, match="cannot be added") as rows:
        ledger.reserve(PrivacyCost("add_or_remove_one", mu=0.1))
    persons = PrivacyLedger(1.0, 1e-5, "replace_one_person")
    with pytest.raises(ValueError, match=r"groups=.*scorer\.set_score_request\(groups=True\)"):
        persons.reserve(PrivacyCost("replace_one", mu=0.1))
    assert "groups" not in str(rows.value)


@pytest.mark.parametrize("epsilon, delta", [(0.0, 1e-5), (-1.0, 1e-5), (1.0, 1.0), (1.0, -0.1)])
def test_nonsense_is_refused(epsilon, delta):
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        PrivacyLedger(epsilon, delta)


def test_fits_in_other_threads_are_charged():
    from joblib import Parallel, delayed

    clf = DPBayesianLogisticRegression(random_state=0)
    with PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as ledger:
        fits = Parallel(n_jobs=2, backend="threading")(delayed(clf.fit)(X, y) for _ in range(3))
    assert ledger.spent.mu == pytest.approx(np.sqrt(3) * fits[0].privacy_cost_.mu)


def test_an_adaptive_adversary_learns_what_the_ledger_says():
    """Gaussian releases whose sizes follow the earlier ones are told apart as one release would be."""
    ledger, rng = PrivacyLedger(1.0, 1e-5), np.random.default_rng(0)
    budget = ledger.budget.mu**2

    def losses(b, n=400_000):
        """Log likelihood ratios of all that is released, from one of two tables."""
        left, total = np.full(n, budget), np.zeros(n)
        for shares in [(0.1, 0.1), (0.05, 0.6), (0.3, 0.02), (1.0, 1.0)]:
            # Where the loss is large so far another share of what is left is spent.
            mu = np.sqrt(left * np.where(total > 0.02, *shares))
            total += mu * (rng.standard_normal(n) + b * mu) - mu**2 / 2
            left = left - mu**2
        return total

    for b, sign in ((1, 1), (0, -1)):
        loss = sign * losses(b)
        for epsilon in (0.1, 0.3, 0.5):
            gains = np.maximum(0.0, -np.expm1(epsilon - loss))
            claimed = gaussian_delta(ledger.budget.mu, epsilon)
            error = gains.std() / np.sqrt(gains.size)
            assert 0.9 * claimed < gains.mean() < claimed + 4 * error
    with pytest.raises(BudgetExceededError):
        ledger.reserve(PrivacyCost("replace_one", mu=np.sqrt(budget) * 1.001))


def test_a_release_that_is_too_expensive_at_the_ledgers_delta_is_told_so():
    with PrivacyLedger(epsilon=1.0, delta=1e-7) as ledger:
        with pytest.raises(BudgetExceededError, match="alone costs epsilon = .* delta=1e-07"):
            ledger.reserve(PrivacyCost("replace_one", mu=0.25))


@pytest.mark.parametrize(
    "epsilon, delta, advice",
    [
        (3.0, 1e-5, "there: plan it with a smaller epsilon. "),
        (3.0, 1e-6, "there: plan it with a smaller epsilon. "),
        (0.9, 1e-3, "there: plan it with delta=1e-05 instead of 0.001. "),
        (3.0, 1e-3, "there: plan it with a smaller epsilon at delta=1e-05. "),
    ],
)
def test_a_ledger_advises_the_delta_or_the_epsilon_that_helps(epsilon, delta, advice):
    model = DPBayesianLogisticRegression(epsilon, delta)
    with PrivacyLedger(1.0, 1e-5), pytest.raises(BudgetExceededError) as caught:
        model.fit(np.zeros((500, 2)), np.arange(500) % 2)
    assert advice in str(caught.value)


def test_a_ledger_without_delta_does_not_call_gaussian_releases_infinite():
    with pytest.raises(BudgetExceededError, match="smaller epsilon at delta=0"):
        PrivacyLedger(1.0, 0.0).reserve(PrivacyCost("replace_one", mu=0.1))


def test_no_delta_is_advised_for_a_fit_without_privacy():
    with PrivacyLedger(1.0, 1e-5) as ledger:
        with pytest.raises(BudgetExceededError, match="plan it with a finite epsilon") as caught:
            ledger.reserve(PrivacyCost("replace_one", mu=np.inf))
    assert "delta=" not in str(caught.value)
