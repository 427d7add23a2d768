"""The peers: what runs each, what it guarantees, and which options a user might try.

Budgets are (epsilon, delta = 1e-5) for all; a peer that is purely private does with delta = 0, and one
that takes mu is given the mu that is worth the same. Replacing a record is the stronger relation: what
is epsilon-private under adding or removing one may be no more than 2 epsilon-private under replacing
one. This package is asked under both, so that each peer can be compared at its own; under adding or
removing, the number of rows that it is told is that of the training rows.

Grids are what "tuned" means: the option with the best score on other splits or tables, a choice that is
not paid for. This package is never tuned.
"""

import itertools
from typing import NamedTuple


class Peer(NamedTuple):
    """One method.

    Attributes
    ----------
    name : str
    runner : str
        The environment, and the file ``run_{runner}.py``.
    method : str
        Of that file.
    guarantee : str
        Relation, pure or approximate, and what else is assumed, apart by semicolons.
    options : dict
    grid : tuple of dict
        Options to tune; empty for none.
    is_private : bool
    is_slow : bool
        Asked once, on the first split at epsilon 1.
    """

    name: str
    runner: str
    method: str
    guarantee: str
    options: dict = {}
    grid: tuple = ()
    is_private: bool = True
    is_slow: bool = False

    @property
    def relation(self):
        """What the guarantee begins with."""
        return self.guarantee.partition(";")[0]


def grid(**values):
    """Return a dict for each combination of options."""
    return tuple(
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    )


OURS = "replace one; (epsilon, delta); bounds and number of rows public"
OURS_ADDED = "add or remove one; (epsilon, delta); bounds and number of rows public"
NONE = "none"
DPSGD = "add or remove one; (epsilon, delta) by the PRV accountant; number of rows public"
EBM = "add or remove one; (epsilon, delta); bounds and number of rows public"
WRITTEN = "replace one; (epsilon, delta); bounds public; written from the paper"
PURE = "replace one; by its sensitivities, as it names no relation; pure epsilon; bounds public"
ADDED = "add or remove one; (epsilon, delta); bounds public; written from the paper"
TUKEY = "replace one; (epsilon, delta); number of rows public; may abstain; written from the paper"
SYNTHETIC = (
    "add or remove one; (epsilon, delta) by zCDP; bounds and number of rows public; ten bins"
)
KMEANS = "relation not named; pure epsilon; knows the range of the centres"

ADD_OR_REMOVE = {"neighboring_relation": "add_or_remove_one"}
SYNTHESIZERS = (
    Peer("MST, then a model", "smartnoise", "mst", SYNTHETIC, {"bins": 10}, is_slow=True),
    Peer("AIM, then a model", "smartnoise", "aim", SYNTHETIC, {"bins": 10}, is_slow=True),
    Peer("DD-SSP", "smartnoise", "sums", SYNTHETIC, {"bins": 10}, is_slow=True),
)
CLASSIFIERS = (
    Peer("without privacy", "skdpbayes", "logistic_public", NONE, is_private=False),
    Peer("skdpbayes", "skdpbayes", "logistic", OURS),
    Peer("skdpbayes, add or remove", "skdpbayes", "logistic", OURS_ADDED, ADD_OR_REMOVE),
    Peer(
        "diffprivlib", "diffprivlib", "logistic", PURE, {"C": 1.0}, grid(C=[1e-3, 1e-2, 0.1, 10.0])
    ),
    Peer("DP-EBM", "interpret", "logistic", EBM + "; two classes only"),
    Peer(
        "Opacus",
        "opacus",
        "logistic",
        DPSGD,
        {"rate": 0.02, "epochs": 10, "learning_rate": 0.5, "clip": 1.0},
        grid(epochs=[5, 20], learning_rate=[0.2, 1.0, 4.0]),
    ),
    Peer(
        "JAX",
        "jax",
        "logistic",
        "replace one; (epsilon, delta); bounds and number of rows public; written by hand",
        {"n_steps": 100, "step": 1.0},
        grid(n_steps=[30, 300], step=[0.3, 3.0, 10.0]),
    ),
    Peer("objective perturbation, 2012", "written", "objective_perturbation", ADDED),
    Peer(
        "objective perturbation, 2023",
        "written",
        "objective_perturbation",
        ADDED,
        {"share": 0.2},
        grid(share=[0.05, 0.1, 0.3, 0.5]),
    ),
    Peer(
        "random trees",
        "written",
        "random_trees",
        ADDED,
        {"n_trees": 50, "depth": 2},
        grid(n_trees=[50, 200], depth=[2, 4]),
    ),
    *SYNTHESIZERS[:-1],
    SYNTHESIZERS[-1]._replace(guarantee=SYNTHETIC + "; two classes only"),
)
REGRESSORS = (
    Peer("least squares", "skdpbayes", "linear_public", NONE, is_private=False),
    Peer("skdpbayes", "skdpbayes", "linear", OURS),
    Peer("skdpbayes, add or remove", "skdpbayes", "linear", OURS_ADDED, ADD_OR_REMOVE),
    Peer("AdaSSP", "skdpbayes", "ada_ssp", WRITTEN),
    Peer("diffprivlib", "diffprivlib", "linear", PURE),
    Peer("DP-EBM", "interpret", "linear", EBM),
    Peer(
        "boosted AdaSSP",
        "written",
        "boosted_ada_ssp",
        WRITTEN,
        {"n_rounds": 100, "power": 0.5, "clip": 0.25},
        grid(n_rounds=[10, 100], power=[0.0, 0.5, 1.0], clip=[0.125, 0.25, 1.0]),
    ),
    Peer("TukeyEM", "written", "tukey", TUKEY),
    Peer(
        "random trees",
        "written",
        "random_trees_of_numbers",
        ADDED,
        {"n_trees": 50, "depth": 2},
        grid(n_trees=[50, 200], depth=[2, 4]),
    ),
    *SYNTHESIZERS,
    Peer(
        "BinAgg",
        "binagg",
        "linear",
        "add or remove one; mu-GDP; bounds public; uses the exact number of rows",
        {"intercept": True},
    ),
)
WITH_INTERVALS = (
    REGRESSORS[1]._replace(options={"intercept": False}),
    REGRESSORS[-1]._replace(options={"intercept": False}),
    Peer("parametric bootstrap", "skdpbayes", "bootstrap", WRITTEN),
)
PRIVATE_KMEANS = Peer("private k-means", "diffprivlib", "clusters", KMEANS)
CLUSTERINGS = (
    Peer("without privacy", "skdpbayes", "mixture_public", NONE, is_private=False),
    Peer("skdpbayes", "skdpbayes", "mixture", OURS),
    PRIVATE_KMEANS,
)
DENSITIES = (
    *(peer._replace(options={"covariance_type": "full"}) for peer in CLUSTERINGS[:2]),
    Peer("noisy moments", "skdpbayes", "noisy_moments", WRITTEN),
)
NETWORKS = (
    Peer("without privacy", "skdpbayes", "network_public", NONE, is_private=False),
    Peer("skdpbayes", "skdpbayes", "network", OURS),
    Peer(
        "Opacus",
        "opacus",
        "network",
        DPSGD,
        {"rate": 0.02, "epochs": 10, "learning_rate": 0.5, "clip": 1.0, "momentum": 0.9},
    ),
)
