"""Cells of CSV that say nothing, dates and infinities, against the rules in plain Python; and delimiters."""

import csv
import datetime
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.formats import as_text, check, hashed, in_pieces, parse_error, rows_of
from tests.data.test_csv import as_number, headed
from thinstream.data.cells import DAY, date_at
from thinstream.data.text.csv import CSV
from thinstream.data.text.hashing import Hashing
from thinstream.data.text.protocol import NameTable

NOTHING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"]
MODES = ["indicator", "ignore", "as-is"]
COLUMNS = ["y", "num", "cat", "day", "any"]
nothing = st.sampled_from([*NOTHING, " ", " NA "])
days = st.datetimes(datetime.datetime(1, 1, 1)).flatmap(
    lambda when: st.sampled_from([when.date().isoformat(), when.isoformat(), when.isoformat(" ", "minutes") + "Z"])
)
records = st.fixed_dictionaries(
    {
        "y": st.sampled_from(["1", "0"]),
        "num": st.sampled_from(["1", "-2.5", "0"]) | nothing,
        "cat": st.sampled_from(["a", "17", "na", "NAN", "?!"]) | nothing,
        "day": days | nothing,
        "any": st.sampled_from(["a", "17", "nana", "information", "in"]) | nothing,
    }
)


def features_of(record, mode):
    """As the specification has them: (namespace, name, value)."""
    for name in COLUMNS[1:]:
        cell = record[name]
        declared = name in ("num", "day")
        if cell.strip(" ") in NOTHING and (mode != "as-is" or declared or not cell):
            if mode == "indicator":
                yield f"{name}=", "?", 1.0
        elif name == "day":
            when = datetime.datetime.fromisoformat(cell.removesuffix("Z"))
            parts = {"year": f"{when.year:04d}", "month": f"{when.month:02d}", "day": f"{when.day:02d}"}
            parts |= {"hour": f"{when.hour:02d}"} if len(cell) > 10 else {}
            yield from ((f"day.{part}=", text, 1.0) for part, text in parts.items())
            yield "day.weekday=", ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[when.weekday()], 1.0
        elif name != "cat" and as_number(cell) is not None:
            yield "", name, as_number(cell)
        else:
            yield f"{name}=", cell, 1.0


@pytest.mark.twin
@given(
    st.lists(records, max_size=4),
    st.sampled_from(MODES),
    st.booleans(),
    st.lists(st.integers(0, 200), max_size=3),
)
def test_rows(given_records, mode, signed, cuts):
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writerows(given_records)
    data = out.getvalue().encode()
    form = headed(
        COLUMNS, label="y", numeric=["num"], categorical=["cat"], dates=["day"], missing=mode, names=NameTable(),
        hashing=Hashing(22, signed),
    )  # fmt: skip
    parsed = form.parse(as_text(data))
    check(parsed, data, "float32")
    assert parsed.error is None
    how = {"dtype": "float32", "bits": 22, "signed": signed}
    wanted = [(float(each["y"]), 1.0, hashed(features_of(each, mode), **how)) for each in given_records]
    assert list(rows_of(parsed)) == wanted
    assert in_pieces(form, data, cuts) == wanted
    spelled = {space + name for each in given_records for space, name, value in features_of(each, mode) if value}
    assert spelled == {*parsed.named.names}


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (",inf,", "column 'any': numbers must be finite (pass --categorical to allow words), got 'inf'"),
        (",-Infinity,", "column 'any': numbers must be finite (pass --categorical to allow words), got '-Infinity'"),
        (",1e999,", "column 'any': numbers must be finite (pass --categorical to allow words), got '1e999'"),
        (",1,2024-02-3", "column 'day' holds dates, so a cell must be one as in 2024-05-17 or 2024-05-17T13:05"),
        (",1,2024-13-03", "column 'day' holds dates"),
        (",1,2024-02-03T25:00", "column 'day' holds dates"),
        (",1,soon", "column 'day' holds dates"),
    ],
)
def test_what_is_refused(cell, message):
    form = headed(["label", "any", "day"], dates=["day"], missing="indicator")
    assert message in parse_error(form, f"1{cell}\n".encode())[1]


def test_infinities_are_words_if_missing_is_as_is():
    form = headed(["label", "any"], names=NameTable())
    assert form.parse(as_text(b"1,inf\n1,1e999\n")).named.names == ["any=inf", "any=1e999"]


def test_nothing_may_be_an_error():
    form = headed(["label", "a", "b"], missing="error")
    assert len(form.parse(as_text(b"1,2,x\n")).labels) == 1
    for line in (b"1,,x\n", b"1,2,NA\n", b"1,2,?\n"):
        assert "must have a value in every record, because missing is 'error'" in parse_error(form, line)[1]


@given(st.dates())
def test_days_of_the_week(day):
    text = day.isoformat().encode()
    assert date_at(as_text(text), 0, len(text)) == (DAY, day.weekday())


def test_crosses_of_what_says_nothing_and_of_dates():
    form = headed(["label", "a", "d"], missing="indicator", dates=["d"], cross=[("a", "d")], names=NameTable())
    names = form.parse(as_text(b"1,,2024-05-17\n1,x,NA\n")).named.names
    assert {"a=? × d.month=05", "a=? × d.weekday=Fri", "a=x × d=?"} <= {*names}
    assert not any("hour" in name for name in names)


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_delimiters_are_found(delimiter):
    text = "label,a b,c\n1,2,x\n".replace(",", delimiter).encode()
    form = CSV(delimiter=None, names=NameTable())
    begin = form.header(as_text(text))
    assert form.order == ["label", "a b", "c"]
    assert form.parse(as_text(text[begin:])).named.names == ["a b", "c=x"]
    assert form.layout.get("delimiter", delimiter) == delimiter


def test_a_delimiter_that_gives_the_label_is_taken():
    form = CSV(delimiter=None, label="y;z")
    form.header(as_text(b"y;z,a;b;c;d\n"))
    assert form.order == ["y;z", "a;b;c;d"]
    numbered = CSV(delimiter=None, numbered=True, label="c1")
    numbered.header(as_text(b"\n1;2,5;3\n"))
    assert numbered.order == ["c1", "c2", "c3"]


def test_data_in_place_of_a_header():
    with pytest.raises(Exception, match=re.escape("pass --no-header if the first line has no column names")):
        CSV().header(as_text(b"1,2.5,x\n"))
