"""A plan that costs more than it was made for is refused before a ledger is charged, whoever made it."""

from dataclasses import replace

import numpy as np
import pytest

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes._estimator import bounds
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.metrics import _base, dp_accuracy_score
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.models import Logistic
from skdpbayes.models.linear import linear_bounds, make_linear
from skdpbayes.pipeline import _pipeline, make_private_pipeline
from skdpbayes.preprocessing import DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import Budget, PrivacyCost, PrivacyLedger
from skdpbayes.privacy.charge import charge
from skdpbayes.samplers import SGLD, NoiseAware, sample
from skdpbayes.samplers.statistics import plan as noise_aware

N = 613  # Plans are cached: this one is nobody else's.
ROWS = np.random.default_rng(0).uniform(-0.5, 0.5, (N, 3))
LABELS = np.arange(N) % 2
BUDGET = Budget(1.0, 1e-6)


def refused(release, what="was made for at most 1:"):
    with PrivacyLedger(np.inf, 1e-6) as ledger:
        with pytest.raises(BudgetExceededError, match=what):
            release()
    assert ledger.records() == []


@pytest.mark.parametrize(
    ("module", "name", "more", "estimator"),
    [
        (noise_aware, "LABEL_SHARE", 0.8, DPBayesianLogisticRegression(sampler="noise_aware")),
        (noise_aware, "MOMENT_SHARE", 0.2, DPBayesianLogisticRegression(sampler="noise_aware")),
        (bounds, "_ROUNDING_ALLOWANCE", 1.1, DPBayesianLogisticRegression(data_norm="auto")),
    ],
)
def test_one_share_that_is_raised_is_refused(monkeypatch, module, name, more, estimator):
    estimator.set_params(epsilon=1.0, delta=1.7e-6)
    monkeypatch.setattr(module, name, more)
    refused(lambda: estimator.fit(ROWS[:-1], LABELS[:-1]))


class Dear(SGLD):
    """Somebody's own, which does not look at the budget."""

    def plan(self, bounds, n_samples, budget, **options):
        dear = budget._replace(epsilon=1.2 * budget.epsilon)
        return super().plan(bounds, n_samples, dear, **options).changed(budget=budget)


class Elsewhere(SGLD):
    """Somebody's own, whose cost is one of other neighbours."""

    def plan(self, bounds, n_samples, budget, **options):
        plan = super().plan(bounds, n_samples, budget, **options)
        return plan.changed(cost=PrivacyCost("add_or_remove_one", mu=plan.cost.mu / 2))


def target():
    return make_linear(ROWS, LABELS, Logistic(), 1.0, 0.0, np.ones(3))


BOUNDS = linear_bounds(Logistic(), 1.0, np.ones(3))


def test_a_sampler_of_ones_own_is_refused():
    plan = Dear().plan(BOUNDS, N, BUDGET)
    refused(lambda: sample(target(), plan))
    model = DPBayesianLogisticRegression(sampler=Dear(), delta=1e-6)
    refused(lambda: model.fit(ROWS, LABELS))
    plan = Elsewhere().plan(BOUNDS, N, BUDGET)
    refused(lambda: sample(target(), plan), "add_or_remove_one")


def test_so_is_a_plan_that_costs_persons_more_than_they_were_promised():
    model = DPBayesianLogisticRegression(delta=1e-6, max_rows_per_group=2)
    plan = model.privacy_plan(N, 3)
    dearer = plan.changed(cost=replace(plan.cost, mu=1.2 * plan.cost.mu))
    assert plan.cost.epsilon(1e-6) <= 1 < dearer.cost.epsilon(1e-6)
    refused(lambda: charge(dearer))
    rows = plan.changed(cost=plan.persons.cost_of_rows)
    refused(
        lambda: charge(rows), "'replace_one_person', but its cost is one under 'add_or_remove_one'"
    )


def test_a_plan_without_a_ceiling_is_carried_out():
    plan = NoiseAware().plan(BOUNDS, N, Budget(np.inf, 1e-6), n_draws=2)
    assert sample(target(), plan, random_state=0).shape == (2, 3)


def twice(made):
    def dear(*args, **options):
        plan = made(*args, **options)
        cost = {"cost": plan.cost + plan.cost}
        if hasattr(plan, "_replace"):
            return plan._replace(**cost)
        return plan.changed(**cost) if hasattr(plan, "changed") else replace(plan, **cost)

    return dear


def test_so_are_scores_searches_pipelines_and_preprocessing(monkeypatch):
    monkeypatch.setattr(_base, "plan_score", twice(_base.plan_score))
    refused(lambda: dp_accuracy_score(LABELS, LABELS, epsilon=1.0))
    for kind in (DPQuantileScaler, DPImputer, DPOneHotEncoder):
        options = {"strategy": "median"} if kind is DPImputer else {}
        made = kind(epsilon=1.0, delta=1e-6, **options)
        monkeypatch.setattr(made, "privacy_plan", twice(made.privacy_plan))
        refused(lambda made=made: made.fit(ROWS))
    monkeypatch.setattr(_pipeline, "plan_pipeline", twice(_pipeline.plan_pipeline))
    steps = DPQuantileScaler(), DPBayesianLogisticRegression(classes=[0, 1])
    refused(lambda: make_private_pipeline(*steps, epsilon=1.0, delta=1e-6).fit(ROWS, LABELS))
    model = DPBayesianLogisticRegression(classes=[0, 1])
    search = DPRandomizedSearchCV(model, {"prior_scale": [1.0, 2.0]}, epsilon=1.0, delta=1e-6)
    monkeypatch.setattr(search, "privacy_plan", twice(search.privacy_plan))
    refused(lambda: search.fit(ROWS, LABELS))
