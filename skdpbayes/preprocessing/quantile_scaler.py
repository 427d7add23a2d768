"""Scaling by bounds that are learnt privately.

    lower, upper = noisy quantiles q, 1 - q of each column, moved apart by (upper - lower) q / (1 - 2 q)

and then `BoundedScaler`: the bounds are those of a uniform distribution with these quantiles. See
`_quantiles`.
"""

from functools import partial
from typing import Literal

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from .._arguments import is_number
from .._data.partitions import by_blocks
from .._mechanisms.exponential import draw_quantiles, draws_cost, log_odds_range, values_of_column
from .._typing import MatrixLike, RandomStateLike, Relation
from ..exceptions import DataScalingWarning
from ..privacy.planned_release import StepDisclosure, of_columns
from ._base import BUDGET_CONSTRAINTS, PrivateTransformer, Terms
from .bounded import Bound, BoundedScaler

# Ranks between a quantile and the outermost value, in units of the noise, that are wanted.
_RANKS_TO_OUTERMOST = 12.0
# Ranks below which a plan warns: the noise may put a bound anywhere beyond the values.
_UNSAFE = 8.0
# Half-width of a constant column relative to its value, if above 1.
_CONSTANT_HALF_WIDTH = 1e-3
# Half of narrower columns' width would be scaled by more than the largest double.
_LEAST_WIDTH = 1e-304
# Half of public bounds' distance that has room for steps.
_LEAST_BOUNDS = 1e-300
# Columns that a warning names.
_MOST_NAMED = 5


