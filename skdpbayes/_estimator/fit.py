"""What a fit does, from a table to draws.

    read -> model -> plan -> charge -> bounds from the rows, if wanted -> run -> publish

What comes before the charge depends on sizes and on public numbers alone, and what comes after it depends on
the records only through what is released. A model has ``bounds()`` for its plan, ``target_of(rows)`` and
``remote(address, count)`` for its sampler, and ``in_blocks(draws)``, which gives draws the form in which they
are published. An estimator, a `PrivatePosterior`, plans for a model (``_plan_for_model``, ``_planner``), and
says which bounds are learnt (``_bounds_to_learn``, see `skdpbayes._estimator.bounds`).
"""

from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from ..privacy.deferred_warnings import warn
from ..privacy.planned_release import set_privacy_attributes
from ..samplers.base import Diagnostics, run_plan
from .bounds import charge_and_release_bounds


class Fit(NamedTuple):
    """What a fit has found.

    Attributes
    ----------
    model : LinearModel, MixtureModel or MLPModel
        With the bounds that were learnt, if any were.
    draws : ndarray
        Of the model's parameters, as they are published.
    classes : ndarray or None
        The labels of a classifier.
    diagnostics : Diagnostics
        Other numbers that were released.
    """

    model: Any
    draws: np.ndarray
    classes: np.ndarray | None
    diagnostics: Diagnostics


def fit_posterior(estimator, reading, model_of):
    """Fit an estimator, and set the attributes by which it says what was released and spent.

    Parameters
    ----------
    estimator : PrivatePosterior
    reading : context manager
        It validates what `fit` was given, and yields a `Table`.
    model_of : callable
        Maps the `Table`, of which it may use sizes, to a model.

    Returns
    -------
    fit : Fit
    """
    with reading as table:
        model = model_of(table)
        plan = estimator._plan_for_model(model, table.n_samples)
        learning: Any = nullcontext((model, plan))
        if plan.bound_release is not None:
            learning = charge_and_release_bounds(estimator, plan, table, model)
        with learning as (model, plan):
            warnings = plan.warnings
            vars(estimator).pop("_feature_names_from_pipeline", None)
            for text in warnings:
                warn(text, plan.warning_category)
            target = table.target(model.target_of, model.remote)
            released = run_plan(target, plan, estimator.random_state, estimator.verbose, estimator)
            plan = released.plan
            for text in plan.warnings:  # The plan may have been completed during the run.
                if text not in warnings:
                    warn(text, plan.warning_category)
            set_privacy_attributes(estimator, plan)
            estimator.temperature_ = plan.temperature
            n_iter = released.other.n_iter
            estimator.n_iter_ = plan.n_updates if n_iter is None else n_iter
            found = {name: model.in_blocks(v[None])[0] for name, v in released.parameters.items()}
            estimator.released_ = Bunch(**released.other, **found)
            draws = model.in_blocks(released.draws)
            return Fit(model, draws, table.classes, released.other)
