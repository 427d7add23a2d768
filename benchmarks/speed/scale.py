"""How cost grows with rows, columns, draws, classes, partitions and entries of a ledger.

    python -m benchmarks.speed.scale [--quick] [--only rows ledger ...] [--results docs/results/scale.csv]
        [--output scale.png]

Table and picture of docs/scale.rst.

Every cost is CPU time of this process, on one thread for numerical code, so that other work on the machine
matters little; the least of some repetitions is taken. For each quantity the slope is that of the logarithm
of the time against that of the size, between the largest size and the one in the middle: 1 is proportional, 2
quadratic. Beside it is the slope that the algorithm promises for large sizes. What grows faster than that (by
more than 0.25) is marked. In the end it says what 10^9 rows would take on a cluster, by these figures.

Dask runs in threads of this process, so that workers, scheduler and client are all counted. ``--results``
keeps what was measured beside what its file has of other quantities; ``--output`` draws all of these.
"""

import argparse
import csv
import gc
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import ignore_fit_warnings, plain, print_heads
from skdpbayes import DPBayesianLogisticRegression, DPGaussianMixturePosterior
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.privacy import BoundedRangeDecisions, PrivacyCost, PrivacyLedger, SampledGaussian


def cpu_seconds(function, n_times=3):
    """Return the least CPU time of some calls."""
    times = []
    for _ in range(n_times):
        gc.collect()
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return min(times)


