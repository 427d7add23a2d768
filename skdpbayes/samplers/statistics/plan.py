"""Plans of noisy sums for labels, numbers and counts: shares of the budget, clips, and costs.

    A   = sum_i (x_i, c) (x_i, c)^T + N                                      share .19 of mu^2
    t   = sum_i v_i H^T (e_{y_i} - 1/K) (x) z_i + N                          share .41
    a_k = sum_i v_i H^T (p_i - 1/K) (x) z_i + N at u_k, k = 0..7             shares .40, growing
    F_k = sum_i v_i H^T (diag(p_i) - p_i p_i^T) H (x) z_i z_i^T + N          with five of them, of no cost

with ``z = W^T x``, ``W = (A' / n + floor)^(-1/2)``, ``A'`` being what ``A`` says (`design`; rows are centred
where there is an intercept), and weights ``v_i`` with which no ``v |z|`` exceeds ``C``. ``H`` is 1 for two
classes, see `skdpbayes.models.families`. Labels are read once, by ``t``. Each is a Gaussian mechanism;
``u_k``, ``W`` and ``C`` follow from what was released before. With ``q = 2`` under replace_one and else 1,
two tables are at most ``sqrt(q) (R^2 + c^2)``,
``q C b_1``, ``q C b_1`` and ``sqrt(q) C^2 b_2`` apart, where ``b_1, b_2`` are 1/2, 1/4 for two classes and
``sqrt(1 - 1/K)``, 1/2 for more: positive matrices are at most ``sqrt(2)`` times as far apart as the larger is
large. No record moves a score and a curvature by that much at once, nor a score where logits are small
(`sensitivity`).
"""

import math
from dataclasses import dataclass
from itertools import chain, product
from typing import NamedTuple, Self

import numpy as np
from scipy.special import ndtr

from ...exceptions import PosteriorWarning
from ...privacy.cost import PrivacyCost
from ..noise import moment_noise, sensitivity_after_rounding
from ..plan import Plan
from .sensitivity import FREE_SQUARE_RATIO, free_curvature, joint_mu_squared, residual_mu_squared

MOMENT_SHARE = 0.19
LABEL_SHARE = 0.41
SCORE_SHARE = 0.40
# Number of points at which scores are released.
N_RELEASES = 8
# Ratio of the shares of one score and the one before.
SCORE_GROWTH = 1.3
# Numbers, from 0, of the scores with which curvatures are released.
CURVATURES = (2, 4, 5, 6, 7)
N_DRAWS = 400
# Number of chains that draw in step.
N_CHAINS = 50
# Number of leapfrog steps of a draw, and of rounds before the first draw, as they usually are.
LEAPS = 3
BURN_IN = 24
# Of rows that stand for those of a table of more than two classes or of counts, at least.
N_ROWS = 256
# C^2 over the mean square of whitened rows of labels: the largest with which variances, with sampling, are
# at most so many times those with the least.
_LOGISTIC_CLIPPINGS = (1.3, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 50.0, 100.0)
_LARGEST_VARIANCE_RATIO = 1.05
# Deviations of noise below which a released variance says no more than "less than".
INVISIBLE = 1.5
# Standard deviation of a column that is spread evenly over its bounds, over half their width.
EVEN_DEVIATION = 3.0**-0.5
# For the expected width: the share of a squared curvature that is not known if noise drowns its release.
_HIDDEN_CURVATURE_SHARE = 0.5
# Share of the prior's precision below which it does not show in predictions that a scale is learnt.
_NEGLIGIBLE_PRIOR_SHARE = 0.1
# Number of draws beyond which a plan warns of memory.
_MANY_DRAWS = 50_000
# With more coefficients, noise drowns correlations of columns, and "auto" takes a chain.
DEFAULT_SIZE = 200


def moment_geometry(plan):
    """Norm of rows, their constant, and the deviation of the noise on the diagonal of ``A``.

    Parameters
    ----------
    plan : Plan
        With a ``moment_multiplier``.
    """
    bounds = plan.bounds
    constant = bounds.constant or bounds.row_norm / 2.0
    norm = norm_without_constant(bounds)
    grown = bounds._replace(
        row_norm=math.hypot(norm, constant), n_parameters=bounds.n_parameters + bounds.n_blocks
    )
    noise = moment_noise(grown, plan.n_samples, plan.budget, plan.moment_multiplier)
    return norm, constant, (bounds.max_weight or 1.0) * noise


def norm_without_constant(bounds):
    """The norm of rows without the intercept's column."""
    return math.sqrt(max(bounds.row_norm**2 - bounds.constant**2, 0.0))


def half_width(data_norm, n_features):
    """Half the width of columns' bounds, as far as a norm tells: 1, as scalers make them, where it may be."""
    if 1.0 <= data_norm <= math.sqrt(n_features):
        return 1.0
    return data_norm / math.sqrt(n_features)


def hidden_deviation(plan, geometry):
    """Standard deviation of columns that noise hides, over half the width of their bounds.

    ``geometry`` is that of the second moment, see `moment_geometry`.
    """
    norm, _, noise = geometry
    n_features = plan.bounds.block_length - (plan.bounds.constant > 0)
    return math.sqrt(INVISIBLE * noise / plan.n_samples) / half_width(norm, n_features)


def hidden_columns_line(plan, geometry):
    """Line of a printed plan on columns that hardly vary, a dict of {name: text}."""
    if not plan.budget.is_private:
        return {}
    hidden = hidden_deviation(plan, geometry)
    text = "noise hides how much any varies within its bounds"
    if hidden < 1.0:  # The deviation of a column that is at either end.
        width = f"{hidden:.2g} of half their bounds' width"
        text = f"intervals of those with a deviation below {width} are too short"
    return {"columns": text}


def hidden_columns_warning(plan, geometry):
    """A tuple with a warning if noise hides how much any column varies, else an empty one."""
    if not plan.budget.is_private or hidden_deviation(plan, geometry) < EVEN_DEVIATION:
        return ()
    return (
        f"noise hides how much any column varies, in {plan.n_samples:,} rows at epsilon="
        f"{plan.budget.epsilon:g}: intervals of columns that vary by far less than their bounds allow are "
        "too short, and often miss. Take more rows, a larger epsilon, fewer columns, or a data_norm that is "
        "closer to the length of rows.",
    )


