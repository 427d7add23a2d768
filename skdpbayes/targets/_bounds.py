"""What a plan may know about a target: numbers that are public, and valid for every possible record.

    ||grad ell_i(theta)|| <= G,    grad^2 ell_i(theta) <= B,    for every record and every theta.

For a target of your own, the bounds are your claim.
"""

import math
from typing import Any, NamedTuple, Self


class TargetBounds(NamedTuple):
    """The public numbers of a target: everything that a plan may know about it.

    Attributes
    ----------
    n_parameters : int
        Length of ``theta``.
    gradient_bound : float
        ``G``: no record's ``||grad ell_i(theta)||`` exceeds it, for any ``theta``, so that
        ``|ell_i(theta) - ell_i(theta')| <= G ||theta - theta'||``.
    smoothness : float
        ``B``: no eigenvalue of a record's Hessian of ``ell_i`` exceeds it.
    prior_precision : tuple of (float, float)
        Smallest and largest curvature of ``-log p(theta)``.
    convex : bool, default=False
        Whether every record's ``ell_i`` is convex in ``theta``. Required for releasing last iterates only.
    row_norm : float or None, default=None
        For a target of the form ``f(z . theta_1, z . theta_2, ...)``, the bound on ``||z||``.
        ``gradient_bound`` is proportional to it, and ``smoothness`` to its square.
    constant : float, default=0.0
        The last entry of every ``z``, if that is a constant column. It is public and never clipped.
    n_blocks : int, default=1
        Number of consecutive blocks ``theta_k`` that the parameters are divided into.
    clipped : bool, default=False
        Whether gradients of records are clipped one by one and nothing is known about curvatures, as with
        networks. ``smoothness`` is then nominal.
    max_weight : float or None, default=None
        If records have weights, their public maximum. The bounds already include it.
    family : Family or None, default=None
        For linear models, the law of a response given the logits ``z . theta_k``.
    learns_scales : tuple of (bool, bool), default=(False, False)
        For linear models, whether the prior scales of coefficients and of intercepts are defaults, which a
        sampler may replace by what it learns of them from what it releases.
    """

    n_parameters: int
    gradient_bound: float
    smoothness: float
    prior_precision: tuple[float, float]
    convex: bool = False
    row_norm: float | None = None
    constant: float = 0.0
    n_blocks: int = 1
    clipped: bool = False
    max_weight: float | None = None
    family: Any = None
    learns_scales: tuple[bool, bool] = (False, False)

    @property
    def block_length(self) -> int:
        """Number of parameters in a block."""
        return self.n_parameters // self.n_blocks

    def checked(self) -> Self:
        """Return self, or raise an error if a bound is out of range.

        Raises
        ------
        ValueError
            If a bound is not positive and finite, or the prior is improper.
        """
        low, high = self.prior_precision
        named = {
            "max_weight": 1.0 if self.max_weight is None else self.max_weight,
            "n_parameters": self.n_parameters,
            "gradient_bound": self.gradient_bound,
            "smoothness": self.smoothness,
            "smallest prior_precision": low,
            "largest prior_precision": high,
        }
        for name, value in named.items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(
                    f"{name} of the target must be positive and finite, got {value}: check that data_norm "
                    "and prior_scale have reasonable values."
                )
        if low > high:
            raise ValueError(f"prior_precision must be (smallest, largest), got {(low, high)}.")
        return self

    def checked_convex(self) -> Self:
        """Return self, or raise an error if a bound is out of range or the target may not be convex.

        Raises
        ------
        ValueError
            If a bound is out of range, or ``convex`` is False.
        """
        self.checked()
        if not self.convex:
            raise ValueError(
                "releasing last iterates only, also as the start of a path, is private for convex targets, "
                "and this one's bounds do not say convex=True: release all iterates, from zero on."
            )
        return self
