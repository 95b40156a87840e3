"""``thinstream predict``: pipes are answered at once; scores, probabilities, the best classes, ids."""

import json
import os
import pty
import select
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import finished, process

CSV = 'id,label,age,city\na-1,yes,31,Oslo\nb-2,no,5,Rome\n"c\t3",yes,40,Oslo\nd,no,7,Bonn\n'


def answer(child, line, seconds=60):
    """What the command says to a line before it gets the next."""
    os.write(child.stdin.fileno(), line.encode())
    end, found = time.monotonic() + seconds, b""
    while not found.endswith(b"\n"):
        ready, _, _ = select.select([child.stdout], [], [], max(end - time.monotonic(), 0))
        assert ready, f"no answer to {line!r}"
        found += os.read(child.stdout.fileno(), 1 << 16)
    return found.decode()


@pytest.fixture
def table(there, thin):
    Path("d.csv").write_text(CSV * 1)
    thin("train", "d.csv", "--classes", "no,yes", "--ignore", "id", "-a", "arow", "-m", "t.ts", "-q")
    return "t.ts"


@pytest.fixture
def three(there, thin):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    lines = [f"{k} {k + 1}:1 {4 + j}:1\n" for k, j in zip(y, rng.integers(0, 9, 300), strict=True)]
    Path("three.svm").write_text("".join(lines))
    thin("train", "three.svm", "--classes", "0,1,2", "-a", "adarda", "--loss", "logistic", "-m", "3.ts", "-q")
    return "3.ts"


@pytest.mark.parametrize("kind", ["libsvm", "csv", "jsonl"])
def test_a_line_is_answered_before_the_next_is_sent(kind, model, table):
    if kind == "libsvm":
        child = process("predict", "-", "-m", model, stdin=subprocess.PIPE)
        told = [answer(child, line) for line in ("1:1\n", "1:-1\n", "1:1\n")]
        assert told == ["1\n", "-1\n", "1\n"]
    elif kind == "csv":
        child = process("predict", "-", "-m", table, "--format", "csv", "--id", "id", stdin=subprocess.PIPE)
        told = [answer(child, line) for line in ("id,age,city\nx,33,Oslo\n", "y,5,Bonn\n")]
        assert told == ["x\tyes\n", "y\tno\n"]
    else:
        child = process("predict", "-", "-m", table, "--format", "jsonl", "--json", stdin=subprocess.PIPE)
        told = [answer(child, f'{{"age": {age}, "city": "Oslo"}}\n') for age in (33, 35)]
        assert [json.loads(line)["label"] for line in told] == ["yes", "yes"]
    assert finished(child)[0] == 0


def test_a_terminal_is_answered_line_by_line(model):
    ours, theirs = pty.openpty()
    child = process("predict", "-", "-m", model, stdin=theirs)
    os.close(theirs)
    os.write(ours, b"1:1\n")
    ready, _, _ = select.select([child.stdout], [], [], 60)
    assert ready
    assert os.read(child.stdout.fileno(), 100) == b"1\n"
    os.write(ours, b"\x04")  # the end of input
    assert finished(child)[0] == 0
    os.close(ours)


def test_probabilities(three, thin):
    rows = [
        [float(cell) for cell in line.split("\t")]
        for line in thin("predict", "three.svm", "-m", three, "--proba").splitlines()
    ]
    assert np.sum(rows, axis=1) == pytest.approx(np.ones(300))
    thin("train", "three.svm", "-a", "ftrlproximal", "-m", "2.ts", "-q", "--look", "0")
    found = [float(line) for line in thin("predict", "three.svm", "-m", "2.ts", "--proba").splitlines()]
    scores = [float(line) for line in thin("predict", "three.svm", "-m", "2.ts", "--scores").splitlines()]
    assert found == pytest.approx(1 / (1 + np.exp(-np.array(scores))), rel=1e-6)
    as_json = json.loads(thin("predict", "three.svm", "-m", "2.ts", "--proba", "--json").splitlines()[0])
    assert as_json["probability"] == found[0]


def test_the_best_classes(three, thin):
    lines = thin("predict", "three.svm", "-m", three, "--top", "2").splitlines()
    labels = thin("predict", "three.svm", "-m", three).splitlines()
    scores = np.array(
        [line.split("\t") for line in thin("predict", "three.svm", "-m", three, "--scores").splitlines()], float
    )
    order = np.argsort(-scores, axis=1, kind="stable")
    assert [line.split("\t")[0] for line in lines] == labels
    assert [[*map(int, line.split("\t"))] for line in lines] == order[:, :2].tolist()
    first = thin("predict", "three.svm", "-m", three, "--top", "2", "--scores").splitlines()[0].split("\t")
    assert [int(first[0]), int(first[2])] == order[0, :2].tolist()
    assert [float(first[1]), float(first[3])] == pytest.approx(np.sort(scores[0])[::-1][:2])
    top = json.loads(thin("predict", "three.svm", "-m", three, "--top", "2", "--proba", "--json").splitlines()[0])
    assert [each["label"] for each in top["top"]] == order[0, :2].tolist()
    assert top["top"][0]["probability"] == max(top["probabilities"])


