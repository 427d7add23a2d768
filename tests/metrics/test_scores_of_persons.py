"""Scores of persons with several rows: each counts once, moves a score as a row would, and pays as a row."""

import functools

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as plain
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_score

import skdpbayes.metrics._scores
from skdpbayes import metrics
from skdpbayes.audit import replay
from skdpbayes.metrics import make_private_scorer
from skdpbayes.metrics._base import PERSON_UNIT, weights_of
from skdpbayes.privacy import PrivacyLedger

rng = np.random.default_rng(5)
N, PERSONS, K = 1200, 300, 4
WHO = np.append(np.repeat(0, K), np.append(np.arange(1, PERSONS), rng.integers(1, PERSONS, 897)))
P = rng.beta(1, 2, N)
Y = (rng.random(N) < P).astype(int)
ADD = "add_or_remove_one"
# Arguments of each score, and what a person of K rows has instead, as extreme as a row can be.
SCORES = {
    "dp_accuracy_score": (Y, Y, (0, 1), {}),
    "dp_log_loss": (Y, P, (1, 0.0), {}),
    "dp_brier_score": (Y, P, (1, 0.0), {}),
    "dp_roc_auc_score": (Y, P, (0, 9.0), {}),
    "dp_confusion_matrix": (Y, Y, (0, 1), {"labels": [0, 1]}),
    "dp_calibration_curve": (Y, P, (0, 1.0), {}),
    "dp_mean_squared_error": (P, P, (1.0, 0.0), {"target_bounds": (0, 1)}),
    "dp_mean_absolute_error": (P, P, (1.0, 0.0), {"target_bounds": (0, 1)}),
    "dp_r2_score": (P, P, (1.0, 0.0), {"target_bounds": (0, 1)}),
    "dp_mean_poisson_deviance": (np.arange(N) % 3, P + 0.1, (9, 0.1), {}),
    "dp_mean_score": (P, None, 1e9, {"bounds": (0, 1)}),
}
OF_MEANS = [name for name in SCORES if not name.endswith(("auc_score", "matrix", "curve"))]


def score_of(name, **options):
    return functools.partial(getattr(metrics, name), **SCORES[name][-1], **options)


def columns(name):
    return [one for one in SCORES[name][:2] if one is not None]


def over_persons(numbers):
    return pd.Series(np.asarray(numbers, dtype=float)).groupby(WHO).mean()


def test_every_score_is_here():
    assert set(SCORES) == {name for name in metrics.__all__ if name.startswith("dp_")}


# What is estimated


def test_all_rows_of_a_person_count_for_one():
    """Means over persons of the means over their rows, each computed here by pandas."""
    losses = np.minimum(-np.log(np.where(Y == 1, P, 1.0 - P)), -np.log(0.01))
    counts, expected = np.arange(N) % 3, P + 0.1
    deviances = [
        plain.mean_poisson_deviance([c], [e]) for c, e in zip(counts, expected, strict=True)
    ]
    bounds = {"target_bounds": (0, 1)}
    for name, arguments, exact, options in (
        ("dp_accuracy_score", (Y, P > 0.5), (P > 0.5) == Y, {}),
        ("dp_log_loss", (Y, P), losses, {}),
        ("dp_brier_score", (Y, P), (Y - P) ** 2, {}),
        ("dp_mean_score", (P,), P, {"bounds": (0, 1)}),
        ("dp_mean_squared_error", (Y, P), (Y - P) ** 2, bounds),
        ("dp_mean_absolute_error", (Y, P), abs(Y - P), bounds),
        ("dp_mean_poisson_deviance", (counts, expected), np.minimum(deviances, 10.0), {}),
    ):
        score = getattr(metrics, name)(*arguments, epsilon=np.inf, groups=WHO, **options)
        assert score == pytest.approx(over_persons(exact).mean(), abs=1e-6), name
        assert abs(score - np.mean(exact)) > 1e-4


def test_tables_and_ratios_of_persons_weigh_rows_by_their_number():
    weights = 1.0 / np.bincount(WHO)[WHO]
    options = {"epsilon": np.inf, "groups": WHO}
    matrix = metrics.dp_confusion_matrix(Y, P > 0.5, labels=[0, 1], **options)
    exact = plain.confusion_matrix(Y, P > 0.5, sample_weight=weights)
    np.testing.assert_allclose(matrix, exact, atol=1e-3)
    assert matrix.sum() == PERSONS
    shares = metrics.dp_confusion_matrix(Y, P > 0.5, labels=[0, 1], normalize="true", **options)
    np.testing.assert_allclose(shares, exact / exact.sum(axis=1, keepdims=True), atol=1e-5)
    curve = metrics.dp_calibration_curve(Y, P, n_bins=3, **options)
    for place in range(3):
        own = np.minimum((3 * P).astype(int), 2) == place
        assert curve.prob_true[place] == pytest.approx(
            np.average(Y[own], weights=weights[own]), abs=1e-4
        )
        assert curve.prob_pred[place] == pytest.approx(
            np.average(P[own], weights=weights[own]), abs=1e-4
        )
    ratio = metrics.dp_r2_score(Y, P, target_bounds=(0, 1), **options)
    assert ratio == pytest.approx(plain.r2_score(Y, P, sample_weight=weights), abs=1e-5)


