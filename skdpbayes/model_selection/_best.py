"""What a fitted search passes on to the estimator that it chose."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._typing import MatrixLike
from ..metrics import PrivateScorer
from ..metrics._exposure import last_step, respond
from ..pipeline._account import steps_within, unprotected_by
from ..pipeline._leaks import leaks
from ..privacy.facts import About, Fact, as_json
from ..privacy.report import of_estimator, with_seeds

# What reports call a parameter.
_FACTS = {
    "data_norm": "longest row",
    "target_bounds": "range of responses",
    "max_count": "largest count",
    "clip_norm": "longest gradient of a row",
}


def _best_has(name):
    def check(search):
        fitted = hasattr(search, "best_estimator_")
        getattr(search.best_estimator_ if fitted else search.estimator, name)
        return True

    return check


def _delegated(name, what):
    @available_if(_best_has(name))
    def method(self, X):
        check_is_fitted(self)
        return getattr(self.best_estimator_, name)(X)

    method.__name__ = name
    method.__doc__ = f"""{what} of the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        values : ndarray
        """
    return method


class BestEstimatorMixin:
    """Predictions and scores of ``best_estimator_``, at no cost but that of a score."""

    best_estimator_: Any
    scorer_: PrivateScorer

    def _keep(self, best, scorer):
        """Keep what is released of the best ((score, tie-breaker), parameters, fitted estimator)."""
        (score, _), self.best_params_, self.best_estimator_ = best
        self.best_score_, self.best_index_, self.scorer_ = score, 0, scorer
        self.cv_results_ = {
            "params": [self.best_params_],
            "mean_test_score": np.array([score]),
            "rank_test_score": np.array([1], dtype=np.int32),
        }

    def _privacy_account(self):
        if not hasattr(self, "plan_"):
            raise NotFittedError(
                "this search is not fitted: fit it, or report its plan, "
                "privacy_report(search.privacy_plan(n_samples))."
            )
        account = of_estimator(self, "search")
        best = self.best_estimator_
        if not account.seeds:
            account = with_seeds(account, best)
        account = account._replace(unprotected=unprotected_by([best]))
        if not isinstance(best, Pipeline):
            return account
        warnings = (*account.warnings, *leaks(best))
        steps = (*steps_within(best, self.plan_.n_samples), *account.steps)
        return account._replace(steps=steps, warnings=warnings)

    def _about(self):
        if not hasattr(self, "best_params_"):
            return About()
        chosen = {name.rpartition("__")[2]: value for name, value in self.best_params_.items()}
        facts = [Fact(f"chosen {name}", as_json(value), "learnt") for name, value in chosen.items()]
        last = getattr(last_step(self.best_estimator_), "_about", About)()
        of_choices = {_FACTS[name] for name in chosen if name in _FACTS}
        return About((*facts, *(one for one in last.facts if one.what not in of_choices)))

    @property
    def classes_(self) -> np.ndarray:
        """Class labels of the best estimator."""
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of columns that the best estimator saw in `fit`."""
        return self.best_estimator_.n_features_in_

    @property
    def _is_exposed(self):
        return getattr(last_step(self.best_estimator_), "_is_exposed", False)

    @available_if(_best_has("predict"))
    def predict(self, X: MatrixLike, exposure: ArrayLike | None = None) -> np.ndarray:
        """Predictions of the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        exposure : array-like of shape (n_samples,), default=None
            Of the rows, for estimators whose predictions take it.

        Returns
        -------
        values : ndarray
        """
        check_is_fitted(self)
        return respond(self.best_estimator_, "predict", X, exposure)

    predict_proba = _delegated("predict_proba", "Probabilities of the classes")
    predict_log_proba = _delegated("predict_log_proba", "Log of the probabilities of the classes")
    decision_function = _delegated("decision_function", "Scores")
    score_samples = _delegated("score_samples", "Log densities")

    def score(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """Noisy score of the best estimator on other rows, on which it spends ``scorer_.epsilon``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        exposure : array-like of shape (n_samples,), default=None
            Of the rows; required if the search was given exposures.
        groups : array-like of shape (n_samples,), default=None
            The person each row belongs to, for a score that protects persons.

        Returns
        -------
        score : float
        """
        check_is_fitted(self)
        return self.scorer_(self.best_estimator_, X, y, exposure=exposure, groups=groups)
