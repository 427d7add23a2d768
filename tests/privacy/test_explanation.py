"""A fit in plain words: every number is one of the fit, and nothing is told that a report may not tell."""

import math
import re
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
    DPGaussianMixturePosterior,
)
from skdpbayes.exceptions import SeedWarning
from skdpbayes.inspection import named_model, odds_ratios, rate_ratios, raw_coefficients
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger, PrivacyReport, privacy_report
from skdpbayes.report import Explanation, explain
from skdpbayes.report.explain import _cut_to_length, _upper

N = 3000
rng = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": rng.uniform(18, 90, N),
        "hours": rng.uniform(0, 80, N),
        "smoker": rng.choice(["no", "yes"], N),
        "region": rng.choice(["north", "south", "west"], N),
    }
)
LOGITS = (TABLE["age"] - 55) / 16 + (TABLE["smoker"] == "yes")
ILL = np.where(rng.random(N) < 1 / (1 + np.exp(-LOGITS)), "ill", "well")
X = rng.uniform(-1, 1, (N, 3))
NOISE = rng.normal(size=N)


def quiet(fit, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(*args, **options)


def raw_pipeline(model, **options):
    return make_private_pipeline(
        make_column_transformer(
            (BoundedScaler([18, 0], [90, 80]), ["age", "hours"]),
            (DPOneHotEncoder(categories=[["no", "yes"]]), ["smoker"]),
            (
                OneHotEncoder(
                    categories=[["north", "south", "west"]],
                    handle_unknown="ignore",
                    sparse_output=False,
                ),
                ["region"],
            ),
        ),
        model,
        delta=1e-6,
        **options,
    )


@pytest.fixture(scope="module")
def fitted():
    ledger = PrivacyLedger(9.0, 1e-5)
    with ledger:
        model = raw_pipeline(
            DPBayesianLogisticRegression(classes=["well", "ill"], data_norm=2.0), epsilon=6.0
        )
        return quiet(model.fit, TABLE, ILL), ledger


@pytest.fixture(scope="module")
def three_classes():
    labels = np.array(["secretlow", "secretmid", "secrethigh"])
    labels = labels[np.digitize(X[:, 0] + NOISE, [-0.5, 0.5])]
    return quiet(DPBayesianLogisticRegression(random_state=0).fit, X, labels)


@pytest.fixture(scope="module")
def mixture():
    rows = rng.normal(rng.choice([-1.0, 1.0], size=(N, 1)), 0.3, size=(N, 2))
    return quiet(DPGaussianMixturePosterior(2).fit, rows)


def numbers(text):
    return [
        float(part.replace(",", ""))
        for part in re.findall(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?", text)
    ]


def only(sentences, words):
    (match,) = [text for text in sentences if words in text]
    return match


def effects(sentences, words):
    """Return {change: [median, low, high]} of sentences about effects."""
    matched = [text for text in sentences if text.startswith("All else equal") and words in text]
    out = {}
    for text in matched:
        head, change = text.rstrip(".").split(") where ")
        out[change] = numbers(re.sub("90% interval", "", head))[-3:]
    return out


def digits(values):
    return [float(f"{value:.3g}") for value in values]


def test_sentences_are_legible_and_always_the_same(fitted):
    model, ledger = fitted
    sentences = explain(model, ledger=ledger)
    assert isinstance(sentences, Explanation) and isinstance(sentences, tuple)
    assert 10 <= len(sentences) <= 16 and all(len(text) <= 300 for text in sentences)
    assert all(text.endswith((".", ".)")) for text in sentences)
    assert str(sentences).split("\n") == list(sentences) == list(explain(model, ledger=ledger))
    assert sentences._repr_html_().count("<li>") == len(sentences)
    assert sentences._repr_markdown_().count("\n- ") == len(sentences) - 1


def test_the_guarantee_has_the_numbers_of_the_fit(fitted):
    model, ledger = fitted
    sentences, epsilon = explain(model, ledger=ledger), model.spent_epsilon_
    assert "2 classes on 8 columns that its steps prepare, fitted to 3,000 rows" in sentences[0]
    protected = only(sentences, "is protected")
    assert "all other rows" in protected
    factor, told_epsilon, delta = numbers(protected)
    assert 0 <= factor - math.exp(epsilon) < 0.01 * factor and factor == float(
        _upper(math.exp(epsilon))
    )
    assert 0 <= told_epsilon - epsilon < 0.001 and delta == 1e-6
    before, after = numbers(only(sentences, "tossing a coin"))
    accuracy = (math.exp(epsilon) + 1e-6) / (1 + math.exp(epsilon))
    assert before == 50 and 0 <= after - 100 * accuracy < 0.1
    declared = only(sentences, "Declared to be public")
    assert "range of age" in declared and "categories of region" in declared
    assert f"{ledger.remaining_epsilon:.3f}"[:4] in only(sentences, "The ledger has 1 release")
    assert not any("ledger" in text for text in explain(model))


def test_odds_are_those_of_the_table_in_raw_units(fitted):
    model, _ = fitted
    sentences = explain(model)
    told = effects(sentences, "odds of ill against well")
    told |= effects(sentences, "odds of well against ill")
    # The second of the sorted labels against the first.
    table = odds_ratios(
        model,
        raw=True,
        per={"age": 10, "hours": 20},
        reference_levels={"smoker": "no", "region": "north"},
    )
    names = {
        "age is 10 higher": "age",
        "hours is 20 higher": "hours",
        "smoker is yes rather than no": "smoker_yes",
        "smoker is infrequent rather than no": "smoker_infrequent",
        "region is south rather than north": "region_south",
        "region is west rather than north": "region_west",
    }
    assert len(told) == 3 and {"age is 10 higher", "smoker is yes rather than no"} < told.keys()
    for change, values in told.items():
        assert values == digits(table.loc[names[change], ["median", "5%", "95%"]])
    probability = table["P(> 1)"].dropna()
    sure = int(((probability > 0.95) | (probability < 0.05)).sum())
    assert numbers(only(sentences, "the direction of"))[:3] == [6, 3, sure]


def test_the_width_is_that_of_the_summary(fitted):
    model, _ = fitted
    shares = named_model(model).summary()["share_of_privacy"]
    factors = 1 / (1 - shares)
    middle, parameters, most = numbers(only(explain(model), "Privacy makes intervals"))
    assert middle == pytest.approx(factors.median(), abs=0.051 if factors.median() < 10 else 0.51)
    assert parameters == len(shares)
    assert most == pytest.approx(factors.max(), abs=0.051 if factors.max() < 10 else 0.51)


def test_of_three_classes_each_is_compared_with_the_first(three_classes):
    sentences = explain(three_classes)
    table = odds_ratios(three_classes)
    high = effects(sentences, "odds of class 2 against class 1")
    assert high["x0 is 1 higher"] == digits(table.loc[("secretlow", "x0"), ["median", "5%", "95%"]])
    assert numbers(only(sentences, "the direction of"))[0] == 6


def test_labels_that_were_read_off_the_rows_are_not_told(three_classes):
    assert "secret" not in str(explain(three_classes))
    report = privacy_report(three_classes)
    assert "secret" not in report.to_json() + report.to_html()


def test_a_seed_is_a_warning(three_classes):
    sentences = explain(three_classes)
    assert sentences[1].startswith("But for the warnings below, each row")
    assert sentences[2].startswith("But for the warnings below, a guess")
    assert sentences[3].startswith("Warning: random_state was given")


def test_slopes_are_in_the_unit_of_responses():
    hours = (10 + 0.3 * TABLE["age"] + NOISE).clip(0, 50)
    model = make_private_pipeline(
        BoundedScaler([18, 0], [90, 80]),
        DPBayesianRidge((0, 50), neighboring_relation="add_or_remove_one", public_size=2500),
        epsilon=2.0,
    )
    model = quiet(model.fit, TABLE[["age", "hours"]], hours)
    sentences = explain(model)
    assert "linear regression" in sentences[0] and "about 2,500 rows" in sentences[0]
    assert "whose number stays private" in sentences[0]
    assert "3,000" not in str(sentences)
    assert "whether a row is in the table" in only(sentences, "is protected")
    told = effects(sentences, "mean response changes by")
    table = raw_coefficients(model)
    low, high = 10 * table.loc["age", ["5%", "95%"]]
    assert told["age is 10 higher"][1:] == pytest.approx([low, high], rel=0.005)


def test_persons_and_rates():
    counts = rng.poisson(np.exp(X[:, 0]))
    model = DPBayesianPoissonRegressor(10, max_rows_per_group=5)
    model = quiet(model.fit, X, counts, groups=np.arange(N) // 5)
    sentences = explain(model)
    assert "Poisson regression" in sentences[0]
    assert "Each person with all of their rows, of which at most 5" in only(
        sentences, "is protected"
    )
    table = rate_ratios(model)
    told = effects(sentences, "the expected count is")
    assert told["x0 is 1 higher"] == digits(table.loc["x0", ["median", "5%", "95%"]])
    for note in model.interval_notes():
        assert note[:60] in str(sentences)


def test_the_rows_of_persons_are_not_counted():
    model = make_private_pipeline(
        BoundedScaler(-1, 1), DPBayesianRidge((-3, 3)), epsilon=2.0, max_rows_per_group=3
    )
    model = quiet(model.fit, X, NOISE.clip(-3, 3), groups=np.arange(N) // 3)
    sentences = explain(model)
    assert sentences[0].endswith("fitted to at most 3,000 rows.")
    protected = only(sentences, "is protected")
    assert "all of their rows, of which at most 3 are used" in protected
    assert float(_upper(model.spent_epsilon_, 4)) in numbers(protected)


def test_a_mixture_has_shares_and_means(mixture):
    sentences = explain(mixture)
    assert "Gaussian mixture of 2 components on 2 columns" in sentences[0]
    draws = mixture.posterior_samples_.weights[:, 0]
    told = numbers(only(sentences, "Shares of its components"))[1:4]
    assert told == [round(100 * share) for share in np.quantile(draws, [0.5, 0.05, 0.95])]
    widths = numbers(only(sentences, "Privacy makes intervals"))
    assert widths == pytest.approx(mixture.plan_.interval_inflation, abs=0.05)
    means = numbers(only(sentences, "The two largest differ").split("their means are")[1])
    assert min(means) < -0.8 and max(means) > 0.8
    assert "any number of new draws" in sentences[-1]
    assert not effects(sentences, "")


def test_a_mixture_of_one_component_has_no_shares():
    sentences = explain(quiet(DPGaussianMixturePosterior(1).fit, X))
    assert "hares" not in str(sentences) and "equally large" not in str(sentences)
    assert only(sentences, "Privacy makes intervals")


def test_a_factor_beyond_doubles_has_no_upper_limit():
    model = quiet(DPBayesianRidge((-3, 3), epsilon=1e4).fit, X, NOISE.clip(-3, 3))
    assert "by a factor that may exceed 10^300 (epsilon" in only(explain(model), "is protected")


def test_a_network_has_no_effects():
    model = quiet(DPBayesianMLPClassifier((4,)).fit, X, X[:, 0] > 0)
    sentences = explain(model)
    assert "neural network for 2 classes on 3 columns" in sentences[0]
    draws = model.posterior_samples_
    assert f"{len(draws):,} draws of {draws[0].size:,} weights" in only(
        sentences, "no effects to read"
    )
    assert "not a calibrated posterior" in str(sentences) and not effects(sentences, "")
    assert f"the {len(draws):,} draws that were kept" in sentences[-1]


def test_without_privacy_it_says_so_and_a_report_has_no_results():
    y = (X[:, 0] - 2 * X[:, 1] + NOISE).clip(-8, 8)
    model = quiet(DPBayesianRidge((-8, 8), epsilon=math.inf, random_state=0).fit, X, y)
    sentences = explain(model)
    assert sentences[1].startswith("Nothing is protected: epsilon is infinite")
    assert len(effects(sentences, "changes by")) == 3 and "are free" not in str(sentences)
    assert "Privacy makes" not in str(sentences)
    told = privacy_report(model)["explanation"]
    assert told[:2] == list(sentences[:2]) and not effects(told, "")
    assert "No check" not in str(told)


def test_a_step_that_may_have_learnt_leaves_results_out():
    model = make_pipeline(
        OneHotEncoder(sparse_output=False), DPBayesianLogisticRegression(classes=["well", "ill"])
    )
    model = quiet(model.fit, TABLE[["region"]], ILL)
    sentences = explain(model)
    assert "on columns that its steps prepare" in sentences[0]
    assert "OneHotEncoder" in only(sentences, "Results are left out")
    assert not effects(sentences, "") and "north" not in str(sentences)


def test_units_are_left_where_a_step_bends_columns():
    model = make_private_pipeline(
        BoundedScaler([18, 0], [90, 80]),
        PolynomialFeatures(2, include_bias=False),
        DPBayesianLogisticRegression(),
        epsilon=2.0,
    )
    model = quiet(model.fit, TABLE[["age", "hours"]], ILL)
    sentences = explain(model)
    assert "age, as the model meets it, is 1 higher" in effects(sentences, "odds of class 2")
    assert only(sentences, "such as its products and powers")


def test_learnt_bounds_have_units_and_are_told():
    model = make_private_pipeline(DPQuantileScaler(), DPBayesianLogisticRegression(), epsilon=2.0)
    model = quiet(model.fit, TABLE[["age"]], ILL)
    sentences = explain(model)
    width = float((model[0].upper_ - model[0].lower_)[0])
    (change,) = effects(sentences, "odds")
    assert change == f"age is {float(f'{width / 5:.0e}'):,.10g} higher"
    assert "range of age" in only(sentences, "Learnt from the rows with noise")


def test_columns_without_names_have_units():
    model = make_private_pipeline(
        BoundedScaler([18, 0], [90, 80]), DPBayesianLogisticRegression(), epsilon=2.0
    )
    model = quiet(model.fit, TABLE[["age", "hours"]].to_numpy(), ILL)
    told = effects(explain(model), "odds of class 2")
    assert told.keys() == {"x0 is 10 higher", "x1 is 20 higher"}


def test_a_formula_names_the_response_and_levels():
    pytest.importorskip("formulaic")
    people = TABLE.assign(ill=(ILL == "ill").astype(int))
    model = DPBayesianLogisticRegression.from_formula(
        "ill ~ bounded(age, 18, 90) + C(smoker, levels=['no', 'yes'])", classes=[0, 1], epsilon=2.0
    )
    model = quiet(model.fit, people)
    sentences = explain(model)
    assert sentences[0].startswith("This is a logistic regression of ill for 2 classes")
    told = effects(sentences, "odds of ill = 1 against 0")
    assert told.keys() == {"age is 10 higher", "smoker is yes rather than no"}
    assert "products and powers" not in str(sentences)


def test_missing_values_and_a_yes_or_no_have_whole_steps():
    """A fifth of a yes means nothing, and neither does an indicator that is 1 higher."""
    pytest.importorskip("formulaic")
    people = TABLE.assign(ill=(ILL == "ill").astype(int), smokes=TABLE["smoker"] == "yes")
    people.loc[::3, "age"] = np.nan
    model = DPBayesianLogisticRegression.from_formula(
        "ill ~ bounded(age, 0, 90) + missing(age) + bounded(smokes, 0, 1)",
        classes=[0, 1],
        epsilon=5.0,
    )
    told = effects(explain(quiet(model.fit, people)), "odds of ill = 1 against 0")
    assert told.keys() == {"age is 20 higher", "age is missing", "smokes is 1 higher"}


@pytest.mark.parametrize("epsilon, is_weak", [(1.0, False), (10.0, True)])
def test_a_large_epsilon_is_called_weak(epsilon, is_weak):
    sentences = explain(quiet(DPBayesianLogisticRegression(epsilon=epsilon).fit, X, X[:, 0] > 0))
    assert any("hardly protects" in text for text in sentences) == is_weak
    assert only(sentences, "before the fit") and ("73.2%" in str(sentences)) == (not is_weak)


def test_products_of_a_formula_are_told_of():
    pytest.importorskip("formulaic")
    people = TABLE.assign(ill=(ILL == "ill").astype(int))
    model = DPBayesianLogisticRegression.from_formula(
        "ill ~ bounded(age, 18, 90) * C(smoker, levels=['no', 'yes'])", classes=[0, 1], epsilon=2.0
    )
    assert only(explain(quiet(model.fit, people)), "such as its products and powers")


def test_draws_that_are_not_calibrated_are_not_called_sure():
    model = quiet(DPBayesianLogisticRegression(sampler="sgld", n_draws=50).fit, X, X[:, 0] > 0)
    sentences = explain(model)
    assert only(sentences, "not a calibrated posterior")
    assert "in over 95% of draws" in only(sentences, "the direction of")
    assert "a probability of" not in str(sentences)


def test_intervals_hold_what_they_are_for_unless_a_note_says_otherwise():
    rows = X * [1.0, 1.0, 0.01]
    # Without a seed noise may let a column be known by chance.
    model = DPBayesianLogisticRegression(epsilon=0.5, random_state=0)
    sentences = explain(quiet(model.fit, rows, X[:, 0] > 0))
    assert "no warning or note below says otherwise" in only(sentences, "holds its value")
    assert "too short" in str(sentences[sentences.index(only(sentences, "holds its value")) :])


def test_one_row_of_each_person_is_as_many_rows():
    model = quiet(
        DPBayesianLogisticRegression(max_rows_per_group=1).fit,
        *(X, X[:, 0] > 0),
        groups=np.arange(N) // 3,
    )
    assert explain(model)[0].endswith("fitted to 1,000 rows.")


def test_many_columns_are_not_followed_by_a_matrix():
    wide = rng.uniform(-1, 1, (200, 2001))
    model = make_private_pipeline(
        BoundedScaler(-1, 1), DPBayesianLogisticRegression(n_draws=20), epsilon=2.0
    )
    told = effects(explain(quiet(model.fit, wide, wide[:, 0] > 0)), "odds of class 2")
    assert len(told) == 3 and all("as the model meets it, is 1" in change for change in told)


def test_a_search_is_explained():
    search = DPRandomizedSearchCV(
        DPBayesianLogisticRegression(classes=[0, 1]),
        {"data_norm": [1.0, 2.0]},
        epsilon=8.0,
        mean_candidates=2.0,
    )
    search = quiet(search.fit, X, (X[:, 0] > 0).astype(int))
    sentences = explain(search)
    assert float(_upper(search.spent_epsilon_, 4)) in numbers(only(sentences, "is protected"))
    assert effects(sentences, "odds of 1 against 0")


def test_how_good_a_model_is_is_said_as_far_as_it_was_measured():
    """By a search with its noise; otherwise a sentence names the score to spend budget on."""
    counts, priors = rng.poisson(np.exp(X[:, 0])), {"prior_scale": [0.5, 2.0]}
    kinds = (
        (DPBayesianLogisticRegression(classes=[0, 1]), X[:, 0] > 0, "dp_accuracy_score"),
        (DPBayesianPoissonRegressor(9), counts, "dp_mean_poisson_deviance"),
        (DPBayesianRidge((-3.0, 3.0)), X[:, 0] + NOISE, "dp_mean_absolute_error"),
    )
    for model, y, name in kinds:
        told = explain(quiet(model.fit, X, y.astype(float)))
        assert f"was not measured: skdpbayes.metrics.{name} does" in told[-1]
        search = DPRandomizedSearchCV(model, priors, mean_candidates=2.0)
        quiet(search.fit, X, y.astype(float))
        (last,) = [text for text in explain(search) if "measured" in text]
        score, rows, error, noise = numbers(last)[:4]
        assert last.startswith(f"The search measured {name} = ") and len(last) <= 300
        assert [score] == digits([abs(search.best_score_)]) and rows == search.plan_.n_test
        assert (error, noise) == tuple(
            float(f"{value:.2g}") for value in (search.plan_.score_error, search.plan_.score_noise)
        )
    search = quiet(DPRandomizedSearchCV(model, priors, mean_candidates=2.0, scoring="r2").fit, X, y)
    last = only(explain(search), "dp_r2_score = ")
    assert "noise for epsilon = " in last and "standard error" not in last


def test_rows_are_refused_with_what_measures_accuracy(three_classes):
    with pytest.raises(TypeError, match=r"reads no rows.*dp_accuracy_score\(y, model\.predict"):
        explain(three_classes, X, X[:, 0] > 0)


def test_warnings_of_the_fit_are_told_again():
    long_rows = np.column_stack([X[:, :2], 1e4 + X[:, 2]])
    positive = X[:, 0] > 0
    fits = {
        "not scaled": lambda: DPBayesianLogisticRegression(random_state=0).fit(long_rows, positive),
        "narrow": lambda: DPBayesianLogisticRegression(
            data_norm="auto", prior_scale=0.05, intercept_prior_scale=3.0, random_state=0
        ).fit(X, positive),
        "at max": lambda: DPBayesianPoissonRegressor(1.0, random_state=0).fit(X, rng.poisson(9, N)),
        "at ends": lambda: DPBayesianRidge((0, 1), random_state=0).fit(X, NOISE > 0),
    }
    for name, fit in fits.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = fit()
        texts = {str(one.message) for one in caught if one.category is not SeedWarning}
        sentences = [text for text in explain(model) if "random_state was given" not in text]
        told = [
            text.removeprefix("Warning: ") for text in sentences if text.startswith("Warning: ")
        ]
        assert len(told) == len(texts) > 0, name
        assert all(any(text.startswith(one.rstrip(".")) for text in texts) for one in told), name
        assert "No check" not in str(sentences)
        assert all(len(text) <= 300 for text in sentences)


def test_pandas_is_not_needed(fitted, mixture, monkeypatch):
    model, ledger = fitted
    before = explain(model, ledger=ledger), explain(mixture)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert (explain(model, ledger=ledger), explain(mixture)) == before


def test_what_cannot_be_explained(fitted):
    model, _ = fitted
    for unfitted in (DPBayesianRidge((0, 1)), raw_pipeline(DPBayesianLogisticRegression())):
        with pytest.raises(NotFittedError):
            explain(unfitted)
    others = (
        LogisticRegression().fit(X, X[:, 0] > 0),
        PrivacyLedger(1.0, 1e-5),
        model.plan_,
        quiet(DPQuantileScaler().fit, X),
        3,
    )
    for other in others:
        with pytest.raises(TypeError, match="explain needs a fitted model"):
            explain(other)
    with pytest.raises(TypeError, match="must be a PrivacyLedger"):
        explain(model, ledger="a.ledger")


def test_a_report_has_the_sentences(fitted):
    model, ledger = fitted
    report = privacy_report(model, ledger=ledger)
    assert report["explanation"] == list(explain(model, ledger=ledger))
    markdown, page = report.to_markdown(), report.to_html()
    assert "## In plain words" in markdown and "<h2>In plain words</h2>" in page
    assert "tossing a coin" in markdown and "tossing a coin" in page
    again = PrivacyReport.from_json(report.to_json())
    assert again == report and again.to_html() == page


def test_reports_without_the_sentences_load(fitted):
    model, ledger = fitted
    report = privacy_report(model)
    del report["explanation"]
    again = PrivacyReport.from_json(report.to_json())
    assert "In plain words" not in again.to_html()
    for other in (privacy_report(ledger), privacy_report(model.plan_)):
        assert "explanation" not in other and "In plain words" not in other.to_markdown()
    report["explanation"] = 3
    with pytest.raises(ValueError, match="must be a list of sentences"):
        PrivacyReport.from_json(report.to_json())


def test_long_names_stay_legible():
    names = ["a column " + "with many words " * 30, "x" * 500, "short"]
    frame = pd.DataFrame(X * [1.0, 1.0, 0.01], columns=names)
    model = quiet(DPBayesianLogisticRegression(epsilon=0.3).fit, frame, X[:, 0] > 0)
    sentences = explain(model)
    assert all(len(text) <= 300 for text in sentences)
    assert len(effects(sentences, "odds of class 2")) == 3


def test_long_texts_are_cut_between_sentences_or_words():
    text = f"{'word ' * 40}end. {'again ' * 30}stop."
    assert [len(part) <= 300 for part in _cut_to_length(text)] == [True, True]
    assert " ".join(_cut_to_length(text)).lower() == " ".join(text.split())
    parts = _cut_to_length(f"Warning: {'cause ' * 40}: {'remedy ' * 30}.")
    assert parts[0].startswith("Warning: cause") and parts[1].startswith("Remedy")
    assert max(map(len, _cut_to_length("x" * 1000))) == 300
