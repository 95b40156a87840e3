"""Columns of text: words, n-grams, characters, stop lists and counts against the definition, in every format."""

import csv
import io
import json
import re
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.formats import as_text, check, hashed, in_pieces, rows_of
from tests.data.naive_texts import PlainRoad, json_disagreement, once, text_features
from tests.data.test_hashing import naive
from thinstream.data import open_stream
from thinstream.data.formats import find_format
from thinstream.data.options import LONGEST, Options, as_stop_list, feature_space, in_feature_space
from thinstream.data.text import jsonl
from thinstream.data.text.characters import BITS, ODD, SPACE, WORD, decoded, encoded, letter_table
from thinstream.data.text.csv import CSV
from thinstream.data.text.hashing import Hashing
from thinstream.data.text.jsonl import JSONLines
from thinstream.data.text.protocol import NameTable
from thinstream.data.text.tokens import Wording
from thinstream.errors import InvalidInputError, InvalidParameterError

#: Capitals that get shorter, longer or two letters in lower case, sigmas, white space of all kinds, and what is none.
ODD_ONES = "ÄßẞİıΣσςKȺⱥΆ中٣_'’\u0307\u00a0\u2003\x1c\x85\u200b😀𐐀\ufffd"
short = st.text("abA B\t\n\"',.1" + ODD_ONES, max_size=24)
texts = short | st.tuples(short, st.integers(2, 9)).map(lambda two: two[0] * two[1])  # 32 bytes are taken at a time
ranges = st.tuples(st.integers(1, 3), st.integers(0, 2)).map(lambda two: (two[0], two[0] + two[1]))
wordings = st.fixed_dictionaries(
    {},
    optional={
        "ngrams": ranges,
        "chars": ranges,
        "lower": st.booleans(),
        "stop": st.sampled_from([("a",), ("AB", "b'a"), ("ä", "σ", "b")]),
    },
)
settings = st.fixed_dictionaries({"binary": st.booleans(), "hashing": st.sampled_from([Hashing(), Hashing(4, True)])})


def expected(row, wording, binary, hashing):
    """Features of a record of texts, by the definition."""
    found = [f for key, text in row.items() for f in text_features(key, text, **wording)]

    def number(feature):
        return naive(feature[1].encode(), naive(feature[0].encode(), 0)) % 2**hashing.bits

    found = once(found, number) if binary else found
    return hashed(found, bits=hashing.bits, signed=hashing.signed)


@pytest.mark.twin
@given(
    st.lists(st.fixed_dictionaries({"a": texts, "b": texts}), max_size=4),
    wordings,
    settings,
    st.booleans(),
    st.lists(st.integers(0, 300), max_size=3),
)
def test_texts_of_json_lines(rows, wording, more, ascii_only, cuts):
    data = "".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows).encode()
    form = JSONLines(text=["a", "b"], names=NameTable(), **wording, **more)
    parsed = form.parse(as_text(data))
    check(parsed, data)
    assert [features for _, _, features in rows_of(parsed)] == [expected(row, wording, **more) for row in rows]
    assert in_pieces(form, data, cuts) == list(rows_of(parsed))
    assert json_disagreement(parsed, data, form) is None


@pytest.mark.twin
@given(
    st.lists(st.fixed_dictionaries({"a": texts, "b": texts}), max_size=4),
    wordings,
    settings,
    st.lists(st.integers(0, 300), max_size=3),
)
def test_texts_of_csv(rows, wording, more, cuts):
    rows = [{"a": row["a"], "b": row["b"]} for row in rows]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(["a", "n", "b"])
    writer.writerows([row["a"], "", row["b"]] for row in rows)
    data = written.getvalue().encode()
    form = CSV(label=None, text=["a", "b"], names=NameTable(), **wording, **more)
    begin = form.header(as_text(data))
    parsed = form.parse(as_text(data[begin:]))
    assert [features for _, _, features in rows_of(parsed)] == [expected(row, wording, **more) for row in rows]
    assert in_pieces(form, data[begin:], cuts) == list(rows_of(parsed))
    names = dict(zip(parsed.named.indices, parsed.named.names))
    first = {}
    for row in rows:
        for key in ("a", "b"):
            for space, name, _ in text_features(key, row[key], **wording):
                code = naive(name.encode(), naive(space.encode(), 0)) % 2 ** more["hashing"].bits
                first.setdefault(code, f"{space}^{name}")
    assert names == first


