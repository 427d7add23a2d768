"""The draws as ArviZ sees them: named, and in two chains, so that its diagnostics mean something."""

import copy
import sys

import arviz
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError

from skdpbayes import DPBayesianLogisticRegression

X, y = make_classification(2000, 4, n_informative=3, n_redundant=0, random_state=0)
X3, y3 = make_classification(2000, 4, n_informative=3, n_redundant=0, n_classes=3, random_state=1)
frame = pd.DataFrame(X3, columns=["age", "hours", "income", "children"])


def make(**options):
    return DPBayesianLogisticRegression(**{"random_state": 0, **options})


@pytest.fixture(scope="module")
def binary():
    return make().fit(X, y)


@pytest.fixture(scope="module")
def ternary():
    return make().fit(frame, np.array(["bus", "car", "foot"])[y3])


def with_draws(clf, draws):
    """Return the estimator as if it had released other draws."""
    other = copy.copy(clf)
    other.posterior_samples_ = draws
    return other


def chain(n_draws, correlation, seed=0):
    """Return draws of five coordinates, autoregressive of unit variance."""
    noise = np.random.default_rng(seed).standard_normal((n_draws, 1, 5))
    draws = noise.copy()
    for k in range(1, n_draws):
        draws[k] = correlation * draws[k - 1] + np.sqrt(1 - correlation**2) * noise[k]
    return draws


def of_all(diagnostic, data):
    """Return a diagnostic of every coordinate."""
    values = diagnostic(data)
    return np.concatenate([np.ravel(values[name].values) for name in ("coef", "intercept")])


def test_draws_are_named_by_classes_and_columns(ternary):
    posterior = ternary.to_arviz()["posterior"]
    assert posterior["coef"].dims == ("chain", "draw", "class", "feature")
    assert posterior["intercept"].dims == ("chain", "draw", "class")
    assert posterior["class"].values.tolist() == ["bus", "car", "foot"]
    assert posterior["feature"].values.tolist() == ["age", "hours", "income", "children"]
    income = posterior["coef"].sel({"class": "car", "feature": "income"}).values.ravel()
    np.testing.assert_array_equal(income, ternary.posterior_samples_[:, 1, 2])
    intercept = posterior["intercept"].sel({"class": "foot"}).values.ravel()
    np.testing.assert_array_equal(intercept, ternary.posterior_samples_[:, 2, -1])


def test_two_classes_have_the_coefficients_of_the_second(binary):
    posterior = binary.to_arviz()["posterior"]
    assert posterior["class"].values.tolist() == [1]
    assert posterior["feature"].values.tolist() == ["x0", "x1", "x2", "x3"]
    labels = make().fit(X, np.where(y, "yes", "no")).to_arviz()["posterior"]["class"]
    assert labels.values.tolist() == ["yes"]


def test_without_an_intercept_there_is_none():
    clf = make(fit_intercept=False).fit(X, y)
    posterior = clf.to_arviz(split=False)["posterior"]
    assert list(posterior.data_vars) == ["coef"]
    np.testing.assert_array_equal(posterior["coef"].values[0], clf.posterior_samples_)


def test_parameters_changed_after_a_fit_do_not_change_its_variables(binary):
    changed = copy.copy(binary).set_params(fit_intercept=False, classes=["a", "b", "c"])
    posterior = changed.to_arviz()["posterior"]
    assert set(posterior.data_vars) == {"coef", "intercept"}
    assert posterior["class"].values.tolist() == [1]


