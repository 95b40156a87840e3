"""Shuffling and splitting of lines: against naive twins, in any memory, leaving nothing behind."""

import collections
import gzip
import itertools
import os
import stat
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinstream.data.compression import open_read
from thinstream.data.shuffle import shuffle, split
from thinstream.errors import FileWriteError, InvalidInputError, InvalidParameterError

texts = st.lists(
    st.lists(st.sampled_from([b"", b" ", b"\r", b"a", b"b 1:2", b"\xff\xfe", b"long " * 30]), max_size=30),
    min_size=1,
    max_size=3,
)


def files_of(folder, parts, last_newline=True):
    """One file per list of lines."""
    paths = []
    for k, lines in enumerate(parts):
        path = folder / f"in{k}"
        path.write_bytes(b"\n".join(lines) + (b"\n" if lines and last_newline else b""))
        paths.append(path)
    return paths


def kept(parts):
    return [line for lines in parts for line in lines if line.strip()]


def lines_in(path):
    with open_read(path) as file:
        text = file.read()
    assert not text or text.endswith(b"\n")
    return text.split(b"\n")[:-1]


def naive_shuffle(lines, seed):
    """All lines and one key each, sorted."""
    keys = np.random.PCG64(seed).random_raw(len(lines))
    return [line for _, _, line in sorted(zip(keys.tolist(), range(len(lines)), lines))]


@settings(max_examples=60)
@given(texts, st.integers(0, 2**70), st.integers(300, 20_000), st.booleans())
def test_any_memory_gives_the_same_permutation(tmp_path_factory, parts, seed, memory, newline):
    folder = tmp_path_factory.mktemp("a")
    paths, out = files_of(folder, parts, newline), folder / "out"
    assert shuffle(paths, out, seed=seed, memory=memory) == len(kept(parts))
    assert lines_in(out) == naive_shuffle(kept(parts), seed)
    assert sorted(os.listdir(folder)) == sorted([*(path.name for path in paths), "out"])


def test_buckets_within_buckets(tmp_path, monkeypatch):
    """64 buckets that do not fit are scattered again."""
    import tempfile

    from thinstream.data import shuffle as buckets

    made, real = [], tempfile.TemporaryFile
    monkeypatch.setattr(buckets.tempfile, "TemporaryFile", lambda **more: made.append(more) or real(**more))
    lines = [b"%d" % i for i in range(20_000)]
    (path,) = files_of(tmp_path, [lines])
    shuffle(path, tmp_path / "out", seed=3, memory=6_000)
    assert lines_in(tmp_path / "out") == naive_shuffle(lines, 3)
    assert len(made) > 2 * 64
    assert {more["dir"] for more in made} == {tmp_path.resolve()}
    assert sorted(os.listdir(tmp_path)) == ["in0", "out"]


@pytest.mark.parametrize("memory", [1 << 20, 500])
def test_orders_are_equally_likely(tmp_path, memory):
    """Chi-square over the 24 orders of four lines; 1 in 1000 is above 49.7 (23 degrees of freedom)."""
    (path,) = files_of(tmp_path, [[b"a", b"b", b"c", b"d"]])
    counts = collections.Counter()
    n = 960 if memory > 500 else 240
    for seed in range(n):
        shuffle(path, tmp_path / "out", seed=seed, memory=memory)
        counts[tuple(lines_in(tmp_path / "out"))] += 1
    expected = n / 24
    orders = list(itertools.permutations([b"a", b"b", b"c", b"d"]))
    assert set(counts) <= set(orders)
    assert sum((counts[order] - expected) ** 2 / expected for order in orders) < 49.7


