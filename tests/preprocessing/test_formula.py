"""A formula looks at single rows: what it declares is public, and anything else is refused."""

import pickle
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from sklearn.base import clone

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor, DPBayesianRidge
from skdpbayes.exceptions import PrivacyLeakWarning
from skdpbayes.inspection import (
    average_marginal_effects,
    coefficient_draws,
    odds_ratios,
    raw_coefficients,
)
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import FormulaEncoder
from skdpbayes.privacy import PrivacyLedger

pytest.importorskip("formulaic")
N = 3000
FORMULA = "y ~ C(region, levels=['north', 'south']) + bounded(age, 18, 90) * income"
BOUNDS = {"income": (0, 1e5)}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.uniform(10, 100, N),
            "income": rng.uniform(-1e3, 1.2e5, N),
            "region": rng.choice(["north", "south", "elsewhere"], N),
            "unused": ["text"] * N,
        }
    )
    logits = 0.05 * (table["age"] - 50) + (table["region"] == "north")
    table["y"] = (rng.random(N) < expit(logits)).astype(int)
    table.loc[::9, "age"] = np.nan
    table.loc[::7, "region"] = None
    return table


def logistic(formula=FORMULA, **options):
    given = {"bounds": BOUNDS, "epsilon": 5.0, "random_state": 0, **options}
    return DPBayesianLogisticRegression.from_formula(formula, **given)


@pytest.fixture(scope="module")
def model(people):
    return logistic().fit(people)


def encoded(formula, table, **declared):
    encoder = FormulaEncoder(formula, **declared).set_output(transform="pandas")
    return encoder.fit_transform(table)


def test_columns_are_what_the_formula_says(people):
    found = encoded(FORMULA, people, bounds=BOUNDS)
    names = ["region[north]", "region[south]", "age", "income", "age:income"]
    assert list(found.columns) == names
    age = ((people["age"].clip(18, 90) - 54) / 36).fillna(0.0)
    income = people["income"].clip(0, 1e5) / 5e4 - 1
    np.testing.assert_allclose(found["age"], age)
    np.testing.assert_allclose(found["income"], income)
    np.testing.assert_allclose(found["age:income"], age * income)
    np.testing.assert_array_equal(found["region[north]"], people["region"] == "north")


def test_unknown_and_missing_categories_are_rows_of_zeros(people):
    found = encoded("C(region, levels=['north', 'south'])", people).to_numpy()
    other = ~people["region"].isin(["north", "south"]).to_numpy()
    assert other.sum() > N / 4 and not found[other].any() and (found[~other].sum(axis=1) == 1).all()


def test_a_reference_has_no_column(people):
    found = encoded("C(region, levels=['north', 'south'], reference='north')", people)
    assert list(found.columns) == ["region[south]"]


@pytest.mark.parametrize("levels", [{"a", "b"}, frozenset("ab"), [1, "1"]])
def test_levels_have_one_order_and_different_names(levels):
    """A set has another order in another process, and predictions would be of other levels."""
    table = pd.DataFrame({"g": ["a", "b"]})
    with pytest.raises(ValueError, match="levels of g: levels must"):
        FormulaEncoder("g", levels={"g": levels}).fit(table)
    with pytest.raises(ValueError, match="levels must|written"):
        FormulaEncoder(f"C(g, levels={levels!r})").fit(table)


def test_levels_of_numpy_have_plain_names():
    table = pd.DataFrame({"g": [1, 2]})
    for levels in (np.array([1, 2]), [np.int64(1), np.int64(2)]):
        found = encoded("g", table, levels={"g": levels})
        assert list(found.columns) == ["g[1]", "g[2]"] and (found.to_numpy() == np.eye(2)).all()


@pytest.mark.parametrize(
    "formula",
    [
        FORMULA,
        "C(region, levels=['north', 'south']) * bounded(age, 18, 90) * bounded(income, 0, 1e5)",
        "bs(age, knots=[30, 60], bounds=(18, 90)) + missing(age)",
        "(bounded(log1p(income), 0, 12) + bounded(age > 65, 0, 1) + bounded(age ** 2 / 7, 0, 1))**2",
    ],
)
def test_no_row_is_longer_than_the_norm_and_each_depends_on_itself(people, formula):
    bounds = BOUNDS if formula == FORMULA else None
    encoder = FormulaEncoder(formula, bounds=bounds).fit(people)
    found = encoder.transform(people)
    assert found.shape[1] == encoder.n_columns and np.isfinite(found).all()
    lengths = np.linalg.norm(found, axis=1)
    assert lengths.max() <= encoder.norm * (1 + 1e-12)
    assert lengths.max() > 0.5 * encoder.norm
    alone = np.vstack([encoder.transform(people.iloc[[i]]) for i in range(25)])
    np.testing.assert_array_equal(alone, found[:25])
    extreme = people.assign(age=np.inf, income=-np.inf)
    assert np.linalg.norm(encoder.transform(extreme), axis=1).max() <= encoder.norm * (1 + 1e-12)


