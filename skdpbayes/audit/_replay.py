"""Replays: two runs on neighbouring tables with the same random numbers, compared release by release.

    |s(D) - s(D')| / sigma <= charged,      sum of charges = cost,      everything else equal

``s`` is what a release is made of, before its noise. What follows from a release may depend on it, so the
second run is given the releases of the first; then nothing else may differ: which releases there are, in
which order, of which shapes and noise, warnings, and whatever the fitted estimator holds. And as compiled
chains run step by step only for an observer, a fit without one has to release the same. (Compare
Re:cord-play, 2026.)
"""

import _thread
import functools
import math
import pickle
import sys
import types
import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import softmax
from scipy.stats import binom, chi2, kstest, norm
from sklearn.base import clone

from .._data.collections import refuse_columns_in_other_order
from .._data.privacy_units import rows_in_order
from .._errors import column_names
from .._mechanisms.audit_hook import observe_releases
from .._typing import MatrixLike
from ..privacy.ledger import _active
from ..privacy.losses import between_rows, sensitivity_factor
from ..privacy.units import rows_between_neighbours
from ._fit import _adds, claimed_cost, parameters_named

# Whether two objects hold the same: fitted estimators, or what a score returned.
#
# Objects are taken apart: attributes, entries and arrays, what functions enclose, what is behind a
# view, and what else is in a copy of them, such as a frame's columns or the nodes of a tree. What
# cannot be looked into is named.


# Types that hold nothing.
_HARMLESS = (_thread.LockType, _thread.RLock, types.NotImplementedType, types.EllipsisType)
# Types of views of dicts, which hold the dict.
_VIEWS: Any = (type({}.keys()), type({}.values()), type({}.items()))
# Types of bound functions, which hold an object.
_BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)
# As many differences are told.
_MOST_DIFFERENCES = 20


class Comparison(NamedTuple):
    """Names of parts that differ, that are generators of private noise, and that were not looked into."""

    differing: list
    generators: list
    not_inspected: list


class _NotCovered(Exception):
    pass


def compare_objects(first, second):
    """The `Comparison` of two objects, with at most twenty parts that differ."""
    comparison = Comparison([], [], [])
    # Pairs are kept, since others that are made later could have the addresses of these.
    visited: dict[tuple[int, int], tuple] = {}
    waiting = [("", first, second)]
    while waiting and len(comparison.differing) < _MOST_DIFFERENCES:
        path, a, b = waiting.pop(0)
        name = path or "the result"
        if (id(a), id(b)) in visited:
            continue
        visited[id(a), id(b)] = a, b
        if _is_private_generator(a) or _is_private_generator(b):
            comparison.generators.append(name)
            continue
        if a is b:
            continue
        if type(a) is not type(b):
            comparison.differing.append(name)
            continue
        try:
            parts = _parts(a, b)
        except _NotCovered:
            kind = type(a)
            comparison.not_inspected.append(f"{name} ({kind.__module__}.{kind.__qualname__})")
            continue
        if parts is None:
            comparison.differing.append(name)
        else:
            waiting += [(path + suffix, *pair) for suffix, pair in parts]
    return comparison


def _is_private_generator(generator):
    """Whether private noise may come from it: whoever holds it may compute what was drawn."""
    if isinstance(generator, np.random.Generator):
        generator = generator.bit_generator
    elif isinstance(generator, np.random.RandomState):
        generator = generator._bit_generator  # type: ignore[attr-defined]
    return type(generator).__name__ == "AESCounter"


def _parts(a, b):
    """The parts of two objects of one type, in pairs; None if they differ, and [] if not."""
    if isinstance(a, np.ndarray):
        return _of_arrays(a, b)
    if isinstance(a, np.generic):
        return _of_arrays(np.asarray(a), np.asarray(b))
    if isinstance(a, Number | str | bytes | bytearray | range | slice | None):
        return [] if a == b or (a != a and b != b) else None
    if sp.issparse(a):
        return [("", (a.toarray(), b.toarray()))]
    if isinstance(a, dict):
        if list(a) != list(b):
            return None
        return [(f".{key}" if isinstance(key, str) else f"[{key}]", (a[key], b[key])) for key in a]
    if isinstance(a, tuple | list):
        if len(a) != len(b):
            return None
        pairs = zip(a, b, strict=True)
        entries = [(f"[{i}]", pair) for i, pair in enumerate(pairs)]
        return _added(entries, _of_attributes(a, b))
    if isinstance(a, set | frozenset):
        return [] if a == b else None
    if isinstance(a, partial):
        parts = [(a.func, b.func), (a.args, b.args), (a.keywords, b.keywords)]
        return _added([("", pair) for pair in parts], _of_attributes(a, b))
    if isinstance(a, types.MethodType):
        return [("", (a.__self__, b.__self__)), ("", (a.__func__, b.__func__))]
    if isinstance(a, _HARMLESS):
        return []
    if isinstance(a, (types.FunctionType, types.CellType, *_BOUND)):
        return _function_parts(a, b)
    if isinstance(a, types.GeneratorType):
        frames = [getattr(generator.gi_frame, "f_locals", {}) for generator in (a, b)]
        return None if a.gi_code != b.gi_code else [(".gi_frame", tuple(map(dict, frames)))]
    if isinstance(a, _VIEWS):
        return [("", (list(a), list(b))), (".mapping", (dict(a.mapping), dict(b.mapping)))]
    if isinstance(a, types.MappingProxyType):
        return [("", (dict(a), dict(b)))]
    if isinstance(a, memoryview):
        if (a.shape, a.format) != (b.shape, b.format):
            return None
        return [("", (a.tobytes(), b.tobytes())), (".obj", (a.obj, b.obj))]
    if isinstance(a, weakref.ref):
        return [("()", (a(), b()))]
    if isinstance(a, np.random.BitGenerator):
        return [(".state", (a.state, b.state))]
    if isinstance(a, np.random.Generator):
        return [("", (a.bit_generator, b.bit_generator))]
    if isinstance(a, np.random.RandomState):
        return [("", (a.get_state(legacy=False), b.get_state(legacy=False)))]
    if isinstance(a, types.ModuleType):
        raise _NotCovered
    if isinstance(a, type):
        # A class that a fit has made, since two fits have one each.
        both = [
            {k: v for k, v in vars(kind).items() if k not in _CLASS_ATTRIBUTES_LEFT_OUT}
            for kind in (a, b)
        ]
        return [(".__dict__", (both[0], both[1]))]
    return _added([("", (_copied(a), _copied(b)))], _of_attributes(a, b))


