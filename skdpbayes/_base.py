"""What the private posterior estimators share.

    validate, clip -> plan (public quantities only) -> sample (reserves the plan's cost, then reads)
                   -> draws, and everything else from the draws

One direction, no way back: what is released depends on the records through the draws alone.
"""

import warnings
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ._diagnostics import to_arviz
from .privacy.automatic import plan_automatic
from .privacy.cost import NEIGHBORING_RELATIONS
from .privacy.fisher import plan_fisher
from .privacy.hamiltonian import plan_hamiltonian
from .privacy.langevin import plan_langevin
from .privacy.last_state import plan_last_state
from .privacy.metropolis import METROPOLIS_SAMPLERS, plan_metropolis
from .privacy.options import SamplerOptions
from .privacy.plan import Budget, default_delta
from .privacy.thermostat import plan_thermostat
from .privacy.variational import VariationalPlan, plan_variational
from .samplers import carry_out

_AUTO = StrOptions({"auto"})

# Every sampler by its name, and by what it releases: how a plan for it is made.
PLANNERS = {
    "sgld": {"path": plan_langevin, "last": plan_last_state},
    "ops": {"last": plan_last_state},
    "sghmc": {"path": plan_hamiltonian},
    "sgnht": {"path": plan_thermostat},
    "sgfs": {"path": plan_fisher},
    "bbb": {"path": plan_variational},
    "auto": {"path": plan_automatic, "last": plan_last_state},
    **{name: {"path": partial(plan_metropolis, sampler=name)} for name in METROPOLIS_SAMPLERS},
}

