"""Searches that protect persons: who is fitted on, who is scored, what it costs, and what one moves."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor
from skdpbayes.audit import replay
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.metrics import PrivateScorer, make_private_scorer
from skdpbayes.model_selection import DPRandomizedSearchCV, total_privacy_cost
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy import Budget, PrivacyLedger

DELTA, PERSONS = 1e-5, 400
rng = np.random.default_rng(0)
WHO = np.append(np.repeat(0, 4), np.append(np.arange(1, PERSONS), rng.integers(PERSONS, size=600)))
NAMES = np.array([f"p{i}" for i in range(PERSONS)])[WHO]
X = rng.uniform(-1, 1, size=(WHO.size, 2))
Y = (X[:, 0] + 0.3 * rng.normal(size=WHO.size) > 0).astype(int)


def logistic(k=2, **options):
    return DPBayesianLogisticRegression(
        classes=[0, 1], n_draws=20, data_norm=1.5, max_rows_per_group=k, **options
    )


def search_of(estimator=None, params=None, **options):
    options = {"epsilon": 8.0, "delta": DELTA, "mean_candidates": 3.0, "random_state": 0, **options}
    return DPRandomizedSearchCV(
        logistic() if estimator is None else estimator,
        params or {"data_norm": [0.5, 1.5]},
        **options,
    )


class Watched(DPBayesianLogisticRegression):
    seen: list = []

    def fit(self, X, y, sample_weight=None, groups=None, **options):
        Watched.seen.append(groups)
        return super().fit(X, y, sample_weight, groups, **options)


def test_a_search_of_persons_is_charged_its_plan_once():
    search = search_of()
    with PrivacyLedger(np.inf, DELTA, "replace_one_person", allow_seeds=True) as ledger:
        search.fit(X, Y, groups=NAMES)
    plan = search.privacy_plan(PERSONS)
    assert ledger.spent == search.privacy_cost_ == plan.cost == total_privacy_cost(search)
    assert 7.99 < search.spent_epsilon_ <= 8.0 and len(ledger.records()) == 1
    assert (plan.n_train, plan.n_test) == (300, 100)
    fit = search.best_estimator_
    assert fit.privacy_cost_.neighboring_relation == "replace_one_person"
    assert fit.plan_.persons.max_rows == 2 and fit.privacy_cost_.mu <= plan.run_mu
    assert "replace-one-person" in str(plan) and "100 other persons" in str(plan)
    with PrivacyLedger(np.inf, DELTA, "replace_one_person", allow_seeds=True) as ledger:
        assert search.score(X, Y, groups=NAMES) > 0.7
    assert ledger.spent_epsilon <= plan.score_epsilon
    with (
        PrivacyLedger(1.0, DELTA, "replace_one_person", allow_seeds=True) as ledger,
        pytest.raises(BudgetExceededError),
    ):
        search.fit(X, Y, groups=NAMES)
    assert ledger.spent_epsilon == 0


def test_a_plan_for_persons_is_that_for_rows_with_persons_in_their_place():
    """Closed form: the part of a fit and of a score is that of a search of as many rows."""
    persons, rows = (
        search_of().privacy_plan(PERSONS),
        search_of(logistic(None)).privacy_plan(PERSONS),
    )
    for name in ("run_mu", "fit_epsilon", "score_epsilon", "n_train", "epsilon"):
        assert getattr(persons, name) == getattr(rows, name)
    assert persons.requested_budget == Budget(8.0, DELTA, "replace_one_person")
    assert persons.cost.neighboring_relation != rows.cost.neighboring_relation


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_no_person_is_both_fitted_on_and_scored(relation, monkeypatch):
    Watched.seen, scored = [], []
    call = PrivateScorer.__call__

    def watched(self, estimator, X, y, *, groups=None, **options):
        scored.append(groups)
        return call(self, estimator, X, y, groups=groups, **options)

    monkeypatch.setattr(PrivateScorer, "__call__", watched)
    size = {} if relation == "replace_one" else {"public_size": 500}
    estimator = Watched(
        classes=[0, 1], n_draws=20, max_rows_per_group=2, neighboring_relation=relation, **size
    )
    search = search_of(estimator, neighboring_relation=relation, random_state=3)
    search.fit(X, Y, groups=NAMES)
    assert len(scored) == len(Watched.seen) > 1
    fitted, held_out = set(Watched.seen[0]), set(scored[0])
    assert not fitted & held_out and len(fitted | held_out) == PERSONS
    assert all(np.array_equal(one, scored[0]) for one in scored)
    assert all(np.array_equal(one, Watched.seen[0]) for one in Watched.seen)
    # All rows of each: a fit chooses among them itself.
    assert len(Watched.seen[0]) + len(scored[0]) == WHO.size
    if relation == "replace_one":
        assert len(held_out) == search.plan_.n_test == 100
    else:
        assert 60 < len(held_out) < 140


@pytest.mark.parametrize("person", [0, 8])
def test_a_person_of_several_rows_moves_each_release_as_is_charged(person):
    """All rows of a person become extreme, of one who is fitted on and of one who is scored.

    Releases of fits are charged for rows, so that a fit takes one row of each.
    """
    rows = np.flatnonzero(person == WHO)
    estimator = logistic(1)
    record = {"X": np.tile([1.5, 0.0], (rows.size, 1)), "y": 0}
    found = replay(
        search_of(estimator, mean_candidates=2.0), X, Y, record, index=rows, groups=WHO, seed=1
    )
    assert not found.violations, str(found)
    assert found.n_releases > 1


def test_rows_counted_in_full_are_found(monkeypatch):
    """Rows of a person who is scored, each counted as if it were a person's only one."""
    import skdpbayes.metrics._scores as means

    monkeypatch.setattr(
        means, "means_of", lambda shares, persons: np.bincount(persons, weights=shares)
    )
    found = []
    for person in range(0, 100, 4):
        rows = np.flatnonzero(person == WHO)
        estimator = logistic(1)
        record = {"X": np.tile([1.5, 0.0], (rows.size, 1)), "y": 1 - Y[rows]}
        one = replay(
            search_of(estimator, mean_candidates=1.0), X, Y, record, index=rows, groups=WHO
        )
        found += [finding.kind for finding in one.violations]
        if found:
            break
    assert "sensitivity" in found


