"""How many reservations a ledger's file takes per second, and how long composition takes over many.

    python benchmarks/ledger.py [FOLDER]

on whose disk the file is (by default that of temporary files). Reservations are those of Gaussian costs, no
two alike, by one process and by eight at once. Then the file, with 10,000 charges, is opened as another
process would: every charge is read, checked and composed, one more is reserved, and all are listed. Then the
same for costs of two kinds that compose as privacy loss distributions.
"""

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

from skdpbayes.privacy import BoundedRangeDecisions, PrivacyCost, PrivacyLedger, SampledGaussian

BUDGET = (10.0, 1e-6)


def gaussian(i):
    """Return one of many different costs."""
    return PrivacyCost("replace_one", mu=1e-3 * (1 + i * 1e-6))


def of_two_kinds(i):
    """Return the cost of a run on batches, or that of a random walk."""
    if i % 2:
        return PrivacyCost("replace_one", sampled=(SampledGaussian(300.0, 0.01, 10),))
    return PrivacyCost("replace_one", decisions=(BoundedRangeDecisions(1e-4, 10),))


def spend(path, cost, first, last):
    """Reserve costs one by one."""
    ledger = PrivacyLedger.open(path)
    for i in range(first, last):
        ledger.reserve(cost(i))


def seconds(function, *args):
    """Return how long a call takes, and what it returns."""
    started = time.perf_counter()
    result = function(*args)
    return time.perf_counter() - started, result


def by_processes(path, n_processes, n_each):
    """Spend by some processes at once."""
    workers = [
        multiprocessing.Process(target=spend, args=(path, gaussian, i * n_each, (i + 1) * n_each))
        for i in range(n_processes)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?")
    with tempfile.TemporaryDirectory(dir=parser.parse_args().folder) as folder:
        path = Path(folder, "gaussian")
        PrivacyLedger(*BUDGET, path=path)
        for n_processes, n_each in ((1, 1000), (8, 1125)):
            took, _ = seconds(by_processes, path, n_processes, n_each)
            print(
                f"{n_processes} processes: {n_processes * n_each / took:.0f} reservations per second"
            )
        show("10,000 Gaussian charges", path, gaussian)
        path = Path(folder, "mixed")
        PrivacyLedger(*BUDGET, path=path)
        took, _ = seconds(spend, path, of_two_kinds, 0, 100)
        print(f"two kinds of privacy loss distributions: {100 / took:.1f} reservations per second")
        show("100 charges of two kinds", path, of_two_kinds)


def show(name, path, cost):
    """Print how long it takes to open a file, to reserve once more, and to list everything."""
    opened, ledger = seconds(PrivacyLedger.open, path)
    reserved, _ = seconds(ledger.reserve, cost(10**6))
    listed, records = seconds(ledger.records)
    print(
        f"{name} ({len(records):,} in {path.stat().st_size / 1e6:.2f} MB): open {opened:.3f} s, "
        f"reserve {reserved:.3f} s, history {listed:.2f} s"
    )


if __name__ == "__main__":
    main()
