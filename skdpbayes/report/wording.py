"""What a guarantee rests on beside the theorems, and the fields of a registry of deployments.

An assumption is "to_sign" if no program can know it, "checked" if this one did, and "failed" if it does not
hold as far as the program can see.
"""

import math

from ..privacy.losses import PERSON_RELATIONS


def trusted(account):
    """Against whom the guarantee is, and against whom it is not."""
    persons = account.budget.neighboring_relation in PERSON_RELATIONS
    against = [
        "Anyone who sees everything that was released: the model, its draws and predictions, and all bounds "
        "and categories that were learnt.",
        "Also if they know the program, its options, and every other "
        f"{'person' if persons else 'row'} of the table.",
        "Now and later, whatever else they learn from other places, and whatever they compute.",
    ]
    not_against = [
        "Whoever holds the table or runs the program: they see the rows.",
        "Intruders on the machine of the fit, and measurements of its time and memory.",
        "Conclusions about people in general. What holds for a whole population can be learnt whether or not "
        "somebody's data are in the table, and applies to them, too.",
        "Anything else that is released about the same people and is not part of this report.",
    ]
    if not persons:
        not_against.append(
            "Guesses that rest on several rows of one person: each row is protected by itself."
        )
    return {"against": against, "not_against": not_against}


def assumptions(account, charged, persons_have_rows):
    """The assumptions, a list of {"id", "statement", "status"}."""
    statements = [
        *_of_rows(account, persons_have_rows),
        *_of_steps(account),
        *_of_randomness(account),
        *_of_books(account, charged),
        _one(
            "rows_are_not_chosen_by_rows",
            "Rows were not selected, repeated, weighted or changed by what other rows hold before they "
            "reached the program.",
        ),
        _one(
            "nobody_looked",
            "Nobody chose columns, options or bounds after looking at these rows, or at anything computed "
            "from them without noise.",
        ),
        _one(
            "access",
            "Whoever could see the table or the running program was allowed to.",
        ),
    ]
    return statements


def _one(name, statement, status="to_sign"):
    return {"id": name, "statement": statement, "status": status}


def _of_rows(account, persons_have_rows):
    if account.budget.neighboring_relation in PERSON_RELATIONS:
        fits = " in a fit" if account.counts == "persons" else ""
        several = (
            f", of which at most {account.max_rows:,} are used{fits}" if persons_have_rows else ""
        )
        statement = f"The groups that were given say which rows belong to one person{several}."
        return [_one("groups_are_persons", statement)]
    return [
        _one(
            "a_row_is_a_person",
            "Each person has one row. (If not, a person with k rows is protected less, roughly as if epsilon "
            "were k times as large.)",
        )
    ]


def _of_steps(account):
    sources = {fact.source for step in account.steps for fact in step.about.facts}
    if account.of in ("ledger", "score") or not account.steps or "declared" in sources:
        yield _one(
            "declared_is_public",
            "What is marked as declared (bounds, categories, labels, sizes) follows from what the columns "
            "mean, and was not taken from these rows.",
        )
    if "labels" in sources:
        yield _one(
            "labels_are_public",
            "The set of labels was read off the table without noise; it is public knowledge that each of "
            "them occurs.",
        )
    if account.may_have_changed:
        yield _one(
            "parameters_are_those_of_the_fit",
            "No parameter of a step of another package was set after the fit.",
        )
    for step in account.steps:
        if step.role == "vouched":
            yield _one(
                "vouched_steps",
                f"The step {step.name} ({step.kind}) has learnt nothing from these rows, and transforms each "
                "row by itself.",
            )
        if step.role == "unproven":
            yield _one(
                "unproven_steps",
                f"The step {step.name} ({step.kind}) may have learnt from the rows without noise, which the "
                "numbers of this report do not cover.",
                "failed",
            )
    if account.budget.neighboring_relation.startswith("add"):
        yield _one(
            "public_size",
            "The size that was declared is not computed from the table.",
        )


def _of_randomness(account):
    statement = (
        "The noise was drawn from the operating system's randomness, and from no known seed."
    )
    if account.of == "plan":
        statement = (
            "The noise will be drawn from the operating system's randomness, without a seed."
        )
    status = {None: "to_sign", False: "checked", True: "failed"}[account.seeds]
    return [_one("no_seed", statement, status)]


def _of_books(account, charged):
    if charged is None:
        yield _one(
            "all_releases",
            "This is everything that was ever released about these people; or their other releases are "
            "added to it elsewhere.",
        )
    else:
        yield _one(
            "all_releases",
            "Everything that was ever released about these people is in the ledger, and no older copy of the "
            "ledger was put in its place.",
        )
    if charged is not None and charged.has_it is not None:
        yield _one(
            "charged",
            "The ledger has a charge of this cost.",
            "checked" if charged.has_it else "failed",
        )
    if account.of == "ledger" and len(account.releases) > 1 and not account.cost.is_gaussian:
        yield _one(
            "plans_were_fixed",
            "No release was planned by looking at earlier ones. (Some costs add up only then.)",
        )