_CLASS_ATTRIBUTES_LEFT_OUT = ("__dict__", "__weakref__", "__doc__", "_abc_impl")


def _function_parts(a, b):
    """Pairs of what two functions, or cells, enclose; None if the functions differ."""
    if isinstance(a, types.CellType):
        full = [_content(cell) for cell in (a, b)]
        return [("", (full[0], full[1]))]
    if isinstance(a, _BOUND):
        if a.__name__ != b.__name__:
            return None
        return [("", (a.__self__, b.__self__))]
    if a.__code__ != b.__code__:
        return None
    names = ("__closure__", "__defaults__", "__kwdefaults__")
    parts = [(f".{name}", (getattr(a, name), getattr(b, name))) for name in names]
    return _added(parts, _of_attributes(a, b))


def _content(cell):
    try:
        return (cell.cell_contents,)
    except ValueError:  # It is empty.
        return ()


def _of_arrays(a, b):
    if a.shape != b.shape or a.dtype != b.dtype:
        return None
    if a.dtype == object:
        return _added([("", (a.tolist(), b.tolist()))], _of_attributes(a, b))
    if not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
        return None
    # Behind a view there may be more.
    bases = [("", (a.base, b.base))] if _shows_part(a) and _shows_part(b) else []
    return _added(bases, _of_attributes(a, b))


def _shows_part(array):
    return isinstance(array.base, np.ndarray) and array.base.size > array.size


def _added(parts, attributes):
    return None if attributes is None else [*parts, *attributes]


def _of_attributes(a, b):
    attributes, other = _attributes(a), _attributes(b)
    if attributes.keys() != other.keys():
        return None
    return [(f".{name}", (value, other[name])) for name, value in attributes.items()]


def _attributes(instance):
    slots = [vars(kind).get("__slots__", ()) for kind in type(instance).__mro__]
    names = [name for slot in slots for name in ([slot] if isinstance(slot, str) else slot)]
    held = {name: getattr(instance, name) for name in names if hasattr(instance, name)}
    return {**held, **getattr(instance, "__dict__", {})}


def _copied(value):
    """State from which an object would be copied, by ``__reduce_ex__``, slots and compiled parts included."""
    try:
        made_of = value.__reduce_ex__(4)
    except Exception as error:
        raise _NotCovered from error
    if isinstance(made_of, str):
        return made_of
    entries = [list(part) for part in made_of[3:5] if part is not None]
    return [*made_of[1:3], *entries]


# Whether what is charged at the audit hook adds up to the cost that a plan states.
#
#     sum mu_i^2 = mu^2,     as many choices of a range as there are bits,     sum epsilon_i = epsilon
#
# What costs more than the hook has seen was released outside it, by compiled chains or by code of
# others, and is not covered.


_COST_TOLERANCE = 1.0 + 1e-6
# Of a squared mu, what may be left over.
_UNEXPLAINED_SHARE = 0.02
# A record is in so many batches, or more, with this probability.
_BATCH_TAIL = 1e-8


def check_costs(cost, movements, max_records=1):
    """(list of (kind, text) where charges and a cost do not agree, whether the hook saw all of it).

    Parameters
    ----------
    cost : PrivacyCost or None
    movements : list of (ReleaseEvent, float)
        Releases, and how far a record moved each.
    max_records : int, default=1
        How many records of a person there may be.
    """
    if cost is None:
        return [("not covered", "nothing is said of the cost, to compare charges with")], True
    if cost.is_infinite:
        return [("not covered", "the cost is infinite, so that nothing is claimed")], False
    if cost.selection_events:
        text = "the number of runs that a selection costs; the releases of each were compared"
        return [("not covered", text)], None not in [release.charged for release, _ in movements]
    findings = _gaussian(cost, movements) + _choices(cost, movements) + _laplace(cost, movements)
    findings += _batches(cost, movements) + _thresholds(cost, movements, max_records)
    for name, text in (
        ("counted", "steps on batches, which are charged for"),
        ("rho", "a part that is known as zCDP only"),
    ):
        if getattr(cost, name):
            findings.append(("not covered", text))
    return findings, all(kind != "not covered" for kind, _ in findings)


def check_cost_of_persons(cost, movements):
    """A list of (kind, text) where a cost for persons is less than how far a person moved releases.

    Parameters
    ----------
    cost : PrivacyCost
    movements : list of (ReleaseEvent, float)
        Releases, and how far the person moved each, in deviations of Gaussian noise.
    """
    if cost.is_infinite or cost.selection_events:
        return []
    mu = math.hypot(
        *(shift for release, shift in movements if release.kind in ("gaussian", "counts")), 0.0
    )
    n_drawn = sum(release.kind == "choice" for release, _ in movements)
    n_paid = sum(bit.count for bit in cost.decisions)
    findings = []
    if mu > cost.mu * _COST_TOLERANCE:
        text = f"a person moved Gaussian releases by mu = {mu:.6g}, and they cost {cost.mu:.6g}"
        findings.append(("cost", text))
    if n_drawn > n_paid:
        findings.append(("cost", f"{n_drawn} choices, of which {n_paid} are charged for a person"))
    return findings


def _groups(movements, kind):
    """Charges of one kind, joint ones once; None stands for one that is not known."""
    charged = []
    for event, _ in movements:
        if event.kind == kind and not event.is_joint:
            charged.append(event.charged)
    return charged


