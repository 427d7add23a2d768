"""What is said of coefficients follows from draws alone: ratios, contrasts, effects, raw units."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from sklearn.compose import ColumnTransformer
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
)

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
)
from skdpbayes.inspection import (
    average_marginal_effects,
    coefficient_draws,
    contrasts,
    odds_ratios,
    probability,
    rate_ratios,
    raw_coefficients,
)
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPImputer, DPOneHotEncoder, DPQuantileScaler

N = 4000
REGIONS = ["east", "north", "west"]


def scaled():
    bounds = [18, 0], [90, 1e5]
    return ColumnTransformer(
        [
            ("num", make_pipeline(BoundedScaler(*bounds), DPImputer()), ["age", "income"]),
            ("cat", OneHotEncoder(categories=[REGIONS], handle_unknown="ignore"), ["region"]),
        ],
        sparse_threshold=0,
    )


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.uniform(18, 90, N),
            "income": rng.uniform(0, 1e5, N),
            "region": rng.choice(REGIONS, N),
        }
    )
    logits = 0.04 * (X["age"] - 54) - 1e-5 * (X["income"] - 5e4) + (X["region"] == "north")
    return X, (rng.random(N) < expit(logits)).astype(int), np.asarray(logits)


@pytest.fixture(scope="module")
def binary(table):
    X, y, _ = table
    clf = DPBayesianLogisticRegression(data_norm=2.0, random_state=0)
    return make_private_pipeline(scaled(), clf, epsilon=10.0).fit(X, y)


@pytest.fixture(scope="module")
def ternary(table):
    X, y, _ = table
    labels = np.array(["bus", "car", "foot"])[y + y * (np.arange(N) % 2)]
    clf = DPBayesianLogisticRegression(data_norm=2.0, random_state=0)
    return make_private_pipeline(scaled(), clf, epsilon=10.0).fit(X, labels)


@pytest.fixture(scope="module")
def ridge(table):
    X, _, logits = table
    model = DPBayesianRidge((-5, 5), data_norm=2.0, random_state=0)
    return make_private_pipeline(scaled(), model, epsilon=10.0).fit(X, logits)


@pytest.fixture(scope="module")
def counts(table):
    X, _, logits = table
    y = np.random.default_rng(1).poisson(np.exp(0.5 * logits))
    model = DPBayesianPoissonRegressor(
        20, sampler="clipped_residuals", data_norm=2.0, random_state=0
    )
    return make_private_pipeline(scaled(), model, epsilon=10.0).fit(X, y)


PROFILES = pd.DataFrame(
    {
        "age": [30.0, 50.0, 70.0, 45.0],
        "income": [2e4, 5e4, 9e4, 1e4],
        "region": ["north", "east", "west", "north"],
    }
)


def test_odds_ratios_are_those_of_the_second_class_with_its_sign(binary):
    table = odds_ratios(binary)
    draws = binary[-1].posterior_samples_[:, 0]
    assert list(table.columns) == ["median", "5%", "95%", "P(> 1)"]
    assert "intercept" not in table.index and len(table) == 5
    age = table.loc["num__age"]
    np.testing.assert_allclose(age["median"], np.median(np.exp(draws[:, 0])))
    assert age["5%"] > 3.0 and age["P(> 1)"] == 1.0
    assert table.loc["num__income", "95%"] < 1.0 and table.loc["num__income", "P(> 1)"] == 0.0
    np.testing.assert_allclose(age[["5%", "95%"]], np.quantile(np.exp(draws[:, 0]), [0.05, 0.95]))


def test_what_a_table_of_bent_numbers_leads_with_is_within_its_interval():
    """At a small epsilon the mean of a ratio is that of its few largest draws."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (300, 2)), rng.integers(0, 2, 300)
    clf = DPBayesianLogisticRegression(epsilon=0.02, prior_scale=20.0, random_state=0)
    clf.fit(X, y)
    ratios = odds_ratios(clf)
    draws = coefficient_draws(clf)[["x0", "x1"]]
    assert (np.exp(draws).mean() > ratios["95%"]).all()
    np.testing.assert_allclose(np.log(ratios["median"]), draws.median(), atol=0.1)
    quotient = contrasts(clf, {"ratio": lambda d: np.exp(d["x0"] - d["x1"])})
    for table in (ratios, quotient):
        assert table.columns[0] == "median"
        assert table["median"].between(table["5%"], table["95%"]).all()
    assert quotient.loc["ratio", "mean"] > quotient.loc["ratio", "95%"]


