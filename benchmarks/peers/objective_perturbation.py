"""Logistic regression by objective perturbation with Gaussian noise, by two theorems.

    theta = argmin sum loss(theta; x_i, y_i) + lambda / 2 |theta|^2 + b^T theta,    b ~ N(0, sigma^2 I)

Slopes of the loss along x are within [-1, 1] and curvatures within [0, 1/4], so that with rows of
norm L, the constant included, a record's gradient has norm L at most, and its Hessian beta = L^2 /
4. Neighbours add or remove a record. Several classes are as many problems, one class against the
others.

"Classical" is Theorem 2 of D. Kifer, A. Smith and A. Thakurta, "Private convex empirical risk
minimization and high-dimensional regression", COLT 2012:

    sigma^2 = L^2 (8 log(2 / delta) + 4 epsilon) / epsilon^2,    lambda = 2 beta / epsilon

with epsilon and delta shared by the classes. "Tight" is after R. Redberg, A. Koskela and Y.-X.
Wang, "Improving the privacy and practicality of objective perturbation for differentially private
linear learners", NeurIPS 2023. A record z adds g = s x to b, with |s| <= 1, and a multiple of x x^T
of rank one to the Hessian, so

    log ratio of densities <= log(1 + beta / lambda) + mu^2 / 2 + mu |Z|,    Z ~ N(0, 1),    mu = L / sigma

for b^T x / |x| is normal before anything is known of theta. (The paper has -log(1 - beta / lambda)
for the first term. By the determinant lemma it is at most this one as a record is added, and none
as it is removed.) delta(epsilon) is the expectation of 1 - exp(epsilon - ratio) where that is
positive; of K problems the ratios are added, with independent Z. A share of epsilon goes to the
first term, which says lambda, and then sigma is the smallest that delta allows. The paper's
approximate minima pay for what is left of the gradient; here minima are found to the precision of
floating-point numbers, and nothing is paid.
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtr
from scipy.stats import norm as normal_law

# Steps of the grid on which sums of |Z| are computed, rounded up, and where it ends for each problem.
GRID, LARGEST = 1e-3, 9.0
# Newton's steps end where they are so short, relative to theta.
PRECISION = 1e-9
MOST_STEPS = 100
# A lambda below is raised to that of next to no penalty: more than the theorem asks for is always allowed.
LEAST_STRENGTH = 0.01


def classical(epsilon, delta, length, n_problems):
    """Return (sigma, lambda) by Kifer, Smith and Thakurta's theorem."""
    epsilon, delta = epsilon / n_problems, delta / n_problems
    sigma = length * math.sqrt(8.0 * math.log(2.0 / delta) + 4.0 * epsilon) / epsilon
    return sigma, length**2 / (2.0 * epsilon)


def tight(epsilon, delta, length, n_problems, share):
    """Return (sigma, lambda) with the smallest sigma that the density ratio allows."""
    wanted = length**2 / 4.0 / math.expm1(min(share * epsilon / n_problems, 50.0))
    strength = max(wanted, LEAST_STRENGTH)
    rest, sums = (1.0 - share) * epsilon, sums_of_halves(n_problems)

    def excess(mu):
        return math.log(delta_of(mu, rest, sums, n_problems)) - math.log(delta)

    largest = math.sqrt(2.0 * epsilon) + epsilon
    return length / brentq(excess, 1e-6 * min(epsilon, 1.0), largest), strength


def sums_of_halves(n_problems):
    """Return the chances of sums of so many |Z| on the grid, each rounded up."""
    edges = np.arange(0.0, LARGEST, GRID)
    one = 2.0 * np.diff(ndtr(edges), prepend=0.5)
    one[-1] += 2.0 * normal_law.sf(edges[-1])
    found = one
    for _ in range(n_problems - 1):
        found = np.convolve(found, one)
    return found


def delta_of(mu, epsilon, sums, n_problems):
    """Return delta of the density ratio without its first term."""
    ratios = n_problems * mu**2 / 2.0 + mu * GRID * np.arange(len(sums))
    return max(float(sums @ -np.expm1(np.minimum(epsilon - ratios, 0.0))), 1e-300)


def minimum(rows, labels, strength, tilt):
    """Return theta for labels of 0 and 1, by Newton's steps that are halved where they lead up."""
    theta = np.zeros(rows.shape[1])

    def value(theta):
        logits = rows @ theta
        losses = np.logaddexp(0.0, logits) - labels * logits
        return losses.sum() + strength / 2.0 * theta @ theta + tilt @ theta

    reached = value(theta)
    for _ in range(MOST_STEPS):
        chances = expit(rows @ theta)
        gradient = rows.T @ (chances - labels) + strength * theta + tilt
        hessian = (rows.T * (chances * (1.0 - chances))) @ rows + strength * np.eye(len(theta))
        step, scale = np.linalg.solve(hessian, gradient), 1.0
        # Where it cannot get lower in these digits, the whole step is taken.
        while (new := value(theta - scale * step)) > reached + 1e-9 * abs(reached) and scale > 1e-6:
            scale /= 2.0
        theta, reached = theta - scale * step, new
        if np.linalg.norm(step) < PRECISION * (1.0 + np.linalg.norm(theta)):
            break
    return theta


def logistic(arrays, seed, options):
    """Return probabilities of the test rows."""
    z, z_test = (
        np.column_stack([arrays[name], np.ones(len(arrays[name]))]) for name in ("X", "X_test")
    )
    length, n_classes = math.hypot(float(arrays["norm"]), 1.0), int(arrays["n_classes"])
    problems = [1] if n_classes == 2 else range(n_classes)
    budget = options["epsilon"], options["delta"], length, len(problems)
    sigma, strength = tight(*budget, options["share"]) if "share" in options else classical(*budget)
    rng, logits = np.random.default_rng(seed), []
    for label in problems:
        tilt = sigma * rng.normal(size=z.shape[1])
        logits.append(z_test @ minimum(z, arrays["y"] == label, strength, tilt))
    chances = expit(np.column_stack(logits))
    if n_classes == 2:
        return {"probabilities": np.column_stack([1.0 - chances, chances])}
    return {"probabilities": chances / chances.sum(axis=1, keepdims=True)}
