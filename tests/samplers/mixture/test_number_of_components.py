"""How many components: what the choice rests on, and what it finds."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from skdpbayes import DPGaussianMixturePosterior
from skdpbayes.samplers.mixture.plan import Scales
from skdpbayes.samplers.mixture.posterior import (
    MixtureState,
    NoisyStatistics,
    log_evidence,
    merge_closest,
    parameters_of_component,
)
from skdpbayes.samplers.mixture.statistics import merging_cost, together
from skdpbayes.samplers.statistics.requests import NoisySum

FAR = np.array([[-4.0, -2.0], [3.0, -3.0], [1.0, 4.0]])


def test_two_groups_together_have_their_rows_moments(rng):
    rows = [rng.normal(size=(300, 2)) @ rng.normal(size=(2, 2)) + i for i in range(2)]
    rows[1] = rows[1][:100]
    parts = [(len(x) / 400, x.mean(axis=0), np.cov(x.T, bias=True)) for x in rows]
    weight, mean, covariance = together(*parts)
    whole = np.concatenate(rows)
    assert weight == pytest.approx(1.0)
    np.testing.assert_allclose(mean, whole.mean(axis=0))
    np.testing.assert_allclose(covariance, np.cov(whole.T, bias=True))


def test_merging_cost_is_a_divergence_and_does_not_depend_on_coordinates():
    first, second = (
        (0.5, np.array([-1.0, 1.0]), np.array([1.0, 0.5])),
        (0.5, np.ones(2), np.ones(2)),
    )
    cost = merging_cost(first, second)
    angle = np.array([[0.6, -0.8], [0.8, 0.6]])
    turned = [(w, angle @ m, angle @ np.diag(v) @ angle.T) for w, m, v in (first, second)]
    matrices = [(w, m, np.diag(v)) for w, m, v in (first, second)]
    assert merging_cost(*matrices) == pytest.approx(cost, rel=1e-12)
    assert merging_cost(*turned) == pytest.approx(cost, rel=0.1)  # At other points.
    assert merging_cost(first, first) == pytest.approx(0.0, abs=1e-12)
    # By simulation.
    rng, total = np.random.default_rng(0), 0.0
    both = together(*matrices)
    for weight, mean, covariance in matrices:
        x = rng.multivariate_normal(mean, covariance, size=200_000)
        two = sum(w * multivariate_normal.pdf(x, m, c) for w, m, c in matrices)
        total += weight * np.mean(np.log(two) - multivariate_normal.logpdf(x, both[1], both[2]))
    assert cost == pytest.approx(total, rel=0.1)


@pytest.mark.parametrize("is_size_public", [True, False])
@pytest.mark.parametrize("noise_scale", [1.0, 50.0])
def test_evidence_is_the_density_of_what_was_released(rng, noise_scale, is_size_public):
    """One component whose rows are never cut off: sums of (1, z, z^2), of which moments are known."""
    scales = Scales(1.0, 0.5, 0.25, 1e9)
    looked = MixtureState("diag", np.array([500.0]), np.zeros((1, 1)), np.ones((1, 1)))
    sums = np.array([510.0, 40.0, 150.0])
    noisy_sum = NoisyStatistics(looked, scales, NoisySum(sums, noise_scale), np.zeros(3))
    found = []
    for mean, deviation in ((0.0, 1.0), (0.2, 1.1)):
        at = MixtureState("diag", np.array([500.0]), np.array([[mean]]), np.array([[deviation]]))
        square = mean**2 + deviation**2
        moments = np.array([1.0, mean, square, mean**3 + 3 * mean * deviation**2])
        fourth = mean**4 + 6 * (mean * deviation) ** 2 + 3 * deviation**4
        units = np.array([1.0, 0.5, 0.25])
        second = np.array(
            [[1.0, mean, square], [mean, square, moments[3]], [square, moments[3], fourth]]
        )
        if is_size_public:
            second = second - np.outer(moments[:3], moments[:3])
        covariance = 500.0 * second * np.outer(units, units) + noise_scale**2 * np.eye(3)
        expected = multivariate_normal.logpdf(sums, 500.0 * units * moments[:3], covariance)
        found.append(log_evidence(at, [noisy_sum], is_size_public) - expected)
    # The constant is left out; simulated rows have kurtosis to a few per cent.
    assert found[0] == pytest.approx(1.5 * np.log(2 * np.pi), abs=0.15)
    assert found[1] == pytest.approx(found[0], abs=0.15)


@pytest.mark.parametrize("kind, added", [("spherical", 4), ("diag", 5), ("tied", 3), ("full", 6)])
def test_what_a_component_adds_to_the_parameters(kind, added):
    factors = np.ones((3, 2)) if kind in ("spherical", "diag") else np.tile(np.eye(2), (3, 1, 1))
    reference = MixtureState(kind, np.ones(3), 0.1 * FAR, 0.05 * factors)
    assert parameters_of_component(reference) == added
    fewer = merge_closest(reference._replace(means=np.array([[0.5, 0.5], [0.0, 0.0], [0.0, 0.01]])))
    np.testing.assert_allclose(np.sort(fewer.counts), [1.0, 2.0])
    np.testing.assert_allclose(np.sort(fewer.means[:, 0]), [0.0, 0.5])
    assert fewer.factors.shape == (2, *factors.shape[1:])


@pytest.mark.nightly
@pytest.mark.parametrize("kind, k, epsilon", [("diag", 1, 3.0), ("diag", 3, 1.0), ("full", 3, 3.0)])
def test_number_of_groups_is_found(rng, kind, k, epsilon):
    X = FAR[rng.integers(k, size=10_000)] + rng.normal(size=(10_000, 2))
    options = {"epsilon": epsilon, "covariance_type": kind, "data_norm": 8.0, "random_state": 0}
    mixture = DPGaussianMixturePosterior("auto", **options).fit(X)
    assert mixture.n_components_ == mixture.weights_.size == k
    distances = np.linalg.norm(mixture.means_[:, None] - FAR[:k], axis=2)
    assert distances.min(axis=0).max() < 0.3
    # At no further cost, and with all that draws are good for.
    ten = DPGaussianMixturePosterior(10, **options).privacy_plan(10_000, 2)
    assert mixture.privacy_cost_ == ten.cost
    assert mixture.plan_.model.n_components == k
    assert f"{k} of up to 10" in str(mixture.plan_)
    assert mixture.predict_proba(X[:5]).shape == (5, k)
    assert mixture.sample_posterior(7, random_state=0).means.shape == (7, k, 2)
    assert len(mixture.summary()) == sum(part[0].size for part in mixture.posterior_samples_)


def test_the_largest_number_is_a_public_one(rng):
    X = FAR[rng.integers(3, size=20_000)] + rng.normal(size=(20_000, 2))
    options = {"data_norm": 8.0, "random_state": 0}
    mixture = DPGaussianMixturePosterior("auto", max_components=2, **options).fit(X)
    assert mixture.n_components_ == 2
    alone = DPGaussianMixturePosterior("auto", max_components=1, **options).fit(X)
    assert alone.n_components_ == 1
    # As many as may be released, whatever is asked for.
    plan = DPGaussianMixturePosterior("auto", max_components=50, covariance_type="full")
    assert plan.privacy_plan(100_000, 20).model.n_components == 3000 // 231


@pytest.mark.parametrize(
    "relation, steps", [("replace_one", 2 * np.sqrt(2.0)), ("add_or_remove_one", 2)]
)
def test_the_number_is_found_for_persons(rng, relation, steps):
    """What it is chosen from is charged for all rows of a person."""
    persons = rng.permutation(np.repeat(np.arange(5000), 2))
    X = FAR[rng.integers(3, size=10_000)] + rng.normal(size=(10_000, 2))
    mixture = DPGaussianMixturePosterior(
        "auto",
        epsilon=3.0,
        delta=1e-6,
        data_norm=8.0,
        neighboring_relation=relation,
        public_size=10_000 if relation == "add_or_remove_one" else None,
        max_rows_per_group=2,
        random_state=0,
    )
    plan = mixture.privacy_plan(5000, 2)
    mixture.fit(X, groups=persons)
    assert mixture.n_components_ == 3
    assert mixture.privacy_cost_ == plan.cost
    assert mixture.privacy_cost_.neighboring_relation == f"{relation}_person"
    assert 0.99 * 3.0 < mixture.spent_epsilon_ <= 3.0
    of_rows = mixture.plan_.persons.cost_of_rows
    assert of_rows.neighboring_relation == "add_or_remove_one"
    assert plan.cost.mu == pytest.approx(steps * of_rows.mu)
    assert mixture.plan_.budget.epsilon < 3.0 / (steps - 0.5)
    assert "-one-person" in str(mixture.plan_) and "3 of up to 10" in str(mixture.plan_)


def test_few_rows_have_few_groups(rng):
    X = FAR[rng.integers(3, size=300)] + rng.normal(size=(300, 2))
    mixture = DPGaussianMixturePosterior("auto", epsilon=0.1, data_norm=8.0, random_state=0).fit(X)
    assert mixture.n_components_ == 1


def test_without_privacy_a_number_is_needed():
    with pytest.raises(ValueError, match="give a number of components"):
        DPGaussianMixturePosterior("auto", epsilon=np.inf).privacy_plan(1000, 2)


@pytest.mark.parametrize("options", [{"n_components": "best"}, {"max_components": 0}])
def test_numbers_that_are_none(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        DPGaussianMixturePosterior(**options).fit(np.zeros((10, 2)))
