"""Heikkilä, Jälkö, Dikmen and Honkela (2019), Differentially private MCMC: Barker's test on minibatches.

    python -m benchmarks.papers.heikkila_jalko_dikmen_honkela_2019 [--seeds 8] [--folder docs/results]

Section "Heikkilä, Jälkö, Dikmen and Honkela (2019)" of docs/papers.rst.

Claimed: a proposal is accepted if

    N tau^-1 mean_i r_i + log prior ratio + N(0, 2 - s^2) + V > 0,    |r_i| <= C,

with r_i the log likelihood ratios of a batch of b of N records, s^2 the variance of the first term on that
batch, and V a correction whose sum with N(0, 2) is close to logistic, so that this is close to Barker's
test. With C = sqrt(b) tau / N the first term's variance stays below 1, a replaced record changes its mean by
at most 2 / sqrt(b) and its variance by at most 5 / b, and for a given batch the sum without V is normal.
Rényi divergences of such normal laws, amplified by sampling without replacement (Wang, Balle and
Kasiviswanathan, 2019), are what T tests cost. The mixture with two modes has N = 10^6, b = 1,000, T = 20,000,
tau = N / 100, proposals N(0, 0.01 I) and delta = 1 / N; these are the settings of the authors' public code,
which multiplies C by 0.99. Their figures' values are not to be had here.

1. The cost as published, the same theorem with divergences that are not rounded up, and the cost as if the
   noise had the fixed variance 1 and batches were Poisson: less than the algorithm can be shown to cost.
2. A sweep of the batch's size at T = 20,000, from zero, a tenth of the steps discarded. Beside it
   `dp_fast_mh` with the last of these costs as its budget and no more steps: with the proved bound on
   gradients, and with one at which it clips as much as the minibatch test does. Written are the symmetric
   divergence of 2,000 draws from the posterior, the error of their mean in posterior deviations, acceptance,
   records read by a step, and records read for each effective draw: means over seeds, with standard errors.
"""

import math

import numpy as np
from numba import njit
from scipy.optimize import nnls
from scipy.special import comb, expit
from scipy.stats import norm

from benchmarks.common import mean_with_error
from benchmarks.papers.results import PAPERS, conclude, figures, parser
from examples import two_modes
from skdpbayes.privacy import Budget, PrivacyCost, SampledGaussian
from skdpbayes.samplers import DPFastMH
from skdpbayes.samplers.base import run_plan

PAPER = PAPERS[2]
N_RECORDS, N_STEPS, EFFECTIVE_RECORDS, DELTA = 1_000_000, 20_000, 100, 1e-6
BATCHES, PUBLISHED_BATCH = (100, 300, 1_000), 1_000
# The deviation of a proposal in each direction; of the added normal law's variance, and what clipping leaves.
DEVIATION, NOISE_VARIANCE, CLIP_SHARE = 0.1, 2.0, 0.99
N_DRAWS, N_DISCARDED = 2_000, N_STEPS // 10


# Costs


def published_divergence(order, batch):
    """Return the published bound on the Rényi divergence of two neighbours' sums, given the batch."""
    return (
        5 / (2 * batch)
        + math.log(2 * batch / (batch - 5 * order)) / (2 * (order - 1))
        + 2 * order / (batch - 5 * order)
    )


def exact_divergence(order, batch):
    """Return the largest divergence of normal laws as far apart as sums of neighbours can be.

    Their variances are between 1 and 2 and differ by 5 / b at most: it is largest next to 1.
    """
    shift = 2 * CLIP_SHARE / math.sqrt(batch)
    found = []
    for first, second in ((1.0, 1.0), (1.0, 1.0 + 5 / batch), (1.0 + 5 / batch, 1.0)):
        mixed = order * second + (1 - order) * first
        if mixed <= 0:
            return math.inf
        found.append(
            math.log(second / first) / 2
            + math.log(second / mixed) / (2 * (order - 1))
            + order * shift**2 / (2 * mixed)
        )
    return max(found)


