"""``thinstream train --labels``: labels in a file of their own."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import thinstream as ts

N = 120


@pytest.fixture
def files(there):
    """Rows and labels, each label a little later than its row; some have no row, some come twice."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N, 3)).round(2)
    y = np.where(X[:, 0] + X[:, 1] > 0, "spam", "ham")
    rows = [{"mail": f"m{k}", "at": k, "a": a, "b": b, "c": c} for k, (a, b, c) in enumerate(X.tolist())]
    order = np.argsort(np.arange(N) + rng.integers(0, 20, N), kind="stable").tolist()
    labels = [{"mail": f"m{k}", "at": n + 20, "label": str(y[k])} for n, k in enumerate(order)]
    labels.insert(50, {"mail": "nobody", "at": labels[50]["at"], "label": "spam"})
    labels.insert(60, {**labels[3], "at": labels[60]["at"]})
    for name, told in (("rows", rows), ("labels", labels)):
        Path(f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in told))
        with open(f"{name}.csv", "w", newline="") as file:
            out = csv.DictWriter(file, list(told[0]))
            out.writeheader()
            out.writerows(told)
    Path("together.jsonl").write_text("".join(json.dumps({**rows[k], "label": str(y[k])}) + "\n" for k in order))
    return rows, labels


COMMON = ["--id", "mail", "--classes", "ham,spam", "-a", "arow"]


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_without_times_all_rows_wait_first(files, thin, ending):
    said = thin("train", f"rows.{ending}", "--labels", f"labels.{ending}", *COMMON, "--ignore", "at", "-m", "m.ts")
    assert "120 learned, 1 unknown, 1 repeated; 0 of 120 rows still wait for their label" in said
    assert "1 labels are unknown, no row has these ids: nobody" in said.errors
    assert "1 labels are repeated" in said.errors
    thin("train", "together.jsonl", "--ignore", "mail,at", "--classes", "ham,spam", "-a", "arow", "-m", "t.ts", "-q")
    late, together = ts.load("m.ts"), ts.load("t.ts")
    if ending == "jsonl":
        assert late.coef_.tobytes() == together.coef_.tobytes()
    assert late.t_ == N
    assert len(thin("predict", f"rows.{ending}", "-m", "m.ts").split()) == N


def test_in_the_order_of_time(files, thin):
    common = ["rows.jsonl", "--labels", "labels.jsonl", *COMMON, "--time", "at"]
    found = json.loads(thin("train", *common, "--json", "-m", "m.ts").splitlines()[-1])
    assert found["late_labels"] == {
        "predicted": N, "replaced": 0, "learned": N, "unknown": 1, "expired": 0, "repeated": 1, "waiting": 0,
    }  # fmt: skip
    thin("train", "together.jsonl", "--ignore", "mail,at", "--classes", "ham,spam", "-a", "arow", "-m", "t.ts", "-q")
    assert ts.load("m.ts").coef_.tobytes() == ts.load("t.ts").coef_.tobytes()
    all_first = json.loads(thin("train", *common[:-2], "--ignore", "at", "--json").splitlines()[-1])
    assert all_first["error"] > found["error"]  # every row was scored by a model that knew nothing
    few = json.loads(thin("train", *common, "--keep", "10", "--json").splitlines()[-1])
    assert few["late_labels"]["expired"] > 0
    assert sum(few["late_labels"][name] for name in ("learned", "expired", "unknown", "repeated")) == N + 2
    short = json.loads(thin("train", *common, "--wait", "20", "--json").splitlines()[-1])
    assert 0 < short["late_labels"]["expired"] < N


def test_rows_wait_for_a_later_run(files, thin):
    lines = Path("labels.jsonl").read_text().splitlines(keepends=True)
    Path("first.jsonl").write_text("".join(lines[:40]))
    Path("second.jsonl").write_text("".join(lines[40:]))
    Path("none.jsonl").write_text("")
    thin("train", "rows.jsonl", "--labels", "first.jsonl", *COMMON, "--ignore", "at", "-m", "a.ts", "--waiting", "w.db")
    said = thin(
        "train", "none.jsonl", "--labels", "second.jsonl", "--id", "mail", "--from", "a.ts", "-m", "b.ts",
        "--waiting", "w.db",
    )  # fmt: skip
    assert "80 learned" in said
    thin("train", "rows.jsonl", "--labels", "labels.jsonl", *COMMON, "--ignore", "at", "-m", "m.ts", "-q")
    assert ts.load("b.ts").coef_.tobytes() == ts.load("m.ts").coef_.tobytes()


def test_classes_that_come_later_and_weights(files, thin):
    words = ["train", "rows.jsonl", "-a", "adarda", "--labels", "labels.jsonl", "--id", "mail", "--time", "at"]
    words += ["--grow-classes"]
    thin(*words, "-m", "m.ts", "-q")
    assert ts.load("m.ts").classes_.tolist() == ["ham", "spam"]
    _, labels = files
    weighed = [{**each, "w": 1 + k % 2} for k, each in enumerate(labels)]
    Path("labels.jsonl").write_text("".join(json.dumps(each) + "\n" for each in weighed))
    thin(*words, "--weight", "w", "-m", "w.ts", "-q")
    assert ts.load("w.ts").coef_.tobytes() != ts.load("m.ts").coef_.tobytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--labels", "labels.jsonl"], "--labels needs --id COLUMN"),
        (["--id", "mail"], "--id can only be used with --labels FILE"),
        (["--labels", "labels.jsonl", "--id", "mail", "--wait", "3"], "--wait needs --time COLUMN"),
        (["--labels", "labels.jsonl", "--id", "mail", "--passes", "2"], "--passes cannot be used with --labels"),
        (["--labels", "labels.jsonl", "--id", "mail", "--resume"], "--resume cannot be used with --labels"),
        (["--labels", "labels.jsonl", "--id", "mail", "-a", "scd"], "SCD holds its rows"),
    ],
)
def test_what_does_not_go_together(files, thin, words, message):
    assert message in thin("train", "rows.jsonl", *words, "--classes", "ham,spam", code=2).errors


def test_bad_files(files, thin):
    words = ["train", "rows.jsonl", "--labels", "labels.jsonl", "--classes", "ham,spam"]
    assert "rows.jsonl: example 1 has no id, no 'number'; there are " in thin(*words, "--id", "number", code=1).errors
    assert "example 1 has no id, no 'mial'; did you mean 'mail'?" in thin(*words, "--id", "mial", code=1).errors
    assert "labels.jsonl, line 1" in thin(*words[:-1], "no,yes", "--id", "mail", code=1).errors
    assert (
        "there is no column 'number'"
        in thin("train", "rows.csv", "--labels", "labels.csv", "--id", "number", "--classes", "ham,spam", code=1).errors
    )
