"""Commands on tables of which nothing is said."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import thinstream as ts
from tests.cli.commands import finished, process
from thinstream.models.file import read, write


@pytest.fixture
def mail(there):
    """Rows with labels that are words, and cells that say nothing."""
    rng = np.random.default_rng(3)
    lines = ["spam,size,sender,sent"]
    for k in range(120):
        spam = rng.random() < 0.4
        size = "NA" if spam and k % 3 else f"{rng.normal():.2f}"
        lines.append(f"{'yes' if spam else 'no'},{size},{'ann' if k % 2 else ''},2024-05-{k % 28 + 1:02d}")
    Path("mail.csv").write_text("\n".join(lines) + "\n")
    return "mail.csv"


def test_lines_of_json_are_read_as_the_table_was(mail, thin):
    thin("train", mail, "--label", "spam", "-a", "arow", "-m", "m.ts", "-q")
    names, *rows = (line.split(",") for line in Path(mail).read_text().splitlines())
    objects = [dict(zip(names, row)) for row in rows]  # all of it text
    Path("m.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))
    said = thin("predict", "m.jsonl", "-m", "m.ts", "--scores")
    assert said == thin("predict", mail, "-m", "m.ts", "--scores")
    assert said.errors == ""
    for each in objects:
        del each["spam"], each["sender"]
        each["siz"] = 3
    Path("m.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))
    said = thin("predict", "m.jsonl", "-m", "m.ts").errors
    assert "the model was trained with 'sender', but no record has it" in said
    assert "the model ignores unknown columns: 'siz'; did you mean 'size'?" in said
    Path("m.jsonl").write_text('{"size": 1}\n{"size": "large"}\n')
    said = thin("predict", "m.jsonl", "-m", "m.ts", code=1)
    assert "m.jsonl, line 2, column 1: column 'size' is numeric (declared, or inferred)" in said.errors
    assert 'got "large"' in said.errors


def test_inspect_shows_the_schema_of_a_data_file(mail, thin):
    lines = thin("inspect", mail, "--label", "spam").splitlines()
    assert [line.split() for line in lines] == [
        ["format", "csv"],
        ["classes", "no,", "yes"],
        [],
        ["column", "role", "from"],
        ["spam", "label", "declared"],
        ["size", "numeric", "inferred"],
        ["sender", "categorical", "each", "cell"],
        ["sent", "dates", "inferred"],
    ]
    schema = json.loads(thin("inspect", mail, "--label", "spam", "--json"))
    assert (schema["format"], schema["classes"], len(schema["columns"])) == ("csv", ["no", "yes"], 4)
    assert json.loads(thin("inspect", mail, "--json"))["columns"][0]["role"] == "categorical"
    Path("rows.jsonl").write_text('{"label": 1, "a": 2.5}\n{"label": 0, "a": 3}\n')
    assert "a       numeric  inferred" in thin("inspect", "rows.jsonl")


def test_labels_and_columns_are_found_and_told(mail, thin):
    said = thin("train", mail, "--label", "spam", "-a", "arow", "-m", "m.ts")
    assert "labels are 'no' (" in said.errors
    assert "; 'yes' is positive" in said.errors
    assert "columns: 1 categorical (sender), 1 dates (sent), 1 numeric (size)" in said.errors
    assert {*thin("predict", mail, "-m", "m.ts").split()} == {"no", "yes"}
    quiet = thin("train", mail, "--label", "spam", "-a", "arow", "-m", "q.ts", "-q")
    assert quiet.errors == ""
    assert Path("m.ts").read_bytes() == Path("q.ts").read_bytes()
    thin("train", mail, "--label", "spam", "--classes", "no,yes", "--numeric", "size", "--dates", "sent",
         "-a", "arow", "-m", "said.ts", "-q", "--look", "0")  # fmt: skip
    assert Path("m.ts").read_bytes() == Path("said.ts").read_bytes()


def test_nothing_in_a_cell_is_learned_from(mail, thin):
    error = {}
    for how in ("indicator", "ignore"):
        said = thin("train", mail, "--label", "spam", "-a", "arow", "--json", "--missing", how)
        error[how] = json.loads(said.splitlines()[-1])["error"]
    assert error["indicator"] < error["ignore"]
    said = thin("train", mail, "--label", "spam", "--missing", "error", code=1)
    assert "column 'sender' must have a value in every record" in said.errors


def test_models_without_a_value_for_missing_read_cells_as_is(mail, thin):
    thin("train", mail, "--label", "spam", "-a", "arow", "-m", "m.ts", "-q", "--look", "0", "--missing", "as-is",
         "--classes", "no,yes")  # fmt: skip
    model = read(Path("m.ts"))
    assert model.reading["missing"] == "as-is"
    others = {name: value for name, value in model.reading.items() if name != "missing"}
    write(Path("none.ts"), replace(model, reading=others))
    scores = thin("predict", mail, "-m", "m.ts", "--scores")
    assert thin("predict", mail, "-m", "none.ts", "--scores") == scores
    thin("train", mail, "--from", "none.ts", "-m", "more.ts", "-q")
    thin("train", mail, "--from", "m.ts", "-m", "other.ts", "-q")
    assert thin("predict", mail, "-m", "more.ts", "--scores") == thin("predict", mail, "-m", "other.ts", "--scores")


@pytest.mark.parametrize("name", ["d.svm", "d.csv", "d.jsonl"])
def test_zero_and_one_come_back(there, thin, name):
    rows = [(k % 3 > 0, (1 if k % 3 else -1) + k % 2 / 4) for k in range(60)]
    write_row = {
        "d.svm": lambda y, x: f"{y:d} 1:{x}",
        "d.csv": lambda y, x: f"{y:d},{x}",
        "d.jsonl": lambda y, x: json.dumps({"label": int(y), "x": x}),
    }[name]
    head = ["label,x"] if name == "d.csv" else []
    Path(name).write_text("\n".join([*head, *(write_row(*row) for row in rows)]) + "\n")
    thin("train", name, "-a", "arow", "-m", "m.ts")
    assert {*thin("predict", name, "-m", "m.ts").split()} == {"0", "1"}
    assert ts.load("m.ts").classes_.tolist() == [0, 1]
    assert json.loads(thin("evaluate", name, "-m", "m.ts", "--json"))["error"] < 0.1


def test_three_numbers_are_classes(there, thin):
    Path("d.svm").write_text("".join(f"{k % 3} {k % 3 + 1}:1\n" for k in range(90)))
    said = thin("train", "d.svm", "-a", "arow", "-m", "m.ts")
    assert "labels are 3 classes: 0 (30), 1 (30), 2 (30)" in said.errors
    assert thin("predict", "d.svm", "-m", "m.ts").split()[-3:] == ["0", "1", "2"]


def test_a_pipe_gives_the_model_of_its_file(mail, thin):
    thin("train", mail, "--label", "spam", "-a", "arow", "-m", "file.ts", "-q")
    child = process("train", "-", "--format", "csv", "--label", "spam", "-a", "arow", "-m", "pipe.ts", "-q", stdin=-1)
    assert finished(child, Path(mail).read_bytes())[0] == 0
    scores = thin("predict", mail, "-m", "file.ts", "--scores")
    assert thin("predict", mail, "-m", "pipe.ts", "--scores") == scores


def test_other_delimiters_at_prediction(mail, thin):
    thin("train", mail, "--label", "spam", "-a", "arow", "-m", "m.ts", "-q")
    Path("other.csv").write_text(Path(mail).read_text().replace(",", ";"))
    assert thin("predict", "other.csv", "-m", "m.ts") == thin("predict", mail, "-m", "m.ts")
    thin("train", "other.csv", "--label", "spam", "-a", "arow", "-m", "o.ts", "-q")
    assert thin("predict", mail, "-m", "o.ts", "--scores") == thin("predict", mail, "-m", "m.ts", "--scores")
    model = ts.load("o.ts")
    assert model.predict(["-0.5;ann;2024-05-03"]) == model.predict(["no;-0.5;ann;2024-05-03"])
    thin("train", mail, "--delimiter", ";", "--label", "spam", code=1)


def test_the_command_of_a_search_does_not_repeat_what_was_found(mail, thin):
    said = thin("tune", mail, "--label", "spam", "-a", "fsol", "-g", "eta=0.5,1", "-m", "best.ts")
    last = [line for line in said.splitlines() if "thinstream train" in line][-1]
    assert "--numeric" not in last
    assert "--classes" not in last
    assert {*thin("predict", mail, "-m", "best.ts").split()} <= {"no", "yes"}


def test_rows_at_hand(mail, thin):
    thin("train", mail, "--label", "spam", "-a", "arow", "-m", "m.ts", "-q")
    model = ts.load("m.ts")
    lines = Path(mail).read_text().splitlines()
    scores = [float(line) for line in thin("predict", mail, "-m", "m.ts", "--scores").split()]
    rows = [dict(zip(lines[0].split(","), line.split(","))) for line in lines[1:]]
    assert model.decision_function(rows).tolist() == pytest.approx(scores)
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(mail, parse_dates=["sent"])
    assert len(model.predict(frame)) == len(rows)
    with pytest.raises(ValueError, match=r"column 'size' is numeric .* got 'large' at row 0"):
        model.predict([{"size": "large"}])


def test_columns_that_are_unknown_are_named(mail, thin):
    thin("train", mail, "--label", "spam", "-a", "arow", "-m", "m.ts", "-q")
    lines = Path(mail).read_text().splitlines()
    Path("more.csv").write_text("\n".join([lines[0] + ",siz", *(line + ",3" for line in lines[1:])]) + "\n")
    said = thin("predict", "more.csv", "-m", "m.ts")
    assert "the model ignores unknown columns: 'siz'; did you mean 'size'?" in said.errors
    assert "unknown columns" not in thin("predict", "more.csv", "-m", "m.ts", "-q").errors
    assert "unknown columns" not in thin("predict", mail, "-m", "m.ts").errors
    assert (
        "the model ignores unknown columns: 'siz'; did you mean 'size'?"
        in thin("evaluate", "more.csv", "-m", "m.ts").errors
    )


def test_a_cache_has_the_classes_of_its_source(mail, thin):
    thin("convert", mail, "--label", "spam", "-o", "mail.cache")
    thin("train", "mail.cache", "-a", "arow", "-m", "c.ts", "-q")
    thin("train", mail, "--label", "spam", "-a", "arow", "-m", "m.ts", "-q")
    assert thin("predict", mail, "-m", "c.ts", "--scores") == thin("predict", mail, "-m", "m.ts", "--scores")
    assert thin("predict", mail, "-m", "c.ts") == thin("predict", mail, "-m", "m.ts")
