"""scikit-learn's own checks, with no expected failures."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.neural_network import DPBayesianMLPClassifier
from skdpbayes.preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    RowNormClipper,
)
from skdpbayes.samplers import SGHMC, SGLD

ESTIMATORS = [
    DPBayesianLogisticRegression(),
    DPBayesianLogisticRegression(sampler=SGHMC(batch_size=5)),
    DPBayesianLogisticRegression(sampler="ops"),
    DPBayesianLogisticRegression(sampler=SGLD(release="last_iterate", batch_size=5), n_draws=2),
    DPBayesianLogisticRegression(sampler=SGHMC(init="ops")),
    DPBayesianLogisticRegression(sampler="dp_fast_mh"),
    # Without privacy the tag `poor_score` is off: the checks ask for accuracy too.
    DPBayesianLogisticRegression(epsilon=np.inf),
    DPGaussianMixturePosterior(n_steps=50, n_draws=10),
    DPGaussianMixturePosterior(n_steps=50, n_draws=10, epsilon=np.inf),
    DPBayesianMLPClassifier((8,), n_steps=20, n_draws=5),
    DPBayesianMLPClassifier((8,), n_steps=300, n_draws=20, epsilon=np.inf),
    BoundedScaler(),
    BoundedScaler(lower=0.0, upper=3.0, feature_range=(0, 1)),
    RowNormClipper(),
    DPImputer(),
    DPImputer(strategy="median"),
    DPOneHotEncoder(),
    DPQuantileScaler(),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_poor_scores_are_tagged_at_finite_epsilon_only():
    for epsilon, poor in ((1.0, True), (np.inf, False)):
        tags = DPBayesianLogisticRegression(epsilon=epsilon).__sklearn_tags__()
        assert tags.classifier_tags.poor_score is poor
