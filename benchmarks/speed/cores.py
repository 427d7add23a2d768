"""How fast the cores are, as ratios to peers that are measured in the same run.

    python -m benchmarks.speed.cores [--quick] [--only gradient steps default counts start]
        [--results docs/results/cores.csv]

"Speed" of docs/benchmarks.rst.

Four questions, each with its target and what was measured side by side:

1. A full-batch gradient, against reading the table once and against two passes of NumPy.
2. Minibatch steps, against hand-written JAX scans (left out where JAX is not installed).
3. Fits of the default, in double and single precision, draws and predictions, against scikit-learn's logistic
   regression; fits to counts, against its Poisson regression.
4. Importing the package and the first fit of a process.

Contestants take turns, so that whatever else the machine does hits all of them; the table has the
minimum and the median of each, and the ratios of both. Nothing is asserted. A file has the medians of fits,
draws, predictions and starts.
"""

import argparse
import importlib.util
import itertools
import math
import os
import subprocess
import sys
import tempfile

import numpy as np
from numba import get_num_threads, njit, prange
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from benchmarks.common import ResultsTable, show_ratio, show_times, take_turns
from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor
from skdpbayes._compute.gradients import CompiledCore, gradient_oracle, gradient_sum, several_cores
from skdpbayes.models import Logistic
from skdpbayes.models.linear import linear_bounds, linear_prior_precision, make_linear
from skdpbayes.privacy import Budget
from skdpbayes.privacy.rounding import n_chunks
from skdpbayes.samplers import SGLD, sample

SMALL_TABLE = (24_420, 93)
LARGE_TABLE = (1_000_000, 50)
BATCH_SIZE = 256
N_STEPS = 10_000

# Synthetic tables


def make_table(n_samples, n_features, seed=0):
    """Return standardised columns and labels from a logistic model."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n_samples, n_features))
    logits = X[:, :3].sum(axis=1)
    return X, (generator.random(n_samples) < expit(logits)).astype(np.int64)


def make_target(X, y):
    """Return the binary logistic target of a table, without an intercept, and its bounds."""
    n_features = X.shape[1]
    norm = math.sqrt(n_features)
    precision = linear_prior_precision(Logistic(), n_features, 2.5 / norm, 1.0, 0.0)
    bounds = linear_bounds(Logistic(), norm, precision)
    return make_linear(X, y, Logistic(), norm, 0.0, precision), bounds


# 1. The full-batch gradient


@CompiledCore
def full_gradient(oracle, theta, loop, out, prior):
    """The package's own gradient of the table."""
    gradient_sum(oracle, theta, None, oracle.n_examples, loop, out, prior)


@njit(parallel=True, error_model="numpy", fastmath={"reassoc"}, cache=True)
def read_once(entries, n_columns, sums):
    """Sum of all entries, by the same parts and threads as the gradient: the cost of reading."""
    n_rows = entries.size // n_columns
    for part in prange(sums.size):
        total = 0.0
        start = n_rows * part // sums.size * n_columns
        stop = n_rows * (part + 1) // sums.size * n_columns
        for i in range(start, stop):
            total += entries[i]
        sums[part] = total


def compare_gradients(shape, goal, n_rounds):
    """Time one full-batch gradient of a table of this shape."""
    X, y = make_table(*shape)
    target, _ = make_target(X, y)
    theta = np.random.default_rng(1).standard_normal(shape[1]) / math.sqrt(shape[1])
    out, prior, entries = np.empty(shape[1]), np.empty(shape[1]), X.reshape(-1)
    sums = np.empty(n_chunks(shape[0]))
    # The same gradient in NumPy needs the rows clipped beforehand.
    clipped = X * target.scale[:, None]
    labels = y.astype(np.float64)
    oracle, _ = gradient_oracle(target, shape[1], shape[0])
    loop = several_cores()
    contestants = {
        "gradient": lambda: full_gradient(oracle, theta, loop, out, prior),
        "gradient, one core": lambda: full_gradient(oracle, theta, 0, out, prior),
        "reading the table once": lambda: read_once(entries, shape[1], sums),
        "NumPy, two passes": lambda: clipped.T @ (expit(clipped @ theta) - labels),
    }
    seconds = take_turns(contestants, n_rounds, n_calls=5)
    full_gradient(oracle, theta, loop, out, prior)
    error = np.abs(out - contestants["NumPy, two passes"]()).max() / np.abs(out).max()
    title = f"Full-batch gradient, {shape[0]:,} x {shape[1]}, {get_num_threads()} threads"
    show_times(f"{title} (differs from NumPy's by {error:.0e})", seconds)
    ours = seconds["gradient"]
    show_ratio("gradient / reading once", ours, seconds["reading the table once"], "<= 1.5x")
    show_ratio("NumPy / gradient", seconds["NumPy, two passes"], ours, f">= {goal}x")


