"""Parquet and Arrow files as streams, against naive conversion of the same Python lists."""

import decimal
import os
import pickle
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.sources import Crc, Told, batch_of, naive_row, resumes, rows, some_rows
from thinstream.batch import Position
from thinstream.data.cache import write_cache
from thinstream.data.opening import infer_options
from thinstream.data.options import Options
from thinstream.data.tables.arrow import ArrowFiles
from thinstream.errors import InvalidInputError, InvalidParameterError, MissingPackageError

CRC = Crc(bits=6, signed=True)  # so narrow that features collide


def parquet(table, path, block):
    pa.parquet.write_table(table, path, row_group_size=block)


def ipc_file(table, path, block):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=block)


def ipc_stream(table, path, block):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=block)


def feather(table, path, block):
    pa.feather.write_feather(table, path, chunksize=block, compression="lz4")


WRITERS = {"a.parquet": parquet, "a.arrow": ipc_file, "a.stream.arrow": ipc_stream, "a.feather": feather}


@pytest.fixture
def save(tmp_path):
    def write(table, name="a.parquet", block=100):
        table = pa.table(table) if isinstance(table, dict) else table
        WRITERS["a" + name[name.index(".") :]](table, tmp_path / name, block)
        return tmp_path / name

    return write


def list_table(chunk, index=pa.int32(), value=pa.float32(), kind=pa.list_, weighted=True):  # noqa: B008
    columns = {
        "label": pa.array([y for y, _, _ in chunk], pa.int8()),
        "indices": pa.array([list(features) for _, _, features in chunk], kind(index)),
        "values": pa.array([list(features.values()) for _, _, features in chunk], kind(value)),
        "more": pa.array(["not read"] * len(chunk)),
    }
    return pa.table(columns | ({"weight": pa.array([w for _, w, _ in chunk], pa.float64())} if weighted else {}))


@given(
    name=st.sampled_from(sorted(WRITERS)),
    chunks=st.lists(some_rows, min_size=1, max_size=3),
    index=st.sampled_from([pa.int32(), pa.int64(), pa.uint8(), pa.uint64()]),
    value=st.sampled_from([pa.float32(), pa.float64()]),
    kind=st.sampled_from([pa.list_, pa.large_list]),
    block=st.integers(1, 9),
    rows_per_batch=st.integers(1, 9),
)
def test_list_columns(tmp_path_factory, name, chunks, index, value, kind, block, rows_per_batch):
    folder = tmp_path_factory.mktemp("arrow")
    paths = [folder / f"{k}-{name}" for k in range(len(chunks))]
    for path, chunk in zip(paths, chunks):
        WRITERS[name](list_table(chunk, index, value, kind), path, block)
    stream = ArrowFiles(*paths, rows_per_batch=rows_per_batch)
    whole = [row for chunk in chunks for row in chunk]
    assert resumes(stream) == whole
    starts = [(part, offset) for part, chunk in enumerate(chunks) for offset in range(len(chunk) + 1)]
    for part, offset in starts:  # any row, not only where batches end
        row = sum(map(len, chunks[:part])) + offset
        found = list(stream.batches(Position(part, offset, 0, row)))
        assert rows(found) == whole[row:]
        assert not found or found[0].first_row == row
    assert all(len(batch) <= rows_per_batch for batch in stream.batches())
    assert all(batch.indices.dtype == np.int32 for batch in stream.batches())
    assert stream.size == (None if "stream" in name else len(whole))
    assert stream.feature_space == {}