def test_places_are_equally_likely_through_buckets(tmp_path):
    """Where the first tenth of 20,000 lines ends up, by tenths; 1 in 1000 is above 27.9 (9 degrees of freedom)."""
    n = 20_000
    (path,) = files_of(tmp_path, [[b"%d" % i for i in range(n)]])
    shuffle(path, tmp_path / "out", seed=11, memory=200_000)
    places = [k for k, line in enumerate(lines_in(tmp_path / "out")) if int(line) < n // 10]
    counts = np.bincount(np.array(places) * 10 // n, minlength=10)
    expected = n / 100
    assert ((counts - expected) ** 2 / expected).sum() < 27.9


def test_memory_is_bounded(tmp_path):
    """A file three times the memory allowed; short lines, so that overhead counts."""
    path, memory, n = tmp_path / "big", 1 << 20, 200_000
    with open(path, "wb") as file:
        for start in range(0, n, 10_000):
            file.write(b"".join(b"%d 1:0.5 7\n" % i for i in range(start, start + 10_000)))
    assert path.stat().st_size > 2.7 * memory
    tracemalloc.start()
    assert shuffle(path, tmp_path / "out", memory=memory) == n
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    split(path, [tmp_path / "a", tmp_path / "b"], fractions=[0.5, 0.5])
    peak_of_split = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * memory
    assert peak_of_split < 20 << 20  # blocks of a megabyte, as lines
    with open(tmp_path / "out", "rb") as file:
        assert sorted(int(line.split()[0]) for line in file) == list(range(n))


def test_headers_stay_first_and_are_repeated(tmp_path):
    parts = [[b"\xef\xbb\xbfy,x\r", b"1,2\r", b"3,4\r"], [], [b"y,x", b"5,6"]]
    paths = files_of(tmp_path, parts)
    assert shuffle(paths, tmp_path / "out", seed=2, header=True) == 3
    head, *rest = lines_in(tmp_path / "out")
    assert head == b"y,x"
    assert sorted(rest) == [b"1,2\r", b"3,4\r", b"5,6"]
    assert split(paths, [tmp_path / "a", tmp_path / "b", tmp_path / "c"], counts=[2, 2], header=True) == [2, 1, 0]
    assert [lines_in(tmp_path / name) for name in "abc"] == [
        [b"y,x", b"1,2\r", b"3,4\r"],
        [b"y,x", b"5,6"],
        [b"y,x"],
    ]
    other = tmp_path / "other"
    other.write_bytes(b"x,y\n1,2\n")
    with pytest.raises(
        InvalidInputError, match=r"other: all files must have the same header; .*in0 has b'y,x', got b'x,y'"
    ):
        shuffle([*paths, other], tmp_path / "new", header=True)
    assert not (tmp_path / "new").exists()


@given(texts, st.integers(0, 2**40), st.sampled_from([(0.8, 0.2), (0.5, 0.25, 0.25), (1e-9, 1 - 1e-9)]))
@settings(max_examples=40)
def test_split_by_fractions(tmp_path_factory, parts, seed, fractions):
    folder = tmp_path_factory.mktemp("a")
    outs = [folder / f"out{k}" for k in range(len(fractions))]
    dealt = split(files_of(folder, parts), outs, fractions=fractions, seed=seed)
    expected = [[] for _ in fractions]
    for line, key in zip(kept(parts), np.random.PCG64(seed).random_raw(len(kept(parts))).tolist()):
        u, k = (key >> 11) / 2**53, 0
        while k + 1 < len(fractions) and u >= sum(fractions[: k + 1]):
            k += 1
        expected[k].append(line)
    assert [lines_in(out) for out in outs] == expected
    assert dealt == [len(lines) for lines in expected]


def test_fractions_are_met(tmp_path):
    """Within four standard deviations."""
    (path,) = files_of(tmp_path, [[b"x"] * 10_000])
    first, second = split(path, [tmp_path / "a", tmp_path / "b"], fractions=[0.8, 0.2], seed=5)
    assert first + second == 10_000
    assert abs(first - 8_000) < 4 * (10_000 * 0.8 * 0.2) ** 0.5


@given(texts, st.lists(st.integers(1, 40), min_size=1, max_size=3))
@settings(max_examples=40)
def test_split_by_counts(tmp_path_factory, parts, counts):
    folder = tmp_path_factory.mktemp("a")
    outs = [folder / f"out{k}" for k in range(len(counts) + 1)]
    split(files_of(folder, parts), outs, counts=counts)
    rest = kept(parts)
    for out, count in zip(outs, [*counts, len(rest)]):
        assert lines_in(out) == rest[:count]
        rest = rest[count:]


@pytest.mark.parametrize("every", [1, 2, 3, 7, 100])
def test_split_every_kth(tmp_path, every, monkeypatch):
    monkeypatch.setattr("thinstream.data.sources.BLOCK", 16)  # blocks of a few lines: their borders do not matter
    lines = [b"%d" % i for i in range(1, 51)]
    (path,) = files_of(tmp_path, [lines])
    outs = [tmp_path / "train", tmp_path / "test"]
    split(path, outs, every=every)
    assert lines_in(outs[1]) == lines[every - 1 :: every]
    assert lines_in(outs[0]) == [line for i, line in enumerate(lines, 1) if i % every]


def test_compressed_in_and_out(tmp_path):
    lines = [b"%d" % i for i in range(1000)]
    path = tmp_path / "in.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    for kind in ("", ".gz", ".bz2", ".xz", ".zst"):
        shuffle(path, tmp_path / f"out{kind}", seed=1, memory=10_000)
        assert lines_in(tmp_path / f"out{kind}") == naive_shuffle(lines, 1)
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == (tmp_path / "out").read_bytes()
    assert split(tmp_path / "out.zst", [tmp_path / "a.xz", tmp_path / "b"], counts=[10]) == [10, 990]
    assert lines_in(tmp_path / "a.xz") == naive_shuffle(lines, 1)[:10]


def test_in_place_and_through_links(tmp_path):
    (path,) = files_of(tmp_path, [[b"%d" % i for i in range(100)]])
    link = tmp_path / "link"
    link.symlink_to(path)
    shuffle(link, link, seed=4, memory=2_000)
    assert link.is_symlink()
    assert lines_in(path) == naive_shuffle([b"%d" % i for i in range(100)], 4)


def test_devices_and_pipes_are_not_replaced(tmp_path):
    (path,) = files_of(tmp_path, [[b"a", b"b"]])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    shuffle(path, pipe)
    assert sorted(reader.communicate()[0].split()) == [b"a", b"b"]
    assert pipe.is_fifo()


def test_standard_input_and_output(tmp_path):
    program = "from thinstream.data.shuffle import shuffle; shuffle('-', '-', seed=6, memory=3000)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    lines = [b"%d" % i for i in range(500)]
    done = subprocess.run(
        [sys.executable, "-c", program], input=b"\n".join(lines), capture_output=True, env=environment
    )
    assert done.stderr == b""
    assert done.stdout.split(b"\n")[:-1] == naive_shuffle(lines, 6)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("the disk is full"), InvalidInputError("bad")])
