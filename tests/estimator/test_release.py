"""What an estimator releases: a path, or one posterior sample and nothing of the way to it."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.preprocessing import RowNormClipper
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers import OPS, SGHMC, SGLD, DPFastMH, PenaltyMH

X, y = make_classification(2000, 6, n_informative=4, n_redundant=0, random_state=0)


@pytest.mark.parametrize("sampler", [OPS(), SGLD(release="last_iterate", batch_size=100)])
def test_one_draw_predicts_by_itself(sampler):
    clf = DPBayesianLogisticRegression(epsilon=2.0, sampler=sampler, random_state=0).fit(X, y)
    assert clf.posterior_samples_.shape == (1, 1, X.shape[1] + 1)
    assert 0.99 < clf.spent_epsilon_ <= 2.0
    clipped = RowNormClipper(clf.data_norm_).fit_transform(X)
    logits = clipped @ clf.coef_[0] + clf.intercept_[0]
    assert np.allclose(clf.predict_proba(X)[:, 1], 1 / (1 + np.exp(-logits)))
    assert np.allclose(clf.decision_function(X), logits)
    assert np.array_equal(clf.sample_posterior(), clf.posterior_samples_)
    with pytest.raises(ValueError, match="n_draws=2"):
        clf.sample_posterior(2)


@pytest.mark.nightly
def test_several_classes_and_draws_of_last_iterates():
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    clf = DPBayesianLogisticRegression(20.0, sampler="ops", n_draws=5, random_state=0).fit(
        X, labels
    )
    assert clf.posterior_samples_.shape == (5, 3, X.shape[1] + 1)
    assert clf.n_iter_ == clf.plan_.n_steps
    assert np.allclose(clf.predict_proba(X).sum(axis=1), 1)


def test_nothing_is_tempered_where_the_posterior_is_private_enough():
    clf = DPBayesianLogisticRegression(sampler="ops", prior_scale=0.01, random_state=0).fit(X, y)
    assert clf.temperature_ == 1.0
    assert clf.spent_epsilon_ < 0.5


def test_a_path_from_a_draw_counts_all_its_updates():
    clf = DPBayesianLogisticRegression(
        sampler=SGHMC(init="ops", init_share=0.4), random_state=0
    ).fit(X, y)
    assert clf.n_iter_ == clf.plan_.n_steps + clf.plan_.start.n_steps
    assert 0.999 < clf.spent_epsilon_ <= 1.0
    assert clf.posterior_samples_.shape[0] == 100


def test_one_draw_in_a_ledger_and_a_grid_search():
    with PrivacyLedger(2.0, 1e-5, allow_seeds=True) as ledger:
        clf = DPBayesianLogisticRegression(sampler="ops", delta=1e-5, random_state=0).fit(X, y)
    assert ledger.spent_epsilon == pytest.approx(clf.spent_epsilon_, rel=1e-6)
    search = GridSearchCV(clf, {"epsilon": [0.5, 50.0]}, cv=2).fit(X, y)
    assert search.cv_results_["mean_test_score"].shape == (2,)


@pytest.mark.parametrize(
    "sampler, delta",
    [
        (DPFastMH(), None),
        (DPFastMH(), 0.0),
        (DPFastMH(proposal="gaussian", adapt_step_size=True), None),
        (PenaltyMH(noise_multiplier=30.0), None),
    ],
)
def test_random_walks_tell_what_they_spent_and_how_often_they_moved(sampler, delta):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 2))
    y = (rng.random(20_000) < 1 / (1 + np.exp(-3 * X[:, 0]))).astype(int)
    clf = DPBayesianLogisticRegression(
        2.0, delta, sampler=sampler, n_draws=20, data_norm=1.5, random_state=0
    ).fit(X, y)
    assert 0 < clf.spent_epsilon_ <= 2.0 and clf.spent_delta_ == clf.plan_.delta
    assert 0 < clf.released_.acceptance_rate < 1 and 0 < clf.n_iter_ <= clf.plan_.n_steps
    assert clf.posterior_samples_.shape == (20, 1, 3) and np.isfinite(clf.posterior_samples_).all()
    assert clf.coef_[0, 0] > clf.coef_[0, 1]
