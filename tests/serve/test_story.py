"""The newcomer's story of docs/serving.md, as it stands."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as result:
        return result.getsockname()[1]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_story(tmp_path):
    """Every command runs; what the page shows is what is said, up to digits of scores."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "thinstream"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m thinstream "$@"\n')
    command.chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}
    text = PAGE.read_text().partition("## Requests")[0].replace("8000", str(free_port()))
    message = ""
    try:
        for kind, block in re.findall(r"^```(sh|text)\n(.*?)^```", text, flags=re.M | re.S):
            if kind == "text":
                assert numbers_apart(message) == numbers_apart(block)
                continue
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", block], cwd=tmp_path, env=environment, capture_output=True,
                text=True, timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}\n{log(tmp_path)}"
            message = done.stdout.replace('{"ready":true}', "")
    finally:
        with suppress(OSError, ValueError):
            os.kill(int((tmp_path / "server.pid").read_text()), signal.SIGKILL)
    assert "AROW" in (tmp_path / "inspected.txt").read_text()
    assert "Traceback" not in log(tmp_path)


def log(folder):
    return (folder / "server.log").read_text() if (folder / "server.log").exists() else ""


def numbers_apart(text):
    return re.sub(r"-?\d+\.\d\d+", "SCORE", text).strip()
