"""After validation nothing that a user sees depends on records, whatever numbers they hold."""

import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from fit_warnings import FIT_WARNINGS

from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.preprocessing import BoundedScaler, RowNormClipper
from skdpbayes.samplers import SGFS, SGHMC, NoiseAware, Released

rng = np.random.default_rng(0)
X = rng.normal(size=(64, 3))
y = np.arange(64) % 2

ODD = {
    "zero": [0.0, 0.0, 0.0],
    "negative zero": [-0.0, -0.0, -0.0],
    "subnormal": [1e-310, 0.0, 0.0],
    "subnormal squares": [1e-160, -1e-170, 0.0],
    "far apart": [1e308, 5e-324, -1.0],
    "long": [1e200, -1e200, 1e200],
    "longest": [np.finfo(np.float64).max] * 3,
}


def with_rows(row):
    """The table, a third of whose rows are this one, with either sign in turn."""
    table = X.copy()
    table[20:41] = row
    table[20:41:2] *= -1.0
    return table


def twice_as_sparse(table):
    """The table with two entries in every place, which add up to the table's."""
    half = sp.csr_array(0.5 * table)
    columns = np.repeat(half.indices.reshape(-1, 1), 2, axis=1).ravel()
    return sp.csr_array((np.repeat(half.data, 2), columns, 2 * half.indptr), shape=half.shape)


def shown(function, *args):
    """Warnings of all kinds, numpy's for underflow included."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn"):
        warnings.simplefilter("always")
        function(*args)
    # A plan that a release completes says what follows from the release, which is paid for.
    return [(w.category, str(w.message)) for w in caught if w.category not in FIT_WARNINGS]


def logistic():
    return DPBayesianLogisticRegression(sampler=SGFS(n_steps=40), n_draws=5, random_state=0)


def network():
    return DPBayesianMLPClassifier((3,), sampler=SGHMC(n_steps=10), n_draws=5, random_state=0)


def mixture():
    return DPGaussianMixturePosterior(2, n_draws=5, random_state=0)


@pytest.mark.parametrize(
    "make, container",
    [
        (logistic, np.asarray),
        (logistic, sp.csr_array),
        (logistic, twice_as_sparse),
        (network, np.asarray),
        (mixture, np.asarray),
        (RowNormClipper, np.asarray),
        (RowNormClipper, sp.csr_array),
        (partial(BoundedScaler, -1.0, 1.0), np.asarray),
    ],
)
def test_what_a_fit_says_does_not_depend_on_records(make, container):
    tables = {name: container(with_rows(row)) for name, row in ODD.items()}
    make().fit(container(X), y)  # What is said once a process is said.
    usual = shown(make().fit, container(X), y)
    assert not any(issubclass(category, RuntimeWarning) for category, _ in usual)
    for name, table in tables.items():
        assert shown(make().fit, table, y) == usual, name


@pytest.mark.parametrize("make", [logistic, network, mixture])
def test_predictions_are_silent_and_finite(make):
    clf = make().fit(X, y)
    for row in ODD.values():
        with warnings.catch_warnings(), np.errstate(all="warn"):
            warnings.simplefilter("error")
            assert np.isfinite(clf.predict_proba(with_rows(row))).all()


@pytest.fixture
def no_sampler(monkeypatch):
    """What labels do to validation can be seen without a chain."""

    def run(sampler, plan, *_):
        return Released(np.zeros((plan.n_draws, plan.n_parameters)), plan)

    for sampler in (NoiseAware, SGFS, SGHMC):
        monkeypatch.setattr(sampler, "run", run)


@pytest.mark.parametrize("make", [DPBayesianLogisticRegression, DPBayesianMLPClassifier])
@pytest.mark.parametrize(
    "classes, tables",
    [
        ([1.0, 1.5, 2.0], [[1.0] * 4, [1.5] * 4, [1.0, 1.5, 1.0, 1.5], [1.0, 2.0, 2.0, 1.0]]),
        (range(40), [np.arange(40), np.zeros(40), np.arange(40) % 3]),
        (["a", "b"], [["a"] * 4, ["b"] * 4, ["a", "b", "a", "b"]]),
        ([False, True], [[0, 0, 0], [1, 1, 0]]),
        ([-1e308, 0.0, 1e308], [[0.0, -0.0] * 4, [1e308] * 8, [1e308, -1e308] * 4, [-1e308] * 8]),
    ],
)
def test_which_declared_labels_occur_does_not_show(no_sampler, make, classes, tables):
    """Neither their number nor whether they are whole: scikit-learn would warn, or refuse some."""

    def fit(labels):
        clf = make(epsilon=1.0, classes=classes).fit(np.ones((len(labels), 2)), labels)
        assert clf.classes_.size == len(classes)

    usual = shown(fit, tables[0])
    for labels in tables[1:]:
        assert shown(fit, labels) == usual


@pytest.mark.parametrize("make", [DPBayesianLogisticRegression, DPBayesianMLPClassifier])
@pytest.mark.parametrize(
    "classes, labels",
    [
        ([0, 1], [0, 1, 12345]),
        ([0, 1], ["0", "12345", "1"]),
        (["a", "b"], ["a", "b", "12345"]),
        (["a", "b"], np.array(["a", 12345, "b"], dtype=object)),
        ([0.0, 0.5], [0.0, 0.5, 12345.0]),
    ],
)
def test_labels_that_were_not_declared_are_refused_and_not_quoted(
    no_sampler, make, classes, labels
):
    with pytest.raises(ValueError, match="not in classes") as caught:
        make(classes=classes).fit(np.ones((3, 2)), labels)
    assert "12345" not in repr(caught.value)


@pytest.mark.parametrize("make", [DPBayesianLogisticRegression, DPBayesianMLPClassifier])
def test_labels_without_a_declaration_are_scikit_learn_s_affair(no_sampler, make):
    with pytest.raises(ValueError, match="continuous"):
        make().fit(np.ones((3, 2)), [0.0, 0.5, 1.0])
