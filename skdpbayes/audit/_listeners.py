"""Who listens at the door while a release is replayed.

    first run:   note what each release is made of, and let it pass; draw it again to see its noise
    second run:  hand out the releases of the first, and note what they would have been made of

`skdpbayes._mechanisms.door` is the door.
"""

import math
import pickle
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from scipy.stats import binom, chi2, norm

# Numbers with noise that are drawn again, at least, to see how large it is.
_DRAWS = {"gaussian": 300, "laplace": 600, "batch": 300, "choice": 300, "counts": 300}
# Sets of neighbouring candidates whose frequencies are compared with their probabilities.
_BINS = 16
# Noise as it should be is taken for wrong with this probability.
_UNLIKELY = 1e-8
# Mean squares of Laplace noise are as far off with about that probability.
_FAR_OFF = 0.5


class Noted(NamedTuple):
    """A release as it passed the door: its `Passage`, what was released, and draws of it again, if any."""

    passage: Any
    released: Any
    again: Any = None


class Recorder:
    """Lets releases pass, and notes them.

    Attributes
    ----------
    noted : list of Noted
    noises : list of (int, str)
        Releases whose noise is not as large as is said, and what is.
    passed_by : list of (int, str)
        What was released elsewhere, and after how many releases.
    leaks : list of int
        Releases of compiled code that left behind more than follows from their numbers with noise.
    n_looked_at : int
        How many releases had their noise looked at.
    """

    def __init__(self):
        self.noted, self.noises, self.passed_by, self.leaks = [], [], [], []
        self.n_looked_at = 0

    def __call__(self, passage, release, generator):
        passage = _kept(passage)
        released, again = release(), None
        self.leaks += _leak(passage, released, len(self.noted))
        if _may_be_drawn_again(passage):
            self.n_looked_at += 1
            state = generator.bit_generator.state
            if passage.is_noisy:
                again = _drawn_again(passage, release)
                self._check_noise_of_steps(passage, again)
            elif passage.kind == "choice":
                self._check_choice(passage, released, release)
            elif passage.kind == "counts":
                self._check_counts(passage, release)
            else:
                self._check_noise(passage, released, release)
            generator.bit_generator.state = state
        self.noted.append(_noted(passage, released, again))
        return np.copy(released) if isinstance(released, np.ndarray) else released

    def pass_by(self, what):
        """Note that noise is added elsewhere."""
        self.passed_by.append((len(self.noted), what))

    def _check_noise(self, passage, released, release):
        deviations = np.broadcast_to(
            np.asarray(passage.noise, dtype=float), passage.statistic.shape
        )
        counted = np.isfinite(deviations)
        n_times = _n_times(passage, int(counted.sum()))
        draws = [released, *(release() for _ in range(max(2, n_times - 2)))]
        if passage.kind != "laplace" and np.array_equal(draws[1], draws[2]) and counted.any():
            self.noises.append((len(self.noted), "the same each time that it is drawn"))
            return
        shifted = [((one - passage.statistic) / deviations)[counted] for one in draws]
        noise = np.concatenate(shifted)
        size = noise.size
        if passage.kind != "laplace":
            total = float(np.sum(noise**2))
            law = chi2(size)
            is_wrong = min(law.sf(total), law.cdf(total)) < _UNLIKELY
            ratio = math.sqrt(total / size)
        else:
            q = math.exp(-1.0 / passage.noise)
            square = float(np.mean(noise**2)) * passage.noise**2 * (1.0 - q) ** 2 / (2.0 * q)
            is_wrong, ratio = abs(square - 1.0) > _FAR_OFF, math.sqrt(square)
        if is_wrong:
            self._note(ratio)

    def _check_choice(self, passage, released, release):
        """Compare how often candidates are drawn with their weights."""
        probabilities, place = _law_of_choice(passage.statistic)
        middles = np.cumsum(probabilities) - 0.5 * probabilities
        bins = np.minimum((middles * _BINS).astype(int), _BINS - 1)
        drawn = [
            bins[place(one)] for one in (released, *(release() for _ in range(_DRAWS["choice"])))
        ]
        counts = np.bincount(drawn, minlength=_BINS)
        expected = np.bincount(bins, probabilities, minlength=_BINS)
        if _is_unlikely(counts, len(drawn), expected):
            text = "another law than its weights are: candidates are drawn too often or too rarely"
            self.noises.append((len(self.noted), text))

    def _check_counts(self, passage, release):
        """Compare how often values are kept with their counts, of the table and at the threshold."""
        n_times, threshold, scale = _DRAWS["counts"], passage.threshold, passage.noise
        at = [1, *(max(0, round(threshold + shift * scale)) for shift in (-1.0, 0.0, 1.0))]
        probes = [((n, place), n) for place in range(n_times) for n in dict.fromkeys(at)]
        kept = [n for n, _ in passage.alone(probes)]
        n_draws = 1 + n_times // (1 + len(passage.statistic))
        again = [one for _ in range(n_draws) for one in release()]
        real = list(passage.statistic.items())
        for times, counted, values in (
            (n_times, kept, [(n, n) for n in dict.fromkeys(at)]),
            (n_draws, again, real),
        ):
            often = [sum(one == value for one in counted) for value, _ in values]
            ends = np.array([threshold - count for _, count in values])
            if _is_unlikely(often, times, norm.sf(ends / scale)):
                text = "another than is said: values are kept too often or too rarely for the threshold"
                self.noises.append((len(self.noted), text))
                return

    def _check_noise_of_steps(self, passage, again):
        """Compare a step's noise: without records, and with those of the table, on which it may depend."""
        alone = np.stack([passage.alone() for _ in again])
        for draws, may_be_larger in ((alone, False), (again, True)):
            # Around their mean, since what else is in them is not known: one of them says nothing.
            total = float(np.sum(((draws - draws.mean(axis=0)) / passage.noise) ** 2))
            size = draws.size - draws[0].size
            law = chi2(size)
            # With records, batches and points at which gradients are taken vary with the noise.
            above = 1.0 if may_be_larger else law.sf(total)
            if min(above, law.cdf(total)) < _UNLIKELY:
                self._note(math.sqrt(total / size))
                return

    def _note(self, ratio):
        self.noises.append((len(self.noted), f"{ratio:.3g} times as large as it is said to be"))


