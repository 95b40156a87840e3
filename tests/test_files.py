"""Files that are replaced whole or not at all."""

import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from thinstream.errors import FileWriteError
from thinstream.files import replacing

CRASH = """
import os, signal, sys
from thinstream.files import replacing
with replacing(sys.argv[1]) as file:
    file.write_text("half of the ne")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def put(path, text):
    with replacing(path) as file:
        file.write_text(text)


def test_a_writer_that_dies_leaves_the_old_file_and_its_rest_is_swept(tmp_path):
    """Killed between writing and renaming; only rests of the same target by dead writers are removed."""
    target = tmp_path / "m"
    put(target, "old")
    died = subprocess.run([sys.executable, "-c", CRASH, target])
    assert died.returncode == -signal.SIGKILL
    assert target.read_text() == "old"
    (rest,) = set(os.listdir(tmp_path)) - {"m"}
    assert rest.startswith(".m.")
    alive, other, similar = f".m.{os.getppid()}.00000000.tmp", rest.replace(".m.", ".n."), f"{rest}x"
    for name in (alive, other, similar):
        (tmp_path / name).touch()
    put(target, "new")
    assert target.read_text() == "new"
    assert set(os.listdir(tmp_path)) == {"m", alive, other, similar}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_dead_writer_is_dead_before_its_parent_has_waited_for_it(tmp_path):
    target = tmp_path / "m"
    writer = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.read()  # ends with the process, which nothing has waited for
    stat = Path(f"/proc/{writer.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    (tmp_path / f".m.{writer.pid}.00000000.tmp").write_text("half")
    with replacing(target) as new:
        new.write_text("new")
    assert os.listdir(tmp_path) == ["m"]
    writer.stdout.close()
    writer.wait()


def test_a_rest_that_is_locked_is_somebodys(tmp_path):
    """A writer in another container has a number that means nothing here; its lock does."""
    fcntl = pytest.importorskip("fcntl")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    rest = tmp_path / f".m.{gone.pid}.0123abcd.tmp"
    with open(rest, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        put(tmp_path / "m", "1")
        assert rest.exists()
    put(tmp_path / "m", "2")
    assert os.listdir(tmp_path) == ["m"]


def test_an_error_in_the_block_changes_nothing(tmp_path):
    """Any error, an interrupt included."""
    put(tmp_path / "m", "old")

    def stopped_by(error):
        with replacing(tmp_path / "m") as file:
            file.write_text("new")
            raise error

    for error in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(error):
            stopped_by(error)
    with pytest.raises(FileWriteError, match="m: cannot be written: No space left on device"):
        stopped_by(OSError(28, "No space left on device"))
    assert (tmp_path / "m").read_text() == "old"
    assert os.listdir(tmp_path) == ["m"]


FULL = """
import resource, sys
from thinstream.files import replacing
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with replacing(sys.argv[1]) as file, open(file, "wb") as out:
    out.write(bytes(5000))
"""


def test_a_disk_without_room_leaves_the_old_file(tmp_path):
    """The error is the system's, with the path."""
    put(tmp_path / "m", "old")
    ran = subprocess.run([sys.executable, "-c", FULL, tmp_path / "m"], capture_output=True, text=True)
    assert f"FileWriteError: {tmp_path / 'm'}: cannot be written: File too large" in ran.stderr
    assert (tmp_path / "m").read_text() == "old"
    assert os.listdir(tmp_path) == ["m"]


def test_permissions(tmp_path):
    """A new file has those of the umask, a replaced one keeps its own."""
    before = os.umask(0o027)
    try:
        put(tmp_path / "m", "1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o640
    (tmp_path / "m").chmod(0o604)
    put(tmp_path / "m", "2")
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o604


def test_links_stay_and_their_targets_are_replaced(tmp_path):
    """Relative, chained, and dangling ones; a loop is an error."""
    (tmp_path / "data").mkdir()
    put(tmp_path / "data" / "real", "old")
    (tmp_path / "link").symlink_to("data/real")
    (tmp_path / "chain").symlink_to("link")
    put(tmp_path / "chain", "new")
    assert (tmp_path / "data" / "real").read_text() == "new"
    assert (tmp_path / "chain").is_symlink()
    assert os.listdir(tmp_path / "data") == ["real"]
    (tmp_path / "dangling").symlink_to("data/later")
    put(tmp_path / "dangling", "there")
    assert (tmp_path / "data" / "later").read_text() == "there"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FileWriteError, match="loop: cannot be written"):
        put(tmp_path / "loop", "x")
    assert (tmp_path / "loop").is_symlink()


def test_places_that_cannot_be_written(tmp_path):
    """Missing and unwritable folders, folders, pipes: said with the path."""
    with pytest.raises(FileWriteError, match=r"none/m: cannot be written: the folder .*none does not exist"):
        put(tmp_path / "none" / "m", "x")
    with pytest.raises(FileWriteError, match=r"because it is a folder\. Pass the name of a file"):
        put(tmp_path, "x")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileWriteError, match="because it is a device or a pipe"):
        put(tmp_path / "pipe", "x")
    put(tmp_path / "file", "x")
    with pytest.raises(FileWriteError, match=r"the folder .*file does not exist"):
        put(tmp_path / "file" / "m", "x")
    if os.geteuid():  # root may write anywhere
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(FileWriteError, match=r"the folder .*locked is not writable"):
            put(tmp_path / "locked" / "m", "x")


WRITE = """
import sys
import time
from thinstream.files import replacing
for i in range(25):
    with replacing(sys.argv[1]) as file:
        file.write_text(sys.argv[2] * 5000)
"""


def test_writers_at_once(tmp_path):
    """Threads and processes write the same target; whoever reads finds one of them whole, and nothing is left."""
    target = tmp_path / "m"
    put(target, "a" * 5000)
    others = [subprocess.Popen([sys.executable, "-c", WRITE, target, letter]) for letter in "xy"]
    with ThreadPoolExecutor(2) as pool:
        writes = [pool.submit(put, target, letter * 5000) for letter in "abcd" * 10]
        while not all(each.done() for each in writes) or any(each.poll() is None for each in others):
            text = target.read_text()
            assert len(text) == 5000
            assert len(set(text)) == 1
        for each in writes:
            each.result()
    assert [each.returncode for each in others] == [0, 0]
    assert os.listdir(tmp_path) == ["m"]
