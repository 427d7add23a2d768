"""What a target must offer: a named tuple of arrays, and functions resolved on its class.

The posterior at temperature ``tau`` is ``exp(-(1/tau) sum_i ell_i(theta)) p(theta)``. A target is
a ``NamedTuple`` that holds the records; the functions below are generic, and a compiled sampler
finds the implementation by the class of the tuple. That way a sampler is compiled once per kind
of target, is cached on disk, and neither room knows the other.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit, types

from .._compiled import compiled_for

# Rows are handled in blocks that stay in the cache between the two uses of a row, together with the
# block that comes next.
BLOCK = 16
# Where batches are in random order, parts of a sum begin at multiples of this.
ALIGNMENT = 128


class TargetBounds(NamedTuple):
    """The public numbers of a target: all that a plan may know of it.

    Attributes
    ----------
    n_parameters : int
        Length of ``theta``.
    gradient_bound : float
        ``G``: no record's ``||grad ell_i(theta)||`` exceeds it, for any ``theta``, so that
        ``|ell_i(theta) - ell_i(theta')| <= G ||theta - theta'||``.
    smoothness : float
        ``B``: no record's Hessian of ``ell_i`` has an eigenvalue beyond it.
    prior_precision : tuple of (float, float)
        Smallest and largest curvature of ``-log p(theta)``.
    convex : bool, default=False
        Whether every record's ``ell_i`` is convex in ``theta``. Guarantees for hidden paths need it.
    row_norm : float or None, default=None
        For a target of the form ``f(z . theta_1, z . theta_2, ...)`` the bound on ``||z||``, by which
        ``gradient_bound`` and (its square) ``smoothness`` scale.
    constant : float, default=0.0
        The last entry of every ``z``, if it is a constant column: public, and never clipped.
    n_blocks : int, default=1
        Into how many ``theta_k`` the parameters are cut, one after the other.
    clipped : bool, default=False
        Whether gradients of records are clipped one by one and nothing is known of curvatures, as with
        networks: ``smoothness`` is nominal then.
    max_weight : float or None, default=None
        Where records have weights, their public maximum, by which bounds are enlarged already.
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

    @property
    def block_length(self) -> int:
        """Number of parameters in a block."""
        return self.n_parameters // self.n_blocks

    def checked(self) -> Self:
        """Return self, or raise if a bound is not one.

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
                    f"{name} of the target must be positive and finite, got {value}: are data_norm "
                    "and prior_scale of a usual size?"
                )
        if low > high:
            raise ValueError(f"prior_precision must be (smallest, largest), got {(low, high)}.")
        return self

    def checked_convex(self) -> Self:
        """Return self, or raise if a bound is not one, or the target is not known to be convex.

        Raises
        ------
        ValueError
        """
        self.checked()
        if not self.convex:
            raise ValueError(
                "releasing last iterates only (sampler='ops', release='last_iterate', init='ops') is private "
                "for convex targets, and this one's bounds do not say convex=True: release all iterates."
            )
        return self


def n_examples(target: Any) -> None:
    """Return the number of records (generic, compiled)."""
    raise NotImplementedError("n_examples is a generic of compiled code; see `implements`.")


def add_gradient(
    target: Any, theta: np.ndarray, selection: Any, count: int, out: np.ndarray
) -> None:
    """Add ``sum_i grad ell_i(theta)`` over ``count`` records to ``out`` (generic, compiled).

    ``selection`` is the number of the first record, or an array of record numbers. Unless a
    target implements it, it is built of `example_gradient`, clipped to ``gradient_bound``.
    """
    raise NotImplementedError("add_gradient is a generic of compiled code; see `implements`.")


def example_gradient(target: Any, theta: np.ndarray, i: int, out: np.ndarray) -> None:
    """Write ``grad ell_i(theta)`` of one record to ``out`` (generic, compiled)."""
    raise NotImplementedError("example_gradient is a generic of compiled code; see `implements`.")


def prior_gradient(target: Any, theta: np.ndarray, out: np.ndarray) -> None:
    """Write ``-grad log p(theta)`` to ``out`` (generic, compiled).

    Unless a target implements it: ``prior_precision * theta``, the field being an array.
    """
    raise NotImplementedError("prior_gradient is a generic of compiled code; see `implements`.")


def example_loss(target: Any, theta: np.ndarray, i: int) -> None:
    """Return ``ell_i(theta)`` of one record (generic, compiled); Metropolis' samplers need it."""
    raise NotImplementedError("example_loss is a generic of compiled code; see `implements`.")


def loss_differences(
    target: Any,
    theta: np.ndarray,
    proposal: np.ndarray,
    selection: Any,
    count: int,
    out: np.ndarray,
) -> None:
    """Write ``ell_i(theta) - ell_i(proposal)`` of ``count`` records to ``out`` (generic, compiled).

    ``selection`` is as in `add_gradient`. Unless a target implements it, it is built of `example_loss`.
    """
    raise NotImplementedError("loss_differences is a generic of compiled code; see `implements`.")


def prior_potential(target: Any, theta: np.ndarray) -> None:
    """Return ``-log p(theta)`` up to a constant, ``inf`` outside the support (generic, compiled).

    Unless a target implements it: ``sum_j prior_precision_j theta_j^2 / 2``, the field being an array.
    """
    raise NotImplementedError("prior_potential is a generic of compiled code; see `implements`.")


def go_to_table(target: Any, theta: np.ndarray, out: np.ndarray) -> None:
    """Write the parameters of a target's table at ``theta`` (generic, compiled).

    For a target of which sums over records know parameters of another kind, by a function that is the same
    for all records: such a target has a field ``table``, which is itself a target and implements `n_examples`
    and `add_gradient`, and an attribute ``table_sizes``, the lengths of ``out`` and of the table's sums. It
    implements `pull_back` instead of `add_gradient` and `prior_gradient`.
    """
    raise NotImplementedError("go_to_table is a generic of compiled code; see `implements`.")


def pull_back(
    target: Any,
    theta: np.ndarray,
    inner: Any,
    sums: np.ndarray,
    count: int,
    gradient: np.ndarray,
    prior: np.ndarray,
) -> None:
    """Write the gradient of ``count`` records and minus that of the log prior (generic, compiled).

    ``inner`` is what `go_to_table` wrote, and ``sums`` are those of the table there. Unless a target has a
    table, ``sums`` are the records' gradient.
    """
    raise NotImplementedError("pull_back is a generic of compiled code; see `implements`.")


def in_random_order(target):
    """Tell whether records are to be in random order, anew for every sum (generic, compiled).

    For sums in single precision; parts of them then begin at multiples of `ALIGNMENT`. False unless a
    target implements it.
    """
    raise NotImplementedError("in_random_order is a generic of compiled code.")


def record(selection: Any, i: int) -> None:
    """Return the number of the i-th selected record (generic, compiled)."""
    raise NotImplementedError("record is a generic of compiled code.")


def selected_from(selection: Any, start: np.ndarray, count: int) -> None:
    """Return the part of a selection from its ``start``-th record (generic, compiled)."""
    raise NotImplementedError("selected_from is a generic of compiled code.")


def _is_instance(numba_type, target_class):
    return (
        isinstance(numba_type, types.BaseNamedTuple) and numba_type.instance_class is target_class
    )


def implements(generic: Callable, target_class: Any, **jit_options: Any) -> Callable:
    """Declare the decorated function to be ``generic`` for targets of ``target_class``.

    Parameters
    ----------
    generic : callable
        One of `n_examples`, `add_gradient`, `example_gradient`, `prior_gradient`, `example_loss`,
        `loss_differences`, `prior_potential`, or of `go_to_table` and `pull_back`.
    target_class : type
        A ``NamedTuple`` class.
    **jit_options
        Passed on to numba's compiler.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> import numpy as np
    >>> from skdpbayes.targets import implements, n_examples
    >>> class Readings(NamedTuple):
    ...     values: np.ndarray
    >>> @implements(n_examples, Readings)
    ... def count(target):
    ...     return target.values.shape[0]
    """
    _OWN[target_class] = _OWN.get(target_class, frozenset()) | {generic.__name__}

    def declare(function):
        # numba matches an overload's parameter names with its implementation's.
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        namespace = {"function": function, "matches": _is_instance, "target_class": target_class}
        exec(
            f"def choose({', '.join(names)}):\n"
            f"    return function if matches({names[0]}, target_class) else None",
            namespace,
        )
        compiled_for(generic, **jit_options)(namespace["choose"])
        return function

    return declare


_OWN: dict[type, frozenset] = {}


def has_losses(target: Any) -> bool:
    """Tell whether a target says what a record's loss is, not its gradient only."""
    own = _OWN.get(type(target), frozenset())
    return not own.isdisjoint({example_loss.__name__, loss_differences.__name__})


def clips_each_example(target: Any) -> bool:
    """Tell whether a target's gradient is built of example gradients that are clipped one by one.

    So are those of targets that implement no `add_gradient` (of those in two parts the table counts), and of
    those that have a ``clip_norm``.
    """
    if hasattr(target, "clip_norm"):
        return True
    if has_table(target):
        return clips_each_example(target.table)
    return add_gradient.__name__ not in _OWN.get(type(target), frozenset())


def has_table(target):
    """Tell whether a target is in two parts, and not whether it calls its records a table."""
    return go_to_table.__name__ in _OWN.get(type(target), frozenset())


def has_own_prior(target: Any) -> bool:
    """Tell whether a target implements its prior's gradient, instead of a Gaussian of its precisions."""
    own = _OWN.get(type(target), frozenset())
    return not own.isdisjoint({prior_gradient.__name__, pull_back.__name__})


def _has_own(numba_type, generic):
    return isinstance(numba_type, types.BaseNamedTuple) and generic.__name__ in _OWN.get(
        numba_type.instance_class, ()
    )


def is_in_random_order(numba_type):
    """Tell of a target's type in compiled code whether records are to be in random order."""
    return _has_own(numba_type, in_random_order)


@compiled_for(in_random_order)
def _in_any_order(target):
    if _has_own(target, in_random_order):
        return None
    return lambda target: False


@compiled_for(record)
def _record(selection, i):
    if isinstance(selection, types.Integer):
        return lambda selection, i: selection + i
    return lambda selection, i: selection[i]


@compiled_for(selected_from)
def _selected_from(selection, start, count):
    if isinstance(selection, types.Integer):
        return lambda selection, start, count: selection + start
    return lambda selection, start, count: selection[start : start + count]


@compiled_for(prior_gradient)
def _gaussian_prior_gradient(target, theta, out):
    if _has_own(target, prior_gradient):
        return None

    def independent_gaussian(target, theta, out):
        for j in range(theta.size):
            out[j] = target.prior_precision[j] * theta[j]

    return independent_gaussian


@compiled_for(pull_back)
def _plain_gradient(target, theta, inner, sums, count, gradient, prior):
    if _has_own(target, pull_back):
        return None

    def sums_are_gradients(target, theta, inner, sums, count, gradient, prior):
        for j in range(gradient.size):
            gradient[j] = sums[j]
        prior_gradient(target, theta, prior)

    return sums_are_gradients


@compiled_for(prior_potential)
def _gaussian_prior_potential(target, theta):
    if _has_own(target, prior_potential):
        return None

    def independent_gaussian(target, theta):
        total = 0.0
        for j in range(theta.size):
            total += target.prior_precision[j] * theta[j] ** 2
        return total / 2.0

    return independent_gaussian


@compiled_for(loss_differences)
def _differences_of_losses(target, theta, proposal, selection, count, out):
    if _has_own(target, loss_differences) or not _has_own(target, example_loss):
        return None

    def one_by_one(target, theta, proposal, selection, count, out):
        for i in range(count):
            number = record(selection, i)
            out[i] = example_loss(target, theta, number) - example_loss(target, proposal, number)

    return one_by_one


@compiled_for(add_gradient)
def _clipped_gradient(target, theta, selection, count, out):
    if _has_own(target, add_gradient) or not _has_own(target, example_gradient):
        return None

    def clip_each_example(target, theta, selection, count, out):
        gradient = np.empty(theta.size)
        for i in range(count):
            gradient[:] = 0.0
            example_gradient(target, theta, record(selection, i), gradient)
            largest = np.abs(gradient).max()
            # A gradient that is not finite has no direction: the record counts as zero.
            if not 0.0 < largest < np.inf:
                continue
            norm = largest * math.sqrt(np.sum((gradient / largest) ** 2))
            factor = 1.0 if norm <= target.gradient_bound else target.gradient_bound / norm
            for j in range(theta.size):
                out[j] += factor * gradient[j]

    return clip_each_example


@cache
def _evaluator(has_table):
    @njit
    def through_table(target, theta, inner, sums, gradient, prior):
        go_to_table(target, theta, inner)
        add_gradient(target.table, inner, 0, n_examples(target), sums)
        pull_back(target, theta, inner, sums, n_examples(target), gradient, prior)

    @njit
    def plainly(target, theta, inner, sums, gradient, prior):
        add_gradient(target, theta, 0, n_examples(target), gradient)
        prior_gradient(target, theta, prior)

    return through_table if has_table else plainly


def potential_gradient(
    target: NamedTuple, theta: np.ndarray, temperature: float = 1.0
) -> np.ndarray:
    """Gradient of ``sum_i ell_i(theta) - temperature * log p(theta)``. **It is not private.**

    For tests of a target: compare it with finite differences of your log density.

    Parameters
    ----------
    target : NamedTuple
        A target.
    theta : ndarray of shape (n_parameters,)
        Where.
    temperature : float, default=1.0
        The posterior's temperature.

    Returns
    -------
    gradient : ndarray of shape (n_parameters,)
    """
    theta = np.ascontiguousarray(theta, dtype=np.float64)
    likelihood, prior = np.zeros_like(theta), np.zeros_like(theta)
    inner, sums = (np.zeros(size) for size in getattr(target, "table_sizes", (0, 0)))
    _evaluator(has_table(target))(target, theta, inner, sums, likelihood, prior)
    return likelihood + temperature * prior
