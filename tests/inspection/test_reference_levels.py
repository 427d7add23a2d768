"""Levels are compared with a reference, whatever an encoder did with it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor, DPBayesianRidge
from skdpbayes.inspection import coefficient_draws, odds_ratios, rate_ratios, raw_coefficients
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPOneHotEncoder

# Encoders that drop or merge levels by what they see; here they are told all levels.
pytestmark = pytest.mark.filterwarnings("ignore:OneHotEncoder may learn")

N = 3000
LEVELS = ["east", "north", "west"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.uniform(18, 90, N), "region": rng.choice(LEVELS, N)})
    X["code"] = rng.integers(1, 4, N)
    logits = 0.03 * (X["age"] - 54) + (X["region"] == "north") - 0.5 * (X["code"] == 3)
    return X, (rng.random(N) < 1 / (1 + np.exp(-logits))).astype(int)


def fitted(table, encoder, columns=("region",), y=None, model=None):
    X, labels = table
    steps = ColumnTransformer(
        [("num", BoundedScaler(18, 90), ["age"]), ("cat", encoder, list(columns))],
        sparse_threshold=0,
    )
    if model is None:
        model = DPBayesianLogisticRegression(data_norm=2.0, random_state=0)
    return make_private_pipeline(steps, model, epsilon=10.0).fit(X, labels if y is None else y)


@pytest.fixture(scope="module")
def declared(table):
    return fitted(table, DPOneHotEncoder(categories=[LEVELS]))


def test_odds_of_levels_are_against_the_reference(declared):
    draws = coefficient_draws(declared)
    found = odds_ratios(declared, reference_levels={"region": "north"})
    names = ["num__age", "cat__region_north (reference)", "cat__region_east", "cat__region_west"]
    assert list(found.index) == [*names, "cat__region_infrequent"]
    for level in ("east", "west", "infrequent"):
        ratios = np.exp(draws[f"cat__region_{level}"] - draws["cat__region_north"])
        expected = np.quantile(ratios, [0.5, 0.05, 0.95])
        np.testing.assert_allclose(found.loc[f"cat__region_{level}"].iloc[:3], expected)
    reference = found.loc["cat__region_north (reference)"]
    assert reference["median"] == 1.0 and reference.iloc[1:].isna().all()
    pd.testing.assert_series_equal(found.loc["num__age"], odds_ratios(declared).loc["num__age"])


def test_units_of_other_columns_are_as_asked(declared):
    asked = {"reference_levels": {"region": "west"}, "raw": True}
    found = odds_ratios(declared, per={"age": 10}, **asked)
    assert list(found.index[:2]) == ["age", "region_west (reference)"]
    age = odds_ratios(declared, raw=True, per={"age": 10}).loc["age"]
    np.testing.assert_allclose(found.loc["age"], age)


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(categories=[LEVELS], handle_unknown="ignore"),
        OneHotEncoder(categories=[LEVELS], drop="first"),
        OneHotEncoder(categories=[LEVELS], drop=["north"]),
        make_pipeline(DPOneHotEncoder(categories=[LEVELS]), BoundedScaler(0, 2)),
    ],
)
def test_effects_are_those_of_the_rows_that_differ_in_a_level(table, encoder):
    """Exactly, in every draw: what the pipeline makes of two rows, whatever is dropped or scaled."""
    pipeline = fitted(table, encoder)
    rows = pd.DataFrame({"age": 54.0, "region": LEVELS})
    seen = np.column_stack([pipeline[:-1].transform(rows), np.ones(3)])
    logits = seen @ pipeline[-1].posterior_samples_[:, 0].T
    for raw in (False, True):
        found = odds_ratios(pipeline, reference_levels={"region": "west"}, raw=raw)
        prefix = "" if raw else "cat__"
        assert found.index[1] == f"{prefix}region_west (reference)"
        for j, level in enumerate(LEVELS[:2]):
            expected = np.median(np.exp(logits[j] - logits[2]))
            np.testing.assert_allclose(found.loc[f"{prefix}region_{level}", "median"], expected)
    raw = raw_coefficients(pipeline, reference_levels={"region": "west"})
    np.testing.assert_allclose(
        (raw.loc["intercept"] + 54.0 * raw.loc["age"])["mean"], logits[2].mean(), rtol=1e-9
    )


def test_codes_missing_values_and_rare_levels_are_levels(table):
    X, y = table
    X = X.assign(code=X["code"].where(X.index % 5 > 0).astype(float))
    encoder = DPOneHotEncoder(categories=[[1, 2, 3, np.nan], LEVELS[:2]])
    pipeline = fitted((X, y), encoder, ["code", "region"])
    both = odds_ratios(pipeline, reference_levels={"code": 3, "region": "infrequent"}, raw=True)
    regions = ["region_infrequent (reference)", "region_east", "region_north"]
    codes = ["code_3 (reference)", "code_1", "code_2", "code_nan", "code_infrequent"]
    assert list(both.index) == ["age", *codes, *regions]
    missing = odds_ratios(pipeline, reference_levels={"code": None}, raw=True)
    assert missing.index[1] == "code_nan (reference)"
    rare = OneHotEncoder(categories=[LEVELS], max_categories=2, drop="first")
    ratios = odds_ratios(fitted(table, rare), reference_levels={"region": "infrequent_sklearn"})
    assert len(ratios) == 3 and ratios.index[1] == "cat__region_infrequent_sklearn (reference)"


def test_levels_of_a_formula_have_references_too(table):
    pytest.importorskip("formulaic")
    X, y = table
    text = "y ~ bounded(age, 18, 90) + C(region, levels=['east', 'north', 'west']{})"
    for given in ("", ", reference='east'"):
        model = DPBayesianLogisticRegression.from_formula(text.format(given), random_state=0)
        model.fit(X.assign(y=y))
        found = odds_ratios(model, reference_levels={"region": "north"})
        levels = ["region[north] (reference)", "region[east]", "region[west]"]
        assert list(found.index) == ["age", *levels]
        draws = coefficient_draws(model)
        expected = -draws["region[north]"] + (0.0 if given else draws["region[east]"])
        np.testing.assert_allclose(found.loc["region[east]", "median"], np.exp(expected).median())
    product = (
        text.format("") + " + bounded(age, 18, 90):C(region, levels=['east', 'north', 'west'])"
    )
    model = DPBayesianLogisticRegression.from_formula(product, random_state=0)
    with pytest.raises(ValueError, match="products.*contrasts"):
        odds_ratios(model.fit(X.assign(y=y)), reference_levels={"region": "north"})


def test_with_several_classes_both_have_references(table):
    labels = np.array(["bus", "car", "foot"])[table[1] + table[1] * (np.arange(N) % 2)]
    pipeline = fitted(table, DPOneHotEncoder(categories=[LEVELS]), y=labels)
    asked = {"reference": "car", "reference_levels": {"region": "east"}}
    found = odds_ratios(pipeline, **asked)
    draws = coefficient_draws(pipeline)
    odds = [
        draws[f"cat__region_north[{k}]"] - draws[f"cat__region_east[{k}]"] for k in ("foot", "car")
    ]
    expected = np.median(np.exp(odds[0] - odds[1]))
    np.testing.assert_allclose(found.loc[("foot", "cat__region_north"), "median"], expected)
    assert found.loc[("foot", "cat__region_east (reference)")].isna().sum() == 3


def test_rates_and_numbers_have_references(table):
    encoder = DPOneHotEncoder(categories=[LEVELS])
    counts = DPBayesianPoissonRegressor(9, sampler="ops", data_norm=2.0, random_state=0)
    numbers = DPBayesianRidge((0, 1), data_norm=2.0, fit_intercept=False, random_state=0)
    with pytest.warns(UserWarning, match="calibrated"):
        rates = rate_ratios(
            fitted(table, encoder, model=counts), reference_levels={"region": "north"}
        )
    assert rates.loc["cat__region_north (reference)", "median"] == 1.0
    ridge = fitted(table, encoder, model=numbers)
    draws = coefficient_draws(ridge, raw=True)
    raw = raw_coefficients(ridge, reference_levels={"region": "north"})
    assert raw.index[-1] == "intercept"
    expected = (draws["region_west"] - draws["region_north"]).mean()
    np.testing.assert_allclose(raw.loc["region_west", "mean"], expected)


@pytest.mark.parametrize(
    "given, error, message",
    [
        ({"age": 1}, ValueError, r"'age'.*\['region'\]"),
        ({"region": "south"}, ValueError, "'south' is no level of 'region'.*east"),
        ({"region": ("north",)}, ValueError, "no level"),
        ("north", TypeError, "dict"),
        ({}, TypeError, "dict"),
    ],
)
def test_errors_name_the_column_and_its_levels(declared, given, error, message):
    with pytest.raises(error, match=message):
        odds_ratios(declared, reference_levels=given)
    with pytest.raises(TypeError, match="reference_levels"):
        odds_ratios(declared, reference={"region": "north"})


def test_levels_within_products_are_refused(table):
    X, y = table
    steps = OneHotEncoder(categories=[LEVELS]), PolynomialFeatures(2, include_bias=False)
    model = DPBayesianLogisticRegression(data_norm=2.0, random_state=0)
    pipeline = make_private_pipeline(*steps, model, epsilon=5.0).fit(X[["region"]], y)
    with pytest.raises(ValueError, match="combined"):
        odds_ratios(pipeline, reference_levels={"region": "north"})
    plain = make_pipeline(
        OneHotEncoder(categories=[LEVELS], sparse_output=False), StandardScaler(), model
    )
    with pytest.warns(Warning):
        plain.fit(X[["region"]], y)
    found = odds_ratios(plain, reference_levels={"region": "north"})
    assert list(found.index) == ["region_north (reference)", "region_east", "region_west"]


@pytest.mark.parametrize("asked", [{"raw": True}, {"reference_levels": {"region": "north"}}])
def test_the_last_step_alone_does_not_know_raw_columns(declared, asked):
    """Its odds would be of scaled columns, under another name."""
    with pytest.raises(ValueError, match="pass the fitted pipeline itself"):
        odds_ratios(declared[-1], **asked)


def test_a_model_alone_says_that_levels_are_known_to_pipelines():
    alone = DPBayesianLogisticRegression().fit([[0.0], [1.0]] * 200, [0, 1] * 200)
    with pytest.raises(ValueError, match="and not its last step"):
        odds_ratios(alone, reference_levels={"region": "north"})


def test_ratios_say_which_level_others_are_against(table, declared):
    with_reference = fitted(table, OneHotEncoder(categories=[LEVELS], drop=["north"]))
    for options in ({}, {"raw": True}):
        *_, note = odds_ratios(with_reference, **options).attrs["notes"]
        assert note == "ratios of levels are against region = 'north'."
        *_, note = odds_ratios(declared, **options).attrs["notes"]
        assert note.startswith(
            "every level of region has an indicator: its ratio is against rows of no"
        )
        assert note.endswith("pass reference_levels={'region': 'east'}.")
    for model in (with_reference, declared):
        shown = odds_ratios(model, reference_levels={"region": "west"})
        assert "against" not in " ".join(shown.attrs["notes"])  # The table has a row for it.
        assert "against" not in " ".join(raw_coefficients(model).attrs["notes"])


def test_rate_ratios_of_a_formula_say_its_references(table):
    X, y = table
    formula = (
        "y ~ bounded(age, 18, 90) + C(region, levels=['east', 'north', 'west'], reference='west')"
        " + C(code, levels=[1, 2, 3])"
    )
    model = DPBayesianPoissonRegressor.from_formula(formula, max_count=3, random_state=0)
    printed = str(rate_ratios(model.fit(X.assign(y=y))))
    assert "Note: ratios of levels are against region = 'west'.\n" in printed
    assert "Note: every level of code has an indicator" in printed
