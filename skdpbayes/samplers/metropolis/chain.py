"""Metropolis-Hastings: random walks of which only decisions to accept or to reject depend on the records.

    theta' = theta + M x  (x on the unit sphere) or  theta + N(0, M^2 I / d)
    u_i    = (ell_i(theta) - ell_i(theta')) / tau,   confined to [-a, a],  a = c |theta' - theta| / tau
    L      = sum_i u_i + log p(theta') - log p(theta)

Barker's rule accepts with probability ``1 / (1 + exp(-L))``, Metropolis' with ``min(1, exp(L))``; noise
``N(-v/2, v)`` on ``L`` leaves Metropolis' rule exact. On a Poisson batch (TunaMH) record ``i`` counts ``s_i``
times, and the sum is that of ``s_i t_i``,

    s_i ~ Poisson(a / r + (a - u_i) / 2),   t_i = log((K + u_i) / (K - u_i)),   K = a (1 + 2 / r),

``r = n a / lambda_T``: the chain of ``(theta, s)`` stays reversible, and so exact, under either rule. Only
the batch is read. In one dimension the distance is uniform below ``M``, for a fixed one would be a lattice.

Barker (1965); Ceperley and Dewing (1999) and Yildirim and Ermis (2019) for the noise; Zhang, Cooper and De
Sa (2020) for the batch; Zhang and Zhang (2023).
"""

import math
from typing import NamedTuple

import numpy as np

from ..._compute.execution import run_in_blocks
from ..._compute.gradients import LOSS_CHUNK, CompiledCore, clip_loss, log_ratio_of_all, loss_oracle
from ..._jit import compilable
from ..._mechanisms.audit_hook import record_unreplayed
from ...models import loss_differences, n_examples, prior_potential
from ...privacy.rounding import n_chunks
from ..base import Diagnostics, Released
from .plan import LARGEST_CHANGE

# Discrete random numbers whose probabilities are known as well as doubles know numbers.
#
# An event happens with exactly the probability that is asked for, a double, and a choice among ``n``
# is even. A Poisson number has
#
#     P(S = k) proportional to w(k),   w(k + 1) = w(k) lambda / (k + 1),   w(m) = 1,   m = floor(lambda)
#
# by rejection (von Neumann). With ``c = floor(0.6 sqrt(lambda) + 1.5)``, on either side of ``m``,
# ``w`` is at most 1 on the next ``2 c`` numbers, and at most ``2^-j`` on the ``j``-th block of
# ``c`` numbers after these. A side and a place among ``3 c`` are chosen, the last ``c`` of which
# stand for block ``j`` with probability ``2^-j``, and the number is taken with probability ``w(k)``
# or ``2^j w(k)``. Choices are made by binary digits, and probabilities are doubles, so that both
# are exact. Rounding shows in one way only: the ratio ``P(S = k + 1) / P(S = k)`` is
# ``lambda / (k + 1)`` up to a factor between ``1 - 2^-51`` and ``1 + 2^-51``, at every ``k``. What
# that means to accept bits is said in docs/theory/decisions_in_floating_point.rst.
#
# *Why w is below.* It halves over the first ``2 c`` numbers: with
# ``s = 2 c - 1/2 > 1.2 sqrt(lambda) + 1/2``
#
#     -log w(m + 2 c) >= sum_{i < 2 c} log(1 + i / lambda) >= s^2 / (2 lambda + 2 s / 3) - 1 / (8 lambda)
#
# (the sum of a concave function is at least the integral from 1/2 to ``s``), which is more than
# ``log 2``, as is ``-log w(m - 2 c) >= sum_{i < 2 c} i / lambda``. Over the ``c`` numbers after
# these the logarithm falls by at least
# ``c log(1 + 2 c / lambda) >= (2 c)^2 / (2 lambda + 2 c) > 0.72``, and by no less over any later
# ones. Below ``lambda = 1`` there is one side only, ``w(2) <= 1 / 2``, and ``c = 1`` will do.


@compilable
def exact_bernoulli(generator, probability):
    """True with exactly this probability: a uniform of 53 digits, and 53 more as long as they tie."""
    while probability > 0.0:
        drawn = generator.random()  # Proposition 19.
        if drawn + 2.0**-53 <= probability:
            return True
        if drawn >= probability:
            return False
        probability = (probability - drawn) * 2.0**53
    return False


@compilable
def choose(generator, n):
    """One of ``n < 2^31`` numbers (Lemire, 2019), and 21 binary digits that are left over."""
    while True:
        digits = int(generator.random() * 2.0**53)  # Proposition 21.
        drawn = (digits >> 21) * n
        low_bits = drawn & 0xFFFFFFFF
        if low_bits >= n or low_bits >= 2**32 % n:
            return drawn >> 32, digits & 0x1FFFFF