POSTERIOR_CONSTRAINTS = {
    "epsilon": [Interval(Real, 0, None, closed="right")],
    "delta": [None, Interval(Real, 0, 1, closed="left")],
    "sampler": [StrOptions(set(PLANNERS))],
    "release": [StrOptions({"auto", "path", "last"})],
    "init": [StrOptions({"zeros", "ops"})],
    "init_share": [_AUTO, Interval(Real, 0, 1, closed="neither")],
    "data_norm": [None, Interval(Real, 0, None, closed="neither")],
    "temperature": [_AUTO, Interval(Real, 1, None, closed="left")],
    "batch_size": [None, Interval(Integral, 1, None, closed="left")],
    "step_size": [_AUTO, Interval(Real, 0, None, closed="neither")],
    "step_decay": [Interval(Real, 0, 1, closed="left")],
    "initial_scale": [_AUTO, Interval(Real, 0, None, closed="neither")],
    "friction": [_AUTO, Interval(Real, 0, 1, closed="right")],
    "proposal": [StrOptions({"sphere", "gaussian"})],
    "adapt_step_size": ["boolean"],
    "noise_multiplier": [_AUTO, Interval(Real, 0, None, closed="neither")],
    "max_batch_size": [None, Interval(Integral, 1, None, closed="left")],
    "n_effective": [_AUTO, Interval(Integral, 1, None, closed="left")],
    "n_steps": [_AUTO, Interval(Integral, 1, None, closed="left")],
    "burn_in": [_AUTO, Interval(Real, 0, 1, closed="left")],
    "n_draws": [_AUTO, Interval(Integral, 1, None, closed="left")],
    "neighboring_relation": [StrOptions(set(NEIGHBORING_RELATIONS))],
    "public_size": [None, Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state", np.random.Generator],
    "verbose": ["verbose"],
}

# Plain numbers, whatever kind of number a user gives: plans are looked up by them.
_OPTION_KINDS = {
    "temperature": float,
    "step_size": float,
    "step_decay": float,
    "initial_scale": float,
    "n_steps": int,
    "burn_in": float,
    "n_draws": int,
    "batch_size": int,
    "init": str,
    "init_share": float,
    "friction": float,
    "proposal": str,
    "adapt_step_size": bool,
    "noise_multiplier": float,
    "max_batch_size": int,
    "n_effective": int,
}


# Attributes that not every sampler sets.
_OF_SOME_SAMPLERS = (
    "acceptance_rate_",
    "second_moment_",
    "variational_mean_",
    "variational_scale_",
)


class PrivatePosteriorMixin:
    """Budget, plan, privacy attributes and draws of a private posterior."""

    def _norm(self, n_features):
        """Return the norm to which rows are clipped."""
        return float(np.sqrt(n_features) if self.data_norm is None else self.data_norm)

    def _public_size(self, n_samples):
        """Return the size of the table that plans may use."""
        if self.neighboring_relation == "add_or_remove_one":
            if self.public_size is None:
                raise ValueError(
                    "neighboring_relation='add_or_remove_one' keeps the size of the table private: "
                    "declare a public one, e.g. public_size=10_000, that does not come from the data."
                )
            return int(self.public_size)
        if self.public_size is not None:
            raise ValueError(
                f"public_size={self.public_size} is for neighboring_relation='add_or_remove_one'; "
                "under 'replace_one' the size of the table is public: leave public_size=None."
            )
        return int(n_samples)

    def _planner(self):
        """Return what makes plans for the sampler and for what it is to release."""
        releases = PLANNERS[self.sampler]
        release = next(iter(releases)) if self.release == "auto" else self.release
        if release not in releases:
            raise ValueError(
                f"sampler={self.sampler!r} does not go with release={release!r}: leave "
                "release='auto', or choose sampler='sgld'."
            )
        if self.sampler == "ops" and self.batch_size is not None:
            raise ValueError(
                f"sampler='ops' takes the full table at every step: leave batch_size=None instead of "
                f"{self.batch_size}, or choose sampler='sgld' with release='last' for batches that "
                "take turns."
            )
        return releases[release]

    def _options(self):
        """Return what the user fixes; what an estimator has no parameter for is left to the rule."""
        parameters = self.get_params(deep=False)
        chosen = {}
        for name in SamplerOptions._fields:
            if name in parameters:
                value = parameters[name]
                left = value is None or (isinstance(value, str) and value == "auto")
                chosen[name] = None if left else _OPTION_KINDS[name](value)
        return SamplerOptions(**chosen)

    def _make_plan(self, bounds, n_samples, options=None):
        """Return the plan for a target's public numbers, as the sampler's planner takes them."""
        planner = self._planner()
        delta = default_delta(n_samples) if self.delta is None else float(self.delta)
        budget = Budget(float(self.epsilon), delta, self.neighboring_relation)
        return planner(bounds, n_samples, budget, options or self._options())

    def _draw(self, target, plan):
        """Spend the plan, set what is public of it, and return the draws."""
        notes = plan.notes
        for note in notes:
            warnings.warn(note, ConvergenceWarning, stacklevel=3)
        released = carry_out(target, plan, self.random_state, self.verbose)
        plan = released.plan
        for note in plan.notes:  # A plan may be completed on the way.
            if note not in notes:
                warnings.warn(note, ConvergenceWarning, stacklevel=3)
        self.plan_ = plan
        self.privacy_cost_ = plan.cost
        self.spent_epsilon_ = plan.epsilon
        self.spent_delta_ = plan.delta
        self.temperature_ = plan.temperature
        self.n_iter_ = plan.n_updates
        for name in _OF_SOME_SAMPLERS:  # Nothing of an earlier fit stays.
            vars(self).pop(name, None)
        for name, value in released.other.items():
            setattr(self, f"{name}_", value)
        return released.draws

    def sample_posterior(self, n_draws=None, random_state=None):
        """Draws from the posterior; post-processing, so it may be repeated for free.

        Parameters
        ----------
        n_draws : int or None, default=None
            How many, without replacement. None returns all of ``posterior_samples_``.
        random_state : None, int or RandomState, default=None
            Which ones. It need not be secret: the draws are public.

        Returns
        -------
        draws : ndarray of shape (n_draws, ...)
            Rows of ``posterior_samples_``, in their order along the chain. With ``sampler="bbb"`` new draws
            from the fitted Gaussian instead, as many as are asked for.

        Raises
        ------
        ValueError
            If there are fewer draws than asked for.
        """
        check_is_fitted(self)
        draws = self.posterior_samples_
        if n_draws is not None and isinstance(self.plan_, VariationalPlan):
            return self._draw_variational(check_number_of_draws(n_draws), random_state)
        return draws[choose_draws(draws.shape[0], n_draws, random_state)]

    def _draw_variational(self, n_draws, random_state):
        mean, scale = self.variational_mean_, self.variational_scale_
        normal = check_random_state(random_state).standard_normal((n_draws, *mean.shape))
        return mean + scale * normal

    def to_arviz(self, *, split=True):
        """Return the draws for ArviZ: R-hat, effective sample sizes, plots; post-processing.

        Needs the extra ``diagnostics``.

        Parameters
        ----------
        split : bool, default=True
            Whether the chain's halves are presented as two chains, without which ArviZ's R-hat is nan.
            An odd draw at the beginning is left out then. Fewer than 8 draws stay one chain.

        Returns
        -------
        data : xarray.DataTree or arviz.InferenceData
            Its group ``posterior`` has dimensions ``chain`` and ``draw``, coordinates by the names of
            classes and columns, and the plan's numbers (``epsilon``, ``delta``,
            ``neighboring_relation``, ``temperature``, ``n_steps``, ``sampler``) as attributes. An
            InferenceData before ArviZ 1.

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
        >>> bool((arviz.ess(data)["coef"] < 200).all())
        True
        """
        check_is_fitted(self)
        return to_arviz(*self._posterior_variables(), self.plan_, split=split)


def check_number_of_draws(n_draws):
    """Return a number of draws, or raise a ValueError if it is none."""
    if isinstance(n_draws, bool) or not isinstance(n_draws, Integral) or n_draws < 1:
        raise ValueError(f"n_draws must be a positive integer or None, got {n_draws!r}.")
    return n_draws


def choose_draws(kept, n_draws, random_state):
    """Return the numbers of some of the draws that were kept, in their order; all for None.

    Raises
    ------
    ValueError
        If there are fewer draws than asked for.
    """
    if n_draws is None:
        return np.arange(kept)
    if check_number_of_draws(n_draws) > kept:
        raise ValueError(
            f"n_draws={n_draws} asks for more than the {kept} draws that were released: more "
            f"cannot be had without spending more budget. Fit with n_draws={n_draws}."
        )
    return np.sort(check_random_state(random_state).choice(kept, size=n_draws, replace=False))


def validate_table(estimator, X, y="no_validation", *, reset, accept_sparse="csr"):
    """Validate a table by scikit-learn's means, without quoting cells of it in an error.

    ``accept_sparse`` is as in scikit-learn's `check_array`.

    Raises
    ------
    ValueError
        If the table is not one of finite numbers.
    """
    _refuse_text_columns(X)
    try:
        return validate_data(
            estimator,
            X,
            y,
            reset=reset,
            accept_sparse=accept_sparse,
            dtype=[np.float64, np.float32],
            order="C",
        )
    except ValueError as error:
        remedy = _without_cells(str(error))
        if remedy is None:
            raise
    # Outside the handler, so that the message with the cells is not chained to the error either.
    raise ValueError(remedy)


def _without_cells(message):
    """Return what to say instead of a message of scikit-learn's that quotes the table, or None."""
    if "could not convert string" in message:
        return (
            "X holds text where numbers are expected: encode categories by a public list of them, "
            "e.g. OneHotEncoder(categories=[...], handle_unknown='ignore')."
        )
    if "Complex data not supported" in message:
        return "Complex data not supported: X must hold real numbers."
    if "Reshape your data" in message:
        return (
            "Expected 2D array, got one of fewer dimensions instead. Reshape your data: "
            "array.reshape(-1, 1) if there is a single feature, array.reshape(1, -1) if there is a "
            "single sample."
        )
    return None


def _refuse_text_columns(X):
    if not (hasattr(X, "dtypes") and hasattr(X, "columns")):
        return
    kinds = (str(kind).lower() for kind in X.dtypes)
    text = [
        str(name)
        for name, kind in zip(X.columns, kinds, strict=True)
        if kind.startswith(("str", "utf8", "category", "categorical", "enum", "datetime", "date"))
    ]
    if text:
        raise ValueError(
            f"columns {text} are not numeric: encode categories by a public list of them, e.g. "
            "OneHotEncoder(categories=[...], handle_unknown='ignore'), in a ColumnTransformer."
        )
