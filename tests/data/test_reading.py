"""Bad records in text: good rows before one are delivered, and passing over many takes linear work."""

import gzip
import os
import re
from contextlib import suppress
from threading import Thread

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import thinstream as ts
from thinstream.data import sources
from thinstream.data.stream import STRETCH, batches_from
from thinstream.data.text.csv import CSV
from thinstream.errors import InvalidInputError

TEXTS = {
    "rows.svm": ("", "+1 1:{0} 3:0.5\n", "+1 1:1 2:x\n"),
    "rows.vw": ("", "1 |a b:{0} c\n", "x |a b\n"),
    "rows.csv": ("label,a,b\n", "1,{0},x\n", "1,2\n"),
    "rows.jsonl": ("", '{{"label": 1, "a": {0}}}\n', "{]\n"),
}


def rows_until_error(stream):
    """Labels and values up to the error, the error's text, and the position before it."""
    found, position = [], None
    try:
        for batch in stream.batches():
            position = batch.position
            for k in range(len(batch)):
                found.append((int(batch.y[k]), batch.values[batch.indptr[k] : batch.indptr[k + 1]].tolist()))
    except InvalidInputError as error:
        return found, str(error), position
    return found, None, position


@pytest.mark.parametrize("piece", [16, 100, 1 << 22])
@pytest.mark.parametrize("name", TEXTS)
def test_rows_before_a_bad_record_are_delivered(tmp_path, monkeypatch, name, piece):
    """In any pieces the same rows come, then the error; from the position before it only the error comes."""
    monkeypatch.setattr(sources, "PIECE", piece)
    head, row, bad = TEXTS[name]
    path = tmp_path / name
    path.write_text(head + "".join(row.format(k) for k in range(1, 31)) + bad + row.format(7) * 9)
    stream = ts.open_stream(path)
    found, error, position = rows_until_error(stream)
    assert len(found) == 30
    assert f"{name}, line {31 + bool(head)}, column" in error
    assert position.row + position.skip == 30
    with pytest.raises(InvalidInputError, match=f"line {31 + bool(head)}, column"):
        next(batches_from(stream, position))
    skipping = ts.open_stream(path, on_error="skip", max_errors=0)
    assert rows_until_error(skipping)[:2] == (found, f"more than 0 bad records; the last one: {error}")


def test_rows_before_one_without_a_label_are_delivered(tmp_path):
    path = tmp_path / "rows.vw"
    path.write_text("1 |a b\n" * 5 + "|a b\n" + "1 |a b\n")
    found, error, position = rows_until_error(ts.open_stream(path))
    assert len(found) == 5
    assert "example 6 has no label" in error
    assert position.skip == 5


@pytest.mark.parametrize(
    ("name", "row", "bad", "options"),
    [
        ("rows.svm", "1 1:1 2:1\n", "1 3:1 3:1\n", {}),
        ("rows.svm", "1 1:1 2:1\n", "5 3:1\n", {"classes": (0, 1)}),
        ("rows.jsonl", '{"label": 1, "a": 2}\n', "{]\n", {}),
        ("rows.vw", "1 |a b\n", "1 |a b:1e15 b:1e15\n", {}),
    ],
)
def test_passing_over_many_records_takes_linear_work(tmp_path, monkeypatch, name, row, bad, options):
    """What is parsed, all in all, is a few times the text, however many records are bad."""
    path = tmp_path / name
    text = (row * 50 + bad) * 900
    path.write_text(text)
    stream = ts.open_stream(path, on_error="skip", **options)
    parsed, real = [], type(stream.form).parse
    monkeypatch.setattr(type(stream.form), "parse", lambda form, text: parsed.append(len(text)) or real(form, text))
    batches = list(stream.batches())
    assert (sum(map(len, batches)), stream.skipped.count) == (45_000, 900)
    assert batches[-1].position.offset == len(text)
    assert sum(parsed) < 3 * len(text) + 900 * STRETCH + len(text)
    assert np.concatenate([batch.y for batch in batches]).tolist() == [1] * 45_000


