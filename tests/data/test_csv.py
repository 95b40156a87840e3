"""CSV against the csv module and the rules in plain Python."""

import csv
import io
import json
import math
import re
from contextlib import suppress

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.formats import as_text, check, hashed, in_pieces, parse_error, rows_of
from thinstream.data.text import csv as csv_parser
from thinstream.data.text.csv import CSV
from thinstream.data.text.hashing import Hashing
from thinstream.data.text.jsonl import JSONLines
from thinstream.data.text.protocol import NameTable
from thinstream.errors import InvalidInputError, InvalidParameterError


def headed(columns, **more):
    """A format that has read a header."""
    form = CSV(**more)
    form.header(as_text(",".join(columns).encode() + b"\n"))
    return form


COLUMNS = ["y", "w", "num", "cat", "body", "skip", "any", "ü,ber"]
numbers = st.floats(-1e9, 1e9).map(repr) | st.integers(-99, 99).map(str) | st.sampled_from([" 5 ", "+.5", "-0", "1e3"])
strings = st.text('aB é,"\n\r\t;_1', max_size=8) | st.sampled_from(["NA", "nan", "1e999", "0x1", '"', '""'])
cells = {
    "y": st.sampled_from(["", "1", "-1", "0", "0.5"]),
    "w": st.sampled_from(["", "0", "2", "1e-3"]),
    "num": numbers | st.sampled_from(["", "NA", "null", "NaN"]),
    "cat": numbers | strings,
    "body": strings,
    "skip": strings,
    "any": numbers | strings,
    "ü,ber": numbers | strings,
}
records = st.fixed_dictionaries(cells)


def form_of(dtype="float32", bits=22, signed=False, **more):
    return CSV(
        label="y",
        weight="w",
        numeric=["num"],
        categorical=["cat"],
        text=["body"],
        ignore=["skip"],
        hashing=Hashing(bits, signed),
        dtype=dtype,
        **more,
    )


def as_number(cell):
    if re.fullmatch(r" *[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)? *", cell, re.ASCII) and math.isfinite(float(cell)):
        return float(cell)
    return None


def features_of(record, order):
    for name in order:
        cell = record[name]
        number = as_number(cell)
        if name in ("y", "w", "skip") or cell == "":
            continue
        if name == "body":
            yield from ((name, word, 1.0) for word in re.findall(r"\w+", cell.lower()))
        elif name == "cat" or (name != "num" and number is None):
            yield (f"{name}=", cell, 1.0)
        elif number is not None:
            yield ("", name, number)


def expected(record, order, **how):
    label, weight = record["y"], record["w"]
    return (float(label) if label else None), float(weight or 1), hashed(features_of(record, order), **how)


@pytest.mark.twin
@given(
    st.lists(records, max_size=4),
    st.permutations(COLUMNS),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from([",", "\t", ";"]),
    st.booleans(),
    st.lists(st.integers(0, 400), max_size=4),
    st.sampled_from([("float32", 22, False), ("float64", 4, True)]),
)
def test_rows(given_records, order, newline, quoting, delimiter, final, cuts, how):
    dtype, bits, signed = how
    if any("\r" in cell for record in given_records for cell in record.values()):
        quoting = (
            csv.QUOTE_ALL
        )  # not all versions of the csv module quote it, and at the end of a line it would be CRLF
    out = io.StringIO()
    writer = csv.DictWriter(out, order, delimiter=delimiter, lineterminator=newline, quoting=quoting)
    writer.writeheader()
    writer.writerows(given_records)
    data = out.getvalue().encode() if final else out.getvalue().removesuffix(newline).encode()
    form = form_of(dtype, bits, signed, delimiter=delimiter)
    begin = form.header(as_text(data))
    assert data[begin - 1 :][:1] == b"\n" or begin == len(data)
    data = data[begin:]
    parsed = form.parse(as_text(data))
    check(parsed, data, dtype)
    assert parsed.error is None
    settings = {"dtype": dtype, "bits": bits, "signed": signed}
    assert list(rows_of(parsed)) == [expected(record, order, **settings) for record in given_records]
    assert in_pieces(form, data, cuts) == list(rows_of(parsed))


@given(st.lists(st.sampled_from([*b',"\n\r\t 1.e-a', 0, 200]), max_size=40).map(bytes), st.binary(max_size=3))
def test_any_bytes(data, behind):
    form = headed("abcd", label="a", weight="b", text=["d"], names=NameTable())
    alone, before_more = form.parse(as_text(data)), form.parse(as_text(data, behind))
    check(alone, data)
    assert alone.error == before_more.error
    assert alone.named == before_more.named
    assert list(rows_of(alone)) == list(rows_of(before_more))
    assert 0 <= form.records(as_text(data)) <= len(data)
    for columns in ({}, {"numbered": True}):
        with suppress(InvalidInputError):
            assert 0 <= CSV(label=None, **columns).header(as_text(data)) <= len(data)