def test_a_missing_number_counts_as_a_public_one():
    table = pd.DataFrame({"bmi": [10.0, 27.0, np.nan, 70.0], "age": [18.0, 90.0, 54.0, np.nan]})
    found = encoded("bounded(bmi, 10, 70, fill=27) * bounded(age, 18, 90)", table).to_numpy()
    full = encoded(
        "bounded(bmi, 10, 70) * bounded(age, 18, 90)", table.fillna({"bmi": 27, "age": 54})
    ).to_numpy()
    np.testing.assert_array_equal(found, full)
    for fill in ("bmi.mean()", "9", "'a'", "inf", "True"):
        with pytest.raises(ValueError, match="fill|written as finite"):
            FormulaEncoder(f"bounded(bmi, 10, 70, fill={fill})").fit(table)
    with pytest.raises(ValueError, match="declared twice"):
        FormulaEncoder("bounded(bmi, 10, 70, fill=27) + bounded(bmi, 10, 70)").fit(table)


def test_tables_say_what_missing_cells_count_as(people, model):
    """Whether there are any is private, so this follows from the formula alone."""
    formula = (
        "y ~ bounded(age, 18, 90) + bounded(log(income), 0, 12, fill=9) + bs(age, knots=[], bounds=(18, 90))"
        " + C(region, levels=['north', 'south'], reference='south')"
    )
    note = "missing values, if any, count as age = 54, log(income) = 9, region = 'south', and bias"
    for table in (people.assign(income=1e4), people.fillna({"age": 1, "region": "north"})):
        fitted = logistic(formula, bounds=None, n_draws=9, sampler="noise_aware").fit(table)
        for found in (fitted.coef_table(), fitted.summary(), raw_coefficients(fitted)):
            assert found.attrs["notes"][-1].startswith(note)
            assert "missing(age) + missing(income) + missing(region)" in repr(found)
    assert "region" not in odds_ratios(model).attrs["notes"][-1]  # Of four levels, missing is one.
    marked = f"{formula} + missing(age) + missing(income) + missing(region)"
    assert FormulaEncoder(marked)._notes() == ()


def test_splines_have_public_knots_and_add_up_to_one(people):
    found = encoded("bs(age, knots=[30, 60], bounds=(18, 90), degree=2)", people)
    assert found.shape[1] == 5
    sums = found.sum(axis=1)
    np.testing.assert_allclose(sums[people["age"].notna()], 1.0)
    assert (sums[people["age"].isna()] == 0).all()


REFUSED = [
    *("scale(age)", "center(age)", "bs(age, df=4)", "poly(age, 2)", "hashed(region)", "C(region)"),
    *("age", "bounded(age.mean(), 0, 1)", "bounded(np.mean(age), 0, 1)", "bounded(max(age), 0, 1)"),
    *("bounded(age, age, 1)", "bounded(age, 90, 18)", "bounded(age, 0, float('inf'))", "{age + 1}"),
    *("bounded(age[0], 0, 1)", "bounded([a for a in age], 0, 1)", "bounded(np.pi, 0, 1)"),
    *(
        "bounded(age, 18)",
        "bounded(age, 18, 90, 3)",
        "bounded(age, 18, 90, x=age)",
        "bounded(2, 0, 3)",
    ),
    *("C(region, levels=region)", "C(region, levels=[])", "C(region, levels=['a', 'a'])"),
    *("C(region, levels=['a', None])", "C(region, levels=['a', 'b'], reference='c')"),
    *(
        "bs(age, knots=[99], bounds=(18, 90))",
        "bs(age, knots=3, bounds=(18, 90))",
        "bs(age, knots=[30], bounds=90)",
        "bs(age, knots=[30], bounds=(18, 90), degree=0)",
    ),
    *(
        "bounded(age, 18, 90) + bounded(age, 0, 90)",
        "exec('1')",
        "missing()",
        "1",
        "bounded(age, True, 2)",
    ),
    *(
        "bounded(age if age else 1, 0, 1)",
        "bounded(age < 2 < 3, 0, 1)",
        "bounded(lambda: age, 0, 1)",
    ),
    *(
        "bounded(np.linalg.norm(age), 0, 1)",
        "bounded(log(age, 2), 0, 1)",
        "bounded(age // 2, 0, 1)",
    ),
]


@pytest.mark.parametrize("formula", REFUSED)
def test_what_is_not_known_to_look_at_single_rows_is_refused(formula, people):
    with pytest.raises(ValueError):
        FormulaEncoder(formula).fit(people)
    with pytest.raises(ValueError):
        DPBayesianLogisticRegression.from_formula(f"y ~ {formula}")


