"""Random search with private selection, by Papernot and Steinke ("Hyperparameter tuning with Rényi
differential privacy", ICLR 2022), accounted for by Koskela, Redberg and Wang ("Privacy profiles for
private selection", ICML 2024).

    K ~ truncated negative binomial;   run k = 1..K:  candidate ~ param_distributions,
                                       fit on one part of the rows, score on the other with noise
    release the run with the best score, and nothing else

The split of the rows, the number of runs and the candidates do not depend on the contents of the rows. Where
persons are protected, they are split, each with all their rows.
"""

from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import _num_samples

from .._checks import RANDOM_STATE, Interval, check_sizes, table_shape
from .._inputs import plain, unless_harmless, unquoted
from .._mechanisms.number_of_runs import draw_number
from .._tables.order import refuse_columns_in_other_order
from .._tables.persons import count_persons
from .._typing import MatrixLike, RandomStateLike, Relation
from ..exceptions import PrivacyWarning, SeedWarning
from ..metrics import PrivateScorer, make_private_scorer
from ..metrics._exposure import fit_params, to_last_step
from ..metrics._make_scorer import NAMED
from ..privacy.budget import Budget, default_delta
from ..privacy.cost import NEIGHBORING_RELATIONS
from ..privacy.deferred_warnings import ignored_warnings, take_warnings, warn, warns_last
from ..privacy.loss_distributions import between_persons
from ..privacy.release import keep_spent
from ..privacy.reserve import reserve
from ..privacy.vouchers import vouchers
from ..random import announce_seed, has_seeds, private_generator
from ._best import BestEstimatorMixin
from ._candidates import (
    check_candidate,
    draw_candidate,
    draws_seeds,
    expected_size,
    is_private_pipeline,
    limits_of,
    most_rows_of,
    not_gaussian,
    persons_of,
    refuse_collections,
    refuse_unless_covered,
    spender,
)
from ._plan import SelectionPlan, plan_selection
from ._total import final_step, fit_cost


