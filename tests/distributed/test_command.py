"""``thinstream train --engine local``: the bytes of one machine, and what is refused."""

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
    ],
)
def test_refusals(data, options, message):
    code, _, errors = finished(process("train", data, "-a", "fsol", *options))
    assert code != 0
    assert message in errors
