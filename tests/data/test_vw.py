"""Vowpal Wabbit text against a naive reader that splits strings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.formats import as_text, check, hashed, in_pieces, parse_error, rows_of
from thinstream.data.text.hashing import Hashing
from thinstream.data.text.protocol import NameTable
from thinstream.data.text.vw import VW
from thinstream.errors import InvalidParameterError

words = st.text("ab1é^=.#'", min_size=1, max_size=5)
numbers = st.one_of(
    st.integers(-20, 20).map(str),
    st.floats(-1e6, 1e6).map(repr),
    st.sampled_from(["0", ".5", "1e-3", "+2", "0.1234567890123456789012345"]),
)
blanks = st.sampled_from([" ", "  ", "\t", " \t "])
features = st.tuples(words, st.none() | numbers)
spaces = st.tuples(st.just("") | words, st.none() | numbers, st.lists(features, max_size=6))
importances = st.sampled_from(["0", "1", "2.5", "1e2"])
records = st.fixed_dictionaries(
    {
        "head": st.lists(numbers, max_size=1)
        | st.tuples(numbers, importances)
        | st.tuples(numbers, importances, numbers),
        "tag": st.sampled_from(["", "'", "'t", "t7", "'ü"]),
        "spaces": st.lists(spaces, min_size=1, max_size=3),
    }
)


def written(record, blank):
    head = blank.join(record["head"]) + (blank if record["head"] else "") + record["tag"]
    if record["tag"].startswith("'") and len(record["head"]) == 2:
        head += blank  # a quoted tag need not touch the bar
    parts = []
    for name, scale, inside in record["spaces"]:
        first = name + (f":{scale}" if scale is not None else "")
        parts.append(blank.join([first, *(f if v is None else f"{f}:{v}" for f, v in inside)]))
    return head + "|" + (blank + "|" if len(parts) % 2 else "|").join(parts)


def expected(record, **how):
    head = [float(word) for word in record["head"]]
    found = [
        (space, name, (1.0 if value is None else float(value)) * (1.0 if scale is None else float(scale)))
        for space, scale, inside in record["spaces"]
        for name, value in inside
    ]
    return (head[0] if head else None), (head[1] if len(head) > 1 else 1.0), hashed(found, **how)


@pytest.mark.twin
@given(
    st.lists(records, max_size=5),
    blanks,
    st.sampled_from(["\n", "\r\n", "\n\n", "\n \t\r\n"]),
    st.booleans(),
    st.sampled_from([(22, False, 0), (3, True, 0), (31, True, 2**32 - 1)]),
    st.sampled_from(["float32", "float64"]),
    st.lists(st.integers(0, 300), max_size=4),
)
def test_rows(given_records, blank, newline, final, how, dtype, cuts):
    data = newline.join(written(record, blank) for record in given_records).encode()
    data += newline.encode() if final else b""
    form = VW(Hashing(*how), dtype)
    parsed = form.parse(as_text(data))
    check(parsed, data, dtype)
    assert parsed.error is None
    settings = dict(zip(("bits", "signed", "seed"), how), dtype=dtype)
    assert list(rows_of(parsed)) == [expected(record, **settings) for record in given_records]
    tags = [record["tag"].removeprefix("'") for record in given_records]
    assert (parsed.tags or [""] * len(tags)) == tags
    assert in_pieces(form, data, cuts) == list(rows_of(parsed))


@given(st.lists(st.sampled_from([*b"|: \t\r\n'1.e-", 0, 97, 200, 255]), max_size=40).map(bytes), st.binary(max_size=3))
def test_any_bytes(data, behind):
    alone, before_more = VW().parse(as_text(data)), VW().parse(as_text(data, behind))
    check(alone, data)
    assert alone.error == before_more.error
    assert list(rows_of(alone)) == list(rows_of(before_more))


MALFORMED = [
    ("1 |a b\n1 2 3 4 |a\n", 13, "before the | there may be a label, an importance and an initial value", "'4'"),
    ("x |a\n", 0, "before the | there may be a label", "'x'"),
    ("nan |a\n", 0, "before the | there may be a label", "'nan'"),
    ("1e999 |a\n", 0, "finite decimal numbers", "'1e999'"),
    ("1 -2 |a\n", 2, "an importance must be a finite decimal number ≥ 0", "'-2'"),
    ("1 x |a\n", 2, "an importance must be", "'x'"),
    ("1 a b\n", 2, "an importance must be", "'a'"),
    ("1 2", 3, "a row must have a | before its features", "the end of the line"),
    ("1 't b|c\n", 5, "a row must have a |", "'b|c'"),
    ("1 |a:x b\n", 5, "the scale of a namespace must be a finite decimal number", "'x'"),
    ("1 |a:2x b\n", 5, "the scale of a namespace must be", "'2x'"),
    ("1 |a: b\n", 5, "the scale of a namespace must be", "' '"),
    ("1 |a :3\n", 5, "a feature must have a name", "':3'"),
    ("1 |a b:\n", 7, "a value must be a finite decimal number followed by a blank", "the end of the line"),
    ("1 |a b:1:2\r\n", 7, "a value must be", "'1:2'"),
    ("1 |a b:inf\n", 7, "a value must be", "'inf'"),
    ("1 |a b:1e400\n", 7, "a value must be", "'1e400'"),
    ("1 |a b:1e16\n", 5, "|value · scale| must be at most 1e+15 (sums of squares", "'b:1e16'"),
    ("1 |a:1e10 b:1e10\n", 10, "|value · scale| must be at most", "'b:1e10'"),
    (
        "1 |a c\n\n1 |a b:8e14 b:8e14\n1 |c",
        8,
        "|value| must be at most 1e+15",
        "more",
    ),
]


@pytest.mark.parametrize(("text", "offset", "message", "given"), MALFORMED)
def test_malformed(text, offset, message, given):
    found = parse_error(VW(), text.encode())
    assert found[0] == offset
    assert message in found[1]
    assert found[1].endswith(f"got {given}")


def test_rows_before_the_trouble_are_kept():
    parsed = VW().parse(as_text(b"1 |a b\n\nx |a\n1 |a"))
    assert (len(parsed.labels), parsed.lines, parsed.taken) == (1, 3, 13)
    assert parsed.error.offset == 8


def test_names():
    names = NameTable(4)
    form = VW(Hashing(18), names=names)
    parsed = form.parse(as_text(b"1 |s x y | z s:0\n-1 |s x:2 |ns \xff q\n"))
    assert parsed.named.names == ["s^x", "s^y", "z", "ns^\N{REPLACEMENT CHARACTER}", "ns^q"]
    pairs = [("x", "s"), ("y", "s"), ("z", "")]
    assert parsed.named.indices[:3] == [Hashing(18).index(*pair) for pair in pairs] != sorted(parsed.named.indices[:3])
    names.add(parsed.named)
    assert names[Hashing(18).index("x", "s")] == "s^x"
    assert names.full
    assert form.parse(as_text(b"1 |s new\n")).named is None


def test_golden():
    parsed = VW().parse(as_text(b"1 |subject free |n 42"))
    assert parsed.indices.tolist() == sorted([Hashing().index("free", "subject"), Hashing().index("42", "n")])
    assert parsed.indices.tolist() == [2396746, 2723352]


def test_parameters_are_checked():
    with pytest.raises(InvalidParameterError, match="VW: dtype must be 'float32' or 'float64', got 'int'"):
        VW(dtype="int")
    with pytest.raises(InvalidParameterError, match="VW: hashing must be a Hashing, got 18"):
        VW(18)
    with pytest.raises(InvalidParameterError, match="VW: names must be a NameTable or None, got 5"):
        VW(names=5)
    assert VW().header(np.empty(0, np.uint8)) == 0
