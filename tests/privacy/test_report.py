"""Privacy reports: JSON with the fields of a public schema, and no claim beyond the cost."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPGaussianMixturePosterior,
)
from skdpbayes.audit import audit_scores
from skdpbayes.privacy import (
    BoundedRangeDecisions,
    Budget,
    PrivacyCost,
    PrivacyLedger,
    SampledGaussian,
    privacy_report,
)
from skdpbayes.report.account import Account

X, y = make_classification(500, 4, random_state=0)
# Of the registry's schema (schemas/deployments-schema.yaml), whose objects take no other properties.
SCHEMA = {
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {
        "privacy_unit",
        "privacy_unit_details",
        "privacy_parameters",
        "privacy_parameters_details",
    },
    "deployment_model": {
        *("model_name", "model_name_details", "actors", "release_type", "release_type_details"),
        *("data_source_type", "data_source_type_details", "access_type", "access_type_details"),
    },
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
}
CHOICES = {
    ("dp_variant", "variant_name"): {
        *("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
    },
    ("deployment_model", "model_name"): {"Local", "Central", "Shuffle", "Federated", "Varies"},
    ("deployment_model", "release_type"): {"One release", "Many releases"},
    ("deployment_model", "access_type"): {"Interactive", "Non-interactive"},
}


def checked(obj):
    """Return the report of an object, after a look at its form."""
    report = privacy_report(obj)
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    deployment = report["deployment"]
    assert deployment.keys() == SCHEMA.keys()
    for part, fields in deployment.items():
        assert fields.keys() <= SCHEMA[part]
        for name, value in fields.items():
            assert isinstance(value, dict if name == "privacy_parameters" else str)
            assert value in CHOICES.get((part, name), [value])
    assert deployment["privacy_loss"]["privacy_parameters"].keys() <= {"epsilon", "delta", "rho"}
    return deployment, report["details"]


def test_a_fitted_estimator():
    model = DPBayesianLogisticRegression(1.0, delta=1e-6).fit(X, y)
    deployment, details = checked(model)
    assert deployment["privacy_loss"]["privacy_parameters"] == {
        "epsilon": model.spent_epsilon_,
        "delta": 1e-6,
    }
    assert deployment["deployment_model"]["release_type"] == "One release"
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    assert "labels" in deployment["dp_variant"]["unprotected_quantities"]
    assert details["releases"][0]["estimator"] == "DPBayesianLogisticRegression"
    assert details["cost"]["mu"] == model.privacy_cost_.mu and details["warnings"] == []
    assert details["neighbors"] == "bounded" and details["versions"]["skdpbayes"]


def test_what_weakens_a_guarantee_is_said():
    model = DPBayesianLogisticRegression(1.0, classes=[0, 1], random_state=0).fit(X, y)
    deployment, details = checked(model)
    assert "random_state" in details["warnings"][0]
    assert "labels" not in deployment["dp_variant"]["unprotected_quantities"]


@pytest.mark.parametrize(
    "model, named",
    [
        (DPBayesianMLPClassifier(), ["Poisson-subsampled Gaussian", "decisions of bounded range"]),
        (DPGaussianMixturePosterior(2), ["Gaussian mechanism"]),
        (DPBayesianLogisticRegression(sampler="dp_fast_mh", delta=0.0), ["decisions"]),
    ],
)
def test_plans(model, named):
    plan = model.privacy_plan(20_000, 4)
    deployment, details = checked(plan)
    for text in named:
        assert text in deployment["implementation"]["mechanisms"]
    parameters = {"epsilon": plan.epsilon, "delta": plan.delta}
    if plan.delta == 0:
        del parameters["delta"]
    assert deployment["privacy_loss"]["privacy_parameters"] == parameters
    assert deployment["dp_variant"]["variant_name"].startswith("Approx" if plan.delta else "Pure")
    assert details["releases"][0]["plan"] == plan.summary()


def test_no_privacy_is_no_guarantee():
    plan = DPBayesianLogisticRegression(np.inf).privacy_plan(1000, 4)
    deployment, details = checked(plan)
    assert deployment["privacy_loss"]["privacy_parameters"] == {}
    assert deployment["privacy_loss"]["privacy_parameters_details"].startswith("None")
    assert deployment["dp_variant"]["variant_name"] == "Custom"
    assert details["cost"]["epsilon"] is details["budget"]["epsilon"] is None


def test_a_ledger_in_which_something_was_not_private():
    ledger = PrivacyLedger(np.inf, 1e-6)
    for mu in (0.1, np.inf):
        ledger.reserve(PrivacyCost("replace_one", mu=mu))
    deployment, details = checked(ledger)
    assert deployment["privacy_loss"]["privacy_parameters"] == {}
    assert [row["total_epsilon"] is None for row in details["releases"]] == [False, True]


def test_other_neighbours():
    model = DPBayesianLogisticRegression(neighboring_relation="add_or_remove_one", public_size=1000)
    deployment, details = checked(model.privacy_plan(1000, 4))
    assert details["neighbors"] == "unbounded"
    assert "one row in addition" in deployment["privacy_loss"]["privacy_unit_details"]
    assert "number of rows" not in deployment["dp_variant"]["unprotected_quantities"]


def test_a_ledger(tmp_path):
    ledger = PrivacyLedger(2.0, 1e-6, path=tmp_path / "ledger", label="pilot")
    assert checked(ledger)[0]["privacy_loss"]["privacy_parameters"]["epsilon"] == 0.0
    with ledger:
        DPBayesianLogisticRegression(0.5, delta=1e-6).fit(X, y)
    deployment, details = checked(ledger)
    ledger.reserve(PrivacyCost("replace_one", sampled=(SampledGaussian(30.0, 0.1, 10),)))
    deployment, details = checked(ledger)
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    assert parameters == {"epsilon": ledger.spent_epsilon, "delta": 1e-6}
    assert "the ceiling is epsilon = 2" in deployment["privacy_loss"]["privacy_parameters_details"]
    assert deployment["deployment_model"]["release_type"] == "Many releases"
    assert "no plan was chosen by looking" in deployment["accounting"]["composition"]
    assert [row["status"] for row in details["releases"]] == ["completed", "reserved"]
    assert [row["label"] for row in details["releases"]] == ["pilot"] * 2


class Whole:
    """Something of several steps, that knows what it released."""

    def _privacy_account(self):
        cost = PrivacyCost("replace_one", mu=0.1, decisions=(BoundedRangeDecisions(0.01, 3),))
        steps = ({"estimator": "scaler"}, {"estimator": "model"})
        return Account("pipeline", cost, Budget(1.0, 1e-6), steps, warnings=("a leak",))


def test_objects_may_bring_an_account_of_their_own():
    deployment, details = checked(Whole())
    assert details["of"] == "pipeline" and details["warnings"] == ["a leak"]
    assert deployment["deployment_model"]["release_type"] == "Many releases"


def test_an_audit_is_a_line_of_the_report():
    plan = DPBayesianLogisticRegression(epsilon=1.0, delta=1e-6).privacy_plan(5000, 10)
    audit = audit_scores([1.0] * 50, [0.0] * 50, delta=1e-6, claimed_epsilon=1.0)
    report = privacy_report(plan, audit=audit)
    assert report["details"]["audit"] == audit.verdict and "more than" in audit.verdict
    assert "audit" not in privacy_report(plan)["details"]


def test_a_plan_of_another_package_has_a_report():
    cost, budget = PrivacyCost("replace_one", mu=0.3), Budget(1.0, 1e-5)
    bare = privacy_report(SimpleNamespace(cost=cost, budget=budget))
    assert (
        bare["summary"]["name"] == "SimpleNamespace"
        and bare["summary"]["protected"]["rows"] is None
    )
    named = SimpleNamespace(cost=cost, budget=budget, name="theirs", n_samples=400)
    report = privacy_report(named)
    assert report["summary"]["name"] == "theirs"
    assert report["summary"]["protected"]["rows"]["number"] == 400
    spent = cost.epsilon(1e-5)
    assert report["summary"]["spent"]["epsilon"] == bare["summary"]["spent"]["epsilon"] == spent


def test_what_has_no_report():
    with pytest.raises(NotFittedError, match="privacy_plan"):
        privacy_report(DPBayesianLogisticRegression())
    for obj in (LogisticRegression().fit(X, y), 3, PrivacyCost("replace_one")):
        with pytest.raises(TypeError, match="fitted estimator, a plan or a ledger"):
            privacy_report(obj)
    with pytest.raises(TypeError, match="of type ndarray") as refused:
        privacy_report(np.full(3, 8128.0))
    assert "8128" not in str(refused.value), "no cell is quoted"
