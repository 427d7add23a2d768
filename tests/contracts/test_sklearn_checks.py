"""scikit-learn's own checks: what fails is what weights cannot be, and what fails for its own Pipeline."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
)
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.neural_network import DPBayesianMLPClassifier
from skdpbayes.pipeline import PrivatePipeline, make_private_pipeline
from skdpbayes.preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    RowNormClipper,
)
from skdpbayes.samplers import SGHMC, SGLD, Gibbs, resolve_sampler


class WholeCounts(DPBayesianPoissonRegressor):
    """Counts of the checks rounded: they take any positive numbers, and the estimator whole ones only."""

    def fit(self, X, y, sample_weight=None, groups=None, *, exposure=None, client=None):
        return super().fit(X, _whole(y), sample_weight, groups, exposure=exposure, client=client)

    def score(self, X, y, sample_weight=None, exposure=None):
        return super().score(X, _whole(y), sample_weight, exposure)


def _whole(y):
    numbers = np.asarray(y)
    return np.rint(numbers) if numbers.dtype.kind == "f" else y


CHAIN = DPBayesianLogisticRegression(sampler=SGHMC(n_steps=50), n_draws=10, random_state=0)
ESTIMATORS = [
    # What estimators do is the same around any sampler: this one is checked in a few seconds.
    CHAIN,
    # Without privacy the tag `poor_score` is off: the checks ask for accuracy too.
    DPBayesianLogisticRegression(epsilon=np.inf),
    WholeCounts(max_count=20, sampler=SGHMC(n_steps=50), n_draws=10),
    DPBayesianRidge((-500.0, 500.0), sampler=Gibbs(n_steps=100), n_draws=50, epsilon=np.inf),
    DPGaussianMixturePosterior(n_draws=10),
    DPBayesianMLPClassifier((8,), sampler=SGHMC(n_steps=20), n_draws=5),
    BoundedScaler(-1.0, 1.0),
    BoundedScaler(lower=0.0, upper=3.0, feature_range=(0, 1)),
    RowNormClipper(),
    DPImputer(),
    DPImputer(strategy="median"),
    DPOneHotEncoder(),
    # Bounds that 30 rows leave to chance may differ by less than single precision holds.
    DPQuantileScaler(epsilon=1000.0),
    make_private_pipeline(BoundedScaler(-1, 1), CHAIN),
    make_private_pipeline(DPQuantileScaler(random_state=0), DPImputer(), epsilon=1000.0),
]
LONGER = [
    DPBayesianLogisticRegression(),
    DPBayesianRidge((-500.0, 500.0), n_draws=20),
    DPGaussianMixturePosterior(sampler=Gibbs(n_steps=50), n_draws=10, epsilon=np.inf),
    DPBayesianMLPClassifier((8,), sampler=SGHMC(n_steps=300), n_draws=20, epsilon=np.inf),
    WholeCounts(max_count=20, sampler=SGHMC(n_steps=500), epsilon=np.inf),
    make_private_pipeline(DPQuantileScaler(random_state=0), DPImputer(), CHAIN),
    make_private_pipeline(
        DPQuantileScaler(random_state=0), DPImputer(), DPBayesianLogisticRegression(random_state=0)
    ),
    DPBayesianLogisticRegression(sampler="ops"),
    DPBayesianLogisticRegression(sampler=SGLD(release="last_iterate", batch_size=5), n_draws=2),
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
} | {
    name: "this sampler refuses weights."
    for name in ("check_class_weight_classifiers", "check_all_zero_sample_weights_error")
}


# Of scikit-learn's own Pipeline, too.
FITS_ITS_STEPS = {
    name: "a pipeline fits the steps that it was given, as scikit-learn's does."
    for name in ("check_estimators_overwrite_params", "check_dont_overwrite_parameters")
}
TAKES_NAN = {
    "check_estimators_nan_inf": "it imputes, and scikit-learn's pipelines have no tag for it."
}


def expected_failures(estimator):
    if isinstance(estimator, PrivatePipeline):
        imputes = any(isinstance(step, DPImputer) for step in estimator)
        return FITS_ITS_STEPS | (TAKES_NAN if imputes else {})
    linear = DPBayesianLogisticRegression | DPBayesianPoissonRegressor | DPBayesianRidge
    if not isinstance(estimator, linear):
        return {}
    takes_weights = resolve_sampler(estimator.sampler).takes_weights
    return NO_REPETITIONS | (MAY_BE_ZERO if takes_weights else NO_WEIGHTS)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.DataScalingWarning")
@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PosteriorWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.DataScalingWarning")
@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PosteriorWarning")
@parametrize_with_checks(LONGER, expected_failed_checks=expected_failures)
def test_scikit_learn_checks_that_take_longer(estimator, check):
    check(estimator)


def test_poor_scores_are_tagged_at_finite_epsilon_only():
    for epsilon, poor in ((1.0, True), (np.inf, False)):
        tags = DPBayesianLogisticRegression(epsilon=epsilon).__sklearn_tags__()
        assert tags.classifier_tags.poor_score is poor


@pytest.mark.parametrize(
    "steps", [(BoundedScaler(-1, 1), LogisticRegression()), (BoundedScaler(-1, 1), DPImputer())]
)
def test_private_pipelines_fail_no_check_that_other_pipelines_pass(steps):
    results = check_estimator(make_pipeline(*steps), on_fail=None, on_skip=None)
    failed = {one["check_name"] for one in results if one["status"] == "failed"}
    private = make_private_pipeline(*steps)
    assert set(expected_failures(private)) <= failed