@pytest.mark.parametrize("kind", ["plain", "gz", "pipe"])
def test_a_line_that_is_too_long_is_refused(tmp_path, kind):
    """Not after all of it has been read; one that is as long as allowed is not."""
    rows, longest = b"1 1:1\n" * 100, 1 << 23
    row = b"1 " + b"1:1".rjust(longest - 3) + b"\n"
    endless = b" " * (longest + (1 << 22) + 1)
    for rest, message in ((row, None), (endless, r"a record may have at most 8,388,608 bytes, got a longer one at")):
        path = tmp_path / ("rows.svm.gz" if kind == "gz" else "rows.svm")
        if kind == "pipe":
            path.unlink(missing_ok=True)
            os.mkfifo(path)
            Thread(target=write_all, args=(path, rows + rest), daemon=True).start()
        else:
            path.write_bytes(gzip.compress(rows + rest, 1) if kind == "gz" else rows + rest)
        found, error, _ = rows_until_error(ts.open_stream(path, max_line=longest))
        assert len(found) == 100 + (message is None)
        assert (error is None) if message is None else re.search(message, error)
        path.unlink()


def write_all(path, text):
    with suppress(BrokenPipeError), open(path, "wb") as file:
        file.write(text)


@pytest.mark.parametrize("text", [b"0" * 20_000_000, b'1,"' + b"a\n" * 7_000_000 + b'"\n'])
def test_a_long_record_is_looked_at_in_linear_work(tmp_path, monkeypatch, text):
    """However small the blocks it comes in."""
    monkeypatch.setattr(sources, "PIECE", 1 << 16)
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"label,a\n1,x\n" + text + b"\n0,y\n", 1))
    stream = ts.open_stream(path, on_error="skip")
    seen, real = [], CSV.records
    monkeypatch.setattr(CSV, "records", lambda form, text: seen.append(len(text)) or real(form, text))
    assert sum(len(batch) for batch in stream.batches()) == 2 + text.startswith(b"1")
    assert sum(seen) < 8 * len(text)


@pytest.mark.parametrize("name", ["rows.svm", "rows.parquet"])
@pytest.mark.parametrize("keep", ["time", "bytes"])
def test_a_source_that_was_changed_is_another(tmp_path, name, keep):
    """Of the same size and beginning, with the time set back; or with the same bytes, but written anew."""
    path = tmp_path / name
    if name.endswith("svm"):
        path.write_text("1 1:1\n-1 2:1\n" * 20_000)
    else:
        labels, numbers = np.arange(60_000) % 2, np.arange(60_000) % 9973
        pa.parquet.write_table(pa.table({"label": labels, "a": numbers}), path, compression=None)
    old, size = ts.open_stream(path).fingerprint(), path.stat().st_size
    before = path.stat()
    assert ts.open_stream(path).fingerprint() == old
    data = bytearray(path.read_bytes())
    if keep == "time":
        data[size // 2 : size // 2 + 20_000] = data[size // 2 + 5 : size // 2 + 20_005]
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns - (keep == "bytes")))
    assert path.stat().st_size == size
    found = ts.open_stream(path).fingerprint()
    assert {key for key in found if found[key] != old[key]} == {"samples" if keep == "time" else "modified"}


def test_the_cache_of_a_changed_source_is_written_anew(tmp_path):
    """Also if the source is older than its cache."""
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n" * 20_000 + "1 3:1\n")
    before = path.stat()
    assert max(batch.indices.max() for batch in ts.open_stream(path, cache=True).batches()) == 2
    path.write_text("1 1:1\n" * 20_000 + "1 5:1\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns - 10**9))
    assert max(batch.indices.max() for batch in ts.open_stream(path, cache=True).batches()) == 4
