"""The releases, one after the other, and what is believed given them.

    A  ->  W, C, K  ->  F  ->  q_0, q_1 -> tau_0  ->  g_0, s_0  ->  the mode given these -> u_1 ...  M, t

Each is a sum over records with Gaussian noise, on a lattice. What comes between follows from them alone.
"""

import math
from dataclasses import replace

import numpy as np

from ..._linalg import inv
from ...targets.linear.weighted import squares_moment
from .._machinery.execution import progress_bar, single_threaded_blas
from .._machinery.lattice import release_moment, release_vector
from .._machinery.shards import total
from .._paid_noise import free_shift
from .._protocol import Released
from ..noise_aware.draws import settle
from ..noise_aware.scales import Prior, prior_of
from .clipped_normal import clipped_normal, deviation_of
from .curvature import combined
from .plan import N_SIZES
from .posterior import Posterior
from .rows import RowReleases
from .sandwich import slopes_of, stretch_of, varying_part
from .schedule import best_clip
from .sums import release_sums, release_tails, sums_at
from .surrogate import Look, Size, Surrogate
from .tails import Tails

# How many rounds look for the likeliest prior scales before each look.
_ROUNDS = 3
# How many of the last looks the posterior is given: earlier ones add little.
_USED = 4
# A clip stays as it is if the mean square is nearly the square of the clip, which says little of residuals.
_SATURATED = 0.8
# A first step leaves at least this share of the deviation of residuals.
_LEAST_LEFT = 0.1
# The errors' deviation a priori and the least clip, relative to the bound of responses.
_USUAL, _LEAST_CLIP = 0.1, 1e-6
# A clip that cuts nothing, over the bound of responses.
_FAR = 8.0
# How much of a mean square may be that of a point which is off, or noise, if it is to tell of errors.
_MOST_OF_POINT = 0.5
# Deviations of the logarithm of the errors' deviation: a priori, where it is given, and added to what is
# believed.
_DOUBT, _GIVEN, _UPPER = 1.5, 1e-3, 1.0
# Largest logarithm of a deviation, whose square is then still a double.
_LARGEST_LOG_DEVIATION = 300.0


@single_threaded_blas()  # Blocks of rows are not worth more.
def run_clipped_residuals(plan, target, generator, verbose):
    """Carry out a `ClippedResidualsPlan`."""
    with progress_bar(plan.n_steps, plan.name, verbose) as advance:
        released = Releases(plan, target, generator, advance)
        released.look_around()
    posterior = released.posterior()
    draws, deviations = posterior.draw_all(plan.n_draws, generator)
    other = {
        "second_moment": released.moment,
        "posterior": posterior,
        **released.shares,
        "noise_deviations": deviations,
        "contradiction": posterior.surrogate.contradiction(),
        "contradiction_of": len(posterior.surrogate.looks) * plan.n_parameters,
        "hidden_directions": released.curvature.hidden,
    }
    if (asymmetry := posterior.asymmetry()) is not None:
        other["asymmetry"] = asymmetry
    return Released(draws, plan, {"unit": np.ones(plan.n_parameters)}, other)


