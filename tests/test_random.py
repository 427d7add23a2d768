"""The generator: fresh and cryptographic by default, repeatable and announced with a seed."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from randomgen import AESCounter
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import SeedWarning
from skdpbayes.metrics import make_private_scorer
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.random import has_seeds, private_generator, separate_generator


def test_default_is_a_block_cipher_with_a_fresh_key():
    generators = [private_generator() for _ in range(3)]
    assert all(isinstance(g.bit_generator, AESCounter) for g in generators)
    assert len({g.integers(2**63) for g in generators}) == 3


@pytest.mark.parametrize(
    "make", [lambda: 7, lambda: np.random.RandomState(7), lambda: np.random.default_rng(7)]
)
def test_seeds_repeat(make):
    first, second = private_generator(make()), private_generator(make())
    np.testing.assert_array_equal(first.normal(size=5), second.normal(size=5))
    assert isinstance(first.bit_generator, AESCounter)


def test_a_shared_random_state_moves_on():
    state = np.random.RandomState(0)
    assert private_generator(state).normal() != private_generator(state).normal()


def test_seeds_are_announced_at_every_fit():
    """Python shows a warning once for each line by default, and an ensemble fits all members on one line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        warnings.simplefilter("always", SeedWarning, append=True)  # As in a fresh process.
        for _ in range(3):
            private_generator(0)
        private_generator()
    assert len(caught) == 3 and all("used for two fits" in str(one.message) for one in caught)


def test_a_fresh_process_shows_every_warning_of_a_seed():
    code = "from skdpbayes.random import private_generator\nfor _ in range(3): private_generator(0)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr.count("SeedWarning") == 3


def test_the_choices_beside_the_noise_are_announced_with_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        separate_generator(0, 1)


def test_normals_are_normal():
    values = private_generator(1).standard_normal(200_000)
    assert stats.kstest(values, "norm").pvalue > 1e-3


@pytest.mark.parametrize("seed", [-1, "seed", 1.5])
def test_seeds_that_are_none(seed):
    with pytest.raises(ValueError, match=r"[Ss]eed|random"):
        private_generator(seed)


def search_of(estimator, params=None, **options):
    return DPRandomizedSearchCV(estimator, params or {"data_norm": [1.0, 2.0]}, **options)


@pytest.mark.parametrize(
    "seeded",
    [
        lambda seed: DPBayesianLogisticRegression(random_state=seed),
        lambda seed: make_pipeline(
            StandardScaler(), DPBayesianLogisticRegression(random_state=seed)
        ),
        lambda seed: make_private_scorer("accuracy", epsilon=1.0, random_state=seed),
        lambda seed: search_of(
            DPBayesianLogisticRegression(),
            scoring=make_private_scorer("accuracy", epsilon=1.0, random_state=seed),
        ),
        lambda seed: search_of(DPBayesianLogisticRegression(random_state=seed)),
        lambda seed: search_of(DPBayesianLogisticRegression(), random_state=seed),
        lambda seed: search_of(
            make_pipeline("passthrough", DPBayesianLogisticRegression()),
            {"dpbayesianlogisticregression": [DPBayesianLogisticRegression(random_state=seed)]},
        ),
        lambda seed: GridSearchCV(
            DPBayesianLogisticRegression(),
            {"epsilon": [1.0]},
            scoring={"a": make_private_scorer("accuracy", epsilon=1.0, random_state=seed)},
            refit="a",
        ),
    ],
)
def test_seeds_are_found_wherever_they_are(seeded):
    assert has_seeds(seeded(0)) and not has_seeds(seeded(None))


def test_seeds_that_candidates_draw_are_seeds():
    assert has_seeds(search_of(DPBayesianLogisticRegression(), {"random_state": [0, 1]}))
    assert not has_seeds(make_pipeline(PCA(random_state=0), DPBayesianLogisticRegression()))


def test_a_seed_is_told_of_in_the_order_of_what_why_and_what_to_do():
    with pytest.warns(SeedWarning) as caught:
        private_generator(0)
    text = str(caught[0].message)
    parts = ["A seeded random_state", "can remove it", "For a release, fit with random_state=None"]
    assert sorted(parts, key=text.index) == parts and "BaggingClassifier" not in text
