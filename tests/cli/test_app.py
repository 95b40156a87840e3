"""Finding the commands."""

import os
import subprocess
import sys

import pytest

from tests.cli.commands import SOURCE
from thinstream.cli import commands
from thinstream.cli.app import command_names
from thinstream.cli.typer_app import make_app

HELLO = '''
def hello(name: str = "world", loud: bool = False) -> None:
    """Greet somebody."""
    print(f"hello {name}{'!' if loud else ''}")
'''


def test_a_command_is_one_file(tmp_path, monkeypatch, thin):
    (tmp_path / "hello.py").write_text(HELLO)
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    said = thin("--help")
    assert "hello" in said
    assert "Greet somebody." in said
    assert thin("hello", "--name", "you", "--loud") == "hello you!\n"
    assert "Usage: thinstream hello" in thin("hello", "-h")


def test_only_the_command_that_is_named_is_made():
    assert len(make_app(["--help"]).registered_commands) == len(command_names()) >= 17
    (command,) = make_app(["merge", "-h"]).registered_commands
    assert command.name == "merge"


def test_finding_the_commands_imports_nothing_heavy():
    code = "import os, sys; from thinstream.cli.app import main\n"
    code += "os._exit = lambda code: print(*sys.modules)\nmain()"  # how the command ends
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-c", code, "--help"]
    loaded = set(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split())
    assert {f"thinstream.cli.commands.{name}" for name in command_names()} <= loaded
    assert not loaded & {"numpy", "numba", "scipy", "sklearn", "pyarrow", "thinstream.learners", "thinstream.tune"}


def offered(line, shell="bash"):
    """What a shell is told when Tab is pressed at the end of a line."""
    words = line.split(" ")
    environment = {**os.environ, "PYTHONPATH": SOURCE, "_THINSTREAM_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        environment |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    else:
        environment |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    command = [sys.executable, "-m", "thinstream"]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert not said.stderr
    return said.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("thinstream ins", {"inspect"}),
        ("thinstream evaluate --alpha", {"--alpha-p"}),
        ("thinstream train -a ar", {"arow", "arcsogd"}),
        ("thinstream train day.svm --algorithm sso", {"ssol"}),
        ("thinstream tune -a adar", {"adarda"}),
        ("thinstream train -a ssol --up", {"--update-on"}),  # an option of this algorithm
        ("thinstream train -a ssol --update-on ", {"every", "loss"}),
        ("thinstream train --format js", {"jsonl"}),
        ("thinstream train --scale ", {"max", "rms", "idf"}),
        ("thinstream algorithms fs", {"fsol"}),
        ("thinstream train --from none.ts --clas", {"--class-weight", "--classes"}),
    ],
)
def test_a_shell_completes(line, words):
    assert set(offered(line)) == words


def test_other_shells_complete():
    assert offered("thinstream train -a ar", "fish") == ["arcsogd", "arow"]
    assert {"every", "loss"} <= set(offered("thinstream train -a ssol --update-on ", "fish"))
