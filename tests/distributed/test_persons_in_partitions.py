"""Persons whose rows lie in several partitions: the rows that memory would keep, and no more of anyone."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from references import configured

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor
from skdpbayes._data.privacy_units import choose_rows, number_persons
from skdpbayes.exceptions import ChangedRowsError
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

from skdpbayes._data.privacy_units import choose_in_parts

N, PERSONS = 4_000, 900
SECRET = "Jane Doe 987654321"
ADDED = {"neighboring_relation": "add_or_remove_one", "public_size": 900}


@pytest.fixture(scope="module")
def table():
    """Rows, labels and persons, who have between one and some ten rows, anywhere."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-X @ [1.0, -1.0, 0.5, 0.0])), "yes", "no")
    return X, y, rng.integers(0, PERSONS, N)


def parts(*columns, rows=700):
    return [da.from_array(c, chunks=(rows, *c.shape[1:])) for c in columns]


def chosen(groups, k, seed, client=None):
    """Return the number of persons, and which rows are kept, of columns that stand for partitions."""
    blocks = [da.from_delayed(dask.delayed(g), (len(g),), dtype=g.dtype) for g in groups]
    X = da.zeros((sum(map(len, groups)), 1), chunks=(tuple(map(len, groups)), 1))
    found = choose_in_parts(da.concatenate(blocks), X, k, seed, client)
    kept = [np.unpackbits(p, count=len(g)) for p, g in zip(found.kept, groups, strict=True)]
    return found.n_persons, np.flatnonzero(np.concatenate(kept))


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("as_label", [int, "person {}".format, float], ids=["int", "str", "float"])
def test_rows_are_chosen_as_in_memory(table, k, as_label):
    groups = np.array([as_label(person) for person in table[2]])
    persons = number_persons(groups, N)
    expected = choose_rows(persons, k, 7)
    n_persons, kept = chosen(np.split(groups, [0, 1, 1_000, 1_500, 3_999]), k, 7)
    assert n_persons == persons.max() + 1
    np.testing.assert_array_equal(kept, expected)
    assert np.bincount(persons[kept]).max() == k


def test_persons_are_the_same_whatever_types_their_partitions_have(table):
    numbers = np.split(table[2], 4)
    types = [np.int16, np.float32, object, np.uint64]
    mixed = [part.astype(kind) for part, kind in zip(numbers, types, strict=True)]
    assert chosen(mixed, 2, 0)[0] == chosen(numbers, 2, 0)[0]
    np.testing.assert_array_equal(chosen(mixed, 2, 0)[1], chosen(numbers, 2, 0)[1])
    texts = [
        np.array(["a", "b\0"]),
        np.array(["b", "a\0"], object),
        np.array(["\ud800", "a"], object),
    ]
    assert chosen(texts, 1, 0)[0] == 3


FITS = [
    ({"max_rows_per_group": 1}, False),
    ({"max_rows_per_group": 3}, True),
    ({"max_rows_per_group": 3, **ADDED}, False),
    ({"max_rows_per_group": 2, "sampler": "sgld", "n_steps": 40, "n_draws": 20}, False),
    (
        {"max_rows_per_group": 2, "class_weight": {"yes": 0.5, "no": 1.0}, "data_norm": "auto"},
        False,
    ),
]


@pytest.mark.daily(1)
@pytest.mark.parametrize("options, on_cluster", FITS, ids=str)
def test_draws_are_those_in_memory(table, client, options, on_cluster):
    X, y, groups = table
    clf = configured(DPBayesianLogisticRegression(random_state=0, n_draws=20), **options)
    here = clf.fit(X, y, groups=groups)
    draws, cost, n_samples = here.posterior_samples_, here.spent_epsilon_, here.plan_.n_samples
    X, y, groups = parts(X, y, groups)
    clf.fit(X, y, groups=groups, client=client if on_cluster else None)
    np.testing.assert_array_equal(clf.posterior_samples_, draws)
    assert (clf.spent_epsilon_, clf.plan_.n_samples) == (cost, n_samples)


