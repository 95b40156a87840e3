"""``thinstream train --engine local``: the bytes of one machine, and what is refused."""

import json

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


@pytest.mark.parametrize("mode", [["--engine", "local", "--workers", "1"], ["--mode", "features", "--mini-batch", "1"]])
def test_metrics_count_with_the_threshold_of_the_model(mode, data):
    how = ("train", data, "-a", "fsol", "--threshold", "1.5", "--json")
    last = []
    for more in ([], mode):
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
        (["--engine", "local", "--cache"], "--cache cannot be used with --engine"),
        (["--engine", "local", "--address", "x"], "--address needs --engine 'ray' or 'spark'"),
        (["--engine", "local", "--merge", "gain"], "FSOL: merge must be"),
        (["--workers", "2"], "--workers needs --engine"),
        (["--mode", "examples"], "--mode needs --engine"),
        (["--merge", "sum"], "--merge needs --engine"),
        (["--engine", "local", "--mini-batch", "8"], "--mini-batch needs --mode features"),
        (["--mode", "features", "--merge-every", "8"], "--merge-every cannot be used with --mode features"),
        (["--engine", "local", "--mode", "features"], "--engine cannot be used with --mode features"),
        (
            ["--mode", "features", "--max-features", "8"],
            "--max-features cannot be used with --mode features",
        ),
        (["--mode", "features", "--normalize", "l2"], "--scale and --normalize cannot be used with --mode features"),
        (["--mode", "features", "--monitor", "ddm"], "--monitor and --plot cannot be used with --mode features"),
    ],
)
def test_refusals(data, options, message):
    code, _, errors = finished(process("train", data, "-a", "fsol", *options))
    assert code != 0
    assert message in errors


def test_algorithms_that_cannot_be_merged(data):
    for options, message in (
        (["-a", "smidas", "--mode", "features"], "SMIDAS cannot be split by features"),
        (["-a", "stablesparseperceptron", "--engine", "local"], "--mode features"),
    ):
        code, _, errors = finished(process("train", data, *options))
        assert (code != 0, message in errors, len(errors.splitlines())) == (True, True, 1)


def test_a_checkpoint_is_a_file(data, tmp_path):
    (tmp_path / "folder").mkdir()
    command = ["train", data, "-a", "fsol", "--engine", "local", "--checkpoint", tmp_path / "folder"]
    code, _, errors = finished(process(*command))
    assert code != 0
    assert f"{tmp_path / 'folder'}: cannot be written: it is a folder. Pass the name of a file" in errors
