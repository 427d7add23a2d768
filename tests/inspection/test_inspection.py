"""What the displays show is what was drawn, and what was scored."""

import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from references import configured
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.inspection import PosteriorDisplay, PrivacyUtilityDisplay
from skdpbayes.preprocessing import BoundedScaler

matplotlib.use("Agg")
import matplotlib.pyplot as plt

X, y = make_classification(2000, 4, n_informative=3, n_redundant=0, random_state=0)
X3, y3 = make_classification(2000, 4, n_informative=3, n_redundant=0, n_classes=3, random_state=1)
NAMES = ["age", "hours", "income", "children"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def make(**options):
    return configured(DPBayesianLogisticRegression(random_state=0), **options)


@pytest.fixture(scope="module")
def binary():
    return make().fit(pd.DataFrame(X, columns=NAMES), y)


@pytest.fixture(scope="module")
def ternary():
    return make().fit(X3, np.array(["bus", "car", "foot"])[y3])


@pytest.fixture(scope="module")
def wide():
    table, labels = make_classification(1000, 30, n_informative=10, random_state=0)
    return make(n_steps=300).fit(table, labels)


posterior = PosteriorDisplay.from_estimator


def ends(bars):
    """Return the ends of bars, of shape (2, n_bars), and the rows that they are in."""
    return np.column_stack([bar.get_xdata() for bar in bars]), [bar.get_ydata()[0] for bar in bars]


def row_labels(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


# Posterior


def test_a_forest_shows_means_and_quantiles_of_the_draws(binary):
    draws = binary.posterior_samples_[:, 0]
    display = posterior(binary, kind="forest")
    np.testing.assert_allclose(display.points_.get_xdata(), draws.mean(axis=0))
    thin, rows = ends(display.intervals_[:5])
    np.testing.assert_allclose(thin, np.quantile(draws, [0.05, 0.95], axis=0))
    assert rows == [0, 1, 2, 3, 4]
    thick, rows = ends(display.intervals_[5:])
    np.testing.assert_allclose(thick, np.quantile(draws, [0.25, 0.75], axis=0))
    assert rows == [0, 1, 2, 3, 4]
    assert display.intervals_[5].get_linewidth() > display.intervals_[0].get_linewidth()
    assert row_labels(display.ax_) == [*NAMES, "intercept"]
    bottom, top = display.ax_.get_ylim()
    assert bottom > top, "the first row is at the top"
    thin, _ = ends(posterior(binary, credible_mass=0.6, kind="forest").intervals_[:5])
    np.testing.assert_allclose(thin, np.quantile(draws, [0.2, 0.8], axis=0))


def test_a_trace_is_the_chain_in_its_row_with_large_draws_above(binary):
    display = posterior(binary, kind="trace")
    assert len(display.traces_) == 5 and display.points_ is None
    for row, (trace, draws) in enumerate(
        zip(display.traces_, binary.posterior_samples_[:, 0].T, strict=True)
    ):
        np.testing.assert_array_equal(trace.get_xdata(), np.arange(1, len(draws) + 1))
        heights = row - trace.get_ydata()  # Rows count downwards.
        assert np.abs(heights).max() < 0.5, "it does not touch the rows beside it"
        assert np.corrcoef(heights, draws)[0, 1] > 0.999


def test_both_stand_side_by_side(binary):
    display = posterior(binary)
    left, right = display.ax_
    assert left.figure is right.figure is display.figure_
    assert left.get_ylim() == right.get_ylim()
    assert len(display.traces_) == 5 and len(display.intervals_) == 10


def test_the_title_says_what_was_spent(binary):
    for kind in ("both", "forest", "trace"):
        display = posterior(binary, kind=kind)
        title = np.ravel(display.ax_)[0].get_title(loc="left")
        assert title == f"epsilon = 1, delta = 1e-05, temperature {binary.temperature_:.3g}"


def test_features_are_shown_in_the_order_in_which_they_are_named(binary):
    display = posterior(binary, features=["income", 0, -1])
    assert display.names == ["income", "age", "children", "intercept"]
    np.testing.assert_array_equal(display.draws, binary.posterior_samples_[:, 0][:, [2, 0, 3, 4]])
    assert posterior(binary, features="age", intercept=False).names == ["age"]
    assert posterior(binary, features=np.int64(1), intercept=False).names == ["hours"]


def test_of_many_features_the_clearest_are_shown_in_the_order_of_the_table(wide):
    draws = wide.posterior_samples_[:, 0, :30]
    clearest = np.argsort(np.abs(draws.mean(axis=0)) / draws.std(axis=0))[-20:]
    display = posterior(wide)
    assert display.names == [*(f"x{j}" for j in sorted(clearest)), "intercept"]
    assert len(posterior(wide, features=range(30)).names) == 31


def test_several_classes_share_the_rows():
    table, labels = make_classification(
        500, 15, n_informative=6, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    clf = make(n_steps=300).fit(table, labels)
    assert len(posterior(clf, intercept=False).names) == 3 * 6, "at most 20"
    assert len(posterior(clf, intercept=False, class_of_interest=0).names) == 15


def test_every_class_has_its_rows(ternary):
    display = posterior(ternary, features=[1, 0])
    labels = [
        f"{name} [{label}]" for name in ("x1", "x0", "intercept") for label in ternary.classes_
    ]
    assert display.names == labels
    np.testing.assert_array_equal(display.draws[:, 4], ternary.posterior_samples_[:, 1, 0])
    np.testing.assert_array_equal(display.draws[:, 8], ternary.posterior_samples_[:, 2, -1])


def test_one_class_can_be_chosen(ternary, binary):
    display = posterior(ternary, class_of_interest="car")
    assert display.names == [*(f"x{j} [car]" for j in range(4)), "intercept [car]"]
    np.testing.assert_array_equal(display.draws, ternary.posterior_samples_[:, 1])
    assert posterior(binary, class_of_interest=1).names == posterior(binary).names
    with pytest.raises(ValueError, match=r"class_of_interest=0 .* choose one of \[1\]"):
        posterior(binary, class_of_interest=0)
    with pytest.raises(ValueError, match="'bus', 'car', 'foot'"):
        posterior(ternary, class_of_interest="tram")


def test_names_come_from_the_steps_of_a_pipeline():
    frame = pd.DataFrame({"age": X[:, 0], "group": np.where(X[:, 1] > 0, "a", "b")})
    encode = make_column_transformer(
        (BoundedScaler(-4, 4), ["age"]),
        (OneHotEncoder(categories=[["a", "b"]]), ["group"]),
        verbose_feature_names_out=False,
    )
    pipeline = make_pipeline(encode, make()).fit(frame, y)
    assert posterior(pipeline).names == ["age", "group_a", "group_b", "intercept"]
    assert posterior(pipeline, features="group_b").names == ["group_b", "intercept"]
    mute = make_pipeline(FunctionTransformer(), make()).fit(X, y)
    assert posterior(mute).names == ["x0", "x1", "x2", "x3", "intercept"]
    assert posterior(mute, feature_names=NAMES).names == [*NAMES, "intercept"]
    with pytest.raises(ValueError, match="feature_names has 1 names for 4 features"):
        posterior(mute, feature_names=["age"])


def test_without_an_intercept_there_is_no_row_for_it():
    assert posterior(make(fit_intercept=False).fit(X, y)).names == ["x0", "x1", "x2", "x3"]


def test_a_single_draw_is_shown_as_points_with_a_note():
    clf = make(sampler="ops").fit(X, y)
    display = posterior(clf)
    np.testing.assert_array_equal(display.points_.get_xdata(), clf.posterior_samples_[0, 0])
    assert display.intervals_ == [] and display.traces_ is None
    assert "single draw" in display.ax_.get_xlabel()
    with pytest.raises(ValueError, match="a single draw has no trace"):
        posterior(clf, kind="trace")


def test_of_many_coefficients_of_a_single_draw_the_largest_are_shown():
    table, labels = make_classification(500, 25, random_state=0)
    clf = make(sampler="ops", n_steps=500).fit(table, labels)
    largest = np.argsort(np.abs(clf.posterior_samples_[0, 0, :-1]))[-20:]
    assert posterior(clf, intercept=False).names == [f"x{j}" for j in sorted(largest)]


def test_a_display_plots_where_it_is_told(binary):
    figure, axes = plt.subplots(2, 2)
    display = posterior(binary, ax=axes[0])
    assert display.figure_ is figure and display.ax_[1] is axes[0, 1]
    assert posterior(binary, kind="trace", ax=axes[1, 0]).ax_ is axes[1, 0]
    assert display.plot(axes[1, 1], kind="forest") is display and display.ax_ is axes[1, 1]
    with pytest.raises(ValueError, match="forest and trace take 2 axes, got 1"):
        posterior(binary, ax=axes[0, 0])


def test_styles_are_taken_by_their_short_names_too(binary):
    display = posterior(binary, interval_kw={"c": "red", "lw": 2}, trace_kw={"lw": 3})
    assert {bar.get_color() for bar in display.intervals_} == {"red"}
    assert {bar.get_linewidth() for bar in display.intervals_} == {2}
    assert display.points_.get_color() == "red"
    assert {trace.get_linewidth() for trace in display.traces_} == {3}


@pytest.mark.parametrize(
    "options, message",
    [
        ({"features": ["age", "shoe size"]}, "feature 'shoe size' is unknown.*'age', 'hours'"),
        ({"features": 4}, "feature 4 is unknown"),
        ({"features": [-5]}, "feature -5 is unknown"),
        ({"features": [1.0]}, "feature 1.0 is unknown"),
        ({"kind": "violin"}, "kind must be"),
        ({"credible_mass": 0.5}, "credible_mass"),
        ({"credible_mass": 1.0}, "credible_mass"),
        ({"credible_mass": 90}, "credible_mass"),
    ],
)
def test_what_cannot_be_shown_is_refused(binary, options, message):
    with pytest.raises(ValueError, match=message):
        posterior(binary, **options)


def test_only_fitted_private_posteriors_are_shown():
    with pytest.raises(NotFittedError):
        posterior(make())
    with pytest.raises(TypeError, match="LogisticRegression has no private posterior"):
        posterior(LogisticRegression().fit(X, y))


# Scores against epsilon

utility = PrivacyUtilityDisplay.from_cv_results


def results(settings, scores=None, deviation=0.01, name="score"):
    """Return what a search would have, for settings in order and scores between 0 and 1."""
    scores = np.linspace(0.5, 0.9, len(settings)) if scores is None else np.asarray(scores)
    return {
        "params": settings,
        f"mean_test_{name}": scores,
        f"std_test_{name}": np.full(len(settings), deviation),
    }


def test_scores_of_a_search_stand_over_their_epsilons():
    pipeline = make_pipeline(BoundedScaler(-4.0, 4.0), make(n_steps=150, classes=[0, 1]))
    grid = {"dpbayesianlogisticregression__epsilon": [3.0, 0.1, np.inf, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    display = utility(search.cv_results_)
    expected = search.cv_results_["mean_test_score"][[1, 3, 0, 2]]
    np.testing.assert_array_equal(display.epsilons, [0.1, 1.0, 3.0, np.inf])
    np.testing.assert_array_equal(display.means, [expected])
    private, free = display.errorbars_
    np.testing.assert_allclose(private.lines[0].get_xdata(), [0.1, 1.0, 3.0])
    np.testing.assert_array_equal(private.lines[0].get_ydata(), expected[:3])
    np.testing.assert_array_equal(free.lines[0].get_ydata(), expected[3:])
    assert free.lines[0].get_xdata()[0] > 3.0, "to the right of all others"
    assert display.references_[0].get_ydata() == [expected[3]] * 2
    assert display.ax_.get_xscale() == "log"
    labels = [text.get_text() for text in display.ax_.get_xticklabels()]
    assert labels == ["0.1", "1", "3", "inf\n(not private)"]
    assert display.ax_.get_legend() is None


def test_bars_are_deviations_over_the_folds():
    display = utility(results([{"epsilon": 0.5}, {"epsilon": 2.0}], [0.6, 0.8], deviation=0.05))
    (bars,) = display.errorbars_[0].lines[2]
    heights = [segment[:, 1].tolist() for segment in bars.get_segments()]
    np.testing.assert_allclose(heights, [[0.55, 0.65], [0.75, 0.85]])
    assert display.references_ == []


def test_every_combination_of_the_others_has_a_line():
    settings = [
        {"clf__epsilon": epsilon, "clf__data_norm": norm, "clf__prior_scale": 1.0}
        for epsilon in (0.1, 1.0)
        for norm in (1.0, 2.0, [3.0])
    ]
    display = utility(results(settings, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    assert display.labels == ["data_norm = 1.0", "data_norm = 2.0", "data_norm = [3.0]"]
    np.testing.assert_allclose(display.means, [[0.1, 0.4], [0.2, 0.5], [0.3, 0.6]])
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == display.labels


def test_labels_tell_parameters_of_different_steps_apart():
    settings = [
        {"a__norm": a, "b__norm": b, "c__epsilon": 1.0} for a in (1, 2) for b in ("one", "two")
    ]
    assert utility(results(settings)).labels[0] == "a__norm = 1, b__norm = one"


def test_a_legend_stays_short_and_lists_the_best():
    settings = [{"epsilon": e, "data_norm": n} for n in range(1, 31) for e in (0.1, 1.0)]
    display = utility(results(settings))
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == [*(f"data_norm = {n}" for n in range(23, 31)), "22 others"]
    assert len(display.ax_.get_lines()) > 30, "the others are drawn all the same"


def test_many_epsilons_do_not_crowd_the_axis():
    grid = np.geomspace(0.01, 10, 60)
    display = utility(results([{"epsilon": epsilon} for epsilon in [*grid, np.inf]]))
    ticks = display.ax_.get_xticks()
    assert 4 <= len(ticks) <= 13
    assert np.diff(np.log(ticks)).min() > np.log(1000) / 15
    assert len(display.errorbars_[0].lines[0].get_xdata()) == 60


def test_candidates_without_epsilon_are_left_out():
    settings = [{"clf": "LogisticRegression()"}, {"clf__epsilon": 0.1}, {"clf__epsilon": 1.0}]
    display = utility(results(settings, [0.9, 0.6, 0.7]))
    np.testing.assert_array_equal(display.means, [[0.6, 0.7]])


def test_a_sparse_search_draws_only_what_was_tried():
    settings = [
        {"epsilon": 0.1, "norm": 1},
        {"epsilon": 1.0, "norm": 2},
        {"epsilon": 3.0, "norm": 1},
    ]
    display = utility(results(settings, [0.6, 0.7, 0.8]))
    np.testing.assert_array_equal(display.means, [[0.6, np.nan, 0.8], [np.nan, 0.7, np.nan]])
    drawn = [bars.lines[0].get_ydata().tolist() for bars in display.errorbars_]
    assert drawn == [[0.6, 0.8], [0.7]]


def test_the_sign_of_a_loss_can_be_turned():
    settings = [{"epsilon": epsilon, "n": n} for n in range(12) for epsilon in (0.1, 1.0)]
    losses = results(settings, -np.linspace(1.0, 0.1, 24), name="neg_log_loss")
    display = utility(losses, negate_score=True, score_name="log loss")
    assert display.errorbars_[-1].lines[0].get_ydata()[-1] == pytest.approx(0.1)
    assert display.ax_.get_ylabel() == "log loss"
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend[:-1] == [f"n = {n}" for n in range(4, 12)], "the best are those of least loss"


def test_one_of_several_scores_is_named():
    scores = results([{"epsilon": 1.0}], name="accuracy") | results([{"epsilon": 1.0}], name="auc")
    assert utility(scores, score="auc").ax_.get_ylabel() == "auc"
    for wrong in (None, "f1"):
        with pytest.raises(ValueError, match=r"choose one of \['accuracy', 'auc'\]"):
            utility(scores, score=wrong)


def test_the_parameter_must_be_clear():
    with pytest.raises(ValueError, match="none is called epsilon"):
        utility(results([{"clf__C": 1.0}, {"clf__my_epsilon": 2.0}]))
    both = results([{"svr__epsilon": 0.1, "clf__epsilon": 1.0}])
    with pytest.raises(ValueError, match="several parameters may hold epsilon"):
        utility(both)
    np.testing.assert_array_equal(utility(both, param="clf__epsilon").epsilons, [1.0])
    with pytest.raises(ValueError, match="param='epsilon' is not in the search"):
        utility(both, param="epsilon")
    with pytest.raises(ValueError, match="never finite"):
        utility(results([{"epsilon": np.inf}]))


def test_a_missing_matplotlib_is_named(binary, monkeypatch):
    display = utility(results([{"epsilon": 1.0}]))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="requires matplotlib"):
        posterior(binary)
    with pytest.raises(ImportError, match="requires matplotlib"):
        utility(results([{"epsilon": 1.0}]))
    with pytest.raises(ImportError, match="requires matplotlib"):
        display.plot()


def test_figures_can_be_drawn(binary, ternary):
    """Layouts are computed when a figure is drawn, and may warn or fail only then."""
    for display in (posterior(binary), posterior(ternary), utility(results([{"epsilon": 1.0}]))):
        display.figure_.canvas.draw()
