"""Checks of a fit, from what it released: priors, clipped rows, columns that noise hides, and chains.

    p = E[P(chi-squared(k) >= Q)],      Q = sum_j theta_j^2 / s^2

over draws is below ``a`` with a probability of at most ``2 a`` if the prior is right (Meng, "Posterior
predictive p-values", Annals of Statistics 1994). Released labels are compared with what the prior predicts,
too (`prior_predictive_p_values`): draws say more where labels do, and labels where draws follow the
prior. How far their length does is told by ``d E[log |theta|] / d log s = Cov[log |theta|, Q]`` (Kallioinen,
Paananen, Bürkner and Vehtari, "Detecting and diagnosing prior and likelihood sensitivity with
power-scaling", Statistics and Computing 2024).

All of it is computed from draws and from what was released besides: no record is read, and nothing is spent.
"""

import math
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning

from ..exceptions import DataScalingWarning, PosteriorWarning

# p-values of released labels below which the prior of coefficients, and of intercepts, is in conflict with
# them; those of draws are doubled first. Under correct priors at most 1.8% of fits warn.
_CONFLICT_P_VALUES = (0.006, 0.003)
# A prior scale is wide beyond this multiple of the usual deviation of logits.
_WIDE_PRIOR = 4.0
# Largest share of the coefficients' length that may follow a wide prior scale.
_LARGEST_PRIOR_SHARE = 0.6
# Largest shift of the log length, in its deviations, that a wide prior scale may cause.
_LARGEST_PRIOR_PULL = 0.8
# Fewest draws with which a wide prior, its pull and the share of the rarest class are judged.
_ENOUGH_DRAWS = 50
# Prior deviations below zero of an intercept that is the logarithm of a rate.
_RARE_EVENT_SDS = 3.0
# Largest ratio of the ends of an interval of the rarest class's share.
_LARGEST_SHARE_RATIO = 6.0
# A class is rare below this multiple of its share under balance.
_RARE_CLASS = 0.5
# Chi-squared of all releases at the mode, per degree of freedom, beyond which they may be inconsistent.
_INCONSISTENT_CHI2 = 2.5
# p-value of that chi-squared below which they are.
_INCONSISTENT_P_VALUE = 1e-5
# Deviation of errors over half the width of the responses' bounds: a uniform law has 0.58, and more means
# mass at both ends.
_LARGEST_ERROR_SD = 0.62
# The same of responses.
_LARGEST_RESPONSE_SD = 0.72
# Distance of the responses' mean from an end, in their deviations, below which most of them are there.
_LEAST_DISTANCE_FROM_END = 0.4
# Largest standard error of that mean, over half the width, for which the check is made.
_LARGEST_MEAN_ERROR = 0.03
_CONTRADICTED = (
    "what was released at one point contradicts what was released at others: the model of errors is wrong "
    "where it matters, and some coefficients may be off by far more than their intervals say. Large effects "
    "of columns that are 0 in nearly all rows do this: leave such columns out, or put several together. "
    "Fitting again spends budget again."
)
# Ratio of the moment's noise to its median eigenvalue above which a direction is hidden.
_LARGEST_HIDDEN_RATIO = 3.0
_HIDDEN_DIRECTIONS = (
    "noise hides along which directions rows hardly vary: where columns repeat each other, or vary far less "
    "than data_norm allows, intervals are too short, and half of them may miss. Take a data_norm that is "
    "closer to the length of rows (data_norm='auto' learns one), fewer columns, more rows or a larger "
    "epsilon; fitting again spends budget again."
)
# What large counts have beyond any law, over the mean of counts, from which on it is noted. Lognormal rates
# have up to .03, and are held.
_MANY_LARGE_COUNTS = 0.05
# Share of records with ten times the rate of others, hidden by noise, from which on it is noted: as many
# add a tenth to the mean.
_MUCH_HIDDEN_OF_LARGE = 0.01
# Deviations by which a histogram of counts with exposures is off, from which on it is noted.
_NO_LAW = 5.0
# The same without exposures. Lognormal rates have up to 5, and are held.
_NO_LAW_AT_ALL = 8.0
# Variance of a count of mean 1, less 1, from which on that is noted: of counts of trials intervals are wide.
_OVERDISPERSED = 0.05
# Largest count with which a histogram has so few bins that any law fits.
_FEW_COUNTS = 2.0
# Share of counts that equal max_count, beyond which a fit warns.
_LARGEST_SHARE_AT_MAX = 0.8
# Deviations from 0 of the difference between the errors' mean and their centre, from which on they are
# noted as skewed.
_ASYMMETRIC = 2.0
# The same for a warning: of 150 fits of 500 to 1,500 rows to symmetric errors none exceeded it, and 12
# exceeded 2.
_SURELY_ASYMMETRIC = 3.0
# Least such difference, over the root mean square of errors.
_SKEWED = 0.02
# Noise on what such errors change of slopes, over what they change of the mean, beyond which intervals are
# noted.
_NOTED_NOISE = 0.08
# The same over the deviation of errors, beyond which a skew that is not seen may change slopes.
_HIDING_NOISE = 0.05
# Posterior deviations from 0 of a coefficient's mean, beyond which an effect is seen though noise may hide
# how much its column varies: 86% of 481 such 90% intervals cover, and 41% of 71 others.
_EFFECT_SEEN = 1.0
_MORE_DRAWS = (
    "sample_posterior(2000) goes on with them and spends nothing; where noise hides nearly all, take more "
    "rows, fewer columns or a larger epsilon."
)
_MORE_DRAWS_WITHOUT_PRIVACY = "Take a larger n_draws."
# Share of effective draws that is too small, and their number that is always enough. Of 400 draws of chains
# that never meet it is 0.07, and 0.2 was the least over 18 tables.
_FEW_EFFECTIVE_SHARE = 0.1
_ENOUGH_EFFECTIVE = 40.0
# Factor by which privacy widens an interval, beyond which noise is most of its width.
_WIDE = 2.0
# How many columns are named in a warning.
_NAMED = 6
# Largest eigenvalue of the second moment over its trace, beyond which all rows lie along one direction.
_LARGEST_DIRECTION_SHARE = 0.94
# Trace of the second moment over data_norm^2, beyond which rows are clipped.
LARGEST_TRACE_SHARE = 0.9


