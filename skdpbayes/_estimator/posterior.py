"""What the private posterior estimators share.

    validate, clip -> plan (public quantities only) -> sample (reserves the plan's cost, then reads)
                   -> draws, and everything else from the draws

Data flow in this direction only: fitted attributes depend on the records only through what the sampler
releases.
"""

from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Bunch, check_random_state
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted

from .._checks import RANDOM_STATE, Interval, planned_size
from .._typing import RandomStateLike
from ..exceptions import PrivacyWarning
from ..privacy.budget import Budget, default_delta, too_large_delta
from ..privacy.cost import NEIGHBORING_RELATIONS, PrivacyCost
from ..privacy.deferred_warnings import warn
from ..privacy.facts import About
from ..privacy.floating_point import covered_records
from ..privacy.persons import plan_for_persons
from ..privacy.release import keep_spent
from ..privacy.vouchers import VoucherHolder
from ..samplers import Plan, resolve_sampler
from ..samplers._protocol import AUTO, carry_out, given
from ..targets._clipping import checked_norm
from .diagnostics import to_arviz
from .facts import facts_of
from .norm import plan_with_bounds

POSTERIOR_CONSTRAINTS = {
    "epsilon": [Interval(Real, 0, None, closed="right")],
    "delta": [None, Interval(Real, 0, 1, closed="left")],
    "sampler": [str, HasMethods(["plan", "check", "run"])],
    "data_norm": [None, StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    "n_draws": [AUTO, Interval(Integral, 1, None, closed="left")],
    "neighboring_relation": [StrOptions(set(NEIGHBORING_RELATIONS))],
    "public_size": [None, Interval(Integral, 1, None, closed="left")],
    "max_rows_per_group": [None, Interval(Integral, 1, 2**31, closed="both")],
    "random_state": RANDOM_STATE,
    "verbose": ["verbose"],
}


class PrivatePosteriorMixin(VoucherHolder):
    """Budget, plan, privacy attributes and draws of a private posterior."""

    # Whether data_norm="auto" releases a norm first, and the bound on rows relative to the released quantile.
    _releases_norm, _norm_room = True, 1.0
    # What a private pipeline calls the columns that reach this step, if they come without names.
    _told_names: np.ndarray | None = None
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
        return super().set_params(**params)

    def _about(self):
        return About(facts_of(self))

    @property
    def _released_sides(self) -> tuple[str, ...]:
        """Which bounds of responses are released first: "low", "high"."""
        return ()

    def _norm(self, n_features):
        """Return the norm to which rows are clipped."""
        unknown = self.data_norm is None or isinstance(self.data_norm, str)
        norm = np.sqrt(n_features) if unknown else self.data_norm
        return checked_norm(norm, "data_norm")

    def _public_size(self, n_samples):
        """Return the number of rows that plans may use, given the number of rows or of persons."""
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

    def _origin(self):
        """Return what is added to the draws of a sampler."""
        return 0.0

    def _sampler(self):
        """Return the sampler object that makes plans."""
        return resolve_sampler(self.sampler)

    def _make_plan(self, bounds, n_samples):
        """Return the sampler's plan for a target's public numbers."""
        delta = default_delta(n_samples) if self.delta is None else float(self.delta)
        budget = Budget(float(self.epsilon), delta, self.neighboring_relation).checked()
        for text in too_large_delta(budget, n_samples):
            warn(text, PrivacyWarning)
        make_plan = self._plan_of_budget(bounds, n_samples)
        norm = self.data_norm == "auto" and self._releases_norm
        if norm or self._released_sides:
            wanted = {"norm": norm, "sides": self._released_sides}
            # Persons have at least a row each.
            least = max(n_samples // int(self.max_rows_per_group or 1), 1)
            make_plan = partial(plan_with_bounds, make_plan, least, **wanted)
        if self.max_rows_per_group is None:
            return make_plan(budget)
        return plan_for_persons(make_plan, budget, int(self.max_rows_per_group))

    def _plan_of_budget(self, bounds, n_samples):
        """Return a function that maps a budget for rows to the sampler's plan."""
        return partial(self._sampler().plan, bounds, n_samples, n_draws=given(self.n_draws, int))

    def _column_names(self):
        """Return the names of the columns: of the table, of the steps before, or x0, x1, and so on."""
        names = getattr(self, "feature_names_in_", self._told_names)
        if names is None and self._names_in_pipeline is not None:
            names = self._names_in_pipeline()
        if names is None:
            names = [f"x{j}" for j in range(self.n_features_in_)]
        return np.asarray(names, dtype=str)

    def _rehearse(self, X, y=None, planned=True, **params):
        """Do what a fit does before it is charged, on a copy, and return the labels, if there are any.

        The estimator has ``_read``, which validates what `fit` is given and returns a `Table`. No plan is
        made unless ``planned``, for rows whose number of columns is made up.
        """
        with self._read(X, y, **params) as table:
            if planned:
                weighted = params.get("sample_weight") is not None
                largest = {"max_sample_weight": float(self.max_sample_weight)} if weighted else {}
                self._plan(table.n_samples, table.n_features, *table.sizes, **largest)
            return table.classes

    def _draw(self, target, plan, shaped=lambda values: values):
        """Spend the plan, set its public attributes, and return the draws.

        ``shaped`` maps rows of sampled coordinates to the form in which they are reported.
        """
        told = plan.warnings
        self.__dict__.pop("_told_names", None)
        for text in told:
            warn(text, ConvergenceWarning)
        released = carry_out(target, plan, self.random_state, self.verbose, self)
        plan = released.plan
        for text in plan.warnings:  # The plan may have been completed during the run.
            if text not in told:
                warn(text, ConvergenceWarning)
        keep_spent(self, plan)
        self.temperature_ = plan.temperature
        self.n_iter_ = released.other.get("n_iter", plan.n_updates)
        parameters = {name: shaped(v[None])[0] for name, v in released.parameters.items()}
        self.released_ = Bunch(**released.other, **parameters)
        return shaped(released.draws)

    def sample_posterior(
        self, n_draws: int | None = None, random_state: RandomStateLike = None
    ) -> np.ndarray:
        """Return draws from the posterior; this spends no budget and may be repeated.

        Parameters
        ----------
        n_draws : int or None, default=None
            Number of draws, chosen without replacement. None returns all of ``posterior_samples_``.
        random_state : None, int, RandomState or Generator, default=None
            Randomness of the choice, or of new draws. It need not be kept private, because the draws are
            public.

        Returns
        -------
        draws : ndarray of shape (n_draws, ...)
            Rows of ``posterior_samples_``, in their order along the chain. With "bbb" and "noise_aware", any
            number of new draws given what was released.

        Raises
        ------
        ValueError
            If there are fewer draws than requested.
        """
        check_is_fitted(self)
        if n_draws is not None:
            generator = generator_of(random_state)
            wanted = check_number_of_draws(n_draws)
            fresh = self.plan_.sampler.redraw(self.released_, wanted, generator)
            if fresh is not None:
                return fresh + self._origin()
        draws = self.posterior_samples_
        return draws[choose_draws(draws.shape[0], n_draws, random_state)]

    def to_arviz(self, *, split: bool = True) -> Any:
        """Convert the draws for ArviZ, which has R-hat, effective sample sizes and plots.

        Requires the extra ``diagnostics``. It spends no budget.

        Parameters
        ----------
        split : bool, default=True
            Whether to present the halves of the chain as two chains. ArviZ's R-hat is nan otherwise. An odd
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
        check_is_fitted(self)
        variables, coords = self._posterior_variables()
        return to_arviz(variables, coords, self.plan_, split=split)


def check_number_of_draws(n_draws):
    """Return a number of draws, or raise a ValueError if it is not a positive integer."""
    if isinstance(n_draws, bool) or not isinstance(n_draws, Integral) or n_draws < 1:
        raise ValueError(f"n_draws must be a positive integer or None, got {n_draws!r}.")
    return n_draws


def choose_draws(kept, n_draws, random_state):
    """Return the indices of some of the draws that were kept, in ascending order; all of them for None.

    Raises
    ------
    ValueError
        If there are fewer draws than requested.
    """
    if n_draws is None:
        return np.arange(kept)
    if check_number_of_draws(n_draws) > kept:
        raise ValueError(
            f"n_draws={n_draws} is more than the {kept} draws that were released, and more "
            f"would spend more budget: fit with n_draws={n_draws}."
        )
    # Post-processing.
    return np.sort(generator_of(random_state).choice(kept, size=n_draws, replace=False))


def generator_of(random_state):
    """Return what `numpy.random` has for a seed, or the generator that is given."""
    given = isinstance(random_state, np.random.Generator)
    return random_state if given else check_random_state(random_state)
