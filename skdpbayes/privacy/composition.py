"""The privacy loss distribution of many parts, to which one more is added at little cost.

    T(S) = T(S_0) * T(S_1),      S_b the parts of S whose digests go on with the bit b,

where ``*`` is dp-accounting's composition and a set of a single part is that part's own distribution. The
tree depends on what is in it, never on the order in which it came, so that equal costs have equal
epsilons; and since subsets are kept, a set of ``N`` parts with one more takes a composition for each of
some ``log2(N)`` levels, most of them of few parts.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from .loss_distributions import _pld, fitting_interval
from .profiles import PureMechanism

# Bytes of distributions that are kept.
_ROOM = 2**27
_DIGEST_BITS = 256


class _Kept:
    """Distributions by what they are of, the latest ones, up to a number of bytes."""

    def __init__(self, room):
        self.room, self.used = room, 0
        self._found: OrderedDict = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key):
        """Return what is kept, or None."""
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
                return found[0]
        return None

    def put(self, key, losses):
        """Keep a distribution, and forget those that were not asked for longest."""
        size = 8 * (len(key[0]) + sum(getattr(pmf, "size", 0) for pmf in vars(losses).values()))
        with self._lock:
            if key not in self._found and size <= self.room:
                self._found[key] = losses, size
                self.used += size
            while self.used > self.room:
                _, (_, freed) = self._found.popitem(last=False)
                self.used -= freed


_kept = _Kept(_ROOM)


@lru_cache(maxsize=2**14)
def _digest(part):
    """Return bits that are those of a kind of mechanism in every process, however often it occurs."""
    text = repr(replace(part, count=1))
    return int.from_bytes(hashlib.sha256(text.encode()).digest())


def _of_parts(parts, relation, interval, level=0):
    """Return the distribution of some parts whose digests agree in their first bits, so many."""
    key = parts, relation, interval
    found = _kept.get(key)
    if found is None:
        found = _composed(parts, relation, interval, level)
        _kept.put(key, found)
    return found


def _composed(parts, relation, interval, level):
    if len(parts) == 1:
        return parts[0].composed(relation, interval)
    halves: tuple[list, list] = ([], [])
    while not all(halves) and level < _DIGEST_BITS:
        halves = [], []
        for part in parts:
            halves[_digest(part) >> (_DIGEST_BITS - 1 - level) & 1].append(part)
        level += 1
    if not all(halves):  # Of one digest, if there ever are any.
        halves = list(parts[:1]), list(parts[1:])
    first, second = (_of_parts(tuple(half), relation, interval, level) for half in halves)
    return first.compose(second)


@lru_cache(maxsize=64)
def compose_losses(parts: Sequence[Any], mu: float, relation: str) -> Any:
    """Return the privacy loss distribution of some parts and of a ``mu``-GDP mechanism.

    Parameters
    ----------
    parts : tuple of SampledGaussian, PoissonGaussian, AcceptBits, PureMechanism or SelectedRun
        At least one.
    mu : float
    relation : {"replace_one", "add_or_remove_one"}

    Returns
    -------
    distribution : dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
    """
    largest = sum(part.pure_epsilon for part in parts if isinstance(part, PureMechanism))
    interval = fitting_interval(parts, mu, relation, largest)
    total = _of_parts(tuple(parts), relation, interval)
    if mu > 0:
        gaussian = _pld().privacy_loss_distribution.from_gaussian_mechanism(
            1.0 / mu, value_discretization_interval=interval
        )
        total = total.compose(gaussian)
    return total