KINDS = {
    "number": (st.floats(-1e6, 1e6, width=32), pa.float64()),
    "count": (st.integers(-5, 5), pa.int16()),
    "flag": (st.booleans(), pa.bool_()),
    "text": (st.sampled_from(["a", "b", "é", ""]), pa.string()),
    "large": (st.sampled_from(["a", "b"]), pa.large_string()),
    "kind": (st.sampled_from(["x", "y"]), pa.dictionary(pa.uint8(), pa.string())),
    "price": (st.integers(-9, 9).map(lambda k: decimal.Decimal(k) / 4), pa.decimal128(9, 2)),
    "nothing": (st.none(), pa.null()),
}
records_of_all_kinds = st.lists(
    st.fixed_dictionaries({name: st.one_of(st.none(), cells) for name, (cells, _) in KINDS.items()}), max_size=6
)


@given(
    name=st.sampled_from(sorted(WRITERS)),
    records=records_of_all_kinds,
    block=st.integers(1, 9),
    rows_per_batch=st.integers(1, 9),
)
def test_columns_hashed_by_name(tmp_path_factory, name, records, block, rows_per_batch):
    path = tmp_path_factory.mktemp("arrow") / name
    table = {k: pa.array([record[k] for record in records], kind) for k, (_, kind) in KINDS.items()}
    table |= {"spam": pa.array([k % 2 == 0 for k in range(len(records))], pa.bool_()), "id": list(range(len(records)))}
    schema = pa.schema([(k, a.type if isinstance(a, pa.Array) else pa.int64()) for k, a in table.items()])
    if name in ("a.arrow", "a.feather"):  # this format has one dictionary for all blocks
        block = 100
    WRITERS[name](pa.table(table, schema=schema), path, block)
    stream = ArrowFiles(path, label="spam", ignore=["id"], hasher=CRC, rows_per_batch=rows_per_batch)
    found = resumes(stream)
    assert [y for y, _, _ in found] == [1 if k % 2 == 0 else -1 for k in range(len(records))]
    for (_, weight, features), record in zip(found, records):
        present = {k: x for k, x in record.items() if x is not None}
        named = {f"{k}={x}" if isinstance(x, str) else k: 1 if isinstance(x, str) else x for k, x in present.items()}
        wanted = naive_row({k: float(x) for k, x in named.items()}, CRC)
        assert weight is None
        assert features == pytest.approx(wanted, rel=1e-5, abs=0.1)  # sums of collided features, in float32
    assert stream.feature_space == {"hashing": {"bits": 6, "signed": True}}
    assert all(batch.n_features == 64 for batch in stream.batches())


def test_nulls_in_lists_are_absent(save):
    indices = [[0, 1, 2], None, [None, 4], []]
    values = [[1.0, None, 3.0], None, [7.0, 2.0], []]
    stream = ArrowFiles(save({"indices": indices, "values": values}), label=None)
    assert [features for _, _, features in rows(stream.batches())] == [{0: 1.0, 2: 3.0}, {}, {4: 2.0}, {}]


def test_lists_of_fixed_size_and_untidy_ones(save):
    fixed = pa.array([[3, 1], None, [2, 2]], pa.list_(pa.int32(), 2))
    values = pa.array([[1.0, 2.0], None, [0.25, 0.5]], pa.list_(pa.float32(), 2))
    path = save({"indices": fixed, "values": values}, "a.arrow")
    found = rows(ArrowFiles(path, label=None).batches())
    assert [features for _, _, features in found] == [{1: 2.0, 3: 1.0}, {}, {2: 0.75}]


def test_width_and_precision(save):
    path = save({"label": [1], "indices": [[2**33]], "values": [[0.1]]})
    [batch] = ArrowFiles(path, dtype="float64").batches()
    assert (batch.n_features, batch.indices.dtype, batch.values[0]) == (2**33 + 1, np.int64, 0.1)
    [batch] = ArrowFiles(path, n_features=2**40).batches()
    assert batch.n_features == 2**40


def test_a_cache_is_an_arrow_file_like_others(tmp_path):
    chunk = [(1, 2.0, {0: 1.0, 7: -2.5}), (-1, 0.0, {}), (1, 1.0, {99: 0.25})]
    path = tmp_path / "cache.arrow"
    write_cache(Told([batch_of(chunk, weighted=True)] * 3), path, nonzeros=5)
    assert resumes(ArrowFiles(path)) == chunk * 3
    assert ArrowFiles(path).size == 9


