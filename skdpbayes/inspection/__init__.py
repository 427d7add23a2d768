"""Tables and displays of what was released, and of what privacy costs in accuracy.

Tables of statements (ratios, contrasts, effects, probabilities) are computed from draws, which are public
once they are released: they spend nothing. Displays hold numbers and plot them, like scikit-learn's. Scores
are computed from rows and are not private.
"""

from ._displays import PosteriorDisplay, PrivacyUtilityDisplay
from ._effects import average_marginal_effects, to_marginaleffects
from ._tables import (
    coefficient_draws,
    contrasts,
    named_model,
    odds_ratios,
    probability,
    rate_ratios,
    raw_coefficients,
    raw_components,
)

__all__ = [
    "PosteriorDisplay",
    "PrivacyUtilityDisplay",
    "average_marginal_effects",
    "coefficient_draws",
    "contrasts",
    "named_model",
    "odds_ratios",
    "probability",
    "rate_ratios",
    "raw_coefficients",
    "raw_components",
    "to_marginaleffects",
]


def __dir__():
    return __all__
