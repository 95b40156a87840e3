"""A cache gives back what was written, at any row, or says that it is damaged; other tools can open it."""

import json
import os
import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from tests.data.sources import Told, batch_of, resumes, rows, some_rows
from thinstream.batch import Batch, Position
from thinstream.data import cache as layout
from thinstream.data.cache import Cache, contents_of, is_stale, regrouped, write_cache
from thinstream.data.opening import open_stream
from thinstream.errors import CacheError, InvalidInputError, MissingPackageError, ThinstreamError
from thinstream.lanes.learner import Learner

SOME = [(1, 2.0, {0: 1.0, 7: -2.5}), (-1, 0.0, {}), (1, 1.0, {99: 0.25}), (-1, 0.5, {3: 4.0, 4: 5.0, 5: 6.0})]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.arrow"


@pytest.fixture
def tiny(path):
    return write_cache(Told([batch_of(SOME, weighted=True), batch_of(SOME[:2])]), path, nonzeros=5)


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """About 100 MB in 16 blocks or so."""
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, 10_000, (100_000, 8), dtype=np.int32) * 8 + np.arange(8, dtype=np.int32), axis=1)

    def batch(k):
        return Batch.of(
            np.arange(0, indices.size + 1, 8),
            indices.ravel(),
            np.full(indices.size, k + 1, dtype=np.float32),
            80_008,
            np.where(np.arange(100_000) % 3, 1, -1).astype(np.int8),
        )

    path = tmp_path_factory.mktemp("big") / "big.arrow"
    return write_cache(Told([batch(k) for k in range(16)]), path)


@given(st.lists(some_rows, max_size=5), st.sampled_from(["float32", "float64"]), st.booleans(), st.integers(1, 40))
def test_gives_back_what_was_written(tmp_path_factory, chunks, dtype, weighted, nonzeros):
    path = tmp_path_factory.mktemp("cache") / "rows.arrow"
    stream = Told([batch_of(chunk, dtype, weighted=weighted) for chunk in chunks], dtype)
    cache = write_cache(stream, path, nonzeros=nonzeros)
    whole = rows(stream.batches())
    assert resumes(cache) == whole
    for row in range(len(whole) + 1):
        assert rows(cache.batches(Position(row=row))) == whole[row:]
    assert (cache.rows, cache.size, cache.dtype) == (len(whole), len(whole), dtype)
    assert cache.nnz == sum(len(features) for _, _, features in whole)
    assert cache.largest >= max((abs(x) for _, _, features in whole for x in features.values()), default=0)
    assert all(batch.values.dtype == dtype for batch in cache.batches())
    assert not is_stale(path, stream)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@given(st.lists(some_rows, max_size=5), st.integers(1, 40))
def test_blocks_are_small_and_know_their_place_in_the_source(chunks, nonzeros):
    stream = Told([batch_of(chunk) for chunk in chunks])
    ends = {batch.position.row: batch.position for batch in stream.batches() if len(batch)}
    row = 0
    for block in regrouped(stream, nonzeros):
        row += len(block)
        assert block.nnz + len(block) <= nonzeros or len(block) == 1
        assert block.position is None or block.position == ends[row]
        assert (block.position is not None) == (row in ends)


def test_positions_in_the_source(path):
    stream = Told([batch_of(SOME), batch_of(SOME), batch_of(SOME)])
    cache = write_cache(stream, path, nonzeros=10)
    assert [cache.source_position(row) for row in (0, 3, 4, 7, 8, 12)] == [
        None,
        None,
        Position(0, 7, 0, 4),
        Position(0, 7, 0, 4),
        Position(1, 7, 0, 8),
        Position(2, 7, 0, 12),
    ]


def test_labels_for_some_batches_only(path):
    stream = Told([batch_of(SOME[:2]), batch_of(SOME[2:], labelled=False), batch_of(SOME[:1])])
    cache = write_cache(stream, path)
    assert rows(cache.batches()) == rows(stream.batches())
    assert pd.read_feather(path)["label"].isna().tolist() == [False, False, True, True, False]


