"""Displays of what was drawn, and of what privacy costs in accuracy.

Like scikit-learn's displays they hold numbers and plot them. The draws are public once they are
released, so looking at them spends nothing; scores are computed from rows, and are not private.
"""

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils._optional_dependencies import check_matplotlib_support
from sklearn.utils.validation import check_is_fitted

_MOST_FEATURES = 20
_MOST_LINES = 8
_KINDS = ("both", "forest", "trace")


class PosteriorDisplay:
    """Intervals and traces of the draws, one row for each coefficient.

    Use `from_estimator` to make one. A forest plot shows the mean of the draws, a thick bar for half of
    them and a thin one for ``credible_mass``. A trace shows them along the chain, every row on its own
    scale: a chain that is long enough looks like noise around its mean, one that is not wanders.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n_coefficients)
        Draws along the chain.
    names : sequence of str of length n_coefficients
        Labels of the rows.
    epsilon, delta, temperature : float or None, default=None
        What the title says, if given.

    Attributes
    ----------
    ax_ : Axes or ndarray of shape (2,) of Axes
        Where it was plotted; two for ``kind="both"``, the forest first.
    figure_ : Figure
        The figure of the axes.
    points_ : Line2D or None
        Posterior means of the forest.
    intervals_ : list of LineCollection
        Intervals of the forest, the thin ones first; empty for a single draw.
    traces_ : list of Line2D
        A line for each coefficient; empty without traces.

    See Also
    --------
    DPBayesianLogisticRegression.to_arviz : The draws for ArviZ, with its diagnostics and plots.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skdpbayes.inspection import PosteriorDisplay
    >>> from skdpbayes.linear_model import DPBayesianLogisticRegression
    >>> X, y = make_classification(2000, 5, n_redundant=0, random_state=0)
    >>> clf = DPBayesianLogisticRegression(random_state=0).fit(X, y)
    >>> display = PosteriorDisplay.from_estimator(clf, features=[3, "x1"])
    >>> display.names
    ['x3', 'x1', 'intercept']
    """

    def __init__(self, *, draws, names, epsilon=None, delta=None, temperature=None):
        self.draws = draws
        self.names = names
        self.epsilon = epsilon
        self.delta = delta
        self.temperature = temperature

    @classmethod
    def from_estimator(
        cls,
        estimator,
        *,
        kind="both",
        features=None,
        feature_names=None,
        intercept=True,
        class_of_interest=None,
        credible_mass=0.9,
        ax=None,
        interval_kw=None,
        trace_kw=None,
    ):
        """Plot the draws of a fitted estimator.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A fitted estimator of this package, or a pipeline that ends in one.
        kind : {"both", "forest", "trace"}, default="both"
            What to plot. A single draw has no trace: "both" is "forest" then.
        features : str, int or sequence of these, default=None
            Columns by name or index, in the order of the rows. None takes all, or, of more than 20,
            those 20 whose means are largest relative to their deviations.
        feature_names : sequence of str of length n_features, default=None
            Names of the columns. None takes those that the estimator has seen, or that the steps of the
            pipeline before it can tell; else x0, x1, ...
        intercept : bool, default=True
            Whether to show the intercepts, below the coefficients.
        class_of_interest : label or None, default=None
            The class whose coefficients are shown. None shows every class that has its own; of two, the
            second.
        credible_mass : float, default=0.9
            Share of the draws within the thin bars, between 0.5 and 1, with equal tails.
        ax : Axes, a pair of Axes or None, default=None
            Where to plot; ``kind="both"`` takes a pair. None makes a new figure.
        interval_kw : dict or None, default=None
            Options for the bars, as of ``Axes.hlines``; ``colors`` is that of the points, too.
        trace_kw : dict or None, default=None
            Options for the traces, as of ``Axes.plot``.

        Returns
        -------
        display : PosteriorDisplay

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        NotFittedError
            If the estimator is not fitted.
        TypeError
            If it is not one of this package.
        ValueError
            If a feature or the class is unknown, or an option is invalid.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        if not hasattr(model, "_posterior_variables"):
            raise TypeError(
                f"{cls.__name__} shows private posteriors, and {type(model).__name__} has none: "
                "pass an estimator of skdpbayes, or a pipeline that ends in one."
            )
        check_is_fitted(model)
        variables, coords = model._posterior_variables()
        if feature_names is None:
            feature_names = _names_before(estimator, coords["feature"])
        elif len(feature_names) != len(coords["feature"]):
            raise ValueError(
                f"feature_names has {len(feature_names)} names, and there are "
                f"{len(coords['feature'])} features."
            )
        coords = {**coords, "feature": [str(name) for name in feature_names]}
        chosen_classes = _chosen_classes(class_of_interest, coords["class"])
        if not intercept:
            variables = {name: pair for name, pair in variables.items() if "feature" in pair[1]}
        rows = [
            row
            for row in _rows(variables, coords)
            if row["place"].get("class", 0) in chosen_classes
        ]
        rows = _by_features(rows, features, coords["feature"])
        display = cls(
            draws=np.column_stack([row["draws"] for row in rows]),
            names=[row["name"] for row in rows],
            epsilon=model.spent_epsilon_,
            delta=model.spent_delta_,
            temperature=model.temperature_,
        )
        return display.plot(
            ax,
            kind=kind,
            credible_mass=credible_mass,
            interval_kw=interval_kw,
            trace_kw=trace_kw,
        )