strings = st.text('aB é,"\\_1\n\u2028Σ', max_size=6)
strings |= st.tuples(strings, st.integers(2, 12)).map(lambda two: two[0] * two[1])
scalars = st.none() | st.booleans() | strings | st.integers(-9, 9) | st.floats(-1e9, 1e9)
keys = st.sampled_from(["label", "w", "t", "no", "é", "k", "k=", 'q"', "deep"])
records = st.dictionaries(keys, scalars | st.lists(scalars, max_size=2) | st.dictionaries(keys, scalars, max_size=2))
BROKEN = """{"a": 1
{"a" 1}
[]
{"k": 1, "k": 2}
{"k": 01}
{"k": NaN}
{"k": 1e999}
{"t": 1}
{"k": "\x01"}
{"k": "\\ud800x"}
{"k": "\\ud83d\\ude00"}
{"k": "\\u12"}
{"k": tru}
 { } \r
{"label": "x"}
{"label": 1}
{"w": -1}
{"k": -}
{"k": 1.}
{"k": -0.0}
{"k": 1E+2} x
{"":""}"""
broken = st.sampled_from(BROKEN.split("\n"))
written = records.map(lambda row: json.dumps(row, ensure_ascii=len(row) % 2 == 0)) | broken


@given(
    st.lists(written, max_size=5),
    st.sampled_from(["\n", "\r\n", "\n\n \n"]),
    st.sampled_from([None, ("x", "y"), (1, 2), ("x", 1, "z"), (True, False)]),
    st.booleans(),
    st.booleans(),
)
def test_both_roads_of_json_lines_give_the_same(lines, newline, classes, labels, wide):
    """Rows, labels, weights, places and words of errors, names: compiled or not."""
    data = newline.join(lines).encode("utf-8", "surrogatepass")
    form = JSONLines(
        label="label", weight="w", text=["t"], ignore=["no"], classes=classes, labels=labels, names=NameTable()
    )
    parsed = form.parse(as_text(data, b'"}' if wide else b""))
    check(parsed, data)
    assert json_disagreement(parsed, data, form) is None


@given(
    st.binary(max_size=40)
    | st.lists(st.sampled_from([*b'{}":,\\ tn1.eul', 0xC3, 0xA4, 0xED, 0xA0]), max_size=40).map(bytes)
)
def test_any_bytes_give_the_same_on_both_roads(data):
    form = JSONLines(text=["t"], names=NameTable())
    assert json_disagreement(form.parse(as_text(data)), data, form) is None
    whole = b'{"t": "' + data + b'", "k": "' + data + b'"}\n'
    assert json_disagreement(form.parse(as_text(whole)), whole, form) is None


def test_more_keys_than_there_is_room_for_are_left_to_python():
    data = json.dumps({f"k{k}": 1 for k in range(9000)}).encode()
    form = JSONLines()
    parsed = form.parse(as_text(data))
    assert parsed.indptr[-1] > 8000
    assert json_disagreement(parsed, data, form) is None


def test_the_plain_road_is_another():
    """What the tests above compare with."""
    form = JSONLines(text=["t"])
    with patch.object(jsonl._Reader, "_read_line", autospec=True, side_effect=jsonl._Reader._read_line) as read:
        form.parse(as_text(b'{"t": "a b"}\n'))
        assert read.call_count == 0
        parsed = PlainRoad(form).parse(as_text(b'{"t": "a b"}\n'))
        assert read.call_count == 1
    assert parsed.indptr.tolist() == [0, 2]


def test_characters_are_those_of_python():
    """All that are there (behind the table's end is no letter), and there and back."""
    whole, room = letter_table(True), np.empty(4, np.uint8)
    plain = letter_table(False)
    behind = "".join(map(chr, range(len(whole), 0x110000)))
    assert not re.search(r"[\w\s]", behind)
    assert behind.lower() == behind
    for c in [*range(0x3000), *range(0x3000, len(whole), 17)]:
        entry = int(whole[c])
        letter = chr(c)
        assert bool(entry & WORD) == (letter.isalnum() or letter == "_")
        assert bool(entry & SPACE) == letter.isspace()
        assert entry & ODD or chr(entry >> BITS) == letter.lower()
        assert c >= len(plain) or int(plain[c]) >> 2 == c << 1
    for c in [0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]:
        size = encoded(c, room, 0)
        assert bytes(room[:size]) == chr(c).encode()
        assert decoded(room, 0, size) == (c, size)
        assert decoded(room, 0, size - 1)[1] == 0