def test_columns_that_turn_out_to_be_needed_later(path):
    plain, weighted = batch_of(SOME), batch_of(SOME, weighted=True)
    wide = batch_of([(1, 1.0, {2**40: 2.0})], n_features=2**41)
    cache = write_cache(Told([plain, weighted, wide]), path, nonzeros=10)
    labels = [(y, 1.0, features) for y, _, features in SOME]
    assert rows(cache.batches()) == [*labels, *SOME, (1, 1.0, {2**40: 2.0})]
    assert cache.n_features == 2**41
    assert {batch.indices.dtype.name for batch in cache.batches()} == {"int64"}


def test_batches_are_views(big):
    for batch in big.batches():
        for array in (batch.indptr, batch.indices, batch.values, batch.y):
            assert np.shares_memory(array, big._data)
            assert array.ctypes.data % 8 == 0
            assert array.flags.aligned
            assert array.flags.c_contiguous
    resumed = next(big.batches(Position(row=5)))
    assert np.shares_memory(resumed.values, big._data)
    assert (resumed.first_row, resumed.position.row) == (5, next(big.batches()).position.row)


def test_memory_stays_flat(big):
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("needs /proc")

    def mapped():
        [line] = [line for line in status.read_text().splitlines() if line.startswith("RssFile")]
        return int(line.split()[1]) * 1024

    again = Cache(big.path)
    size = big.path.stat().st_size
    assert size > 100e6
    for _ in range(2):
        before, most = mapped(), 0
        for batch in again.batches():
            batch.values.sum(), batch.indices.sum()
            most = max(most, mapped() - before)
        assert most < 0.3 * size
        assert mapped() - before < 0.1 * size


def test_a_batch_outlives_its_pages_and_its_cache(path):
    write_cache(Told([batch_of(SOME, weighted=True)] * 3), path, nonzeros=10)
    assert rows(list(Cache(path).batches())) == SOME * 3


def test_every_flipped_byte_is_detected(tiny, path):
    good = path.read_bytes()
    assert len(rows(tiny.batches())) == 6
    other = path.with_name("damaged.arrow")
    other.write_bytes(good)
    with open(other, "r+b", buffering=0) as file:
        for k, byte in enumerate(good):
            for mask in (1 << k % 8, 0xFF):
                os.pwrite(file.fileno(), bytes([byte ^ mask]), k)
                with pytest.raises(CacheError, match=r"damaged\.arrow.*Write it again"):
                    list(Cache(other).batches())
            os.pwrite(file.fileno(), bytes([byte]), k)
    assert rows(Cache(other).batches()) == rows(tiny.batches())


def test_every_truncation_is_detected(tiny, path):
    good = path.read_bytes()
    other = path.with_name("short.arrow")
    other.write_bytes(good)
    for length in reversed(range(len(good))):
        os.truncate(other, length)
        with pytest.raises(CacheError, match=r"short\.arrow.*Write it again"):
            Cache(other)
    other.write_bytes(good + b"\0")
    with pytest.raises(CacheError, match=r"short\.arrow"):
        Cache(other)


def test_damage_in_a_big_file_is_detected(big, tmp_path):
    other = tmp_path / "damaged.arrow"
    other.write_bytes(big.path.read_bytes())
    size = other.stat().st_size
    with open(other, "r+b") as file:
        for k in np.random.default_rng(1).integers(0, size, 12):
            file.seek(k)
            [byte] = file.read(1)
            file.seek(k)
            file.write(bytes([byte ^ 0x10]))
            file.flush()
            with pytest.raises(CacheError, match=r"damaged in rows \d+ to \d+\. Write it again"):
                list(Cache(other).batches())
            file.seek(k)
            file.write(bytes([byte]))
    assert sum(len(batch) for batch in Cache(other).batches()) == big.rows


