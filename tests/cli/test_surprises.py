"""What a first user stumbled over."""

import gzip
import json
import os
from pathlib import Path

import numpy as np

from tests.cli.commands import finished, process
from thinstream.cli import commands


def test_no_output_takes_the_place_of_an_input(data, model, thin):
    before = Path(data).read_bytes(), Path(model).read_bytes()
    os.symlink(data, "link.svm")
    for arguments in (
        ["train", data, "--model", data],
        ["train", data, "--model", "link.svm"],
        ["train", data, "--model", "x.ts", "--checkpoint", data, "--checkpoint-every", "5"],
        ["predict", data, "-m", model, "--out", data],
        ["predict", data, "-m", model, "--out", model],
        ["convert", data, "--out", "link.svm"],
        ["export", model, model, "--format", "json"],
        ["merge", model, model, "-m", model],
    ):
        assert "is an input file, and the output would overwrite it" in thin(*arguments, code=2).errors
    assert (Path(data).read_bytes(), Path(model).read_bytes()) == before


def test_a_model_does_not_go_to_standard_output(data, thin):
    assert "a model cannot be written to standard output" in thin("train", data, "-m", "-", code=2).errors


def test_a_pipe_has_one_pass(data, thin):
    os.mkfifo("pipe")
    for source in ("-", "pipe"):
        said = thin("train", source, "--passes", "2", code=2)
        assert said.errors == "thinstream: --passes needs files, because a pipe can be read only once\n"


def test_what_is_no_feature_is_remembered(there, thin):
    """The label's column, ignored columns and the missing header need not be said again."""
    Path("d.csv").write_text("y,time,a,b\n" + "1,1700000000,2,x\n0,1700000001,-2,y\n" * 50)
    thin("train", "d.csv", "--label", "y", "--ignore", "time", "--normalize", "l2", "-m", "m.ts", "-q")
    scores = thin("predict", "d.csv", "-m", "m.ts", "--scores")
    Path("new.csv").write_text("a,b\n" + "2,x\n-2,y\n" * 50)
    assert thin("predict", "new.csv", "-m", "m.ts", "--scores") == scores
    assert "error              0.00%" in thin("evaluate", "d.csv", "-m", "m.ts")
    Path("bare.csv").write_text("1,2,x\n0,-2,y\n" * 50)
    thin("train", "bare.csv", "--no-header", "--label", "c1", "-m", "bare.ts", "-q")
    assert thin("predict", "bare.csv", "-m", "bare.ts").split() == ["1", "0"] * 50


def test_a_header_that_was_said_to_be_there_is_not_overruled(there, thin):
    Path("bare.csv").write_text("1,2,x\n0,-2,y\n" * 50)
    said = thin("train", "bare.csv", "--header", "--label", "c1", "-m", "m.ts", code=1).errors
    assert "there is no column 'c1', only '1', '2', 'x'" in said
    assert "pass --no-header if the first line" in said
    thin("train", "bare.csv", "--label", "c1", "-a", "arow", "-m", "m.ts", "-q")
    Path("named.csv").write_text("c3,c2\nx,2\ny,-2\n")
    assert thin("predict", "named.csv", "--header", "-m", "m.ts").split() == ["1", "0"]
    Path("named.csv").write_text("c1,c2,c3\n" + Path("bare.csv").read_text())
    for name, how in (("a.ts", ["--header"]), ("b.ts", [])):
        thin("train", "named.csv", "--label", "c1", "-a", "arow", "-m", name, "-q", *how)
    thin("merge", "a.ts", "b.ts", "-m", "both.ts")


def test_a_merged_model_remembers_how_its_data_was_read(there, thin):
    rows = "y,time,a,b\n" + "1,1700000000,2,x\n0,1700000001,-2,y\n" * 50
    for name, options in (("one", ["--ignore", "time"]), ("two", ["--ignore", "time"]), ("three", [])):
        Path(f"{name}.csv").write_text(rows)
        thin("train", f"{name}.csv", "--label", "y", *options, "-a", "fsol", "-m", f"{name}.ts", "-q")
    thin("merge", "one.ts", "two.ts", "-m", "both.ts")
    Path("new.csv").write_text("time,a,b\n" + "1,2,x\n1,-2,y\n" * 50)
    assert thin("predict", "new.csv", "-m", "both.ts") == thin("predict", "new.csv", "-m", "one.ts")
    errors = thin("merge", "one.ts", "three.ts", "-m", "x.ts", code=1).errors
    both = "{'ignore': ['time'], 'label': 'y', 'missing': 'indicator'} and {'label': 'y', 'missing': 'indicator'}"
    assert f"one.ts and three.ts differ in their reading options: {both}" in errors
    assert not Path("x.ts").exists()