def test_ratios_are_for_as_many_units_as_asked(binary):
    one = odds_ratios(binary, raw=True)
    ten = odds_ratios(binary, raw=True, per={"age": 10})
    per_year = np.log(one.loc["age", "median"])
    assert abs(per_year - 0.04) < 0.01
    np.testing.assert_allclose(np.log(ten.loc["age", "5%"]), 10 * np.log(one.loc["age", "5%"]))
    assert (ten.loc["income"] == one.loc["income"]).all()
    for bad in ({"height": 1}, {"age": "ten"}, {"age": np.nan}):
        with pytest.raises(ValueError, match="per"):
            odds_ratios(binary, raw=True, per=bad)
    raw, tens = raw_coefficients(binary), raw_coefficients(binary, per={"age": 10})
    np.testing.assert_allclose(tens.loc["age", ["mean", "sd"]], 10 * raw.loc["age", ["mean", "sd"]])
    assert (tens.drop(index="age") == raw.drop(index="age")).all(axis=None)
    with pytest.raises(ValueError, match="per names 'height'"):
        raw_coefficients(binary, per={"height": 1})


def test_units_of_the_table_are_none_of_scaled_columns(binary, table):
    """Ten half ranges are not ten years: their ratio would be 1.9e8."""
    for model in (binary, binary[-1]):
        with pytest.raises(ValueError, match="'num__age'.*raw=True"):
            odds_ratios(model, per={"num__age": 10})
    region = odds_ratios(binary, per={"cat__region_north": 2}).loc["cat__region_north", "median"]
    assert region == pytest.approx(
        odds_ratios(binary).loc["cat__region_north", "median"] ** 2, 1e-3
    )
    X, y = table[0][["age"]] / 90, table[1]
    alone = DPBayesianLogisticRegression(random_state=0).fit(X, y)
    assert odds_ratios(alone, per={"age": 2}).loc["age", "median"] > 1


def test_with_several_classes_odds_are_against_a_reference(ternary):
    draws = ternary[-1].posterior_samples_
    table = odds_ratios(ternary, reference="car")
    assert list(dict.fromkeys(table.index.get_level_values("class"))) == ["bus", "foot"]
    expected = np.median(np.exp(draws[:, 2, 0] - draws[:, 1, 0]))
    np.testing.assert_allclose(table.loc[("foot", "num__age"), "median"], expected)
    flipped = odds_ratios(ternary, reference="foot").loc[("car", "num__age"), "95%"]
    np.testing.assert_allclose(flipped, 1.0 / table.loc[("foot", "num__age"), "5%"], rtol=1e-2)
    with pytest.raises(ValueError, match="reference"):
        odds_ratios(ternary, reference="tram")


def test_of_two_classes_the_error_says_which_the_odds_are_of(binary):
    first, second = binary[-1].classes_.tolist()
    with pytest.raises(ValueError, match=f"the second of classes_, {second!r}, against {first!r}"):
        odds_ratios(binary, reference=first)


@pytest.mark.nightly
def test_ratios_are_of_the_right_models(binary, ridge, counts):
    with pytest.raises(TypeError, match="rate_ratios"):
        odds_ratios(counts)
    for model in (binary, ridge):
        with pytest.raises(TypeError, match="counts"):
            rate_ratios(model)
    draws = counts[-1].posterior_samples_[:, 0, 0]
    table = rate_ratios(counts)
    np.testing.assert_allclose(table.loc["num__age", "median"], np.median(np.exp(draws)))
    assert table.loc["num__age", "5%"] > 1.5
    with pytest.raises(ValueError, match="reference"):
        odds_ratios(binary, reference=0)


