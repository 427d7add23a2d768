"""What costs amount to that are spent on disjoint parts of one table.

    delta(epsilon) = max_j delta_j(epsilon)

A record lies in one part, and what is computed of the others does not depend on it. That holds if which part
a record belongs to does not depend on any other record, nor, under ``replace_one``, on the record itself. Of
persons it holds where each has all of their records in one part.
"""

from typing import Any

from .cost import PrivacyCost
from .loss_distributions import PERSON_RELATIONS
from .profiles import SelectedRun


def in_parallel(*costs: Any, one_part_per_person: bool = False) -> PrivacyCost:
    """Return the cost of releases from disjoint parts of a table.

    The parts must be fixed beforehand: under ``replace_one`` by the place of a row (its number, or a draw
    that does not look at the rows), under ``add_or_remove_one`` by each row alone (a draw for every row, or
    what the row holds). Stratified parts are neither: a replaced label moves other rows to other parts.

    Parameters
    ----------
    *costs : PrivacyCost
        Costs of the parts: at least one, all under the same neighbouring relation.
    one_part_per_person : bool, default=False
        Your promise, for costs that protect persons: all rows of a person are in one part, chosen by the
        place of the person or, under ``add_or_remove_one_person``, by the person alone. A person whose rows
        are in several parts pays in each of them: then add the costs up.

    Returns
    -------
    cost : PrivacyCost
        Cost of all parts together. It is at least as large as each of them at every delta.

    Raises
    ------
    ValueError
        If there are none, if they are under different relations, or if they protect persons and the promise
        is missing.

    Examples
    --------
    >>> from skdpbayes.privacy import PrivacyCost, PureMechanism, in_parallel
    >>> fit = PrivacyCost("replace_one", mu=0.25)
    >>> in_parallel(fit, fit) == fit
    True
    >>> score = PrivacyCost("replace_one", pure=(PureMechanism(0.5),))
    >>> cost = in_parallel(fit, score)
    >>> [round(one.epsilon(delta=1e-5), 3) for one in (fit, score, cost)]
    [0.926, 0.5, 0.926]
    """
    relations = {cost.neighboring_relation for cost in costs}
    if len(relations) != 1:
        raise ValueError(
            "in_parallel needs at least one cost, and all under one neighbouring relation, got "
            f"{sorted(relations)}."
        )
    if relations <= set(PERSON_RELATIONS) and not one_part_per_person:
        raise ValueError(
            "a person with several rows can be in every part, and then pays the sum of the costs: add them "
            "up. If all rows of each person are in one part, say so with one_part_per_person=True."
        )
    gaussian = [cost for cost in costs if cost.is_gaussian]
    largest = [max(gaussian, key=lambda cost: cost.mu)] if gaussian else []
    apart = tuple(dict.fromkeys(largest + [cost for cost in costs if not cost.is_gaussian]))
    if len(apart) == 1:
        return apart[0]
    return PrivacyCost(relations.pop(), selected=(SelectedRun(apart),))
