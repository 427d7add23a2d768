"""What a pipeline's fit is given beside its table: for a step, by name, and of its rows."""

from sklearn.utils.metadata_routing import _routing_enabled
from sklearn.utils.validation import _check_method_params

from .._tables.order import refuse_columns_in_other_order


def check_arguments(pipeline, params, X, y):
    """Raise a ValueError for arguments that no step is named for, or that are in another order than rows.

    Parameters
    ----------
    pipeline : Pipeline
    params : dict
        Other arguments of its fit.
    X, y : table and labels
    """
    names = [name for name, _ in pipeline.steps]
    last = names[-1]
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
    refuse_columns_in_other_order(X=X, y=y, **params)


def of_chosen(params, X, kept):
    """Return arguments of the rows that are kept; what does not belong to rows is as it is.

    A row brings its weight and its exposure along: to a step that is bounded by its rows and these, what a
    person brings is that many rows, whatever else they hold.
    """
    return _check_method_params(X, params, kept)
