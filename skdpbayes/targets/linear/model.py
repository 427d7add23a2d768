"""A linear model with its prior and its public numbers, before any record is read.

    p(theta | data) ~ prod_i p(y_i | x_i . beta + b)^w_i  N(beta; 0, s^2 I)  N(b; 0, s_0^2),    |x_i| <= R

By default ``s`` is such that logits of rows of norm ``R`` have the prior deviation that the family says, 2.5
for classes, where a sampler cannot learn it from what it releases. The coordinate ``b / c`` of the intercept
has the precision of the others, unless the constant ``c`` would exceed ``R``.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from ..._typing import MatrixLike
from .._bounds import TargetBounds
from .._clipping import NORMS
from .family import Family
from .target import (
    linear_bounds,
    linear_prior_precision,
    make_linear,
    norm_with_constant,
    remote_linear,
)

# Deviations of which the inverse squares are normal doubles.
_SCALES = (1e-75, 1e150)
_LIMITS = {"prior_scale": _SCALES, "intercept_prior_scale": _SCALES}


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
    >>> from skdpbayes.targets import LinearModel, Logistic
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
        for name, limits in _LIMITS.items():
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
    def column(self) -> float:
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
            self.family, self.n_features, self.scale, self.intercept_scale, self.column
        )

    def at_norm(self, norm: float) -> Self:
        """Return the model of rows that are clipped to another norm."""
        return replace(self, norm=norm)

    def bounds(self) -> TargetBounds:
        """Return what plans may know; raises a ValueError if a number is out of range."""
        return linear_bounds(
            self.family,
            norm_with_constant(self.norm, self.column),
            self.prior_precision,
            self.column,
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
        """Return the target of a table, to which samplers can be applied.

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
            self.column,
            self.prior_precision,
            weights,
            self.max_weight,
            offsets,
        )

    def target_of(self, rows: Any) -> Any:
        """Return the target of validated rows of a table."""
        return self.target(*rows)

    def remote(self, address: int, count: int) -> Any:
        """Return what stands for targets of rows elsewhere."""
        return remote_linear(
            address,
            count,
            self.family,
            self.norm,
            self.column,
            self.prior_precision,
            self.max_weight,
        )

    def in_blocks(self, draws: np.ndarray) -> np.ndarray:
        """Return sampled coordinates as blocks of coefficients, the intercept last if there is one."""
        has_intercept = self.column > 0
        draws = draws.reshape(len(draws), -1, self.n_features + has_intercept)
        if has_intercept:
            draws[:, :, -1] *= self.column
        return draws
