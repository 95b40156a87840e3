"""JSON Lines against a naive reader of the same rules."""

import json
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.formats import as_text, check, hashed, in_pieces, parse_error, rows_of
from tests.data.naive_texts import PlainRoad
from thinstream.data import open_stream
from thinstream.data.text.hashing import Hashing
from thinstream.data.text.jsonl import JSONLines
from thinstream.data.text.protocol import NameTable
from thinstream.data.text.vw import VW
from thinstream.errors import InvalidInputError, InvalidParameterError

keys = st.text("ab.é=", min_size=1, max_size=3)
strings = st.text('aB é,"\\_1\n\u2028', max_size=8)
numbers = st.integers(-(10**14), 10**14) | st.floats(-1e9, 1e9)
scalars = st.none() | st.booleans() | strings | numbers
values = st.recursive(
    scalars | st.lists(scalars, max_size=3), lambda inner: st.dictionaries(keys, inner, max_size=3), max_leaves=5
)
objects = st.fixed_dictionaries(
    {"label": st.sampled_from([None, True, False, 0, 1, -1, 2.5])},
    optional={"w": st.none() | st.floats(0, 9), "body": strings, "in": st.fixed_dictionaries({"body": strings})},
)
rows = st.tuples(objects, st.dictionaries(keys, values, max_size=4)).map(lambda two: {**two[0], **two[1]})


def features_of(path, value):
    if path in ("body", "in.body"):
        return [(path, word, 1.0) for word in re.findall(r"\w+", value.lower())]
    if isinstance(value, dict):
        return [f for key, inner in value.items() for f in features_of(path + "." + key, inner)]
    if isinstance(value, list):
        return [f for k, part in enumerate(value) for f in one(path, part, path + "[" + str(k) + "]")]
    return one(path, value, path)


def one(path, value, name):
    if isinstance(value, str):
        return [(path + "=", value, 1.0)]
    return [("", name, float(value))] if value else []


def expected(row, **how):
    label, weight = row["label"], row.get("w")
    if isinstance(label, bool):
        label = 1.0 if label else -1.0
    found = [f for key, value in row.items() if key not in ("label", "w", "a") for f in features_of(key, value)]
    return label, (1.0 if weight is None else weight), hashed(found, **how)


@pytest.mark.twin
@given(
    st.lists(rows, max_size=4),
    st.sampled_from(["\n", "\r\n", "\n\n", "\n \t\r\n"]),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 300), max_size=3),
    st.sampled_from([("float32", 22, False), ("float64", 4, True)]),
)
def test_rows(given_rows, newline, final, ascii_only, cuts, how):
    data = newline.join(json.dumps(row, ensure_ascii=ascii_only) for row in given_rows).encode()
    data += newline.encode() if final else b""
    dtype, bits, signed = how
    form = JSONLines(weight="w", text=["body", "in.body"], ignore=("a",), hashing=Hashing(bits, signed), dtype=dtype)
    parsed = form.parse(as_text(data))
    check(parsed, data, dtype)
    assert parsed.error is None
    assert list(rows_of(parsed)) == [expected(row, bits=bits, signed=signed, dtype=dtype) for row in given_rows]
    assert in_pieces(form, data, cuts) == list(rows_of(parsed))


@given(
    st.lists(st.sampled_from([*b'{}[]:,"\\ \t\r\n1.e-tru', 0, 200, 255]), max_size=30).map(bytes)
    | st.binary(max_size=20)
)
def test_any_bytes(data):
    check(JSONLines().parse(as_text(data)), data)


MALFORMED = [
    ('{"a": 1}\n{"a": 1,}\n', 17, "a line must be one JSON object: ", "'}'"),
    ('{"ü": 1 "b"}', 9, "a line must be one JSON object: Expecting ',' delimiter", "'\"b\"}'"),
    ('{"a": 1', 7, "a line must be one JSON object: Expecting ',' delimiter", "the end of the line"),
    ('{"a": 1} {', 9, "a line must be one JSON object: Extra data", "'{'"),
    (" [1, 2]", 1, "a line must be one JSON object", "[1.0, 2.0]"),
    ('{"b": "NaN", "a": NaN}', 18, "numbers must be finite", "NaN"),
    ('{"b": "\\"", "a": -Infinity}', 17, "numbers must be finite", "-Infinity"),
    ('{"a": 1e400}', 0, "numbers must be finite", "a number beyond 1.8e308 in 'a'"),
    ('{"a": 1, "b": 2, "a": 3}', 0, "a key may occur only once in an object", '"a" twice'),
    ('{"b": {"x": 1, "x": 3}}', 0, "a key may occur only once in an object", '"x" twice'),
    ('{"a": [[1]]}', 0, "a list must hold numbers or strings", "[1.0] in 'a'"),
    ('{"t": 5}', 0, "column 't' is declared as text, so a cell must be a string", "5.0"),
    (
        '{"label": "spam"}',
        0,
        "a label must be a finite number, true or false (for other labels, pass --classes or --grow-classes)",
        '"spam"',
    ),
    ('{"label": [1]}', 0, "a label must be a finite number", "[1.0]"),
    ('{"w": -1}', 0, "a weight must be a finite number ≥ 0", "-1.0"),
    ('{"w": true}', 0, "a weight must be a finite number ≥ 0", "true"),
    ('{"a": 1e16}', 0, "column 'a': |value| must be at most 1e+15", "1e+16"),
    (
        '{"s": ["x"], "a": [9e14, 1], "a[0]": 9e14}',
        0,
        "|value| must be at most 1e+15",
        "more",
    ),
]