def test_contrasts_are_the_same_in_every_form(binary):
    draws = coefficient_draws(binary)
    north, east = "cat__region_north", "cat__region_east"
    given = {
        "weights": {north: 1, east: -1},
        "expression": f"{north} - {east}",
        "function": lambda draws: draws[north] - draws[east],
    }
    table = contrasts(binary, given)
    expected = draws[north] - draws[east]
    np.testing.assert_allclose(table["mean"], expected.mean())
    np.testing.assert_allclose(table["sd"], expected.std(ddof=0))
    assert (table["5%"] > 0.5).all() and (table["P(> 0)"] == 1.0).all()
    frame = pd.DataFrame({north: [1.0], east: [-1.0]}, index=["weights"])
    array = np.zeros((1, 6))
    array[0, draws.columns.get_loc(north)], array[0, draws.columns.get_loc(east)] = 1, -1
    for form in (frame, array):
        np.testing.assert_allclose(contrasts(binary, form), table.iloc[:1])


@pytest.mark.parametrize("bad", [{"a": {"height": 1}}, {"a": "height - 1"}, np.ones((1, 4))])
def test_contrasts_of_unknown_coefficients_are_refused(binary, bad):
    with pytest.raises(ValueError, match="num__age"):
        contrasts(binary, bad)


def test_expressions_are_contrasts_by_themselves(binary):
    text = "num__age - num__income"
    expected = contrasts(binary, {text: text})
    for form in (text, [text]):
        pd.testing.assert_frame_equal(contrasts(binary, form), expected)


@pytest.mark.parametrize(
    "bad, error, message",
    [
        ({"a": {"num__age": np.nan}}, ValueError, "finite"),
        ({"a": {"num__age": "1"}}, ValueError, "finite"),
        (pd.DataFrame({"num__age": [1.0, None]}), ValueError, "finite"),
        (np.full((1, 6), np.nan), ValueError, "finite"),
        ({}, ValueError, "finite"),
        (pl.DataFrame({"num__age": [1.0]}), TypeError, "pandas"),
        (pd.DataFrame({"num__age": [1.0, 2.0]}, index=["a", "a"]), ValueError, "repeated"),
        ({"a": 3}, TypeError, "expression"),
    ],
)
def test_contrasts_without_meaning_are_refused(binary, bad, error, message):
    with pytest.raises(error, match=message):
        contrasts(binary, bad)


@pytest.mark.parametrize(
    "bad",
    [
        *("", "num__age", "num__age =", "num__age > zz", "num__age > 'a'", "num__age.foo() > 0"),
        *("@x > 0", "num__age > 0 if 1 else 0", "[a for a in 3]", "1 > 0; 2", "num__age > [1, 2]"),
    ],
)
def test_odd_statements_are_refused_by_their_text(binary, bad):
    with pytest.raises(ValueError, match="cannot be evaluated|must be true or false"):
        probability(binary, bad)


def test_a_joint_statement_is_about_each_draw(ternary, binary):
    draws = coefficient_draws(binary, 2000)
    age, north = draws["num__age"] > 1.5, draws["cat__region_north"] > 0.8
    joint = probability(binary, "num__age > 1.5 and cat__region_north > 0.8", n_draws=2000)
    assert joint == (age & north).mean() < min(age.mean(), north.mean())
    several = probability(
        binary, {"age": "num__age > 1.5", "f": lambda d: d["num__age"] > 1.5}, n_draws=2000
    )
    assert several["age"] == several["f"] == age.mean()
    assert probability(ternary, "`num__age[foot]` > `num__age[bus]`") == 1.0
    for bad in ("num__age", "height > 0", "num__age >"):
        with pytest.raises(ValueError, match="num__age"):
            probability(binary, bad)