LABELS = {
    "numbers": ([0, 3, -2.5], None),
    "booleans": ([False, True, False], None),
    "decimals": ([decimal.Decimal(-1), decimal.Decimal(2), decimal.Decimal(0)], None),
    "text": (["ham", "spam", "ham"], ("ham", "spam")),
    "dictionary": (pa.array(["ham", "spam", "ham"]).dictionary_encode(), ("ham", "spam")),
    "numbers by class": ([2, 1, 2], (2, 1)),
}


@pytest.mark.parametrize("case", LABELS)
@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_labels(case, name, save):
    y, classes = LABELS[case]
    path = save({"y": y, "indices": [[0]] * 3, "values": [[1.0]] * 3}, name)
    [batch] = ArrowFiles(path, label="y", classes=classes).batches()
    assert batch.y.tolist() == [-1, 1, -1]


@pytest.mark.parametrize("kind", [pa.null(), pa.int8(), pa.float32(), pa.string(), pa.bool_()])
def test_no_labels(kind, save):
    path = save({"label": pa.array([None] * 2, kind), "indices": [[0]] * 2, "values": [[1.0]] * 2})
    [batch] = ArrowFiles(path).batches()
    assert batch.y is None


def lists(**columns):
    return {"label": [1, 0], "indices": [[0], [1]], "values": [[1.0], [2.0]]} | columns


BAD = {
    "nan": (lists(values=[[1.0], [np.nan]]), {}, "NaN .* at row 1, column 1"),
    "infinity": (lists(values=[[-np.inf], [1.0]]), {}, "infinity .* at row 0, column 0"),
    "too large": (lists(values=[[1.0], [1e300]]), {}, r"1e\+300, too large for float32, at row 1, column 1"),
    "negative index": (lists(indices=[[0], [-3]]), {}, r"column indices must be from 0 .*got -3 in row 1"),
    "index too large": (lists(), {"n_features": 1}, r"from 0 to 0 .*got 1 in row 1"),
    "lengths": (lists(values=[[1.0], [1.0, 2.0]]), {}, "row 1 has 1 feature indices, but 2 values"),
    "no lists": (lists(values=[1.0, 2.0]), {}, "column 'values' must have lists, got double"),
    "lists of text": (lists(values=[["a"], ["b"]]), {}, "column 'values' must have numbers, got string"),
    "fractions": (lists(indices=[[0.5], [1.0]]), {}, "column 'indices' must have lists of integers, got double"),
    "no label": (
        lists(),
        {"label": "spam"},
        "no column 'spam', only 'label', 'indices' or 'values'; name it with --label ",
    ),
    "no weight": (lists(), {"weight": "w"}, "no column 'w', only"),
    "some labels": (lists(label=[1, None]), {}, "row 1 has no label, but other rows have one"),
    "some text labels": (lists(label=["a", None]), {"classes": ("a", "b")}, "row 1 has no label"),
    "text labels": (lists(label=["a", "b"]), {}, "labels such as 'a' need classes"),
    "third class": (lists(label=["a", "c"]), {"classes": ("a", "b")}, "must be 'a' or 'b', got 'c' at row 1"),
    "labels of dates": (lists(label=pa.array([1, 2], pa.date32())), {}, "labels must be numbers"),
    "weight": (lists(weight=[1.0, -1.0]), {}, "weights must be finite and ≥ 0, got -1.0 at row 1"),
    "weight of text": (lists(weight=["a", "b"]), {}, "column 'weight' must have numbers, got string"),
    "null weight": (lists(weight=[1.0, None]), {}, "weights must be finite and ≥ 0, got nan at row 1"),
    "no hasher": (
        {"label": [1], "a": [1.0]},
        {},
        "named columns need a hasher, unless there are list columns 'indices' and 'values'",
    ),
    "nan by name": (
        {"label": [1, 0], "a": [1.0, np.nan]},
        {"hasher": CRC},
        "numbers must be finite .* got nan at row 1, column 'a'",
    ),
    "large by name": ({"label": [1], "a": [1e39]}, {"hasher": CRC}, "must be at most 1e.15 .* at row 0, column 'a'"),
    "hours": (
        {"label": [1], "d": pa.array([1], pa.time32("s"))},
        {"hasher": CRC},
        "column 'd' must have numbers, booleans, dates, text or dictionaries of text, got time32.*with ignore=",
    ),
    "dictionary of numbers": (
        {"label": [1], "d": pa.array([5]).dictionary_encode()},
        {"hasher": CRC},
        "dictionaries of column 'd' must have text",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_say_what_and_where(case, save):
    table, options, message = BAD[case]
    path = save(table, "bad.arrow")
    with pytest.raises(InvalidInputError, match=rf"bad\.arrow.*{message}"):
        list(ArrowFiles(path, **options).batches())


def test_positions_that_are_not_there(save):
    stream = ArrowFiles(save(lists()))
    with pytest.raises(InvalidInputError, match=r"a\.parquet has 2 rows, so reading cannot resume at row 3"):
        list(stream.batches(Position(0, 3, 0, 3)))
    with pytest.raises(InvalidInputError, match="there are 1 files, so reading cannot resume in file 2"):
        list(stream.batches(Position(1, 0, 0, 2)))


def test_columns_of_one_name(save):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([1.0]), pa.array([2.0])], names=["label", "a", "a"])
    with pytest.raises(InvalidInputError, match="several columns with the same name"):
        list(ArrowFiles(save(table, "a.arrow"), hasher=CRC).batches())


