"""What the steps of a pipeline are given, and what they cost, where a person has up to ``k`` rows.

mu_i^2 = s_i (j mu)^2,    cost_i counts for  r / j  when it is added to those of others

``mu`` is what a row may cost, and ``r`` the log-odds range of choices. ``j`` is that of `chain_of_rows` for a
step that reads one row of each person, which costs a person what it costs a row, while the others cost ``j``
times as much (Proposition 54); for these others it is 1. All are planned for rows, of which there may be
``k`` times as many as persons.
"""

from dataclasses import replace
from typing import Any

from .._checks import planned_size
from ..preprocessing import DPImputer, DPQuantileScaler
from ..privacy.persons import chain_of_rows


def settings_for_persons(step, relation, n_samples, max_rows):
    """Return the parameters that a private step has where persons have several rows.

    Parameters
    ----------
    step : private step
    relation : {"replace_one", "add_or_remove_one"}
        Of rows, that of `chain_of_rows`.
    n_samples : int
        The largest number of rows, if it is not declared.
    max_rows : int

    Returns
    -------
    settings : dict
    """
    if max_rows == 1:
        return {}
    settings: dict[str, Any] = {}
    # Of n rows, at least n / k persons have one.
    fewest = int(max_rows) if reads_one_row(step, max_rows) else 1
    if step.neighboring_relation != relation:
        planned_size(n_samples, step.neighboring_relation, step.public_size)
        settings = {"neighboring_relation": relation, "public_size": int(n_samples) // fewest}
    elif step.public_size is not None:
        settings = {"public_size": max(1, int(step.public_size) // fewest)}
    if "rows_per_person" in step.get_params(deep=False):
        settings["rows_per_person"] = max(int(max_rows), int(step.rows_per_person))
    return settings


def reads_one_row(step, max_rows):
    """Tell whether a step before the last reads one row of each person, and not all that are kept.

    It draws quantiles: what others release of rows would have to be shown to cost the same under both
    relations between rows.
    """
    return max_rows > 1 and type(step) in (DPQuantileScaler, DPImputer)


def cheaper_steps(found, relation, limit):
    """Return by how much less the steps that read one row of each person cost than others, by path.

    The last step reads all rows that are kept.
    """
    if limit is None:
        return {}
    _, steps = chain_of_rows(relation, int(limit))
    return {path: steps for path, step, _ in found[:-1] if reads_one_row(step, limit)}


def larger_budget(budget, factor):
    """Return the budget of a step that costs a person as much less than the other steps do."""
    if factor == 1 or not budget.is_private:
        return budget
    if budget.delta == 0:
        return budget._replace(epsilon=factor * budget.epsilon)
    return budget.with_mu(factor * budget.mu)


def smaller_cost(cost, factor):
    """Return the cost of a row that, as much larger for a person, is that of choices from a row of each."""
    if factor == 1:
        return cost
    bits = (replace(one, log_odds_range=one.log_odds_range / factor) for one in cost.bits)
    return replace(cost, bits=tuple(bits))