@pytest.mark.parametrize(
    "name", ["binary", "ternary", "ridge", pytest.param("counts", marks=pytest.mark.nightly)]
)
def test_raw_coefficients_predict_from_raw_rows(request, name):
    """Exactly, within bounds: with each draw's coefficients, so that nothing is averaged."""
    pipeline = request.getfixturevalue(name)
    model = pipeline[-1]
    draws = coefficient_draws(pipeline, raw=True).to_numpy()
    draws = draws.reshape(len(draws), model.posterior_samples_.shape[1], -1)
    indicators = np.asarray(PROFILES["region"])[:, None] == REGIONS
    rows = np.column_stack([PROFILES[["age", "income"]], indicators, np.ones(len(PROFILES))])
    raw = np.einsum("ij,skj->isk", rows, draws)
    reached = np.column_stack([pipeline[:-1].transform(PROFILES), np.ones(len(PROFILES))])
    seen = np.einsum("ij,skj->isk", reached, model.posterior_samples_)
    np.testing.assert_allclose(raw, seen, rtol=1e-9, atol=1e-9)
    if name == "binary":
        predicted = pipeline.predict_proba(PROFILES)[:, 1]
        weights = model.plan_.sampler.importance_weights(model.released_, model.posterior_samples_)
        np.testing.assert_allclose(expit(raw[..., 0]) @ weights, predicted, rtol=1e-5)
    if name == "ridge":
        np.testing.assert_allclose(raw[..., 0].mean(axis=1), pipeline.predict(PROFILES), rtol=1e-9)
    table = raw_coefficients(pipeline)
    np.testing.assert_allclose(table["mean"], draws.mean(axis=0).ravel())
    names = ["age", "income", *(f"region_{region}" for region in REGIONS), "intercept"]
    assert list(table.index.get_level_values(-1)[:6]) == names


def test_learnt_bounds_are_undone_too(table):
    X, y, _ = table
    steps = DPQuantileScaler(random_state=0), DPImputer(add_indicator=True)
    clf = DPBayesianLogisticRegression(random_state=0)
    pipeline = make_private_pipeline(*steps, clf, epsilon=10.0).fit(X[["age", "income"]], y)
    table = raw_coefficients(pipeline)
    indicators = ["missingindicator_age", "missingindicator_income"]
    assert list(table.index) == ["age", "income", *indicators, "intercept"]
    scaler, draws = pipeline[0], pipeline[-1].posterior_samples_[:, 0]
    per_year = 2.0 / (scaler.upper_[0] - scaler.lower_[0])
    np.testing.assert_allclose(table.loc["age", "mean"], draws[:, 0].mean() * per_year)


def test_there_are_no_raw_units_behind_what_bends_scaled_columns(table):
    X, y, _ = table
    numbers = X[["age", "income"]]
    clf = DPBayesianLogisticRegression(data_norm=2.0, random_state=0)
    scaler = BoundedScaler([18, 0], [90, 1e5])
    bent = make_private_pipeline(scaler, PolynomialFeatures(2, include_bias=False), clf)
    with pytest.raises(ValueError, match="polynomialfeatures"):
        raw_coefficients(bent.fit(numbers, y))
    logs = FunctionTransformer(np.log1p)
    first = make_private_pipeline(logs, BoundedScaler(0, 12), clf).fit(numbers.to_numpy(), y)
    assert list(raw_coefficients(first).index) == ["log1p(x0)", "log1p(x1)", "intercept"]
    idle = make_private_pipeline("passthrough", scaler, clf).fit(numbers.to_numpy(), y)
    assert list(raw_coefficients(idle).index) == ["x0", "x1", "intercept"]