# 2. Minibatch steps


def compare_steps(n_rounds, n_steps):
    """Time minibatch SGLD from start to end, compiled beforehand."""
    X, y = make_table(*SMALL_TABLE)
    target, bounds = make_target(X, y)
    sampler = SGLD(batch_size=BATCH_SIZE, n_steps=n_steps)
    plan = sampler.plan(bounds, len(X), Budget(1.0, 1e-6))
    single, _ = make_target(X.astype(np.float32), y)
    contestants = {
        "skdpbayes, float64, Poisson batches": lambda: sample(target, plan),
        "skdpbayes, float32 table, Poisson batches": lambda: sample(single, plan),
    }
    if importlib.util.find_spec("jax") is None:
        print("\nJAX is not installed: its rows are left out.")
    else:
        contestants.update(jax_chains(X * target.scale[:, None], y, target, plan))
    seconds = take_turns(contestants, n_rounds)
    title = f"{n_steps:,} steps on batches of {BATCH_SIZE} out of {SMALL_TABLE[0]:,}"
    show_times(f"{title} x {SMALL_TABLE[1]}", seconds)
    for precision in ("float64", "float32"):
        ours = next(v for name, v in seconds.items() if precision in name and "JAX" not in name)
        for kind, target_ratio in (("Poisson", ">= 1.5x"), ("fixed", "(less work)")):
            peer = seconds.get(f"JAX scan, {precision}, {kind} batches")
            if peer is not None:
                name = f"JAX scan, {kind} / skdpbayes, {precision}"
                show_ratio(name, peer, ours, target_ratio)


def jax_chains(X, y, target, plan):
    """Return the same chain as JAX scans: {name: function}.

    Batches of fixed size drawn with replacement are the cheapest in JAX. Poisson batches, which the
    privacy accounting is about, are drawn by their gaps into a buffer that has room for six
    standard deviations more than expected. Either way the randomness of all steps is drawn at once,
    which is faster than step by step, and no draws are kept.
    """
    import jax

    jax.config.update("jax_enable_x64", True)
    chains = {}
    for precision, kind in itertools.product(("float64", "float32"), ("fixed", "Poisson")):
        table = jax.numpy.asarray(X, precision), jax.numpy.asarray(y, precision)
        prior = jax.numpy.asarray(target.prior_precision, precision)
        batches = _jax_batches(kind, len(X), plan)
        chains[f"JAX scan, {precision}, {kind} batches"] = _jax_chain(table, prior, plan, batches)
    return chains


def _jax_batches(kind, n_samples, plan):
    """Return a function of a key and a type: the record numbers and weights of all steps."""
    import jax
    import jax.numpy as jnp

    room = BATCH_SIZE + 6 * math.isqrt(BATCH_SIZE)
    decay = -math.log1p(-plan.sampling_rate)

    def fixed(key, dtype):
        shape = plan.n_steps, BATCH_SIZE
        return jax.random.randint(key, shape, 0, n_samples, jnp.int32), None

    def poisson(key, dtype):
        unit = jax.random.exponential(key, (plan.n_steps, room), dtype)
        members = jnp.cumsum(jnp.floor(unit / decay).astype(jnp.int32) + 1, axis=1) - 1
        inside = members < n_samples
        return jnp.where(inside, members, 0), inside.astype(dtype)

    return fixed if kind == "fixed" else poisson