class DPQuantileScaler(OneToOneFeatureMixin, PrivateTransformer):
    """Scale columns to [-1, 1] by bounds that are learnt privately.

    Two quantiles of each column are drawn by the exponential mechanism, without prior knowledge of the
    columns. Values outside the bounds are clipped to them, so that no row is longer than ``data_norm_``, a
    public number. Missing values (NaN) do not count towards the quantiles and are passed through.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget for the bounds of all columns together; ``inf`` adds no noise.
    delta : float, default=None
        None is ``min(1e-5, 1 / (10 n))``; 0 is pure differential privacy, with more noise.
    quantiles : "auto" or (float, float), default="auto"
        Quantiles to draw. "auto" is ``(q, 1 - q)`` with ``q`` between 0.01 and 0.25, as far out as the
        noise permits given the budget and the public size.
    bounds : (low, high) or None, default=None
        Wide public bounds, if there are any: each a number, one number for each column, or a Series or dict
        that names the columns. Candidates are then a thousand evenly spaced steps between them.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public or private.
    public_size : int, default=None
        Under "add_or_remove_one", the public number of rows that plans use.
    random_state : None, int, RandomState instance or Generator, default=None
        None uses cryptographic randomness; a known or repeated seed voids the guarantee.

    Attributes
    ----------
    lower_, upper_ : ndarray of shape (n_features_in_,)
        The bounds, in the units of the columns.
    data_norm_ : float
        Upper limit of the norms of scaled rows: the square root of the number of columns. NaN counts as 0.
    plan_ : TransformerPlan
        What the fit did.
    privacy_cost_ : PrivacyCost
        Cost of the fit.
    spent_epsilon_, spent_delta_ : float
        The cost as numbers.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if ``X`` had any.

    See Also
    --------
    BoundedScaler : Scaling with public bounds, which spends no budget.

    Notes
    -----
    The mechanism is that of Smith, "Privacy-preserving statistical estimation with optimal convergence rates"
    (STOC 2011). Candidates are all decimals that doubles tell apart, so that no unit needs bounds. A column
    whose values differ little for their size, such as times of one day in seconds since 1970, takes
    more rows. Until there are enough, both quantiles are one number of four digits, of which a warning tells:
    subtract a public number, or give bounds. Durfee (NeurIPS 2023) needs no bounds either: that method goes
    through growing candidates until a noisy count exceeds a threshold.

    Before the last step of a private pipeline in which persons may have several rows, one row of each person
    is read, at random, and the bounds are those of a random row of a random person.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.preprocessing import DPQuantileScaler
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.uniform(18, 90, 20_000), rng.uniform(0, 5e4, 20_000)])
    >>> scaler = DPQuantileScaler(epsilon=0.3, random_state=0).fit(X)
    >>> bool((abs(scaler.lower_ - [18, 0]) < [5, 3e3]).all())
    True
    >>> bool((abs(scaler.upper_ - [90, 5e4]) < [5, 3e3]).all())
    True
    >>> scaler.spent_epsilon_ <= 0.3, float(abs(scaler.transform(X)).max())
    (True, 1.0)
    """

    _title = "Quantile scaler"
    _parameter_constraints = {
        **BUDGET_CONSTRAINTS,
        "quantiles": [StrOptions({"auto"}), tuple, list],
        "bounds": [None, tuple, list],
    }

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        quantiles: tuple[float, float] | Literal["auto"] = "auto",
        bounds: tuple[Bound, Bound] | None = None,
        neighboring_relation: Relation = "replace_one",
        public_size: int | None = None,
        random_state: RandomStateLike = None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.quantiles = quantiles
        self.bounds = bounds
        self.neighboring_relation = neighboring_relation
        self.public_size = public_size
        self.random_state = random_state

    def _terms(self, n_samples, n_features, budget):
        count = 2 * n_features
        level = log_odds_range(budget, count)
        quantiles = self._quantiles(level, n_samples)
        outside = min(quantiles[0], 1.0 - quantiles[1]) * n_samples * level / 2.0
        warnings: tuple[str, ...] = ()
        if outside < _UNSAFE:
            needed = int(np.ceil(_RANKS_TO_OUTERMOST / (0.25 * level / 2.0)))
            warnings = (
                f"the noise may put bounds far beyond the values: with this epsilon, {n_features} columns "
                f"need about {needed:,} rows. Raise epsilon, scale fewer columns, or use BoundedScaler with "
                "public bounds.",
            )
        cost = draws_cost(level, count, budget.neighboring_relation)
        return Terms(cost, {"quantiles": quantiles, "log_odds_range": level}, warnings)

    def _quantiles(self, level, n_samples):
        if isinstance(self.quantiles, str):
            lowest = float(np.clip(_RANKS_TO_OUTERMOST / (n_samples * level / 2.0), 0.01, 0.25))
            return lowest, 1.0 - lowest
        quantiles = tuple(self.quantiles)
        numbers = len(quantiles) == 2 and all(is_number(q) for q in quantiles)
        if not (numbers and 0.001 <= quantiles[0] < quantiles[1] <= 0.999):
            raise ValueError(
                f"quantiles must be 'auto' or (low, high) with 0.001 <= low < high <= 0.999, got {quantiles}."
            )
        return quantiles

    def _public(self, X, n_features):
        """(low, high) for each column; (None, None) without public bounds."""
        if self.bounds is None:
            return [(None, None)] * n_features
        if len(self.bounds) != 2:
            raise ValueError("bounds must be (low, high).")
        try:
            checked = BoundedScaler(*self.bounds).fit(X)
        except (TypeError, ValueError) as error:
            raise type(error)(f"bounds=(lower, upper): {error}") from None
        if (checked.upper_ / 2.0 - checked.lower_ / 2.0 < _LEAST_BOUNDS).any():
            raise ValueError(f"bounds must be at least {2.0 * _LEAST_BOUNDS:g} apart.")
        return list(zip(checked.lower_, checked.upper_, strict=True))

    def _about(self):
        bounds = np.column_stack([self.lower_, self.upper_]) if hasattr(self, "lower_") else None
        facts = of_columns("range", bounds, "learnt", self._names)
        if self.bounds is not None:
            facts = BoundedScaler(*self.bounds)._about().facts + facts
            facts = tuple(
                fact._replace(what="range to look in") if fact.source == "declared" else fact
                for fact in facts
            )
        return StepDisclosure(facts, "Proposition 50")

    def _make_up(self, public, n_features):
        self.lower_, self.upper_ = -np.ones(n_features), np.ones(n_features)
        return True

    def _release(self, table, public, plan, generator):
        # Propositions 50 and 54.
        return draw_column_quantiles(table, plan.details["quantiles"], plan, public, generator)

    def _set(self, public, released, plan):
        lower, upper = np.array(released).transpose(1, 2, 0)
        how = plan.details["quantiles"], self.bounds is not None
        self.lower_, self.upper_, is_flat = _widened(lower, upper, *how)
        self.data_norm_ = float(np.sqrt(is_flat.size))
        return self._flat_warnings(np.flatnonzero(is_flat)) if is_flat.any() else []

    def _flat_warnings(self, columns):
        """Warnings of columns whose quantiles were drawn too close to each other to be bounds."""
        shown = columns[:_MOST_NAMED]
        named = self._named(shown)
        more = f" and {columns.size - len(named)} others" if columns.size > len(named) else ""
        values = [
            f"{0.5 * self.lower_[column] + 0.5 * self.upper_[column]:.6g}" for column in shown
        ]
        text = (
            f"both quantiles that were drawn are the same, or nearly, in column {', '.join(named)}{more} "
            f"({', '.join(values)}): most values are equal, or differ by less than these rows "
            "and this epsilon can tell. Bounds are set a little around them, and values beyond are clipped. "
            "That is right for indicators (0 and 1). Otherwise subtract a public number from the column "
            "beforehand, or give bounds=(low, high)."
        )
        return [(text, DataScalingWarning)]

    def _scaler(self):
        check_is_fitted(self)
        # Its output is an array, whatever scikit-learn is configured to: the frame around it has the index.
        return BoundedScaler(self.lower_, self.upper_).set_output(transform="default")

    def transform(self, X: MatrixLike) -> MatrixLike:
        """Clip to the bounds and scale to [-1, 1].

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        """
        scaler = self._scaler()
        return scaler.fit_transform(self._validate(X, reset=False))

    @by_blocks
    def inverse_transform(self, X: MatrixLike) -> MatrixLike:
        """Undo the scaling (not the clipping).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        """
        scaler = self._scaler()
        X = self._validate(X, reset=False)
        return scaler.fit(X).inverse_transform(X)


