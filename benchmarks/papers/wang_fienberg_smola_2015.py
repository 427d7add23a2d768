"""Wang, Fienberg and Smola (2015), Privacy for free: one posterior sample, and SGLD as it is.

    python -m benchmarks.papers.wang_fienberg_smola_2015 [--repetitions 10] [--folder docs/results]

Section "Wang, Fienberg and Smola (2015)" of docs/papers.rst.

Claimed:

- One exact sample of a posterior whose log-likelihoods are within [-B, B] is 4 B-private (OPS).
- SGLD is (epsilon, delta)-private over T passes with batches of tau, gradients bounded by L, and noise of
  variance

      max(eta_t, 128 N T L^2 / (tau epsilon^2) log(2.5 N T / (tau delta)) log(2 / delta) eta_t^2),

  so that it is "for free", with its own noise alone, where eta_t is small enough. (The constants are those in
  which the algorithm is known to us; a public replication has them, too.)
- Figure 2: with this noise the predictions of logistic regression on simulated rows approach those without
  privacy as epsilon grows. Neither its values nor its rows are to be had here; that replication, of 100 rows
  of three columns, reports that it did not see this.
- Section 5: this does much better than the private methods of the time, on simulated and real tables. Of
  these methods, objective perturbation with Gaussian noise has (epsilon, delta). Its figures could not be
  had, nor how labels of Abalone were made of rings: here, whether there are ten or more (half of the rows).

1. The exact epsilon of an exact sample, on a grid: one parameter in [-r, r], x = 1, y changed from 1 to 0,
   beside k records with y = 1. The bound is B = log(1 + exp(r)), and log-likelihoods are all negative.
2. The exact epsilon of that noise, by privacy loss distributions.
3. Free SGLD of the longest constant step that the theorem allows, one pass over N rows of three columns from
   zero: the error of its mean in posterior deviations, the spread of its draws over the posterior's, accuracy
   and log loss on new rows. Beside it one sample by this package (`sampler="ops"`) and the mode.
4. Objective perturbation by its theorems of 2012 and 2023 (`benchmarks/peers/objective_perturbation.py`)
   beside one sample, a noisy gradient path (`sampler="sgld"`) and the default, wherever a row is added or
   removed, at delta = 1e-5. "one sample" is of the Gaussian prior's posterior, at the cost of an exact sample
   (Gopi, Lee and Liu, 2022), half the mu of a replaced row's. "one sample, 2015" is pure: an exact sample of

       exp(w sum_i log p(y_i | x_i, theta)) N(theta; 0, s^2 I) on |theta| <= r,    w = epsilon / B,

   with B = log(1 + exp(r R)), R the norm of rows with the constant, s = 2.5 / R and r the 99% quantile of
   the prior's norm. Since log-likelihoods have one sign, it spends epsilon where 4 B would allow a quarter.
   It is drawn by Metropolis' rule from proposals of the normal approximation. Three quarters of the rows
   for training; medians over splits, with their errors.
"""

import math

import numpy as np
from scipy.special import expit
from scipy.stats import chi
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks.common import classification_scores, ignore_fit_warnings, median_with_error
from benchmarks.papers.results import PAPERS, conclude, figures, parser
from benchmarks.peers import objective_perturbation
from benchmarks.real_tables import load
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.privacy import PrivacyCost, SampledGaussian
from skdpbayes.privacy.conversions import gaussian_epsilon, gaussian_mu

PAPER = PAPERS[0]
DELTA = 1e-5
# Abalones of so many rings or more are one class.
N_RINGS = 10
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
N_PROPOSALS = 300


def exact_epsilon_of_a_sample(radius, n_others, n_points=200_001):
    """Return the largest log ratio of two posterior densities on a grid, the prior uniform."""
    theta = np.linspace(-radius, radius, n_points)
    log_densities = []
    for label in (1, -1):
        log_density = -n_others * np.logaddexp(0, -theta) - np.logaddexp(0, -label * theta)
        log_density -= np.logaddexp.reduce(log_density)
        log_densities.append(log_density)
    return np.abs(log_densities[0] - log_densities[1]).max()


