"""Shards: together they are the stream, whatever the files and the number of workers."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinstream.data.opening import open_stream
from thinstream.distributed.sources import BatchSource, FileSource
from thinstream.errors import InvalidInputError

LINES = [f"{'+1' if k % 3 else '-1'} {k + 1}:{k + 0.5} {k + 40}:1" for k in range(23)]


def labels_and_values(stream):
    result = []
    for batch in stream.batches():
        for i in range(len(batch)):
            row = slice(batch.indptr[i], batch.indptr[i + 1])
            result.append((int(batch.y[i]), batch.indices[row].tolist(), batch.values[row].tolist()))
    return result


@settings(max_examples=30)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=4), st.integers(1, 9), st.booleans())
def test_every_row_once_and_in_order(tmp_path_factory, sizes, workers, newline):
    folder, rest, files = tmp_path_factory.mktemp("shards"), iter(LINES * 2), []
    for k, size in enumerate(sizes):
        files.append(folder / f"part-{k}.svm")
        text = "\n".join(next(rest) for _ in range(size))
        files[-1].write_text(text + "\n" if newline and text else text)
    source = FileSource(files)
    shards = source.shards(workers)
    assert len(shards) == workers
    result = [row for shard in shards for row in labels_and_values(shard.open())]
    assert result == labels_and_values(open_stream(files))


def test_parts_are_of_about_equal_size(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("\n".join(LINES * 50) + "\n")
    sizes = [shard.spans[0].stop - shard.spans[0].start for shard in FileSource(path).shards(4)]
    assert max(sizes) - min(sizes) < 60


def test_one_worker_reads_the_stream_itself(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("\n".join(LINES))
    [shard] = FileSource(path).shards(1)
    assert shard.spans == ()
    assert shard.open().fingerprint() == open_stream(path).fingerprint()


def test_lines_of_errors_are_those_of_the_file(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("\n".join([*LINES, "+1 x:1"]) + "\n")
    last = FileSource(path).shards(3)[-1]
    with pytest.raises(InvalidInputError, match="line 24, column 4"):
        list(last.open().batches())


def test_compressed_files_are_assigned_whole(tmp_path):
    for k, size in enumerate([320, 10, 200, 100]):
        with gzip.open(tmp_path / f"p{k}.svm.gz", "wt", compresslevel=0) as file:
            file.write("\n".join((LINES * 20)[:size]) + "\n")
    source = FileSource(str(tmp_path / "p*.svm.gz"))
    hands = [[file[-8] for file in shard.files] for shard in source.shards(2)]
    assert hands == [["0"], ["1", "2", "3"]]
    assert sum(len(labels_and_values(shard.open())) for shard in source.shards(3)) == 630
    with pytest.raises(InvalidInputError, match=r"4 files for 5 workers: only plain text.*Give at least 5 files"):
        source.shards(5)


def test_a_csv_file_is_cut_unless_it_has_quotes(tmp_path):
    plain, quoted = tmp_path / "a.csv", tmp_path / "b.csv"
    plain.write_text("label,x\n" + "".join(f"{k % 2},{k}.5\n" for k in range(40)))
    quoted.write_text('label,x\n1,"a\n0,b"\n' * 10)
    shards = FileSource(plain).shards(3)
    assert [row for shard in shards for row in labels_and_values(shard.open())] == labels_and_values(open_stream(plain))
    with pytest.raises(InvalidInputError, match=r"1 file for 3 workers.*use 1 worker$"):
        FileSource(quoted).shards(3)


def test_pipes_have_one_reader():
    with pytest.raises(InvalidInputError, match="Workers need files"):
        FileSource("-")


def test_indices_begin_where_those_of_all_files_do(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("+1 0:1\n" + "-1 5:1\n" * 20)
    shards = FileSource(path, zero_based="auto").shards(2)
    assert labels_and_values(shards[1].open())[0][1] == [5]


def test_rows_in_memory():
    [batch] = open_rows()
    shards = BatchSource(batch).shards(3)
    assert [len(shard.batch) for shard in shards] == [7, 8, 8]
    streams = [shard.open() for shard in shards]
    assert [row for stream in streams for row in labels_and_values(stream)] == labels_and_values(
        BatchSource(batch).shards(1)[0].open()
    )
    position = next(iter(streams[1].batches())).position
    assert position.row == 8
    assert not list(streams[1].batches(position))


def open_rows():
    from thinstream.batch import Batch

    n = len(LINES)
    yield Batch.of(np.arange(n + 1), np.arange(n, dtype=np.int32), np.ones(n), n, y=np.ones(n, np.int8))
