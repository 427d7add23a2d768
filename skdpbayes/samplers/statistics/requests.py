"""Noisy sums over records: what is asked of them, what one record can move, and the noise that hides it.

    s_j + N(0, N_j^2),      N_j = Delta_j m_j (J^(1/2) + (r - 1) (sum_j m_j^-2)^(1/2)) / (paid - rounding)

for sums that are read together: ``Delta`` bounds what one record moves of each, ``m`` are noise multipliers
of the plan, ``r`` is by what rounding may enlarge it, and ``J`` (`sensitivity`) is the square of ``mu`` of
all of them, at most what the plan pays, as no record moves each by its ``Delta`` at once. A sum alone has
``J = m^-2``.

Whatever asks says where: a point, a clip and what is subtracted from responses, all of which follow from what
was released before. **Everything that a guarantee of noisy sums rests on is here**, in `sensitivity`, in the
kernels of `skdpbayes.models.sums`, and in the plan.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ..._data.shards import map_records, total
from ...models import second_moment
from ...models.families import Normal
from ...models.sums import (
    binned,
    clipped_of_block,
    moment_of_block,
    read_together,
    residuals_of_block,
    reweighted,
    weighted_scores,
    weighted_sums,
)
from ..noise import release_moment, release_vector, sensitivity_after_rounding
from .dispersion import FIRST_NODE, count_edges, exposure_edges
from .plan import moment_geometry
from .sensitivity import joint_mu_squared, joint_mu_squared_at, residual_mu_squared

# Largest rounding inflation for which we sum Hessians in the original coordinates.
_EARLY_SUM_INFLATION = 1.0 + 2.0**-10
# What rounding can do to an exponential, or between nodes, in units of that of an inner product.
_FUNCTION_ROUNDING = 11.0


class NoisySum(NamedTuple):
    """A sum over records with noise, and where it was asked for.

    Attributes
    ----------
    value : ndarray or float
    noise : float
        Deviation of its noise; off the diagonal of a matrix it is ``1 / sqrt(2)`` of that.
    point : ndarray or None, default=None
        In the coordinates of the sum.
    clip : float, default=inf
        To which residuals are clipped.
    centre : Centre or None, default=None
        What is subtracted from responses; None is the mean.
    """

    value: Any
    noise: float
    point: Any = None
    clip: float = math.inf
    centre: Any = None

    def per_record(self, n_records):
        """The sum and its noise over a number of records."""
        return self._replace(value=self.value / n_records, noise=self.noise / n_records)


class Question(NamedTuple):
    """Where a sum is asked for: public, or a function of what was released before.

    Attributes
    ----------
    transform : ndarray of shape (length, length)
        ``W``: sums are those of ``z = W^T x``.
    point : ndarray or None, default=None
        ``u``, of blocks one after the other; None asks nothing of it.
    clip : float, default=inf
    centre : Centre or None, default=None
        As for `NoisySum`.
    """

    transform: np.ndarray
    point: Any = None
    clip: float = math.inf
    centre: Any = None

    def theta(self, n_blocks=1):
        """The point in the coordinates of the rows, of shape (n_blocks, length)."""
        return self.point.reshape(n_blocks, -1) @ self.transform.T


class Part(NamedTuple):
    """A sum before its noise: a vector, a number, or a symmetric matrix.

    Attributes
    ----------
    value : ndarray or float
        **It is not private.**
    sensitivity : float
        Of a Euclidean norm, that of Frobenius for a matrix.
    multiplier : float
        Noise multiplier.
    """

    value: Any
    sensitivity: float
    multiplier: float


def release_sum(parts, generator, question=None, inflation=1.0, paid=None, moved=None):
    """Sums that are read together, with noise: the only place where it is added.

    Parameters
    ----------
    parts : tuple of Part
    generator : Generator
        Of the noise.
    question : Question or None, default=None
        Where it was asked; None says nothing of it.
    inflation : float, default=1
        By what rounding may enlarge what a record moves.
    paid : float or None, default=None
        ``mu`` of all parts together, which the plan charges; None is that of a sum alone.
    moved : float or None, default=None
        ``J^(1/2)``; None is ``paid``.

    Returns
    -------
    sums : tuple of NoisySum
    """
    squares = sum(part.multiplier**-2.0 for part in parts)
    paid = math.sqrt(squares) if paid is None else paid
    factor = (paid if moved is None else moved) + (inflation - 1.0) * math.sqrt(squares)
    factor /= sensitivity_after_rounding(1.0 / paid, sum(np.size(part.value) for part in parts))
    sums: list[NoisySum] = []
    value: Any
    for part in parts:
        noise = part.sensitivity * part.multiplier * factor
        if np.ndim(part.value) == 2:
            # Propositions 32, 71, 73 and 76.
            value = release_moment(
                part.value, noise, generator, charged_mu=paid, is_joint=bool(sums)
            )
        else:
            value = np.atleast_1d(part.value)
            # Propositions 32, 36, 73, 74 and 76.
            value = release_vector(value, noise, generator, charged_mu=paid, is_joint=bool(sums))
            value = value if np.ndim(part.value) else float(value[0])
        sums.append(NoisySum(value, noise, *(() if question is None else question[1:])))
    return tuple(sums)


class Records:
    """The records of a table, which nothing else reads, and what bounds one of them.

    Parameters
    ----------
    plan : StatisticsPlan
    table : NamedTuple
        A linear model's target.
    generator : Generator
        Of the noise.
    advance : callable
        Called after every request.
    """

    def __init__(self, plan, table, generator, advance=lambda: None):
        self.plan, self.table, self.generator, self.advance = plan, table, generator, advance
        self.family = plan.bounds.family.identified
        # How many records' contributions differ between neighbours.
        self.q = plan.budget.sensitivity_factor
        self.is_weighted = plan.bounds.max_weight is not None
        self.max_weight = plan.bounds.max_weight or 1.0

    def second_moment(self, request):
        """The second moment of rows with a constant, with noise: a `NoisySum`."""
        _, constant, noise = moment_geometry(self.plan)
        moment = total(_moment, self.table, constant, self.is_weighted)
        (multiplier,) = request.multipliers
        # Proposition 32.
        moment = release_moment(moment, noise, self.generator, charged_mu=1.0 / multiplier)
        self.advance()
        return NoisySum(moment, noise)

    def set_weights(self, coordinates, matrix_norm=None):
        """Let records count ``v`` from now on: no part of a sum is longer than that of a row of a norm."""
        self.coordinates, self.norm = coordinates, coordinates.norm
        self.matrix_norm = self.norm if matrix_norm is None else matrix_norm
        self.weighted = self._reweighted(1, in_place=not self.plan.reads_unweighted)
        self.advance()

    def _reweighted(self, power, in_place=False):
        return map_records(
            reweighted,
            self.table,
            self.coordinates.transform,
            self.norm,
            power,
            self.matrix_norm,
            in_place=in_place,
        )

    def ask(self, requests, questions):
        """Release what is asked together, in one read of the table where that can be.

        Parameters
        ----------
        requests : tuple of Request
        questions : tuple of Question

        Returns
        -------
        sums : list of tuple of NoisySum
        """
        released, pairs = [], list(zip(requests, questions, strict=True))
        for (request, question), sums in zip(pairs, self._sums_of_blocks(pairs), strict=True):
            release = getattr(self, f"_release_{request.kind}")
            released.append(release(request.multipliers, question, *sums))
            self.advance()
        return released

    def _sums_of_blocks(self, pairs):
        """For each request its sums over blocks of rows, none for those that read rows by themselves."""
        reads = [self._reads(request.kind, question) for request, question in pairs]
        tables = {id(read[0]): read[0] for own in reads for read in own}
        found = {}
        for key, table in tables.items():
            wanted = tuple(read[1:] for own in reads for read in own if id(read[0]) == key)
            found[key] = iter(total(read_together, table, wanted))
        return [[next(found[id(read[0])]) for read in own] for own in reads]

    def _reads(self, kind, question):
        """(table, function of `models.sums`, its arguments) of each sum over blocks that a request needs."""
        if kind == "curvature":
            return [(self.weighted, moment_of_block, (question.transform,))]
        if kind == "meat":
            table = self._reweighted(2) if self.is_weighted else self.weighted
            theta = question.theta()[0]
            return [(table, moment_of_block, (question.transform, theta, question.clip))]
        if kind not in ("mean_square", "residuals", "wide_clip", "wide_residuals"):
            return []
        given = question.theta()[0], question.clip, question.centre
        if kind == "wide_residuals" or (kind == "residuals" and not self.is_weighted):
            return [(self.weighted, clipped_of_block, (*given, False))]
        # Squares, and sums at a wide clip, are of all records, however long.
        table = self.table if self.is_weighted else self.weighted
        reads: list[tuple] = [(table, residuals_of_block, (*given, self.is_weighted))]
        if kind == "residuals":
            reads.insert(0, (self.weighted, clipped_of_block, given))
        return reads

    # What one record can move, and what is released.

    def _release_labels(self, multipliers, question):
        """The sum of weighted labels, which is minus the gradient at zero, wherever it is asked."""
        family, zero = self.family, np.zeros((self.family.n_blocks, len(question.transform)))
        gradient, _ = total(weighted_sums, self.weighted, family, None, zero, curvature=False)
        value = -(gradient @ question.transform).ravel()
        sensitivity = self.max_weight * self.q * family.score_bound * self.norm
        parts = (Part(value, sensitivity, *multipliers),)
        return release_sum(parts, self.generator, question, self._inflation_of_scores(zero))

    def _release_score(self, multipliers, question):
        """The score at a point, and a curvature if it has a multiplier."""
        family, (of_score, of_curvature) = self.family, multipliers
        theta, wanted = question.theta(family.n_blocks), of_curvature is not None
        score, matrix, inflation = self._score(question.transform, theta, wanted)
        sensitivity = self.max_weight * self.q * family.score_bound * self.norm
        parts = [Part(score, sensitivity, of_score)]
        if wanted:
            sensitivity = self.max_weight * math.sqrt(self.q) * family.slope_bound * self.norm**2
            parts.append(Part(matrix, sensitivity, of_curvature))
        squares = [part.multiplier**-2.0 for part in parts]
        logit_bound = self.coordinates.logit_bound(family, question.point, theta)
        moved = joint_mu_squared_at(family, logit_bound, self.q == 2, *squares)
        paid = joint_mu_squared(family, *squares)
        return release_sum(
            parts, self.generator, question, inflation, math.sqrt(paid), math.sqrt(moved)
        )

    def _score(self, transform, theta, wanted):
        """The score and the curvature at ``theta``, or None, and by what rounding may enlarge them."""
        inflation = self._inflation_of_scores(theta)
        of_matrix = self.coordinates.inflation(self.plan, theta, power=2)
        # Curvatures in the coordinates of the rows take half the time.
        early = wanted and of_matrix <= _EARLY_SUM_INFLATION
        given = self.weighted, self.family, theta, None if early else transform
        score, matrix = total(weighted_scores, *given, curvature=wanted)
        if early:
            inflation = max(inflation, of_matrix)
            blocks = np.kron(np.eye(self.family.n_blocks), transform)
            matrix = blocks.T @ matrix @ blocks
            matrix = 0.5 * (matrix + matrix.T)
        return (score @ transform).ravel(), matrix, inflation

    def _release_curvature(self, multipliers, question, sums):
        """The weighted second moment of rows."""
        sensitivity = self.max_weight * math.sqrt(self.q) * self.matrix_norm**2
        parts = (Part(sums[0], sensitivity, *multipliers),)
        return release_sum(parts, self.generator, question, self._inflation(0.0))

    def _release_mean_square(self, multipliers, question, sums):
        """The sum of squares of clipped residuals."""
        parts = (Part(sums[1], self.max_weight * question.clip**2, *multipliers),)
        return release_sum(parts, self.generator, question, self._inflation(self._reach(question)))

    def _release_residuals(self, multipliers, question, sums, squares=None):
        """The sum of weighted rows times clipped residuals, and that of squares of these."""
        value = question.transform.T @ sums[0]
        square = (sums if squares is None else squares)[1]
        return self._release_with_square(multipliers, question, value, square, self.norm)

    def _release_wide_clip(self, multipliers, question, sums):
        """The sum of clipped residuals, and that of their squares."""
        return self._release_with_square(multipliers, question, sums[0], sums[1], 1.0)

    def _release_wide_residuals(self, multipliers, question, sums):
        """The sum of weighted rows times clipped residuals, alone."""
        sensitivity = self.max_weight * self.q * self.norm * question.clip
        parts = (Part(question.transform.T @ sums[0], sensitivity, *multipliers),)
        return release_sum(parts, self.generator, question, self._inflation(self._reach(question)))

    def _release_with_square(self, multipliers, question, value, square, norm):
        """A sum of vectors of at most a norm times clipped residuals, and that of squares of these."""
        a, b = (multiplier**-2.0 for multiplier in multipliers)
        paid = math.sqrt(residual_mu_squared(a, b, self.q == 2))
        sensitivity = self.max_weight * self.q * norm * question.clip
        parts = (
            Part(value, sensitivity, multipliers[0]),
            Part(square, self.max_weight * question.clip**2, multipliers[1]),
        )
        inflation = self._inflation(self._reach(question))
        return release_sum(parts, self.generator, question, inflation, paid)

    def _release_meat(self, multipliers, question, sums):
        """The second moment of rows times squares of clipped residuals."""
        bound = self.max_weight * self.matrix_norm * question.clip
        parts = (Part(sums[0], math.sqrt(self.q) * bound**2, *multipliers),)
        inflation = self._inflation(2.0 * self._reach(question))
        return release_sum(parts, self.generator, question, inflation)

    def _release_histograms(self, multipliers, question):
        """The histogram of counts and, if there are any, that of exposures."""
        edges = count_edges(self.family.max_count), exposure_edges()
        *values, are_exposed = total(binned, self.table, *edges)
        sensitivity = self.max_weight * math.sqrt(self.q)
        given = self.generator, question, self._inflation(0.0)
        if not are_exposed:  # Counts have what is planned for both.
            multiplier = math.sqrt(0.5) * multipliers[0]
            return release_sum((Part(values[0], sensitivity, multiplier),), *given)
        return tuple(
            release_sum((Part(value, sensitivity, multiplier),), *given)[0]
            for value, multiplier in zip(values, multipliers, strict=True)
        )

    def _inflation_of_scores(self, theta):
        """The factor by which rounding may enlarge the contribution of a record, relative to a score."""
        of_gradient = self.coordinates.inflation(self.plan, theta) - 1.0
        return 1.0 + of_gradient * self.family.residual_bound / self.family.score_bound

    def _inflation(self, reach):
        """The factor for sums where rounding of a residual is at most ``reach`` times that of a clip."""
        return self.coordinates.inflation_within(self.plan, reach)

    def _reach(self, question):
        """The size of logits and responses, relative to a clip.

        Means that are no logits are functions of slopes up to a number, rounded as these are (Proposition
        77); they stay where logits are beyond a largest.
        """
        family, centre = self.family, question.centre
        longest = self.coordinates.row_norm * float(np.linalg.norm(question.theta()))
        if isinstance(family, Normal):
            return (longest + family.half_width) / question.clip
        last, largest = family.largest_logit, family.slope_bound
        if centre is not None:
            last, largest = max(-FIRST_NODE, centre.nodes[-1]), centre.largest
        of_functions = 2.0 * (longest + 3.0 * max(1.0, last) + _FUNCTION_ROUNDING)
        return of_functions * max(largest, family.max_count) / question.clip


def _moment(target, constant, is_weighted):
    return second_moment(target, constant, target.weights if is_weighted else None)