def draw_column_quantiles(table, quantiles, plan, bounds, generator):
    """Quantiles of each column, drawn, each with the distance to the next candidates.

    Parameters
    ----------
    table : Table
    quantiles : tuple of float
    plan : TransformerPlan
    bounds : list of (low, high)
        The public bounds of each column, (None, None) without.
    generator : numpy.random.Generator

    Returns
    -------
    drawn : list of list
        For each column one for each quantile, in ascending order.
    """
    drawn = []
    for column, limits in enumerate(bounds):
        values = partial(values_of_column, column=column)
        how = quantiles, plan.details["log_odds_range"], generator, plan.n_samples, limits
        # Propositions 50 and 54.
        drawn.append(sorted(draw_quantiles(table, values, *how, table.one_of_each)))
    return drawn


def _widened(lower, upper, quantiles, is_bounded):
    """Bounds of uniform distributions with these quantiles, and whether these are too close for it.

    Parameters
    ----------
    lower, upper : ndarray of shape (2, n_features)
        Quantiles, and the distances of each to the next candidates.
    quantiles : (float, float)
    is_bounded : bool
        Whether candidates were evenly spaced.

    Returns
    -------
    lower, upper : ndarray of shape (n_features,)
    is_flat : ndarray of shape (n_features,)
    """
    (lower, spacing), (upper, other) = lower, upper
    spacing = np.maximum(spacing, other)
    # Halves, because the difference of two doubles may be none.
    half = upper / 2.0 - lower / 2.0
    is_flat = half <= np.where(is_bounded, 0.0, np.maximum(spacing / 2.0, _LEAST_WIDTH))
    low, high = quantiles
    each_side = np.where(is_bounded, spacing, np.maximum(1.0, _CONSTANT_HALF_WIDTH * np.abs(lower)))
    width = half / (high - low)
    low, high = np.where(is_flat, each_side / 2.0, ([low], [1.0 - high]) * width)
    most = np.finfo(np.float64).max / 2.0
    # Bounds differ, as doubles.
    least = np.maximum(
        _LEAST_WIDTH, 4.0 * np.spacing(np.maximum(np.abs(lower), np.abs(upper)) / 2.0)
    )
    low, high = np.maximum(low, least), np.maximum(high, least)
    lower, upper = np.maximum(lower / 2.0 - low, -most), np.minimum(upper / 2.0 + high, most)
    return 2.0 * lower, 2.0 * upper, is_flat
