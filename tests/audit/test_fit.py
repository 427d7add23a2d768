"""Canaries in fits: what is claimed is not contradicted, and planted bugs are."""

import functools
import sys

import numpy as np
import pandas as pd
import pytest
from releases import DELTA, NoisySum, score
from sklearn.pipeline import make_pipeline

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
    DPGaussianMixturePosterior,
    metrics,
)
from skdpbayes.audit import Canaries, audit_fit
from skdpbayes.metrics import dp_accuracy_score
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers import SGLD

rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, (60, 3))
Y = np.arange(60) % 2
N_CANARIES = 1000


def axes():
    """Return canaries that do not disturb each other."""
    rows = np.eye(N_CANARIES)
    return Canaries(rows, -rows)


def run(drawn=1.0, **options):
    table = np.zeros((5, N_CANARIES))
    given = {"canaries": axes(), "score": score, "random_state": 0, **options}
    return audit_fit(NoisySum(4.0, drawn), table, **given)


def test_one_run_with_many_canaries_finds_part_of_what_is_spent():
    results = [run(random_state=seed) for seed in range(2)]
    assert np.mean([result.epsilon_lower_bound for result in results]) > 0.5 * 4.0
    result = results[0]
    assert result.claim == "mu" and not result.contradicts
    assert result.claimed_epsilon == pytest.approx(4.0)
    assert result.epsilon_lower_bound < result.largest_possible
    assert "1000 canaries in 1 run\n" in str(result)


def test_half_the_noise_is_found_by_one_run():
    assert run(0.5).contradicts
    right = run(n_runs=2)
    assert not right.contradicts and right.n_scores == 2 * N_CANARIES


def test_a_claim_of_epsilon_is_bounded_by_fewer_guesses():
    result = run(claim="epsilon")
    assert result.mu_lower_bound is None and 0.5 < result.epsilon_lower_bound < 4.0


@pytest.mark.nightly
@pytest.mark.parametrize("claim", ["auto", "normal"])
def test_a_thousand_runs_with_one_canary_find_most(claim):
    rows = np.array([[1.0, 0.0]])
    result = audit_fit(
        NoisySum(4.0),
        np.zeros((5, 2)),
        canaries=Canaries(rows, -rows),
        score=score,
        n_runs=1000,
        claim=claim,
        random_state=0,
    )
    assert 0.6 * 4.0 < result.epsilon_lower_bound < 4.0 and result.n_runs is None


@pytest.mark.nightly
def test_a_score_is_audited_and_a_quarter_of_its_noise_found(monkeypatch):
    score = functools.partial(dp_accuracy_score, epsilon=1.0)
    options = {"n_canaries": 1, "n_runs": 100, "random_state": 0}
    result = audit_fit(score, Y, Y, **options)
    assert result.epsilon_lower_bound < 1.0 and result.delta == 0.0
    scale = metrics._scores.laplace_scale
    monkeypatch.setattr(metrics._scores, "laplace_scale", lambda *args: scale(*args) / 4)
    assert audit_fit(score, Y, Y, **options).contradicts


def test_runs_have_randomness_of_their_own_and_the_audit_can_be_repeated():
    seen = []

    def watched(fitted, canaries):
        seen.append(fitted.total_)
        return score(fitted, canaries)

    for _ in range(2):
        run(n_runs=2, score=watched)
    assert not np.allclose(seen[0], seen[1])
    np.testing.assert_array_equal(seen[:2], seen[2:])
    assert seen[0] is not run(score=watched, random_state=None)


CLASSIFIER = DPBayesianLogisticRegression(2.0, data_norm=1.0, classes=[0, 1], n_draws=5)
KINDS = {
    "quantiles": (DPQuantileScaler(), X, None),
    "medians": (DPImputer("median"), X, None),
    "categories": (DPOneHotEncoder(delta=1e-3), np.where(X > 0, "a", "b").astype(object), None),
    "score": (functools.partial(dp_accuracy_score, epsilon=1.0), Y, Y),
    "labels": (CLASSIFIER, X, Y),
}
SLOW = {
    "frame": (CLASSIFIER, pd.DataFrame(X, columns=list("abc")), pd.Series(Y)),
    "add or remove": (
        DPBayesianLogisticRegression(
            delta=1e-4, classes=[0, 1], neighboring_relation="add_or_remove_one", public_size=60
        ),
        X,
        Y,
    ),
    "numbers": (DPBayesianRidge((-1, 1), data_norm=1.0, n_draws=5), X, X[:, 0]),
    "counts": (
        DPBayesianPoissonRegressor(9, data_norm=1.0, sampler="clipped_residuals", n_draws=5),
        X,
        Y,
    ),
    "mixture": (DPGaussianMixturePosterior(2, data_norm=1.0, n_draws=5), X, None),
    "network": (
        DPBayesianMLPClassifier(
            (2,), epsilon=2.0, classes=[0, 1], sampler=SGLD(n_steps=20), n_draws=2
        ),
        X,
        Y,
    ),
    "pipeline": (
        make_private_pipeline(
            DPQuantileScaler(), DPBayesianLogisticRegression(classes=[0, 1], n_draws=5), epsilon=2.0
        ),
        X,
        Y,
    ),
    "search": (
        DPRandomizedSearchCV(CLASSIFIER, {"data_norm": [1.0]}, mean_candidates=2, delta=1e-3),
        X,
        Y,
    ),
}


