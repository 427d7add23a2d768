"""Synthetic rows by SmartNoise's AIM and MST, then scikit-learn's model; and sums of AIM's marginals.

The last is DD-SSP of C. Ferrando and D. Sheldon, "Private regression via data-dependent sufficient
statistic perturbation", 2024: AIM's model says what the counts of each pair of columns are, and

    sum of x_a x_b = sum over cells of value_a value_b count(a, b)

so that least squares, or a quadratic in place of the logistic loss, needs no synthetic rows at all.

Columns are cut into bins of equal width by their public bounds, and stand for the middles of these;
those within [0, 1] are indicators with two values. SmartNoise's default is ten bins. Rows are drawn
from the fitted model here, one column given those that it depends on: the sampler of mbi 1.1.0, which
SmartNoise 1.0.8 asks for, ties columns together that are independent (repaired in mbi 2.0.0, with which
SmartNoise does not run).
"""

import contextlib
import io

import numpy as np
import pandas as pd
from mbi import Dataset, junction_tree, marginal_oracles
from protocol import serve
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression
from snsynth.aim import AIMSynthesizer
from snsynth.mst import MSTSynthesizer
from snsynth.transform.identity import IdentityTransformer
from snsynth.transform.table import TableTransformer

# What logits are taken to lie within, and the parabola that is fitted to the logistic loss there.
LOGIT_RANGE = 4.0
# Of the ridge that keeps sums invertible, of the number of rows.
RIDGE = 1e-6


class Levels(IdentityTransformer):
    """A column of integers from 0, of which there are so many."""

    def __init__(self, n_levels):
        super().__init__()
        self.n_levels = n_levels

    @property
    def cardinality(self):
        """How many there are."""
        return [self.n_levels]


class Bins:
    """Bins of rows with public bounds.

    Parameters
    ----------
    lower, upper : ndarray of shape (d,)
    n_bins : int
    is_indicator : ndarray of bool
    """

    def __init__(self, lower, upper, n_bins, is_indicator):
        self.lower, self.upper, self.is_indicator = lower, upper, is_indicator
        self.n_bins = np.where(is_indicator, 2, n_bins)

    def numbers(self, rows):
        """Return the bin of each value."""
        shares = (rows - self.lower) / (self.upper - self.lower)
        cut = np.floor(shares * self.n_bins).astype(int)
        return np.clip(cut, 0, self.n_bins - 1)

    def values(self, column):
        """Return what the bins of a column stand for."""
        low, high, n_bins = self.lower[column], self.upper[column], self.n_bins[column]
        if self.is_indicator[column]:
            return np.array([low, high])
        return low + (np.arange(n_bins) + 0.5) / n_bins * (high - low)

    def rows(self, numbers):
        """Return the values of rows of bins."""
        return np.column_stack(
            [self.values(column)[numbers[:, column]] for column in range(len(self.n_bins))]
        )


def table_of(arrays, n_bins):
    """Return (bins, their numbers) of rows and responses, the latter as the last column."""
    lower, upper, y = arrays["lower"], arrays["upper"], arrays["y"]
    is_indicator = (lower == 0.0) & (upper == 1.0)
    if "bound" in arrays:
        low, high, n_classes = -float(arrays["bound"]), float(arrays["bound"]), 0
    else:
        n_classes = int(arrays["n_classes"])
        low, high = 0.0, n_classes - 1.0
    is_indicator = np.append(is_indicator, n_classes == 2)
    bins = Bins(np.append(lower, low), np.append(upper, high), n_bins, is_indicator)
    if n_classes:
        bins.n_bins[-1] = n_classes
    numbers = bins.numbers(np.column_stack([arrays["X"], y]))
    if n_classes:
        numbers[:, -1] = y
    return bins, numbers


def synthesizer(kind, arrays, seed, options):
    """Return (bins, fitted synthesizer)."""
    # It chooses pairs and rows by this generator; its noise has no seed.
    np.random.seed(seed)  # noqa: NPY002
    bins, numbers = table_of(arrays, options["bins"])
    columns = [f"c{place}" for place in range(numbers.shape[1])]
    transformer = TableTransformer([Levels(int(count)) for count in bins.n_bins])
    chosen = {name: options[name] for name in ("max_model_size",) if name in options}
    model = kind(epsilon=options["epsilon"], delta=options["delta"], **chosen)
    with contextlib.redirect_stdout(io.StringIO()):
        model.fit(
            pd.DataFrame(numbers, columns=columns),
            transformer=transformer,
            categorical_columns=columns,
        )
    return bins, model


