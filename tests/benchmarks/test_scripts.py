"""Every script of `make bench` runs to its end on a few rows; what it measures there means nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCH = re.search(r"^bench:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
SCRIPTS = [line.split("python ")[1] for line in BENCH.splitlines()]


def test_the_makefile_is_understood():
    assert len(SCRIPTS) >= 7


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_runs(script, tmp_path):
    if any(name in script for name in ("streams", "startup", "auto")):
        pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit is not installed (make .venv/ready-bench)")
    command = [sys.executable, *script.split(), "--rows", "400"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "target" in done.stdout.lower(), done.stdout
