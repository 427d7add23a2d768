"""The grey box: two runs on neighbouring tables with the same random numbers, and the same releases.

    |s(D) - s(D')| / sigma <= charged,      sum of charges = cost,      everything else equal

``s`` is what a release is made of, before its noise. What follows from a release may depend on it, so the
second run is given the releases of the first; then nothing else may differ: which releases there are, in
which order, of which shapes and noise, warnings, and whatever the fitted estimator holds. And as compiled
chains run step by step only for whoever listens, a fit without listeners has to release the same. (Compare
Re:cord-play, 2026.)
"""

import functools
import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from .._mechanisms.door import listening
from .._tables.order import refuse_columns_in_other_order
from .._tables.persons import rows_in_order
from .._typing import MatrixLike
from ..privacy.ledger import _active
from ..privacy.persons import steps_to_person
from ._compare import compared
from ._costs import check_cost_of_persons, check_costs, check_rate
from ._fit import _adds, claimed_cost, parameters_named
from ._listeners import Enough, Follower, KeyReader, Recorder, moved
from ._neighbours import frame_of, with_record

# Of what is charged, for sums in doubles.
_ROUNDING = 1.0 + 1e-9


class Finding(NamedTuple):
    """What a replay found.

    Attributes
    ----------
    kind : {"sensitivity", "noise", "cost", "releases", "output", "warning", "error", "not covered"}
        A release that a record moves farther than is charged; noise of another size than is said; charges
        that add up to more than the cost; releases that differ in number, order, shape or noise; an output,
        warning or error that depends on records other than through releases; or what could not be looked at.
    text : str
    """

    kind: str
    text: str

    def __str__(self):
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True)
class ReplayResult:
    """What a replay found. **It is computed from records without noise, and is as private as they are.**

    Attributes
    ----------
    findings : tuple of Finding
        Violations, and what is not covered.
    n_releases : int
        How many releases passed the door.
    largest_share : float
        The most that the record moved a release, relative to its charge: the nearer to 1, the harder the pair
        of tables has tried. It may have moved other releases far less, in which less is seen.
    n_looked_at : int
        For how many releases the noise, or the choice, was drawn again. Of a compiled chain that is 64 steps
        at most, half of them evenly spaced and half chosen by ``seed``.
    """

    findings: tuple[Finding, ...]
    n_releases: int
    largest_share: float
    n_looked_at: int = 0

    @property
    def passed(self) -> bool:
        """Whether nothing was found, and nothing is named that could not be looked at.

        That is said of this pair of tables and this seed. In ``n_looked_at`` releases the noise is drawn
        again, and its size, or how often each candidate or category comes out, is compared with what is said.
        Beyond that, the law of noise is not looked at; neither is what a fit writes to files or sends away.
        """
        return not self.findings

    @property
    def violations(self) -> tuple[Finding, ...]:
        """Findings of what is wrong, without what is not covered."""
        return tuple(one for one in self.findings if one.kind != "not covered")

    def __str__(self):
        head = (
            f"Replay of {self.n_releases} releases: {'passed' if self.passed else 'not passed'}; the record "
            f"moved one by up to {100 * self.largest_share:.3g}% of what is charged, and the size of "
            f"noise was looked at in {self.n_looked_at}"
        )
        return "\n".join([head, *(f"  {one}" for one in self.findings)])