@pytest.mark.parametrize(
    "formula", ["bounded(age, 18, 90)", "log(y) ~ bounded(age, 18, 90)", "y ~", "y ~ |"]
)
def test_a_model_needs_one_response_and_terms(formula):
    with pytest.raises(ValueError):
        DPBayesianLogisticRegression.from_formula(formula)
    with pytest.raises(TypeError, match="str"):
        FormulaEncoder(3).fit(pd.DataFrame({"age": [1.0]}))


def test_a_formula_needs_a_frame_with_its_columns(people, model):
    for act in (logistic().fit, model.predict):
        with pytest.raises(TypeError, match="data frame"):
            act(people[["age", "income"]].to_numpy())
    for missing in ("age", "region"):
        with pytest.raises(ValueError, match=missing):
            logistic().fit(people.drop(columns=missing))
    with pytest.raises(ValueError, match="'y'"):
        logistic().fit(people.drop(columns="y"))


def test_a_fit_is_as_private_as_asked_and_warns_of_nothing(people, recwarn):
    fitted = logistic(epsilon=1.0, delta=1e-6).fit(people)
    assert not [one for one in recwarn if issubclass(one.category, PrivacyLeakWarning)]
    assert 0.9 < fitted.spent_epsilon_ <= 1.0 and fitted.spent_delta_ == 1e-6
    assert fitted.privacy_plan(N, 5).epsilon == fitted.plan_.epsilon
    assert fitted[-1].data_norm_ == 2.0  # A term of categories is as long as one column.
    assert list(fitted.coef_table().index)[2:] == ["age", "income", "age:income", "intercept"]


def test_a_ledger_calls_a_fit_by_its_response_and_terms(people, tmp_path):
    for label, expected in ((None, ""), ("pilot", "pilot: ")):
        path = tmp_path / f"{label}.ledger"
        with PrivacyLedger(9.0, 1e-3, path=path, label=label) as ledger:
            logistic(random_state=None).fit(people)
            logistic("y ~ bounded(log(age), 2, 5)", bounds=None, random_state=None).fit(people)
        labels = [row["label"] for row in ledger.records()]
        assert labels == [f"{expected}y ~ region + age + income + age:income", f"{expected}y ~ age"]


def test_a_model_of_a_formula_predicts_and_scores_frames(people, model):
    rows = people.drop(columns="y")
    np.testing.assert_array_equal(model.predict(people), model.predict(rows))
    assert model.score(people) == model.score(rows, people["y"]) > 0.7
    for copy in (pickle.loads(pickle.dumps(model)), clone(model).fit(people)):
        np.testing.assert_array_equal(copy.predict(rows), model.predict(rows))
    assert not logistic("y ~ bounded(age, -90, 90) - 1", bounds=None).fit(people)[-1].fit_intercept


def test_another_formula_is_not_taken_for_that_of_the_model(people):
    """Response and constant are the model's: a formula that is set later does not change them."""
    changed = logistic().set_params(formula__formula="unused ~ bounded(age, 18, 90)")
    with pytest.raises(ValueError, match="from_formula"):
        changed.fit(people)
    for formula in ("y ~ 0 + bounded(age, 18, 90)", "y ~ bounded(age, 18, 90) - 1"):
        changed = logistic().set_params(formula__formula=formula)
        with pytest.raises(ValueError, match="fit_intercept"):
            changed.fit(people)
    with pytest.raises(ValueError, match="fit_intercept"):
        logistic(fit_intercept=False).fit(people)
    longer = f"{FORMULA} + missing(age)"
    with pytest.warns(UserWarning, match="data_norm=2 is below 2.236"):
        logistic(n_draws=4).set_params(formula__formula=longer).fit(people)
    same = logistic(n_draws=4).set_params(formula__formula="y ~ bounded(age, 18, 90)")
    assert same.set_params(formula__bounds=None).fit(people).plan_.epsilon <= 5.0


def test_a_line_without_an_intercept_goes_through_zero(people):
    """Columns that are 0 at the middle of their bounds would put it there: a slope of 2 would be -0.8."""
    table = people.assign(age=np.linspace(20, 60, N), y=2.0 * np.linspace(20, 60, N))
    given = {"target_bounds": (0, 200), "epsilon": np.inf, "random_state": 0}
    for constant in ("- 1", "+ 0"):
        with pytest.raises(ValueError, match=r"middle.*54.*bounded\(age, -90, 90\)"):
            DPBayesianRidge.from_formula(f"y ~ bounded(age, 18, 90) {constant}", **given)
        model = DPBayesianRidge.from_formula(f"y ~ bounded(age, -90, 90) {constant}", **given)
        raw = raw_coefficients(model.fit(table))
        assert list(raw.index) == ["age"] and abs(raw.loc["age", "mean"] - 2.0) < 0.01
    with pytest.raises(ValueError, match="no column of its own.*without a reference"):
        logistic("y ~ 0 + C(region, levels=['a', 'b'], reference='a')", bounds=None)
    assert logistic("y ~ 0 + C(region, levels=['a', 'b']) + missing(age)", bounds=None)