def test_rows_in_errors_are_those_of_the_file(save):
    good, bad = save(lists(), "good.parquet"), save(lists(values=[[1.0], [np.nan]]), "bad.parquet")
    with pytest.raises(InvalidInputError, match=r"bad\.parquet.* row 1,"):
        list(ArrowFiles(good, bad, rows_per_batch=1).batches())


def test_files_that_are_none(tmp_path):
    path = tmp_path / "rows.parquet"
    for content, message in {b"": "neither", b"1 2:3": "neither", b"FEA1xxx": "version 1 of Feather"}.items():
        path.write_bytes(content)
        with pytest.raises(InvalidInputError, match=rf"rows\.parquet.*{message}"):
            list(ArrowFiles(path).batches())
    for content in (b"PAR1", b"ARROW1\0\0" + bytes(50), b"\xff\xff\xff\xff" + bytes([9] * 40)):
        path.write_bytes(content)
        with pytest.raises(InvalidInputError, match=r"rows\.parquet cannot be read and may be damaged"):
            list(ArrowFiles(path).batches())
    with pytest.raises(FileNotFoundError):
        list(ArrowFiles(tmp_path / "missing.parquet").batches())
    with pytest.raises(InvalidParameterError, match="at least one path"):
        ArrowFiles()


@pytest.mark.parametrize("name", ["a.arrow", "a.stream.arrow"])
def test_damaged_files_never_crash(name, save):
    chunk = [(1, 2.0, {0: 1.0, 7: -2.5}), (-1, 0.0, {}), (1, 1.0, {99: 0.25})]
    path = save(list_table(chunk).drop_columns(["more"]), name)
    good, refused = path.read_bytes(), 0
    for k in range(0, len(good), 3):
        path.write_bytes(good[:k] + bytes([good[k] ^ 0xFF]) + good[k + 1 :])
        try:
            for batch in ArrowFiles(path).batches():
                rows([batch])
        except InvalidInputError:
            refused += 1
    assert refused > 10


