"""Bad data and wrong command lines: one line that tells, an exit code, nothing half-written."""

import gzip
import json
import os
import random
from pathlib import Path

import pytest

from tests.cli.commands import ROWS
from thinstream.cli.app import run
from thinstream.models.file import read

BAD = "+1 1:1\n-1 2:1\n+1 3:abc 4:1\n-1 1:1\n"

#: A model, as far as the command looks at it.
OLD = '........{"__metadata__":{"thinstream":"…'


@pytest.mark.parametrize("compressed", [False, True])
def test_a_bad_line_is_shown_with_its_place(there, thin, compressed):
    name = "b.svm.gz" if compressed else "b.svm"
    Path(name).write_bytes(gzip.compress(BAD.encode()) if compressed else BAD.encode())
    Path("old.ts").write_text(OLD)
    said = thin("train", name, "-m", "old.ts", code=1)
    expected = f"thinstream: {name}, line 3, column 6: a value must be a finite decimal number, got 'abc'\n"
    assert said.errors == expected
    assert Path("old.ts").read_text() == OLD
    assert sorted(os.listdir()) == sorted([name, "old.ts"])
    said = thin("train", name, "-m", "new.ts", "--on-error", "skip", "--passes", "3")
    assert f"skipped 1 invalid record, the first: {name}, line 3, column 6" in said.errors
    assert read("new.ts").learner.t == 9
    assert "more than 0 bad records; the last one: " in (
        thin("train", name, "--on-error", "skip", "--max-errors", "0", code=1).errors
    )
    assert thin("predict", name, "-m", "new.ts", "-o", "p.txt", code=1).errors.startswith(f"thinstream: {name}, line 3")
    assert sorted(os.listdir()) == sorted([name, "old.ts", "new.ts"])


def test_rows_before_a_bad_record_are_learned_and_predicted(there, thin):
    """A checkpoint holds what was learned up to the record; the run may go past it. Predictions before it come out."""
    rows = "+1 1:1\n-1 2:1\n" * 10
    Path("bad.svm").write_text(rows + "+1 3:abc\n" + rows)
    thin("train", "bad.svm", "-m", "whole.ts", "--on-error", "skip")
    options = ["bad.svm", "-m", "m.ts", "--checkpoint-every", "1000"]
    assert "line 21, column 6" in thin("train", *options, code=1).errors
    assert read("m.ts.checkpoint").learner.t == 20
    assert "resumed from m.ts.checkpoint after 20 rows" in (
        thin("train", *options, "--resume", "--on-error", "skip").errors
    )
    assert read("m.ts").learner.t == 40
    assert Path("m.ts").read_bytes() == Path("whole.ts").read_bytes()
    said = thin("predict", "bad.svm", "-m", "m.ts", code=1)
    assert said == "1\n-1\n" * 10
    assert "line 21, column 6" in said.errors


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
    assert "40 invalid records" in said.errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.svm"], "the file no.svm does not exist"),
        (["nothing"], "the folder nothing has no files"),
        (["x*.svm"], "no file matches x*.svm"),
        (["-", "-"], "standard input (-) can be read only once"),
        (["empty.svm"], "empty.svm: the data has no rows"),
        (["d.svm", "t.vw"], "all files must have the same format, got d.svm (libsvm) and t.vw (vw)"),
        (["d.svm", "-m", "no/m.ts"], "no/m.ts: cannot be written: the folder "),
        (["d.svm", "-m", "."], ".: cannot be written: it is a folder"),
        (["d.svm", "--from", "cut.ts"], "cut.ts: is not a model file, or is damaged\n"),
        (["d.svm", "--from", "no.ts"], "no.ts: does not exist"),
        (["d.svm", "--from", "flipped.ts"], "flipped.ts: is damaged: its checksum does not match"),
        (["d.svm", "--from", "w.ts"], "w.ts has weights only"),
        (["cut.svm.gz", "-q"], "cut.svm.gz ends in the middle of its compressed data"),
        (["d.svm", "-m", "x.ts", "--checkpoint", "m.ts", "--resume"], "m.ts is a model file, but not a checkpoint"),
    ],
)
def test_bad_input(data, model, thin, arguments, message):
    Path("empty.svm").write_bytes(b"")
    Path("t.vw").write_text("1 |f a\n")
    Path("nothing").mkdir()
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
        (["--bogus"], "unknown option --bogus (see thinstream train --help)"),
        (["--passs", "3", "--help-me"], "unknown option --passs; did you mean --passes?"),
        (
            ["--l1", "1"],
            "Auto has no option --l1. Its options are --portfolio, --max-nnz, --max-density, --drop, --interactions. ",
        ),
        (["--portfolio", "arow"], "Auto: --portfolio must be a list of at least one estimator that learns online"),
        (["--portfolio", "arow,bcw"], "portfolio: members must learn online, but BCW does not"),
        (["--drop=maybe"], "--no-drop is a flag without a value, got 'maybe'"),
        (["-a", "fsl"], "unknown algorithm 'fsl'; did you mean 'FSOL'?"),
        (["-a", "adarda", "--l1", "-1"], "AdaRDA: --l1 must be a number ≥ 0, got -1"),
        (["-a", "adarda", "--l1", "much"], "AdaRDA: --l1 must be a number ≥ 0, got 'much'"),
        (
            ["-a", "fsol", "--r", "1"],
            "FSOL has no option --r. Its options are --eta, --l1, --l1-schedule, --half-life. AROW, SOFS, SSOL have ",
        ),
        (["--passes", "0"], "--passes must be a whole number ≥ 1, got '0' (see thinstream train --help)"),
        (["--checkpoint-every", "x"], "--checkpoint-every must be a whole number ≥ 1, got 'x'"),
        (["--checkpoint-every", "5"], "checkpoints need a file. Pass --model or --checkpoint"),
        (["--resume"], "checkpoints need a file. Pass --model or --checkpoint"),
        (["--zero-based", "maybe"], "--zero-based must be 'no', 'yes' or 'auto', got 'maybe'"),
        (["--on-error", "ignore"], "on_error must be 'raise' or 'skip', got 'ignore'"),
        (["--dtype", "int8"], "Auto: dtype must be 'float32' or 'float64', got 'int8'"),
        (["--format", "xml"], "format must be 'libsvm'"),
        (["--normalize", "l1"], "normalize must be None or 'l2', got 'l1'"),
        (["--class-weight", "1"], "--class-weight must be balanced or two numbers > 0 such as 1,20, got '1'"),
        (["--classes", "1,1"], "--classes must be two or more different labels, as in NEG,POS or A,B,C, got '1,1'"),
        (["--bits", "3"], "bits is an option of the format 'arrow', 'cache', 'csv'"),
        (["--label", "y"], "label is an option of the format 'arrow', 'cache', 'csv'"),
        (["--from", "m.ts", "--max-nnz", "3"], "m.ts was trained with max_nnz None, and cannot continue with 3"),
        (["--from", "m.ts", "-a", "fsol"], "m.ts is a model of Auto, and cannot continue as fsol"),
        (
            ["--from", "m.ts", "--dtype", "float64"],
            "m.ts was trained with dtype float32, and cannot continue with float64",
        ),
        (["--from", "m.ts", "--normalize", "l2"], "m.ts was trained with normalize None, and cannot continue with l2"),
        (["--from", "m.ts", "--no-intercept"], "m.ts was trained with intercept True, and cannot continue with False"),
        (
            ["--from", "m.ts", "--class-weight", "balanced"],
            "m.ts was trained with class weights 1,1, and cannot continue with balanced",
        ),
        (["--from", "m.ts", "--classes", "0,1"], "m.ts has the classes -1, 1, and cannot continue with 0,1"),
    ],
)
def test_wrong_command_lines(data, model, thin, arguments, message):
    said = thin("train", data, *arguments, code=2)
    assert said.errors.startswith(f"thinstream: {message}")
    assert said == ""
    assert sorted(os.listdir()) == ["d.svm", "m.ts"]