class Request(NamedTuple):
    """A noisy sum, or sums that are read together: what is asked of the records, fixed in a plan.

    Attributes
    ----------
    kind : str
        "moment", "labels", "score", "curvature", "mean_square", "residuals", "meat", "wide_clip",
        "wide_residuals" or "histograms"; see `requests` for what each is.
    multipliers : tuple of float or None
        Noise multipliers, None for a part that is not wanted.
    mu_squared : float
        What they cost together.
    is_matrix : bool, default=False
        Whether it is a sum of positive matrices, which replacing a record moves less than two records would.
    """

    kind: str
    multipliers: tuple
    mu_squared: float
    is_matrix: bool = False

    @classmethod
    def alone(cls, kind: str, *multipliers: float, is_matrix: bool = False) -> Self:
        """A request of sums of which each costs by itself."""
        return cls(kind, multipliers, _total_mu_squared(multipliers), is_matrix)


def cost_of(rounds, relation):
    """The `PrivacyCost` of rounds of requests.

    Parameters
    ----------
    rounds : tuple of tuple of Request
    relation : str
    """
    squares = [request.mu_squared for together in rounds for request in together]
    return PrivacyCost(relation, mu=math.sqrt(math.fsum(squares)))


@dataclass(frozen=True, kw_only=True)
class StatisticsPlan(Plan):
    """A plan of noisy sums.

    Attributes
    ----------
    moment_multiplier : float
        Noise multiplier of ``A``.
    n_steps : int
        Number of noisy sums, and one for the weights of long rows. ``n_passes`` is smaller where one pass
        over the table is enough for several sums.
    """

    moment_multiplier: float

    warning_category = PosteriorWarning
    # Whether records are read without the weights of long ones, too.
    reads_unweighted = True

    @property
    def rounds(self):
        """Tuples of `Request` that are read together, one round after the other."""
        raise NotImplementedError

    @property
    def is_calibrated(self):
        """Whether draws are a posterior that knows what privacy hides."""
        return True

    @property
    def n_passes(self):
        """The number of passes over the table, one of them for the weights of long rows."""
        tables = (
            {name for each in round_ for name in self._tables(each)} for round_ in self.rounds
        )
        return 1 + sum(map(len, tables))

    def _tables(self, request):
        """Names of the tables that a request reads, each once for all requests of a round."""
        if request.kind == "histograms":
            return ("counts",)
        if self.bounds.max_weight is None:
            return ("weighted",)
        return _TABLES_WITH_WEIGHTS.get(request.kind, ("weighted",))

    @property
    def mu_of_replacing(self):
        """``mu`` where one row is replaced by another; second moments are positive."""
        requests = [request for together in self.rounds for request in together]
        of_matrices = sum(request.mu_squared for request in requests if request.is_matrix)
        return math.sqrt(2.0 * of_matrices + 4.0 * (self.cost.mu**2 - of_matrices))

    def summary(self):
        """The lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        lines["temperature"] = "1: the posterior given what is released, noise included"
        del lines["steps"]  # Work is told in passes.
        return lines


@dataclass(frozen=True, kw_only=True)
class NoiseAwarePlan(StatisticsPlan):
    """A plan for a noise-aware posterior: the noise of every release, relative to what a record can do.

    Attributes
    ----------
    label_multiplier : float
        Noise multiplier of ``t``.
    score_multipliers : tuple of float
        Those of ``a_k``.
    curvature_multipliers : tuple of float or None
        Those of the curvatures with them, None where there is none.
    """

    label_multiplier: float
    score_multipliers: tuple[float, ...]
    curvature_multipliers: tuple[float | None, ...]

    reads_unweighted = False

    @property
    def rounds(self):
        """The second moment, labels, and scores at one mode after the other with curvatures."""
        multipliers = self.moment_multiplier, self.label_multiplier
        return _rounds_of_labels(
            self.family, *multipliers, self.score_multipliers, self.curvature_multipliers
        )

    @property
    def family(self):
        """The law of a label; a draw has its blocks, and one more for more than two classes."""
        return self.bounds.family.identified

    @property
    def estimated_seconds(self):
        """A rough guess of the run time, that for drawing included."""
        entries = self.n_samples * self.n_parameters
        reading = entries * (7.5e-8 + 1.1e-9 * self.bounds.block_length)
        points = N_CHAINS * LEAPS * (BURN_IN + self.n_draws / N_CHAINS)
        blocks = self.family.n_blocks
        if blocks == 1:  # Without rows, products with matrices are what takes time.
            return 0.05 + reading + points * (1.2e-5 + 3e-9 * self.n_parameters**2)
        return 0.1 + reading + points * N_ROWS * (6e-8 * blocks + 3e-9 * self.n_parameters)

    @property
    def interval_inflation(self):
        """The approximate factor by which privacy widens intervals, if rows use all of the norm bound.

        The square root of ``(F + P) / (P + F^2 / V)`` in whitened coordinates, with ``F = n h`` for the mean
        slope ``h`` of logits as the prior has them, and ``V`` the variance of a gradient: sampling, noise,
        and what is not known of the curvature. Columns that hardly vary are widened more.
        """
        data, learnt, prior = self._mu_squared(self.row_clipping)
        return math.sqrt((data + prior) / (prior + learnt))

    @property
    def row_clipping(self):
        """``C^2`` over the mean square of whitened rows, beyond which rows count less.

        The less noise there is, the larger: where a model is not quite right, rows that count less aim at
        other coefficients than those of maximum likelihood.
        """
        _, learnt, _ = self._mu_squared(np.array(_LOGISTIC_CLIPPINGS))
        (allowed,) = np.nonzero(_LARGEST_VARIANCE_RATIO * learnt >= learnt[0])
        return _LOGISTIC_CLIPPINGS[allowed[-1]]

    def _mu_squared(self, clipping):
        """``F``, ``F^2 / V`` and ``P`` for a ratio of ``C^2``, or several."""
        length, family, sensitivity_factor = (
            self.bounds.block_length,
            self.family,
            self.budget.sensitivity_factor,
        )
        assert self.bounds.row_norm is not None  # The sampler is for no other targets.
        prior = self.bounds.prior_precision[0] / self.bounds.row_norm**2
        data = self.n_samples * family.expected_slope(1.0 / prior)
        norm = np.sqrt(clipping * length)
        released = self.label_multiplier**2 + 1.0 / _total_mu_squared(self.score_multipliers)
        noise = (sensitivity_factor * norm * family.score_bound) ** 2 * released
        multiplier = _total_mu_squared(filter(None, self.curvature_multipliers)) ** -0.5
        of_curvature = math.sqrt(sensitivity_factor) * norm**2 * family.slope_bound * multiplier
        visible = 2.0 * (data / of_curvature) ** 2 / (length * family.n_blocks)
        variance = (data + noise) / (1.0 - 1.0 / (visible + 1.0 / _HIDDEN_CURVATURE_SHARE))
        prior *= length
        return data, data * (data / variance), prior

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        found, (_, learnt, prior) = super().warnings, self._mu_squared(self.row_clipping)
        if self.budget.is_private and learnt < _NEGLIGIBLE_PRIOR_SHARE * prior:
            found += (self._noise_dominates(),)
        else:
            found += hidden_columns_warning(self, moment_geometry(self))
        size = self.family.n_blocks * self.bounds.block_length
        if self.budget.is_private and size > DEFAULT_SIZE:
            found += (
                f"with {size} coefficients intervals of probabilities hold, but those of single coefficients "
                "may be too narrow where columns nearly add up to a constant, above all for large epsilon: "
                f"take {DEFAULT_SIZE} or fewer.",
            )
        if self.n_draws > _MANY_DRAWS:
            found += (
                f"n_draws={self.n_draws:,} take about {self.estimated_seconds:.0f} seconds: fit with the "
                "default, and draw more by sample_posterior(n), which spends nothing.",
            )
        return found

    def summary(self):
        """The lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        lines["spent on"] = (
            f"second moment {MOMENT_SHARE:.0%}, sum of labels {LABEL_SHARE:.0%}, {N_RELEASES} scores "
            f"{SCORE_SHARE:.0%} of the budget, curvatures with them at no cost"
        )
        lines["intervals"] = (
            f"about {self.interval_inflation:.2g} times as wide as without privacy, where rows use data_norm"
        )
        return lines | hidden_columns_line(self, moment_geometry(self))


