"""The fuzzer finds what is planted, and nothing where nothing is; formats hold for the seeds."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data import naive_libsvm
from tests.fuzz import checks, run, toys
from tests.fuzz.formats import FORMATS, exists, maker
from tests.fuzz.guard import Guarded, copied
from tests.fuzz.replay import files_in
from thinstream.data.text.protocol import Parsed, ParseError

linux = pytest.mark.skipif(sys.platform != "linux", reason="guard pages by mprotect; atheris")


def fuzz(toy, tmp_path, seconds, *seeds, timeout=30):
    pytest.importorskip("atheris", reason="fuzzing needs it")
    folder = tmp_path / "seeds"
    folder.mkdir()
    for i, seed in enumerate(seeds):
        (folder / str(i)).write_bytes(seed)
    return run.fuzz(f"tests.fuzz.toys:{toy}", tmp_path, seconds, timeout, folder)


@linux
def test_finds_a_crash(tmp_path):
    """By following the code it reaches, and saves the text."""
    found = fuzz("Crashes", tmp_path, 60, b"+1\n")
    assert len(found) == 1
    assert b"~{" in found[0].saved.read_bytes()
    assert "KeyError" in found[0].what


@linux
def test_finds_a_misreading(tmp_path):
    """That only a twin can tell."""
    (found,) = fuzz("Misreads", tmp_path, 60, b"+5\n-12\n")
    assert b"7" in found.saved.read_bytes()
    assert "disagrees with the twin" in found.what


@linux
def test_finds_a_hang(tmp_path):
    """After the timeout."""
    (found,) = fuzz("Hangs", tmp_path, 0, b"+~", timeout=1)
    assert "timeout" in found.what
    assert found.saved.read_bytes() == b"+~"


@linux
def test_finds_reading_on(tmp_path):
    """Which ends the process of phase 2, and names the text."""
    (found,) = fuzz("Overreads", tmp_path, 0, b"+1\n")
    assert f"signal {int(signal.SIGSEGV)}" in found.what
    assert found.saved.name.startswith("replay-")


@linux
def test_finds_a_difference_of_compiled_code(tmp_path):
    """Here an integer that goes round."""
    (found,) = fuzz("Overflows", tmp_path, 0, b"+1\n", b"+18446744073709551617\n")
    assert found.saved.read_bytes() == b"+18446744073709551617\n"
    assert "compiled: " in found.what


@linux
def test_finds_a_hang_and_reading_on_in_compiled_code(tmp_path):
    """Phase 2 by itself, as if phase 1 had seen nothing."""
    settings = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    (seeds / "0").write_bytes(b"+1\n")
    (seeds / "1").write_bytes(b"+~+1")
    outcomes, found = run._replay("tests.fuzz.toys:Hangs", [seeds], tmp_path, 1, settings)
    assert len(outcomes) == 1
    assert "a hang" in found[0].what
    outcomes, found = run._replay("tests.fuzz.toys:Exceeds", [seeds], tmp_path, 10, settings)
    assert [*outcomes] == [str(seeds / "0")]
    assert found[0].saved.read_bytes() == b"+~+1"
    assert "IndexError" in found[0].what


@linux
def test_nothing_to_find(tmp_path, capsys):
    """In the toy without a bug, from the command line; what it reached is kept."""
    pytest.importorskip("atheris", reason="fuzzing needs it")
    assert run.main(["--seconds", "2", "--format", "tests.fuzz.toys:Toy", "--work", str(tmp_path)]) == 0
    assert "fine" in capsys.readouterr().out
    assert len([*(tmp_path / "tests.fuzz.toys.Toy" / "corpus").iterdir()]) > 3


def test_unknown_format(capsys):
    """Is an error that names the others."""
    with pytest.raises(SystemExit, match="2"):
        run.main(["--format", "xml"])
    assert f"there is no format 'xml'; known are {', '.join(FORMATS)}, or module:class" in capsys.readouterr().err


@linux
def test_guard_page():
    """All of the text can be read, the byte after it ends the process."""
    place = Guarded()
    for size in (0, 1, 5, 70_000, 3):
        data = bytes(i % 251 for i in range(size))
        assert place(data).tobytes() == data
    code = "import ctypes; from tests.fuzz.guard import Guarded; t = Guarded()(b'abc'); {}(t.ctypes.data, {})"
    for size, status in ((3, 0), (4, -signal.SIGSEGV)):
        done = subprocess.run([sys.executable, "-c", code.format("ctypes.string_at", size)], cwd=run.ROOT, check=False)
        assert done.returncode == status


TEXT = b"+1 1:2 3:4\n\n-1 2:1\n"
GOOD = Parsed(
    np.array([1.0, -1.0]), np.array([0, 2, 3]), np.array([0, 2, 1]), np.array([2.0, 4.0, 1.0]), 3, 4.0, 3, len(TEXT)
)


def test_checks_pass_what_is_right():
    """Rows, no rows, error."""
    checks.check(GOOD, TEXT)
    none = np.empty(0)
    checks.check(Parsed(none, np.array([0]), np.empty(0, np.int32), none, 0, 0.0, 0, 0), b"")
    checks.check(GOOD._replace(lines=4, taken=len(TEXT) + 2, error=ParseError(len(TEXT), "no")), TEXT + b"x\n+1\n")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"indptr": np.array([0, 2, 2])}, "must end at"),
        ({"indptr": np.array([0, 4, 3])}, "must rise"),
        ({"indptr": np.array([0, 3])}, "one more than rows"),
        ({"indices": np.array([2, 0, 1])}, "sorted and unique"),
        ({"indices": np.array([2, 2, 1])}, "sorted and unique"),
        ({"indices": np.array([-1, 2, 1])}, "negative"),
        ({"indices": np.array([0.0, 2.0, 1.0])}, "int32 or int64"),
        ({"values": np.array([2.0, 0.0, 1.0])}, "finite and not 0"),
        ({"values": np.array([2.0, np.nan, 1.0])}, "finite and not 0"),
        ({"width": 2}, "width"),
        ({"largest": 3.5}, "largest"),
        ({"labels": np.array([1.0, np.inf])}, "infinite"),
        ({"labels": np.array([1, 1])}, "float64"),
        ({"lines": 2}, "lines are not"),
        ({"taken": 12}, "all bytes"),
        ({"taken": 99}, "more bytes"),
        ({"taken": 9, "lines": 1, "error": ParseError(2, "no")}, "does not end there"),
        ({"error": ParseError(20, "no")}, "outside"),
        ({"error": ParseError(2, "")}, "without a message"),
        ({"weights": np.array([1.0])}, "weights"),
        ({"weights": np.array([1.0, -1.0])}, "weights"),
        ({"tags": ["a"]}, "tags"),
    ],
)
def test_checks_notice(change, what):
    """Each promise of Parsed, broken."""
    with pytest.raises(checks.Finding, match=what):
        checks.check(GOOD._replace(**change), TEXT)


class Forgets(toys.Toy):
    """Its records end in the middle of lines."""

    def records(self, text):
        return len(text)


class Vague(toys.Toy):
    """Says what is wrong differently for the same record."""

    def parse(self, text):
        parsed = super().parse(text)
        return parsed._replace(error=parsed.error and parsed.error._replace(message=f"in {len(text)} bytes"))


def test_cuts_are_noticed():
    """Pieces that give other rows than the whole."""
    checks.outcome(toys.Toy, None, b"+123\n+456\n", copied)
    with pytest.raises(checks.Finding, match="cut at 4 of 9 the rows are others"):
        checks.outcome(Forgets, None, b"+12345678", copied)
    with pytest.raises(checks.Finding, match="cut at 5 the error is another"):
        checks.outcome(Vague, None, b"+123\n\n+4a\n+1", copied)


def test_digest_tells_bits():
    """Of every field, and of both zeros; numpy's and Python's numbers are the same."""
    digest = checks.canonical
    assert digest(GOOD) == digest(GOOD._replace(lines=np.int64(3)))
    assert digest(-0.0) != digest(0.0)
    assert digest(GOOD) != digest(GOOD._replace(labels=np.array([1.0, np.nan])))
    assert digest(GOOD) != digest(GOOD._replace(tags=["a", "b"]))


def row(text, **options):
    found = naive_libsvm.parse(text, **options)
    return found.rows[0] if len(found.rows) == 1 and found.bad is None else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"1", (1.0, [], [])),
        (b" \t-1.5e1  2:.5\t 1:5. ", (-15.0, [0, 1], [5.0, 0.5])),
        (b"+1 qid:7 3:1#4:x", (1.0, [2], [1.0])),
        (b"\r\n# only a comment\r\n\n0 4611686018427387903:1E-2\r\n", (0.0, [2**62 - 2], [0.01])),
        (b"1 0002:1 1:0 3:-0 4:1e-400", (1.0, [1], [1.0])),
        (b"1 1:1\r", (1.0, [0], [1.0])),
    ],
)
def test_naive_accepts(text, expected):
    """What the description allows."""
    assert row(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(b"x 1:1", b"1 1", b"1 :1", b"1 1:", b"1 a:1", b"1 +1:1", b"1 -1:1", b"1 0:1", b"1 1:1 1:2", b"1 1:1 01:0"),
        *(b"1 1:nan", b"nan", b"inf 1:1", b"1 1:inf", b"1 1:0x1", b"1 1:1_0", b"1 1:1e", b"1 1:.", b"1 1:+", b"1e999"),
        *(b"1 1:1e999", b"1 4611686018427387904:1", b"1 1:1:1", b"1 1: 1", b"1 1 :1", b"1,1:1", b"1 1:1 qid:1"),
        *(
            b"1 qid:x 1:1",
            b"1 qid:-1",
            b"1 1:1\r\r",
            b"1\x0b1:1",
            b"1 1:1\x00",
            "1 ١:1".encode(),
            b"1 " + b"9" * 9999 + b":1",
        ),
        *(b"1:1", b"qid:1 1:1", b"--1", b"1 1:1e1.5", b"1 1:1 e"),
    ],
)
def test_naive_rejects(text):
    """What it does not; the place is that of the line."""
    found = naive_libsvm.parse(b"1 1:1\n" + text + b"\n1 1:1\n")
    assert found[1:] == (2, 7 + len(text), 1, (6, 7 + len(text)))
    assert naive_libsvm.parse(text).bad == (0, len(text))


def test_naive_zero_based_and_float32():
    """Index 0, and values that are 0 or infinite in 32 bits only."""
    assert row(b"1 0:1", zero_based=True) == (1.0, [0], [1.0])
    assert row(b"1 1:1e-60 2:0.1", dtype=np.float32) == (1.0, [1], [float(np.float32(0.1))])
    assert row(b"1 1:1e60", dtype=np.float32) is None
    assert row(b"-9 1:-2", limit=2.0) == (-9.0, [0], [-2.0])
    assert row(b"1 1:-2.1", limit=2.0) is None


rows = st.lists(
    st.tuples(
        st.floats(allow_nan=False, allow_infinity=False),
        st.dictionaries(st.integers(1, 2**62 - 1), st.floats(allow_nan=False, allow_infinity=False), max_size=4),
    )
)


@given(rows, st.sampled_from([b"\n", b"\r\n", b" # x\n\n"]))
def test_naive_reads_what_is_written(rows, end):
    """Bit for bit, sorted, without zeros."""
    text = b"".join(
        b" ".join([repr(y).encode(), *(b"%d:%s" % (j, repr(x).encode()) for j, x in f.items())]) + end for y, f in rows
    )
    found = naive_libsvm.parse(text)
    assert found.bad is None
    expected = [(y, *map(list, zip(*sorted((j - 1, x) for j, x in f.items() if x)))) for y, f in rows]
    assert [tuple(row) for row in found.rows] == [row if len(row) == 3 else (*row, [], []) for row in expected]


@pytest.mark.parametrize("name", FORMATS)
def test_seeds(name):
    """Every format holds for its seeds, in this process; the rest is for ``python -m tests.fuzz.run``."""
    files = files_in([run.seeds_of(name)])
    assert len(files) > 3
    assert exists(name)
    make, twin = maker(name)
    for file in files:
        checks.outcome(make, twin, file.read_bytes(), copied)


def test_environment_of_the_phases(monkeypatch):
    """Neither runs in the wrong mode and says all is well."""
    for key in ("NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"):
        monkeypatch.delenv(key, raising=False)
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.replay", "tests.fuzz.toys:Toy", "1"],
        cwd=run.ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "NUMBA_BOUNDSCHECK" in done.stderr
