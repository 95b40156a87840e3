"""A disk that is really full: a small file system of its own."""

import shutil
import subprocess
import sys

import pytest

from tests.cli.commands import finished, process
from tests.faults.test_faults import rows

pytestmark = [pytest.mark.faults, pytest.mark.skipif(sys.platform != "linux", reason="needs tmpfs")]
SIZE = 256 * 1024


@pytest.fixture
def small(tmp_path):
    """A folder on a file system of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], capture_output=True
    )
    if not mounted or mounted.returncode:
        pytest.skip("a small file system cannot be mounted here: that takes root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (["train", "d.svm", "-q", "--eta", "1e-6", "-m"], "m.ts"),
        (
            ["train", "d.svm", "-q", "-m", "m.ts", "--checkpoint-every", "100", "--checkpoint"],
            "c",
        ),
        (["convert", "d.svm", "-q", "--out"], "d.cache"),
        (["shuffle", "d.svm", "-o"], "s.svm"),
        (["shuffle", "d.svm", "--memory", "1", "-o"], "s.svm"),
        (["predict", "d.svm", "-q", "-m", "old.ts", "--scores", "-o"], "p.txt"),
    ],
)
def test_nothing_is_lost_on_a_full_disk(tmp_path, small, command, output):
    (tmp_path / "d.svm").write_text(rows(60_000, width=200_000))
    assert finished(process("train", "d.svm", "-q", "-m", "old.ts", cwd=tmp_path))[0] == 0
    place = small / output
    place.write_bytes(b"what was there before")
    code, out, errors = finished(process(*command, place, cwd=tmp_path))
    assert (code, out) == (1, ""), errors
    assert errors.startswith("thinstream: ")
    assert "No space left on device" in errors
    assert errors.count("\n") == 1
    assert [file.name for file in small.iterdir()] == [output]
    assert place.read_bytes() == b"what was there before"
