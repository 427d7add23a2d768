"""What estimators of linear models share: the model, a fit, formulas, and tables of coefficients.

validate -> LinearModel -> plan of its bounds -> draws from its target -> means, intervals

A formula with public levels and bounds becomes a pipeline, in one budget:

formula -> FormulaEncoder -> model with data_norm = sqrt(number of terms)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._arguments import Interval
from .._data.read import read_table
from .._data.table import weight_warnings
from .._estimator.base import POSTERIOR_CONSTRAINTS, PrivatePosterior
from .._estimator.fit import fit_posterior
from .._estimator.model_checks import (
    NotedColumn,
    interval_notes,
    low_ess_warnings,
    model_checks,
)
from .._estimator.posterior import CoefficientPosterior
from .._estimator.summaries import required_pandas, with_notes
from .._typing import MatrixLike
from ..exceptions import DataScalingWarning
from ..models.linear import LinearModel
from ..privacy.deferred_warnings import warn, warns_last
from ..privacy.planned_release import Disclosure, as_json

if TYPE_CHECKING:
    import pandas as pd

    from ..pipeline import FormulaPipeline

LINEAR_CONSTRAINTS = {
    **POSTERIOR_CONSTRAINTS,
    "prior_scale": [None, Interval(Real, 0, None, closed="neither")],
    "intercept_prior_scale": [None, Interval(Real, 0, None, closed="neither")],
    "fit_intercept": ["boolean"],
    "intercept_scaling": [None, Interval(Real, 0, None, closed="neither")],
    "max_sample_weight": [Interval(Real, 1e-9, 1e9, closed="both")],
}


# What belongs to the whole pipeline.
_PIPELINE_PARAMETERS = (
    *("epsilon", "delta", "max_rows_per_group"),
    *("learns_nothing", "memory", "shares", "strict"),
)
# What belongs to the fit, by names that it has elsewhere, too.
_FIT_PARAMETERS = {
    **dict.fromkeys(("data", "df"), "fit(data)"),
    **dict.fromkeys(
        ("weights", "freq_weights", "var_weights", "sample_weight"),
        "fit(data, model__sample_weight=...)",
    ),
    "exposure": "fit(data, model__exposure=...)",
    "offset": "fit(data, model__exposure=np.exp(offset))",
    "groups": "fit(data, groups=...)",
}


class LinearPosterior(PrivatePosterior):
    """For private posteriors with ``_family(*sizes)`` and ``_largest_weight(max_sample_weight, *sizes)``.

    ``sizes`` is the number of classes of a classifier, and nothing otherwise.
    """

    coef_: np.ndarray
    fit_intercept: bool
    intercept_: Any
    max_sample_weight: float
    _reads_collections = True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Under a finite budget, little can be learnt from the tiny tables of scikit-learn's checks.
        (tags.classifier_tags or tags.regressor_tags).poor_score = self.epsilon != np.inf
        tags.input_tags.sparse = True
        return tags

    def _facts(self):
        yield from super()._facts()
        if hasattr(self, "plan_") and self.plan_.bounds.max_weight is not None:
            source = "default" if self.max_sample_weight == 1 else "declared"
            yield Disclosure("largest weight of a row", as_json(self.max_sample_weight), source)

    @classmethod
    def from_formula(
        cls,
        formula: str,
        *,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        levels: Mapping[str, Sequence[Any]] | None = None,
        **params: Any,
    ) -> FormulaPipeline:
        """A model of a formula, to be fitted to a data frame.

        Requires the extra ``formulas``. Levels and bounds are public: they are part of the formula, and must
        not come from the rows. See `skdpbayes.preprocessing.FormulaEncoder` for what a formula may contain.

        Parameters
        ----------
        formula : str
            Such as ``"y ~ C(region, levels=['north', 'south']) + bounded(age, 18, 90) * income"``.
            ``- 1`` leaves out the intercept, if all bounds are around 0 and no levels have a reference.
        bounds : mapping of str to (float, float), default=None
            Public bounds of columns that are named in the formula.
        levels : mapping of str to sequence, default=None
            Public levels of columns that are named in the formula.
        **params
            Parameters of the estimator, such as ``epsilon``, and of the pipeline, such as ``strict``. By
            default ``data_norm`` is the square root of the number of terms, and no row is longer.

        Returns
        -------
        model : FormulaPipeline
            Its ``fit`` takes a data frame with all columns and the response, its ``predict`` one without the
            response. Its steps are ``formula`` and ``model``. In searches and scores of scikit-learn, pass
            the response, too, as in ``fit(d, d["y"])``, because scorers need it.

        Raises
        ------
        ImportError
            If formulaic is not installed.
        ValueError, TypeError
            If the formula is not understood, has a transform that depends on other rows, or names a column
            that is not declared.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skdpbayes import DPBayesianRidge
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"age": rng.uniform(18, 90, 20_000)})
        >>> people["hours"] = 10 + 0.3 * people["age"] + rng.normal(size=20_000)
        >>> model = DPBayesianRidge.from_formula(
        ...     "hours ~ bounded(age, 18, 90)", target_bounds=(0, 50), random_state=0
        ... ).fit(people)
        >>> [round(value) for value in model.predict(pd.DataFrame({"age": [20, 80]}))]
        [16, 34]
        """
        # A fifth of what the package would take to import.
        from ..pipeline import FormulaPipeline
        from ..preprocessing import FormulaEncoder
        from ..preprocessing.formula import parsed

        response, _, constant = parsed(formula)
        if response is None:
            raise ValueError(f"formula={formula!r} names no response: write it as 'y ~ ...'.")
        for name in sorted(_FIT_PARAMETERS.keys() & params.keys()):
            raise TypeError(
                f"{name} is not of the model, which needs no table, but of its fit: "
                f"from_formula(...).{_FIT_PARAMETERS[name]}."
            )
        encoder = FormulaEncoder(formula, bounds=bounds, levels=levels)
        if response in encoder.columns:
            raise ValueError(
                f"formula={formula!r} has the response among its terms, which would predict itself: leave "
                "it out there."
            )
        encoder._check_constant(constant)
        outer = {name: params.pop(name) for name in _PIPELINE_PARAMETERS if name in params}
        defaults = {"data_norm": encoder.norm, "fit_intercept": constant}
        model = cls(**{**defaults, **params})
        return FormulaPipeline([("formula", encoder), ("model", model)], response=response, **outer)

    # From public quantities

    def _model(self, n_features, *sizes, max_sample_weight=None):
        """The `LinearModel`; weights have a maximum if they are passed."""
        constant: Literal["short", "equal"] | float = "short"
        if self._sampler().wants_equal_precisions:
            constant = "equal"
        if not self.fit_intercept:
            constant = 0.0
        elif self.intercept_scaling is not None:
            constant = float(self.intercept_scaling)
        return LinearModel(
            family=self._family(*sizes),
            n_features=n_features,
            norm=self._clip_norm(n_features),
            prior_scale=self.prior_scale,
            intercept_prior_scale=self.intercept_prior_scale,
            constant=constant,
            max_weight=self._largest_weight(max_sample_weight, *sizes),
        )

    # From the table

    def _read(self, X, y=None, sample_weight=None, groups=None, client=None, **options):
        self._validate_params()
        return read_table(self, X, y, sample_weight, groups, client, **options)

    @warns_last
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        client: Any = None,
    ) -> Self:
        """Draw from the posterior, within the budget.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)
            Rows longer than ``data_norm`` are clipped to it. CSR stays sparse, float32 stays float32, and a
            memory-mapped array is read in place.
        y : array-like of shape (n_samples,)
            Labels of a classifier, responses of a regressor.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, from 0 to ``max_sample_weight``; as private as the rows. A weight may depend
            on its own row and on public numbers only.
        groups : array-like of shape (n_samples,), default=None
            The person each row belongs to; required with ``max_rows_per_group``.
        client : distributed.Client or None, default=None
            Dask client for collections. None uses the current client, or this process if there is none.

        Returns
        -------
        self : estimator
            Fitted.

        Raises
        ------
        ValueError
            If a parameter or the table is invalid, or if the options contradict each other. Nothing
            is spent.
        BudgetExceededError
            If an active `PrivacyLedger` does not allow the plan. Nothing is spent.
        """
        self._fit(X, y, sample_weight, groups, client)
        return self

    def _fit(self, X, y, sample_weight, groups, client, **options):
        """Do what `fit` does, and return `Diagnostics`; ``options`` are for `read_table`."""
        largest = None if sample_weight is None else float(self.max_sample_weight)

        def model_of(table):
            return self._model(table.n_features, *table.sizes, max_sample_weight=largest)

        reading = self._read(X, y, sample_weight, groups, client, **options)
        of_classes = getattr(self, "class_weight", None)
        if sample_weight is not None or of_classes is not None:
            for text in weight_warnings(of_classes, sample_weight, largest):
                warn(text, DataScalingWarning)
        model, draws, classes, diagnostics = fit_posterior(self, reading, model_of)
        warnings = low_ess_warnings(draws, self.plan_)
        warnings += model_checks(draws, model, self.plan_, diagnostics, self._column_names())
        for text, category in warnings:
            warn(text, category)
        self.data_norm_ = model.norm
        self.posterior_samples_ = draws = draws + self._origin()
        mean = draws.mean(axis=0)
        coefficients = mean[:, : model.n_features].copy()
        intercept = mean[:, -1].copy() if self.fit_intercept else np.zeros(len(mean))
        if classes is None:
            coefficients, intercept = coefficients[0], float(intercept[0])
        else:
            self.classes_ = classes
        self.coef_, self.intercept_ = coefficients, intercept
        return diagnostics

    # From the draws

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
        return self._posterior.interval(level)

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
            release does not determine them, as with a chain, or if classes are nearly separated.
            `coef_table` leaves them out. Do not trust them for columns of which a note says that noise hides
            how much they vary, where they may be off by a factor of 2 or 3. Of other indicators that few rows
            have, the estimate is mostly too large, by 10% to 30% for labels and by half for numbers and
            counts; of levels that no row has it is too small.

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
        return with_notes(self._posterior.summary(level), self.interval_notes())

    def diagnostics(self) -> pd.DataFrame:
        """Table of R-hat and the effective sample size of each coefficient: have the chains converged?

        Requires pandas. It spends no budget.

        Returns
        -------
        table : pandas.DataFrame
            One row for each coefficient, indexed as in `summary`. ``r_hat`` is split R-hat, near 1 if the
            chains agree; ``effective_sample_size`` is the number of independent draws with the same
            accuracy. By default there are fifty chains; of a single chain the halves are compared.

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
        required_pandas()
        return self._posterior.mixing()

    def coef_table(self, level: float = 0.9) -> pd.DataFrame:
        """Table of the coefficients to publish: means, deviations, intervals, and probabilities of signs.

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
        return with_notes(self._posterior.statements(level), self.interval_notes())

    def interval_notes(self) -> tuple[str, ...]:
        """Conditions under which intervals cover, to be judged and published with a table of intervals.

        Notes name columns whose variation noise hides, columns that others nearly repeat, and those whose
        intervals noise makes over twice as wide as they would be without it. They say if slopes are those of
        the centre of responses and not of the mean, if errors are skewed, and if counts fit no distribution
        that was tried. The release does not show whether a condition holds: judge by what you know of the
        columns. A fit warns of what is clearly wrong. Tables of intervals print the notes, and have them in
        ``attrs["notes"]``. They spend no budget.

        Returns
        -------
        notes : tuple of str
            Without privacy at most the note on columns that others nearly repeat.

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
        return self._notes_on(map(NotedColumn, map(str, self._column_names())))

    def _notes_on(self, columns: Iterable[NotedColumn]) -> tuple[str, ...]:
        """Notes on intervals, in which columns are called as they are where the notes are read."""
        return interval_notes(self.plan_, self._diagnostics, list(columns), self._posterior)

    def _drawn_posterior(self, **shared):
        classes = getattr(self, "classes_", None)
        return CoefficientPosterior(**shared, origin=self._origin(), classes=classes)
