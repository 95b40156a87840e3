"""The command as a process: pipes, signals, terminals, start-up."""

import gzip
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.commands import SOURCE, finished, process


def test_pipes_compose(data, model):
    text = gzip.compress(Path(data).read_bytes())
    code, out, errors = finished(
        process("train", "-", "-q", "--model", "p.ts", stdin=subprocess.PIPE), gzip.decompress(text)
    )
    assert (code, out, errors) == (0, "", "")
    assert Path("p.ts").read_bytes() == Path(model).read_bytes()


def test_errors_do_not_touch_standard_output(there):
    code, out, errors = finished(process("train", "-", stdin=subprocess.PIPE), b"-1 oops\n+1 1:1\n")
    assert (code, out) == (1, "")
    assert errors.startswith("thinstream: standard input, line 1, column 4: ")
    assert errors.count("\n") == 1


def test_a_reader_that_leaves(data, model):
    Path("long.svm").write_text(Path(data).read_text() * 20_000)
    child = process("predict", "long.svm", "-m", model)
    assert child.stdout.readline() in (b"-1\n", b"1\n")
    child.stdout.close()
    errors = child.stderr.read()
    child.stderr.close()
    assert (child.wait(60), errors) == (141, b"")


@pytest.mark.parametrize("rows", ["few columns", "many"])
def test_start_up_leaves_heavy_packages_alone(data, rows):
    """Of a single algorithm, and of Auto but for rows so narrow that it has a model with a covariance matrix."""
    options = ["-a", "arow"]
    if rows == "many":
        Path(data).write_text(Path(data).read_text().replace("\n", " 301:1\n"))
        options = []
    code = "import os, sys; from thinstream.cli.app import main\n"
    code += "os._exit = lambda code: print(*sys.modules)\nmain()"  # how the command ends
    command = [sys.executable, "-c", code, "train", data, "-q", *options]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    loaded = set(out.split())
    assert "thinstream.training.run" in loaded
    heavy = {"sklearn", "scipy.linalg", "scipy.sparse", "pandas", "pyarrow", "matplotlib", "rich", "onnx"}
    assert not loaded & heavy


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_silent_pipe_does_not_hold_up_a_signal(data, thin, number):
    """The run waits for input, is stopped, and goes on from the start of the input."""
    lines = 4 * Path(data).read_bytes()
    Path(data).write_bytes(lines)
    thin("train", data, "-m", "m.ts", "-q")
    child = process("train", "-", "--json", "-m", "s.ts", stdin=subprocess.PIPE)
    child.stdin.write(b"".join(lines.splitlines(keepends=True)[:64]))
    child.stdin.flush()
    assert json.loads(child.stdout.readline())["rows"] == 64  # the first line of the table
    child.send_signal(number)
    assert child.wait(20) == 128 + number
    errors = child.stderr.read().decode()
    for stream in (child.stdin, child.stdout, child.stderr):
        stream.close()
    name = signal.Signals(number).name
    assert errors == f"thinstream: stopped by {name}; s.ts.checkpoint holds all of it. Pass --resume to continue\n"
    child = process("train", "-", "-m", "s.ts", "--resume", stdin=subprocess.PIPE)
    code, _, errors = finished(child, lines)
    assert (code, errors) == (0, "resumed from s.ts.checkpoint after 64 rows\n")
    assert Path("s.ts").read_bytes() == Path("m.ts").read_bytes()
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


def on_terminal(width, *arguments, seconds=120):
    """What a process writes to a terminal."""
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    child = process(*arguments, stdin=theirs, stdout=theirs, stderr=theirs, seconds=seconds)
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
    Path(data).write_bytes(10 * Path(data).read_bytes())
    code, text = on_terminal(80, "train", data)
    assert code == 0
    assert "━" in text  # the bar
    assert "\x1b[?25h" in text  # the cursor is back
    shown = [
        part.split("\r")[-1] for part in re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", text).replace("\r\n", "\n").split("\n")
    ]
    first = next(i for i, line in enumerate(shown) if line.startswith("   examples"))
    table = shown[first : first + 4]
    assert [line.split()[0] for line in table] == ["examples", "64", "128", "200"]
    assert len({len(line) for line in table}) == 1
    assert len(table[0]) <= 80
    assert "\x1b[2K" in text[text.rindex("━") :]  # it is gone in the end


@pytest.mark.skipif(os.name != "posix", reason="has no pty")
def test_errors_on_a_terminal(data):
    code, text = on_terminal(60, "train", data, "--bogus")
    assert (code, text.count("\n")) == (2, 1)
