"""Plots of the posterior: intervals of coefficients, and traces of the chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

from ._coefficients import class_index, column_names, feature_indices, rows, take
from ._draws import named_model
from ._style import line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

    from .._typing import Label


class PosteriorDisplay:
    """Intervals and traces of the draws, with one row for each coefficient.

    Create one with `from_estimator`. A forest plot shows the mean of the draws, a thick bar for the middle
    half of them and a thin bar for ``credible_mass``. A trace shows the draws along the chain, each row on
    its own scale. The trace of a chain that is long enough looks like noise; otherwise it wanders.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n_rows)
        Draws along the chain.
    names : sequence of str of length n_rows
        Labels of the rows.
    epsilon, delta, temperature : float or None, default=None
        Numbers for the title.

    Attributes
    ----------
    ax_ : Axes or ndarray of shape (2,) of Axes
        The axes of the plot; if there are two, the forest plot comes first.
    figure_ : Figure
        The figure of the axes.
    points_ : Line2D or None
        Means in the forest plot.
    intervals_ : list of Line2D or None
        Bars in the forest plot: the thin ones of all rows, then the thick ones. Empty for a single draw.
    traces_ : list of Line2D or None
        Traces, one for each row.

    See Also
    --------
    skdpbayes.linear_model.DPBayesianLogisticRegression.to_arviz : The draws for ArviZ.

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

    points_: Any
    intervals_: list[Any] | None
    traces_: list[Any] | None

    def __init__(
        self,
        *,
        draws: np.ndarray,
        names: Sequence[str],
        epsilon: float | None = None,
        delta: float | None = None,
        temperature: float | None = None,
    ):
        self.draws = draws
        self.names = names
        self.epsilon = epsilon
        self.delta = delta
        self.temperature = temperature

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        kind: Literal["both", "forest", "trace"] = "both",
        features: str | int | Sequence[str | int] | None = None,
        feature_names: Sequence[str] | None = None,
        intercept: bool = True,
        class_of_interest: Label | None = None,
        credible_mass: float = 0.9,
        ax: Axes | Sequence[Axes] | None = None,
        interval_kw: dict[str, Any] | None = None,
        trace_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Plot the draws of a fitted estimator.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A fitted estimator of this package, or a pipeline that ends in one.
        kind : {"both", "forest", "trace"}, default="both"
            What to plot. A single draw has no trace; "both" then means "forest".
        features : str, int or sequence of these, default=None
            Columns by name or index, in the order in which they appear. None shows all columns or, if that
            would be more than 20 rows, those whose means are largest relative to their deviations.
        feature_names : sequence of str of length n_features, default=None
            Names of the columns. None uses the names that the estimator saw in `fit`, or those that the
            preceding pipeline steps provide; else x0, x1, and so on.
        intercept : bool, default=True
            Whether to show intercepts, below the coefficients.
        class_of_interest : label or None, default=None
            The class whose coefficients are shown. None shows every class that has its own coefficients; of
            two classes only the second has.
        credible_mass : float, default=0.9
            Share of the draws within the thin bars, above 0.5 and below 1; the tails are equal.
        ax : Axes, pair of Axes or None, default=None
            Axes to plot on; ``kind="both"`` needs a pair. None creates a figure.
        interval_kw, trace_kw : dict or None, default=None
            Line properties for the bars and means, and for the traces.

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
            If the estimator is not one of this package.
        ValueError
            If a feature or the class is unknown, or if an option is invalid.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        model = named_model(estimator)
        variables, coords = model._posterior_variables()
        coords = {**coords, "feature": column_names(feature_names, coords)}
        if not intercept:
            variables = {name: pair for name, pair in variables.items() if "feature" in pair[1]}
        several = [dim for dim in coords if dim != "feature" and len(coords[dim]) > 1]
        if class_of_interest is not None:
            chosen = [class_index(class_of_interest, coords["class"])]
            variables, coords = take(variables, coords, "class", chosen)
        chosen = feature_indices(features, variables, coords)
        variables, coords = take(variables, coords, "feature", chosen)
        draws, names = rows(variables, coords, several)
        display = cls(
            draws=draws,
            names=names,
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

    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        kind: Literal["both", "forest", "trace"] = "both",
        credible_mass: float = 0.9,
        interval_kw: dict[str, Any] | None = None,
        trace_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Plot the draws again, possibly with other options.

        Parameters
        ----------
        ax : Axes, pair of Axes or None, default=None
            Axes to plot on; ``kind="both"`` needs a pair. None creates a figure.
        kind : {"both", "forest", "trace"}, default="both"
            What to plot. A single draw has no trace; "both" then means "forest".
        credible_mass : float, default=0.9
            Share of the draws within the thin bars, above 0.5 and below 1.
        interval_kw, trace_kw : dict or None, default=None
            Line properties for the bars and means, and for the traces.

        Returns
        -------
        self : PosteriorDisplay

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If an option is invalid.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        import matplotlib.pyplot as plt

        if kind not in ("both", "forest", "trace"):
            raise ValueError(f"kind must be 'both', 'forest' or 'trace', got {kind!r}.")
        if not 0.5 < credible_mass < 1:
            raise ValueError(
                f"credible_mass must be above 0.5, the share within the thick bars, and below 1; "
                f"got {credible_mass!r}."
            )
        n_draws, n_rows = self.draws.shape
        if n_draws == 1 and kind == "trace":
            raise ValueError("a single draw has no trace: choose kind='forest'.")
        if n_draws == 1:
            kind = "forest"
        kinds = ("forest", "trace") if kind == "both" else (kind,)
        if ax is None:
            size = (4.2 * len(kinds) + 0.8, max(2.2, 1.1 + 0.27 * n_rows))
            _, ax = plt.subplots(1, len(kinds), figsize=size, sharey=True, layout="constrained")
        axes = np.array(ax, dtype=object).ravel()
        if axes.size != len(kinds):
            raise ValueError(
                f"ax: {' and '.join(kinds)} take {len(kinds)} axes, got {axes.size}. Pass {len(kinds)}, or "
                "choose kind='forest' or kind='trace'."
            )

        self.points_ = self.intervals_ = self.traces_ = None
        for axis, what in zip(axes, kinds, strict=True):
            if what == "forest":
                self._plot_forest(axis, credible_mass, interval_kw)
            else:
                self._plot_traces(axis, trace_kw)
            axis.set_ylim(n_rows - 0.5, -0.5)
            axis.set_yticks(range(n_rows), self.names)
            axis.tick_params(axis="y", length=0, labelleft=axis is axes[0])
        axes[0].set_title(self._title(), loc="left", fontsize="medium")
        self.ax_ = axes if len(kinds) > 1 else axes[0]
        self.figure_ = axes[0].figure
        return self

    def _title(self):
        parts = []
        if self.epsilon is not None:
            parts.append(f"epsilon = {self.epsilon:.3g}")
            if self.delta is not None:
                parts.append(f"delta = {self.delta:.3g}")
        if self.temperature is not None:
            parts.append(f"temperature {self.temperature:.3g}")
        return ", ".join(parts)

    def _plot_forest(self, ax, credible_mass, interval_kw):
        style = {"color": "C0", "solid_capstyle": "butt", **line_style(interval_kw)}
        places = np.arange(self.draws.shape[1])
        self.intervals_ = []
        if len(self.draws) > 1:
            for mass, width in ((credible_mass, 1.2), (0.5, 4.0)):
                ends = np.quantile(self.draws, [(1 - mass) / 2, (1 + mass) / 2], axis=0)
                bars = ax.plot(ends, [places, places], **{"linewidth": width, **style})
                self.intervals_.extend(bars)
            ax.set_xlabel(f"mean, 50% and {100 * credible_mass:g}% of the draws")
        else:
            ax.set_xlabel("a single draw, which has no intervals")
        dots = {"color": style["color"], "markeredgecolor": "white", "markersize": 6}
        (self.points_,) = ax.plot(
            self.draws.mean(axis=0), places, "o", markeredgewidth=1, zorder=3, **dots
        )
        ax.axvline(0, color="0.6", linewidth=1, zorder=0)

    def _plot_traces(self, ax, trace_kw):
        style = {"color": "C0", "linewidth": 0.9, **line_style(trace_kw)}
        n_draws = len(self.draws)
        from_mean = self.draws - self.draws.mean(axis=0)
        widest = np.abs(from_mean).max(axis=0)
        # Rows are numbered downwards, and must not touch each other.
        heights = -0.42 * from_mean / np.where(widest > 0, widest, 1)
        self.traces_ = []
        for row in range(self.draws.shape[1]):
            ax.axhline(row, color="0.85", linewidth=1, zorder=0)
            self.traces_ += ax.plot(np.arange(1, n_draws + 1), row + heights[:, row], **style)
        ax.set_xlim(1, n_draws)
        ax.set_xlabel("draw (each row on its own scale)")
