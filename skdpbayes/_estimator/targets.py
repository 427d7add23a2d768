"""Targets of `Rows`: what each part of a table is made into, here or where the part is."""

from ..targets import make_logistic, make_mixture


def logistic_of(rows, norm, n_classes, constant, prior_precision, max_weight):
    """Return the logistic target of `Rows`; parameters are those of `make_logistic`."""
    return make_logistic(
        rows.X, rows.labels, norm, n_classes, constant, prior_precision, rows.weights, max_weight
    )


def mixture_of(rows, model):
    """Return the mixture target of `Rows`."""
    return make_mixture(rows.X, model)