def _gaussian(cost, movements):
    charged, limit = _groups(movements, "gaussian"), cost.mu**2
    if None in charged:
        return [("not covered", "it is not known what a release with Gaussian noise is charged")]
    paid = math.fsum(mu**2 for mu in charged)
    if paid > limit * _COST_TOLERANCE:
        mu = math.sqrt(paid)
        return [("cost", f"Gaussian releases are charged mu = {mu:.6g}, and cost {cost.mu:.6g}")]
    of_counts = [shift for event, shift in movements if event.kind == "counts"]
    if of_counts:
        moved = math.fsum(shift**2 for shift in of_counts)
        allowed = (limit - paid) * _COST_TOLERANCE
        return [] if moved <= allowed else [("sensitivity", "counts moved by more than is charged")]
    if paid < limit * (1.0 - _UNEXPLAINED_SHARE):
        text = f"of mu = {cost.mu:.4g} only {math.sqrt(paid):.4g} passed the audit hook"
        return [("not covered", f"{text}: steps of compiled chains, or noise of one's own")]
    return []


def _batches(cost, movements):
    """Compare steps on batches, each with what it is charged, and how often the record was in one."""
    steps = [(event, shift) for event, shift in movements if event.kind == "batch"]
    if len(steps) < sum(part.count for part in cost.sampled):
        return [("not covered", "steps on batches, which are charged for")]
    if not steps:
        return []
    most = sensitivity_factor(cost.neighboring_relation)
    paid = sorted(most / part.noise_multiplier for part in cost.sampled for _ in range(part.count))
    drawn = sorted(event.charged for event, _ in steps)
    rates = {event.rate for event, _ in steps}
    if (
        len(drawn) > len(paid)
        or rates != {part.sampling_rate for part in cost.sampled}
        or any(
            charged > paid_for * _COST_TOLERANCE
            for charged, paid_for in zip(drawn, paid, strict=True)
        )
    ):
        return [("cost", f"{len(drawn)} steps on batches, of which {len(paid)} are charged for")]
    text = check_rate([shift / event.charged for event, shift in steps], max(rates))
    return [("sensitivity", text)] if text else []


def check_rate(shares, rate):
    """The finding if a record moved more steps on batches than it may at a rate, else None."""
    shares = np.asarray(shares)
    # Of records that are alike in both tables none is seen.
    n_seen = int((shares > 1e-6).sum())
    if binom.sf(n_seen - 1, shares.size, rate) < _BATCH_TAIL:
        return f"the record was in {n_seen} of {shares.size} batches, of rate {rate:.3g}"
    return None


def _thresholds(cost, movements, max_records):
    """Compare with what they cost how likely values of a single record, or person, reach thresholds."""
    counts = [event for event, _ in movements if event.kind == "counts" and event.noise]
    if any(release.threshold is None for release in counts):
        return [("not covered", "a threshold of counts, or their noise")]
    moves = (
        sensitivity_factor(between_rows(cost.neighboring_relation))
        if max_records == 1
        else 2 * max_records
    )
    kept = [norm.sf((release.threshold - max_records) / release.noise) for release in counts]
    # Propositions 51 and 53.
    likely = math.fsum(f / (1.0 - f) if f < 1.0 else math.inf for f in kept) * moves
    if likely > cost.failure_probability * _COST_TOLERANCE:
        text = (
            f"values of one {'record' if max_records == 1 else 'person'} are kept with probability "
            f"{likely:.3g}, and {cost.failure_probability:.3g} of delta is charged for that"
        )
        return [("cost", text)]
    return []


def _choices(cost, movements):
    drawn = sorted(_groups(movements, "choice"), reverse=True)
    paid = sorted(
        (bit.log_odds_range for bit in cost.decisions for _ in range(bit.count)), reverse=True
    )
    if len(drawn) < len(paid):
        return [("not covered", f"of {len(paid)} choices only {len(drawn)} passed the audit hook")]
    ranges = zip(drawn, [*paid, *[0.0] * (len(drawn) - len(paid))], strict=True)
    if any(charged > most * _COST_TOLERANCE for charged, most in ranges):
        return [("cost", f"{len(drawn)} choices, of which {len(paid)} are charged for")]
    return []


def _laplace(cost, movements):
    charged = _groups(movements, "laplace")
    paid = math.fsum(part.level * part.count for part in cost.pure_events)
    if None in charged:
        return [("not covered", "it is not known what a release with Laplace noise is charged")]
    drawn = math.fsum(charged)
    if drawn > paid * _COST_TOLERANCE:
        return [("cost", f"Laplace noise is charged epsilon = {drawn:.6g}, and costs {paid:.6g}")]
    if drawn < paid * (1.0 - _UNEXPLAINED_SHARE):
        return [("not covered", f"of epsilon = {paid:.4g} only {drawn:.4g} passed the audit hook")]
    return []


# The observers of a replay's runs.
#
#     first run:   note what each release is made of, and let it pass; draw it again to see its noise
#     second run:  hand out the releases of the first, and note what they would have been made of
#
# The hook is `skdpbayes._mechanisms.audit_hook`.


# Numbers with noise that are drawn again, at least, to see how large it is.
_DRAWS = {"gaussian": 300, "laplace": 600, "batch": 300, "choice": 300, "counts": 300}
# How often each number with Gaussian noise is drawn, while these are no more than so many.
_MOST_DRAWS_OF_EACH = 100
_MOST_NUMBERS_DRAWN = 300_000
# Of a release, so many numbers tell of the law of Gaussian noise.
_N_FOR_LAW = 300
# Sets of neighbouring candidates whose frequencies are compared with their probabilities.
_BINS = 16
# Noise as it should be is taken for wrong with this probability.
_FALSE_ALARM = 1e-8
# Mean squares of Laplace noise are as far off with about that probability.
_LAPLACE_TOLERANCE = 0.5


class ObservedRelease(NamedTuple):
    """A release: its `ReleaseEvent`, what was released, and draws of it again, if any."""

    event: Any
    released: Any
    again: Any = None


