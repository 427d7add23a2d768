"""The parameters of a fit, so that a report tells of the fit and not of what was set afterwards."""

from typing import Any

import joblib

# What decides nothing that a report says.
_IRRELEVANT = ("verbose", "n_jobs")
_PLAIN = (type(None), bool, int, float, str)


def told_parameters(estimator: Any) -> dict[str, str]:
    """Return every parameter of an estimator, and of those inside, in words or as a digest.

    Of an estimator its class is told, and of a generator of random numbers that it is one, since both change
    in a fit.
    """
    parameters: dict[str, Any] = getattr(estimator, "get_params", dict)()
    return {
        name: _told(value)
        for name, value in parameters.items()
        if name.rpartition("__")[2] not in _IRRELEVANT
    }


def _told(value):
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_told, value))}]"
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if hasattr(value, "get_params") or "random" in type(value).__module__:
        return kind
    try:
        return f"{kind} {joblib.hash(value)}"
    except Exception:  # What cannot be pickled.
        return kind


def refuse_changed(fitted: Any) -> None:
    """Raise an error if parameters of something fitted, or of what it holds, are not those of its fit.

    Raises
    ------
    ValueError
        It names the parameters.
    """
    before = getattr(fitted, "_parameters_of_fit", None)
    if before is not None:
        now = told_parameters(fitted)
        changed = sorted(
            name for name in before.keys() | now.keys() if before.get(name) != now.get(name)
        )
        if changed:
            raise ValueError(
                f"{', '.join(changed)} of this {type(fitted).__name__} changed after its fit, and a report "
                "would not tell what was fitted: set it back, or fit again."
            )
    held = [getattr(fitted, "best_estimator_", None)]
    if before is None:
        # Of a private pipeline, parameters of steps are its own; while it fits, they may be others.
        held += getattr(fitted, "get_params", dict)(deep=False).values()
        held.append(getattr(fitted, "transformers_", None))
    for one in _estimators(held):
        refuse_changed(one)


def _estimators(values):
    for one in values:
        if isinstance(one, list | tuple):
            yield from _estimators(one)
        elif hasattr(one, "get_params") and not isinstance(one, type):
            yield one