class DPRandomizedSearchCV(BestEstimatorMixin, MetaEstimatorMixin, BaseEstimator):
    """Random search with a private choice: the best of a random number of candidates.

    The rows are split once. Every candidate is fitted on one part and scored with noise on the other. Only
    the best one is released, as it was fitted; the other scores and the number of candidates stay hidden.
    This costs little more than a single fit, however many candidates there are.

    Parameters
    ----------
    estimator : estimator
        A private estimator of the package, or a pipeline that ends in one and whose other steps spend
        nothing. The search sets its ``epsilon`` and ``delta``. Where the costs of all candidates are
        Gaussian, as those of linear models are, each fit gets most of the budget. Where some are not, as
        those of networks, random walks and samplers with batches, or in a `PrivatePipeline`, whatever its
        steps spend, all get an epsilon and a delta, which every cost has, and less of the budget: the plan
        says how much.
    param_distributions : dict or list of dict
        As for scikit-learn's `RandomizedSearchCV`: lists, or distributions with ``rvs``. They are public;
        candidates are drawn from them independently.
    epsilon : float, default=1.0
        Upper limit of the privacy loss of the whole search.
    delta : float, default=None
        In (0, 1), for the whole search; None is ``min(1e-5, 1 / (10 n))``.
    mean_candidates : float, default=10.0
        Expected number of candidates.
    shape : float, default=1.0
        Shape of the distribution of their number: 1 is geometric; 0 is logarithmic, which is slightly cheaper
        but often gives a single candidate; ``inf`` is Poisson, which stays close to the mean and costs most.
    scoring : str, PrivateScorer or None, default=None
        A name that `make_private_scorer` knows, or a scorer made by it, whose epsilon is replaced. None is
        "accuracy" for classifiers, "r2" for numbers, and "neg_mean_poisson_deviance" for counts.
    test_size : float, default=0.25
        Share of the rows that are held out for scoring.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Must be that of the estimator, too. Under "add_or_remove_one" each row is assigned to one of the parts
        independently, ``delta`` is required, and the estimator's ``public_size`` is for the part to fit on.
        With ``max_rows_per_group`` of the estimator, and ``fit(X, y, groups=...)``, the same between persons.
    random_state : None, int, RandomState instance or Generator, default=None
        None uses cryptographic randomness. A known or repeated seed voids the guarantee, and also fixes
        the random states of candidates.

    Attributes
    ----------
    best_estimator_ : estimator
        The chosen candidate, as fitted in the search. The cost that it reports is that of its own fit only.
    best_params_ : dict
        Parameters of the chosen candidate.
    best_score_ : float
        Its noisy score. If it is no better than guessing, there were few or bad candidates. As the largest of
        several scores it is too optimistic on average; score other rows for an unbiased one.
    best_index_ : int
        Always 0, because there is one row of results.
    cv_results_ : dict of arrays
        ``params``, ``mean_test_score`` and ``rank_test_score`` of the chosen candidate only.
    scorer_ : PrivateScorer
        The scorer that was used, with the epsilon of one score.
    spent_epsilon_, spent_delta_ : float
        Cost of the search.
    privacy_cost_ : PrivacyCost
        The cost itself; it converts to any (epsilon, delta) and composes with ``+``.
    plan_ : SelectionPlan
        What the fit did; printing it gives a readable summary.
    classes_, n_features_in_
        Those of the best estimator.

    Warns
    -----
    PrivacyWarning
        If the plan says that selection does not pay.

    Notes
    -----
    Candidates that fail count as the worst. Warnings of single runs are not shown, because they would reveal
    the number of runs. The time that a search takes does so, too.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import make_classification
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.model_selection import DPRandomizedSearchCV
    >>> X, y = make_classification(5000, 8, random_state=0)
    >>> search = DPRandomizedSearchCV(
    ...     DPBayesianLogisticRegression(classes=[0, 1]),
    ...     {"data_norm": loguniform(0.3, 30.0)},
    ...     mean_candidates=4.0,
    ...     epsilon=2.0,
    ...     random_state=0,
    ... ).fit(X, y)
    >>> search.spent_epsilon_ <= 2.0, list(search.best_params_)
    (True, ['data_norm'])
    >>> search.predict(X[:3]).shape
    (3,)
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit"])],
        "param_distributions": [dict, list],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "delta": [None, Interval(Real, 0, 1, closed="neither")],
        "mean_candidates": [Interval(Real, 1, 10_000, closed="both")],
        "shape": [Interval(Real, 0, None, closed="both")],
        "scoring": [StrOptions(set(NAMED)), PrivateScorer, None],
        "test_size": [Interval(Real, 0, 1, closed="neither")],
        "neighboring_relation": [StrOptions(set(NEIGHBORING_RELATIONS))],
        "random_state": RANDOM_STATE,
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        param_distributions: dict[str, Any] | list[dict[str, Any]],
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        mean_candidates: float = 10.0,
        shape: float = 1.0,
        scoring: str | PrivateScorer | None = None,
        test_size: float = 0.25,
        neighboring_relation: Relation = "replace_one",
        random_state: RandomStateLike = None,
    ):
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.delta = delta
        self.mean_candidates = mean_candidates
        self.shape = shape
        self.scoring = scoring
        self.test_size = test_size
        self.neighboring_relation = neighboring_relation
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags = own.classifier_tags
        tags.target_tags = own.target_tags
        tags.input_tags.sparse = own.input_tags.sparse
        return tags

    def privacy_plan(self, n_samples: int) -> SelectionPlan:
        """Return what a search would do and cost, without any data.

        Parameters
        ----------
        n_samples : int
            Number of rows, which must be public; of persons, if the estimator has ``max_rows_per_group``.

        Returns
        -------
        plan : SelectionPlan
            Printing it shows the budget of a single fit, and whether selection can pay.

        Raises
        ------
        ValueError
            If a parameter is invalid, the budget too small, or the estimator not private.

        Examples
        --------
        >>> from skdpbayes import DPBayesianLogisticRegression
        >>> from skdpbayes.model_selection import DPRandomizedSearchCV
        >>> search = DPRandomizedSearchCV(DPBayesianLogisticRegression(), {"data_norm": [1, 3]}, delta=1e-5)
        >>> plan = search.privacy_plan(20_000)
        >>> print(f"{plan.fit_epsilon:.2f} {plan.score_epsilon:.2f} {plan.score_error:.3f}")
        0.60 0.38 0.007
        """
        self._validate_params()
        check_sizes(n_samples=n_samples)
        protects_persons = bool(limits_of(self))
        if self.delta is None and self.neighboring_relation == "add_or_remove_one":
            raise ValueError(
                "neighboring_relation='add_or_remove_one' keeps the number of rows private, and the default "
                "delta depends on it: set delta to a number."
            )
        n_test = round(n_samples * self.test_size)
        if not 1 <= n_test < n_samples:
            raise ValueError(
                f"test_size={self.test_size} of {n_samples} rows leaves no row to fit on, or none to score: "
                "choose another test_size."
            )
        delta = default_delta(n_samples) if self.delta is None else float(self.delta)
        relation = self.neighboring_relation
        relation = between_persons(relation) if protects_persons else relation
        budget = Budget(float(self.epsilon), delta, relation).checked(persons=True)
        law = float(self.mean_candidates), float(self.shape)
        n_train = n_samples - n_test
        whole = is_private_pipeline(self.estimator)
        other = type(self.estimator).__name__ if whole else not_gaussian(self, n_train)
        plan = plan_selection(budget, *law, n_train, n_test, not other)
        return replace(plan, max_rows=most_rows_of(self), not_gaussian=other)

    @warns_last
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Draw candidates, fit and score them, and keep the best.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            Labels.
        exposure : array-like of shape (n_samples,), default=None
            How long, or how many, each row was exposed, for estimators of rates such as
            `DPBayesianPoissonRegressor`. It is split as the rows are: candidates are fitted with it, and
            their expected counts are scored. Positive, and as private as the rows.
        groups : array-like of shape (n_samples,), default=None
            The person each row belongs to; required with ``max_rows_per_group`` of the estimator. A person
            with all their rows is either fitted on or scored, and scores count each person once.

        Returns
        -------
        self : DPRandomizedSearchCV

        Raises
        ------
        ValueError, TypeError, AttributeError
            If a parameter, the rows or the labels are invalid for a candidate that was drawn, if it does not
            have the score, if the candidate or the score does not know an exposure that is given, or if the
            plan does not cover its cost. Nothing is spent.
        BudgetExceededError
            If an active `PrivacyLedger` does not allow the plan. Nothing is spent.
        RuntimeError
            If all candidates fail all the same; the plan is spent.
        """
        refuse_collections(X, y)
        told = unless_harmless("X must be a table and y a column, with one label for each row.")
        given = plain(X, "X"), plain(y, "y"), plain(exposure, "exposure")
        refuse_columns_in_other_order(X=X, y=y, exposure=exposure)
        X, y, exposure = unquoted(indexable, *given, told=told)
        table_shape(X)
        self._validate_params()
        persons = persons_of(self, groups, X, y)
        n_samples = _num_samples(X) if persons is None else count_persons(persons)
        replaces = self.neighboring_relation == "replace_one"
        plan = self.privacy_plan(n_samples if replaces else expected_size(self))
        generator = private_generator(self.random_state)
        scorer = self._private_scorer(plan, generator)
        number = draw_number(generator, plan.mean_candidates, plan.shape)  # Proposition 43.
        with ignored_warnings():  # Those of candidates could be counted.
            # Proposition 43.
            candidates = [draw_candidate(self, plan, generator) for _ in range(number)]
        seeded = has_seeds(self) or any(has_seeds(candidate) for _, candidate in candidates)
        if self.random_state is None and seeded:
            announce_seed()
        parts = self._parts(n_samples, plan, generator, persons)
        with ignored_warnings(), to_last_step():
            for _, candidate in candidates:
                check_candidate(candidate, plan, self._scorer(), X, y, parts, exposure, persons)
        for text in plan.warnings:
            warn(text, PrivacyWarning)
        reservations = reserve(plan, self)
        try:
            table = X, y, exposure, persons
            best = self._best_of(candidates, scorer, table, parts, plan, generator)
        except BaseException:
            reservations.close("failed")
            raise
        del candidates
        failed = best[0][0] == -np.inf
        reservations.close("failed" if failed else "completed")
        if failed:
            raise RuntimeError(
                "every candidate failed, and the plan is spent, although parameters, rows, labels and "
                "scoring were found valid. The reason is not shown, because an error may quote rows: to find "
                "it, fit the estimator on synthetic rows."
            )
        self._keep(best, scorer)
        keep_spent(self, plan)
        # What the best one says is a function of what is released of it.
        for text, category in take_warnings(spender(self.best_estimator_)):
            if category is not SeedWarning:  # Seeds were announced before the charge.
                warn(f"best_estimator_: {text}", category)
        return self

    def _best_of(self, candidates, scorer, table, parts, plan, generator):
        """Return the ((score, tie-breaker), parameters, fitted estimator) of the best candidate."""
        train, test = (
            [None if one is None else _safe_indexing(one, rows) for one in table] for rows in parts
        )
        best = None
        for params, candidate in candidates:
            score = self._run(candidate, scorer, train, test, plan)
            # Ties are broken at random, also among failed candidates.
            rank = score, generator.random()  # Proposition 43.
            if best is None or rank > best[0]:
                best = rank, params, candidate
        return best

    def _has_seeds(self):
        """Tell whether the search has a seed, or candidates may have one; `has_seeds` asks the rest."""
        return self.random_state is not None or draws_seeds(self.param_distributions)

    def _private_scorer(self, plan, generator):
        options = {"epsilon": plan.score_epsilon, "delta": None}
        if self.random_state is not None:
            # Public: the search has a seed, too.
            options["random_state"] = RandomState(generator.integers(2**32, size=4))
        return self._scorer().with_options(**options)

    def _scorer(self):
        """Return the scorer before the search has set its epsilon."""
        relation = self.neighboring_relation
        if not isinstance(self.scoring, PrivateScorer):
            own = getattr(final_step(self.estimator), "_search_score", "accuracy")
            name = self.scoring or own
            return make_private_scorer(name, epsilon=1.0, neighboring_relation=relation)
        if self.scoring.neighboring_relation != relation:
            raise ValueError("scoring and the search differ in neighboring_relation: change one.")
        return self.scoring

    def _parts(self, n_samples, plan, generator, persons):
        """Return the rows to fit on and the rows to score on, of ``n_samples`` rows or persons."""
        if self.neighboring_relation == "replace_one":
            tests = np.zeros(n_samples, dtype=bool)
            tests[generator.permutation(n_samples)[plan.n_train :]] = True  # Proposition 43.
        else:
            tests = generator.random(n_samples) < self.test_size  # Proposition 43.
        tests = tests if persons is None else tests[persons]
        return np.flatnonzero(~tests), np.flatnonzero(tests)

    def _run(self, candidate, scorer, train, test, plan):
        """Fit and score one candidate, and return its score, or -inf if it fails.

        ``train`` and ``test`` are (rows, labels, exposures, persons).
        """
        fit, score = plan.costs_of_run
        told = {"exposure": test[2], "groups": test[3]}
        told = {name: one for name, one in told.items() if one is not None}
        with (
            vouchers([(spender(candidate), fit), (scorer, score)]),
            ignored_warnings(),
            to_last_step(),
        ):
            try:
                candidate.fit(*train[:2], **fit_params(candidate, *train[2:]))
                score = float(scorer(candidate, *test[:2], **told))
            except Exception:
                return -np.inf
        refuse_unless_covered(fit_cost(candidate), plan, spender(candidate))
        return score
