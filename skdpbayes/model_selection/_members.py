"""The fits inside scikit-learn's meta-estimators that learn nothing themselves, all on the same table.

record in the table:  fit_1 + ... + fit_k
"""

from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier

from ..privacy.surroundings import tool_of, what_breaks_the_rule, what_is_learnt

_ALL_KEPT = (VotingClassifier, OneVsRestClassifier, MultiOutputClassifier, ClassifierChain)
_ONE_KEPT = (FixedThresholdClassifier, SelectFromModel)


def members_of(ensemble):
    """Return the members of a fitted ensemble, whose costs add up to its own, or None if it is none.

    Raises
    ------
    ValueError
        If it has no total, with the reason.
    """
    if reason := _why_not(ensemble):
        raise ValueError(f"there is no total: {reason}")
    if type(ensemble) in _ALL_KEPT:
        return list(getattr(ensemble, "estimators_", ())) or None
    if type(ensemble) in _ONE_KEPT and hasattr(ensemble, "estimator_"):
        return [ensemble.estimator_]
    return None


def _why_not(ensemble):
    tool = tool_of(ensemble)
    if tool is not None:
        return what_breaks_the_rule(tool) if tool.breaks_rule else what_is_learnt(tool)
    if isinstance(ensemble, BaggingClassifier):
        return (
            "BaggingClassifier seeds the noise of its members and keeps the seeds, from which anyone can "
            "compute it again: fit the members one by one, and add up their privacy_cost_."
        )
    if isinstance(ensemble, RFE):
        return (
            "RFE does not keep the fits between the first and the last: fit within a PrivacyLedger, which "
            "counts them."
        )
    if isinstance(ensemble, ClassifierChain) and ensemble.cv is not None:
        return "ClassifierChain does not keep the fits of its cross-validation: use cv=None."
    asked = (getattr(ensemble, name, None) for name in ("max_features", "importance_getter"))
    if isinstance(ensemble, SelectFromModel) and any(map(callable, asked)):
        return "a function of SelectFromModel may read the rows: give a number and a name."
    return None
