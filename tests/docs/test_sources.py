"""The commands of docs/sources.md run as they stand."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.data.brokers.servers import free_port

PAGE = Path(__file__).parents[2] / "docs" / "sources.md"


@pytest.mark.services
@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_page(tmp_path):
    pytest.importorskip("redis", reason="Python's client of redis-server is not installed")
    (tmp_path / "bin").mkdir()
    for name, command in (("thinstream", "-m thinstream"), ("python3", "")):
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {command} "$@"\n')
        script.chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}
    text = PAGE.read_text().replace("6390", str(free_port())).replace("8390", str(free_port()))
    said = ""
    try:
        for block in re.findall(r"^```sh\n(.*?)^```", text, flags=re.M | re.S):
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", block], cwd=tmp_path, env=environment, capture_output=True,
                text=True, timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr
            said += done.stdout + done.stderr
    finally:
        for name in ("server.pid", "redis.pid"):
            with suppress(OSError, ValueError):
                os.kill(int((tmp_path / name).read_text()), signal.SIGKILL)
    assert "resumed from mail.ts.checkpoint after 16 rows" in said
    assert "stopped after 18 rows" in said
    assert '"data": "oops"' in said
    assert "['ham' 'spam'] 1" in said
    assert 'thinstream_source_up{model="mail"} 1.0' in said
    assert 'thinstream_source_lag{model="mail"} 0.0' in said
    assert 'thinstream_rows_learned_total{model="mail"} 1.0' in said  # none of those that mail.ts has learned
    assert 'thinstream_source_dead_letters_total{model="mail"} 1.0' in said