def test_levels_of_one_factor_stand_for_the_constant_of_others():
    """Each row has one of them: means of cells, those of others at the reference or the middle of bounds."""
    other = "C(kind, levels=['u', 'v'], reference='u')"
    region = "C(region, levels=['a', 'b'])"
    for first in (
        region,
        "bs(age, knots=[40], bounds=(18, 90))",
        f"{region}:C(sex, levels=[0, 1])",
    ):
        assert logistic(f"y ~ 0 + {first} + {other} + bounded(income, 0, 9)", bounds=None)
    for first in (other, "missing(age)"):
        with pytest.raises(ValueError, match="no intercept, but the column of income"):
            logistic(f"y ~ 0 + bounded(income, 0, 9) + {first}", bounds=None)
    with pytest.raises(ValueError, match="no column of its own"):
        logistic(f"y ~ 0 + {other} + bounded(age, -90, 90)", bounds=None)


def test_means_of_cells_beside_a_scaled_column_are_those_at_its_middle(people):
    table = people.assign(age=np.linspace(20, 60, N), region=np.where(np.arange(N) % 2, "a", "b"))
    table["y"] = 2.0 * table["age"] + np.where(table["region"] == "a", 10.0, -10.0)
    model = DPBayesianRidge.from_formula(
        "y ~ 0 + C(region, levels=['a', 'b']) + bounded(age, 20, 60)",
        target_bounds=(0, 200),
        epsilon=np.inf,
        random_state=0,
    ).fit(table)
    means = model.coef_table()["mean"]
    np.testing.assert_allclose(means[["region[a]", "region[b]"]], [90.0, 70.0], atol=0.1)
    raw = raw_coefficients(model)["mean"]
    assert abs(raw["age"] - 2.0) < 0.01
    np.testing.assert_allclose(raw["region[a]"] + raw["intercept"], 10.0, atol=0.3)


@pytest.mark.parametrize("left", ["y - 1", "y + 0", "0 + y", "-1 + y", "y-1"])
def test_a_constant_is_not_taken_out_of_a_response(left):
    """It would go unsaid, and the model would have an intercept."""
    with pytest.raises(ValueError, match=r"before '~'.*as in 'y ~ ... - 1'"):
        logistic(f"{left} ~ bounded(age, -90, 90)", bounds=None)


def test_a_reference_without_levels_beside_it_is_refused():
    """It was left out without a word where levels are declared outside the formula."""
    with pytest.raises(ValueError, match="stands beside the levels"):
        logistic("y ~ C(region, reference='a')", bounds=None, levels={"region": ["a", "b"]})


def test_a_response_may_have_a_number_in_its_name():
    model = logistic("`covid-19 + 1` ~ `age ~ - 1`", bounds={"age ~ - 1": (-90, 90)})
    assert model.response == "covid-19 + 1" and model[-1].fit_intercept


@pytest.mark.parametrize(
    "formula, message",
    [
        (
            "bounded(age, 18, 90):bounded(income, 0, 9)",
            r"age:income.*without income.*age \* income",
        ),
        ("bounded(age, 18, 90) + age:bounded(income, 0, 9)", "without income.*0 at the middle.*54"),
        ("bounded(age, 18, 90):C(region, levels=['a', 'b'])", r"without region.*age \* region"),
        (
            "C(region, levels=['a', 'b'], reference='b') + bounded(age, 18, 90):region",
            "without age.*'b', the reference.*without a reference",
        ),
        (  # Without the call, a formula would read age ** 2 as age.
            "bounded(age, 18, 90):bounded(age ** 2, 0, 8100)",
            r"Write age \* bounded\(age \*\* 2, \.\.\.\)",
        ),
        (
            "bs(age, knots=[40], bounds=(18, 90)):bounded(income, 0, 9)",
            r"without bs\(age\), .*Write bs\(age, \.\.\.\) \* income",
        ),
    ],
)
def test_products_stand_beside_their_main_effects(formula, message):
    """Elsewhere effects would depend on the bounds, and tables would have rows that nobody asked for."""
    with pytest.raises(ValueError, match=message):
        logistic(f"y ~ {formula}", bounds=None)


def test_a_column_of_numbers_and_of_levels_has_a_note_for_both():
    levels = "C(age, levels=[20, 60], reference=20)"
    (note,) = FormulaEncoder(f"bounded(age, 18, 90) + {levels}")._notes()
    assert "count as age = 54, age = 20, and" in note


def test_a_term_is_taken_out_as_it_is_written():
    """Another spelling would leave it in."""
    written = "bounded(age, 18, 90):bounded(income, -1, 1)"
    both = "bounded(age, 18, 90) * bounded(income, -1, 1)"
    assert FormulaEncoder(f"{both} - {written} - 1").n_columns == 2
    for taken in ("age:income", "bounded(age, 18, 90):income", "`age`", "missing(age)"):
        with pytest.raises(ValueError, match=f"'- {re.escape(taken)}' takes out nothing"):
            logistic(f"y ~ {both} - {taken} - 1", bounds=None)


