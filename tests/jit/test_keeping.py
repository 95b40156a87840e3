"""The compile cache: used, never stale, never broken, safe among processes, and not needed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import thinstream
from thinstream.errors import ThinstreamWarning
from thinstream.jit import INTERPRETED
from thinstream.jit import cache as keeping
from thinstream.jit.cache import CodeFile

pytestmark = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled when jit is disabled")

PROGRAM = """
import json, os, sys
import numpy as np
from thinstream import jit
from thinstream.batch import Batch
from thinstream.jit import cache
from thinstream.lanes.learner import Learner
if "PROCESSOR" in os.environ:
    cache.native = lambda: os.environ["PROCESSOR"]
model = Learner(sys.argv[1], n_features=2, dtype="float64")
indices = np.array([0, 1], np.int32)  # as weights() takes them: one specialisation does for both
model.learn(Batch.of(np.array([0, 1, 2]), indices, np.array([1.0, 2.0]), 2, np.array([-1, 1], np.int8)))
hits = sum(kept for name, _, kept in jit.specialisations if name.startswith("loop"))
print(json.dumps({"weights": model.weights().tolist(), "hits": hits, "numba": "numba" in sys.modules}))
"""


COMPILED, KEPT = {"hits": 0, "numba": True}, {"hits": 1, "numba": False}


def start(package, cache, algorithm="fsol", **more):
    environment = {**os.environ, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache), **more}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # Python's own cache would not notice the edits either
    environment.pop("NUMBA_DISABLE_JIT", None)
    command = [sys.executable, "-c", PROGRAM, algorithm]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.fixture
def package(tmp_path):
    """A copy of the package that a test may edit."""
    source = Path(thinstream.__file__).parent
    shutil.copytree(source, tmp_path / "thinstream", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def edit(file, old, new):
    """Changes a source as an editor would, but keeps its size and times: only the content tells."""
    before, text = file.stat(), file.read_text()
    assert text.count(old) >= 1
    assert len(old) == len(new)
    file.write_text(text.replace(old, new))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


EDITS = [
    ("algorithms/online/fsol.py", "f.theta + step.size * x", "f.theta - step.size * x", [1.0, -2.0]),
    ("engine/losses.py", "max(0.0, 1.0 - y * s)", "max(0.0, 0.0 - y * s)", [0.0, 0.0]),
]


@pytest.mark.slow
def test_a_run_needs_no_numba_unless_sources_were_edited(package):
    """After an edit in a rule, then in a shared function, the new code runs, and the old one is gone."""
    cache = package / "cache"
    assert answer(start(package, cache)) == {"weights": [-1.0, 2.0], **COMPILED}
    assert answer(start(package, cache)) == {"weights": [-1.0, 2.0], **KEPT}
    for file, old, new, expected in EDITS:
        edit(package / "thinstream" / file, old, new)
        assert answer(start(package, cache)) == {"weights": expected, **COMPILED}
        assert answer(start(package, cache)) == {"weights": expected, **KEPT}
    assert len(list(cache.rglob("loop*.code"))) == 1


def flip_a_bit(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES = {
    "a bit flipped": flip_a_bit,
    "cut short": lambda content: content[:-100],
    "longer": lambda content: content + b"more",
    "empty": lambda content: b"",
    "only zeros": lambda content: bytes(len(content)),
}


@pytest.mark.slow
def test_damaged_code_is_thrown_away(package):
    """Code that is not what was written is never run, and is replaced by the first who meets it."""
    cache = package / "cache"
    answer(start(package, cache))
    (file,) = cache.rglob("loop*.code")
    file.write_bytes(flip_a_bit(file.read_bytes()))
    assert answer(start(package, cache)) == {"weights": [-1.0, 2.0], **COMPILED}
    assert answer(start(package, cache)) == {"weights": [-1.0, 2.0], **KEPT}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_of_any_kind_is_noticed(damage, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kept, code = CodeFile("loop", "here", "sources"), bytes(range(256)) * 4
    with kept.locked() as folder:
        kept.write(folder, code)
    assert kept.find() == code
    (file,) = tmp_path.rglob("*.code")
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    assert kept.find() is None
    assert not file.exists()


def test_a_long_name_is_kept(tmp_path, monkeypatch):
    """Functions compiled from many modules have names that no file may have."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    name = "parse-" + "-".join(f"thinstream.data.text.module{k}" for k in range(12))
    kept, other = CodeFile(name, "here", "sources"), CodeFile(name + "-more", "here", "sources")
    for each in (kept, other):
        with each.locked() as folder:
            each.write(folder, each.symbol.encode())
    assert (kept.find(), other.find()) == (kept.symbol.encode(), other.symbol.encode())


def test_code_of_another_function_is_refused(tmp_path, monkeypatch):
    """The checksum covers what the code is for: a file under another's name is not taken."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    one, other = CodeFile("one", "here", "sources"), CodeFile("other", "here", "sources")
    with one.locked() as folder:
        one.write(folder, b"code of one")
    with other.locked() as folder:
        other.write(folder, b"code of other")
    first, second = sorted(tmp_path.rglob("*.code"))
    second.write_bytes(first.read_bytes())
    assert (one.find(), other.find()) == (b"code of one", None)


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """Code in a cache of its own: what finds it, the code, and its file."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(keeping, "_warned", set())
    kept = CodeFile("loop", "here", "sources")
    with kept.locked() as folder:
        kept.write(folder, b"code")
    (file,) = tmp_path.rglob("*.code")
    return kept, b"code", file


