"""What is missing in tables, and times: all formats agree with CSV."""

import csv
import datetime
import io
import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.data.formats import as_text
from tests.data.naive_texts import PlainRoad
from thinstream.data.in_memory import from_memory
from thinstream.data.opening import open_stream
from thinstream.data.tables.arrow import ArrowFiles
from thinstream.data.text.csv import CSV
from thinstream.data.text.hashing import Numbering
from thinstream.data.text.jsonl import JSONLines
from thinstream.errors import InvalidInputError, InvalidParameterError

MODES = ["indicator", "ignore", "as-is"]
HASHER = Numbering()


def rows_of(stream):
    """Features of each row."""
    found = []
    for batch in stream.batches():
        for start, stop in zip(batch.indptr[:-1], batch.indptr[1:]):
            found.append(dict(zip(batch.indices[start:stop].tolist(), batch.values[start:stop].tolist())))
    return found


def csv_rows(records, mode, **roles):
    """The same rows by way of CSV, where None is an empty cell."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    text = out.getvalue().encode()
    form = CSV(label=None, missing=mode, **roles)
    parsed = form.parse(as_text(text[form.header(as_text(text)) :]))
    assert parsed.error is None, parsed.error
    pairs = zip(parsed.indptr[:-1], parsed.indptr[1:])
    return [dict(zip(parsed.indices[a:b].tolist(), parsed.values[a:b].tolist())) for a, b in pairs]


words = st.sampled_from(["a", "b c", "na"])
records = st.lists(
    st.fixed_dictionaries(
        {
            "num": st.none() | st.integers(-3, 3).map(float),
            "cat": st.none() | words | st.sampled_from(["NA", "?", "null", "None"]),
            "when": st.none() | st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)),
        }
    ),
    min_size=1,
    max_size=6,
)


def arrow(rows):
    kinds = {"num": pa.float64(), "cat": pa.string(), "when": pa.timestamp("us")}
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


@given(records, st.sampled_from(MODES))
@example([{"num": 1.0, "cat": "a", "when": datetime.datetime(1969, 1, 1, 0, 59, 59, 1)}], "indicator")
def test_agreement_with_csv(tmp_path_factory, rows, mode):
    shown = [{**row, "when": row["when"] and row["when"].isoformat(" ", "seconds")} for row in rows]
    wanted = csv_rows(shown, mode, numeric=["num"], categorical=["cat"], dates=["when"])
    path = tmp_path_factory.mktemp("tables") / "rows.parquet"
    pa.parquet.write_table(arrow(rows), path)
    assert rows_of(ArrowFiles(path, label=None, hasher=HASHER, missing=mode)) == wanted
    frame = pl.from_arrow(arrow(rows))
    assert rows_of(from_memory(frame, hasher=HASHER, missing=mode)) == wanted
    if mode != "as-is":  # NaN of pandas is an error there
        assert rows_of(from_memory(arrow(rows).to_pandas(), hasher=HASHER, missing=mode)) == wanted


@given(records, st.sampled_from(MODES))
def test_dicts_agree_with_csv(rows, mode):
    rows = [{name: row[name] for name in ("num", "cat")} for row in rows]
    wanted = csv_rows(rows, mode, numeric=["num"], categorical=["cat"])
    assert rows_of(from_memory(rows, hasher=HASHER, missing=mode)) == wanted


@given(records, st.sampled_from(MODES), st.booleans())
def test_lines_of_json_agree_with_csv(rows, mode, quick):
    rows = [{name: row[name] for name in ("num", "cat")} for row in rows]
    wanted = csv_rows(rows, mode, numeric=["num"], categorical=["cat"])
    form = JSONLines(label=None, missing=mode)
    form = form if quick else PlainRoad(form)
    parsed = form.parse(as_text("".join(json.dumps(row) + "\n" for row in rows).encode()))
    pairs = zip(parsed.indptr[:-1], parsed.indptr[1:])
    assert [dict(zip(parsed.indices[a:b].tolist(), parsed.values[a:b].tolist())) for a, b in pairs] == wanted


@pytest.mark.parametrize("line", [b'{"a": null}\n', b'{"b": {"a": " NA "}}\n'])
def test_null_may_be_an_error(line):
    form = JSONLines(label=None, missing="error")
    assert (
        "must have a value in every record, because missing is 'error', got" in form.parse(as_text(line)).error.message
    )


def test_a_key_that_is_not_there_says_nothing():
    rows = [{"a": None, "b": math.nan, "c": "?"}, {}, {"a": 1.0, "tags": [None, "x"], "in": {"d": None}}]
    names = ["a=?", "b=?", "c=?"], [], ["a", "tags=x", "in.d=?"]
    numbers = [{*HASHER(each).tolist()} for each in names]
    assert [{*row} for row in rows_of(from_memory(rows, hasher=HASHER))] == numbers


def test_days_have_no_hours():
    day = [datetime.date(2024, 5, 17)]
    wanted = csv_rows([{"d": "2024-05-17"}], "indicator", dates=["d"])
    assert rows_of(from_memory(pl.DataFrame({"d": day}), hasher=HASHER)) == wanted
    assert len(wanted[0]) == 4
    stamps = pd.DataFrame({"d": pd.to_datetime(day)})
    assert len(rows_of(from_memory(stamps, hasher=HASHER))[0]) == 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: from_memory(pd.DataFrame({"a": [1.0, np.nan]}), hasher=HASHER, missing="error"),
        lambda: from_memory(pl.DataFrame({"a": [1.0, None]}), hasher=HASHER, missing="error"),
        lambda: from_memory(pd.DataFrame({"a": ["x", "NA"]}), hasher=HASHER, missing="error"),
        lambda: from_memory([{"a": 1}, {"a": None}], hasher=HASHER, missing="error"),
    ],
)
def test_missing_may_be_an_error(make):
    with pytest.raises(InvalidInputError, match=r"'a' must have a value.* at row 1"):
        list(make().batches())


def test_infinity_is_an_error():
    with pytest.raises(InvalidInputError, match=r"numbers must be finite .* got infinity at row 1, column 'a'"):
        list(from_memory(pd.DataFrame({"a": [1.0, np.inf]}), hasher=HASHER).batches())


def test_parquet_files_have_indicators(tmp_path):
    table = pa.table({"label": [0, 1], "a": [1.0, None]})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    stream = open_stream(tmp_path / "a.parquet")
    assert (stream.classes, stream.missing) == ((0, 1), "indicator")
    assert [{*row} for row in rows_of(stream)] == [{*HASHER([name]).tolist()} for name in ("a", "a=?")]
    with pytest.raises(InvalidParameterError, match="missing must be 'indicator', 'ignore', 'error' or 'as-is'"):
        open_stream(tmp_path / "a.parquet", missing="no")
