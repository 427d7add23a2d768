"""A new sampler is one class: estimators, messages and plans need to know nothing else of it."""

import numpy as np
import pytest

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPGaussianMixturePosterior,
)
from skdpbayes.models import TargetBounds
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


class OfMixtures(Prior):
    """One of mixtures: it takes their public numbers, and draws what canonical parameters are."""

    name = "of_mixtures"
    releases = "statistics"
    targets = frozenset({"mixture"})

    def plan(self, model, n_samples, budget, *, n_draws=None):
        bounds = TargetBounds(model.n_parameters, 1.0, 1.0, (1.0, 1.0))
        sampler = OfMixtures(model.n_components + model.n_components * model.n_features)
        return sampler._plan(bounds, n_samples, budget, n_draws)

    def check(self, plan, target):
        assert target.n_features == 2

    def run(self, plan, target, generator, verbose):
        # Equal weights, means at zero, and precisions of one.
        k = self.width // 3
        draw = np.concatenate([np.full(k, 1.0 / k), np.zeros(2 * k), np.ones(2 * k)])
        return Released(np.tile(draw, (plan.n_draws, 1)), plan)


def rows():
    return np.random.default_rng(0).uniform(-1, 1, (N, 2))


@pytest.mark.parametrize(
    "estimator",
    [
        DPBayesianLogisticRegression(data_norm=2.0, random_state=0),
        DPBayesianMLPClassifier((3,), data_norm=2.0, random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_estimators_take_a_sampler_that_they_do_not_know(estimator):
    X = rows()
    fitted = estimator.set_params(sampler=Prior(), n_draws=6).fit(X, X[:, 0] > 0)
    assert fitted.plan_.name == "prior" and fitted.plan_.n_draws == 6
    assert 0.9 < fitted.spent_epsilon_ <= 1.0
    assert np.isfinite(fitted.predict_proba(X)).all()


def test_what_is_not_for_mixtures_is_told_what_is():
    message = r"'prior' does not support mixtures: take one of 'auto', 'gibbs', 'noise_aware'\."
    with pytest.raises(ValueError, match=message):
        DPGaussianMixturePosterior(2, sampler=Prior()).fit(rows())


def test_a_sampler_of_mixtures_takes_their_model():
    options = {"data_norm": 2.0, "random_state": 0, "n_draws": 6}
    fitted = DPGaussianMixturePosterior(3, sampler=OfMixtures(), **options).fit(rows())
    assert fitted.plan_.name == "of_mixtures" and 0.9 < fitted.spent_epsilon_ <= 1.0
    assert fitted.posterior_samples_.means.shape == (6, 3, 2)
    np.testing.assert_allclose(fitted.score_samples(np.zeros((1, 2))), -np.log(2.0 * np.pi))


def test_weights_are_for_samplers_that_take_them():
    X = rows()
    clf = DPBayesianLogisticRegression(sampler=Prior(), data_norm=2.0, max_sample_weight=1.0)
    message = "use one of 'auto', 'noise_aware', 'sghmc', 'sgld', 'sgnht'"
    with pytest.raises(ValueError, match=message):
        clf.fit(X, X[:, 0] > 0, sample_weight=np.ones(N))