@given(
    st.lists(st.lists(st.text('a,"\n\r', max_size=4), min_size=1, max_size=3), max_size=5), st.text('a,"\n', max_size=5)
)
def test_records_end_where_the_csv_module_ends_them(rows, rest):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    whole = out.getvalue().encode()
    form = CSV(label=None, numbered=True)
    assert form.records(as_text(whole)) == len(whole)
    assert form.records(as_text(whole + b'a,"' + rest.replace('"', '""').encode())) == len(whole)
    assert form.records(as_text(whole + b"a,b\r")) == len(whole)


HEAD = "label,num,any,w\n"
MALFORMED = [
    ("1,2,3\n", 5, "a record must have 4 cells, one per column", "3"),
    ("1,2,3,1\n\n1,2,3,4,5\n", 17, "a record must have 4 cells, one per column", "5"),
    ("1,x,3\n", 5, "a record must have 4 cells", "3"),
    (
        "1,2,3,1\n1,x y,3,\n",
        10,
        "column 'num' is numeric (declared, or inferred), so a cell must be a finite number",
        "'x y'",
    ),
    ('1,"1,5",3,\n', 2, "column 'num' is numeric", "'1,5'"),
    ("1,1e999,3,\n", 2, "column 'num' is numeric", "'1e999'"),
    (
        "spam,1,3,\n",
        0,
        "a label must be a finite number (for other labels, pass --classes or --grow-classes)",
        "'spam'",
    ),
    ("1,1,3,-1\n", 6, "a weight must be a finite number ≥ 0", "'-1'"),
    ("1,1,3,heavy\r\n", 6, "a weight must be a finite number ≥ 0", "'heavy'"),
    ("1,1,9e20,\n", 4, "column 'any': |value| must be at most 1e+15 (sums of squares", "'9e20'"),
    ('1,1,"a"b,\n', 7, "column 'any': a closing quote must be followed by a delimiter or the end of the line", "'b'"),
    ('1,1,3,\n1,1,"abc,\n1,2,3', 11, "a quote that opens a cell must be closed", "the end of the text"),
]


@pytest.mark.parametrize(("text", "offset", "message", "given"), MALFORMED)
def test_malformed(text, offset, message, given):
    form = CSV(weight="w", numeric=["num"])
    assert form.header(as_text((HEAD + text).encode())) == len(HEAD)
    found = parse_error(form, text.encode())
    assert found[0] == offset
    assert message in found[1]
    assert found[1].endswith(f"got {given}")


def test_reading_goes_on_behind_a_bad_record():
    form = headed(["label", "x"])
    data = b'1,a\n1,"b\n",c\n1,d\n'
    parsed = form.parse(as_text(data))
    assert (len(parsed.labels), parsed.lines, parsed.taken) == (1, 3, 13)
    assert len(form.parse(as_text(data[13:])).labels) == 1


def test_words_of_a_bad_record_are_not_taken():
    form = headed(["t", "label"], text=["t"], names=NameTable())
    parsed = form.parse(as_text(b"one two,1\nthree,0\nfour five,x\n"))
    assert parsed.indptr.tolist() == [0, 2, 3]
    assert parsed.named.names == ["t^one", "t^two", "t^three"]
    assert parsed.error.offset == 28


def test_equal_features_may_sum_up_to_too_much():
    form = headed("ab", label=None, hashing=Hashing(bits=1, seed=3))
    assert Hashing(bits=1, seed=3).index("a") == Hashing(bits=1, seed=3).index("b")
    assert parse_error(form, b"1,1\n8e14,8e14\n")[0] == 4