def test_the_number_of_rows_of_a_person_is_not_in_the_plan():
    many = np.append(np.arange(WHO.size), np.repeat(0, 500))
    plans = [
        search_of().fit(X[rows], Y[rows], groups=WHO[rows]).plan_
        for rows in (np.arange(WHO.size), many)
    ]
    assert plans[0] == plans[1]


def test_limits_are_searched_and_pipelines_and_rates_are_told():
    pipeline = make_pipeline(BoundedScaler(-1, 1), logistic(None))
    params = {"dpbayesianlogisticregression__max_rows_per_group": [1, 3]}
    search = search_of(pipeline, params).fit(X, Y, groups=NAMES)
    assert search.best_estimator_[-1].plan_.persons.max_rows in (1, 3)
    years = rng.uniform(0.5, 2.0, WHO.size)
    counts = np.minimum(rng.poisson(years * np.exp(X[:, 0])), 10)
    model = DPBayesianPoissonRegressor(
        max_count=10, data_norm=1.5, n_draws=20, max_rows_per_group=1, sampler="clipped_residuals"
    )
    search = search_of(model, {"prior_scale": [1.0]}, mean_candidates=1.0)
    search.fit(X, counts, exposure=years, groups=NAMES)
    assert search.privacy_cost_.neighboring_relation == "replace_one_person"
    assert np.isfinite(search.best_score_)


@pytest.mark.parametrize(
    "groups, message",
    [
        (None, "needs to know the person"),
        (NAMES[:-1], "groups is of shape"),
        (np.where(WHO == 3, None, NAMES), "missing values"),
    ],
)
def test_wrong_groups_are_refused_and_nothing_is_spent(groups, message):
    with (
        PrivacyLedger(np.inf, DELTA, "replace_one_person", allow_seeds=True) as ledger,
        pytest.raises(ValueError, match=message),
    ):
        search_of().fit(X, Y, groups=groups)
    assert ledger.spent_epsilon == 0
    scorer = make_private_scorer("accuracy", epsilon=1.0, neighboring_relation="add_or_remove_one")
    with pytest.raises(ValueError, match="scoring and the search differ"):
        search_of(scoring=scorer).fit(X, Y, groups=NAMES)
