"""Compressed files: what is written is read, members add up, and nothing broken passes for whole."""

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tracemalloc

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from thinstream.data.compression import BLOCK, CODECS, ending, open_read, open_write
from thinstream.errors import InvalidInputError, MissingPackageError

#: Other implementations of each, to test against.
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstandard.compress}
DECOMPRESS = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".zst": lambda data: zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(data),
}
each = pytest.mark.parametrize("kind", sorted(CODECS))
TEXT = b"".join(b"%d some text %d\n" % (i, i * i % 977) for i in range(30_000))


def written(path, text):
    with open_write(path) as file:
        file.write(text)
    return path


def read(path):
    with open_read(path) as file:
        return file.read()


def test_every_codec_is_tested():
    assert set(COMPRESS) == set(DECOMPRESS) == set(CODECS)


@pytest.mark.parametrize("kind", ["", *sorted(CODECS)])
@pytest.mark.parametrize("text", [b"", b"x", TEXT, os.urandom(2 * BLOCK + 7)], ids=["empty", "one", "text", "noise"])
def test_what_is_written_is_read(tmp_path, kind, text):
    path = written(tmp_path / f"a{kind}", text)
    assert read(path) == text
    assert read(str(path)) == text
    if kind:
        assert DECOMPRESS[kind](path.read_bytes()) == text
        assert path.read_bytes() == written(tmp_path / f"b{kind}", text).read_bytes()  # nothing of time or name in it


@each
def test_members_are_read_to_the_end(tmp_path, kind):
    path = tmp_path / f"a{kind}"
    parts = [b"one\n", b"", TEXT, b"two\n"]
    path.write_bytes(b"".join(COMPRESS[kind](part) for part in parts))
    assert read(path) == b"".join(parts)


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.lists(st.integers(1, 50), min_size=1), st.data())
def test_reads_of_any_size(tmp_path_factory, parts, sizes, data):
    kind = data.draw(st.sampled_from(sorted(CODECS)))
    path = tmp_path_factory.mktemp("a") / f"a{kind}"
    path.write_bytes(b"".join(COMPRESS[kind](part) for part in parts))
    found = b""
    with open_read(path) as file:
        for k in range(10_000):
            piece = file.read(sizes[k % len(sizes)])
            if not piece:
                break
            found += piece
    assert found == b"".join(parts)


@each
def test_every_cut_is_noticed(tmp_path, kind):
    """A file cut anywhere raises, and not even an empty one passes."""
    path, whole = tmp_path / f"a{kind}", COMPRESS[kind](b"hello\nworld\n" * 3)
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(InvalidInputError, match=rf"a\{kind} (ends in the middle|is damaged)"):
            read(path)


@each
def test_a_cut_second_member_is_noticed(tmp_path, kind):
    path, whole = tmp_path / f"a{kind}", COMPRESS[kind](TEXT)
    path.write_bytes(whole + whole[: len(whole) // 2])
    with pytest.raises(InvalidInputError, match=r"ends in the middle of its compressed data, after [0-9]{6,} bytes"):
        read(path)


@each
def test_damage_is_noticed_and_stays(tmp_path, kind):
    path = written(tmp_path / f"a{kind}", TEXT)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)
    with open_read(path) as file:
        for _ in range(2):  # trying again does not help
            with pytest.raises(InvalidInputError, match=rf"a\{kind} is damaged or not a {kind} file"):
                file.read()


@each
def test_other_things_are_refused(tmp_path, kind):
    path = tmp_path / f"a{kind}"
    for data in (b"plain text, and nothing else\n" * 3, COMPRESS[kind](TEXT) + b"rubbish behind it"):
        path.write_bytes(data)
        with pytest.raises(InvalidInputError, match="is damaged"):
            read(path)


@pytest.mark.parametrize("kind", [".gz", ".xz"])
def test_zeros_may_follow_a_member(tmp_path, kind):
    """As tapes and some tools leave them."""
    path, one = tmp_path / f"a{kind}", COMPRESS[kind](b"one\n")
    path.write_bytes(one + bytes(200_000) + one + bytes(512))
    assert read(path) == b"one\none\n"


def test_frames_to_be_skipped_are_skipped(tmp_path):
    path, frame = tmp_path / "a.zst", zstandard.compress(TEXT)
    skipped = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"
    path.write_bytes(skipped + frame + skipped + frame)
    assert read(path) == TEXT + TEXT


@each
def test_a_bomb_is_read_in_bounded_memory(tmp_path, kind):
    """100 MB of zeros are a small file; no more than a share of them is ever in memory."""
    path = tmp_path / f"a{kind}"
    with open_write(path) as file:
        for _ in range(100):
            file.write(bytes(1_000_000))
    assert path.stat().st_size < 200_000
    tracemalloc.start()
    with open_read(path) as file:
        length = sum(len(piece) for piece in iter(lambda: file.read(1 << 16), b""))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert length == 100_000_000
    assert peak < 100_000_000 * (0.4 if kind == ".zst" else 0.1)


def test_endings():
    assert [ending(name) for name in ("a.GZ", "a.b.zst", "gz", "-", "a.gz/b", "a.txt")] == [".gz", ".zst", *[""] * 4]


def test_missing_files_are_named(tmp_path):
    for name in ("none", "none.gz"):
        with pytest.raises(FileNotFoundError, match=name):
            open_read(tmp_path / name)


def test_without_zstandard(tmp_path, monkeypatch):
    path = written(tmp_path / "a.zst", b"text")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    for use in (open_read, open_write):
        with pytest.raises(MissingPackageError, match=r"pip install 'zstandard"):
            use(path)
    assert path.stat().st_size > 0  # not opened for writing


def test_zstandard_is_not_imported_without_need():
    program = "import sys, thinstream.data.compression; sys.exit('zstandard' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_standard_input_and_output_stay_open():
    program = (
        "import sys; from thinstream.data.compression import open_read, open_write\n"
        "with open_read('-') as a, open_write('-') as b:\n"
        "    b.write(a.read())\n"
        "sys.stdout.write('more'); sys.stdout.flush(); sys.stdin.buffer.read()"
    )
    done = subprocess.run([sys.executable, "-c", program], input=TEXT, capture_output=True)
    assert done.stderr == b""
    assert done.stdout == TEXT + b"more"


def test_streams_put_in_place_of_the_standard_ones(monkeypatch):
    """As test runners of command lines do."""
    given_, taken = io.BytesIO(b"a\nb\n"), io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given_))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(taken))
    with open_read("-") as a, open_write("-") as b:
        b.writelines(a)
    assert taken.getvalue() == b"a\nb\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_file_that_could_not_be_closed_is_not_closed_again(suffix):
    """The first error is the one to tell of; another attempt must not raise something else."""
    file = open_write("/dev/full", suffix)
    file.write(b"some text")
    with pytest.raises(OSError, match="No space left on device"):
        file.close()
    file.close()
