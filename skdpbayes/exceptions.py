"""Warnings and errors that concern the privacy guarantee itself."""


class PrivacyWarning(UserWarning):
    """Something that the user does, or that happened, weakens or spends the guarantee."""


class BudgetExceededError(RuntimeError):
    """A plan would spend more than the active :class:`~skdpbayes.privacy.PrivacyLedger` allows."""


class LedgerOutOfReachError(RuntimeError):
    """A fit would have to be charged to a ledger that is active in another process."""


class LedgerFileError(RuntimeError):
    """The file of a ledger cannot be read or written, or is damaged: nothing is charged, and no fit runs."""


class PrivacyLeakWarning(PrivacyWarning):
    """A step of a pipeline learns from the rows without noise, or is not known not to."""