def chains_disagree(released, n_draws):
    """A tuple with a warning if chains that drew from a posterior do not agree, else an empty one.

    Parameters
    ----------
    released : Diagnostics
    n_draws : int
    """
    if released.effective_sample_size is None:
        return ()
    few = float(np.min(released.effective_sample_size))
    if few >= min(_FEW_EFFECTIVE_SHARE * n_draws, _ENOUGH_EFFECTIVE):
        return ()
    largest = float(np.max(released.r_hat))
    return (
        f"the chains that drew do not agree (R-hat {largest:.2f}; in some coordinate draws are worth "
        f"{few:.0f} independent ones): intervals may be off. "
        f"{_MORE_DRAWS_WITHOUT_PRIVACY if released.posterior is None else _MORE_DRAWS}",
    )


def model_checks(draws, model, plan, released, names):
    """Warnings about a fit of a linear model, each with its cause: a tuple of (text, category).

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n_blocks, n_features + has_intercept)
    model : LinearModel
    plan : Plan
    released : Diagnostics
    names : sequence of str
        What columns are called.
    """
    column_warnings = columns_below_noise(released, draws, names)
    of_chains = chains_disagree(released, len(draws))
    of_scales = (
        single_direction(released)
        or clipped(released, model, plan)
        or counts_at_max(released, model)
    )
    if not of_scales and plan.is_calibrated:
        of_scales = responses_at_bounds(released, draws[:, 0], model)
    elif not of_scales:
        of_scales = rare_events(draws, model)
    of_posterior: tuple[str, ...] = ()
    if plan.is_calibrated and not of_scales:  # What rows lose makes coefficients larger, too.
        of_posterior = _posterior_causes(draws, model, plan, released, bool(column_warnings))
    return (
        *product(of_chains, [ConvergenceWarning]),
        *product(column_warnings + of_scales, [DataScalingWarning]),
        *product(of_posterior, [PosteriorWarning]),
    )


