"""``thinstream train --engine local``: the bytes of one machine, and what is refused."""

import json
import time
from pathlib import Path

import pytest

from tests.cli.commands import finished, process

LINES = [f"{'+1' if k % 3 else '-1'} {k % 7 + 1}:1 {k % 5 + 10}:0.5" for k in range(300)]


@pytest.fixture
def data(tmp_path):
    for part in range(2):
        (tmp_path / f"part-{part}.svm").write_text("\n".join(LINES[part::2]) + "\n")
    return str(tmp_path / "part-*.svm")


def test_one_worker_writes_the_file_of_one_machine(data, tmp_path):
    for name, more in (("a", []), ("b", ["--engine", "local", "--workers", "1"])):
        code, _, errors = finished(process("train", data, "-a", "fsol", "-m", tmp_path / name, "--quiet", *more))
        assert (code, errors) == (0, "")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "part-0.svm", "part-1.svm"]


@pytest.mark.parametrize("mode", [["examples"], ["features", "--mini-batch", "1"]])
def test_metrics_count_with_the_threshold_of_the_model(mode, data):
    how = ("train", data, "-a", "fsol", "--threshold", "1.5", "--json")
    last = []
    for more in ([], ["--engine", "local", "--workers", "1", "--mode", *mode]):
        code, out, _ = finished(process(*how, *more))
        assert code == 0
        last.append(json.loads(out.splitlines()[-1]))
    one, other = last
    assert one["threshold"] == other["threshold"] == 1.5
    for name in ("rows", "error", "sensitivity", "specificity", "precision"):
        assert other[name] == one[name]
    plain = json.loads(finished(process("train", data, "-a", "fsol", "--json"))[1].splitlines()[-1])
    assert one["sensitivity"] != plain["sensitivity"]


def test_two_workers(data, tmp_path):
    code, out, _ = finished(process("train", data, "-a", "fsol", "--engine", "local", "--merge", "mean", "--json"))
    assert code == 0
    assert '"rows": 300' in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "dask"], "--engine must be 'ray', 'spark' or 'local', got 'dask'"),
        (["--engine", "local", "--mode", "rows"], "--mode must be 'examples' or 'features', got 'rows'"),
        (["--engine", "local", "--cache"], "--cache is for runs on one machine"),
        (["--engine", "local", "--address", "x"], "--address is for 'ray' or 'spark'"),
        (["--engine", "local", "--merge", "gain"], "FSOL: merge must be"),
        (["--workers", "2"], "--workers is for runs with --engine"),
        (["--mode", "examples"], "--mode is for runs with --engine"),
        (["--merge", "sum"], "--merge is for runs with --engine"),
        (["--engine", "local", "--mini-batch", "8"], "--mini-batch is for --mode features"),
        (["--engine", "local", "--mode", "features", "--merge-every", "8"], "--merge-every is for --mode examples"),
    ],
)
def test_refusals(data, options, message):
    code, _, errors = finished(process("train", data, "-a", "fsol", *options))
    assert code != 0
    assert message in errors


def test_what_an_algorithm_refuses(data):
    by_features = ["--engine", "local", "--mode", "features"]
    for options, message in (
        (["-a", "smidas", *by_features], "SMIDAS ranks or couples"),
        (["-a", "stablesparseperceptron", "--engine", "local"], "--mode features"),
    ):
        code, _, errors = finished(process("train", data, *options))
        assert (code != 0, message in errors, len(errors.splitlines())) == (True, True, 1)


def test_by_features_nothing_stays_behind(data, tmp_path):
    command = ["train", data, "-a", "fsol", "--engine", "local", "--mode", "features", "-m", tmp_path / "m", "--quiet"]
    for _ in range(2):
        assert finished(process(*command)) == (0, "", "")
    assert "mode features is experimental" in finished(process(*command[:-1]))[2]
    bad = tmp_path / "bad.svm"
    bad.write_text("1 1:x\n")
    assert finished(process("train", bad, *command[2:]))[0] != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.svm", "m", "part-0.svm", "part-1.svm"]


def test_checkpoints_are_files_by_examples_and_folders_by_features(data, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for mode, name, message in (
        ("features", "file", "file: it is a file, but a checkpoint of mode features is a folder"),
        ("examples", "folder", "folder: it is a folder, but a checkpoint of mode examples is a file"),
    ):
        command = ["train", data, "--engine", "local", "--mode", mode, "--checkpoint", tmp_path / name]
        code, _, errors = finished(process(*command))
        assert (code != 0, errors) == (True, f"thinstream: {tmp_path / name}{message.removeprefix(name)}\n")


def test_a_killed_run_by_features_goes_on(data, tmp_path):
    command = ["train", data, "-a", "fsol", "--engine", "local", "--mode", "features", "--passes", "60", "-q"]
    command += ["--checkpoint", tmp_path / "c", "--checkpoint-every", "600"]
    child = process(*command)
    manifest = tmp_path / "c" / "manifest.ts"
    end = time.monotonic() + 60
    while not manifest.exists() and time.monotonic() < end:
        time.sleep(0.01)
    workers = [int(pid) for pid in Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()]
    child.kill()
    child.communicate()
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)  # nobody works for one who is dead
    assert manifest.exists()
    code, _, errors = finished(process(*command[:-2], "--checkpoint-every", "100000", "--resume"))
    assert (code, errors) == (0, "")
    assert not (tmp_path / "c").exists()