def one_draw(pipeline, place):
    """Make a pipeline's model one of its draws, so that its predictions are those of that draw."""
    model = pipeline[-1]
    kept = model.posterior_samples_
    model.posterior_samples_ = kept[[place]]
    return kept


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", ["binary", "ternary", "ridge", pytest.param("counts", marks=pytest.mark.nightly)]
)
def test_effects_are_differences_of_predictions_of_each_draw(request, name):
    pipeline, model = request.getfixturevalue(name), request.getfixturevalue(name)[-1]
    table = average_marginal_effects(pipeline, PROFILES)
    predict = pipeline.predict_proba if hasattr(model, "classes_") else pipeline.predict
    older, younger = (PROFILES.assign(age=PROFILES["age"] + h) for h in (0.5, -0.5))
    north, east = (PROFILES.assign(region=region) for region in ("north", "east"))
    slopes, differences = [], []
    for place in range(0, 400, 20):
        kept = one_draw(pipeline, place)
        slopes.append((predict(older) - predict(younger)).mean(axis=0))
        differences.append((predict(north) - predict(east)).mean(axis=0))
        model.posterior_samples_ = kept
    few = average_marginal_effects(
        pipeline, PROFILES, n_draws=None, variables=["age", "region"], level=0.8
    )
    assert list(few.columns)[:3] == ["median", "10%", "90%"]
    # Of 20 draws of 400, against the mean of all.
    for found, key in ((slopes, ("age", "slope")), (differences, ("region", "north - east"))):
        found = np.asarray(found)
        keys = [key]
        if name == "binary":
            found = found[:, 1]
        if name == "ternary":
            keys = [(label, *key) for label in model.classes_]
        found = np.reshape(found, (20, -1))
        for column, where in enumerate(keys):
            row = table.loc[where]
            error = row["sd"] / np.sqrt(20)
            assert abs(found[:, column].mean() - row["mean"]) < 4.0 * error, where
            np.testing.assert_allclose(found[:, column].std(), row["sd"], rtol=0.6)
    if name != "ternary":
        assert table.loc[("age", "slope"), "5%"] > 0 > table.loc[("income", "slope"), "95%"]


def test_an_effect_is_the_derivative(binary):
    """For each draw, the mean of p (1 - p) times the coefficient per year."""
    draws = coefficient_draws(binary, raw=True)
    rows = np.column_stack(
        [PROFILES[["age", "income"]], np.asarray(PROFILES["region"])[:, None] == REGIONS]
    )
    p = expit(rows @ draws.to_numpy()[:, :-1].T + draws.to_numpy()[:, -1])
    slopes = np.mean(p * (1 - p), axis=0) * draws["age"]
    found = average_marginal_effects(binary, PROFILES, "age").loc[("age", "slope")]
    expected = *np.quantile(slopes, [0.5, 0.05, 0.95]), slopes.mean(), slopes.std(ddof=0)
    np.testing.assert_allclose(found.drop("P(> 0)"), expected, rtol=1e-6)


def test_effects_of_a_ridge_are_its_raw_coefficients(ridge):
    """A straight line's slope is the same for all rows."""
    effects = average_marginal_effects(ridge, PROFILES)
    raw = raw_coefficients(ridge)
    for name in ("age", "income"):
        found = effects.loc[(name, "slope")][raw.columns]
        np.testing.assert_allclose(found, raw.loc[name], rtol=1e-6)


