"""A new sampler is one class: estimators, messages and plans need to know nothing else of it."""

import math
from types import MappingProxyType

import numpy as np
import pytest

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPGaussianMixturePosterior,
)
from skdpbayes.privacy import PrivacyCost
from skdpbayes.samplers import Plan, Released, Sampler

N = 400


class Prior(Sampler):
    """Draws that read no record, and cost what a budget has."""

    name = "prior"

    def __init__(self, width=1e-3, n_steps=7):
        self.width = width
        self.n_steps = n_steps

    def _plan(self, bounds, n_samples, budget, n_draws):
        return Plan(
            sampler=self,
            n_samples=n_samples,
            bounds=bounds,
            budget=budget,
            cost=PrivacyCost(budget.neighboring_relation, mu=budget.mu * (1 - 1e-9)),
            temperature=1.0,
            n_steps=self.n_steps,
            n_burn_in=0,
            n_draws=n_draws or 5,
        )

    def run(self, plan, target, generator, verbose):
        shape = plan.n_draws, plan.n_parameters
        return Released(self.width * generator.standard_normal(shape), plan)


class Linear(Prior):
    """One that says that mixtures are not for it."""

    name = "only_linear"
    targets = frozenset({"linear"})


class Started(Prior):
    """One with an option that a mixture's start decides."""

    name = "started"
    set_by_start = MappingProxyType({"width": 1e-3})


class Paced(Prior):
    """One that reads a tenth of the records, after a burn-in."""

    name = "paced"

    def pace(self, bounds, n_samples):
        return 0.1, 0.5


def rows():
    return np.random.default_rng(0).uniform(-1, 1, (N, 2))


@pytest.mark.parametrize(
    "estimator",
    [
        DPBayesianLogisticRegression(data_norm=2.0, random_state=0),
        DPBayesianMLPClassifier((3,), data_norm=2.0, random_state=0),
        DPGaussianMixturePosterior(2, data_norm=2.0, random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_estimators_take_a_sampler_that_they_do_not_know(estimator):
    X = rows()
    fitted = estimator.set_params(sampler=Prior(), n_draws=6).fit(X, X[:, 0] > 0)
    assert fitted.plan_.name == "prior" and fitted.plan_.n_draws == 6
    assert 0.9 < fitted.spent_epsilon_ <= 1.0
    outputs = getattr(fitted, "predict_proba", None) or fitted.score_samples
    assert np.isfinite(outputs(X)).all()


def mixture(sampler, **options):
    estimator = DPGaussianMixturePosterior(2, data_norm=2.0, sampler=sampler, **options)
    return estimator.privacy_plan(N, 2)


def test_what_is_not_for_mixtures_is_told_what_is():
    message = (
        r"'only_linear' does not support mixtures, .* take one of 'auto', 'dp_fast_mh', "
        r"'dp_fast_mh_gaussian', 'dp_mh', 'noise_aware', 'penalty', 'sghmc', 'sgld', 'sgnht'\."
    )
    with pytest.raises(ValueError, match=message):
        mixture(Linear())


def test_an_option_that_the_start_decides_is_refused_if_set():
    assert mixture(Started()).name == "started"
    with pytest.raises(ValueError, match="width=0.5 does not go with sampler='started'"):
        mixture(Started(width=0.5))


def test_a_mixture_reckons_with_a_samplers_pace():
    plan = mixture(Paced(n_steps=400))
    assert plan.sampling_rate == 0.1 and plan.n_burn_in == 200
    assert not plan.halves_distances and math.isfinite(plan.cost.epsilon(plan.delta))


def test_a_path_with_unknown_noise_hides_gradients_whole():
    """Half the distance of two gradients is enough for sums of gradients alone, if a sampler says so."""
    assert mixture("sgld").halves_distances and not mixture(Prior()).halves_distances


def test_weights_are_for_samplers_that_take_them():
    X = rows()
    clf = DPBayesianLogisticRegression(sampler=Prior(), data_norm=2.0, max_sample_weight=1.0)
    message = "use one of 'auto', 'noise_aware', 'sghmc', 'sgld', 'sgnht'"
    with pytest.raises(ValueError, match=message):
        clf.fit(X, X[:, 0] > 0, sample_weight=np.ones(N))