def _rounds_of_labels(family, of_moment, of_labels, of_scores, of_curvatures):
    """The rounds of a `NoiseAwarePlan`."""
    scores = [
        Request("score", pair, joint_mu_squared(family, *(m**-2.0 for m in pair if m is not None)))
        for pair in zip(of_scores, of_curvatures, strict=True)
    ]
    moment = Request.alone("moment", of_moment, is_matrix=True)
    return (moment,), (Request.alone("labels", of_labels),), *((score,) for score in scores)


def _total_mu_squared(multipliers):
    """The squared ``mu`` of releases with some noise multipliers."""
    return sum(value**-2.0 for value in multipliers)


def _n_steps(rounds):
    """The number of requests, and one for the weights of long rows; those of a round are read together."""
    return 1 + sum(map(len, rounds))


def _check_rounding(rounds, size):
    """Raise a ValueError where rounding would take too much of a request of so many numbers."""
    for together in rounds:
        for request in together:
            sensitivity_after_rounding(request.mu_squared**-0.5, size)


def plan_noise_aware(sampler, bounds, n_samples, budget, n_draws):
    """Share a budget among the releases.

    Parameters
    ----------
    sampler : NoiseAware
    bounds, n_samples, budget, n_draws
        As for its `plan`.

    Returns
    -------
    plan : NoiseAwarePlan
    """
    growth = SCORE_GROWTH ** np.arange(N_RELEASES)
    shares = SCORE_SHARE * growth / growth.sum()

    def multiplier(share):
        return (1.0 + 1e-12) / (math.sqrt(share) * budget.mu)

    family = bounds.family.identified
    of_moment, of_labels = multiplier(MOMENT_SHARE), multiplier(LABEL_SHARE)
    of_scores = tuple(multiplier(share) for share in shares)
    of_curvatures = tuple(
        multiplier(free_curvature(family) * share) if k in CURVATURES else None
        for k, share in enumerate(shares)
    )
    rounds = _rounds_of_labels(family, of_moment, of_labels, of_scores, of_curvatures)
    _check_rounding(rounds, 2 * (family.n_blocks * bounds.block_length + 1) ** 2)
    return NoiseAwarePlan(
        sampler=sampler,
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=cost_of(rounds, budget.neighboring_relation),
        temperature=1.0,
        n_steps=_n_steps(rounds),
        n_burn_in=0,
        n_draws=n_draws or N_DRAWS,
        moment_multiplier=of_moment,
        label_multiplier=of_labels,
        score_multipliers=of_scores,
        curvature_multipliers=of_curvatures,
    )


# Moments of a clipped normal number, and their derivatives.
#
#     psi(r) = min(max(r, -tau), tau),     r ~ N(a, s^2)
#     c     = P(|r| < tau) = d E psi / d a = Cov(psi, r) / s^2
#     E psi = a c + s (p_- - p_+) + tau (1 - Phi(x_+) - Phi(x_-)),     x_+- = (+-tau - a) / s,   p = phi(x)


class ClippedNormal(NamedTuple):
    """Moments of a clipped normal number, and their derivatives by its mean and its deviation.

    Attributes
    ----------
    slope, mean, square : ndarray
        ``c``, ``E psi``, whose derivative by the mean is the slope, and ``E psi^2``.
    slope_by_mean, slope_by_deviation, mean_by_deviation, square_by_mean, square_by_deviation : ndarray
    """

    slope: np.ndarray
    mean: np.ndarray
    square: np.ndarray
    slope_by_mean: np.ndarray
    slope_by_deviation: np.ndarray
    mean_by_deviation: np.ndarray
    square_by_mean: np.ndarray
    square_by_deviation: np.ndarray


