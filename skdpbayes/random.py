"""The generator: AES-128 in counter mode, keyed by the operating system.

Privacy noise that can be predicted is no noise. A Mersenne twister or a PCG can be reconstructed from
its outputs; a block cipher in counter mode cannot, and costs no more (``randomgen.AESCounter``). A seed
makes runs repeatable and voids the guarantee: anyone who knows it can subtract the noise, and two fits
with the same seed on neighbouring tables differ by the record alone.

Generators are made before a plan is charged, so that a ledger refuses a seed before anything is spent.
"""

import secrets

import numpy as np
from sklearn.utils import check_random_state

from ._typing import RandomStateLike
from .exceptions import SeedWarning
from .privacy.charge import check_seeds_are_allowed
from .privacy.deferred_warnings import warn

__all__ = ["private_generator", "public_generator"]


def __dir__():
    return __all__


def private_generator(random_state: RandomStateLike = None) -> np.random.Generator:
    """A generator for privacy noise.

    Parameters
    ----------
    random_state : None, int, RandomState or Generator, default=None
        None takes a fresh 128-bit key from the operating system, which the guarantee needs. Anything
        else makes the draws reproducible, on any number of cores, and voids the guarantee where it
        is known or used again.

    Returns
    -------
    generator : numpy.random.Generator

    Warns
    -----
    SeedWarning
        If ``random_state`` is given.

    Raises
    ------
    ValueError
        If ``random_state`` is given and an active `PrivacyLedger` does not allow seeds.

    Examples
    --------
    >>> from skdpbayes.random import private_generator
    >>> noise = private_generator().standard_normal(3)
    """
    if random_state is not None:
        announce_seed()
    return _generator(random_state)


def separate_generator(random_state, number):
    """A generator for private choices beside the noise: of other random numbers, also for a seed.

    Parameters
    ----------
    random_state : None, int, RandomState or Generator
        As for `private_generator`.
    number : int
        Of the choice, from 1.
    """
    if random_state is not None:
        check_seeds_are_allowed()
    return np.random.Generator(_generator(random_state).bit_generator.jumped(number))


def child_generator(generator):
    """A generator with a key that another draws, of which it takes as much whatever is drawn."""
    from randomgen import AESCounter

    # Public: a key, and none of what is drawn with it.
    return np.random.Generator(AESCounter(key=int.from_bytes(generator.bytes(16), "little")))


def announce_seed():
    """Warn that noise will come from a seed, or raise an error if an active ledger does not allow it."""
    check_seeds_are_allowed()
    warn(
        "A seeded random_state makes the noise repeatable: anyone who knows the seed can remove it, and a "
        "seed used for two fits reveals what differs between their tables. For a release, fit with "
        "random_state=None, and outside of an ensemble, which seeds its members. In tests, ignore this.",
        SeedWarning,
    )


def has_seeds(estimator):
    """Whether an estimator or one inside it is private and has a seed, or a scorer inside it does."""
    parts = estimator.get_params(deep=True).values() if hasattr(estimator, "get_params") else ()
    scorers = (scorer for part in parts if isinstance(part, dict) for scorer in part.values())
    return any(map(_is_seeded, [estimator, *parts, *scorers]))


def _is_seeded(part):
    # Scorers keep their options to themselves, and searches draw seeds.
    if isinstance(part, type) or not hasattr(part, "_has_seeds"):
        return hasattr(part, "privacy_plan") and getattr(part, "random_state", None) is not None
    return part._has_seeds()


def public_generator(random_state: RandomStateLike = None) -> np.random.Generator:
    """A generator for what is public anyway, e.g. where a chain starts: none of the private one's.

    Parameters
    ----------
    random_state : None, int, RandomState or Generator, default=None
        As for `private_generator`.

    Returns
    -------
    generator : numpy.random.Generator
    """
    return np.random.default_rng(None if random_state is None else _words(random_state))


def _generator(random_state):
    from randomgen import AESCounter

    if random_state is None:
        return np.random.Generator(AESCounter(key=secrets.randbits(128)))
    return np.random.Generator(AESCounter(np.random.SeedSequence(_words(random_state))))


def _words(random_state):
    if isinstance(random_state, np.random.Generator):
        return random_state.integers(2**32, size=4, dtype=np.uint32)  # Public: seeds are for tests.
    if isinstance(random_state, int | np.integer):
        check_random_state(random_state)  # Raises on a negative seed.
        return int(random_state)
    # Public: seeds are for tests.
    return check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
