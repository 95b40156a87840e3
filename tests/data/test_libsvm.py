"""The libsvm format against scikit-learn's loader and float(), and what it says of bad text."""

import io
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from thinstream.data.text.libsvm import Libsvm


def text_of(content):
    return np.frombuffer(content, dtype=np.uint8)


def parsed(content, **options):
    return Libsvm(**{"dtype": "float64", "limit": np.finfo(float).max, **options}).parse(text_of(content))


def dense(result, width=None):
    found = np.zeros((len(result.labels), width or result.width))
    for i in range(len(found)):
        row = slice(result.indptr[i], result.indptr[i + 1])
        found[i, result.indices[row]] = result.values[row]
    return found


digits = st.text("0123456789", min_size=1, max_size=25)
decimals = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(0, 1).map("{:.6g}".format),
    st.integers(-(10**18), 10**18).map(str),
    st.builds("{}{}.{}".format, st.sampled_from(["", "-", "+"]), digits, digits),
    st.builds("{}{}e{}".format, st.sampled_from(["", "-"]), digits, st.integers(-30, 30)),
    st.sampled_from([".5", "-.5", "5.", "+3", "1E5", "1e-320", "0", "0.0", "-0", "00012"]),
)
indices = st.lists(st.one_of(st.integers(1, 60), st.integers(1, 2_000_000_000)), max_size=12, unique=True).map(sorted)


@st.composite
def rows(draw):
    label = draw(st.sampled_from(["1", "-1", "+1", "0", "2.5", "1e3", "-0.5", "007"]))
    qid = draw(st.sampled_from(["", "", " qid:3", " qid:12"]))
    blank = draw(st.sampled_from([" ", " ", "  ", "\t", " \t "]))
    features = [f"{j}:{draw(decimals)}" for j in draw(indices)]
    comment = draw(st.sampled_from(["", "", "#", " # 7:x  y", "  "]))
    return label + qid + "".join(blank + feature for feature in features) + comment


@st.composite
def files(draw):
    lines = draw(st.lists(st.one_of(rows(), st.sampled_from(["", "  ", "# nothing", "\t#"])), max_size=12))
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    return end.join(lines) + draw(st.sampled_from(["", end]))


@given(files())
def test_equals_the_loader_of_scikit_learn(content):
    raw = content.encode()
    found = parsed(raw)
    assert found.error is None
    assert found.taken == len(raw)
    assert found.lines == raw.count(b"\n") + (not raw.endswith(b"\n") and raw != b"")
    X, y = load_svmlight_file(io.BytesIO(raw), zero_based=False, dtype=np.float64) if found.labels.size else (None, [])
    assert found.labels.tolist() == list(y)
    if X is not None:
        X.eliminate_zeros()
        X.sort_indices()
        assert np.array_equal(found.indptr, X.indptr)
        assert np.array_equal(found.indices, X.indices)
        assert found.values.tobytes() == X.data.tobytes()  # the bits of float()


@given(st.lists(decimals, min_size=1, max_size=40), st.booleans())
def test_values_have_the_bits_of_float(texts, single):
    """In the words-at-a-time path (a long row) and at the end of the text alike."""
    kind = np.float32 if single else np.float64
    with np.errstate(over="ignore"):
        wanted = np.array([float(text) for text in texts]).astype(kind)
    fine = np.isfinite(wanted)
    texts, wanted = [t for t, keep in zip(texts, fine) if keep], wanted[fine]
    raw = ("1 " + " ".join(f"{i + 1}:{text}" for i, text in enumerate(texts)) + "\n").encode()
    for content in (raw, raw + b"1 1:1\n" * 50):
        found = parsed(content, dtype=kind.__name__, limit=float(np.finfo(kind).max))
        first = dense(found, max(len(texts), 1))[0]
        assert first.astype(kind)[: len(texts)].tobytes() == np.where(wanted == 0, kind(0), wanted).tobytes()


