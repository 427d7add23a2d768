"""``warm-up``: compile code ahead of time, so that the first fits need not wait.

Every fit below is of a small synthetic table, and its compiled code serves tables of any size. The table is
just large enough to use several cores, for which separate code is compiled.
"""

import math
import time
import warnings

import numpy as np
from sklearn.base import clone

from ..samplers import cache_folder
from ..samplers._registry import samplers_by_name
from ..samplers.auto import CHAINS, Auto
from ._estimators import ESTIMATORS

_SHAPE = (6000, 60)
_N_STEPS = 20


def _usual():
    """Yield (name of the estimator, number of classes, parameters) of the most common fits."""
    # The posterior given statistics is the default for few coefficients; what compiles is their sums.
    yield "logistic", 2, {}
    yield "ridge", 2, {"target_bounds": (0.0, 1.0)}
    for kind in CHAINS:
        for n_classes in (2, 3):
            yield "logistic", n_classes, {"sampler": kind(n_steps=_N_STEPS)}
        # Labels 0 and 1 are counts, too.
        yield "poisson", 2, {"sampler": kind(n_steps=_N_STEPS), "max_count": 1}
    for shape in ("diag", "full"):
        yield "mixture", 0, {"covariance_type": shape}
    yield "network", 2, {"hidden_layer_sizes": (8,), "sampler__n_steps": _N_STEPS}


def _others():
    """Yield the same for all other samplers, for more classes, and for batches."""
    compiled = [
        kind
        for kind in samplers_by_name().values()
        if kind is not Auto and kind.mechanism != "statistics"
    ]
    for kind in compiled:
        short = kind(n_steps=_N_STEPS)
        if kind not in CHAINS and "linear" in kind.targets:
            for n_classes in (2, 3):
                yield "logistic", n_classes, {"sampler": short}
        if "network" in kind.targets:
            yield "logistic", 2, {"sampler": clone(short).set_params(batch_size=100)}
            yield "network", 2, {"sampler": short}
        if "mixture" in kind.targets:
            for shape in ("diag", "full"):
                kinds = {"sampler": short, "covariance_type": shape}
                yield "mixture", 0, {"epsilon": math.inf, **kinds}


def warm_up(names, everything):
    """Compile the code for fits of some estimators, and print how long each takes."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal(_SHAPE)  # Public: rows that are made up.
    begun = time.perf_counter()
    for name, n_classes, parameters in [*_usual(), *(_others() if everything else ())]:
        if name not in names:
            continue
        # Mixtures do not need many columns.
        table = X[:, :3].copy() if name == "mixture" else X
        # Public: labels that are made up.
        y = generator.integers(n_classes, size=len(X)) if n_classes else None
        started = time.perf_counter()
        ESTIMATORS[name](n_draws=5).set_params(**parameters).fit(table, y)
        shown = ", ".join(f"{key}={value!r}" for key, value in parameters.items()) or "defaults"
        classes = f", {n_classes} classes" if n_classes > 2 else ""
        print(f"{name} ({shown}{classes}): {time.perf_counter() - started:.1f} s", flush=True)
    print(
        f"{time.perf_counter() - begun:.0f} s in total; compiled code is stored in {cache_folder()}"
    )


def add_arguments(parser):
    """Add this command's arguments."""
    parser.add_argument(
        "--estimators",
        nargs="+",
        choices=tuple(ESTIMATORS),
        default=tuple(ESTIMATORS),
        help="which estimators (default: all)",
    )
    parser.add_argument(
        "--all", action="store_true", help="every sampler, not only those used by default"
    )


def run(options):
    """Compile the code that the options ask for."""
    with warnings.catch_warnings(action="ignore"):
        warm_up(options.estimators, options.all)
