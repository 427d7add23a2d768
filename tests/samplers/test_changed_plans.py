"""A plan whose fields were changed has another cost than the one it shows, and is not made at all."""

import pickle
from copy import copy, deepcopy
from dataclasses import replace

import numpy as np
import pytest

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.neural_network import DPBayesianMLPClassifier
from skdpbayes.privacy import PrivacyCost

N = 2000
SAMPLERS = ["noise_aware", "sghmc", "sgld", "sgfs", "ops", "bbb", "dp_fast_mh", "penalty"]
PLANS = [
    *(DPBayesianLogisticRegression(sampler=name).privacy_plan(N, 3) for name in SAMPLERS),
    DPBayesianMLPClassifier().privacy_plan(N, 3, 2),
    DPGaussianMixturePosterior(2).privacy_plan(N, 3),
    DPGaussianMixturePosterior(2, epsilon=np.inf).privacy_plan(N, 3),
    DPBayesianLogisticRegression(data_norm="auto").privacy_plan(N, 3),
    DPBayesianLogisticRegression(max_rows_per_group=2).privacy_plan(N, 3),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
@pytest.mark.parametrize("field", ["n_draws", "n_steps", "cost", "budget", "n_samples"])
def test_replacing_a_field_is_refused(plan, field):
    nothing = PrivacyCost("replace_one")
    value = nothing if field == "cost" else plan.budget if field == "budget" else 10 * N
    with pytest.raises(ValueError, match="fields of a plan belong together"):
        replace(plan, **{field: value})


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_copies_are_plans(plan):
    for again in (copy(plan), deepcopy(plan), pickle.loads(pickle.dumps(plan)), plan.changed()):
        assert again.cost == plan.cost and str(again) == str(plan)


def test_a_state_of_errors_of_scipy_does_not_end_a_fit():
    """It is a setting of the process, like NumPy's."""
    from scipy import special

    X = np.random.default_rng(0).normal(size=(300, 2)) * [1e300, 1e-300]
    with special.errstate(all="raise"):
        model = DPBayesianLogisticRegression(classes=[0, 1], n_draws=5).fit(X, X[:, 0] > 0)
        model.predict_proba(X)
