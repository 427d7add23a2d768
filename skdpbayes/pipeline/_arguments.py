"""What a pipeline's fit is given beside its table: for a step, by name; nothing where rows are chosen."""

from sklearn.utils.metadata_routing import _routing_enabled


def check_arguments(pipeline, params, has_persons):
    """Raise a ValueError for arguments that no step is named for, or that cannot follow a choice of rows.

    Parameters
    ----------
    pipeline : Pipeline
    params : dict
        Other arguments of its fit.
    has_persons : bool
        Whether at most some rows of each person are used.
    """
    names = [name for name, _ in pipeline.steps]
    last, final = pipeline.steps[-1]
    # Metadata that is routed belongs to whichever step requests it.
    for given in () if _routing_enabled() else sorted(params):
        step, separator, _ = given.partition("__")
        if not separator:
            raise ValueError(
                f"fit of a pipeline does not accept {given}=...: say which step it is for, e.g. "
                f"{last}__{given}=..."
            )
        if step not in names:
            raise ValueError(
                f"{given}=... is for a step {step!r}, which the pipeline does not have: its steps are "
                f"{names}."
            )
    if has_persons and params:
        own = sorted(params)[0].rpartition("__")[2]
        raise ValueError(
            f"{sorted(params)} cannot be used together with groups in a private pipeline: leave out one of "
            f"them. Both work for the estimator alone, {type(final).__name__}(max_rows_per_group=...)"
            f".fit(X, y, groups=..., {own}=...), and as the last step of scikit-learn's Pipeline, by "
            f"{last}__groups=... and {last}__{own}=..., if no other step spends."
        )
