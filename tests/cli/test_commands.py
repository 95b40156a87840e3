"""Every command, and what it prints."""

import gzip
import json
import re
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import ROWS
from thinstream.algorithms.registry import algorithms
from thinstream.cli.render import LearningClock, cells, fit_columns
from thinstream.models.file import read
from thinstream.training.formatting import usual
from thinstream.training.metrics import Progress
from thinstream.training.observer import Line
from thinstream.training.run import Run

# by hand from the equations: the scores are 0 and -0.6081
TABLE = """\
   examples error %  since base % prec % recall %   F1 % log-loss    AUC     AP  non-zeros sparsity %
          2   50.00  50.00  50.00      –     0.00   0.00   0.5639 1.0000 1.0000          4      20.00
"""
ASKED = """\
   examples error %  since  sum %       cost spec %  non-zeros sparsity %
          2   50.00  50.00  50.00       0.95 100.00          4      20.00
"""


def without_rate(table):
    return "".join(line[:-10].rstrip() + "\n" for line in table.splitlines())


def test_the_table(data, thin):
    Path("two.svm").write_text("1 1:1 2:0.5 4:-1\n-1 1:-1 5:2\n")
    words = ("train", "two.svm", "--l1", "0", "-a", "ssol", "--no-intercept")
    table, _, rest = thin(*words).partition("\n\n")
    assert without_rate(table) == TABLE
    assert "cost" not in rest
    table, _, rest = thin(*words, "--metrics", "sum,cost,specificity").partition("\n\n")
    assert without_rate(table) == ASKED
    assert "\ncost               0.95\n" in rest
    assert rest.splitlines()[0] == "examples           2 (1 positive)"
    assert rest.splitlines()[-1] == "non-zeros          4 of 5 weights"


def ten_times(data):
    Path("long.svm").write_text(Path(data).read_text() * 10)
    return "long.svm"


def test_lines_double_from_64_on_and_the_last_stands_at_the_end(data, thin):
    for file, rows in ((data, ["20"]), (ten_times(data), ["64", "128", "200"])):
        table = thin("train", file).partition("\n\n")[0].splitlines()
        assert [line.split()[0] for line in table] == ["examples", *rows]


def test_a_last_line_at_a_doubling_is_not_repeated(data, thin):
    Path("128.svm").write_text("".join(Path(ten_times(data)).read_text().splitlines(keepends=True)[:128]))
    table = thin("train", "128.svm").partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in table] == ["examples", "64", "128"]


def test_rows_of_weight_0_make_no_lines_of_their_own(there, thin):
    Path("w.csv").write_text("label,weight,x\n" + "1,1,2\n0,1,3\n" * 32 + "1,0,4\n" * 100 + "0,1,5\n")
    table = thin("train", "w.csv", "--weight", "weight").partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in table] == ["examples", "64", "65"]


def test_rates_count_learning_alone(data, thin, monkeypatch):
    """Loading takes seconds before the first row: the rate is still that of learning."""
    prepare = Run.prepare

    def slowly(run):
        time.sleep(1.0)
        prepare(run)

    monkeypatch.setattr(Run, "prepare", slowly)
    table = thin("train", ten_times(data)).partition("\n\n")[0].splitlines()
    assert float(table[-1].split()[-1].replace(",", "")) > 200 / 0.9


def test_compiling_on_the_way_does_not_count(monkeypatch):
    clock = LearningClock()
    try:
        with clock:
            time.sleep(0.3)
        assert clock.seconds < 0.2
    finally:
        clock.stop()


@pytest.mark.parametrize(("n_classes", "most"), [(2, 13), (3, 11)])
def test_narrow_terminals_get_fewer_columns(n_classes, most):
    report = Progress(n_classes).report()
    texts = cells(Line(report, report, 0, 0), 0.0, usual(n_classes == 2))
    assert len(fit_columns(texts)) == most
    names = fit_columns(texts, 80)
    assert {"examples", "error %", "since", "base %", "AP", "non-zeros", "rows/s"} <= set(names)
    for width in range(54, 140):
        assert sum(fit_columns(texts, width).values()) <= width


def test_json_lines(data, thin):
    words = ("train", ten_times(data), "--json", "--model", "m.ts")
    *lines, last = map(json.loads, thin(*words).splitlines())
    assert [line["rows"] for line in lines] == [64, 128, 200]
    assert (last["model"], last["skipped"], last["rows"], last["error"]) == ("m.ts", 0, 200, lines[-1]["error"])
    first, second = lines[:2]
    assert set(first) >= {"error", "sensitivity", "specificity", "weighted_sum", "cost", "log_loss", "auc", "f1"}
    assert first["baseline"] == pytest.approx(23 / 64)
    assert (first["since"]["rows"], second["since"]["rows"], first["features"]) == (64, 64, 5)