def test_the_best_of_two_classes_is_the_one_that_is_chosen(model, data, thin):
    thin("train", data, "-a", "adarda", "--model", "high.ts", "--threshold", "1000", "-q")
    for line in thin("predict", data, "-m", "high.ts", "--top", "2", "--scores").splitlines():
        first, one, second, other = line.split("\t")
        assert (first, second, float(one)) == ("-1", "1", -float(other))


def test_ids_of_every_format(table, thin):
    assert thin("predict", "d.csv", "-m", table, "--id", "id") == "a-1\tyes\nb-2\tno\nc\\t3\tyes\nd\tno\n"
    Path("d.jsonl").write_text('{"id": 12345678901234567890, "age": 31, "city": "Oslo"}\n{"age": 5, "city": "Rome"}\n')
    assert thin("predict", "d.jsonl", "-m", table, "--id", "id") == "12345678901234567890\tyes\n\tno\n"
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"id": [7, None], "age": [31, 5], "city": ["Oslo", "Rome"]}), "d.parquet")
    assert thin("predict", "d.parquet", "-m", table, "--id", "id", "--json").splitlines()[0].startswith('{"id": "7", ')
    Path("d.vw").write_text("1 'first|a x:1\n-1 |a y:1\n")
    thin("train", "d.vw", "-m", "v.ts", "-q")
    assert thin("predict", "d.vw", "-m", "v.ts", "--id", "tag") == "first\t1\n\t-1\n"


def test_a_record_that_is_passed_over_keeps_its_id(table, thin):
    skip = ("-m", table, "--id", "id", "--on-error", "skip", "-q")
    bad = 'id,age,city\na,31,Oslo\n\n"b,2",5,Ro"me,x\nc,"5"0,Rome\nd\n31,"e\n",5,7\nf,5,Rome\ng,"5\n'
    Path("bad.csv").write_text(bad)
    assert thin("predict", "bad.csv", *skip) == "a\tyes\nb,2\t\nc\t\nd\t\n31\t\nf\tno\ng\t\n"
    assert thin("predict", "bad.csv", *skip, "--json").splitlines()[1] == '{"id": "b,2"}'
    without = thin("predict", "bad.csv", "-m", table, "--ignore", "id", "--on-error", "skip", "-q")
    assert without == "yes\n\n\n\n\nno\n\n"
    Path("bad.jsonl").write_text(
        '{"id": 1, "age": "old"}\n{"id": 2, "age"\n{"age": 1e999}\n{"id": 4, "age": 31, "city": "Oslo"}\n'
    )
    assert thin("predict", "bad.jsonl", *skip) == "1\t\n\n\n4\tyes\n"
    Path("bad.vw").write_text("1 'first|a x:1\n-1 second|a y:1e999\n-1 |a y:z\n-1 'last|a y\n")
    thin("train", "bad.vw", "-m", "v.ts", "-q", "--on-error", "skip")
    assert thin("predict", "bad.vw", "-m", "v.ts", "--id", "tag", *skip[-3:]) == "first\t1\nsecond\t\n\nlast\t-1\n"


def test_an_id_the_model_does_not_know_is_no_feature(table, thin):
    Path("new.csv").write_text("key,age,city\n" + "".join(f"k{i},31,Oslo\n" for i in range(500)))
    found = thin("predict", "new.csv", "-m", table, "--id", "key", "--scores").splitlines()
    assert len({line.split("\t")[1] for line in found}) == 1
    assert found[499].startswith("k499\t")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--proba"], "t.ts (AROW) has no calibrated probabilities"),
        (["--proba"], "train with -a auto, --calibrate or --loss logistic"),
        (["--proba", "--scores"], "--scores and --proba cannot be used together"),
        (["--id", "nothing"], "id: there is no column 'nothing', only 'id', 'label', 'age', 'city'"),
        (["--top", "0"], "--top"),
    ],
)
def test_refused(words, message, table, thin):
    code = 1 if "nothing" in words else 2
    assert message in thin("predict", "d.csv", "-m", table, *words, code=code).errors


def test_libsvm_has_no_ids(model, data, thin):
    said = thin("predict", data, "-m", model, "--id", "x", code=2).errors
    assert "id is an option of the format" in said


def read_csv(path):
    import csv

    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_csv_has_a_header(data, model, three, table, thin):
    labels = thin("predict", data, "-m", model).split()
    scores = thin("predict", data, "-m", model, "--scores").split()
    thin("predict", data, "-m", model, "-o", "p.csv", "-q")
    assert [row["label"] for row in read_csv("p.csv")] == labels
    thin("predict", data, "-m", model, "--scores", "-o", "p.csv", "-q")
    assert [row["score"] for row in read_csv("p.csv")] == scores
    thin("predict", data, "-m", model, "--scores", "--top", "2", "-o", "p.csv", "-q")
    rows = read_csv("p.csv")
    assert [*rows[0]] == ["label_1", "score_1", "label_2", "score_2"]
    assert [row["label_1"] for row in rows] == labels
    thin("predict", "three.svm", "-m", three, "--proba", "-o", "p.csv", "-q")
    assert all(sum(map(float, row.values())) == pytest.approx(1.0) for row in read_csv("p.csv"))
    assert (
        "--json cannot write a .csv file" in thin("predict", data, "-m", model, "--json", "-o", "p.csv", code=2).errors
    )