def of_ages(*steps, data_norm=2.0):
    """A ridge of age, whose slope is 0.3, and which jumps by 10 at 65."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.uniform(18, 90, 20_000)})
    z = 0.3 * X["age"] + 10.0 * (X["age"] > 65) + rng.normal(size=20_000)
    model = DPBayesianRidge((0, 60), data_norm=data_norm, random_state=0)
    return make_private_pipeline(*steps, model, epsilon=5.0).fit(X, z)


@pytest.mark.parametrize("kind", ["default", "pandas"])
def test_a_bent_column_is_not_the_raw_one(kind):
    branches = make_union(BoundedScaler(18, 90), Binarizer(threshold=65)).set_output(transform=kind)
    raw = raw_coefficients(of_ages(branches))["mean"]
    assert list(raw.index) == ["age", "binarizer(age)", "intercept"]
    np.testing.assert_allclose(raw.iloc[:2], [0.3, 10.0], rtol=0.05)


@pytest.mark.daily(2)
@pytest.mark.parametrize(
    "step, name",
    [
        (Normalizer(), "normalizer(age)"),
        (
            FunctionTransformer(np.log1p, feature_names_out="one-to-one"),
            "functiontransformer(age)",
        ),
        (
            make_pipeline(Binarizer(threshold=40), Normalizer()),
            "normalizer(binarizer(age))",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["default", "pandas"])
def test_steps_that_keep_names_do_not_keep_columns(step, name, kind):
    raw = raw_coefficients(of_ages(step.set_output(transform=kind), data_norm=5.0))
    assert list(raw.index) == [name, "intercept"]


def test_columns_of_different_branches_stay_apart():
    samplers = [RBFSampler(gamma=g, n_components=3, random_state=0) for g in (1e-3, 1e-4)]
    raw = raw_coefficients(of_ages(make_union(*samplers)))
    assert len(raw) == 7 and raw.index.is_unique
    assert raw.index[3] == "rbfsampler-2__rbfsampler0"
    steps = [make_pipeline(Binarizer(threshold=t)) for t in (40, 65)]
    raw = raw_coefficients(of_ages(make_union(*steps)))
    assert list(raw.index[:2]) == [f"pipeline-{j}__binarizer(age)" for j in (1, 2)]
    assert abs(raw["mean"].iloc[1] - 17.5) < 1.0  # The jump, and half the range from 40 to 90.


def test_rows_count_as_their_weights_say(binary):
    once = average_marginal_effects(binary, PROFILES.iloc[[0, 0, 0, 2]])
    weighted = average_marginal_effects(binary, PROFILES.iloc[[0, 2]], row_weights=[3.0, 1.0])
    slopes = [one.loc[("income", "slope")].to_numpy() for one in (once, weighted)]
    np.testing.assert_allclose(*slopes, rtol=1e-9)
    for bad in ([1.0], [-1.0, 2.0], [0.0, 0.0]):
        with pytest.raises(ValueError, match="weights"):
            average_marginal_effects(binary, PROFILES.iloc[[0, 2]], row_weights=bad)


def test_there_is_no_slope_beyond_the_bounds(binary):
    old = PROFILES.assign(age=[95.0, 100.0, 110.0, 120.0])
    with pytest.warns(UserWarning, match="'age' is 0 in all draws"):
        found = average_marginal_effects(binary, old, "age")
    assert found.loc[("age", "slope"), "mean"] == 0.0


def test_effects_of_a_formula_are_of_its_columns(table):
    pytest.importorskip("formulaic")
    X, y, _ = table
    rng = np.random.default_rng(1)
    X = X.assign(code=rng.integers(1, 4, N), flag=rng.integers(0, 2, N), y=y, name="text")
    model = DPBayesianLogisticRegression.from_formula(
        "y ~ bounded(age, 18, 90) + C(code, levels=[1, 2, 3]) + C(flag, levels=[0, 1]) + missing(code)",
        random_state=0,
    ).fit(X)
    rows = X.head(40).astype({"flag": float})
    rows.loc[3, "flag"] = np.nan
    found = average_marginal_effects(model, rows)
    codes = [("code", "2.0 - 1.0"), ("code", "3.0 - 1.0")]
    assert list(found.index) == [("age", "slope"), *codes, ("flag", "1 - 0")]
    with pytest.raises(ValueError, match="columns|table"):
        average_marginal_effects(model, rows.drop(columns="code"))
    nothing = rows.assign(flag=np.nan)
    assert list(average_marginal_effects(model, nothing).index) == [("age", "slope"), *codes]


def test_effects_are_against_the_reference_of_a_formula(table):
    pytest.importorskip("formulaic")
    X, y, _ = table
    rng = np.random.default_rng(1)
    X = X.assign(code=rng.integers(1, 4, N), flag=rng.integers(0, 2, N), y=y)
    formula = (
        "y ~ C(region, levels=['west', 'north', 'east'], reference='{}') + C(code, levels=[1, 2, 3]"
    )
    formula += ", reference=2) + C(flag, levels=[0, 1], reference=1)"
    given = {"random_state": 0, "n_draws": 50}
    model = DPBayesianLogisticRegression.from_formula(formula.format("north"), **given).fit(X)
    found = average_marginal_effects(model, X.head(40).astype({"flag": float}))
    regions = [("region", f"{level} - north") for level in ("east", "west")]
    codes = [("code", "1.0 - 2.0"), ("code", "3.0 - 2.0")]
    assert sorted(found.index) == sorted([*regions, *codes, ("flag", "0 - 1")])
    assert (found.loc[regions, "95%"] < 0).all()
    north = average_marginal_effects(model, X[X["region"] != "north"].head(40), "region")
    assert list(north.index) == regions  # A row need not have the reference.


def test_a_column_of_zeros_has_a_slope(table):
    X, y, _ = table
    clf = DPBayesianLogisticRegression(random_state=0)
    model = make_private_pipeline(BoundedScaler([-9, 0], [90, 1e5]), clf)
    model.fit(X[["age", "income"]], y)
    rows = pd.DataFrame({"age": [0.0, 0.0], "income": [1.0, 2e4]})
    assert average_marginal_effects(model, rows).index[0] == ("age", "slope")


def test_effects_take_frames_of_all_kinds_and_arrays(table):
    X, y, _ = table
    numbers = X[["age", "income"]].to_numpy()
    clf = DPBayesianLogisticRegression(random_state=0)
    pipeline = make_private_pipeline(BoundedScaler([18, 0], [90, 1e5]), clf).fit(numbers, y)
    array = PROFILES[["age", "income"]].to_numpy()
    expected = average_marginal_effects(pipeline, array)
    assert list(expected.index) == [("x0", "slope"), ("x1", "slope")]
    single = average_marginal_effects(pipeline, array.astype(np.float32))
    np.testing.assert_allclose(single, expected, rtol=1e-4)
    frame = pl.from_pandas(PROFILES[["age", "income"]]).rename({"age": "x0", "income": "x1"})
    np.testing.assert_array_equal(average_marginal_effects(pipeline, frame), expected)
    codes = pd.DataFrame({"x0": [30.0, 40.0], "x1": [0.0, 1.0]})
    index = average_marginal_effects(pipeline, codes, categorical="x0").index
    assert list(index) == [("x0", "40.0 - 30.0"), ("x1", "1 - 0")]
    for bad in (array[0], array[:0], array[:, :1]):
        with pytest.raises(ValueError):
            average_marginal_effects(pipeline, bad)
    with pytest.raises(ValueError, match="height"):
        average_marginal_effects(pipeline, array, "height")


def test_effects_behind_learnt_categories(table):
    X, y, _ = table
    clf = DPBayesianLogisticRegression(random_state=0)
    encoder = DPOneHotEncoder(random_state=0)
    pipeline = make_private_pipeline(encoder, clf, epsilon=10.0).fit(X[["region"]], y)
    effects = average_marginal_effects(pipeline, PROFILES[["region"]])
    assert list(effects.index) == [("region", f"{one} - east") for one in ("north", "west")]
    assert effects["5%"].iloc[0] > 0.1


@pytest.mark.parametrize("ask", [odds_ratios, raw_coefficients])
def test_levels_are_checked(binary, ask):
    with pytest.raises(ValueError, match="level"):
        ask(binary, 1.5)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", ["binary", "ternary", "ridge", pytest.param("counts", marks=pytest.mark.nightly)]
)
def test_marginaleffects_agrees_with_draws(request, name):
    marginaleffects = pytest.importorskip("marginaleffects")
    from skdpbayes.inspection import to_marginaleffects

    pipeline = request.getfixturevalue(name)
    table = average_marginal_effects(pipeline, PROFILES, "age", n_draws=2000)
    model = to_marginaleffects(pipeline, PROFILES, n_draws=2000)
    # Of several classes, differences of steps that are as short as by default are mostly rounding.
    options = {"eps_vcov": 1e-4} if name == "ternary" else {}
    found = marginaleffects.avg_slopes(model, variables="age", **options)
    if name == "ternary":
        found = found.sort("group")
    size = np.abs(table["mean"]).max()  # Of three classes one may hardly change.
    np.testing.assert_allclose(found["estimate"].to_numpy(), table["mean"], atol=0.02 * size)
    np.testing.assert_allclose(found["std_error"].to_numpy(), table["sd"], rtol=0.02)


@pytest.mark.parametrize("named", [False, True])
def test_codes_of_categories_are_none_of_marginaleffects_numbers(table, named):
    marginaleffects = pytest.importorskip("marginaleffects")
    pytest.importorskip("formulaic")
    from skdpbayes.inspection import to_marginaleffects

    X, y, _ = table
    X = X.assign(code=np.random.default_rng(1).integers(1, 4, N), y=y)
    if named:
        encoder = DPOneHotEncoder(categories=[[1, 2, 3], REGIONS])
        clf = DPBayesianLogisticRegression(data_norm=2.0, random_state=0)
        model = make_private_pipeline(encoder, clf, epsilon=5.0).fit(X[["code", "region"]], y)
    else:
        formula = (
            "y ~ C(region, levels=['east', 'north']) + C(code, levels=[1, 2, 3]) + missing(code)"
        )
        model = DPBayesianLogisticRegression.from_formula(formula, random_state=0).fit(X)
    rows = X.head(20)[["code", "region"]]
    given = {"categorical": "code"} if named else {}
    expected = average_marginal_effects(model, rows, "code", n_draws=2000, **given)
    assert [contrast for _, contrast in expected.index] == ["2.0 - 1.0", "3.0 - 1.0"]
    seen = to_marginaleffects(model, rows, n_draws=2000, **given)
    assert set(seen.vault.variables_type.values()) == {"character"}
    codes = seen.vault.modeldata.head(3).with_columns(code=pl.Series(["1.0", "3.0", None]))
    changed = rows.head(3).assign(code=[1.0, 3.0, np.nan])
    reached = model[:-1].transform(changed)
    np.testing.assert_allclose(seen.get_exog(codes)[:, :-1], reached)
    other = marginaleffects.avg_predictions(seen, newdata=seen.vault.modeldata.head(9))
    predicted = model.predict_proba(rows.head(9))[:, 1].mean()
    np.testing.assert_allclose(other["estimate"].to_numpy(), predicted, atol=5e-3)
    with pytest.raises(ValueError, match="height"):
        to_marginaleffects(model, rows, categorical="height")
    if not pl.__version__.startswith("1."):
        return  # marginaleffects 0.6 compares categories with polars 1 only.
    for name in ("code", "region"):
        expected = average_marginal_effects(model, rows, name, n_draws=2000, **given)
        found = marginaleffects.avg_comparisons(seen, variables=name).sort("contrast")
        np.testing.assert_allclose(found["estimate"].to_numpy(), expected["mean"], atol=2e-3)
        assert found["contrast"].to_list() == [contrast for _, contrast in expected.index]


def test_a_logarithm_has_a_ratio_per_doubling(table):
    X, y, _ = table
    incomes = X[["income"]].fillna(1.0) + 1.0
    clf = DPBayesianLogisticRegression(random_state=0)
    steps = FunctionTransformer(np.log), BoundedScaler(0, 12), clf
    pipeline = make_private_pipeline(*steps).fit(incomes, y)
    per_unit = odds_ratios(pipeline, raw=True).loc["log(income)", "median"]
    doubled = odds_ratios(pipeline, raw=True, per={"log(income)": np.log(2)})
    np.testing.assert_allclose(
        doubled.loc["log(income)", "median"], per_unit ** np.log(2), rtol=1e-3
    )
    with pytest.raises(ValueError, match=r"per=\{'log\(income\)': log\(2\)\} is a doubling"):
        odds_ratios(pipeline, raw=True, per={"income": 2})