def replay(
    estimator: Any,
    X: MatrixLike,
    y: ArrayLike | None,
    record: Any,
    *,
    index: int | Sequence[int] = 0,
    seed: int = 0,
    **fit_params: Any,
) -> ReplayResult:
    """Run a fit on two neighbouring tables with the same randomness, and compare all that it does.

    A third fit, to which nobody listens, has to release what the first one has. Two more fits without a seed
    must not draw the same random numbers; they end after 16 releases.

    A single pair of tables proves nothing; take records that ought to move a fit as far as one can: rows of
    the largest norm with either label, longer ones, rows of zeros, and infinite weights.

    Parameters
    ----------
    estimator : estimator or callable
        An estimator, pipeline, transformer or search, with a sampler of your own if you like, or a score
        such as ``functools.partial(dp_accuracy_score, epsilon=1.0)``.
    X : array-like of shape (n_samples, n_features)
        Records that are no secret. Of a score: the first column.
    y : array-like of shape (n_samples,) or None
        Of a score: the second column.
    record : tuple, array-like, dict or None
        What takes the place of one record in the second table: ``(x, y)``, or ``x`` without labels, or a dict
        by argument, ``{"X": x, "y": y, "sample_weight": w}``. What is not given stays as in the first table:
        with ``x`` alone the label does. None takes the record out, for "add_or_remove_one".
    index : int or sequence of int, default=0
        Which record; or which are the rows of a person who is protected, and whose rows in ``record`` are as
        many. Take persons with at most ``max_rows_per_group`` rows: a choice among more would differ.
    seed : int, default=0
        Of both runs.
    **fit_params : array-like of shape (n_samples,)
        Other columns for `fit`, such as ``sample_weight``, or for a score, such as ``groups``.

    Returns
    -------
    result : ReplayResult
        ``passed``, and ``findings``.

    Raises
    ------
    ValueError
        If a `PrivacyLedger` is active, because what is compared is not private; if records are taken out
        where neighbours have as many; or if a record has not as many values as the table has columns.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.audit import replay
    >>> from skdpbayes.preprocessing import DPQuantileScaler
    >>> X = np.linspace(-1.0, 1.0, 200).reshape(100, 2)
    >>> print(replay(DPQuantileScaler(), X, None, [1e9, -1e9]).passed)
    True
    """
    refuse_columns_in_other_order(X=X, y=y, **fit_params)
    if _active:
        raise ValueError(
            "a PrivacyLedger is active, and a replay looks at sums without noise: run it outside, on a table "
            "that is no secret."
        )
    if record is None and not _adds(estimator):
        raise ValueError(
            "record=None takes a record out, which is for neighboring_relation='add_or_remove_one': give the "
            "record that takes its place."
        )
    columns = {"X": X, "y": y, **fit_params}
    columns = {name: frame_of(one) for name, one in columns.items() if one is not None}
    others = with_record(columns, index, record)
    with rows_in_order():  # Of persons: what is compared holds for any order.
        first = _run(estimator, columns, seed, Recorder())
        # What is kept after the first fit, for instance of costs, is kept before the second one.
        before = _kept_outside(estimator)
        second = _run(estimator, others, seed, Follower(first.listener.noted))
        changed = _changed(before, _kept_outside(estimator))
        unseen = unseeded = None
        if first.error is None:
            unseen = _run(estimator, columns, seed, None)
            unseeded = [_run(estimator, columns, None, KeyReader()) for _ in range(2)]
    result = _compared(first, second, unseen)
    outside = [Finding("not covered", text) for text in changed]
    return replace(result, findings=(*result.findings, *_repeated_keys(unseeded or []), *outside))


class _Run(NamedTuple):
    listener: Any
    released: Any
    warnings: list
    error: BaseException | None


def _run(estimator, columns, seed, listener):
    """Return a `_Run` of one table."""
    released = error = None
    with warnings.catch_warnings(record=True) as caught, listening(listener):
        warnings.simplefilter("always")
        try:
            if hasattr(estimator, "fit"):
                released = clone(estimator)
                seeds = dict.fromkeys(parameters_named("random_state", released), seed)
                # Workers would not be listened to.
                alone = dict.fromkeys(parameters_named("n_jobs", released), 1)
                released.set_params(**seeds, **alone).fit(**columns)
            else:
                own = [columns[name] for name in ("X", "y") if name in columns]
                others = {name: one for name, one in columns.items() if name not in ("X", "y")}
                seeds = {} if seed is None else {"random_state": seed}
                released = estimator(*own, **others, **seeds)
        except Enough:
            pass
        except Exception as raised:
            error = raised
    return _Run(listener, released, [(w.category.__name__, str(w.message)) for w in caught], error)


