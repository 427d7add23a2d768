"""The base class of private posteriors: parameters, a plan from public numbers, and draws.

`skdpbayes._estimator.fit` has what a fit does.
"""

import math
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted

from .._arguments import RANDOM_STATE, Interval, check_sizes, planned_size
from .._typing import RandomStateLike
from ..exceptions import PrivacyWarning
from ..models.rows import checked_norm
from ..privacy.budget import Budget, default_delta, too_large_delta
from ..privacy.charge import clone_with_authorization
from ..privacy.cost import PrivacyCost
from ..privacy.deferred_warnings import warn
from ..privacy.losses import RELATIONS
from ..privacy.planned_release import (
    LONGEST_ROW,
    Disclosure,
    StepDisclosure,
    as_json,
    resolve_source,
)
from ..privacy.rounding import covered_records
from ..privacy.units import plan_for_persons
from ..samplers import Plan, resolve_sampler
from ..samplers.base import AUTO, Diagnostics, resolve_auto
from .bounds import BoundsToLearn, plan_with_bounds
from .posterior import DrawnPosterior

# Parameters of scikit-learn, and what does the same here.
_HINTS = {
    "C": "prior_scale = C ** 0.5, or leave prior_scale out, so that it is learnt",
    "alpha": "a prior_scale, which is smaller for a larger alpha",
    "l1_ratio": "priors are normal, and prior_scale is their width",
    "l2": "prior_scale, the width of a normal prior",
    "max_iter": "the plan fixes the number of steps, from public numbers",
    "n_jobs": "cores are used without it",
    "solver": "sampler, whose default chooses by itself",
    "tol": "the plan fixes the number of steps, from public numbers",
    "warm_start": "a fit starts from nothing, as an earlier one is no part of its plan",
}

