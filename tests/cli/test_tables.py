"""Tables as people have them: labels that are missing, files to shuffle, odd bytes, rows at hand."""

import json
from pathlib import Path

import pytest

import thinstream as ts
from tests.cli.commands import finished, process
from thinstream.models import explain
from thinstream.models.file import read

HOW = ("--label", "spam", "-a", "arow", "-q")


@pytest.fixture
def mail(there):
    """Rows whose sender tells the label."""
    lines = [f"{'yes' if k % 3 else 'no'},{k % 5},{'ann' if k % 3 else 'bob'}\n" for k in range(120)]
    Path("mail.csv").write_text("spam,size,sender\n" + "".join(lines))
    return "mail.csv"


def with_line(path, number, line):
    """The file with another line."""
    lines = Path(path).read_text().splitlines()
    lines[number - 1] = line
    Path("other.csv").write_text("\n".join(lines) + "\n")
    return "other.csv"


def test_predictions_do_not_need_labels(mail, thin):
    thin("train", mail, *HOW, "-m", "m.ts")
    wanted = thin("predict", mail, "-m", "m.ts", "--scores")
    unknown = with_line(mail, 5, "perhaps,3,ann")
    assert thin("predict", unknown, "-m", "m.ts", "--scores").split()[:3] == wanted.split()[:3]
    assert "a label must be 'no' or 'yes'" in thin("evaluate", unknown, "-m", "m.ts", code=1).errors
    rows = [{"spam": "perhaps", "size": 3, "sender": "ann"}, {"size": 3, "sender": "ann"}, {"spam": [], "size": 3}]
    Path("other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = thin("predict", "other.jsonl", "-m", "m.ts", "--scores").split()
    assert len(found) == 3
    assert found[0] == found[1]


@pytest.mark.parametrize("more", [(), ("--grow-classes",)])
def test_rows_without_a_label(mail, thin, more):
    path = with_line(mail, 5, ",3,ann")
    said = thin("train", path, *HOW, *more, code=1).errors
    assert "other.csv, line 5: example 4 has no label, and other rows have one" in said
    said = thin("train", path, *HOW[:-1], *more, "--on-error", "skip", "-m", "m.ts").errors
    assert "skipped 1 invalid record, the first: other.csv, line 5, column 1: the label is missing" in said
    assert ts.load("m.ts").t_ == 119
    again = "--checkpoint-every", 7, "-m", "again.ts", "--jobs", 0
    thin("train", path, *HOW, *more, "--on-error", "skip", *again)
    assert Path("again.ts").read_bytes() == Path("m.ts").read_bytes()
    Path("none.csv").write_text("spam,size\n" + ",1\n" * 1100)
    said = thin("train", "none.csv", *HOW, "--classes", "no,yes", *more, "--on-error", "skip", code=1).errors
    assert "more than 1000 bad records; the last one: none.csv, line 1002, column 1: the label is missing" in said


def test_headers_stay_first_by_themselves(mail, thin):
    thin("shuffle", mail, "-o", "mixed.csv")
    lines = Path(mail).read_text().splitlines()
    mixed = Path("mixed.csv").read_text().splitlines()
    assert mixed[0] == lines[0]
    assert (sorted(mixed), mixed == lines) == (sorted(lines), False)
    thin("split", mail, "--first", 100, "-o", "one.csv", "-o", "two.csv")
    assert [len(Path(name).read_text().splitlines()) for name in ("one.csv", "two.csv")] == [101, 21]
    thin("shuffle", mail, "-o", "all.csv", "--no-header")
    assert Path("all.csv").read_text().splitlines()[0] != lines[0]


def test_no_rows_at_hand(mail, thin):
    thin("train", mail, *HOW, "-m", "m.ts")
    assert ts.load("m.ts").predict([]).tolist() == []
    with pytest.raises(ValueError, match="X must have at least one row, got an empty list"):
        ts.AROW().fit([[1.0], [2.0]], [0, 1]).predict([])


def test_bytes_that_are_no_text_are_remarked_on(mail, thin):
    Path("odd.csv").write_bytes(Path(mail).read_bytes() + "no,3,jürgen\n".encode("latin1") + b"no,3,\xff\n")
    said = thin("train", "odd.csv", *HOW[:-1], "-m", "m.ts").errors
    assert "odd.csv, line 122: the text is not valid UTF-8 (iconv" in said
    assert said.count("the text is not valid UTF-8") == 1
    Path("fine.csv").write_bytes(Path(mail).read_bytes() + "no,3,jürgen\n".encode())
    assert "UTF-8" not in thin("train", "fine.csv", *HOW[:-1]).errors


def test_what_a_pipe_is_read_as(mail, thin):
    thin("train", mail, *HOW, "-m", "m.ts")
    child = process("predict", "-", "-m", "m.ts", stdin=-1)
    code, out, _ = finished(child, Path(mail).read_bytes())
    assert (code, out) == (0, thin("predict", mail, "-m", "m.ts"))
    rows = [json.dumps({"spam": "no", "tags": ["a"]}), json.dumps({"spam": "yes", "tags": ["b"]})]
    Path("mail.jsonl").write_text("\n".join(rows * 60) + "\n")
    thin("train", "mail.jsonl", *HOW, "-m", "j.ts")
    said = thin("predict", "-", "-m", "j.ts", code=2).errors
    assert (
        "Standard input has no file name from which to detect the format. Pass it, for example --format jsonl." in said
    )


def test_columns_are_named_by_inspect(mail, thin):
    lines = Path(mail).read_text().splitlines()
    dated = [f"{line},2024-05-{k % 28 + 1:02}" for k, line in enumerate(lines[1:])]
    Path("dated.csv").write_text("\n".join([f"{lines[0]},sent", *dated]) + "\n")
    thin("train", "dated.csv", *HOW, "--names", "0", "-m", "m.ts")
    names = {each["name"] for each in json.loads(thin("inspect", "m.ts", "--json", "-n", 100))["top"]}
    assert {"size", "sent.year=2024", "sent.month=05"} <= names
    assert None in names  # of categories


def test_numbers_of_several_classes_say_which(there, thin):
    long = "a class with a rather long name"
    Path("d.csv").write_text("label,x\n" + "".join(f"{[long, 'b', 'c'][k % 3]},{k % 3}\n" for k in range(60)))
    thin("train", "d.csv", "-a", "arow", "-m", "m.ts", "-q")
    assert f"columns: {long}, b, c" in thin("predict", "d.csv", "-m", "m.ts", "--scores").errors
    assert "columns" not in thin("predict", "d.csv", "-m", "m.ts").errors
    table = thin("inspect", "m.ts").split("\n\n")[1].splitlines()
    assert len({len(line) for line in table}) == 1


@pytest.mark.parametrize(
    ("cell", "what"), [("12,50", "numbers with a decimal comma"), ("17.05.2024", "dates like 17.05.2024")]
)
def test_cells_that_may_be_meant_otherwise(there, thin, cell, what):
    Path("d.csv").write_text("label;x\n" + "".join(f"{k % 2};{cell}\n" for k in range(60)))
    assert f"column 'x' has {what} and is read as categorical" in thin("train", "d.csv", "-a", "arow").errors
    thin("train", "d.csv", "-a", "arow", "-q", "--categorical", "x")


def test_the_columns_of_files_and_the_label_are_told_first(mail, thin):
    said = thin("train", mail, "--label", "spma", code=1).errors
    assert said.startswith("thinstream: mail.csv, line 1: label: there is no column 'spma'")
    Path("less.csv").write_text("spam,siz\nyes,1\n")
    said = thin("train", mail, "less.csv", *HOW, code=1).errors
    assert (
        "less.csv, line 1: all files of a stream must have the same columns, in any order, got different ones" in said
    )


def test_names_are_kept_without_asking(there, thin):
    Path("t.csv").write_text(
        "label,size,city\n" + "".join(f"{'yes' if k % 3 else 'no'},{k % 7},c{k % 50}\n" for k in range(600))
    )
    thin("train", "t.csv", "-m", "m.ts", "-q")
    named = [each["name"] for each in json.loads(thin("inspect", "m.ts", "--json", "-n", 100))["top"]]
    assert {"size", "city=c0", "city=c49"} <= {*named}
    assert None not in named
    for words in (("-j", "0"), ("--checkpoint-every", "100")):
        thin("train", "t.csv", "-m", "n.ts", "-q", *words)
        assert Path("n.ts").read_bytes() == Path("m.ts").read_bytes()
    thin("train", "t.csv", "-m", "n.ts", "-q", "--names", "0")
    assert read(Path("n.ts")).names is None
    predictions = thin("predict", "t.csv", "-m", "n.ts", "--scores")
    assert predictions == thin("predict", "t.csv", "-m", "m.ts", "--scores")


def test_names_of_the_largest_effects_are_kept(there, thin, monkeypatch):
    Path("t.csv").write_text(
        "label,city,a\n" + "".join(f"{'yes' if k % 3 else 'no'},c{k % 3},r{k}\n" for k in range(600))
    )
    thin("train", "t.csv", "-m", "m.ts", "-q", "--categorical", "a", "-a", "arow")
    monkeypatch.setattr(explain, "KEPT_NAMES", 20)
    thin("train", "t.csv", "-m", "n.ts", "-q", "--categorical", "a", "-a", "arow")
    top = json.loads(thin("inspect", "m.ts", "--json", "-n", 20))["top"]
    assert {each["name"] for each in top} == {*read(Path("n.ts")).names.texts}
