"""A privacy report: what is protected, how much, by what, and what is not, for people who were not there.

``report["deployment"]`` has the fields of OpenDP's Differential Privacy Deployments Registry (Ghazi,
Nanayakkara and Vadhan; https://github.com/opendp/deployments-registry-data), as far as a program can know
them. ``report["details"]`` has numbers and versions. Unit of privacy, bounded and unbounded neighbours, and
the model of trust (central: who fits sees the rows) are terms of NIST SP 800-226, "Guidelines for
Evaluating Differential Privacy Guarantees" (Near, Darais, Lefkovitz and Howarth, 2025).
"""

import json
import math
from importlib.metadata import version
from typing import Any, NamedTuple

from sklearn.exceptions import NotFittedError

from ..random import has_seeds
from .budget import Budget
from .cost import PrivacyCost
from .ledger import PrivacyLedger
from .ledger_file import cost_to_text
from .loss_distributions import PERSON_RELATIONS

_LIBRARIES = ("skdpbayes", "dp-accounting", "scikit-learn", "numpy", "scipy", "randomgen")
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
_KINDS_OF_NEIGHBOURS = {
    "replace_one": "bounded",
    "add_or_remove_one": "unbounded",
    "replace_one_person": "bounded",
    "add_or_remove_one_person": "unbounded",
}
_UNPROTECTED = {
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


class Account(NamedTuple):
    """What a report is made of. An object that is not known here has a method ``_privacy_account`` for one.

    Attributes
    ----------
    of : str
        What the report is of, such as "estimator".
    cost : PrivacyCost
        Of everything together.
    budget : Budget
        The ceiling, and the delta and the relation of the report.
    releases : tuple of dict
        What was released, or will be, JSON-ready.
    unprotected : tuple of str, default=()
        Quantities that are not protected, beside sizes and names of columns.
    warnings : tuple of str, default=()
        What weakens the guarantee.
    """

    of: str
    cost: PrivacyCost
    budget: Budget
    releases: tuple = ()
    unprotected: tuple = ()
    warnings: tuple = ()


def privacy_report(obj: Any, *, audit: Any = None) -> dict[str, Any]:
    """Report what is protected, how strongly and by which mechanisms, and what is not. The report itself is
    public.

    Parameters
    ----------
    obj : fitted estimator, Plan or PrivacyLedger
        For a ledger, the report covers everything charged so far.
    audit : AuditResult, default=None
        Of `skdpbayes.audit`, with the same settings: its verdict becomes a line of ``details``. Make it on a
        table that is no secret.

    Returns
    -------
    report : dict
        Ready for ``json.dumps``. ``deployment`` has the fields of OpenDP's registry [1]_ that can be filled
        in automatically: ``dp_variant``, ``privacy_loss``, ``deployment_model``, ``accounting`` and
        ``implementation``. ``details`` has the relation between neighbours, in the terms of NIST [2]_ and of
        this package, budget and cost, each release, ``warnings`` and versions. Infinite numbers are None.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.
    TypeError
        If objects of this type have no report.

    References
    ----------
    .. [1] OpenDP, "Differential Privacy Deployments Registry", schema of deployments,
       https://github.com/opendp/deployments-registry-data.
    .. [2] J. P. Near, D. Darais, N. Lefkovitz and G. S. Howarth, "Guidelines for evaluating differential
       privacy guarantees", NIST SP 800-226, 2025, https://doi.org/10.6028/NIST.SP.800-226.

    Examples
    --------
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.privacy import privacy_report
    >>> plan = DPBayesianLogisticRegression(epsilon=1.0, delta=1e-6).privacy_plan(5000, 10)
    >>> report = privacy_report(plan)
    >>> report["deployment"]["privacy_loss"]["privacy_unit"]
    'Record-level'
    >>> report["deployment"]["dp_variant"]["variant_name"], report["details"]["neighbors"]
    ('Approximate DP', 'bounded')
    >>> round(report["deployment"]["privacy_loss"]["privacy_parameters"]["epsilon"], 4)
    1.0
    """
    account = _account(obj)
    details = _details(account)
    if audit is not None:
        details["audit"] = audit.verdict
    return {"deployment": _deployment(account), "details": details}


def _account(obj):
    if hasattr(obj, "_privacy_account"):
        return obj._privacy_account()
    if isinstance(obj, PrivacyLedger):
        releases = tuple(_plain({**row, "cost": _cost(row["cost"])}) for row in obj.records())
        return Account("ledger", obj.spent, obj.budget, releases)
    if hasattr(obj, "plan_"):
        return _of_estimator(obj)
    if hasattr(obj, "cost") and hasattr(obj, "budget"):
        return Account("plan", obj.cost, _asked(obj), (_release(obj),))
    if hasattr(obj, "privacy_plan"):
        raise NotFittedError(
            f"this {type(obj).__name__} is not fitted: fit it, or report its plan, "
            "privacy_report(estimator.privacy_plan(n_samples, n_features))."
        )
    raise TypeError(
        "a report needs a fitted estimator, a plan or a ledger, not an object of type "
        f"{type(obj).__name__}."
    )


def _of_estimator(estimator):
    plan = estimator.plan_
    unprotected: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    if hasattr(estimator, "classes_") and getattr(estimator, "classes", ()) is None:
        unprotected = ("The set of labels, which was taken from the data (classes=None)",)
    if has_seeds(estimator):
        warnings = (
            "random_state was given: anyone who knows it can subtract the noise, and nothing is protected "
            "from them.",
        )
    release = {"estimator": type(estimator).__name__, **_release(plan)}
    return Account("estimator", plan.cost, _asked(plan), (release,), unprotected, warnings)


def _asked(plan):
    """Return a plan's budget; that for persons, if it protects them."""
    return getattr(plan, "asked", plan.budget)


def _release(plan):
    text: dict[str, str] = plan.summary() if hasattr(plan, "summary") else {}
    return {
        "sampler": getattr(plan, "name", type(plan).__name__),
        "epsilon": _finite(plan.cost.epsilon(plan.budget.delta)),
        "cost": _cost(plan.cost),
        "plan": dict(text),
    }


def _deployment(account):
    relation = account.budget.neighboring_relation
    unprotected = (_UNPROTECTED[relation], *account.unprotected)
    many = len(account.releases) != 1
    return {
        "dp_variant": {
            "variant_name": _variant(account),
            "unprotected_quantities": ". ".join(unprotected) + ".",
        },
        "privacy_loss": {
            "privacy_unit": "User-level" if relation in PERSON_RELATIONS else "Record-level",
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


def _composition(account):
    if account.cost.is_gaussian:
        how = "Gaussian differential privacy, mu = sqrt(sum of mu_i^2), converted exactly"
    elif account.cost.rho > 0:
        how = "zero-concentrated differential privacy, converted by Rényi orders"
    else:
        how = "privacy loss distributions, rounded up, by dp-accounting"
    many = len(account.releases) > 1 and not account.cost.is_gaussian
    return f"Sequential: {how}.{_FIXED if many else ''}"


def _mechanisms(cost):
    used = [text for name, text in _MECHANISMS.items() if getattr(cost, name)]
    return "; ".join(used) or "None so far"


def _details(account):
    delta = account.budget.delta
    return {
        "of": account.of,
        "neighboring_relation": account.budget.neighboring_relation,
        "neighbors": _KINDS_OF_NEIGHBOURS[account.budget.neighboring_relation],
        "budget": {"epsilon": _finite(account.budget.epsilon), "delta": delta},
        "cost": {
            "epsilon": _finite(account.cost.epsilon(delta)),
            "delta": delta,
            "zcdp_rho": _finite(account.cost.concentrated),
            **_cost(account.cost),
        },
        "releases": list(account.releases),
        "warnings": list(account.warnings),
        "versions": {name: version(name) for name in _LIBRARIES},
    }


def _cost(cost):
    return _plain(json.loads(cost_to_text(cost)))


def _plain(fields):
    return {
        name: _finite(value) if isinstance(value, float) else value
        for name, value in fields.items()
    }


def _finite(number):
    return float(number) if math.isfinite(number) else None
