"""Releases that a larger plan has paid for.

    plan of several releases -> charged as a whole -> each release hands in a voucher instead of being charged

A voucher belongs to the object that is to be fitted. It goes wherever that object is cloned, pickled or sent,
so that it reaches threads and worker processes. It is good for one release of at most its cost. A release
that the plan does not contain finds no voucher and is charged like any other.
"""

from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from .cost import PrivacyCost

_KEPT = "_voucher"


class Voucher(NamedTuple):
    """What has been paid for one release.

    Attributes
    ----------
    cost : PrivacyCost
    """

    cost: PrivacyCost

    def redeem(self, plan: Any) -> None:
        """Raise a RuntimeError if a plan costs more than was paid for it."""
        if not covers(self.cost, plan.cost):
            raise RuntimeError(
                "the cost of this step does not have the planned form, and exceeds what the whole plan "
                "reserved for it: set its sampler or its data_norm, or give public lists of categories. "
                "This step has read nothing."
            )


class VoucherHolder:
    """Mixin of estimators that can be a part of a larger plan: a clone keeps the voucher."""

    def __sklearn_clone__(self) -> Any:
        copy = super().__sklearn_clone__()
        if (voucher := vars(self).get(_KEPT)) is not None:
            setattr(copy, _KEPT, voucher)
        return copy


def give_voucher(holder: Any, cost: PrivacyCost) -> None:
    """Give an object the voucher for its next release."""
    setattr(holder, _KEPT, Voucher(cost))


def take_voucher(holder: Any) -> Voucher | None:
    """Take the voucher of an object, or None if it has none."""
    return getattr(holder, "__dict__", {}).pop(_KEPT, None)


@contextmanager
def vouchers(costs: Iterable[tuple[Any, PrivacyCost]]):
    """Give vouchers to objects, and take back those that were not used."""
    costs = tuple(costs)
    for holder, cost in costs:
        give_voucher(holder, cost)
    try:
        yield
    finally:
        for holder, _ in costs:
            take_voucher(holder)


def covers(paid: PrivacyCost, cost: PrivacyCost) -> bool:
    """Tell whether a cost that was paid for is at least another.

    Either every mechanism has its counterpart that reveals at least as much, or what was paid for is a
    randomised response that may fail, which is worse than any mechanism with that epsilon and delta (Kairouz,
    Oh and Viswanath 2015).
    """
    if paid.neighboring_relation != cost.neighboring_relation:
        return False
    if paid.is_nothing or paid == cost:
        return True
    response = PrivacyCost(paid.neighboring_relation, pure=paid.pure, failure=paid.failure)
    if paid == response and [one.count for one in paid.pure] == [1]:
        return cost.epsilon(paid.failure) <= paid.pure[0].level
    ranges = [[(one.log_odds_range, one.count) for one in each.bits] for each in (paid, cost)]
    same_bits = [count for _, count in ranges[0]] == [count for _, count in ranges[1]]
    rest = [replace(each, mu=0.0, bits=()) for each in (paid, cost)]
    return (
        rest[0] == rest[1]
        and cost.mu <= paid.mu
        and same_bits
        and all(one[0] >= other[0] for one, other in zip(*ranges, strict=True))
    )
