"""First attempts that go wrong: messages name what was given and what to do, and nothing is spent."""

import os
import re
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier

from skdpbayes import DPBayesianLogisticRegression as Logistic
from skdpbayes import DPBayesianMLPClassifier as Network
from skdpbayes import DPGaussianMixturePosterior as Mixture
from skdpbayes import metrics
from skdpbayes._data.columns import encode_labels, labels_in
from skdpbayes.exceptions import BudgetExceededError, LedgerFileError
from skdpbayes.preprocessing import BoundedScaler, DPQuantileScaler
from skdpbayes.privacy import PrivacyCost, PrivacyLedger
from skdpbayes.samplers import SGHMC

N = 360
X = np.random.default_rng(0).uniform(-1, 1, (N, 3))
Y = np.arange(N) % 2
TEXT = np.array(["no", "yes"])[Y]
SCORES = [
    metrics.dp_accuracy_score,
    metrics.dp_log_loss,
    metrics.dp_brier_score,
    metrics.dp_roc_auc_score,
    metrics.dp_confusion_matrix,
    metrics.dp_calibration_curve,
]


@pytest.fixture(autouse=True)
def ledger():
    """Nothing may be spent."""
    with PrivacyLedger(100.0, 1e-3) as ledger:
        yield ledger
    assert ledger.spent_epsilon == 0


@pytest.mark.parametrize(
    "one", [Logistic(), Network((4,)), Mixture(), DPQuantileScaler()], ids=repr
)
@pytest.mark.parametrize("table", [None, [], 3.0, [1.0, 2.0], [[]], "table"], ids=repr)
def test_no_table(one, table):
    with pytest.raises((ValueError, TypeError)) as caught:
        one.fit(table, Y)
    assert re.search(r"\bX\b|2D array|sample\(s\)|feature\(s\)|number", str(caught.value))
    assert "subscriptable" not in str(caught.value) and "2." not in str(caught.value)


@pytest.mark.parametrize("kind", [Logistic, Network, Mixture])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_persons_with_far_too_many_rows_are_refused_by_name(kind, relation):
    size = None if relation == "replace_one" else 1000
    one = kind(max_rows_per_group=10**9, neighboring_relation=relation, public_size=size)
    with pytest.raises(ValueError, match="Lower max_rows_per_group, or raise epsilon"):
        one.privacy_plan(1000, 5)


@pytest.mark.parametrize("cost", [0.5, None, "1", 1, [PrivacyCost("replace_one", mu=0.1)]])
def test_only_costs_are_charged(ledger, cost):
    with pytest.raises(TypeError, match=r"cost must be a PrivacyCost, got .*plan.cost"):
        ledger.reserve(cost)


@pytest.mark.parametrize(
    "arguments, named",
    [
        (("1", 1e-5), "epsilon must be a number, got '1'"),
        ((1.0, "1e-5"), "delta must be a number, got '1e-5'"),
        ((None, 1e-5), "epsilon must be a number, got None"),
    ],
)
def test_a_ledger_of_no_number(arguments, named):
    with pytest.raises(TypeError, match=named):
        PrivacyLedger(*arguments)


def test_a_ledger_is_no_folder(tmp_path):
    link = tmp_path / "link"
    (tmp_path / "folder").mkdir()
    os.symlink(tmp_path / "folder", link)
    for path in (tmp_path / "folder", str(tmp_path), link):
        for make in (PrivacyLedger.open, lambda path: PrivacyLedger(1.0, 1e-5, path=path)):
            with pytest.raises(
                LedgerFileError, match="is a folder.*name one in it, e.g. .*budget.ledger"
            ):
                make(path)
    inside = PrivacyLedger(1.0, 1e-5, path=tmp_path / "folder" / "budget.ledger")
    with pytest.raises(BudgetExceededError):
        inside.reserve(PrivacyCost("replace_one", mu=9.0))


@pytest.mark.parametrize(
    "classes", [[0, "a"], ["a", None], (1.5, "b"), np.array([0, "a"], dtype=object)]
)
def test_classes_of_two_kinds(classes):
    with pytest.raises(ValueError, match="classes holds labels of several kinds"):
        Logistic(classes=classes).fit(X, Y)


