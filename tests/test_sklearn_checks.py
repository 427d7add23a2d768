"""scikit-learn's own checks, with no expected failures but of what weights cannot be."""

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
from skdpbayes.samplers import SGHMC, SGLD, resolve_sampler

ESTIMATORS = [
    DPBayesianLogisticRegression(),
    DPBayesianLogisticRegression(sampler=SGHMC(batch_size=5)),
    # Without privacy the tag `poor_score` is off: the checks ask for accuracy too.
    DPBayesianLogisticRegression(epsilon=np.inf),
    DPGaussianMixturePosterior(n_steps=50, n_draws=10),
    DPGaussianMixturePosterior(n_steps=50, n_draws=10, epsilon=np.inf),
    DPBayesianMLPClassifier((8,), n_steps=20, n_draws=5),
    DPBayesianMLPClassifier((8,), n_steps=300, n_draws=20, epsilon=np.inf),
    BoundedScaler(-1.0, 1.0),
    BoundedScaler(lower=0.0, upper=3.0, feature_range=(0, 1)),
    RowNormClipper(),
    DPImputer(),
    DPImputer(strategy="median"),
    DPOneHotEncoder(),
    DPQuantileScaler(),
]
OTHER_SAMPLERS = [
    DPBayesianLogisticRegression(sampler="ops"),
    DPBayesianLogisticRegression(sampler=SGLD(release="last_iterate", batch_size=5), n_draws=2),
    DPBayesianLogisticRegression(sampler=SGHMC(init="ops")),
    DPBayesianLogisticRegression(sampler="dp_fast_mh"),
]


NO_REPETITIONS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "plans depend on the number of rows, which is "
    "public, and weights are cut at a public maximum."
    for kind in ("dense", "sparse")
}
MAY_BE_ZERO = {
    "check_all_zero_sample_weights_error": "whether all weights are zero is private: a table of them has "
    "neighbours that are none."
}
NO_WEIGHTS = {
    f"check_sample_weights_{what}": "this sampler refuses weights."
    for what in ("pandas_series", "not_an_array", "list", "shape", "not_overwritten")
} | {"check_class_weight_classifiers": "this sampler refuses weights."}


def expected_failures(estimator):
    if not isinstance(estimator, DPBayesianLogisticRegression):
        return {}
    takes_weights = resolve_sampler(estimator.sampler).takes_weights
    return NO_REPETITIONS | (MAY_BE_ZERO if takes_weights else NO_WEIGHTS)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(OTHER_SAMPLERS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks_of_other_samplers(estimator, check):
    check(estimator)


def test_poor_scores_are_tagged_at_finite_epsilon_only():
    for epsilon, poor in ((1.0, True), (np.inf, False)):
        tags = DPBayesianLogisticRegression(epsilon=epsilon).__sklearn_tags__()
        assert tags.classifier_tags.poor_score is poor