def clipped_normal(mean, deviation, clip):
    """The `ClippedNormal` of arrays that are broadcast together."""
    high, low = (clip - mean) / deviation, (-clip - mean) / deviation
    p_high, p_low = _density(high), _density(low)
    above, below = ndtr(-high), ndtr(low)
    slope = 1.0 - above - below
    apart = p_low - p_high
    bent = low * p_low - high * p_high
    inside = mean * slope + deviation * apart
    square = mean * inside + deviation * mean * apart + deviation**2 * (slope + bent)
    return ClippedNormal(
        slope,
        inside + clip * (above - below),
        square + clip**2 * (above + below),
        apart / deviation,
        bent / deviation,
        apart,
        2.0 * inside,
        2.0 * (mean * apart + deviation * (slope + bent)),
    )


def _density(x):
    return np.exp(-0.5 * np.square(x)) / np.sqrt(2.0 * np.pi)


# Deviations in units of clips, and the mean squares that belong to them.
_SDS_PER_CLIP = np.geomspace(0.01, 10.0, 400)
_SQUARES = clipped_normal(0.0, _SDS_PER_CLIP, 1.0).square


def deviation_of(square, clip):
    """The deviation of normal residuals whose clipped squares have a given mean.

    It is at most ten clips, as that mean tells little more.
    """
    place = np.searchsorted(_SQUARES, square / clip**2)
    return clip * _SDS_PER_CLIP[np.minimum(place, _SDS_PER_CLIP.size - 1)]


# How to share a budget among releases, and where to clip, from public numbers: a recursion of errors.
#
#     err_{k+1}^-2 = err_k^-2 + 1 / (length (q C t sigma_k / (m_k n c))^2 + rho^2 err_k^2 / 2),
#     sigma_k^2 = s^2 + err_k^2,      tau_k = t sigma_k,      c = P(|N(0, 1)| < t)
#
# ``m_k`` is the ``mu`` of noisy sum ``k``, ``rho`` what is not known of the curvature. ``t`` makes
# ``(q C t / m)^2 + n E psi^2``, over ``c^2``, least, with the ``m`` of all noisy sums together.
# The last few count, as they do in the posterior. Errors are relative to the bound of responses. Weights are
# taken to be near their maximum, by which noise and sums are both larger: how many are not is private.
#
# Rows beyond ``C`` count less. Where means are linear that costs little, and elsewhere it aims at
# other coefficients than those of least squares. So ``C``, and ``K`` of second moments, are as large
# as they can be without an error, sampling included, that is much larger than before. That is what releases
# alone leave: with what is known beforehand no clip would matter where noise hides nearly all.


# Least ``C^2`` over the mean square of whitened rows.
NORMAL_CLIPPING = 1.3
# Larger candidates for ``C^2`` and ``K^2``, over that mean square.
_CLIPPINGS = (2.0, 3.0, 5.0, 8.0, 12.0)
# Candidates for ``K^2`` over ``C^2``.
_RATIOS = (2.0, 4.0)
# Largest ``K^2`` over that mean square.
_MOST_CLIPPING = 24.0
# Relative growth of the expected error up to which clips are widened, both, and then ``K`` alone.
_CLIPPING_TOLERANCE = 0.03
# Largest share of the curvature that may be unknown where ``K`` alone is widened.
_MOST_UNKNOWN_CURVATURE = 0.001
# Share of the budget for all mean squares before the first noisy sum.
MEAN_SQUARE_SHARE = 0.01
# Candidates for the share of the second moment.
_MOMENTS = (0.08, 0.15, 0.25)
# Candidates for the share of the curvature.
_CURVATURES = (0.12, 0.2, 0.3)
# Most noisy sums.
_MOST_SUMS = 7
# How many of the last noisy sums the posterior is given, at most.
N_SUMS_USED = 4
# Candidates for the ratio of the shares of one noisy sum and the one before.
_GROWTHS = (1.0, 1.5, 2.0, 3.0)
# Typical deviation of errors, over the bound of responses.
ERRORS = 0.05
# Typical deviation of responses, over their bound.
RESPONSES = 1.0 / 3.0
# The part of the second moment's noise that the curvature inherits from it.
_MOMENT_NOISE_PART = 3.0
# Clips over the residuals' deviation.
_CLIPS = np.linspace(1.2, 2.5, 27)
_UNIT = clipped_normal(0.0, 1.0, _CLIPS)
# Share of the matrix of squares of errors.
_MEAT_SHARE = 0.04
# Largest noise on its diagonal, over its expected size, for which it is released.
_MOST_NOISE = 0.3
# Share of the mean of residuals at a wide clip, and of their sum with rows.
_WIDE_CLIP_SHARE = 0.06
_WIDE_RESIDUALS_SHARE = 0.04
# Least wide clip, over the residuals' deviation.
LEAST_WIDE_CLIP = 3.5
# Noise on that mean that is aimed at, over its sampling deviation.
_NOISE_OVER_SAMPLING_SD = 0.5
# What may be beyond a wide clip, over the residuals' deviation and times the clip over it: as much as noise.
_BEYOND_WIDE_CLIP = 0.03
# Largest noise on each, over the residuals' deviation, for which it is released.
_MOST_WIDE_CLIP_NOISE = 0.25
# Prefer a wide clip only if the released moment has at most 10% noise.
_LITTLE_NOISE = 0.1


class Clippings(NamedTuple):
    """``C^2`` and ``K^2`` over the mean square of whitened rows."""

    rows: float = NORMAL_CLIPPING
    matrices: float = NORMAL_CLIPPING


class Shares(NamedTuple):
    """Shares of ``mu^2``, in the order of releases; `noisy_sums` has one for each sum of clipped residuals.

    ``meat`` is that of ``M``, ``wide_clip`` that of ``t`` and ``q``, and ``wide_residuals`` that of ``g_T``.
    """

    moment: float
    curvature: float
    mean_squares: float
    meat: float
    noisy_sums: tuple
    wide_clip: float = 0.0
    wide_residuals: float = 0.0


class BestClip(NamedTuple):
    """The clip with which noisy sums say most.

    Attributes
    ----------
    ratio : float
        The clip over the deviation of residuals.
    slope : float
        ``c``.
    of_sampling : float
        The part of a noisy sum's variance that is of sampling rather than noise.
    """

    ratio: float
    slope: float
    of_sampling: float