POSTERIOR_CONSTRAINTS = {
    "epsilon": [Interval(Real, 0, None, closed="right")],
    "delta": [None, Interval(Real, 0, 1, closed="left")],
    "sampler": [str, HasMethods(["plan", "check", "run"])],
    "data_norm": [None, StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    "n_draws": [AUTO, Interval(Integral, 1, None, closed="left")],
    "neighboring_relation": [StrOptions(set(RELATIONS))],
    "public_size": [None, Interval(Integral, 1, None, closed="left")],
    "max_rows_per_group": [None, Interval(Integral, 1, 2**31, closed="both")],
    "random_state": RANDOM_STATE,
    "verbose": ["verbose"],
}


class PrivatePosterior(BaseEstimator):
    """Budget, plan, privacy attributes and draws of a private posterior.

    A subclass has ``_read``, which validates what `fit` is given and returns a `Table`, and ``_model``, which
    maps public sizes to a model.
    """

    # Whether responses are whole numbers, and whether a fit takes collections of Dask.
    _reads_counts, _reads_collections = False, False
    # What a private pipeline calls the columns that reach this step, if they come without names.
    _feature_names_from_pipeline: np.ndarray | None = None
    # Set during a pipeline's fit: a function that returns them, as far as they are known.
    _names_in_pipeline: Any = None

    data_norm_: float
    feature_names_in_: np.ndarray
    n_features_in_: int
    n_iter_: int
    plan_: Plan
    privacy_cost_: PrivacyCost
    posterior_samples_: Any
    released_: Bunch
    sampler: Any
    spent_delta_: float
    spent_epsilon_: float
    temperature_: float
    __sklearn_clone__ = clone_with_authorization

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``sampler__name`` sets one of the sampler, even if that is given by name.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        self : estimator instance
        """
        if any(name.startswith("sampler__") for name in params):
            params["sampler"] = resolve_sampler(params.get("sampler", self.sampler))
        try:
            return super().set_params(**params)
        except ValueError as error:
            unknown = set(params) - set(self.get_params(deep=False))
            hints = [f"{name}: {_HINTS[name]}." for name in sorted(unknown & set(_HINTS))]
            if not hints:
                raise
            raise ValueError(f"{error} {' '.join(hints)}") from None

    def _about(self):
        return StepDisclosure(tuple(self._facts()))

    def _facts(self):
        """Bounds of a fit for a report, and who said so."""
        default = math.sqrt(self.n_features_in_) if hasattr(self, "n_features_in_") else None
        used = getattr(self, "data_norm_", default)
        value, source = resolve_source(self.data_norm, used, used)
        if source == "learnt" and not self._learns_norm:
            source = "default"
        if self.data_norm is None and value != default:
            source = "steps"  # Only a pipeline gives another.
        yield Disclosure(LONGEST_ROW, as_json(value), source)

    @property
    def _learns_norm(self):
        """Whether "auto" is a release of its own; with few rows, and of networks, it is a default."""
        if not hasattr(self, "plan_"):
            return self._bounds_to_learn().norm
        release = self.plan_.bound_release
        return release is not None and release.norm_quantile is not None

    def _bounds_to_learn(self) -> BoundsToLearn:
        """The bounds that are drawn from the rows before all else."""
        is_learnt = isinstance(self.data_norm, str)
        return BoundsToLearn(norm=is_learnt, at_norm=lambda model, norm: model.at_norm(norm))

    def _clip_norm(self, n_features):
        """The norm to which rows are clipped."""
        unknown = self.data_norm is None or isinstance(self.data_norm, str)
        norm = np.sqrt(n_features) if unknown else self.data_norm
        return checked_norm(norm, "data_norm")

    def _public_size(self, n_samples):
        """The number of rows that plans may use, given the number of rows or of persons."""
        limit = self.max_rows_per_group
        if limit is not None and limit > 1 and self.neighboring_relation == "replace_one":
            return self._public_size_of_persons(int(n_samples) * int(limit))
        return planned_size(n_samples, self.neighboring_relation, self.public_size)

    def _public_size_of_persons(self, most_rows):
        if self.public_size is None:
            return most_rows
        # Rounding errors are covered only up to a certain number of rows.
        if covered_records(int(self.public_size), "add_or_remove_one") < most_rows:
            raise ValueError(
                f"public_size={self.public_size} is far below {most_rows}, the largest possible number of "
                "rows: raise it, or lower max_rows_per_group."
            )
        return int(self.public_size)

    @property
    def _diagnostics(self):
        """The record of ``released_``."""
        return Diagnostics.of(self.released_)

    def _origin(self) -> Any:
        """The point that is added to the draws of a sampler."""
        return 0.0

    @property
    def _posterior(self) -> DrawnPosterior:
        """The draws as a value, with what makes more of them; raises an error before a fit."""
        check_is_fitted(self)
        return self._drawn_posterior(
            draws=self.posterior_samples_,
            plan=self.plan_,
            released=self.released_,
            columns=self._column_names(),
        )

    def _drawn_posterior(self, **shared: Any) -> DrawnPosterior:
        """The value of this kind of model; ``shared`` are fields that all kinds have."""
        raise NotImplementedError(f"{type(self).__name__} has no posterior.")

    def _sampler(self):
        """The sampler object that makes plans."""
        return resolve_sampler(self.sampler)

    def _model(self, n_features, *sizes):
        """The model, from public numbers; ``sizes`` is the number of classes of a classifier."""
        raise NotImplementedError(f"{type(self).__name__} has no model.")

    def privacy_plan(self, n_samples: int, n_features: int) -> Plan:
        """The plan of a fit, with its cost, from public numbers alone: print it before you fit.

        Parameters
        ----------
        n_samples : int
            Number of rows; of persons, with ``max_rows_per_group``. Under
            ``neighboring_relation="add_or_remove_one"`` the plan uses ``public_size`` instead.
        n_features : int
            Number of columns.

        Returns
        -------
        plan : Plan
            Its attributes are public numbers; printing it gives a readable summary.

        Raises
        ------
        ValueError, TypeError
            If a parameter is invalid, or if the options contradict each other.

        Examples
        --------
        >>> from skdpbayes import DPBayesianPoissonRegressor
        >>> plan = DPBayesianPoissonRegressor(max_count=20, epsilon=1.0).privacy_plan(50_000, 8)
        >>> 0.5 < plan.epsilon <= 1.0
        True
        >>> from skdpbayes.mixture import DPGaussianMixturePosterior
        >>> DPGaussianMixturePosterior(3, epsilon=1.0).privacy_plan(50_000, 2).n_draws
        100
        """
        self._validate_params()
        check_sizes(n_samples=n_samples, n_features=n_features)
        return self._plan(int(n_samples), int(n_features))

    def _plan(self, n_samples, n_features, *sizes, **largest):
        return self._plan_for_model(self._model(n_features, *sizes, **largest), n_samples)

    def _plan_for_model(self, model, n_samples):
        """The sampler's plan for a model's public numbers."""
        bounds, n_samples = model.bounds(), self._public_size(n_samples)
        delta = default_delta(n_samples) if self.delta is None else float(self.delta)
        budget = Budget(float(self.epsilon), delta, self.neighboring_relation).checked()
        for text in too_large_delta(budget, n_samples):
            warn(text, PrivacyWarning)
        make_plan = self._planner(bounds, n_samples)
        learns = self._bounds_to_learn()
        if learns.norm or learns.sides:
            # Persons have at least a row each.
            least = max(n_samples // int(self.max_rows_per_group or 1), 1)
            make_plan = partial(plan_with_bounds, make_plan, least, learns=learns)
        if self.max_rows_per_group is None:
            return make_plan(budget)
        return plan_for_persons(make_plan, budget, int(self.max_rows_per_group))

    def _planner(self, bounds, n_samples):
        """A function that maps a budget for rows to the sampler's plan."""
        return partial(
            self._sampler().plan, bounds, n_samples, n_draws=resolve_auto(self.n_draws, int)
        )

    def _column_names(self):
        """The names of the columns: of the table, of the steps before, or x0, x1, and so on."""
        names = getattr(self, "feature_names_in_", self._feature_names_from_pipeline)
        if names is None and self._names_in_pipeline is not None:
            names = self._names_in_pipeline()
        if names is None:
            names = [f"x{j}" for j in range(self.n_features_in_)]
        return np.asarray(names, dtype=str)

    def _dry_run(self, X, y=None, planned=True, **params):
        """Do what a fit does before it is charged, on a copy, and return the labels, if there are any.

        No plan is made unless ``planned``, for rows whose number of columns is made up.
        """
        with self._read(X, y, **params) as table:
            if planned:
                weighted = params.get("sample_weight") is not None
                largest = {"max_sample_weight": float(self.max_sample_weight)} if weighted else {}
                self._plan(table.n_samples, table.n_features, *table.sizes, **largest)
            return table.classes

    def sample_posterior(
        self, n_draws: int | None = None, random_state: RandomStateLike = None
    ) -> np.ndarray:
        """Draws from the posterior; this spends no budget and may be repeated.

        Parameters
        ----------
        n_draws : int or None, default=None
            Number of draws. None returns all of ``posterior_samples_``.
        random_state : None, int, RandomState or Generator, default=None
            Randomness of the choice, or of new draws. It need not be kept private, because the draws are
            public.

        Returns
        -------
        draws : ndarray of shape (n_draws, ...)
            By default, under privacy, any number of new draws given what was released, and with "bbb". With
            other samplers rows of ``posterior_samples_``, in their order along the chain.

        Raises
        ------
        ValueError
            If the sampler makes no new draws, and has kept fewer than requested.
        """
        return self._posterior.draw(n_draws, random_state)

    def to_arviz(self, *, split: bool = True) -> Any:
        """Convert the draws for ArviZ, which has R-hat, effective sample sizes and plots.

        Requires the extra ``diagnostics``. It spends no budget.

        Parameters
        ----------
        split : bool, default=True
            Whether to pass the halves of the draws as two chains, without which ArviZ's R-hat is nan. An odd
            draw at the beginning is left out. Fewer than 8 draws stay one chain.

        Returns
        -------
        data : xarray.DataTree or arviz.InferenceData
            The group ``posterior`` has dimensions ``chain`` and ``draw``, coordinates named after classes and
            columns, and the plan's ``epsilon``, ``delta``, ``neighboring_relation``, ``temperature``,
            ``n_steps`` and ``sampler`` as attributes. Before ArviZ 1 it is an InferenceData.

        Raises
        ------
        ImportError
            If ArviZ is not installed.
        ValueError
            If there are fewer than 4 draws.

        Examples
        --------
        >>> import arviz
        >>> from sklearn.datasets import make_classification
        >>> from skdpbayes.linear_model import DPBayesianLogisticRegression
        >>> X, y = make_classification(2000, 5, n_redundant=0, random_state=0)
        >>> clf = DPBayesianLogisticRegression(n_draws=200, random_state=0).fit(X, y)
        >>> data = clf.to_arviz()
        >>> dict(data["posterior"]["coef"].sizes)
        {'chain': 2, 'draw': 100, 'class': 1, 'feature': 5}
        >>> bool((arviz.ess(data)["coef"] > 50).all())
        True
        """
        return self._posterior.to_arviz(split=split)
