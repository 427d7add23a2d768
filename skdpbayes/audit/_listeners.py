"""Who listens at the door while a release is replayed.

    first run:   note what each release is made of, and let it pass; draw it again to see its noise
    second run:  hand out the releases of the first, and note what they would have been made of

`skdpbayes._mechanisms.door` is the door.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

# Numbers with noise that are drawn again, at least, to see how large it is.
_DRAWS = {"gaussian": 300, "laplace": 600, "batch": 300}
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
        if passage.kind in _DRAWS and not (passage.is_noisy and passage.alone is None):
            self.n_looked_at += 1
            state = generator.bit_generator.state
            if passage.is_noisy:
                again = _drawn_again(passage, release)
                self._check_noise_of_steps(passage, again)
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
        draws = [released, *(release() for _ in range(n_times - 2))]
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
