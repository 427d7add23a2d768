"""A table of sixty records whose first one is as long as they may be, records to replace it, and a model."""

import numpy as np

from skdpbayes import DPBayesianLogisticRegression

N = 60
rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, (N, 2))
X[0] = 1.0, 0.0
Y = np.arange(N) % 2
Y[0] = 1
FAR, ACROSS = np.array([-1.0, 0.0]), np.array([0.0, 1.0])
# The opposite row with the same label, the same row with the other one, and a row longer than they may be.
RECORDS = [(-X[0], 1), (X[0], 0), (30.0 * ACROSS, 0)]


def logistic(sampler="auto", **options):
    """A small model that knows what is public."""
    known = {"data_norm": 1.0, "classes": [0, 1], "n_draws": 5, **options}
    return DPBayesianLogisticRegression(2.0, sampler=sampler, **known)