def _posterior_causes(draws, model, plan, released, has_hidden_columns):
    """The likeliest cause of wrong intervals, or several, where rows and bounds fit each other."""
    if of_errors := skewed_errors(released):
        return of_errors
    if inconsistent_releases(released):
        return (_CONTRADICTED,)
    if _hides_directions(released) and not has_hidden_columns:
        return (_HIDDEN_DIRECTIONS,)
    hidden = class_below_noise(released, draws, plan.n_samples)
    groups = [("coefficients", "prior_scale", model.scale, draws[:, :, : model.n_features])]
    if draws.shape[2] > model.n_features:
        intercepts = draws[:, :, model.n_features :]
        groups.append(("intercepts", "intercept_prior_scale", model.intercept_scale, intercepts))
    is_known = [not is_learnt for is_learnt in plan.bounds.learns_scales[: len(groups)]]
    if not any(is_known):
        return hidden
    p_values = [2.0 * surprise(group[3], group[2]) for group in groups]
    if released.posterior is not None:
        p_values = np.minimum(p_values, released.posterior.prior_predictive_p_values())
    conflicts = ()
    for group, p, least, known in zip(groups, p_values, _CONFLICT_P_VALUES, is_known, strict=False):
        conflicts += prior_too_narrow(*group) if known and p < least else ()
    if is_known[0] and not conflicts:
        conflicts = prior_dominated(
            groups[0][3], model.scale, model.family.logit_scale / model.norm
        )
    return hidden + conflicts


def columns_below_noise(released, draws, names):
    """A tuple with a warning if noise hides how much columns vary, else an empty one.

    Parameters
    ----------
    released : Diagnostics
    draws : ndarray of shape (n_draws, n_blocks, n_features + has_intercept)
    names : sequence of str
        What columns are called.
    """
    surely, perhaps = released.hidden_columns, released.hidden_or_rare_columns
    candidates = np.asarray(() if perhaps is None else perhaps, dtype=int)
    effects = draws[:, :, candidates]
    is_seen = np.abs(effects.mean(axis=0)) > _EFFECT_SEEN * effects.std(axis=0)
    hidden = sorted({*(() if surely is None else surely), *candidates[~is_seen.any(axis=0)]})
    if not hidden:
        return ()
    return (
        f"noise hides how much {_named(names, hidden)}: far less than within -1 and 1, or than data_norm "
        "allows. Intervals of their coefficients are too short, and often miss. Scale them by public bounds "
        "that fit (BoundedScaler), or by DPQuantileScaler, which learns bounds privately; merge rare "
        "levels of categories; fitting again spends budget again.",
    )


def _named(names, columns):
    """Columns by name, some of them, with the verb."""
    named = listed([str(names[j]) for j in columns])
    return f"{named} {'varies' if len(columns) == 1 else 'vary'}"


class NotedColumn(NamedTuple):
    """What a column of a model is called in a table, and how many of its units are one of the model's."""

    name: str
    unit: float = 1.0
    # Whether it is known to be an indicator, which varies as much as its share of rows says.
    is_indicator: bool = False


def interval_notes(plan, released, columns, posterior=None):
    """Notes on intervals of coefficients: whose they are, why they are wide, and on what they depend.

    Parameters
    ----------
    plan : Plan
    released : Diagnostics
    columns : sequence of NotedColumn
    posterior : CoefficientPosterior or None, default=None
        None says nothing of widths.

    Returns
    -------
    notes : tuple of str
    """
    repeated = _notes_on_repeated(released, columns)
    if not plan.budget.is_private:
        return repeated
    notes, (skew, noise) = plan.interval_notes, _seen_skew(released)
    if skew and _NOTED_NOISE < noise < math.inf:
        notes += (
            f"errors seem to be skewed: {skew}. Slopes are those of the mean, but noise hides part of how it "
            "changes with the columns: along a column with which errors grow intervals may be too short.",
        )
    elif not skew and _HIDING_NOISE < (released.noise_of_skewed_slopes or 0.0) < math.inf:
        notes += (
            "noise hides whether errors are skewed: where they are and grow with a column, its slope is that "
            "of a centre, and not of the mean.",
        )
    notes += _notes_on_counts(plan, released) + repeated
    hidden = () if released.unseen_columns is None else released.unseen_columns
    unseen = [columns[j] for j in hidden if not columns[j].is_indicator]
    notes += _notes_on_unseen(unseen, released.unseen_deviation)
    return notes if posterior is None else notes + _notes_on_widths(posterior, columns, hidden)


def _notes_on_repeated(released, columns):
    """Notes on columns that others nearly repeat, unless a warning says that noise hides which do."""
    if released.repeated_columns is None or _hides_directions(released):
        return ()
    names = [columns[j].name for j in released.repeated_columns if not columns[j].is_indicator]
    if not names:
        return ()
    return (
        f"other columns, or the constant, nearly repeat {', '.join(names)}: how effects are shared among "
        "such columns follows the prior. Intervals of their single coefficients depend on prior_scale, and "
        "miss effects that offset each other; those of what they add up to, as in predictions, hardly do. "
        "Narrower public bounds, or fewer such columns, help.",
    )


