"""Tables and displays of what was released, and of what privacy costs in accuracy.

Tables of statements (ratios, contrasts, effects, probabilities) are computed from draws, which are public
once they are released: they spend nothing. Displays hold numbers and plot them, like scikit-learn's. Scores
are computed from rows and are not private.
"""

from ._draws import coefficient_draws, named_model
from ._effects import average_marginal_effects
from ._marginaleffects import to_marginaleffects
from ._ratios import odds_ratios, rate_ratios
from ._statements import contrasts, probability, raw_coefficients
from .posterior import PosteriorDisplay
from .privacy_utility import PrivacyUtilityDisplay

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
    "to_marginaleffects",
]