# The fields of OpenDP's Differential Privacy Deployments Registry, as far as a program can know them.
#
# The registry is that of Ghazi, Nanayakkara and Vadhan
# (https://github.com/opendp/deployments-registry-data). Unit of privacy, bounded and unbounded
# neighbours, and the model of trust (central: who fits sees the rows) are terms of NIST SP 800-226.


UNITS = {
    "replace_one": "Two tables are neighbours if they have the same number of rows and differ in one row. "
    "A person with one row is protected as that row.",
    "add_or_remove_one": "Two tables are neighbours if one has one row in addition to those of the other. "
    "A person with one row is protected as that row.",
    "replace_one_person": "Two tables are neighbours if they have the same number of persons and differ in "
    "all rows of one, however many.",
    "add_or_remove_one_person": "Two tables are neighbours if one has all rows of one person in "
    "addition to those of the other.",
}
KINDS_OF_NEIGHBOURS = {
    "replace_one": "bounded",
    "add_or_remove_one": "unbounded",
    "replace_one_person": "bounded",
    "add_or_remove_one_person": "unbounded",
}
UNPROTECTED = {
    "replace_one": "The number of rows, the number of columns and their names",
    "add_or_remove_one": "The declared public size, the number of columns and their names",
    "replace_one_person": "The number of persons, the number of columns and their names",
    "add_or_remove_one_person": "The declared public size, the number of columns and their names",
}
_MECHANISMS = {
    "mu": "Gaussian mechanism",
    "sampled": "Poisson-subsampled Gaussian mechanism",
    "counted": "Gaussian mechanism on sums in which records count a Poisson number of times",
    "decisions": "Randomised decisions of bounded range (accept or reject, exponential mechanism)",
    "pure_events": "Mechanisms that are private with delta 0, such as counts with discrete Laplace noise",
    "selection_events": "The best of a random number of runs, or parts of a table that are disjoint",
    "failure_probability": "Thresholds on noisy counts, whose failure is added to delta",
    "rho": "Mechanisms that are known as zero-concentrated differential privacy",
}
_FIXED = " It holds if no plan was chosen by looking at earlier releases."
_MEASURES = (
    "The randomness is that of AES-128 in counter mode, keyed by the operating system. Noise is "
    "rounded to a "
    "lattice against attacks on floating point. Time and memory of a run are not protected."
)


def deployment_of(account):
    """The fields of the registry."""
    relation = account.budget.neighboring_relation
    unprotected = (UNPROTECTED[relation], *account.unprotected)
    many = len(account.releases) != 1
    return {
        "dp_variant": {
            "variant_name": _variant(account),
            "unprotected_quantities": ". ".join(unprotected) + ".",
        },
        "privacy_loss": {
            "privacy_unit": "User-level" if relation in PERSON_RELATIONS else "Record-level",
            "privacy_unit_details": UNITS[relation],
            "privacy_parameters": _parameters(account),
            "privacy_parameters_details": _ceiling(account),
        },
        "deployment_model": {
            "model_name": "Central",
            "release_type": "Many releases" if many else "One release",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "composition": composition(account),
            "post_processing": "Predictions and summaries are computed from what was released, at no cost.",
        },
        "implementation": {"mechanisms": f"{mechanisms(account.cost)}. {_MEASURES}"},
    }


def _variant(account):
    if math.isinf(account.cost.epsilon(account.budget.delta)):
        return "Custom"
    return "Approximate DP" if account.budget.delta > 0 else "Pure DP"


def _parameters(account):
    delta = account.budget.delta
    epsilon = account.cost.epsilon(delta)
    if math.isinf(epsilon):
        return {}
    return {"epsilon": epsilon, "delta": delta} if delta > 0 else {"epsilon": epsilon}


def _ceiling(account):
    epsilon, delta, _ = account.budget
    if math.isinf(account.cost.epsilon(delta)):
        return "None: at this delta there is no finite epsilon."
    spent = "will be spent" if account.of == "plan" else "is spent"
    if math.isinf(epsilon):
        return f"That {spent}; no ceiling was set."
    return f"That {spent}; the ceiling is epsilon = {epsilon:g} at delta = {delta:g}."


def composition(account):
    """The way in which costs were composed."""
    if account.cost.is_gaussian:
        how = "Gaussian differential privacy, mu = sqrt(sum of mu_i^2), converted exactly"
    elif account.cost.rho > 0:
        how = "zero-concentrated differential privacy, converted by Rényi orders"
    else:
        how = "privacy loss distributions, rounded up, by dp-accounting"
    many = len(account.releases) > 1 and not account.cost.is_gaussian and account.of != "pipeline"
    return f"Sequential: {how}.{_FIXED if many else ''}"


def mechanisms(cost):
    """The kinds of mechanisms that a cost is made of."""
    used = [text for name, text in _MECHANISMS.items() if getattr(cost, name)]
    return "; ".join(used) or "None so far"