@pytest.mark.nightly
def test_draws_of_counts_mixtures_and_sparse_rows_are_those_in_memory(table, client):
    X, y, groups = table
    weights = np.abs(X[:, 0])
    counts = DPBayesianPoissonRegressor(max_count=1, max_rows_per_group=2, random_state=0)
    mixture = DPGaussianMixturePosterior(2, epsilon=3.0, max_rows_per_group=2, random_state=0)
    clf = DPBayesianLogisticRegression(max_rows_per_group=2, random_state=0)
    rows, labels, persons, weighing = parts(X, y, groups, weights)
    responses = (X[:, 1] > 0).astype(float)
    here = counts.fit(X, responses, sample_weight=weights, groups=groups).posterior_samples_
    there = counts.fit(
        rows, *parts(responses), sample_weight=weighing, groups=persons
    ).posterior_samples_
    np.testing.assert_array_equal(here, there)
    here = mixture.fit(X, groups=groups).posterior_samples_
    there = mixture.fit(rows, groups=persons, client=client).posterior_samples_
    for mine, theirs in zip(here, there, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    thin = np.where(np.abs(X) > 1.0, X, 0.0)
    here = clf.fit(sp.csr_matrix(thin), y, groups=groups).posterior_samples_
    thin = da.from_array(thin, chunks=(700, -1)).map_blocks(sp.csr_matrix)
    there = clf.fit(thin, labels, groups=persons).posterior_samples_
    np.testing.assert_array_equal(here, there)


def people_of(table):
    X, y, groups = table
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=y)
    return frame.assign(person=[f"person {one}" for one in groups])


def pipeline(k):
    return make_private_pipeline(
        DPQuantileScaler(random_state=0),
        DPBayesianLogisticRegression(classes=["no", "yes"], random_state=3),
        epsilon=2.0,
        max_rows_per_group=k,
    )


@pytest.mark.daily(1)
@pytest.mark.parametrize("on_cluster", [False, True])
def test_pipelines_protect_persons(table, client, on_cluster):
    """If nobody has more rows than are kept, what is chosen at random is known."""
    frame = people_of(table).groupby("person").head(2).reset_index(drop=True)
    lazy = dd.from_pandas(frame, npartitions=3, sort=False)
    columns = list("abcd")
    here = pipeline(2).fit(frame[columns], frame["label"], groups=frame["person"])
    with PrivacyLedger(2.0, 1e-3, "replace_one_person", allow_seeds=True) as ledger:
        if on_cluster:
            with client.as_current():
                there = pipeline(2).fit(lazy[columns], lazy["label"], groups=lazy["person"])
        else:
            there = pipeline(2).fit(lazy[columns], lazy["label"], groups=lazy["person"])
    assert len(ledger.records()) == 1
    np.testing.assert_array_equal(here[-1].posterior_samples_, there[-1].posterior_samples_)
    assert here.spent_epsilon_ == there.spent_epsilon_
    assert there.plan_ == here.plan_


def test_all_steps_of_a_pipeline_read_the_same_rows_of_a_person(table, monkeypatch):
    """One person has nearly all rows, and lives where nobody else does."""
    frame = people_of(table)
    frame["person"] = np.where(np.arange(N) < 300, frame["person"], "everywhere")
    frame["region"] = np.where(np.arange(N) < 300, "north", "south")
    lazy, seen = dd.from_pandas(frame, npartitions=3, sort=False), []
    fit = DPOneHotEncoder.fit

    def noting(self, X, y=None):
        seen.append(X)
        return fit(self, X, y)

    monkeypatch.setattr(DPOneHotEncoder, "fit", noting)
    model = make_private_pipeline(
        DPOneHotEncoder(random_state=0),
        DPBayesianLogisticRegression(classes=["no", "yes"], data_norm=1.0, random_state=0),
        epsilon=5.0,
        max_rows_per_group=3,
    ).fit(lazy[["region"]], lazy["label"], groups=lazy["person"])
    rows = seen[-1].compute()["region"].value_counts()
    assert rows["south"] == 3 and 250 < rows["north"] <= 300
    assert model.plan_.n_samples == model.privacy_plan(frame["person"].nunique(), 1).n_samples


# What is refused, before anything is spent


def refused(table, client, spoil, kind=ValueError):
    """Return the message by which a fit on a cluster refuses persons, which quotes none."""
    frame = people_of(table)
    lazy = dd.from_pandas(frame, npartitions=3, sort=False)
    clf = DPBayesianLogisticRegression(classes=["no", "yes"], max_rows_per_group=2, random_state=0)
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5, allow_seeds=True)
    with ledger, pytest.raises(kind) as caught:
        clf.fit(lazy[list("abcd")], lazy["label"], groups=spoil(lazy), client=client)
    assert ledger.spent_epsilon == 0.0
    assert SECRET not in "".join(map(str, (caught.value, caught.value.__cause__)))
    assert SECRET not in str(client.get_worker_logs())
    return str(caught.value)


