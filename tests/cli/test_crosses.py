"""Crosses on the command line: with every command, on through checkpoints and models, and said where they are odd."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def rows(there):
    """Who likes what, which neither tells alone."""
    lines = ["liked,user,item,age"]
    for k in range(240):
        user, item = k % 4, k * 7 % 3
        lines.append(f"{(user + item) % 2},u{user},i{item},{k % 5}")
    Path("d.csv").write_text("\n".join(lines) + "\n")
    return "d.csv"


TRAIN = ("--label", "liked", "--cross", "user,item", "--cross", "user,age,item", "-q")


def test_train_predict_evaluate(rows, thin):
    thin("train", "-a", "adarda", rows, *TRAIN, "-m", "m.ts")
    thin("train", "-a", "adarda", rows, "--label", "liked", "-m", "plain.ts", "-q")
    errors = [json.loads(thin("evaluate", rows, "-m", model, "--json"))["error"] for model in ("m.ts", "plain.ts")]
    assert errors[0] < 0.02 < 0.2 < errors[1]
    predicted = thin("predict", rows, "-m", "m.ts").split()
    assert len(predicted) == 240
    # also of another format, which has no label
    Path("one.jsonl").write_text('{"user": "u1", "item": "i0", "age": 0}\n')
    assert thin("predict", "one.jsonl", "-m", "m.ts") == predicted[9] + "\n"  # row 9 is u1, i0
    said = thin("predict", rows, "-m", "m.ts", "--cross", "user,item", code=2).errors
    assert "m.ts learned with cross user,age,item and user,item; it cannot be used with cross user,item" in said
    assert (
        "Read the rows with the same options"
        in thin("evaluate", rows, "-m", "plain.ts", "--cross", "user,item", code=1).errors
    )


def test_a_model_goes_on(rows, thin):
    """With --from and --resume, to the bytes of a run that never stopped."""
    head, *lines = Path(rows).read_text().splitlines(keepends=True)
    Path("one.csv").write_text(head + "".join(lines[:100]))
    Path("two.csv").write_text(head + "".join(lines[100:]))
    thin("train", "-a", "adarda", "one.csv", "two.csv", *TRAIN, "--names", "100", "-m", "whole.ts")
    thin("train", "-a", "adarda", "one.csv", *TRAIN, "--names", "100", "-m", "half.ts")
    thin("train", "-a", "adarda", "two.csv", "--from", "half.ts", "--names", "100", "-m", "on.ts", "-q")
    shown = [thin("inspect", model, "--top", "1000", "--json") for model in ("whole.ts", "on.ts")]
    one, two = ({(f["name"], f["weight"]) for f in json.loads(text)["top"]} for text in shown)
    assert one == two
    assert "user=u1 × item=i2" in {name for name, _ in one}

    bad = head + "".join(lines[:150]) + "1,u1\n" + "".join(lines[150:])
    Path("bad.csv").write_text(bad)
    checkpoints = ("--checkpoint-every", "40", "--names", "100", "-m", "mended.ts")
    assert "bad.csv, line 152" in thin("train", "-a", "adarda", "bad.csv", *TRAIN, *checkpoints, code=1).errors
    thin("train", "-a", "adarda", "bad.csv", *TRAIN, *checkpoints, "--resume", "--on-error", "skip")
    thin("train", "-a", "adarda", "bad.csv", *TRAIN, "--names", "100", "--on-error", "skip", "-m", "straight.ts")
    assert Path("mended.ts").read_bytes() == Path("straight.ts").read_bytes()


def test_resuming_with_other_crosses_is_refused(rows, thin):
    bad = Path(rows).read_text() + "1,u1\n"
    Path(rows).write_text(bad)
    thin("train", "-a", "adarda", rows, *TRAIN, "--checkpoint-every", "40", "-m", "m.ts", code=1)
    options = ("--label", "liked", "--cross", "user,item", "-q", "--resume", "-m", "m.ts")
    assert "m.ts.checkpoint" in thin("train", "-a", "adarda", rows, *options, code=1).errors


def test_exports(rows, thin):
    """Names can be read; what takes numbers of features says that rows must be crossed before."""
    thin("train", "-a", "adarda", rows, *TRAIN, "--names", "100", "-m", "m.ts")
    for name in ("m.txt", "m.json", "m.h"):
        thin("export", "m.ts", name)
    assert "user=u1 × item=i2\t" in Path("m.txt").read_text()
    found = json.loads(Path("m.json").read_text())
    assert found["space"]["cross"] == [["user", "age", "item"], ["user", "item"]]
    assert "user=u1 × item=i2" in found["names"].values()
    head = Path("m.h").read_text()
    assert (
        '* Rows must be hashed and crossed before they are scored: [["user", "age", "item"], ["user", "item"]]' in head
    )
    assert "/* user=u1 \\xd7 item=i2 */" in head


def test_what_is_odd_is_said(there, thin):
    Path("d.vw").write_text("1 |user ann |item 7\n-1 |user bob |item 8\n" * 5)
    said = thin("train", "-a", "adarda", "d.vw", "--cross", "user,thing", "--cross", "item,item").errors
    assert "thinstream: cross: no row has 'thing'\n" in said
    assert "thinstream: cross: no row has features of all columns of item × item\n" in said
    assert "cross" not in thin("train", "-a", "adarda", "d.vw", "--cross", "user,item").errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cross", "user"), "--cross must be two or more column names, as in user,item, got 'user'"),
        (("--cross", "user,,item"), "--cross must be two or more column names"),
        (("--cross", "a,b", "--cross", "b,a"), "each cross may occur only once"),
    ],
)
def test_mistakes(rows, thin, options, message):
    assert message in thin("train", "-a", "adarda", rows, "--label", "liked", *options, code=2).errors


def test_formats_without_names(data, thin):
    said = thin("train", "-a", "adarda", data, "--cross", "a,b", code=2).errors
    assert "cross is an option of the format 'arrow', 'cache', 'csv', 'jsonl', 'parquet', 'tsv' or 'vw'" in said


def test_in_a_cache_and_on_workers(rows, thin):
    pytest.importorskip("pyarrow")
    thin("train", "-a", "adarda", rows, *TRAIN, "-m", "one.ts")
    thin("train", "-a", "adarda", rows, *TRAIN, "--cache", "-m", "two.ts")
    thin("convert", rows, *TRAIN, "--out", "d.cache")
    thin("train", "-a", "adarda", "d.cache", "-q", "-m", "three.ts")
    predicted = {thin("predict", rows, "-m", model, "--scores") for model in ("one.ts", "two.ts")}
    assert len(predicted) == 1
    thin("train", "-a", "adarda", rows, *TRAIN, "--engine", "local", "--workers", "1", "-m", "four.ts")
    for model in ("one.ts", "three.ts", "four.ts"):
        predicted.add(thin("predict", "d.cache", "-m", model, "--scores"))
    assert len(predicted) == 1