@given(st.binary(min_size=1, max_size=4))
def test_what_is_no_utf8_is_told(data):
    text = np.frombuffer(data, np.uint8)
    if text[0] >= 128:
        point, size = decoded(text, 0, len(text))
        shown = data.decode("utf-8", "replace")
        assert (chr(point) if size else "\ufffd") == shown[0]
        assert size in (0, len(chr(point).encode()))


def test_names_of_ngrams():
    form = JSONLines(text=["s"], ngrams=(1, 2), chars=(5, 5), stop=("is",), names=NameTable())
    parsed = form.parse(as_text(b'{"s": "It is so", "age": 3}\n'))
    words, characters = ["s^it", "s^so", "s^it so"], ["s~^it is", "s~^t is ", "s~^ is s", "s~^is so"]
    assert parsed.named.names == [*words, *characters, "age"]


def test_options_are_checked():
    for name, given_value in (("ngrams", "0-2"), ("ngrams", "2-1"), ("chars", (1, LONGEST + 1)), ("chars", (1, 2, 3))):
        with pytest.raises(
            InvalidParameterError, match=f"{name} must be LOW-HIGH with 1 ≤ LOW ≤ HIGH ≤ {LONGEST}, got"
        ):
            Options(**{name: given_value})
    with pytest.raises(InvalidParameterError, match="a range must be a number or LOW-HIGH, as in 3 or 1-2, got 'x'"):
        Options(ngrams="x")
    with pytest.raises(InvalidParameterError, match="stop must be a list of words, got"):
        Options(stop=(1,))
    with pytest.raises(InvalidParameterError, match=r"chars is an option for text columns"):
        Options(chars="2-3", look=False).check()
    with pytest.raises(InvalidParameterError, match=r"ngrams is an option of the format .*, got \(2, 3\) for vw"):
        find_format("vw").require_taken(Options(ngrams="2-3"))


def test_stop_lists(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("the\nan über\n")
    assert as_stop_list(str(path)) == ("an", "the", "über")
    assert as_stop_list("The, AN") == ("AN", "The")
    assert Wording(stop=("The", "don't")).left_out == {"the", "don", "t"}
    assert Wording(stop=("The",), lower=False).left_out == {"The"}
    assert {"the", "and", "of"} < {*as_stop_list("english")}
    assert as_stop_list("the,") == ("the",)
    with pytest.raises(
        InvalidParameterError, match=r"stop must be 'english', a file .* got 'germn', which is not a file"
    ):
        as_stop_list("germn")


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_utf_16_is_no_text(name, tmp_path):
    (tmp_path / name).write_text("label,text\n1,a\n0,b\n", "utf-16")
    with pytest.raises(InvalidInputError, match=r"rows.*: text must be UTF-8, got UTF-16. Convert it with iconv"):
        list(open_stream(tmp_path / name, text=("text",)).batches())


def test_wording_is_part_of_what_features_mean(tmp_path):
    options = Options(text=("t",), ngrams="1-2", chars="3", lower=False, stop="a,b", binary=True, bits=22)
    space = feature_space(options, hashed=True)
    assert json.loads(json.dumps(space)) == space
    assert Options(**in_feature_space(space)) == options
    words = options.arguments()
    assert words == [
        "--text",
        "t",
        "--ngrams",
        "1,2",
        "--chars",
        "3,3",
        "--no-lower",
        "--stop",
        "a,b",
        "--binary",
        "--bits",
        "22",
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text('{"label": 1, "t": "a b c"}\n{"label": 1, "t": {"x": 1}}\n')
    with pytest.raises(InvalidInputError, match="line 2, column 1: column 't' is declared as text, so a cell"):
        list(open_stream(path, text=("t",), ngrams="1-2").batches())
