"""What `benchmarks.peers` shares: scores, choices, and what becomes of a peer that is not there."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.common import (
    LEAST,
    calibration_error,
    classification_scores,
    interval_scores,
    median_with_error,
    r_squared,
    symmetric_noise,
)
from benchmarks.peers import asking, environments, questions, rankings, report
from benchmarks.peers.asking import Asker, Cell, cells_of, choose, keep_fits, measure, read_fits
from benchmarks.peers.bootstrap import bootstrap_intervals
from benchmarks.peers.environments import NotInstallableError, reason_of, run_jobs
from benchmarks.peers.known import Peer, grid

RUNNER = """
import os, sys
sys.path.append({folder!r})
from protocol import serve
def double(arrays, seed, options):
    return {{"found": 2 * arrays["X"] + seed}}
def fail(arrays, seed, options):
    raise ValueError("no\\nway")
def die(arrays, seed, options):
    os._exit(3)
serve({{"double": double, "fail": fail, "die": die}})
"""


def test_certain_and_right_is_best_in_every_score():
    labels = np.array([0, 1, 2, 1])
    found = classification_scores(np.eye(3)[labels], labels)
    assert found["accuracy"] == found["AUC"] == 1.0
    assert found["log loss"] == pytest.approx(0.0, abs=1e-5)
    assert found["calibration"] == pytest.approx(0.0)


def test_certain_and_wrong_costs_a_finite_log_loss():
    found = classification_scores(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1, 0]))
    assert found["accuracy"] == found["AUC"] == 0.0
    assert found["calibration"] == pytest.approx(1.0)
    assert found["log loss"] == pytest.approx(-math.log(LEAST), rel=1e-5)


def test_calibration_compares_confidence_with_how_often_it_is_right():
    probabilities = np.tile([0.2, 0.8], (10, 1))
    assert calibration_error(probabilities, np.repeat([1, 0], [8, 2])) == pytest.approx(0.0)
    assert calibration_error(probabilities, np.repeat([1, 0], [5, 5])) == pytest.approx(0.3)
    # Two bins, both wrong by a tenth in opposite directions, do not make up for each other.
    mixed = np.vstack([probabilities, np.tile([0.4, 0.6], (10, 1))])
    labels = np.repeat([1, 0, 1, 0], [7, 3, 7, 3])
    assert calibration_error(mixed, labels) == pytest.approx(0.1)


def test_the_error_of_a_median_is_that_of_many_medians():
    rng = np.random.default_rng(0)
    medians = [median_with_error(rng.normal(size=51)) for _ in range(4_000)]
    found, stated = np.transpose(medians)
    assert np.std(found) == pytest.approx(stated.mean(), rel=0.05)
    assert median_with_error([2.0])[0] == 2.0
    assert np.isnan(median_with_error([2.0])[1]) and np.isnan(median_with_error([])[0])


def test_scores_of_numbers_and_intervals():
    responses = np.array([0.0, 1.0, 2.0])
    assert r_squared(responses, responses) == 1.0
    assert r_squared(responses, np.ones(3)) == 0.0
    found = interval_scores(np.array([0.0, 2.0]), np.array([1.0, 5.0]), np.array([0.5, 1.0]))
    assert found == {"coverage": 0.5, "width": 2.0}


def test_the_bootstraps_release_has_the_noise_of_its_sensitivity():
    """Two records at right angles, both at the bounds of rows and of responses, are farthest apart."""
    first, second = np.array([[1.0, 0.0, 1.0]]), np.array([[1.0, 0.0, -1.0]])
    moved = np.linalg.norm(first.T @ first - second.T @ second)
    rng, most = np.random.default_rng(0), 2.0 * math.sqrt(2.0)
    rows = rng.normal(size=(2, 10_000, 3))
    rows[..., :2] /= np.linalg.norm(rows[..., :2], axis=-1, keepdims=True)
    rows[..., 2] = np.sign(rows[..., 2])
    products = rows[..., :, None] * rows[..., None, :]
    differences = np.linalg.norm(products[0] - products[1], axis=(1, 2))
    assert moved == pytest.approx(most)
    assert differences.max() <= most + 1e-9
    # Any direction of unit Frobenius norm has the same deviation, so the norm is what counts.
    noise = symmetric_noise((20_000, 3, 3), 0.7, rng)
    direction = products[0, 0] - products[1, 0]
    direction /= np.linalg.norm(direction)
    assert np.std((noise * direction).sum(axis=(1, 2))) == pytest.approx(0.7, rel=0.03)


def test_bootstrap_intervals_are_the_usual_ones_where_there_is_no_noise():
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 1.0, size=(4_000, 2))
    y = X @ [0.5, -0.25] + 0.1 * rng.normal(size=4_000)
    low, high = bootstrap_intervals(X, y, 2.0, math.sqrt(2.0), 1e6, 0.95, 0)
    least, (squares,), *_ = np.linalg.lstsq(X, y, rcond=None)
    usual = 2 * 1.96 * np.sqrt(squares / 4_000 * np.diag(np.linalg.inv(X.T @ X)))
    assert (high + low) / 2 == pytest.approx(least, abs=0.1 * usual.max())
    assert high - low == pytest.approx(usual, rel=0.1)


# Peers and their environments


def test_a_job_that_fails_leaves_the_others(tmp_path, monkeypatch):
    folder = str(environments.HERE)
    (tmp_path / "run_fake.py").write_text(RUNNER.format(folder=folder))
    monkeypatch.setattr(environments, "HERE", tmp_path)
    np.savez(tmp_path / "data.npz", X=np.arange(3.0))
    jobs = [
        {
            "id": number,
            "method": method,
            "data": str(tmp_path / "data.npz"),
            "output": str(tmp_path / f"{number}.npz"),
            "seed": 1,
            "options": {},
        }
        for number, method in enumerate(("fail", "double", "die", "double"))
    ]
    answers = {}
    run_jobs(
        sys.executable, "run_fake", jobs, tmp_path, lambda one: answers.update({one["id"]: one})
    )
    assert answers[0]["error"] == "ValueError: no way"
    found, seconds = asking.read_answer(answers[1], tmp_path / "1.npz")
    assert found["found"].tolist() == [1.0, 3.0, 5.0] and seconds >= 0.0
    assert "error" in answers[2] and "error" in answers[3]


def test_a_reason_is_the_line_that_names_the_error():
    text = "Looking\nERROR: No matching distribution found for opacus\nERROR: another"
    assert reason_of(text) == "No matching distribution found for opacus"
    assert reason_of("") == "no message"


def test_a_peer_that_cannot_be_installed_is_reported_and_the_others_go_on(tmp_path, monkeypatch):
    def python_of(name, cache, sources=None):
        if name == "opacus":
            raise NotInstallableError("no such package")
        return sys.executable

    def run(python, script, jobs, folder, take):
        for job in jobs:
            np.savez(job["output"], probabilities=np.eye(2))
            take({"id": job["id"], "seconds": 0.5})

    monkeypatch.setattr(asking, "python_of", python_of)
    monkeypatch.setattr(asking, "run_jobs", run)
    told = []
    asker = Asker(tmp_path, {}, tmp_path, told.append)
    peers = [Peer(name, name, "logistic", "stated") for name in ("opacus", "jax")]
    cells = [Cell("table", 1.0, seed, asker.save(f"data{seed}", {})) for seed in range(2)]
    records = measure(
        asker,
        "question",
        peers,
        cells,
        lambda arrays, path: {"accuracy": arrays["probabilities"].sum()},
    )
    text = "\n".join(report.section("Title", "Text.", records, peers, ("accuracy", "seconds")))
    assert [record.get("accuracy") for record in records] == [None, None, 2.0, 2.0]
    assert "- opacus: not installable: no such package (2 fits; table)" in text
    assert "2.000 ± 0.000" in text and "failed" in text
    assert any("opacus: not installable" in line for line in told)


class Answers:
    """In the place of an `Asker`: every answer is the option itself, or none."""

    keep = only = None
    known, n_processes = {}, 1

    def ask(self, requests, heard=None):
        answers = [
            (None, "failed") if options.get("C") == 0.0 else ({"C": options.get("C", 5.0)}, 1.0)
            for _, _, options in requests
        ]
        for place, answer in enumerate(answers if heard else ()):
            heard(place, answer)
        return answers


def test_what_is_tuned_is_chosen_on_tables_of_its_own_and_stands_apart():
    peers = [
        Peer("ours", "skdpbayes", "logistic", ""),
        Peer("theirs", "jax", "logistic", "", {}, grid(C=[0.0, 3.0, 2.0])),
        Peer("public", "skdpbayes", "logistic", "", is_private=False),
    ]
    cells = [Cell("table", epsilon, 0, None) for epsilon in (0.1, 1.0)]
    asked = []

    def score(arrays, path):
        asked.append(path)
        return {"loss": arrays["C"]}

    tuning = [cell._replace(seed=1_000, data="apart") for cell in cells]
    chosen = choose(Answers(), peers, tuning, score, "loss")
    assert chosen == {("theirs", "table", epsilon): {"C": 2.0} for epsilon in (0.1, 1.0)}
    assert set(asked) == {"apart"}
    records = measure(Answers(), "question", peers, cells, score, tuning, "loss")
    kinds = [(record["peer"], record["is_tuned"], record["epsilon"]) for record in records]
    assert sorted(kinds) == sorted(
        [
            *(("ours", False, epsilon) for epsilon in (0.1, 1.0)),
            *(("theirs", tuned, epsilon) for epsilon in (0.1, 1.0) for tuned in (False, True)),
            ("public", False, math.inf),
        ]
    )


def test_results_in_a_file_are_not_asked_again_unless_they_failed():
    peers = [Peer("theirs", "jax", "logistic", "", {}, grid(C=[3.0, 2.0]))]
    cells = [Cell("table", 1.0, seed, None) for seed in range(3)]
    tuning = [Cell("table", 1.0, 1_000, None)]
    asker, asked, kept = Answers(), [], []
    ask = asker.ask
    asker.ask = lambda requests, heard=None: asked.append(len(requests)) or ask(requests, heard)
    asker.keep = kept.extend

    def score(arrays, path):
        return {"loss": arrays["C"]}

    def measured():
        return measure(asker, "question", peers, cells, score, tuning, "loss")

    first = measured()
    assert len(first) == len(kept) == 6 and asked == [2, 6]
    asker.known = {asking.key_of(record): record for record in first if record["seed"] < 2}
    assert sorted(map(repr, measured())) == sorted(map(repr, first))
    assert asked[2:] == [2, 2] and len(kept) == 8
    asker.known = {asking.key_of(record): record for record in first}
    measured()
    assert asked[4:] == [0, 0] and len(kept) == 8
    failed = first[0] | {"error": "failed"}
    assert Asker(None, {}, "", known=[failed, first[1]]).known.keys() == {asking.key_of(first[1])}


def test_of_a_fit_that_was_asked_for_twice_the_later_answer_counts(tmp_path):
    record = {"question": "q", "table": "t", "epsilon": math.inf, "seed": 0, "peer": "p"}
    record["is_tuned"] = False
    path = tmp_path / "kept.jsonl"
    assert read_fits(path) == []
    for loss in (0.5, 0.25):
        keep_fits(path, f"{loss}", [record | {"loss": loss}, record | {"seed": 1, "loss": 1.0}])
    keep_fits(path, "0.5", [record | {"seed": 2, "loss": 2.0}])
    assert [one["loss"] for one in read_fits(path)] == [0.25, 1.0, 2.0]
    # What another code answered is asked for again.
    assert [one["loss"] for one in read_fits(path, "0.25")] == [0.25, 1.0]


def test_rows_are_in_the_order_of_peers_and_budgets_whoever_answers_first():
    peers = [Peer(name, name, "logistic", "") for name in ("ours", "theirs")]
    records = [
        {"table": table, "peer": peer, "is_tuned": tuned, "epsilon": epsilon}
        for epsilon in (1.0, 0.1)
        for tuned in (True, False)
        for peer in ("theirs", "ours")
        for table in ("a", "b")
    ]
    found = [tuple(record.values()) for record in report.ordered(records, peers)]
    assert found[:3] == [
        ("a", "ours", False, 0.1),
        ("a", "ours", False, 1.0),
        ("a", "ours", True, 0.1),
    ]
    assert [one[0] for one in found] == ["a"] * 8 + ["b"] * 8
    assert [one[1] for one in found[:8]] == ["ours"] * 4 + ["theirs"] * 4


def fits(losses, question="real_classes", table="table", epsilon=1.0):
    """Records of methods, with a loss for each split."""
    return [
        {
            "question": question,
            "table": table,
            "epsilon": epsilon,
            "seed": seed,
            "peer": label.removesuffix(", tuned"),
            "is_tuned": label.endswith(", tuned"),
            "log loss": loss,
        }
        for label, values in losses.items()
        for seed, loss in enumerate(values)
    ]


def test_a_win_is_more_than_two_errors_of_the_difference():
    def found(losses):
        (tables,) = rankings.by_cell(fits(losses)).values()
        return rankings.outcome(tables["table"], "log loss", "skdpbayes")

    ours = [0.40, 0.42, 0.41]
    assert found({"skdpbayes": ours, "Opacus": [0.50, 0.53, 0.51]}) == "win"
    assert found({"skdpbayes": ours, "Opacus": [0.30, 0.33, 0.31]}) == "loss"
    assert found({"skdpbayes": ours, "Opacus": [0.30, 0.53, 0.41]}) == "tie"
    # The best of several others counts, but not one of a single split.
    others = {"Opacus": [0.50, 0.53, 0.51], "JAX": [0.30, 0.33, 0.31]}
    assert found({"skdpbayes": ours} | others) == "loss"
    assert found({"skdpbayes": ours, "Opacus": others["Opacus"], "DP-EBM": [0.1]}) == "win"


def test_ranks_are_among_methods_of_like_guarantees():
    losses = {"skdpbayes": [0.4, 0.4], "skdpbayes, add or remove": [0.2, 0.2]}
    losses |= {"Opacus": [0.3, 0.3], "Opacus, tuned": [0.1, 0.1], "JAX": [0.5, 0.5]}
    (tables,) = rankings.by_cell(fits(losses)).values()
    ranks = {
        name: {
            line["method"]: line["median rank"] for line in rankings.summary(of, "log loss", own)
        }
        for name, own, of in rankings.comparisons(tables)
    }
    assert ranks["all"] == {"Opacus": 1, "skdpbayes": 2, "JAX": 3}
    assert ranks["tuned, too"] == {"Opacus, tuned": 1, "Opacus": 2, "skdpbayes": 3, "JAX": 4}
    assert ranks["replace one"] == {"skdpbayes": 1, "JAX": 2}
    assert ranks["add or remove one"] == {"skdpbayes, add or remove": 1, "Opacus": 2}


def test_a_method_that_failed_is_last():
    records = fits({"skdpbayes": [0.4, 0.4], "Opacus": [9.0, 9.0]})
    for record in records[:2]:
        record.pop("log loss")
    (tables,) = rankings.by_cell(records).values()
    first, last = rankings.summary(tables, "log loss", "skdpbayes")
    assert (first["method"], last["method"], last["failed"]) == ("Opacus", "skdpbayes", 1.0)


def test_other_questions_have_means_of_shares_and_medians_of_the_rest():
    names = {"coverage": "coverage", "width": "width", "seconds": "seconds"}
    records = [
        record | dict.fromkeys(names, record["log loss"])
        for record in fits({"skdpbayes": [0.0, 0.9, 0.9]}, "coverage")
    ]
    (line,) = rankings.other_lines(records)
    assert line["coverage"] == pytest.approx(0.6) and line["width"] == 0.9
    assert line["splits"] == 3 and line["failed"] == 0


def test_who_cannot_be_installed_is_left_out_and_who_fails_is_not():
    errors = ["not installable: no package", "AbstainedError: abstained"]
    assert [rankings.is_answer({"error": error}) for error in errors] == [False, True]
    assert rankings.is_answer({"log loss": 0.4})


def test_what_is_slow_is_asked_once_and_what_is_public_without_budgets():
    cells = [Cell("table", epsilon, seed, None) for epsilon in (0.1, 1.0) for seed in (0, 1)]
    peer = Peer("theirs", "jax", "logistic", "")
    assert cells_of(peer, cells) == cells
    assert cells_of(peer._replace(is_slow=True), cells) == [Cell("table", 1.0, 0, None)]
    public = cells_of(peer._replace(is_private=False), cells)
    assert public == [Cell("table", math.inf, seed, None) for seed in (0, 1)]


def test_a_picture_has_a_curve_for_each_default(tmp_path):
    pytest.importorskip("matplotlib")
    losses = {"skdpbayes": [0.4, 0.4], "Opacus": [0.3, 0.3], "Opacus, tuned": [0.2, 0.2]}
    held_out = fits({"skdpbayes": [0.4, 0.4], "Opacus": [0.1, 0.1]}, table="wine")
    lines = list(rankings.grouped(fits(losses) + held_out, rankings.single_lines))
    assert [line["group"] for line in lines] == 3 * ["work"] + 2 * ["held_out"]
    rankings.write(tmp_path / "medians.csv", list(lines[0]), lines)
    figure = rankings.draw(rankings.load_medians(tmp_path / "medians.csv"))
    (axis,) = figure.axes
    assert len(axis.lines) == 2
    # Ours is 4/3 times the best default; what is held out is not in it.
    assert "1 tables" in axis.get_title()
    assert axis.lines[0].get_xdata()[1] == pytest.approx(4.0 / 3.0)


def test_an_answer_that_cannot_be_scored_is_a_failure_and_is_not_chosen():
    def score(arrays, path):
        if arrays["C"] == 2.0:
            raise ValueError("Input contains NaN.")
        return {"loss": arrays["C"]}

    peers = [Peer("theirs", "jax", "logistic", "", {}, grid(C=[3.0, 2.0]))]
    cell = Cell("table", 1.0, 0, None)
    assert choose(Answers(), peers, [cell], score, "loss") == {("theirs", "table", 1.0): {"C": 3.0}}
    (record,) = measure(Answers(), "question", [peers[0]._replace(grid=())], [cell], score)
    assert record["loss"] == 5.0
    found = asking.record_of({}, cell, ({"C": 2.0}, 1.0), score)
    assert found["error"] == "cannot be scored: Input contains NaN."


def test_coverage_is_a_mean_and_other_scores_are_medians():
    assert report.cell_of([1.0, 1.0, 0.4], "coverage") == "0.80 ± 0.20"
    assert report.cell_of([1.0, 1.0, 0.4], "accuracy").startswith("1.000 ± ")


def test_no_score_has_the_name_that_failures_have(tmp_path):
    assert all("error" not in scores for _, _, scores in questions.QUESTIONS.values())
    X, rng = np.linspace(-1.0, 1.0, 20)[:, None], np.random.default_rng(0)
    truth, noisy = 0.5 * X[:, 0], 0.5 * X[:, 0] + 0.1 * rng.normal(size=20)
    np.savez(tmp_path / "data.npz", X=X, y=noisy, X_test=X, y_test=truth)
    least = np.polynomial.polynomial.Polynomial.fit(X[:, 0], noisy, 1)(X[:, 0])
    off = {"predictions": truth + 3.0 * (least - truth)}
    found = questions.score_numbers(off, tmp_path / "data.npz")
    assert set(found) == {"error ratio", "R2"}
    assert found["error ratio"] == pytest.approx(3.0)


def test_columns_of_a_table_are_as_wide_as_their_widest_cell():
    lines = report.simple_table(["a", "bb"], [["ccc", ""], ["\\", "d"]])
    assert lines == ["===  ==", "a    bb", "===  ==", "ccc  --", "\\    d", "===  =="]
