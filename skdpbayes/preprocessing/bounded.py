"""Scaling that spends no budget, because its bounds are known beforehand and not learnt from the data.

    BoundedScaler:   x_j -> a + (b - a) (clip(x_j, lower_j, upper_j) - lower_j) / (upper_j - lower_j)
    RowNormClipper:  x   -> x min(1, R / ||x||)

A `StandardScaler`, an imputer or an encoder that is fitted on private rows publishes their statistics
without noise. Fitting these two transformers reads only the number of columns.
"""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._arguments import Interval, is_number
from .._data.collections import example_of
from .._data.partitions import OutputByBlocks, by_blocks
from .._data.read import validate_table
from .._errors import column_names, to_native
from .._typing import MatrixLike
from ..models.rows import NORMS, clip_rows, scale_rows
from ..privacy.planned_release import Disclosure, StepDisclosure, as_json, of_columns

# One number for all columns, one for each, or a mapping or Series by column names.
Bound: TypeAlias = ArrayLike | Mapping[Any, float]
# Least distance of bounds.
_LEAST_WIDTH = 1e-305
# Largest size of the range that bounds are mapped to.
_LARGEST_OUTPUT = 1e60
# Where the middle of a column is as many widths from 0, it is subtracted first, or digits are lost.
_LARGEST_OFFSET_RATIO = 1e5
# Bounds as large do not differ in single precision.
_LARGEST_SINGLE = 1e30
# Bounds as close to each other, for their size, do not differ in single precision.
_CLOSEST_SINGLE = 1e-5
# Shorter rows lose digits in single precision.
_SHORTEST_SINGLE = 1e-30


