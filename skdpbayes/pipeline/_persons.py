"""The rows that a pipeline reads if persons are protected: at most ``k`` of each, the same in all steps."""

from sklearn.utils import _safe_indexing

from .._tables.collections import is_collection
from .._tables.persons import check_groups, choose_with_firsts, count_persons, has_persons
from ._arguments import of_chosen


def rows_of_persons(X, y, groups, params, max_rows, n_rows, seed):
    """Return how many persons there are, and a function that chooses their rows.

    Parameters
    ----------
    X : table or collection
    y : column or None
    groups : column or None
    params : dict
        Other arguments of a fit.
    max_rows : int or None
    n_rows : int
        The number of rows, which is returned if rows are protected; all are then kept.
    seed : callable
        Returns a ``random_state`` as for `choose_with_firsts`, once persons are known to be protected.

    Returns
    -------
    n_samples : int
    choose : callable
        Returns ``(X, y, params, firsts)`` of the rows that are kept, where ``firsts`` tells which are the
        first of their person; of partitions a list; None if rows are protected. Draws are made at most once.

    Raises
    ------
    ValueError
        As in `check_groups`, or if there are arguments besides for a collection.
    """
    if is_collection(X) and has_persons(groups, max_rows):
        from .._tables.dask.persons import choose_in_parts

        if params:
            raise ValueError(
                f"{sorted(params)} cannot be used together with groups for a Dask collection in a private "
                "pipeline: leave out one of them, or fit the estimator alone, which takes both."
            )
        chosen = choose_in_parts(groups, X, max_rows, seed(), None)  # Proposition 60.
        parts = chosen.of_part(X, X, "X"), chosen.of_part(y, X, "y")
        return chosen.n_persons, lambda: (*parts, params, chosen.firsts)
    persons = check_groups(groups, max_rows, n_rows, X=X, y=y)
    if persons is None:
        return n_rows, lambda: (X, y, params, None)

    def choose():
        kept, firsts = choose_with_firsts(persons, max_rows, seed())  # Proposition 60.
        rows = _safe_indexing(X, kept), None if y is None else _safe_indexing(y, kept)
        return *rows, of_chosen(params, X, kept), firsts

    return count_persons(persons), choose