def _jax_chain(table, prior_precision, plan, draw_batches):
    import jax
    import jax.numpy as jnp

    step, temperature, rate = plan.step_size, plan.temperature, plan.sampling_rate
    noise_scale = math.sqrt(2.0 * step * temperature)
    dtype = table[0].dtype

    @jax.jit
    def chain(X, y, prior_precision, key):
        for_batches, for_noise = jax.random.split(key)
        members, weights = draw_batches(for_batches, dtype)
        noise = noise_scale * jax.random.normal(for_noise, (plan.n_steps, X.shape[1]), dtype)

        def advance(theta, drawn):
            members, weights, noise = drawn
            rows = X[members]
            residuals = jax.nn.sigmoid(rows @ theta) - y[members]
            residuals = residuals if weights is None else residuals * weights
            drift = residuals @ rows / rate + temperature * prior_precision * theta
            return theta - step * drift + noise, None

        start = jnp.zeros(X.shape[1], dtype)
        return jax.lax.scan(advance, start, (members, weights, noise))[0]

    key = jax.random.key(0)
    return lambda: chain(*table, prior_precision, key).block_until_ready()


# 3. The default


def compare_fits(results, shape, goal, n_rounds):
    """Time fits of the default at epsilon 1, 400 new draws, probabilities, and scikit-learn's."""
    X, y = make_table(*shape)
    single, norm = X.astype(np.float32), math.sqrt(shape[1])
    model, other = (DPBayesianLogisticRegression(epsilon=1.0, data_norm=norm) for _ in range(2))
    model.fit(X, y)
    public = LogisticRegression().fit(X, y)
    contestants = {
        "default, float64": lambda: other.fit(X, y),
        "default, float32": lambda: other.fit(single, y),
        "400 new draws": lambda: model.sample_posterior(400),
        "scikit-learn's LogisticRegression": lambda: LogisticRegression().fit(X, y),
        "probabilities": lambda: model.predict_proba(X),
        "scikit-learn's probabilities": lambda: public.predict_proba(X),
    }
    seconds = take_turns(contestants, n_rounds)
    title = f"Fits of the default, {shape[0]:,} x {shape[1]}, {get_num_threads()} threads"
    show_times(f"{title} (targets: {goal})", seconds)
    add_medians(results, shape, seconds)
    ours, peer = seconds["default, float64"], seconds["scikit-learn's LogisticRegression"]
    show_ratio("default / scikit-learn", ours, peer, "(none)")
    show_ratio("float32 / float64", seconds["default, float32"], ours, "<= 1x")
    peer = seconds["scikit-learn's probabilities"]
    show_ratio("probabilities / scikit-learn", seconds["probabilities"], peer, "<= 1.2x")


def add_medians(results, shape, seconds):
    """Add a line for each of what was timed on a table."""
    for name, values in seconds.items():
        results.add(name, *shape, f"{np.median(values):.3f}")


def compare_fits_of_counts(results, shape, n_rounds):
    """Time fits of the default to counts at epsilon 1, and scikit-learn's fit on the same table."""
    generator = np.random.default_rng(0)
    X, norm = generator.uniform(-1.0, 1.0, shape), math.sqrt(shape[1])
    y = generator.poisson(np.exp(0.7 + X @ generator.normal(0.0, 0.3, shape[1])))
    model = DPBayesianPoissonRegressor(epsilon=1.0, max_count=30, data_norm=norm)
    contestants = {
        "counts, default": lambda: model.fit(X, y),
        "scikit-learn's PoissonRegressor": lambda: PoissonRegressor(alpha=1e-6).fit(X, y),
    }
    seconds = take_turns(contestants, n_rounds)
    add_medians(results, shape, seconds)
    show_times(f"Fits to counts, {shape[0]:,} x {shape[1]} (target: 0.5 s)", seconds)
    show_ratio("default / scikit-learn", *seconds.values(), "(none)")