def _hides_directions(released):
    """Whether noise is too large to show along which directions rows hardly vary."""
    return (released.hidden_directions or 0.0) > _LARGEST_HIDDEN_RATIO


def _notes_on_unseen(unseen, limit):
    """Notes on columns, `NotedColumn`, of which noise hides how much they vary."""
    if not unseen:
        return ()
    names, which = [column.name for column in unseen], "that use little of their bounds"
    if limit < math.inf and len({column.unit for column in unseen}) == 1:
        which = f"with a deviation below {limit * unseen[0].unit:.2g}, as they were passed,"
    elif limit < math.inf:
        # Two digits, and no exponent where that can be.
        limits = [float(f"{limit * column.unit:.2g}") for column in unseen]
        names = [f"{column.name} ({own:,g})" for column, own in zip(unseen, limits, strict=True)]
        which = "with a deviation below that in brackets"
    return (
        f"noise hides how much {', '.join(names)} {'vary' if len(names) > 1 else 'varies'}: intervals of "
        f"numbers {which} are too short; those of indicators mostly are not, but wide, because noise is the "
        "same however few rows have a level.",
    )


def _notes_on_widths(posterior, columns, hidden):
    """Notes on columns whose intervals noise makes wide, as those of indicators that few rows have."""
    factors = posterior.width_factors().reshape(posterior.draws.shape[1:])
    widths = factors[:, : len(columns)].max(axis=0)
    rare = [j for j in hidden if columns[j].is_indicator]
    wide = [j for j in np.argsort(-widths) if widths[j] > _WIDE and j not in hidden]
    parts = []
    if rare:
        named = listed([columns[j].name for j in rare], 3)
        parts.append(
            f"noise hides how many rows have, or lack, {named}, which pulls medians towards no effect"
        )
    if wide:
        what = "" if rare else "noise for privacy "
        named = listed([f"{columns[j].name} ({widths[j]:.1f} times)" for j in wide], 3)
        parts.append(f"{what}probably makes intervals over {_WIDE:g} times as wide: {named}")
    if not parts:
        return ()
    return (f"{', and '.join(parts)}. More rows, a larger epsilon, or merging rare levels helps.",)