@pytest.mark.parametrize("job", ["shuffle", "split"])
def test_nothing_is_left_behind(tmp_path, error, job, monkeypatch):
    """What was there before is still there, as it was."""
    monkeypatch.setattr("thinstream.data.sources.BLOCK", 4_096)
    (path,) = files_of(tmp_path, [[b"%d" % i for i in range(5_000)]])
    (tmp_path / "out").write_bytes(b"precious")

    def stop(rows):
        if rows > 2_000:
            raise error

    run = {
        "shuffle": lambda: shuffle(path, tmp_path / "out", memory=20_000, progress=stop),
        "split": lambda: split(path, [tmp_path / "out", tmp_path / "b.gz"], counts=[7], progress=stop),
    }
    with pytest.raises(error if isinstance(error, type) else type(error)):
        run[job]()
    assert sorted(os.listdir(tmp_path)) == ["in0", "out"]
    assert (tmp_path / "out").read_bytes() == b"precious"


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("job", ["shuffle", "split"])
def test_permissions_and_fsync(tmp_path, job, monkeypatch):
    """A replaced file keeps its own, a new one is closed to whom an input is; both are on the disk when they appear."""
    (path,) = files_of(tmp_path, [[b"%d" % i for i in range(50)]])
    path.chmod(0o640)
    (tmp_path / "old").write_bytes(b"private")
    (tmp_path / "old").chmod(0o600)
    synced, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino) or real(handle))
    if job == "shuffle":
        shuffle(path, tmp_path / "old")
        shuffle(path, tmp_path / "new.gz")
    else:
        split(path, [tmp_path / "old", tmp_path / "new.gz"], every=2)
    assert (mode_of(tmp_path / "old"), mode_of(tmp_path / "new.gz")) == (0o600, 0o640)
    assert {(tmp_path / name).stat().st_ino for name in ("old", "new.gz")} <= {*synced}


