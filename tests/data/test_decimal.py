"""Numbers read from text have the bits Python's float gives them."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinstream.data.text.characters import number
from thinstream.jit import compiled


@compiled(number.__module__)
def read_all(text, starts, stops, values, ends):
    for k in range(len(starts)):
        values[k], ends[k] = number(text, starts[k], stops[k])


def read(words):
    """Values and ends of all words, which lie behind one another without a gap."""
    text = np.frombuffer(b"".join(words) or b"0", np.uint8)
    stops = np.cumsum([len(word) for word in words], dtype=np.int64)
    starts = stops - [len(word) for word in words]
    values, ends = np.empty(len(words)), np.empty(len(words), np.int64)
    read_all(text, starts, stops, values, ends)
    return values, ends - starts


def agree(words):
    words = [word.encode() for word in words]
    values, ends = read(words)
    expected = np.array([float(word) for word in words])
    wrong = np.flatnonzero((values.view(np.uint64) != expected.view(np.uint64)) | (ends != [len(w) for w in words]))
    if len(wrong):
        pytest.fail(f"{words[wrong[0]]!r} was read as {values[wrong[0]]!r}, not {expected[wrong[0]]!r}")


def middles(bits):
    """The exact middle between a double and the next, in decimal, and its close neighbours."""
    low = float(np.uint64(bits).view(np.float64))
    middle = (Fraction(low) + Fraction(math.nextafter(low, math.inf))) / 2
    places = (middle.denominator.bit_length() - 1) if middle.denominator > 1 else 0
    digits = middle.numerator * 5**places  # the middle is digits · 10^-places
    for word in (digits, digits * 10**40 + 1, digits * 10**40 - 1, digits * 10**800 + 1):
        shift = places + len(str(word)) - len(str(digits)) if word != digits else places
        yield f"{word}e-{shift}"
        yield f"{word // 10**7}.{word % 10**7:07}e{7 - shift}"
        yield f"000.{word}e{len(str(word)) - shift}"
        yield f"-{str(word)[:19]}e{len(str(word)) - shift - 19}"  # cut to 19 digits


def drawn(seed, count):
    """Numbers of many shapes."""
    rng = random.Random(seed)
    for _ in range(count):
        digits = "".join(rng.choices("0123456789", k=rng.choice([1, 2, 5, 9, 15, 16, 17, 18, 19, 20, 21, 30, 60])))
        point = rng.randint(0, len(digits))
        sign, zeros = rng.choice(["", "", "-", "+"]), rng.choice(["", "", "0", "0000000000000000000000"])
        exponent = rng.choice(["", "", f"e{rng.randint(-25, 25)}", f"E{rng.randint(-400, 400):+d}"])
        yield f"{sign}{zeros}{digits[:point]}{rng.choice(['.', '.', ''])}{digits[point:]}{exponent}"


def test_numbers_of_many_shapes():
    agree(list(drawn(1, 20_000)))


def test_doubles_as_they_are_printed():
    rng = np.random.default_rng(2)
    values = rng.integers(0, 0x7FF0 << 48, 10_000, dtype=np.uint64).view(np.float64)
    agree([repr(float(x)) for x in values] + [f"{x:.16e}" for x in values] + [f"{x:.25e}" for x in values[:2000]])
    agree([repr(float(np.float32(x))) for x in rng.standard_normal(3000)])


def test_middles_between_doubles():
    rng = np.random.default_rng(3)
    edges = [0, 1, 2, 2**52 - 1, 2**52, 2**52 + 1, (0x7FF << 52) - 2, (1023 + 53) << 52, (1023 + 52 << 52) + 1]
    bits = [*edges, *rng.integers(0, 2**52, 10), *rng.integers(0, (0x7FF << 52) - 1, 25)]
    bits += list(rng.integers((1023 + 40) << 52, (1023 + 120) << 52, 25))
    agree([word for b in bits for word in middles(b)])


@pytest.mark.twin
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_any_double(values):
    agree([repr(x) for x in values])


@pytest.mark.twin
@given(st.lists(st.from_regex(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?", fullmatch=True), min_size=1))
def test_any_decimal(words):
    agree([word for word in words if word.isascii()] or ["0"])


EDGES = """
0 -0 +0 0.0 -.0 00000 0e99999 5. .5 1e-400 -1e-400 1e400 -1e400 1e308 1e22 1e23 -9007199254740993 4.9e-324 2.5e-324
2.4e-324 2.2250738585072011e-308 1.7976931348623157e308 1.7976931348623158e308 1.7976931348623159e308
"""


@pytest.mark.twin
def test_edges():
    agree(EDGES.split())
    agree([f"1e{'9' * 30}", f"1e-{'9' * 30}", "9" * 400, f"0.{'0' * 400}1", f"{'1' * 20}e-20"])
    agree([f"0.{'0' * 1200}12345e1200", f"{'1' + '0' * 1500}e-1500", f"{'9' * 5000}e-5000", f"1{'0' * 900}.5e-880"])


NO_NUMBER = ["", "-", ".", "+.", "-.e5", "e5", "nan", "inf", "-inf", " 1", "--1", "x", "٣"]
WITH_MORE = [
    "1|e",
    "1|e+",
    "1|e-x",
    "1.5|e+,",
    "0|x10",
    "1|_0",
    "1| ",
    "1.|.5",
    "1.5|.5",
    "1e5|.5",
    "1e5|e5",
    "-5|:",
    "1|٣",
]


@pytest.mark.parametrize("text", [*NO_NUMBER, *WITH_MORE])
def test_where_a_number_ends(text):
    number, _, _ = text.partition("|") if "|" in text else ("", "", "")
    values, ends = read([text.replace("|", "").encode()])
    assert ends[0] == len(number)
    assert values[0] == float(number or 0)


@given(st.text("0123456789.eE+-", max_size=12), st.text("0123456789.eE+-", max_size=5))
def test_nothing_is_read_beyond_the_stop(text, behind):
    whole = np.frombuffer((text + behind).encode() or b" ", np.uint8)
    values, ends = np.empty(2), np.empty(2, np.int64)
    read_all(whole, np.zeros(1, np.int64), np.array([len(text)]), values[:1], ends[:1])
    alone = np.frombuffer(text.encode() or b" ", np.uint8)[: len(text)]
    read_all(alone, np.zeros(1, np.int64), np.array([len(text)]), values[1:], ends[1:])
    assert values[0] == values[1]
    assert ends[0] == ends[1] <= len(text)