@pytest.mark.parametrize(
    "formula, names",
    [
        ("bounded(age, -90, 90):bounded(income, -1, 1)", ["age:income"]),
        ("bounded(age, -90, 90):C(region, levels=['a', 'b'])", ["age:region[a]", "age:region[b]"]),
        ("C(region, levels=['a']) + bounded(age, 18, 90):region", ["region[a]", "age:region[a]"]),
    ],
)
def test_products_of_columns_that_are_zero_at_zero_stand_alone(formula, names):
    assert list(FormulaEncoder(formula)._affine()[2]) == names


@pytest.mark.parametrize(
    "formula, declared, error, message",
    [
        ("bounded(`my age`, 18, 90)", {}, ValueError, "bounds={'my name'"),
        ("`my age`", {}, ValueError, "bounds={'my age'"),
        ("bounded(age, , 1)", {}, ValueError, "not understood"),
        ("age", {"bounds": "x"}, TypeError, "bounds must be a dict"),
        ("age", {"levels": ["age"]}, TypeError, "levels must be a dict"),
        ("bounded(age, 0, 1)", {"bounds": {"agee": (0, 1)}}, ValueError, "'agee'"),
        ("bounded(age, 0, 1)", {"levels": {"g": [1, 2]}}, ValueError, "'g'"),
        ("bounded(age + 1 / 0, 0, 1)", {}, ValueError, "finite"),
        ("bounded(age + log(0), 0, 1)", {}, ValueError, "finite"),
        ("bounded(age + 1e400, 0, 1)", {}, ValueError, "finite"),
    ],
)
def test_messages_name_what_to_do(formula, declared, error, message):
    with pytest.raises(error, match=message) as raised:
        FormulaEncoder(formula, **declared).fit(pd.DataFrame({"age": [1.0], "my age": 1.0}))
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize(
    "bounds", ["18, 90", "low=18, high=90", "lower=18, upper=90", "high=9 * 10, low=18"]
)
def test_bounds_have_the_names_of_the_documentation_too(bounds, people):
    plain = encoded("bounded(age, 18, 90)", people)
    pd.testing.assert_frame_equal(encoded(f"bounded(age, {bounds})", people), plain)


