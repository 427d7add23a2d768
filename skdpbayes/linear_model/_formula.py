"""Linear models from formulas with public levels and bounds.

formula -> FormulaEncoder -> model with data_norm = sqrt(number of terms), all in one budget
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..pipeline import FormulaPipeline

# What belongs to the whole pipeline.
_PIPELINE_PARAMETERS = (
    *("epsilon", "delta", "max_rows_per_group"),
    *("learns_nothing", "memory", "shares", "strict"),
)
# What belongs to the fit, by names that it has elsewhere, too.
_FIT_PARAMETERS = {
    **dict.fromkeys(("data", "df"), "fit(data)"),
    **dict.fromkeys(("weights", "sample_weight"), "fit(data, model__sample_weight=...)"),
    **dict.fromkeys(("exposure", "offset"), "fit(data, model__exposure=...)"),
    "groups": "fit(data, groups=...)",
}


class FromFormulaMixin:
    """For estimators of linear models."""

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

        Requires the extra ``formulas``. Levels and bounds are public: they are part of the formula, and not
        learnt from the rows. See `skdpbayes.preprocessing.FormulaEncoder` for what a formula may contain.

        Parameters
        ----------
        formula : str
            Such as ``"y ~ C(region, levels=['north', 'south']) + bounded(age, 18, 90) + age:income"``.
            ``- 1`` leaves out the intercept.
        bounds : mapping of str to (float, float), default=None
            Public bounds of columns that are named in the formula.
        levels : mapping of str to sequence, default=None
            Public levels of columns that are named in the formula.
        **params
            Parameters of the estimator, such as ``epsilon``, and of the pipeline, such as ``strict``. By
            default ``data_norm`` is the square root of
            the number of terms, and no row is longer.

        Returns
        -------
        model : FormulaPipeline
            Its ``fit`` takes a data frame with all columns, the response among them, its ``predict`` one
            without the response. Its steps are ``formula`` and ``model``. In searches and scores of
            scikit-learn, pass the response, too, as in ``fit(d, d["y"])``: its scorers get none otherwise.

        Raises
        ------
        ImportError
            If formulaic is not installed.
        ValueError, TypeError
            If the formula is not understood, looks at other rows, or names a column that is not declared.

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
        outer = {name: params.pop(name) for name in _PIPELINE_PARAMETERS if name in params}
        defaults = {"data_norm": encoder.norm, "fit_intercept": constant}
        model = cls(**{**defaults, **params})
        return FormulaPipeline([("formula", encoder), ("model", model)], response=response, **outer)
