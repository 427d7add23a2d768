"""Imputation of missing values: a public constant, which is free, or private medians.

x_j -> v_j where x_j is missing;    v_j a constant, or a noisy median (`skdpbayes._mechanisms.exponential`)
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Real, StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from .._errors import doubles, reraise_if_safe, sanitize_errors
from .._mechanisms.exponential import draws_cost, log_odds_range
from .._typing import MatrixLike, RandomStateLike, Relation
from ..privacy.planned_release import Disclosure, StepDisclosure, as_json, of_columns
from ._base import BUDGET_CONSTRAINTS, PrivateTransformer, Terms
from .quantile_scaler import draw_column_quantiles


class DPImputer(PrivateTransformer):
    """Fill in missing values (NaN) of columns of numbers.

    After a `DPQuantileScaler` or a `BoundedScaler`, which pass NaN through, the constant 0 is the middle of
    a column's range, and costs nothing.

    Parameters
    ----------
    strategy : {"constant", "median"}, default="constant"
        A public constant spends nothing; medians are drawn by the exponential mechanism.
    fill_value : float or array-like of shape (n_features,), default=0.0
        The constant, or one for each column, such as ``statistics_`` of another imputer.
    add_indicator : bool, default=False
        Append an indicator of missing values for every column. All columns get one, because which of them
        have missing values is private. Without indicators, filled values bias coefficients.
    epsilon : float, default=1.0
        Privacy budget for the medians of all columns together; ``inf`` adds no noise.
    delta : float, default=None
        None is ``min(1e-5, 1 / (10 n))``; 0 is pure differential privacy, with more noise.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public or private.
    public_size : int, default=None
        Under "add_or_remove_one", the public number of rows that plans use.
    random_state : None, int, RandomState instance or Generator, default=None
        None uses cryptographic randomness; a known or repeated seed voids the guarantee.

    Attributes
    ----------
    statistics_ : ndarray of shape (n_features_in_,)
        The values that are filled in, in the units of the columns.
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

    Notes
    -----
    Medians are known to four digits at least, and farther with many rows. From a column whose values differ
    by less, subtract a public number beforehand.

    Before the last step of a private pipeline in which persons may have several rows, one row of each person
    is read for the medians, at random.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.preprocessing import DPImputer
    >>> imputer = DPImputer(add_indicator=True).fit([[1.0, np.nan], [2.0, 3.0]])
    >>> imputer.transform([[1.0, np.nan]]), imputer.spent_epsilon_
    (array([[1., 0., 0., 1.]]), 0.0)
    >>> ages = np.random.default_rng(0).normal(40.0, 10.0, (5000, 1))
    >>> imputer = DPImputer(strategy="median", epsilon=0.5, random_state=0).fit(ages)
    >>> bool(abs(imputer.statistics_[0] - 40) < 2), imputer.spent_epsilon_ <= 0.5
    (True, True)
    """

    _title = "Imputer"
    _parameter_constraints = {
        **BUDGET_CONSTRAINTS,
        "strategy": [StrOptions({"constant", "median"})],
        "fill_value": [Real, "array-like"],
        "add_indicator": ["boolean"],
    }

    def __init__(
        self,
        strategy: Literal["constant", "median"] = "constant",
        *,
        fill_value: float | ArrayLike = 0.0,
        add_indicator: bool = False,
        epsilon: float = 1.0,
        delta: float | None = None,
        neighboring_relation: Relation = "replace_one",
        public_size: int | None = None,
        random_state: RandomStateLike = None,
    ):
        self.strategy = strategy
        self.fill_value = fill_value
        self.add_indicator = add_indicator
        self.epsilon = epsilon
        self.delta = delta
        self.neighboring_relation = neighboring_relation
        self.public_size = public_size
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.strategy == "median" and self.random_state is None
        return tags

    def _terms(self, n_samples, n_features, budget):
        if self.strategy == "constant":
            return Terms()
        level = log_odds_range(budget, n_features)
        cost = draws_cost(level, n_features, budget.neighboring_relation)
        return Terms(cost, {"log_odds_range": level})

    def _about(self):
        if self.strategy == "constant":
            source = "default" if not np.any(self.fill_value) else "declared"
            return StepDisclosure(
                (Disclosure("value for missing ones", as_json(self.fill_value), source),)
            )
        statistics = getattr(self, "statistics_", None)
        facts = of_columns("value for missing ones", statistics, "learnt", self._names)
        return StepDisclosure(facts, "Proposition 50")

    def _public(self, X, n_features):
        """The public value for each column."""
        on_error = reraise_if_safe("fill_value must be a finite number, or one for each column.")
        values = sanitize_errors(doubles, self.fill_value, on_error=on_error)
        if values.shape not in ((), (1,), (n_features,)) or not np.isfinite(values).all():
            raise ValueError(
                f"fill_value must be a finite number, or one for each of the {n_features} columns, got "
                f"{self.fill_value!r}."
            )
        return np.full(n_features, values)

    def _make_up(self, public, n_features):
        self.statistics_ = np.zeros(n_features)
        return True

    def _release(self, table, public, plan, generator):
        if self.strategy == "constant":
            return public
        bounds = [(None, None)] * table.n_features
        # Propositions 50 and 54.
        drawn = draw_column_quantiles(table, (0.5,), plan, bounds, generator)
        return np.array([median.value for (median,) in drawn])

    def _set(self, public, released, plan):
        self.statistics_ = released
        return ()

    def transform(self, X: MatrixLike) -> MatrixLike:
        """Fill in missing values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), or twice as many columns with ``add_indicator``
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        missing = np.isnan(X)
        filled = np.where(missing, self.statistics_.astype(X.dtype), X)
        return np.hstack([filled, missing.astype(X.dtype)]) if self.add_indicator else filled

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """The names of the columns, and those of the indicators.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns, if the table in `fit` had none.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        if not self.add_indicator:
            return names
        indicators = [f"missingindicator_{name}" for name in names]
        return np.concatenate([names, np.asarray(indicators, dtype=object)])