# What R, statsmodels, patsy, bambi and brms would take, and what to write instead.
ELSEWHERE = {
    "y ~ .": r"list them with public bounds or levels, such as bounded\(age",
    "y ~ . - age": "'.' stands for all columns",
    ". ~ bounded(age, 0, 1)": "'.' stands for all columns",
    "(y == 'Yes') ~ bounded(age, 0, 1)": "table.*== 'Yes'; a classifier takes text.*classes=",
    "y == 'Yes' ~ bounded(age, 0, 1)": "a classifier takes text",
    "log(y) ~ bounded(age, 0, 1)": "name of one column",
    "C(y) ~ bounded(age, 0, 1)": "a classifier takes text",
    "y['Yes'] ~ bounded(age, 0, 1)": "a classifier takes text",
    "cbind(y, n) ~ bounded(age, 0, 1)": "a row for each trial",
    "y | trials(n) ~ bounded(age, 0, 1)": "a row for each trial",
    "y ~ (1 | region)": r"C\(group, levels=\[...\]\)",
    "y ~ bounded(age, 0, 1) | region": r"C\(group, levels",
    "y ~ bounded(age, 0, 1) + offset(log(days))": r"fit\(table, model__exposure=table\['days'\]\)",
    "y ~ bounded(age, 0, 1) + offset(np.log(days))": r"model__exposure=table\['days'\]",
    "y ~ bounded(age, 0, 1) + weights(w)": r"model__sample_weight=table\['w'\]",
    "y ~ bounded(age, 0, 1), weights=w": "model__sample_weight",
    "y ~ I(age**2)": r"write bounded\(age \*\* 2, low, high\)",
    "y ~ {age + 1}": r"write bounded\(age \+ 1, low, high\)",
    "y ~ log(age)": r"write bounded\(log\(age\), low, high\)",
    "y ~ np.log(age)": r"write bounded\(np.log\(age\), low, high\)",
    "y ~ bounded(I(age**2), 0, 1)": r"write age \*\* 2 as it is",
    "y ~ bounded(age^2, 0, 1)": r"a power is written age \*\* 2",
    "y ~ bounded(log(age, 10), 0, 1)": r"one argument here, as in log\(age\)",
    "y ~ bounded(ln(age), 0, 1)": r"write log\(age\)",
    "y ~ bounded(clip(age, 0, 1), 0, 1)": "clips by itself",
    "y ~ bounded(age == 5, 0, 1)": "compare by < or >",
    "y ~ age > 65": r"within bounded\(...\)",
    "y ~ bounded(age, 0, 1) == 1": r"within bounded\(...\)",
    "y ~ ifelse(age > 65, 1, 0)": r"bounded\(age > 5, 0, 1\)",
    "y ~ factor(region)": r"write C\(region, levels=\[...\]\)",
    "y ~ as.factor(region)": r"write C\(x, levels=\[...\]\)",
    "y ~ C(region, Treatment)": r"reference='a'",
    "y ~ C(region, Treatment('north'))": r"reference='a'",
    "y ~ C(region, levels=['a'], base='a')": r"C\(x, levels=\['a', 'b'\], reference='a'\)",
    "y ~ is.na(age)": r"write missing\(x\)",
    "y ~ isna(age)": r"write missing\(age\)",
    "y ~ s(age)": r"bs\(x, knots=",
    "y ~ ns(age, 3)": r"bs\(x, knots=",
    "y ~ mean(age)": "learns from all rows",
    "y ~ bounded(age.max(), 0, 1)": "learns from all rows",
    "y ~ bounded(age, 0, max(age))": "computed from rows would leak",
    "y ~ bounded(age, -inf, inf)": "finite",
    "y ~ bounded(age)": r"bounded\(x, low, high\): write it like this",
    "y ~ bounded(age, low=0, lower=0, high=1)": r"bounded\(x, low, high\)",
    "y ~ my age": "within backticks",
    "y ~ 'age'": "within backticks, without quotes",
    "y ~ Q('my age')": "within backticks",
    "y ~ df['age']": "name the column alone",
    "y ~ df$age": "name the column alone",
    "y ~ bounded(df.age, 0, 1)": "name the column alone",
    "y = bounded(age, 0, 1)": "'y ~ ",
    "y <- bounded(age, 0, 1)": "'y ~ ",
    "y ~ bounded (age, 0, 1)": "no space",
    "y ~ 2 * bounded(age, 0, 1)": "a number is no term",
    "y ~ pow(age, 2)": r"bounded\(age \*\* 2, low, high\)",
    "y ~ bounded(age > 5 & n > 2, 0, 1)": r"\(a > 0\) \* \(b > 1\)",
    "y ~ bounded(age > 5 and n > 2, 0, 1)": r"\(a > 0\) \* \(b > 1\)",
    "y ~ bounded(age, 0, 1) + exposure(days)": r"model__exposure=table\['days'\]",
    "y ~ one_hot(region)": r"write C\(region, levels",
    "y ~ bounded(y, 0, 1)": "the response among its terms",
}


@pytest.mark.parametrize("formula", ELSEWHERE)
def test_what_other_packages_write_is_answered_by_what_to_write(formula):
    with pytest.raises(ValueError, match=ELSEWHERE[formula]) as raised:
        DPBayesianPoissonRegressor.from_formula(formula)
    assert "formulaic" not in str(raised.value) and "⧛" not in str(raised.value)


@pytest.mark.parametrize(
    "name, remedy",
    {
        "data": r"fit\(data\)",
        "weights": "model__sample_weight=",
        "freq_weights": "model__sample_weight=",
        "offset": r"model__exposure=np.exp\(offset\)",
        "groups": "groups=",
    }.items(),
)
def test_what_belongs_to_a_fit_is_named_so(name, remedy, people):
    with pytest.raises(TypeError, match=remedy):
        logistic(**{name: people})


@pytest.mark.parametrize(
    "name, remedy",
    {
        "offset": r"model__exposure=np.exp\(offset\)",
        "freq_weights": "model__sample_weight=",
        "cov_type": "no covariance to choose.*groups=.*max_rows_per_group=1",
        "cov_kwds": "no covariance to choose",
    }.items(),
)
def test_arguments_of_other_fits_are_answered_by_those_of_this_one(name, remedy, people):
    with pytest.raises(ValueError, match=f"does not accept {name}=...: .*{remedy}"):
        logistic().fit(people, **{name: people["age"]})
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}': .*{remedy}"):
        logistic().fit(people, **{f"model__{name}": people["age"]})


def test_a_missing_outcome_is_answered_by_a_fit_that_works(people):
    table = people.assign(y=people["y"].where(people.index % 5 > 0))
    with pytest.raises(ValueError, match="stays public, e.g. ") as raised:
        logistic(n_draws=9).fit(table)
    call = str(raised.value).partition("e.g. ")[2].partition(". Leave")[0]
    assert call == "fit(table.fillna({'y': 0}), model__sample_weight=table['y'].notna())"
    fitted = eval(call, {"fit": logistic(n_draws=9).fit, "table": table})
    assert fitted[-1].plan_.n_samples == N
    numbers = make_private_pipeline(DPBayesianRidge((0, 1)))
    with pytest.raises(
        ValueError, match=r"fillna\(label\), dpbayesianridge__sample_weight=y.notna"
    ):
        numbers.fit(np.zeros((N, 1)), table["y"])


