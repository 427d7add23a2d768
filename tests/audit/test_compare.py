"""What two fits hold is taken apart, whatever it is in."""

from collections import deque
from functools import partial
from threading import Lock
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.neighbors import KDTree
from sklearn.tree import DecisionTreeRegressor

from skdpbayes.audit import replay
from skdpbayes.audit._replay import compare_objects
from skdpbayes.preprocessing import DPQuantileScaler
from skdpbayes.random import private_generator

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
    "a function": lambda X: lambda: X,
    "a default": lambda X: lambda rows=X: rows,
    "a bound method": lambda X: Slotted(X).__init__,
    "a bound builtin": lambda X: X.tolist().append,
    "a dict's view": lambda X: dict.fromkeys(X[:, 0].tolist()).items(),
    "a proxy": lambda X: MappingProxyType({"rows": X}),
    "a memoryview": lambda X: memoryview(X),
    "a part of an array": lambda X: X.copy()[:0],
    "a generator": lambda X: (row for row in X),
    "a partial": lambda X: partial(np.sum, X),
    "a class": lambda X: type("Kept", (), {"rows": X}),
}


@pytest.mark.parametrize("name", HELD)
def test_records_are_seen_whatever_they_are_in(name):
    hold = HELD[name]
    assert compare_objects(Holder(hold(X)), Holder(hold(OTHER))).differing
    assert not compare_objects(Holder(hold(X)), Holder(hold(X.copy()))).differing


@pytest.mark.parametrize("hold", [lambda one: one, lambda one: one.bit_generator])
def test_a_kept_generator_of_noise_is_named_though_both_have_it(hold):
    same = hold(private_generator())
    assert compare_objects(Holder(same), Holder(same)).generators
    assert not compare_objects(*[Holder(np.random.default_rng(0)) for _ in range(2)]).generators


def test_what_cannot_be_looked_into_is_named(tmp_path):
    (tmp_path / "rows").write_text("1")
    with (tmp_path / "rows").open() as one, (tmp_path / "rows").open() as other:
        result = compare_objects(Holder(one), Holder(other))
    assert result.not_inspected == [".what_ (_io.TextIOWrapper)"] and not result.differing
    assert compare_objects(Holder(Lock()), Holder(Lock())) == ([], [], [])


def nested(depth, value):
    holder = Holder(sp.csr_array(np.eye(3) * value))
    for _ in range(depth):
        holder = Holder([sp.csr_array(np.eye(3)), holder])
    return holder


@pytest.mark.parametrize("depth", range(1, 8))
def test_what_is_compared_later_is_not_taken_for_what_was_compared_before(depth):
    """What is made for a comparison may get the address of what was thrown away."""
    for _ in range(5):
        assert compare_objects(nested(depth, 1.0), nested(depth, 2.0)).differing


@pytest.mark.nightly
def test_a_fit_that_keeps_its_frame_does_not_pass_a_replay():
    class Keeping(DPQuantileScaler):
        def fit(self, X, y=None):
            self.kept_ = X.copy()
            return super().fit(X, y)

    frame = pd.DataFrame(np.linspace(-1.0, 1.0, 120).reshape(60, 2), columns=["a", "b"])
    assert replay(DPQuantileScaler(), frame, None, [5.0, -5.0]).passed
    result = replay(Keeping(), frame, None, [5.0, -5.0])
    assert {one.kind for one in result.violations} == {"output"}