def test_bad_records_have_empty_predictions(data, model, thin):
    Path("some.svm").write_text("1 x\n1 1:1\n1 y\n1 z\n-1 2:1\n1 1:nan\n")
    lines = thin("predict", "some.svm", "-m", model, "--on-error", "skip").split("\n")
    assert [bool(line) for line in lines] == [False, True, False, False, True, False, False]


def test_rows_without_labels_can_be_predicted(data, model, thin):
    Path("new.svm").write_text("1:1 2:0.5\n4:-1\n")
    Path("old.svm").write_text("0 1:1 2:0.5\n0 4:-1\n")
    assert thin("predict", "new.svm", "-m", model, "--scores") == thin("predict", "old.svm", "-m", model, "--scores")
    assert "column 2: a label must be a decimal number" in thin("train", "new.svm", code=1).errors


def test_sorted_rows_and_later_passes_are_remarked(there, thin):
    Path("sorted.svm").write_text("1 1:1\n" * 1000 + "-1 2:1\n" * 1000)
    assert "rows seem to be sorted by class" in thin("train", "sorted.svm").errors
    thin("shuffle", "sorted.svm", "-o", "mixed.svm")
    said = thin("train", "mixed.svm", "--passes", "2")
    assert said.errors == ""
    assert "rows were already learned" in said


def test_compressed_bytes_under_another_name(data, thin):
    Path("d.txt").write_bytes(gzip.compress(Path(data).read_bytes()))
    errors = thin("train", "d.txt", code=1).errors
    assert errors == (
        "thinstream: d.txt is compressed with gzip. Rename it so that it ends in .gz, or decompress it first.\n"
    )


def test_a_full_table_of_names_is_remarked(there, thin):
    Path("d.vw").write_text("1 |f a b c\n-1 |f d e\n")
    assert "2 names are stored (--names)" in thin("train", "d.vw", "--names", "2").errors


def test_json_exports_say_how_features_are_numbered(there, thin):
    Path("d.vw").write_text("1 |f a b c\n-1 |f d e\n")
    thin("train", "d.vw", "--bits", "10", "--normalize", "l2", "-m", "m.ts", "-q")
    thin("export", "m.ts", "m.json")
    space = json.loads(Path("m.json").read_text())["space"]
    assert (space["hashing"]["bits"], space["normalize"]) == (10, "l2")


def test_keys_that_no_record_has_are_remarked(there, thin):
    Path("d.jsonl").write_text('{"label": 1, "txt": "a b"}\n{"label": 0, "txt": "c"}\n')
    assert "no record has 'text', which --text or --ignore names" in thin("train", "d.jsonl", "--text", "text").errors
    assert thin("train", "d.jsonl", "--text", "txt").errors == ""


def test_a_batch_method_reports_what_it_has(data, thin):
    last = json.loads(thin("train", data, "-a", "sbcw", "--json"))
    assert (last["rows"], last["updates"]) == (20, 20)
    assert not {"error", "auc", "cost", "positives"} & set(last)


def test_a_batch_method_names_itself_where_classes_are_too_many(data, thin):
    errors = thin("train", data, "-a", "sbcw", "--classes", "a,b,c", code=1).errors
    assert errors.startswith("thinstream: SBCW: Only binary classification is supported here, got 3 classes. ")
    assert "one class against the rest, or choose an online algorithm" in errors


def test_an_error_of_nothing_is_not_negative(data, thin):
    said = thin("tune", data, "-a", "fsol", "-g", "eta=0.5,1") + thin(
        "tune", data, "-a", "fsol", "-g", "eta=1", "--json"
    )
    assert "0.00" in said
    assert "-0.0" not in said


