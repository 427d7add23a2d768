"""Posterior intervals of coefficients, and tables that summarise them.

Everything here is post-processing of what was released.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._arguments import check_level
from ..privacy.deferred_warnings import warn
from .model_checks import NotedColumn, chain_diagnostics, interval_notes

# Posterior intervals from draws, and a table of them.
#
#     interval  = quantiles of the draws at (1 - level) / 2 and (1 + level) / 2
#     widening  = 1 - (deviation without privacy) / (deviation of the draws)
#
# Everything here is post-processing of what was released.


# Number of draws that intervals are computed from, if new ones are free.
_INTERVAL_DRAWS = 400


def interval_ends(estimator, level, draws):
    """The ends of posterior intervals, along a last axis of length 2.

    Parameters
    ----------
    estimator : estimator instance
        Fitted.
    level : float
        In (0, 1).
    draws : ndarray or tuple of ndarray
        All of its draws.

    Returns
    -------
    ends : ndarray or list of ndarray
    """
    check_level(level)
    warn_unless_calibrated(estimator)
    draws = enough_draws(estimator, draws)
    quantiles = [(1 - level) / 2, (1 + level) / 2]
    if isinstance(draws, tuple):
        return [np.moveaxis(np.quantile(part, quantiles, axis=0), 0, -1) for part in draws]
    return np.moveaxis(np.quantile(draws, quantiles, axis=0), 0, -1)


def enough_draws(estimator, draws=None):
    """The draws of a fitted estimator, or new ones if there are few and new ones are free."""
    if estimator.plan_.n_draws < _INTERVAL_DRAWS and "posterior" in estimator.released_:
        return estimator.sample_posterior(_INTERVAL_DRAWS, random_state=0)
    return estimator.posterior_samples_ if draws is None else draws


def warn_unless_calibrated(estimator):
    """Warn if a fitted estimator's draws are not a calibrated posterior."""
    if not (plan := estimator.plan_).is_calibrated:
        calibrated = plan.sampler.calibrated_names(plan.bounds.family)
        named = calibrated.replace(", ", " or sampler=")
        of_others = f" sampler={named} gives calibrated draws." if calibrated else ""
        warn(
            f"draws of sampler={plan.name!r} under privacy are not a calibrated posterior: the "
            f"coverage of intervals may be below or above their level.{of_others}"
        )


def interval_table(draws, interval, without, index, level):
    """A data frame; raises an ImportError without pandas.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n)
    interval : ndarray of shape (n, 2)
    without : ndarray of shape (n,)
        Deviations without privacy.
    index : sequence or pandas.Index
        Names of the rows.
    level : float
        Level of the intervals.
    """
    moments = _moments(draws)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip(1.0 - without / moments["sd"], 0.0, 1.0)
    return whole_table(
        {
            **moments,
            **dict(zip(names_of_ends(level), interval.T, strict=True)),
            "sd_without_privacy": without,
            "share_of_privacy": share,
        },
        index,
    )


def statement_table(draws, index, level):
    """A data frame with what draws say of coefficients; raises an ImportError without pandas.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n)
    index : sequence or pandas.Index
        Names of the rows.
    level : float
        Level of the intervals.
    """
    return whole_table({**_moments(draws), **_quantiles(draws, level)}, index)


def median_table(draws, index, level, null=0.0, moments=True):
    """A `statement_table` of any functions of coefficients, which leads with medians.

    Unlike a mean, the median of a bent function is the function of a median, and within every interval.

    Parameters
    ----------
    draws, index, level
        As for `statement_table`.
    null : float, default=0.0
        What quantities are compared with: the column of probabilities says how likely they are larger.
    moments : bool, default=True
        Whether means and deviations come last. Without, there are none.
    """
    columns = {"median": np.median(draws, axis=0), **_quantiles(draws, level, null)}
    return whole_table({**columns, **(_moments(draws) if moments else {})}, index)


def _moments(draws):
    return {"mean": draws.mean(axis=0), "sd": draws.std(axis=0)}


def _quantiles(draws, level, null=0.0):
    """The ends of intervals, and probabilities of being larger than ``null``."""
    check_level(level)
    interval = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    ends = dict(zip(names_of_ends(level), interval, strict=True))
    return {**ends, f"P(> {null:g})": (draws > null).mean(axis=0)}


def names_of_ends(level):
    """The percentages that the ends of an interval are called."""
    return [f"{50 * (1 + side * level):.10g}%" for side in (-1, 1)]


def whole_table(columns, index):
    """A data frame that prints all of its columns and rows; raises an ImportError without pandas."""
    required_pandas()
    from .untruncated_frame import UntruncatedDataFrame

    return UntruncatedDataFrame(columns, index=index)


