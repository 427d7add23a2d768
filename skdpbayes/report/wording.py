"""The record of a report: an account in words and numbers, JSON-ready.

    account, ledger -> summary, steps, assumptions, deployment, details

    odds after a release <= exp(epsilon) * odds before,        p -> p e^epsilon / (1 - p + p e^epsilon)

for any guess about a row, apart from events whose probability delta bounds. An assumption is "to_sign" if
no program can know it, "checked" if this one did, and "failed" if it does not hold as far as it can see.
"""

import math
import sys
from importlib.metadata import version

from ..privacy.budget import too_large_delta
from ..privacy.losses import between_rows
from ..privacy.units import row_relation_and_distance
from .account import cost_fields, epsilon_of, finite, shares

SCHEMA = "skdpbayes-privacy-report"
VERSION = 1


def record_of(account, charged):
    """The record of an `Account`, and of the ledger beside it, if there is one."""
    details = _details(account, charged)
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "summary": _summary(account, charged, details["warnings"]),
        "steps": _steps(account),
        "assumptions": [
            {"id": name, "statement": statement, "status": status}
            for name, statement, status in _assumptions(account, charged)
        ],
        "deployment": _deployment(account),
        "details": details,
    }


# The summary, which is read first: what is protected, against whom, what is spent and left.


# What somebody may have believed before.
_PRIOR_GUESSES = (0.01, 0.1, 0.5)
_GUESSED = {
    "replace_one": "what a row says",
    "add_or_remove_one": "whether a row is in the table",
    "replace_one_person": "what a person's rows say",
    "add_or_remove_one_person": "whether a person is in the table",
}
_HOW = {
    "rows": {
        "replace_one": "public: neighbouring tables have the same number of rows",
        "add_or_remove_one": "declared as public_size; how many rows there are stays private",
        "replace_one_person": "planned for; the number of persons is public, that of rows is not",
        "add_or_remove_one_person": "declared as public_size; how many rows there are stays private",
    },
    "persons": {
        "replace_one_person": "public: neighbouring tables have the same number of persons",
        "add_or_remove_one_person": "expected; how many persons there are stays private",
    },
}
_STAGES = {"plan": "planned", "ledger": "everything charged so far"}
_UNITS = {
    "replace_one": "Two tables are neighbours if they have the same number of rows and differ in one row. "
    "A person with one row is protected as that row.",
    "add_or_remove_one": "Two tables are neighbours if one has one row in addition to those of the other. "
    "A person with one row is protected as that row.",
    "replace_one_person": "Two tables are neighbours if they have the same number of persons and differ in "
    "all rows of one, however many.",
    "add_or_remove_one_person": "Two tables are neighbours if one has all rows of one person in "
    "addition to those of the other.",
}
_UNPROTECTED = {
    "replace_one": "The number of rows, the number of columns and their names",
    "add_or_remove_one": "The declared public size, the number of columns and their names",
    "replace_one_person": "The number of persons, the number of columns and their names",
    "add_or_remove_one_person": "The declared public size, the number of columns and their names",
}


def _summary(account, charged, warnings):
    relation, delta, epsilon = account.relation, account.budget.delta, account.epsilon
    return {
        "of": account.of,
        "name": ": ".join(filter(None, [account.name or account.of, account.label])),
        "stage": _STAGES.get(account.of, "released"),
        "verdict": _verdict(account, warnings),
        "protected": {
            "unit": "person" if account.protects_persons else "row",
            "neighboring_relation": relation,
            "statement": _UNITS[relation],
            "max_rows_per_person": account.max_rows,
            "rows": _rows(account),
            "not_protected": [_UNPROTECTED[relation], *account.unprotected],
        },
        "adversaries": _adversaries(account),
        "spent": {
            "epsilon": finite(epsilon),
            "delta": delta,
            "odds_factor": _factor(epsilon),
            "guess": _GUESSED[relation],
            "beliefs": [
                {"before": p, "at_most_after": _belief(p, epsilon)}
                for p in (_PRIOR_GUESSES if math.isfinite(epsilon) else ())
            ],
            "mechanisms": _mechanisms(account.cost),
            "proof": account.proof,
        },
        "ceiling": {"epsilon": finite(account.budget.epsilon), "delta": delta},
        "ledger": None if charged is None else charged.as_json(),
    }


def _verdict(account, warnings):
    """Whether a guarantee is claimed: "none", "weakened", or "if_signed"."""
    if math.isinf(account.epsilon):
        return "none"
    unproven = any(step.role == "unproven" for step in account.steps)
    return "weakened" if warnings or unproven or account.seeds else "if_signed"


def _rows(account):
    relation = account.relation
    if account.rows is None:
        return None
    several = (account.max_rows or 1) > 1
    number, how = int(account.rows), _HOW[account.counts][relation]
    at_most = account.counts == "rows" and relation == "replace_one_person" and several
    return {"number": number, "counts": account.counts, "at_most": at_most, "how": how}