def draw(model, n_rows, seed):
    """Return rows of numbers of bins from the graphical model of a synthesizer."""
    graph, rng, drawn = model.synthesizer, np.random.default_rng(seed), {}
    tree, order = junction_tree.make_junction_tree(
        graph.domain, [set(one) for one in graph.cliques]
    )
    marginals = marginal_oracles.message_passing_stable(graph.potentials.expand(list(tree.nodes)))
    for column in order[::-1]:
        near = set().union(*(clique for clique in tree.nodes if column in clique))
        given = tuple(name for name in drawn if name in near)
        counts = marginals.project((*given, column)).datavector(flatten=False)
        chances = np.cumsum(np.asarray(counts, dtype=float), axis=-1)
        of_rows = chances[tuple(drawn[name] for name in given)]
        # A share of the last entry, which is the sum.
        places = rng.random(n_rows) * of_rows[..., -1]
        drawn[column] = (of_rows <= places[:, None]).sum(axis=1).clip(max=chances.shape[-1] - 1)
    rows = Dataset(pd.DataFrame(drawn), graph.domain)
    if isinstance(model, MSTSynthesizer):  # It merges rare bins.
        rows = model.undo_compress_fn(rows)
    return rows.df[[f"col{place}" for place in range(len(drawn))]].to_numpy(dtype=int)


def with_constant(rows):
    """Return rows with a last column of ones."""
    return np.column_stack([rows, np.ones(len(rows))])


def synthetic(kind):
    """Return a method: synthetic rows, as many as there are, then scikit-learn's model."""

    def run(arrays, seed, options):
        bins, model = synthesizer(kind, arrays, seed, options)
        drawn = draw(model, len(arrays["X"]), seed)
        rows = bins.rows(drawn)
        if "bound" in arrays:
            found = LinearRegression().fit(rows[:, :-1], rows[:, -1])
            return {"predictions": found.predict(arrays["X_test"])}
        n_classes = int(arrays["n_classes"])
        probabilities = np.zeros((len(arrays["X_test"]), n_classes))
        present = np.unique(drawn[:, -1])
        if len(present) == 1:
            probabilities[:, present] = 1.0
        else:
            found = LogisticRegression(C=100.0, max_iter=2_000).fit(rows[:, :-1], drawn[:, -1])
            probabilities[:, present] = found.predict_proba(arrays["X_test"])
        return {"probabilities": probabilities}

    return run


def sums_of(bins, model):
    """Return the sums of products of all pairs of columns, a constant one last, by AIM's marginals."""
    d, graph = len(bins.n_bins), model.synthesizer
    sums = np.zeros((d + 1, d + 1))
    for a in range(d):
        counts = np.asarray(graph.project((f"col{a}",)).datavector())
        values = bins.values(a)
        sums[a, a], sums[a, d] = counts @ values**2, counts @ values
        for b in range(a + 1, d):
            counts = np.asarray(graph.project((f"col{a}", f"col{b}")).datavector(flatten=False))
            sums[a, b] = values @ counts @ bins.values(b)
    sums[d, d] = counts.sum()
    return sums + np.triu(sums, 1).T


def data_dependent_sums(arrays, seed, options):
    """DD-SSP: least squares by these sums, or a logistic loss that a parabola stands for.

    log(1 + exp(-t)) ~ c_0 + c_1 t + c_2 t^2 by Chebyshev points within the range of logits, so that with
    labels of -1 and 1, c_1 sum y x + 2 c_2 sum x x^T theta = 0. The authors' code has a range of 6 and is
    judged by ranks alone; with that, probabilities are too extreme.
    """
    bins, model = synthesizer(AIMSynthesizer, arrays, seed, options)
    if "bound" not in arrays and int(arrays["n_classes"]) > 2:
        raise ValueError("two classes only")
    if "bound" not in arrays:
        bins.lower[-1], bins.upper[-1] = -1.0, 1.0
    sums = sums_of(bins, model)
    d = len(bins.n_bins) - 1
    kept = [*range(d), d + 1]
    moment, products = sums[np.ix_(kept, kept)], sums[kept, d]
    moment = moment + RIDGE * len(arrays["X"]) * np.eye(d + 1)
    theta = np.linalg.solve(moment, products)
    if "bound" in arrays:
        return {"predictions": with_constant(arrays["X_test"]) @ theta}
    parabola = np.polynomial.chebyshev.Chebyshev.interpolate(
        lambda t: np.logaddexp(0.0, -t), 2, [-LOGIT_RANGE, LOGIT_RANGE]
    ).convert(kind=np.polynomial.Polynomial)
    _, slope, curve = parabola.coef
    shares = expit(with_constant(arrays["X_test"]) @ (-slope / (2.0 * curve) * theta))
    return {"probabilities": np.column_stack([1.0 - shares, shares])}


if __name__ == "__main__":
    serve(
        {
            "aim": synthetic(AIMSynthesizer),
            "mst": synthetic(MSTSynthesizer),
            "sums": data_dependent_sums,
        }
    )