@pytest.mark.parametrize(("text", "offset", "message", "given"), MALFORMED)
def test_malformed(text, offset, message, given):
    found = parse_error(JSONLines(weight="w", text=["t"]), text.encode())
    assert found[0] == offset
    assert message in found[1]
    assert found[1].endswith(f"got {given}")


def test_features_of_a_bad_row_are_not_taken():
    parsed = JSONLines(names=NameTable()).parse(as_text(b'{"a": 1}\n{"b": 1, "c": [[]]}\n'))
    assert (parsed.indptr.tolist(), parsed.indices.tolist()) == ([0, 1], [Hashing().index("a")])
    assert parsed.named[:2] == ([Hashing().index("a")], ["a"])


def test_bytes_that_are_no_text():
    assert parse_error(JSONLines(), b'{"a": 1}\n{"a": "\xff"}\n') == (16, "a line must be UTF-8, got byte 0xff")


@pytest.mark.parametrize("depth", [500, 5000, 200_000])
@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_is_no_crash(depth, left, right):
    data = b'{"a":1}\n' + (left * depth + "1" + right * depth).encode()
    parsed = JSONLines().parse(as_text(data))
    check(parsed, data)
    assert parsed.error is not None or depth < sys.getrecursionlimit()


def test_classes():
    form = JSONLines(classes=("ham", "spam"))
    parsed = form.parse(as_text(b'{"label": "spam"}\n{"label": "ham"}\n{"x": 1}\n'))
    assert [label for label, _, _ in rows_of(parsed)] == [1.0, -1.0, None]
    assert parse_error(form, b'{"label": 1}') == (0, 'a label must be "ham" or "spam", got 1.0')
    parsed = JSONLines(classes=(2, 1)).parse(as_text(b'{"label": 1}\n{"label": 2}\n'))
    assert parsed.labels.tolist() == [1.0, -1.0]


def test_names_and_agreement_with_vw():
    names = NameTable()
    parsed = JSONLines(text=["s"], names=names).parse(
        as_text(b'{"age": 3, "s": "Hi you", "city": "Oslo", "v": [0, 2]}\n')
    )
    assert parsed.named.names == ["age", "s^hi", "s^you", "city=Oslo", "v[1]"]
    again = VW().parse(as_text(b"| age:3 v[1]:2 |s hi you |city= Oslo"))
    assert list(rows_of(again)) == list(rows_of(parsed))
    assert parsed.indices.tolist() == [45025, 427345, 1283841, 3226232, 3709859]


def test_byte_order_mark():
    assert JSONLines().header(as_text(b"\xef\xbb\xbf{}\n")) == 3
    assert JSONLines().header(as_text(b"{}\n")) == 0


def test_no_rows():
    parsed = JSONLines(weight="w").parse(np.empty(0, np.uint8))
    check(parsed, b"")
    assert len(parsed.weights) == 0


def test_parameters_are_checked():
    with pytest.raises(InvalidParameterError, match="JSONLines: text must be a list of column names, got 'body'"):
        JSONLines(text="body")
    with pytest.raises(
        InvalidParameterError, match="a column can have only one role, but 'label' has label and ignore"
    ):
        JSONLines(ignore=["label"])
    with pytest.raises(InvalidParameterError, match="text must have column names as strings, got 3"):
        JSONLines(text=[3])
    with pytest.raises(
        InvalidParameterError, match=r"classes must be two or more different strings or numbers, got \('a', 'a'\)"
    ):
        JSONLines(classes=("a", "a"))


def test_a_record_without_the_key_of_the_label_is_refused_by_its_name(tmp_path):
    """Where labels are needed; null is a label that is missing."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"label": 1, "a": 2}\n{"lable": 0, "a": 3}\n')
    with pytest.raises(
        InvalidInputError,
        match=r'line 2, column 1: .* label under the key "label", which is missing; did you mean \'lable\'',
    ):
        list(open_stream(path).batches())
    with pytest.raises(InvalidInputError, match=r"under the key \"y\", which is missing; there are 'label' or 'a'"):
        list(open_stream(path, label="y").batches())
    assert sum(map(len, open_stream(path, on_error="skip").batches())) == 1
    assert sum(map(len, open_stream(path, labels=False).batches())) == 2


KINDS = {"numeric": ["n"], "categorical": ["c"], "dates": ["d"], "columns": ["n", "c", "d", "s"]}
cells = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(-2, 2, width=16),
    st.sampled_from(
        ["", "NA", "x", "2.5", " 7 ", "True", "1e400", "2024-05-17", "2024-05-17T13:05", "2024-13-01", "größe"]
    ),
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["n", "c", "d", "s", "odd", "größe"]), cells, max_size=5), max_size=4),
    st.sampled_from(["indicator", "ignore", "as-is", "error"]),
    st.booleans(),
)
def test_declared_keys_are_the_same_on_both_roads(rows, missing, found):
    text = as_text("".join(json.dumps(row) + "\n" for row in rows).encode())
    forms = []
    for plain in (False, True):
        form = JSONLines(label=None, missing=missing, inferred=("numeric",) if found else (), **KINDS)
        forms.append(PlainRoad(form) if plain else form)
    one, two = (form.parse(text) for form in forms)
    assert one.error == two.error
    for name in ("indptr", "indices", "values"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    if one.error is None:
        assert [(form.met, {*form.strange}, form.strayed) for form in forms[:1]] == [
            (form.met, {*form.strange}, form.strayed) for form in forms[1:]
        ]
