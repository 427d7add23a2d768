"""What samplers release besides draws is a record, which reads as a mapping of what there is."""

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor, DPBayesianRidge
from skdpbayes.samplers.base import Diagnostics


def test_a_record_reads_as_a_mapping_of_what_there_is():
    record = Diagnostics(acceptance_rate=0.5, n_iter=0)
    assert dict(record) == {"acceptance_rate": 0.5, "n_iter": 0} and len(record) == 2
    assert "r_hat" not in record and record.r_hat is None and record.get("r_hat", 1.0) == 1.0
    with pytest.raises(KeyError):
        record["r_hat"]
    assert dict(replace(record, n_iter=3))["n_iter"] == 3
    assert dict(pickle.loads(pickle.dumps(record))) == dict(record)


def test_a_record_has_no_names_that_are_not_documented():
    with pytest.raises(TypeError, match="acceptance"):
        Diagnostics(acceptance=0.5)
    for field in fields(Diagnostics):
        assert field.name in Diagnostics.__doc__


@pytest.mark.parametrize("name", ["mine", "own", "law", "items"])
def test_a_sampler_of_ones_own_names_its_numbers_as_it_likes(name):
    assert dict(Diagnostics.of({name: 1.0, "n_iter": 2})) == {name: 1.0, "n_iter": 2}


def test_none_is_kept_of_a_name_of_ones_own_and_is_no_number_of_a_field():
    found = Diagnostics.of({"mine": None, "r_hat": None, "n_iter": 2})
    assert dict(found) == {"mine": None, "n_iter": 2} and len(found) == 2


@pytest.mark.parametrize(
    "model, y",
    [
        (DPBayesianLogisticRegression(random_state=0), lambda x: x > 0.0),
        (DPBayesianRidge((-2.0, 2.0), random_state=0), lambda x: x),
        (DPBayesianPoissonRegressor(5, random_state=0), lambda x: np.floor(2.0 + 2.0 * x)),
    ],
)
def test_estimators_publish_the_fields_of_the_record(model, y):
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (500, 3))
    released = model.fit(X, y(X[:, 0])).released_
    record = Diagnostics.of(released)
    assert set(record.own) == {"coordinate_scale"} and set(record) == set(released)
    assert record.posterior is released["posterior"]