@pytest.mark.parametrize(
    "classes, kind",
    [
        ({"no", "yes"}, "a set"),
        (frozenset({"no", "yes"}), "a frozenset"),
        ({"no": 0, "yes": 1}, "a dict"),
        ({"no": 0, "yes": 1}.keys(), "a dict_keys"),
        ([["no", "yes"]], "a list of 2"),
        (pd.DataFrame({"label": ["no", "yes"]}), "a DataFrame"),
    ],
)
def test_classes_that_are_no_list(classes, kind):
    with pytest.raises(
        ValueError, match=rf"classes must be a list .* is {kind}.*: pass list\(\.\.\.\)"
    ):
        Logistic(classes=classes).fit(X, TEXT)


@pytest.mark.parametrize("classes", [iter(["no", "yes"]), "no", "no, yes", 2])
def test_classes_that_are_no_sequence(classes):
    with pytest.raises(ValueError, match="'classes' parameter .* must be None or an array-like"):
        Logistic(classes=classes).fit(X, TEXT)


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, pd.Index, pd.Categorical])
def test_classes_are_a_list_of_any_kind(stopped, kind):
    with pytest.raises(Charged):
        Logistic(classes=kind(["no", "yes"])).fit(X, TEXT)
    with pytest.raises(Charged):
        Logistic(classes=range(2)).fit(X, Y)


def test_the_labels_of_all_rows_as_classes_are_not_quoted():
    with pytest.raises(ValueError, match="lists 360, of which 2 are different") as raised:
        Logistic(classes=TEXT).fit(X, TEXT)
    assert "yes" not in str(raised.value)


@pytest.mark.parametrize("kind", [int, float, bool, np.int64])
def test_labels_in_arrays_of_objects_are_numbers(stopped, kind):
    labels = np.array([kind(label) for label in Y], dtype=object)
    with pytest.raises(Charged):
        Logistic().fit(X, labels)
    found = labels_in(labels, None)
    assert found.dtype == np.dtype(kind) and found.tolist() == [0, 1]
    np.testing.assert_array_equal(encode_labels(labels, found), Y)


def test_objects_that_are_no_labels_have_a_remedy():
    for labels in ([Decimal(int(label)) for label in Y], [str(label).encode() for label in Y]):
        with pytest.raises(ValueError, match=r"y\.astype\(int\)"):
            Logistic().fit(X, np.array(labels, dtype=object))


def test_one_against_the_rest_has_two_labels_in_each_fit():
    three = np.array(list("pqr"))[np.arange(N) % 3]
    named = re.escape("classes=[0, 1, 2]; in OneVsRestClassifier each fit has two, classes=[0, 1].")
    with pytest.raises(ValueError, match=named):
        OneVsRestClassifier(Logistic(classes=["p", "q", "r"])).fit(X, three)


@pytest.mark.parametrize("kind", [VotingClassifier, StackingClassifier])
def test_labels_that_another_tool_numbers(kind):
    members = [("private", Logistic(classes=["no", "yes"])), ("public", KNeighborsClassifier())]
    with pytest.raises(ValueError, match=re.escape("numbers are the labels: classes=[0, 1].")):
        kind(members).fit(X, TEXT)


def test_the_message_about_unknown_labels_does_not_depend_on_them():
    told = set()
    for labels in (Y, np.full(N, 7), Y + 0.5, np.where(Y, "yes", "maybe"), np.arange(N)):
        with pytest.raises(ValueError, match="not in classes") as caught:
            Logistic(classes=["no", "yes"]).fit(X, labels)
        told.add(str(caught.value))
    assert len(told) == 1


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.__name__)
def test_the_budget_of_a_score_has_a_name(score):
    with pytest.raises(TypeError, match=rf"{score.__name__} takes .* by position.*epsilon=1.0"):
        score(Y, Y, 1.0)
    with pytest.raises(TypeError, match="dp_mean_score takes values by position"):
        metrics.dp_mean_score(X[:, 0], (-1, 1), 1.0)


