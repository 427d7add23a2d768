"""What the private classifiers share: plans without data, and predictions averaged over draws.

p(y | x, data) = mean over draws of p(y | x, theta)
"""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from .._checks import check_sizes
from .._inputs import plain, unless_harmless, unquoted
from .._tables.blockwise import by_blocks, in_memory_and_order
from .._tables.labels import label_set
from .._tables.lists import typed_labels
from .._tables.order import refuse_other_order_around
from .._tables.weights import own_weights
from .._typing import MatrixLike
from ..samplers import Plan
from .posterior import PrivatePosteriorMixin
from .predictive import normalized


class PrivateClassifierMixin(ClassifierMixin, PrivatePosteriorMixin):
    """For estimators with ``_plan(n_samples, n_features, n_classes)`` and ``_log_proba(X)``."""

    classes_: np.ndarray
    posterior_samples_: np.ndarray

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Under a finite budget, little can be learnt from the tiny tables of scikit-learn's checks.
        tags.classifier_tags.poor_score = self.epsilon != np.inf
        return tags

    def privacy_plan(self, n_samples: int, n_features: int, n_classes: int = 2) -> Plan:
        """Return what a fit would do and cost, without any data.

        Parameters
        ----------
        n_samples : int
            Number of rows; of persons, with ``max_rows_per_group``. Under
            ``neighboring_relation="add_or_remove_one"`` the plan uses ``public_size`` instead.
        n_features : int
            Number of columns.
        n_classes : int, default=2
            Number of labels; ignored if ``classes`` is given.

        Returns
        -------
        plan : Plan
            Its attributes are public numbers; printing it gives a readable summary.

        Raises
        ------
        ValueError, TypeError
            If a parameter is invalid, or if the options contradict each other.

        Examples
        --------
        >>> from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier
        >>> DPBayesianLogisticRegression(epsilon=1.0).privacy_plan(50_000, 20).n_draws
        400
        >>> DPBayesianMLPClassifier(epsilon=2.0).privacy_plan(60_000, 169, 10).n_steps
        600
        """
        self._validate_params()
        if self.classes is not None:
            n_classes = label_set(self.classes).size
        check_sizes(n_samples=n_samples, n_features=n_features)
        check_sizes(2, n_classes=n_classes)
        return self._plan(int(n_samples), int(n_features), int(n_classes))

    @by_blocks
    def predict_log_proba(self, X: MatrixLike) -> np.ndarray:
        """Log of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Sparse only if `fit` accepts sparse tables.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        # A mean over draws may be rounded to more than one.
        return np.minimum(self._log_proba(X), 0.0)

    @by_blocks
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Class probabilities, averaged over the draws (the posterior predictive).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows longer than ``data_norm`` are clipped, as in `fit`.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return normalized(np.exp(self._log_proba(X)))

    @by_blocks
    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most probable label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        log_proba = self._log_proba(X)
        return self.classes_[np.argmax(log_proba, axis=1)]

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy on rows, without noise: if they are private, use `skdpbayes.metrics`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float

        Raises
        ------
        ValueError, TypeError
            If the table, the labels or the weights are invalid.
        """
        refuse_other_order_around()
        predicted, y, sample_weight = in_memory_and_order(
            X, self.predict(X), y=y, sample_weight=sample_weight
        )
        if sample_weight is not None:
            sample_weight = own_weights(plain(sample_weight, "sample_weight"), len(predicted))
        told = unless_harmless(
            "y must be a column of labels of the same kind as those in fit, one for each row."
        )
        return unquoted(
            accuracy_score,
            typed_labels(plain(y, "y")),
            typed_labels(predicted),
            sample_weight=sample_weight,
            told=told,
        )
