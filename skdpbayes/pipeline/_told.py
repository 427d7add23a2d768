"""What a pipeline says of its steps: once, before rows are read or when all of them are fitted.

plan of each step, at public sizes -> its warnings, after the step's name -> what fitted steps add to them
"""

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..exceptions import PrivacyWarning, SeedWarning
from ..privacy.deferred_warnings import take_warnings, warn
from ._account import leaves


def step_warnings(found, parts, n_samples, n_persons=None):
    """Return what the plans of private steps warn of, each after the name of its step.

    Parameters
    ----------
    found : list of (str, private step, int or None)
        Paths, steps and numbers of columns; a step without a known number says itself what it has to say.
    parts : dict of {str: (float, float)}
        Epsilon and delta of each step.
    n_samples : int
        The public size of the table; for persons, the largest.
    n_persons : int, default=None
        With ``n_samples`` rows of persons at most, there may be no more than one of each.

    Returns
    -------
    told : tuple of str
    """
    told = []
    for path, step, width in found:
        if path not in parts or width is None:
            continue
        epsilon, delta = parts[path]
        own = clone(step).set_params(epsilon=epsilon, delta=delta)
        if n_persons is not None and hasattr(own, "transform"):
            own.set_params(public_size=int(n_persons))
        # A step from elsewhere need not have any.
        texts = getattr(own.privacy_plan(n_samples, width), "warnings", ())
        told += [f"{path}: {text}" for text in texts]
    return tuple(told)


def _step_of(text, plan):
    """Return the path of the step that a warning of a plan is of, or None."""
    return next((path for path in plan.steps if text.startswith(f"{path}: ")), None)


def tell(plan, steps):
    """Show the warnings of a plan; ``steps`` are a pipeline's parameters, by name."""
    for text in plan.warnings:
        path, category = _step_of(text, plan), UserWarning
        if path is not None:  # As the step itself would.
            category = PrivacyWarning if hasattr(steps[path], "transform") else ConvergenceWarning
        warn(text, category)


def tell_of_steps(pipeline, plan):
    """Warn of what fitted steps have to say, after their names, if the plan has not said it."""
    for path, step, _ in leaves(pipeline):
        for text, category in take_warnings(step):
            text = f"{path}: {text}"
            # A pipeline speaks of all seeds at once, before it is charged.
            if text not in plan.warnings and category is not SeedWarning:
                warn(text, category)
