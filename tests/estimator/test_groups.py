"""Fits that protect persons who have several rows: what is claimed, what attacks reach, what is refused."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_score,
    cross_validate,
)

from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier
from skdpbayes._data.privacy_units import check_groups
from skdpbayes.audit import audit_separation
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.metrics import make_private_scorer
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.model_selection import total_privacy_cost
from skdpbayes.models import TargetBounds
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import (
    Budget,
    PrivacyLedger,
    privacy_report,
)
from skdpbayes.privacy.units import plan_for_persons
from skdpbayes.samplers import SGHMC, SGLD

sys.path.insert(0, str(Path(__file__).parents[1] / "_helpers"))
from attacks import audit_path
from references import Tilt, configured, planned

N, PERSONS = 1500, 400


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    y = (X[:, 0] + rng.normal(size=N) > 0).astype(int)
    groups = np.array([f"person {i}" for i in rng.integers(PERSONS, size=N)])
    groups[:PERSONS] = [f"person {i}" for i in range(PERSONS)]
    return X, y, groups


def logistic(max_rows=3, **options):
    return configured(
        DPBayesianLogisticRegression(max_rows_per_group=max_rows, random_state=0), **options
    )


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_an_attack_on_persons_reaches_the_claim_and_does_not_pass_it(relation):
    """Three rows of one person, each as extreme as a row can be, on losses where nothing is lost."""
    k, steps = 3, 10_000
    bounds = TargetBounds(2, gradient_bound=1.0, smoothness=0.25, prior_precision=(0.2, 0.2))
    common, extreme = np.tile([0.0, 0.5], (9, 1)), np.tile([1.0, 0.0], (k, 1))
    second = np.vstack([common, -extreme]) if relation == "replace_one" else common
    rows = np.vstack([common, extreme]), second

    def make_plan(budget):
        sampler = SGLD(burn_in=0.0, step_size=0.02)
        return planned(sampler, bounds, len(rows[0]), budget, n_steps=steps, n_draws=steps)

    plan = plan_for_persons(make_plan, Budget(2000.0, 1e-5, relation), k)
    assert plan.cost.neighboring_relation == f"{relation}_person"
    tables = [Tilt(z, np.full(2, 0.2), 1.0) for z in rows]
    gradients = [lambda theta, z=z: np.tile(-z.sum(axis=0), (len(theta), 1)) for z in rows]
    result, claim = audit_path(tables, gradients, plan)
    assert result.mu - 3.5 * result.standard_error <= claim, "the claim is broken"
    assert result.mu >= 0.9 * claim, "the claim is loose, or the noise is too large"
    assert claim > 1.0


@pytest.mark.nightly
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_an_attack_on_fits_stays_within_the_claim(relation):
    """One step from zero, where gradients are half of what is charged for; of five rows two count."""
    k = 2
    common = np.tile([0.0, 0.3], (20, 1))
    own = np.tile([1.0, 0.0], (5, 1))
    X = np.vstack([own, common])
    groups = np.append(np.zeros(5), np.repeat(np.arange(1, 11), 2))
    labels = [np.append(np.full(5, which), np.arange(20) % 2) for which in (0, 1)]
    tables = [(X, labels[0], groups), (X, labels[1], groups)]
    public = None
    if relation == "add_or_remove_one":
        tables[1] = (common, labels[0][5:], groups[5:])
        public = 22
    drawn = []
    for which, table in enumerate(tables):
        values = []
        for seed in range(60):
            fit = DPBayesianLogisticRegression(
                20.0,
                1e-5,
                sampler=SGLD(n_steps=1),
                n_draws=1,
                data_norm=1.0,
                fit_intercept=False,
                classes=[0, 1],
                neighboring_relation=relation,
                public_size=public,
                max_rows_per_group=k,
                random_state=2 * seed + which,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit.fit(*table[:2], groups=table[2])
                values.append(fit.posterior_samples_[0, 0, 0])
        drawn.append(values)
    audit = audit_separation(drawn[1], drawn[0])
    claim = fit.privacy_cost_.mu
    assert abs(audit.mu) - 3.5 * audit.standard_error <= claim
    assert abs(audit.mu) > 0.35 * claim


def test_rows_beyond_the_limit_do_not_count(table):
    """As many copies of a person's row as one likes change nothing."""
    X, y, _ = table
    X, y = X[:200], y[:200]
    once = logistic(1).fit(X, y, groups=np.arange(200))
    many = logistic(1).fit(
        np.repeat(X, 4, axis=0), np.repeat(y, 4), groups=np.repeat(np.arange(200), 4)
    )
    np.testing.assert_array_equal(once.coef_, many.coef_)