def test_bounds_that_cut_most_values_are_told_as_such(people):
    with pytest.warns(UserWarning, match="most of their values seem to lie at a bound"):
        logistic("y ~ bounded(age, 0, 12)", bounds=None).fit(people.fillna({"age": 50}))


def test_errors_of_formulaic_have_no_colours():
    for formula in ("bounded(age, 0, 1", "bounded(age, 0, 1) + * 2", "y ~ 3 : age"):
        with pytest.raises(ValueError) as raised:
            FormulaEncoder(formula).fit(pd.DataFrame({"age": [1.0]}))
        assert "\x1b" not in str(raised.value)


def test_a_plan_says_before_the_fit_what_the_model_says():
    model = logistic(n_draws=9)
    plan = model.privacy_plan(N)
    assert str(plan) == str(model.privacy_plan(N, 17))  # Columns are those of the formula.
    alone = DPBayesianLogisticRegression(
        epsilon=plan.epsilon, delta=plan.delta, data_norm=2.0, n_draws=9
    ).privacy_plan(N, 5)
    told = {name: text for name, text in plan.summary().items() if name in alone.summary()}
    assert {"intervals", "columns", "sampler"} <= told.keys()
    assert {name: alone.summary()[name] for name in told.keys() - {"spends", "protects"}} == {
        name: told[name] for name in told.keys() - {"spends", "protects"}
    }
    assert all(f"  {text}" in str(plan) for text in told.values())


def test_parameters_of_the_pipeline_reach_it():
    given = {"strict": True, "shares": {"model": 1.0}, "memory": None, "learns_nothing": ["a"]}
    found = logistic(**given).get_params(deep=False)
    assert {name: found[name] for name in given} == given


def test_no_rows_have_no_columns_fewer(people):
    formula = "bs(age, knots=[30, 60], bounds=(18, 90)) * bounded(income, 0, 1) + missing(age)"
    encoder = FormulaEncoder(formula).fit(people)
    assert encoder.transform(people.head(0)).shape == (0, encoder.n_columns)


def test_frames_of_polars_are_the_same(people, model):
    table = pl.from_pandas(people)
    np.testing.assert_array_equal(model[0].transform(table), model[0].transform(people))
    np.testing.assert_array_equal(logistic().fit(table)[-1].coef_, model[-1].coef_)


def test_collections_are_the_same(people, model):
    dask = pytest.importorskip("dask.dataframe")
    parts = dask.from_pandas(people.drop(columns=["unused"]), npartitions=3)
    found = np.asarray(model[0].transform(parts).compute())
    np.testing.assert_allclose(found, model[0].transform(people))


def test_raw_coefficients_of_products_predict(people, model):
    """exp and logit aside: the straight line of raw columns is that of the scaled ones."""
    draws = coefficient_draws(model, raw=True)
    inside = people.dropna().query("18 < age < 90 and 0 < income < 1e5").head(50)
    columns = {
        "age": inside["age"],
        "income": inside["income"],
        "age:income": inside["age"] * inside["income"],
        "region[north]": inside["region"] == "north",
        "region[south]": inside["region"] == "south",
        "intercept": 1.0 + 0.0 * inside["age"],
    }
    raw = sum(np.outer(np.asarray(columns[name], dtype=float), draws[name]) for name in draws)
    reached = np.column_stack([model[0].transform(inside), np.ones(len(inside))])
    np.testing.assert_allclose(raw, reached @ model[-1].posterior_samples_[:, 0].T, atol=1e-9)


def test_tables_of_a_formula_are_those_of_any_pipeline(people, model):
    ratios = odds_ratios(model)
    assert ratios.loc["age", "5%"] > 2.0 and ratios.loc["region[north]", "median"] > 1.5
    rows = pd.DataFrame({"age": [30.0, 60.0], "income": [2e4, 3e4], "region": ["north", "south"]})
    effects = average_marginal_effects(model, rows)
    assert effects.loc[("age", "slope"), "5%"] > 0
    assert effects.loc[("region", "south - north"), "95%"] < 0


@pytest.mark.parametrize("estimator", [DPBayesianRidge, DPBayesianPoissonRegressor])
def test_regressors_have_formulas(people, estimator):
    table = people.assign(y=np.rint(people["income"].clip(0, 1e5) / 1e4))
    given = {"target_bounds": (0, 10)} if estimator is DPBayesianRidge else {"max_count": 20}
    given |= {"n_draws": 4, "sampler": "auto" if estimator is DPBayesianRidge else "sghmc"}
    model = estimator.from_formula(
        "y ~ bounded(income, 0, 1e5)", epsilon=10.0, random_state=0, **given
    )
    predicted = model.fit(table).predict(pd.DataFrame({"income": [1e4, 9e4]}))
    assert predicted[1] > predicted[0] + 3


