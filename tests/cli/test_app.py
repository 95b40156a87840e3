"""Finding the commands."""

import os
import subprocess
import sys

import pytest

from tests.cli.commands import SOURCE
from thinstream.cli import commands
from thinstream.cli.app import run
from thinstream.cli.commands import MODULES
from thinstream.cli.parser import command_names

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


def test_help_lists_every_command(thin):
    said = thin("--help")
    assert len(command_names()) >= 17
    assert all(f"\n    {name} " in said for name in command_names())


def test_a_line_without_a_command_shows_the_help(capsys):
    assert run([]) == 2
    assert capsys.readouterr().out.startswith("Usage: thinstream COMMAND [options]\n")


def test_finding_the_commands_imports_nothing_heavy():
    modules = loaded("--help")
    assert {f"thinstream.cli.commands.{MODULES.get(name, name)}" for name in command_names()} <= modules
    assert not modules & {
        "numpy",
        "numba",
        "scipy",
        "sklearn",
        "pyarrow",
        "thinstream.lanes",
        "thinstream.models",
        "thinstream.tuning",
    }


def loaded(*arguments):
    """The modules of a process that has run a command."""
    code = "import os, sys; from thinstream.cli.app import main\n"
    code += "os._exit = lambda code: print(*sys.modules)\nmain()"  # how the command ends
    command, environment = [sys.executable, "-c", code, *arguments], {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_a_command_imports_no_other():
    """Only the module of the command, and rich only to render help."""
    modules = loaded("merge", "nothing.ts", "--model", "m.ts")
    assert {name for name in modules if name.startswith("thinstream.cli.commands.")} == {
        "thinstream.cli.commands.model_files"
    }
    assert not {"rich", "rich_argparse", "shtab"} & modules
    assert {"rich", "rich_argparse"} <= loaded("merge", "--help")


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The completion script for bash."""
    path = tmp_path_factory.mktemp("completion") / "thinstream.bash"
    command = [sys.executable, "-m", "thinstream", "--print-completion", "bash"]
    with open(path, "wb") as file:
        subprocess.run(command, env={**os.environ, "PYTHONPATH": SOURCE}, stdout=file, check=True)
    return path


def offered(script, line):
    """What bash offers when Tab is pressed at the end of a line."""
    words = " ".join(f"'{word}'" for word in line.split(" "))
    code = f"source {script}; COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))\n"
    code += "_shtab_thinstream; printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("thinstream ins", {"inspect"}),
        ("thinstream evaluate --alpha", {"--alpha-p"}),
        ("thinstream train -a ar", {"arow", "arcsogd"}),
        ("thinstream train day.svm --algorithm sso", {"ssol"}),
        ("thinstream tune -a adar", {"adarda"}),
        ("thinstream train -a ssol --up", {"--update-on"}),  # an option of this algorithm
        ("thinstream train -a ssol --update-on ", {"mistake", "every"}),
        ("thinstream train --format js", {"jsonl"}),
        ("thinstream train --scale ", {"max", "rms", "idf"}),
        ("thinstream algorithms fs", {"fsol"}),
        ("thinstream train --from none.ts --clas", {"--class-weight", "--classes"}),
    ],
)
def test_a_shell_completes(script, line, words):
    assert set(offered(script, line)) == words


def test_a_shell_completes_files(script, data, monkeypatch):
    for line in ("thinstream train d", "thinstream predict --model d", "thinstream export d"):
        assert offered(script, line) == [data]


@pytest.mark.parametrize("shell", ["zsh", "tcsh", "fish", "powershell"])
def test_other_shells_have_a_script(thin, shell):
    script = thin("--print-completion", shell)
    assert "thinstream" in script
    assert "score-above" in script


def test_a_shell_without_a_script(thin):
    errors = thin("--print-completion", "dos", code=2).errors
    assert errors.startswith("thinstream: --print-completion must be 'bash', 'zsh',")
    assert "got 'dos' (see thinstream --help)" in errors