def samples(folder):
    """Write what exact samples cost; return the largest share of 4 B."""
    table = figures(folder, "one_sample", "r | 4 B | 2 B | exact with 0 others | 10 | 1000")
    shares = []
    for radius in (1.0, 3.0, 10.0):
        bound = 4 * np.logaddexp(0, radius)
        found = [exact_epsilon_of_a_sample(radius, k) for k in (0, 10, 1_000)]
        shares.append(max(found) / bound)
        table.add(f"{radius:g}", *(f"{value:.2f}" for value in (bound, bound / 2, *found)))
    return max(shares)


def log_factor(n_rows, n_passes, batch):
    """Return the product of logarithms in the noise."""
    return math.log(2.5 * n_rows * n_passes / (batch * DELTA)) * math.log(2 / DELTA)


def exact_epsilon(epsilon, n_rows, n_passes, relation):
    """Return what all steps cost with the noise for an epsilon, batches of sqrt(N)."""
    batch = math.isqrt(n_rows)
    # The noise's deviation over eta N L / tau, by which one record moves the step.
    multiplier = (
        math.sqrt(128 * n_passes * batch / n_rows * log_factor(n_rows, n_passes, batch)) / epsilon
    )
    steps = SampledGaussian(multiplier, batch / n_rows, n_passes * n_rows // batch)
    return PrivacyCost(relation, sampled=(steps,)).epsilon(DELTA)


def noise(folder):
    """Write what the noise of the theorem costs; return the largest share of what is promised."""
    heads = "rows | passes | promised | exact: add or remove | replace"
    table, found = figures(folder, "sgld_noise", heads), []
    for n_rows, n_passes in ((1_000, 1), (10_000, 1), (10_000, 100), (1_000_000, 10)):
        for epsilon in (1.0, 10.0):
            cells = [
                exact_epsilon(epsilon, n_rows, n_passes, relation)
                for relation in ("add_or_remove_one", "replace_one")
            ]
            found.append(cells[1] / epsilon)
            table.add(n_rows, n_passes, f"{epsilon:g}", *(f"{cell:.4f}" for cell in cells))
    return max(found)


def table(rng, n_rows, theta):
    """Return rows of norm at most 1, and labels."""
    X = rng.uniform(-1, 1, (n_rows, 3)) / math.sqrt(3)
    return X, (rng.random(n_rows) < expit(X @ theta)).astype(int)


def free_chain(rng, X, y, step):
    """Return the states of one pass of SGLD on batches of sqrt(N), with its own noise and a N(0, 1) prior."""
    n_rows = len(X)
    batch = math.isqrt(n_rows)
    theta, states = np.zeros(3), []
    for _ in range(n_rows // batch):
        rows = rng.integers(n_rows, size=batch)
        gradient = theta + n_rows / batch * X[rows].T @ (expit(X[rows] @ theta) - y[rows])
        theta = theta - step * gradient + math.sqrt(step) * rng.standard_normal(3)
        states.append(theta)
    return np.array(states)


def compare(n_rows, epsilon, n_repetitions):
    """Return the means of what is printed, for free SGLD and for one sample by this package."""
    rng, found = np.random.default_rng(0), []
    batch = math.isqrt(n_rows)
    # The longest step at which max(...) above is eta itself, for L = 1.
    step = epsilon**2 * batch / (128 * n_rows * log_factor(n_rows, 1, batch))
    for seed in range(n_repetitions):
        X, y = table(rng, n_rows, truth := 2 * rng.standard_normal(3))
        X_test, y_test = table(rng, 5_000, truth)
        best = LogisticRegression(C=1.0, fit_intercept=False).fit(X, y).coef_[0]
        slope = expit(X @ best) * expit(-X @ best)
        deviation = np.sqrt(np.diag(np.linalg.inv(X.T @ (X * slope[:, None]) + np.eye(3))))
        states = free_chain(rng, X, y, step)
        draws = states[len(states) // 2 :]
        one = DPBayesianLogisticRegression(
            epsilon,
            DELTA,
            sampler="ops",
            data_norm=1.0,
            fit_intercept=False,
            classes=[0, 1],
            random_state=seed,
        ).fit(X, y)
        row = []
        for theta, spread in (
            (draws.mean(0), draws.std(0)),
            (one.coef_[0], np.full(3, np.nan)),
            (best, deviation),
        ):
            p = expit(X_test @ theta)
            row.append(
                (
                    np.sqrt((((theta - best) / deviation) ** 2).mean()),
                    (spread / deviation).mean(),
                    ((p > 0.5) == y_test).mean(),
                    log_loss(y_test, p),
                )
            )
        found.append(row)
    return np.mean(found, axis=0)


def figure(folder, n_repetitions, sizes):
    """Write how chains do; return the largest spread over the posterior's."""
    heads = "rows | epsilon | by | error in deviations | spread over the posterior's | accuracy | log loss"
    table, spreads = figures(folder, "free_sgld", heads), []
    for n_rows in sizes:
        # At epsilon 10 chains on many rows take a long time.
        for epsilon in (0.1, 1.0, 10.0) if n_rows < 10_000 else (0.1, 1.0):
            rows = compare(n_rows, epsilon, n_repetitions)
            spreads.append(rows[0][1])
            for name, row in zip(("free SGLD", "one sample", "not private"), rows, strict=True):
                table.add(n_rows, f"{epsilon:g}", name, *(f"{value:.3g}" for value in row))
    return max(spreads)


# Objective perturbation


def tables():
    """Return {name: (X, labels, norm)}, rows within public bounds."""
    abalone, adult = load("abalone"), load("adult")
    return {
        "abalone": (abalone.X, (abalone.y >= N_RINGS).astype(int), abalone.norm),
        "adult": (adult.X, adult.y, adult.norm),
    }


def exact_sample(rng, rows, labels, norm, epsilon):
    """Return an exact sample of the tempered posterior on a ball, as the docstring above has it."""
    scale = 2.5 / norm
    radius = scale * chi.ppf(0.99, rows.shape[1])
    weight = epsilon / np.logaddexp(0.0, radius * norm)
    precision = 1.0 / scale**2
    mode = objective_perturbation.minimum(rows, labels, precision / weight, np.zeros(rows.shape[1]))
    slopes = expit(rows @ mode) * expit(-rows @ mode)
    hessian = weight * (rows.T * slopes) @ rows + precision * np.eye(len(mode))
    steps = np.linalg.solve(
        np.linalg.cholesky(hessian).T, rng.standard_normal((len(mode), N_PROPOSALS))
    )
    drawn = mode + steps.T
    logits = drawn @ rows.T
    log_ratio = weight * (logits @ labels - np.logaddexp(0.0, logits).sum(axis=1))
    log_ratio += -precision / 2 * (drawn**2).sum(axis=1)
    log_ratio += np.einsum("ij,ik,kj->j", steps, hessian, steps) / 2
    log_ratio[np.linalg.norm(drawn, axis=1) > radius] = -np.inf
    state = 0
    for other in range(1, N_PROPOSALS):
        if math.log(rng.random()) < log_ratio[other] - log_ratio[state] or not np.isfinite(
            log_ratio[state]
        ):
            state = other
    return drawn[state]


def probabilities(method, arrays, epsilon, seed):
    """Return the test rows' probabilities of the second class by one of `METHODS`."""
    if method.startswith("objective perturbation"):
        options = {"epsilon": epsilon, "delta": DELTA}
        options |= {"share": 0.2} if method.endswith("2023") else {}
        return objective_perturbation.logistic(arrays, seed, options)["probabilities"]
    if method == "one sample, 2015":
        rows, test = (
            np.column_stack([arrays[name], np.ones(len(arrays[name]))]) for name in ("X", "X_test")
        )
        norm = math.hypot(arrays["norm"], 1.0)
        rng = np.random.default_rng(seed)
        p = expit(test @ exact_sample(rng, rows, arrays["y"], norm, epsilon))
        return np.column_stack([1 - p, p])
    if method == "not private":
        model = LogisticRegression(max_iter=10_000).fit(arrays["X"], arrays["y"])
        return model.predict_proba(arrays["X_test"])
    relation = {"neighboring_relation": "add_or_remove_one", "public_size": len(arrays["X"])}
    if method == "one sample":
        # A replaced row moves the gradient twice as far as one that is added, and costs twice the mu.
        epsilon, relation = gaussian_epsilon(2 * gaussian_mu(epsilon, DELTA), DELTA), {}
    model = DPBayesianLogisticRegression(
        epsilon,
        DELTA,
        sampler=METHODS[method],
        data_norm=arrays["norm"],
        classes=[0, 1],
        random_state=seed,
        **relation,
    )
    return model.fit(arrays["X"], arrays["y"]).predict_proba(arrays["X_test"])


# Names of samplers of this package, or what is written here.
METHODS = {
    "objective perturbation, 2012": None,
    "objective perturbation, 2023": None,
    "one sample, 2015": None,
    "one sample": "ops",
    "noisy gradients": "sgld",
    "default": "auto",
    "not private": None,
}


def perturbation(folder, n_splits):
    """Write the sweep of epsilon; return {(table, epsilon, method): median log loss}."""
    heads = "table | method | epsilon | splits | log loss | error of log loss | accuracy | error of accuracy"
    results, found = figures(folder, "objective_perturbation", heads), {}
    for name, (X, y, norm) in tables().items():
        is_large = len(X) > 10_000
        times, epsilons = (3, EPSILONS[:3:2]) if is_large else (n_splits, EPSILONS)
        for method in METHODS:
            for epsilon in (math.inf,) if method == "not private" else epsilons:
                scores = []
                for seed in range(times):
                    parts = train_test_split(X, y, test_size=0.25, random_state=seed)
                    keys = ("X", "X_test", "y", "y_test")
                    arrays = dict(zip(keys, parts, strict=True)) | {"norm": norm, "n_classes": 2}
                    p = probabilities(method, arrays, epsilon, seed)
                    scored = classification_scores(p, arrays["y_test"])
                    scores.append((scored["log loss"], scored["accuracy"]))
                losses, accuracies = map(median_with_error, np.transpose(scores))
                found[name, epsilon, method] = losses[0]
                cells = (f"{value:.4f}" for value in (*losses, *accuracies))
                results.add(name, method, f"{epsilon:g}", times, *cells)
    return found


def verdict(folder, share, cost, spread, losses):
    """Write the lines of the page's table."""
    pairs = [key[:2] for key in losses if key[2] == "one sample"]

    def wins(method, year):
        rival = f"objective perturbation, {year}"
        return sum(losses[*pair, method] < losses[*pair, rival] for pair in pairs)

    of_2012, of_2023 = (wins("one sample", year) for year in (2012, 2023))
    if 2 * of_2012 < len(pairs):
        found = "contradicted"
    else:
        found = "holds" if 2 * of_2023 >= len(pairs) else "held in 2015, no longer"
    conclude(
        folder,
        PAPER,
        (
            "one exact sample of the posterior is 4B-private",
            f"at most 2B, and up to {share:.2f} times 4B",
            "holds, twice too large",
        ),
        (
            "SGLD with enough noise is private; with small steps its own noise is enough",
            f"epsilon at most {cost:.2f} times what is promised; such a chain spreads at most "
            f"{spread:.2f} times as far as the posterior",
            "holds, but is no sampler",
        ),
        (
            "one sample predicts much better than objective perturbation",
            f"lower log loss than objective perturbation of 2012 in {of_2012} of {len(pairs)} cases "
            f"({wins('one sample, 2015', 2012)} for the pure sample of 2015), than that of 2023 in {of_2023}",
            found,
        ),
    )


def main():
    """Write the tables and the verdict."""
    arguments = parser(__doc__)
    arguments.add_argument("--repetitions", type=int, default=10)
    arguments.add_argument("--rows", type=int, nargs="+", default=(1_000, 20_000))
    arguments = arguments.parse_args()
    ignore_fit_warnings()
    folder = arguments.folder
    verdict(
        folder,
        samples(folder),
        noise(folder),
        figure(folder, arguments.repetitions, arguments.rows),
        perturbation(folder, arguments.repetitions),
    )


if __name__ == "__main__":
    main()