def _compared(first, second, unseen):
    """Return the `ReplayResult` of two runs, and of the first one when nobody listens."""
    findings = []
    errors = [None if run.error is None else repr(run.error) for run in (first, second)]
    if errors[0] != errors[1]:
        findings.append(Finding("error", f"{errors[0]} in one run and {errors[1]} in the other"))
    elif first.error is not None:
        raise first.error
    if first.warnings != second.warnings:
        findings.append(Finding("warning", f"{first.warnings} and {second.warnings}"))
    findings += _of_noise(first.listener) + _of_leaks(first.listener, second.listener)
    findings += _of_listening(first, unseen)
    findings += _of_order(first.listener, second.listener)
    # What is released elsewhere is not the same in both runs, and neither is what follows from it.
    passed_by = first.listener.passed_by
    end = passed_by[0][0] if passed_by else None
    noted = first.listener.noted[:end], second.listener.noted[:end]
    persons = getattr(getattr(first.released, "plan_", None), "persons", None)
    steps = 1 if persons is None else steps_to_person(persons)
    shares, too_far = _of_sensitivities(*noted, steps)
    findings += too_far
    again, of_draws = _of_draws_again(*noted, steps)
    shares += again
    findings += of_draws
    findings += [Finding("not covered", f"{what}, and what follows") for _, what in passed_by]
    if errors == [None, None] and not passed_by:
        pairs = zip(*noted, strict=False)
        most = 1 if persons is None else persons.max_rows
        movements = [
            (a.passage, moved(a.passage, b.passage, most) / _steps_of(a.passage, steps))
            for a, b in pairs
            if _alike(a, b)
        ]
        of_cost, is_all = _of_costs(first.released, persons, movements)
        findings += [Finding(*one) for one in of_cost]
        if is_all and not second.listener.others:
            held = compared(first.released, second.released)
            for names, kind, text in (
                (held.differing, "output", " depends on the record"),
                (held.generators, "output", " holds the generator of the noise"),
                (held.unseen, "not covered", ": it was not looked into"),
            ):
                findings += [Finding(kind, f"{name}{text}") for name in names]
    return ReplayResult(
        tuple(findings),
        len(first.listener.noted),
        max(shares, default=0.0),
        first.listener.n_looked_at,
    )


def _of_noise(recorder):
    return [Finding("noise", f"of release {n} is {text}") for n, text in recorder.noises]


def _of_leaks(*listeners):
    leaks = sorted({number for listener in listeners for number in listener.leaks})
    if not leaks:
        return []
    text = f"release {leaks[0]} leaves behind more than follows from its numbers with noise"
    return [Finding("output", text + (f", and {len(leaks) - 1} others" if len(leaks) > 1 else ""))]


def _of_listening(first, unseen):
    """Return findings of what a fit releases else when nobody listens, where chains run in blocks."""
    if unseen is None:
        return []
    if unseen.error is not None:
        return [Finding("error", f"{unseen.error!r} when nobody listens")]
    differing = compared(first.released, unseen.released).differing
    return [Finding("output", f"{name} is another when nobody listens") for name in differing]


def _repeated_keys(runs):
    """Findings where fits without a seed draw random numbers that were drawn before."""
    if errors := [run.error for run in runs if run.error is not None]:
        return [Finding("error", f"{errors[0]!r} without a seed")]
    states = [state for run in runs for state in run.listener.states]
    if len(set(states)) == len(states):
        return []
    own = [len(set(run.listener.states)) < len(run.listener.states) for run in runs]
    where = "two releases of one fit" if any(own) else "two fits"
    return [Finding("noise", f"of {where} without a seed is of the same random numbers")]


def _kept_outside(estimator):
    """Return {name: (identity, size)} of what classes and modules hold, of an estimator and this package."""
    kinds = [] if isinstance(estimator, type) else type(estimator).__mro__[:-1]
    modules = {kind.__module__ for kind in kinds} | {
        name for name in sys.modules if name.partition(".")[0] == __name__.partition(".")[0]
    }
    owners: dict[str, Any] = {kind.__qualname__: vars(kind) for kind in kinds}
    owners |= {name: vars(sys.modules[name]) for name in modules if name in sys.modules}
    return {
        f"{owner}.{name}": (id(held), _size_of(held))
        for owner, space in owners.items()
        for name, held in list(space.items())
    }