def _factor(epsilon):
    return math.exp(epsilon) if epsilon < 700 else None


def _belief(before, epsilon):
    return 1.0 / (1.0 + (1.0 - before) / before * math.exp(-epsilon))


def _adversaries(account):
    """Against whom the guarantee is, and against whom it is not."""
    persons = account.protects_persons
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


def _steps(account):
    """Every step, or every charge."""
    delta = account.budget.delta
    if not account.steps:
        return [_bare(release) for release in account.releases]
    return [
        {
            "name": str(step.name),
            "kind": step.kind,
            "role": step.role,
            "does": step.does,
            "share": share,
            "epsilon": finite(epsilon_of(step, delta)),
            "delta": delta,
            "columns": _columns(step.columns),
            "rows": None if step.rows is None else int(step.rows),
            "bounds": [
                {
                    "what": fact.what,
                    "column": fact.column,
                    "value": fact.value,
                    "source": fact.source,
                }
                for fact in step.about.facts
            ],
            "mechanism": "" if step.cost is None or step.cost.is_zero else _mechanisms(step.cost),
            "proof": step.about.proof,
            "note": step.note,
        }
        for step, share in zip(account.steps, shares(account), strict=True)
    ]


def _bare(release):
    """The account of a release by its name alone."""
    name = str(release.get("estimator") or release.get("sampler") or "a release")
    return {
        **{"name": name, "kind": name, "role": "charged", "does": "", "share": None},
        **{"epsilon": release.get("epsilon"), "delta": None, "columns": None, "rows": None},
        **{"bounds": [], "mechanism": "", "proof": "", "note": ""},
    }


def _columns(columns):
    if columns is None:
        return None
    if isinstance(columns, tuple):
        return {"number": len(columns), "names": list(columns)}
    return {"number": int(columns), "names": None}


# Assumptions of the guarantee: (an id that stays, statement, status).


def _assumptions(account, charged):
    yield _privacy_unit(account)
    yield from _public_numbers(account)
    yield from _steps_without_noise(account)
    if account.relation.startswith("add"):
        yield "public_size", "The size that was declared is not computed from the table.", "to_sign"
    yield _randomness(account)
    yield from _other_releases(account, charged)
    yield (
        "rows_are_not_chosen_by_rows",
        "Rows were not selected, repeated, weighted or changed by what other rows hold before they "
        "reached the program.",
        "to_sign",
    )
    yield (
        "nobody_looked",
        "Nobody chose columns, options or bounds after looking at these rows, or at anything computed "
        "from them without noise.",
        "to_sign",
    )
    yield "access", "Whoever could see the table or the running program was allowed to.", "to_sign"


def _privacy_unit(account):
    if account.protects_persons:
        limit, several = account.max_rows, ""
        if limit and row_relation_and_distance(between_rows(account.relation), limit)[1] > 1:
            fits = " in a fit" if account.counts == "persons" else ""
            several = f", of which at most {limit:,} are used{fits}"
        statement = f"The groups that were given say which rows belong to one person{several}."
        return "groups_are_persons", statement, "to_sign"
    return (
        "a_row_is_a_person",
        "Each person has one row. (If not, a person with k rows is protected less, roughly as if epsilon "
        "were k times as large.)",
        "to_sign",
    )


def _public_numbers(account):
    sources = {fact.source for step in account.steps for fact in step.about.facts}
    if account.of in ("ledger", "releases", "score") or not account.steps or "declared" in sources:
        yield (
            "declared_is_public",
            "What is marked as declared (bounds, categories, labels, sizes) follows from what the columns "
            "mean, and was not taken from these rows.",
            "to_sign",
        )
    if "labels" in sources:
        yield (
            "labels_are_public",
            "The set of labels was read off the table without noise; it is public knowledge that each of "
            "them occurs.",
            "to_sign",
        )


def _steps_without_noise(account):
    if account.may_have_changed:
        yield (
            "parameters_are_those_of_the_fit",
            "No parameter of a step of another package was set after the fit.",
            "to_sign",
        )
    for step in account.steps:
        if step.role == "vouched":
            yield (
                "vouched_steps",
                f"The step {step.name} ({step.kind}) has learnt nothing from these rows, and transforms each "
                "row by itself.",
                "to_sign",
            )
        if step.role == "unproven":
            yield (
                "unproven_steps",
                f"The step {step.name} ({step.kind}) may have learnt from the rows without noise, which the "
                "numbers of this report do not cover.",
                "failed",
            )


def _randomness(account):
    statement = (
        "The noise was drawn from the operating system's randomness, and from no known seed."
    )
    if account.of == "plan":
        statement = (
            "The noise will be drawn from the operating system's randomness, without a seed."
        )
    return "no_seed", statement, {None: "to_sign", False: "checked", True: "failed"}[account.seeds]