def best_clip(n_samples, noise_per_clip, mu):
    """The `BestClip`.

    Parameters
    ----------
    n_samples : float
    noise_per_clip : float
        ``q C``.
    mu : float
        Of all noisy sums together.
    """
    noise, sampling = (noise_per_clip / mu * _CLIPS) ** 2, n_samples * _UNIT.square
    best = np.argmin((noise + sampling) / _UNIT.slope**2)
    of_sampling = sampling[best] / (noise[best] + sampling[best])
    return BestClip(float(_CLIPS[best]), float(_UNIT.slope[best]), float(of_sampling))


def wide_clip(n_samples, multiplier, sensitivity_factor):
    """The wide clip over the deviation of residuals.

    Parameters
    ----------
    n_samples : int
    multiplier : float
        Of the noise on their sum.
    sensitivity_factor : float
        As for `share_budget`, times the norm of rows where these are factors.
    """
    noise = sensitivity_factor * multiplier / n_samples
    return max(
        LEAST_WIDE_CLIP,
        _NOISE_OVER_SAMPLING_SD / (math.sqrt(n_samples) * noise),
        math.sqrt(_BEYOND_WIDE_CLIP / noise),
    )


def share_budget(n_samples, length, mu, sensitivity_factor, has_intercept=True):
    """`Shares`, `Clippings`, and the expected error over the bound of responses.

    Parameters
    ----------
    n_samples, length : int
    mu : float
        Of the whole budget.
    sensitivity_factor : int
        ``q``: how many records' contributions differ between neighbours.
    has_intercept : bool, default=True
        Without one nothing is asked of the mean of errors.
    """
    known = n_samples, length, mu, sensitivity_factor
    wide_shares = _wide_shares(*known) if has_intercept else (0.0, 0.0)
    shares, _ = _best_shares(*known, Clippings(), wide_shares)
    wider = [Clippings(value, value) for value in _CLIPPINGS]
    clippings = _widest(*known, Clippings(), wider, shares)
    rows = clippings.rows
    wider = [Clippings(rows, min(ratio * rows, _MOST_CLIPPING)) for ratio in _RATIOS]
    clippings = _widest(*known, clippings, wider, shares)
    shares, error = _best_shares(*known, clippings, wide_shares)
    return shares, clippings, error


def _wide_shares(n_samples, length, mu, sensitivity_factor):
    """Shares of what is asked at a wide clip, 0 for what noise would hide."""
    noise = sensitivity_factor * LEAST_WIDE_CLIP / (n_samples * mu)
    if noise > _MOST_WIDE_CLIP_NOISE * math.sqrt(_WIDE_CLIP_SHARE):
        return 0.0, 0.0
    noise *= math.sqrt(NORMAL_CLIPPING * length)
    is_hidden = noise > _MOST_WIDE_CLIP_NOISE * math.sqrt(_WIDE_RESIDUALS_SHARE)
    return _WIDE_CLIP_SHARE, 0.0 if is_hidden else _WIDE_RESIDUALS_SHARE


def _widest(n_samples, length, mu, sensitivity_factor, clippings, wider, shares):
    """The widest `Clippings` that cost little and leave matrices what they say."""
    known, sampling = (
        (n_samples, length, mu, sensitivity_factor),
        ERRORS * math.sqrt(length / n_samples),
    )
    # Without what is known beforehand, which would hide what a clip costs where noise hides nearly all.
    learnt = _expected_precision(*known, clippings, shares)
    most = math.hypot(sampling, learnt**-0.5) * (1.0 + _CLIPPING_TOLERANCE)
    for way in wider:
        is_drowned = bool(shares.meat) and _noise_of_meat(*known, way) > _LITTLE_NOISE
        if way.matrices > way.rows:
            is_drowned |= _unknown(*known, way, shares) > _MOST_UNKNOWN_CURVATURE
        learnt = _expected_precision(*known, way, shares)
        if is_drowned or math.hypot(sampling, learnt**-0.5) > most:
            break
        clippings = way
    return clippings


def _best_shares(n_samples, length, mu, sensitivity_factor, clippings, wide_shares=(0.0, 0.0)):
    """The `Shares` whose expected error is least, and that error."""
    best, least = None, math.inf
    meat_share = _share_of_meat(n_samples, length, mu, sensitivity_factor, clippings)
    ways = product(_MOMENTS, _CURVATURES, range(1, _MOST_SUMS + 1), _GROWTHS)
    for moment, curvature, n_sums, growth in ways:
        noisy_sums = growth ** np.arange(n_sums)
        noisy_sums *= (
            1.0 - MEAN_SQUARE_SHARE - meat_share - sum(wide_shares) - moment - curvature
        ) / noisy_sums.sum()
        shares = Shares(
            moment,
            curvature,
            MEAN_SQUARE_SHARE,
            meat_share,
            tuple(noisy_sums.tolist()),
            *wide_shares,
        )
        error = _expected_error(n_samples, length, mu, sensitivity_factor, clippings, shares)
        if error < least * (1.0 - 1e-3):
            best, least = shares, error
    return best, least


def _share_of_meat(n_samples, length, mu, sensitivity_factor, clippings):
    """The share of ``M``, or 0 if noise would hide it."""
    noise = _noise_of_meat(n_samples, length, mu, sensitivity_factor, clippings)
    return _MEAT_SHARE if noise < _MOST_NOISE else 0.0


def _noise_of_meat(n_samples, length, mu, sensitivity_factor, clippings):
    """The noise on the diagonal of ``M`` over its expected size."""
    clip = best_clip(n_samples, sensitivity_factor * math.sqrt(clippings.rows * length), mu).ratio
    square = clippings.matrices * length * clip**2 / float(clipped_normal(0.0, 1.0, clip).square)
    return math.sqrt(sensitivity_factor) * square / (n_samples * mu * math.sqrt(_MEAT_SHARE))


def _unknown(n_samples, length, mu, sensitivity_factor, clippings, shares):
    """``rho^2``."""
    each = shares.curvature / clippings.matrices**2 + shares.moment / _MOMENT_NOISE_PART**2
    return min(length**3 / (2.0 / sensitivity_factor * (mu * n_samples) ** 2 * each), 1.0)


def _expected_error(n_samples, length, mu, sensitivity_factor, clippings, shares):
    """The error of the last noisy sum by the recursion, over the bound of responses."""
    learnt = _expected_precision(n_samples, length, mu, sensitivity_factor, clippings, shares)
    return (RESPONSES**-2 + learnt) ** -0.5


