"""What `benchmarks.tools` gives to tools: made-up rows, private estimators, and the words of its table."""

import numpy as np
from sklearn.model_selection import KFold

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.metrics import make_private_scorer

HOLDS, ADDS = "holds", "holds; fits add up"
FITS = "of the fits only: "
NO = "none: "
AUTO = "DPRandomizedSearchCV"

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 4)).clip(-3, 3)
y = (X[:, 0] + 0.5 * rng.normal(size=600) > 0.5).astype(int)
three = np.digitize(X[:, 0], [-0.5, 0.5])
both = np.column_stack([y, X[:, 1] > 0]).astype(int)
few = np.where(np.arange(600) < 200, y, -1)
group = (X[:, 1] > 0).astype(int)
folds = KFold(3, shuffle=True, random_state=0)


def model(epsilon=1.0, classes=(0, 1)):
    """Return a private classifier."""
    return DPBayesianLogisticRegression(epsilon, delta=1e-5, classes=list(classes), data_norm=3.0)


def frame():
    """Return the rows as a data frame."""
    import pandas as pd

    return pd.DataFrame(X, columns=list("abcd")).assign(kind=np.where(group, "u", "v"))


def scorer():
    """Return a private scorer."""
    return make_private_scorer("accuracy", epsilon=0.5)
