"""A fit in plain words: what is protected, what was learnt, and how sure, for people new to privacy.

    record of a report + draws -> sentences, each with its subject and numbers of this fit

    right after a release  <=  (exp(epsilon) + delta) / (1 + exp(epsilon))     of guesses that are right half
                                                                              of the time before

The last holds of any guess between two answers that are equally likely (Kairouz, Oh and Viswanath, "The
composition theorem for differential privacy", ICML 2015, Theorem 2.1), delta included. An effect is that of
a column's own unit, or of a level against the reference level of its column:

    log odds or log rate:  exp(step * theta),      number:  step * theta,      for each draw

Everything here is post-processing of what was released: no row is read.
"""

import math
import re
import textwrap
from decimal import ROUND_CEILING, Context
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer

from .._estimator.base import PrivatePosterior
from .._estimator.model_checks import low_ess_warnings, model_checks
from .._estimator.posterior import DrawnPosterior
from ..linear_model._base import LinearPosterior
from ..models.linear import LinearModel
from ..preprocessing import FormulaEncoder
from ..preprocessing._factors import Spline
from ..privacy.ledger import PrivacyLedger
from .account import Charged, account_of
from .render import Markdown, Page, ledger_text
from .wording import record_of

# Longest sentence, in characters.
_LONGEST_SENTENCE = 300
# Longest name of a column, a level or a label, in characters.
_LONGEST_NAME = 40
# Most effects that have a sentence of their own.
_MOST_EFFECTS = 3
# Most items of a list within a sentence.
_MOST_ITEMS = 5
# Most columns whose steps are followed to the table, by a matrix of this length and width.
_MOST_FOLLOWED = 2_000
# Posterior probability of intervals.
_LEVEL = 0.9
# Share of draws beyond which a sign is called clear.
_SURE = 0.95
# A number's step where a scaler brings bounds to -1 and 1: a fifth of their width.
_SCALED_STEP = 0.4
# Slope of a column with bounds of 0 and 1, whose step is 1: it may be a yes or no.
_UNIT_SLOPE = 2.0
# Steps, times a power of ten.
_STEPS = (1.0, 2.0, 5.0, 10.0)
# How far above what is wanted a step may be.
_STEP_TOLERANCE = 1.3
# Costs from about 10 on hardly protect.
_WEAK_EPSILON = 9.5
# Largest exponent of e that is a double.
_LARGEST_EXPONENT = 700.0
# Scores whose noise and error are not those of a mean over rows.
_NOT_MEANS = ("dp_r2_score", "dp_roc_auc_score")
# Factor of a width beyond which nothing but privacy decides it.
_LARGEST_FACTOR = 100.0