def test_an_option_of_other_algorithms_is_explained(data, thin):
    for command in ("train", "tune"):
        errors = thin(command, data, "-a", "arow", "--l1", "1", code=2).errors
        assert (
            "AROW has no option --l1. Its options are --r, --a, --covariance, --diagonal, --half-life. AdaFOBOS"
            in errors
        )
    assert "unknown option --l17" in thin("train", data, "--l17", "1", code=2).errors


def test_resume_without_a_checkpoint_says_what_it_does(data, model, thin):
    """It begins anew, so that a command may have it always; a model that is there will be replaced, which is told."""
    before = Path(model).read_bytes()
    said = thin("train", data, "-m", model, "--resume", "-q").errors
    message = "the checkpoint m.ts.checkpoint does not exist. This is a new run, and its model will replace m.ts"
    assert said == f"thinstream: {message}\n"
    assert Path(model).read_bytes() == before
    assert thin("train", data, "-m", "new.ts", "--resume", "-q").errors == ""
    assert Path("new.ts").read_bytes() == before


def test_a_path_over_no_good_row(there, thin):
    Path("bad.svm").write_text("garbage\n" * 3)
    for command in ("path", "tune", "costs"):
        assert "the stream has no rows" in thin(command, "bad.svm", "--on-error", "skip", code=1).errors


def test_json_without_compiled_code(data, monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    for command in (["train", data, "-m", "i.ts"], ["evaluate", data, "-m", "i.ts"], ["inspect", "i.ts"]):
        code, out, errors = finished(process(*command, "--json"))
        assert (code, errors) == (0, "")
        assert json.loads(out.splitlines()[-1])


def test_a_command_file_without_its_function(there, thin, monkeypatch):
    Path("misspelt.py").write_text("def mispelt(): ...\n")
    monkeypatch.setattr(commands, "__path__", [str(there)])
    errors = thin("misspelt", code=2).errors
    why = "the file of a command must define a function misspelt()"
    assert errors == f"thinstream: {there / 'misspelt.py'}: {why}\n"


def test_a_missing_column_is_named(there, thin):
    """It would pass for empty cells."""
    Path("d.csv").write_text("label,age,city\n" + "1,2,Oslo\n0,-2,Rome\n" * 20)
    thin("train", "d.csv", "-m", "m.ts", "-q")
    Path("new.csv").write_text("Age,city,more\n2,Oslo,1\n")
    errors = thin("predict", "new.csv", "-m", "m.ts", code=1).errors
    assert (
        "new.csv, line 1: the file lacks columns that the model has learned from: 'age'; it has 'Age', 'city'" in errors
    )
    Path("new.csv").write_text("age,city,more\n2,Oslo,1\n")
    assert thin("predict", "new.csv", "-m", "m.ts") == "1\n"


def test_a_model_takes_no_other_files_place(data, model, thin):
    """A file that is no model is not replaced; a model, even a damaged one, is, and so is an empty file."""
    Path("rows.csv").write_text("label,a\n1,2\n")
    for command in (["train"], ["path", "-a", "fsol", "-n", "3"]):
        said = thin(*command, data, "-m", "rows.csv", code=2).errors
        assert said.startswith("thinstream: rows.csv exists and is not a thinstream model")
    assert Path("rows.csv").read_text() == "label,a\n1,2\n"
    Path(model).write_bytes(Path(model).read_bytes()[:300])
    Path("empty.ts").touch()
    for place in (model, "empty.ts"):
        thin("train", data, "-m", place, "-q")
        thin("inspect", place)


def test_costs_without_effect_are_remarked_on(thin, tmp_path):
    """ARCSOGD raises the margin of positive rows only; large costs do not change what it predicts."""
    generator = np.random.default_rng(0)
    lines = [f"{'+1' if generator.random() < 0.1 else '-1'} 1:{generator.random():.3f} 2:1\n" for _ in range(400)]
    (tmp_path / "rare.svm").write_text("".join(lines))
    data = tmp_path / "rare.svm"
    assert "a larger cost changes nothing" in thin("train", data, "-a", "arcsogd", "--class-weight", "1,100").errors
    for words in (("-a", "arcsogd"), ("-a", "arow", "--class-weight", "1,100")):
        assert "a larger cost changes nothing" not in thin("train", data, *words).errors