def test_what_is_no_cache(path):
    table = pa.table({"label": [1, 2]})
    for content, message in {
        b"": "empty",
        b"1 2:3\n" * 9: "not a thinstream cache",
        b"ARROW1": "not a thinstream cache",
    }.items():
        path.write_bytes(content)
        with pytest.raises(CacheError, match=message):
            Cache(path)
    pa.parquet.write_table(table, path)
    with pytest.raises(CacheError, match="not a thinstream cache"):
        Cache(path)
    pd.DataFrame({"label": range(1000)}).to_feather(path, compression="uncompressed")
    with pytest.raises(CacheError, match="Arrow file but not a thinstream cache"):
        Cache(path)
    with pytest.raises(FileNotFoundError):
        Cache(path.with_name("missing.arrow"))
    assert issubclass(CacheError, ThinstreamError)
    assert issubclass(CacheError, ValueError)


def set_version(path, version):
    """Change the format version in the trailer of a cache."""
    data = path.read_bytes()
    k = data.index(b"thinstrm")
    path.write_bytes(data[: k + 8] + struct.pack("<Q", version) + data[k + 16 :])


@pytest.mark.parametrize("version", [0, 2])
def test_a_cache_of_an_unknown_version_is_refused(tiny, path, version):
    set_version(path, version)
    message = (
        f"{path} has cache format version {version}, but only version 1 is supported. Write it again with thinstream"
    )
    with pytest.raises(CacheError, match=re.escape(message)):
        Cache(path)
    assert is_stale(path, Told([]))


def test_an_automatic_cache_of_an_unknown_version_is_replaced(tmp_path):
    source, cache = tmp_path / "d.svm", tmp_path / "d.svm.cache"
    source.write_text("+1 1:1 3:0.5\n-1 2:1\n")
    list(open_stream(source, cache=True).batches())
    set_version(cache, 2)
    [batch] = open_stream(source, cache=True).batches()
    assert batch.indices.tolist() == [0, 2, 1]
    assert Cache(cache).rows == 2


def test_other_tools_open_it(tiny, path):
    labels, indices = [1, -1, 1, -1, 1, -1], [[0, 7], [], [99], [3, 4, 5], [0, 7], []]
    weights = [2.0, 0.0, 1.0, 0.5, 1.0, 1.0]
    frame = pd.read_feather(path)
    assert [list(found) for found in frame["indices"]] == indices
    assert frame["label"].tolist() == labels
    assert frame["weight"].tolist() == weights
    for frame in (pl.read_ipc(path), pl.scan_ipc(path).collect()):
        assert frame["indices"].to_list() == indices
        assert frame["label"].to_list() == labels
        assert frame["values"].to_list()[3] == [4.0, 5.0, 6.0]
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        table = reader.read_all()
        table.validate(full=True)
        assert table["values"].to_pylist()[0] == [1.0, -2.5]
        for schema in (reader.schema, table.schema):
            about = json.loads(schema.metadata[b"thinstream"])
            totals = json.loads(schema.metadata[b"thinstream.totals"])
            assert about == {"version": 1, **tiny.identity}
            assert totals == {"rows": 6, "width": 100, "largest": 6.0}
    with pa.OSFile(str(path)) as source:  # the other copy of the schema, at the head
        source.seek(8)
        assert json.loads(pa.ipc.read_schema(source).metadata[b"thinstream.totals"]) == totals


def test_stale(path):
    def stream(**options):
        return Told([batch_of(SOME)], **options)

    assert is_stale(path, stream())
    write_cache(stream(feature_space={"bits": 4}), path)
    assert not is_stale(path, stream(feature_space={"bits": 4}))
    for other in ({"bits": 5}, {}):
        assert is_stale(path, stream(feature_space=other))
    for options in ({"name": "other"}, {"dtype": "float64"}, {"normalise": "l2"}):
        assert is_stale(path, stream(feature_space={"bits": 4}, **options))
    path.write_bytes(path.read_bytes()[:-1])
    assert is_stale(path, stream(feature_space={"bits": 4}))