@pytest.mark.parametrize("relation", ["replace_one", ADD])
@pytest.mark.parametrize("name", SCORES)
def test_copies_of_rows_change_nothing(name, relation):
    """As many copies of a person's row as one likes: a row each, with the same noise."""
    size = {"public_size": N} if name == "dp_roc_auc_score" and relation == ADD else {}
    score = score_of(name, epsilon=0.5, random_state=0, neighboring_relation=relation, **size)
    own = columns(name)
    once = score(*own, groups=np.arange(N))
    copies = np.sort(np.append(np.arange(N), np.repeat(7, 500)))
    many = score(*(one[copies] for one in own), groups=copies)
    # Parts of a whole are rounded to 2^-24.
    np.testing.assert_allclose(np.asarray(many), np.asarray(once), atol=1e-5)
    assert many.privacy_cost == once.privacy_cost


@pytest.mark.parametrize("name", ["accuracy", "log loss", "matrix"])
def test_intervals_cover_where_rows_of_a_person_are_alike(name):
    """Persons have 1 to 9 rows that are right or wrong together; rows taken for independent do not cover."""
    covered = of_rows = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        groups = np.repeat(np.arange(400), generator.integers(1, 10, 400))
        right = (generator.random(400) < 0.7)[groups]
        y = generator.integers(2, size=groups.size)
        predicted = np.where(right, y, 1 - y)
        options = {"epsilon": 1.0, "random_state": seed}
        if name == "matrix":
            matrix = functools.partial(
                metrics.dp_confusion_matrix, y, predicted, labels=[0, 1], normalize="all"
            )
            for some in ({"groups": groups}, {}):
                low, high = matrix(**some, **options).interval(0.9)
                good = bool(low[0, 0] <= 0.35 <= high[0, 0])
                covered, of_rows = covered + good * bool(some), of_rows + good * (not some)
            continue
        truth = 0.7
        score = functools.partial(metrics.dp_accuracy_score, y, predicted)
        if name == "log loss":
            truth = -0.7 * np.log(0.8) - 0.3 * np.log(0.2)
            score = functools.partial(metrics.dp_log_loss, y, np.where(predicted == 1, 0.8, 0.2))
        for some in ({"groups": groups}, {}):
            low, high = score(**some, **options).interval(0.9)
            good = low <= truth <= high
            covered, of_rows = covered + good * bool(some), of_rows + good * (not some)
    assert covered >= 0.8 * 60
    if name != "matrix":  # Its two labels are independent of each other.
        assert of_rows < 0.8 * 60


# What it costs


@pytest.mark.parametrize("relation", ["replace_one", ADD])
@pytest.mark.parametrize("name", SCORES)
def test_a_person_of_several_rows_moves_a_score_as_a_row_may(name, relation):
    size, groups = {}, WHO
    if name == "dp_roc_auc_score" and relation == ADD:
        # Rows are drawn in another order where there are fewer, so that only one person has several here.
        size, groups = {"public_size": N}, np.maximum(np.arange(N) - K + 1, 0)
    score = score_of(name, epsilon=0.5, neighboring_relation=relation, **size)
    first, second, record, _ = SCORES[name]
    found = replay(
        score, first, second, record if relation != ADD else None, index=range(K), groups=groups
    )
    assert not found.violations, str(found)
    if name not in ("dp_roc_auc_score", "dp_mean_score", "dp_r2_score"):
        assert found.largest_share > (0.2 if relation == ADD else 0.4)


@pytest.mark.parametrize("name", OF_MEANS[:3])
def test_rows_that_count_in_full_are_found(name, monkeypatch):
    monkeypatch.setattr(
        skdpbayes.metrics._scores,
        "means_of",
        lambda shares, persons: np.bincount(persons, weights=shares),
    )
    first, second, record, _ = SCORES[name]
    found = replay(score_of(name, epsilon=0.5), first, second, record, index=range(K), groups=WHO)
    assert "sensitivity" in {one.kind for one in found.violations}


def test_a_replaced_person_with_more_rows_moves_a_mean_by_one():
    """Closed form: one of 300 persons is all right with 2 rows, or all wrong with 900."""
    others = np.arange(1, PERSONS)
    scores = []
    for right, n in ((1.0, 2), (0.0, 900)):
        values = np.append(np.full(n, right), np.full(others.size, 0.5))
        who = np.append(np.zeros(n, dtype=int), others)
        scores.append(metrics.dp_mean_score(values, bounds=(0, 1), epsilon=np.inf, groups=who))
    assert scores[0] - scores[1] == pytest.approx(1.0 / PERSONS, abs=1e-9)