def last(value):
    """Return a function that puts a value into the last row of the last partition."""

    def of(part):
        part = part.astype(object)
        if 3_999 in part.index:
            part.loc[3_999] = value
        return part

    return lambda lazy: lazy["person"].map_partitions(of, meta=("person", object))


def test_groups_that_are_no_labels_are_refused_and_not_quoted(table, client):
    assert "missing values" in refused(table, client, last(None))
    assert "no order" in refused(table, client, last(987654321))
    for label in ((SECRET,), [SECRET], 0.987654321, pd.Timestamp("2020-01-01")):
        assert "text or whole numbers" in refused(table, client, last(label))
    dates = lambda lazy: dd.to_datetime(lazy["a"] * 1e18)  # noqa: E731
    assert "text or whole numbers" in refused(table, client, dates)
    assert "partitions of X" in refused(table, client, lambda lazy: lazy["person"].partitions[:2])


def test_groups_in_memory_are_refused_as_they_are_for_rows_in_memory(table):
    """Their parts alone would not tell that the whole has gaps, two kinds of labels, or a mask."""
    X, y, _ = parts(*table)
    n = X.shape[0]
    texts = [f"p{i % 50}" for i in range(n)]
    clf = DPBayesianLogisticRegression(classes=["no", "yes"], max_rows_per_group=2)
    for groups, expected in (
        ([*texts[:-1], float("nan")], "missing values"),
        ([*range(n - 1), "7"], "no order"),
        (np.ma.masked_less(np.arange(n), 5), "mask"),
        (texts[:-1], "partitions of X"),
    ):
        with pytest.raises((TypeError, ValueError), match=expected):
            clf.fit(X, y, groups=groups)


@pytest.mark.parametrize("kind, number", [(np.float64, 2**53), (np.float32, 2**24)])
def test_floats_that_are_several_whole_numbers_are_no_labels(table, kind, number):
    """In one partition they would be equal to whole numbers that differ in another."""
    X, y, _ = parts(*table)
    labels = da.ones_like(X[:, 0]).astype(kind)
    clf = DPBayesianLogisticRegression(classes=["no", "yes"], max_rows_per_group=2, random_state=0)
    with pytest.raises(ValueError, match="text or whole numbers"):
        clf.fit(X, y, groups=labels * kind(number))
    clf.fit(X, y, groups=(labels * kind(number - 1)))


def shorter(part):
    return part.iloc[1:]


def reversed_rows(part):
    return part.iloc[::-1]


def test_groups_of_other_rows_are_refused(table, client):
    def of(change):
        return lambda lazy: lazy["person"].map_partitions(change)

    assert "inconsistent numbers" in refused(table, client, of(shorter))
    assert "another index than X" in refused(table, client, of(reversed_rows))


def test_groups_and_a_limit_belong_together(table):
    X, y, groups = parts(*table)
    with pytest.raises(ValueError, match="max_rows_per_group is None"):
        DPBayesianLogisticRegression().fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="needs to know the person"):
        DPBayesianLogisticRegression(max_rows_per_group=2).fit(X, y)
    scaled = make_private_pipeline(
        BoundedScaler(-3, 3), DPBayesianLogisticRegression(), max_rows_per_group=1
    )
    with pytest.raises(ValueError, match="needs to know the person"):
        scaled.fit(X, y)


@pytest.mark.parametrize("on_cluster", [False, True])
def test_persons_that_change_between_the_choice_and_the_rows_end_the_fit(table, client, on_cluster):
    X, y, _ = parts(*table)

    def drawn_anew(n):
        return np.random.default_rng().integers(0, PERSONS, n)

    drawn = [
        da.from_delayed(dask.delayed(drawn_anew, pure=False)(n), (n,), int) for n in X.chunks[0]
    ]
    clf = DPBayesianLogisticRegression(classes=["no", "yes"], max_rows_per_group=2, random_state=0)
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5, allow_seeds=True)
    with ledger, pytest.raises(ChangedRowsError, match="with other groups"):
        clf.fit(X, y, groups=da.concatenate(drawn), client=client if on_cluster else None)
    assert ledger.spent_epsilon == 0.0
