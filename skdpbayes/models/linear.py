"""Linear models: prior and public numbers first, then clipped rows and responses.

    p(theta | data) ~ prod_i p(y_i | x_i . beta + b)^w_i  N(beta; 0, s^2 I)  N(b; 0, s_0^2),    |x_i| <= R

By default ``s`` is such that logits of rows of norm ``R`` have the prior deviation that the family says, 2.5
for classes, where a sampler cannot learn it from what it releases. The coordinate ``b / c`` of the intercept
has the precision of the others, unless the constant ``c`` would exceed ``R``.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from .._errors import suppress_fp_warnings
from .._typing import MatrixLike
from .base import TargetBounds
from .families.base import Family
from .rows import NORMS, SparseRows, clip_rows, make_rows, read_only, real_numbers

# Targets of linear models: clipped rows, responses, and public numbers.
#
#     ell_i(theta) = w_i ell(theta x_i, y_i),    |x_i|^2 <= R^2 + b^2,    w_i <= w,
#     G = w r |x|,    B = w s |x|^2
#
# for a family whose residuals are at most ``r`` and slopes at most ``s``, and ``b`` a constant
# column. The prior is Gaussian, independent. Gradients of records are multiplied by their weights,
# all 1 unless given, or set by a sampler; losses are not. A target knows ``|x|``, the largest weight
# and ``b`` one by one, because a plan relies on more than their product.


_PUBLIC_FIELDS = ("constant", "prior_precision", "gradient_bound", "row_norm", "max_weight")
# Fields of targets of all families: dense rows, sparse rows, and remote rows. Those with rows may have
# ``offsets`` after these, of length 0 for none; a family's own numbers come last.
DENSE = ("values", "scale", "responses", "weights", *_PUBLIC_FIELDS)
SPARSE = ("values", "columns", "starts", "scale", "responses", "weights", *_PUBLIC_FIELDS)
REMOTE = ("address", "count", *_PUBLIC_FIELDS)


class LinearTarget:
    """Base class of the targets of all families; each is a named tuple as well."""

    __slots__ = ()
    constant: float
    prior_precision: np.ndarray
    row_norm: float
    max_weight: float

    @property
    def family(self) -> Family:
        """The law of a response."""
        raise NotImplementedError(f"{type(self).__name__} has no family.")

    @property
    def bounds(self) -> TargetBounds:
        """The public bounds, by what the target was made with."""
        return linear_bounds(
            self.family, self.row_norm, self.prior_precision, self.constant, self.max_weight
        )

    @property
    def n_features(self) -> int:
        """Number of columns, the constant one apart."""
        return self.prior_precision.size // self.family.n_blocks - (self.constant > 0)


def norm_with_constant(data_norm: float, constant: float) -> float:
    """Largest norm of a clipped row with its constant column; plans and targets take it from here.

    The square root of a sum of squares has another last digit in another function, and a plan is not for a
    target whose bound is larger by that.
    """
    return float(np.hypot(float(data_norm), float(constant)))


def linear_prior_precision(
    family: Family,
    n_features: int,
    prior_scale: float,
    intercept_prior_scale: float | None,
    constant: float,
) -> np.ndarray:
    """Precision of every sampled coordinate; that of the constant column is the intercept divided by it.

    Returns
    -------
    prior_precision : ndarray of shape (n_blocks * (n_features + fit_intercept),)
    """
    with np.errstate(over="ignore"):  # What is not finite is refused with the bounds.
        block = np.full(n_features + (constant > 0), np.float64(prior_scale) ** -2.0)
        if constant > 0:
            assert intercept_prior_scale is not None
            block[-1] = (np.float64(constant) / intercept_prior_scale) ** 2
    return np.tile(block, family.n_blocks)


def linear_bounds(
    family: Family,
    norm: float,
    prior_precision: np.ndarray,
    constant: float = 0.0,
    max_weight: float | None = None,
    learns_scales: tuple[bool, bool] = (False, False),
) -> TargetBounds:
    """Public bounds of a target for rows of norm at most ``norm``, including the constant column.

    Parameters
    ----------
    family : Family
    norm : float
        From `norm_with_constant`; ``data_norm`` and ``constant`` are at most 1e60.
    prior_precision : ndarray
        From `linear_prior_precision`.
    constant : float, default=0.0
        The constant column; 0 for none.
    max_weight : float or None, default=None
        Public maximum of the records' weights; None if all weights are 1.
    learns_scales : tuple of (bool, bool), default=(False, False)
        Whether prior scales of coefficients and of intercepts may be learnt.

    Returns
    -------
    bounds : TargetBounds

    Raises
    ------
    ValueError
        If a bound is out of range.
    """
    if not norm <= 2.0 * NORMS[1]:
        raise ValueError(
            f"rows of norm {norm:g}, the constant column included, are too long: data_norm and "
            f"intercept_scaling, by default intercept_prior_scale over prior_scale, are at most {NORMS[1]:g}."
        )
    # In single precision a number would be another one for the target.
    norm, largest = float(norm), 1.0 if max_weight is None else float(max_weight)
    return TargetBounds(
        n_parameters=prior_precision.size,
        gradient_bound=largest * (family.residual_bound * norm),
        smoothness=largest * (norm * norm) * family.slope_bound,
        prior_precision=(float(prior_precision.min()), float(prior_precision.max())),
        convex=True,
        row_norm=norm,
        constant=constant,
        n_blocks=family.n_blocks,
        max_weight=max_weight,
        learns_scales=learns_scales,
        family=family,
    ).checked()


@suppress_fp_warnings()
def make_linear(
    X: MatrixLike,
    responses: Any,
    family: Family,
    data_norm: float,
    constant: float,
    prior_precision: np.ndarray,
    weights: np.ndarray | None = None,
    max_weight: float | None = None,
    offsets: np.ndarray | None = None,
) -> Any:
    """Build the target of a table, clipping its rows.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        Finite numbers; an array must be C-contiguous.
    responses : array-like of shape (n_samples,)
        As the family has them; for classifiers class numbers, from 0.
    family : Family
    data_norm : float
        Norm to which rows are clipped.
    constant : float
        The constant column; 0 for none.
    prior_precision : ndarray of shape (n_parameters,)
    weights : ndarray of shape (n_samples,) or None, default=None
        Weights of the records; None means 1.
    max_weight : float or None, default=None
        Public maximum of ``weights``.
    offsets : ndarray of shape (n_samples,) or None, default=None
        Numbers that are added to the logits, for families that have them; None means 0.

    Returns
    -------
    target : NamedTuple
        A `LinearTarget` of one of the family's classes.

    Raises
    ------
    ValueError
        If a response, a weight or an offset is out of range, or a bound is not positive and finite.
    """
    responses = family.checked_responses(responses, X.shape[0])
    rows = make_rows(*clip_rows(X, data_norm))
    dense, sparse, _ = family.target_classes
    return (sparse if isinstance(rows, SparseRows) else dense)(
        *rows,
        read_only(responses),
        read_only(_checked(weights, responses, max_weight)),
        *_public_numbers(family, data_norm, constant, prior_precision, max_weight),
        *_checked_offsets(offsets, family, responses.size),
        *family.target_fields,
    )


def remote_linear(address, count, family, data_norm, constant, prior_precision, max_weight):
    """The remote handle of the targets that `make_linear` makes of remote rows."""
    numbers = _public_numbers(family, data_norm, constant, prior_precision, max_weight)
    return family.target_classes[2](address, count, *numbers, *family.target_fields)


def _public_numbers(family, data_norm, constant, prior_precision, max_weight):
    norm = norm_with_constant(data_norm, constant)
    bounds = linear_bounds(family, norm, prior_precision, max_weight=max_weight)
    largest = 1.0 if max_weight is None else float(max_weight)
    return float(constant), prior_precision, bounds.gradient_bound, norm, largest


def _checked_offsets(offsets, family, n_rows):
    if not family.has_offsets:
        if offsets is not None:
            raise ValueError(f"{family} has no offsets: leave them out.")
        return ()
    offsets = np.zeros(0) if offsets is None else real_numbers(offsets, n_rows, name="offsets")
    return (read_only(offsets),)


def _checked(weights, responses, max_weight):
    if weights is None:
        return np.ones(responses.size)
    if weights.shape != responses.shape or not np.all((weights >= 0) & (weights <= max_weight)):
        raise ValueError("weights must be one number from 0 to max_weight for each row.")
    return weights


# Deviations of which the inverse squares are normal doubles.
_SCALE_RANGE = (1e-75, 1e150)
_SCALE_LIMITS = {"prior_scale": _SCALE_RANGE, "intercept_prior_scale": _SCALE_RANGE}


@dataclass(frozen=True, kw_only=True)
class LinearModel:
    """A linear model: what an estimator makes, a plan reads, and a table becomes.

    Parameters
    ----------
    family : Family
        The law of a response given the linear predictors.
    n_features : int
    norm : float
        ``R``, to which rows are clipped.
    prior_scale : float or None, default=None
        ``s``; None is the family's ``logit_scale`` over ``norm``, around which samplers that can learn it do
        so.
    intercept_prior_scale : float or None, default=None
        ``s_0``; None is ``s``, or the family's ``intercept_scale`` if that is not given either, around which
        it is learnt likewise, whether or not ``s`` is given.
    constant : float or {"short", "equal"}, default="short"
        ``c``, the constant column; 0 is no intercept. "equal" gives all coordinates one precision, and
        "short" as well where it is no longer than ``norm``.
    max_weight : float or None, default=None
        Public maximum of the records' weights; None if all weights are 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import SGLD, sample
    >>> from skdpbayes.models import LinearModel, Logistic
    >>> model = LinearModel(family=Logistic(), n_features=2, norm=1.0)
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(-0.7, 0.7, (500, 2)), rng.integers(2, size=500)
    >>> plan = SGLD().plan(model.bounds(), 500, Budget(epsilon=1.0, delta=1e-5))
    >>> draws = sample(model.target(X, y), plan, random_state=0)
    >>> model.in_blocks(draws).shape  # One block, the intercept last.
    (100, 1, 3)
    """

    family: Family
    n_features: int
    norm: float
    prior_scale: float | None = None
    intercept_prior_scale: float | None = None
    constant: float | Literal["short", "equal"] = "short"
    max_weight: float | None = None

    def __post_init__(self):
        for name, limits in _SCALE_LIMITS.items():
            value = getattr(self, name)
            if value is not None and not limits[0] <= value <= limits[1]:
                raise ValueError(
                    f"{name}={value:g} must be between {limits[0]:g} and {limits[1]:g}: multiply the columns "
                    "by a public number that brings them to a usual size."
                )
        least, most = NORMS
        if not isinstance(self.constant, str) and not (
            self.constant == 0 or least <= self.constant <= most
        ):
            raise ValueError(
                f"the constant column (intercept_scaling) must be between {least:g} and {most:g}, got "
                f"{self.constant:g}."
            )

    @property
    def scale(self) -> float:
        """Prior deviation of a coefficient."""
        if self.prior_scale is None:
            return self.family.logit_scale / self.norm
        return float(self.prior_scale)

    @property
    def intercept_scale(self) -> float:
        """Prior deviation of an intercept."""
        if self.intercept_prior_scale is not None:
            return float(self.intercept_prior_scale)
        return self.family.intercept_scale if self.prior_scale is None else self.scale

    @property
    def constant_value(self) -> float:
        """The constant column, 0 for none."""
        if not isinstance(self.constant, str):
            return float(self.constant)
        equal = self.intercept_scale / self.scale
        # A larger column would only add noise.
        return min(equal, self.norm) if self.constant == "short" else equal

    @property
    def prior_precision(self) -> np.ndarray:
        """Precisions of all sampled coordinates."""
        return linear_prior_precision(
            self.family, self.n_features, self.scale, self.intercept_scale, self.constant_value
        )

    def at_norm(self, norm: float) -> Self:
        """The model of rows that are clipped to another norm."""
        return replace(self, norm=norm)

    def bounds(self) -> TargetBounds:
        """The public bounds, which plans may know; raises a ValueError if a number is out of range."""
        return linear_bounds(
            self.family,
            norm_with_constant(self.norm, self.constant_value),
            self.prior_precision,
            self.constant_value,
            self.max_weight,
            (self.prior_scale is None, self.intercept_prior_scale is None),
        )

    def target(
        self,
        X: MatrixLike,
        y: ArrayLike,
        weights: np.ndarray | None = None,
        offsets: np.ndarray | None = None,
    ) -> Any:
        """The target of a table, to which samplers can be applied.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_samples, n_features)
            Finite numbers; an array must be C-contiguous. Rows are clipped.
        y : array-like of shape (n_samples,)
            As the family has them; for classifiers class numbers, from 0.
        weights : ndarray of shape (n_samples,) or None, default=None
            From 0 to ``max_weight``; None is 1.
        offsets : ndarray of shape (n_samples,) or None, default=None
            Numbers that are added to the logits, for families that have them; None is 0.

        Raises
        ------
        ValueError
            If a response, a weight or an offset is out of range, or a bound is not positive and finite.
        """
        return make_linear(
            X,
            y,
            self.family,
            self.norm,
            self.constant_value,
            self.prior_precision,
            weights,
            self.max_weight,
            offsets,
        )

    def target_of(self, rows: Any) -> Any:
        """The target of validated rows of a table."""
        return self.target(*rows)

    def remote(self, address: int, count: int) -> Any:
        """The remote handle of targets of remote rows."""
        return remote_linear(
            address,
            count,
            self.family,
            self.norm,
            self.constant_value,
            self.prior_precision,
            self.max_weight,
        )

    def in_blocks(self, draws: np.ndarray) -> np.ndarray:
        """Sampled coordinates as blocks of coefficients, the intercept last if there is one."""
        has_intercept = self.constant_value > 0
        draws = draws.reshape(len(draws), -1, self.n_features + has_intercept)
        if has_intercept:
            draws[:, :, -1] *= self.constant_value
        return draws