def table(n_rows, n_features, n_classes=2, dtype=np.float64):
    """Return rows in a cube, and labels that depend on the first columns."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_rows, n_features)).astype(dtype)
    scores = X[:, :1] * np.arange(n_classes) + rng.gumbel(size=(n_rows, n_classes))
    return X, scores.argmax(axis=1)


def model(n_features, n_classes=2, **options):
    """Return the default, which knows labels and bounds."""
    return DPBayesianLogisticRegression(
        epsilon=1.0,
        delta=1e-6,
        data_norm=float(np.sqrt(n_features)),
        classes=list(range(n_classes)),
        **options,
    )


def fits_of(n_rows, n_features, n_classes=2, **options):
    """Return a fit to be measured; the first one is not."""
    X, y = table(n_rows, n_features, n_classes)
    clf = model(n_features, n_classes, **options)
    clf.fit(X[:1000], y[:1000])
    return lambda: clf.fit(X, y)


def draws_of(n_draws):
    """Return a call for so many draws from a fit."""
    clf = model(20).fit(*table(20_000, 20))
    return lambda: clf.sample_posterior(n_draws)


def mixture_of(n_components, n_rows=50_000):
    """Return a fit of so many groups in two dimensions."""
    rng = np.random.default_rng(0)
    angle = 2 * np.pi * rng.integers(n_components, size=n_rows) / n_components
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * rng.standard_normal((n_rows, 2))
    mixture = DPGaussianMixturePosterior(
        n_components, epsilon=1.0, delta=1e-6, data_norm=1.5, covariance_type="diag"
    )
    return lambda: mixture.fit(X)


def partitions_of(n_parts, n_rows=256_000, n_features=20):
    """Return a fit on so many partitions of one table."""
    import dask.array as da
    from distributed import Client

    client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None)
    X, y = table(n_rows, n_features)
    X, y = (da.from_array(part, chunks=(n_rows // n_parts, *part.shape[1:])) for part in (X, y))
    X, y = client.persist([X, y])
    clf = model(n_features)

    def fit():
        clf.fit(X, y, client=client)

    fit.close = client.close
    return fit


def gaussian(i):
    """Return one of many different Gaussian costs."""
    return PrivacyCost("replace_one", mu=1e-4 * (1 + i * 1e-6))


def smaller(i):
    """Return others, since conversions of costs that have occurred are kept."""
    return PrivacyCost("replace_one", mu=1e-5 * (1 + i * 1e-6))


def sampled(i):
    """Return one of two kinds of costs that compose as privacy loss distributions, all of them alike."""
    if i % 2:
        return PrivacyCost("replace_one", sampled=(SampledGaussian(300.0, 0.01, 10),))
    return PrivacyCost("replace_one", decisions=(BoundedRangeDecisions(1e-5, 10),))


def many_kinds(i):
    """Return the cost of batches, no two alike."""
    return PrivacyCost("replace_one", sampled=(SampledGaussian(300.0 + i, 0.01, 10),))


class GrowingLedger:
    """A ledger that is filled up to a size, and then further."""

    def __init__(self, cost, in_file):
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name, "ledger")) if in_file else None
        self.ledger = PrivacyLedger(1e3, 1e-6, path=self.path)
        self.cost = cost
        self.n_entries = 0

    def reserve(self):
        """Charge once more."""
        self.ledger.reserve(self.cost(self.n_entries))
        self.n_entries += 1

    def open(self):
        """Open the file as another process would, and compose."""
        return PrivacyLedger.open(self.path).spent_epsilon

    def records(self):
        """List everything."""
        return self.ledger.records()


growing = cache(GrowingLedger)


def ledger_of(cost, what, in_file=True):
    """Return a function of a number of entries, which returns what is to be measured then."""

    def prepare(n_entries):
        ledger = growing(cost, in_file)
        while ledger.n_entries < n_entries:
            ledger.reserve()
        return getattr(ledger, what)

    return prepare


def powers(first, last, factor=2):
    """Return sizes from one to another."""
    sizes = [first]
    while sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    return sizes


# Name: (what is measured, function of a size, sizes, sizes with --quick, promised slope).
QUANTITIES = {
    "rows": (
        "fit, 20 columns",
        lambda n: fits_of(n, 20),
        powers(8_000, 512_000),
        powers(8_000, 128_000),
        1,
    ),
    "columns": (
        "fit, 20,000 rows",
        lambda d: fits_of(20_000, d),
        powers(10, 160),
        powers(10, 40),
        3,
    ),
    "chain": (
        "columns, SGHMC, 20,000 rows, 200 steps",
        lambda d: fits_of(20_000, d, sampler="sghmc", n_draws=10),
        powers(10, 320),
        powers(10, 40),
        1.5,
    ),
    "draws": ("new draws, 20 columns", draws_of, powers(100, 6_400), powers(100, 1_600), 1),
    "classes": (
        "fit, 20,000 x 8",
        lambda k: fits_of(20_000, 8, k),
        powers(2, 16),
        powers(2, 8),
        3,
    ),
    "components": ("mixture, 50,000 x 2", mixture_of, powers(2, 16), powers(2, 8), 2),
    "mixture_rows": (
        "mixture of 3, 2 columns",
        lambda n: mixture_of(3, n),
        powers(10_000, 320_000),
        powers(10_000, 80_000),
        1,
    ),
    "partitions": ("fit, 256,000 x 20", partitions_of, powers(4, 128), powers(4, 32), 1),
    "ledger": (
        "one more Gaussian charge, file",
        ledger_of(gaussian, "reserve"),
        powers(100, 6_400),
        powers(100, 800),
        0,
    ),
    "ledger_memory": (
        "one more Gaussian charge, memory",
        ledger_of(smaller, "reserve", False),
        powers(100, 6_400),
        powers(100, 800),
        0,
    ),
    "ledger_open": (
        "opening, Gaussian charges",
        ledger_of(gaussian, "open"),
        powers(100, 6_400),
        powers(100, 800),
        1,
    ),
    "ledger_records": (
        "listing, Gaussian charges",
        ledger_of(gaussian, "records"),
        powers(100, 6_400),
        powers(100, 800),
        1,
    ),
    "ledger_two_kinds": (
        "one more charge of two kinds, file",
        ledger_of(sampled, "reserve"),
        powers(25, 400),
        powers(25, 100),
        0,
    ),
    "ledger_many_kinds": (
        "one more of batches, no two alike, memory",
        ledger_of(many_kinds, "reserve", False),
        powers(10, 320),
        powers(10, 80),
        1,  # Compositions are a few, but all kinds are looked at.
    ),
}


def measure(names, quick):
    """Return {name: {size: CPU seconds}} of quantities, by size, so that what they share only grows."""
    found = {name: {} for name in names}
    todo = [(size, name) for name in names for size in QUANTITIES[name][3 if quick else 2]]
    for size, name in sorted(todo):
        function = QUANTITIES[name][1](size)
        function()  # Compiled, and what is kept between calls is there.
        found[name][size] = cpu_seconds(function)
        getattr(function, "close", bool)()
    return found


def measure_all(names, quick):
    """Print a row for each quantity, and return {name: {size: CPU seconds}}."""
    results, groups = {}, {}
    for name in names:
        groups.setdefault(name.partition("_")[0], []).append(name)
    for group in groups.values():
        for name, found in measure(group, quick).items():
            results[name] = found
            what, *_, promised = QUANTITIES[name]
            times = " ".join(f"{1e3 * found[size]:.3g}" for size in sorted(found))
            worse = " **faster than promised**" if slope(found) > promised + 0.25 else ""
            print(
                f"| {name} | {what} | {min(found):,} to {max(found):,} | {times} "
                f"| {slope(found):.2f} | {promised}{worse} |",
                flush=True,
            )
    return results


def slope(found):
    """Return the slope of logarithms between the largest size and the one in the middle."""
    sizes = sorted(found)
    ends = sizes[len(sizes) // 2], sizes[-1]
    times = [max(found[size], 1e-7) for size in ends]
    return float(np.diff(np.log(times))[0] / np.diff(np.log(ends))[0])


def save(results, path):
    """Write sizes and CPU seconds to a file, beside what it has of other quantities."""
    everything = (load(path) if Path(path).exists() else {}) | results
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["quantity", "size", "seconds"])
        for name, found in everything.items():
            writer.writerows([name, size, f"{found[size]:.6f}"] for size in sorted(found))
    return everything


def load(path):
    """Return {name: {size: CPU seconds}} of a file."""
    results = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            results.setdefault(row["quantity"], {})[int(row["size"])] = float(row["seconds"])
    return results


def draw(results):
    """Return a picture: CPU seconds against size over the smallest, both on logarithmic scales."""
    import matplotlib.pyplot as plt

    is_ledger = [name.startswith("ledger") for name in results]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained", sharey=True)
    for number, (name, found) in enumerate(results.items()):
        sizes = np.array(sorted(found))
        axes[int(is_ledger[number])].loglog(
            sizes / sizes[0],
            [found[size] for size in sizes],
            "os^vDP<>"[number % 8] + "-",
            color=f"C{number % 10}",
            ms=4,
            lw=1,
            label=f"{name.replace('_', ', ')}: {slope(found):.1f}",
        )
    axes[0].set(xlabel="size over the smallest", ylabel="CPU seconds", title="fits and draws")
    axes[1].set(xlabel="entries over the fewest", title="ledgers")
    for axis in axes:
        plain(axis)
        axis.legend(frameon=False, fontsize=8, title="slope at the end", title_fontsize=8)
    return figure


def on_paper(results, n_rows=10**9, n_features=20):
    """Print what a fit of many rows would take, from what was measured."""
    found = results["rows"]
    few, many = sorted(found)[len(found) // 2], max(found)
    per_row = (found[many] - found[few]) / (many - few)
    fixed = max(found[many] - per_row * many, 0.0)
    per_part = 0.0
    if "partitions" in results:
        parts = results["partitions"]
        low, high = sorted(parts)[len(parts) // 2], max(parts)
        per_part = max((parts[high] - parts[low]) / (high - low), 0.0)
    started = time.process_time()
    plan = model(n_features).privacy_plan(n_rows, n_features)
    planned = time.process_time() - started
    print(
        f"\nA plan for {n_rows:,} x {n_features} takes {planned:.2f} s: epsilon {plan.epsilon:.3g}. A fit "
        f"takes {1e6 * per_row:.2f} microseconds of CPU time a row, {fixed:.2f} s beside that, and "
        f"{1e3 * per_part:.1f} ms a partition.\n"
    )
    print_heads("rows | partitions | GiB in float32 | CPU hours | hours on 16 / 64 / 256 cores")
    for n_parts in (1_000, 4_000):
        work = per_row * n_rows
        by_cores = [
            work / cores / 3600 + (fixed + per_part * n_parts) / 3600 for cores in (16, 64, 256)
        ]
        size = 4.0 * n_rows * n_features / 2**30
        print(
            f"| {n_rows:,} | {n_parts:,} | {size:.0f} | {work / 3600:.2f} "
            f"| {' / '.join(f'{hours:.3f}' for hours in by_cores)} |"
        )


def main():
    """Print slopes, the estimate, and save the picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--only", nargs="+", choices=QUANTITIES, default=tuple(QUANTITIES))
    parser.add_argument("--results", help="file of what was measured")
    parser.add_argument("--output", help="file of the picture")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    ignore_fit_warnings()
    warnings.filterwarnings("ignore", "Sending large graph")  # The table was made here.
    numba.set_num_threads(1)
    print_heads("quantity | what | sizes | milliseconds | slope | promised")
    with threadpool_limits(1):
        results = measure_all(arguments.only, arguments.quick)
    if "rows" in results:
        on_paper(results)
    if arguments.results:
        results = save(results, arguments.results)
    if arguments.output:
        draw(results).savefig(arguments.output, dpi=120)


if __name__ == "__main__":
    main()
