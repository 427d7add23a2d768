"""What a statistician says of coefficients: raw units, contrasts, and probabilities of statements.

    quantity of a draw -> median and quantiles over draws;  P(statement) = share of draws with it

Everything here is post-processing of what was released: it spends no budget.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .._checks import check_level
from .._estimator.coefficients import coefficient_index, with_constant
from .._estimator.intervals import median_table, required_pandas, statement_table
from .._typing import Label, RandomStateLike
from ._draws import blocks_of, coefficient_draws
from ._expressions import contrasted, true_where
from ._levels import without_doubt

if TYPE_CHECKING:
    import pandas as pd

# An expression in names of coefficients, or a function of a frame of draws.
Statement: TypeAlias = str | Callable[[Any], Any]


def raw_coefficients(
    estimator: Any,
    level: float = 0.9,
    *,
    reference_levels: Mapping[str, Label] | None = None,
    n_draws: int | None = None,
    random_state: RandomStateLike = 0,
) -> pd.DataFrame:
    """Table of the coefficients in the units of the columns before scaling: per year, per euro.

    Undoes scalers with public or released bounds (`BoundedScaler`, `DPQuantileScaler`, and scikit-learn's
    that were fitted on public rows). Indicators of an encoder stay as they are, and what other steps make
    of a column is a column of its own, such as ``binarizer(age)``. Applied to raw rows, these
    coefficients give the predictions of the pipeline, for rows within the bounds of the scalers and not
    longer than ``data_norm``: beyond these, predictions do not change, and straight lines do.

    Parameters
    ----------
    estimator : Pipeline or search
        Fitted; for an estimator, its own coefficients.
    level : float, default=0.9
        Posterior probability of the intervals.
    reference_levels : mapping of str to label, default=None
        As for `odds_ratios`. The intercept is then of rows with these levels.
    n_draws, random_state
        As for `coefficient_draws`.

    Returns
    -------
    table : pandas.DataFrame
        One row for each coefficient, by class with more than two classes. The columns are ``mean``, ``sd``,
        the ends of the interval and ``P(> 0)``.

    Raises
    ------
    ValueError
        If ``level`` is out of range, or if a step combines or bends columns that were scaled before it, so
        that there are no coefficients in raw units.
    TypeError
        If there are no coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpbayes import DPBayesianRidge
    >>> from skdpbayes.inspection import raw_coefficients
    >>> from skdpbayes.pipeline import make_private_pipeline
    >>> from skdpbayes.preprocessing import BoundedScaler
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.uniform(18, 90, 20_000)})
    >>> y = 30 + 0.5 * X["age"] + rng.normal(size=20_000)
    >>> model = DPBayesianRidge((30, 85), data_norm=1.0, random_state=0)
    >>> model = make_private_pipeline(BoundedScaler(18, 90), model).fit(X, y)
    >>> raw_coefficients(model)["mean"].round(1).to_dict()
    {'age': 0.5, 'intercept': 30...}
    """
    required_pandas()
    model, draws, columns, references = blocks_of(
        estimator, n_draws, random_state, True, reference_levels
    )
    labels = model.classes_ if draws.shape[1] > 1 else None
    index = coefficient_index(with_constant(columns, draws.shape[2]), labels)
    table = statement_table(np.reshape(draws, (len(draws), -1)), index, level)
    return without_doubt(table, references)


def contrasts(
    estimator: Any,
    contrasts: Any,
    level: float = 0.9,
    *,
    raw: bool = False,
    n_draws: int | None = None,
    random_state: RandomStateLike = 0,
) -> pd.DataFrame:
    """Table of contrasts: linear combinations of coefficients, or any function of them.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Fitted, with coefficients.
    contrasts : dict, str, list of str, DataFrame or array-like of shape (n_contrasts, n_coefficients)
        A dict has a name for each contrast, and as its value weights by coefficient, such as ``{"north": 1,
        "south": -1}``, an expression such as ``"north - south"``, or a function of a frame of draws. An
        expression alone is its own name. A data frame of pandas has a row of weights for each contrast, and
        the coefficients as columns. An array has weights for all coefficients, in the order of
        `coefficient_draws`.
    level, raw, n_draws, random_state
        As for `odds_ratios`.

    Returns
    -------
    table : pandas.DataFrame
        One row for each contrast. The columns are ``median``, the ends of the interval, ``P(> 0)``, and last
        ``mean`` and ``sd``, which need not mean anything for a ratio of coefficients.

    Raises
    ------
    ValueError
        If ``level`` is out of range, if a contrast names an unknown coefficient, if weights are no finite
        numbers, or if the index of a data frame has a name twice.
    TypeError
        If the estimator has no coefficients.

    Notes
    -----
    With more than two classes the coefficients are ``name[class]``; in an expression such names stand within
    backticks, as in ``"`age[bus]` - `age[car]`"``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.inspection import contrasts
    >>> X, y = make_classification(5000, 4, n_redundant=0, n_informative=4, random_state=0)
    >>> clf = DPBayesianLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
    >>> table = contrasts(clf, {"difference": {"x0": 1, "x1": -1}, "again": "x0 - x1"})
    >>> bool(table.loc["difference", "mean"] == table.loc["again", "mean"])
    True
    """
    check_level(level)
    draws = coefficient_draws(estimator, n_draws, random_state, raw=raw)
    found = contrasted(contrasts, draws)
    pd = required_pandas()
    index = pd.Index(list(found), name="contrast")
    return median_table(np.column_stack(list(found.values())), index, level)


def probability(
    estimator: Any,
    statement: Statement | Sequence[Statement] | Mapping[Hashable, Statement],
    *,
    raw: bool = False,
    n_draws: int | None = None,
    random_state: RandomStateLike = 0,
) -> Any:
    """Return the posterior probability of a statement about the coefficients, one-sided or joint.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Fitted, with coefficients.
    statement : str, callable, or several of these
        Such as ``"age > 0 and income < 0"``: an expression that `pandas.DataFrame.eval` understands, in the
        names of `coefficient_draws`, or a function of that frame that returns a truth value for each draw. A
        joint statement is one statement. A list or dict has several, each by itself.
    raw, n_draws, random_state
        As for `odds_ratios`. Among ``n`` draws, a probability is known to about ``1 / sqrt(4 n)``: ask for
        10,000 where new draws are free.

    Returns
    -------
    probability : float, or pandas.Series with one for each statement

    Raises
    ------
    ValueError
        If a statement names an unknown coefficient, or is not true or false of each draw.
    TypeError
        If the estimator has no coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.inspection import probability
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.uniform(-1, 1, (20_000, 2)), columns=["dose", "age"])
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(X["age"] - X["dose"]))
    >>> clf = DPBayesianLogisticRegression(random_state=0).fit(X, y)
    >>> probability(clf, "dose > 0 and age < 0", n_draws=10_000)
    1.0
    """
    draws = coefficient_draws(estimator, n_draws, random_state, raw=raw)
    if isinstance(statement, str) or callable(statement):
        return float(np.mean(true_where(statement, draws)))
    if not isinstance(statement, Mapping):
        statement = {getattr(one, "__name__", str(one)): one for one in statement}
    pd = required_pandas()
    shares = {name: float(np.mean(true_where(one, draws))) for name, one in statement.items()}
    return pd.Series(shares, name="probability")