def test_a_person_adds_one_in_all_to_a_table_whoever_else_is_in_it():
    who = np.append(WHO, np.repeat(PERSONS, 2**10 + 1))
    weights = weights_of(who)
    assert (np.bincount(who, weights=weights) == PERSON_UNIT).all() and (weights >= 0).all()
    for person in (0, 5, PERSONS):
        own = weights[who == person]
        assert own.max() - own.min() <= 1
    np.testing.assert_array_equal(weights_of(WHO), weights[:N])
    mixed = np.random.default_rng(0).permutation(who.size)
    # The rows of one person in their order, between others.
    kept = np.sort(mixed[:500])
    _, again = np.unique(who[kept], return_inverse=True)
    assert (np.bincount(again, weights=weights_of(again)) == PERSON_UNIT).all()


@pytest.mark.parametrize("relation", ["replace_one", ADD])
def test_a_score_is_charged_to_ledgers_of_persons(relation):
    options = {"epsilon": 0.5, "random_state": 0, "neighboring_relation": relation}
    with PrivacyLedger(1.0, 1e-5, f"{relation}_person", allow_seeds=True) as ledger:
        score = metrics.dp_log_loss(Y, P, groups=WHO, **options)
        with pytest.raises(ValueError, match="different things"):
            metrics.dp_log_loss(Y, P, **options)
    assert score.privacy_cost.neighboring_relation == f"{relation}_person"
    assert ledger.spent_epsilon <= score.spent_epsilon == 0.5
    assert score.plan.n_samples == (PERSONS if relation == "replace_one" else None)
    assert "person" in str(score.plan)


@pytest.mark.parametrize("name", SCORES)
def test_wrong_groups_are_refused_and_nothing_is_spent(name):
    score, own = score_of(name, epsilon=1.0), columns(name)
    with PrivacyLedger(10.0, 1e-5, "replace_one_person") as ledger:
        for groups, text in (
            (WHO[:-1], r"groups is of shape \(1199,\)"),
            (np.where(WHO == 3, np.nan, WHO), "groups has missing values"),
            ([1, "a"] * (N // 2), "no order"),
        ):
            with pytest.raises(ValueError, match=text):
                score(*own, groups=groups)
    assert ledger.spent_epsilon == 0


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
def test_no_persons_at_all_look_like_any_where_their_number_is_private():
    options = {"epsilon": 1.0, "neighboring_relation": ADD, "groups": [], "random_state": 0}
    assert 0 <= metrics.dp_accuracy_score([], [], **options) <= 1
    assert 0 <= metrics.dp_roc_auc_score([], [], public_size=100, **options) <= 1
    assert metrics.dp_confusion_matrix([], [], labels=[0, 1], **options).shape == (2, 2)
    assert len(metrics.dp_calibration_curve([], [], **options)) == 2


# Scorers


def test_scorers_take_groups_and_tools_route_them():
    import sklearn

    model = LogisticRegression().fit(P[:, None], Y)
    scorer = make_private_scorer("neg_log_loss", epsilon=0.5, random_state=0)
    assert scorer.privacy_cost.neighboring_relation == "replace_one"
    with PrivacyLedger(10.0, 1e-5, "replace_one_person", allow_seeds=True) as ledger:
        one = scorer(model, P[:, None], Y, groups=WHO)
        assert -1.0 < one < -0.4 and 0.499 < ledger.spent_epsilon <= 0.5
        with sklearn.config_context(enable_metadata_routing=True):
            routed = scorer.with_options(epsilon=0.25).set_score_request(groups=True)
            assert routed.privacy_cost.neighboring_relation == "replace_one_person"
            options = {"cv": GroupKFold(3, shuffle=True), "params": {"groups": WHO}}
            scores = cross_val_score(
                model, P[:, None], Y, scoring=routed, error_score="raise", **options
            )
    assert scores.shape == (3,)
    assert 1.24 < ledger.spent_epsilon <= 1.25
    assert routed.with_options(epsilon=1.0).privacy_cost.neighboring_relation.endswith("person")


def test_a_scorer_that_requests_groups_never_scores_rows():
    scorer = make_private_scorer("accuracy", epsilon=0.5).set_score_request(groups=True)
    model = LogisticRegression().fit(P[:, None], Y)
    with (
        PrivacyLedger(10.0, 1e-5) as ledger,
        pytest.raises(ValueError, match=r"set_score_request\(groups=None\)"),
    ):
        scorer(model, P[:, None], Y)
    assert ledger.spent_epsilon == 0
    scorer.set_score_request(exposure=True)
    assert scorer.privacy_cost.neighboring_relation == "replace_one_person"
    with pytest.raises(TypeError, match="belong to rows"):
        make_private_scorer("accuracy", epsilon=0.5, groups=WHO)