# 4. Import and first fit

_IMPORT = """
import time
import numba, sklearn.linear_model
start = time.perf_counter()
import skdpbayes
print(time.perf_counter() - start)
"""

_FIRST_DEFAULT = """
import time
import numpy as np
from skdpbayes import DPBayesianLogisticRegression
generator = np.random.default_rng(0)
X = generator.standard_normal((5000, 10))
y = generator.random(len(X)) < 1 / (1 + np.exp(-X[:, 0]))
start = time.perf_counter()
DPBayesianLogisticRegression(data_norm=3.0).fit(X, y)
print(time.perf_counter() - start)
"""

_FIRST_FIT = f"""
import time
import numpy as np
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.samplers import Auto
generator = np.random.default_rng(0)
X = generator.standard_normal({SMALL_TABLE})
y = generator.random(len(X)) < 1 / (1 + np.exp(-X[:, 0]))
start = time.perf_counter()
DPBayesianLogisticRegression(sampler=Auto(n_steps=200)).fit(X, y)
print(time.perf_counter() - start)
"""


def in_fresh_process(script, cache_folder):
    """Return the seconds that a script prints."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache_folder}
    command = [sys.executable, "-W", "ignore", "-c", script]
    result = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(result.stdout)


def measure_start(results, n_rounds, n_cold):
    """Time the import, and first fits with and without compiled code on disk."""
    imports, default, warm, cold, default_cold = [], [], [], [], []
    for _ in range(n_cold):
        with tempfile.TemporaryDirectory() as folder:
            default_cold.append(in_fresh_process(_FIRST_DEFAULT, folder))
            cold.append(in_fresh_process(_FIRST_FIT, folder))
            for _ in range(n_rounds):
                imports.append(in_fresh_process(_IMPORT, folder))
                default.append(in_fresh_process(_FIRST_DEFAULT, folder))
                warm.append(in_fresh_process(_FIRST_FIT, folder))
    print(f"\nFresh processes\n  {'':46}{'minimum':>12}{'median':>12}")
    for name, seconds, goal in (
        ("import, beyond scikit-learn and numba", imports, "< 0.3 s"),
        ("first fit of the default, code on disk", default, "< 1.5 s"),
        ("first fit of the default, nothing on disk", default_cold, "< 15 s"),
        ("first fit of a chain, code on disk", warm, "< 1.5 s"),
        ("first fit of a chain, nothing on disk", cold, "< 15 s"),
    ):
        results.add(name, 0, 0, f"{np.median(seconds):.3f}")
        print(f"  {name:46}{min(seconds):>10.2f} s{np.median(seconds):>10.2f} s   target {goal}")


def main():
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller tables")
    parts = ("gradient", "steps", "default", "counts", "start")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, metavar="PART")
    parser.add_argument("--results", help="a CSV file")
    options = parser.parse_args()
    results = ResultsTable("what | rows | columns | seconds", options.results)
    quick = options.quick
    if "gradient" in options.only:
        compare_gradients(SMALL_TABLE, 1.7, 10 if quick else 60)
        large = (LARGE_TABLE[0] // 10, LARGE_TABLE[1]) if quick else LARGE_TABLE
        compare_gradients(large, 2.5, 5 if quick else 15)
    if "steps" in options.only:
        compare_steps(3 if quick else 15, N_STEPS // 10 if quick else N_STEPS)
    if "default" in options.only:
        for shape, goal in (
            (LARGE_TABLE, "a fit 1.2 s"),
            ((100_000, 20), "a fit 0.25 s"),
            ((20_000, 39), "draws 0.15 s"),
        ):
            if not (quick and shape == LARGE_TABLE):
                compare_fits(results, shape, goal, 3 if quick else 7)
    if "counts" in options.only:
        compare_fits_of_counts(results, (10_000, 5), 3 if quick else 11)
    if "start" in options.only:
        measure_start(results, 2 if quick else 3, 1 if quick else 3)


if __name__ == "__main__":
    main()