def test_bounds_of_columns_have_no_default():
    for arguments in ((), (-1.0,)):
        with pytest.raises(TypeError, match="'upper'"):
            BoundedScaler(*arguments)


NUMBERS = {
    "counts": np.random.default_rng(0).poisson(60.0, N),
    "72 counts": np.arange(N) % 72,
    "whole numbers as floats": np.arange(N) % 60 * 1.0,
    "ages": np.random.default_rng(0).integers(18, 90, N),
}
LABELS = {
    "two": Y,
    "thirty": np.arange(N) % 30,
    "codes far apart": 137 * (np.arange(N) % 60),
    "text": np.char.mod("%d", np.arange(N) % 60),
}


class Charged(Exception):
    """The plan was about to be charged."""


@pytest.fixture
def stopped(monkeypatch):
    def stop(*args):
        raise Charged

    monkeypatch.setattr("skdpbayes.samplers.base.charge", stop)


def said(one, table, labels):
    with warnings.catch_warnings(record=True) as caught, pytest.raises(Charged):
        warnings.simplefilter("always")
        one.fit(table, labels)
    return [w for w in caught if "consecutive whole numbers" in str(w.message)]


@pytest.mark.parametrize("one", [Logistic(), Network((4,))], ids=repr)
@pytest.mark.parametrize("y", NUMBERS.values(), ids=NUMBERS)
def test_labels_that_look_like_numbers_are_told_before_the_charge(stopped, one, y):
    (found,) = said(one, X, y)
    assert f"y has {np.unique(y).size} different labels" in str(found.message)
    assert "DPBayesianPoissonRegressor" in str(found.message) and found.filename == __file__
    declared = type(one)(classes=np.unique(y))
    assert said(declared, X, y) == []


@pytest.mark.parametrize("y", LABELS.values(), ids=LABELS)
def test_labels_that_are_labels_are_taken_as_such(stopped, y):
    assert said(Logistic(), X, y) == []


def test_labels_in_dask_are_told_once(stopped):
    da = pytest.importorskip("dask.array")
    table, labels = (da.from_array(one, chunks=100) for one in (X, NUMBERS["72 counts"]))
    assert len(said(Logistic(), table.rechunk((100, -1)), labels)) == 1


def test_labels_that_are_measurements_are_refused():
    with pytest.raises(ValueError, match="continuous"):
        Logistic().fit(X, X[:, 0])


def test_the_table_of_names_knows_what_exists():
    """What the documentation offers in place of scikit-learn's parameters are parameters."""
    page = Path(__file__).parents[1] / "docs" / "troubleshooting.rst"
    table = page.read_text().partition("Parameters of scikit-learn")[2].partition("Running\n---")[0]
    ours = {
        **Logistic(sampler=SGHMC()).get_params(),
        **Mixture().get_params(),
        **Network().get_params(),
    }
    left = " ".join(re.findall(r"\* - (.*)\n     -", table))
    theirs = set(re.findall(r"``(\w+)", left))
    assert {"C", "penalty", "max_iter", "solver", "tol", "n_jobs"} <= theirs
    offered = set(
        re.findall("``(prior_scale|sampler__n_steps|sampler|covariance_prior|class_weight)", table)
    )
    assert len(offered) == 5 and offered <= set(ours)
    Logistic().set_params(sampler="sghmc", sampler__batch_size=5)
    Logistic().set_params(sampler="sgld", sampler__step_size=0.1)
    for name in ("C", "penalty", "max_iter"):
        with pytest.raises(TypeError, match=f"'{name}'"):
            Logistic(**{name: 1})


@pytest.mark.parametrize(
    "name, hint",
    [("C", "prior_scale = C [*][*] 0.5"), ("l1_ratio", "priors are normal"), ("solver", "sampler")],
)
def test_parameters_of_scikit_learn_are_named_here(name, hint):
    with pytest.raises(ValueError, match=rf"Valid parameters are: .*{name}: .*{hint}"):
        Logistic().set_params(**{name: 1})
    with pytest.raises(ValueError, match="Valid parameters are: .*]\\.$"):
        Logistic().set_params(nonsense=1)