def test_a_failure_leaves_the_old_file(tiny, path):
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="broken pipe"):
        write_cache(Told([batch_of(SOME)] * 3 + [RuntimeError("broken pipe")]), path, nonzeros=10)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    assert len(rows(tiny.batches())) == 6


def test_a_new_cache_does_not_disturb_readers_of_the_old(tiny, path):
    reading = tiny.batches()
    first = next(reading)
    write_cache(Told([batch_of(SOME[2:3])]), path)
    assert len(rows([first])) + len(rows(reading)) == 6
    assert Cache(path).rows == 1


def test_equal_streams_give_equal_files(path):
    stream = Told([batch_of(SOME), batch_of(SOME, weighted=True)])
    write_cache(stream, path)
    before = path.read_bytes()
    write_cache(stream, path)
    assert path.read_bytes() == before


def test_a_stream_without_rows(path):
    cache = write_cache(Told([]), path)
    assert (cache.rows, cache.nnz, cache.n_features, cache.largest) == (0, 0, 0, 0.0)
    assert list(cache.batches()) == []
    assert pd.read_feather(path).shape == (0, 3)


def test_rows_that_are_not_there(tiny):
    for row in (-1, 7):
        with pytest.raises(InvalidInputError, match=rf"has 6 rows, so reading cannot resume at row {row}"):
            tiny.batches(Position(row=row))


def test_a_stream_that_breaks_its_word(path):
    with pytest.raises(InvalidInputError, match="a stream of dtype float32 returned a batch of dtype float64"):
        write_cache(Told([batch_of(SOME, "float64")]), path)


def test_the_same_model_from_stream_and_cache(path):
    stream = Told([batch_of(SOME, weighted=True)] * 10)
    cache = write_cache(stream, path, nonzeros=17)
    weights = []
    for source in (stream, cache):
        model = Learner("arow", n_features=100)
        for batch in source.batches():
            model.learn(batch)
        weights.append(model.weights())
    assert np.array_equal(*weights)


