"""The sampler is chosen from public sizes."""

import math

import pytest
from references import planned

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.models import Logistic, TargetBounds
from skdpbayes.privacy import Budget
from skdpbayes.privacy.conversions import gaussian_mu
from skdpbayes.samplers import SGFS, SGHMC, Auto

BOUNDS = TargetBounds(50, 1.0, 0.25, (0.16, 0.16), convex=True, row_norm=1.0, family=Logistic())


def choose(n=100_000, epsilon=1.0, bounds=BOUNDS, relation="replace_one", **options):
    budget = Budget(epsilon, 1e-5, relation)
    return planned(Auto, bounds, n, budget, **{"batch_size": None, **options}).name


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("d", [3, 50, 300])
@pytest.mark.parametrize("norm", [0.1, 1.0, 20.0])
def test_the_matrix_must_say_more_than_its_noise(epsilon, d, norm):
    """About n mu >= 2 d^(3/2), whatever the norm of the rows is."""
    bounds = TargetBounds(
        d, norm, norm**2 / 4, (0.16 * norm**2,) * 2, row_norm=norm, family=Logistic()
    )
    edge = 2.24 * d**1.5 / gaussian_mu(epsilon, 1e-5)
    assert choose(math.ceil(1.1 * edge), epsilon, bounds) == "sgfs"
    assert choose(math.floor(0.9 * edge), epsilon, bounds) == "sghmc"


def test_where_little_is_tempered_there_is_nothing_to_gain():
    assert choose(epsilon=1.0) == "sgfs"
    assert choose(epsilon=10.0) == "sghmc"
    assert choose(bounds=BOUNDS._replace(prior_precision=(100.0, 100.0))) == "sghmc"


def test_without_privacy_coordinates_cost_nothing():
    assert choose(100, epsilon=math.inf) == "sgfs"
    many = BOUNDS._replace(n_parameters=3000, n_blocks=10)
    assert choose(10**9, epsilon=math.inf, bounds=many) == "sghmc"
    assert choose(10**9, epsilon=0.1, bounds=many) == "sgfs"


def test_targets_without_rows_and_wide_ones_are_left_to_the_other():
    assert choose(bounds=BOUNDS._replace(row_norm=None)) == "sghmc"
    assert choose(10**9, bounds=BOUNDS._replace(n_parameters=3000)) == "sghmc"
    # Ten classes of fifty coefficients have one matrix of fifty.
    assert choose(bounds=BOUNDS._replace(n_parameters=500, n_blocks=10)) == "sgfs"


@pytest.mark.parametrize(
    "options", [{"temperature": 2.0}, {"n_steps": 500}, {"batch_size": 1000}, {"friction": 0.5}]
)
def test_what_only_chains_have_asks_for_one(options):
    budget = Budget(1.0, 1e-5)
    assert planned(Auto, BOUNDS, 100_000, budget).name == "noise_aware"
    assert planned(Auto, BOUNDS, 100_000, budget, n_draws=7).n_draws == 7
    assert planned(Auto, BOUNDS, 100_000, budget, **options).name in ("sgfs", "sghmc")


@pytest.mark.parametrize("changed", [{"row_norm": None}, {"n_parameters": 201}])
def test_what_it_is_not_for_gets_a_chain(changed):
    assert (
        planned(Auto, BOUNDS._replace(**changed), 100_000, Budget(1.0, 1e-5)).name != "noise_aware"
    )
    plan = planned(Auto, BOUNDS._replace(**changed), 1000, Budget(math.inf, 1e-5))
    assert plan.name != "noise_aware"


def test_without_privacy_it_is_the_posterior_itself():
    plan = planned(Auto, BOUNDS, 100_000, Budget(math.inf, 1e-5))
    assert plan.name == "noise_aware" and plan.is_calibrated and math.isinf(plan.epsilon)
    assert planned(Auto, BOUNDS, 1000, Budget(math.inf, 1e-5), n_steps=5000).name == "sgfs"


@pytest.mark.parametrize("options", [{"share": 0.9}, {"temperature": 20.0}, {"n_draws": 500}])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("n, chosen", [(100_000, SGFS), (1000, SGHMC)])
def test_options_are_passed_on(options, relation, n, chosen):
    budget = Budget(1.0, 1e-5, relation)
    options = dict(options)
    if "share" in options:
        options["batch_size"] = int(options.pop("share") * n)
    plan = planned(Auto, BOUNDS, n, budget, friction=0.3, burn_in=0.5, **options)
    found = planned(chosen, BOUNDS, n, budget, friction=0.3, burn_in=0.5, **options)
    assert repr(plan) == repr(found)  # A temperature may be NaN.
    assert type(plan.sampler) is chosen and plan.epsilon <= 1.0


def test_it_is_the_default():
    clf = DPBayesianLogisticRegression()
    assert clf.privacy_plan(100_000, 20).name == "noise_aware"
    assert clf.privacy_plan(200, 20, n_classes=5).name == "noise_aware"
    assert clf.privacy_plan(100_000, 300).name == "sgfs"
