"""Running the command, in this process and in others."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from thinstream.cli.render import COMPILING

#: Of the data every test finds.
ROWS = 20
SOURCE = str(Path(__file__).parents[2] / "src")


class Said(str):
    """Standard output, with standard error beside it."""

    def __new__(cls, out, errors):
        self = super().__new__(cls, out)
        self.errors = errors
        return self


def process(*arguments, seconds=120, **more):
    """The command as a process of its own."""
    command = [sys.executable, "-m", "thinstream", *map(str, arguments)]
    more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    child = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": SOURCE, "TERM": "xterm"}, **more)
    dog = threading.Timer(seconds, child.kill)  # one that hangs must not hang the tests
    dog.daemon = True
    dog.start()
    return child


def finished(child, given=None):
    out, errors = child.communicate(given, timeout=60)
    return child.returncode, (out or b"").decode(), without_compiling((errors or b"").decode())


def without_compiling(errors):
    """What was said, but for the line that depends on what this machine has compiled before."""
    return errors.replace(f"{COMPILING}\n", "")
