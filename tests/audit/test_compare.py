"""What two fits hold is taken apart, whatever it is in."""

from collections import deque

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.neighbors import KDTree
from sklearn.tree import DecisionTreeRegressor

from skdpbayes.audit import replay
from skdpbayes.audit._compare import differences
from skdpbayes.preprocessing import DPQuantileScaler

X = np.arange(12.0).reshape(6, 2)
OTHER = X.copy()
OTHER[0] = 99.0


class Holder:
    def __init__(self, what):
        self.what_ = what


class Slotted:
    __slots__ = ("what",)

    def __init__(self, what):
        self.what = what


HELD = {
    "an array": np.copy,
    "a list": np.ndarray.tolist,
    "a frame": pd.DataFrame,
    "a column": lambda X: pd.Series(X[:, 0]),
    "an index": lambda X: pd.Index(X[:, 0]),
    "a sparse array": sp.csr_array,
    "a tree": lambda X: DecisionTreeRegressor(random_state=0).fit(X, X[:, 0] ** 2),
    "neighbours": KDTree,
    "slots": Slotted,
    "a queue": lambda X: deque(X.tolist()),
    "bytes": lambda X: bytearray(X.tobytes()),
    "a decision": lambda X: X[0, 0] > 50.0,
    "a number": lambda X: X[0, 0],
    "a date": lambda X: np.datetime64(int(X[0, 0]), "D"),
    "a range": lambda X: range(int(X[0, 0])),
}


@pytest.mark.parametrize("name", HELD)
def test_records_are_seen_whatever_they_are_in(name):
    hold = HELD[name]
    assert differences(Holder(hold(X)), Holder(hold(OTHER)))
    assert not differences(Holder(hold(X)), Holder(hold(X.copy())))


def nested(depth, value):
    holder = Holder(sp.csr_array(np.eye(3) * value))
    for _ in range(depth):
        holder = Holder([sp.csr_array(np.eye(3)), holder])
    return holder


@pytest.mark.parametrize("depth", range(1, 8))
def test_what_is_compared_later_is_not_taken_for_what_was_compared_before(depth):
    """What is made for a comparison may get the address of what was thrown away."""
    for _ in range(5):
        assert differences(nested(depth, 1.0), nested(depth, 2.0))


def test_a_fit_that_keeps_its_frame_does_not_pass_a_replay():
    class Keeping(DPQuantileScaler):
        def fit(self, X, y=None):
            self.kept_ = X.copy()
            return super().fit(X, y)

    frame = pd.DataFrame(np.linspace(-1.0, 1.0, 120).reshape(60, 2), columns=["a", "b"])
    assert replay(DPQuantileScaler(), frame, None, [5.0, -5.0]).passed
    result = replay(Keeping(), frame, None, [5.0, -5.0])
    assert {one.kind for one in result.violations} == {"output"}
