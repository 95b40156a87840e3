"""Names of features: first seen, bounded, decided by the stream alone."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinstream.errors import InvalidParameterError
from thinstream.streams.text.names import Named, NameTable

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
