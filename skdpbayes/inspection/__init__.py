"""Displays of posterior draws, and of what privacy costs in accuracy.

Like scikit-learn's displays, they hold numbers and plot them. Draws are public once they are released, so
plotting them spends nothing. Scores are computed from rows and are not private.
"""

from .posterior import PosteriorDisplay
from .privacy_utility import PrivacyUtilityDisplay

__all__ = ["PosteriorDisplay", "PrivacyUtilityDisplay"]
