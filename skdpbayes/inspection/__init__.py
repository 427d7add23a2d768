"""Displays of what was drawn, and of what privacy costs in accuracy.

Like scikit-learn's displays they hold numbers, and plot them. Draws are public once they are released,
so looking at them spends nothing; scores are computed from rows, and are not private.
"""

from .posterior import PosteriorDisplay
from .privacy_utility import PrivacyUtilityDisplay

__all__ = ["PosteriorDisplay", "PrivacyUtilityDisplay"]