def _size_of(held):
    if isinstance(held, functools._lru_cache_wrapper):
        return held.cache_info().currsize
    return len(held) if isinstance(held, list | dict | set | bytearray) else None


def _changed(before, after):
    names = sorted(name for name in after if after[name] != before.get(name))
    names = [name for name in names if not name.endswith(("__abstractmethods__", "_abc_impl"))]
    return [f"{name}: it was changed by a fit, outside of the fitted object" for name in names[:20]]


def _of_draws_again(first, second, steps):
    """Return shares of charges of steps drawn again, and findings: steps that move too far, and batches."""
    shares, found, rates = [], [], []
    for number, (a, b) in enumerate(zip(first, second, strict=False)):
        if a.again is None or b.again is None or not _alike(a, b) or not a.passage.charged:
            continue
        shifts = np.linalg.norm((a.again - b.again) / a.passage.noise, axis=1) / steps
        shifts /= a.passage.charged
        shares.append(float(shifts.max()))
        if not shares[-1] <= _ROUNDING:
            text = f"release {number}, drawn again, moved by {shares[-1]:.4g} times what is charged"
            found.append(Finding("sensitivity", text))
        if a.passage.kind == "batch":
            rates.append((a.passage.rate, shifts))
    if rates:
        text = check_rate(np.concatenate([shifts for _, shifts in rates]), rates[0][0])
        found += [Finding("sensitivity", text)] if text else []
    return shares, found


def _of_order(recorder, follower):
    found = [Finding("releases", f"release {n}: {text}") for n, text in follower.others]
    sizes = len(recorder.noted), len(follower.noted)
    if sizes[0] != sizes[1]:
        found.append(Finding("releases", f"{sizes[0]} in one run and {sizes[1]} in the other"))
    return found


def _alike(a, b):
    return a.passage.kind == b.passage.kind and (
        a.passage.kind == "counts" or a.passage.statistic.shape == b.passage.statistic.shape
    )


def _of_costs(released, persons, movements):
    """Return findings where charges and costs do not agree, and whether all was at the door."""
    if persons is None:
        return check_costs(claimed_cost(released)[0], movements)
    # What a row costs a person is said once for steps that read one row of each, and once for others.
    plan, found, is_all = released.plan_, [], True
    claims = [(False, persons.cost_of_rows)]
    if getattr(plan, "of_one_row", ()):
        claims = [(False, plan.cost_of_all_rows), (True, plan.cost_of_one_row)]
    elif any(passage.of_one_row for passage, _ in movements):
        found.append(("cost", "one row of each person is read where nothing is planned for that"))
    for of_one_row, cost in claims:
        own = [one for one in movements if one[0].of_one_row == of_one_row]
        of_these, all_of_these = check_costs(cost, own, persons.max_rows)
        found, is_all = found + of_these, is_all and all_of_these
    steps = steps_to_person(persons)
    moved_by = [(one, own * _steps_of(one, steps)) for one, own in movements]
    return found + check_cost_of_persons(plan.cost, moved_by), is_all


def _steps_of(passage, steps):
    """Return how many rows a person who is protected moves a release by."""
    return 1 if passage.of_one_row else steps


def _of_sensitivities(first, second, steps):
    """Return the shares of charges that a record used, and findings where they are more than 1.

    Releases are charged for rows, of which a person who is protected moves them as far as ``steps``.
    """
    shares, found, so_far = [], [], 0.0
    for number, (a, b) in enumerate(zip(first, second, strict=False)):
        if not _alike(a, b) or a.passage.charged is None:
            continue
        own, passage = moved(a.passage, b.passage) / _steps_of(a.passage, steps), a.passage
        if passage.is_joint:
            own = math.hypot(so_far, own) if passage.kind == "gaussian" else so_far + own
        so_far = own
        share = own / passage.charged if passage.charged > 0 else math.inf * (own > 0)
        shares.append(share)
        if not share <= _ROUNDING:
            text = f"release {number} ({passage.kind}) moved by {share:.4g} times what is charged"
            found.append(Finding("sensitivity", text))
    return shares, found