def test_quiet_says_nothing(data, thin):
    said = thin("train", data, "--model", "m.ts", "-q")
    assert (said, said.errors) == ("", "")


def test_one_class_only_is_remarked(there, thin):
    Path("ones.svm").write_text("1 1:1\n1 1:1\n")
    assert "all 2 labels are positive. Pass --classes" in thin("train", "ones.svm").errors


@pytest.mark.parametrize("name", ["many.svm", "many.vw", "many.csv"])
def test_more_than_two_numbers_as_labels_are_remarked(there, thin, name):
    def rows(labels):
        shapes = {"svm": "{} 1:1\n", "vw": "{} | a:1\n", "csv": "{},1\n"}
        shape = shapes[name.split(".")[1]]
        text = "".join(shape.format(label) for label in labels)
        Path(name).write_text(f"label,a\n{text}" if name.endswith("csv") else text)
        return thin("train", name, "-a", "arow", *look).errors

    look = ["--look", "0"]
    assert "labels are 0, 1, 2, 3; those above 0 are positive (if each is a class, pass --classes or " in rows(
        [0, 1, 2, 3] * 3
    )
    look = []
    assert "labels are 0, 0.5, 2; those above 0 are positive (if each is a class, " in rows([0, 0.5, 2] * 3)
    assert "each is a class" not in rows([0, 1] * 6)
    if name == "many.svm":
        assert "each is a class" not in thin("train", name, "-a", "arow", "--classes", "0,1,2").errors


def test_version_and_help(thin):
    assert re.fullmatch(r"thinstream \d+\.\d+\.\d+\S*\n", thin("--version"))
    names = "train tune predict evaluate diagnose convert inspect export merge shuffle split algorithms demo datasets"
    for command in re.findall(r"\w+", names):
        assert "Usage: thinstream " + command in thin(command, "--help")


def test_help_shows_ranges_and_the_paper_of_the_algorithm(thin):
    said = " ".join(thin("train", "-a", "fsol", "--help").replace("│", " ").split())
    assert "FSOL (P0 Alg. 3, 6)" in said
    assert "number ≥ 0; default 0" in said
    assert "--period" not in said
    assert "--period" in thin("train", "--algorithm=stg", "--help")


def test_algorithms(thin):
    lines = thin("algorithms").splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(names) == sorted(["Auto", *(algorithm.name for algorithm in algorithms())])
    assert "Others:" not in lines  # each has a purpose, and a line of advice
    assert all(len(line[50:]) > 10 for line in lines if line.startswith("  "))
    assert lines[0] == "Start here:"
    last = lines.index("All rows at once, or several passes:")
    assert {line.split()[0] for line in lines[last + 1 :]} == {each.name for each in algorithms("batch")}
    assert "--l1" in thin("algorithms", "ssol")
    entry = json.loads(thin("algorithms", "fsol", "--json"))
    assert (entry["name"], entry["parameters"]["eta"]["allowed"]) == ("FSOL", "a number > 0")
    assert entry["kind"] == "online"
    assert [json.loads(line)["kind"] for line in thin("algorithms", "--json").splitlines()].count("batch") == 6
    said = thin("algorithms", "scd")
    assert said.startswith("SCD (P2 baseline, first order, batch method)")
    assert "--coordinates    a sequence of whole numbers, or None; default None" in said


