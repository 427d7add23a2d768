"""The documentation's table of ensembles: every number in it is what happens, and silence is looked at."""

import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, KFold, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from stated import stated

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import PrivacyLeakWarning
from skdpbayes.model_selection import total_privacy_cost
from skdpbayes.privacy import PrivacyLedger, in_parallel

PAGE = Path(__file__).parents[1] / "docs" / "tools_ensembles.txt"
DELTA = 1e-5
N = 400
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 3))
Y = (X[:, 0] + 0.2 * rng.normal(size=N) > 0).astype(int)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])


class Counted(DPBayesianLogisticRegression):
    """Notes how many rows each fit is given."""

    seen: list[int] = []

    def fit(self, X, y, *args, **options):
        super().fit(X, y, *args, **options)
        Counted.seen.append(len(X))
        return self


def model():
    return Counted(1.0, delta=DELTA, classes=[0, 1])


def two():
    return [("a", model()), ("b", model())]


def before():
    """Return an estimator whose own fit is not counted."""
    return DPBayesianLogisticRegression(1.0, delta=DELTA, classes=[0, 1]).fit(X, Y)


ENSEMBLES = {
    "CalibratedClassifierCV(cv=2)": lambda: CalibratedClassifierCV(model(), cv=2),
    "CalibratedClassifierCV(cv=2, ensemble=False)": lambda: CalibratedClassifierCV(
        model(), cv=2, ensemble=False
    ),
    "CalibratedClassifierCV(FrozenEstimator)": lambda: CalibratedClassifierCV(
        FrozenEstimator(before())
    ),
    "StackingClassifier(cv=2), two members": lambda: StackingClassifier(two(), cv=2),
    "StackingClassifier(cv=KFold(2)), two members and a private final model": lambda: (
        StackingClassifier(two(), final_estimator=model(), cv=KFold(2))
    ),
    'StackingClassifier(cv="prefit")': lambda: StackingClassifier([("a", before())], cv="prefit"),
    "VotingClassifier, two members": lambda: VotingClassifier(two()),
    "VotingClassifier, one member of two is private": lambda: VotingClassifier(
        [("a", model()), ("b", LogisticRegression())]
    ),
    "BaggingClassifier": lambda: BaggingClassifier(model(), n_estimators=2),
    "OneVsRestClassifier, three classes": lambda: OneVsRestClassifier(model()),
    "TunedThresholdClassifierCV(cv=2)": lambda: TunedThresholdClassifierCV(model(), cv=2),
    "FixedThresholdClassifier": lambda: FixedThresholdClassifier(model(), threshold=0.3),
}


def test_the_table_has_these_ensembles_and_no_others():
    assert set(stated(PAGE)) == set(ENSEMBLES)


@pytest.mark.daily(2)
@pytest.mark.parametrize("name", ENSEMBLES)
def test_the_table_of_ensembles_says_what_happens(name):
    fits, counted, total, uncovered = stated(PAGE)[name]
    ensemble, labels = ENSEMBLES[name](), THREE if "OneVsRest" in name else Y
    Counted.seen.clear()
    with (
        PrivacyLedger(np.inf, DELTA) as ledger,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        if "it is refused" in uncovered:
            with pytest.raises(ValueError, match="Nothing was read"):
                ensemble.fit(X, labels)
        else:
            ensemble.fit(X, labels)
    sizes = sorted(Counter(Counted.seen).items())
    assert fits == (", ".join(f"{times} x {rows}" for rows, times in sizes) or "none")
    n = len(ledger.records())
    assert n == len(Counted.seen)
    assert counted == (f"{n}, epsilon {ledger.spent_epsilon:.3g}" if n else "nothing")
    if total == "refused":
        with pytest.raises(ValueError, match="no total"):
            total_privacy_cost(ensemble)
    else:
        assert total == f"epsilon {total_privacy_cost(ensemble).epsilon(DELTA):.3g}"
    warned = any(one.category is PrivacyLeakWarning for one in caught)
    silent = uncovered == "nothing" or "no warning" in uncovered or "it is refused" in uncovered
    assert warned is not silent


@pytest.mark.parametrize(
    "name", ["CalibratedClassifierCV(FrozenEstimator)", 'StackingClassifier(cv="prefit")']
)
def test_what_is_learnt_without_a_warning_reads_labels_without_noise(name):
    """The same rows give the same calibrator, and one other label another one."""
    other = Y.copy()
    other[0] = 1 - other[0]
    ensemble = ENSEMBLES[name]()
    here, again, there = (ensemble.fit(X, y).predict_proba(X) for y in (Y, Y, other))
    np.testing.assert_array_equal(here, again)
    assert not np.array_equal(here, there)


def test_a_calibration_on_other_rows_costs_no_more_than_the_fit():
    order = np.random.default_rng(0).permutation(N)  # It looks at no row.
    rows, others = order[: N // 2], order[N // 2 :]
    with PrivacyLedger(np.inf, DELTA) as ledger:
        first = model().fit(X[rows], Y[rows])
        odds = np.clip(first.decision_function(X[others]), -6, 6)[:, None] / 6
        second = model().set_params(data_norm=1.0, prior_scale=6.0).fit(odds, Y[others])
    both = in_parallel(first.privacy_cost_, second.privacy_cost_)
    assert both.epsilon(DELTA) == pytest.approx(1.0, abs=1e-6)
    # A ledger does not know that the rows are others.
    assert ledger.spent_epsilon == pytest.approx(1.465, abs=1e-3)
