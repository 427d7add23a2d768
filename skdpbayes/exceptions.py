"""Warnings and errors about the privacy guarantee, and warnings about what a fit can tell."""

import warnings

__all__ = [
    "BudgetExceededError",
    "ChangedRowsError",
    "DataScalingWarning",
    "LedgerFileError",
    "LedgerOutOfReachError",
    "PosteriorWarning",
    "PrivacyLeakWarning",
    "PrivacyWarning",
    "SeedWarning",
    "TooLargeError",
]


def __dir__():
    return __all__


class DataScalingWarning(UserWarning):
    """Rows, responses, counts or weights do not fit the public bounds that a fit was given, or learnt."""


class PosteriorWarning(UserWarning):
    """Noise, the prior or the model of errors limits what a fit can tell: intervals may not cover."""


class PrivacyWarning(UserWarning):
    """Something weakens the privacy guarantee, or has spent budget without a result."""


class BudgetExceededError(RuntimeError):
    """A plan would spend more than the active :class:`~skdpbayes.privacy.PrivacyLedger` allows.

    Or more than it was made for, by a sampler that plans wrongly. Nothing is charged or read.
    """


class LedgerOutOfReachError(RuntimeError):
    """A fit cannot be charged, because its ledger is only active in another process."""


class LedgerFileError(RuntimeError):
    """The file of a ledger is damaged, or cannot be read or written. Nothing is charged, and no fit runs."""


class PrivacyLeakWarning(PrivacyWarning):
    """A step of a pipeline learns, or may learn, from the rows without noise."""


class SeedWarning(PrivacyWarning):
    """A fit's noise comes from a seed, so that whoever knows the seed can remove it. Shown at every fit."""


class ChangedRowsError(RuntimeError):
    """A partition of a Dask collection came with other rows when it was computed again."""


class TooLargeError(ValueError):
    """A run, or new draws, would need more memory or time than there is. Nothing is spent."""


# By default Python shows a warning once for each line. Filters that are set before or later come first.
warnings.simplefilter("always", SeedWarning, append=True)
