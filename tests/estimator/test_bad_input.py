"""What a tired user passes: an error that names the parameter, before a sampler reads anything."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from references import configured

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers import SGHMC

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
y = rng.integers(2, size=200)


@pytest.fixture(autouse=True)
def no_sampler(monkeypatch):
    """Whatever is refused here must be refused before a plan is charged, and so before a sampler runs."""
    monkeypatch.setattr(
        "skdpbayes.samplers.base.charge", lambda *args: pytest.fail("a plan was charged")
    )


def fit(table=X, labels=y, **options):
    return configured(DPBayesianLogisticRegression(random_state=0), **options).fit(table, labels)


def spoiled(value):
    table = X.copy()
    table[3, 1] = value
    return table


@pytest.mark.parametrize(
    "options, named",
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": np.nan}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": None}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -1e-9}, "delta"),
        ({"delta": np.nan}, "delta"),
        ({"delta": "small"}, "delta"),
        ({"delta": 0.0}, "delta"),
        ({"sampler": "gibbs"}, "sampler"),
        ({"sampler": "sgld", "release": "all"}, "release"),
        ({"sampler": 3}, "sampler"),
        ({"sampler": SGHMC(friction=2.0)}, "friction"),
        ({"sampler": "sgld", "release": "last_iterate", "burn_in": 0.5}, "burn_in"),
        ({"sampler": "sgld", "release": "last_iterate", "init": "ops"}, "init"),
        ({"sampler": "ops", "delta": 0.0}, "delta"),
        (
            {
                "sampler": "ops",
                "neighboring_relation": "add_or_remove_one",
                "public_size": 200,
            },
            "replace_one",
        ),
        ({"sampler": "ops", "n_draws": 10, "n_steps": 9}, "n_draws"),
        ({"sampler": "ops", "step_size": 1.0}, "step_size"),
        ({"sampler": "sghmc", "init": "mode"}, "init"),
        ({"sampler": "sghmc", "init_share": 0.5}, "init_share"),
        ({"sampler": "sgld", "init": "ops", "init_share": 1.0}, "init_share"),
        ({"sampler": "sgld", "init": "ops", "init_share": "half"}, "init_share"),
        ({"sampler": "penalty", "delta": 0.0}, "delta=0"),
        ({"sampler": "dp_fast_mh_gaussian", "delta": 0.0}, "delta=0"),
        ({"sampler": "dp_mh", "delta": 0.0, "adapt_step_size": True}, "adapt_step_size"),
        ({"sampler": "dp_fast_mh", "max_batch_size": 0}, "max_batch_size"),
        ({"sampler": "penalty", "noise_multiplier": "much"}, "noise_multiplier"),
        ({"sampler": "dp_mh", "proposal": "cauchy"}, "proposal"),
        ({"sampler": "dp_mh", "n_effective": 0}, "n_effective"),
        ({"sampler": "dp_mh", "n_effective": 2.5}, "n_effective"),
        ({"sampler": "dp_mh", "adapt_step_size": "yes"}, "adapt_step_size"),
        ({"noise_multiplier": 2.0}, "noise_multiplier.*Auto"),
        ({"data_norm": 0.0}, "data_norm"),
        ({"data_norm": np.inf}, "data_norm"),
        ({"data_norm": np.nan}, "data_norm"),
        ({"data_norm": 1e200}, "data_norm"),
        ({"data_norm": 1e-200}, "data_norm"),
        ({"prior_scale": 1e-200}, "prior_scale"),
        ({"prior_scale": 0.0}, "prior_scale"),
        ({"prior_scale": np.inf}, "prior_scale"),
        ({"intercept_prior_scale": -1.0}, "intercept_prior_scale"),
        ({"intercept_scaling": 0.0}, "intercept_scaling"),
        ({"temperature": 0.5}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": np.inf}, "temperature"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 201}, "batch_size"),
        ({"batch_size": 10.5}, "batch_size"),
        ({"sampler": "sgld", "step_size": -1.0}, "step_size"),
        ({"sampler": "sgld", "step_size": 1e9}, "step_size"),
        ({"sampler": "sgld", "step_decay": 1.0}, "step_decay"),
        ({"n_steps": 0}, "n_steps"),
        ({"n_steps": 50, "n_draws": 60}, "n_steps"),
        ({"n_steps": 1e3}, "n_steps"),
        ({"burn_in": 1.0}, "burn_in"),
        ({"burn_in": "half"}, "burn_in"),
        ({"n_draws": 0}, "n_draws"),
        ({"n_draws": None}, "n_draws"),
        ({"neighboring_relation": "substitute"}, "neighboring_relation"),
        ({"neighboring_relation": "add_or_remove_one"}, "public_size"),
        ({"public_size": 200}, "public_size"),
        ({"neighboring_relation": "add_or_remove_one", "public_size": 0}, "public_size"),
        ({"classes": [1]}, "classes"),
        ({"classes": [0, 1, 1]}, "classes"),
        ({"classes": [[0, 1]]}, "classes"),
        ({"classes": 2}, "classes"),
        ({"classes": [0, 2]}, "classes"),
        ({"random_state": "seed"}, "random_state"),
        ({"random_state": -1}, "random_state"),
        ({"verbose": "yes"}, "verbose"),
        ({"fit_intercept": "no"}, "fit_intercept"),
        (
            {"sampler": "sgld", "temperature": 1.5, "step_size": 1e-3, "n_steps": 100_000},
            "temperature.*step_size.*n_steps",
        ),
    ],
)
def test_parameters(options, named):
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        with pytest.raises((ValueError, TypeError), match=named):
            fit(**options)
    assert ledger.spent_epsilon == 0.0, "what is refused costs nothing"


@pytest.mark.parametrize(
    "table, labels, named",
    [
        (spoiled(np.nan), y, "NaN: put skdpbayes.preprocessing.DPImputer"),
        (spoiled(np.inf), y, "infinity"),
        (spoiled(-np.inf), y, "infinity"),
        (sp.csr_array(spoiled(np.nan)), y, "NaN"),
        (np.empty((0, 3)), np.empty(0), "0 sample"),
        (np.empty((200, 0)), y, "0 feature"),
        (X[:1], y[:1], "class"),
        (X, np.zeros(200), "class"),
        (X[:, 0], y, "2D array"),
        (X[None], y, "dim 3"),
        (X, y[:-1], "inconsistent"),
        (X, np.column_stack([y, y]), "y should be a 1d array|multi"),
        (X, np.linspace(0, 1, 200), "continuous"),
        (X, np.where(y, np.nan, 1.0), "NaN"),
        (X, None, "y"),
        (X + 1j, y, "Complex"),
        (pd.DataFrame({"a": X[:, 0], "job": ["x"] * 200}), y, "job.*OneHotEncoder"),
        (pl.DataFrame({"a": X[:, 0], "job": ["x"] * 200}), y, "job.*OneHotEncoder"),
        (pd.DataFrame({"a": X[:, 0], "c": pd.Categorical(["x"] * 200)}), y, "'c'.*OneHotEncoder"),
        (pd.DataFrame({"a": [None, *X[1:, 0]], "b": X[:, 1]}), y, "NaN"),
    ],
)
def test_tables(table, labels, named):
    with pytest.raises((ValueError, TypeError), match=named):
        fit(table, labels)


def with_a_name():
    table = X.astype(object)
    table[5, 2] = "Jane Doe 12345.678"
    return table


@pytest.mark.parametrize(
    "table, named",
    [
        (with_a_name(), "text"),
        (np.full(200, 12345.678), "Reshape your data"),
        (np.full((200, 2), 12345.678 + 1j), "Complex data"),
    ],
)
def test_cells_are_not_quoted_in_errors(table, named):
    with pytest.raises(ValueError, match=named) as caught:
        fit(table, y)
    assert "12345" not in repr(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


@pytest.mark.parametrize(
    "arguments", [(0, 3), (10, 0), (10, 3, 1), (9.5, 3), ("10", 3), (10, 3, 2.5)]
)
def test_plans_of_nothing(arguments):
    with pytest.raises((ValueError, TypeError), match="n_samples|n_features|n_classes"):
        DPBayesianLogisticRegression().privacy_plan(*arguments)


def test_plans_check_parameters_too():
    with pytest.raises(ValueError, match="epsilon"):
        DPBayesianLogisticRegression(epsilon=-1).privacy_plan(100, 3)
    with pytest.raises(ValueError, match="public_size"):
        DPBayesianLogisticRegression(neighboring_relation="add_or_remove_one").privacy_plan(100, 3)