class Enough(BaseException):
    """Ends a fit of which enough has been seen."""


class KeyReader:
    """Notes the states of generators in a fit without a seed, and ends it after some releases.

    Attributes
    ----------
    states : list of bytes
        Before each release.
    """

    def __init__(self, n_releases=16):
        self.states, self.n_releases = [], n_releases

    def pass_by(self, what):
        """Do nothing: the first run has noted it."""

    def __call__(self, passage, release, generator):
        if len(self.states) == self.n_releases:
            raise Enough
        before = pickle.dumps(generator.bit_generator.state)
        released = release()
        # What draws nothing, such as a release without privacy, may be followed by the same state.
        if pickle.dumps(generator.bit_generator.state) != before:
            self.states.append(before)
        return released


class Follower:
    """Hands out what was released before, and notes what it would have been made of.

    Attributes
    ----------
    noted : list of Noted
    others : list of (int, str)
        Releases that are not of the same kind, and how they differ.
    leaks : list of int
        As of a `Recorder`.
    """

    def __init__(self, before):
        self.before, self.noted, self.others, self.leaks = before, [], [], []

    def pass_by(self, what):
        """Do nothing: the first run has noted it."""

    def __call__(self, passage, release, generator):
        passage, number = _kept(passage), len(self.noted)
        released, again = release(), None  # From then on random numbers are the same.
        self.leaks += _leak(passage, released, number)
        if number < len(self.before) and self.before[number].again is not None and passage.is_noisy:
            state = generator.bit_generator.state
            again = _drawn_again(passage, release)
            generator.bit_generator.state = state
        self.noted.append(_noted(passage, released, again))
        if number >= len(self.before):
            return released
        difference = _form(self.before[number].passage, passage)
        if difference:
            self.others.append((number, difference))
            return released
        released = self.before[number].released
        return np.copy(released) if isinstance(released, np.ndarray) else released


def _kept(passage):
    """Return a passage with a copy of its statistic, which nobody changes."""
    statistic = passage.statistic() if callable(passage.statistic) else passage.statistic
    if passage.kind != "counts":
        statistic = np.array(statistic)
    return passage._replace(statistic=statistic)


def _noted(passage, released, again):
    """Return what is kept of a release, without what would keep tables."""
    return Noted(passage._replace(alone=None, rest=None), released, again)


def _n_times(passage, size):
    return 1 + math.ceil(_DRAWS[passage.kind] / max(1, size))


def _drawn_again(passage, release):
    """Return the numbers with noise of a step that is taken several times."""
    size = passage.statistic.size
    return np.stack([release()[:size] for _ in range(_n_times(passage, size))])


def _may_be_drawn_again(passage):
    if passage.kind == "counts":
        return passage.alone is not None and passage.threshold is not None
    return passage.kind in _DRAWS and not (passage.is_noisy and passage.alone is None)


def _law_of_choice(statistic):
    """Return probabilities, and a function from what is released to the index of its probability."""
    if statistic.dtype == object:  # A step function over more candidates than are ever listed.
        steps = statistic.item()
        return steps.probabilities(), steps.run_of
    return softmax(statistic), int


def _is_unlikely(counts, n_times, probabilities):
    """Tell whether any count is too far from what is expected, exactly."""
    below = binom.cdf(counts, n_times, probabilities)
    above = binom.sf(np.asarray(counts) - 1, n_times, probabilities)
    return bool((np.minimum(below, above) < _UNLIKELY).any())


def _leak(passage, released, number):
    return [number] if passage.rest is not None and not passage.rest(released) else []


def _form(first, second):
    """Return in what two releases differ that ought to be public, or None."""
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
    """Return by how much a record moved a release, in the units of its charge.

    Parameters
    ----------
    first, second : Passage
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
