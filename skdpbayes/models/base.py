"""What a target must offer, and what a plan may know of it.

The posterior at temperature ``tau`` is ``exp(-(1/tau) sum_i ell_i(theta)) p(theta)``. A target is
a ``NamedTuple`` that holds the records. The functions below are generic: a compiled sampler finds the
implementation by the class of the tuple. Samplers and targets stay independent, and a sampler is
compiled once per kind of target and cached on disk.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit, types

from .._jit import call_address, compiled_for

# Rows are handled in blocks that stay in the cache between the two uses of a row, together with the
# block that comes next.
BLOCK = 16
# Where batches are in random order, chunks of a sum begin at multiples of this.
ALIGNMENT = 128


def n_examples(target: Any) -> int:
    """The number of records (generic, compiled)."""
    raise NotImplementedError("n_examples is a generic of compiled code; see `implements`.")


def add_gradient(
    target: Any, theta: np.ndarray, selection: Any, count: int, out: np.ndarray
) -> None:
    """Add ``sum_i grad ell_i(theta)`` over ``count`` records to ``out`` (generic, compiled).

    ``selection`` is the number of the first record, or an array of record numbers. The default adds up
    `example_gradient`, clipped to ``gradient_bound``.
    """
    raise NotImplementedError("add_gradient is a generic of compiled code; see `implements`.")


def example_gradient(target: Any, theta: np.ndarray, i: int, out: np.ndarray) -> None:
    """Write ``grad ell_i(theta)`` of one record to ``out`` (generic, compiled)."""
    raise NotImplementedError("example_gradient is a generic of compiled code; see `implements`.")


def prior_gradient(target: Any, theta: np.ndarray, out: np.ndarray) -> None:
    """Write ``-grad log p(theta)`` to ``out`` (generic, compiled).

    The default is ``prior_precision * theta``, where the field ``prior_precision`` is an array.
    """
    raise NotImplementedError("prior_gradient is a generic of compiled code; see `implements`.")


def example_loss(target: Any, theta: np.ndarray, i: int) -> float:
    """``ell_i(theta)`` of one record (generic, compiled); random-walk samplers need it."""
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

    ``selection`` is as in `add_gradient`. The default subtracts values of `example_loss`.
    """
    raise NotImplementedError("loss_differences is a generic of compiled code; see `implements`.")


def prior_potential(target: Any, theta: np.ndarray) -> float:
    """``-log p(theta)`` up to a constant, ``inf`` outside the support (generic, compiled).

    The default is ``sum_j prior_precision_j theta_j^2 / 2``, where the field ``prior_precision`` is an array.
    """
    raise NotImplementedError("prior_potential is a generic of compiled code; see `implements`.")


def shared_parameters(target: Any, theta: np.ndarray, out: np.ndarray) -> None:
    """Write the parameters of a target's table at ``theta`` (generic, compiled).

    For a target whose sums over records use transformed parameters, by a transformation that is the same
    for all records. Such a target has a field ``table``, which is itself a target that implements
    `n_examples` and `add_gradient`, and an attribute ``table_sizes``: the lengths of ``out`` and of the
    table's sums. It implements `pullback` instead of `add_gradient` and `prior_gradient`.
    """
    raise NotImplementedError("shared_parameters is a generic of compiled code; see `implements`.")


def pullback(
    target: Any,
    theta: np.ndarray,
    inner: Any,
    sums: np.ndarray,
    count: int,
    gradient: np.ndarray,
    prior: np.ndarray,
) -> None:
    """Write the gradient of ``count`` records, and minus the gradient of the log prior (generic, compiled).

    ``inner`` is what `shared_parameters` wrote, and ``sums`` are the table's sums at those parameters. If a
    target has no table, ``sums`` is the records' gradient.
    """
    raise NotImplementedError("pullback is a generic of compiled code; see `implements`.")


def in_random_order(target):
    """Whether records are reordered at random for every sum (generic, compiled).

    This is for sums in single precision, whose chunks then begin at multiples of `ALIGNMENT`. The default is
    False.
    """
    raise NotImplementedError("in_random_order is a generic of compiled code.")


def record(selection: Any, i: int) -> int:
    """The number of the i-th selected record (generic, compiled)."""
    raise NotImplementedError("record is a generic of compiled code.")


def selected_from(selection: Any, start: int, count: int) -> Any:
    """The part of a selection from its ``start``-th record (generic, compiled)."""
    raise NotImplementedError("selected_from is a generic of compiled code.")


def _class_of(numba_type):
    """The class of the named tuples that a type of numba's is for, None for other types."""
    is_named = isinstance(numba_type, (types.NamedTuple, types.NamedUniTuple))
    return numba_type.instance_class if is_named else None


def _is_instance(numba_type, target_class):
    return _class_of(numba_type) is target_class