def _expected_precision(n_samples, length, mu, sensitivity_factor, clippings, shares):
    """The precision of the last noisy sums by the recursion, relative to the bound of responses."""
    unknown = _unknown(n_samples, length, mu, sensitivity_factor, clippings, shares)
    noise_per_clip = sensitivity_factor * math.sqrt(clippings.rows * length)
    mu_of_sums = mu * math.sqrt(sum(shares.noisy_sums))
    clip, slope, _ = best_clip(n_samples, noise_per_clip, mu_of_sums)
    of_sums: list[float] = []
    for share in shares.noisy_sums:
        m = mu * math.sqrt(share)
        left = 1.0 / (RESPONSES**-2 + sum(of_sums[-N_SUMS_USED:]))
        square = ERRORS**2 + left
        noise = length * square * (noise_per_clip * clip / (m * n_samples * slope)) ** 2
        of_sums.append(1.0 / (noise + 0.5 * unknown * left))
    return sum(of_sums[-N_SUMS_USED:])


# What is released for a posterior from clipped residuals, and what it costs.
#
#     A   = sum_i (x_i, c) (x_i, c)^T + N
#     F   = sum_i v_i z_i z_i^T + N                                   z = W^T x
#     q_j = sum_i psi_i^2 + N            at 0, to find the first clip
#     g_k = sum_i v_i z_i psi_i + N,     s_k = sum_i psi_i^2 + N      psi_i = psi_{tau_k}(y_i - u_k . z_i)
#     M   = sum_i v_i psi_i^2 z_i z_i^T + N   at the last point, if noise leaves enough
#     t   = sum_i psi_i + N,             q = sum_i psi_i^2 + N      there, at a wide clip, the same
#     g_T = sum_i v_i z_i psi_i + N                                 there, at a wide clip, the same
#
# with ``v_i = min(1, C / |z_i|, K^2 / |z_i|^2)``. Each is a Gaussian mechanism; ``W``, ``C``, ``K``,
# the points ``u_k`` and the clips ``tau_k`` follow from what was released before. With ``q = 2``
# under replace_one and else 1, two tables are at most ``sqrt(q) (R^2 + c^2)``, ``sqrt(q) K^2``,
# ``tau^2``, ``q C tau`` and ``sqrt(q) K^2 tau^2`` apart, ``g_T`` is like ``g_k``, and ``t`` with ``C = 1``;
# see `sensitivity` for ``g_k`` and ``s_k`` together. `share_budget` finds shares, and ``C^2`` and ``K^2``
# relative to the mean square of rows.


# Number of mean squares of responses that are released before the first noisy sum.
N_MEAN_SQUARES = 2
# What requests read where records have weights, if it is not the records with the weights of long rows alone.
_TABLES_WITH_WEIGHTS = {
    "mean_square": ("records",),
    "residuals": ("weighted", "records"),
    "wide_clip": ("records",),
    "meat": ("records that get squares of weights", "these"),
}
# What requests are called in a printed plan, by their kind.
_SPENT_ON = {
    "moment": "second moment",
    "curvature": "that of weighted rows",
    "mean_square": "sizes of responses",
    "histograms": "a histogram of counts",
    "residuals": "{sums} of clipped residuals",
    "meat": "how errors vary with the rows",
    "wide_clip": "their mean",
    "wide_residuals": "how it changes with the rows",
}
# What squares cost, relative to sums, where they are not free.
_SQUARE_COST_RATIO = 0.05
# An expected error, relative to the bound of responses, at which nothing is learnt.
_UNINFORMATIVE_ERROR = 0.25
# What coefficients are where nothing is asked at a wide clip.
_SLOPES_OF_A_CENTRE = "of a centre; where errors are skewed, as of costs, the mean has other ones"