def test_a_killed_shuffle_leaves_nothing_to_the_next(tmp_path):
    """Temporary files have no names; the draft of the output goes with the next one."""
    (path,) = files_of(tmp_path, [[b"%d" % i for i in range(20_000)]])
    code = (
        "import os, sys\n"
        "from thinstream.data.shuffle import shuffle\n"
        "def progress(rows):\n"
        "    rows > 15_000 and os.kill(os.getpid(), 9)\n"
        "shuffle(sys.argv[1], sys.argv[2], memory=20_000, progress=progress)"
    )
    done = subprocess.run([sys.executable, "-c", code, path, tmp_path / "out"])
    assert done.returncode == -9
    assert len([name for name in os.listdir(tmp_path) if name != "in0"]) == 1
    assert shuffle(path, tmp_path / "out") == 20_000
    assert sorted(os.listdir(tmp_path)) == ["in0", "out"]


def test_a_cut_input_leaves_nothing_behind(tmp_path):
    path = tmp_path / "in.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\n" % (i * i) for i in range(50_000)))[:-100])
    with pytest.raises(InvalidInputError, match=r"in\.gz ends in the middle"):
        shuffle(path, tmp_path / "out", memory=50_000)
    with pytest.raises(FileNotFoundError, match="none"):
        split(tmp_path / "none", [tmp_path / "a", tmp_path / "b"], every=2)
    with pytest.raises(FileWriteError, match=r"no/folder: cannot be written: the folder .*/no does not exist"):
        split(path, [tmp_path / "a", tmp_path / "no" / "folder"], every=2)
    assert os.listdir(tmp_path) == ["in.gz"]


def test_progress_counts_lines(tmp_path):
    told = []
    (path,) = files_of(tmp_path, [[b"a"] * 300])
    shuffle(path, tmp_path / "out", memory=800, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 300
    assert len(told) > 1


def test_a_line_longer_than_memory_is_refused(tmp_path):
    (path,) = files_of(tmp_path, [[b"short", b"x" * 20_000, b"short"]])
    with pytest.raises(
        InvalidInputError, match="in0: lines must fit into the memory limit of 9,000 bytes, got a longer one at"
    ):
        shuffle(path, tmp_path / "out", memory=9_000)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "one of fractions, counts and every, got none"),
        ({"every": 2, "counts": [1]}, "got counts and every"),
        ({"fractions": [0.5, 0.4]}, r"fractions must be 2 numbers > 0 with a sum of 1, got \[0.5, 0.4\]"),
        ({"fractions": [1.0]}, "2 numbers"),
        ({"fractions": [1.5, -0.5]}, "> 0"),
        ({"fractions": ["a", "b"]}, "got \\['a', 'b'\\]"),
        ({"fractions": [0.5, 0.5], "seed": -1}, "seed must be an int >= 0, got -1"),
        ({"counts": [1, 2]}, r"1 numbers for 2 outputs \(the last output gets the rest\), got \[1, 2\]"),
        ({"counts": [0]}, "counts must be an int >= 1, got 0"),
        ({"every": 0}, "every must be an int >= 1, got 0"),
        ({"every": 2.5}, "got 2.5"),
    ],
)
def test_splits_refused(tmp_path, more, message):
    (path,) = files_of(tmp_path, [[b"a"]])
    with pytest.raises(InvalidParameterError, match=message):
        split(path, [tmp_path / "a", tmp_path / "b"], **more)
    assert os.listdir(tmp_path) == ["in0"]


def test_other_parameters_refused(tmp_path):
    (path,) = files_of(tmp_path, [[b"a"]])
    with pytest.raises(InvalidParameterError, match=r"outputs must be different files, got '.*/x' twice"):
        split(path, [tmp_path / "x", tmp_path / "." / "x"], every=2)
    with pytest.raises(InvalidParameterError, match="at least two outputs, got 1"):
        split(path, [tmp_path / "x"], fractions=[1.0])
    with pytest.raises(InvalidParameterError, match="exactly two outputs, got 3"):
        split(path, [tmp_path / "x", tmp_path / "y", tmp_path / "z"], every=2)
    with pytest.raises(InvalidParameterError, match="at least one input"):
        shuffle([], tmp_path / "x")
    for memory in (0, True, 1.5):
        with pytest.raises(InvalidParameterError, match=f"memory must be an int >= 1, got {memory}"):
            shuffle(path, tmp_path / "x", memory=memory)
    for seed in (-1, None, 1.5):
        with pytest.raises(InvalidParameterError, match=f"seed must be an int >= 0, got {seed}"):
            shuffle(path, tmp_path / "x", seed=seed)
    assert os.listdir(tmp_path) == ["in0"]