class Recorder:
    """Lets releases pass, and notes them.

    Attributes
    ----------
    noted : list of ObservedRelease
    noises : list of (int, str)
        Releases whose noise is not as large as is said, and what is.
    passed_by : list of (int, str)
        What was released outside the hook, and after how many releases.
    leaks : list of int
        Releases of compiled code that left behind more than follows from their numbers with noise.
    n_looked_at : int
        How many releases had their noise looked at.
    normal : list of ndarray
        Gaussian noise whose size is as is said, in deviations.
    """

    def __init__(self):
        self.noted, self.noises, self.passed_by, self.leaks = [], [], [], []
        self.n_looked_at, self.normal = 0, []

    def __call__(self, event, release, generator):
        event = _kept(event)
        released, again = release(), None
        self.leaks += _leak(event, released, len(self.noted))
        if _may_be_drawn_again(event):
            self.n_looked_at += 1
            state = generator.bit_generator.state
            if event.is_noisy:
                again = _drawn_again(event, release)
            # Of one release the numbers would otherwise be nearly those of the next.
            _jump(generator, len(self.noted) + 1)
            if event.is_noisy:
                self._check_noise_of_steps(event, again)
            elif event.kind == "choice":
                self._check_choice(event, released, release)
            elif event.kind == "counts":
                self._check_counts(event, release)
            else:
                self._check_noise(event, released, release)
            generator.bit_generator.state = state
        self.noted.append(_noted(event, released, again))
        return np.copy(released) if isinstance(released, np.ndarray) else released

    def record_unreplayed(self, what):
        """Note that noise is added outside the hook."""
        self.passed_by.append((len(self.noted), what))

    def _check_noise(self, event, released, release):
        deviations = np.broadcast_to(np.asarray(event.noise, dtype=float), event.statistic.shape)
        counted = np.isfinite(deviations)
        size = int(counted.sum())
        n_times = _n_times(event, size)
        if event.kind != "laplace":
            n_times = max(n_times, min(_MOST_DRAWS_OF_EACH, _MOST_NUMBERS_DRAWN // max(1, size)))
        draws = [released, *(release() for _ in range(max(2, n_times - 2)))]
        if event.kind != "laplace" and np.array_equal(draws[1], draws[2]) and counted.any():
            self.noises.append((len(self.noted), "the same each time that it is drawn"))
            return
        noise = np.stack([((draw - event.statistic) / deviations)[counted] for draw in draws])
        if event.kind != "laplace":
            self._check_normal(noise, len(noise))
            return
        q = math.exp(-1.0 / event.noise)
        square = float(np.mean(noise**2)) * event.noise**2 * (1.0 - q) ** 2 / (2.0 * q)
        if abs(square - 1.0) > _LAPLACE_TOLERANCE:
            self._note(math.sqrt(square))

    def _check_normal(self, noise, n_free, may_be_larger=False):
        """Compare noise in deviations, of shape (n_times, size), with as many normal numbers."""
        ratio = _unlikely_ratio(noise, n_free, may_be_larger)
        if ratio is not None:
            self._note(ratio)
        elif not may_be_larger:
            self.normal.append(math.sqrt(len(noise) / n_free) * noise.ravel()[:_N_FOR_LAW])
        return ratio is None

    def _check_choice(self, event, released, release):
        """Compare how often candidates are drawn with their weights."""
        probabilities, place = _law_of_choice(event.statistic)
        middles = np.cumsum(probabilities) - 0.5 * probabilities
        bins = np.minimum((middles * _BINS).astype(int), _BINS - 1)
        drawn = [
            bins[place(draw)] for draw in (released, *(release() for _ in range(_DRAWS["choice"])))
        ]
        counts = np.bincount(drawn, minlength=_BINS)
        expected = np.bincount(bins, probabilities, minlength=_BINS)
        if _is_unlikely(counts, len(drawn), expected):
            text = "another law than its weights are: candidates are drawn too often or too rarely"
            self.noises.append((len(self.noted), text))

    def _check_counts(self, event, release):
        """Compare how often values are kept with their counts, of the table and at the threshold."""
        n_times, threshold, scale = _DRAWS["counts"], event.threshold, event.noise
        at = [1, *(max(0, round(threshold + shift * scale)) for shift in (-1.0, 0.0, 1.0))]
        probes = [((n, place), n) for place in range(n_times) for n in dict.fromkeys(at)]
        kept = [n for n, _ in event.without_records(probes)]
        n_draws = 1 + n_times // (1 + len(event.statistic))
        again = [draw for _ in range(n_draws) for draw in release()]
        real = list(event.statistic.items())
        for times, counted, values in (
            (n_times, kept, [(n, n) for n in dict.fromkeys(at)]),
            (n_draws, again, real),
        ):
            often = [sum(draw == value for draw in counted) for value, _ in values]
            ends = np.array([threshold - count for _, count in values])
            if _is_unlikely(often, times, norm.sf(ends / scale)):
                text = "another than is said: values are kept too often or too rarely for the threshold"
                self.noises.append((len(self.noted), text))
                return

    def _check_noise_of_steps(self, event, again):
        """Compare a step's noise: without records, and with those of the table, on which it may depend."""
        alone = np.stack([event.without_records() for _ in again])
        for draws, may_be_larger in ((alone, False), (again, True)):
            # Around their mean, since what else is in them is not known: one of them says nothing.
            noise = (draws - draws.mean(axis=0)) / event.noise
            # With records, batches and points at which gradients are taken vary with the noise.
            if not self._check_normal(noise, len(noise) - 1, may_be_larger):
                return

    def _note(self, ratio):
        self.noises.append((len(self.noted), f"{ratio:.3g} times as large as it is said to be"))


class StopFit(BaseException):
    """Ends a fit of which enough has been seen."""


class GeneratorStateObserver:
    """Notes the states of generators in a fit without a seed, and ends it after some releases.

    Attributes
    ----------
    states : list of bytes
        Before each release.
    """

    def __init__(self, n_releases=16):
        self.states, self.n_releases = [], n_releases

    def record_unreplayed(self, what):
        """Do nothing: the first run has noted it."""

    def __call__(self, event, release, generator):
        if len(self.states) == self.n_releases:
            raise StopFit
        before = pickle.dumps(generator.bit_generator.state)
        released = release()
        # What draws nothing, such as a release without privacy, may be followed by the same state.
        if pickle.dumps(generator.bit_generator.state) != before:
            self.states.append(before)
        return released


class ReplayObserver:
    """Hands out what was released before, and notes what it would have been made of.

    Attributes
    ----------
    noted : list of ObservedRelease
    others : list of (int, str)
        Releases that are not of the same kind, and how they differ.
    leaks : list of int
        As of a `Recorder`.
    """

    def __init__(self, before):
        self.before, self.noted, self.others, self.leaks = before, [], [], []

    def record_unreplayed(self, what):
        """Do nothing: the first run has noted it."""

    def __call__(self, event, release, generator):
        event, number = _kept(event), len(self.noted)
        released, again = release(), None  # From then on random numbers are the same.
        self.leaks += _leak(event, released, number)
        if number < len(self.before) and self.before[number].again is not None and event.is_noisy:
            state = generator.bit_generator.state
            again = _drawn_again(event, release)
            generator.bit_generator.state = state
        self.noted.append(_noted(event, released, again))
        if number >= len(self.before):
            return released
        difference = _form(self.before[number].event, event)
        if difference:
            self.others.append((number, difference))
            return released
        released = self.before[number].released
        return np.copy(released) if isinstance(released, np.ndarray) else released


def _jump(generator, number):
    """Go on with random numbers that no other release draws, if the generator can."""
    own = generator.bit_generator
    if hasattr(own, "jumped"):
        own.state = own.jumped(number).state


def _kept(event):
    """An event with a copy of its statistic, which nobody changes."""
    statistic = event.statistic() if callable(event.statistic) else event.statistic
    if event.kind != "counts":
        statistic = np.array(statistic)
    return event._replace(statistic=statistic)


def _noted(event, released, again):
    """The part of a release that is kept, without references to tables."""
    return ObservedRelease(
        event._replace(without_records=None, is_post_processing=None), released, again
    )


def _n_times(event, size):
    return 1 + math.ceil(_DRAWS[event.kind] / max(1, size))


def _drawn_again(event, release):
    """The numbers with noise of a step that is taken several times."""
    size = event.statistic.size
    return np.stack([release()[:size] for _ in range(_n_times(event, size))])


def _may_be_drawn_again(event):
    if event.kind == "counts":
        return event.without_records is not None and event.threshold is not None
    return event.kind in _DRAWS and not (event.is_noisy and event.without_records is None)


def _law_of_choice(statistic):
    """Probabilities, and a function from what is released to the index of its probability."""
    if statistic.dtype == object:  # A step function over more candidates than are ever listed.
        steps = statistic.item()
        return steps.probabilities(), steps.run_of
    return softmax(statistic), int


def _is_unlikely(counts, n_times, probabilities):
    """Whether any count is too far from what is expected, exactly."""
    below = binom.cdf(counts, n_times, probabilities)
    above = binom.sf(np.asarray(counts) - 1, n_times, probabilities)
    return bool((np.minimum(below, above) < _FALSE_ALARM).any())


def _unlikely_ratio(noise, n_free, may_be_larger):
    """By how much noise is too large or too small, if that is unlikely of normal numbers, or None.

    Compared are the squares of all numbers, of each, and of the differences of neighbours: of one number that
    is added to several there are none.

    Parameters
    ----------
    noise : ndarray of shape (n_times, size)
        In deviations.
    n_free : int
        ``n_times``, or one less if a mean was subtracted.
    may_be_larger : bool
    """
    of_each = np.sum(noise**2, axis=0)
    of_pairs = np.sum(np.diff(noise, axis=1) ** 2, axis=0) / 2.0
    squares = np.concatenate([[of_each.sum()], of_each, of_pairs])
    sizes = np.full(squares.size, n_free)
    sizes[0] *= of_each.size
    above = 1.0 if may_be_larger else chi2.sf(squares, sizes)
    p_values = np.minimum(above, chi2.cdf(squares, sizes))
    # All together say how large it is, if they say anything.
    worst = 0 if p_values[0] < _FALSE_ALARM else int(np.argmin(p_values))
    if p_values[worst] * (squares.size if worst else 1) >= _FALSE_ALARM:
        return None
    return math.sqrt(squares[worst] / sizes[worst])


def _leak(event, released, number):
    return (
        [number]
        if event.is_post_processing is not None and not event.is_post_processing(released)
        else []
    )


def _form(first, second):
    """The public attribute in which two releases differ, or None."""
    if first.kind != second.kind:
        return f"{first.kind} in one run and {second.kind} in the other"
    if first.kind != "counts" and first.statistic.shape != second.statistic.shape:
        return f"shapes {first.statistic.shape} and {second.statistic.shape}"
    if first.charged != second.charged or first.is_joint != second.is_joint:
        return "other charges"
    if first.rate != second.rate:
        return "batches of other sizes"
    if first.kind != "choice" and not np.array_equal(first.noise, second.noise):
        return "noise of other sizes"
    return None


def moved(first, second, max_records=1):
    """The distance by which a record moved a release, in the units of its charge.

    Parameters
    ----------
    first, second : ReleaseEvent
    max_records : int, default=1
        How many may be of the person who is another in the second table.

    Returns
    -------
    moved : float
        Of Gaussian noise the distance in deviations, of Laplace noise that in scales, of a choice the range
        of log odds, of counts as of Gaussian noise; ``inf`` if a value of more records than that is in one
        table only.
    """
    if first.kind == "choice":
        shift = first.statistic - second.statistic
        return float(np.ptp(shift))
    if first.kind == "counts":
        counts = [
            (first.statistic.get(value, 0), second.statistic.get(value, 0))
            for value in {**first.statistic, **second.statistic}
        ]
        if any(min(pair) == 0 and max(pair) > max_records for pair in counts):
            return math.inf
        square = sum((a - b) ** 2 for a, b in counts if min(a, b) > 0)
        return math.sqrt(square) / first.noise if first.noise else math.inf * bool(square)
    shift = np.abs((first.statistic - second.statistic) / first.noise)
    if np.isnan(shift).any():
        return math.inf
    return float(np.sum(shift) if first.kind == "laplace" else np.linalg.norm(shift.ravel()))


# The second table of a replay: the first one with another record, or without it.


def frame_of(column):
    """A frame of pandas in the place of another library's, in which rows can be changed."""
    names = column_names(column)
    if names is None or hasattr(column, "iloc"):
        return column
    import pandas as pd

    return pd.DataFrame({name: np.asarray(column[name]) for name in names})


def with_record(columns, index, record):
    """The columns of a table, a dict by argument, in which a record takes the place of ``index``.

    Raises
    ------
    ValueError
        If the record has not one value for each column.
    """
    if isinstance(record, tuple) and len(record) != 2:
        raise ValueError(
            f"record is a tuple of {len(record)}: give (x, y), or x as an array or list, or a dict."
        )
    parts = {name: _part(record, name) for name in columns}
    for name, part in parts.items():
        _check_part(name, columns[name], index, part)
    return {name: _with_value(column, index, parts[name]) for name, column in columns.items()}


def _part(record, name):
    """A record's part in an argument: ``...`` if it stays, and None if the record is taken out."""
    if record is None:
        return None
    if isinstance(record, dict):
        return record.get(name, ...)
    if isinstance(record, tuple):
        return record[("X", "y").index(name)] if name in ("X", "y") else ...
    return record if name == "X" else ...


def _check_part(name, column, index, value):
    """Raise a ValueError if a record has not a value for each column, which NumPy would repeat."""
    if value is ... or value is None:
        return
    shape = np.shape(column)[1:]
    needed = (*np.shape(index), *shape)
    given = np.shape(value) if not isinstance(value, dict) else (len(value),)
    # A person may have one label in all rows.
    is_one = not given and not shape
    if not is_one and math.prod(given) != math.prod(needed):
        raise ValueError(
            f"record has values of shape {given} for {name}, and needs {needed or 'a single one'}: one for "
            f"each column{', of each row of index' if np.ndim(index) else ''}. (A tuple is (x, y).)"
        )


def _with_value(column, index, value):
    if value is ...:
        return column
    if hasattr(column, "iloc"):
        if value is None:
            return column.drop(column.index[index])
        column = column.copy()
        column.iloc[index] = value
        return column
    column = np.array(column)
    if value is None:
        return np.delete(column, index, axis=0)
    if column.dtype.kind in "iu":  # A record is not rounded.
        column = column.astype(np.result_type(column, np.asarray(value)))
    column[index] = value
    return column


# Of what is charged, for sums in doubles.
_SUM_TOLERANCE = 1.0 + 1e-9


class Finding(NamedTuple):
    """A finding of a replay.

    Attributes
    ----------
    kind : {"sensitivity", "noise", "cost", "releases", "output", "warning", "error", "not covered"}
        A release that a record moves farther than is charged; noise of another size than is said; charges
        that add up to more than the cost; releases that differ in number, order, shape or noise; an output,
        warning or error that depends on records other than through releases; or what could not be looked at.
    text : str
    """

    kind: str
    text: str

    def __str__(self):
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay. **It is computed from records without noise, and is as private as they are.**

    Attributes
    ----------
    findings : tuple of Finding
        Violations, and what is not covered.
    n_releases : int
        How many releases passed the audit hook.
    largest_share : float
        The most that the record moved a release, relative to its charge: the nearer to 1, the harder the pair
        of tables has tried. It may have moved other releases far less, in which less is seen.
    n_looked_at : int
        For how many releases the noise, or the choice, was drawn again. Of a compiled chain that is 64 steps
        at most, half of them evenly spaced and half chosen by ``seed``.
    """

    findings: tuple[Finding, ...]
    n_releases: int
    largest_share: float
    n_looked_at: int = 0

    @property
    def passed(self) -> bool:
        """Whether nothing was found, and nothing is named that could not be looked at.

        That is said of this pair of tables and this seed. In ``n_looked_at`` releases the noise is drawn
        again, and its size, or how often each candidate or category comes out, is compared with what is said.
        Whether Gaussian noise is normal is looked at in all releases of sums together. Beyond that, the law
        of noise is not looked at; neither is what a fit writes to files or sends away.
        """
        return not self.findings

    @property
    def violations(self) -> tuple[Finding, ...]:
        """Findings of what is wrong, without what is not covered."""
        return tuple(finding for finding in self.findings if finding.kind != "not covered")

    def __str__(self):
        head = (
            f"Replay of {self.n_releases} releases: {'passed' if self.passed else 'not passed'}; the record "
            f"moved one by up to {100 * self.largest_share:.3g}% of what is charged, and the size of "
            f"noise was looked at in {self.n_looked_at}"
        )
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])


def replay(
    estimator: Any,
    X: MatrixLike,
    y: ArrayLike | None,
    record: Any,
    *,
    index: int | Sequence[int] = 0,
    seed: int = 0,
    **fit_params: Any,
) -> ReplayResult:
    """Run a fit on two neighbouring tables with the same randomness, and compare all that it does.

    A third fit, without an observer, has to release what the first one has. Two more fits without a seed
    must not draw the same random numbers; they end after 16 releases.

    A single pair of tables proves nothing; take records that ought to move a fit as far as one can: rows of
    the largest norm with either label, longer ones, rows of zeros, and infinite weights.

    Parameters
    ----------
    estimator : estimator or callable
        An estimator, pipeline, transformer or search, with a sampler of your own if you like, or a score
        such as ``functools.partial(dp_accuracy_score, epsilon=1.0)``.
    X : array-like of shape (n_samples, n_features)
        Records that are no secret. Of a score: the first column.
    y : array-like of shape (n_samples,) or None
        Of a score: the second column.
    record : tuple, array-like, dict or None
        What takes the place of one record in the second table: ``(x, y)``, or ``x`` without labels, or a dict
        by argument, ``{"X": x, "y": y, "sample_weight": w}``. What is not given stays as in the first table:
        with ``x`` alone the label does. None takes the record out, for "add_or_remove_one".
    index : int or sequence of int, default=0
        Which record; or which are the rows of a person who is protected, and whose rows in ``record`` are as
        many. Take persons with at most ``max_rows_per_group`` rows: a choice among more would differ.
    seed : int, default=0
        Of both runs.
    **fit_params : array-like of shape (n_samples,)
        Other columns for `fit`, such as ``sample_weight``, or for a score, such as ``groups``.

    Returns
    -------
    result : ReplayResult
        ``passed``, and ``findings``.

    Raises
    ------
    ValueError
        If a `PrivacyLedger` is active, because what is compared is not private; if records are taken out
        where neighbours have as many; or if a record has not as many values as the table has columns.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.audit import replay
    >>> from skdpbayes.preprocessing import DPQuantileScaler
    >>> X = np.linspace(-1.0, 1.0, 200).reshape(100, 2)
    >>> print(replay(DPQuantileScaler(), X, None, [1e9, -1e9]).passed)
    True
    """
    refuse_columns_in_other_order(X=X, y=y, **fit_params)
    if _active:
        raise ValueError(
            "a PrivacyLedger is active, and a replay looks at sums without noise: run it outside, on a table "
            "that is no secret."
        )
    if record is None and not _adds(estimator):
        raise ValueError(
            "record=None takes a record out, which is for neighboring_relation='add_or_remove_one': give the "
            "record that takes its place."
        )
    columns = {"X": X, "y": y, **fit_params}
    columns = {name: frame_of(column) for name, column in columns.items() if column is not None}
    others = with_record(columns, index, record)
    with rows_in_order():  # Of persons: what is compared holds for any order.
        first = _run(estimator, columns, seed, Recorder())
        # What is kept after the first fit, for instance of costs, is kept before the second one.
        before = _kept_outside(estimator)
        second = _run(estimator, others, seed, ReplayObserver(first.observer.noted))
        changed = _changed_globals(before, _kept_outside(estimator))
        unobserved = unseeded = None
        if first.error is None:
            unobserved = _run(estimator, columns, seed, None)
            unseeded = [_run(estimator, columns, None, GeneratorStateObserver()) for _ in range(2)]
    result = _compare_runs(first, second, unobserved)
    outside = [Finding("not covered", text) for text in changed]
    return replace(result, findings=(*result.findings, *_repeated_keys(unseeded or []), *outside))


class _Run(NamedTuple):
    observer: Any
    released: Any
    warnings: list
    error: BaseException | None


def _run(estimator, columns, seed, observer):
    """A `_Run` of one table."""
    released = error = None
    with warnings.catch_warnings(record=True) as caught, observe_releases(observer):
        warnings.simplefilter("always")
        try:
            if hasattr(estimator, "fit"):
                released = clone(estimator)
                seeds = dict.fromkeys(parameters_named("random_state", released), seed)
                # Workers have no observer.
                alone = dict.fromkeys(parameters_named("n_jobs", released), 1)
                released.set_params(**seeds, **alone).fit(**columns)
            else:
                rows_and_labels = [columns[name] for name in ("X", "y") if name in columns]
                others = {
                    name: column for name, column in columns.items() if name not in ("X", "y")
                }
                seeds = {} if seed is None else {"random_state": seed}
                released = estimator(*rows_and_labels, **others, **seeds)
        except StopFit:
            pass
        except Exception as raised:
            error = raised
    return _Run(observer, released, [(w.category.__name__, str(w.message)) for w in caught], error)


def _compare_runs(first, second, unobserved):
    """The `ReplayResult` of two runs, and of the first one without an observer."""
    findings = []
    errors = [None if run.error is None else repr(run.error) for run in (first, second)]
    if errors[0] != errors[1]:
        findings.append(Finding("error", f"{errors[0]} in one run and {errors[1]} in the other"))
    elif first.error is not None:
        raise first.error
    if first.warnings != second.warnings:
        findings.append(Finding("warning", f"{first.warnings} and {second.warnings}"))
    findings += _noise_findings(first.observer) + _leak_findings(first.observer, second.observer)
    findings += _observer_findings(first, unobserved)
    findings += _order_findings(first.observer, second.observer)
    # What is released outside the hook is not the same in both runs, and neither is what follows from it.
    passed_by = first.observer.passed_by
    end = passed_by[0][0] if passed_by else None
    noted = first.observer.noted[:end], second.observer.noted[:end]
    persons = getattr(getattr(first.released, "plan_", None), "persons", None)
    steps = 1 if persons is None else rows_between_neighbours(persons)
    shares, too_far = _sensitivity_findings(*noted, steps)
    findings += too_far
    again, of_draws = _findings_of_redraws(*noted, steps)
    shares += again
    findings += of_draws
    findings += [Finding("not covered", f"{what}, and what follows") for _, what in passed_by]
    if errors == [None, None] and not passed_by:
        pairs = zip(*noted, strict=False)
        most = 1 if persons is None else persons.max_rows
        movements = [
            (a.event, moved(a.event, b.event, most) / _steps_of(a.event, steps))
            for a, b in pairs
            if _alike(a, b)
        ]
        of_cost, is_all = _cost_findings(first.released, persons, movements)
        findings += [Finding(*finding_fields) for finding_fields in of_cost]
        if is_all and not second.observer.others:
            held = compare_objects(first.released, second.released)
            for names, kind, text in (
                (held.differing, "output", " depends on the record"),
                (held.generators, "output", " holds the generator of the noise"),
                (held.not_inspected, "not covered", ": it was not looked into"),
            ):
                findings += [Finding(kind, f"{name}{text}") for name in names]
    return ReplayResult(
        tuple(findings),
        len(first.observer.noted),
        max(shares, default=0.0),
        first.observer.n_looked_at,
    )


def _noise_findings(recorder):
    found = [Finding("noise", f"of release {n} is {text}") for n, text in recorder.noises]
    normal = np.concatenate(recorder.normal or [np.zeros(0)])
    if normal.size and kstest(normal, "norm").pvalue < _FALSE_ALARM:
        found.append(Finding("noise", "is of another law than the normal one, in all releases"))
    return found


def _leak_findings(*observers):
    leaks = sorted({number for observer in observers for number in observer.leaks})
    if not leaks:
        return []
    text = f"release {leaks[0]} leaves behind more than follows from its numbers with noise"
    return [Finding("output", text + (f", and {len(leaks) - 1} others" if len(leaks) > 1 else ""))]


def _observer_findings(first, unobserved):
    """Check that observing a chain does not change its releases."""
    if unobserved is None:
        return []
    if unobserved.error is not None:
        return [Finding("error", f"{unobserved.error!r} without an observer")]
    differing = compare_objects(first.released, unobserved.released).differing
    return [Finding("output", f"{name} is another without an observer") for name in differing]


def _repeated_keys(runs):
    """Findings where fits without a seed draw random numbers that were drawn before."""
    if errors := [run.error for run in runs if run.error is not None]:
        return [Finding("error", f"{errors[0]!r} without a seed")]
    states = [state for run in runs for state in run.observer.states]
    if len(set(states)) == len(states):
        return []
    repeats = [len(set(run.observer.states)) < len(run.observer.states) for run in runs]
    where = "two releases of one fit" if any(repeats) else "two fits"
    return [Finding("noise", f"of {where} without a seed is of the same random numbers")]


def _kept_outside(estimator):
    """{name: (identity, size)} of what classes and modules hold, of an estimator and this package."""
    kinds = [] if isinstance(estimator, type) else type(estimator).__mro__[:-1]
    modules = {kind.__module__ for kind in kinds} | {
        name for name in sys.modules if name.partition(".")[0] == __name__.partition(".")[0]
    }
    owners: dict[str, Any] = {kind.__qualname__: vars(kind) for kind in kinds}
    owners |= {name: vars(sys.modules[name]) for name in modules if name in sys.modules}
    return {
        f"{owner}.{name}": (id(held), _size_of(held))
        for owner, space in owners.items()
        for name, held in list(space.items())
    }


def _size_of(held):
    if isinstance(held, functools._lru_cache_wrapper):
        return held.cache_info().currsize
    return len(held) if isinstance(held, list | dict | set | bytearray) else None


def _changed_globals(before, after):
    names = sorted(name for name in after if after[name] != before.get(name))
    names = [name for name in names if not name.endswith(("__abstractmethods__", "_abc_impl"))]
    return [f"{name}: it was changed by a fit, outside of the fitted object" for name in names[:20]]


def _findings_of_redraws(first, second, steps):
    """Shares of charges of steps drawn again, and findings: steps that move too far, and batches."""
    shares, findings, rates = [], [], []
    for number, (a, b) in enumerate(zip(first, second, strict=False)):
        if a.again is None or b.again is None or not _alike(a, b) or not a.event.charged:
            continue
        shifts = np.linalg.norm((a.again - b.again) / a.event.noise, axis=1) / steps
        shifts /= a.event.charged
        shares.append(float(shifts.max()))
        if not shares[-1] <= _SUM_TOLERANCE:
            text = f"release {number}, drawn again, moved by {shares[-1]:.4g} times what is charged"
            findings.append(Finding("sensitivity", text))
        if a.event.kind == "batch":
            rates.append((a.event.rate, shifts))
    if rates:
        text = check_rate(np.concatenate([shifts for _, shifts in rates]), rates[0][0])
        findings += [Finding("sensitivity", text)] if text else []
    return shares, findings


def _order_findings(recorder, follower):
    findings = [Finding("releases", f"release {n}: {text}") for n, text in follower.others]
    sizes = len(recorder.noted), len(follower.noted)
    if sizes[0] != sizes[1]:
        findings.append(Finding("releases", f"{sizes[0]} in one run and {sizes[1]} in the other"))
    return findings


def _alike(a, b):
    return a.event.kind == b.event.kind and (
        a.event.kind == "counts" or a.event.statistic.shape == b.event.statistic.shape
    )


def _cost_findings(released, persons, movements):
    """Findings where charges and costs do not agree, and whether the hook saw all of it."""
    if persons is None:
        return check_costs(claimed_cost(released)[0], movements)
    # What a row costs a person is said once for steps that read one row of each, and once for others.
    plan, findings, is_all = released.plan_, [], True
    claims = [(False, persons.cost_of_rows)]
    if getattr(plan, "of_one_row", ()):
        claims = [(False, plan.cost_of_all_rows), (True, plan.cost_of_single_row_steps)]
    elif any(event.of_one_row for event, _ in movements):
        findings.append(
            ("cost", "one row of each person is read where nothing is planned for that")
        )
    for of_one_row, cost in claims:
        selected = [movement for movement in movements if movement[0].of_one_row == of_one_row]
        of_these, all_of_these = check_costs(cost, selected, persons.max_rows)
        findings, is_all = findings + of_these, is_all and all_of_these
    steps = rows_between_neighbours(persons)
    moved_by = [(event, shift * _steps_of(event, steps)) for event, shift in movements]
    return findings + check_cost_of_persons(plan.cost, moved_by), is_all


def _steps_of(event, steps):
    """Number of rows a person who is protected moves a release by."""
    return 1 if event.of_one_row else steps


def _sensitivity_findings(first, second, steps):
    """The shares of charges that a record used, and findings where they are more than 1.

    Releases are charged for rows, of which a person who is protected moves them as far as ``steps``.
    """
    shares, findings, so_far = [], [], 0.0
    for number, (a, b) in enumerate(zip(first, second, strict=False)):
        if not _alike(a, b) or a.event.charged is None:
            continue
        shift, event = moved(a.event, b.event) / _steps_of(a.event, steps), a.event
        if event.is_joint:
            shift = math.hypot(so_far, shift) if event.kind == "gaussian" else so_far + shift
        so_far = shift
        share = shift / event.charged if event.charged > 0 else math.inf * (shift > 0)
        shares.append(share)
        if not share <= _SUM_TOLERANCE:
            text = f"release {number} ({event.kind}) moved by {share:.4g} times what is charged"
            findings.append(Finding("sensitivity", text))
    return shares, findings