def test_missing_arguments_and_commands(thin):
    assert "DATA is missing: files, globs, or - for standard input (see" in thin("train", code=2).errors
    assert thin("foo", code=2).errors.startswith("thinstream: unknown command 'foo' (see")
    assert "unknown command 'trian'; did you mean 'train'?" in thin("trian", code=2).errors
    assert "--model / -m is missing: the model file (see" in thin("predict", "x", code=2).errors


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


def garbage(seed):
    """Random bytes, or random characters that formats are made of, after the first bytes of compressed files or not."""
    rng = random.Random(seed)
    size = rng.choice([0, 1, 10, 100, 1000, 10_000, 100_000])
    alphabets = [bytes(range(256)), b'ab,"\n', b"0123456789.,e-+\n", b'{}[]:,"\\ 01ae\n', b"1 :-|.\n"]
    start = rng.choice([b""] * 4 + [b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PAR1"])
    name = "rows" + rng.choice([".csv", ".tsv", ".jsonl", ".vw", ".svm", ".txt", ""])
    return name, start + bytes(rng.choices(rng.choice(alphabets), k=size))


def test_garbage_is_refused_without_a_traceback(there, capsys):
    for seed in range(80):
        name, content = garbage(seed)
        Path(name).write_bytes(content)
        assert run(["train", name, "-q"]) in (0, 1, 2), seed
    assert "Traceback" not in capsys.readouterr().err


def test_many_bad_records_before_the_first_good_one(there, thin):
    """Pieces that are inspected for labels get larger, but not beyond the file."""
    Path("rows.csv").write_text("label,a\n" + "1,2,3\n" * 80 + "1,2\n0,3\n" * 5)
    assert "line 2" in thin("train", "rows.csv", "-q", code=1).errors
    out = thin("train", "rows.csv", "-a", "arow", "--on-error", "skip", "--json")
    assert json.loads(out.splitlines()[-1])["rows"] == 10