posix = pytest.mark.skipif(os.name != "posix", reason="Windows has neither modes nor pipes in folders")


@posix
@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_our_own_cache_is_used_whatever_the_umask_is(umask, tmp_path, monkeypatch, recwarn):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "new"))
    before = os.umask(umask)
    try:
        kept = CodeFile("loop", "here", "sources")
        with kept.locked() as folder:
            kept.write(folder, b"code")
        assert kept.find() == b"code"
    finally:
        os.umask(before)
    for path in (folder, *folder.glob("*.code")):
        assert path.stat().st_mode & 0o022 == 0
        assert path.stat().st_mode & 0o044 == 0o044 & ~umask  # a cache of root is for all users
    assert not recwarn


@posix
@pytest.mark.parametrize("which", ["folder", "file"])
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_cache_that_others_can_write_to_is_not_used(which, mode, cached):
    kept, _, file = cached
    (file if which == "file" else file.parent).chmod(mode)
    with pytest.warns(ThinstreamWarning, match=rf"other users \(mode {mode:o}\).* chmod -R go-w .*NUMBA_CACHE_DIR"):
        assert kept.find() is None
    assert kept.find() is None  # without another warning
    with kept.locked() as folder:
        assert (folder is None) == (which == "folder")


@posix
@pytest.mark.parametrize("which", ["folder", "file"])
def test_a_cache_of_another_user_is_not_used(which, cached, monkeypatch):
    kept, code, file = cached
    other = file.stat().st_uid + 1
    statuses = {"folder": (keeping.Path, "stat"), "file": (keeping.os, "fstat")}
    module, name = statuses[which]
    real = getattr(module, name)

    def foreign(given, **options):
        found = list(real(given, **options))
        if given != keeping.PACKAGE:
            found[4] = other
        return os.stat_result(found)

    monkeypatch.setattr(module, name, foreign)
    with pytest.warns(ThinstreamWarning, match=f"belongs to another user \\(user id {other}\\)"):
        assert kept.find() is None
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert kept.find() == code
    other = 0  # root's is everyone's
    assert kept.find() == code


@posix
def test_pipes_and_links_in_the_cache_are_passed_over(cached):
    kept, code, file = cached
    moved = file.rename(file.with_name("moved"))
    os.mkfifo(file)
    assert kept.find() is None  # and does not wait for somebody to write
    file.unlink()
    file.symlink_to(moved)
    assert kept.find() is None
    kept.write(file.parent, code)
    assert kept.find() == code


@pytest.mark.slow
def test_other_surroundings_other_code(package):
    """Another processor, or a setting of numba that changes code: each has code of its own beside the others'."""
    cache = package / "cache"
    answer(start(package, cache))
    assert answer(start(package, cache, PROCESSOR="another")) == {"weights": [-1.0, 2.0], **COMPILED}
    assert answer(start(package, cache, PROCESSOR="another")) == {"weights": [-1.0, 2.0], **KEPT}
    assert answer(start(package, cache)) == {"weights": [-1.0, 2.0], **KEPT}
    assert answer(start(package, cache, NUMBA_BOUNDSCHECK="1")) == {"weights": [-1.0, 2.0], **COMPILED}
    assert answer(start(package, cache)) == {"weights": [-1.0, 2.0], **KEPT}


@pytest.mark.slow
def test_two_cold_starts_at_once(package):
    """Processes that compile into the same empty cache end with right results and a whole cache."""
    cache, names = package / "cache", ["fsol", "perceptron", "fsol", "perceptron"]
    expected = {"fsol": [-1.0, 2.0], "perceptron": [0.0, 2.0]}
    for process, name in [(start(package, cache, name), name) for name in names]:
        assert answer(process)["weights"] == expected[name]
    for name in expected:
        assert answer(start(package, cache, name)) == {"weights": expected[name], **KEPT}
    assert not [file for file in cache.rglob("*") if file.is_file() and file.suffix not in (".code", ".lock")]


@pytest.mark.slow
def test_no_folder_to_write_is_no_error(package):
    """Without a usable cache folder everything is compiled in memory."""
    assert answer(start(package, "/dev/null/nowhere")) == {"weights": [-1.0, 2.0], **COMPILED}


@pytest.mark.slow
def test_code_goes_to_the_users_folder(package):
    """Each installation has a folder in the user's cache, and the package is not written to."""
    before = sorted(package.rglob("*"))
    home = {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": str(package / "home")}
    assert answer(start(package, "", **home)) == {"weights": [-1.0, 2.0], **COMPILED}
    assert answer(start(package, "", **home)) == {"weights": [-1.0, 2.0], **KEPT}
    files = list((package / "home" / "thinstream").rglob("*.code"))
    assert len([file for file in files if file.name.startswith("loop")]) == 1
    assert [path for path in sorted(package.rglob("*")) if package / "home" not in (path, *path.parents)] == before
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert files[0].parent.stat().st_mode & 0o777 == 0o700
