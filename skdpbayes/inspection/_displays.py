"""Plots of posterior intervals and traces, and of scores against epsilon."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

from ._tables import class_index, coefficient_columns, feature_indices, named_model, rows, take

# Line styles given by the user.


def line_style(options):
    """Line properties under their long names, so that short ones do not clash with defaults."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return normalize_kwargs(options or {}, Line2D)


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
        posterior = model._posterior
        variables, coords = posterior.variables(), posterior.coords()
        coords = {**coords, "feature": coefficient_columns(feature_names, coords)}
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


# What privacy costs in accuracy: the scores of a search, plotted against epsilon.


if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Most lines that are legible in one figure.
_MOST_LINES = 8
# Most ticks that are legible on one axis.
_MOST_TICKS = 12


class PrivacyUtilityDisplay:
    """Scores against epsilon, from a grid search.

    Create one with `from_cv_results`. **Scores of a cross-validation on private rows are not private**: they
    are computed from the rows without noise, and so is any choice that is based on them. Make the plot from a
    public or synthetic table of the same shape, or do not publish it.

    Bars are standard deviations over the folds. They include the noise of the sampler if ``random_state`` is
    None; with a seed, the noise is the same in all folds.

    Parameters
    ----------
    epsilons : ndarray of shape (n_epsilons,)
        Values of epsilon in increasing order, at least one of them finite; a last ``inf`` is without privacy.
    means, deviations : ndarray of shape (n_lines, n_epsilons)
        Mean and standard deviation of the score over the folds; nan where there is none.
    labels : sequence of str of length n_lines
        Labels of the lines.
    score_name : str, default="score"
        Label of the axis of scores.
    negate_score : bool, default=False
        Whether to plot scores with their sign changed.

    Attributes
    ----------
    ax_ : Axes
        The axes of the plot.
    figure_ : Figure
        The figure of the axes.
    errorbars_ : list of ErrorbarContainer
        One for each line. Of more than 8 lines, only the best 8 have colours and bars.
    references_ : list of Line2D
        Levels without privacy, for the coloured lines that have one.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skdpbayes.inspection import PrivacyUtilityDisplay
    >>> from skdpbayes.linear_model import DPBayesianLogisticRegression
    >>> X, y = make_classification(2000, 5, n_redundant=0, random_state=0)
    >>> search = GridSearchCV(
    ...     DPBayesianLogisticRegression(random_state=0), {"epsilon": [0.1, 1.0]}, cv=3
    ... )
    >>> display = PrivacyUtilityDisplay.from_cv_results(search.fit(X, y).cv_results_)
    >>> display.means.shape
    (1, 2)
    """

    def __init__(
        self,
        *,
        epsilons: np.ndarray,
        means: np.ndarray,
        deviations: np.ndarray,
        labels: Sequence[str],
        score_name: str = "score",
        negate_score: bool = False,
    ):
        self.epsilons = epsilons
        self.means = means
        self.deviations = deviations
        self.labels = labels
        self.score_name = score_name
        self.negate_score = negate_score

    @classmethod
    def from_cv_results(
        cls,
        cv_results: dict[str, Any],
        *,
        param: str | None = None,
        score: str | None = None,
        score_name: str | None = None,
        negate_score: bool = False,
        ax: Axes | None = None,
        errorbar_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Plot the scores of a grid search over epsilon.

        There is one line for each combination of the other parameters that vary. Candidates that do not set
        ``param`` are left out.

        Parameters
        ----------
        cv_results : dict
            ``cv_results_`` of a fitted GridSearchCV or RandomizedSearchCV.
        param : str or None, default=None
            The parameter that holds epsilon. None uses the one that is named ``epsilon`` or ends in
            ``__epsilon``.
        score : str or None, default=None
            Name of the score, if there are several.
        score_name : str or None, default=None
            Label of the axis of scores; None is the name of the score.
        negate_score : bool, default=False
            Whether to change the sign, as for "neg_log_loss".
        ax : Axes or None, default=None
            Axes to plot on. None creates a figure.
        errorbar_kw : dict or None, default=None
            Options for the lines, as in ``Axes.errorbar``.

        Returns
        -------
        display : PrivacyUtilityDisplay

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If it is not clear which parameter holds epsilon or which score is meant, or if no epsilon is
            finite.
        """
        check_matplotlib_support(f"{cls.__name__}.from_cv_results")
        settings = cv_results["params"]
        param = _epsilon_param(settings, param)
        score = _score(cv_results, score)
        chosen = [i for i, setting in enumerate(settings) if param in setting]
        epsilons, columns = np.unique(
            [float(settings[i][param]) for i in chosen], return_inverse=True
        )
        if not np.isfinite(epsilons[0]):
            raise ValueError(
                f"{param} is never finite: add candidates with a finite epsilon to plot scores against."
            )
        keys, labels = _combinations([settings[i] for i in chosen], param)
        means, deviations = np.full((2, len(labels), epsilons.size), np.nan)
        for i, line, column in zip(chosen, keys, columns, strict=True):
            means[line, column] = cv_results[f"mean_test_{score}"][i]
            deviations[line, column] = cv_results[f"std_test_{score}"][i]
        display = cls(
            epsilons=epsilons,
            means=means,
            deviations=deviations,
            labels=labels,
            score_name=score if score_name is None else score_name,
            negate_score=negate_score,
        )
        return display.plot(ax, errorbar_kw=errorbar_kw)

    def plot(self, ax: Axes | None = None, *, errorbar_kw: dict[str, Any] | None = None) -> Self:
        """Plot the scores again, possibly on other axes.

        Parameters
        ----------
        ax : Axes or None, default=None
            Axes to plot on. None creates a figure.
        errorbar_kw : dict or None, default=None
            Options for the lines, as in ``Axes.errorbar``.

        Returns
        -------
        self : PrivacyUtilityDisplay

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        private = np.isfinite(self.epsilons)
        finite = self.epsilons[private]
        # The point without privacy is to the right of all others, at their typical distance.
        step = max(1.5, (finite[-1] / finite[0]) ** (1 / max(1, finite.size - 1)))
        places = np.where(private, self.epsilons, finite[-1] * step)
        best = self._best_lines()
        self.errorbars_, self.references_ = [], []
        for line, label in enumerate(self.labels):
            known = ~np.isnan(self.means[line])
            means = np.where(self.negate_score, -1, 1) * self.means[line]
            if line not in best:
                shown = known & private
                ax.plot(places[shown], means[shown], color="0.8", linewidth=1, zorder=1)
                continue
            rank = best.index(line)
            style: dict[str, Any] = {
                "color": f"C{rank}",
                "marker": "o",
                "markersize": 5,
                "capsize": 3,
            }
            style.update(line_style(errorbar_kw))
            # Shifted slightly, so that the bars of different lines do not hide each other.
            x = places * step ** (0.03 * (rank - (len(best) - 1) / 2))
            for shown, more in ((known & private, {"label": label}), (known & ~private, {})):
                if shown.any():
                    bars = self.deviations[line, shown]
                    self.errorbars_.append(
                        ax.errorbar(x[shown], means[shown], bars, **{**style, **more})
                    )
            for level in means[known & ~private]:
                color = style["color"]
                look: dict[str, Any] = {"color": color, "linestyle": "--", "linewidth": 1}
                self.references_.append(ax.axhline(level, zorder=0, alpha=0.6, **look))
        self._finish(ax, finite, places, step, n_others=len(self.labels) - len(best))
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _best_lines(self):
        """The indices of the coloured lines, in ascending order."""
        averages = np.ma.masked_invalid(self.means).mean(axis=1).filled(-np.inf)
        return sorted(np.argsort(-averages, kind="stable")[:_MOST_LINES].tolist())

    def _finish(self, ax, finite, places, step, n_others):
        if n_others:
            ax.errorbar([], [], color="0.8", linewidth=1, label=f"{n_others} others")
        if len(self.labels) > 1:
            ax.legend(frameon=False, fontsize="small")
        ax.set_xscale("log")
        gap = np.log(places[-1] / finite[0]) / _MOST_TICKS
        ticks = [finite[0]]
        for epsilon in finite[1:]:
            if np.log(epsilon / ticks[-1]) >= gap:
                ticks.append(epsilon)
        names = [f"{epsilon:g}" for epsilon in ticks]
        if places.size > finite.size:
            ticks, names = [*ticks, places[-1]], [*names, "inf\n(not private)"]
        ax.set_xticks(ticks, names)
        ax.minorticks_off()
        ax.set_xlim(finite[0] / step**0.5, places[-1] * step**0.5)
        ax.set_xlabel("epsilon")
        ax.set_ylabel(self.score_name)


def _epsilon_param(settings, param):
    names = sorted({name for setting in settings for name in setting})
    if param is not None:
        if param not in names:
            raise ValueError(f"param={param!r} is not in the search, which varied {names}.")
        return param
    matches = [name for name in names if name == "epsilon" or name.endswith("__epsilon")]
    if len(matches) != 1:
        many = (
            f"several parameters may hold epsilon, {matches}"
            if matches
            else "none is called epsilon"
        )
        raise ValueError(f"The search varied {names}, and {many}: name the right one with param.")
    return matches[0]


def _score(cv_results, score):
    prefix = "mean_test_"
    names = [key.removeprefix(prefix) for key in cv_results if key.startswith(prefix)]
    if score is None and len(names) == 1:
        return names[0]
    if score not in names:
        raise ValueError(f"score={score!r} is not in the results: choose one of {names}.")
    return score


def _combinations(settings, param):
    """(index of the line of each candidate, labels of the lines)."""
    names = sorted({name for setting in settings for name in setting} - {param})
    values = {name: [repr(setting.get(name)) for setting in settings] for name in names}
    varying = [name for name in names if len(set(values[name])) > 1]
    short = {name: name.rpartition("__")[-1] for name in varying}
    if len(set(short.values())) < len(short):
        short = {name: name for name in varying}
    lines: dict[tuple[str, ...], str] = {}
    keys = [tuple(values[name][i] for name in varying) for i in range(len(settings))]
    for key, setting in zip(keys, settings, strict=True):
        parts = (f"{short[name]} = {_brief(setting.get(name))}" for name in varying)
        lines.setdefault(key, ", ".join(parts))
    numbers = {key: number for number, key in enumerate(lines)}
    return [numbers[key] for key in keys], list(lines.values())


def _brief(value):
    return value if isinstance(value, str) else reprlib.repr(value)