@dataclass(frozen=True, kw_only=True)
class ClippedResidualsPlan(StatisticsPlan):
    """A plan for a posterior from clipped residuals: the noise of every release, relative to a record's.

    Attributes
    ----------
    curvature_multiplier : float
        Noise multiplier of ``F``.
    mean_square_multiplier : float
        That of each ``q_j``.
    residual_multipliers, square_multipliers : tuple of float
        Those of ``g_k`` and of ``s_k``.
    meat_multiplier : float or None
        That of ``M``; None if it is not released.
    wide_clip_multipliers : tuple of (float, float) or None
        Those of ``t`` and of its ``q``; None if they are not released.
    wide_clip : float
        Their clip, over the deviation that residuals are believed to have.
    wide_residuals_multiplier : float or None
        That of ``g_T``; None if it is not released.
    wide_residuals_clip : float
        Its clip, like ``wide_clip``.
    expected_error : float
        Of predictions, about, over the bound of responses, if errors are a twentieth of it.
    row_clipping, matrix_clipping : float
        ``C^2`` and ``K^2`` over the mean square of rows in coordinates that ``A`` whitens. Rows longer than
        ``C`` count less: their part of a noisy sum is at most that of a row of norm ``C``, and of a matrix
        that of one of norm ``K``. The less noise there is, the larger they are.
    """

    curvature_multiplier: float
    mean_square_multiplier: float
    residual_multipliers: tuple[float, ...]
    square_multipliers: tuple[float, ...]
    expected_error: float
    row_clipping: float
    matrix_clipping: float
    meat_multiplier: float | None = None
    wide_clip_multipliers: tuple[float, float] | None = None
    wide_clip: float = 0.0
    wide_residuals_multiplier: float | None = None
    wide_residuals_clip: float = 0.0

    # Whether a histogram tells how large responses are, and no mean squares.
    has_histogram = False

    @property
    def rounds(self):
        """Both second moments and how large responses are, sums, and what is asked at the last point."""
        return _rounds_of_residuals(
            self.budget.sensitivity_factor == 2,
            (self.moment_multiplier, self.curvature_multiplier),
            self.mean_square_multiplier,
            zip(self.residual_multipliers, self.square_multipliers, strict=True),
            self.meat_multiplier,
            self.wide_clip_multipliers,
            self.wide_residuals_multiplier,
            self.has_histogram,
        )

    @property
    def estimated_seconds(self):
        """A rough guess of the run time, that for drawing included."""
        entries = self.n_samples * self.n_parameters
        reading = entries * (1.2e-8 * self.n_steps + 1.1e-9 * self.n_parameters)
        of_point = 2.4e-5 + 8e-7 * self.n_parameters + 2.4e-8 * self.n_parameters**2
        return 0.15 + reading + of_point * LEAPS * (BURN_IN * N_CHAINS + self.n_draws)

    @property
    def interval_inflation(self):
        """The factor by which privacy widens intervals, if errors are a twentieth of responses' bound."""
        sampling = ERRORS * math.sqrt(self.n_parameters / self.n_samples)
        return math.hypot(1.0, self.expected_error / sampling)

    @property
    def is_drowned(self):
        """Whether noise hides nearly all."""
        return self.expected_error > _UNINFORMATIVE_ERROR

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        found = super().warnings
        if self.is_drowned:
            return (*found, self._noise_dominates())
        return found + hidden_columns_warning(self, moment_geometry(self))

    @property
    def interval_notes(self):
        """Notes beneath tables of intervals, a tuple of str."""
        if self.wide_residuals_multiplier is not None:
            return ()
        return (f"slopes are {_SLOPES_OF_A_CENTRE}, and predictions may miss it, too.",)

    def summary(self):
        """The lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        spent: dict[str, float] = {}
        for request in chain.from_iterable(self.rounds):
            spent[request.kind] = spent.get(request.kind, 0.0) + request.mu_squared
        shares = (
            f"{_SPENT_ON[kind]} {square / self.cost.mu**2:.0%}" for kind, square in spent.items()
        )
        sums = f"{len(self.residual_multipliers)} sums"
        lines["spent on"] = f"{', '.join(shares)} of the budget".format(sums=sums)
        lines["long rows"] = (
            f"count less from {math.sqrt(self.row_clipping):.2g} times the root mean square of rows on, in "
            "coordinates in which they vary alike"
        )
        lines["intervals"] = (
            f"about {self.interval_inflation:.2g} times as wide as without privacy, if errors have a "
            "deviation of a twentieth of the bound of responses"
        )
        lines["slopes"] = _SLOPES_OF_A_CENTRE
        if self.wide_residuals_multiplier is not None:
            lines["slopes"] = "of the mean, as far as noise lets see how errors are skewed"
        return lines | hidden_columns_line(self, moment_geometry(self))


def _rounds_of_residuals(
    replaces, of_matrices, of_size, of_sums, of_meat, of_wide_clip, of_wide_residuals, has_histogram
):
    """The rounds of a `ClippedResidualsPlan`."""

    def with_square(kind, pair):
        of_sum, of_square = (multiplier**-2.0 for multiplier in pair)
        return Request(kind, tuple(pair), residual_mu_squared(of_sum, of_square, replaces))

    moment, curvature = (
        Request.alone(kind, multiplier, is_matrix=True)
        for kind, multiplier in zip(("moment", "curvature"), of_matrices, strict=True)
    )
    mean_squares = [Request.alone("mean_square", of_size)] * N_MEAN_SQUARES
    if has_histogram:  # Of counts and of exposures.
        mean_squares = [Request.alone("histograms", *[of_size] * N_MEAN_SQUARES)]
    first, *others = mean_squares
    last = []
    if of_meat is not None:
        last.append(Request.alone("meat", of_meat, is_matrix=True))
    if of_wide_clip is not None:
        last.append(with_square("wide_clip", of_wide_clip))
    if of_wide_residuals is not None:
        last.append(Request.alone("wide_residuals", of_wide_residuals))
    rounds = [(moment,), (curvature, first), *((other,) for other in others)]
    rounds += [(with_square("residuals", pair),) for pair in of_sums]
    return *rounds, *([tuple(last)] if last else [])


def plan_clipped_residuals(kind, share, sampler, bounds, n_samples, budget, n_draws):
    """Share a budget among the releases.

    Parameters
    ----------
    kind : type
        `ClippedResidualsPlan`, or one for other responses.
    share : callable
        `share_budget`, or what takes its place.
    sampler : ClippedResiduals
    bounds, n_samples, budget, n_draws
        As for its `plan`.

    Returns
    -------
    plan : kind
    """
    length, replaces = bounds.n_parameters, budget.sensitivity_factor == 2
    shares, clippings, error = share(n_samples, length, budget.mu, budget.sensitivity_factor)

    def multiplier(share):
        return (1.0 + 1e-12) / (math.sqrt(share) * budget.mu)

    of_square = FREE_SQUARE_RATIO * (1.0 - 1e-9) if replaces else _SQUARE_COST_RATIO
    of_sum = 1.0 if replaces else 1.0 / (1.0 + _SQUARE_COST_RATIO)

    def pair(share):
        return multiplier(of_sum * share), multiplier(of_sum * of_square * share)

    noisy_sums = [pair(share) for share in shares.noisy_sums]
    of_wide_clip = [pair(shares.wide_clip)] if shares.wide_clip else []
    of_wide_residuals = multiplier(shares.wide_residuals) if shares.wide_residuals else None
    of_matrices = multiplier(shares.moment), multiplier(shares.curvature)
    of_mean_square = multiplier(shares.mean_squares / N_MEAN_SQUARES)
    of_meat = multiplier(shares.meat) if shares.meat else None
    rounds = _rounds_of_residuals(
        replaces,
        of_matrices,
        of_mean_square,
        noisy_sums,
        of_meat,
        of_wide_clip[0] if of_wide_clip else None,
        of_wide_residuals,
        kind.has_histogram,
    )
    _check_rounding(rounds, (length + 1) ** 2)
    sums, squares = zip(*noisy_sums, strict=True)
    return kind(
        sampler=sampler,
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=cost_of(rounds, budget.neighboring_relation),
        temperature=1.0,
        n_steps=_n_steps(rounds),
        n_burn_in=0,
        n_draws=n_draws or N_DRAWS,
        moment_multiplier=of_matrices[0],
        curvature_multiplier=of_matrices[1],
        mean_square_multiplier=of_mean_square,
        residual_multipliers=sums,
        square_multipliers=squares,
        meat_multiplier=of_meat,
        wide_clip_multipliers=of_wide_clip[0] if of_wide_clip else None,
        wide_clip=wide_clip(n_samples, of_wide_clip[0][0], budget.sensitivity_factor)
        if of_wide_clip
        else 0.0,
        wide_residuals_multiplier=of_wide_residuals,
        wide_residuals_clip=wide_clip(
            n_samples,
            of_wide_residuals,
            budget.sensitivity_factor * math.sqrt(clippings.rows * length),
        )
        if of_wide_residuals
        else 0.0,
        expected_error=error,
        row_clipping=clippings.rows,
        matrix_clipping=clippings.matrices,
    )


# What is released for a posterior of counts, and what it costs.
#
#     A    = sum_i (x_i, c) (x_i, c)^T + N
#     h_b  = sum_i [y_i in bin b] + N,  and the same of exposures
#     F    = sum_i v_i z_i z_i^T + N
#     g_k  = sum_i v_i z_i psi_i + N,     s_k = sum_i psi_i^2 + N        psi_i = psi_{tau_k}(y_i - m_i(u_k))
#
# Noise is that of a plan for numbers, since a record moves each as much (Proposition 76). Points and
# clips follow from what was released before.


# Share of the second moment in ``mu^2``.
_MOMENT = 0.08
# Share of the curvature in ``mu^2``.
_CURVATURE = 0.12
# Number of noisy sums. A histogram tells clips from the first noisy sum on, so that noisy sums need not begin
# with little.
_N_SUMS = 4
# Ratio of the shares of one noisy sum and the one before.
_COUNT_SUM_GROWTH = 1.5
# Slope of the clipped residual where counts are about 1.
_SLOPE = 0.75
# Clip where counts are about 1: three deviations, as much as heavy tails need.
_CLIP = 2.5
# max_count = 1: responses are binary.
_YES = 1.0
# Expected error of logits at which little is learnt.
_UNINFORMATIVE_LOGIT_ERROR = 0.9
# Noise of the curvature, relative to its typical eigenvalue, that hides which columns vary together.
_HIDDEN_CURVATURE_RATIO = 1.0


def share_for_counts(n_samples, length, mu, sensitivity_factor):
    """`Shares`, `Clippings`, and about the error where counts have a mean of 1; as `share_budget`."""
    noisy_sums = [_COUNT_SUM_GROWTH**k for k in range(_N_SUMS)]
    share_left = (1.0 - MEAN_SQUARE_SHARE - _MOMENT - _CURVATURE) / sum(noisy_sums)
    shares = Shares(
        _MOMENT, _CURVATURE, MEAN_SQUARE_SHARE, 0.0, tuple(share_left * x for x in noisy_sums)
    )
    mu_of_sums = mu * math.sqrt(sum(shares.noisy_sums))
    noise_per_clip = sensitivity_factor * math.sqrt(length) * _CLIP / _SLOPE

    def error(clipping):
        noise = math.sqrt(clipping) * noise_per_clip / (n_samples * mu_of_sums)
        return math.sqrt(length) * math.hypot(noise, n_samples**-0.5)

    noise_of_rows = _noise_of_rows(
        n_samples, length, mu * math.sqrt(_CURVATURE), sensitivity_factor
    )
    rows, most = NORMAL_CLIPPING, (1.0 + _CLIPPING_TOLERANCE) * error(NORMAL_CLIPPING)
    for clipping in _CLIPPINGS:
        if error(clipping) <= most and clipping * noise_of_rows <= _LITTLE_NOISE:
            rows = clipping
    return shares, Clippings(rows, rows), error(rows)


def _noise_of_rows(n_samples, length, mu, sensitivity_factor):
    """About the largest eigenvalue of the noise on a curvature, over its mean one, where ``K^2`` is 1."""
    noise = math.sqrt(sensitivity_factor) * length / (n_samples * mu)
    return noise * math.sqrt(2.0 * length)


@dataclass(frozen=True, kw_only=True)
class ClippedCountsPlan(ClippedResidualsPlan):
    """A plan for a posterior of counts; ``mean_square_multiplier`` is that of a histogram."""

    has_histogram = True

    @property
    def estimated_seconds(self):
        """A rough guess of the run time, that for drawing included."""
        entries = self.n_samples * self.n_parameters
        reading = entries * (2e-8 * self.n_steps + 1.1e-9 * self.n_parameters)
        points = LEAPS * (BURN_IN * N_CHAINS + self.n_draws)
        of_point = 2e-6 * self.n_parameters + 1.5e-7 * self.n_parameters**2
        return 0.35 + reading + of_point * points

    @property
    def interval_inflation(self):
        """The approximate factor by which privacy widens intervals, if counts have a mean of 1."""
        return self.expected_error / math.sqrt(self.n_parameters / self.n_samples)

    @property
    def is_drowned(self):
        """Whether noise hides nearly all."""
        return self.expected_error > _UNINFORMATIVE_LOGIT_ERROR

    @property
    def interval_notes(self):
        """Nothing: slopes are of the logarithm of the mean, whatever the law of counts."""
        return ()

    @property
    def noise_of_rows(self):
        """About the largest eigenvalue of the curvature's noise, over the mean one of curvatures."""
        known = self.n_samples, self.n_parameters, 1.0 / self.curvature_multiplier
        return self.matrix_clipping * _noise_of_rows(*known, self.budget.sensitivity_factor)

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        found = super().warnings
        if (largest := self.bounds.family.max_count) <= _YES:
            found += (
                f"max_count={largest:g} leaves 0 and one other count, which are taken for larger counts that "
                "were cut: rates of answers of yes and no come out too high, several times where most are "
                "yes. For yes or no take DPBayesianLogisticRegression; for counts set max_count to a public "
                "number that few of them reach.",
            )
        if self.noise_of_rows > _HIDDEN_CURVATURE_RATIO and not self.is_drowned:
            found += (
                f"noise hides how columns vary together, in {self.n_samples:,} rows at "
                f"epsilon={self.budget.epsilon:g}: if a few directions have most of their variance, "
                "intervals are too short. Raise epsilon, or take more rows or fewer columns.",
            )
        return found

    def summary(self):
        """The lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        lines["intervals"] = (
            f"about {self.interval_inflation:.2g} times as wide as without privacy, if counts have a mean "
            "of 1"
        )
        lines["slopes"] = "of the logarithm of the mean, whatever the law of counts"
        return lines
