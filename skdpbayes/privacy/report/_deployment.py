"""The fields of OpenDP's Differential Privacy Deployments Registry, as far as a program can know them.

The registry is that of Ghazi, Nanayakkara and Vadhan
(https://github.com/opendp/deployments-registry-data). Unit of privacy, bounded and unbounded neighbours, and
the model of trust (central: who fits sees the rows) are terms of NIST SP 800-226.
"""

import math

from ..loss_distributions import PERSON_RELATIONS

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
    "bits": "Randomised decisions of bounded range (accept or reject, exponential mechanism)",
    "pure": "Mechanisms that are private with delta 0, such as counts with discrete Laplace noise",
    "selected": "The best of a random number of runs, or parts of a table that are disjoint",
    "failure": "Thresholds on noisy counts, whose failure is added to delta",
    "rho": "Mechanisms that are known as zero-concentrated differential privacy",
}
_FIXED = " It holds if no plan was chosen by looking at earlier releases."
_MEASURES = (
    "The randomness is that of AES-128 in counter mode, keyed by the operating system. Noise is "
    "rounded to a "
    "lattice against attacks on floating point. Time and memory of a run are not protected."
)


def deployment_of(account):
    """Return the fields of the registry."""
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
    """Return how costs were added up."""
    if account.cost.is_gaussian:
        how = "Gaussian differential privacy, mu = sqrt(sum of mu_i^2), converted exactly"
    elif account.cost.rho > 0:
        how = "zero-concentrated differential privacy, converted by Rényi orders"
    else:
        how = "privacy loss distributions, rounded up, by dp-accounting"
    many = len(account.releases) > 1 and not account.cost.is_gaussian and account.of != "pipeline"
    return f"Sequential: {how}.{_FIXED if many else ''}"


def mechanisms(cost):
    """Return the kinds of mechanisms that a cost is made of."""
    used = [text for name, text in _MECHANISMS.items() if getattr(cost, name)]
    return "; ".join(used) or "None so far"