class Explanation(tuple[str, ...]):
    """Sentences about a fit, made by `explain`: a tuple of str that prints one a line."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(self)

    def _repr_html_(self) -> str:
        return Page().bullets(self)

    def _repr_markdown_(self) -> str:
        return Markdown().bullets(self)


def explain(model: Any, *rows: Any, ledger: PrivacyLedger | None = None) -> Explanation:
    """Explain a fit in about ten plain sentences: what was protected, what was learnt, and how sure that is.

    It reads what a fit released, and no row, so it spends nothing. The sentences are as public as the fit,
    but at ``epsilon=inf``, where nothing is. `skdpbayes.privacy.privacy_report` has them, too.

    Parameters
    ----------
    model : estimator, Pipeline or search
        Fitted: an estimator of this package, a pipeline that ends in one, or a search for one of these.
        Effects are in the units of a pipeline's table.
    *rows
        Refused, as a fit is explained without them: the error says how accuracy is measured.
    ledger : PrivacyLedger, default=None
        The ledger that the fit was charged to, of which a sentence then says what is left.

    Returns
    -------
    explanation : Explanation
        A tuple of sentences, of at most 300 characters each. Notebooks show them as a list.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If it is no model of this package, if rows are given, or if ``ledger`` is no ledger.
    ValueError
        If parameters were set after the fit.

    See Also
    --------
    skdpbayes.privacy.privacy_report : All steps, bounds and assumptions, to be signed.
    skdpbayes.inspection.odds_ratios : All effects, with steps and reference levels that you choose.

    Notes
    -----
    The effects that have a sentence are the three clearest: those whose interval has its nearer end
    farthest from no effect or, where all intervals hold none, those whose direction most draws share. Of a
    number that a scaler brings to [-1, 1], an effect is for about a fifth of the width of its bounds, but
    for a whole unit if they are 0 and 1, as of a yes or no; of other numbers, for one unit; of a category,
    for a level against the first one, or that without a column. With more than two classes, odds are those
    of each class against the first. Labels that were read off the rows (``classes=None``) are not told, and
    neither are effects behind a step that may have learnt from the rows without noise.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.pipeline import make_private_pipeline
    >>> from skdpbayes.preprocessing import BoundedScaler
    >>> from skdpbayes.report import explain
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.uniform(20, 70, 20_000)})
    >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp((45 - X["age"]) / 10)), "ill", "well")
    >>> model = DPBayesianLogisticRegression(classes=["well", "ill"], random_state=0)
    >>> model = make_private_pipeline(BoundedScaler(20, 70), model, delta=1e-6).fit(X, y)
    >>> sentences = explain(model)
    >>> print(sentences[0])
    This is a logistic regression for 2 classes on 1 column that its steps prepare, fitted to 20,000 rows.
    >>> print(*[text for text in sentences if "age" in text and "odds" in text])
    All else equal, the odds of well against ill are 0.3... times as large (90% interval ...
    """
    if not (hasattr(model, "privacy_plan") or isinstance(model, Pipeline)):
        raise TypeError(_refusal(model))
    if rows:
        raise TypeError(
            "explain takes a fitted model alone, and reads no rows: it measures no accuracy. To do "
            "that, spend budget on rows that the fit did not use, such as by "
            "skdpbayes.metrics.dp_accuracy_score(y, model.predict(X), epsilon=0.1)."
        )
    if not (ledger is None or isinstance(ledger, PrivacyLedger)):
        raise TypeError(f"ledger must be a PrivacyLedger or None, not a {type(ledger).__name__}.")
    account = account_of(model)
    record = record_of(account, None if ledger is None else Charged.of(account, ledger))
    if (fitted := model_behind(model)) is None:
        raise TypeError(_refusal(model))
    return Explanation(sentences_of(model, fitted, record))


def _refusal(obj):
    return (
        "explain needs a fitted model: an estimator of skdpbayes, or a pipeline or search that ends in one, "
        f"not an object of type {type(obj).__name__}. For plans, ledgers, scores and descriptions take "
        "privacy_report."
    )


def model_behind(obj: Any) -> Any:
    """The private posterior at the end of something fitted, with the names of its columns, or None."""
    inner = getattr(obj, "best_estimator_", obj)
    if not isinstance(inner, PrivatePosterior | Pipeline):
        return None
    from ..inspection import named_model

    try:
        return named_model(inner)
    except TypeError:  # The last step is another package's.
        return None


def sentences_of(
    obj: Any, model: Any, record: dict[str, Any], is_public: bool = False
) -> list[str]:
    """The sentences about a fit.

    Parameters
    ----------
    obj : estimator, Pipeline or search
    model : PrivatePosterior
        The one behind it, from `model_behind`.
    record : dict
        The record of its report.
    is_public : bool, default=False
        Whether they are for a report, which is public: it leaves out the results of a fit without privacy.
    """
    estimator = getattr(obj, "best_estimator_", obj)
    summary, steps = record["summary"], record["steps"]
    uncovered = [step["kind"] for step in steps if step["role"] == "unproven"]
    texts = [
        _model_sentence(estimator, model, summary, is_known=not uncovered),
        *_guarantee_sentences(summary),
    ]
    texts += [f"Warning: {text}" for text in record["details"]["warnings"]]
    if summary["verdict"] != "none":
        texts += _public_fact_sentences(summary, steps)
    if summary["ledger"] is not None:
        texts.append(ledger_text(summary["ledger"]))
    if uncovered:
        texts.append(
            f"Results are left out, because {_listed(uncovered)} may have learnt from the rows without noise."
        )
    elif summary["verdict"] != "none" or not is_public:
        texts += [*_result_sentences(estimator, model), *_check_sentences(estimator, model)]
    if summary["verdict"] != "none":
        texts.append(_further_use_text(obj, model))
    return [sentence for text in texts for sentence in _cut_to_length(text)]


# The model, and the guarantee.


_GUESSED_BY = {"row": "all other rows", "person": "the rows of all others"}


def _model_sentence(estimator, model, summary, is_known):
    """The kind of model, and what it was fitted to; ``is_known`` if its number of columns is public."""
    response = getattr(estimator, "response", None)  # The column that a formula names.
    of_response = "" if response is None else f" of {_name(response)}"
    if hasattr(model, "classes_"):
        of_response += f" for {len(model.classes_)} classes"
    kind = "logistic regression"
    if isinstance(model, LinearPosterior):
        if not hasattr(model, "classes_"):
            kind = "Poisson regression" if model._reads_counts else "linear regression"
    elif hasattr(model, "n_components_"):
        kind = f"Gaussian mixture of {_count(model.n_components_, 'component')}"
    else:
        kind = "neural network" if hasattr(model, "layer_sizes_") else type(model).__name__
    columns = f" on {_count(model.n_features_in_, 'column')}" if is_known else " on columns"
    prepared = " that its steps prepare" if isinstance(estimator, Pipeline) else ""
    return (
        f"This is a {kind}{of_response}{columns}{prepared}, fitted to "
        f"{_rows_text(summary['protected'])}."
    )


def _rows_text(protected):
    """The number of rows, or of persons, as exactly as it is public."""
    rows, relation = protected["rows"], protected["neighboring_relation"]
    if rows is None:
        return "rows whose number is private"
    number = f"{rows['number']:,} {rows['counts']}"
    if rows["counts"] == "persons":
        return f"the rows of {'' if relation.startswith('replace') else 'about '}{number}"
    if rows["at_most"]:
        return f"at most {number}"
    if relation.startswith("replace"):  # Of persons, one row each.
        return number
    return f"rows whose number stays private, and was declared as about {number}"


def _guarantee_sentences(summary):
    """Sentences on who is protected, and how often a guess can become right."""
    protected, spent = summary["protected"], summary["spent"]
    unit, epsilon, delta = protected["unit"], spent["epsilon"], spent["delta"]
    if epsilon is None:
        yield (
            "Nothing is protected: epsilon is infinite, so there is no limit on what the fit, or anything "
            "computed from it, tells of a row."
        )
        return
    start = "But for the warnings below, " if summary["verdict"] == "weakened" else ""
    guess = f"{'a' if start else 'A'} guess about {spent['guess']}"
    subject = "each row, and thereby each person with one row"
    if unit == "person":
        limit = protected["max_rows_per_person"]
        subject = "each person with all of their rows"
        if limit is not None:
            subject += f", of which at most {limit:,} {'is' if limit == 1 else 'are'} used"
    factor = spent["odds_factor"]
    times = "that may exceed 10^300" if factor is None else f"of at most {_upper(factor)}"
    rare = f", but for rare cases, which delta = {_upper(delta)} controls" if delta > 0 else ""
    yield (
        f"{start}{subject if start else subject.capitalize()}, is protected: to somebody who knows "
        f"{_GUESSED_BY[unit]} the fit changes the odds of a guess about {spent['guess']} by a factor "
        f"{times} (epsilon = {_upper(epsilon, 4)}){rare}."
    )
    share = 1.0 - (1.0 - delta) / (1.0 + math.exp(min(epsilon, _LARGEST_EXPONENT)))
    limit = f"at most {_upper(100.0 * share)}%" if share < 0.999 else "more than 99.9%"
    yield (
        f"{start}{guess} that is right in 50% of cases, as by tossing a coin, can become right in {limit} of "
        "cases with what the fit released."
    )
    if epsilon >= _WEAK_EPSILON:
        yield "So large an epsilon hardly protects: it is usually 1 or less."


def _public_fact_sentences(summary, steps):
    """Sentences on what is public, what was learnt with noise, and what the user vouches for."""
    unprotected = ". ".join(summary["protected"]["not_protected"])
    yield f"Not protected, because taken to be public: {unprotected[:1].lower()}{unprotected[1:]}."
    for source, start in (
        ("declared", "Declared to be public, and not computed from these rows"),
        ("learnt", "Learnt from the rows with noise, at a part of the cost"),
    ):
        facts = [fact for step in steps for fact in step["bounds"] if fact["source"] == source]
        names = [
            fact["what"] if fact["column"] is None else f"{fact['what']} of {_name(fact['column'])}"
            for fact in facts
        ]
        if names:
            yield f"{start}: {_listed(dict.fromkeys(names))}."
    vouched = [step["kind"] for step in steps if step["role"] == "vouched"]
    if vouched:
        yield f"Learnt nothing from these rows in the user's word, at no cost: {_listed(vouched)}."
    yield (
        "What was done with these rows before the fit, such as scaling, choosing columns or comparing "
        "models, is not covered."
    )


def _further_use_text(obj, model):
    """Sentences on how good predictions are, as far as was measured, and on what is free from now on."""
    plan: Any = getattr(obj, "plan_", None)
    # Of a private search, unless its best model was fitted again, or is another one.
    if hasattr(plan, "score_noise") and obj._holds_what_it_chose():
        name, score = obj.scorer_.score_func.__name__, obj.best_score_
        error, noise = f"{plan.score_error:.2g}", f"{plan.score_noise:.2g}"
        within = f"a standard error of up to {error} of its range (noise {noise})"
        # A private number of rows is planned for as it was declared.
        is_known = not obj.neighboring_relation.startswith("add_or_remove")
        rows = f"{plan.n_test:,}" if is_known else f"about {plan.n_test:,} (by public_size)"
        if name in _NOT_MEANS:
            within = f"noise for epsilon = {plan.score_epsilon:.3g}"
        measured = (
            f"The search measured {name} = {_figure(score if obj.scorer_.greater_is_better else -score)} on "
            f"{rows} other {plan.counts}, with {within}; the best of several is too optimistic."
        )
    else:
        name = "dp_mean_score" if hasattr(model, "n_components_") else "dp_mean_absolute_error"
        if hasattr(model, "classes_"):
            name = "dp_accuracy_score"
        elif getattr(model, "_reads_counts", False):
            name = "dp_mean_poisson_deviance"
        measured = (
            f"How good its predictions are was not measured: skdpbayes.metrics.{name} does so on rows that "
            "the fit did not use, and spends budget."
        )
    number = len(DrawnPosterior.parts(model.posterior_samples_)[0])
    draws = f"the {number:,} draws that were kept"
    if model.released_.get("posterior") is not None:
        draws = "any number of new draws"
    return (
        f"{measured} From now on predictions, tables and {draws} are free; other fits to "
        "these rows, or scores on them, spend more."
    )


# What was learnt, and how sure that is.


class Effect(NamedTuple):
    """An effect of a column: its draws, of shape (n_draws, n_classes - 1) or (n_draws, 1), and its change."""

    draws: np.ndarray
    change: str


def _result_sentences(estimator, model):
    if isinstance(model, LinearPosterior):
        response = getattr(estimator, "response", None)
        yield from _effect_sentences(model, effects_of(estimator, model), response)
        if _shares_columns(estimator):
            yield (
                "Several columns of the model are made of one column of the table, such as its products and "
                "powers: they change together, and an effect above is of one of them alone. "
                "skdpbayes.inspection.contrasts compares rows in all of them."
            )
    elif hasattr(model, "n_components_"):
        yield from _component_sentences(estimator, model)
    elif hasattr(model, "layer_sizes_"):
        layers = " x ".join(f"{size:,}" for size in model.layer_sizes_)
        yield (
            f"A network of {layers} units has no effects to read: its predictions average over "
            f"{len(model.posterior_samples_):,} draws of {model.plan_.n_parameters:,} weights."
        )
    yield from _width_sentences(model)


def effects_of(estimator: Any, model: Any) -> list[Effect]:
    """The effects of all columns, in the units of a pipeline's table where that is possible.

    Parameters
    ----------
    estimator : estimator or Pipeline
    model : LinearPosterior
        The one behind it.
    """
    names = [str(name) for name in model._column_names()]
    slopes = model._posterior.enough()[:, :, : len(names)]
    if slopes.shape[1] > 1:
        slopes = slopes[:, 1:] - slopes[:, :1]
    effects, taken, largest, as_met = [], set(), np.ones(len(names)), ""
    if isinstance(estimator, Pipeline):
        as_met = ", as the model meets it,"
    affine = _affine_of(estimator, model, names) if _has_steps(estimator, model) else None
    if affine is not None:
        slopes, names, as_met = slopes @ affine.matrix, list(affine.names), ""
        largest = np.abs(affine.matrix).max(axis=0)
        taken = {name for name, slope in zip(names, largest, strict=True) if slope == 0.0}
        for column, levels in affine.indicators.items():
            if levels is not None and not taken.issuperset(filter(None, levels.names)):
                taken.update(levels.names)
                effects += _level_effects(slopes, names, column, levels)
    for j, name in enumerate(names):
        if name not in taken:
            size = _step_size(largest[j])
            change = f"where {_name(name)}{as_met} is {size:,.10g} higher"
            if (missing := re.fullmatch(r"missing\((.*)\)", name)) is not None:
                change = f"where {_name(missing[1])} is missing"
            effects.append(Effect(slopes[:, :, j] * size, change))
    return effects


def _has_steps(estimator, model):
    """Whether a pipeline's columns are followed to those of its table."""
    return isinstance(estimator, Pipeline) and model.n_features_in_ <= _MOST_FOLLOWED


def _shares_columns(estimator):
    """Whether the steps of a pipeline make several numbers of one column of a table."""
    from ..privacy.unsafe_callers import fitted_tree

    steps = [node.estimator for node in fitted_tree(estimator).walk()]
    terms = [term for step in steps if isinstance(step, FormulaEncoder) for term in step._terms()]
    read = [name for term in terms for factor in term for name in factor.columns]
    return (
        len(set(read)) < len(read)
        or any(len(term) > 1 or isinstance(term[0], Spline) for term in terms)
        or any(isinstance(step, PolynomialFeatures | SplineTransformer) for step in steps)
    )


def _affine_of(estimator, model, names):
    """The `Affine` of a pipeline's table; None if there is none, and the model's own columns are taken."""
    from ..inspection._raw import affine_of

    try:
        return affine_of(estimator, model, names)
    except ValueError:  # A step combines or bends what was scaled.
        return None


def _level_effects(slopes, names, column, levels):
    """The effects of the levels of a column, but for the reference level."""
    none = np.zeros(slopes.shape[:2])
    each = [none if name is None else slopes[:, :, names.index(name)] for name in levels.names]
    texts = ["missing" if level is None else _name(level) for level in levels.levels]
    reference = levels.names.index(None) if None in levels.names else 0
    against = f"rather than {texts[reference]}"
    return [
        Effect(effect - each[reference], f"where {_name(column)} is {text} {against}")
        for j, (effect, text) in enumerate(zip(each, texts, strict=True))
        if j != reference
    ]


def _step_size(largest):
    """A step of a column whose largest slope in the model's columns is given."""
    if largest in (1.0, _UNIT_SLOPE):
        return 1.0
    wanted = _SCALED_STEP / largest
    unit = 10.0 ** math.floor(math.log10(wanted))
    return unit * max(step for step in _STEPS if step * unit <= _STEP_TOLERANCE * wanted)


def _effect_sentences(model, effects, response):
    """Sentences on the largest effects, and on how sure signs are."""
    if not effects:
        return
    draws = np.concatenate([effect.draws for effect in effects], axis=1)
    low, high = np.quantile(draws, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    sureness = np.maximum((draws > 0).mean(axis=0), (draws < 0).mean(axis=0))
    # The end of the interval that is nearer to no effect, then the sign.
    size = np.maximum(np.maximum(low, -high), 0.0)
    is_ratio = hasattr(model, "classes_") or model._reads_counts
    for j in np.lexsort((-sureness, -size))[:_MOST_EFFECTS]:
        effect, place = divmod(int(j), effects[0].draws.shape[1])
        values = draws[:, j]
        if is_ratio:
            values = np.exp(np.clip(values, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))
        number, *ends = map(_figure, _median_and_ends(values))
        subject = f"the mean response changes by {number}"
        if is_ratio:
            subject = "the expected count is"
            if hasattr(model, "classes_"):
                subject = f"the {_odds_text(model, place, response)}"
            subject += f" {number} times as large"
        interval = f"({_LEVEL:.0%} interval {' to '.join(ends)})"
        yield f"All else equal, {subject} {interval} {effects[effect].change}."
    several = len(size) > _MOST_EFFECTS
    shown = f" (those above are the {_MOST_EFFECTS} clearest)" if several else ""
    yield (
        f"Of {_count(len(size), 'effect')}{shown} the direction of {np.sum(sureness > _SURE):,} is clear: "
        f"positive, or negative, in over {_SURE:.0%} of draws."
    )


def _median_and_ends(draws):
    """The median and the ends of the interval, each of the shape of a draw."""
    return np.quantile(draws, [0.5, (1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)


def _odds_text(model, place, response):
    """The odds that an effect multiplies; labels that were read off the rows are not told."""
    labels = [_name(label) for label in model.classes_]
    if model.classes is None:
        labels = [f"class {number}" for number in range(1, len(labels) + 1)]
    subject = "" if response is None else f"{_name(response)} = "
    return f"odds of {subject}{labels[place + 1]} against {labels[0]} are"


def _component_sentences(estimator, model):
    """The weights of a mixture, and where its two largest components differ most; of one, nothing."""
    from ..inspection._raw import raw_moments

    if model.n_components_ == 1:
        return
    # New draws of many components take as long as a fit.
    parts = DrawnPosterior.each(model.posterior_samples_, _median_and_ends)
    weights = [
        f"{100 * median:.0f}% ({100 * low:.0f} to {100 * high:.0f})"
        for median, low, high in parts.weights.T[:_MOST_ITEMS]
    ]
    more = model.n_components_ - len(weights)
    rest = f", and {more:,} smaller" if more else ""
    yield f"Shares of its components are, with {_LEVEL:.0%} intervals, {', '.join(weights)}{rest}."
    means, names, as_met = (
        model.posterior_samples_.means,
        model._column_names(),
        ", as the model meets it",
    )
    try:
        means, _, names = raw_moments(estimator, model, model.posterior_samples_)
        as_met = ""
    except ValueError:  # A step combines or bends what was scaled.
        pass
    gaps = means[:, 0] - means[:, 1]
    j = int(np.argmax(np.abs(gaps.mean(axis=0)) / np.maximum(gaps.std(axis=0), 1e-300)))
    first, second = (
        f"{_figure(median)} ({_figure(low)} to {_figure(high)})"
        for median, low, high in _median_and_ends(means[:, :2, j]).T
    )
    yield (
        f"The two largest differ most surely in {_name(names[j])}{as_met}: their means are {first} and "
        f"{second}."
    )


def _width_sentences(model):
    """Sentences on how an interval is read, and how much wider privacy makes it."""
    plan = model.plan_
    if not plan.is_calibrated:
        yield (
            f"Draws of sampler={plan.name!r} under privacy are not a calibrated posterior: intervals may "
            "hold what they are for more or less often than they say."
        )
    elif plan.budget.is_private and not isinstance(model, LinearPosterior):
        yield f"A {_LEVEL:.0%} interval includes what the noise of privacy hides."
    elif isinstance(model, LinearPosterior):
        noise = ", the noise of privacy included" if plan.budget.is_private else ""
        yield (
            f"A {_LEVEL:.0%} interval holds its value with a probability of {_LEVEL:.0%}{noise}, if the "
            "model is right and no warning or note below says otherwise."
        )
    if not plan.budget.is_private:
        return
    if isinstance(model.posterior_samples_, tuple) and hasattr(plan, "interval_inflation"):
        shares, means, covariances = map(_factor_text, plan.interval_inflation)
        of_shares, where = "", ""
        if model.n_components_ > 1:
            of_shares, where = (
                f"{shares} (shares), ",
                ", where components are equally large and apart",
            )
        yield (
            f"Privacy makes intervals {of_shares}{means} (means) and {covariances} (covariances) times as "
            f"wide as they would be without it{where}."
        )
        return
    factors = model._posterior.width_factors()
    factors = factors[np.isfinite(factors)]
    if not factors.size:
        yield "How much wider privacy makes intervals is not known: this sampler releases nothing that tells."
        return
    middle, most = np.median(factors), factors.max()
    number = _count(factors.size, "parameter")
    yield (
        f"Privacy makes intervals {_factor_text(middle)} times as wide as they would be without it: that is "
        f"the middle of {number}, and the most is {_factor_text(most)} times."
    )


def _factor_text(factor):
    if factor > _LARGEST_FACTOR:
        return "more than 100"
    return f"about {factor:.0f}" if factor >= 10.0 else f"about {factor:.1f}"


def _check_sentences(estimator, model):
    """The warnings about a fit, computed again from what was released, and notes on its intervals."""
    plan, warnings = model.plan_, model.plan_.warnings
    notes: tuple[str, ...] = ()
    if isinstance(model, LinearPosterior):
        warnings += _checks(model)
        notes = model.interval_notes()
        if _has_steps(estimator, model):  # In the names and units of the table.
            from ..inspection._tables import notes_of

            notes = notes_of(estimator, raw=True)
    yield from (f"Warning: {text}" for text in warnings)
    if not (warnings or notes):
        yield (
            "No check of this fit failed."
            if isinstance(model, LinearPosterior)
            else f"The plan of this fit, by sampler={plan.name!r}, had no warning."
        )
    yield from (f"Note: {text}" for text in notes)


def _checks(model):
    """The texts of `model_checks` at the fit, which reads draws and releases only."""
    posterior, plan = model._posterior, model.plan_
    draws = posterior.draws - posterior.origin
    known = LinearModel(
        family=plan.bounds.family,
        n_features=model.n_features_in_,
        norm=model.data_norm_,
        prior_scale=model.prior_scale,
        intercept_prior_scale=model.intercept_prior_scale,
        constant=plan.bounds.constant,
    )
    checks = model_checks(draws, known, plan, posterior.diagnostics, model._column_names())
    return tuple(map(itemgetter(0), low_ess_warnings(draws, plan) + checks))


# Words, and lengths.


def _upper(value, digits=3):
    """A number as text, never rounded down."""
    above = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(value)))
    return f"{float(above):,.10g}"


def _figure(value):
    """A number in three digits."""
    return f"{float(f'{value:.3g}'):,.10g}"


def _count(number, noun):
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _name(value):
    """A name in one line, cut if it is long."""
    text = " ".join(str(value).split()) or "''"
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 3]}..."