def test_files_with_the_same_columns_in_another_order():
    form = CSV()
    assert form.header(as_text(b"label,a,b\n1,2,x\n")) == 10
    first = list(rows_of(form.parse(as_text(b"1,2,x\n"))))
    assert form.header(as_text(b"\xef\xbb\xbfb,label,a\r\n")) == 14
    assert list(rows_of(form.parse(as_text(b"x,1,2\n")))) == first
    with pytest.raises(
        InvalidInputError, match="the same columns, in any order, got different ones; additional: 'c'; missing: 'b'"
    ):
        form.header(as_text(b"label,a,c\n"))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"a,b\n", "label: there is no column 'label', only 'a', 'b'; name it with --label (label=…)"),
        (b"label,a,a\n", "columns of a CSV file must have different names, got 'a' twice"),
        (b"\nlabel\n", "the first line of a CSV file must have the column names, got an empty line"),
        (b'label,"a\n', "quotes in the header of a CSV file must be closed"),
        (b"label,a\n", "numeric: there is no column 'n', only 'label', 'a'"),
    ],
)
def test_headers(head, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        CSV(numeric=["n"]).header(as_text(head))


def test_rows_without_a_header():
    form = CSV(label="c2", numbered=True)
    data = b"\r\n5,1\n6,-1\n"
    assert form.header(as_text(data)) == 0
    assert [label for label, _, _ in rows_of(form.parse(as_text(data)))] == [1.0, -1.0]
    assert form.header(as_text(b"1,2,3\n")) == 0
    assert parse_error(form, b"1,2,3\n")[1] == "a record must have 2 cells, one per column, got 3"
    empty = CSV(label="c2", numbered=True)
    assert empty.header(as_text(b"\n\n")) == 0
    assert len(empty.parse(as_text(b"\n\n")).labels) == 0
    with pytest.raises(InvalidInputError, match="got rows before it"):
        CSV().parse(as_text(b"1,2\n"))


def test_classes():
    form = headed(["label"], classes=("ham", 'the "spam"'))
    parsed = form.parse(as_text(b'ham\n"the ""spam"""\n""\n"ham"\n'))
    assert [label for label, _, _ in rows_of(parsed)] == [-1.0, 1.0, None, -1.0]
    assert parse_error(form, b"ha\n")[1] == "a label must be 'ham' or 'the \"spam\"', got 'ha'"
    assert headed(["label"], classes=(2, 1)).parse(as_text(b"1\n2.0\n")).labels.tolist() == [1.0, -1.0]


def test_names():
    form = headed(["label", "a", "t", "b"], text=["t"], names=NameTable())
    parsed = form.parse(as_text(b'1,3,One two,"x ""y"""\n0,z,one,\n'))
    assert parsed.named.names == ["a", "t^one", "t^two", 'b=x "y"', "a=z"]
    pairs = [("a", ""), ("one", "t"), ("two", "t"), ('x "y"', "b="), ("z", "a=")]
    assert parsed.named.indices == [Hashing().index(*pair) for pair in pairs]


@given(st.lists(st.tuples(st.floats(-9, 9), st.text('a",\n', min_size=1), st.text("aé B"))))
def test_agreement_with_json_lines(rows):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([(1, *row) for row in rows])
    lines = "\n".join(json.dumps(dict(zip(("label", "n", "c", "t"), (1, *row)))) for row in rows)
    left = headed(["label", "n", "c", "t"], text=["t"]).parse(as_text(out.getvalue().encode()))
    right = JSONLines(text=["t"]).parse(as_text(lines.encode()))
    assert list(rows_of(left)) == list(rows_of(right))


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="16 MiB byte by byte")
def test_a_quote_never_closed_does_not_take_in_the_whole_stream():
    data = np.frombuffer(bytearray(b'a,"' + b"x" * csv_parser.LONGEST), np.uint8)
    assert headed("ab", label=None).records(data) == len(data)
    assert headed("ab", label=None).records(data[:1000]) == 0


def test_golden():
    parsed = headed(["label", "age", "city"]).parse(as_text(b"1,31,Oslo\n"))
    assert parsed.indices.tolist() == sorted([Hashing().index("age"), Hashing().index("Oslo", "city=")])
    assert parsed.indices.tolist() == [427345, 3226232]


def test_parameters_are_checked():
    with pytest.raises(InvalidParameterError, match=r"CSV: delimiter must be ',', '\\t', ';' or '|', got ':'"):
        CSV(delimiter=":")
    with pytest.raises(
        InvalidParameterError, match="CSV: a column can have only one role, but 'a' has numeric and ignore"
    ):
        CSV(numeric=["a"], ignore=["a"])
    with pytest.raises(InvalidParameterError, match="CSV: text must be a list of column names, got 'label'"):
        CSV(text="label")


def last_end(text):
    """Behind the last newline that stands in no cell in quotes, letter by letter."""
    found, begins, quoted, i = 0, True, False, 0
    while i < len(text):
        letter = text[i]
        if quoted:
            if letter == '"' and text[i + 1 : i + 2] == '"':
                i += 1
            elif letter == '"':
                quoted = False
        elif letter == '"' and begins:
            quoted = True
        elif letter == "\n":
            found = i + 1
        begins = not quoted and letter in ",\n"
        i += 1
    return found


@given(
    st.text('""",,\n\na\r', max_size=80),
    st.sampled_from(["", "a,b\n", '1,"x,\n"\n', 'a,"b"c",']),
    st.sampled_from([1, 2000]),
)
def test_whole_records_end_outside_of_quotes(text, before, times):
    text = before * times + text
    assert CSV(label="y").records(as_text(text.encode())) == last_end(text)


def test_a_record_without_quotes_behind_many_with_some():
    text = '1,"x,\n"\n' * 3000 + '2,"' + "y" * 9000 + '",' + '"z",' * 2000
    assert CSV(label="y").records(as_text(text.encode())) == last_end(text) == 3000 * 8
