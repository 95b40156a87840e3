"""The command line of the experiments: ``python -m papers``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from papers.__main__ import main
from papers.catalogue import experiments

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "reproduction"


def refused(capsys, *arguments):
    """Return the message of a command line that is wrong."""
    with pytest.raises(SystemExit) as error:
        main(list(arguments))
    assert error.value.code == 2
    return capsys.readouterr().err


def test_runs_from_the_root_of_the_repository():
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
    command = [sys.executable, "-m", "papers", "--help"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert "usage: python -m papers " in done.stdout
    for option in ("--data", "--out", "--jobs", "--device", "--smoke", "--fresh", "--pages", "--quiet"):
        assert option in done.stdout


def test_lists_the_experiments(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("THINSTREAM_DATA", str(tmp_path))
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(experiments())
    assert "(not here: " in next(line for line in lines if line.startswith("p0-fig2"))


def test_pages_are_written_again_from_results(capsys, tmp_path):
    out = tmp_path / "reproduction"
    out.mkdir()
    for ending in (".csv", ".json"):
        (out / f"p2-stopping{ending}").write_bytes((RESULTS / f"p2-stopping{ending}").read_bytes())
    assert main(["p2-stopping", "--pages", "--out", str(out)]) == 0
    assert capsys.readouterr().out.split() == [str(out / "p2-stopping.md"), str(tmp_path / "reproduction.md")]
    assert (out / "p2-stopping.md").read_text() == (RESULTS / "p2-stopping.md").read_text()


def test_wrong_command_lines(capsys):
    assert "there is no experiment 'p9'" in refused(capsys, "p9")
    assert "argument --device: invalid choice: 'gpu'" in refused(capsys, "p3-fig1", "--device", "gpu")
    assert "argument --jobs/-j: must be at least 1, got 0" in refused(capsys, "p3-fig1", "--jobs", "0")


def test_errors_are_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("THINSTREAM_DATA", str(tmp_path))
    out = ["--out", str(tmp_path / "out")]
    assert main(["p2-table3", *out]) == 1
    assert capsys.readouterr().err.startswith("papers: experiment p2-table3 needs data sets that are not in ")
    assert main(["p2-table3", *out, "--pages"]) == 1
    assert "out has no results of p2-table3; run it without --pages first" in capsys.readouterr().err
    assert main(["p2-table3", *out, "--data", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == f"papers: --data: there is no folder {tmp_path / 'none'}\n"


def test_a_smoke_run_does_not_replace_results(capsys):
    assert main(["p2-table3", "--smoke", "--out", str(RESULTS)]) == 1
    assert "has real results of p2-table3: give a smoke run another --out" in capsys.readouterr().err


def test_without_a_gpu(capsys, tmp_path):
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed: pip install -e '.[cuda]'")
    from thinstream.lanes.cuda.package import cuda

    if cuda.is_available():
        pytest.skip("there is a GPU, or its simulator")
    assert main(["p3-fig1", "--smoke", "--device", "cuda", "--out", str(tmp_path)]) == 1
    assert "needs an NVIDIA GPU" in capsys.readouterr().err