def _other_releases(account, charged):
    if charged is None:
        yield (
            "all_releases",
            "This is everything that was ever released about these people; or their other releases are "
            "added to it elsewhere.",
            "to_sign",
        )
    else:
        yield (
            "all_releases",
            "Everything that was ever released about these people is in the ledger, and no older copy of the "
            "ledger was put in its place.",
            "to_sign",
        )
        if charged.has_it is not None:
            what = "each of these releases" if account.of == "releases" else "this release"
            statement, status = f"The ledger was charged for {what}", "checked"
            if charged.has_it and not charged.is_its:
                statement += (
                    ": it has a charge of this cost, and another release may have cost as much"
                )
                status = "to_sign"
            yield "charged", f"{statement}.", status if charged.has_it else "failed"
    several = account.of in ("ledger", "releases") and len(account.releases) > 1
    if several and not account.cost.is_gaussian:
        yield (
            "plans_were_fixed",
            "No release was planned by looking at earlier ones. (Some costs add up only then.)",
            "to_sign",
        )


# The fields of OpenDP's Differential Privacy Deployments Registry, as far as a program can know them.
#
# The registry is that of Ghazi, Nanayakkara and Vadhan
# (https://github.com/opendp/deployments-registry-data). Unit of privacy, bounded and unbounded
# neighbours, and the model of trust (central: who fits sees the rows) are terms of NIST SP 800-226.


_KINDS_OF_NEIGHBOURS = {
    "replace_one": "bounded",
    "add_or_remove_one": "unbounded",
    "replace_one_person": "bounded",
    "add_or_remove_one_person": "unbounded",
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


def _deployment(account):
    relation = account.relation
    unprotected = (_UNPROTECTED[relation], *account.unprotected)
    many = len(account.releases) != 1
    return {
        "dp_variant": {
            "variant_name": _variant(account),
            "unprotected_quantities": ". ".join(unprotected) + ".",
        },
        "privacy_loss": {
            "privacy_unit": "User-level" if account.protects_persons else "Record-level",
            "privacy_unit_details": _UNITS[relation],
            "privacy_parameters": _parameters(account),
            "privacy_parameters_details": _ceiling(account),
        },
        "deployment_model": {
            "model_name": "Central",
            "release_type": "Many releases" if many else "One release",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "composition": _composition(account),
            "post_processing": "Predictions and summaries are computed from what was released, at no cost.",
        },
        "implementation": {"mechanisms": f"{_mechanisms(account.cost)}. {_MEASURES}"},
    }


def _variant(account):
    if math.isinf(account.epsilon):
        return "Custom"
    return "Approximate DP" if account.budget.delta > 0 else "Pure DP"


def _parameters(account):
    epsilon, delta = account.epsilon, account.budget.delta
    if math.isinf(epsilon):
        return {}
    return {"epsilon": epsilon, "delta": delta} if delta > 0 else {"epsilon": epsilon}


def _ceiling(account):
    epsilon, delta, _ = account.budget
    if math.isinf(account.epsilon):
        return "None: at this delta there is no finite epsilon."
    spent = "will be spent" if account.of == "plan" else "is spent"
    if math.isinf(epsilon):
        return f"That {spent}; no ceiling was set."
    return f"That {spent}; the ceiling is epsilon = {epsilon:g} at delta = {delta:g}."


def _composition(account):
    """The way in which costs were composed."""
    if account.cost.is_gaussian:
        how = "Gaussian differential privacy, mu = sqrt(sum of mu_i^2), converted exactly"
    elif account.cost.rho > 0:
        how = "zero-concentrated differential privacy, converted by Rényi orders"
    else:
        how = "privacy loss distributions, rounded up, by dp-accounting"
    many = len(account.releases) > 1 and not account.cost.is_gaussian and account.of != "pipeline"
    return f"Sequential: {how}.{_FIXED if many else ''}"


def _mechanisms(cost):
    """The kinds of mechanisms that a cost is made of."""
    used = [text for name, text in _MECHANISMS.items() if getattr(cost, name)]
    return "; ".join(used) or "None so far"


# Numbers, and versions of what computed them.


_LIBRARIES = ("dp-accounting", "scikit-learn", "numpy", "scipy", "randomgen")


def _details(account, charged):
    delta = account.budget.delta
    return {
        "of": account.of,
        "neighboring_relation": account.relation,
        "neighbors": _KINDS_OF_NEIGHBOURS[account.relation],
        "budget": {"epsilon": finite(account.budget.epsilon), "delta": delta},
        "cost": {
            "epsilon": finite(account.epsilon),
            "delta": delta,
            "zcdp_rho": finite(account.cost.concentrated),
            **cost_fields(account.cost),
        },
        "releases": list(account.releases),
        "warnings": [
            *account.warnings,
            *too_large_delta(account.budget, account.rows or 0),
            *(charged.warnings if charged else ()),
        ],
        "versions": _versions(),
    }


def _versions():
    # The package may run from its sources, without being installed.
    version_of_package = sys.modules[__name__.partition(".")[0]].__version__
    return {"skdpbayes": version_of_package, **{name: version(name) for name in _LIBRARIES}}