def _listed(items):
    items = [_name(item) for item in items]
    rest = len(items) - _MOST_ITEMS
    return ", ".join(items[:_MOST_ITEMS]) + (f", and {rest:,} more" if rest > 0 else "")


def _cut_to_length(text):
    """A text as sentences of legible length: whole if it is short, else cut at periods, or between words."""
    text = " ".join(str(text).split())
    if len(text) <= _LONGEST_SENTENCE:
        return [text]
    sentences: list[str] = []
    for sentence in text.replace(". ", ".\n").split("\n"):
        sentence = sentence[:1].upper() + sentence[1:]
        if sentences and len(sentences[-1]) + 1 + len(sentence) <= _LONGEST_SENTENCE:
            sentences[-1] += f" {sentence}"
        else:
            sentences += _wrapped(sentence)
    return sentences


def _wrapped(sentence):
    """A sentence in parts, cut at its colon if that is enough."""
    if len(sentence) <= _LONGEST_SENTENCE:
        return [sentence]
    head, colon, rest = sentence.partition(": ")
    if head in ("Warning", "Note"):
        start, colon, rest = rest.partition(": ")
        head = f"{head}: {start}"
    if colon and max(len(head), len(rest)) < _LONGEST_SENTENCE:
        return [f"{head}.", f"{rest[:1].upper()}{rest[1:]}"]
    return textwrap.wrap(sentence, _LONGEST_SENTENCE)
