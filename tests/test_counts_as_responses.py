"""What may be a count: whole numbers but for rounding, and no text in any container."""

import numpy as np
import pandas as pd
import pytest

from skdpbayes import DPBayesianPoissonRegressor
from skdpbayes.metrics import dp_mean_poisson_deviance, dp_r2_score

CONTAINERS = [list, lambda y: np.array(y, dtype=object), lambda y: pd.Series(y, dtype=object)]


def a_model():
    return DPBayesianPoissonRegressor(max_count=5, data_norm=1.0, random_state=0)


@pytest.mark.parametrize("container", [*CONTAINERS, np.array])
@pytest.mark.parametrize("score", [dp_mean_poisson_deviance, dp_r2_score])
def test_scores_take_no_text_whatever_holds_it(container, score):
    y = [str(k % 5) for k in range(300)]
    bounds = {"target_bounds": (0, 5)} if score is dp_r2_score else {}
    with pytest.raises((TypeError, ValueError)) as caught:
        score(container(y), np.ones(300), epsilon=1.0, random_state=0, **bounds)
    assert "y_true" in str(caught.value)


@pytest.mark.parametrize("container", CONTAINERS)
def test_fits_take_no_text_whatever_holds_it(container):
    X, y = np.linspace(-1, 1, 300)[:, None], [str(k % 5) for k in range(300)]
    with pytest.raises((TypeError, ValueError), match="y must"):
        a_model().fit(X, container(y))


def test_rounding_makes_no_fraction_of_a_count():
    X, y = np.linspace(-1, 1, 300)[:, None], np.arange(300) % 5 * 0.1 * 10
    assert np.any(y != np.rint(y))
    assert a_model().fit(X, y).spent_epsilon_ <= 1.0
    with pytest.raises(ValueError, match="holds fractions"):
        a_model().fit(X, y + 1e-6)