@compilable
def poisson(generator, rate):
    """A Poisson number."""
    mode = math.floor(rate)
    length = math.floor(0.6 * math.sqrt(rate) + 1.5) if mode > 0 else 1
    places = 8
    while places < 6 * length:
        places *= 2
    while True:
        distance = math.floor(places * generator.random())  # Proposition 21.
        if distance >= 6 * length:
            continue
        downward = distance >= 3 * length
        distance -= 3 * length * downward
        weight = 1.0
        if distance >= 2 * length:
            weight = 2.0
            while generator.random() < 0.5:  # Proposition 21.
                distance += length
                weight *= 2.0
        if downward and mode > 0:
            distance = -distance - 1
            for i in range(0, distance, -1):
                weight *= (mode + i) / rate
        else:
            for i in range(distance):
                weight *= rate / (mode + i + 1.0)
        if exact_bernoulli(generator, weight):  # Proposition 21.
            return mode + distance


# Places in a chain's record.
_SPENT, _DRAWN, _ACCEPTED, _STEPS, _SCALE, _OVER = range(6)
# Beyond this log-odds a bit is as good as certain; its probability stays far above what is rounded.
_CERTAIN = 40.0
# Decisions hardly change the distance in the first steps, about so many: the number of steps depends on it.
_PATIENCE = 300.0


@compilable
def log_ratio_of_batch(oracle, generator, theta, proposal, temperature, bound, ratio):
    """``sum_i s_i t_i`` over a Poisson batch, which is all that is read.

    Records are drawn at the largest rate that any can have, and thinned to their own.
    """
    n = n_examples(oracle)
    shape = bound * (1.0 + 2.0 / ratio)
    count = poisson(generator, n * 0.5 * (shape + bound))  # Propositions 21 and 25.
    batch = np.empty(LOSS_CHUNK, np.int64)
    u, thinning = np.empty(LOSS_CHUNK), np.empty(LOSS_CHUNK)
    # The number that chooses a record has 21 more digits. They decide on its thinning, but for rare ties.
    cell = (shape + bound) * 2.0**-21
    product, exponent = 1.0, 0
    for first in range(0, count, LOSS_CHUNK):
        size = min(LOSS_CHUNK, count - first)
        for i in range(size):
            batch[i], digits = choose(generator, n)  # Propositions 21 and 25.
            thinning[i] = cell * digits
        loss_differences(oracle, theta, proposal, batch, size, u)
        undecided = 0
        for i in range(size):
            u[i] = clip_loss(u[i] / temperature, bound)
            room = shape - u[i] - thinning[i]
            undecided += (room > 0.0) & (room < cell)
            if room >= cell:
                product *= (shape + u[i]) / (shape - u[i])
        if undecided > 0:
            for i in range(size):
                room = shape - u[i] - thinning[i]
                if 0.0 < room < cell and exact_bernoulli(
                    generator, room / cell
                ):  # Propositions 21 and 25.
                    product *= (shape + u[i]) / (shape - u[i])
        # Factors are between 1 / (1 + r) and 1 + r: a chunk's product is far from overflowing.
        product, power = math.frexp(product)
        exponent += power
    return math.log(product) + exponent * math.log(2.0)


@compilable
def is_accepted_by_barker(generator, log_odds):
    """True with probability ``1 / (1 + exp(-log_odds))``; it is the smaller one that is rounded."""
    log_odds = clip_loss(log_odds, _CERTAIN)
    unlikely = exact_bernoulli(
        generator, 1.0 / (1.0 + math.exp(abs(log_odds)))
    )  # Propositions 19 and 21.
    return unlikely if log_odds < 0.0 else not unlikely


@compilable
def is_accepted(generator, log_ratio, barker, noise_variance):
    """Decide on a proposal; a ratio of zero, or one that is no number, is refused whatever the rule."""
    if not log_ratio > -np.inf:
        return False
    if barker:
        return is_accepted_by_barker(generator, log_ratio)
    if noise_variance > 0.0:
        noise = math.sqrt(noise_variance) * generator.standard_normal()  # Propositions 2 and 25.
        log_ratio += noise - noise_variance / 2.0
    return -generator.standard_exponential() < log_ratio  # Post-processing of the noisy ratio.