@pytest.mark.parametrize("name", ["bcw", "sbcw", "fgm", "spardca", "scd", "grades"])
def test_every_command_takes_batch_methods(name, thin, tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:1 2:0.5\n-1 1:-1 3:2\n1 2:1\n-1 3:1\n")
    more = ["--n-nonzero", "3"] if name == "grades" else []
    said = thin("train", str(tmp_path / "rows.svm"), "-a", name, *more, "-m", str(tmp_path / "m"))
    assert "non-zeros" in said
    assert thin("predict", str(tmp_path / "rows.svm"), "-m", str(tmp_path / "m")).split() == ["1", "-1", "1", "-1"]
    assert "error              0.00%" in thin("evaluate", str(tmp_path / "rows.svm"), "-m", str(tmp_path / "m"))
    assert json.loads(thin("inspect", str(tmp_path / "m"), "--json"))["algorithm"].lower() == name
    thin("export", str(tmp_path / "m"), str(tmp_path / "m.json"))
    assert json.loads((tmp_path / "m.json").read_text())["algorithm"].lower() == name


def test_a_seed_names_what_is_drawn(data, thin):
    for name, words in (("one", []), ("two", ["--seed", "0"]), ("three", ["--seed", "1"])):
        thin("train", data, "-a", "scd", "-m", f"{name}.ts", "-q", *words)
    one, two, three = (Path(f"{name}.ts").read_bytes() for name in ("one", "two", "three"))
    assert one == two != three


@pytest.mark.parametrize("command", ["tune", "path", "costs"])
def test_batch_methods_are_not_compared_on_a_stream(command, thin):
    for words in (["-a", "bcw"], ["--algorithm=BCW"], ["-abcw"], ["-a", "bcw", "--C", "2"]):
        assert thin(command, "day.svm", *words, code=2).errors == (
            "thinstream: BCW is a batch method, and only online algorithms can be compared on a stream. "
            "Train it with 'thinstream train -a bcw'\n"
        ), words


def test_datasets(there, thin, monkeypatch):
    monkeypatch.setenv("THINSTREAM_DATA", str(there))
    assert "a9a" in thin("datasets")
    assert "rcv1" in thin("datasets", "rcv1")
    assert "need a data set" in thin("datasets", "--download", code=2).errors
    assert "there is no dataset 'rcv'" in thin("datasets", "rcv", code=2).errors


def test_predict(data, model, thin):
    labels = thin("predict", data, "-m", model).split()
    scores = [float(line) for line in thin("predict", data, "-m", model, "--scores").split()]
    objects = [json.loads(line) for line in thin("predict", data, "-m", model, "--json").splitlines()]
    assert len(labels) == ROWS
    assert labels == ["1" if score > 0 else "-1" for score in scores] == [str(o["label"]) for o in objects]
    np.testing.assert_allclose(scores, [o["score"] for o in objects], rtol=1e-7)
    said = thin("predict", data, "-m", model, "-o", "p.txt.gz")
    assert (said, said.errors) == ("", f"wrote {ROWS} predictions to p.txt.gz\n")
    assert gzip.decompress(Path("p.txt.gz").read_bytes()).decode().split() == labels


def test_predict_reads_features_as_the_model_learned_them(there, thin):
    Path("t.vw").write_text("1 |f a b\n-1 |f c\n")
    Path("new.vw").write_text("|f a\n|f c\n1 |f b\n")  # with labels or without
    thin("train", "t.vw", "-m", "v.ts", "--bits", "10", "--normalize", "l2", "-q")
    assert thin("predict", "new.vw", "-m", "v.ts").split() == ["1", "-1", "1"]
    assert "v.ts learned with bits 10; it cannot be used with bits 11" in (
        thin("predict", "new.vw", "-m", "v.ts", "--bits", "11", code=2).errors
    )
    Path("d.svm").write_text("1 1:1\n")
    assert (
        "v.ts: its features were read as names hashed into 2^10 numbers, but those of the data are read as column"
        in (thin("predict", "d.svm", "-m", "v.ts", code=1).errors)
    )
    said = thin("train", "t.vw", "--from", "v.ts", "-m", "v2.ts", "-q")  # nothing needs repeating
    assert read("v2.ts").learner.t == 4
    assert said == ""


def test_named_classes(there, thin):
    Path("t.jsonl").write_text('{"label": "spam", "a": 1}\n{"label": "ham", "b": 1}\n')
    thin("train", "t.jsonl", "--classes", "ham,spam", "-m", "j.ts", "-q", "--names", "9")
    assert thin("predict", "t.jsonl", "-m", "j.ts").split() == ["spam", "ham"]
    said = thin("inspect", "j.ts")
    assert "ham (negative), spam (positive)" in said
    assert re.search(r"^a +\d", said, flags=re.MULTILINE)


def test_evaluate(data, model, thin):
    found = json.loads(thin("evaluate", data, "-m", model, "--json"))
    predicted = np.array(thin("predict", data, "-m", model).split(), float)
    truth = np.array([float(line.split()[0]) for line in Path(data).read_text().splitlines()])
    assert found["rows"] == ROWS
    assert found["error"] == pytest.approx(np.mean(predicted != truth))
    assert found["sensitivity"] == pytest.approx(np.mean(predicted[truth > 0] > 0))
    assert thin("evaluate", data, "-m", model).startswith(f"examples           {ROWS} (")
    Path("e.vw").write_text("|f a\n")
    thin("train", data, "-m", "m.ts", "-q")
    Path("e.jsonl").write_text('{"a": 1, "label": null}\n')
    Path("f.jsonl").write_text('{"a": 1}\n')
    Path("l.jsonl").write_text('{"a": 1, "label": 1}\n')
    thin("train", "l.jsonl", "-m", "l.ts", "-q")
    assert "need labels, but row 0 has none" in thin("evaluate", "e.jsonl", "-m", "l.ts", code=1).errors
    assert (
        'its label under the key "label", which is missing' in thin("evaluate", "f.jsonl", "-m", "l.ts", code=1).errors
    )


def test_inspect(data, thin):
    model = "m.ts"
    thin("train", data, "-a", "adarda", "-m", model, "-q")
    said = thin("inspect", model, "-n", "1").splitlines()
    assert said[0] == "algorithm            AdaRDA"
    assert said[-1].split()[0] == "0"  # the feature that tells
    found = json.loads(thin("inspect", model, "--json"))
    assert (found["examples"], found["classes"], found["parameters"]["l1"]) == (ROWS, [-1, 1], 0.0)
    assert found["top"][0]["feature"] == 0
    assert f"progressive error    {100 * found['progressive_error']:.2f}%" in said
    assert f"sparsity             {100 * found['sparsity']:.2f}%" in said
    assert f"intercept            {found['intercept']:.6g}" in said
    assert "feature space        column numbers, from 0" in said


def test_export(data, model, thin):
    for ending in ("txt", "json", "h"):
        thin("export", model, f"x.{ending}")
        assert Path(f"x.{ending}").stat().st_size > 0
    assert "the extension must be" in thin("export", model, "x.foo", code=2).errors
    assert "no does not exist" in thin("export", model, "no/x.txt", code=1).errors


def test_merge(data, thin):
    lines = Path(data).read_text().splitlines(keepends=True)
    for name, part in (("a", lines[::2]), ("b", lines[1::2])):
        Path(f"{name}.svm").write_text("".join(part))
        thin("train", f"{name}.svm", "-a", "fsol", "-m", f"{name}.ts", "-q")
    assert thin("merge", "a.ts", "b.ts", "-m", "ab.ts").startswith("ab.ts: 20 examples")
    thin("merge", "b.ts", "a.ts", "-m", "ba.ts")
    assert Path("ab.ts").read_bytes() == Path("ba.ts").read_bytes()
    thin("train", "a.svm", "-a", "fsol", "-m", "c.ts", "--classes", "-1,1", "--normalize", "l2", "-q")
    assert (
        "a.ts and c.ts differ in their preparation of rows"
        in thin("merge", "a.ts", "c.ts", "-m", "x.ts", code=1).errors
    )
    Path("link.ts").symlink_to("a.ts")
    for same in ("a.ts", "./a.ts", "link.ts"):
        errors = thin("merge", "a.ts", "b.ts", same, "-m", "x.ts", code=1).errors
        assert "are the same file, and its examples would count twice" in errors
    for name in ("a", "b"):
        thin("train", f"{name}.svm", "-a", "ssol", "-m", f"{name}.ts", "-q")
    assert "on the command line --average" in thin("merge", "a.ts", "b.ts", "-m", "x.ts", code=1).errors
    assert not Path("x.ts").exists()


def test_shuffle_and_split(data, thin):
    lines = Path(data).read_text().splitlines(keepends=True)
    thin("shuffle", data, "-o", "s.svm", "--seed", "3")
    shuffled = Path("s.svm").read_text().splitlines(keepends=True)
    assert shuffled != lines
    assert sorted(shuffled) == sorted(lines)
    said = thin("split", data, "-o", "a.svm", "-o", "b.svm", "--first", "5")
    assert "wrote 5 lines to a.svm" in said.errors
    assert Path("a.svm").read_text() + Path("b.svm").read_text() == "".join(lines)
    assert "--fractions must be numbers" in (
        thin("split", data, "-o", "a.svm", "-o", "b.svm", "--fractions", "x,y", code=2).errors
    )
    assert "does not exist" in thin("shuffle", data, "-o", "no/s.svm", code=1).errors


def test_demo_needs_a_folder_that_can_be_made(there, thin):
    Path("taken").write_text("")
    assert "taken" in thin("demo", "--folder", "taken", code=1).errors