def amplified_epsilon(divergence, batch, n_steps, largest_order=100):
    """Return the epsilon of all steps by Rényi divergences and sampling without replacement."""
    rate, found = batch / N_RECORDS, []
    orders = range(2, min(largest_order, batch // 5))
    given = {order: divergence(order, batch) for order in orders}
    for order in orders:
        if not (order - 1) * given[order] < 100.0:
            break
        second = min(4 * math.expm1(given[2]), 2 * math.exp(given[2]))
        total = rate**2 * comb(order, 2) * second
        for j in range(3, order + 1):
            total += 2 * rate**j * comb(order, j) * math.exp((j - 1) * given[j])
        found.append((n_steps * math.log1p(total) - math.log(DELTA)) / (order - 1))
    return min(found)


def least_epsilon(batch, n_steps):
    """Return the epsilon of Poisson batches under noise of variance 1, the least that is ever added."""
    noise = math.sqrt(batch) / CLIP_SHARE
    steps = SampledGaussian(noise, batch / N_RECORDS, n_steps)
    return PrivacyCost("replace_one", sampled=(steps,)).epsilon(DELTA)


# The chain


def correction(spacing=0.05, largest=12.0):
    """Return (values, probabilities) of V, and by how much its sum with N(0, 2) misses a logistic law.

    Non-negative least squares between densities; the distance is that of distribution functions.
    """
    x, values = np.arange(-largest, largest + spacing / 2, spacing), np.arange(-10.0, 10.05, 0.1)
    deviation = math.sqrt(NOISE_VARIANCE)
    densities = norm.pdf(x[:, None] - values, scale=deviation)
    weights = nnls(densities, expit(x) * expit(-x))[0]
    weights = (weights + weights[::-1]) / (2 * weights.sum())
    missed = np.abs(norm.cdf(x[:, None] - values, scale=deviation) @ weights - expit(x)).max()
    return values, weights, missed


@njit
def minibatch_chain(records, batch, n_steps, precision, half_width, values, cumulated, seed):
    """Return the states, the number of accepted proposals, and the share of ratios that were clipped."""
    np.random.seed(seed)  # noqa: NPY002 (numba's own)
    order, theta = np.arange(records.size), np.zeros(2)
    states, accepted, clipped = np.empty((n_steps, 2)), 0, 0
    clip = CLIP_SHARE * math.sqrt(batch) / EFFECTIVE_RECORDS
    for t in range(n_steps):
        new = theta + DEVIATION * np.random.standard_normal(2)  # noqa: NPY002 (numba's own)
        total, squares = 0.0, 0.0
        for k in range(batch):
            other = np.random.randint(k, records.size)  # noqa: NPY002 (numba's own)
            order[k], order[other] = order[other], order[k]
            x = records[order[k]]
            before, after = x - theta[0], x - new[0]
            ratio = np.log1p(np.exp((after**2 - (after - new[1]) ** 2) / 4)) - after**2 / 4
            ratio -= np.log1p(np.exp((before**2 - (before - theta[1]) ** 2) / 4)) - before**2 / 4
            clipped += abs(ratio) > clip
            ratio = min(max(ratio, -clip), clip)
            total += ratio
            squares += ratio**2
        mean = total / batch
        variance = EFFECTIVE_RECORDS**2 * (squares / batch - mean**2) / batch
        log_ratio = EFFECTIVE_RECORDS * mean + (precision * (theta**2 - new**2)).sum() / 2
        added = math.sqrt(NOISE_VARIANCE - variance)
        log_ratio += added * np.random.standard_normal()  # noqa: NPY002 (numba's own)
        log_ratio += values[np.searchsorted(cumulated, np.random.random())]  # noqa: NPY002 (numba's own)
        if log_ratio > 0 and np.abs(new).max() < half_width:
            theta = new
            accepted += 1
        states[t] = theta
    return states, accepted / n_steps, clipped / (n_steps * batch)


def make_records(seed=0):
    """Return a target like that of `examples/two_modes.py` with a million records."""
    generator = np.random.default_rng(seed)
    means = generator.integers(0, 2, N_RECORDS)
    values = means + math.sqrt(2.0) * generator.standard_normal(N_RECORDS)
    largest = two_modes.LARGEST_RECORD
    return two_modes.make_target()._replace(values=np.clip(values, -largest, largest))


def rival_plan(epsilon, gradient_bound):
    """Return a plan of `dp_fast_mh` with that budget and no more steps."""
    bounds = two_modes.BOUNDS._replace(gradient_bound=gradient_bound)
    sampler = DPFastMH(temperature=N_RECORDS / EFFECTIVE_RECORDS, n_effective=two_modes.N_EFFECTIVE)
    budget = Budget(epsilon, DELTA)
    plan = sampler.plan(bounds, N_RECORDS, budget, n_draws=N_DRAWS)
    if plan.n_steps > N_STEPS:
        sampler.set_params(n_steps=N_STEPS)
        plan = sampler.plan(bounds, N_RECORDS, budget, n_draws=N_DRAWS)
    return plan


# Comparing


def effective_size(draws):
    """Return the smaller effective sample size of two parameters: sums of autocorrelations while positive."""
    found = []
    for column in (draws - draws.mean(axis=0)).T:
        spectrum = np.abs(np.fft.rfft(column, 2 * len(column))) ** 2
        correlation = np.fft.irfft(spectrum)[: len(column)]
        if not correlation[0] > 0:
            return 1.0
        pairs = (correlation / correlation[0])[: len(column) // 2 * 2].reshape(-1, 2).sum(axis=1)
        ends = np.flatnonzero(pairs < 0)
        time = 2 * pairs[: ends[0] if len(ends) else None].sum() - 1
        found.append(len(column) / max(time, 1.0))
    return min(found)


class Judge:
    """Scores of draws against the posterior on a grid."""

    def __init__(self, target):
        temperature = N_RECORDS / EFFECTIVE_RECORDS
        self.posterior = two_modes.gridded_posterior(target, temperature)
        points = two_modes.grid()
        margins = [self.posterior.sum(axis=1), self.posterior.sum(axis=0)]
        self.mean = np.array([margin @ points for margin in margins])
        squares = np.array([margin @ points**2 for margin in margins])
        self.deviation = np.sqrt(squares - self.mean**2)

    def scores(self, draws, accepted, records):
        """Return divergence, error of the mean, acceptance, and records read for each effective draw."""
        error = np.sqrt((((draws.mean(axis=0) - self.mean) / self.deviation) ** 2).mean())
        divergence = two_modes.symmetric_kl(draws, self.posterior)
        return divergence, error, accepted, records / effective_size(draws)


def compare(batch, target, judge, seeds, law):
    """Return [(name, what it costs, steps, records a step, scores of all seeds)]."""
    values, probabilities = law
    limits = two_modes.PRIOR_PRECISION, two_modes.LARGEST_PARAMETER
    epsilon, scores, shares = least_epsilon(batch, N_STEPS), [], []
    for seed in seeds:
        states, accepted, clipped = minibatch_chain(
            target.values, batch, N_STEPS, *limits, values, np.cumsum(probabilities), seed
        )
        thinned = states[N_DISCARDED :: (N_STEPS - N_DISCARDED) // N_DRAWS][:N_DRAWS]
        scores.append(judge.scores(thinned, accepted, N_STEPS * batch))
        shares.append(clipped)
    found = [("minibatch Barker", epsilon, N_STEPS, batch, np.mean(shares), scores)]
    clip = CLIP_SHARE * math.sqrt(batch) / EFFECTIVE_RECORDS
    distance = DEVIATION * math.sqrt(2.0)
    bounds = {"proved bound": two_modes.GRADIENT_BOUND}
    if clip / distance < two_modes.GRADIENT_BOUND:
        bounds["clips as much"] = clip / distance
    for what, bound in bounds.items():
        plan, scores = rival_plan(epsilon, bound), []
        for seed in seeds:
            released = run_plan(target._replace(gradient_bound=bound), plan, seed, 0)
            records = plan.n_steps * plan.batch_size
            scores.append(judge.scores(released.draws, released.other["acceptance_rate"], records))
        found.append(
            (f"dp_fast_mh, {what}", plan.epsilon, plan.n_steps, plan.batch_size, math.nan, scores)
        )
    return found


def costs(folder):
    """Write the table of costs; return it as {batch: (published, its theorem, least)}."""
    heads = "batch | tests | published | by the same theorem | at least"
    table, found = figures(folder, "minibatch_barker_costs", heads), {}
    for batch in BATCHES:
        found[batch] = (
            amplified_epsilon(published_divergence, batch, N_STEPS),
            amplified_epsilon(exact_divergence, batch, N_STEPS),
            least_epsilon(batch, N_STEPS),
        )
        table.add(batch, N_STEPS, *(f"{value:.3g}" for value in found[batch]))
    return found


def sweep(folder, seeds, law):
    """Write the sweep of batches; return {(batch, name): (means, errors)} of scores."""
    target = make_records()
    judge = Judge(target)
    heads = (
        "batch | sampler | epsilon | steps | records a step | clipped | divergence | error of divergence "
        "| mean | error of mean | accepted | records for a draw"
    )
    table, found = figures(folder, "minibatch_barker", heads), {}
    for batch in BATCHES:
        for name, epsilon, n_steps, records, clipped, scores in compare(
            batch, target, judge, seeds, law
        ):
            means, errors = np.transpose([mean_with_error(each) for each in np.transpose(scores)])
            found[batch, name] = means, errors
            table.add(
                batch,
                name,
                f"{epsilon:.3g}",
                n_steps,
                round(records),
                f"{clipped:.3f}",
                f"{means[0]:.3f}",
                f"{errors[0]:.3f}",
                f"{means[1]:.3f}",
                f"{errors[1]:.3f}",
                f"{means[2]:.3f}",
                f"{means[3]:.3g}",
            )
    return found


def verdict(folder, spent, found):
    """Write the lines of the page's table, of what `costs` and `sweep` return."""
    theirs = found[PUBLISHED_BATCH, "minibatch Barker"]
    clipped, proved = (
        found[PUBLISHED_BATCH, f"dp_fast_mh, {name}"][0]
        for name in ("clips as much", "proved bound")
    )
    published, by_theorem, least = spent[PUBLISHED_BATCH]
    conclude(
        folder,
        PAPER,
        (
            "minibatch Barker tests are private before the chain has converged",
            f"epsilon {published:.1f} as published, {by_theorem:.2f} by the same theorem not rounded up, "
            f"{least:.2f} if the noise were fixed",
            "holds, too large",
        ),
        (
            "their draws are close to the posterior on two modes",
            f"divergence {theirs[0][0]:.3f}, {theirs[0][3]:,.0f} records read for an effective draw; by "
            f"dp_fast_mh at the same epsilon: {clipped[0]:.3f} and {clipped[3]:,.0f} if it clips as much, "
            f"{proved[0]:.3f} and {proved[3]:,.0f} with the proved bound",
            "holds; dp_fast_mh is better if it clips as much",
        ),
    )


def main():
    """Write the tables and the verdict."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=8)
    arguments = arguments.parse_args()
    spent = costs(arguments.folder)
    values, probabilities, missed = correction()
    print(f"\nN(0, 2) + V misses a logistic law by {missed:.2g} at most.\n")
    found = sweep(arguments.folder, range(arguments.seeds), (values, probabilities))
    verdict(arguments.folder, spent, found)


if __name__ == "__main__":
    main()
