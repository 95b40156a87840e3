"""Names of features: first seen, bounded, decided by the stream alone."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinstream.data.text.csv import CSV
from thinstream.data.text.protocol import Named, NameTable
from thinstream.errors import InvalidParameterError

pairs = st.lists(st.tuples(st.integers(0, 12), st.text(max_size=4)), max_size=40)


@given(pairs, st.integers(1, 15), st.lists(st.integers(0, 40), max_size=4))
def test_any_cut_of_the_stream_gives_the_same_names(pairs, limit, cuts):
    expected = {}
    for index, name in pairs:
        if len(expected) < limit:
            expected.setdefault(index, name)
    names = NameTable(limit)
    bounds = [0, *sorted(cuts), len(pairs)]
    for low, high in pairwise(bounds):
        piece = pairs[low:high]
        places = names.wanted(np.array([index for index, _ in piece], np.int32))
        names.add(Named([piece[k][0] for k in places], [piece[k][1] for k in places]))
    names.add(None)
    assert list(names.items()) == list(expected.items())
    assert names.full == (len(expected) == limit)
    again = NameTable.from_arrays(names.arrays())
    assert again == names
    again.add(Named([99], ["new"]))
    assert (again == names) == names.full


def test_limit_is_checked():
    with pytest.raises(InvalidParameterError, match="limit must be an integer ≥ 1, got 0"):
        NameTable(0)


def test_names_of_the_first_rows_in_any_pieces():
    """Which names are kept depends on rows alone, not on how the stream is cut."""
    form = CSV(label="y", names=NameTable(rows=3))
    text = "y,c\n1,a\n-1,b\n1,a\n1,d\n-1,e\n"
    rows = [line + "\n" for line in text.splitlines()[1:]]
    found = []
    for cuts in ((), (1,), (3,), (2, 4), (1, 2, 3, 4)):
        form = CSV(label="y", names=NameTable(rows=3))
        form.header(np.frombuffer(text.encode(), np.uint8))
        for start, stop in pairwise((0, *cuts, len(rows))):
            parsed = form.parse(np.frombuffer("".join(rows[start:stop]).encode(), np.uint8))
            form.names.add(parsed.named, start)
        found.append(dict(form.names))
    assert all(each == found[0] for each in found)
    assert sorted(found[0].values()) == ["c=a", "c=b"]


def test_known_numbers_are_not_wanted_again():
    names = NameTable()
    names.add(Named([5, 1 << 30], ["five", "far"]))
    assert names.wanted(np.array([5, 5, 7, 5, 7, 3])).tolist() == [2, 5]
    names.add(Named([7], ["seven"]))
    assert names.wanted(np.array([5, 7, 3])).tolist() == [2]
    assert names.wanted(np.array([1 << 30, 9], np.int64)).tolist() == [1]
    again = NameTable.from_arrays(names.arrays())
    assert again.wanted(np.array([5, 7, 3])).tolist() == [2]


def test_names_of_records_that_are_parsed_twice():
    """The parser stops at a new class and parses the record again; its names are not lost."""
    form = CSV(label="y", grow_classes=True, names=NameTable())
    text = "c,d,y\na,1,one\nb,2,two\na,3,one\n"
    form.header(np.frombuffer(text.encode(), np.uint8))
    parsed = form.parse(np.frombuffer(text[text.index("\n") + 1 :].encode(), np.uint8))
    assert len(parsed.labels) == 3
    assert sorted(parsed.named.names) == ["c=a", "c=b", "d"]
