"""The commands in the docs run as they stand."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / "command-line.md").read_text(), flags=re.M | re.S)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_command_line_story(tmp_path):
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "thinstream"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m thinstream "$@"\n')
    command.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path), "THINSTREAM_DATA": str(work)}
    assert len(BLOCKS) > 8
    for block in BLOCKS:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", block.replace("| head -n 3", "| sed -n 1,3p")],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
    assert (work / "both.ts").exists()
