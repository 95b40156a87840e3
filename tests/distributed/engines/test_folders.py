"""Folders with secrets: for their owner only, and gone with their process, however that ends."""

import os
import subprocess
import sys

import pytest

from thinstream.distributed.engines.launcher import private_folder

MAKE = "from thinstream.distributed.engines.launcher import private_folder; print(private_folder('secret-'))"
RAY = (
    "import os; from thinstream.distributed.engines import ray; ray._put_token(); "
    "print(os.path.dirname(os.environ['RAY_AUTH_TOKEN_PATH']))"
)


@pytest.fixture
def there(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))  # where no token of Ray's own is
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    return tmp_path


def alive(code):
    """A process that has made its folder and lives on."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}; import sys; sys.stdout.flush(); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline().strip()


@pytest.mark.parametrize("code", [MAKE, RAY])
def test_those_of_killed_processes_are_removed_and_no_others(code, there):
    (there / "secret-of-somebody-else").mkdir()
    (living, kept), (killed, left) = alive(code), alive(code)
    killed.kill()
    killed.communicate()
    assert os.path.isdir(left)
    new, made = alive(code)
    try:
        assert not os.path.exists(left)
        assert os.path.isdir(kept)
        assert (there / "secret-of-somebody-else").is_dir()
        assert os.stat(made).st_mode & 0o777 == 0o700
    finally:
        for process in (living, new):
            process.communicate("\n", timeout=60)


def test_a_process_may_have_several(there):
    one, other = private_folder("secret-"), private_folder("secret-")
    assert one.is_dir()
    assert other.is_dir()
    assert one != other
