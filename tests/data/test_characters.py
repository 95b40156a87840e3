"""32 bytes at a time: compiled code finds and copies what the definition says, wherever in a text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.formats import as_text, rows_of
from thinstream.data.text import characters
from thinstream.data.text.vw import VW
from thinstream.jit import compiled


@compiled("thinstream.data.text.characters", "thinstream.data.text.characters")
def _all(text, places, flags, out):
    for k in range(len(places)):
        i = places[k]
        flags[k, 0], flags[k, 1] = characters.either(text, i, 10, 124), characters.name_ends(text, i)
        flags[k, 2], flags[k, 3] = (
            characters.copy_string(text, i, out[0], i),
            characters.copy_word(text, i, out[1], i, 32),
        )
        flags[k, 4] = characters.copy_word(text, i, out[2], i, 0)


letters = [*b' \t:|\n"\\_@[`{/:09AZaz', 0, 31, 127, 128, 255]


@given(st.lists(st.sampled_from(letters) | st.integers(0, 255), min_size=32, max_size=80), st.integers(0, 48))
def test_compiled_as_defined(given_bytes, place):
    text = np.array(given_bytes, np.uint8)
    places = np.array([min(place, len(text) - 32)])
    found, expected = np.zeros((1, 5), np.uint64), np.zeros((1, 5), np.uint64)
    copies = np.zeros((3, len(text)), np.uint8), np.zeros((3, len(text)), np.uint8)
    _all(text, places, found, tuple(copies[0]))
    _all._function(text, places, expected, tuple(copies[1]))
    assert found.tolist() == expected.tolist()
    assert copies[0].tolist() == copies[1].tolist()


def test_nothing_is_read_behind_the_text():
    text = np.zeros(40, np.uint8)
    assert characters.fits(text, 8)
    assert not characters.fits(text, 9)
    assert characters.line_end(text, 3) == 40
    text[37] = 10
    assert [characters.line_end(text, i) for i in (0, 8, 36, 37, 38)] == [37, 37, 37, 37, 40]


@pytest.mark.parametrize("size", [1, 31, 32, 33, 64, 65, 100])
@pytest.mark.parametrize("behind", [b"", b" " * 40])
def test_long_names_of_vw(size, behind):
    name = "n" * size
    (short,) = rows_of(VW().parse(as_text(f"1 |{name} a{name}:2 b".encode(), behind)))
    (parted,) = rows_of(VW().parse(as_text(f"1 |{name} b   a{name}:2".encode() + b" " * 70, behind)))
    assert short == parted
    assert sorted(short[2].values()) == [1.0, 2.0]