@pytest.mark.parametrize(
    "estimator",
    [
        logistic(3),
        logistic(1),
        logistic(3, sampler="sghmc", n_steps=50),
        logistic(3, sampler="dp_mh", delta=0.0),
        DPBayesianMLPClassifier(
            (4,), sampler=SGHMC(n_steps=20), n_draws=5, max_rows_per_group=2, random_state=0
        ),
        DPGaussianMixturePosterior(2, epsilon=3.0, max_rows_per_group=2, random_state=0),
    ],
    ids=lambda e: f"{type(e).__name__}-{getattr(e, 'sampler', '')}-{e.max_rows_per_group}",
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_spend_what_was_asked_for_persons(estimator, table):
    X, y, groups = table
    model = clone(estimator).fit(X, y, groups=groups)
    assert 0.9 * model.epsilon < model.spent_epsilon_ <= model.epsilon
    assert model.privacy_cost_.neighboring_relation == "replace_one_person"
    assert model.plan_.budget.epsilon < model.epsilon or model.max_rows_per_group == 1
    assert "replace-one-person" in str(model.plan_)
    planned = estimator.privacy_plan(PERSONS, 2)
    assert planned.cost == model.privacy_cost_
    assert planned.n_samples == PERSONS * model.max_rows_per_group
    report = privacy_report(model)
    assert report["deployment"]["privacy_loss"]["privacy_unit"] == "User-level"


def test_without_privacy_rows_are_bounded_all_the_same(table):
    X, y, groups = table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = logistic(2, epsilon=np.inf, n_steps=200).fit(X, y, groups=groups)
    assert model.spent_epsilon_ == np.inf


def test_noise_grows_with_the_limit(table):
    X, y, groups = table
    fits = [logistic(k).fit(X, y, groups=groups) for k in (1, 2, 4)]
    multipliers = np.array([fit.plan_.moment_multiplier for fit in fits])
    # Two rows that are replaced are four steps, with half the sensitivity each, where vectors are summed;
    # second moments, which are .19 of the cost, move by 1 / sqrt(2) of that.
    four = 4.0 * np.sqrt(0.81 + 0.19 / 2.0)
    np.testing.assert_allclose(multipliers / multipliers[0], [1.0, four, 2.0 * four], rtol=1e-3)


# What is refused


def test_one_without_the_other_is_refused_before_anything_is_spent(table):
    X, y, groups = table
    with PrivacyLedger(10.0, 1e-5, "replace_one_person", allow_seeds=True) as ledger:
        with pytest.raises(ValueError, match="choose how many rows of a person"):
            logistic(None).fit(X, y, groups=groups)
        with pytest.raises(ValueError, match="pass fit"):
            logistic(3).fit(X, y)
        with pytest.raises(ValueError, match="batch_size=None"):
            logistic(3, sampler=SGLD(batch_size=100)).fit(X, y, groups=groups)
        with pytest.raises(ValueError, match="far below"):
            logistic(3, public_size=10).fit(X, y, groups=groups)
        with pytest.raises(ValueError, match="leave public_size=None"):
            logistic(1, public_size=10).fit(X, y, groups=groups)
        with pytest.raises(ValueError, match="max_rows_per_group"):
            logistic(0).fit(X, y, groups=groups)
        assert ledger.spent_epsilon == 0.0
        logistic(3, delta=1e-5).fit(X, y, groups=groups)
    assert 0.99 < ledger.spent_epsilon <= 1.0


def with_a_hole(kind):
    """Persons of whom the last is missing, as ``kind`` has it."""
    names = ["Jane Doe 12345"] * (N - 1)
    missing, dtype = kind
    if dtype == "list":
        return [*names, missing]
    if dtype == "pandas":
        return pd.Series([*names, missing], dtype="string")
    return np.array([*names, missing], dtype=dtype)


HOLES = {
    f"{missing}-{dtype}": (missing, dtype)
    for missing in (None, np.nan, pd.NA, pd.NaT)
    for dtype in ("list", "pandas", object)
}
if hasattr(np.dtypes, "StringDType"):
    HOLES["nan-numpy"] = np.nan, np.dtypes.StringDType(na_object=np.nan)


@pytest.mark.parametrize("kind", HOLES.values(), ids=HOLES)
def test_missing_groups_are_refused_by_name(table, kind):
    X, y, _ = table
    with pytest.raises(ValueError, match="groups has missing values.*leave them out") as caught:
        logistic().fit(X, y, groups=with_a_hole(kind))
    assert "12345" not in repr(caught.value) and caught.value.__context__ is None


@pytest.mark.parametrize(
    "groups", [np.full(N - 1, 12345), np.full((N, 2), 12345), ["12345"] * 7, [(1, 2)] * N]
)
def test_groups_of_another_shape_are_refused_by_name(table, groups):
    X, y, _ = table
    with pytest.raises(ValueError, match=r"groups is of shape.*must be \(1500,\)") as caught:
        logistic().fit(X, y, groups=groups)
    assert "12345" not in repr(caught.value)


@pytest.mark.parametrize("kind", [list, pd.Series, pd.Categorical, "string", "frame", "bytes"])
def test_groups_of_any_kind_are_the_same_persons(table, kind):
    groups = table[-1]
    made = {
        "string": lambda: pd.Series(groups, dtype="string"),
        "frame": lambda: pd.DataFrame({"who": groups}),
        "bytes": lambda: groups.astype("S"),
    }
    given = made[kind]() if kind in made else kind(groups)
    np.testing.assert_array_equal(check_groups(given, 2, N), check_groups(groups, 2, N))


def test_labels_that_have_no_order_are_refused(table):
    """Sorted sets may leave equal ones apart, and one person would be several."""
    X, y, _ = table
    for kinds in (({1}, {2}), (1, "a")):
        groups = np.empty(N, dtype=object)
        groups[:] = [frozenset(kinds[i % 2]) if kinds[0] == {1} else kinds[i % 2] for i in range(N)]
        with pytest.raises(ValueError, match="no order"):
            DPBayesianLogisticRegression(max_rows_per_group=1).fit(X, y, groups=groups)


def test_ledgers_for_rows_refuse_persons(table):
    X, y, groups = table
    with (
        PrivacyLedger(10.0, 1e-5, allow_seeds=True) as ledger,
        pytest.raises(ValueError, match="different things"),
    ):
        logistic(3).fit(X, y, groups=groups)
    assert ledger.spent_epsilon == 0.0


# Through scikit-learn


def test_groups_are_routed(table):
    X, y, groups = table
    with sklearn.config_context(enable_metadata_routing=True):
        model = logistic(3, classes=[0, 1]).set_fit_request(groups=True)
        pipeline = make_private_pipeline(
            BoundedScaler(-3.0, 3.0), logistic(None, classes=[0, 1]), max_rows_per_group=1
        ).set_fit_request(groups=True)
        for one in (model, pipeline):
            found = cross_validate(
                one,
                X,
                y,
                cv=GroupKFold(2),
                params={"groups": groups},
                return_estimator=True,
                error_score="raise",
            )
            for fitted in found["estimator"]:
                relation = fitted.privacy_cost_.neighboring_relation
                assert relation == "replace_one_person"


def test_groups_part_folds_and_are_routed_to_fits_and_searches(table):
    X, y, groups = table
    folds = GroupKFold(3, shuffle=True, random_state=0)
    parts = [set(groups[test]) for _, test in folds.split(X, y, groups)]
    assert sum(map(len, parts)) == PERSONS == len(set().union(*parts))
    training = [PERSONS - len(part) for part in parts]
    fast = logistic(1, classes=[0, 1], delta=1e-5, sampler="sghmc", n_steps=20, n_draws=2)
    with (
        sklearn.config_context(enable_metadata_routing=True),
        PrivacyLedger(100.0, 1e-3, "replace_one_person", allow_seeds=True) as ledger,
    ):
        model = clone(fast).set_fit_request(groups=True)
        search = GridSearchCV(model, {"epsilon": [0.5, 2.0]}, cv=folds, error_score="raise")
        search.fit(X, y, groups=groups)
        scores = cross_val_score(model, X, y, params={"groups": groups}, cv=folds)
        assert np.isfinite(scores).all()
    fits = [clone(fast).set_params(epsilon=epsilon) for epsilon in (0.5, 2.0, 1.0)]
    planned = [fit.privacy_plan(size, 2).cost for fit in fits for size in training]
    best = search.best_estimator_
    assert best.plan_.n_samples == PERSONS
    assert best.privacy_cost_.neighboring_relation == "replace_one_person"
    total = sum(planned, best.privacy_cost_)
    assert ledger.spent_epsilon == pytest.approx(total.epsilon(1e-3), rel=1e-6)
    assert len(ledger.records()) == 3 * 3 + 1


def test_no_total_is_claimed_where_folds_or_scores_are_of_rows(table):
    X, y, groups = table
    scorer = make_private_scorer("accuracy", epsilon=0.5, random_state=0)
    scorer = scorer.set_score_request(groups=False)
    fast = logistic(1, classes=[0, 1], delta=1e-5, sampler="sghmc", n_steps=20, n_draws=2)
    search = GridSearchCV(fast, {"epsilon": [1.0]}, scoring=scorer, cv=KFold(2))
    with sklearn.config_context(enable_metadata_routing=True):
        fast.set_fit_request(groups=True)
        search.fit(X, y, groups=groups)
        with pytest.raises(ValueError, match=r"set_score_request\(groups=True\)"):
            total_privacy_cost(search)
        scorer.set_score_request(groups=True)
        for folds in (KFold(2), GroupKFold(2), GroupKFold(2, shuffle=True, random_state=0)):
            search.set_params(cv=folds).fit(X, y, groups=groups)
            with pytest.raises(ValueError, match="must be in one, which is drawn"):
                total_privacy_cost(search)
    alone = np.unique(groups, return_index=True)[1]
    scorer.set_score_request(groups=None)
    search.set_params(estimator__max_rows_per_group=None, cv=KFold(2)).fit(X[alone], y[alone])
    assert 1.4 < total_privacy_cost(search).epsilon(1e-5) < 2.5
    search.set_params(cv=GroupKFold(2, shuffle=True))
    with pytest.raises(ValueError, match="no total for these folds"):
        total_privacy_cost(search)


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_the_total_of_persons_is_that_of_a_person_in_the_worst_fold(table, in_pipeline):
    """Of two folds of 200 persons a person is scored in one and fitted on in the other, and in the end."""
    X, y, groups = table
    scorer = make_private_scorer("accuracy", epsilon=0.5, random_state=0)
    scorer = scorer.set_score_request(groups=True)
    fast = logistic(2, classes=[0, 1], delta=1e-5, sampler="sghmc", n_steps=20, n_draws=2)
    if in_pipeline:
        fast.set_params(max_rows_per_group=None, delta=None)
        fast = make_private_pipeline(fast, max_rows_per_group=2, delta=1e-5)
    folds = GroupKFold(2, shuffle=True)
    with sklearn.config_context(enable_metadata_routing=True):
        fast.set_fit_request(groups=True)
        search = GridSearchCV(fast, {"epsilon": [0.5, 1.0]}, scoring=scorer, cv=folds)
        search.fit(X, y, groups=groups)
        options = {"params": {"groups": groups}, "return_estimator": True}
        found = cross_validate(fast, X, y, cv=folds, scoring=scorer, **options)
    half = [clone(fast).set_params(epsilon=e).privacy_plan(200, 2).cost for e in (0.5, 1.0)]
    best = search.best_estimator_.privacy_cost_
    exact = sum([*half, scorer.privacy_cost, scorer.privacy_cost], best)
    total = total_privacy_cost(search)
    assert total.neighboring_relation == "replace_one_person"
    assert total.epsilon(1e-5) == pytest.approx(exact.epsilon(1e-5), rel=1e-6)
    total = total_privacy_cost(found, cv=folds, scoring=scorer)
    assert total == found["estimator"][0].privacy_cost_ + scorer.privacy_cost


@pytest.fixture
def steps():
    sizes = {"neighboring_relation": "add_or_remove_one", "public_size": 900}
    return DPQuantileScaler(**sizes), logistic(None, classes=[0, 1], **sizes), sizes


def test_a_pipeline_bounds_rows_once_for_all_steps(table, steps):
    X, y, groups = table
    scaler, last, _ = steps
    pipe = make_private_pipeline(
        scaler, DPImputer(), last, epsilon=2.0, delta=1e-5, max_rows_per_group=3
    )
    seen = []
    plan = pipe.privacy_plan(PERSONS, 2)
    with pytest.MonkeyPatch.context() as patch:
        fit = DPQuantileScaler.fit
        patch.setattr(
            DPQuantileScaler, "fit", lambda self, X, y=None: (seen.append(X), fit(self, X, y))[1]
        )
        pipe.fit(X, y, groups=groups)
    kept = sum(min(3, count) for count in np.unique(groups, return_counts=True)[1])
    assert [len(rows) for rows in seen] == [kept]
    assert pipe.privacy_cost_ == plan.cost
    assert plan.cost.neighboring_relation == "add_or_remove_one_person"
    assert 1.8 < plan.epsilon <= 2.0
    of_rows = pipe[0].privacy_cost_ + pipe[-1].privacy_cost_
    assert of_rows.epsilon(1e-5) < plan.persons.cost_of_rows.epsilon(1e-5) + 1e-9
    assert plan.cost.mu == pytest.approx(3 * plan.persons.cost_of_rows.mu)
    assert "add-or-remove-one-person" in str(plan) and "at most 2)" in str(plan)
    with (
        PrivacyLedger(1.0, 1e-5, "add_or_remove_one_person", allow_seeds=True),
        pytest.raises(BudgetExceededError),
    ):
        pipe.fit(X, y, groups=groups)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_categories_of_persons_are_found_in_a_row_of_each(table, relation):
    """Common ones are found, one of a person with many rows is not, and the plan says what it costs."""
    X, y, groups = table
    regions = np.where(X[:, 0] > 0, "east", "west").astype(object)
    loud = groups == groups[0]
    regions[loud] = "nowhere"
    frame = pd.DataFrame({"region": regions})
    sizes = {} if relation == "replace_one" else {"public_size": PERSONS}
    sizes["neighboring_relation"] = relation
    pipe = make_private_pipeline(
        DPOneHotEncoder(**sizes),
        DPBayesianLogisticRegression(classes=[0, 1], **sizes),
        epsilon=20.0,
        delta=1e-5,
        max_rows_per_group=1,
    ).fit(frame, y, groups=groups)
    assert set(pipe[0].categories_[0]) == {"east", "west"}
    assert pipe.privacy_cost_ == pipe.plan_.cost
    assert pipe.privacy_cost_.neighboring_relation == f"{relation}_person"
    assert 15.0 < pipe.spent_epsilon_ <= 20.0
    encoder, model = (step.privacy_cost_.epsilon(1e-5) for step in pipe)
    assert max(encoder, model) < pipe.spent_epsilon_


def test_pipelines_refuse_what_they_cannot_account_for(table, steps):
    X, y, groups = table
    scaler, last, _ = steps
    with pytest.raises(ValueError, match="choose how many rows"):
        make_private_pipeline(scaler, last).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="pass fit"):
        make_private_pipeline(scaler, last, max_rows_per_group=2).fit(X, y)
    with pytest.raises(ValueError, match="set it in the pipeline"):
        make_private_pipeline(scaler, clone(last).set_params(max_rows_per_group=2)).fit(X, y)
    walk = logistic(None, sampler="dp_mh", n_steps=20, classes=[0, 1], delta=None)
    with pytest.raises(ValueError, match="max_rows_per_group=1"):
        make_private_pipeline(DPQuantileScaler(), walk, max_rows_per_group=2).fit(
            X, y, groups=groups
        )
    with pytest.raises(ValueError, match="leave public_size=None"):
        steps = DPQuantileScaler(public_size=900), logistic(None, classes=[0, 1])
        make_private_pipeline(*steps, max_rows_per_group=2).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="positive integer"):
        make_private_pipeline(scaler, last, max_rows_per_group=0.5).privacy_plan(100, 2)