class Releases(RowReleases):
    """What has been released, and what is believed given it.

    Parameters
    ----------
    plan : ClippedResidualsPlan
    target : NamedTuple
        A linear model's target with numbers as responses.
    generator : Generator
        Of the noise.
    advance : callable
        Called after every pass.
    """

    def __init__(self, plan, target, generator, advance=lambda: None):
        family = plan.bounds.family
        self.bound = family.half_width
        self.usual = _USUAL * self.bound if family.deviation is None else family.deviation
        self.spread = _DOUBT if family.deviation is None else _GIVEN
        self.looks, self.sizes, self.errors, self.tails = [], [], None, None
        super().__init__(plan, target, generator, advance, self.usual)
        self._release_curvature()

    def _release_curvature(self):
        """Release the weighted second moment, and fix the prior by both."""
        plan, transform = self.plan, self.coordinates.transform
        matrix, noise = self.release_curvature()
        self.curvature = combined(
            self.design, transform, matrix, noise, self.n_records, self.moment_noise
        )
        prior = prior_of(plan.bounds, 1, self.table.prior_precision, self.curvature.transform)
        groups = [
            replace(group, precision=np.pad(group.precision, (0, 1))) for group in prior.groups
        ]
        self.prior = Prior(tuple(groups))
        self.scales = self.prior.usual
        self.start = np.append(np.zeros(len(transform)), math.log(self.usual))

    def _room(self, theta, clip, power=1.0):
        """Return by what rounding may enlarge what a record moves, by a power of clipped residuals."""
        reach = (self.coordinates.row_norm * float(np.linalg.norm(theta)) + self.bound) / clip
        return self.coordinates.inflation_within(self.plan, power * reach)

    def _reaching(self, point, clip):
        """Return a clip as it works: one at the bound of responses cuts nothing at the origin."""
        return _FAR * self.bound if clip >= self.bound and not np.any(point) else clip

    def _note(self, point, clip, square, noise):
        clip = self._reaching(point, clip)
        self.sizes.append(Size(point, clip, square / self.n_records, noise / self.n_records))
        self.advance()

    def release_size(self, clip):
        """Release the size of clipped responses, and return the clip that follows from it."""
        point = np.zeros(self.curvature.values.size)
        _, square = sums_at(self, point, clip)
        noise = self.largest * clip**2 * self._room(point, clip)
        noise /= free_shift(self.plan.size_multiplier, 1)
        mu = 1.0 / self.plan.size_multiplier
        # Proposition 73.
        square = release_vector(np.array([square]), noise, self.generator, mu=mu)[0]
        self._note(point, clip, square, noise)
        size, clip = self.sizes[-1], self.sizes[-1].clip
        value = max(size.value, 0.0)
        upper = value + math.hypot(size.noise, value * math.sqrt(2.0 / self.n_records))
        return deviation_of(upper, clip) if upper < _SATURATED * clip**2 else math.inf

    def release_look(self, point, clip, multiplier, square_multiplier):
        """Release sums of clipped residuals at a point."""
        transform = self.curvature.transform
        theta = transform @ point
        value, noise, square, of_square = release_sums(
            self, theta, transform, clip, (multiplier, square_multiplier), self._room(theta, clip)
        )
        self.looks.append(Look(point, self._reaching(point, clip), value, noise))
        self._note(point, clip, square, of_square)

    def release_errors(self):
        """Release how squares of clipped residuals vary with the rows, at the last point."""
        look, transform = self.looks[-1], self.curvature.transform
        theta = transform @ look.point
        bound = math.sqrt(self.moved) * (self.largest * self.matrix_norm * look.clip) ** 2
        bound *= self._room(theta, look.clip, 2.0)
        noise = bound / free_shift(self.plan.errors_multiplier, len(transform) ** 2)
        target = self.reweighted(2) if self.is_weighted else self.target
        matrix = total(squares_moment, target, theta, look.clip, transform)
        mu = 1.0 / self.plan.errors_multiplier
        # Proposition 73.
        self.errors = release_moment(matrix, noise, self.generator, mu=mu), noise
        self.advance()

    def release_tails(self, believed):
        """Release the mean of residuals at the last point, and that of their squares, at a wide clip."""
        plan, point = self.plan, self.looks[-1].point
        theta = self.curvature.transform @ point
        clip = min(plan.tails_clip * max(believed, self._widest()), 2.0 * self.bound)
        room = self._room(theta, clip)
        found = release_tails(self, theta, clip, plan.tails_multipliers, room)
        self.tails = Tails(point, clip, *(number / self.n_records for number in found))
        self.advance()

    def _widest(self):
        """Return the largest deviation of errors that one of the sizes tells, and points do not."""
        largest = 0.0
        for size in self.sizes:
            d = self.start[:-1] - size.point
            square = min(size.value, _SATURATED * size.clip**2) if size.value > 0.0 else 0.0
            variance, of_point = (
                deviation_of(square, size.clip) ** 2,
                float(d**2 @ self.curvature.squares),
            )
            if of_point < _MOST_OF_POINT * variance and size.noise < _MOST_OF_POINT * size.value:
                largest = max(largest, math.sqrt(variance - of_point))
        return largest

    def look_around(self):
        """Release sizes, and looks at one mode after the other."""
        plan, clip, believed = self.plan, self.bound, math.inf
        for _ in range(N_SIZES):
            believed = min(believed, self.release_size(clip))
            clip = self._clip(clip, believed)
        for pair in zip(plan.look_multipliers, plan.square_multipliers, strict=True):
            clip = self._clip(clip, believed)
            self.release_look(self.start[:-1], clip, *pair)
            self.start = self._started()
            settled = settle(self.surrogate(), _ROUNDS)
            self.start, self.scales = settled.start, settled.scales
            believed = self._believed(settled)
        if plan.errors_multiplier is not None:
            self.release_errors()
        if plan.tails_multipliers is not None:
            self.release_tails(believed)

    def _started(self):
        """Return where to look for the mode: what the last look says, or as before if that is likelier."""
        look, size, f = self.looks[-1], self.sizes[-1], self.curvature.values
        sigma = deviation_of(min(max(size.value, size.noise), _SATURATED * look.clip**2), look.clip)
        slope = clipped_normal(0.0, sigma, look.clip).slope * self.n_records * f
        step = slope * look.value / (slope**2 + look.noise**2 / sigma**2)
        left = max(sigma**2 - self.curvature.squares @ step**2, (_LEAST_LEFT * sigma) ** 2)
        points = np.array([self.start, np.append(look.point + step, 0.5 * math.log(left))])
        return points[np.argmin(self.surrogate().potential(points)[0])]

    def _clip(self, clip, believed):
        """Return the clip for residuals of a deviation, never larger than the last."""
        mu = math.sqrt(sum(multiplier**-2.0 for multiplier in self.plan.look_multipliers))
        best, _ = best_clip(self.n_records, self.largest * self.moved * self.norm, mu)
        return max(min(clip, best * believed), _LEAST_CLIP * self.bound)

    def _believed(self, settled):
        """Return the deviation that residuals have at the mode, from above."""
        variances = np.maximum(np.diag(inv(settled.information(settled.start))), 0.0)
        log_s = settled.start[-1] + _UPPER * math.sqrt(variances[-1])
        log_s = min(log_s, _LARGEST_LOG_DEVIATION)
        return math.sqrt(math.exp(2.0 * log_s) + variances[:-1] @ settled.squares)

    def surrogate(self):
        """Return what is believed given all that is released."""
        return Surrogate(
            n_samples=self.n_records,
            curvature=self.curvature.values,
            doubt=self.curvature.doubt,
            own_doubt=self.curvature.own_doubt,
            mean=self.curvature.mean,
            squares=self.curvature.squares,
            prior=self.prior,
            scales=self.scales,
            usual=self.usual,
            spread=self.spread,
            looks=tuple(self.looks[-_USED:]),
            sizes=tuple(self.sizes),
            start=self.start,
        )

    def posterior(self):
        """Return the `Posterior` that all releases amount to."""
        settled = settle(self.surrogate(), 2 * _ROUNDS)
        stretch, weight = self._stretch(settled)
        tails = None if self.tails is None else self.tails._replace(weight=weight)
        constant = self.plan.bounds.constant
        return Posterior(settled, self.curvature.transform, stretch, tails, constant)

    def _stretch(self, settled):
        """Return by what draws are stretched, None if that errors vary is not known, and a mean weight."""
        size = self.sizes[-1]
        if self.errors is None or size.value <= size.noise:
            return None, self.largest
        f, clip = self.curvature.values, self.looks[-1].clip
        largest = self.largest if self.is_weighted else None
        matrix, noise = self.errors
        whole, varying = varying_part(matrix, noise, self.n_records * size.value, f, largest)
        changed = whole * (np.diag(f) + varying) - np.diag(f)
        return stretch_of(settled, changed, slopes_of(varying, f, size.value, clip)), whole
