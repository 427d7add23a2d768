"""Scores: what they are without noise, what their intervals cover, and what is refused unspent."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn import metrics as plain

from skdpbayes.exceptions import BudgetExceededError, PrivacyWarning
from skdpbayes.metrics import (
    dp_accuracy_score,
    dp_brier_score,
    dp_calibration_curve,
    dp_confusion_matrix,
    dp_log_loss,
    dp_mean_poisson_deviance,
    dp_mean_score,
    dp_roc_auc_score,
)
from skdpbayes.privacy import PrivacyLedger

rng = np.random.default_rng(3)
P = rng.beta(1, 2, 3000)
Y = (rng.random(3000) < P).astype(int)
ADD = "add_or_remove_one"
SCORES = {
    "accuracy": lambda y, p, **kw: dp_accuracy_score(y, (p > 0.5).astype(int), **kw),
    "log loss": dp_log_loss,
    "brier": dp_brier_score,
    "auc": dp_roc_auc_score,
    "mean": lambda y, p, **kw: dp_mean_score(p, bounds=(0.0, 1.0), **kw),
}
EXACT = {
    "accuracy": lambda y, p: plain.accuracy_score(y, p > 0.5),
    "log loss": lambda y, p: -np.log(np.maximum(np.where(y == 1, p, 1 - p), 0.01)).mean(),
    "brier": plain.brier_score_loss,
    "auc": plain.roc_auc_score,
    "mean": lambda y, p: p.mean(),
}


def with_size(name, relation, n):
    size = {"public_size": n} if name == "auc" and relation == ADD else {}
    return {"neighboring_relation": relation, **size}


@pytest.mark.parametrize("relation", ["replace_one", ADD])
@pytest.mark.parametrize("name", SCORES)
def test_without_noise_scores_are_scikit_learns(name, relation):
    score = SCORES[name](Y, P, epsilon=np.inf, **with_size(name, relation, 3000))
    assert score == pytest.approx(EXACT[name](Y, P), abs=1e-6)
    assert score.spent_epsilon == np.inf


@pytest.mark.parametrize("relation", ["replace_one", ADD])
def test_without_noise_tables_are_scikit_learns(relation):
    options = {"epsilon": np.inf, "neighboring_relation": relation}
    predicted = (P > 0.5).astype(int)
    for normalize in (None, "true", "pred", "all"):
        matrix = dp_confusion_matrix(Y, predicted, labels=[0, 1], normalize=normalize, **options)
        exact = plain.confusion_matrix(Y, predicted, normalize=normalize)
        np.testing.assert_allclose(matrix, exact)
    from sklearn.calibration import calibration_curve

    curve = dp_calibration_curve(Y, P, n_bins=10, **options)
    for ours, theirs in zip(curve, calibration_curve(Y, P, n_bins=10), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_ties_and_one_class_in_an_auc():
    scores = np.round(P, 1)
    exact = plain.roc_auc_score(Y, scores)
    assert dp_roc_auc_score(Y, scores, epsilon=np.inf) == pytest.approx(exact, abs=1e-12)
    with pytest.warns(PrivacyWarning, match="says little"):
        score = dp_roc_auc_score(np.ones(500), P[:500], epsilon=1.0, random_state=0)
    low, high = score.interval(0.9)
    assert high - low > 0.5


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
@pytest.mark.parametrize(
    "n, epsilon, relation",
    [
        (500, 0.3, "replace_one"),
        pytest.param(500, 0.3, ADD, marks=pytest.mark.nightly),
        *(
            pytest.param(n, epsilon, relation, marks=pytest.mark.nightly)
            for n, epsilon in ((200, 1.0), (1000, 0.1), (2000, 3.0))
            for relation in ("replace_one", ADD)
        ),
    ],
)
@pytest.mark.parametrize("name", ["accuracy", "log loss", "auc"])
def test_intervals_cover_the_population(name, relation, n, epsilon):
    generator = np.random.default_rng(n)
    # Integrals over Beta(1, 2), labels being calibrated.
    truth = {"accuracy": 0.75, "log loss": 0.49995, "auc": 0.8}[name]
    covered, n_tables = 0, 50
    for seed in range(n_tables):
        p = generator.beta(1, 2, n)
        y = (generator.random(n) < p).astype(int)
        score = SCORES[name](
            y, p, epsilon=epsilon, random_state=seed, **with_size(name, relation, n)
        )
        low, high = score.interval(0.9)
        covered += low <= truth <= high
    assert covered / n_tables > 0.80
    if name == "accuracy":
        assert covered < n_tables


def test_an_interval_without_the_noise_would_not_cover():
    # Sampling alone has a deviation of 0.014 here, and the noise one of 0.14.
    generator = np.random.default_rng(0)
    missed, covered = 0, 0
    for seed in range(40):
        y = generator.random(1000) < 0.75
        score = dp_accuracy_score(y, np.ones(1000), epsilon=0.01, random_state=seed)
        missed += abs(score - 0.75) > 1.645 * 0.014
        low, high = score.interval(0.9)
        covered += low <= 0.75 <= high
    assert missed > 20 and covered > 30


def test_intervals_of_tables():
    options = {"epsilon": 1.0, "random_state": 0}
    matrix = dp_confusion_matrix(Y, P > 0.5, labels=[0, 1], **options)
    low, high = matrix.interval(0.9)
    assert ((low < matrix) & (matrix < high)).all()
    curve = dp_calibration_curve(Y, P, n_bins=5, **options)
    low, high = curve.interval(0.99)
    assert ((low < curve.prob_pred) & (curve.prob_pred < high)).all()
    assert (high[-1] - low[-1]) > (high[0] - low[0])
    for level in (0.0, 1.0, 2.0):
        with pytest.raises(ValueError, match="level"):
            matrix.interval(level)


def test_results_are_what_they_say_and_survive_pickling():
    score = dp_accuracy_score(Y, Y, epsilon=1.0, random_state=0)
    matrix = dp_confusion_matrix(Y, Y, labels=[0, 1], epsilon=1.0, random_state=0)
    curve = dp_calibration_curve(Y, P, epsilon=1.0, random_state=0)
    for result in (score, matrix, curve):
        again = pickle.loads(pickle.dumps(result))
        assert np.array_equal(again, result) and again.privacy_cost == result.privacy_cost
        np.testing.assert_array_equal(again.interval(0.9), result.interval(0.9))
        assert result.spent_epsilon <= 1.0 and result.privacy_cost.pure_epsilon == pytest.approx(1)
    assert isinstance(score, float) and type(matrix / 2) is np.ndarray
    assert type(matrix[0]) is np.ndarray and type(matrix.sum()) is not type(matrix)


def test_labels_of_all_kinds_and_tables_of_all_kinds():
    words = np.array(["no", "yes"])[Y]
    options = {"epsilon": np.inf}
    exact = plain.roc_auc_score(Y, P)
    assert dp_roc_auc_score(words, P, pos_label="yes", **options) == pytest.approx(exact)
    assert dp_roc_auc_score(pd.Series(words), pd.Series(P), pos_label="yes", **options) == exact
    frame = pd.DataFrame({"y": words})
    assert dp_accuracy_score(frame["y"], list(words), **options) == 1.0
    loss = dp_log_loss(words, np.column_stack([1 - P, P]), labels=["no", "yes"], **options)
    assert loss == pytest.approx(dp_log_loss(Y, P, **options))
    matrix = dp_confusion_matrix(words, words, labels=["yes", "no", "perhaps"], **options)
    assert matrix[0, 0] == Y.sum() and matrix[2].sum() == 0


BAD = {
    "nan": (dict(y_score=np.r_[np.nan, P[1:]]), "NaN"),
    "lengths": (dict(y_score=P[:-1]), "the same number of rows"),
    "shape": (
        dict(y_score=np.column_stack([P, P, P])),
        r"has 3 columns.*predict_proba\(X\)\[:, 1\]",
    ),
    "three labels": (dict(y_true=np.arange(3000) % 3 + 1), "pos_label"),
    "text": (dict(y_true=np.array(["a", "b"])[Y]), "pos_label"),
    "kinds": (dict(pos_label="yes"), "different kinds"),
    "none": (dict(y_true=[None, *Y[1:]]), "missing"),
    "empty": (dict(y_true=[], y_score=[]), "empty"),
    "epsilon": (dict(epsilon=0.0), "epsilon"),
    "delta": (dict(delta=1.0), "delta"),
    "relation": (dict(neighboring_relation="swap"), "neighboring_relation"),
    "tiny epsilon": (dict(epsilon=1e-15), "epsilon=1e-15 is below"),
    "public size": (dict(public_size=10), "public_size"),
    "no public size": (dict(neighboring_relation=ADD), "public_size"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_and_nothing_is_spent(case):
    given, message = BAD[case]
    arguments = {"y_true": Y, "y_score": P, "epsilon": 1.0, **given}
    y_true, y_score = arguments.pop("y_true"), arguments.pop("y_score")
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        with pytest.raises((ValueError, TypeError), match=message):
            dp_roc_auc_score(y_true, y_score, **arguments)
    assert ledger.spent_epsilon == 0


def test_other_bad_input_is_refused():
    with pytest.raises(TypeError, match="toarray"):
        dp_accuracy_score(sp.csr_array(Y[:, None]), Y, epsilon=1.0)
    with pytest.raises(ValueError, match="not in labels"):
        dp_confusion_matrix(Y, Y + 1, labels=[0, 1], epsilon=1.0)
    with pytest.raises(ValueError, match="each once"):
        dp_confusion_matrix(Y, Y, labels=[0, 0], epsilon=1.0)
    with pytest.raises(ValueError, match="different kinds"):
        dp_accuracy_score(Y, Y.astype(str), epsilon=1.0)
    with pytest.raises(ValueError, match="predict_proba"):
        dp_brier_score(Y, 2 * P, epsilon=1.0)
    with pytest.raises(ValueError, match="3 labels"):
        dp_log_loss(Y, P, labels=[0, 1, 2], epsilon=1.0)
    with pytest.raises(ValueError, match="low < high"):
        dp_mean_score(P, bounds=(1.0, 0.0), epsilon=1.0)


WORDS, TABLE = np.array(["cat", "dog"])[Y], pd.DataFrame({"cat": 1 - P, "dog": P})
IMPOSSIBLE = {
    "halved": (dp_log_loss, (Y, TABLE.to_numpy() / 2), {}, "add up to 1.*divide each row"),
    "of two models": (dp_log_loss, (Y, np.column_stack([P, P])), {}, "add up to 1"),
    "logarithms": (dp_log_loss, (Y, np.log(TABLE.to_numpy() + 0.1)), {}, "between 0 and 1"),
    "columns swapped": (
        dp_log_loss,
        (WORDS, TABLE[["dog", "cat"]]),
        {"labels": ["cat", "dog"]},
        r"in another order than labels: pass y_pred\[list\(labels\)\]",
    ),
    "columns of polars": (
        dp_log_loss,
        (WORDS, pl.DataFrame({"dog": P, "cat": 1 - P})),
        {"labels": ["cat", "dog"]},
        "in another order than labels",
    ),
    "numbers as names": (dp_log_loss, (Y, TABLE.set_axis([1, 0], axis=1)), {}, "another order"),
    "numbers as labels": (
        dp_log_loss,
        (Y, TABLE.set_axis([0, 1], axis=1)),
        {"labels": [1, 0]},
        "another order",
    ),
    "the first class": (dp_log_loss, (WORDS, TABLE["cat"]), {"labels": ["cat", "dog"]}, "single"),
    "the other label": (dp_brier_score, (WORDS, TABLE["cat"]), {"pos_label": "dog"}, "of a label"),
    "a rank of it": (dp_roc_auc_score, (WORDS, TABLE["cat"]), {"pos_label": "dog"}, "of a label"),
    "a curve of it": (
        dp_calibration_curve,
        (WORDS, TABLE["cat"]),
        {"pos_label": "dog"},
        "of a label",
    ),
    "both columns": (dp_brier_score, (Y, TABLE.to_numpy()), {}, r"predict_proba\(X\)\[:, 1\]"),
    "both in a curve": (dp_calibration_curve, (Y, TABLE.to_numpy()), {}, "has 2 columns"),
    "logits": (dp_brier_score, (Y, 4 * P - 2), {}, "between 0 and 1"),
    "as labels": (dp_accuracy_score, (Y, P), {}, "labels.*not probabilities"),
    "a list of labels": (dp_accuracy_score, (Y.tolist(), P.tolist()), {}, "not probabilities"),
    "a table as labels": (dp_accuracy_score, (Y, TABLE), {}, "y_pred must be a column.* has 2"),
    "labels without order": (dp_log_loss, (WORDS, TABLE), {"labels": {"cat", "dog"}}, "is a set"),
    "in a matrix": (dp_confusion_matrix, (Y, P), {"labels": [0, 1]}, "not in labels"),
    "logarithms of counts": (dp_mean_poisson_deviance, (Y, P - 0.5), {}, r"np.exp\(y_pred\)"),
}


@pytest.mark.parametrize("score, columns, options, message", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_predictions_are_refused_and_cost_nothing(score, columns, options, message):
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        with pytest.raises(ValueError, match=message):
            score(*columns, epsilon=1.0, **options)
    assert ledger.spent_epsilon == 0


def test_rounding_makes_no_prediction_impossible():
    exact = dp_log_loss(Y, TABLE.to_numpy(), epsilon=np.inf)
    single = TABLE.to_numpy(np.float32).copy()
    single[:, 1] *= np.float32(1 + 1e-6)
    half = TABLE.to_numpy(np.float16)
    for table in (single, single.astype(float), half, single.tolist(), TABLE.to_numpy() + 2e-9):
        assert dp_log_loss(Y, table, epsilon=np.inf) == pytest.approx(exact, abs=2e-3)
    assert dp_brier_score(Y, np.where(Y, 1 + 1e-7, -1e-17), epsilon=np.inf) == 0.0


@pytest.mark.parametrize("labels", [[1, 2], [-1, 1], [0, 1]])
def test_names_that_are_places_or_no_labels_say_nothing(labels):
    y = np.asarray(labels)[Y]
    exact = dp_log_loss(Y, P, epsilon=np.inf)
    for table in (TABLE, TABLE.set_axis([0, 1], axis=1), TABLE.set_axis(labels, axis=1)):
        assert dp_log_loss(y, table, labels=labels, epsilon=np.inf) == exact


def test_no_error_quotes_an_entry():
    secret = "0.123456x"
    wrong = [secret, "x"]
    for call in (
        lambda: dp_brier_score([0, 1], wrong, epsilon=1.0),
        lambda: dp_log_loss([0, 1], [wrong, wrong], epsilon=1.0),
        lambda: dp_accuracy_score(secret, [0], epsilon=1.0),
        lambda: dp_accuracy_score({secret: 1}, [0], epsilon=1.0),
        lambda: dp_confusion_matrix(wrong, wrong, labels=["a", "b"], epsilon=1.0),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        assert secret not in str(caught.value) and caught.value.__context__ is None


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 1.1, 2.3])
def test_no_score_spends_more_than_it_was_given(epsilon):
    with PrivacyLedger(epsilon, 1e-5, allow_seeds=True) as ledger:
        score = dp_log_loss(Y, P, epsilon=epsilon, random_state=0)
    assert ledger.spent_epsilon <= score.spent_epsilon == epsilon


def test_much_noise_is_warned_of():
    with pytest.warns(PrivacyWarning, match="raise epsilon"):
        dp_accuracy_score(Y, Y, epsilon=1e-6, random_state=0)


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
def test_an_empty_table_looks_like_any_other_where_its_size_is_private():
    options = {"epsilon": 1.0, "neighboring_relation": ADD, "random_state": 0}
    assert 0 <= dp_accuracy_score([], [], **options) <= 1
    assert 0 <= dp_roc_auc_score([], [], public_size=100, **options) <= 1
    assert 0 <= dp_roc_auc_score([], [], pos_label="yes", public_size=100, **options) <= 1
    for labels in ([0, 1], ["no", "yes"]):
        assert dp_confusion_matrix([], [], labels=labels, **options).shape == (2, 2)
        assert 0 <= dp_log_loss([], [], labels=labels, **options) < 5
    assert len(dp_calibration_curve([], [], pos_label="yes", **options)) == 2


def test_a_ledger_is_charged_before_anything_is_counted():
    with PrivacyLedger(1.0, 1e-5, allow_seeds=True) as ledger:
        dp_accuracy_score(Y, Y, epsilon=0.6, random_state=0)
        with pytest.raises(BudgetExceededError, match="Nothing was read"):
            dp_accuracy_score(Y, Y, epsilon=0.6, random_state=0)
        dp_accuracy_score(Y, Y, epsilon=0.3, random_state=0)
    assert 0.89 < ledger.spent_epsilon <= 0.9 + 1e-9


def test_a_label_does_not_change_what_other_labels_are():
    true, predicted = [1.0] * 500, [1] * 500
    assert dp_accuracy_score(true, predicted, epsilon=np.inf) == 1.0
    with pytest.raises(ValueError, match="several kinds"):
        dp_accuracy_score([*true, "a"], [*predicted, "a"], epsilon=np.inf)
    large = [2**53 + 1] * 500, [2**53] * 500
    rows = [dp_accuracy_score(*large, epsilon=np.inf)]
    rows.append(dp_accuracy_score(*([*part[1:], 0.5] for part in large), epsilon=np.inf))
    # All pairs differ, but for the pair of 0.5.
    assert rows == [0.0, 1 / 500]


def test_bounds_whose_distance_is_no_double_are_refused():
    with pytest.raises(ValueError, match="must be within 1e.300 of 0"):
        dp_mean_score([0.0, 1.7e308], bounds=(-1.7e308, 1.7e308), epsilon=1.0)
