"""A cost in words: the relation, and what was spent, part by part.

replace-one: Gaussian noise of mu = 0.25; 4 choices of range 0.1; pure epsilon = 0.5
"""


def cost_in_words(cost):
    """Return the line that is printed of a `PrivacyCost`."""
    parts = "; ".join(_parts(cost)) or "nothing"
    return f"{cost.neighboring_relation.replace('_', '-')}: {parts}"


def _parts(cost):
    """Yield what a cost consists of, without what is empty."""
    if cost.is_nothing:
        yield "no privacy (epsilon = inf)"
        return
    if cost.mu > 0:
        yield f"Gaussian noise of mu = {cost.mu:.4g}"
    for part in cost.sampled:
        steps = _number(part.count, "step", "steps")
        yield (
            f"{steps} with Gaussian noise of {part.noise_multiplier:.4g} times the bound, on batches of rate "
            f"{part.sampling_rate:.4g}"
        )
    for part in cost.counted:
        steps = _number(part.count, "step", "steps")
        yield (
            f"{steps} with Gaussian noise of {part.noise_multiplier:.4g} times the bound, in which a record "
            f"counts {part.rate:.4g} times on average"
        )
    for part in cost.bits:
        yield f"{_number(part.count, 'choice', 'choices')} of range {part.log_odds_range:.4g}"
    if cost.rho > 0:
        yield f"zCDP of rho = {cost.rho:.4g}"
    for part in cost.pure:
        times = f"{part.count:,} times " if part.count > 1 else ""
        yield f"{times}pure epsilon = {part.level:.4g}"
    for part in cost.selected:
        yield _of_selection(part)
    if cost.failure > 0:
        yield f"a delta of {cost.failure:.3g} on top"


def _of_selection(part):
    runs = " | ".join("; ".join(_parts(cost)) or "nothing" for cost in part.costs)
    if len(part.costs) > 1:
        runs = f"the largest of {len(part.costs)} disjoint parts of the table: {runs}"
    if part.mean_runs > 1:
        runs = f"the best of {part.mean_runs:.4g} runs on average, each with {runs}"
    return f"{part.count:,} times ({runs})" if part.count > 1 else f"({runs})"


def _number(count, one, many):
    return f"{count:,} {one if count == 1 else many}"
