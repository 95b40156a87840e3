"""A folder with a few rows and a model, and the command in this process."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import ROWS, Said, without_compiling
from thinstream.cli.app import run


@pytest.fixture
def there(tmp_path, monkeypatch):
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def data(there):
    """A few rows in which feature 1 tells the class."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(ROWS):
        y = 1 if i % 3 else -1
        lines.append(f"{y} 1:{y} {2 + i % 4}:{rng.normal():.2f}\n")
    Path("d.svm").write_text("".join(lines))
    return "d.svm"


@pytest.fixture
def model(data, thin):
    thin("train", data, "--model", "m.ts", "-q")
    return "m.ts"


@pytest.fixture
def thin(capsys):
    """Runs a command line in this process; returns what it printed."""

    def call(*arguments, code=0):
        capsys.readouterr()
        found = run(list(map(str, arguments)))
        out, errors = capsys.readouterr()
        errors = without_compiling(errors)
        assert found == code, errors
        assert "Traceback" not in errors
        if code:
            lines = [line for line in errors.splitlines() if line.startswith("thinstream: ")]
            assert len(lines) == 1, errors
        return Said(out, errors)

    return call