def test_fingerprints(save):
    one, two = save(lists(), "one.parquet"), save(lists(values=[[1.0], [3.0]]), "two.parquet")
    streams = [ArrowFiles(one), ArrowFiles(two), ArrowFiles(one, two), ArrowFiles(one, label=None)]
    found = [str(stream.fingerprint()) for stream in streams]
    assert len(set(found)) == len(found)
    assert ArrowFiles(one).fingerprint() == ArrowFiles(str(one)).fingerprint()
    [file] = ArrowFiles(one).fingerprint()["files"]
    assert (file["name"], file["size"]) == ("one.parquet", one.stat().st_size)


def test_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackageError, match=r"need pyarrow: pip install 'pyarrow"):
        ArrowFiles("a.parquet")


def test_memory_is_that_of_a_few_batches(save):
    n = 1_600_000
    table = pa.table({"label": np.ones(n, np.int8), **{f"c{j}": np.arange(1.0, n + 1) + j for j in range(2)}})
    for name in ("a.parquet", "a.arrow"):
        path = save(table, name, block=n if name == "a.parquet" else 20_000)
        before, most = pa.total_allocated_bytes(), 0
        for batch in ArrowFiles(path, hasher=CRC, rows_per_batch=20_000).batches():
            most = max(most, pa.total_allocated_bytes() - before)
            assert len(batch) == 20_000
        assert most < 0.4 * table.nbytes


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("column", ["city", "label"])
def test_text_that_is_no_utf8_is_refused(tmp_path, column, coded):
    """Parquet is not validated as it is read."""
    offsets = pa.py_buffer(np.array([0, 1, 3, 4], np.int32).tobytes())
    text = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"a\xff\xfeb")])
    columns = {"label": pa.array(["a", "b", "a"]), "city": pa.array(["x", "y", "z"])}
    columns[column] = text.dictionary_encode() if coded else text
    path = tmp_path / "rows.parquet"
    pa.parquet.write_table(pa.table(columns), path)
    message = rf"rows\.parquet: text of column '{column}' must be UTF-8, got other bytes"
    with pytest.raises(InvalidInputError, match=message):
        list(ArrowFiles(path, hasher=Crc(), classes=("a", "b")).batches())


@pytest.mark.parametrize("name", ["feather", "parquet"])
def test_no_code_comes_out_of_a_file(name, tmp_path):
    """Pyarrow before 14.0.1 unpickled types of Python's own that a file declared."""

    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "attacked"),)

    payload = pickle.dumps(Attack())
    declared = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": payload}
    columns = {"label": pa.array([1, -1]), "indices": pa.array([[0], [1]]), "values": pa.array([[1.0], [2.0]])}
    table = pa.table(columns)
    fields = [field.with_metadata(declared) if field.name == "label" else field for field in table.schema]
    table = table.cast(pa.schema(fields))
    path = tmp_path / f"rows.{name}"
    pa.feather.write_feather(table, path) if name == "feather" else pa.parquet.write_table(table, path)
    assert sum(map(len, ArrowFiles(path).batches())) == 2
    assert not (tmp_path / "attacked").exists()


@pytest.mark.parametrize("rows", [60, 1200])
@pytest.mark.parametrize("name", WRITERS)
def test_column_types_do_not_depend_on_row_groups_or_record_batches(name, rows, tmp_path):
    columns = {
        "subject": [("free offer" if k % 2 else "see you") + f" number {k}" for k in range(rows)],
        "day": [f"2024-0{5 + k % 2}-{k % 28 + 1:02}" for k in range(rows)],
        "code": [None if k < 150 < rows else f"{k % 7}" for k in range(rows)],
        "label": [k % 2 for k in range(rows)],
    }
    inferred = []
    for block in (rows, 99, 50, 1):
        WRITERS[name](pa.table(columns), tmp_path / name, block)
        inferred.append(infer_options(tmp_path / name, Options()))
    found = inferred[0].options
    assert (found.text, found.dates, found.categorical) == (("subject",), ("day",), ("code",))
    assert all(each == inferred[0] for each in inferred)
