"""The command line: every command, what it prints, how it fails; real processes where pipes and signals matter."""

import gzip
import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from thinstream.cli.app import run
from thinstream.cli.show import columns
from thinstream.models.file import read

SOURCE = str(Path(__file__).parents[1] / "src")
ROWS = 20

# by hand from the equations: the scores are 0 and -0.6081
TABLE = """\
   examples error %  since sens % spec %  sum %       cost log-loss    AUC  non-zeros sparsity %
          1  100.00 100.00   0.00      –      –       0.95   0.6931      –          3      40.00
          2   50.00   0.00   0.00 100.00  50.00       0.95   0.5639 1.0000          4      20.00
"""


@pytest.fixture
def there(tmp_path, monkeypatch):
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def data(there):
    """A few rows in which feature 1 tells the class."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(ROWS):
        y = 1 if i % 3 else -1
        lines.append(f"{y} 1:{y} {2 + i % 4}:{rng.normal():.2f}\n")
    Path("d.svm").write_text("".join(lines))
    return "d.svm"


@pytest.fixture
def model(data, thin):
    thin("train", data, "--model", "m.ts", "-q")
    return "m.ts"


@pytest.fixture
def thin(capsys):
    """Runs a command line in this process; returns what it printed."""

    def call(*arguments, code=0):
        capsys.readouterr()
        found = run(list(map(str, arguments)))
        out, errors = capsys.readouterr()
        assert found == code, errors
        assert "Traceback" not in errors
        if code:
            lines = [line for line in errors.splitlines() if line.startswith("thinstream: ")]
            assert len(lines) == 1, errors
        return Said(out, errors)

    return call


class Said(str):
    """Standard output, with standard error beside it."""

    def __new__(cls, out, errors):
        self = super().__new__(cls, out)
        self.errors = errors
        return self


def process(*arguments, **more):
    """The command as a process of its own."""
    command = [sys.executable, "-m", "thinstream", *map(str, arguments)]
    more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    child = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": SOURCE, "TERM": "xterm"}, **more)
    dog = threading.Timer(120, child.kill)  # one that hangs must not hang the tests
    dog.daemon = True
    dog.start()
    return child


def finished(child, given=None):
    out, errors = child.communicate(given, timeout=60)
    return child.returncode, (out or b"").decode(), (errors or b"").decode()


# ---------------------------------------------------------------- what is printed


def without_rate(table):
    return "".join(line[:-10].rstrip() + "\n" for line in table.splitlines())


def test_the_table(data, thin):
    Path("two.svm").write_text("1 1:1 2:0.5 4:-1\n-1 1:-1 5:2\n")
    table, _, rest = thin("train", "two.svm", "--l1", "0", "-a", "ssol").partition("\n\n")
    assert without_rate(table) == TABLE
    assert rest.splitlines()[0] == "examples           2 (1 positive)"
    assert rest.splitlines()[-1] == "non-zeros          4 of 5 weights"


def test_lines_double_and_the_last_stands_at_the_end(data, thin):
    table = thin("train", data).partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in table] == ["examples", "1", "2", "4", "8", "16", "20"]


def test_a_last_line_at_a_doubling_is_not_repeated(data, thin):
    Path("four.svm").write_text("".join(Path(data).read_text().splitlines(keepends=True)[:4]))
    table = thin("train", "four.svm").partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in table] == ["examples", "1", "2", "4"]


def test_narrow_terminals_get_fewer_columns():
    names = [name for name, _ in columns(80)]
    assert {"examples", "error %", "since", "AUC", "non-zeros", "rows/s"} <= set(names)
    assert "cost" not in names
    for width in range(40, 140):
        assert sum(size for _, size in columns(width)) <= width
    assert len(columns()) == 12


def test_json_lines(data, thin):
    *lines, last = map(json.loads, thin("train", data, "--json", "--model", "m.ts").splitlines())
    assert [line["rows"] for line in lines] == [1, 2, 4, 8, 16, 20]
    assert (last["model"], last["skipped"], last["rows"], last["error"]) == ("m.ts", 0, 20, lines[-1]["error"])
    first = lines[0]
    assert set(first) >= {"error", "sensitivity", "specificity", "weighted_sum", "cost", "log_loss", "auc"}
    assert (first["error"], first["sensitivity"], first["non_zeros"], first["features"]) == (0.0, None, 2, 5)
    assert first["since"]["rows"] == 1


def test_quiet_says_nothing(data, thin):
    said = thin("train", data, "--model", "m.ts", "-q")
    assert (said, said.errors) == ("", "")


def test_one_class_only_is_remarked(there, thin):
    Path("ones.svm").write_text("1 1:1\n2 1:1\n")
    assert "all 2 labels are positive; if others are meant, say which: --classes" in thin("train", "ones.svm").errors


def test_version_and_help(thin):
    assert re.fullmatch(r"thinstream \d+\.\d+\.\d+\S*\n", thin("--version"))
    names = "train predict evaluate convert inspect export merge shuffle split algorithms demo datasets"
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
    assert len(lines) == 20
    assert lines[0].startswith("AdaFOBOS")
    assert "--l1" in thin("algorithms", "ssol")
    entry = json.loads(thin("algorithms", "fsol", "--json"))
    assert (entry["name"], entry["parameters"]["eta"]["allowed"]) == ("FSOL", "a number > 0")


def test_datasets(there, thin, monkeypatch):
    monkeypatch.setenv("THINSTREAM_DATA", str(there))
    assert "a9a" in thin("datasets")
    assert "rcv1" in thin("datasets", "rcv1")
    assert "name the data set" in thin("datasets", "--download", code=2).errors
    assert "no data set is called 'rcv'" in thin("datasets", "rcv", code=2).errors


# ---------------------------------------------------------------- the other commands


def test_predict(data, model, thin):
    labels = thin("predict", data, "-m", model).split()
    scores = [float(line) for line in thin("predict", data, "-m", model, "--scores").split()]
    objects = [json.loads(line) for line in thin("predict", data, "-m", model, "--json").splitlines()]
    assert len(labels) == ROWS
    assert labels == ["1" if score > 0 else "-1" for score in scores] == [str(o["label"]) for o in objects]
    np.testing.assert_allclose(scores, [o["score"] for o in objects], rtol=1e-7)
    said = thin("predict", data, "-m", model, "-o", "p.txt.gz")
    assert (said, said.errors) == ("", f"{ROWS} predictions in p.txt.gz\n")
    assert gzip.decompress(Path("p.txt.gz").read_bytes()).decode().split() == labels


def test_predict_reads_features_as_the_model_learned_them(there, thin):
    Path("t.vw").write_text("1 |f a b\n-1 |f c\n")
    Path("new.vw").write_text("|f a\n|f c\n1 |f b\n")  # with labels or without
    thin("train", "t.vw", "-m", "v.ts", "--bits", "10", "--normalize", "l2", "-q")
    assert thin("predict", "new.vw", "-m", "v.ts").split() == ["1", "-1", "1"]
    assert "v.ts learned with bits 10; it cannot be used with 11" in (
        thin("predict", "new.vw", "-m", "v.ts", "--bits", "11", code=2).errors
    )
    Path("d.svm").write_text("1 1:1\n")
    assert "v.ts: its features were read as {'hashing':" in thin("predict", "d.svm", "-m", "v.ts", code=1).errors
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
    Path("e.jsonl").write_text('{"a": 1}\n')
    Path("l.jsonl").write_text('{"a": 1, "label": 1}\n')
    thin("train", "l.jsonl", "-m", "l.ts", "-q")
    assert "need labels, row 0 has none" in thin("evaluate", "e.jsonl", "-m", "l.ts", code=1).errors


def test_inspect(data, model, thin):
    said = thin("inspect", model, "-n", "1").splitlines()
    assert said[0] == "algorithm            AdaRDA"
    assert said[-1].split()[0] == "0"  # the feature that tells
    found = json.loads(thin("inspect", model, "--json"))
    assert (found["examples"], found["classes"], found["parameters"]["l1"]) == (ROWS, [-1, 1], 0.0)
    assert found["top"][0]["feature"] == 0


def test_export(data, model, thin):
    for ending in ("txt", "json", "h"):
        thin("export", model, f"x.{ending}")
        assert Path(f"x.{ending}").stat().st_size > 0
    assert "the extension must be" in thin("export", model, "x.foo", code=2).errors
    assert "no folder" in thin("export", model, "no/x.txt", code=1).errors


def test_merge(data, thin):
    lines = Path(data).read_text().splitlines(keepends=True)
    for name, part in (("a", lines[::2]), ("b", lines[1::2])):
        Path(f"{name}.svm").write_text("".join(part))
        thin("train", f"{name}.svm", "-a", "fsol", "-m", f"{name}.ts", "-q")
    assert thin("merge", "a.ts", "b.ts", "-m", "ab.ts").startswith("ab.ts: 20 examples")
    thin("merge", "b.ts", "a.ts", "-m", "ba.ts")
    assert Path("ab.ts").read_bytes() == Path("ba.ts").read_bytes()
    thin("train", "a.svm", "-a", "fsol", "-m", "c.ts", "--classes", "-1,1", "--normalize", "l2", "-q")
    assert "a.ts and c.ts differ in their space" in thin("merge", "a.ts", "c.ts", "-m", "x.ts", code=1).errors
    assert not Path("x.ts").exists()


def test_shuffle_and_split(data, thin):
    lines = Path(data).read_text().splitlines(keepends=True)
    thin("shuffle", data, "-o", "s.svm", "--seed", "3")
    shuffled = Path("s.svm").read_text().splitlines(keepends=True)
    assert shuffled != lines
    assert sorted(shuffled) == sorted(lines)
    said = thin("split", data, "-o", "a.svm", "-o", "b.svm", "--first", "5")
    assert "5 lines in a.svm" in said.errors
    assert Path("a.svm").read_text() + Path("b.svm").read_text() == "".join(lines)
    assert "--fractions must be numbers" in (
        thin("split", data, "-o", "a.svm", "-o", "b.svm", "--fractions", "x,y", code=2).errors
    )
    assert "there is no folder" in thin("shuffle", data, "-o", "no/s.svm", code=1).errors


def test_a_picture_without_a_place_is_found_out_first(there, thin):
    assert "no/x.png: cannot be written: there is no folder" in thin("demo", "--out", "no/x.png", code=1).errors


# ---------------------------------------------------------------- caches


def test_training_from_a_cache_gives_the_same_bytes(data, model, thin):
    pytest.importorskip("pyarrow")
    assert f"{ROWS} rows in c.cache" in thin("convert", data, "-o", "c.cache").errors
    thin("train", "c.cache", "-m", "c.ts", "-q")
    thin("train", data, "--cache", "-m", "k.ts", "-q")
    thin("train", data, "--cache", "-m", "k2.ts", "-q")
    for name in ("c.ts", "k.ts", "k2.ts"):
        assert Path(name).read_bytes() == Path(model).read_bytes()


@pytest.mark.parametrize("place", [0.0, 0.5, 0.99])
def test_damaged_caches_are_refused_or_written_again(data, model, thin, place):
    pytest.importorskip("pyarrow")
    thin("train", data, "--cache", "-q")
    raw = bytearray(Path("d.svm.cache").read_bytes())
    raw[int(place * len(raw))] ^= 0xFF
    Path("d.svm.cache").write_bytes(raw)
    assert "d.svm.cache is" in thin("train", "d.svm.cache", "-q", code=1).errors
    thin("train", data, "--cache", "-m", "k.ts", "-q")
    assert Path("k.ts").read_bytes() == Path(model).read_bytes()
    thin("train", "d.svm.cache", "-q")


def test_a_cache_is_written_again_when_its_source_or_reading_changes(there, thin):
    pytest.importorskip("pyarrow")
    path = Path("d.jsonl")
    path.write_text('{"label": 1, "w": 3, "a": 1}\n{"label": 0, "w": 1, "b": 1}\n' * 2000)
    thin("train", path, "--cache", "-q", "-m", "1.ts")
    thin("train", path, "--cache", "-q", "-m", "2.ts", "--weight", "w")
    thin("train", path, "-q", "-m", "3.ts", "--weight", "w")
    assert Path("2.ts").read_bytes() == Path("3.ts").read_bytes() != Path("1.ts").read_bytes()
    text = path.read_text()
    path.write_text(text[:-1000].rpartition("\n")[0] + "\n")  # far from its head
    thin("train", path, "--cache", "-q", "-m", "4.ts")
    assert read("4.ts").learner.t < 4000
    replaced = path.read_text()
    path.write_text(replaced[:-30] + replaced[-30:].replace('"b": 1', '"c": 1'))  # not even in its size
    os.utime(path, ns=(time.time_ns() + 10**10,) * 2)
    thin("train", path, "--cache", "-q", "-m", "5.ts")
    thin("train", path, "-q", "-m", "6.ts")
    assert Path("5.ts").read_bytes() == Path("6.ts").read_bytes()


def test_a_cache_tells_of_records_left_out(there, thin):
    pytest.importorskip("pyarrow")
    Path("b.svm").write_text("1 1:1\n1 x\n-1 2:1\n")
    said = thin("train", "b.svm", "--cache", "--on-error", "skip", "--passes", "2")
    assert "1 bad records were passed over, the first: b.svm, line 2" in said.errors


def test_options_a_cache_contradicts(there, thin):
    pytest.importorskip("pyarrow")
    Path("t.vw").write_text("1 |f a b\n-1 |f c\n")
    thin("convert", "t.vw", "-o", "t.cache", "--bits", "4")
    assert "t.cache was made with bits 4, cannot be read with 5" in (
        thin("train", "t.cache", "--bits", "5", code=2).errors
    )
    thin("train", "t.cache", "--bits", "4", "--normalize", "l2", "-m", "c.ts", "-q")
    thin("train", "t.vw", "--bits", "4", "--normalize", "l2", "-m", "t.ts", "-q")
    assert Path("c.ts").read_bytes() == Path("t.ts").read_bytes()
    assert "float32, the model needs float64" in thin("train", "t.cache", "--dtype", "float64", code=1).errors
    assert "standard input and pipes have none" in thin("train", "-", "--cache", code=2).errors
    assert "names are found in the text" in thin("train", "t.vw", "--cache", "--names", "3", code=2).errors


# ---------------------------------------------------------------- bad input


BAD = "+1 1:1\n-1 2:1\n+1 3:abc 4:1\n-1 1:1\n"


@pytest.mark.parametrize("compressed", [False, True])
def test_a_bad_line_is_shown_with_its_place(there, thin, compressed):
    name = "b.svm.gz" if compressed else "b.svm"
    Path(name).write_bytes(gzip.compress(BAD.encode()) if compressed else BAD.encode())
    Path("old.ts").write_text("the old model")
    said = thin("train", name, "-m", "old.ts", code=1)
    expected = f"thinstream: {name}, line 3, column 6: a value must be a finite decimal number, got 'abc'\n"
    assert said.errors == expected
    assert Path("old.ts").read_text() == "the old model"
    assert sorted(os.listdir()) == sorted([name, "old.ts"])
    said = thin("train", name, "-m", "new.ts", "--on-error", "skip", "--passes", "3")
    assert f"1 bad records were passed over, the first: {name}, line 3, column 6" in said.errors
    assert read("new.ts").learner.t == 9
    assert "more than 0 bad records, the last: " in (
        thin("train", name, "--on-error", "skip", "--max-errors", "0", code=1).errors
    )
    assert thin("predict", name, "-m", "new.ts", "-o", "p.txt", code=1).errors.startswith(f"thinstream: {name}, line 3")
    assert sorted(os.listdir()) == sorted([name, "old.ts", "new.ts"])


def test_skipped_records_are_counted_once_across_a_resumed_run(there, thin, monkeypatch):
    from thinstream.training.checkpoint import Checkpoints

    Path("b.svm").write_text("1 1:1\n-1 2:1\n1 x\n" * 40)
    real, left = Checkpoints.write, [5]

    def write(self, *arguments):
        real(self, *arguments)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoints, "write", write)
    options = ["b.svm", "-m", "m.ts", "--checkpoint-every", "7", "--on-error", "skip", "--max-errors", "40"]
    assert run(["train", *options]) == 130
    monkeypatch.undo()
    os.chdir(there)
    said = thin("train", *options, "--resume")
    assert "resumed from m.ts.checkpoint after 35 rows" in said.errors
    assert "40 bad records" in said.errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.svm"], "there is no file no.svm"),
        (["."], ". is a folder; name files, or a glob"),
        (["x*.svm"], "no file matches x*.svm"),
        (["-", "-"], "standard input (-) can be read once only"),
        (["empty.svm"], "empty.svm: there is no example in it"),
        (["d.svm", "t.vw"], "files of one format are needed, d.svm is libsvm, t.vw is vw"),
        (["d.svm", "-m", "no/m.ts"], "no/m.ts: cannot be written: there is no folder"),
        (["d.svm", "-m", "."], ".: cannot be written: it is a folder"),
        (["d.svm", "--from", "cut.ts"], "cut.ts: is not a safetensors file, or a damaged one"),
        (["d.svm", "--from", "no.ts"], "no.ts: there is no such file"),
        (["d.svm", "--from", "flipped.ts"], "flipped.ts: is damaged: its checksum does not fit"),
        (["d.svm", "--from", "m.ts", "--normalize", "l2"], "m.ts: its features were read as column numbers"),
        (["d.svm", "--from", "w.ts"], "w.ts holds weights only"),
        (["cut.svm.gz"], "cut.svm.gz ends in the middle of its compressed data"),
        (["d.svm", "-m", "x.ts", "--checkpoint", "m.ts", "--resume"], "m.ts is a model, but not a checkpoint"),
    ],
)
def test_bad_input(data, model, thin, arguments, message):
    Path("empty.svm").write_bytes(b"")
    Path("t.vw").write_text("1 |f a\n")
    raw = Path(model).read_bytes()
    Path("cut.ts").write_bytes(raw[: len(raw) // 2])
    Path("flipped.ts").write_bytes(raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:])
    Path("cut.svm.gz").write_bytes(gzip.compress(Path(data).read_bytes())[:-20])
    thin("train", data, "-m", "w.ts", "--weights-only", "-q")
    before = sorted(os.listdir())
    said = thin("train", *arguments, code=1)
    assert said.errors.startswith(f"thinstream: {message}")
    assert said == ""
    assert sorted(os.listdir()) == before
    assert Path(model).read_bytes() == raw


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bogus"], "No such option: --bogus"),
        (["--bogus", "--help-me"], "No such option"),
        (["-a", "fsl"], "no algorithm is called 'fsl'; did you mean 'FSOL'?"),
        (["--l1", "-1"], "Invalid value: AdaRDA: l1 must be a number ≥ 0, got -1"),
        (["--l1", "much"], "Invalid value: AdaRDA: l1 must be a number ≥ 0, got 'much'"),
        (["-a", "fsol", "--r", "1"], "No such option: --r"),
        (["--passes", "0"], "Invalid value for '--passes'"),
        (["--checkpoint-every", "x"], "Invalid value for '--checkpoint-every'"),
        (["--checkpoint-every", "5"], "checkpoints need a place: give --model or --checkpoint"),
        (["--resume"], "checkpoints need a place: give --model or --checkpoint"),
        (["--zero-based", "maybe"], "--zero-based must be 'no', 'yes' or 'auto', got 'maybe'"),
        (["--on-error", "ignore"], "on_error must be 'raise' or 'skip', got 'ignore'"),
        (["--dtype", "int8"], "AdaRDA: dtype must be 'float32' or 'float64', got 'int8'"),
        (["--format", "xml"], "format must be 'libsvm'"),
        (["--normalize", "l1"], "normalize must be None or 'l2', got 'l1'"),
        (["--class-weight", "1"], "--class-weight must be balanced or two numbers > 0 as in 1,20, got '1'"),
        (["--classes", "1,1"], "--classes must be two labels, NEG,POS, got '1,1'"),
        (["--bits", "3"], "bits is for files of the format 'vw'"),
        (["--label", "y"], "label is for files of the format 'csv'"),
        (["--from", "m.ts", "--l1", "3"], "m.ts learned with l1 0.0; it cannot go on with 3"),
        (["--from", "m.ts", "-a", "fsol"], "m.ts is a model of AdaRDA; it cannot go on as fsol"),
        (["--from", "m.ts", "--dtype", "float64"], "m.ts learned with dtype float32; it cannot go on with float64"),
        (["--from", "m.ts", "--intercept"], "m.ts learned with intercept False; it cannot go on with True"),
        (
            ["--from", "m.ts", "--class-weight", "balanced"],
            "m.ts learned with class weights 1,1; it cannot go on with balanced",
        ),
        (["--from", "m.ts", "--classes", "0,1"], "m.ts has the classes -1, 1; it cannot go on with 0,1"),
    ],
)
def test_wrong_command_lines(data, model, thin, arguments, message):
    said = thin("train", data, *arguments, code=2)
    assert said.errors.startswith(f"thinstream: {message}")
    assert said == ""
    assert sorted(os.listdir()) == ["d.svm", "m.ts"]


def test_missing_arguments_and_commands(thin):
    assert "Missing argument" in thin("train", code=2).errors
    assert thin("foo", code=2).errors.startswith("thinstream: No such command 'foo'")
    assert "Missing option '--model'" in thin("predict", "x", code=2).errors


def test_repeating_what_a_model_learned_with_is_fine(data, thin):
    thin("train", data, "-a", "fsol", "--l1", "0.5", "--class-weight", "1,3", "--intercept", "-m", "m.ts", "-q")
    again = ["-a", "FSOL", "--l1", "0.5", "--class-weight", "1,3", "--intercept", "--dtype", "float32"]
    thin("train", data, "--from", "m.ts", *again, "-m", "m2.ts", "-q")
    thin("train", data, "--from", "m.ts", "-m", "m3.ts", "-q")
    assert read("m2.ts").learner.t == 2 * ROWS
    assert Path("m2.ts").read_bytes() == Path("m3.ts").read_bytes()


def test_a_full_disk_leaves_the_old_model(data, model, thin, monkeypatch):
    from thinstream.models import file

    def full(*arguments):
        raise OSError(28, os.strerror(28))

    before = Path(model).read_bytes()
    monkeypatch.setattr(file, "put", full)
    said = thin("train", data, "-m", model, code=1)
    assert "thinstream: m.ts: cannot be written: No space left on device\n" in said.errors
    assert Path(model).read_bytes() == before
    assert sorted(os.listdir()) == ["d.svm", "m.ts"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_full_outputs(data, model, thin):
    assert "No space left on device" in thin("predict", data, "-m", model, "-o", "/dev/full", code=1).errors


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_found_out_first(data, thin):
    os.mkdir("locked", 0o500)
    assert "is not writable" in thin("train", data, "-m", "locked/m.ts", code=1).errors


# ---------------------------------------------------------------- processes


def test_pipes_compose(data, model):
    text = gzip.compress(Path(data).read_bytes())
    code, out, errors = finished(
        process("train", "-", "-q", "--model", "p.ts", stdin=subprocess.PIPE), gzip.decompress(text)
    )
    assert (code, out, errors) == (0, "", "")
    assert Path("p.ts").read_bytes() == Path(model).read_bytes()


def test_errors_do_not_touch_standard_output(there):
    code, out, errors = finished(process("train", "-", stdin=subprocess.PIPE), b"+1 1:1\n-1 oops\n")
    assert (code, out) == (1, "")
    assert errors.startswith("thinstream: standard input, line 2, column 4: ")
    assert errors.count("\n") == 1


def test_a_reader_that_leaves(data, model):
    Path("long.svm").write_text(Path(data).read_text() * 20_000)
    child = process("predict", "long.svm", "-m", model)
    assert child.stdout.readline() in (b"-1\n", b"1\n")
    child.stdout.close()
    errors = child.stderr.read()
    child.stderr.close()
    assert (child.wait(60), errors) == (141, b"")


def test_start_up_leaves_heavy_packages_alone(data):
    code = "import os, sys; from thinstream.cli.app import main\n"
    code += "os._exit = lambda code: print(*sys.modules)\nmain()"  # how the command ends
    command = [sys.executable, "-c", code, "train", data, "-q"]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    loaded = set(out.split())
    assert "thinstream.training.run" in loaded
    heavy = {"sklearn", "scipy.linalg", "scipy.sparse", "pandas", "pyarrow", "matplotlib", "rich", "onnx"}
    assert not loaded & heavy


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_silent_pipe_does_not_hold_up_a_signal(data, model, number):
    """The run waits for input, is stopped, and goes on from the start of the input."""
    lines = Path(data).read_bytes()
    child = process("train", "-", "--json", "-m", "s.ts", stdin=subprocess.PIPE)
    child.stdin.write(lines[: lines.index(b"\n") + 1])
    child.stdin.flush()
    assert json.loads(child.stdout.readline())["rows"] == 1
    child.send_signal(number)
    assert child.wait(20) == 128 + number
    errors = child.stderr.read().decode()
    for stream in (child.stdin, child.stdout, child.stderr):
        stream.close()
    name = signal.Signals(number).name
    assert errors == f"thinstream: stopped by {name}; s.ts.checkpoint holds all of it: go on with --resume\n"
    child = process("train", "-", "-m", "s.ts", "--resume", stdin=subprocess.PIPE)
    code, _, errors = finished(child, lines)
    assert (code, errors) == (0, "resumed from s.ts.checkpoint after 1 rows\n")
    assert Path("s.ts").read_bytes() == Path(model).read_bytes()
    assert sorted(os.listdir()) == ["d.svm", "m.ts", "s.ts"]


def test_sigterm_takes_half_written_files_away(data, model):
    child = process("predict", "-", "-m", model, "-o", "p.txt", stdin=subprocess.PIPE)
    child.stdin.write(Path(data).read_bytes())
    child.stdin.flush()
    deadline = time.monotonic() + 30
    while len(os.listdir()) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGTERM)
    code, out, errors = finished(child)
    assert (code, out, errors) == (143, "", "")
    assert sorted(os.listdir()) == ["d.svm", "m.ts"]


def on_terminal(width, *arguments):
    """What a process writes to a terminal."""
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    child = process(*arguments, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    found = b""
    while True:
        try:
            block = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        found += block
    os.close(ours)
    return child.wait(60), found.decode()


@pytest.mark.skipif(os.name != "posix", reason="has no pty")
def test_a_terminal_shows_the_bar_and_a_clean_table(data):
    code, text = on_terminal(80, "train", data)
    assert code == 0
    assert "━" in text  # the bar
    assert "\x1b[?25h" in text  # the cursor is back
    shown = [
        part.split("\r")[-1] for part in re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", text).replace("\r\n", "\n").split("\n")
    ]
    first = next(i for i, line in enumerate(shown) if line.startswith("   examples"))
    table = shown[first : first + 7]
    assert [line.split()[0] for line in table] == ["examples", "1", "2", "4", "8", "16", "20"]
    assert len({len(line) for line in table}) == 1
    assert len(table[0]) <= 80
    assert "\x1b[2K" in text[text.rindex("━") :]  # it is gone in the end


@pytest.mark.skipif(os.name != "posix", reason="has no pty")
def test_errors_on_a_terminal(data):
    code, text = on_terminal(60, "train", data, "--bogus")
    assert (code, text.count("\n")) == (2, 1)


# ---------------------------------------------------------------- what a first user stumbled over


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
    ):
        assert "is an input: writing to it would destroy it" in thin(*arguments, code=2).errors
    assert (Path(data).read_bytes(), Path(model).read_bytes()) == before


def test_a_model_does_not_go_to_standard_output(data, thin):
    assert "a model goes to a file" in thin("train", data, "-m", "-", code=2).errors


def test_a_pipe_has_one_pass(data, thin):
    os.mkfifo("pipe")
    for source in ("-", "pipe"):
        said = thin("train", source, "--passes", "2", code=2)
        assert said.errors == "thinstream: a pipe can be read once only: --passes needs files\n"


def test_what_is_no_feature_is_remembered(there, thin):
    """The label's column, ignored columns and the missing header need not be said again."""
    Path("d.csv").write_text("y,time,a,b\n" + "1,1700000000,2,x\n0,1700000001,-2,y\n" * 50)
    thin("train", "d.csv", "--label", "y", "--ignore", "time", "--normalize", "l2", "-m", "m.ts", "-q")
    scores = thin("predict", "d.csv", "-m", "m.ts", "--scores")
    Path("new.csv").write_text("a,b\n" + "2,x\n-2,y\n" * 50)
    assert thin("predict", "new.csv", "-m", "m.ts", "--scores") == scores
    assert "error              0.00 %" in thin("evaluate", "d.csv", "-m", "m.ts")
    Path("bare.csv").write_text("1,2,x\n0,-2,y\n" * 50)
    thin("train", "bare.csv", "--no-header", "--label", "c1", "-m", "bare.ts", "-q")
    assert thin("predict", "bare.csv", "-m", "bare.ts").split() == ["1", "-1"] * 50


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
    assert "labels come in long runs" in thin("train", "sorted.svm").errors
    thin("shuffle", "sorted.svm", "-o", "mixed.svm")
    said = thin("train", "mixed.svm", "--passes", "2")
    assert said.errors == ""
    assert "rows had been learned before" in said


