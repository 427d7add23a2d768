"""A norm that is learnt privately: its cost, what it depends on, and what it finds."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from references import ColumnTable, configured, itself
from sklearn.compose import make_column_transformer
from sklearn.metrics import log_loss
from sklearn.preprocessing import OneHotEncoder

from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import DPQuantileScaler
from skdpbayes.privacy import BoundedRangeDecisions, PrivacyCost, PrivacyLedger
from skdpbayes.privacy.charge import dominates
from skdpbayes.random import separate_generator

N, D = 3000, 40


@pytest.fixture
def table():
    """Rows of four dummies each: of norm 2 in 40 columns."""
    rng = np.random.default_rng(0)
    X = np.zeros((N, D))
    for j in range(4):
        X[np.arange(N), 10 * j + rng.integers(10, size=N)] = 1.0
    y = (X @ rng.normal(size=D) + 0.3 * rng.logistic(size=N) > 0).astype(int)
    return X, y


def logistic(epsilon=1.0, **options):
    options = {"data_norm": "auto", "classes": [0, 1], "random_state": 0, **options}
    return configured(DPBayesianLogisticRegression(epsilon), **options)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
@pytest.mark.parametrize("sampler", ["auto", "sgfs"])
def test_the_choice_and_the_fit_use_up_the_budget_and_no_more(relation, epsilon, sampler):
    size = N if relation == "add_or_remove_one" else None
    model = logistic(epsilon, neighboring_relation=relation, public_size=size, sampler=sampler)
    plan = model.privacy_plan(N, D)
    assert 0.999 * epsilon < plan.epsilon <= epsilon
    bits = BoundedRangeDecisions(plan.bound_release.log_odds_range, 1)
    fit = plan.bound_release.cost_of_fit
    assert plan.cost == PrivacyCost(relation, decisions=(bits,)) + fit
    assert fit.mu >= plan.as_run().budget.mu
    # A choice of range r is about as much as mu = r / 2.
    whole = logistic(epsilon, data_norm=2.0, delta=plan.delta).privacy_plan(N, D).budget
    assert (plan.bound_release.log_odds_range / 2) ** 2 == pytest.approx(
        0.02 * whole.mu**2, rel=1e-6
    )
    assert fit.mu > 0.98 * whole.mu
    assert "norm of rows" in str(plan)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_norm_is_found_and_rows_are_clipped_to_it(table, is_sparse):
    X, y = table
    rows = sp.csr_matrix(X) if is_sparse else X
    model = logistic(1.0).fit(rows, y)
    assert model.data_norm_ == pytest.approx(2.0, rel=1e-3)
    assert model.plan_.bounds.row_norm < 3.0
    assert model.spent_epsilon_ <= 1.0
    assert model.plan_.cost == logistic(1.0).privacy_plan(N, D).cost
    long = model.predict_proba(100.0 * X[:5])
    np.testing.assert_allclose(long, model.predict_proba(X[:5]), atol=0.05)


@pytest.mark.nightly
def test_a_norm_that_is_found_predicts_better_than_one_that_is_too_large(table):
    """At a budget at which noise matters."""
    found, default = logistic(0.3).fit(*table), logistic(0.3, data_norm=None).fit(*table)
    assert found.score(*table) > default.score(*table) + 0.02
    assert log_loss(table[1], found.predict_proba(table[0])) < 0.9 * log_loss(
        table[1], default.predict_proba(table[0])
    )


@pytest.mark.nightly
def test_what_follows_depends_on_the_norm_alone(table):
    """Tables with the same norms have the same plan, whatever else they hold; and the cost never changes."""
    X, y = table
    plans = [logistic(1.0).fit(*one).plan_ for one in ((X, y), (-X[:, ::-1], 1 - y), (7.0 * X, y))]
    assert plans[0] == plans[1]
    assert plans[0].bounds != plans[2].bounds
    assert plans[0].cost == plans[2].cost and plans[0].budget == plans[2].budget


def test_the_draw_is_that_of_a_private_quantile(table):
    from skdpbayes._mechanisms.exponential import draw_quantiles

    X, y = table
    X = X * np.random.default_rng(1).uniform(0.5, 2.0, size=(N, 1))
    plan = logistic(1.0).privacy_plan(N, D)
    norms = np.linalg.norm(X, axis=1)
    level, quantile = plan.bound_release.log_odds_range, plan.bound_release.norm_quantile
    how = (quantile,), level, separate_generator(5, 2), N
    ((expected, _),) = draw_quantiles(ColumnTable(norms), itself, *how)
    assert logistic(1.0, random_state=5).fit(X, y).data_norm_ == expected
    assert abs(np.mean(norms <= expected) - quantile) < 0.1


def test_units_do_not_matter(table):
    X, y = table
    fits = [logistic(3.0).fit(unit * X, y) for unit in (1.0, 1000.0)]
    np.testing.assert_allclose(
        fits[0].predict_proba(X), fits[1].predict_proba(1000.0 * X), atol=0.02
    )


def test_too_few_rows_have_the_default_norm():
    model = logistic(0.3)
    plan = model.privacy_plan(100, 4)
    assert plan.bound_release is None and plan == logistic(0.3, data_norm=None).privacy_plan(100, 4)
    rng = np.random.default_rng(0)
    assert model.fit(rng.normal(size=(100, 4)), np.arange(100) % 2).data_norm_ == 2.0


def test_a_ledger_is_charged_once_and_before_the_norm(table, monkeypatch):
    X, y = table
    with PrivacyLedger(1.0, 1e-5, allow_seeds=True) as ledger:
        logistic(1.0, delta=1e-5).fit(X, y)
    assert 0.999 < ledger.spent_epsilon <= 1.0
    drawn = []
    monkeypatch.setattr("skdpbayes._estimator.bounds.draw_quantiles", lambda *_: drawn.append(1))
    with PrivacyLedger(0.5, 1e-5, allow_seeds=True) as ledger, pytest.raises(BudgetExceededError):
        logistic(1.0, delta=1e-5).fit(X, y)
    assert ledger.spent_epsilon == 0 and not drawn


def test_a_fit_that_fails_after_the_norm_has_spent_it_all(table, monkeypatch):
    X, y = table

    def fails(*_):
        raise RuntimeError("after the norm")

    monkeypatch.setattr("skdpbayes.models.linear.make_linear", fails)
    with (
        PrivacyLedger(1.0, 1e-5, allow_seeds=True) as ledger,
        pytest.raises(RuntimeError, match="after the norm"),
    ):
        logistic(1.0, delta=1e-5).fit(X, y)
    assert 0.999 < ledger.spent_epsilon <= 1.0
    assert [row["status"] for row in ledger.records()] == ["failed"]


def test_persons_and_weights_go_with_it(table):
    X, y = table
    model = logistic(3.0, max_rows_per_group=2, max_sample_weight=2.0)
    model.fit(X, y, groups=np.arange(N) // 3, sample_weight=np.full(N, 1.5))
    assert 2.9 < model.spent_epsilon_ <= 3.0
    assert model.privacy_cost_.neighboring_relation == "replace_one_person"
    assert model.data_norm_ == pytest.approx(2.0, rel=1e-2)
    assert model.privacy_cost_.decisions[0].log_odds_range == pytest.approx(
        4 * model.plan_.bound_release.log_odds_range
    )


def test_without_privacy_it_is_the_quantile(table):
    X, y = table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = logistic(np.inf, n_steps=300, n_draws=50).fit(X[:400], y[:400])
    assert model.data_norm_ == pytest.approx(2.0, rel=1e-3)
    assert math.isinf(model.spent_epsilon_) or model.spent_epsilon_ > 100


@pytest.mark.parametrize(
    "options, named",
    [
        ({"sampler": "dp_fast_mh"}, "not Gaussian"),
        ({"sampler": "dp_mh", "delta": 0.0}, "not Gaussian"),
        ({"data_norm": "automatic"}, "data_norm"),
    ],
)
def test_what_cannot_be_planned_is_refused(table, options, named):
    X, y = table
    with PrivacyLedger(10.0, 1e-5) as ledger, pytest.raises(ValueError, match=named):
        logistic(1.0, **options).fit(X, y)
    assert ledger.spent_epsilon == 0


@pytest.fixture(scope="module")
def groups():
    rng = np.random.default_rng(0)
    centres = np.array([[-4.0, -2.0], [3.0, -3.0], [1.0, 4.0]])
    return centres[rng.choice(3, 6000)] + rng.normal(size=(6000, 2))


@pytest.mark.nightly
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_mixtures_have_groups_in_any_units(groups, relation):
    size = len(groups) if relation == "add_or_remove_one" else None
    options = {"neighboring_relation": relation, "public_size": size, "delta": 1e-5}
    mixture = DPGaussianMixturePosterior(3, data_norm="auto", random_state=0, **options)
    plan = mixture.privacy_plan(*groups.shape)
    fit = plan.bound_release.cost_of_fit
    assert (
        plan.cost
        == PrivacyCost(
            relation, decisions=(BoundedRangeDecisions(plan.bound_release.log_odds_range, 1),)
        )
        + fit
    )
    scores = []
    for unit in (1.0, 1000.0):
        with PrivacyLedger(1.0, 1e-5, relation, allow_seeds=True) as ledger:
            mixture.fit(unit * groups)
        assert 0.999 < ledger.spent_epsilon == mixture.spent_epsilon_ <= 1.0
        assert [row["status"] for row in ledger.records()] == ["completed"]
        assert mixture.plan_.cost == plan.cost
        quantile = np.quantile(
            np.linalg.norm(unit * groups, axis=1), plan.bound_release.norm_quantile
        )
        assert mixture.data_norm_ == pytest.approx(1.5 * quantile, rel=0.05)
        scores.append(mixture.score(unit * groups) + 2 * math.log(unit))
    known = DPGaussianMixturePosterior(3, data_norm=10.0, random_state=0, **options).fit(groups)
    np.testing.assert_allclose(scores, known.score(groups), atol=0.01)


def test_too_few_rows_have_the_default_norm_in_mixtures(groups):
    plans = [
        DPGaussianMixturePosterior(1, data_norm=norm, epsilon=0.3).privacy_plan(100, 2)
        for norm in ("auto", None)
    ]
    assert plans[0] == plans[1]


@pytest.mark.nightly
def test_the_calibration_of_networks_finds_it(groups):
    labels = (groups[:, 0] > 0).astype(int)
    scores = []
    for unit in (0.2, 5.0):
        network = DPBayesianMLPClassifier((4,), epsilon=3.0, data_norm="auto", random_state=0)
        network.fit(unit * groups, labels)
        typical = np.median(np.linalg.norm(unit * groups, axis=1))
        assert 0.5 < network.row_norm_ / typical < 2.0 and network.spent_epsilon_ <= 3.0
        usual = DPBayesianMLPClassifier((4,), epsilon=3.0).privacy_plan(*groups.shape)
        assert network.plan_.cost == usual.cost
        scores.append(network.score(unit * groups, labels))
    assert min(scores) > 0.95
    with pytest.raises(ValueError, match="calibration above 0"):
        DPBayesianMLPClassifier(data_norm="auto", calibration=0).privacy_plan(1000, 2)


@pytest.mark.nightly
def test_a_pipeline_charges_for_it_exactly(table):
    X, y = table
    pipe = make_private_pipeline(
        DPQuantileScaler(random_state=0), logistic(), epsilon=2.0, delta=1e-5
    ).fit(X, y)
    own, before = pipe[-1].privacy_cost_, pipe[0].privacy_cost_
    assert 1.99 < pipe.spent_epsilon_ <= 2.0
    assert (own + before).epsilon(1e-5) == pytest.approx(pipe.spent_epsilon_, rel=1e-4)
    paid = pipe.plan_.step_costs["dpbayesianlogisticregression"]
    assert len(paid.decisions) == 1 and not paid.pure_events
    assert (
        dominates(paid, own) and not dominates(paid, own + own) and not dominates(own, paid + own)
    )


@pytest.mark.parametrize("n_samples", [700, 780])
def test_a_last_step_with_few_rows_is_charged_for_any_width(n_samples):
    encoder = OneHotEncoder(categories=[list(range(300))], handle_unknown="ignore")
    columns = make_column_transformer((DPQuantileScaler(), [0]), (encoder, [1]))
    last = logistic(sampler="sghmc", prior_scale=0.05)
    plan = make_private_pipeline(columns, last, epsilon=1.0, delta=1e-5).privacy_plan(n_samples, 2)
    epsilon, delta = plan.step_budgets["dpbayesianlogisticregression"]
    wide = last.set_params(epsilon=epsilon, delta=delta).privacy_plan(n_samples, 301)
    assert (
        wide.cost.mu <= plan.step_costs["dpbayesianlogisticregression"].mu and plan.epsilon <= 1.0
    )