def listed(names, most=_NAMED):
    """Names, so many at most."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _notes_on_counts(plan, released):
    """Notes where counts follow none of the laws that were tried, or where that could not be seen."""
    if (discrepancy := released.law_discrepancy) is None:
        return ()
    largest = plan.bounds.family.max_count
    if released.typical_exposure is not None and (discrepancy > _NO_LAW or largest <= _FEW_COUNTS):
        seen = "counts follow none of the laws that were tried"
        if largest <= _FEW_COUNTS:
            seen = f"counts up to {largest:g} fit any law"
        return (
            f"{seen}. Where an exposure ends with the event, as in survival, intervals of many rows are "
            "too short.",
        )
    if released.unexplained_large_counts > _MANY_LARGE_COUNTS:
        return (
            "more counts are large than any law that was tried explains, as where a few rows have a rate of "
            "their own, a column is 0 in nearly all rows and has a large effect, or exposures depend on "
            "columns: intervals may be too short.",
        )
    if discrepancy > _NO_LAW_AT_ALL and released.law.variance(1.0) - 1.0 > _OVERDISPERSED:
        return (
            "counts follow none of the laws that were tried, as where a column is 0 in nearly all rows and "
            "has a large effect: intervals may be too short.",
        )
    if (released.hidden_share_of_large or 0.0) > _MUCH_HIDDEN_OF_LARGE:
        return (
            "noise hides whether a few rows have ten times the rate of others: where some do, intervals are "
            "too short.",
        )
    return ()


def skewed_errors(released):
    """A tuple with a warning if the mean of errors is not their centre, and intervals ignore it."""
    if released.asymmetry is None or _noise_of_skewed_slopes(released) < math.inf:
        return ()
    if not (seen := _seen_skew(released, _SURELY_ASYMMETRIC)[0]):
        return ()
    return (
        f"errors are skewed: {seen}, and noise hides how it changes with the columns. Coefficients tell how "
        "the centre of responses changes; their mean may change by another number, which intervals may miss. "
        "For means, as of costs, take more rows or a larger epsilon, or fit the logarithm of positive "
        "responses, and whether any is there apart from how much; fitting again spends budget again.",
    )


def _seen_skew(released, deviations=_ASYMMETRIC):
    """Text on the mean of errors, empty if it may be their centre, and noise of slopes over that mean."""
    mean, deviation, size = released.asymmetry or (0.0, 1.0, 1.0)
    if abs(mean) <= max(deviations * deviation, _SKEWED * size):
        return "", 0.0
    side = "above" if mean > 0 else "below"
    noise = size * _noise_of_skewed_slopes(released)
    return f"their mean is {abs(mean):.2g} {side} their centre", noise / abs(mean)


def _noise_of_skewed_slopes(released):
    """That noise, infinite where slopes are those of a centre."""
    noise = released.noise_of_skewed_slopes
    return math.inf if noise is None else noise


def inconsistent_releases(released):
    """Whether noisy sums contradict each other, more than noise may do."""
    square, n = released.chi2_per_dof or 0.0, released.chi2_dof or 0
    return square > _INCONSISTENT_CHI2 and chi2.sf(n * square, n) < _INCONSISTENT_P_VALUE


def responses_at_bounds(released, draws, model):
    """A tuple with a warning if most responses are at the ends of their bounds, else an empty one.

    Parameters
    ----------
    released : Diagnostics
    draws : ndarray of shape (n_draws, n_features + has_intercept)
    model : LinearModel
    """
    if released.noise_deviations is None or released.second_moment is None:
        return ()
    half, errors = model.family.half_width, np.median(released.noise_deviations)
    means, deviation = _of_responses(released.second_moment, draws, model, errors)
    if errors > _LARGEST_ERROR_SD * half or deviation > _LARGEST_RESPONSE_SD * half:
        return (
            "most responses are near both ends of target_bounds, and errors far from normal. For answers of "
            "yes and no, where coefficients may be a third too large, take DPBayesianLogisticRegression; "
            "where responses were cut, which makes effects too small, set wider target_bounds. Fitting again "
            "spends budget again.",
        )
    mean, unknown = np.mean(means), np.std(means)
    is_known = 0.0 < unknown < _LARGEST_MEAN_ERROR * half
    if not is_known or half - abs(mean) > _LEAST_DISTANCE_FROM_END * deviation + 2.0 * unknown:
        return ()
    end = model.family.low if mean < 0 else model.family.high
    return (
        f"most responses seem to be at {end:.4g}, an end of target_bounds, or next to it. That is no error "
        "for amounts that are small or 0 in most rows. Otherwise those beyond it are cut, and effects come "
        "out far too small, which intervals do not say: where bounds are in another unit than responses, or "
        "too narrow, set wider ones, and narrower ones where they are far wider. Fitting again spends budget "
        "again.",
    )


def _of_responses(moment, draws, model, errors):
    """Draws of the mean of responses, from the middle of bounds, and the deviation of responses.

    The mean is 0 without an intercept; ``moment`` is that of rows and the constant, with noise.
    """
    if draws.shape[1] == model.n_features:
        return np.zeros(1), errors
    coefficients = draws[:, :-1]
    mean = moment[:-1, -1] / moment[-1, -1] * model.constant_value
    spread = moment[:-1, :-1] / moment[-1, -1] * model.constant_value**2 - np.outer(mean, mean)
    middle = coefficients.mean(axis=0)
    explained = max(middle @ spread @ middle, 0.0)
    return draws[:, -1] + coefficients @ mean, math.sqrt(explained + errors**2)


def class_below_noise(released, draws, n_samples):
    """A tuple with a warning if noise hides how many rows the rarest class has, else an empty one.

    Parameters
    ----------
    released : Diagnostics
    draws : ndarray of shape (n_draws, n_blocks, n_features + has_intercept)
    n_samples : int
        As planned for. Of less than one row nothing is hidden.
    """
    low, _, high = released.rarest_class or (1.0, 1.0, 1.0)
    is_rare = 1.0 / n_samples < high < _RARE_CLASS / max(draws.shape[1], 2)
    if len(draws) < _ENOUGH_DRAWS or not is_rare or high < _LARGEST_SHARE_RATIO * low:
        return ()
    least = f"{low:.1g}" if low > high / 1000.0 else "nearly 0"
    return (
        f"noise hides how rare the rarest class is: its share of rows, as they count, may be {least} to "
        f"{high:.1g}. Its probabilities may be several times too small, the interval of its intercept may be "
        "too short, and so may those of coefficients if columns are many. Take more rows, a larger "
        "epsilon or fewer columns, or set a prior_scale that is known from the subject; fitting again spends "
        "budget again.",
    )


def rare_events(draws, model):
    """A tuple with a warning if rates of counts are far below 1, else an empty one.

    A chain starts at rates of 1, and hardly comes to an end where there are as good as none.
    """
    intercepts = draws[:, :, model.n_features :]
    if not (model.family.has_offsets and intercepts.size):
        return ()
    log_rate = intercepts.mean()
    if log_rate > -_RARE_EVENT_SDS * model.intercept_scale:
        return ()
    return (
        f"rates are of the order of {math.exp(log_rate):.1g}, far below 1, where the intercept's prior is "
        "centred and chains start: coefficients may come out too large. Pass exposures in a larger unit, in "
        "which rates are of the order of 1 (a constant one, if rows do not differ). Fitting again spends "
        "budget again.",
    )


def counts_at_max(released, model):
    """A tuple with a warning if nearly all counts are at the largest one, else an empty one."""
    share = released.share_of_largest or 0.0
    if share < _LARGEST_SHARE_AT_MAX:
        return ()
    return (
        f"at least {share:.0%} of counts reach max_count={model.family.max_count:.4g}, by the released "
        "histogram: how large they were before is a guess, and rates may be absurdly high, far beyond "
        "what intervals hold. Set max_count to a public number that few counts reach, or max_count='auto'; "
        "fitting again spends budget again.",
    )


def surprise(draws, scale):
    """The probability under a prior scale of numbers as large as draws, at most by half too small.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, ...)
    scale : float
        Prior deviation of every number.
    """
    squares = np.sum(draws.reshape(len(draws), -1) ** 2, axis=1) / scale**2
    return float(chi2.sf(squares, draws[0].size).mean())


def prior_too_narrow(subject, name, scale, draws):
    """A tuple with a warning that a prior scale that was set is too narrow."""
    size = math.sqrt(np.mean(draws**2)) / scale
    if subject == "coefficients":
        cause = "shrinks them, and intervals"
    else:
        cause = "pulls them back, and intervals, those of coefficients too,"
    return (
        f"{subject} are {size:.1f} prior deviations from zero (root mean square): {name}={scale:.3g} "
        f"{cause} may be far too narrow. Leave {name} out, so that it is learnt, or set a larger one by what "
        "is known of the subject; fitting again spends budget again.",
    )


def prior_dominated(draws, scale, usual):
    """A tuple with a warning if a wide prior decides how large coefficients are, else an empty one.

    A normal law of many coefficients is sure of their length: ten with a deviation of 10 are about 32 long,
    and nearly never 10. Where noise hides the difference of large ones from larger ones, the prior decides.
    """
    if scale <= _WIDE_PRIOR * usual or len(draws) < _ENOUGH_DRAWS:
        return ()
    squares = np.sum(draws.reshape(len(draws), -1) ** 2, axis=1) / scale**2
    (of_logs, followed), _ = np.cov(0.5 * np.log(np.maximum(squares, 1e-300)), squares)
    # The log density of the prior grows by this with the logarithm of the length.
    pull = draws[0].size - squares.mean()
    if followed <= _LARGEST_PRIOR_SHARE and pull * math.sqrt(of_logs) <= _LARGEST_PRIOR_PULL:
        return ()
    return (
        f"how large coefficients are depends on prior_scale={scale:.3g}, since what was released hardly "
        "tells large ones from larger ones: a wide prior is sure that they are large, and intervals may "
        "leave out smaller ones. Leave prior_scale out, so that it is learnt, or set one by what is known of "
        "the subject; fitting again spends budget again.",
    )


def clipped(released, model, plan):
    """A tuple with a warning if rows are about as long as the norm allows, else an empty one.

    Rows that have this norm on purpose cannot be told from rows that are cut to it, unless a column is
    binary. Nothing is said of a norm that was chosen privately.
    """
    share = released.share_of_norm or 0.0
    if plan.bound_release is not None or share < LARGEST_TRACE_SHARE:
        return ()
    return (
        f"by the released second moment, squares of lengths of rows are at least {share:.0%} of those that "
        f"data_norm={model.norm:.3g} allows, on average: unless rows were scaled to this length on "
        "purpose, most are clipped, coefficients are larger than those of the rows as they were, and "
        "intervals miss these. Set data_norm to a public bound that most rows keep, or data_norm='auto'; "
        "fitting again spends budget again.",
    )


def single_direction(released):
    """A tuple with a warning if all rows lie along a single direction, else an empty one.

    Rows that are scaled to ``data_norm`` on purpose differ in their directions; those of columns that are
    not scaled, which are clipped to it, hardly do.

    Parameters
    ----------
    released : Diagnostics
    """
    share = released.share_of_a_direction or 0.0
    if share < _LARGEST_DIRECTION_SHARE:
        return ()
    return (
        f"by the released second moment, {share:.0%} of what rows within data_norm can be lies along a "
        "single direction, so the model hardly sees what else they hold: columns are probably not "
        "scaled. Scale them by BoundedScaler with public bounds, or by DPQuantileScaler, which learns bounds "
        "privately; if all are of one unit, data_norm='auto' will do. Columns with declared bounds, as in a "
        "formula, are scaled: most of their values seem to lie at a bound, so set wider ones. Fitting again "
        "spends budget again.",
    )


# Effective sample sizes of chains.
#
#     ESS = n / (1 + 2 sum_k rho_k),    summed over pairs of lags while they are positive (Geyer, 1992)
#
# Split R-hat compares parts of a run with each other (Vehtari, Gelman, Simpson, Carpenter and
# Bürkner, "Rank-normalization, folding, and localization: an improved R-hat for assessing convergence
# of MCMC", Bayesian Analysis 2021).


# ArviZ has no diagnostics for shorter chains.
LEAST_DRAWS = 4
# Wanted effective sample size without privacy: means are then typically within a twentieth of a deviation.
_WANTED_SIZE = 400
# Number of columns whose diagnostics are computed at once.
_COLUMNS = 64


def effective_size(draws):
    """The smallest effective sample size of a chain's coordinates.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, ...)

    Returns
    -------
    size : float
    """
    flat = draws.reshape(len(draws), -1)
    parts = range(0, flat.shape[1], _COLUMNS)
    return min(_effective_sizes(flat[:, first : first + _COLUMNS]).min() for first in parts)


def _effective_sizes(draws):
    n = len(draws)
    spectrum = np.abs(np.fft.rfft(draws - draws.mean(axis=0), 2 * n, axis=0)) ** 2
    covariances = np.fft.irfft(spectrum, axis=0)[: n - n % 2]
    with np.errstate(invalid="ignore"):  # A coordinate that never moved gives nan.
        pairs = (covariances[::2] + covariances[1::2]) / covariances[0]
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    time = 2.0 * np.sum(np.where(positive, pairs, 0.0), axis=0) - 1.0
    return np.where(positive[0], n / np.maximum(time, 1.0 / n), 1.0)


def chain_diagnostics(draws):
    """Split R-hat and effective sample sizes of the coordinates of one chain.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n)
    """
    from ..samplers.statistics.hmc import r_hat

    if len(draws) < LEAST_DRAWS:
        return np.full((2, draws.shape[1]), np.nan)
    return r_hat(draws[:, None]), _effective_sizes(draws)


def low_ess_warnings(draws, plan):
    """A tuple with a (text, category) if a chain without privacy is too short, else an empty one.

    With privacy the budget limits the length of a chain, and the plan warns of it.
    """
    n_draws = len(draws)
    if plan.budget.is_private or n_draws < 2 * LEAST_DRAWS:
        return ()
    if "n_steps" not in plan.sampler.get_params():
        return ()
    size, wanted = effective_size(draws), min(_WANTED_SIZE, n_draws // 2)
    if size >= wanted:
        return ()
    longer = math.ceil(plan.n_steps * wanted / size)
    kind, whitened = type(plan.sampler).__name__, getattr(plan.sampler, "is_whitened", False)
    other = "" if whitened else ", or use sampler='auto', which needs fewer steps"
    text = (
        f"in the coordinate that mixes slowest, the {n_draws} draws are worth about {size:.0f} independent "
        f"ones, fewer than {wanted}: take sampler={kind}(n_steps={longer}) or more steps instead of "
        f"{plan.n_steps:,}{other}."
    )
    return ((text, ConvergenceWarning),)
