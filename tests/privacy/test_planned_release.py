"""What a plan spends is computed and told in one place, whatever it is a plan of."""

import dataclasses
import pickle

import pytest

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.metrics import dp_accuracy_score, dp_roc_auc_score
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import PrivatePipeline, make_private_pipeline
from skdpbayes.preprocessing import DPImputer, DPOneHotEncoder
from skdpbayes.privacy import Budget, PrivacyCost
from skdpbayes.privacy.planned_release import PlannedRelease

LOGISTIC = DPBayesianLogisticRegression(classes=[0, 1])
PLANS = [
    LOGISTIC.privacy_plan(5_000, 4),
    LOGISTIC.set_params(max_rows_per_group=2).privacy_plan(5_000, 4),
    DPImputer("median").privacy_plan(5_000, 4),
    make_private_pipeline(DPImputer("median"), DPBayesianLogisticRegression()).privacy_plan(
        5_000, 4
    ),
    DPRandomizedSearchCV(DPBayesianLogisticRegression(), {}, delta=1e-6).privacy_plan(5_000),
    dp_accuracy_score([0, 1] * 50, [0, 1] * 50, epsilon=1.0).plan,
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: type(plan).__name__)
def test_a_plan_tells_what_its_cost_converts_to(plan):
    assert plan.delta == plan.budget.delta
    assert plan.epsilon == plan.cost.epsilon(plan.delta) <= plan.requested_budget.epsilon
    title, *lines = str(plan).splitlines()
    assert title.split()[-1] == "plan"
    assert f"asked for at most {plan.requested_budget.epsilon:g})" in str(plan)
    told = next(line for line in lines if line.startswith("  protects"))
    assert told.split()[1].strip(",") == plan.cost.neighboring_relation.replace("_", "-")
    assert pickle.loads(pickle.dumps(plan)).epsilon == plan.epsilon


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: type(plan).__name__)
def test_no_plan_converts_or_prints_by_itself(plan):
    """A second conversion could report another number than the one that was charged."""
    for kind in type(plan).__mro__[: type(plan).__mro__.index(PlannedRelease)]:
        assert not {"epsilon", "delta", "__str__"} & set(vars(kind)), kind


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: type(plan).__name__)
def test_a_number_that_was_planned_cannot_be_set(plan):
    for name in ("budget", "cost"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(plan, name, None)


def test_steps_named_like_lines_of_a_plan_hide_none():
    pipeline = PrivatePipeline(
        [("spends", DPImputer("median")), ("warning", DPBayesianLogisticRegression())]
    )
    names = [line.split()[0] for line in str(pipeline.privacy_plan(5_000, 4)).splitlines()[1:]]
    assert names.count("spends") == 2 and "protects" in names and "warning" in names


@pytest.mark.parametrize(
    "plan_or_score",
    [
        lambda **size: DPImputer("median", **size).privacy_plan(5_000, 4),
        lambda **size: DPOneHotEncoder(**size).privacy_plan(5_000, 4),
        lambda **size: DPBayesianLogisticRegression(**size).privacy_plan(5_000, 4),
        lambda **size: dp_roc_auc_score([0, 1] * 50, [0.0, 1.0] * 50, epsilon=1.0, **size),
    ],
)
def test_a_public_size_is_asked_for_in_the_same_words_everywhere(plan_or_score):
    with pytest.raises(ValueError, match="declare a public one, e.g. public_size=10_000"):
        plan_or_score(neighboring_relation="add_or_remove_one")
    with pytest.raises(ValueError, match="leave public_size=None"):
        plan_or_score(neighboring_relation="replace_one", public_size=100)


def test_epsilon_is_computed_once():
    """Conversions of long compositions take seconds, and a printed plan needs them several times."""
    asked = []

    class Cost(PrivacyCost):
        def epsilon(self, delta):
            asked.append(delta)
            return super().epsilon(delta)

    plan = dataclasses.replace(PLANS[2], budget=Budget(1.0, 1e-6), cost=Cost("replace_one", mu=0.1))
    assert str(plan) == str(plan) and plan.epsilon and asked == [1e-6]