def audit_kind(estimator, table, labels):
    result = audit_fit(estimator, table, labels, n_canaries=3, n_runs=2, random_state=0)
    assert not result.contradicts and result.n_scores == 6
    assert result.claimed_epsilon == pytest.approx(getattr(estimator, "epsilon", 1.0), rel=0.01)
    assert "take more runs" in result.verdict


@pytest.mark.parametrize("name", KINDS)
def test_default_canaries_are_there_for_all_kinds(name):
    audit_kind(*KINDS[name])


@pytest.mark.nightly
@pytest.mark.parametrize("name", SLOW)
def test_default_canaries_are_there_for_slow_kinds(name):
    audit_kind(*SLOW[name])


def test_by_default_a_run_has_as_many_canaries_as_can_be_told_apart():
    options = {"random_state": 0, "score": score}
    result = audit_fit(NoisySum(4.0), X, **options)
    assert result.n_scores == X.shape[1] and result.notes == ()
    assert result.largest_possible == 0.0
    assert "finds at most 0, even if every guess is right: take more runs" in str(result)
    assert audit_fit(NoisySum(4.0), np.zeros((5, 300)), **options).n_scores == 100
    assert audit_fit(functools.partial(dp_accuracy_score, epsilon=1.0), Y, Y).n_scores == 1
    assert audit_fit(KINDS["categories"][0], KINDS["categories"][1], random_state=0).n_scores == 100


def test_canaries_that_hide_each_other_are_told():
    crowd = audit_fit(NoisySum(4.0), X, n_canaries=100, score=score, random_state=0)
    assert crowd.largest_possible > 4.0  # Which is why it has to be told.
    assert "100 canaries share 3 columns and hide each other" in str(crowd)
    assert "n_canaries=3 or fewer" in str(crowd) and "n_canaries=1, n_runs=1000" in str(crowd)
    scored = audit_fit(functools.partial(dp_accuracy_score, epsilon=1.0), Y, Y, n_canaries=5)
    assert "5 canaries share a single number" in str(scored)
    assert "take n_canaries=1, and more runs" in str(scored)
    own = Canaries(np.eye(3), -np.eye(3))
    assert audit_fit(NoisySum(4.0), X, canaries=own, score=score).notes == ()


def test_progress_over_runs_is_shown_where_it_is_asked_for(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    for verbose in (0, 1):
        audit_fit(NoisySum(), X, score=score, n_runs=3, verbose=verbose)
        assert ("audit: step 3 of 3" in capsys.readouterr().out) == bool(verbose)


def test_an_active_ledger_is_charged_for_every_run():
    with PrivacyLedger(10.0, 1e-4) as ledger:
        audit_fit(DPQuantileScaler(delta=1e-5), X, n_canaries=2, n_runs=3)
    assert len(ledger.records()) == 3


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ValueError, match="second form"):
        audit_fit(NoisySum(), X, canaries=Canaries(X[:2], None))
    with pytest.raises(ValueError, match="tables of numbers"):
        audit_fit(DPQuantileScaler(), np.full((20, 2), "a"))
    with pytest.raises(ValueError, match="give score="):
        audit_fit(NoisySum(), X, n_canaries=2)
    with pytest.raises(ValueError, match="one canary in many runs"):
        run(claim="normal")
    with pytest.raises(ValueError, match="is nan"):
        run(score=lambda fitted, canaries: np.full(N_CANARIES, np.nan))
    assert run(claim="epsilon").delta == DELTA


def test_a_claim_is_that_of_all_steps_of_a_pipeline():
    """What a first step reveals of canaries contradicts no claim of the last one."""
    clf = DPBayesianLogisticRegression(0.1, data_norm=1.0, classes=[0, 1], n_draws=5)
    pipeline = make_pipeline(DPQuantileScaler(epsilon=2.0), clf)
    result = audit_fit(pipeline, X, Y, n_canaries=3, random_state=0)
    assert result.claim == "epsilon" and 2.0 < result.claimed_epsilon < 2.2
    alone = audit_fit(make_pipeline(clf), X, Y, n_canaries=3, random_state=0)
    assert alone.claim == "mu" and alone.claimed_epsilon == pytest.approx(0.1)


def test_a_claim_is_the_largest_of_all_runs():
    """A fit that costs less now and then has claimed no less of the others."""

    class Varying(NoisySum):
        budgets = iter([4.0, 1.0])

        def fit(self, X, y=None):
            self.epsilon = next(Varying.budgets)
            return super().fit(X, y)

    table = np.zeros((5, N_CANARIES))
    options = {"canaries": axes(), "score": score, "claim": "epsilon", "random_state": 0}
    result = audit_fit(Varying(4.0), table, n_runs=2, **options)
    assert result.claimed_epsilon == pytest.approx(4.0)