class RowNormClipper(OutputByBlocks, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Shorten long rows to a given norm; this spends no budget.

    Shorter rows are left unchanged. The estimators of the package clip rows themselves; use this transformer
    to see the effect of clipping on public data, or before other steps.

    Parameters
    ----------
    norm : float, default=1.0
        Largest Euclidean norm of a row: a public number between 1e-60 and 1e60. Below 1e-30, single
        precision becomes double.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if ``X`` had any.

    Examples
    --------
    >>> from skdpbayes.preprocessing import RowNormClipper
    >>> RowNormClipper(norm=1.0).fit_transform([[3.0, 4.0], [0.3, 0.4]])
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """

    _parameter_constraints = {"norm": [Interval(Real, *NORMS, closed="both")]}

    def __init__(self, norm: float = 1.0):
        self.norm = norm

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: MatrixLike, y: Any = None) -> Self:
        """Check the number of columns; nothing is learnt from the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self : RowNormClipper
        """
        self._validate_params()
        self._validate(example_of(X), reset=True)
        return self

    def transform(self, X: MatrixLike) -> MatrixLike:
        """Shorten the rows that are longer than ``norm``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        X : ndarray or CSR matrix of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return scale_rows(*clip_rows(self._validate(X, reset=False), self.norm))

    def _validate(self, X, reset):
        precisions = (np.float64, np.float32)[: 1 if self.norm < _SHORTEST_SINGLE else 2]
        return validate_table(self, X, reset=reset, dtype=precisions)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_features_in_")

    def _about(self):
        source = "default" if self.norm == 1 else "declared"
        return StepDisclosure((Disclosure("longest row", as_json(self.norm), source),))


class BoundedScaler(OutputByBlocks, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scale columns with bounds that are known beforehand; this spends no budget.

    Values outside the bounds are clipped to them; missing values (NaN) are passed through. Derive the bounds
    from the meaning of a column (ages from 0 to 110, a percentage from 0 to 100), never from the private
    rows.

    Parameters
    ----------
    lower, upper : float, array-like of shape (n_features,), dict or Series
        Public bounds of the columns. There is no default, because they follow from what the columns mean. A
        dict, or a pandas Series whose index holds column names, is matched by name in any order and must name
        every column. Anything else is matched by position.
    feature_range : tuple of (float, float), default=(-1.0, 1.0)
        What ``lower`` and ``upper`` are mapped to.

    Attributes
    ----------
    lower_, upper_ : ndarray of shape (n_features_in_,)
        The bounds, in the order of the columns.
    scale_, min_ : ndarray of shape (n_features_in_,)
        ``X`` within the bounds becomes ``X * scale_ + min_``.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if ``X`` had any.

    Examples
    --------
    >>> from skdpbayes.preprocessing import BoundedScaler
    >>> ages_and_hours = [[17, 40], [90, 99], [200, 0]]
    >>> BoundedScaler(lower=[17, 0], upper=[90, 100]).fit_transform(ages_and_hours)
    array([[-1.  , -0.2 ],
           [ 1.  ,  0.98],
           [ 1.  , -1.  ]])
    """

    _parameter_constraints = {
        "lower": [Real, "array-like", dict],
        "upper": [Real, "array-like", dict],
        "feature_range": [tuple, list],
    }

    def __init__(
        self,
        lower: Bound,
        upper: Bound,
        *,
        feature_range: tuple[float, float] = (-1.0, 1.0),
    ):
        self.lower = lower
        self.upper = upper
        self.feature_range = feature_range

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._keeps_zero()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _bounds(self, columns):
        """The bounds as arrays in the order of the columns; None stands for columns without names."""
        bounds = {}
        for name in ("lower", "upper"):
            bound = in_order(getattr(self, name), columns, name)
            try:
                bounds[name] = np.asarray(bound, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):
                raise ValueError(
                    f"{name} must hold numbers: one for all columns, or one for each."
                ) from None
            if bounds[name].ndim > 1 or not np.isfinite(bounds[name]).all():
                raise ValueError(f"{name} must be a finite number, or a list of them.")
        lower, upper = bounds["lower"], bounds["upper"]
        if lower.ndim and upper.ndim and lower.size != upper.size:
            raise ValueError(f"lower has {lower.size} entries and upper has {upper.size}.")
        if not (lower < upper).all():
            place = int(np.argmin(np.atleast_1d(lower < upper)))
            raise ValueError(
                f"lower must be below upper in every column, and is not in column {place}."
            )
        # Halves, because the difference of two doubles may be none.
        narrow = upper / 2.0 - lower / 2.0 < _LEAST_WIDTH / 2.0
        if narrow.any():
            raise ValueError(
                f"lower and upper must be at least {_LEAST_WIDTH:g} apart in every column, and are not in "
                f"column {int(np.argmax(np.atleast_1d(narrow)))}: multiply it by a public number beforehand."
            )
        return lower, upper

    def _about(self):
        names = getattr(self, "feature_names_in_", None)
        if hasattr(self, "lower_"):
            lower, upper = self.lower_, self.upper_
        else:
            names = next((_labels(b) for b in (self.lower, self.upper) if _is_named(b)), names)
            lower, upper = np.broadcast_arrays(*map(np.atleast_1d, self._bounds(names)))
        ranges = np.column_stack([lower, upper])
        return StepDisclosure(of_columns("range", ranges, "declared", names))

    def _scale_and_min(self, lower, upper):
        low, high = self._range()
        with np.errstate(over="ignore", invalid="ignore"):
            scale = (high - low) / 2.0 / (upper / 2.0 - lower / 2.0)
            moved = low - lower * scale
        if not np.isfinite(moved * scale).all():
            raise ValueError(
                f"lower and upper are too close to each other, or too far from 0, to be mapped to "
                f"feature_range={self.feature_range!r}: multiply columns by a public number beforehand."
            )
        # Bounds that are as symmetric as the range keep zero, whatever rounding says.
        return scale, np.where(np.abs(moved) <= 4.0 * np.finfo(float).eps * abs(low), 0.0, moved)

    def _range(self):
        pair = self.feature_range
        if len(pair) != 2 or not all(map(is_number, pair)) or not pair[0] < pair[1]:
            raise ValueError(f"feature_range must be (low, high) with low < high, got {pair!r}.")
        low, high = map(float, pair)
        if max(-low, high) > _LARGEST_OUTPUT or high - low < 1.0 / _LARGEST_OUTPUT:
            raise ValueError(
                f"feature_range must be within {_LARGEST_OUTPUT:g} of 0 and at least "
                f"{1.0 / _LARGEST_OUTPUT:g} wide, got {pair!r}."
            )
        return low, high

    def _keeps_zero(self):
        named = [bound for bound in (self.lower, self.upper) if _is_named(bound)]
        try:
            lower, upper = self._bounds(_labels(named[0]) if named else None)
            moved = self._scale_and_min(lower, upper)[1]
        except (TypeError, ValueError):
            return False
        return bool(np.all(moved == 0) and np.all(lower <= 0) and np.all(upper >= 0))

    def _validate(self, X, reset):
        if sp.issparse(X) and not self._keeps_zero():
            raise ValueError(
                "these bounds move zero, which would fill a sparse matrix: use lower=-upper with a symmetric "
                "feature_range, or lower=0 with feature_range=(0, 1), or pass a dense array."
            )
        precisions = (np.float64, np.float32)[: 1 if self._needs_doubles() else 2]
        return validate_table(self, X, reset=reset, dtype=precisions, ensure_all_finite="allow-nan")

    def _needs_doubles(self):
        """Whether bounds, of columns or of the range, or their ratio are none in single precision."""
        if not hasattr(self, "lower_"):
            return False
        ratios = np.abs(np.log(self.scale_))
        return bool(
            np.any(ratios > math.log(_LARGEST_SINGLE))
            or _needs_doubles(*self._range())
            or _needs_doubles(self.lower_, self.upper_)
        )

    def fit(self, X: MatrixLike, y: Any = None) -> Self:
        """Check the number of columns against the bounds; nothing is learnt from the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Sparse only if zero stays zero.
        y : ignored

        Returns
        -------
        self : BoundedScaler

        Raises
        ------
        ValueError
            If the bounds are invalid, or do not match the columns.
        """
        self._validate_params()
        X = to_native(X, "X")
        lower, upper = self._bounds(column_names(X))
        scale, minimum = self._scale_and_min(lower, upper)
        X = self._validate(example_of(X), reset=True)
        if scale.ndim and scale.size != X.shape[1]:
            raise ValueError(
                f"lower and upper have {scale.size} entries, but X has {X.shape[1]} columns: give "
                "one bound for each column, or one for all of them."
            )
        parts = {"lower_": lower, "upper_": upper, "scale_": scale, "min_": minimum}
        for name, value in parts.items():
            setattr(self, name, np.broadcast_to(value, X.shape[1]).copy())
        return self

    def transform(self, X: MatrixLike) -> MatrixLike:
        """Clip to the bounds and scale.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        X : ndarray or CSR matrix of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        lower, upper = self.lower_.astype(X.dtype), self.upper_.astype(X.dtype)
        if sp.issparse(X):
            X = X.copy()
            columns = X.indices
            X.data = np.clip(X.data, lower[columns], upper[columns])
            X.data *= self.scale_[columns].astype(X.dtype)
            np.clip(X.data, *self.feature_range, out=X.data)  # Rounding may go beyond.
            return X
        X = np.clip(X, lower, upper)
        if (far := self._is_far()).any():
            X[:, far] -= lower[far]
        X *= self.scale_.astype(X.dtype)
        X += np.where(far, self.feature_range[0], self.min_).astype(X.dtype)
        return np.clip(X, *self.feature_range, out=X)

    def _is_far(self):
        """Mask of the columns that are far from 0 for their width."""
        return np.abs(self.min_) > _LARGEST_OFFSET_RATIO * (
            self.feature_range[1] - self.feature_range[0]
        )

    @by_blocks
    def inverse_transform(self, X: MatrixLike) -> MatrixLike:
        """Undo the scaling (not the clipping).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        X : ndarray or CSR matrix of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False).copy()
        if sp.issparse(X):
            X.data /= self.scale_[X.indices].astype(X.dtype)
            return X
        far = self._is_far()
        X -= np.where(far, self.feature_range[0], self.min_).astype(X.dtype)
        X /= self.scale_.astype(X.dtype)
        if far.any():
            X[:, far] += self.lower_[far].astype(X.dtype)
        return X


def _needs_doubles(low, high):
    largest, half = np.maximum(np.abs(low), np.abs(high)), high / 2.0 - low / 2.0
    return np.any(
        (largest > _LARGEST_SINGLE)
        | (half < 0.5 / _LARGEST_SINGLE)
        | (half < 0.5 * _CLOSEST_SINGLE * largest)
    )


def _is_named(bound):
    return isinstance(bound, dict) or hasattr(bound, "reindex")


def _labels(bound):
    return list(bound if isinstance(bound, dict) else bound.index)


def in_order(bound, columns, name):
    """A bound in the order of a table's columns if it is a Series or dict that names them."""
    if not _is_named(bound):
        return bound
    labels, columns = _labels(bound), [] if columns is None else list(columns)
    if sorted(labels, key=repr) == sorted(columns, key=repr) and len(set(labels)) == len(labels):
        return (
            [bound[column] for column in columns] if isinstance(bound, dict) else bound.loc[columns]
        )
    if labels == list(range(len(labels))) and not isinstance(bound, dict):
        return bound
    if not columns:
        raise ValueError(
            f"{name} names columns, but the columns of X have no names: pass a data frame, or the bounds "
            "as a list in the order of the columns."
        )
    unbounded = [column for column in columns if column not in labels]
    unknown = [label for label in labels if label not in columns]
    twice = sorted({label for label in labels if labels.count(label) > 1}, key=repr)
    wrong = [
        f"{what} {which}"
        for what, which in (("it lacks", unbounded), ("X lacks", unknown), ("it repeats", twice))
        if which
    ]
    raise ValueError(
        f"{name} must name the columns of X, each once: {', and '.join(wrong) or 'X repeats some'}."
    )