def test_an_encoder_is_a_step_like_others(people):
    clf = DPBayesianLogisticRegression(n_draws=10, random_state=0)
    encoder = FormulaEncoder("bounded(age, 18, 90)")
    pipeline = make_private_pipeline(encoder, clf, strict=True).fit(people, people["y"])
    assert list(pipeline.summary().index) == ["age", "intercept"]


def test_a_search_goes_over_pipelines_with_formulas(people):
    grid = {"model__prior_scale": [1.0, 2.0]}
    search = DPRandomizedSearchCV(logistic(), grid, epsilon=5.0).fit(people, people["y"])
    assert search.spent_epsilon_ <= 5.0
    assert search.best_params_["model__prior_scale"] in (1.0, 2.0)


@pytest.mark.parametrize("kind", ["boolean", "Int64", "bool[pyarrow]", "double[pyarrow]", "object"])
def test_a_missing_cell_does_not_change_what_is_taken(kind):
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    full, some = (pd.DataFrame({"x": pd.array(v, dtype=kind)}) for v in ([1, 0, 1], [1, 0, None]))
    formula = "bounded(x, 0, 1) + missing(x)"
    np.testing.assert_array_equal(encoded(formula, full), [[1, 0], [-1, 0], [1, 0]])
    np.testing.assert_array_equal(encoded(formula, some), [[1, 0], [-1, 0], [0, 1]])


def test_decimals_that_are_no_numbers_are_missing():
    cells = [Decimal("1"), Decimal("NaN"), Decimal("-NaN"), Decimal("sNaN"), None]
    table = pd.DataFrame({"x": pd.Series(cells, dtype=object)})
    formula = "bounded(x, 0, 1) + missing(x) + C(x, levels=[1])"
    expected = [[1, 0, 1], [0, 1, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0]]
    np.testing.assert_array_equal(encoded(formula, table), expected)


@pytest.mark.parametrize(
    "kind", ["datetime64[ns]", "datetime64[ns, UTC]", "timedelta64[ns]", "date32[pyarrow]", pl.Date]
)
def test_dates_are_refused_or_taken_whatever_they_are(kind):
    day = pd.Timedelta(1, "D") if kind == "timedelta64[ns]" else pd.Timestamp("2020-01-01")
    for cell, expected in ((day, [0, 1]), (None, [1, 1])):
        if kind is pl.Date:
            table = pl.DataFrame({"x": [cell, None]}, schema={"x": pl.Date})
        else:
            if "pyarrow" in kind:
                pytest.importorskip("pyarrow")
            table = pd.DataFrame({"x": pd.array([cell, None], dtype=kind)})
        found = FormulaEncoder("missing(x)").fit(table).transform(table)
        np.testing.assert_array_equal(found[:, 0], expected)
        for formula in ("bounded(x, 0, 1)", "C(x, levels=['a'])"):
            with pytest.raises(ValueError, match="column 'x'"):
                FormulaEncoder(formula).fit(table).transform(table)


def test_odd_cells_are_refused_by_the_name_of_their_column(people):
    for name, cell in (("age", "Jane Doe"), ("region", object()), ("region", [1, 2])):
        table = people.astype(object)
        table.at[5, name] = cell
        with pytest.raises(ValueError, match=f"column '{name}'") as raised:
            logistic().fit(table)
        assert "Jane" not in str(raised.value)


def rarely_exposed(n, n_exposed):
    rng = np.random.default_rng(0)
    age, exposed = rng.uniform(18, 90, n), (np.arange(n) < n_exposed).astype(int)
    return pd.DataFrame({"age": age, "exposed": exposed, "died": rng.integers(0, 2, n)})


def test_tables_of_formulas_know_which_columns_are_indicators():
    table = rarely_exposed(4_000, 80)
    formula = "died ~ bounded(age, 18, 90) + C(exposed, levels=[0, 1], reference=0)"
    model = DPBayesianLogisticRegression.from_formula(formula, epsilon=1.0, random_state=0)
    model.fit(table)
    for found in (model.summary(), model.coef_table()):
        assert "rows have, or lack, exposed[1]" in found.attrs["notes"][0]


def test_all_tables_of_a_formula_take_the_same_columns_for_indicators():
    """Also of missing cells, and of levels that are part of products."""
    table = rarely_exposed(2_000, 30)
    formula = "died ~ bounded(age, 18, 90) * C(exposed, levels=[0, 1], reference=0) + missing(age)"
    model = DPBayesianLogisticRegression.from_formula(formula, epsilon=0.5, random_state=0)
    notes = model.fit(table).coef_table().attrs["notes"]
    assert any("rows have, or lack" in note and "missing(age)" in note for note in notes)
    assert notes == odds_ratios(model).attrs["notes"] == model.summary().attrs["notes"]