@given(files(), st.data())
def test_pieces_give_the_same_rows(content, data):
    raw = content.encode()
    ends = [i + 1 for i, c in enumerate(raw) if c == 10] + [len(raw)]
    cuts = sorted({0, len(raw), *data.draw(st.lists(st.sampled_from(ends), max_size=5))})
    whole = parsed(raw)
    parts = [parsed(raw[a:b]) for a, b in pairwise(cuts)]
    assert [x for part in parts for x in part.labels.tolist()] == whole.labels.tolist()
    assert np.array_equal(np.concatenate([whole.values[:0], *(part.values for part in parts)]), whole.values)
    assert sum(part.lines for part in parts) == whole.lines


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing(raw):
    found = parsed(raw)
    assert found.taken <= len(raw)
    assert np.all(np.isfinite(found.values))


BAD = {
    "x 1:1": (0, "must begin with its label"),
    "nan 1:1": (0, "must begin with its label"),
    "1e999 1:1": (0, "must begin with its label"),
    "1,2 1:1": (1, "label must be a decimal number followed by a blank"),
    "1 0:5": (2, "indices start at 1"),
    "1 a:5": (2, "index of digits"),
    "1 -3:5": (2, "index of digits"),
    "1 3": (3, "the colon is missing"),
    "1 3 4:1": (3, "the colon is missing"),
    "1 3:": (4, "a value must be a finite decimal number, got the end"),
    "1 3:nan": (4, "a value must be"),
    "1 3:inf": (4, "a value must be"),
    "1 3:0x1p3": (5, "followed by a blank"),
    "1 3:1_000": (5, "followed by a blank"),
    "1 3:4 3:5": (0, "repeated"),
    "1 3:4 2:1 3:0": (0, "repeated"),
    "1 99999999999999999999:1": (2, "below 2^62"),
    "1 3:1e300": (4, "at most"),
    "1 3:1:2": (5, "followed by a blank"),
    "1 qid:x 3:1": (2, "index of digits"),
    "1 3:1\r4:2": (5, "followed by a blank"),
}


@pytest.mark.parametrize("line", BAD)
@pytest.mark.parametrize("tail", ["", "\n", "\n" + "-1 5:0.25 7:1\n" * 60])
def test_bad_lines_are_told_with_their_place(line, tail):
    offset, message = BAD[line]
    head = "1 1:1\n# two\n\n-1 2:0.5 3:4\n"
    found = parsed((head + line + tail).encode(), limit=1e150)
    assert found.error is not None
    assert found.error.offset == len(head) + offset
    assert message in found.error.message
    assert found.labels.tolist() == [1.0, -1.0]
    assert found.lines == 5
    assert (head + line + tail)[found.taken :] == tail[1:]


def test_unsorted_rows_are_sorted_and_zeros_dropped():
    found = parsed(b"1 5:2 3:1 4:0\n-1 2:0 1:0\n")
    assert found.indices.tolist() == [2, 4]
    assert found.values.tolist() == [1.0, 2.0]
    assert found.indptr.tolist() == [0, 2, 2]


def test_a_value_that_is_zero_in_float32_is_dropped():
    assert parsed(b"1 1:1e-60 2:1\n", dtype="float32").indices.tolist() == [1]


def test_zero_based():
    assert parsed(b"1 0:2 7:1\n", zero_based=True).indices.tolist() == [0, 7]


def test_indices_beyond_32_bits():
    found = parsed(b"1 2147483647:1\n")
    assert found.indices.dtype == np.int32
    found = parsed(b"1 2147483648:1\n1 4611686018427387903:1\n")
    assert found.indices.dtype == np.int64
    assert found.indices.tolist() == [2147483647, 4611686018427387902]
    assert found.width == 4611686018427387903


def test_classes():
    found = parsed(b"1 1:1\n2 1:1\n", classes=(1, 2))
    assert found.labels.tolist() == [-1.0, 1.0]
    found = parsed(b"1 1:1\n# c\n 3 1:1\n2 1:1\n", classes=(1, 2))
    assert found.labels.tolist() == [-1.0]
    assert found.error is not None
    assert found.error.message == "a label must be 1 or 2, got '3'"
    assert (found.error.offset, found.lines, found.taken) == (11, 3, 17)