def test_compressed_bytes_under_another_name(data, thin):
    Path("d.txt").write_bytes(gzip.compress(Path(data).read_bytes()))
    errors = thin("train", "d.txt", code=1).errors
    assert errors == (
        "thinstream: d.txt is compressed with gzip: give it a name that ends in .gz, or decompress it first\n"
    )


def test_a_full_table_of_names_is_remarked(there, thin):
    Path("d.vw").write_text("1 |f a b c\n-1 |f d e\n")
    assert "2 names are kept, as --names says" in thin("train", "d.vw", "--names", "2").errors


def test_json_exports_say_how_features_are_numbered(there, thin):
    Path("d.vw").write_text("1 |f a b c\n-1 |f d e\n")
    thin("train", "d.vw", "--bits", "10", "--normalize", "l2", "-m", "m.ts", "-q")
    thin("export", "m.ts", "m.json")
    space = json.loads(Path("m.json").read_text())["space"]
    assert (space["hashing"]["bits"], space["normalize"]) == (10, "l2")


def test_keys_that_no_record_has_are_remarked(there, thin):
    Path("d.jsonl").write_text('{"label": 1, "txt": "a b"}\n{"label": 0, "txt": "c"}\n')
    assert "no record has 'text', named in --text or --ignore" in thin("train", "d.jsonl", "--text", "text").errors
    assert thin("train", "d.jsonl", "--text", "txt").errors == ""