def test_the_halves_of_the_chain_are_two_chains_in_order(binary):
    draws = binary.posterior_samples_
    halves = binary.to_arviz()["posterior"]["coef"].values
    np.testing.assert_array_equal(halves[0], draws[: len(draws) // 2, :, :-1])
    np.testing.assert_array_equal(halves[1], draws[len(draws) // 2 :, :, :-1])
    whole = binary.to_arviz(split=False)["posterior"]["coef"].values
    np.testing.assert_array_equal(whole, draws[None, :, :, :-1])
    odd = with_draws(binary, draws[:99]).to_arviz()["posterior"]["coef"].values
    np.testing.assert_array_equal(odd[0], draws[1:50, :, :-1], "the first one is left out")


def test_attributes_tell_what_was_done(binary):
    attributes = binary.to_arviz()["posterior"].attrs
    assert attributes["epsilon"] == binary.spent_epsilon_
    assert attributes["delta"] == binary.spent_delta_
    assert attributes["temperature"] == binary.temperature_
    assert attributes["n_steps"] == binary.plan_.n_steps
    assert attributes["sampler"] == binary.plan_.name
    assert attributes["neighboring_relation"] == "replace_one"


def test_independent_draws_are_worth_their_number(binary):
    data = with_draws(binary, chain(1000, correlation=0.0)).to_arviz()
    assert (of_all(arviz.ess, data) > 700).all()
    assert (of_all(arviz.rhat, data) < 1.02).all()


def test_sticky_draws_are_worth_a_fraction(binary):
    # An autoregression of correlation 0.9 has (1 - 0.9) / (1 + 0.9) of the draws: 53 of 1000.
    data = with_draws(binary, chain(1000, correlation=0.9)).to_arviz()
    ess = of_all(arviz.ess, data)
    assert (ess > 20).all() and (ess < 120).all()


def test_a_drifting_chain_is_found_out(binary):
    drift = np.linspace(0, 3, 1000)[:, None, None]
    data = with_draws(binary, chain(1000, correlation=0.0) + drift).to_arviz()
    assert (of_all(arviz.rhat, data) > 1.1).all()


def test_one_chain_has_no_r_hat(binary):
    """Why the chain is split: if ArviZ learns to split one itself, this is the place to notice."""
    draws = with_draws(binary, chain(200, correlation=0.0))
    assert np.isnan(of_all(arviz.rhat, draws.to_arviz(split=False))).all()
    assert np.isfinite(of_all(arviz.rhat, draws.to_arviz())).all()


def test_a_summary_has_a_line_for_every_coefficient(ternary):
    summary = arviz.summary(ternary.to_arviz())
    assert len(summary) == 3 * 5
    assert "coef[foot, children]" in summary.index and "intercept[bus]" in summary.index
    assert summary[["r_hat", "ess_bulk", "ess_tail"]].astype(float).notna().all(axis=None)


def test_few_draws_stay_one_chain_and_fewer_are_refused(binary):
    draws = binary.posterior_samples_
    assert with_draws(binary, draws[:8]).to_arviz()["posterior"].sizes["chain"] == 2
    few = with_draws(binary, draws[:7]).to_arviz()
    assert few["posterior"].sizes["chain"] == 1 and few["posterior"].sizes["draw"] == 7
    assert np.isfinite(of_all(arviz.ess, few)).all()
    with pytest.raises(ValueError, match="at least 4 draws, and this fit released 3"):
        with_draws(binary, draws[:3]).to_arviz()
    with pytest.raises(ValueError, match="released 1"):
        make(sampler="ops").fit(X, y).to_arviz()


def test_an_estimator_must_be_fitted():
    with pytest.raises(NotFittedError):
        make().to_arviz()


def test_a_missing_arviz_names_the_extra(binary, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"skdpbayes\[diagnostics\]"):
        binary.to_arviz()


def test_the_draws_handed_out_are_a_copy(binary):
    before = binary.posterior_samples_.copy()
    for split in (True, False):
        binary.to_arviz(split=split)["posterior"]["coef"].values[:] = 0.0
    np.testing.assert_array_equal(binary.posterior_samples_, before)


def test_data_survive_a_file(ternary, tmp_path):
    pytest.importorskip("h5netcdf")
    data = ternary.to_arviz()
    data.to_netcdf(tmp_path / "draws.nc", engine="h5netcdf")
    again = arviz.from_netcdf(tmp_path / "draws.nc")["posterior"]
    np.testing.assert_array_equal(again["coef"].values, data["posterior"]["coef"].values)
    assert again["feature"].values.tolist() == ["age", "hours", "income", "children"]
    assert again.attrs["epsilon"] == ternary.spent_epsilon_