def test_reading_needs_no_pyarrow_but_writing_says_so(tiny, path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert len(rows(Cache(path).batches())) == 6
    with pytest.raises(MissingPackageError, match=r"pip install 'pyarrow"):
        write_cache(Told([]), path)


def test_nothing_is_wrong_with_numbers_of_numpy_in_positions(path):
    class Counting(Told):
        def batches(self, start=Position()):  # noqa: B008
            for batch in super().batches(start):
                yield replace(batch, position=Position(*(np.int64(k) for k in batch.position)))

    assert write_cache(Counting([batch_of(SOME)]), path).source_position(4) == Position(0, 7, 0, 4)


def test_a_link_stays_a_link(tiny, path, tmp_path):
    link = tmp_path / "link.arrow"
    link.symlink_to(path)
    write_cache(Told([batch_of(SOME[:1])]), link)
    assert link.is_symlink()
    assert Cache(path).rows == 1


@pytest.mark.parametrize("name", ["rows.svm", "rows.parquet"])
def test_a_copy_is_closed_to_whom_its_source_is(tmp_path, name):
    source = tmp_path / name
    if name.endswith("svm"):
        source.write_text("1 1:1\n")
    else:
        pa.parquet.write_table(pa.table({"label": [1], "a": [2.0]}), source)
    source.chmod(0o600)
    open_stream(source, cache=True)
    write_cache(open_stream(source, normalize="l2"), tmp_path / "copy.cache")
    for path in (tmp_path / f"{name}.cache", tmp_path / "copy.cache"):
        assert path.stat().st_mode & 0o777 == 0o600


def forged(path, arrays=None, block=None, **more):
    """A cache with other arrays, or another description, and all checksums as they should be."""
    data = bytearray(path.read_bytes())
    contents = contents_of(np.frombuffer(bytes(data), np.uint8), path)
    [known] = contents.blocks
    kinds = {"indices": "int32", "values": "float32", "indptr": "int32", "label": "int8", "weight": "float64"}
    for name, values in (arrays or {}).items():
        array, at = np.array(values, kinds[name]), known.start + getattr(known, name)
        data[at : at + array.nbytes] = array.tobytes()
    checksum = xxh3_64_intdigest(bytes(data[known.start : known.stop]))
    contents = contents._replace(blocks=[known._replace(checksum=checksum)._replace(**(block or {}))], **more)
    first, last, footer = known.start, known.stop, -10 - int.from_bytes(data[-10:-6], "little")
    section = json.dumps(contents._asdict()).encode()
    trailer = (b"thinstrm", layout.VERSION, first, last, last)
    sealed = section + layout._TRAILER.pack(*trailer, 0)
    total = layout._metadata_checksum(bytes(data[:first]), sealed, bytes(data[footer:]))
    path.write_bytes(bytes(data[:last]) + section + layout._TRAILER.pack(*trailer, total) + bytes(data[footer:]))
    return Cache(path)


ONE = [(1, 2.0, {0: 1.0, 7: -2.5}), (-1, 1.0, {3: 0.25, 5: 2.0})]
FORGED = {
    "an index of 2·10⁹": {"arrays": {"indices": [0, 7, 3, 2_000_000_000]}},
    "a negative index": {"arrays": {"indices": [-3, 7, 3, 5]}},
    "indices that fall": {"arrays": {"indices": [7, 0, 3, 5]}},
    "a repeated index": {"arrays": {"indices": [0, 7, 3, 3]}},
    "rows behind the end": {"arrays": {"indptr": [0, 2, 400]}},
    "rows that go back": {"arrays": {"indptr": [0, 3, 2]}},
    "rows that begin late": {"arrays": {"indptr": [1, 2, 4]}},
    "NaN": {"arrays": {"values": [1, np.nan, 1, 1]}},
    "a label of 5": {"arrays": {"label": [1, 5]}},
    "a weight of NaN": {"arrays": {"weight": [1.0, np.nan]}},
    "a negative weight": {"arrays": {"weight": [1.0, -1.0]}},
    "a width too narrow": {"width": 7},
    "too many rows": {"block": {"rows": 10**12}},
    "too many values": {"block": {"nnz": 10**6}},
    "fewer than no rows": {"block": {"rows": -2}},
    "a buffer behind the block": {"block": {"values": 1 << 20}},
    "a buffer before the block": {"block": {"values": -8}},
    "a buffer at an odd place": {"block": {"values": 1}},
    "a block before the first": {"block": {"start": 0}},
    "a block behind the last": {"block": {"stop": 1 << 40}},
    "a place that is none": {"block": {"start": "here"}},
    "numbers of no type": {"numbers": "int16"},
    "no width": {"width": None},
    "no identity": {"identity": {}},
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_cache_is_refused(path, name):
    """Checksums can be made to fit; nothing outside of the arrays may be read or written."""
    write_cache(Told([batch_of(ONE, weighted=True)]), path)
    with pytest.raises(CacheError, match=r"rows\.arrow is damaged(: its description is invalid| in rows 0 to 1)"):
        list(forged(path, **FORGED[name]).batches())


def test_what_is_not_forged_is_read(path):
    """Values may have become zeros where rows were scaled; how large they are is looked up."""
    write_cache(Told([batch_of(ONE, weighted=True)]), path)
    [batch] = forged(path, {"values": [1, 0, 8, 1]}, {"largest": 0.5}).batches()
    assert (batch.values.tolist(), batch.largest) == ([1, 0, 8, 1], 8.0)