@compilable
def propose(generator, theta, step_size, gaussian, out):
    """Write a proposal to ``out``, and return the distance that is charged for it."""
    square = 0.0
    for j in range(theta.size):
        out[j] = generator.standard_normal()  # Public: a proposal.
        square += out[j] ** 2
    if gaussian:
        factor = step_size / math.sqrt(theta.size)
        charged = factor * math.sqrt(square)
    else:
        factor, charged = step_size / math.sqrt(square), step_size
        if theta.size == 1:
            factor *= generator.random()  # Public: its distance.
    for j in range(theta.size):
        out[j] = theta[j] + factor * out[j]
    return charged


class Walk(NamedTuple):
    """The constants of all steps of a run; ``batch_ratio`` is ``r``, 0 for the whole table."""

    step_size: float
    lipschitz: float
    temperature: float
    batch_ratio: float
    barker: bool
    noise_variance: float
    gaussian: bool


@CompiledCore
def _advance(
    oracle, generator, theta, state, walk, privacy_filter, first, stop, marks, draws, chunks, loop
):
    """Perform the steps ``first`` to ``stop - 1`` on ``theta`` and on the chain's record."""
    proposal = np.empty(theta.size)
    potential = prior_potential(oracle, theta)
    for _ in range(first, stop):
        if state[_OVER] > 0.0:
            break
        distance = propose(
            generator, theta, walk.step_size * state[_SCALE], walk.gaussian, proposal
        )
        charge = (
            privacy_filter.coefficient * distance**2 if privacy_filter.coefficient > 0.0 else 1.0
        )
        if state[_SPENT] + charge > privacy_filter.total:
            state[_OVER] = 1.0
            break
        state[_SPENT] += charge
        state[_STEPS] += 1.0
        bound = walk.lipschitz * distance / walk.temperature
        proposed = prior_potential(oracle, proposal)
        log_ratio = potential - proposed if proposed < np.inf else -np.inf
        if proposed < np.inf and walk.batch_ratio > 0.0:
            log_ratio += log_ratio_of_batch(
                oracle, generator, theta, proposal, walk.temperature, bound, walk.batch_ratio
            )
        elif proposed < np.inf:
            log_ratio += log_ratio_of_all(
                oracle, theta, proposal, walk.temperature, bound, chunks, loop
            )
        accepted = is_accepted(generator, log_ratio, walk.barker, walk.noise_variance)
        if accepted:
            state[_ACCEPTED] += 1.0
            potential = proposed
            for j in range(theta.size):
                theta[j] = proposal[j]
        if privacy_filter.target_acceptance > 0.0 and state[_SPENT] < privacy_filter.burn_in_end:
            gain = (state[_STEPS] + _PATIENCE) ** -0.6
            scale = state[_SCALE] * math.exp(gain * (accepted - privacy_filter.target_acceptance))
            state[_SCALE] = min(max(scale, 1.0 / LARGEST_CHANGE), LARGEST_CHANGE)
        while state[_DRAWN] < marks.size and state[_SPENT] >= marks[int(state[_DRAWN])]:
            for j in range(theta.size):
                draws[int(state[_DRAWN]), j] = theta[j]
            state[_DRAWN] += 1.0
    return state[_OVER] > 0.0


def run_metropolis(plan, target, generator, verbose):
    """Carry out a `MetropolisPlan`."""
    record_unreplayed("decisions of a random walk")
    theta = np.zeros(plan.bounds.n_parameters)
    state = np.zeros(6)
    state[_SCALE] = 1.0
    walk = Walk(
        step_size=plan.step_size,
        lipschitz=plan.bounds.gradient_bound,
        temperature=plan.temperature,
        batch_ratio=plan.batch_ratio,
        barker=plan.rule == "barker",
        noise_variance=plan.noise_variance,
        gaussian=plan.proposal == "gaussian",
    )
    draws = np.empty((plan.n_draws, theta.size))
    oracle = loss_oracle(target, plan.batch_ratio > 0)
    fixed = (plan.draw_marks(), draws, np.empty(n_chunks(plan.n_samples)))
    work = plan.sampling_rate * plan.n_samples * theta.size if plan.batch_ratio == 0 else 0.0
    run_in_blocks(
        lambda first, stop, loop: _advance(
            oracle, generator, theta, state, walk, plan.privacy_filter, first, stop, *fixed, loop
        ),
        plan,
        2.0 * work,
        verbose,
        plan.name,
    )
    draws[int(state[_DRAWN]) :] = theta
    steps = int(state[_STEPS])
    rate = float(state[_ACCEPTED]) / max(steps, 1)
    return Released(draws, plan, other=Diagnostics(acceptance_rate=rate, n_iter=steps))