def implements(generic: Callable, target_class: Any, **jit_options: Any) -> Callable:
    """Declare the decorated function to be ``generic`` for targets of ``target_class``.

    Parameters
    ----------
    generic : callable
        One of `n_examples`, `add_gradient`, `example_gradient`, `prior_gradient`, `example_loss`,
        `loss_differences`, `prior_potential`, `shared_parameters` and `pullback`.
    target_class : type
        A ``NamedTuple`` class.
    **jit_options
        Passed on to numba's compiler.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> import numpy as np
    >>> from skdpbayes.models import implements, n_examples
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
    """Whether a target implements the loss of a record as well as its gradient."""
    implemented = _OWN.get(type(target), frozenset())
    return not implemented.isdisjoint({example_loss.__name__, loss_differences.__name__})


def clips_each_example(target: Any) -> bool:
    """Whether a target's gradient is a sum of example gradients that are clipped one by one.

    This is so for targets that have a ``clip_norm``, and for targets that do not implement `add_gradient`.
    For a target in two parts, the table decides.
    """
    if hasattr(target, "clip_norm"):
        return True
    if has_table(target):
        return clips_each_example(target.table)
    return add_gradient.__name__ not in _OWN.get(type(target), frozenset())


def has_table(target):
    """Whether a target is in two parts; what it implements decides, not the names of its fields."""
    return shared_parameters.__name__ in _OWN.get(type(target), frozenset())


def has_own_prior(target: Any) -> bool:
    """Whether a target implements its prior's gradient, instead of using the default Gaussian prior."""
    implemented = _OWN.get(type(target), frozenset())
    return not implemented.isdisjoint({prior_gradient.__name__, pullback.__name__})


def _has_own(numba_type, generic):
    return generic.__name__ in _OWN.get(_class_of(numba_type), frozenset())


def is_in_random_order(numba_type):
    """Whether targets of this numba type have their records reordered at random."""
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


@compiled_for(pullback)
def _plain_gradient(target, theta, inner, sums, count, gradient, prior):
    if _has_own(target, pullback):
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
            # A gradient that is not finite has no direction, so the record counts as zero.
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
        shared_parameters(target, theta, inner)
        add_gradient(target.table, inner, 0, n_examples(target), sums)
        pullback(target, theta, inner, sums, n_examples(target), gradient, prior)

    @njit
    def plainly(target, theta, inner, sums, gradient, prior):
        add_gradient(target, theta, 0, n_examples(target), gradient)
        prior_gradient(target, theta, prior)

    return through_table if has_table else plainly


def potential_gradient(
    target: NamedTuple, theta: np.ndarray, temperature: float = 1.0
) -> np.ndarray:
    """The gradient of ``sum_i ell_i(theta) - temperature * log p(theta)``. **It is not private.**

    Use it to test a target: compare it with finite differences of your log density.

    Parameters
    ----------
    target : NamedTuple
        A target.
    theta : ndarray of shape (n_parameters,)
        The parameters at which to evaluate it.
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


# What a plan may know about a target: numbers that are public, and valid for every possible record.
#
#     ||grad ell_i(theta)|| <= G,    grad^2 ell_i(theta) <= B,    for every record and every theta.
#
# For a target of your own, the bounds are your claim.


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
    def has_unknown_error_sd(self) -> bool:
        """Whether responses have a noise deviation that is not given, so that it has to be learnt."""
        return self.family is not None and self.family.has_unknown_error_sd

    @property
    def block_length(self) -> int:
        """Number of parameters in a block."""
        return self.n_parameters // self.n_blocks

    def checked(self) -> Self:
        """The bounds themselves; raises an error if one is out of range.

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
        """The bounds themselves; raises an error if one is out of range or the target may not be convex.

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


# Targets whose records are remote: their public numbers, and where sums over their records come
# from.
#
#     sum_i grad ell_i(theta) = sum_p sum_{i in shard p} grad ell_i(theta)
#
# Compiled code calls a Python function by its address: see `skdpbayes._data.shards`.


def _count(target):
    return target.count


def _members_at(selection):
    """The position of the numbers of some records, 0 for a whole table (generic, compiled)."""
    raise NotImplementedError("_members_at is a generic of compiled code.")


@compiled_for(_members_at)
def _where_members_are(selection):
    if isinstance(selection, types.Integer):
        return lambda selection: 0
    return lambda selection: selection.ctypes.data


def _ask(target, theta, selection, count, out):
    place = (theta.ctypes.data, theta.size, _members_at(selection), count)
    # If a Python function is interrupted, what it returns means nothing, so that it sets a flag besides.
    answered = np.zeros(1, np.int64)
    asked = (*place, out.ctypes.data, out.size, answered.ctypes.data)
    call_address(target.address, asked)  # type: ignore[call-arg]  # numba gives the context.
    if answered[0] != 1:
        raise RuntimeError("a sum over remote rows was interrupted.")


def of_remote_rows(target_class):
    """Declare a class of targets whose ``count`` records are remote; ``address`` gives sums over them."""
    implements(n_examples, target_class)(_count)
    implements(add_gradient, target_class)(_ask)
    # The sum is cut into chunks where the records are, and not here.
    target_class.n_chunks = 1
    return target_class