def with_notes(table, notes):
    """A table of intervals, beneath which notes are printed."""
    table.attrs["notes"] = notes
    return table


def required_pandas():
    """The module pandas; raises an ImportError that says why it is needed."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "tables are data frames, which require pandas: pip install pandas"
        ) from error
    return pd


if TYPE_CHECKING:
    import pandas as pd
    from sklearn.utils import Bunch

    from ..samplers import Plan


class CoefficientsMixin:
    """For estimators with ``posterior_samples_`` of shape (n_draws, n_blocks, n_features + intercept)."""

    n_features_in_: int
    plan_: Plan
    posterior_samples_: np.ndarray
    released_: Bunch
    _column_names: Callable[[], np.ndarray]

    def posterior_interval(self, level: float = 0.9) -> np.ndarray:
        """Equal-tailed posterior intervals of the coefficients; they spend no budget.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        interval : ndarray of shape (1 or n_classes, n_features + fit_intercept, 2)
            Lower and upper ends, of one block for regressors, in the order of ``posterior_samples_``: columns
            first, the intercept last.

        Raises
        ------
        ValueError
            If ``level`` is out of range.

        Warns
        -----
        UserWarning
            If the posterior is not calibrated, as with chains under privacy.

        Notes
        -----
        If a fit kept fewer than 400 draws and released the posterior itself, 400 new draws are made for the
        interval, at no further cost and always the same ones.

        With more than two classes, the labels determine only differences between the coefficients of
        classes; what all classes have in common follows the prior. Each interval is therefore about as wide
        as the prior's. Use quantiles of differences instead, such as those of
        ``posterior_samples_[:, 1] - posterior_samples_[:, 0]``.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from skdpbayes import DPBayesianLogisticRegression
        >>> X, y = make_classification(5000, 4, n_redundant=0, n_informative=4, random_state=0)
        >>> clf = DPBayesianLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
        >>> clf.posterior_interval(0.9).shape
        (1, 5, 2)
        """
        check_is_fitted(self)
        return interval_ends(self, level, self.posterior_samples_)

    def summary(self, level: float = 0.9) -> pd.DataFrame:
        """Table of the coefficients: means, deviations, intervals, and what privacy adds to their width.

        Requires pandas. It spends no budget.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of the intervals.

        Returns
        -------
        table : pandas.DataFrame
            One row for each coefficient, indexed by the name of its column, or by (class, name) with more
            than two classes. The columns are ``mean``, ``sd``, the ends of the interval (named by their
            percentages), ``sd_without_privacy`` (an estimate from what was released), and
            ``share_of_privacy``, the share of the width that privacy adds. The last two are nan if the
            sampler releases nothing that tells them: of the draws of a chain, which noise tempers, nobody
            knows how wide they were without it. `coef_table` leaves them out.

        Raises
        ------
        ImportError
            If pandas is not installed.
        ValueError
            If ``level`` is out of range.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from skdpbayes import DPBayesianLogisticRegression
        >>> X, y = make_classification(5000, 4, n_redundant=0, n_informative=4, random_state=0)
        >>> clf = DPBayesianLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
        >>> list(clf.summary().columns)
        ['mean', 'sd', '5%', '95%', 'sd_without_privacy', 'share_of_privacy']
        >>> list(clf.summary().index)
        ['x0', 'x1', 'x2', 'x3', 'intercept']
        """
        required_pandas()
        interval = self.posterior_interval(level)
        draws = self.posterior_samples_
        without = self._deviations_without_privacy(draws.std(axis=0))
        flat = draws.reshape(len(draws), -1)
        index = self._coefficient_index()
        table = interval_table(flat, interval.reshape(-1, 2), without.ravel(), index, level)
        return with_notes(table, self.interval_notes())

    def diagnostics(self) -> pd.DataFrame:
        """Table of how well the draws of each coefficient are mixed: R-hat and effective sample sizes.

        Requires pandas. It spends no budget.

        Returns
        -------
        table : pandas.DataFrame
            One row for each coefficient, indexed as in `summary`. ``r_hat`` is split R-hat, near 1 where
            chains agree; ``effective_sample_size`` is how many independent draws the kept ones are worth. By
            default fifty chains draw; a single chain is compared with itself, half by half.

        Raises
        ------
        ImportError
            If pandas is not installed.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from skdpbayes import DPBayesianLogisticRegression
        >>> X, y = make_classification(5000, 4, n_redundant=0, n_informative=4, random_state=0)
        >>> clf = DPBayesianLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
        >>> table = clf.diagnostics()
        >>> bool((table["r_hat"] < 1.2).all()), bool((table["effective_sample_size"] > 40).all())
        (True, True)
        """
        pd = required_pandas()
        draws = self.posterior_samples_.reshape(len(self.posterior_samples_), -1)
        names = ("r_hat", "effective_sample_size")
        columns = {name: self.released_[name] for name in names if name in self.released_}
        columns = columns or dict(zip(names, chain_diagnostics(draws), strict=True))
        return pd.DataFrame(columns, index=self._coefficient_index())

    def coef_table(self, level: float = 0.9) -> pd.DataFrame:
        """Table of the coefficients to publish: means, deviations, intervals, and how sure their signs are.

        Requires pandas. It spends no budget.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of the intervals.

        Returns
        -------
        table : pandas.DataFrame
            Rows as of `summary`. The columns are ``mean``, ``sd``, the ends of the interval (named by their
            percentages), and ``P(> 0)``, the posterior probability that a coefficient is positive.

        Raises
        ------
        ImportError
            If pandas is not installed.
        ValueError
            If ``level`` is out of range.

        Warns
        -----
        UserWarning
            If the posterior is not calibrated, as with chains under privacy.

        See Also
        --------
        skdpbayes.inspection.odds_ratios : Ratios in place of coefficients.
        skdpbayes.inspection.raw_coefficients : In the units of the columns before scaling.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from skdpbayes import DPBayesianLogisticRegression
        >>> X, y = make_classification(5000, 4, n_redundant=0, n_informative=4, random_state=0)
        >>> clf = DPBayesianLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
        >>> list(clf.coef_table().columns)
        ['mean', 'sd', '5%', '95%', 'P(> 0)']
        """
        check_is_fitted(self)
        required_pandas()
        warn_unless_calibrated(self)
        draws = enough_draws(self)
        flat = draws.reshape(len(draws), -1)
        table = statement_table(flat, self._coefficient_index(), level)
        return with_notes(table, self.interval_notes())

    def interval_notes(self) -> tuple[str, ...]:
        """Notes on intervals: whose they are where that is not obvious, and which hold under a condition.

        Notes name columns of which noise hides how much they vary, say where slopes are not those of the mean
        or errors are skewed, and where counts follow no law that was tried. Most are conditions, of which
        nothing that was released tells whether they hold; what surely is wrong is warned of by a fit. Tables
        of intervals print them, and have them in ``attrs["notes"]``. They spend no budget.

        Returns
        -------
        notes : tuple of str
            None without privacy.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpbayes import DPBayesianLogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, (2000, 3)) * [1.0, 1.0, 0.1]
        >>> clf = DPBayesianLogisticRegression(epsilon=0.5, random_state=0).fit(X, X[:, 0] > 0)
        >>> print(*clf.interval_notes())
        noise hides how much x2 varies: intervals of numbers with a deviation below ...
        """
        check_is_fitted(self)
        columns = [NotedColumn(str(name)) for name in self._column_names()]
        return interval_notes(self.plan_, self.released_, columns)

    def _coefficient_index(self):
        """An index with one entry for each coefficient, by class with more than two."""
        names = append_intercept(self._column_names(), self.posterior_samples_.shape[2])
        labels = self._posterior_variables()[1].get("class", ())
        return coefficient_index(names, labels if len(labels) > 1 else None)

    def _deviations_without_privacy(self, deviations):
        """Estimate the deviations without privacy from what was released; nan if that is not possible."""
        if not self.plan_.budget.is_private:
            return deviations
        posterior = self.released_.get("posterior")
        if posterior is None:
            return np.full_like(deviations, np.nan)
        return (
            posterior.deviations_without_privacy().reshape(deviations.shape)
            * self.released_["coordinate_scale"]
        )

    def _posterior_variables(self):
        """({name: (draws of shape (n_draws, ...), their dimensions)}, {dimension: coordinates})."""
        draws, n_features = self.posterior_samples_, self.n_features_in_
        coords = {"feature": self._column_names()}
        blocks: tuple[str, ...] = ()
        if hasattr(self, "classes_"):
            # With two classes there is one block, for the second class.
            coords, blocks = {"class": self.classes_[-draws.shape[1] :], **coords}, ("class",)
        else:
            draws = draws[:, 0]
        dims: tuple[str, ...] = (*blocks, "feature")
        variables = {"coef": (draws[..., :n_features], dims)}
        if draws.shape[-1] > n_features:
            variables["intercept"] = (draws[..., -1], blocks)
        return variables, coords


def append_intercept(columns, length):
    """The names of coefficients: those of their columns, and of a constant if there is one more."""
    names = [str(name) for name in columns]
    if length == len(names):
        return names
    return [*names, "intercept" if "intercept" not in names else "intercept (constant)"]


def coefficient_index(names, labels=None):
    """An index of names, by class if there are labels; an ImportError without pandas."""
    pd = required_pandas()
    if labels is None:
        return pd.Index(names, name="coefficient")
    return pd.MultiIndex.from_product([labels, names], names=["class", "coefficient"])
